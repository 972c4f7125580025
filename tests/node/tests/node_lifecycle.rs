//! A node leaves nothing behind, however it ends.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use llsd_node::Footprint;
use llsd_testbed::{Node, until};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// A node is started within a minute, also on a busy machine, and removed within seconds.
const DEADLINE: Duration = Duration::from_secs(300);

/// Fails if something on this machine is new, or if a process of the node still runs.
async fn assert_nothing_is_left(before: &Footprint, name: &str, folder: &Path) {
    let folder = folder.to_owned();
    until("everything is removed", Duration::from_secs(60), || async {
        let processes = Footprint::processes(&folder.to_string_lossy())?;
        anyhow::ensure!(processes.is_empty(), "processes still run: {processes:?}");
        anyhow::ensure!(!folder.exists(), "{} still exists", folder.display());
        Ok(())
    })
    .await
    .unwrap();
    let after = Footprint::measure().unwrap();
    let none = Vec::<&String>::new();
    assert_eq!(after.difference(before, name), none, "is new");
    assert_eq!(before.difference(&after, name), none, "is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_leaves_nothing_behind() {
    let before = Footprint::measure().unwrap();
    let node = Node::start().await.unwrap();
    let folder = node.testbed().state().folder.clone();
    let inside = node.command("iptables-save").run().await.unwrap();
    assert!(inside.success().unwrap().contains("KUBE-SERVICES"));
    let name = node.name().to_owned();
    let during = Footprint::measure().unwrap();
    let new = during.difference(&before, &name);
    for kind in ["link", "route", "control group"] {
        let is_seen = |line: &&&String| line.starts_with(kind) && line.contains(&name);
        assert_ne!(new.iter().filter(is_seen).count(), 0, "no {kind}: {new:?}");
    }
    tokio::task::spawn_blocking(move || drop(node))
        .await
        .unwrap();
    assert_nothing_is_left(&before, &name, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_ends_with_the_killed_process_that_started_it() {
    let before = Footprint::measure().unwrap();
    let mut owner = tokio::process::Command::new(testbed())
        .args([
            "node",
            "run",
            "--",
            "sh",
            "-c",
            "echo \"$LLSD_NODE\"; exec cat",
        ])
        // Ends when this test closes the pipe.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(DEADLINE, lines.next_line()).await;
    let folder = PathBuf::from(line.unwrap().unwrap().unwrap());
    assert!(Node::is_running(&folder));
    let name = Node::connect(&folder).unwrap().name().to_owned();
    // SIGKILL: the process cannot clean up.
    owner.kill().await.unwrap();
    assert_nothing_is_left(&before, &name, &folder).await;
}

/// The program that cargo built beside this test.
fn testbed() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("testbed")
}
