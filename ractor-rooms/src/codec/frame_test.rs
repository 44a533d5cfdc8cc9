use bytes::Bytes;

use super::frame::{HEADER, length};
use super::{CodecErr, Frame, FrameKind};

const KINDS: [FrameKind; 4] =
    [FrameKind::Message, FrameKind::Snapshot, FrameKind::Event, FrameKind::Reply];

fn frame(kind: FrameKind) -> Frame {
    Frame::new(kind, 0x0102_0304, Bytes::from_static(b"body")).unwrap()
}

/// A frame with one byte of the header changed and the checksum made right again: what a newer writer
/// might send.
fn forged(at: usize, value: u8) -> Bytes {
    let mut bytes = frame(FrameKind::Event).encode().to_vec();
    bytes[at] = value;
    bytes[14..18].fill(0);
    let crc = crc32c::crc32c(&bytes);
    bytes[14..18].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(bytes)
}

fn decode(bytes: impl Into<Bytes>) -> Result<Frame, CodecErr> {
    Frame::decode(bytes.into(), FrameKind::Event, 100)
}

#[test]
fn the_layout_is_what_the_first_release_wrote() {
    let golden: [&[u8]; 4] = [
        b"RR\x01\x01\x01\x00\x01\x02\x03\x04\x00\x00\x00\x04\xae\xaf\xba\xd1body",
        b"RR\x01\x02\x01\x00\x01\x02\x03\x04\x00\x00\x00\x04\x60\x0e\x19\x09body",
        b"RR\x01\x03\x01\x00\x01\x02\x03\x04\x00\x00\x00\x04\xd9\x35\x55\xeebody",
        b"RR\x01\x04\x01\x00\x01\x02\x03\x04\x00\x00\x00\x04\xf8\xa1\x28\x48body",
    ];
    for (kind, golden) in KINDS.into_iter().zip(golden) {
        let bytes = frame(kind).encode();
        assert_eq!(bytes, golden);
        assert_eq!(Frame::decode(bytes, kind, 4), Ok(frame(kind)));
    }
}

#[test]
fn the_body_is_not_copied() {
    let bytes = frame(FrameKind::Event).encode();
    let body = decode(bytes.clone()).unwrap().into_body();
    assert_eq!(body.as_ptr(), bytes[HEADER..].as_ptr());
}

#[test]
fn a_flipped_bit_is_damage_wherever_it_is() {
    let intact = frame(FrameKind::Event).encode();
    for bit in 0..intact.len() * 8 {
        let mut bytes = intact.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = decode(bytes).unwrap_err();
        match bit / 8 {
            2 => assert!(matches!(error, CodecErr::UnsupportedFrame { supported: 1, .. })),
            10..14 => assert!(error.is_damaged() || matches!(error, CodecErr::TooLarge { .. })),
            _ => assert!(error.is_damaged(), "bit {bit}: {error}"),
        }
    }
}

#[test]
fn a_frame_cut_anywhere_or_followed_by_anything_is_damage() {
    let intact = frame(FrameKind::Event).encode();
    for found in 0..intact.len() {
        let expected = if found < HEADER { HEADER } else { intact.len() };
        assert_eq!(decode(intact.slice(..found)), Err(CodecErr::CutShort { expected, found }));
    }
    let more = [&intact[..], b"x"].concat();
    assert_eq!(decode(more), Err(CodecErr::TooLong { expected: 22, found: 23 }));
}

#[test]
fn foreign_bytes_are_told_from_a_cut_frame() {
    let expected = *b"RR";
    for foreign in [&b"{}"[..], b"xR\x01", b"Rx\x01\x02\x03"] {
        let found = [foreign[0], foreign[1]];
        assert_eq!(decode(foreign), Err(CodecErr::BadMagic { expected, found }));
    }
}

#[test]
fn another_version_is_named_whatever_follows() {
    for found in (0..=255).filter(|v| *v != 1) {
        let mut bytes = frame(FrameKind::Event).encode().to_vec();
        bytes[2] = found;
        for bytes in [bytes.clone(), bytes[..3].to_vec(), forged(2, found).to_vec()] {
            let error = decode(bytes).unwrap_err();
            assert_eq!(error, CodecErr::UnsupportedFrame { found, supported: 1 });
            assert_eq!((error.is_incompatible(), error.is_damaged()), (found > 1, found < 1));
        }
    }
}

#[test]
fn what_a_newer_writer_may_send_is_named_and_left_to_another_host() {
    let expected = FrameKind::Event;
    let cases = [
        (forged(3, 9), CodecErr::UnknownFrameKind { expected, found: 9 }),
        (forged(4, 2), CodecErr::UnknownCodec { found: 2, supported: 1 }),
        (forged(5, 0x80), CodecErr::UnknownFlags { found: 0x80, supported: 0 }),
    ];
    for (bytes, expected) in cases {
        let error = decode(bytes).unwrap_err();
        assert_eq!(error, expected);
        assert!(error.is_incompatible() && !error.is_damaged());
    }
    assert_eq!(
        CodecErr::UnknownFlags { found: 0x80, supported: 0 }.to_string(),
        "flags 0b10000000 are not known; expected none outside 0b00000000"
    );
}

#[test]
fn a_frame_of_another_kind_is_neither_damaged_nor_incompatible() {
    for expected in KINDS {
        for found in KINDS.into_iter().filter(|k| *k != expected) {
            let error = Frame::decode(frame(found).encode(), expected, 4).unwrap_err();
            assert_eq!(error, CodecErr::OtherFrameKind { expected, found });
            assert!(!error.is_incompatible() && !error.is_damaged());
        }
    }
}

#[test]
fn a_stated_length_over_the_limit_is_refused_before_it_is_believed() {
    let bytes = frame(FrameKind::Event).encode();
    let error = Frame::decode(bytes.clone(), FrameKind::Event, 3).unwrap_err();
    assert_eq!(error, CodecErr::TooLarge { size: 4, limit: 3 });

    let mut bytes = bytes.to_vec();
    bytes[10..14].fill(0xff);
    let size = u32::MAX as usize;
    assert_eq!(decode(bytes), Err(CodecErr::TooLarge { size, limit: 100 }));
}

#[test]
fn a_body_that_a_frame_cannot_state_is_refused() {
    let size = 1 << 32;
    assert_eq!(length(size - 1), Ok(u32::MAX));
    assert_eq!(length(size), Err(CodecErr::TooLarge { size, limit: size - 1 }));
}
