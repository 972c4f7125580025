//! Every command of every guide, typed as it stands there. What is not typed is in `by_hand.rs`, with the reason.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use llsd_install::{Block, Cluster, Place, Reader, blocks_of, pages};

/// Blocks that need an operator, or none.
fn is_ordinary(place: Place) -> bool {
    matches!(place, Place::Anywhere | Place::Cluster)
}

fn wants_cluster(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| block.place == Place::Cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_guides_about_clusters_work() {
    let reader = Reader::new().await.unwrap();
    let cluster = Cluster::start(reader.registry()).await.unwrap();
    let reader = reader.at(cluster.kubeconfig());
    for page in pages().unwrap() {
        let blocks = blocks_of(&page, is_ordinary).unwrap();
        if wants_cluster(&blocks) {
            reader.type_in(&page, &blocks).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_all_other_guides_work() {
    for page in pages().unwrap() {
        let blocks = blocks_of(&page, is_ordinary).unwrap();
        if !blocks.is_empty() && !wants_cluster(&blocks) {
            let reader = Reader::new().await.unwrap();
            reader.type_in(&page, &blocks).await.unwrap();
        }
    }
}
