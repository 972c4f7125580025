//! A hostile tenant beside a well-behaved one, with the real operator process and no webhook.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use llsd_controller::install_definitions;
use llsd_e2e::{TestEnv, minimal};
use llsd_testbed::{Release, Testbed};
use serde_json::json;

/// `llsd operator` for all namespaces with its default log, killed when dropped.
struct ClusterOperator(Child);

impl ClusterOperator {
    fn start(env: &TestEnv, log: &Path) -> Self {
        let program = std::env::var("LLSD_BIN")
            .expect("LLSD_BIN is not set; run the tests with `cargo xtask test`");
        let home = env.home.as_ref().unwrap();
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(program);
        command
            .args(["operator", "--no-webhooks", "--poll-servers", "0"])
            .args(["--operator-namespace", home.name()])
            .env("KUBECONFIG", env.testbed.kubeconfig(&env.user).unwrap())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for ClusterOperator {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A resource whose settings are nested this deeply, as text: it is too deep to be parsed.
fn nested(name: &str, levels: usize) -> String {
    let mut resource = minimal();
    resource["metadata"]["name"] = name.into();
    resource["spec"]["providers"]["inference"]["settings"] = "SETTINGS".into();
    let settings = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    resource.to_string().replace("\"SETTINGS\"", &settings)
}

/// Issue I, row 2: after one such resource, a restarted operator listed nothing, served nobody, and wrote
/// the whole list into its log at every retry.
#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_cannot_be_read_hides_no_other_and_is_logged_briefly() {
    // Of its own: an operator for all namespaces would serve the resources of other tests.
    let testbed = Box::leak(Box::new(Testbed::start(Release::Newest).await.unwrap()));
    let client = testbed.client("admin").await.unwrap();
    install_definitions(&client, None).await.unwrap();
    let env = TestEnv::cluster_wide(testbed, "fair").await;
    let hostile = testbed.namespace("hostile").await.unwrap();
    for (name, levels) in [("deep", 135), ("deeper", 2_000)] {
        let kubectl = testbed.kubectl("admin").unwrap();
        let created = kubectl
            .namespace(hostile.name())
            .args(["create", "--validate=false", "--filename", "-"])
            .input(nested(name, levels))
            .run()
            .await;
        created.unwrap().success().unwrap();
    }

    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let operator = ClusterOperator::start(&env, &log);
    env.create(&minimal()).await;
    env.wait_until_ready("minimal").await;
    drop(operator);
    let restarted = ClusterOperator::start(&env, &log);
    let change = json!({"spec": {"resources": {"models": ["another-model"]}}});
    env.edit("minimal", change).await;
    env.wait_until_ready("minimal").await;
    drop(restarted);

    let log = std::fs::read_to_string(log).unwrap();
    for name in ["deep", "deeper"] {
        let named = format!(
            "LlamaStackDistribution.v1alpha2.llamastack.io/{name}.{}",
            hostile.name()
        );
        assert!(log.contains(&named), "{named}: {log}");
    }
    assert!(log.contains("is nested deeper than 32 levels"), "{log}");
    assert!(log.len() < 20_000, "{} bytes: {log}", log.len());
}
