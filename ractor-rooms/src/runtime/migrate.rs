//! The request to move a room.

use bytes::Bytes;

use crate::id::{HostId, RoomId};

/// Asks the supervisor of the host that runs a room to move it. Sent by cluster code, to
/// `RoomHost::supervisor` or through `RoomHost::migrate`, which also finds the host that runs the room.
///
/// ```
/// use ractor_rooms::MigrateTo;
///
/// let request = MigrateTo::host("chat", "lobby", "host-b");
/// # let _ = request;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrateTo {
    pub(crate) kind: String,
    pub(crate) key: Bytes,
    pub(crate) host: String,
}

impl MigrateTo {
    /// The room of this kind and key shall move to this host.
    pub fn host(kind: impl Into<String>, key: impl Into<Bytes>, host: impl Into<String>) -> Self {
        Self { kind: kind.into(), key: key.into(), host: host.into() }
    }

    /// The same of names that have been parsed.
    pub(crate) fn parsed(room: &RoomId, to: &HostId) -> Self {
        Self::host(room.kind.as_str(), Bytes::copy_from_slice(room.key.as_bytes()), to.as_str())
    }
}
