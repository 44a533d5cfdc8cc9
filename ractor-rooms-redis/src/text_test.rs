use bytes::Bytes;
use ractor_rooms::id::{
    Activation, HostId, Incarnation, Life, Millis, Number, Position, Producer, RoomId, Seq,
    SnapshotNumber,
};
use ractor_rooms::protocol::record::{
    DeadLetter, DeclineReason, ParkReason, Phase, SnapshotKey, SnapshotRef,
};
use ractor_rooms::protocol::session::{HostState, SessionSpec};

use crate::keys::Layout;
use crate::{text, wire};

fn room(kind: &str, key: &'static [u8]) -> RoomId {
    RoomId::new(kind, Bytes::from_static(key)).unwrap()
}

fn by(host: &str) -> Incarnation {
    Incarnation { host: HostId::new(host).unwrap(), number: 17 }
}

fn activation(host: &str) -> Activation {
    Activation { by: by(host), number: 3 }
}

/// Names that would be taken apart if they were not escaped.
const ODD: [&str; 8] = ["a", "a#1/2", "x y", "%", "{s0001}", "é", "a,b:c", "\0\n"];

#[test]
fn golden_names() {
    assert_eq!(text::activation(&activation("host-a")), "host-a#17/3");
    assert_eq!(text::activation(&activation("a#é{")), "a%23%C3%A9%7B#17/3");
    let of = Layout::new("rooms", 64, false);
    let lobby = room("chat", b"lobby");
    let keys: Vec<_> =
        of.append_keys(&text::room(&lobby)).iter().map(|k| k.escape_ascii().to_string()).collect();
    assert_eq!(keys, ["rooms:{s0002}:meta:4:chat:lobby", "rooms:{s0002}:log:4:chat:lobby"]);
    let key = SnapshotKey { by: activation("host-a"), attempt: 9 };
    assert_eq!(of.snapshot(&lobby, &key), "rooms:{s0002}:snap:host-a#17/3:9:4:chat:lobby");
    assert_eq!(of.host_keys("host-a")[0], "rooms:{h-host-a}:session");
    assert_eq!(of.channels(&by("host-a")), ["rooms:to:host-a#17", "rooms:host:host-a"]);
    let cluster = Layout::new("rooms", 2, true);
    assert_eq!(cluster.channels(&by("a")).len(), 5);
    assert_eq!(cluster.channels(&by("a"))[0], "rooms:{s0000}:to:a#17");
    assert_eq!(cluster.channels(&by("a"))[4], "rooms:{h-a}:to:a#17");
}

#[test]
fn golden_bytes() {
    let producer = Producer::Room(room("chat", b"l"), Life(5));
    assert_eq!(text::producer(&producer), b"r:5:4:chat:l");
    let batch = wire::batch(&[Bytes::from_static(b"ab"), Bytes::new()]).unwrap();
    assert_eq!(batch, &b"\0\0\0\x02ab\0\0\0\0"[..]);
    let spec = SessionSpec {
        state: HostState::Cordoned,
        load: 1,
        capacity: 2,
        weight: 4,
        kinds: [(ractor_rooms::id::Kind::new("a;b").unwrap(), 7)].into(),
        proved: ractor_rooms::id::Generation(3),
        holds: Some(u64::MAX),
    };
    assert_eq!(wire::spec(&spec), "cordoned 1 2 4 3 18446744073709551615 3:a;b:7;");
    let stored = Bytes::from("41 cordoned 1 2 4 3 18446744073709551615 3:a;b:7;");
    assert_eq!(wire::parse_session(stored), Some((41, spec)));
}

#[test]
fn the_shard_hash_is_the_published_one() {
    // FNV-1a of "1:k:" and of "1:k:x", folded, by hand with other code.
    let fold = |text: &[u8]| {
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32) ^ (hash & 0xffff_ffff)
    };
    let of = Layout::new("n", 64, false);
    assert_eq!(u64::from(of.shard(&room("k", b"x"))), fold(b"1:k:x") % 64);
    let mut hit = std::collections::BTreeSet::new();
    for n in 0..2_000 {
        hit.insert(of.shard(&RoomId::new("k", n.to_string()).unwrap()));
    }
    assert_eq!(hit.len(), 64);
}

fn snapshot(host: &str, next_timer: Option<Millis>) -> SnapshotRef {
    SnapshotRef {
        key: SnapshotKey { by: activation(host), attempt: 4 },
        number: SnapshotNumber(1),
        cursor: Position { ms: 2, n: 3 },
        cursor_seq: Seq(5),
        unread: 6,
        bytes: 7,
        schema: 8,
        next_timer,
    }
}

#[test]
fn everything_comes_back_as_it_went() {
    for name in ODD {
        let id = HostId::new(name).unwrap();
        assert_eq!(text::parse_host(&text::host(&id)), Some(id));
        assert_eq!(
            text::parse_activation(&text::activation(&activation(name))),
            Some(activation(name))
        );
        for key in [&b"k"[..], b"\0\x01", b"1:a:", b"\xff}"] {
            let id = RoomId::new(name, key).unwrap();
            assert_eq!(text::parse_room(&text::room(&id)), Some(id.clone()));
            assert_eq!(text::parse_member(&text::member(&id)), Some(id.clone()));
            for producer in [
                Producer::Host(by(name)),
                Producer::Room(id.clone(), Life(9)),
                Producer::Activation(id.clone(), activation(name)),
            ] {
                assert_eq!(
                    text::parse_producer(&text::producer(&producer)),
                    Some(producer.clone())
                );
                let letter = DeadLetter {
                    producer,
                    number: Number(1),
                    message: Bytes::from_static(key),
                    attempts: 2,
                    error: name.to_owned(),
                    at: Millis(3),
                };
                let (head, rest) = wire::letter(&letter);
                assert_eq!(wire::parse_letter([head, rest].concat().into()), Some(letter));
            }
        }
        for timer in [None, Some(Millis(0))] {
            let of = snapshot(name, timer);
            assert_eq!(text::parse_snapshot(&text::snapshot(&of)), Some(of));
        }
        let why = DeclineReason::RestoreFailed { error: name.to_owned() };
        assert_eq!(text::parse_decline(&text::decline(&why)), Some(why.clone()));
        let why = ParkReason::Blocked { retry_after: Millis(1), why };
        let (code, deadline, text) = text::park(&why);
        assert_eq!(text::parse_phase(code, "", &deadline, &text, ""), Some(Phase::Parked { why }));
    }
}

#[test]
fn members_sort_as_rooms_do() {
    let mut rooms = Vec::new();
    for kind in ["a", "a\0", "a\0b", "a\u{1}", "ab", "b", "\0"] {
        for key in [&b"a"[..], b"\0", b"\xff", b"a\0", b"\x01"] {
            rooms.push(RoomId::new(kind, key).unwrap());
        }
    }
    rooms.sort();
    let mut members = rooms.clone();
    members.sort_by_key(text::member);
    assert_eq!(members, rooms);
}

fn entries(payload: &[u8]) -> Vec<Option<ractor_rooms::transport::Push>> {
    match wire::hear(payload.to_vec().into()) {
        Some(wire::Heard::Entries(entries)) => entries,
        other => panic!("no entries: {other:?}"),
    }
}

/// Cut at each place, and with each byte changed: an answer or none, never a panic.
#[test]
fn hostile_bytes_are_refused() {
    let id = room("chat", b"l");
    let producer = text::producer(&Producer::Host(by("a")));
    let header = [b"1 1 1 0 0 2 ", &producer[..]].concat();
    let batch = wire::batch(&[Bytes::from_static(b"ab")]).unwrap();
    let room_text = text::room(&id);
    let head = format!("E7 9 1-1 {} {} {} ", room_text.len(), header.len(), batch.len());
    let entry = [head.as_bytes(), &room_text, &header, &batch].concat();
    assert!(matches!(entries(&entry)[..], [Some(_)]));
    let unreadable = [b"E7 9 1-1 1 1 1 xxx", &entry[1..], &entry[1..]].concat();
    assert!(matches!(entries(&unreadable)[..], [None, Some(_), Some(_)]), "it hides no other");
    let events = [b"V1 1 8 ", &room_text[..], &batch].concat();
    let samples = [
        entry,
        events,
        [b"O", &room_text[..]].concat(),
        [b"M- ", &room_text[..]].concat(),
        [b"C1 8 ", &room_text[..], b"over"].concat(),
        b"L1 letter".to_vec(),
        b"R1".to_vec(),
        b"E1 1 1-1 18446744073709551615 18446744073709551615 18446744073709551615 x".to_vec(),
        b"V1 18446744073709551615 9 6:chat:l\xff\xff\xff\xff".to_vec(),
    ];
    for sample in samples {
        for end in 0..sample.len() {
            let _ = wire::hear(sample[..end].to_vec().into());
            for byte in [0, b' ', b':', b'9', 0xff] {
                let mut changed = sample.clone();
                changed[end] = byte;
                let _ = wire::hear(changed.clone().into());
                let _ = wire::parse_letter(changed.clone().into());
                let _ = wire::parse_session(changed.clone().into());
                let _ = text::parse_member(&changed);
                let _ = text::parse_producer(&changed);
            }
        }
    }
    for bad in ["", "%", "%4", "%zz", "a#", "a#1", "a#1/", "#1/1", "a#18446744073709551616/1"] {
        assert_eq!(text::parse_activation(bad), None, "{bad}");
    }
    assert_eq!(wire::parse_batch(Bytes::from_static(b"\xff\xff\xff\xff")), None);
    assert_eq!(wire::entry("1-1", "2 9 1 0 0 0 h:a#1".into(), Bytes::new()), None, "another count");
    assert_eq!(wire::hear("V1 1 x".into()), None);
    assert_eq!(wire::hear(Bytes::new()), None);
}
