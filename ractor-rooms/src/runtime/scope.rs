//! The scope in which a message or a state is written and read.
//!
//! serde hands no context through, but a reply needs one: which host forwards answers. So it is set for
//! the time of one encode or decode, which are synchronous, in a thread-local.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::calls::CallTable;
use super::reply::{ReplyAddr, ReplySink};
use crate::id::Incarnation;

/// Who forwards the answers of what is written or read.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) calls: Arc<CallTable>,
    pub(crate) incarnation: Incarnation,
    pub(crate) sink: Arc<dyn ReplySink>,
}

impl Scope {
    pub(crate) fn address(&self, call: u64) -> ReplyAddr {
        ReplyAddr::Host { incarnation: self.incarnation.clone(), call }
    }

    /// Runs an encode or a decode in this scope.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<Scope>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.with_borrow_mut(|current| *current = self.0.take());
            }
        }
        let before = CURRENT.with_borrow_mut(|current| current.replace(self.clone()));
        let _restore = Restore(before); // also when the app's serde code panics
        work()
    }

    /// Runs an encode in this scope, and says which call of this host got an address in it.
    pub(crate) fn run_for_call<T>(&self, work: impl FnOnce() -> T) -> (T, Option<u64>) {
        ASKED.set(None); // whatever an encode that panicked left
        let done = self.run(work);
        (done, ASKED.take())
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Scope>> = const { RefCell::new(None) };
    /// The call that was written last.
    static ASKED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A call of this host got an address.
pub(crate) fn note_call(call: u64) {
    ASKED.set(Some(call));
}

pub(crate) fn current() -> Option<Scope> {
    CURRENT.with_borrow(Clone::clone)
}
