//! What the frames hold: messages in a room's log, letters in a host's inbox, events, snapshots.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::MigrationErr;
use super::reply::{Outcome, ReplyAddr};
use super::report::MigrationReport;
use super::timers::TimerTable;
use crate::codec::{CodecErr, Frame, FrameKind, SnapshotHeader, body};
use crate::id::{Activation, HostId, Life, Millis, Number, OutSeq, Producer, RoomId};
use crate::protocol::Consumer;

/// A message in a room's log. Only the first variant is the app's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Payload<M> {
    /// Of the app.
    App(M),
    /// A timer of a durable room came due; appended by the room itself.
    Tick { name: String, due: Millis },
    /// The answer to a call that the room made.
    Answer { call: u64, outcome: Outcome },
}

/// The overhead of a frame and a payload tag, allowed on top of the app's limit.
const OVERHEAD: usize = 4096;

/// Encodes an app's message as a framed payload.
pub(crate) fn encode_message<M: Serialize>(
    message: &M,
    version: u32,
    limit: usize,
) -> Result<Bytes, CodecErr> {
    #[derive(Serialize)]
    enum Borrowed<'a, M> {
        App(&'a M),
    }
    let body = body::encode(&Borrowed::App(message), limit)?;
    Ok(Frame::new(FrameKind::Message, version, body)?.encode())
}

/// Encodes one of the payloads that are not the app's.
pub(crate) fn encode_payload(payload: &Payload<()>, limit: usize) -> Result<Bytes, CodecErr> {
    let body = body::encode(payload, limit)?;
    Ok(Frame::new(FrameKind::Message, 0, body)?.encode())
}

/// Decodes a payload.
pub(crate) fn decode_message<M: DeserializeOwned>(
    frame: Bytes,
    limit: usize,
) -> Result<Payload<M>, CodecErr> {
    let limit = limit.saturating_add(OVERHEAD);
    let frame = Frame::decode(frame, FrameKind::Message, limit)?;
    body::decode(frame.body(), limit)
}

/// What members get under one number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EventPayload<E> {
    /// Of the app.
    App(E),
    /// A live room lost its owner and went back to a checkpoint.
    RolledBack { since: Millis },
}

pub(crate) fn encode_event<E: Serialize>(
    event: &EventPayload<E>,
    limit: usize,
) -> Result<Bytes, CodecErr> {
    Ok(Frame::new(FrameKind::Event, 0, body::encode(event, limit)?)?.encode())
}

pub(crate) fn decode_event<E: DeserializeOwned>(
    frame: Bytes,
    limit: usize,
) -> Result<EventPayload<E>, CodecErr> {
    let limit = limit.saturating_add(OVERHEAD);
    let frame = Frame::decode(frame, FrameKind::Event, limit)?;
    body::decode(frame.body(), limit)
}

/// A letter in a host's inbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LetterBody {
    /// The outcome of a call.
    Outcome { call: u64, outcome: Outcome },
    /// A request to move a room that the host runs.
    Migrate { room: RoomId, to: HostId, reply: ReplyAddr },
}

/// The answer to [`LetterBody::Migrate`].
pub(crate) type MigrateOutcome = Result<MigrationReport, MigrationErr>;

/// Letters carry answers, which are bounded where they are encoded.
const LETTER_LIMIT: usize = super::reply::MAX_ANSWER_BYTES + OVERHEAD;

pub(crate) fn encode_letter(letter: &LetterBody) -> Result<Bytes, CodecErr> {
    Ok(Frame::new(FrameKind::Reply, 0, body::encode(letter, LETTER_LIMIT)?)?.encode())
}

pub(crate) fn decode_letter(frame: Bytes) -> Result<LetterBody, CodecErr> {
    let frame = Frame::decode(frame, FrameKind::Reply, LETTER_LIMIT)?;
    body::decode(frame.body(), LETTER_LIMIT)
}

/// The body of a snapshot: the app's state and everything else that travels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotBody {
    pub(crate) consumer: Consumer,
    pub(crate) timers: TimerTable,
    pub(crate) out_seq: OutSeq,
    /// Events with the numbers after `out_seq` that were not published yet.
    pub(crate) events: Vec<Bytes>,
    pub(crate) outputs: BTreeMap<RoomId, Vec<Segment>>,
    pub(crate) calls: BTreeMap<u64, PendingCall>,
    pub(crate) next_call: u64,
    /// What a live room had received and not handled, in order.
    pub(crate) unread: Vec<Unread>,
    pub(crate) rng_count: u64,
    /// When it was made, by the store's clock: what a roll-back goes back to.
    pub(crate) at: Millis,
}

impl SnapshotBody {
    /// The snapshot of a state, whose bytes come first, as bytes are encoded, and then all of this.
    pub(crate) fn seal(
        &self,
        header: &SnapshotHeader,
        state: &Bytes,
        limit: usize,
    ) -> Result<Bytes, CodecErr> {
        let length = body::encode(&(state.len() as u64), limit)?;
        let rest = body::encode(self, limit)?;
        header.seal(&[&length, state, &rest], limit)
    }

    /// The state's bytes, in the same memory, and what came with them.
    pub(crate) fn open(bytes: &Bytes, limit: usize) -> Result<(Bytes, Self), CodecErr> {
        let (state, rest) = body::split_bytes(bytes)?;
        Ok((state, body::decode(&rest, limit)?))
    }
}

/// What one producer of a room still has to deliver to a target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) producer: Producer,
    pub(crate) life: Option<Life>,
    pub(crate) accepted: Number,
    pub(crate) pending: Vec<Bytes>,
}

/// A call that the room made and that is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingCall {
    pub(crate) name: String,
    pub(crate) deadline: Millis,
}

/// One unread message of a live room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unread {
    pub(crate) frame: Bytes,
}

/// The most bytes of a whole snapshot: what travels beside the state, such as unread messages, comes on top
/// of the state's own limit.
pub(crate) fn snapshot_limit(state_limit: usize) -> usize {
    state_limit.saturating_mul(2).saturating_add(1 << 20)
}

/// Names the producer of a room's outputs: a durable room keeps one over all its activations, because a
/// replay repeats the numbers; a live one takes a new one per activation.
pub(crate) fn output_producer(
    durable: bool,
    room: &RoomId,
    life: Life,
    activation: &Activation,
) -> Producer {
    if durable {
        Producer::Room(room.clone(), life)
    } else {
        Producer::Activation(room.clone(), activation.clone())
    }
}
