//! What a move did, as a value, an event and a span.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{HostId, RoomId};

use super::error::MigrationErr;

/// Why a room was moved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MoveReason {
    /// Somebody asked with `MigrateTo`.
    Requested,
    /// It was idle and was unloaded.
    Idle,
    /// Its host shuts down.
    Shutdown,
    /// Its host was drained.
    Drained,
    /// It was not: it stayed and was re-asserted, because the store may have lost data.
    Reasserted,
    /// It was not: it waited while its host had no session, and was taken back.
    Retaken,
}

/// A state that a move went through, and when, counted from its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTime {
    /// The state's name.
    pub state: String,
    /// When it was entered.
    pub after: Duration,
}

/// What a move did.
///
/// It is the value of `RoomHost::migrate`. Every move is also a span of target
/// `ractor_rooms::migration`, with an event per state at debug level and one for the report at info level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationReport {
    /// The room.
    pub room: RoomId,
    /// The source.
    pub from: HostId,
    /// Where it runs now.
    pub to: HostId,
    /// Why it was moved.
    pub reason: MoveReason,
    /// The states, in order.
    pub states: Vec<StateTime>,
    /// How long the room handled nothing: from its freeze until an adopter had caught up.
    pub pause: Duration,
    /// Messages that were logged for the adopter meanwhile.
    pub logged: u64,
    /// Messages that travelled unread inside the snapshot.
    pub unread: u32,
    /// The size of the snapshot in bytes.
    pub snapshot_bytes: u64,
    /// Why it did not end on the target, if it did not.
    pub error: Option<MigrationErr>,
}

impl MigrationReport {
    /// Logs the report as an event.
    pub(crate) fn log(&self) {
        let error = self.error.as_ref().map(ToString::to_string);
        tracing::info!(
            target: "ractor_rooms::migration",
            room = %self.room,
            from = %self.from,
            to = %self.to,
            reason = ?self.reason,
            pause_us = u64::try_from(self.pause.as_micros()).unwrap_or(u64::MAX),
            logged = self.logged,
            unread = self.unread,
            snapshot_bytes = self.snapshot_bytes,
            error = error.as_deref(),
            "migration"
        );
    }

    /// The report as what a caller gets.
    pub(crate) fn into_outcome(self) -> Result<Self, MigrationErr> {
        match self.error.clone() {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }
}
