//! Serves a certificate that another program writes to a folder and publishes to the API server, such as the
//! Operator Lifecycle Manager.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;

use crate::cert_rotation::{Error, ServingCert, tls_config};

/// How often the files are read. The kubelet needs about a minute to change them.
const INTERVAL: Duration = Duration::from_secs(30);

/// A folder with `tls.crt` and `tls.key`.
pub(crate) struct CertFolder(pub(crate) PathBuf);

impl CertFolder {
    /// Reads the certificate.
    pub(crate) fn read(&self) -> Result<ServingCert, Error> {
        let invalid = |reason: String| Error::InvalidFile {
            folder: self.0.display().to_string(),
            reason,
        };
        let read = |name: &str| {
            let path: &Path = &self.0.join(name);
            std::fs::read_to_string(path).map_err(|error| invalid(format!("{name}: {error}")))
        };
        let (certificate, key) = (read("tls.crt")?, read("tls.key")?);
        let tls_config = tls_config(&certificate, &key).map_err(invalid)?;
        Ok(ServingCert {
            tls_config: Arc::new(tls_config),
            ca_bundle: None,
            certificate,
            next_check: INTERVAL,
        })
    }

    /// Reads the certificate again and again. A new one is used for new connections.
    pub(crate) async fn run(self, tls: RustlsConfig, first: ServingCert) {
        let mut certificate = first.certificate;
        loop {
            tokio::time::sleep(INTERVAL).await;
            match self.read() {
                Ok(cert) if cert.certificate != certificate => {
                    tls.reload_from_config(cert.tls_config);
                    tracing::info!("serving a new webhook certificate");
                    certificate = cert.certificate;
                }
                Ok(_) => {}
                // The one before is served meanwhile.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "failed to read the webhook certificate");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_read_from_its_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let read = || CertFolder(folder.path().to_owned()).read();
        let issued = rcgen::generate_simple_self_signed(["webhook.test".to_owned()]).unwrap();
        write("tls.crt", &issued.cert.pem());
        let error = read().err().unwrap().to_string();
        assert!(error.contains("tls.key"), "{error}");
        write("tls.key", &issued.signing_key.serialize_pem());
        assert_eq!(read().unwrap().certificate, issued.cert.pem());
        write("tls.key", "nothing");
        assert!(read().is_err());
    }
}
