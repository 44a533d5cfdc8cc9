//! How a host is set up, in whatever process it is.

use std::sync::Arc;
use std::time::Duration;

use ractor_rooms::RoomHostBuilder;

use serde::{Deserialize, Serialize};

use super::client::PATIENCE;
use super::options::Options;
use super::room::{Beginning, DeliveryClass, Document};

/// Room in a snapshot for text and journal, beside the dead weight.
const SNAPSHOT_ROOM: usize = 64 << 20;

/// Limits of a host that depend on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// How long its session lasts without a heartbeat.
    pub(crate) session_ttl_ms: u32,
    /// Whether it must live with faults.
    pub(crate) has_faults: bool,
}

impl Limits {
    /// Those that the options ask for.
    pub(crate) fn of(options: &Options) -> Self {
        Self { session_ttl_ms: options.session_ttl_ms, has_faults: options.has_faults() }
    }

    /// Sets them.
    pub(crate) fn apply(self, builder: RoomHostBuilder) -> RoomHostBuilder {
        builder.configure(|config| {
            config.session_ttl = Duration::from_millis(self.session_ttl_ms.into());
            if self.has_faults {
                // A message that is given up would be missing from the text.
                config.send_timeout = PATIENCE;
            }
        })
    }
}

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
