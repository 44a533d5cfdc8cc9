//! Private servers and a proxy that breaks connections, for tests and examples. Unix only.

mod cluster;
#[allow(clippy::expect_used, reason = "this is test code for other crates: a failed check panics")]
mod decoders;
mod error;
mod guard;
mod proxy;
mod sentinel;
mod server;

pub use cluster::PrivateCluster;
pub use decoders::Decoder;
pub use error::ServerErr;
pub use proxy::Proxy;
pub use sentinel::PrivateSentinel;
pub use server::{PrivateServer, ServerOptions};
