//! The Redis transport of [`ractor_rooms`], for rooms that move between processes.
//!
//! ```no_run
//! # async fn example() -> Result<(), ractor_rooms_redis::ConnectErr> {
//! use ractor_rooms_redis::RedisTransport;
//!
//! let transport = RedisTransport::connect("redis://127.0.0.1").await?;
//! # drop(transport);
//! # Ok(())
//! # }
//! ```
//!
//! All hosts of a cluster connect to the same server, Sentinel or Cluster with the same namespace.
//! Redis 7.0 and later and Valkey work; see [`layout`] for what is kept there.

mod config;
mod connect;
mod error;
mod keys;
#[doc = include_str!("../docs/layout.md")]
pub mod layout {}
#[doc = include_str!("../docs/durability.md")]
pub mod durability {}
mod link;
mod recurring;
mod reply;
mod script;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
#[cfg(test)]
mod text_test;
mod transport;
mod wire;
mod words;

pub use config::RedisConfig;
pub use error::ConnectErr;
pub use transport::RedisTransport;
