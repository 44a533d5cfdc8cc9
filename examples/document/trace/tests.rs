use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn gzip(content: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(content.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn trace(start: &str, patches: &str, end: &str) -> Vec<u8> {
    gzip(&format!(
        r#"{{"startContent":"{start}","endContent":"{end}","txns":[{{"patches":[]}},{{"time":"x","patches":[{patches}]}}]}}"#
    ))
}

fn refusal(file: &[u8]) -> String {
    read(file).unwrap_err().to_string()
}

#[test]
fn a_trace_becomes_a_script() {
    let script = read(&trace("né", r#"[2,0,"漢"],[0,1,"m"]"#, "mé漢")[..]).unwrap();
    assert_eq!(script.start, "né");
    assert_eq!(script.end, "mé漢");
    assert_eq!(
        script.edits,
        [Edit::insert(2, "漢"), Edit { position: 0, deleted: 1, inserted: "m".into() }]
    );
}

#[test]
fn a_missing_file_is_unreadable() {
    let err = load(Path::new("no/such/trace.json.gz")).unwrap_err();
    assert!(matches!(err, TraceErr::Unreadable(_)), "{err}");
}

#[test]
fn plain_json_is_not_gzip() {
    assert_eq!(refusal(b"{}"), "it is not a gzip file; expected gzipped json");
    assert!(matches!(read(&b""[..]), Err(TraceErr::NotGzip)));
}

#[test]
fn a_cut_file_is_damaged() {
    let whole = trace("", r#"[0,0,"a"]"#, "a");
    for length in 2..whole.len() {
        let err = read(&whole[..length]).unwrap_err();
        assert!(matches!(err, TraceErr::DamagedGzip(_)), "{length} bytes: {err}");
    }
}

#[test]
fn a_file_that_unpacks_to_too_much_is_refused() {
    let packed = gzip(&"x".repeat(1000));
    assert!(matches!(unpack(&packed, 999), Err(TraceErr::TooLarge)));
    assert_eq!(unpack(&packed, 1000).unwrap().len(), 1000);
}

#[test]
fn other_content_is_told_apart() {
    assert!(matches!(read(&gzip("not json")[..]), Err(TraceErr::NotJson(_))));
    assert!(matches!(read(&gzip("")[..]), Err(TraceErr::NotJson(_))));
    assert!(matches!(read(&gzip("[1, 2]")[..]), Err(TraceErr::NotTrace(_))));
    assert!(matches!(read(&gzip(r#"{"txns":[]}"#)[..]), Err(TraceErr::NotTrace(_))));
    let negative = read(&trace("a", "[-1,0,\"b\"]", "ab")[..]);
    assert!(matches!(negative, Err(TraceErr::NotTrace(_))));
}

#[test]
fn a_patch_outside_the_text_is_named() {
    assert_eq!(
        refusal(&trace("abc", r#"[3,0,"d"],[2,3,""]"#, "ab")),
        "patch 1 of transaction 1 does not fit: it deletes 3 code points at 2, but the text has 4 there"
    );
}

#[test]
fn a_patch_that_no_message_can_carry_is_refused() {
    let long = "x".repeat(MAX_INSERT_BYTES + 1);
    let err = read(&trace("", &format!(r#"[0,0,"{long}"]"#), &long)[..]).unwrap_err();
    assert!(matches!(err, TraceErr::LongInsert { txn: 1, patch: 0, .. }), "{err}");
}

#[test]
fn an_end_that_does_not_follow_is_refused() {
    let err = read(&trace("", r#"[0,0,"abX"]"#, "abcd")[..]).unwrap_err();
    assert!(matches!(err, TraceErr::OtherEnd { at: 2, found: 3, expected: 4 }), "{err}");
}
