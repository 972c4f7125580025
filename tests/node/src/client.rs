//! A client of a running server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use llsd_testbed::until;
use serde_json::{Value, json};

use crate::MODEL;

/// The reply of the model server to every chat.
const REPLY: &str = "hello from fake vllm";

/// Shorter than the time in which a server starts, so that an interruption is noticed.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);
/// A connection to a pod that ends at that moment is never answered: the kernel remembers to which pod the
/// connection belongs. A client connects again.
const ATTEMPT: Duration = Duration::from_secs(4);

/// The address of a server's Service.
#[derive(Debug, Clone)]
pub struct Server {
    host: String,
    http: reqwest::Client,
    scheme: &'static str,
}

impl Server {
    /// The server behind a Service.
    pub(crate) fn of_service(service: &Value) -> Result<Self> {
        let spec = &service["spec"];
        let address = spec["clusterIP"]
            .as_str()
            .context("the Service has no address")?;
        let port = spec["ports"][0]["port"]
            .as_u64()
            .context("the Service has no port")?;
        Ok(Self {
            host: format!("{address}:{port}"),
            http: client(reqwest::Client::builder())?,
            scheme: "http",
        })
    }

    /// The same server over HTTPS, with its certificate signed by this authority, as `name`.
    pub fn over_tls(&self, authority: &str, name: &str) -> Result<Self> {
        let address = self
            .host
            .parse()
            .context("the Service has no IPv4 address")?;
        let (_, port) = self.host.rsplit_once(':').unwrap_or_default();
        let builder = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(authority.as_bytes())?])
            .resolve(name, address);
        Ok(Self {
            host: format!("{name}:{port}"),
            http: client(builder)?,
            scheme: "https",
        })
    }

    /// The same server over HTTP, with a new connection for each request.
    pub(crate) fn without_keep_alive(&self) -> Result<Self> {
        Ok(Self {
            http: client(reqwest::Client::builder().pool_max_idle_per_host(0))?,
            ..self.clone()
        })
    }

    /// Its address and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The body of a GET request, which must succeed.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let url = format!("{}://{}{path}", self.scheme, self.host);
        read(self.http.get(&url).send().await?, &url).await
    }

    /// The body of a POST request, which must succeed.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}://{}{path}", self.scheme, self.host);
        let request = self
            .http
            .post(&url)
            .header("content-type", "application/json");
        read(request.body(body.to_string()).send().await?, &url).await
    }

    /// The id under which the server lists the model. It contains the provider in newer releases.
    pub async fn model(&self) -> Result<String> {
        let models = self.get("/v1/models").await?;
        let ids = models["data"].as_array().into_iter().flatten();
        let mut ids = ids.filter_map(|model| model["id"].as_str().or(model["identifier"].as_str()));
        let found = ids.find(|id| id.ends_with(MODEL)).map(str::to_owned);
        found.with_context(|| format!("the server does not list {MODEL}: {models}"))
    }
}

/// Sends a chat to a server, which must answer with the sentence of the model server.
pub async fn chat(server: &Server) -> Result<()> {
    let question = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": server.model().await?, "messages": question});
    send_chat(server, &body).await
}

/// Sends a chat, which must be answered with the sentence of the model server.
pub(crate) async fn send_chat(server: &Server, body: &Value) -> Result<()> {
    let path = "/v1/chat/completions";
    let answer = match server.post(path, body).await {
        // Where releases up to 0.2 serve it.
        Err(error) if error.to_string().contains("404 Not Found") => {
            server.post(&format!("/v1/openai{path}"), body).await?
        }
        answer => answer?,
    };
    let content = &answer["choices"][0]["message"]["content"];
    ensure!(content == REPLY, "unexpected answer to a chat: {answer}");
    Ok(())
}

/// Sends chats, and ends only if the server does not answer for some seconds.
pub async fn answers_always(server: &Server) -> anyhow::Error {
    let server = match server.without_keep_alive() {
        Ok(server) => server,
        Err(error) => return error,
    };
    let attempt = async || {
        let answered = tokio::time::timeout(ATTEMPT, chat(&server)).await;
        answered.context("no answer on this connection")?
    };
    loop {
        let answers = until("the server answers", ANSWERS_WITHIN, attempt).await;
        if let Err(error) = answers {
            return error;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn client(builder: reqwest::ClientBuilder) -> Result<reqwest::Client> {
    // Once per process. A second call finds the first provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = builder.no_proxy().timeout(Duration::from_secs(90));
    Ok(builder.build()?)
}

async fn read(response: reqwest::Response, url: &str) -> Result<Value> {
    let status = response.status();
    let body = response.text().await?;
    ensure!(status.is_success(), "{url} answered {status}: {body}");
    serde_json::from_str(&body).with_context(|| format!("{url} answered no JSON: {body}"))
}
