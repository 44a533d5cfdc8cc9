//! What reads bytes from outside, each by a name, for fuzzing.
//!
//! Bytes that were sealed by a frame's checksum are given without their frame, which is put around them
//! here: else hardly any change of them would come past the checksum.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::codec::{Compression, Frame, FrameKind, Snapshot, SnapshotHeader, body};
use crate::id::{Activation, Epoch, HostId, Incarnation, Kind, Life, Millis, Number, OutSeq};
use crate::id::{Position, Producer, RoomId};
use crate::protocol::Consumer;
use crate::runtime::reply::{Outcome, ReplyAddr};
use crate::runtime::timers::TimerTable;
use crate::runtime::wire::{self, EventPayload, LetterBody, Payload};
use crate::runtime::wire::{PendingCall, Segment, SnapshotBody, Unread};

/// Above what a fuzzer makes.
const LIMIT: usize = 1 << 20;
const KIND: &str = "chat";

/// One that reads bytes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decoder {
    /// An app's value of any shape.
    Body,
    /// What goes around everything.
    Frame,
    /// A snapshot's header and the state behind it.
    Snapshot,
    /// What else travels in a snapshot.
    SnapshotBody,
    /// What is in a room's log.
    Message,
    /// What members get.
    Event,
    /// What is in a host's inbox.
    Letter,
}

/// What an app's types may be made of.
#[derive(Debug, Serialize, Deserialize)]
enum Shape {
    Nothing,
    Text(String),
    Bytes(Bytes),
    Many(Vec<Self>),
    Named { by: BTreeMap<String, Self>, maybe: Option<Box<Self>> },
    Numbers(u128, i128, u64, i16, f32, f64, char, bool),
    Units(Vec<()>),
}

impl Shape {
    fn sample() -> Self {
        let leaf = Self::Numbers(u128::MAX, -1, 300, -2, 0.5, f64::MAX, 'é', true);
        let maybe = Some(Box::new(Self::Text("wörds".into())));
        let by = [("a".to_owned(), leaf), (String::new(), Self::Nothing)].into();
        Self::Many(vec![
            Self::Named { by, maybe },
            Self::Bytes(Bytes::from_static(b"\0\xff")),
            Self::Units(vec![(); 3]),
        ])
    }
}

fn room() -> RoomId {
    RoomId::new(KIND, "lobby").expect("a room id")
}

fn incarnation() -> Incarnation {
    Incarnation { host: HostId::new("host-a").expect("a host id"), number: 7 }
}

fn header() -> SnapshotHeader {
    SnapshotHeader {
        room_kind: Kind::new(KIND).expect("a kind"),
        schema: 3,
        life: Life(1),
        epoch: Epoch(2),
        cut: Position { ms: 5, n: 6 },
        compression: Compression::None,
    }
}

fn snapshot_body() -> SnapshotBody {
    let by = Activation { by: incarnation(), number: 4 };
    let segment = Segment {
        producer: Producer::Activation(room(), by),
        life: Some(Life(9)),
        accepted: Number(2),
        pending: vec![Bytes::from_static(b"output")],
    };
    let mut timers = TimerTable::default();
    let every = Some(std::time::Duration::from_secs(1));
    timers.set("tick", Millis(5), every, crate::MissedPolicy::CatchUp, Bytes::new());
    let call = PendingCall { name: "asked".into(), deadline: Millis(11) };
    SnapshotBody {
        consumer: Consumer::default(),
        timers,
        out_seq: OutSeq(3),
        events: vec![Bytes::from_static(b"event")],
        outputs: [(room(), vec![segment])].into(),
        calls: [(1, call)].into(),
        next_call: 2,
        unread: vec![Unread { frame: Bytes::from_static(b"unread") }],
        rng_count: 8,
        at: Millis(13),
    }
}

fn encoded<T: Serialize>(value: &T) -> Bytes {
    body::encode(value, LIMIT).expect("a value that was just read")
}

fn framed(kind: FrameKind, body: &[u8]) -> Bytes {
    Frame::new(kind, 1, Bytes::copy_from_slice(body)).expect("a short body").encode()
}

/// Whether it is one. Then it must come back as it went: what is read is written and read once more, and
/// written alike.
fn comes_back<T: Serialize + DeserializeOwned>(read: Result<T, crate::codec::CodecErr>) -> bool {
    let Ok(value) = read else { return false };
    let once = encoded(&value);
    let again = body::decode::<T>(&once, LIMIT).expect("what was just written");
    assert_eq!(encoded(&again), once, "it is written in two ways");
    true
}

impl Decoder {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Body,
        Self::Frame,
        Self::Snapshot,
        Self::SnapshotBody,
        Self::Message,
        Self::Event,
        Self::Letter,
    ];

    /// Input that it takes, to begin with.
    pub fn samples(self) -> Vec<Bytes> {
        match self {
            Self::Body => vec![encoded(&Shape::sample()), encoded(&Shape::Nothing)],
            Self::Frame => vec![framed(FrameKind::Message, b"body"), framed(FrameKind::Reply, b"")],
            Self::Snapshot => {
                let sealed = header().seal(&[b"state"], LIMIT).expect("a short state");
                let frame = Frame::decode(sealed, FrameKind::Snapshot, LIMIT).expect("its frame");
                vec![frame.into_body()]
            }
            Self::SnapshotBody => {
                let state = encoded(&Shape::sample());
                let sealed = snapshot_body().seal(&header(), &state, LIMIT).expect("a short state");
                let kind = header().room_kind;
                vec![Snapshot::decode(sealed, &kind, LIMIT).expect("what was sealed").body]
            }
            Self::Message => {
                let outcome = Outcome::Closed { reason: "over".into() };
                vec![
                    encoded(&Payload::App(Shape::sample())),
                    encoded(&Payload::<()>::Tick { name: "tick".into(), due: Millis(4) }),
                    encoded(&Payload::<()>::Answer { call: 3, outcome }),
                ]
            }
            Self::Event => vec![
                encoded(&EventPayload::App(Shape::sample())),
                encoded(&EventPayload::<()>::RolledBack { since: Millis(3) }),
            ],
            Self::Letter => {
                let outcome = Outcome::Answer(Bytes::from_static(b"answer"));
                let reply = ReplyAddr::Host { incarnation: incarnation(), call: 5 };
                let to = incarnation().host;
                vec![
                    encoded(&LetterBody::Outcome { call: 3, outcome }),
                    encoded(&LetterBody::Migrate { room: room(), to, reply }),
                ]
            }
        }
    }

    /// Whether it takes these bytes.
    ///
    /// # Panics
    /// When what it read does not come back as it went, or the decoder itself panics: a fault.
    pub fn takes(self, bytes: &[u8]) -> bool {
        match self {
            Self::Body => comes_back(body::decode::<Shape>(bytes, LIMIT)),
            Self::Frame => {
                let whole = Bytes::copy_from_slice(bytes);
                let kinds =
                    [FrameKind::Message, FrameKind::Snapshot, FrameKind::Event, FrameKind::Reply];
                kinds.into_iter().any(|kind| match Frame::decode(whole.clone(), kind, LIMIT) {
                    Ok(frame) => {
                        assert_eq!(frame.encode(), whole, "a frame is written in two ways");
                        true
                    }
                    Err(_) => false,
                })
            }
            Self::Snapshot => {
                let frame = framed(FrameKind::Snapshot, bytes);
                let kind = header().room_kind;
                let Ok(snapshot) = Snapshot::decode(frame.clone(), &kind, LIMIT) else {
                    return false;
                };
                let again = snapshot.encode(LIMIT).expect("what was just read");
                assert_eq!(again, frame, "a snapshot is written in two ways");
                true
            }
            Self::SnapshotBody => match SnapshotBody::open(&Bytes::copy_from_slice(bytes), LIMIT) {
                Ok((_, rest)) => comes_back(body::decode::<SnapshotBody>(&encoded(&rest), LIMIT)),
                Err(_) => false,
            },
            Self::Message => {
                comes_back(wire::decode_message::<Shape>(framed(FrameKind::Message, bytes), LIMIT))
            }
            Self::Event => {
                comes_back(wire::decode_event::<Shape>(framed(FrameKind::Event, bytes), LIMIT))
            }
            Self::Letter => comes_back(wire::decode_letter(framed(FrameKind::Reply, bytes))),
        }
    }
}
