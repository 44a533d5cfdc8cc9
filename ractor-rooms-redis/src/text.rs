//! Names and numbers as the store's text: readable with `redis-cli`, and unambiguous for any bytes.

use std::io::Write as _;

use bytes::Bytes;
use ractor_rooms::id::{
    Activation, Epoch, HostId, Incarnation, Life, Millis, Position, Producer, RoomId, Seq,
    SnapshotNumber,
};
use ractor_rooms::protocol::record::{DeclineReason, ParkReason, Phase, SnapshotKey, SnapshotRef};

/// The largest number that a script counts exactly.
pub(crate) const EXACT: u64 = 1 << 53;

/// A host id with everything but `A-Z a-z 0-9 . _ -` as `%XX`, so that it has no separator in it.
pub(crate) fn host(host: &HostId) -> String {
    let mut text = String::with_capacity(host.as_str().len());
    let _ = put_host(&mut text, host); // to a string, which cannot fail
    text
}

fn put_host(text: &mut impl std::fmt::Write, host: &HostId) -> std::fmt::Result {
    for byte in host.as_str().bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                text.write_char(char::from(byte))?;
            }
            _ => write!(text, "%{byte:02X}")?,
        }
    }
    Ok(())
}

pub(crate) fn parse_host(text: &str) -> Option<HostId> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    HostId::new(String::from_utf8(bytes).ok()?).ok()
}

/// Hosts with a comma between them, sorted.
pub(crate) fn parse_hosts(text: &str) -> Option<Vec<HostId>> {
    let names = text.split(',').filter(|name| !name.is_empty());
    let mut hosts = names.map(parse_host).collect::<Option<Vec<_>>>()?;
    hosts.sort();
    Some(hosts)
}

/// `host#number`
pub(crate) fn incarnation(of: &Incarnation) -> String {
    format!("{}#{}", host(&of.host), of.number)
}

pub(crate) fn parse_incarnation(text: &str) -> Option<Incarnation> {
    let (name, number) = text.split_once('#')?;
    Some(Incarnation { host: parse_host(name)?, number: number.parse().ok()? })
}

/// `host#number/acquisition`
pub(crate) fn activation(of: &Activation) -> String {
    format!("{}/{}", incarnation(&of.by), of.number)
}

pub(crate) fn parse_activation(text: &str) -> Option<Activation> {
    let (by, number) = text.split_once('/')?;
    Some(Activation { by: parse_incarnation(by)?, number: number.parse().ok()? })
}

/// `length of the kind:kind:key`
pub(crate) fn room(room: &RoomId) -> Vec<u8> {
    let kind = room.kind.as_str();
    let mut text = format!("{}:{kind}:", kind.len()).into_bytes();
    text.extend_from_slice(room.key.as_bytes());
    text
}

pub(crate) fn parse_room(text: &[u8]) -> Option<RoomId> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let length: usize = std::str::from_utf8(&text[..colon]).ok()?.parse().ok()?;
    let kind = text.get(colon + 1..)?.get(..length)?;
    let rest = text.get(colon + 1 + length..)?;
    let key = rest.strip_prefix(b":")?;
    RoomId::new(std::str::from_utf8(kind).ok()?, Bytes::copy_from_slice(key)).ok()
}

/// A room as a member of an index: its bytes sort as rooms do. A zero in the kind is `00 FF`, its end
/// `00 01`, then comes the key.
pub(crate) fn member(room: &RoomId) -> Vec<u8> {
    let mut text = Vec::with_capacity(room.kind.as_str().len() + room.key.as_bytes().len() + 2);
    for byte in room.kind.as_str().bytes() {
        text.push(byte);
        if byte == 0 {
            text.push(0xff);
        }
    }
    text.extend_from_slice(&[0, 1]);
    text.extend_from_slice(room.key.as_bytes());
    text
}

pub(crate) fn parse_member(text: &[u8]) -> Option<RoomId> {
    let mut kind = Vec::new();
    let mut at = 0;
    loop {
        match (*text.get(at)?, text.get(at + 1)) {
            (0, Some(0xff)) => {
                kind.push(0);
                at += 2;
            }
            (0, Some(1)) => break,
            (0, _) => return None,
            (byte, _) => {
                kind.push(byte);
                at += 1;
            }
        }
    }
    let key = Bytes::copy_from_slice(&text[at + 2..]);
    RoomId::new(String::from_utf8(kind).ok()?, key).ok()
}

/// `h:host#number`, `r:life:room` or `a:host#number/acquisition:room`
pub(crate) fn producer(of: &Producer) -> Vec<u8> {
    let mut text = Vec::new();
    put_producer(&mut text, of);
    text
}

/// The same behind what is there.
pub(crate) fn put_producer(text: &mut Vec<u8>, of: &Producer) {
    let id = match of {
        Producer::Host(by) => {
            let (host, number) = (host(&by.host), by.number);
            let _ = write!(text, "h:{host}#{number}"); // to a buffer, which cannot fail
            return;
        }
        Producer::Room(id, life) => {
            let _ = write!(text, "r:{life}:"); // as above
            id
        }
        Producer::Activation(id, by) => {
            let _ = write!(text, "a:{}:", activation(by)); // as above
            id
        }
    };
    text.extend(room(id));
}

pub(crate) fn parse_producer(text: &[u8]) -> Option<Producer> {
    let (tag, rest) = (text.get(..2)?, &text[2..]);
    if tag == b"h:" {
        return Some(Producer::Host(parse_incarnation(std::str::from_utf8(rest).ok()?)?));
    }
    let colon = rest.iter().position(|byte| *byte == b':')?;
    let head = std::str::from_utf8(&rest[..colon]).ok()?;
    let id = parse_room(&rest[colon + 1..])?;
    match tag {
        b"r:" => Some(Producer::Room(id, Life(head.parse().ok()?))),
        b"a:" => Some(Producer::Activation(id, parse_activation(head)?)),
        _ => None,
    }
}

pub(crate) fn parse_position(text: &str) -> Option<Position> {
    let (ms, n) = text.split_once('-')?;
    Some(Position { ms: ms.parse().ok()?, n: n.parse().ok()? })
}

/// `attempt activation`
pub(crate) fn pointer(key: &SnapshotKey) -> String {
    format!("{} {}", key.attempt, activation(&key.by))
}

pub(crate) fn parse_pointer(text: &str) -> Option<SnapshotKey> {
    let (attempt, by) = text.split_once(' ')?;
    Some(SnapshotKey { by: parse_activation(by)?, attempt: attempt.parse().ok()? })
}

/// `number cursor cursor-seq unread bytes schema timer attempt activation`; no timer is `-`.
pub(crate) fn snapshot(of: &SnapshotRef) -> String {
    let timer = of.next_timer.map_or_else(|| "-".to_owned(), |at| at.to_string());
    format!(
        "{} {} {} {} {} {} {timer} {}",
        of.number,
        of.cursor,
        of.cursor_seq,
        of.unread,
        of.bytes,
        of.schema,
        pointer(&of.key)
    )
}

pub(crate) fn parse_snapshot(text: &str) -> Option<SnapshotRef> {
    let mut parts = text.splitn(8, ' ');
    let number = SnapshotNumber(parts.next()?.parse().ok()?);
    let cursor = parse_position(parts.next()?)?;
    let cursor_seq = Seq(parts.next()?.parse().ok()?);
    let unread = parts.next()?.parse().ok()?;
    let bytes = parts.next()?.parse().ok()?;
    let schema = parts.next()?.parse().ok()?;
    let next_timer = match parts.next()? {
        "-" => None,
        at => Some(Millis(at.parse().ok()?)),
    };
    let key = parse_pointer(parts.next()?)?;
    Some(SnapshotRef { key, number, cursor, cursor_seq, unread, bytes, schema, next_timer })
}

pub(crate) fn decline(why: &DeclineReason) -> String {
    match why {
        DeclineReason::UnknownKind => "unknown-kind".to_owned(),
        DeclineReason::UnreadableVersion { found, supported } => {
            format!("unreadable {found} {supported}")
        }
        DeclineReason::OverCapacity => "over-capacity".to_owned(),
        DeclineReason::Draining => "draining".to_owned(),
        DeclineReason::RestoreFailed { error } => format!("restore-failed {error}"),
        DeclineReason::DeadlineMissed => "deadline-missed".to_owned(),
    }
}

pub(crate) fn parse_decline(text: &str) -> Option<DeclineReason> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "unknown-kind" => DeclineReason::UnknownKind,
        "unreadable" => {
            let (found, supported) = rest.split_once(' ')?;
            let (found, supported) = (found.parse().ok()?, supported.parse().ok()?);
            DeclineReason::UnreadableVersion { found, supported }
        }
        "over-capacity" => DeclineReason::OverCapacity,
        "draining" => DeclineReason::Draining,
        "restore-failed" => DeclineReason::RestoreFailed { error: rest.to_owned() },
        "deadline-missed" => DeclineReason::DeadlineMissed,
        _ => return None,
    })
}

/// A park reason as the record's fields `phase`, `deadline` and `why`.
pub(crate) fn park(why: &ParkReason) -> (&'static str, String, String) {
    match why {
        ParkReason::New => ("N", String::new(), String::new()),
        ParkReason::Idle => ("I", String::new(), String::new()),
        ParkReason::GivenBack => ("G", String::new(), String::new()),
        ParkReason::Declined { why } => ("D", String::new(), decline(why)),
        ParkReason::Blocked { retry_after, why } => ("B", retry_after.to_string(), decline(why)),
    }
}

pub(crate) fn parse_phase(
    phase: &str,
    to: &str,
    deadline: &str,
    why: &str,
    reason: &str,
) -> Option<Phase> {
    Some(match phase {
        "R" => Phase::Running,
        "O" => Phase::Offered { to: parse_host(to)?, until: Millis(deadline.parse().ok()?) },
        "C" => Phase::Closed { reason: reason.to_owned() },
        "N" => Phase::Parked { why: ParkReason::New },
        "I" => Phase::Parked { why: ParkReason::Idle },
        "G" => Phase::Parked { why: ParkReason::GivenBack },
        "D" => Phase::Parked { why: ParkReason::Declined { why: parse_decline(why)? } },
        "B" => {
            let retry_after = Millis(deadline.parse().ok()?);
            Phase::Parked { why: ParkReason::Blocked { retry_after, why: parse_decline(why)? } }
        }
        _ => return None,
    })
}

/// An owner field: empty for none.
pub(crate) fn parse_owner(text: &str) -> Option<Option<Activation>> {
    if text.is_empty() { Some(None) } else { parse_activation(text).map(Some) }
}

/// The host, as text, and the number of the session that an owner belongs to.
pub(crate) fn owner_session(owner: &str) -> Option<(&str, u64)> {
    let (by, _) = owner.split_once('/')?;
    let (host, number) = by.split_once('#')?;
    Some((host, number.parse().ok()?))
}

pub(crate) fn parse_epoch(text: &str) -> Option<Epoch> {
    text.parse().ok().map(Epoch)
}
