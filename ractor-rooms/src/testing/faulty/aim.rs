//! Faults that wait for one call.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether a fault's call has come, and whether it may go on.
#[derive(Debug)]
pub(super) struct Gate {
    hit: watch::Sender<bool>,
    carried_out: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            hit: watch::Sender::new(false),
            carried_out: watch::Sender::new(false),
            open: watch::Sender::new(false),
        })
    }

    pub(super) fn hit(&self) {
        self.hit.send_replace(true);
    }

    pub(super) fn carried_out(&self) {
        self.carried_out.send_replace(true);
    }

    pub(super) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(super) async fn released(&self) {
        // The sender is `self`: the channel cannot be closed while it is waited for.
        let mut open = self.open.subscribe();
        let _open = open.wait_for(|open| *open).await;
    }
}

/// A fault that waits for its call. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Aimed(Arc<Gate>);

impl Aimed {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self(gate)
    }

    /// Waits until the call has come.
    pub async fn hit(&self) {
        let mut hit = self.0.hit.subscribe();
        let _hit = hit.wait_for(|hit| *hit).await;
    }

    /// Waits until the answer of a call is held: the store has carried it out.
    pub async fn carried_out(&self) {
        let mut carried_out = self.0.carried_out.subscribe();
        let _carried_out = carried_out.wait_for(|carried_out| *carried_out).await;
    }

    /// Whether the call has come.
    pub fn is_hit(&self) -> bool {
        *self.0.hit.borrow()
    }

    /// Lets a held call go on.
    pub fn release(&self) {
        self.0.open();
    }
}
