//! The Redis transport of [`ractor_rooms`], for rooms that move between processes.

#![expect(dead_code, reason = "the transport that uses the connections is not here yet")]

mod config;
mod connect;
mod error;
mod link;
mod script;
#[cfg(feature = "testing")]
pub mod testing;

pub use config::RedisConfig;
pub use error::ConnectErr;
