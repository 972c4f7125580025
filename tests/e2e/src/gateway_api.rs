//! The definitions of the Gateway API, from the release that `tests/toolchain/go/gateway-api` pins.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use llsd_render::objects::Kind;
use llsd_testbed::toolchain::module_folder;
use llsd_testbed::until;

use crate::{DEADLINE, TestEnv};

/// The kinds that the operator creates.
const KINDS: [Kind; 3] = [Kind::HTTPRoute, Kind::TLSRoute, Kind::BackendTLSPolicy];

/// Installs the definitions of the Gateway API, and waits until the API server serves them.
pub async fn install_gateway_api(client: &Client) {
    let folder = module_folder("gateway-api", "sigs.k8s.io/gateway-api").unwrap();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for kind in KINDS {
        let ApiResource { group, plural, .. } = kind.resource();
        let file = folder.join(format!("config/crd/standard/{group}_{plural}.yaml"));
        let text = std::fs::read_to_string(file).unwrap();
        let definition: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        let parameters = PatchParams::apply("tests").force();
        let name = format!("{plural}.{group}");
        api.patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .unwrap();
    }
    until("the Gateway API is served", DEADLINE, || async {
        let version = KINDS[0].resource().api_version;
        let served = client.list_api_group_resources(&version).await?;
        let served = served.resources;
        let is_served = |kind: &Kind| {
            let wanted = kind.resource().kind;
            served.iter().any(|one| one.kind == wanted)
        };
        anyhow::ensure!(KINDS.iter().all(is_served), "not all kinds are served");
        Ok(())
    })
    .await
    .unwrap();
}

/// The objects of a kind of the Gateway API in the namespace of a test.
pub fn gateway_objects(env: &TestEnv, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(env.client.clone(), env.namespace.name(), &kind.resource())
}

/// Waits until an object of the Gateway API exists, or does not exist.
pub async fn wait_for_gateway_object(env: &TestEnv, kind: Kind, name: &str, exists: bool) {
    let api = gateway_objects(env, kind);
    let state = match exists {
        true => "exists",
        false => "is deleted",
    };
    until(&format!("{kind:?} {name} {state}"), DEADLINE, || async {
        let found = api.get_opt(name).await?;
        anyhow::ensure!(found.is_some() == exists, "not yet");
        Ok(())
    })
    .await
    .unwrap();
}
