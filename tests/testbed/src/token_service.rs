//! The token service of a registry: gives signed tokens for a name and password.
//!
//! It answers as the registry specification asks: `GET /token?service=…&scope=…` with basic
//! authentication gives a JSON Web Token that lists what its holder may do.

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

/// A running token service; it ends when dropped.
#[derive(Debug)]
pub(crate) struct TokenService {
    address: String,
    rules: Arc<Rules>,
    task: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug)]
struct Rules {
    key: KeyPair,
    /// The value of the header that the right name and password make.
    authorization: String,
    anonymous_pull: bool,
    issued: AtomicU64,
}

impl TokenService {
    /// With an identity it serves HTTPS, as clients demand when the registry does.
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
        // Clients refuse a service whose address is a loopback literal; a name is fine.
        let address = format!(
            "{scheme}://localhost:{}/token",
            listener.local_addr()?.port()
        );
        let router = Router::new()
            .route("/token", get(give_token))
            .with_state(Arc::clone(&rules))
            .into_make_service();
        let task = match identity {
            None => {
                let server = axum_server::from_tcp(listener)?;
                tokio::spawn(server.serve(router))
            }
            Some(Identity { certificate, key }) => {
                // An error means that a provider is installed already.
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

    /// The public key, for the registry to check tokens with.
    pub(crate) fn key_set(&self) -> Value {
        let public = BASE64_URL.encode(self.rules.key.public_key_raw());
        json!({"keys": [{
            "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": KEY_ID, "x": public,
        }]})
    }

    /// What the registry has to be told.
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

async fn give_token(
    State(rules): State<Arc<Rules>>,
    Query(query): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    let is_known = match headers.get(header::AUTHORIZATION) {
        None if rules.anonymous_pull => false,
        Some(sent) if sent.as_bytes() == rules.authorization.as_bytes() => true,
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    let scopes = query.iter().filter(|(name, _)| name == "scope");
    let access = scopes
        .flat_map(|(_, value)| value.split(' '))
        .filter_map(|s| grant(s, is_known));
    let token = rules
        .sign(&json!(access.collect::<Vec<_>>()))
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    rules.issued.fetch_add(1, Ordering::Relaxed);
    Ok(Json(
        json!({"token": token, "access_token": token, "expires_in": 300}),
    ))
}

/// What `repository:name:pull,push` grants: everything to who is known, pulling to everyone else.
fn grant(scope: &str, is_known: bool) -> Option<Value> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    let actions: Vec<&str> = actions
        .split(',')
        .filter(|a| is_known || *a == "pull")
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
    fn a_stranger_is_granted_pulling_only() {
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
