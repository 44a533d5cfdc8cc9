use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::CodecErr;
use super::body::{MAX_DEPTH, decode, encode, encode_about, split_bytes};

const MIB: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Node(Box<Self>),
    Pair(Box<Self>, Box<Self>),
}

fn tree(depth: u32) -> Tree {
    (1..depth).fold(Tree::Leaf, |tree, _| Tree::Node(Box::new(tree)))
}

fn why(error: &CodecErr) -> &str {
    match error {
        CodecErr::Encode { why } | CodecErr::Decode { why } => why,
        other => panic!("expected a serde error, found {other:?}"),
    }
}

#[test]
fn what_fits_the_limit_exactly_can_be_loaded_again() {
    // One byte each on the wire, and up to sixteen in memory.
    let narrow: (Vec<u128>, Vec<i64>, Vec<Option<u64>>, Vec<String>) =
        (vec![1; 5000], vec![-1; 5000], vec![None; 5000], vec![String::new(); 5000]);
    let size = encode(&narrow, MIB).unwrap().len();
    assert_eq!(size, 20_012);

    let bytes = encode(&narrow, size).unwrap();
    assert!(
        decode::<(Vec<u128>, Vec<i64>, Vec<Option<u64>>, Vec<String>)>(&bytes, size).unwrap()
            == narrow
    );
    assert_eq!(encode(&narrow, size - 1), Err(CodecErr::TooLarge { size, limit: size - 1 }));
    assert_eq!(decode::<()>(&bytes, size - 1), Err(CodecErr::TooLarge { size, limit: size - 1 }));
}

#[test]
fn a_state_around_the_limit_is_refused_at_save_time_with_its_full_size() {
    let limit = 8 * MIB;
    // The length in front takes five bytes.
    let fits = "x".repeat(limit - 1 - 5);
    let bytes = encode(&fits, limit).unwrap();
    assert_eq!(bytes.len(), limit - 1);
    assert!(decode::<String>(&bytes, limit).unwrap() == fits);

    for size in [limit + 1, 64 * MIB] {
        let over = vec!["x".repeat(size - 6)];
        assert_eq!(encode(&over, limit), Err(CodecErr::TooLarge { size, limit }));
    }
}

#[test]
fn every_byte_must_belong_to_the_value() {
    let bytes = encode(&(7u8, 8u8), 10).unwrap();
    let error = decode::<u8>(&bytes, 10).unwrap_err();
    assert_eq!(error, CodecErr::TrailingBytes { expected: 1, found: 2 });
    // An older reader of a newer schema: another host may read it.
    assert!(error.is_incompatible() && !error.is_damaged());
    assert_eq!(decode::<()>(&[], 0), Ok(()));
    assert!(matches!(decode::<u8>(&[], 0), Err(CodecErr::Decode { .. })));
}

#[test]
fn nesting_is_bounded_alike_on_both_sides() {
    let deepest = tree(MAX_DEPTH);
    let bytes = encode(&deepest, MIB).unwrap();
    assert!(decode::<Tree>(&bytes, MIB).unwrap() == deepest);

    let error = encode(&tree(MAX_DEPTH + 1), MIB).unwrap_err();
    assert_eq!(why(&error), "nested too deep; expected at most 256 levels");
    // What no writer of ours produces, and would overflow the stack.
    for variant in [1, 2] {
        let error = decode::<Tree>(&vec![variant; MIB], MIB).unwrap_err();
        assert_eq!(why(&error), "nested too deep; expected at most 256 levels");
    }
}

#[test]
fn each_way_of_nesting_takes_as_many_levels_to_write_as_to_read() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Newtype(Option<Box<All>>);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Unit;
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct TupleStruct(Unit, Newtype);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Variant {
        Unit,
        Newtype(Newtype),
        Tuple(u8, Newtype),
        Struct { inner: Newtype },
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct All {
        variant: Variant,
        tuple: (TupleStruct, char),
        seq: Vec<[Newtype; 1]>,
        map: BTreeMap<String, Newtype>,
    }
    let none = || Newtype(None);
    let wrap: [fn(Newtype) -> All; 7] = [
        |x| All { variant: Variant::Newtype(x), ..All::new() },
        |x| All { variant: Variant::Tuple(1, x), ..All::new() },
        |x| All { variant: Variant::Struct { inner: x }, ..All::new() },
        |x| All { tuple: (TupleStruct(Unit, x), 'ß'), ..All::new() },
        |x| All { seq: vec![[x]], ..All::new() },
        |x| All { map: BTreeMap::from([("ß".into(), x)]), ..All::new() },
        |x| All {
            variant: Variant::Newtype(Newtype(None)),
            ..All { seq: vec![[x]], ..All::new() }
        },
    ];
    impl All {
        fn new() -> Self {
            let none = || Newtype(None);
            let tuple = (TupleStruct(Unit, none()), ' ');
            Self { variant: Variant::Unit, tuple, seq: vec![], map: BTreeMap::new() }
        }
    }
    for wrap in wrap {
        let mut value = none();
        loop {
            match encode(&value, MIB) {
                Ok(bytes) => {
                    assert!(decode::<Newtype>(&bytes, MIB).unwrap() == value);
                    value = Newtype(Some(Box::new(wrap(value))));
                }
                Err(error) => {
                    assert_eq!(why(&error), "nested too deep; expected at most 256 levels");
                    break;
                }
            }
        }
    }
}

#[test]
fn elements_without_bytes_are_bounded_alike_on_both_sides() {
    let bytes = encode(&vec![(); 100], 100).unwrap();
    assert_eq!(decode::<Vec<()>>(&bytes, 100).unwrap().len(), 100);
    let error = encode(&vec![(); 101], 100).unwrap_err();
    assert_eq!(
        why(&error),
        "too many elements without bytes: found 101; expected at most 100 elements"
    );
    let error = decode::<Vec<()>>(&[101], 100).unwrap_err();
    assert_eq!(
        why(&error),
        "too many elements without bytes: found 101; expected at most 100 elements"
    );
}

#[test]
fn strings_and_bytes_arrive_however_they_are_asked_for() {
    type Texts = (String, Box<str>, Bytes, Vec<u8>, HashMap<String, char>, Option<f64>);
    let texts: Texts = (
        "grüße".into(),
        "日本".into(),
        Bytes::from_static(b"\0\xff"),
        vec![0, 255],
        HashMap::from([("🦀".into(), '🦀')]),
        Some(-0.5),
    );
    let bytes = encode(&texts, MIB).unwrap();
    assert_eq!(decode::<Texts>(&bytes, MIB).unwrap(), texts);
}

#[test]
fn what_could_not_be_read_back_is_refused_when_written() {
    #[derive(Serialize)]
    struct Skips {
        #[serde(skip_serializing_if = "Option::is_none")]
        maybe: Option<u8>,
        after: u8,
    }
    assert!(encode(&Skips { maybe: Some(1), after: 2 }, 10).is_ok());
    let error = encode(&Skips { maybe: None, after: 2 }, 10).unwrap_err();
    assert_eq!(
        why(&error),
        "field `maybe` is left out by skip_serializing_if; expected every field"
    );

    #[derive(Serialize)]
    struct Flat {
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    assert!(matches!(encode(&Flat { rest: BTreeMap::new() }, 10), Err(CodecErr::Encode { .. })));
}

#[test]
fn an_error_does_not_carry_what_it_quotes_whole() {
    #[derive(Debug)]
    struct Picky;
    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            Err(serde::de::Error::custom(String::deserialize(d)?))
        }
    }
    let bytes = encode(&"ß".repeat(10_000), MIB).unwrap();
    let error = decode::<Picky>(&bytes, MIB).unwrap_err();
    assert_eq!(why(&error).chars().count(), 241);
}

/// Bytes in front of something else are laid out as the two together, and split off again.
#[test]
fn bytes_are_split_off_what_follows() {
    for size in [0, 1, 250, 251, 70_000] {
        let front = Bytes::from(vec![7; size]);
        let both = encode(&(&front, 300_u64), usize::MAX).unwrap();
        let mut parts = encode(&(size as u64), usize::MAX).unwrap().to_vec();
        parts.extend_from_slice(&front);
        parts.extend_from_slice(&encode(&300_u64, usize::MAX).unwrap());
        assert_eq!(both, parts);
        let (found, rest) = split_bytes(&both).unwrap();
        assert_eq!((found, decode(&rest, usize::MAX)), (front, Ok(300_u64)));
        for cut in [0, 1, size] {
            let damaged = split_bytes(&both.slice(..cut));
            let whole = cut > size; // only what follows is missing
            assert_eq!(damaged.is_ok(), whole, "{damaged:?} of {cut} bytes");
        }
    }
    let endless = encode(&u64::MAX, usize::MAX).unwrap();
    assert!(matches!(split_bytes(&endless), Err(CodecErr::Decode { .. })));
}

/// Space that is asked for at the start changes nothing but the space.
#[test]
fn expected_size_is_a_hint() {
    let value = vec!["line".to_owned(); 100];
    let plain = encode(&value, 10_000).unwrap();
    for expected in [0, 1, 500, usize::MAX] {
        assert_eq!(encode_about(&value, expected, 10_000).as_ref(), Ok(&plain));
    }
    let refused = encode_about(&value, usize::MAX, 100);
    assert_eq!(refused, Err(CodecErr::TooLarge { size: plain.len(), limit: 100 }));
}
