//! Room actors for `ractor` that can move between hosts.

pub mod clock;
pub mod codec;
pub mod delivery;
pub mod id;
pub mod protocol;
#[cfg(feature = "runtime")]
mod runtime;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;

pub use delivery::Delivery;
#[cfg(feature = "runtime")]
pub use runtime::*;
pub use transport::MemoryTransport;
