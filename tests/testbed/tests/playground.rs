//! `cargo xtask up` starts a cluster with a ready resource, and Ctrl-C stops it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use llsd_testbed::Invocation;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Enough to start a control plane, compile the plugins and get a resource ready.
const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_playground_has_a_ready_resource_and_is_removed_on_ctrl_c() {
    let xtask =
        std::env::var_os("LLSD_XTASK").expect("LLSD_XTASK must be the path of the xtask binary");
    let mut playground = Command::new(xtask)
        .args(["up", "--built", "--simulated"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();

    let mut lines = BufReader::new(playground.stdout.take().unwrap()).lines();
    let usage = async {
        let mut text = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            text += &line;
            text += "\n";
            if line.starts_with("Ctrl-C") {
                return text;
            }
        }
        panic!("the playground exited early: {text}");
    };
    let text = tokio::time::timeout(DEADLINE, usage).await.unwrap();
    let quoted = |start: &str| {
        let rest = text.split_once(start).unwrap().1;
        PathBuf::from(rest.split_once('\'').unwrap().0)
    };
    let kubeconfig = quoted("KUBECONFIG='");
    let kubectl = quoted("PATH='").join("kubectl");
    let phase = Invocation::new(&kubectl)
        .env("KUBECONFIG", &kubeconfig)
        .args([
            "get",
            "llsd",
            "minimal",
            "--output=jsonpath={.status.phase}",
        ]);
    assert_eq!(phase.run().await.unwrap().success().unwrap(), "Ready");

    let pid = i32::try_from(playground.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = tokio::time::timeout(DEADLINE, playground.wait()).await;
    assert!(ended.unwrap().unwrap().success());
    assert!(
        !kubeconfig.exists(),
        "{} still exists",
        kubeconfig.display()
    );
}
