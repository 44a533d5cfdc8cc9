//! What goes through a transport, call by call.

use std::sync::{Arc, Mutex, PoisonError};

use super::Operation;
use crate::id::HostId;

/// Calls that are kept; later ones are not.
const KEPT: usize = 1 << 16;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Whose call it was, if known.
    pub host: Option<HostId>,
    /// What it was.
    pub operation: Operation,
    /// The room or incarnation that it named.
    pub what: String,
}

/// Calls in their order. Clones are the same record, which several transports may share.
#[derive(Clone, Debug, Default)]
pub struct CallTrace(Arc<Mutex<Vec<Call>>>);

impl CallTrace {
    /// What was called since the last time, and forgets it.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn note(&self, host: Option<&HostId>, operation: Operation, what: &str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() < KEPT {
            calls.push(Call { host: host.cloned(), operation, what: what.to_owned() });
        }
    }
}
