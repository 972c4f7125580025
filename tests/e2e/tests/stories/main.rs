//! The user stories and edge cases of the specification.
//!
//! Stories one to four start the real server with the configuration of the ConfigMap and the variables of
//! the Deployment. Where the server would need PostgreSQL, Redis or packages that are not installed, the
//! code of the server release validates the configuration instead.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

mod access;
mod edge_cases;
mod upgrade;

use std::path::PathBuf;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, Secret};
use kube::api::{ListParams, ObjectMeta, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{Operator, config_map};
use llsd_servers::{FakeVllm, NEWEST_LLAMA_STACK, Release, probe, validate};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The newest release whose adapter is built in.
const RELEASE: Release = NEWEST_LLAMA_STACK;
const MODEL: &str = "llama3.2-8b";

#[tokio::test(flavor = "multi_thread")]
async fn story_1_and_3_the_server_lists_the_provider_and_the_model() {
    let operator = Operator::start("story1").await;
    let vllm = FakeVllm::start(MODEL).unwrap();
    operator
        .apply_secret("vllm-creds", &[("token", "a-token")])
        .await;
    let spec = json!({
        "distribution": installed_distribution(&operator).await,
        "providers": {"inference": {
            "provider": "vllm",
            "endpoint": vllm.endpoint(),
            "apiKey": {"secretKeyRef": {"name": "vllm-creds", "key": "token"}},
        }},
        "resources": {"models": [MODEL]},
    });
    let server = ServerInput::of(&operator, "simple", spec).await;

    let key = ("LLSD_VLLM_API_KEY".to_owned(), "a-token".to_owned());
    assert!(server.variables.contains(&key), "{:?}", server.variables);
    let [providers, models] = server.list().await;
    assert_eq!(names(&providers, "provider_id"), ["vllm"]);
    let ids = names(&models, "id");
    assert!(
        ids.iter().any(|id| id.ends_with(MODEL)),
        "{MODEL} is not in {ids:?}"
    );
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn story_1_a_distribution_alone_runs_with_the_configuration_of_its_image() {
    let operator = Operator::start("story1b").await;
    create(
        &operator,
        "default",
        json!({"distribution": {"name": "starter"}}),
    )
    .await;
    operator.wait_until_ready("default").await;

    let generated = operator
        .api::<ConfigMap>()
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter(|map| map.metadata.owner_references.is_some())
        .count();
    assert_eq!(generated, 0);
    let container = container(&operator, "default").await;
    assert_eq!((container.command, container.args), (None, None));
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn story_2_and_3_each_of_two_providers_serves_the_model_that_names_it() {
    let operator = Operator::start("story2").await;
    let (first, second) = (
        FakeVllm::start(MODEL).unwrap(),
        FakeVllm::start("other-model").unwrap(),
    );
    let spec = json!({
        "distribution": installed_distribution(&operator).await,
        "providers": {"inference": [
            {"id": "primary", "provider": "vllm", "endpoint": first.endpoint()},
            {"id": "secondary", "provider": "vllm", "endpoint": second.endpoint()},
        ]},
        "resources": {"models": [MODEL, {"name": "other-model", "provider": "secondary"}]},
    });
    let server = ServerInput::of(&operator, "several", spec).await;

    let [providers, models] = server.list().await;
    assert_eq!(names(&providers, "provider_id"), ["primary", "secondary"]);
    for (provider, model) in [("primary", MODEL), ("secondary", "other-model")] {
        let served = |one: &Value| {
            let metadata = &one["custom_metadata"];
            metadata["provider_id"] == provider && metadata["provider_resource_id"] == model
        };
        assert!(
            models.iter().any(served),
            "{provider} does not serve {model}: {models:?}"
        );
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn story_3_and_4_the_server_package_accepts_tools_and_stores() {
    let operator = Operator::start("story4").await;
    operator
        .apply_secret(
            "pg-creds",
            &[("url", "postgresql://stack:pw@postgres:5432/stack")],
        )
        .await;
    let inference = json!({"inference": {"provider": "vllm", "endpoint": "http://vllm:8000"}});
    let specs = [
        (
            "tools",
            json!({"resources": {"models": [MODEL], "tools": ["websearch", "rag"]}}),
        ),
        (
            "postgres",
            json!({"storage": {"sql": {"type": "postgres", "connectionString": {"secretKeyRef": {"name": "pg-creds", "key": "url"}}}}}),
        ),
        (
            "redis",
            json!({"storage": {"kv": {"type": "redis", "endpoint": "redis://redis:6379"}}}),
        ),
        ("sqlite", json!({})),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> = Vec::new();
    for (name, mut spec) in specs {
        spec["distribution"] = json!({"name": "starter"});
        spec["providers"] = inference.clone();
        let server = ServerInput::of(&operator, name, spec).await;
        let file = folder.path().join(format!("{name}.yaml"));
        std::fs::copy(server.config, &file).unwrap();
        files.push(file);
    }
    let reports = tokio::task::spawn_blocking(move || validate(RELEASE, &files).unwrap())
        .await
        .unwrap();
    for (file, report) in reports {
        assert!(
            report.errors().is_empty(),
            "{}: {:?}",
            file.display(),
            report.errors()
        );
    }
    operator.stop().await;
}

/// The configuration and variables of a server's container.
struct ServerInput {
    config: PathBuf,
    variables: Vec<(String, String)>,
    _folder: TempDir,
}

impl ServerInput {
    /// Creates a resource, waits until it is ready, and reads the objects that the operator wrote.
    async fn of(operator: &Operator, name: &str, spec: Value) -> Self {
        create(operator, name, spec).await;
        let cr = operator.wait_until_ready(name).await;
        let map = operator
            .api::<ConfigMap>()
            .get(&config_map(&cr))
            .await
            .unwrap();
        let container = container(operator, name).await;
        let folder = tempfile::tempdir().unwrap();
        // A folder replaces the volume of the pod.
        let volume = folder.path().join("volume").display().to_string();
        let mounts = container.volume_mounts.unwrap();
        let mount = mounts.iter().find(|mount| mount.name == "lls-storage");
        let mount_path = &mount.unwrap().mount_path;
        let config = folder.path().join("config.yaml");
        let file = map.data.unwrap()["config.yaml"].replace(mount_path, &volume);
        std::fs::write(&config, file).unwrap();
        let mut variables = Vec::new();
        for variable in container.env.unwrap_or_default() {
            if let Some(value) = value(operator, &variable).await {
                variables.push((variable.name, value.replace(mount_path, &volume)));
            }
        }
        Self {
            config,
            variables,
            _folder: folder,
        }
    }

    /// Starts the real server and returns the providers and models that it lists.
    async fn list(&self) -> [Vec<Value>; 2] {
        let (config, variables) = (self.config.clone(), self.variables.clone());
        let paths = ["/v1/providers", "/v1/models"];
        let responses = tokio::task::spawn_blocking(move || {
            probe(RELEASE, &config, &variables, &paths).unwrap()
        })
        .await
        .unwrap();
        let data = |response: &Value| {
            let body = &response["body"];
            let parsed: Value = match body.as_str() {
                Some(text) => serde_json::from_str(text).unwrap(),
                None => body.clone(),
            };
            parsed["data"].as_array().unwrap().clone()
        };
        [data(&responses[0]), data(&responses[1])]
    }
}

async fn create(operator: &Operator, name: &str, spec: Value) -> Distribution {
    let resource = json!({
        "apiVersion": "llamastack.io/v1alpha2",
        "kind": "LlamaStackDistribution",
        "metadata": {"name": name},
        "spec": spec,
    });
    operator.create(&resource).await
}

/// A distribution whose base configuration needs only installed packages.
async fn installed_distribution(operator: &Operator) -> Value {
    let base = ConfigMap {
        metadata: named("base"),
        data: Some([("config.yaml".to_owned(), RELEASE.inference_base().unwrap())].into()),
        ..ConfigMap::default()
    };
    operator
        .api()
        .create(&PostParams::default(), &base)
        .await
        .unwrap();
    json!({"name": "starter", "schema": RELEASE.schema, "baseConfig": {"configMapName": "base"}})
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

async fn container(operator: &Operator, name: &str) -> k8s_openapi::api::core::v1::Container {
    let deployment = operator.api::<Deployment>().get(name).await.unwrap();
    let mut containers = deployment.spec.unwrap().template.spec.unwrap().containers;
    containers.remove(0)
}

/// The value that the kubelet would set for a variable.
async fn value(operator: &Operator, variable: &EnvVar) -> Option<String> {
    if variable.value.is_some() {
        return variable.value.clone();
    }
    let selected = variable.value_from.as_ref()?.secret_key_ref.as_ref()?;
    let secret = operator.api::<Secret>().get(&selected.name).await.unwrap();
    let bytes = secret.data.unwrap().remove(&selected.key).unwrap();
    Some(String::from_utf8(bytes.0).unwrap())
}

fn names<'a>(list: &'a [Value], key: &str) -> Vec<&'a str> {
    list.iter().filter_map(|one| one[key].as_str()).collect()
}
