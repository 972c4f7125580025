//! Requests to a server while something happens to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use llsd_testbed::until;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::client::{Server, chat, send_chat};

const CLIENTS: usize = 2;
/// Leaves a small machine time for the servers that start meanwhile.
const PAUSE: Duration = Duration::from_millis(40);
const SENT_WITHIN: Duration = Duration::from_secs(240);
/// kube-proxy learns of a new Service a moment after its pods are ready.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Clients that send chats one after the other, each over a new connection.
pub struct Load {
    progress: Arc<Progress>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    sent: AtomicUsize,
}

impl Load {
    /// Starts the clients as soon as the server answers.
    pub async fn start(server: &Server) -> Result<Self> {
        until("the server answers", ANSWERS_WITHIN, || chat(server)).await?;
        let body = json!({
            "model": server.model().await?,
            "messages": [{"role": "user", "content": "hello"}],
        });
        let progress = Arc::new(Progress::default());
        let server = server.without_keep_alive()?;
        let clients = (0..CLIENTS).map(|_| {
            let progress = Arc::clone(&progress);
            tokio::spawn(send(server.clone(), body.clone(), progress))
        });
        Ok(Self {
            clients: clients.collect(),
            progress,
        })
    }

    /// Goes on until this number of requests was sent. Fails if one of them was not answered.
    pub async fn stop(self, requests: usize) -> Result<()> {
        let sent = || self.progress.sent.load(Ordering::Relaxed);
        let enough = until("enough requests are sent", SENT_WITHIN, || async {
            ensure!(sent() >= requests, "{} of {requests} are sent", sent());
            Ok(())
        })
        .await;
        self.progress.is_over.store(true, Ordering::Relaxed);
        let mut lost = Vec::new();
        for client in self.clients {
            lost.extend(client.await?);
        }
        let sent = self.progress.sent.load(Ordering::Relaxed);
        ensure!(lost.is_empty(), "lost of {sent}: {lost:#?}");
        enough
    }
}

/// Returns the requests that failed: when, and why.
async fn send(server: Server, body: Value, progress: Arc<Progress>) -> Vec<String> {
    let start = Instant::now();
    let mut lost = Vec::new();
    while !progress.is_over.load(Ordering::Relaxed) {
        let at = start.elapsed();
        if let Err(error) = send_chat(&server, &body).await {
            lost.push(format!("after {at:.1?}: {error:#}"));
        }
        progress.sent.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    lost
}
