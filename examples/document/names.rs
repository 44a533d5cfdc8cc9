//! What hosts and rooms are called.

/// The host of the senders, if it runs no rooms.
pub(crate) const WRITERS: &str = "writers";

/// A host that joins during the run, before its number.
pub(crate) const VISITOR: &str = "visitor";

/// The name of a host: `host-a`, `host-b`, ...
pub(crate) fn host(index: u32) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => format!("host-{}", char::from(b'a' + index)),
        // A visitor counts from the last host on; what it is called does not matter here.
        _ => format!("host-{index}"),
    }
}

/// The key of a document room.
pub(crate) fn document(index: u32) -> String {
    format!("doc-{index}")
}
