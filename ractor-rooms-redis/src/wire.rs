//! Batches, entries, letters and pushes as bytes. What comes back may be anything.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use ractor_rooms::id::{Epoch, Generation, Kind, Life, Millis, Number, OutSeq, RoomId, Seq};
use ractor_rooms::protocol::record::{DeadLetter, Entry, OfferNotice};
use ractor_rooms::protocol::session::{HostState, SessionSpec};
use ractor_rooms::transport::Push;

use crate::text;

/// Messages one after the other, each after its length in four bytes, the highest first. `None` when
/// one is longer than that can say.
pub(crate) fn batch(messages: &[Bytes]) -> Option<Bytes> {
    if !is_sayable(messages) {
        return None;
    }
    let mut blob = BytesMut::with_capacity(messages.iter().map(|m| m.len() + 4).sum());
    put_batch(&mut blob, messages);
    Some(blob.freeze())
}

/// Whether the length of each message fits into four bytes.
pub(crate) fn is_sayable(messages: &[Bytes]) -> bool {
    messages.iter().all(|message| u32::try_from(message.len()).is_ok())
}

/// The same behind what is there, of messages that are sayable.
pub(crate) fn put_batch(blob: &mut impl BufMut, messages: &[Bytes]) {
    for message in messages {
        blob.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        blob.put_slice(message);
    }
}

pub(crate) fn parse_batch(mut blob: Bytes) -> Option<Vec<Bytes>> {
    let mut messages = Vec::new();
    while !blob.is_empty() {
        let length = u32::from_be_bytes(blob.get(..4)?.try_into().ok()?);
        let end = usize::try_from(length).ok()?.checked_add(4)?;
        if end > blob.len() {
            return None;
        }
        messages.push(blob.split_to(end).slice(4..));
    }
    Some(messages)
}

/// A decimal number and the byte after it.
fn number(bytes: &mut Bytes, end: u8) -> Option<u64> {
    word(bytes, end)?.parse().ok()
}

fn word(bytes: &mut Bytes, end: u8) -> Option<String> {
    let at = bytes.iter().take(64).position(|byte| *byte == end)?;
    let text = std::str::from_utf8(&bytes[..at]).ok()?.to_owned();
    let _ = bytes.split_to(at + 1);
    Some(text)
}

fn take(bytes: &mut Bytes, length: u64) -> Option<Bytes> {
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len())?;
    Some(bytes.split_to(length))
}

/// An entry from its id, its header and its batch.
pub(crate) fn entry(id: &str, mut header: Bytes, blob: Bytes) -> Option<Entry> {
    let position = text::parse_position(id)?;
    let first_seq = Seq(number(&mut header, b' ')?);
    let count = number(&mut header, b' ')?;
    let first = Number(number(&mut header, b' ')?);
    for _ in 0..3 {
        number(&mut header, b' ')?;
    }
    let producer = text::parse_producer(&header)?;
    let batch = parse_batch(blob)?;
    (batch.len() as u64 == count && first_seq.0.checked_add(count).is_some()).then_some(Entry {
        position,
        first_seq,
        producer,
        first,
        batch,
    })
}

/// A dead letter's identity, and what follows it in the store.
pub(crate) fn letter(letter: &DeadLetter) -> (Bytes, Bytes) {
    let producer = text::producer(&letter.producer);
    let mut id = BytesMut::from(format!("{}:{}:", letter.number, producer.len()).as_bytes());
    id.put_slice(&producer);
    let DeadLetter { attempts, error, at, message, .. } = letter;
    let head = format!(":{attempts}:{at}:{}:{error}", error.len());
    let mut rest = BytesMut::from(head.as_bytes());
    rest.put_slice(message);
    (id.freeze(), rest.freeze())
}

pub(crate) fn parse_letter(mut bytes: Bytes) -> Option<DeadLetter> {
    let id = Number(number(&mut bytes, b':')?);
    let length = number(&mut bytes, b':')?;
    let producer = text::parse_producer(&take(&mut bytes, length)?)?;
    if take(&mut bytes, 1)? != ":" {
        return None;
    }
    let attempts = u32::try_from(number(&mut bytes, b':')?).ok()?;
    let at = Millis(number(&mut bytes, b':')?);
    let length = number(&mut bytes, b':')?;
    let error = String::from_utf8(take(&mut bytes, length)?.to_vec()).ok()?;
    Some(DeadLetter { producer, number: id, message: bytes, attempts, error, at })
}

/// What comes over a channel.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// For the host.
    Push(Push),
    /// Entries of rooms that the host runs; `None` for one that cannot be read, which hides no other.
    Entries(Vec<Option<Push>>),
    /// The session has ended.
    Ended,
    /// A stream with this number was opened for the same incarnation.
    Stream(u64),
}

fn room(bytes: &mut Bytes) -> Option<RoomId> {
    let length = number(bytes, b' ')?;
    text::parse_room(&take(bytes, length)?)
}

/// Entries one after the other, each as `epoch generation id length-of-room length-of-header length-of-batch `,
/// then the room, the header and the batch.
fn entries(mut bytes: Bytes) -> Option<Vec<Option<Push>>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let epoch = Epoch(number(&mut bytes, b' ')?);
        let generation = Generation(number(&mut bytes, b' ')?);
        let id = word(&mut bytes, b' ')?;
        let mut lengths = [0; 3];
        for length in &mut lengths {
            *length = number(&mut bytes, b' ')?;
        }
        let [room, header, batch] = lengths;
        let (room, header) = (take(&mut bytes, room)?, take(&mut bytes, header)?);
        let batch = take(&mut bytes, batch)?;
        let push = text::parse_room(&room).zip(entry(&id, header, batch));
        entries.push(push.map(|(room, entry)| Push::Entry { room, epoch, generation, entry }));
    }
    Some(entries)
}

/// Reads a payload; `None` for what no script publishes.
pub(crate) fn hear(mut bytes: Bytes) -> Option<Heard> {
    let tag = take(&mut bytes, 1)?[0];
    Some(Heard::Push(match tag {
        b'E' => return entries(bytes).map(Heard::Entries),
        b'O' => {
            let epoch = Epoch(number(&mut bytes, b' ')?);
            let length = number(&mut bytes, b' ')?;
            let snapshot = match &take(&mut bytes, length)?[..] {
                b"" => None,
                text => Some(text::parse_snapshot(std::str::from_utf8(text).ok()?)?),
            };
            let notice = Box::new(OfferNotice { epoch, snapshot });
            Push::Offered { room: text::parse_room(&bytes)?, notice }
        }
        b'M' => {
            let settled = match word(&mut bytes, b' ')?.as_str() {
                "-" => None,
                epoch => Some(text::parse_epoch(epoch)?),
            };
            Push::Moved { room: text::parse_room(&bytes)?, settled }
        }
        b'V' => {
            let life = Life(number(&mut bytes, b' ')?);
            let first = OutSeq(number(&mut bytes, b' ')?);
            let room = room(&mut bytes)?;
            Push::Events { room, life, first, events: parse_batch(bytes)? }
        }
        b'C' => {
            let life = Life(number(&mut bytes, b' ')?);
            let room = room(&mut bytes)?;
            Push::Closed { room, life, reason: String::from_utf8(bytes.to_vec()).ok()? }
        }
        b'L' => Push::Letter { position: number(&mut bytes, b' ')?, letter: bytes },
        b'X' => return Some(Heard::Ended),
        b'R' => return Some(Heard::Stream(std::str::from_utf8(&bytes).ok()?.parse().ok()?)),
        _ => return None,
    }))
}

/// A session's spec: `state load capacity proved holds ` with `-` for none held, then each kind as `length:kind:version;`.
pub(crate) fn spec(spec: &SessionSpec) -> Bytes {
    let state = match spec.state {
        HostState::Joining => "joining",
        HostState::Ready => "ready",
        HostState::Cordoned => "cordoned",
        HostState::Draining => "draining",
    };
    let SessionSpec { load, capacity, weight, proved, holds, .. } = spec;
    let holds = holds.map_or_else(|| "-".to_owned(), |from| from.to_string());
    let mut text = format!("{state} {load} {capacity} {weight} {proved} {holds} ");
    for (kind, version) in &spec.kinds {
        text += &format!("{}:{kind}:{version};", kind.as_str().len());
    }
    text.into()
}

/// A session: its number, a space and its spec.
pub(crate) fn parse_session(mut bytes: Bytes) -> Option<(u64, SessionSpec)> {
    let id = number(&mut bytes, b' ')?;
    let state = match word(&mut bytes, b' ')?.as_str() {
        "joining" => HostState::Joining,
        "ready" => HostState::Ready,
        "cordoned" => HostState::Cordoned,
        "draining" => HostState::Draining,
        _ => return None,
    };
    let load = u32::try_from(number(&mut bytes, b' ')?).ok()?;
    let capacity = u32::try_from(number(&mut bytes, b' ')?).ok()?;
    let weight = u32::try_from(number(&mut bytes, b' ')?).ok()?;
    let proved = Generation(number(&mut bytes, b' ')?);
    let holds = match word(&mut bytes, b' ')?.as_str() {
        "-" => None,
        from => Some(from.parse().ok()?),
    };
    let mut kinds = BTreeMap::new();
    while !bytes.is_empty() {
        let length = number(&mut bytes, b':')?;
        let kind = String::from_utf8(take(&mut bytes, length)?.to_vec()).ok()?;
        if take(&mut bytes, 1)? != ":" {
            return None;
        }
        let version = u32::try_from(number(&mut bytes, b';')?).ok()?;
        kinds.insert(Kind::new(kind).ok()?, version);
    }
    Some((id, SessionSpec { state, load, capacity, weight, kinds, proved, holds }))
}
