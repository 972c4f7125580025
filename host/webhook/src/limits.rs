//! The budgets of the webhook server: what anyone in the cluster's network can make it hold.
//!
//! The API server authenticates to webhooks only if it is configured to, so every pod that reaches the port
//! can send requests. `docs/security.md` lists the budgets in one table with those of other crates.

use std::time::Duration;

/// The size of an `AdmissionReview`: the old and the new object, each up to the size limit of etcd, with
/// a margin.
pub const ADMISSION_BYTES: usize = 8 << 20;

/// The time to receive the body of a request. The API server sends it from memory.
pub const BODY_TIME: Duration = Duration::from_secs(5);

/// The time to compute a response. The API server waits ten seconds by default, and thirty at most.
pub const RESPONSE_TIME: Duration = Duration::from_secs(10);

/// The limits of connections and requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Open connections.
    pub(crate) connections: usize,
    /// Open connections from one address, so that one pod cannot use all of them.
    pub(crate) connections_per_address: usize,
    /// The size of an `AdmissionReview`.
    pub(crate) admission_bytes: usize,
    /// The size of a `ConversionReview`.
    pub(crate) conversion_bytes: usize,
    /// The size of all reviews together that are larger than [`Self::small_bytes`].
    pub(crate) large_bytes: usize,
    /// Reviews up to this size are always read.
    pub(crate) small_bytes: usize,
    /// The duration of the TLS handshake.
    pub(crate) handshake: Duration,
    /// The time from the handshake to the first byte of a request.
    pub(crate) first_byte: Duration,
    /// The time from the first byte of a request to the first byte of its response.
    pub(crate) request: Duration,
    /// The time from a response to the first byte of the next request.
    pub(crate) idle: Duration,
    /// The time to receive the body.
    pub(crate) body: Duration,
    /// The time to compute the response.
    pub(crate) response: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // An API server has one connection, or a few if it does not use HTTP/2.
            connections: 512,
            connections_per_address: 128,
            admission_bytes: ADMISSION_BYTES,
            // A list is converted in one review: 500 resources of 64 KiB each.
            conversion_bytes: 32 << 20,
            large_bytes: 64 << 20,
            small_bytes: 256 << 10,
            handshake: Duration::from_secs(5),
            first_byte: Duration::from_secs(10),
            // The body and the response, with a margin.
            request: Duration::from_secs(30),
            // The API server reuses a connection for 90 seconds.
            idle: Duration::from_secs(120),
            body: BODY_TIME,
            response: RESPONSE_TIME,
        }
    }
}
