//! Limits connections: how many are open, and how long each may wait.
//!
//! The HTTP library reads the first bytes of a connection without a timeout, to tell HTTP/2 from HTTP/1, and
//! has no timeout for an HTTP/2 client that sends a request byte by byte. [`Timed`] is below it, so it covers
//! both protocols: after the first byte of a request, the response must begin within a time limit.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum_server::accept::Accept;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::Limits;

/// Accepts a connection with another acceptor, if its address may have one more.
#[derive(Clone)]
pub(super) struct LimitedAcceptor<A> {
    inner: A,
    open: Arc<Mutex<Counts>>,
    limits: Limits,
}

impl<A> LimitedAcceptor<A> {
    pub(super) fn new(inner: A, limits: Limits) -> Self {
        Self {
            inner,
            open: Arc::default(),
            limits,
        }
    }
}

impl<A, S> Accept<TcpStream, S> for LimitedAcceptor<A>
where
    A: Accept<TcpStream, S> + Clone + Send + 'static,
    A::Future: Send,
    A::Stream: Send,
    S: Send + 'static,
{
    type Stream = Timed<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let slot = stream
            .peer_addr()
            .and_then(|peer| Slot::take(&self.open, peer.ip().to_canonical(), &self.limits));
        let (inner, limits) = (self.inner.clone(), self.limits);
        Box::pin(async move {
            let slot = slot?;
            let (stream, service) = inner.accept(stream, service).await?;
            Ok((Timed::new(stream, slot, limits), service))
        })
    }
}

/// The open connections.
#[derive(Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The place of one open connection, which is free again when it is dropped.
struct Slot {
    open: Arc<Mutex<Counts>>,
    address: IpAddr,
}

impl Slot {
    fn take(open: &Arc<Mutex<Counts>>, address: IpAddr, limits: &Limits) -> io::Result<Self> {
        let mut counts = open.lock();
        let of_address = counts.by_address.get(&address).copied().unwrap_or_default();
        if counts.all >= limits.connections || of_address >= limits.connections_per_address {
            tracing::debug!(%address, of_address, all = counts.all, "too many connections to the webhooks");
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        counts.all += 1;
        counts.by_address.insert(address, of_address + 1);
        Ok(Self {
            open: open.clone(),
            address,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.open.lock();
        counts.all -= 1;
        if let Some(of_address) = counts.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

/// A connection that fails when its client takes too long.
pub(super) struct Timed<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    /// Whether bytes of a request have arrived since the last response.
    in_request: bool,
    limits: Limits,
    _slot: Slot,
}

impl<S> Timed<S> {
    fn new(stream: S, slot: Slot, limits: Limits) -> Self {
        Self {
            stream,
            deadline: Box::pin(sleep(limits.first_byte)),
            in_request: false,
            limits,
            _slot: slot,
        }
    }

    fn received(&mut self) {
        if !self.in_request {
            self.in_request = true;
            self.deadline
                .as_mut()
                .reset(Instant::now() + self.limits.request);
        }
    }

    fn sent(&mut self) {
        self.in_request = false;
        self.deadline
            .as_mut()
            .reset(Instant::now() + self.limits.idle);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            let is_late = self.deadline.as_mut().poll(context).is_ready();
            return if is_late {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            } else {
                Poll::Pending
            };
        }
        if buffer.filled().len() > before {
            self.received();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.sent();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.sent();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
