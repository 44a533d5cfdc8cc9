//! Shared code of the whole-system tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by a panic"
)]

pub mod holes;

/// The README's program, compiled and run as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
