//! The user stories of the specification, and its edge cases.
//!
//! The first four go to their end: the real server is started with the file of the cluster's ConfigMap
//! and the variables of the Deployment's container. Where it would need a PostgreSQL, a Redis or
//! packages that are not installed, the release's own code judges the file instead.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod access;
mod edge_cases;
mod upgrade;

use std::path::PathBuf;

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, EnvVar, Secret};
use kube::api::{ListParams, ObjectMeta, PostParams};
use llsd_api::Distribution;
use llsd_e2e::{Operator, config_map};
use llsd_servers::{FakeVllm, RELEASES, Release, judge, probe};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The newest release whose adapter is built in.
const RELEASE: Release = RELEASES[6];
const MODEL: &str = "llama3.2-8b";

#[tokio::test(flavor = "multi_thread")]
async fn story_1_and_3_a_provider_with_a_key_and_a_model_are_what_the_server_lists() {
    let operator = Operator::start("story1").await;
    let vllm = FakeVllm::start(MODEL).unwrap();
    keep_secret(&operator, "vllm-creds", &[("token", "a-token")]).await;
    let spec = json!({
        "distribution": based(&operator).await,
        "providers": {"inference": {
            "provider": "vllm",
            "endpoint": vllm.endpoint(),
            "apiKey": {"secretKeyRef": {"name": "vllm-creds", "key": "token"}},
        }},
        "resources": {"models": [MODEL]},
    });
    let server = Server::of(&operator, "simple", spec).await;

    let key = ("LLSD_VLLM_API_KEY".to_owned(), "a-token".to_owned());
    assert!(server.variables.contains(&key), "{:?}", server.variables);
    let [providers, models] = server.ask().await;
    assert_eq!(names(&providers, "provider_id"), ["vllm"]);
    let ids = names(&models, "id");
    assert!(
        ids.iter().any(|id| id.ends_with(MODEL)),
        "{MODEL} is not in {ids:?}"
    );
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn story_1_a_distribution_alone_runs_with_the_file_of_its_image() {
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
async fn story_2_and_3_two_providers_serve_each_the_model_that_names_it() {
    let operator = Operator::start("story2").await;
    let (first, second) = (
        FakeVllm::start(MODEL).unwrap(),
        FakeVllm::start("other-model").unwrap(),
    );
    let spec = json!({
        "distribution": based(&operator).await,
        "providers": {"inference": [
            {"id": "primary", "provider": "vllm", "endpoint": first.endpoint()},
            {"id": "secondary", "provider": "vllm", "endpoint": second.endpoint()},
        ]},
        "resources": {"models": [MODEL, {"name": "other-model", "provider": "secondary"}]},
    });
    let server = Server::of(&operator, "several", spec).await;

    let [providers, models] = server.ask().await;
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
async fn story_3_and_4_tools_and_stores_are_accepted_by_the_real_package() {
    let operator = Operator::start("story4").await;
    keep_secret(
        &operator,
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
        let server = Server::of(&operator, name, spec).await;
        let file = folder.path().join(format!("{name}.yaml"));
        std::fs::copy(server.config, &file).unwrap();
        files.push(file);
    }
    let verdicts = tokio::task::spawn_blocking(move || judge(RELEASE, &files).unwrap())
        .await
        .unwrap();
    for (file, verdict) in verdicts {
        assert!(
            verdict.errors().is_empty(),
            "{}: {:?}",
            file.display(),
            verdict.errors()
        );
    }
    operator.stop().await;
}

/// What a pod of the cluster would start with.
struct Server {
    config: PathBuf,
    variables: Vec<(String, String)>,
    _folder: TempDir,
}

impl Server {
    /// Creates a resource, waits until it is ready, and takes the file and the variables from the
    /// objects that the operator wrote.
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
        // The folder stands in for the volume of the pod.
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

    /// Starts the real server and asks it for its providers of inference and its models.
    async fn ask(&self) -> [Vec<Value>; 2] {
        let (config, variables) = (self.config.clone(), self.variables.clone());
        let paths = ["/v1/providers", "/v1/models"];
        let answers = tokio::task::spawn_blocking(move || {
            probe(RELEASE, &config, &variables, &paths).unwrap()
        })
        .await
        .unwrap();
        let list = |answer: &Value| {
            let body = &answer["body"];
            let parsed: Value = match body.as_str() {
                Some(text) => serde_json::from_str(text).unwrap(),
                None => body.clone(),
            };
            parsed["data"].as_array().unwrap().clone()
        };
        [list(&answers[0]), list(&answers[1])]
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

/// A distribution whose base needs only what is installed.
async fn based(operator: &Operator) -> Value {
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

async fn keep_secret(operator: &Operator, name: &str, data: &[(&str, &str)]) {
    let data = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    let secret = Secret {
        metadata: named(name),
        data: Some(data.collect()),
        ..Secret::default()
    };
    operator
        .api()
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
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

/// The value that the kubelet would give a variable.
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
