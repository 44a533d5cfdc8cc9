use bytes::Bytes;

use super::frame::seal;
use super::{CodecErr, Compression, FrameKind, Snapshot, SnapshotHeader};
use crate::id::{Epoch, Kind, Life, Position};

const MIB: usize = 1 << 20;
/// Where the header's fields lie within the body of the frame.
const FORMAT: usize = 2;
const COMPRESSION: usize = 4;
const KIND_LENGTH: usize = 37;
const KIND: usize = 38;

fn kind() -> Kind {
    Kind::new("chat").unwrap()
}

fn snapshot(body: impl Into<Bytes>) -> Snapshot {
    let header = SnapshotHeader {
        room_kind: kind(),
        schema: 3,
        life: Life(0x11),
        epoch: Epoch(0x22),
        cut: Position { ms: 0x33, n: 0x44 },
        compression: Compression::None,
    };
    Snapshot { header, body: body.into() }
}

fn decode(bytes: Bytes) -> Result<Snapshot, CodecErr> {
    Snapshot::decode(bytes, &kind(), 100)
}

/// A snapshot whose content was changed by its writer: the checksum is right.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut body = snapshot("state").encode(100).unwrap()[18..].to_vec();
    change(&mut body);
    seal(FrameKind::Snapshot, 3, body.len() as u32, &[&body])
}

#[test]
fn it_comes_back_as_it_was_and_shares_the_memory() {
    for state in ["", "state"] {
        let bytes = snapshot(state).encode(5).unwrap();
        let back = Snapshot::decode(bytes.clone(), &kind(), 5).unwrap();
        assert_eq!(back, snapshot(state));
        let start = bytes.len() - state.len();
        assert!(state.is_empty() || back.body.as_ptr() == bytes[start..].as_ptr());
    }
    let longest = Kind::new("k".repeat(128)).unwrap();
    let mut long = snapshot("state");
    long.header.room_kind = longest.clone();
    let bytes = long.encode(5).unwrap();
    assert_eq!(Snapshot::decode(bytes, &longest, 5), Ok(long));
}

#[test]
fn the_limit_is_for_the_state_alone_and_the_same_on_both_sides() {
    let limit = 8 * MIB;
    let fits = snapshot(vec![7; limit]);
    let bytes = fits.encode(limit).unwrap();
    assert!(Snapshot::decode(bytes.clone(), &kind(), limit).unwrap() == fits);

    for size in [limit + 1, 64 * MIB] {
        let over = snapshot(vec![7; size]);
        assert_eq!(over.encode(limit), Err(CodecErr::TooLarge { size, limit }));
    }
    let (size, limit) = (limit, limit - 1);
    assert_eq!(
        Snapshot::decode(bytes.clone(), &kind(), limit),
        Err(CodecErr::TooLarge { size, limit })
    );
    // So far over that the frame is refused before its header is read: its size is all that is known.
    let error = Snapshot::decode(bytes.clone(), &kind(), 0).unwrap_err();
    assert_eq!(error, CodecErr::TooLarge { size: bytes.len() - 18, limit: 0 });
}

#[test]
fn another_rooms_state_is_refused() {
    let expected = Kind::new("game").unwrap();
    let error = Snapshot::decode(snapshot("").encode(9).unwrap(), &expected, 9).unwrap_err();
    assert_eq!(error.to_string(), "a snapshot of another room kind: expected game, found chat");
    assert_eq!(error, CodecErr::OtherKind { expected, found: kind() });
    assert!(!error.is_damaged() && !error.is_incompatible());
}

#[test]
fn a_newer_format_or_compression_is_named_and_left_to_another_host() {
    for found in [0u16, 2, 0x0101, u16::MAX] {
        let bytes = forged(|b| b[FORMAT..COMPRESSION].copy_from_slice(&found.to_be_bytes()));
        let error = decode(bytes).unwrap_err();
        assert_eq!(error, CodecErr::UnsupportedSnapshotFormat { found, supported: 1 });
        assert_eq!((error.is_incompatible(), error.is_damaged()), (found > 1, found < 1));
    }
    let error = decode(forged(|b| b[COMPRESSION] = 1)).unwrap_err();
    assert_eq!(error, CodecErr::UnknownCompression { found: 1, supported: 0 });
    assert!(error.is_incompatible());
}

#[test]
fn a_header_that_contradicts_itself_is_damage() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, &str); 7] = [
        (|b| b.truncate(1), "expected 2 bytes of header length, found 1"),
        (|b| b[0] = 1, "expected 296 bytes of header, found 45"),
        (|b| b[1] = 10, "expected 8 bytes of life, found 7"),
        (|b| b[1] += 1, "expected it to end, found 1 more bytes"),
        (|b| b[KIND_LENGTH] = 5, "expected 5 bytes of kind, found 4"),
        (
            |b| b[KIND] = 0xff,
            "expected a kind in UTF-8, found invalid utf-8 sequence of 1 bytes from index 0",
        ),
        (
            |b| {
                b[1] -= 4;
                b[KIND_LENGTH] = 0;
            },
            "the kind is empty; expected 1 to 128 bytes",
        ),
    ];
    for (change, expected) in cases {
        let error = decode(forged(change)).unwrap_err();
        assert_eq!(error, CodecErr::BadSnapshotHeader { why: expected.to_owned() });
        assert!(error.is_damaged());
    }
}

#[test]
fn another_frame_is_not_a_snapshot() {
    let bytes = seal(FrameKind::Message, 3, 0, &[]);
    let (expected, found) = (FrameKind::Snapshot, FrameKind::Message);
    assert_eq!(decode(bytes), Err(CodecErr::OtherFrameKind { expected, found }));
}
