//! What a caller is told.

use std::fmt;
use std::time::Duration;

use ractor::{MessagingErr, RactorErr};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::not_running::WhyNotRunning;
use crate::codec::CodecErr;
use crate::id::{HostId, IdErr, RoomId};
use crate::protocol::record::DeclineReason;
use crate::protocol::session::HostState;
use crate::transport::TransportErr;

/// Why a message did not reach a room. Where the message surely was not accepted, it is handed back.
#[non_exhaustive]
pub enum RoomErr<M> {
    /// The key or the kind is no name of a room.
    Address {
        /// What is wrong with it.
        error: IdErr,
        /// The message.
        message: M,
    },
    /// No host that is alive runs rooms of this kind.
    UnknownKind {
        /// The kind.
        kind: String,
        /// The message.
        message: M,
    },
    /// The message is larger than the host's limit.
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
        /// The message.
        message: M,
    },
    /// The message could not be encoded.
    Encode {
        /// What went wrong.
        error: CodecErr,
        /// The message.
        message: M,
    },
    /// Too many messages wait, at this host or in the room's log.
    Full {
        /// The message.
        message: M,
    },
    /// Nobody accepted the message in time.
    Expired {
        /// How long was waited.
        waited: Duration,
        /// What stood in its way at the last attempt, as far as this host knows.
        why: String,
        /// The message.
        message: M,
    },
    /// The room ended.
    Closed {
        /// Why.
        reason: String,
        /// The message, unless it had been accepted before.
        message: Option<M>,
    },
    /// The room ended and was born again while the message was under way.
    OtherLife {
        /// The message.
        message: M,
    },
    /// The host is stopped.
    HostStopped {
        /// The message.
        message: M,
    },
    /// Nobody can tell whether the message was accepted. It is handled once or never.
    OutcomeUnknown,
    /// The store lost the message after it had accepted it.
    Lost,
}

impl<M> RoomErr<M> {
    /// The message, if it surely was not accepted.
    pub fn into_message(self) -> Option<M> {
        match self {
            Self::Address { message, .. }
            | Self::UnknownKind { message, .. }
            | Self::TooLarge { message, .. }
            | Self::Encode { message, .. }
            | Self::Full { message }
            | Self::Expired { message, .. }
            | Self::OtherLife { message }
            | Self::HostStopped { message } => Some(message),
            Self::Closed { message, .. } => message,
            Self::OutcomeUnknown | Self::Lost => None,
        }
    }
}

impl<M> fmt::Display for RoomErr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { error, .. } => write!(f, "{error}"),
            Self::UnknownKind { kind, .. } => {
                write!(f, "expected a kind that a living host runs, found {kind:?}")
            }
            Self::TooLarge { size, limit, .. } => {
                write!(f, "expected a message of at most {limit} bytes, found {size}")
            }
            Self::Encode { error, .. } => write!(f, "the message cannot be encoded: {error}"),
            Self::Full { .. } => f.write_str("too many messages wait for the room"),
            Self::Expired { waited, why, .. } => {
                write!(f, "nobody accepted the message within {waited:?}: {why}")
            }
            Self::Closed { reason, .. } => write!(f, "the room was closed: {reason}"),
            Self::OtherLife { .. } => f.write_str("the room was closed and born again"),
            Self::HostStopped { .. } => f.write_str("the host is stopped"),
            Self::OutcomeUnknown => f.write_str("nobody can tell whether the message was accepted"),
            Self::Lost => f.write_str("the store lost the message after it had accepted it"),
        }
    }
}

impl<M> fmt::Debug for RoomErr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Address { .. } => "Address",
            Self::UnknownKind { .. } => "UnknownKind",
            Self::TooLarge { .. } => "TooLarge",
            Self::Encode { .. } => "Encode",
            Self::Full { .. } => "Full",
            Self::Expired { .. } => "Expired",
            Self::Closed { .. } => "Closed",
            Self::OtherLife { .. } => "OtherLife",
            Self::HostStopped { .. } => "HostStopped",
            Self::OutcomeUnknown => "OutcomeUnknown",
            Self::Lost => "Lost",
        };
        write!(f, "{name}({self})")
    }
}

impl<M> std::error::Error for RoomErr<M> {}

/// So that ractor's `cast!`, `call!` and `call_t!` work on a room as they do on an actor.
impl<M> From<RoomErr<M>> for RactorErr<M> {
    fn from(error: RoomErr<M>) -> Self {
        match error.into_message() {
            Some(message) => Self::Messaging(MessagingErr::SendErr(message)),
            None => Self::Messaging(MessagingErr::ChannelClosed),
        }
    }
}

/// Why a room did not move. It is where it was, and goes on.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MigrationErr {
    /// The name of the room or of the host is none.
    #[error("{error}")]
    Address {
        /// What is wrong.
        error: String,
    },
    /// No host runs rooms of this kind.
    #[error("expected a kind that a living host runs, found {kind:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
    },
    /// The target has no session.
    #[error("expected a host with a living session, found none for {host}")]
    UnknownHost {
        /// The target.
        host: HostId,
    },
    /// The room runs on the target already.
    #[error("room {room} runs on {host} already")]
    AlreadyThere {
        /// The room.
        room: RoomId,
        /// The target.
        host: HostId,
    },
    /// A move to another host is under way.
    #[error("room {room} is moving to {to}")]
    AlreadyMoving {
        /// The room.
        room: RoomId,
        /// Where it is moving.
        to: HostId,
    },
    /// The target takes no rooms.
    #[error("expected a host that is ready, found {host} in state {state:?}")]
    HostNotReady {
        /// The target.
        host: HostId,
        /// Its state.
        state: HostState,
    },
    /// The target does not run the kind, or does not read the version of the room's snapshots.
    #[error("host {host} cannot take {room}: {why}")]
    TargetCannotRead {
        /// The target.
        host: HostId,
        /// The room.
        room: RoomId,
        /// Why.
        why: DeclineReason,
    },
    /// The room runs nowhere.
    #[error("room {room} runs nowhere: {why}")]
    NotRunning {
        /// The room.
        room: RoomId,
        /// Why.
        why: WhyNotRunning,
    },
    /// The handler under way did not return in time.
    #[error("room {room} did not come to a message boundary within {waited:?}")]
    FreezeTimedOut {
        /// The room.
        room: RoomId,
        /// How long was waited.
        waited: Duration,
    },
    /// The state is too large.
    #[error("expected a snapshot of at most {limit} bytes, found {size}")]
    SnapshotTooLarge {
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The state could not be snapshotted.
    #[error("room {room} could not be snapshotted: {error}")]
    FreezeFailed {
        /// The room.
        room: RoomId,
        /// What went wrong.
        error: String,
    },
    /// The snapshot could not be stored.
    #[error("the snapshot of room {room} could not be stored: {error}")]
    UploadFailed {
        /// The room.
        room: RoomId,
        /// What went wrong.
        error: String,
    },
    /// Nobody adopted the room; it goes on at the source under a new epoch.
    #[error("no host adopted room {room}, which goes on where it was{}", .why.as_ref().map(|w| format!(": {w}")).unwrap_or_default())]
    NotAdopted {
        /// The room.
        room: RoomId,
        /// What the offered host said, if anything.
        why: Option<DeclineReason>,
    },
    /// The host that adopted the room has not finished in time. The room is that host's.
    #[error("host {by} holds room {room} and has not finished to adopt it")]
    Abandoned {
        /// The room.
        room: RoomId,
        /// Who holds it.
        by: HostId,
    },
    /// The host that was asked to move the room is gone: nobody can tell how far the move came. The room
    /// goes on there or elsewhere.
    #[error("host {host} is gone, and nobody can tell how far the move of room {room} came")]
    OutcomeUnknown {
        /// The room.
        room: RoomId,
        /// Who was asked.
        host: HostId,
    },
    /// The room was taken from this host while it was moving.
    #[error("room {room} is not this host's any more")]
    Gone {
        /// The room.
        room: RoomId,
    },
    /// The store did not answer.
    #[error("{error}")]
    Store {
        /// What it said.
        error: String,
    },
    /// The host is stopped.
    #[error("the host is stopped")]
    HostStopped,
}

/// Why a host did not start, or did not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostErr {
    /// A name is none.
    #[error(transparent)]
    Address(#[from] IdErr),
    /// A kind was registered twice.
    #[error("kind {kind:?} is registered twice")]
    DuplicateKind {
        /// The kind.
        kind: String,
    },
    /// Another process renews a session under the same host id.
    #[error("host {host} has a living session elsewhere")]
    SessionTaken {
        /// The host.
        host: HostId,
    },
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] TransportErr),
    /// The supervisor could not be spawned.
    #[error("the supervisor did not start: {0}")]
    Spawn(String),
    /// The host is being drained already.
    #[error("host {host} is being drained already")]
    AlreadyDraining {
        /// The host.
        host: HostId,
    },
    /// The system does not let this process wait for its signal to end.
    #[error("expected to be told of the signal to terminate: {error}")]
    NoSignal {
        /// What it says.
        error: String,
    },
    /// The host is stopped.
    #[error("the host is stopped")]
    Stopped,
}

/// Why a room was not closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CloseErr {
    /// Messages are unhandled, and the close was not forced.
    #[error("{unhandled} messages are not handled yet")]
    NotDrained {
        /// How many.
        unhandled: u64,
    },
    /// The room does not run on this host.
    #[error("room {room} does not run on this host")]
    NotHere {
        /// The room.
        room: RoomId,
    },
    /// The room is moving, or was taken away.
    #[error("room {room} is not this host's to close")]
    Fenced {
        /// The room.
        room: RoomId,
    },
    /// The store did not answer.
    #[error("{error}")]
    Store {
        /// What it said.
        error: String,
    },
    /// The host is stopped.
    #[error("the host is stopped")]
    HostStopped,
}
