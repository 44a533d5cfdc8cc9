//! Snapshots that the first release wrote, kept as they were. When a test here fails, rooms that are
//! stored today cannot be opened by this code: raise a version and keep reading the old one. The files
//! are never written again.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{CodecErr, Compression, Snapshot, SnapshotHeader, body};
use crate::id::{Epoch, Kind, Life, Position};

const LIMIT: usize = 8 << 20;
const FRAME_VERSION: usize = 2;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Chat {
    topic: Option<String>,
    lines: Vec<Line>,
    members: BTreeMap<String, u64>,
    open: bool,
    score: (i32, f64),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Line {
    Said { by: String, text: String, at: u64 },
    Cleared,
    Image(Bytes, u16, u16),
}

fn empty() -> Chat {
    Chat::default()
}

fn small() -> Chat {
    let said = |by: &str, text: &str, at| Line::Said { by: by.into(), text: text.into(), at };
    Chat {
        topic: Some("rust".into()),
        lines: vec![
            said("ann", "hello", 1_700_000_000_000),
            Line::Cleared,
            said("bob", "", 250),
            said("bob", "hi", 251),
            Line::Image(Bytes::from_static(&[0, 127, 128, 255]), 65_535, 1),
        ],
        members: BTreeMap::from([("ann".into(), 1), ("bob".into(), u64::MAX)]),
        open: true,
        score: (-3, 0.5),
    }
}

fn text() -> Chat {
    let texts = [
        "Grüße aus Köln",
        "日本語のテキスト",
        "👩‍👩‍👧‍👦 🦀",
        "שלום",
        "e\u{301} ≠ é",
        "\u{0}\u{7f}\u{10ffff}",
    ];
    let lines = texts.map(|t| Line::Said { by: "Ζωή".into(), text: t.into(), at: 0 });
    Chat { topic: Some("ﬁ ß İ".into()), lines: lines.into(), ..Chat::default() }
}

/// Lines of the numbers of x → 6364136223846793005 x + 1442695040888963407 (mod 2^64), from 1, until
/// their texts have 1 MiB: line i is by `member` and i mod 97, and says the next number in decimal,
/// once and up to 30 times more by its top five bits.
fn large() -> Chat {
    let (mut x, mut size, mut lines) = (1u64, 0, Vec::new());
    while size < 1 << 20 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let text = x.to_string().repeat(1 + (x >> 59) as usize % 31);
        size += text.len();
        lines.push(Line::Said { by: format!("member{}", lines.len() % 97), text, at: x });
    }
    Chat { lines, ..Chat::default() }
}

fn snapshot(state: &Chat) -> Snapshot {
    let header = SnapshotHeader {
        room_kind: Kind::new("chat").unwrap(),
        schema: 7,
        life: Life(1_700_000_000_001),
        epoch: Epoch(1_700_000_000_042),
        cut: Position { ms: 1_700_000_000_777, n: 3 },
        compression: Compression::None,
    };
    Snapshot { header, body: body::encode(state, LIMIT).unwrap() }
}

fn open(bytes: Bytes) -> Result<(SnapshotHeader, Chat), CodecErr> {
    let snapshot = Snapshot::decode(bytes, &Kind::new("chat").unwrap(), LIMIT)?;
    Ok((snapshot.header, body::decode(&snapshot.body, LIMIT)?))
}

fn stored() -> [(&'static str, Bytes, Chat); 3] {
    [
        ("empty", hex(include_str!("fixtures/empty.hex")), empty()),
        ("small", hex(include_str!("fixtures/small.hex")), small()),
        ("text", hex(include_str!("fixtures/text.hex")), text()),
    ]
}

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |p: &[u8]| u8::from_str_radix(str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    let line = |c: &[u8]| c.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}

#[test]
fn what_the_first_release_stored_opens_and_is_written_the_same() {
    for (name, bytes, state) in stored() {
        let written = snapshot(&state).encode(LIMIT).unwrap();
        assert_eq!(written, bytes, "{name}, as it is written now:\n{}", to_hex(&written));
        assert_eq!(open(bytes), Ok((snapshot(&state).header, state)), "{name}");
    }
}

#[test]
fn a_state_of_a_mebibyte_is_written_the_same() {
    let written = snapshot(&large()).encode(LIMIT).unwrap();
    let found = format!("{} {:08x}\n", written.len(), crc32c::crc32c(&written));
    assert_eq!(found, include_str!("fixtures/large.size-crc32c"));
    let (header, state) = open(written).unwrap();
    assert!(header == snapshot(&large()).header && state == large());
}

#[test]
fn no_flipped_bit_goes_unseen() {
    for (name, bytes, _) in stored() {
        for bit in 0..bytes.len() * 8 {
            flipped(name, &bytes, bit);
        }
    }
    let bytes = snapshot(&large()).encode(LIMIT).unwrap();
    let everywhere = (0..bytes.len() * 8).step_by(bytes.len() / 8 + 1);
    for bit in everywhere.chain(0..18 * 8).chain((0..8).map(|b| (bytes.len() - 1) * 8 + b)) {
        flipped("large", &bytes, bit);
    }
}

fn flipped(name: &str, bytes: &Bytes, bit: usize) {
    let mut copy = bytes.to_vec();
    copy[bit / 8] ^= 1 << (bit % 8);
    let error = open(copy.into()).expect_err(name);
    // The version alone comes before the checksum, and a length before the bytes it counts.
    let explained = match bit / 8 {
        FRAME_VERSION => matches!(error, CodecErr::UnsupportedFrame { supported: 1, .. }),
        10..14 => error.is_damaged() || matches!(error, CodecErr::TooLarge { .. }),
        _ => error.is_damaged() && !error.is_incompatible(),
    };
    assert!(explained, "{name}, bit {bit}: {error}");
}

#[test]
fn no_missing_end_goes_unseen() {
    for (name, bytes, _) in stored() {
        for found in 0..bytes.len() {
            let error = open(bytes.slice(..found)).expect_err(name);
            assert!(matches!(error, CodecErr::CutShort { found: f, .. } if f == found), "{error}");
        }
    }
    let bytes = snapshot(&large()).encode(LIMIT).unwrap();
    let (expected, found) = (bytes.len(), bytes.len() - 10);
    assert_eq!(open(bytes.slice(..found)), Err(CodecErr::CutShort { expected, found }));
}

#[test]
fn an_unknown_version_is_named() {
    for (_, bytes, _) in stored() {
        for found in (0..=255).filter(|v| *v != 1) {
            let mut copy = bytes.to_vec();
            copy[FRAME_VERSION] = found;
            let expected = CodecErr::UnsupportedFrame { found, supported: 1 };
            assert_eq!(open(copy.into()), Err(expected));
        }
    }
}
