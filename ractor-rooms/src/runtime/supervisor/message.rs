//! What a supervisor is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::core::HostCore;
use super::super::error::{CloseErr, MigrationErr};
use super::super::migrate::MigrateTo;
use super::super::reply::{Outcome, ReplyAddr};
use super::super::runner_handle::{Runner, RunnerEvent};
use super::super::wire::MigrateOutcome;
use crate::codec::body;
use crate::id::{Epoch, HostId, Incarnation, RoomId};
use crate::protocol::adopter::AdopterEvent;
use crate::protocol::record::{AcquireAnswer, Lease, OfferNotice, RecordView};
use crate::protocol::session::HostState;
use crate::protocol::source::SourceEvent;
use crate::protocol::store::{Owned, Unrest};

/// A message of [`RoomHost::supervisor`](crate::RoomHost::supervisor). Made from a [`MigrateTo`]; the
/// others are the host's own.
pub struct RoomSupervisorMessage(pub(super) Inner);

#[cfg(feature = "cluster")]
impl ractor::Message for RoomSupervisorMessage {}

impl RoomSupervisorMessage {
    pub(crate) fn from_runner(room: RoomId, lease: Lease, event: RunnerEvent) -> Self {
        Self(Inner::Runner { room, lease, event })
    }

    pub(crate) fn generation() -> Self {
        Self(Inner::Generation)
    }

    pub(crate) fn forgotten(room: RoomId, lease: Lease) -> Self {
        Self(Inner::Forgotten { room, lease })
    }

    pub(crate) fn listening() -> Self {
        Self(Inner::Listening)
    }

    pub(crate) fn migrate(request: MigrateTo, responder: Responder) -> Self {
        Self(Inner::Migrate { request, responder })
    }

    pub(crate) fn offered(room: RoomId, notice: Box<OfferNotice>) -> Self {
        Self(Inner::Offered { room, notice: Some(notice) })
    }

    pub(crate) fn moved(room: RoomId, settled: Option<Epoch>) -> Self {
        Self(Inner::Moved { room, settled })
    }

    pub(crate) fn set_state(state: HostState) -> Self {
        Self(Inner::SetState { state })
    }

    pub(crate) fn close(
        room: RoomId,
        reason: String,
        forced: bool,
        reply: oneshot::Sender<Result<u32, CloseErr>>,
    ) -> Self {
        Self(Inner::Close { room, reason, forced, reply })
    }

    pub(crate) fn rooms(reply: oneshot::Sender<Vec<RoomId>>) -> Self {
        Self(Inner::Rooms { reply })
    }

    pub(crate) fn unload(room: RoomId, reply: oneshot::Sender<bool>) -> Self {
        Self(Inner::Unload { room, reply })
    }

    pub(crate) fn here(reply: oneshot::Sender<RoomsHere>) -> Self {
        Self(Inner::Here { reply })
    }

    pub(crate) fn leave(
        room: RoomId,
        to: Option<HostId>,
        reply: oneshot::Sender<MigrateOutcome>,
    ) -> Self {
        Self(Inner::Leave { room, to, reply })
    }

    pub(crate) fn kill(room: RoomId, reply: oneshot::Sender<bool>) -> Self {
        Self(Inner::Kill { room, reply })
    }

    pub(crate) fn shutdown(reply: oneshot::Sender<()>) -> Self {
        Self(Inner::Shutdown { reply })
    }
}

impl From<MigrateTo> for RoomSupervisorMessage {
    fn from(request: MigrateTo) -> Self {
        Self::migrate(request, Responder::Nobody)
    }
}

impl From<Inner> for RoomSupervisorMessage {
    fn from(inner: Inner) -> Self {
        Self(inner)
    }
}

impl std::fmt::Debug for RoomSupervisorMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoomSupervisorMessage")
    }
}

/// Who hears how a move ended.
pub(crate) enum Responder {
    /// Nobody but the log and the error hook.
    Nobody,
    /// A caller at this host.
    Here(oneshot::Sender<MigrateOutcome>),
    /// A caller at another host.
    There(ReplyAddr),
}

impl Responder {
    pub(crate) fn answer(self, core: &Arc<HostCore>, outcome: MigrateOutcome) {
        match self {
            Self::Nobody => {
                if let Err(error) = outcome {
                    tracing::warn!(host = %core.id, %error, "a move came to nothing");
                }
            }
            Self::Here(reply) => {
                let _ = reply.send(outcome); // nobody waits any more
            }
            Self::There(addr) => {
                let limit = super::super::reply::MAX_ANSWER_BYTES;
                let outcome =
                    body::encode(&outcome, limit).map_or(Outcome::Dropped, Outcome::Answer);
                core.deliver(addr, outcome);
            }
        }
    }
}

pub(super) enum Inner {
    Tick,
    Migrate {
        request: MigrateTo,
        responder: Responder,
    },
    MoveChecked {
        room: RoomId,
        to: HostId,
        checked: Result<(), MigrationErr>,
        responder: Responder,
    },
    Offered {
        room: RoomId,
        /// What the record was, if it came along.
        notice: Option<Box<OfferNotice>>,
    },
    OfferSeen {
        room: RoomId,
        view: Box<RecordView>,
    },
    Moved {
        room: RoomId,
        settled: Option<Epoch>,
    },
    Adopter {
        room: RoomId,
        token: u64,
        event: Box<AdopterEvent>,
    },
    Spawned {
        room: RoomId,
        token: u64,
        runner: Arc<dyn Runner>,
    },
    ReacquireFrom {
        room: RoomId,
        token: u64,
        view: Option<Box<RecordView>>,
    },
    Source {
        room: RoomId,
        token: u64,
        event: Box<SourceEvent>,
        watched: bool,
    },
    Runner {
        room: RoomId,
        lease: Lease,
        event: RunnerEvent,
    },
    HeartbeatAnswered {
        sent_at: Duration,
        renewed: bool,
    },
    /// The store is in another generation.
    Generation,
    /// The record of a room is older than a lease of it.
    Forgotten {
        room: RoomId,
        lease: Lease,
    },
    /// What was found of a room that ran here and that no index named.
    Searched {
        room: RoomId,
        lease: Lease,
        view: Option<Box<RecordView>>,
    },
    /// The record of a room that was taken from this host, as far as there is one.
    Taken {
        room: RoomId,
        lease: Lease,
        view: Option<Box<RecordView>>,
    },
    /// A re-assert was answered, or not.
    Reasserted {
        room: RoomId,
        token: u64,
        answer: Option<AcquireAnswer>,
    },
    /// A room that is held was acquired for this incarnation, or not.
    Retaken {
        room: RoomId,
        token: u64,
        by: Incarnation,
        taken: Option<Lease>,
    },
    /// The pushes of this incarnation arrive.
    Listening,
    HeartbeatFailed {
        sent_at: Duration,
    },
    Reopened {
        incarnation: Incarnation,
        sent_at: Duration,
    },
    OwnedRead {
        owned: Vec<Owned>,
        /// What ran here before the indexes were read.
        held: Vec<(RoomId, Lease)>,
    },
    UnrestRead {
        /// What is for this host.
        found: Vec<Unrest>,
        /// Whether there is more that was not looked at.
        more: bool,
        /// When the sweep began.
        at: Duration,
    },
    SweepOn,
    SetState {
        state: HostState,
    },
    Close {
        room: RoomId,
        reason: String,
        forced: bool,
        reply: oneshot::Sender<Result<u32, CloseErr>>,
    },
    Rooms {
        reply: oneshot::Sender<Vec<RoomId>>,
    },
    Unload {
        room: RoomId,
        reply: oneshot::Sender<bool>,
    },
    /// What a drain has to do with.
    Here {
        reply: oneshot::Sender<RoomsHere>,
    },
    /// A drained host's room goes to another host, or to the store.
    Leave {
        room: RoomId,
        to: Option<HostId>,
        reply: oneshot::Sender<MigrateOutcome>,
    },
    /// A room's runner does not come to a message boundary.
    Kill {
        room: RoomId,
        reply: oneshot::Sender<bool>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
}

/// The rooms of a host.
#[derive(Debug, Default)]
pub(crate) struct RoomsHere {
    /// Those that run and do nothing else, each with the size of its last snapshot in bytes.
    pub(crate) live: Vec<(RoomId, u64)>,
    /// Those that are being taken or given up.
    pub(crate) busy: Vec<RoomId>,
}
