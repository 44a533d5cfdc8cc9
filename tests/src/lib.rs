//! Shared code of the whole-system tests: clusters, an oracle, rooms that show what happens to them, a
//! transport that meddles, recorded traces.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by a panic"
)]

pub mod cluster;
pub mod crash;
pub mod holes;
pub mod meddler;
pub mod oracle;
pub mod rooms;
pub mod sim;
pub mod trace;
pub mod wait;

pub use cluster::Cluster;
pub use oracle::Oracle;
pub use wait::eventually;

/// The README's program, compiled and run as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
