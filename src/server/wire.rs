//! A connection's bytes, with what was read of them before, and counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What went over a connection.
#[derive(Default)]
pub(super) struct Traffic {
    received: AtomicUsize,
    sent: AtomicUsize,
    blocked: AtomicBool,
}

impl Traffic {
    /// Bytes received.
    pub(super) fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }

    /// Bytes sent.
    pub(super) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether there are bytes to send that the peer leaves no room for.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }
}

/// A stream that counts its bytes, and gives first those that were read before.
pub(super) struct Counted<T> {
    io: T,
    before: Vec<u8>,
    given: usize,
    traffic: Arc<Traffic>,
}

impl<T> Counted<T> {
    pub(super) fn new(io: T, before: Vec<u8>) -> (Counted<T>, Arc<Traffic>) {
        let traffic = Arc::new(Traffic::default());
        let counted = Counted {
            io,
            before,
            given: 0,
            traffic: Arc::clone(&traffic),
        };
        (counted, traffic)
    }

    fn count_sent(&self, polled: &Poll<io::Result<usize>>) {
        self.traffic
            .blocked
            .store(polled.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(sent)) = polled {
            self.traffic.sent.fetch_add(*sent, Ordering::Relaxed);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let this = &mut *self;
        let polled = match this.before.get(this.given..) {
            Some(rest) if !rest.is_empty() => {
                let (give, _) = rest.split_at(rest.len().min(buffer.remaining()));
                buffer.put_slice(give);
                this.given += give.len();
                Poll::Ready(Ok(()))
            }
            _ => Pin::new(&mut this.io).poll_read(context, buffer),
        };
        self.traffic
            .received
            .fetch_add(buffer.filled().len() - filled, Ordering::Relaxed);
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, bytes);
        self.count_sent(&polled);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, bytes);
        self.count_sent(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
