//! Nothing that runs changes unless someone asked for it: moved tags, restarts, another release of the
//! operator; and `update` and `undo`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use llsd_api::Distribution;
use llsd_controller::{Metrics, Options};
use llsd_e2e::{
    DEADLINE, Operator, RolloutState, STARTER, TestEnv, TestRegistry, condition, config_map,
    has_condition, minimal, named, on_image, registries,
};
use llsd_plugin::{Host, HostConfig};
use llsd_render::objects::DESIRED_DIGEST;
use llsd_testbed::{Access, eventually};
use serde_json::{Value, json};

const SCHEMA: &str = "llama-stack/0.7";

/// The image of a Deployment's server.
async fn image(env: &TestEnv, name: &str) -> String {
    env.pod(name).await.containers.remove(0).image.unwrap()
}

/// The digest in the status of a resource.
fn digest(cr: &Distribution) -> String {
    let status = cr.status.clone().unwrap();
    status.resolved_distribution.unwrap().digest.unwrap()
}

/// The revisions of a resource, by number.
async fn revisions(env: &TestEnv, name: &str) -> Vec<ControllerRevision> {
    let own = ListParams::default().labels(&format!("app.kubernetes.io/instance={name}"));
    let listed = env.api::<ControllerRevision>().list(&own).await.unwrap();
    let mut revisions = listed.items;
    revisions.sort_by_key(|one| one.revision);
    revisions
}

async fn annotate(env: &TestEnv, name: &str, annotation: &str, value: &str) {
    let change = json!({"metadata": {"annotations": {annotation: value}}});
    env.edit(name, change).await;
}

/// Waits until the template of a Deployment satisfies a condition.
async fn wait_for_image(env: &TestEnv, name: &str, expected: &str) {
    let has_image = |one: Option<&Deployment>| {
        let pod = one.and_then(|one| one.spec.as_ref()?.template.spec.as_ref());
        pod.is_some_and(|pod| pod.containers[0].image.as_deref() == Some(expected))
    };
    let deployments: Api<Deployment> = env.api();
    let state = format!("on {expected}");
    eventually(&deployments, name, DEADLINE, &state, has_image)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_tag_and_a_restart_change_nothing_until_someone_asks_and_undo_goes_back() {
    let registry = TestRegistry::start(Access::Anyone).await;
    let push = async |config: &str| {
        registry
            .push_labelled("acme/stack", "1", config, SCHEMA, None)
            .await
    };
    push(STARTER).await;
    let tag = registry.reference("acme/stack:1");
    let repository = registry.reference("acme/stack");
    let operator = Operator::start_with_registry("moved", registry.settings()).await;
    operator.create(&on_image("stack", &tag)).await;
    let cr = operator.wait_until_ready("stack").await;
    let first = digest(&cr);
    assert_eq!(
        image(&operator, "stack").await,
        format!("{repository}@{first}")
    );
    let resolved = cr.status.unwrap().resolved_distribution.unwrap();
    assert_eq!(resolved.image.as_deref(), Some(tag.as_str()));
    let before = RolloutState::of(&operator, "stack").await;

    let env = operator.stop().await;
    let moved = STARTER.replacen("version:", "# moved\nversion:", 1);
    assert_ne!(moved, STARTER);
    push(&moved).await;
    let settings = Options {
        registries: registries(registry.settings()),
        tag_interval: Some(Duration::from_secs(1)),
        ..env.settings().await
    };
    let operator = env.start_operator_with(settings);
    let is_offered = |cr: &Distribution| has_condition(cr, "UpdateAvailable", "True");
    let cr = operator.wait_for("stack", "offered", is_offered).await;
    let (_, reason, message) = condition(&cr, "UpdateAvailable").unwrap();
    assert_eq!(reason, "ImageTagMoved", "{message}");
    assert!(message.contains(&first), "{message}");
    assert_eq!(before, RolloutState::of(&operator, "stack").await);

    // An edit that does not concern the image keeps it, too.
    let change = json!({"spec": {"resources": {"models": ["another"]}}});
    let old_map = config_map(&cr);
    operator.edit("stack", change).await;
    let is_new = |cr: &Distribution| config_map(cr) != old_map;
    operator.wait_for("stack", "generated again", is_new).await;
    assert_eq!(
        image(&operator, "stack").await,
        format!("{repository}@{first}")
    );
    operator.wait_until_ready("stack").await;

    annotate(&operator, "stack", "llamastack.io/update", "1").await;
    let is_updated = |cr: &Distribution| digest(cr) != first && !is_offered(cr);
    let cr = operator.wait_for("stack", "updated", is_updated).await;
    let second = digest(&cr);
    wait_for_image(&operator, "stack", &format!("{repository}@{second}")).await;
    operator.wait_until_ready("stack").await;

    annotate(&operator, "stack", "llamastack.io/undo", "1").await;
    wait_for_image(&operator, "stack", &format!("{repository}@{first}")).await;
    let is_back = |cr: &Distribution| digest(cr) == first && is_offered(cr);
    operator.wait_for("stack", "set back", is_back).await;
    operator.wait_until_ready("stack").await;
    let numbers: Vec<_> = revisions(&operator, "stack").await;
    assert_eq!(numbers.len(), 2, "the last two revisions are kept");

    // The requests are answered once, also after a restart.
    let after = RolloutState::of(&operator, "stack").await;
    let operator = operator
        .stop()
        .await
        .start_operator_with_registry(registry.settings())
        .await;
    operator.create(&named("last")).await;
    operator.wait_until_ready("last").await;
    assert_eq!(after, RolloutState::of(&operator, "stack").await);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_200_resources_writes_nothing_and_calls_no_plugin_and_no_registry() {
    const RESOURCES: usize = 200;
    let registry = TestRegistry::start(Access::Anyone).await;
    registry
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let tag = registry.reference("acme/stack:1");
    let operator = Operator::start_with_registry("fleet", registry.settings()).await;
    for number in 0..RESOURCES {
        operator
            .create(&on_image(&format!("stack-{number}"), &tag))
            .await;
    }
    for number in 0..RESOURCES {
        operator.wait_until_ready(&format!("stack-{number}")).await;
    }
    let env = operator.stop().await;
    let requests = registry.server.requests().await.unwrap().len();
    let mark = env.mark().await;

    // A host of its own, whose calls are counted and whose caches are empty.
    let metrics = Metrics::new();
    let host = Host::new(HostConfig {
        observer: Some(metrics.clone()),
        ..HostConfig::default()
    })
    .unwrap();
    let load = |one: &llsd_builtin::Builtin| host.load_built_in(one.component, one.digest).unwrap();
    let settings = Options {
        plugins: llsd_builtin::ADAPTERS.iter().map(load).collect(),
        host: host.clone(),
        registries: registries(registry.settings()),
        metrics: metrics.clone(),
        ..env.settings().await
    };
    let loaded = calls(&metrics);
    let operator = env.start_operator_with(settings);
    let is_settled = async || {
        let text = metrics.text();
        let done = text
            .lines()
            .find_map(|line| line.strip_prefix("llsd_reconciles_total{outcome=\"done\"} "))
            .and_then(|number| number.parse::<usize>().ok())
            .unwrap_or_default();
        anyhow::ensure!(done >= RESOURCES, "reconciled {done} resources:\n{text}");
        Ok(())
    };
    llsd_testbed::until("all are reconciled", DEADLINE, is_settled)
        .await
        .unwrap();
    let writes = operator.writes_since(mark).await;
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(calls(&metrics), loaded, "{}", metrics.text());
    let after = registry.server.requests().await.unwrap();
    assert_eq!(after.len(), requests, "{:?}", &after[requests..]);
    operator.stop().await;
}

/// The number of plugin calls.
fn calls(metrics: &Arc<Metrics>) -> u64 {
    let text = metrics.text();
    let counts = text
        .lines()
        .filter(|line| line.starts_with("llsd_plugin_calls_total{"))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    counts.sum()
}

/// What another release of the operator would have left: its template has no startup probe.
pub(crate) async fn rewrite_history(env: &TestEnv, name: &str) {
    let deployments: Api<Deployment> = env.api();
    let mut revisions = revisions(env, name).await;
    let newest = revisions.pop().unwrap();
    let mut data = newest.data.clone().unwrap().0;
    let encoded = data["resolution"].as_str().unwrap();
    let mut resolution = record::decode(encoded);
    let deployment = &mut resolution["objects"]["deployment"]["object"];
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    let removed = container.as_object_mut().unwrap().remove("startupProbe");
    assert!(removed.is_some());
    deployment["metadata"]["labels"][DESIRED_DIGEST] = json!("of-another-template");
    let parameters = PatchParams::apply("llsd").force();
    deployments
        .patch(name, &parameters, &Patch::Apply(&*deployment))
        .await
        .unwrap();
    data["resolution"] = json!(record::encode(&resolution));
    let api = env.api::<ControllerRevision>();
    let mut older = newest.clone();
    older.data.as_mut().unwrap().0 = data;
    older.metadata.resource_version = None;
    older.metadata.uid = None;
    let parameters = DeleteParams::default();
    api.delete(&newest.name_any(), &parameters).await.unwrap();
    api.create(&Default::default(), &older).await.unwrap();
    let is_rolled_out = |one: Option<&Deployment>| {
        let status = one.and_then(|one| one.status.clone()).unwrap_or_default();
        status.observed_generation == one.and_then(|one| one.metadata.generation)
            && status.updated_replicas == Some(1)
            && status.available_replicas == Some(1)
            && status.replicas == Some(1)
    };
    eventually(&deployments, name, DEADLINE, "rolled out", is_rolled_out)
        .await
        .unwrap();
}

/// The format of a recorded resolution.
mod record {
    use llsd_e2e::{gunzip, gzip};
    use serde_json::Value;

    pub(super) fn decode(encoded: &str) -> Value {
        serde_json::from_slice(&gunzip(encoded)).unwrap()
    }

    pub(super) fn encode(resolution: &Value) -> String {
        gzip(&serde_json::to_vec(resolution).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_other_templates_replaces_no_pod_and_says_what_it_would_change() {
    let operator = Operator::start("upgraded").await;
    operator.create(&minimal()).await;
    operator.wait_until_ready("minimal").await;
    let env = operator.stop().await;
    rewrite_history(&env, "minimal").await;
    let before = RolloutState::of(&env, "minimal").await;

    let operator = env.start_operator().await;
    let is_offered = |cr: &Distribution| has_condition(cr, "UpdateAvailable", "True");
    let cr = operator.wait_for("minimal", "offered", is_offered).await;
    let (_, reason, message) = condition(&cr, "UpdateAvailable").unwrap();
    assert_eq!(reason, "OperatorChanged", "{message}");
    assert!(message.contains("Deployment minimal"), "{message}");
    assert_eq!(before, RolloutState::of(&operator, "minimal").await);

    // Scaling and drift repair keep the template.
    let scaled = json!({"spec": {"workload": {"replicas": 2}}});
    operator.edit("minimal", scaled).await;
    operator.wait_until_ready("minimal").await;
    let drifted = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}});
    let deployments: Api<Deployment> = operator.api();
    let variable = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "llama-stack", "image": "elsewhere:1"},
    ]}}}});
    for change in [drifted, variable] {
        deployments
            .patch(
                "minimal",
                &PatchParams::default(),
                &Patch::Strategic(change),
            )
            .await
            .unwrap();
    }
    wait_for_image(
        &operator,
        "minimal",
        "docker.io/llamastack/distribution-starter:0.7.1",
    )
    .await;
    let container = operator.pod("minimal").await.containers.remove(0);
    assert_eq!(container.startup_probe, None);

    annotate(&operator, "minimal", "llamastack.io/update", "now").await;
    let has_probe = |one: Option<&Deployment>| {
        let pod = one.and_then(|one| one.spec.as_ref()?.template.spec.as_ref());
        pod.is_some_and(|pod| pod.containers[0].startup_probe.is_some())
    };
    eventually(&deployments, "minimal", DEADLINE, "updated", has_probe)
        .await
        .unwrap();
    let is_current = |cr: &Distribution| condition(cr, "UpdateAvailable").is_none();
    operator.wait_for("minimal", "current", is_current).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_of_a_release_that_recorded_nothing_is_recorded_as_it_runs() {
    let registry = TestRegistry::start(Access::Anyone).await;
    registry
        .push_labelled("acme/stack", "1", STARTER, SCHEMA, None)
        .await;
    let tag = registry.reference("acme/stack:1");
    let operator = Operator::start_with_registry("unrecorded", registry.settings()).await;
    operator.create(&on_image("stack", &tag)).await;
    operator.wait_until_ready("stack").await;
    let env = operator.stop().await;
    // That release named the image by its tag, and kept no record.
    let deployments: Api<Deployment> = env.api();
    let by_tag = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "llama-stack", "image": tag},
    ]}}}});
    deployments
        .patch("stack", &PatchParams::default(), &Patch::Strategic(by_tag))
        .await
        .unwrap();
    let all = env.api::<ControllerRevision>();
    let (none, every) = (DeleteParams::default(), ListParams::default());
    all.delete_collection(&none, &every).await.unwrap();
    let is_rolled_out = |one: Option<&Deployment>| {
        let status = one.and_then(|one| one.status.clone()).unwrap_or_default();
        status.observed_generation == one.and_then(|one| one.metadata.generation)
            && status.updated_replicas == Some(1)
            && status.replicas == Some(1)
            && status.available_replicas == Some(1)
    };
    eventually(&deployments, "stack", DEADLINE, "rolled out", is_rolled_out)
        .await
        .unwrap();
    let before = RolloutState::of(&env, "stack").await;

    let operator = env.start_operator_with_registry(registry.settings()).await;
    let is_offered = |cr: &Distribution| has_condition(cr, "UpdateAvailable", "True");
    operator.wait_for("stack", "recorded", is_offered).await;
    assert_eq!(before, RolloutState::of(&operator, "stack").await);
    assert_eq!(image(&operator, "stack").await, tag);
    assert_eq!(revisions(&operator, "stack").await.len(), 1);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_configuration_is_restored_from_the_record() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let operator = Operator::start("restored").await;
    operator.create(&minimal()).await;
    let cr = operator.wait_until_ready("minimal").await;
    let maps: Api<ConfigMap> = operator.api();
    let name = config_map(&cr);
    let before = maps.get(&name).await.unwrap();
    let rollout = RolloutState::of(&operator, "minimal").await;
    maps.delete(&name, &DeleteParams::default()).await.unwrap();
    let is_back = |one: Option<&ConfigMap>| {
        one.is_some_and(|one| one.metadata.uid != before.metadata.uid && one.data == before.data)
    };
    eventually(&maps, &name, DEADLINE, "restored", is_back)
        .await
        .unwrap();
    assert_eq!(rollout, RolloutState::of(&operator, "minimal").await);
    let recorded: Value = json!(revisions(&operator, "minimal").await[0].data);
    assert_eq!(recorded["schema"], json!(SCHEMA));
    operator.stop().await;
}
