//! The files that a registry and its clients read.

use std::fs;
use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::{Access, RegistryOptions};
use crate::certificates::{CertificateAuthority, Identity};
use crate::token_service::TokenService;

/// Creates a CA and a server certificate for the registry.
pub(super) fn write_certificates(folder: &Path) -> Result<Identity> {
    let authority = CertificateAuthority::generate()?;
    authority.save(folder)?;
    let identity = authority.server(&["127.0.0.1", "localhost"])?;
    fs::write(folder.join("server.crt"), &identity.certificate)?;
    fs::write(folder.join("server.key"), &identity.key)?;
    Ok(identity)
}

/// Writes the configuration of the registry, without its address.
pub(super) fn write_config(
    folder: &Path,
    options: &RegistryOptions,
    tokens: Option<&TokenService>,
) -> Result<()> {
    let mut config = json!({
        "version": "0.1",
        "log": {"level": "info", "formatter": "json", "accesslog": {"disabled": false}},
        "storage": {
            "filesystem": {"rootdirectory": folder.join("data")},
            "delete": {"enabled": true},
        },
        "http": {"secret": "the same after a restart"},
    });
    if options.tls {
        config["http"]["tls"] = json!({"certificate": "server.crt", "key": "server.key"});
    }
    match (&options.access, tokens) {
        (Access::Basic { user, password }, _) => {
            // The lowest cost, because this password protects nothing.
            let hash =
                bcrypt::hash_with_result(password, 4)?.format_for_version(bcrypt::Version::TwoY);
            fs::write(folder.join("htpasswd"), format!("{user}:{hash}\n"))?;
            config["auth"] = json!({"htpasswd": {"realm": "testbed", "path": "htpasswd"}});
        }
        (_, Some(tokens)) => {
            fs::write(folder.join("jwks.json"), tokens.key_set().to_string())?;
            config["auth"] = json!({"token": tokens.registry_settings("jwks.json")});
        }
        _ => {}
    }
    fs::write(folder.join("config.json"), config.to_string())?;
    Ok(())
}

/// Writes the client configuration with the credentials.
pub(super) fn write_docker_config(
    folder: &Path,
    host: &str,
    credentials: Option<(&str, &str)>,
) -> Result<()> {
    let auths = match credentials {
        None => json!({}),
        Some((user, password)) => {
            json!({host: {"auth": BASE64.encode(format!("{user}:{password}"))}})
        }
    };
    fs::create_dir_all(folder)?;
    fs::write(
        folder.join("config.json"),
        json!({"auths": auths}).to_string(),
    )?;
    Ok(())
}
