//! `cargo xtask up`: one command until a resource is ready, one key to end it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use llsd_testbed::Invocation;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// A control plane starts, an operator compiles its plugins and a resource becomes ready.
const DEADLINE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_playground_is_ready_to_use_and_leaves_nothing_behind() {
    let xtask = std::env::var_os("LLSD_XTASK").expect("LLSD_XTASK names the binary xtask");
    let mut playground = Command::new(xtask)
        .args(["up", "--built"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();

    let mut lines = BufReader::new(playground.stdout.take().unwrap()).lines();
    let introduction = async {
        let mut text = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            text += &line;
            text += "\n";
            if line.starts_with("Ctrl-C") {
                return text;
            }
        }
        panic!("the playground ended early: {text}");
    };
    let text = tokio::time::timeout(DEADLINE, introduction).await.unwrap();
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
        "{} is still there",
        kubeconfig.display()
    );
}
