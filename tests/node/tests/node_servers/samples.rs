//! What a user sees first.

use llsd_node::{Cluster, chat};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_sample_unchanged_answers_a_chat_through_its_service() {
    let lab = Cluster::shared()
        .await
        .unwrap()
        .lab("sample")
        .await
        .unwrap();
    let sample = llsd_servers::root().join("samples/minimal.yaml");
    lab.apply(&std::fs::read_to_string(sample).unwrap())
        .await
        .unwrap();
    let server = lab.ready("minimal").await.unwrap();
    chat(&server).await.unwrap();
    let log = lab.run(["logs", "deployment/minimal"]).await.unwrap();
    assert!(log.contains("Uvicorn running"), "{log}");
}
