//! Input that no writer of ours makes. That nothing panics, hangs or is killed for memory is the test.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use proptest::prelude::*;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::frame::seal;
use super::{CodecErr, Compression, Frame, FrameKind, Snapshot, SnapshotHeader, body};
use crate::id::{Epoch, Kind, Life, Position, Producer};

const LIMIT: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    Text(String),
    Many(Vec<Self>),
    Named { by: BTreeMap<String, Self>, maybe: Option<Box<Self>> },
    Numbers(u128, i64, f32, char, bool),
}

fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Nothing),
        ".*".prop_map(Shape::Text),
        (any::<u128>(), any::<i64>(), -1e9f32..1e9, any::<char>(), any::<bool>())
            .prop_map(|(a, b, c, d, e)| Shape::Numbers(a, b, c, d, e)),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let by = prop::collection::btree_map(".*", inner.clone(), 0..4);
        let maybe = prop::option::of(inner.clone().prop_map(Box::new));
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Shape::Many),
            (by, maybe).prop_map(|(by, maybe)| Shape::Named { by, maybe }),
        ]
    })
}

/// A sequence that believes its size hint, as a careless app's type may.
struct Believer;

impl<'de> Deserialize<'de> for Believer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seq;
        impl<'de> Visitor<'de> for Seq {
            type Value = Believer;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Believer, A::Error> {
                let hint = seq.size_hint().unwrap_or(0);
                assert!(hint <= LIMIT, "a hint of {hint}");
                let mut all = Vec::<u64>::with_capacity(hint);
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(Believer)
            }
        }
        deserializer.deserialize_seq(Seq)
    }
}

fn refused<T: DeserializeOwned>(bytes: &[u8]) {
    match body::decode::<T>(bytes, LIMIT) {
        Err(CodecErr::Decode { .. }) => {}
        Err(other) => panic!("expected a decoding error, found {other}"),
        Ok(_) => panic!("decoded {bytes:02x?}"),
    }
}

fn any_body(bytes: &[u8]) {
    drop(body::decode::<Vec<Vec<u64>>>(bytes, LIMIT));
    drop(body::decode::<Vec<()>>(bytes, LIMIT));
    drop(body::decode::<HashMap<String, Vec<u8>>>(bytes, LIMIT));
    drop(body::decode::<Option<Bytes>>(bytes, LIMIT));
    drop(body::decode::<Vec<Believer>>(bytes, LIMIT));
    drop(body::decode::<Producer>(bytes, LIMIT));
    if let Ok(value) = body::decode::<Shape>(bytes, LIMIT) {
        // Not always the same bytes (a number may be written wider than it needs), but always writable.
        body::encode(&value, LIMIT).unwrap();
    }
}

#[test]
fn stated_lengths_of_any_size_allocate_nothing() {
    for power in 20..64 {
        for length in [(1u64 << power) - 1, 1 << power] {
            // 253 announces eight bytes of a number.
            let mut bytes = vec![253];
            bytes.extend(length.to_le_bytes());
            for tail in [&b""[..], b"\x01", b"\x01\x02\x03\x04\x05\x06\x07\x08"] {
                let bytes = [&bytes, tail].concat();
                refused::<String>(&bytes);
                refused::<Bytes>(&bytes);
                refused::<Vec<u8>>(&bytes);
                refused::<Vec<u64>>(&bytes);
                refused::<Vec<Vec<u64>>>(&bytes);
                refused::<Vec<()>>(&bytes);
                refused::<Vec<[(); 3]>>(&bytes);
                refused::<BTreeMap<(), ()>>(&bytes);
                refused::<HashMap<u64, String>>(&bytes);
                refused::<Believer>(&bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn codec_random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), schema: u32) {
        let kind = Kind::new("chat").unwrap();
        any_body(&bytes);
        prop_assert!(Frame::decode(bytes.clone().into(), FrameKind::Message, LIMIT).is_err());
        prop_assert!(Snapshot::decode(bytes.clone().into(), &kind, LIMIT).is_err());
        // With a right checksum around it, the snapshot header is reached.
        let sealed = seal(FrameKind::Snapshot, schema, bytes.len() as u32, &[&bytes]);
        prop_assert!(Frame::decode(sealed.clone(), FrameKind::Snapshot, LIMIT).is_ok());
        prop_assert!(Snapshot::decode(sealed, &kind, LIMIT).is_err());
        // And a plain start, so that fewer of them fail at the magic.
        let begun = [&b"RR\x01\x01\x01\x00"[..], &bytes].concat();
        prop_assert!(Frame::decode(begun.into(), FrameKind::Message, LIMIT).is_err());
    }

    #[test]
    fn codec_values_with_changed_bytes_never_panic(
        value in shape(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = body::encode(&value, LIMIT).unwrap().to_vec();
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        any_body(&bytes);
    }

    #[test]
    fn codec_values_come_back(value in shape()) {
        let bytes = body::encode(&value, LIMIT).unwrap();
        let size = bytes.len();
        prop_assert_eq!(body::decode::<Shape>(&bytes, size), Ok(value.clone()));
        prop_assert_eq!(body::encode(&value, size), Ok(bytes));
        prop_assert_eq!(
            body::encode(&value, size - 1),
            Err(CodecErr::TooLarge { size, limit: size - 1 })
        );
    }

    #[test]
    fn codec_snapshots_come_back(
        room_kind in ".{1,32}",
        schema: u32,
        numbers: (u64, u64, u64, u64),
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (life, epoch, ms, n) = numbers;
        let header = SnapshotHeader {
            room_kind: Kind::new(room_kind).unwrap(),
            schema,
            life: Life(life),
            epoch: Epoch(epoch),
            cut: Position { ms, n },
            compression: Compression::None,
        };
        let snapshot = Snapshot { header, body: body.into() };
        let bytes = snapshot.encode(300).unwrap();
        prop_assert_eq!(Snapshot::decode(bytes, &snapshot.header.room_kind, 300), Ok(snapshot));
    }
}
