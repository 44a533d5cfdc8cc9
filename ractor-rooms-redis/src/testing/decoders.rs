//! What reads bytes from the store, each by a name, for fuzzing.

use bytes::Bytes;
use ractor_rooms::id::{
    Activation, Generation, HostId, Incarnation, Kind, Life, Millis, Number, Position, Producer,
    RoomId, Seq, SnapshotNumber,
};
use ractor_rooms::protocol::record::{DeadLetter, DeclineReason, SnapshotKey, SnapshotRef};
use ractor_rooms::protocol::session::{HostState, SessionSpec};
use redis::Value;

use crate::reply::Reply;
use crate::transport::answer;
use crate::{text, wire};

/// One that reads bytes from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decoder {
    /// Hosts, incarnations, activations.
    Name,
    /// Rooms, as in keys and as in indexes.
    Room,
    /// Who appends.
    Producer,
    /// A pointer to a snapshot, and what the record says of it.
    Snapshot,
    /// A phase: its fields, a line each.
    Phase,
    /// An entry of a log: its id, its header and its batch, a line each, the batch with any bytes.
    Entry,
    /// A dead letter.
    Letter,
    /// What comes over a channel.
    Push,
    /// A session.
    Session,
    /// The answer of a script: its parts, a line each.
    Answer,
}

/// Odd enough that a name with it must be escaped.
const HOST: &str = "a#1/é{}: %";

fn by() -> Activation {
    let host = HostId::new(HOST).expect("a host id");
    Activation { by: Incarnation { host, number: 17 }, number: 3 }
}

fn room() -> RoomId {
    RoomId::new("k\0:", Bytes::from_static(b"1:a:\0\xff")).expect("a room id")
}

fn snapshot() -> SnapshotRef {
    SnapshotRef {
        key: SnapshotKey { by: by(), attempt: 4 },
        number: SnapshotNumber(1),
        cursor: Position { ms: 2, n: 3 },
        cursor_seq: Seq(5),
        unread: 6,
        bytes: 7,
        schema: 8,
        next_timer: Some(Millis(9)),
    }
}

fn lines(parts: &[&[u8]]) -> Bytes {
    parts.join(&b'\n').into()
}

fn words(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Whether it is one. Then it must come back as it went.
fn comes_back<T: PartialEq + std::fmt::Debug, B: AsRef<[u8]>>(
    read: Option<T>,
    write: impl Fn(&T) -> B,
    read_again: impl Fn(&[u8]) -> Option<T>,
) -> bool {
    let Some(value) = read else { return false };
    let written = write(&value);
    let again = read_again(written.as_ref());
    assert_eq!(again.as_ref(), Some(&value), "it does not come back as it went");
    true
}

impl Decoder {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Name,
        Self::Room,
        Self::Producer,
        Self::Snapshot,
        Self::Phase,
        Self::Entry,
        Self::Letter,
        Self::Push,
        Self::Session,
        Self::Answer,
    ];

    /// Input that it takes, to begin with.
    pub fn samples(self) -> Vec<Bytes> {
        let message = [Bytes::from_static(b"one"), Bytes::new()];
        let batch = wire::batch(&message).expect("short messages");
        let entry = [&b"8-1"[..], b"5 2 1 0 3 3 h:host#1", &batch];
        let snapshot = text::snapshot(&snapshot());
        match self {
            Self::Name => {
                let host = text::host(&by().by.host);
                [host, text::incarnation(&by().by), text::activation(&by())].map(Bytes::from).into()
            }
            Self::Room => vec![text::room(&room()).into(), text::member(&room()).into()],
            Self::Producer => [
                Producer::Host(by().by),
                Producer::Room(room(), Life(5)),
                Producer::Activation(room(), by()),
            ]
            .map(|of| text::producer(&of).into())
            .into(),
            Self::Snapshot => {
                vec![snapshot.into(), text::pointer(&self::snapshot().key).into(), "8-1".into()]
            }
            Self::Phase => {
                let why =
                    text::decline(&DeclineReason::UnreadableVersion { found: 1, supported: 2 });
                vec![
                    lines(&[b"R", b"", b"", b"", b""]),
                    lines(&[b"O", b"host-b", b"99", b"", b""]),
                    lines(&[b"B", b"", b"99", why.as_bytes(), b""]),
                    lines(&[b"D", b"", b"", b"restore-failed it is bad", b""]),
                    lines(&[b"C", b"", b"", b"", b"over"]),
                ]
            }
            Self::Entry => vec![lines(&entry)],
            Self::Letter => {
                let letter = DeadLetter {
                    producer: Producer::Host(by().by),
                    number: Number(2),
                    message: Bytes::from_static(b"\0:"),
                    attempts: 3,
                    error: "it: failed".into(),
                    at: Millis(4),
                };
                let (id, rest) = wire::letter(&letter);
                vec![[id, rest].concat().into()]
            }
            Self::Push => {
                let room = text::room(&room());
                let head = format!("E3 1 8-1 {} {} {} ", room.len(), entry[1].len(), batch.len());
                let name = [room.len().to_string().as_bytes(), b" ", &room].concat();
                [
                    [head.as_bytes(), &room, entry[1], &batch].concat(),
                    [format!("O3 {} {snapshot}", snapshot.len()).as_bytes(), &room].concat(),
                    [b"M3 ", &room[..]].concat(),
                    [b"V5 1 ", &name[..], &batch].concat(),
                    [b"C5 ", &name[..], b"over"].concat(),
                    b"L7 letter".to_vec(),
                    b"X".to_vec(),
                    b"R3".to_vec(),
                ]
                .map(Bytes::from)
                .into()
            }
            Self::Session => {
                let kinds = [(Kind::new("a;b").expect("a kind"), 7)].into();
                let spec = SessionSpec {
                    state: HostState::Cordoned,
                    load: 1,
                    capacity: 2,
                    weight: 3,
                    kinds,
                    proved: Generation(3),
                    holds: Some(7),
                };
                vec![[b"41 ", &wire::spec(&spec)[..]].concat().into()]
            }
            Self::Answer => {
                let snapshot = snapshot.as_bytes();
                let activation = text::activation(&by());
                let running: [&[u8]; 5] = [b"R", b"", b"", b"", b""];
                let of = |rest: &[&[u8]]| lines(&[&running[..], rest].concat());
                vec![
                    lines(&[b"7 5 host#1/2"]),
                    lines(&[
                        b"accepted",
                        b"2",
                        b"7",
                        b"5",
                        activation.as_bytes(),
                        b"R",
                        b"",
                        b"",
                        b"0",
                    ]),
                    lines(&[b"fenced", b"9", b"8", b"4"]),
                    lines(&[&[&b"page"[..], b"7", b""], &entry[..]].concat()),
                    of(&[
                        &[
                            &b"acquired"[..],
                            b"3",
                            b"5",
                            snapshot,
                            b"1",
                            b"7",
                            b"",
                            b"",
                            b"",
                            b"2",
                            b"",
                        ],
                        &entry[..],
                    ]
                    .concat()),
                    of(&[b"refused", b"3", activation.as_bytes()]),
                    of(&[b"lost", snapshot]),
                    of(&[
                        b"view", b"5", b"3", b"", b"1", b"7", b"8-1", snapshot, b"", b"2", b"a,b",
                        b"0", b"0",
                    ]),
                    lines(&[b"notdrained", b"3"]),
                    lines(&[b"count", b"3"]),
                    lines(&[b"settled", b"8-1"]),
                ]
            }
        }
    }

    /// Whether it takes these bytes.
    ///
    /// # Panics
    /// When what it read does not come back as it went, or the decoder itself panics: a fault.
    pub fn takes(self, bytes: &[u8]) -> bool {
        let owned = Bytes::copy_from_slice(bytes);
        match self {
            Self::Name => words(bytes).is_some_and(|words| {
                let host = text::parse_host(words);
                let incarnation = text::parse_incarnation(words);
                let activation = text::parse_activation(words);
                let _ = (text::owner_session(words), text::parse_epoch(words));
                [
                    comes_back(host, text::host, |b| text::parse_host(words_of(b))),
                    comes_back(incarnation, text::incarnation, |b| {
                        text::parse_incarnation(words_of(b))
                    }),
                    comes_back(activation, text::activation, |b| {
                        text::parse_activation(words_of(b))
                    }),
                ]
                .contains(&true)
            }),
            Self::Room => {
                let named = comes_back(text::parse_room(bytes), text::room, text::parse_room);
                let member = text::parse_member(bytes);
                comes_back(member, text::member, text::parse_member) || named
            }
            Self::Producer => {
                let producer = text::parse_producer(bytes);
                comes_back(producer, text::producer, text::parse_producer)
            }
            Self::Snapshot => words(bytes).is_some_and(|words| {
                let snapshot = text::parse_snapshot(words);
                let pointer = text::parse_pointer(words);
                let position = text::parse_position(words);
                [
                    comes_back(snapshot, text::snapshot, |b| text::parse_snapshot(words_of(b))),
                    comes_back(pointer, text::pointer, |b| text::parse_pointer(words_of(b))),
                    comes_back(position, Position::to_string, |b| {
                        text::parse_position(words_of(b))
                    }),
                ]
                .contains(&true)
            }),
            Self::Phase => {
                let Some(words) = words(bytes) else { return false };
                let mut lines = words.splitn(5, '\n');
                let [phase, to, deadline, why, reason] =
                    std::array::from_fn(|_| lines.next().unwrap_or_default());
                let decline = text::parse_decline(why);
                let of_why =
                    comes_back(decline, text::decline, |b| text::parse_decline(words_of(b)));
                text::parse_phase(phase, to, deadline, why, reason).is_some() || of_why
            }
            Self::Entry => {
                let mut parts = bytes.splitn(3, |byte| *byte == b'\n').map(Bytes::copy_from_slice);
                let [id, header, batch] = std::array::from_fn(|_| parts.next().unwrap_or_default());
                if let Some(messages) = wire::parse_batch(batch.clone()) {
                    let again = wire::batch(&messages);
                    assert_eq!(again.as_ref(), Some(&batch), "a batch is written in two ways");
                }
                words(&id).is_some_and(|id| wire::entry(id, header, batch).is_some())
            }
            Self::Letter => {
                let write = |letter: &DeadLetter| {
                    let (id, rest) = wire::letter(letter);
                    [id, rest].concat()
                };
                let read = |bytes: &[u8]| wire::parse_letter(Bytes::copy_from_slice(bytes));
                comes_back(wire::parse_letter(owned), write, read)
            }
            Self::Push => wire::hear(owned).is_some(),
            Self::Session => {
                let write = |(number, spec): &(u64, SessionSpec)| {
                    [number.to_string().as_bytes(), b" ", &wire::spec(spec)].concat()
                };
                let read = |bytes: &[u8]| wire::parse_session(Bytes::copy_from_slice(bytes));
                comes_back(wire::parse_session(owned), write, read)
            }
            Self::Answer => answers(bytes),
        }
    }
}

fn words_of(bytes: &[u8]) -> &str {
    words(bytes).expect("text that was just written")
}

/// Reads an answer as that of each operation.
fn answers(bytes: &[u8]) -> bool {
    let parts = || bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).map(Value::BulkString);
    let reply = || {
        let mut reply = Reply::of_one(Value::Array(parts().collect())).ok()?;
        Some((reply.text().ok()?, reply))
    };
    let Some((code, _)) = reply() else { return false };
    let code = code.as_str();
    let with = |read: &mut dyn FnMut(&mut Reply) -> bool| {
        reply().is_some_and(|(_, mut reply)| read(&mut reply))
    };
    [
        answer::appended(bytes).is_some(),
        with(&mut |reply| match answer::append(code, reply) {
            Ok((_, stand)) => {
                let _ = stand.is_some_and(|stand| stand.is_open());
                true
            }
            Err(_) => false,
        }),
        with(&mut |reply| answer::acquire(code, reply, by(), Generation(1)).is_ok()),
        with(&mut |reply| answer::owner(code, reply).is_ok()),
        with(&mut |reply| answer::offer(code, reply).is_ok()),
        with(&mut |reply| answer::close(code, reply).is_ok()),
        with(&mut |reply| answer::page(code, reply).is_ok()),
        with(&mut |reply| answer::view(code, reply).is_ok()),
    ]
    .contains(&true)
}
