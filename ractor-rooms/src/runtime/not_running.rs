//! Why a room that shall move runs nowhere.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::HostId;
use crate::protocol::record::{ParkReason, Phase, RecordView};

/// Why a room that shall move runs nowhere, in [`MigrationErr::NotRunning`](super::MigrationErr::NotRunning).
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WhyNotRunning {
    /// It has no record.
    #[error("it was never started")]
    NeverStarted,
    /// Its host has just taken it, or just dropped it: asking again helps.
    #[error("it is being started")]
    Starting,
    /// Its host is parking it: asking again helps once somebody sends to it.
    #[error("it is being unloaded")]
    Unloading,
    /// It left the host that was asked while the move waited there: asking again helps.
    #[error("it left this host")]
    Left,
    /// Its owner's session has ended; it is recovered soon.
    #[error("its host died")]
    HostDied,
    /// It is reserved for a host that has not taken it.
    #[error("it is on offer to {to}")]
    OnOffer {
        /// The host.
        to: HostId,
    },
    /// It rests.
    #[error("it is parked")]
    Parked {
        /// Why it rests.
        why: ParkReason,
    },
    /// It ended.
    #[error("it was closed: {reason}")]
    Closed {
        /// What the app gave as the reason.
        reason: String,
    },
}

impl WhyNotRunning {
    /// What the record of a room without a living owner says.
    pub(crate) fn of(view: Option<&RecordView>) -> Self {
        match view.map(|view| &view.phase) {
            None => Self::NeverStarted,
            Some(Phase::Running) => Self::HostDied,
            Some(Phase::Offered { to, .. }) => Self::OnOffer { to: to.clone() },
            Some(Phase::Parked { why }) => Self::Parked { why: why.clone() },
            Some(Phase::Closed { reason }) => Self::Closed { reason: reason.clone() },
        }
    }
}
