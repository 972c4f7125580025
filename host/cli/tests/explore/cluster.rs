//! `--cluster`, against a server that answers like the API server. It records every request, because the
//! page must only read.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::page::Page;

/// An API server with one resource, and the requests that it got.
fn api_server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let recorded = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = respond(&stream, &recorded);
        }
    });
    (port, requests)
}

fn respond(mut stream: &TcpStream, requests: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    requests.lock().unwrap().push(request.clone());
    let collection = "/apis/llamastack.io/v1alpha2/namespaces/ml/llamastackdistributions";
    let metadata = json!({ "name": "one", "namespace": "ml", "uid": "1", "resourceVersion": "5" });
    let path = request.split(' ').nth(1).unwrap_or_default();
    let body = if path.starts_with(&format!("{collection}/one")) {
        json!({
            "apiVersion": "llamastack.io/v1alpha2", "kind": "LlamaStackDistribution", "metadata": metadata,
            "spec": { "distribution": { "name": "starter" } }, "status": { "phase": "Ready" },
        })
    } else if path.starts_with(&format!("{collection}?")) || path == collection {
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
            "items": [{ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata }],
        })
    } else {
        json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "llamastackdistributions.llamastack.io \"two\" not found", "metadata": {},
        })
    };
    let status = if body["kind"] == "Status" {
        "404 Not Found"
    } else {
        "200 OK"
    };
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn resources_of_the_cluster_are_opened_with_the_token_and_only_read() {
    let (port, requests) = api_server();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
        "users": [{ "name": "test", "user": {} }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test", "namespace": "ml" } }],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let page = Page::start_in(&["--cluster"], &[("KUBECONFIG", &kubeconfig)]);
    let get = |path: &str, token: &str| page.request("GET", path, &[("X-Llsd-Token", token)], "");

    assert_eq!(get("/api/cluster", "").status, 403);
    assert_eq!(get("/api/cluster/one", "").status, 403);
    assert!(
        requests.lock().unwrap().is_empty(),
        "a request without a token reached the cluster"
    );

    let listed = get("/api/cluster", &page.token);
    let body: Value =
        serde_json::from_str(&listed.body).unwrap_or_else(|_| panic!("{}", listed.body));
    assert_eq!(body, json!({ "namespace": "ml", "names": ["one"] }));
    let opened: Value = serde_json::from_str(&get("/api/cluster/one", &page.token).body).unwrap();
    let text = opened["text"].as_str().unwrap();
    assert!(text.contains("name: starter"), "{text}");
    assert!(
        !text.contains("status") && !text.contains("resourceVersion"),
        "{text}"
    );
    let missing = get("/api/cluster/two", &page.token);
    assert_eq!(missing.status, 502);
    assert!(
        missing
            .body
            .contains("failed to get LlamaStackDistribution \"two\""),
        "{}",
        missing.body
    );
    let requests = requests.lock().unwrap();
    assert!(
        requests.iter().all(|request| request.starts_with("GET ")),
        "{requests:?}"
    );
}
