//! Explains why a request to a server failed, without addresses and numbers, which may change from one
//! request to the next.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::CertificateError;

use super::trust::is_validity;

pub(super) const TIMED_OUT: &str = "the server did not respond in time";

/// The problem of a failed request.
pub(super) fn problem(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        return TIMED_OUT;
    }
    if error.is_dns() {
        return "failed to resolve the name of the Service; check the DNS of the cluster";
    }
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(problem) = problem_of(cause) {
            return problem;
        }
        next = cause.source();
    }
    if error.is_connect() {
        "failed to connect to the server"
    } else {
        "the connection ended early"
    }
}

fn problem_of(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some(tls_problem(error));
    }
    let error = cause.downcast_ref::<io::Error>()?;
    // TLS errors are wrapped in an I/O error.
    if let Some(inner) = error.get_ref() {
        return problem_of(inner);
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(
            "the connection was refused: no pod listens on the port, or a NetworkPolicy rejects the operator",
        ),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            Some("the Service is not reachable from the operator")
        }
        ErrorKind::TimedOut => Some(TIMED_OUT),
        _ => None,
    }
}

fn tls_problem(error: &rustls::Error) -> &'static str {
    match error {
        error if is_validity(error) => {
            "the certificate of the server has expired or is not valid yet"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "the certificate of the server is not valid for the name of its Service",
        rustls::Error::InvalidCertificate(_) => {
            "the certificate of the server is not the one in its Secret, and no authority in the Secret issued it"
        }
        rustls::Error::InvalidMessage(_) => "the server does not use TLS on this port",
        _ => "the TLS handshake failed",
    }
}

#[cfg(test)]
mod tests {
    use reqwest::dns::{Name, Resolve, Resolving};

    use super::*;

    struct NoNames;

    impl Resolve for NoNames {
        fn resolve(&self, _: Name) -> Resolving {
            Box::pin(async { Err("no such name".into()) })
        }
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_resolved_is_told_apart() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .dns_resolver(std::sync::Arc::new(NoNames))
            .build()
            .expect("a client");
        let url = "http://demo-service.ns.svc.cluster.local:8321";
        let error = client.get(url).send().await.expect_err("no address");
        assert!(problem(&error).contains("resolve the name"), "{error:?}");
    }
}
