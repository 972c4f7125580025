//! `llsd upgrade plan` and `llsd explore --cluster`, on a cluster with a running server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kube::ResourceExt;
use llsd_api::Distribution;
use llsd_e2e::{Operator, TestEnv, named};
use serde_json::{Value, json};

#[tokio::test]
async fn a_plan_starts_from_what_the_servers_of_a_cluster_run_and_changes_nothing() {
    let operator = Operator::start("plan").await;
    operator.create(&named("chat")).await;
    let ready = operator.wait_until_ready("chat").await;
    let mut plan = llsd(&operator);
    plan.args(["upgrade", "plan", "--to", "ogx/1.0", "--output", "json"]);
    plan.args(["--namespace", operator.namespace.name()]);
    let output = plan.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let chat = &plan["resources"][0];
    assert_eq!(chat["name"], "chat");
    assert_eq!(chat["from"], "llama-stack/0.7");
    assert_eq!(chat["verdict"], "ready", "{chat:#}");
    let diff = chat["diff"].as_str().unwrap();
    assert!(diff.contains("\n-") && diff.contains("\n+"), "{diff}");
    let now = operator.api::<Distribution>().get("chat").await.unwrap();
    assert_eq!(now.resource_version(), ready.resource_version());
}

#[tokio::test]
async fn the_page_opens_a_resource_of_a_cluster_with_what_runs_there() {
    let operator = Operator::start("explore").await;
    operator.create(&named("chat")).await;
    operator.wait_until_ready("chat").await;
    let folder = tempfile::tempdir().unwrap();
    let page = Page::start(&operator, folder.path());
    let listed = page.get("/api/cluster").await;
    let namespace = operator.namespace.name();
    assert_eq!(listed, json!({"namespace": namespace, "names": ["chat"]}));
    let opened = page.get("/api/cluster/chat").await;
    let text = opened["text"].as_str().unwrap();
    let resource: Value = serde_saphyr::from_str(text).unwrap();
    assert_eq!(resource["spec"], named("chat")["spec"]);
    assert_eq!(resource["status"], Value::Null);
}

/// A running page, killed when dropped.
struct Page {
    process: Child,
    address: String,
    token: String,
}

impl Page {
    /// Starts the page for the namespace of a test.
    fn start(env: &TestEnv, folder: &Path) -> Self {
        let kubeconfig = std::fs::read_to_string(env.testbed.kubeconfig("admin").unwrap());
        let mut config: Value = serde_saphyr::from_str(&kubeconfig.unwrap()).unwrap();
        config["contexts"][0]["context"]["namespace"] = json!(env.namespace.name());
        let file = folder.join("kubeconfig");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut process = llsd(env)
            .args(["explore", "--cluster", "--port", "0"])
            .env("KUBECONFIG", file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut printed).unwrap();
        let (address, token) = printed.trim().split_once("/#token=").unwrap();
        Self {
            process,
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    async fn get(&self, path: &str) -> Value {
        let request = reqwest::Client::builder()
            .no_proxy()
            .build()
            .unwrap()
            .get(format!("{}{path}", self.address))
            .header("X-Llsd-Token", &self.token);
        let response = request.send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn llsd(env: &TestEnv) -> Command {
    let program = std::env::var("LLSD_BIN")
        .expect("LLSD_BIN is not set; run the tests with `cargo xtask test`");
    let mut command = Command::new(program);
    command.env("KUBECONFIG", env.testbed.kubeconfig("admin").unwrap());
    command
}
