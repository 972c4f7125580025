//! The program itself, on control planes where nothing was installed before.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use llsd_api::DISTRIBUTION_CRD_NAME;
use llsd_e2e::{Shelf, ogx_base};
use llsd_testbed::{Access, Finished, Invocation, Release, Testbed, eventually, until};
use serde_json::json;

use crate::plane::{DEADLINE, LEGACY, leave_legacy};

const STARTER: &str = include_str!("../../../../host/render/distributions/starter.yaml");
/// The Secret of the resources that are tried out.
const KEYS: &str = "keys";

/// A running operator; it ends with the test.
struct Operator {
    process: Child,
    log: PathBuf,
}

impl Operator {
    /// Runs from a laptop: installs what it needs into the cluster.
    fn start(testbed: &Testbed, cache: &Path, arguments: &[&str]) -> Self {
        let log = testbed.state().folder.join("operator.log");
        let append = OpenOptions::new().create(true).append(true).open(&log);
        let process = Command::new(llsd())
            .args(["operator", "--dev", "--operator-namespace", "default"])
            .arg("--cache-dir")
            .arg(cache)
            .args(arguments)
            .env("KUBECONFIG", testbed.kubeconfig("admin").unwrap())
            .stdin(Stdio::null())
            .stderr(append.unwrap())
            .spawn()
            .unwrap();
        Self { process, log }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            // The harness shows it with the failure.
            #[allow(clippy::print_stderr, reason = "a test that fails says why")]
            {
                eprintln!("the log of the operators is\n{log}");
            }
        }
    }
}

fn llsd() -> PathBuf {
    let path = std::env::var_os("LLSD_BIN");
    path.expect("LLSD_BIN is not set: run the tests through `cargo xtask test`")
        .into()
}

async fn kubectl(testbed: &Testbed, arguments: &[&str], input: &str) -> Finished {
    let kubectl = testbed.kubectl("admin").unwrap();
    kubectl.args(arguments).input(input).run().await.unwrap()
}

/// What admission says to a resource, without creating it.
async fn try_out(testbed: &Testbed, distribution: &str, provider: &str) -> Finished {
    let resource = format!(
        "
apiVersion: llamastack.io/v1alpha2
kind: LlamaStackDistribution
metadata: {{name: tried}}
spec:
  distribution: {distribution}
  providers: {{inference: {{provider: {provider}, endpoint: 'http://vllm:8000', apiKey: {{secretKeyRef: {{name: {KEYS}, key: a}}}}}}}}
"
    );
    let arguments = ["apply", "--dry-run=server", "--filename", "-"];
    kubectl(testbed, &arguments, &resource).await
}

async fn lead_by(testbed: &Testbed, name: &str) {
    let leases: Api<Lease> = Api::namespaced(testbed.client("admin").await.unwrap(), "default");
    let holds = |lease: Option<&Lease>| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
        holder == Some(name)
    };
    eventually(&leases, "llsd-operator", DEADLINE, "held", holds)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_lead_admits_by_plugins_images_names_and_secrets_newer_than_itself()
{
    let mut shelf = Shelf::start(Access::Anyone).await;
    let plugin = shelf.push_plugin("ogx", "acme/ogx:1");
    let image = shelf
        .push_labelled("acme/stack", "1", &ogx_base(), "ogx/1.0", None)
        .await;
    let image = format!("{{image: '{image}'}}");
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let caches = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let host = shelf.registry.host().to_owned();
    let reach = ["--plain-http", &host, "--allow-address", "127.0.0.1"];

    // The leader serves no webhooks, so that every answer comes from the other.
    let leader = [&["--no-webhooks", "--leader-elect", "leader"], &reach[..]].concat();
    let _leader = Operator::start(&testbed, caches[0].path(), &leader);
    lead_by(&testbed, "leader").await;
    let other = [&["--leader-elect", "other"], &reach[..]].concat();
    let _other = Operator::start(&testbed, caches[1].path(), &other);

    until("no plugin knows the dialect", DEADLINE, || async {
        let said = try_out(&testbed, &image, "vllm").await;
        let unsupported = "Warning: spec.distribution: Unsupported config.yaml version ogx/1.0";
        ensure!(said.stderr.contains(unsupported), "{}", said.stderr);
        said.success()
    })
    .await
    .unwrap();
    let blobs = std::fs::read_dir(caches[1].path().join("registry/blobs")).unwrap();
    assert_eq!(blobs.count(), 2, "manifest and config of the image");

    let installed = format!(
        "
apiVersion: llamastack.io/v1alpha1
kind: SchemaPlugin
metadata: {{name: ogx}}
spec: {{reference: '{plugin}'}}
"
    );
    kubectl(&testbed, &["apply", "--filename", "-"], &installed)
        .await
        .success()
        .unwrap();
    until("the plugin knows the dialect", DEADLINE, || async {
        let said = try_out(&testbed, &image, "vllm").await;
        ensure!(!said.stderr.contains("Unsupported"), "{}", said.stderr);
        said.success()
    })
    .await
    .unwrap();
    let refused = try_out(&testbed, &image, "vlm").await.failure().unwrap();
    assert!(
        refused.contains("spec.providers.inference.provider: ") && refused.contains("vllm"),
        "{refused}"
    );
    lead_by(&testbed, "leader").await;

    shelf.registry.stop();
    let unread = format!("{{image: '{}'}}", shelf.reference("acme/stack:2"));
    let said = try_out(&testbed, &unread, "vllm").await;
    let warning = "Warning: spec.distribution.image: the base configuration could not be read: ";
    assert!(said.stderr.contains(warning), "{}", said.stderr);
    said.success().unwrap();

    kubectl(&testbed, &["delete", "schemaplugin", "ogx"], "")
        .await
        .success()
        .unwrap();
    until("nobody knows the dialect any more", DEADLINE, || async {
        let said = try_out(&testbed, &image, "vllm").await;
        ensure!(said.stderr.contains("Unsupported"), "{}", said.stderr);
        Ok(())
    })
    .await
    .unwrap();
    admits_names_of_the_config_map(&testbed).await;
    warns_of_missing_secrets_alone(&testbed).await;
}

async fn admits_names_of_the_config_map(testbed: &Testbed) {
    let acme = "{name: acme}";
    let refused = try_out(testbed, acme, "vllm").await.failure().unwrap();
    let nobody = "spec.distribution.name: no distribution is called \"acme\"; use one of: ";
    assert!(refused.contains(nobody), "{refused}");

    let entry = "acme: {image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: acme-base}}";
    let maps = [
        ("acme-base", json!({"config.yaml": STARTER})),
        (
            "llama-stack-operator-config",
            json!({"distributions": entry}),
        ),
    ];
    let maps = maps.map(|(name, data)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": maps}).to_string();
    let applied = kubectl(testbed, &["apply", "--filename", "-"], &list).await;
    applied.success().unwrap();
    until("the name is known", DEADLINE, || async {
        try_out(testbed, acme, "vllm").await.success()
    })
    .await
    .unwrap();

    let refused = try_out(testbed, acme, "vlm").await.failure().unwrap();
    assert!(
        refused.contains("spec.providers.inference.provider: "),
        "its base was not looked at: {refused}"
    );
    let other_key = "{image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: acme-base, key: other}}";
    let said = try_out(testbed, other_key, "vllm").await;
    let warning = "the ConfigMap \"acme-base\" has no key \"other\"";
    assert!(said.stderr.contains(warning), "{}", said.stderr);
    said.success().unwrap();
    let other = try_out(testbed, "{name: gpu-farm}", "vllm").await;
    let refused = other.failure().unwrap();
    let choices = "no distribution is called \"gpu-farm\"; use one of: acme, ";
    assert!(refused.contains(choices), "{refused}");
}

async fn warns_of_missing_secrets_alone(testbed: &Testbed) {
    let starter = "{name: starter}";
    let missing = format!("has no Secret {KEYS:?} yet");
    let said = try_out(testbed, starter, "vllm").await;
    assert!(said.stderr.contains(&missing), "{}", said.stderr);
    said.success().unwrap();
    let create = ["create", "secret", "generic", KEYS, "--from-literal=a=b"];
    kubectl(testbed, &create, "").await.success().unwrap();
    // At once: the webhook's own watch has told of it by the time that kubectl asks.
    let said = try_out(testbed, starter, "vllm").await;
    assert!(!said.stderr.contains(&missing), "{}", said.stderr);
    said.success().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_operator_stored_is_stored_anew_by_one_command() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let client = testbed.client("admin").await.unwrap();
    leave_legacy(&client).await.unwrap();
    let cache = tempfile::tempdir().unwrap();
    let migrate = || {
        Invocation::new(&llsd())
            .arg("migrate")
            .env("KUBECONFIG", testbed.kubeconfig("admin").unwrap())
            .run()
    };
    // Who serves one namespace leaves the others as they are stored.
    let _operator = Operator::start(&testbed, cache.path(), &["--namespace", "default"]);
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let versions = |definition: Option<&CustomResourceDefinition>| {
        let status = definition.and_then(|one| one.status.clone());
        status.and_then(|status| status.stored_versions)
    };
    eventually(
        &definitions,
        DISTRIBUTION_CRD_NAME,
        DEADLINE,
        "stored as v1alpha2 too",
        |one| versions(one).is_some_and(|all| all.len() == 2),
    )
    .await
    .unwrap();

    let done = until("the webhooks convert", DEADLINE, || async {
        migrate().await?.success()
    })
    .await
    .unwrap();
    let count = LEGACY.len();
    assert_eq!(done, format!("{count} resources stored as v1alpha2\n"));
    let definition = definitions.get(DISTRIBUTION_CRD_NAME).await.unwrap();
    assert_eq!(versions(Some(&definition)).unwrap(), ["v1alpha2"]);
    assert_eq!(
        migrate().await.unwrap().success().unwrap(),
        "nothing to do: everything is stored as v1alpha2\n"
    );
}
