//! Room actors for `ractor` that can move between hosts.

pub mod clock;
pub mod codec;
pub mod delivery;
pub mod id;
pub mod protocol;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;

pub use delivery::Delivery;
pub use transport::MemoryTransport;
