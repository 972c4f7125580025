//! APIs that not every cluster has. Their definitions are from the releases that `tests/toolchain/go` pins.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use llsd_render::objects::Kind;
use llsd_testbed::toolchain::module_folder;
use llsd_testbed::until;

use crate::{DEADLINE, TestEnv};

/// The kinds of the Gateway API that the operator creates.
const GATEWAY_KINDS: [Kind; 3] = [Kind::HTTPRoute, Kind::TLSRoute, Kind::BackendTLSPolicy];

/// Installs the definitions of the Gateway API, and waits until the API server serves them.
pub async fn install_gateway_api(client: &Client) {
    let module = module_folder("gateway-api", "sigs.k8s.io/gateway-api").unwrap();
    install(client, &module.join("config/crd/standard"), &GATEWAY_KINDS).await;
}

/// Installs the definition of PodMonitors, and waits until the API server serves them.
pub async fn install_pod_monitors(client: &Client) {
    let module = "github.com/prometheus-operator/prometheus-operator";
    let module = module_folder("prometheus-operator", module).unwrap();
    let folder = module.join("example/prometheus-operator-crd");
    install(client, &folder, &[Kind::PodMonitor]).await;
}

/// Installs the definitions of kinds of one API from the files in a folder.
async fn install(client: &Client, folder: &Path, kinds: &[Kind]) {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for kind in kinds {
        let ApiResource { group, plural, .. } = kind.resource();
        let file = folder.join(format!("{group}_{plural}.yaml"));
        let text = std::fs::read_to_string(file).unwrap();
        let definition: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        let parameters = PatchParams::apply("tests").force();
        let name = format!("{plural}.{group}");
        api.patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .unwrap();
    }
    until("the definitions are served", DEADLINE, || async {
        for kind in kinds {
            let ApiResource {
                api_version, kind, ..
            } = kind.resource();
            let served = client.list_api_group_resources(&api_version).await?;
            let is_served = served.resources.iter().any(|one| one.kind == kind);
            anyhow::ensure!(is_served, "{kind} is not served");
        }
        Ok(())
    })
    .await
    .unwrap();
}

/// The objects of a kind in the namespace of a test.
pub fn objects_of(env: &TestEnv, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(env.client.clone(), env.namespace.name(), &kind.resource())
}

/// Waits until an object exists, or does not exist.
pub async fn wait_for_object(env: &TestEnv, kind: Kind, name: &str, exists: bool) {
    let api = objects_of(env, kind);
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
