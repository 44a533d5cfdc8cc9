//! What hosts and rooms are called.

/// The host of the senders, if it runs no rooms.
pub(crate) const WRITERS: &str = "writers";

/// The name of a host: `host-a`, `host-b`, ...
pub(crate) fn host(index: u32) -> String {
    format!("host-{}", char::from_u32(u32::from('a') + index).unwrap_or('?'))
}

/// The key of a document room.
pub(crate) fn document(index: u32) -> String {
    format!("doc-{index}")
}
