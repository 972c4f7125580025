//! The token service of a registry: issues signed tokens for a user name and password.
//!
//! It implements the token protocol of the distribution project: `GET /token?service=…&scope=…` with
//! basic authentication returns a JSON Web Token that lists the allowed actions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD as BASE64_URL};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::certificates::Identity;

const SERVICE: &str = "testbed-registry";
const ISSUER: &str = "testbed-tokens";
const KEY_ID: &str = "testbed-key";

/// A running token service. It stops when dropped.
#[derive(Debug)]
pub(crate) struct TokenService {
    address: String,
    rules: Arc<Rules>,
    task: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug)]
struct Rules {
    key: KeyPair,
    /// The expected `Authorization` header.
    authorization: String,
    anonymous_pull: bool,
    issued: AtomicU64,
}

impl TokenService {
    /// Starts the service. With an identity it serves HTTPS, which clients require if the registry
    /// does.
    pub(crate) async fn start(
        user: &str,
        password: &str,
        anonymous_pull: bool,
        identity: Option<&Identity>,
    ) -> Result<Self> {
        let rules = Arc::new(Rules {
            key: KeyPair::generate_for(&PKCS_ED25519)?,
            authorization: format!("Basic {}", BASE64.encode(format!("{user}:{password}"))),
            anonymous_pull,
            issued: AtomicU64::new(0),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let scheme = if identity.is_some() { "https" } else { "http" };
        // Clients reject a token service whose host is a loopback address, but accept a name.
        let address = format!(
            "{scheme}://localhost:{}/token",
            listener.local_addr()?.port()
        );
        let router = Router::new()
            .route("/token", get(issue_token))
            .with_state(Arc::clone(&rules))
            .into_make_service();
        let task = match identity {
            None => {
                let server = axum_server::from_tcp(listener)?;
                tokio::spawn(server.serve(router))
            }
            Some(Identity { certificate, key }) => {
                // An error means that a crypto provider is installed already.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let (certificate, key) = (certificate.clone(), key.clone());
                let tls = RustlsConfig::from_pem(certificate.into(), key.into()).await?;
                tokio::spawn(axum_server::from_tcp_rustls(listener, tls)?.serve(router))
            }
        };
        Ok(Self {
            address,
            rules,
            task,
        })
    }

    /// The public key with which the registry verifies tokens.
    pub(crate) fn key_set(&self) -> Value {
        let public = BASE64_URL.encode(self.rules.key.public_key_raw());
        json!({"keys": [{
            "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": KEY_ID, "x": public,
        }]})
    }

    /// The `auth.token` section of the registry's configuration.
    pub(crate) fn registry_settings(&self, key_set_file: &str) -> Value {
        json!({"realm": self.address, "service": SERVICE, "issuer": ISSUER, "jwks": key_set_file})
    }

    pub(crate) fn issued(&self) -> u64 {
        self.rules.issued.load(Ordering::Relaxed)
    }
}

impl Drop for TokenService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn issue_token(
    State(rules): State<Arc<Rules>>,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    let is_authenticated = match headers.get(header::AUTHORIZATION) {
        None if rules.anonymous_pull => false,
        Some(sent) if sent.as_bytes() == rules.authorization.as_bytes() => true,
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    let scopes = query.iter().filter(|(name, _)| name == "scope");
    let access = scopes
        .flat_map(|(_, value)| value.split(' '))
        .filter_map(|s| grant(s, is_authenticated));
    let token = rules
        .sign(&json!(access.collect::<Vec<_>>()))
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    rules.issued.fetch_add(1, Ordering::Relaxed);
    Ok(Json(
        json!({"token": token, "access_token": token, "expires_in": 300}),
    ))
}

/// The actions granted for a scope such as `repository:name:pull,push`: all of them to an
/// authenticated client, only `pull` to others.
fn grant(scope: &str, is_authenticated: bool) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    let actions: Vec<&str> = actions
        .split(',')
        .filter(|a| is_authenticated || *a == "pull")
        .collect();
    Some(json!({"type": kind, "name": name, "actions": actions}))
}

impl Rules {
    fn sign(&self, access: &Value) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": KEY_ID});
        let claims = json!({
            "iss": ISSUER, "sub": "testbed", "aud": SERVICE,
            "iat": now, "nbf": now, "exp": now + 300,
            "jti": self.issued.load(Ordering::Relaxed).to_string(),
            "access": access,
        });
        let encode = |value: &Value| BASE64_URL.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self.key.sign(signed.as_bytes())?;
        Ok(format!("{signed}.{}", BASE64_URL.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unauthenticated_client_is_granted_only_pull() {
        assert_eq!(
            grant("repository:team/app:pull,push", false).unwrap(),
            json!({"type": "repository", "name": "team/app", "actions": ["pull"]})
        );
        assert_eq!(
            grant("repository:a:pull,push", true).unwrap()["actions"],
            json!(["pull", "push"])
        );
        assert_eq!(grant("nonsense", true), None);
    }
}
