//! Errors of requests to a registry.
//!
//! Every message names the registry, repository, manifest or blob (`at`), what was wrong and what to
//! do. No message contains a credential, a token or the query of a URL.

use std::sync::Arc;
use std::time::Duration;

use crate::digest::Digest;
use crate::guard::Blocked;

/// A failed request to a registry. Cheap to clone, because several callers may wait for one request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The guard blocked an address.
    #[error("{at}: the request was blocked")]
    Blocked {
        /// The requested manifest or blob.
        at: String,
        /// The blocked address.
        #[source]
        source: Blocked,
    },
    /// No connection, or a connection that failed before the response.
    #[error(
        "{at}: failed to connect to the registry; check the host name, the network and the proxy settings"
    )]
    Unreachable {
        /// The requested manifest or blob.
        at: String,
        /// The error of the HTTP client.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The TLS certificate of the registry is not trusted.
    #[error(
        "{at}: the TLS certificate of the registry is not trusted; add the CA that issued it to the \
         registry CA bundle"
    )]
    Untrusted {
        /// The requested manifest or blob.
        at: String,
        /// The error of the certificate check.
        #[source]
        source: Arc<rustls::Error>,
    },
    /// The response did not arrive in time.
    #[error(
        "{at}: no complete response within {limit:?}; check the load of the registry and the network"
    )]
    TimedOut {
        /// The requested manifest or blob.
        at: String,
        /// The time limit.
        limit: Duration,
    },
    /// The connection closed before the end of the response.
    #[error(
        "{at}: the connection closed after {received} bytes, before the end of the response; check \
         the registry and any proxy in front of it"
    )]
    ConnectionLost {
        /// The requested manifest or blob.
        at: String,
        /// Number of bytes received.
        received: u64,
    },
    /// The registry denied access with this credential, or without one.
    #[error(
        "{at}: the registry denied access with {credential}; use a pull secret whose entry for this \
         registry may pull this repository"
    )]
    Unauthorized {
        /// The requested manifest or blob.
        at: String,
        /// Where the credential comes from, never its value.
        credential: String,
    },
    /// The registry has no such repository, tag or digest.
    #[error("{at}: not found in the registry; check the repository and the tag or digest")]
    NotFound {
        /// The requested manifest or blob.
        at: String,
    },
    /// The rate limit of the registry is exceeded.
    #[error(
        "{at}: the rate limit of the registry is exceeded (HTTP 429{}); use a credential with a \
         higher limit, or a mirror",
        .retry_after.map(|wait| format!(", retry after {wait:?}")).unwrap_or_default()
    )]
    TooManyRequests {
        /// The requested manifest or blob.
        at: String,
        /// The value of `Retry-After`, if it is a number of seconds.
        retry_after: Option<Duration>,
    },
    /// The registry failed with a server error.
    #[error(
        "{at}: the registry returned HTTP {status}; check the health and the log of the registry"
    )]
    ServerError {
        /// The requested manifest or blob.
        at: String,
        /// The HTTP status.
        status: u16,
    },
    /// The registry refused the request.
    #[error("{at}: the registry refused the request with HTTP {status}: {message}")]
    Refused {
        /// The requested manifest or blob.
        at: String,
        /// The HTTP status.
        status: u16,
        /// The message of the registry, shortened.
        message: String,
    },
    /// The content does not match its digest.
    #[error(
        "{at}: the received content has digest {found}; the registry, or a proxy in front of it, \
         serves wrong content"
    )]
    DigestMismatch {
        /// The requested manifest or blob, which ends with the expected digest.
        at: String,
        /// The digest of the received content.
        found: Digest,
    },
    /// The content has another length than its descriptor says.
    #[error(
        "{at}: expected {expected} bytes, got {found}; the registry, or a proxy in front of it, \
         serves wrong content"
    )]
    WrongLength {
        /// The requested manifest or blob.
        at: String,
        /// The size in the descriptor.
        expected: u64,
        /// The size announced or received.
        found: u64,
    },
    /// The content is larger than the limit.
    #[error("{at}: larger than the limit of {limit} bytes; make it smaller")]
    TooLarge {
        /// The requested manifest or blob.
        at: String,
        /// The limit.
        limit: u64,
    },
    /// The response does not follow the distribution protocol.
    #[error("{at}: unexpected response from the registry: {problem}")]
    UnexpectedResponse {
        /// The requested manifest or blob.
        at: String,
        /// What is wrong with the response.
        problem: String,
    },
    /// The settings are invalid, so no client can be built.
    #[error("invalid registry settings: {problem}")]
    Settings {
        /// What is wrong with them.
        problem: String,
    },
}

/// The longest part of a message that quotes what someone else wrote.
const MAX_QUOTED_BYTES: usize = 1 << 10;

/// Truncates a message of a parser, which may quote a value of any size.
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > MAX_QUOTED_BYTES {
        text.truncate(text.floor_char_boundary(MAX_QUOTED_BYTES));
        text.push('…');
    }
    text
}

/// Formats an error and its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

impl Error {
    /// Whether a retry of the same request may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::ConnectionLost { .. }
            | Self::TooManyRequests { .. }
            | Self::ServerError { .. } => true,
            Self::Blocked { .. }
            | Self::Untrusted { .. }
            | Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::DigestMismatch { .. }
            | Self::WrongLength { .. }
            | Self::TooLarge { .. }
            | Self::UnexpectedResponse { .. }
            | Self::Settings { .. } => false,
        }
    }

    /// Whether another credential may give another result.
    pub(crate) fn is_about_access(&self) -> bool {
        // Some registries return 404 for repositories that a credential may not read.
        matches!(self, Self::Unauthorized { .. } | Self::NotFound { .. })
    }

    /// The reason for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Blocked { .. } => "FetchBlocked",
            Self::Unreachable { .. } => "RegistryUnreachable",
            Self::Untrusted { .. } => "CertificateUntrusted",
            Self::TimedOut { .. } => "RegistryTimeout",
            Self::ConnectionLost { .. } => "ConnectionLost",
            Self::Unauthorized { .. } => "AuthFailed",
            Self::NotFound { .. } => "NotFound",
            Self::TooManyRequests { .. } => "RateLimited",
            Self::ServerError { .. } => "RegistryFailed",
            Self::Refused { .. } => "RegistryRefused",
            Self::DigestMismatch { .. } => "DigestMismatch",
            Self::WrongLength { .. } => "WrongLength",
            Self::TooLarge { .. } => "TooLarge",
            Self::UnexpectedResponse { .. } => "BadAnswer",
            Self::Settings { .. } => "BadSettings",
        }
    }
}

/// Converts an error of the HTTP client. `limit` is the time limit to report for a timeout.
pub(crate) fn from_transport(at: &str, error: reqwest::Error, limit: Duration) -> Error {
    let at = at.to_owned();
    if let Some(source) = find::<Blocked>(&error) {
        return Error::Blocked {
            at,
            source: source.clone(),
        };
    }
    if let Some(source) = find::<rustls::Error>(&error)
        && matches!(source, rustls::Error::InvalidCertificate(_))
    {
        return Error::Untrusted {
            at,
            source: Arc::new(source.clone()),
        };
    }
    if error.is_timeout() {
        return Error::TimedOut { at, limit };
    }
    // After a redirect the URL may contain a signed query.
    Error::Unreachable {
        at,
        source: Arc::new(error.without_url()),
    }
}

/// Finds a cause of type `T`. `io::Error::source` skips the wrapped error, so `get_ref` is used for it.
fn find<'a, T: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(|io| io.get_ref());
        if let Some(found) = wrapped.and_then(|inner| find::<T>(inner)) {
            return Some(found);
        }
        next = error.source();
    }
    None
}
