//! Faults that wait for one call.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Something that comes once. Those who wait go on in the order in which they came: a `watch` channel wakes
/// them by chance, and no run could be repeated.
#[derive(Debug)]
struct Latch(Semaphore);

impl Latch {
    fn new() -> Self {
        Self(Semaphore::new(0))
    }

    fn open(&self) {
        self.0.close();
    }

    fn is_open(&self) -> bool {
        self.0.is_closed()
    }

    async fn opened(&self) {
        let _closed = self.0.acquire().await; // there is nothing to acquire
    }
}

/// Whether a fault's call has come, and whether it may go on.
#[derive(Debug)]
pub(super) struct Gate {
    hit: Latch,
    carried_out: Latch,
    open: Latch,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { hit: Latch::new(), carried_out: Latch::new(), open: Latch::new() })
    }

    pub(super) fn hit(&self) {
        self.hit.open();
    }

    pub(super) fn carried_out(&self) {
        self.carried_out.open();
    }

    pub(super) fn open(&self) {
        self.open.open();
    }

    pub(super) async fn released(&self) {
        self.open.opened().await;
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
        self.0.hit.opened().await;
    }

    /// Waits until the answer of a call is held: the store has carried it out.
    pub async fn carried_out(&self) {
        self.0.carried_out.opened().await;
    }

    /// Whether the call has come.
    pub fn is_hit(&self) -> bool {
        self.0.hit.is_open()
    }

    /// Lets a held call go on.
    pub fn release(&self) {
        self.0.open();
    }
}
