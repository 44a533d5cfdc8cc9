//! A stream of what is published on some channels.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use tokio::sync::mpsc;

use super::push::PushLine;

/// What is published on some channels, as (channel, payload). It ends when the connection breaks or its
/// queue is full; dropping it unsubscribes.
pub(crate) struct Subscription {
    line: Arc<PushLine>,
    id: u64,
    received: mpsc::Receiver<(Bytes, Bytes)>,
}

impl Subscription {
    pub(super) fn new(
        line: Arc<PushLine>,
        id: u64,
        received: mpsc::Receiver<(Bytes, Bytes)>,
    ) -> Self {
        Self { line, id, received }
    }
}

impl Stream for Subscription {
    type Item = (Bytes, Bytes);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.received.poll_recv(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.line.dropped(self.id);
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("id", &self.id).finish_non_exhaustive()
    }
}
