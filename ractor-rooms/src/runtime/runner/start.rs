//! Making a room: from its snapshot, or new.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use ractor::ActorRef;
use thiserror::Error;

use super::super::context::{Exits, RoomContext, RoomSink};
use super::super::core::HostCore;
use super::super::courier::Courier;
use super::super::emitter::Emitter;
use super::super::mailbox::Mailbox;
use super::super::room_actor::{DecodeStateErr, RoomActor, decode_state};
use super::super::route::Route;
use super::super::runner_handle::RunnerShared;
use super::super::scope::Scope;
use super::super::timers::TimerTable;
use super::super::wire::{Segment, SnapshotBody, output_producer, snapshot_limit};
use super::{Meta, Phase, RoomMessage, RunnerState, Waiting};
use crate::codec::Snapshot;
use crate::delivery::Delivery;
use crate::id::{Life, Number, Position, RoomId, SnapshotNumber};
use crate::protocol::Consumer;
use crate::protocol::record::{Acquired, DeclineReason};

/// What a runner starts from.
pub(crate) struct StartArgs<R: RoomActor> {
    pub(crate) core: Arc<HostCore>,
    pub(crate) shared: Arc<RunnerShared>,
    pub(crate) acquired: Acquired,
    /// The bytes that `acquired.snapshot` points to.
    pub(crate) bytes: Option<Bytes>,
    /// For a room that has no snapshot.
    pub(crate) args: Option<R::Arguments>,
}

/// How many calls a live room may make in one epoch before their numbers reach those of the next.
const CALLS_OF_AN_EPOCH: u64 = 1 << 20;

/// Why a room could not be made.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct StartErr(pub(crate) DeclineReason);

impl StartErr {
    fn failed(error: impl ToString) -> Self {
        Self(DeclineReason::RestoreFailed { error: error.to_string() })
    }
}

/// A snapshot, read.
pub(super) struct Restored<S> {
    pub(super) state: S,
    pub(super) body: SnapshotBody,
}

impl<R: RoomActor> RunnerState<R> {
    pub(super) async fn start(
        actor: &R,
        me: ActorRef<RoomMessage>,
        start: StartArgs<R>,
    ) -> Result<Self, StartErr> {
        let StartArgs { core, shared, acquired, bytes, args } = start;
        let sink = RoomSink::new(core.clone(), shared.clone());
        let scope = Scope {
            calls: core.calls.clone(),
            incarnation: core.incarnation(),
            sink: sink.clone(),
        };
        let limit = core.config.max_snapshot_bytes;
        // Replies in a state that is read and then refused are still owed, by whoever takes the room.
        sink.keep();
        let restored = bytes
            .map(|bytes| read_snapshot(actor, &scope, bytes, &shared.room, acquired.life, limit))
            .transpose();
        sink.settle(restored.is_ok());
        let (state, body) = match restored? {
            Some(restored) => (Some(restored.state), Some(restored.body)),
            None => (None, None),
        };
        let durable = R::DELIVERY == Delivery::Durable;
        // A live room goes on from what was published; a durable one repeats what its replay emits.
        let (published, events) = match &body {
            Some(body) if durable => (body.out_seq, body.events.clone()),
            Some(body) if !acquired.recovered => (body.out_seq, body.events.clone()),
            Some(_) | None => (acquired.out_seq, Vec::new()),
        };
        let (room, lease) = (shared.room.clone(), shared.lease.clone());
        let lease_epoch = lease.epoch.0;
        let emitter = Emitter::new(&core, room, lease, published, events);
        let mut ctx = RoomContext {
            core: core.clone(),
            shared: shared.clone(),
            sink,
            emitter,
            timers: TimerTable::default(),
            calls: BTreeMap::new(),
            next_call: 0,
            rng_count: 0,
            input: (Position::START, 0),
            exits: Exits::default(),
            kind: PhantomData,
        };
        let mut consumer = Consumer::default();
        let mut unread = VecDeque::new();
        let mut outputs = BTreeMap::new();
        if let Some(body) = body {
            ctx.timers = body.timers;
            ctx.calls = body.calls;
            ctx.next_call = body.next_call;
            if !durable && acquired.recovered {
                // The former activation made calls that this one does not know of; their late answers must
                // find nobody. Epochs grow, so that each recovery has numbers of its own.
                ctx.next_call = ctx.next_call.max(lease_epoch.saturating_mul(CALLS_OF_AN_EPOCH));
            }
            ctx.rng_count = body.rng_count;
            consumer = body.consumer;
            if let Some(pointer) = &acquired.snapshot {
                consumer.read_again_from(pointer.cursor, pointer.cursor_seq);
            }
            unread = body.unread.into_iter().map(|u| Waiting::Frame(u.frame)).collect();
            outputs = couriers::<R>(&core, &shared, body.outputs, acquired.recovered);
        }
        let inner = match (state, args) {
            (Some(state), _) => state,
            (None, Some(args)) => {
                actor.pre_start(&mut ctx, args).await.map_err(StartErr::failed)?
            }
            (None, None) => return Err(StartErr::failed("a new room has no arguments")),
        };
        let number = acquired.snapshot.as_ref().map_or(SnapshotNumber(0), |s| s.number);
        let route = Route::to(&core, &shared.room);
        let mailbox =
            (!durable).then(|| Arc::new(Mailbox::of(me.clone(), core.config.max_mailbox_messages)));
        let meta = Meta {
            core,
            shared,
            route,
            mailbox,
            me,
            acquired,
            phase: Phase::Replaying,
            passed_over: Position::START,
            acked: consumer.position(),
            consumer,
            unread,
            failure: None,
            went_back: false,
            failures: 0,
            outputs,
            own: None,
            ticking: BTreeMap::new(),
            alarm: None,
            snapshot_number: number,
            attempt: 0,
            checkpointing: false,
            checkpoint_due: false,
            pending: None,
            since_checkpoint: (0, 0),
            given_up: BTreeSet::new(),
            unacked: 0,
            ack_planned: false,
            closing: None,
        };
        Ok(Self { ctx, inner, meta })
    }
}

/// The queues of what a room had still to deliver.
pub(super) fn couriers<R: RoomActor>(
    core: &Arc<HostCore>,
    shared: &RunnerShared,
    outputs: BTreeMap<RoomId, Vec<Segment>>,
    recovered: bool,
) -> BTreeMap<RoomId, Vec<Arc<Courier>>> {
    let durable = R::DELIVERY == Delivery::Durable;
    outputs
        .into_iter()
        .map(|(target, segments)| {
            let mut couriers: Vec<_> = segments
                .into_iter()
                .map(|segment| Courier::of_room(core, target.clone(), segment))
                .collect();
            if !durable && recovered {
                // The former activation used numbers that this one does not know of.
                let owner = &shared.lease.owner;
                let producer = output_producer(durable, &shared.room, shared.life, owner);
                let segment =
                    Segment { producer, life: None, accepted: Number(0), pending: Vec::new() };
                couriers.push(Courier::of_room(core, target.clone(), segment));
            }
            (target, couriers)
        })
        .collect()
}

/// Reads a snapshot: frame, header, body, state.
pub(super) fn read_snapshot<R: RoomActor>(
    actor: &R,
    scope: &Scope,
    bytes: Bytes,
    room: &RoomId,
    life: Life,
    limit: usize,
) -> Result<Restored<R::State>, StartErr> {
    let whole = snapshot_limit(limit);
    let snapshot = Snapshot::decode(bytes, &room.kind, whole).map_err(StartErr::failed)?;
    let header = &snapshot.header;
    if header.life != life {
        return Err(StartErr::failed(format!(
            "expected a snapshot of life {life}, found life {}",
            header.life
        )));
    }
    let (state, body) =
        scope.run(|| SnapshotBody::open(&snapshot.body, whole)).map_err(StartErr::failed)?;
    let state = scope.run(|| decode_state(actor, header.schema, &state, limit));
    match state {
        Ok(state) => Ok(Restored { state, body }),
        Err(DecodeStateErr::Codec(error)) => Err(StartErr::failed(error)),
        Err(DecodeStateErr::Upgrade(error)) => Err(StartErr::failed(error)),
        Err(DecodeStateErr::Newer { found }) => {
            Err(StartErr(DeclineReason::UnreadableVersion { found, supported: R::STATE_VERSION }))
        }
    }
}
