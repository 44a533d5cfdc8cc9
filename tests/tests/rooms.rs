//! Whole-system tests; one binary, a module per topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by a panic"
)]

#[path = "rooms/holes.rs"]
mod holes;
