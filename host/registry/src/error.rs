//! What can go wrong between this process and a registry.
//!
//! Every variant names the place (`at`: a registry, repository, manifest or blob) and who can mend it.
//! No message holds a credential, a token or the query of a URL.

use std::sync::Arc;
use std::time::Duration;

use crate::digest::Digest;
use crate::guard::Blocked;

/// A failed conversation with a registry. Cheap to clone, since one failure may have many waiters.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The guard refused an address.
    #[error("{at}: an address on the way was refused")]
    Blocked {
        /// What was asked for.
        at: String,
        /// The hop that was refused.
        #[source]
        source: Blocked,
    },
    /// No connection, or it broke.
    #[error(
        "{at}: could not reach the registry; check the name, the network and the proxy settings"
    )]
    Unreachable {
        /// What was asked for.
        at: String,
        /// The transport's own words.
        #[source]
        source: Arc<reqwest::Error>,
    },
    /// The other side is not who it says it is, as far as we can tell.
    #[error(
        "{at}: its certificate is not trusted; add the authority that signed it to the registry CA bundle"
    )]
    Untrusted {
        /// What was asked for.
        at: String,
        /// What the certificate check said.
        #[source]
        source: Arc<rustls::Error>,
    },
    /// Nothing, or not enough, came in time.
    #[error("{at}: no complete answer within {limit:?}; the registry or the network is too slow")]
    TimedOut {
        /// What was asked for.
        at: String,
        /// The limit that was hit.
        limit: Duration,
    },
    /// The connection ended before the announced end.
    #[error("{at}: the answer ended early ({received} bytes received)")]
    CutShort {
        /// What was asked for.
        at: String,
        /// How much came.
        received: u64,
    },
    /// The credential (or its absence) was refused.
    #[error(
        "{at}: access refused with {credential}; give a pull secret whose entry for this registry may pull \
         this repository"
    )]
    Unauthorized {
        /// What was asked for.
        at: String,
        /// Where the credential came from, never its value.
        credential: String,
    },
    /// It is not there.
    #[error("{at}: not found; check the name and the tag or digest")]
    NotFound {
        /// What was asked for.
        at: String,
    },
    /// The registry wants to be asked less often.
    #[error(
        "{at}: the registry asks for a pause (429); use a credential with a higher limit or a mirror"
    )]
    TooManyRequests {
        /// What was asked for.
        at: String,
        /// How long a pause it asked for, when it said so in seconds.
        retry_after: Option<Duration>,
    },
    /// The registry failed.
    #[error("{at}: the registry failed with status {status}")]
    Failed {
        /// What was asked for.
        at: String,
        /// The HTTP status.
        status: u16,
    },
    /// The registry said no for a reason of its own.
    #[error("{at}: the registry refused with status {status}: {message}")]
    Refused {
        /// What was asked for.
        at: String,
        /// The HTTP status.
        status: u16,
        /// The registry's own message, shortened.
        message: String,
    },
    /// The bytes are not the ones that were named.
    #[error(
        "{at}: the bytes have digest {found}; the registry or something before it serves wrong content"
    )]
    DigestMismatch {
        /// What was asked for.
        at: String,
        /// What came.
        found: Digest,
    },
    /// More or fewer bytes than announced.
    #[error("{at}: {found} bytes where {expected} were announced")]
    WrongLength {
        /// What was asked for.
        at: String,
        /// From the descriptor.
        expected: u64,
        /// What came, or was about to come.
        found: u64,
    },
    /// Larger than we are willing to read.
    #[error("{at}: larger than the limit of {limit} bytes")]
    TooLarge {
        /// What was asked for.
        at: String,
        /// The limit.
        limit: u64,
    },
    /// The registry answered something that is not the protocol.
    #[error("{at}: the registry's answer makes no sense: {problem}")]
    BadAnswer {
        /// What was asked for.
        at: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The settings of this process do not allow a client to be built.
    #[error("registry settings: {problem}")]
    Settings {
        /// What is wrong with them.
        problem: String,
    },
}

/// An error and its causes on one line, for places that have only one.
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
    /// Whether the same request may well succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::CutShort { .. }
            | Self::TooManyRequests { .. }
            | Self::Failed { .. } => true,
            Self::Blocked { .. }
            | Self::Untrusted { .. }
            | Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::DigestMismatch { .. }
            | Self::WrongLength { .. }
            | Self::TooLarge { .. }
            | Self::BadAnswer { .. }
            | Self::Settings { .. } => false,
        }
    }

    /// Whether another credential might have been answered differently.
    pub(crate) fn is_about_access(&self) -> bool {
        // Some registries hide what a credential may not see.
        matches!(self, Self::Unauthorized { .. } | Self::NotFound { .. })
    }

    /// One word for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Blocked { .. } => "FetchBlocked",
            Self::Unreachable { .. } => "RegistryUnreachable",
            Self::Untrusted { .. } => "CertificateUntrusted",
            Self::TimedOut { .. } => "RegistryTimeout",
            Self::CutShort { .. } => "ConnectionLost",
            Self::Unauthorized { .. } => "AuthFailed",
            Self::NotFound { .. } => "NotFound",
            Self::TooManyRequests { .. } => "RateLimited",
            Self::Failed { .. } => "RegistryFailed",
            Self::Refused { .. } => "RegistryRefused",
            Self::DigestMismatch { .. } => "DigestMismatch",
            Self::WrongLength { .. } => "WrongLength",
            Self::TooLarge { .. } => "TooLarge",
            Self::BadAnswer { .. } => "BadAnswer",
            Self::Settings { .. } => "BadSettings",
        }
    }
}

/// Sorts an error of the HTTP client into ours. `limit` is the one to name for a time-out.
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
    // The address may carry a signed query after a redirect.
    Error::Unreachable {
        at,
        source: Arc::new(error.without_url()),
    }
}

/// Looks for a cause of one type. `io::Error` hides what it wraps from `source`, so it is opened.
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
