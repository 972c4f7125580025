//! A token server for the token authentication of the registry.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;

use super::{PASSWORD, USER};

/// A refresh token that the server accepts instead of the password.
pub(crate) const REFRESH: &str = "refresh-canary";

pub(crate) struct TokenServer {
    pub(crate) address: String,
    pub(crate) certificate_pem: String,
    issued: Arc<AtomicUsize>,
}

impl TokenServer {
    pub(crate) fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["tokens".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let issued = Arc::new(AtomicUsize::new(0));
        let (count, der) = (Arc::clone(&issued), certificate.der().to_vec());
        // A thread and not a task: tests block while crane runs, and crane calls this server.
        std::thread::spawn(move || {
            while let Ok((mut socket, _)) = listener.accept() {
                let mut buffer = vec![0; 16 << 10];
                let read = socket.read(&mut buffer).unwrap_or(0);
                let request = String::from_utf8_lossy(&buffer[..read]).into_owned();
                let response = match token_for(&request, &key, &der) {
                    Some(token) => {
                        count.fetch_add(1, Ordering::SeqCst);
                        let body = json!({"token": token, "expires_in": 300}).to_string();
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    }
                    None => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
                };
                let _ = socket.write_all(response.as_bytes());
            }
        });
        Self {
            address,
            certificate_pem: certificate.pem(),
            issued,
        }
    }

    /// The realm, with a host name because crane refuses a loopback address.
    pub(crate) fn realm(&self) -> String {
        format!("http://{}/token", self.host())
    }

    pub(crate) fn host(&self) -> String {
        self.address.replace("127.0.0.1", "localhost")
    }

    /// The number of issued tokens.
    pub(crate) fn issued(&self) -> usize {
        self.issued.load(Ordering::SeqCst)
    }
}

/// A token for the requested scope, if the credential is correct.
fn token_for(request: &str, key: &KeyPair, certificate: &[u8]) -> Option<String> {
    let (head, body) = request.split_once("\r\n\r\n")?;
    let line = head.lines().next()?;
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let header = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("authorization")
            .then(|| value.to_owned())
    };
    let authorization = head.lines().find_map(header);
    let form: Vec<(String, String)> = match line.starts_with("POST") {
        true => url::form_urlencoded::parse(body.as_bytes())
            .into_owned()
            .collect(),
        false => {
            let target = format!("http://x{}", line.split(' ').nth(1)?);
            target
                .parse::<url::Url>()
                .ok()?
                .query_pairs()
                .into_owned()
                .collect()
        }
    };
    let field = |name: &str| {
        form.iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    };
    let is_refresh =
        field("grant_type") == Some("refresh_token") && field("refresh_token") == Some(REFRESH);
    if authorization != Some(basic) && !is_refresh {
        return None;
    }
    let mut scope = field("scope")?.splitn(3, ':');
    let (kind, name, actions) = (scope.next()?, scope.next()?, scope.next()?);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(certificate)]});
    let claims = json!({"iss": "test", "sub": USER, "aud": field("service")?, "exp": now + 300,
        "nbf": now - 10, "iat": now, "jti": fastrand::u64(..).to_string(),
        "access": [{"type": kind, "name": name, "actions": actions.split(',').collect::<Vec<_>>()}]});
    let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(header), encode(claims));
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, &key.serialize_der(), &random).unwrap();
    let signature = pair.sign(&random, signed.as_bytes()).unwrap();
    Some(format!(
        "{signed}.{}",
        URL_SAFE_NO_PAD.encode(signature.as_ref())
    ))
}
