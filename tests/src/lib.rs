//! Shared code of the whole-system tests.

/// The README's program, compiled and run as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
