//! Brings a room's events to the store, in order and under its lease.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::HostCore;
use crate::id::{OutSeq, RoomId};
use crate::protocol::record::{Answer, Lease, OwnerAnswer, Request};

/// Events that may wait to be published before the room waits for them.
const MAX_PENDING: usize = 65_536;
/// Events in one request at most.
const BATCH: usize = 512;

pub(crate) struct Emitter {
    core: Weak<HostCore>,
    room: RoomId,
    lease: Lease,
    state: Mutex<State>,
    /// Told when nothing waits any more, for the one that waits for that: the room's runner.
    drained: Notify,
}

struct State {
    /// The number of the last event that is published.
    published: OutSeq,
    pending: VecDeque<Bytes>,
    pumping: bool,
}

impl Emitter {
    pub(crate) fn new(
        core: &Arc<HostCore>,
        room: RoomId,
        lease: Lease,
        published: OutSeq,
        pending: Vec<Bytes>,
    ) -> Arc<Self> {
        let emitter = Arc::new(Self {
            core: Arc::downgrade(core),
            room,
            lease,
            state: Mutex::new(State { published, pending: VecDeque::new(), pumping: false }),
            drained: Notify::new(),
        });
        emitter.emit(pending);
        emitter
    }

    /// Whether the room should wait before it emits more.
    pub(crate) fn is_full(&self) -> bool {
        self.state.lock().pending.len() >= MAX_PENDING
    }

    /// Waits until all that was emitted is published, or cannot be any more.
    pub(crate) async fn drained(&self) {
        while !self.state.lock().pending.is_empty() {
            self.drained.notified().await;
        }
    }

    /// The number of the last published event and those that wait after it.
    pub(crate) fn pending(&self) -> (OutSeq, Vec<Bytes>) {
        let state = self.state.lock();
        (state.published, state.pending.iter().cloned().collect())
    }

    pub(crate) fn emit(self: &Arc<Self>, events: impl IntoIterator<Item = Bytes>) {
        let start = {
            let mut state = self.state.lock();
            state.pending.extend(events);
            !state.pending.is_empty() && !std::mem::replace(&mut state.pumping, true)
        };
        if start && let Some(core) = self.core.upgrade() {
            let emitter = self.clone();
            core.clone().errand(async move { emitter.pump(&core).await });
        }
    }

    async fn pump(&self, core: &Arc<HostCore>) {
        loop {
            let (first, events): (OutSeq, Vec<Bytes>) = {
                let mut state = self.state.lock();
                if state.pending.is_empty() {
                    state.pumping = false;
                    self.drained.notify_one();
                    return;
                }
                let events = state.pending.iter().take(BATCH).cloned().collect();
                (state.published.next(), events)
            };
            let count = events.len();
            let request = Request::Emit { lease: self.lease.clone(), first, events };
            match core.execute(&self.room, request).await {
                Ok(Answer::Owner(OwnerAnswer::Done)) => {
                    let mut state = self.state.lock();
                    let count = count.min(state.pending.len());
                    state.pending.drain(..count);
                    state.published = OutSeq(state.published.0 + count as u64);
                }
                Ok(_) => {
                    // Fenced: the room is somebody else's, who publishes these events or others.
                    let mut state = self.state.lock();
                    state.pending.clear();
                    state.pumping = false;
                    self.drained.notify_one();
                    return;
                }
                // They travel with the room when it is re-asserted.
                Err(_) if core.is_stale(&self.room, &self.lease) => {
                    self.state.lock().pumping = false;
                    return;
                }
                Err(error) => {
                    tracing::debug!(room = %self.room, %error, "emit");
                    tokio::time::sleep(core.config.retry_interval).await;
                }
            }
        }
    }
}
