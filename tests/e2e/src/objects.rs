//! Writes and reads objects of the test's namespace as the administrator.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Secret};
use kube::api::{Patch, PatchParams};
use llsd_api::labels::{MANAGED_BY, MANAGER};
use serde_json::{Value, json};

use crate::TestEnv;

impl TestEnv {
    /// Applies objects with `kubectl apply`.
    pub async fn apply(&self, objects: &[Value]) {
        let kubectl = self.testbed.kubectl("admin").unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let done = kubectl
            .namespace(self.namespace.name())
            .args(["apply", "-f", "-"])
            .input(list.to_string())
            .run()
            .await
            .unwrap();
        done.success().unwrap();
    }

    /// Creates or replaces a ConfigMap with server-side apply.
    pub async fn apply_config_map(&self, name: &str, data: Value) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}, "data": data,
        });
        let parameters = PatchParams::apply("tests").force();
        self.api::<ConfigMap>()
            .patch(name, &parameters, &Patch::Apply(map))
            .await
            .unwrap();
    }

    /// Creates or replaces a Secret with server-side apply. `kubectl apply` would repeat the values in
    /// an annotation.
    pub async fn apply_secret(&self, name: &str, data: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = data.iter().copied().collect();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name}, "stringData": data,
        });
        let parameters = PatchParams::apply("tests").force();
        self.api::<Secret>()
            .patch(name, &parameters, &Patch::Apply(secret))
            .await
            .unwrap();
    }

    /// Reads a Deployment.
    pub async fn deployment(&self, name: &str) -> Deployment {
        self.api::<Deployment>().get(name).await.unwrap()
    }

    /// Reads the pod template of a Deployment.
    pub async fn pod(&self, name: &str) -> PodSpec {
        let spec = self.deployment(name).await.spec.unwrap();
        spec.template.spec.unwrap()
    }

    /// Lists objects of several kinds, with their managed fields.
    pub async fn objects(&self, kinds: &str, arguments: &[&str]) -> Vec<Value> {
        let get = ["get", kinds, "-o", "json", "--show-managed-fields"];
        let listed = self.kubectl(&[&get, arguments].concat()).await;
        let mut list: Value = serde_json::from_str(&listed).unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    }

    /// Lists the objects of several kinds that an operator created.
    pub async fn children(&self, kinds: &str) -> Vec<Value> {
        let label = format!("{MANAGED_BY}={MANAGER}");
        self.objects(kinds, &["-l", &label]).await
    }

    /// Creates a token of the default service account, which has no permissions by itself.
    pub async fn token(&self) -> String {
        let token = self.kubectl(&["create", "token", "default"]).await;
        token.trim().to_owned()
    }

    /// Grants the default service account permission to read metrics.
    pub async fn allow_reading_metrics(&self) {
        let namespace = self.namespace.name();
        let role = format!("read-metrics-{namespace}");
        let group = "rbac.authorization.k8s.io";
        self.apply(&[
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
                "metadata": {"name": role},
                "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": role},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
            }),
        ])
        .await;
    }

    /// Runs `kubectl` in the namespace and returns its standard output.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        let kubectl = self.testbed.kubectl("admin").unwrap();
        let command = kubectl.namespace(self.namespace.name()).args(arguments);
        command.run().await.unwrap().success().unwrap()
    }
}
