//! The `llsd` binary on empty control planes.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use llsd_api::DISTRIBUTION_CRD_NAME;
use llsd_e2e::{TestRegistry, acme_base};
use llsd_testbed::{Access, Finished, Invocation, Release, Testbed, eventually, until};
use serde_json::json;

use crate::test_cluster::{DEADLINE, LEGACY, create_legacy_resources};

const STARTER: &str = include_str!("../../../../host/render/distributions/starter.yaml");
/// The Secret that the resources refer to.
const KEYS: &str = "keys";

/// A running `llsd operator --dev`, killed when dropped.
struct DevOperator {
    process: Child,
    log: PathBuf,
}

impl DevOperator {
    /// Starts an operator that installs its CRDs and webhooks itself.
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

impl Drop for DevOperator {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            // The test harness prints it with the failure.
            #[allow(clippy::print_stderr, reason = "shows why the test failed")]
            {
                eprintln!("log of the operators:\n{log}");
            }
        }
    }
}

fn llsd() -> PathBuf {
    let path = std::env::var_os("LLSD_BIN");
    path.expect("LLSD_BIN is not set; run the tests with `cargo xtask test`")
        .into()
}

async fn kubectl(testbed: &Testbed, arguments: &[&str], input: &str) -> Finished {
    let kubectl = testbed.kubectl("admin").unwrap();
    kubectl.args(arguments).input(input).run().await.unwrap()
}

/// Applies a resource in a dry run.
async fn dry_run(testbed: &Testbed, distribution: &str, provider: &str) -> Finished {
    let resource = format!(
        "
apiVersion: llamastack.io/v1alpha2
kind: LlamaStackDistribution
metadata: {{name: dry-run}}
spec:
  distribution: {distribution}
  providers: {{inference: {{provider: {provider}, endpoint: 'http://vllm:8000', apiKey: {{secretKeyRef: {{name: {KEYS}, key: a}}}}}}}}
"
    );
    let arguments = ["apply", "--dry-run=server", "--filename", "-"];
    kubectl(testbed, &arguments, &resource).await
}

async fn wait_until_leader(testbed: &Testbed, name: &str) {
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
async fn a_follower_admits_with_plugins_images_distributions_and_secrets_added_after_its_start() {
    let mut registry = TestRegistry::start(Access::Anyone).await;
    let plugin = registry.push_plugin("example-adapter", "acme/adapter:1");
    let image = registry
        .push_labelled("acme/stack", "1", &acme_base(), "acme/1.0", None)
        .await;
    let image = format!("{{image: '{image}'}}");
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let caches = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let host = registry.server.host().to_owned();
    let registry_args = ["--plain-http", &host, "--allow-address", "127.0.0.1"];

    // The leader serves no webhooks, so the follower handles every admission request.
    let leader = [
        &["--no-webhooks", "--leader-elect", "leader"],
        &registry_args[..],
    ]
    .concat();
    let _leader = DevOperator::start(&testbed, caches[0].path(), &leader);
    wait_until_leader(&testbed, "leader").await;
    let follower = [&["--leader-elect", "follower"], &registry_args[..]].concat();
    let _follower = DevOperator::start(&testbed, caches[1].path(), &follower);

    until("no plugin supports the dialect", DEADLINE, || async {
        let output = dry_run(&testbed, &image, "vllm").await;
        let unsupported = "Warning: spec.distribution: Unsupported config.yaml version acme/1.0";
        ensure!(output.stderr.contains(unsupported), "{}", output.stderr);
        output.success()
    })
    .await
    .unwrap();
    let blobs = std::fs::read_dir(caches[1].path().join("registry/blobs")).unwrap();
    assert_eq!(blobs.count(), 2, "manifest and config of the image");

    let installed = format!(
        "
apiVersion: llamastack.io/v1alpha1
kind: SchemaPlugin
metadata: {{name: acme}}
spec: {{reference: '{plugin}'}}
"
    );
    kubectl(&testbed, &["apply", "--filename", "-"], &installed)
        .await
        .success()
        .unwrap();
    until("the plugin supports the dialect", DEADLINE, || async {
        let output = dry_run(&testbed, &image, "vllm").await;
        ensure!(!output.stderr.contains("Unsupported"), "{}", output.stderr);
        output.success()
    })
    .await
    .unwrap();
    let rejected = dry_run(&testbed, &image, "vlm").await.failure().unwrap();
    assert!(
        rejected.contains("spec.providers.inference.provider: ") && rejected.contains("vllm"),
        "{rejected}"
    );
    wait_until_leader(&testbed, "leader").await;

    registry.server.stop();
    let unreadable = format!("{{image: '{}'}}", registry.reference("acme/stack:2"));
    let output = dry_run(&testbed, &unreadable, "vllm").await;
    let warning = "Warning: spec.distribution.image: failed to read the base configuration: ";
    assert!(output.stderr.contains(warning), "{}", output.stderr);
    output.success().unwrap();

    kubectl(&testbed, &["delete", "schemaplugin", "acme"], "")
        .await
        .success()
        .unwrap();
    until(
        "no plugin supports the dialect any more",
        DEADLINE,
        || async {
            let output = dry_run(&testbed, &image, "vllm").await;
            ensure!(output.stderr.contains("Unsupported"), "{}", output.stderr);
            Ok(())
        },
    )
    .await
    .unwrap();
    admits_distributions_of_the_config_map(&testbed).await;
    warns_only_of_missing_secrets(&testbed).await;
}

async fn admits_distributions_of_the_config_map(testbed: &Testbed) {
    let acme = "{name: acme}";
    let rejected = dry_run(testbed, acme, "vllm").await.failure().unwrap();
    let unknown = "spec.distribution.name: no distribution is called \"acme\"; use one of: ";
    assert!(rejected.contains(unknown), "{rejected}");

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
    until("the distribution is known", DEADLINE, || async {
        dry_run(testbed, acme, "vllm").await.success()
    })
    .await
    .unwrap();

    let rejected = dry_run(testbed, acme, "vlm").await.failure().unwrap();
    assert!(
        rejected.contains("spec.providers.inference.provider: "),
        "the base configuration was not used: {rejected}"
    );
    let other_key = "{image: 'acme.example/stack:3', schema: llama-stack/0.7, baseConfig: {configMapName: acme-base, key: other}}";
    let output = dry_run(testbed, other_key, "vllm").await;
    let warning = "ConfigMap \"acme-base\" has no key \"other\"";
    assert!(output.stderr.contains(warning), "{}", output.stderr);
    output.success().unwrap();
    let other = dry_run(testbed, "{name: gpu-farm}", "vllm").await;
    let rejected = other.failure().unwrap();
    let choices = "no distribution is called \"gpu-farm\"; use one of: acme, ";
    assert!(rejected.contains(choices), "{rejected}");
}

async fn warns_only_of_missing_secrets(testbed: &Testbed) {
    let starter = "{name: starter}";
    let missing = format!("Secret {KEYS:?} not found in namespace ");
    let output = dry_run(testbed, starter, "vllm").await;
    assert!(output.stderr.contains(&missing), "{}", output.stderr);
    output.success().unwrap();
    let create = ["create", "secret", "generic", KEYS, "--from-literal=a=b"];
    kubectl(testbed, &create, "").await.success().unwrap();
    // No wait: the webhook's watch has seen the Secret by the time kubectl sends the next request.
    let output = dry_run(testbed, starter, "vllm").await;
    assert!(!output.stderr.contains(&missing), "{}", output.stderr);
    output.success().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_is_not_ready_and_serves_webhooks_for_a_while() {
    let testbed = Testbed::start(Release::Oldest).await.unwrap();
    let cache = tempfile::tempdir().unwrap();
    let free_address = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let (probes, webhooks) = (free_address(), free_address());
    let arguments = [
        "--probes",
        &probes,
        "--webhook-listen",
        &webhooks,
        "--drain",
        "8",
    ];
    let mut operator = DevOperator::start(&testbed, cache.path(), &arguments);
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let get = async |url: String| client.get(url).send().await?.error_for_status();
    until("the operator is ready", DEADLINE, || async {
        get(format!("http://{probes}/readyz")).await?;
        get(format!("https://{webhooks}/healthz")).await?;
        Ok(())
    })
    .await
    .unwrap();

    let pid = operator.process.id().to_string();
    let signal = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(signal.unwrap().success());
    until("the operator is not ready", DEADLINE, || async {
        ensure!(
            get(format!("http://{probes}/readyz")).await.is_err(),
            "ready"
        );
        Ok(())
    })
    .await
    .unwrap();
    // The API server still sends requests until it learns of that.
    get(format!("https://{webhooks}/healthz")).await.unwrap();
    until("the operator has stopped", DEADLINE, || {
        let exited = operator.process.try_wait();
        async { exited?.context("still running") }
    })
    .await
    .unwrap();
    assert!(get(format!("https://{webhooks}/healthz")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_migrates_the_resources_that_upstream_stored() {
    let testbed = Testbed::start(Release::Newest).await.unwrap();
    let client = testbed.client("admin").await.unwrap();
    create_legacy_resources(&client).await.unwrap();
    let cache = tempfile::tempdir().unwrap();
    let migrate = || {
        Invocation::new(&llsd())
            .arg("migrate")
            .env("KUBECONFIG", testbed.kubeconfig("admin").unwrap())
            .run()
    };
    // An operator of one namespace does not migrate the others.
    let _operator = DevOperator::start(&testbed, cache.path(), &["--namespace", "default"]);
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

    let done = until("the webhooks convert resources", DEADLINE, || async {
        migrate().await?.success()
    })
    .await
    .unwrap();
    let count = LEGACY.len();
    assert_eq!(done, format!("migrated {count} resources to v1alpha2\n"));
    let definition = definitions.get(DISTRIBUTION_CRD_NAME).await.unwrap();
    assert_eq!(versions(Some(&definition)).unwrap(), ["v1alpha2"]);
    assert_eq!(
        migrate().await.unwrap().success().unwrap(),
        "nothing to migrate: all resources are stored as v1alpha2\n"
    );
}
