//! Runs every command of every guide. `by_hand.rs` lists the exceptions, with the reasons.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]

use llsd_install::{Block, Cluster, Environment, GuideRunner, blocks_of, pages};

/// Whether the tests of this file run a block: `installation.rs` runs those of installations.
fn is_selected(environment: Environment) -> bool {
    matches!(environment, Environment::Anywhere | Environment::Cluster)
}

fn needs_cluster(blocks: &[Block]) -> bool {
    blocks
        .iter()
        .any(|block| block.environment == Environment::Cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_guides_with_a_cluster_work() {
    let runner = GuideRunner::new().await.unwrap();
    let cluster = Cluster::start(runner.registry()).await.unwrap();
    let runner = runner.with_cluster(cluster.kubeconfig());
    for page in pages().unwrap() {
        let blocks = blocks_of(&page, is_selected).unwrap();
        if needs_cluster(&blocks) {
            runner.run_blocks(&page, &blocks).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_guides_without_a_cluster_work() {
    for page in pages().unwrap() {
        let blocks = blocks_of(&page, is_selected).unwrap();
        if !blocks.is_empty() && !needs_cluster(&blocks) {
            let runner = GuideRunner::new().await.unwrap();
            runner.run_blocks(&page, &blocks).await.unwrap();
        }
    }
}
