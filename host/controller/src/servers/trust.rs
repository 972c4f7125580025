//! Verifies the certificate of a server by the Secret that the server mounts.
//!
//! A server is trusted if an authority in the Secret issued its certificate for its name, or if it
//! presents exactly the certificate of the Secret. The second rule is for Secrets without `ca.crt`: a
//! certificate of a private authority, or one that signed itself. The handshake proves that the server
//! has the private key.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

/// The public certificates of a TLS Secret, in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerCertificates {
    /// The content of `tls.crt`: the certificate of the server, and perhaps its chain.
    pub(crate) serving: Vec<u8>,
    /// The content of `ca.crt`.
    pub(crate) authorities: Vec<u8>,
}

impl ServerCertificates {
    /// The TLS settings of a client that trusts these certificates. `None` if there is none.
    pub(crate) fn client_config(&self) -> Option<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new(self, &provider)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Some(config)
    }
}

#[derive(Debug)]
struct Verifier {
    /// The first certificate of `tls.crt`.
    serving: Option<CertificateDer<'static>>,
    by_authority: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    fn new(certificates: &ServerCertificates, provider: &Arc<CryptoProvider>) -> Option<Self> {
        let read = |pem| CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        let serving: Vec<_> = read(&certificates.serving).collect();
        let mut roots = RootCertStore::empty();
        for certificate in serving
            .iter()
            .cloned()
            .chain(read(&certificates.authorities))
        {
            // A certificate that cannot be an authority can still be the server's own.
            let _ = roots.add(certificate);
        }
        let by_authority =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        Some(Self {
            serving: serving.into_iter().next(),
            by_authority: by_authority.build().ok()?,
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.by_authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The validity is checked before the issuer, so it holds in the second case.
            Err(error) if !is_validity(&error) && self.serving.as_ref() == Some(end_entity) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Whether a certificate was rejected because of its period of validity.
pub(super) fn is_validity(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(error) = error else {
        return false;
    };
    matches!(
        error,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
    )
}
