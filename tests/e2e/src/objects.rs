//! What is in the namespace of a stage, as an administrator writes and reads it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use llsd_api::labels::{MANAGED_BY, MANAGER};
use serde_json::{Value, json};

use crate::Stage;

impl Stage {
    /// Applies objects to the namespace, as their author would.
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

    /// A Deployment of the namespace.
    pub async fn deployment(&self, name: &str) -> Deployment {
        self.api::<Deployment>().get(name).await.unwrap()
    }

    /// What its pods are made from.
    pub async fn pod(&self, name: &str) -> PodSpec {
        let spec = self.deployment(name).await.spec.unwrap();
        spec.template.spec.unwrap()
    }

    /// Objects of the namespace, of several kinds and with their managed fields.
    pub async fn objects(&self, kinds: &str, arguments: &[&str]) -> Vec<Value> {
        let get = ["get", kinds, "-o", "json", "--show-managed-fields"];
        let listed = self.kubectl(&[&get, arguments].concat()).await;
        let mut list: Value = serde_json::from_str(&listed).unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    }

    /// Those of them that an operator made.
    pub async fn children(&self, kinds: &str) -> Vec<Value> {
        let label = format!("{MANAGED_BY}={MANAGER}");
        self.objects(kinds, &["-l", &label]).await
    }

    /// A token of the namespace's own account, which may do nothing by itself.
    pub async fn token(&self) -> String {
        let token = self.kubectl(&["create", "token", "default"]).await;
        token.trim().to_owned()
    }

    /// Lets the namespace's own account read metrics.
    pub async fn admit_to_metrics(&self) {
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

    /// What `kubectl` says in the namespace, for the administrator.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        let kubectl = self.testbed.kubectl("admin").unwrap();
        let command = kubectl.namespace(self.namespace.name()).args(arguments);
        command.run().await.unwrap().success().unwrap()
    }
}
