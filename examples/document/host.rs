//! How a host is set up, in whatever process it is.

use std::sync::Arc;

use ractor_rooms::RoomHostBuilder;

use super::room::{Beginning, DeliveryClass, Document};

/// Room in a snapshot for text and journal, beside the dead weight.
const SNAPSHOT_ROOM: usize = 64 << 20;

/// Lets host number `host` run documents.
pub(crate) fn with_documents<C: DeliveryClass>(
    builder: RoomHostBuilder,
    host: u32,
    beginning: &Arc<Beginning>,
) -> RoomHostBuilder {
    builder
        .room(Document::<C>::new(host, Arc::clone(beginning)))
        .max_snapshot_bytes(SNAPSHOT_ROOM + beginning.ballast.bytes())
}
