//! Shared code of the whole-system tests.
