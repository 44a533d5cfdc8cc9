//! Room actors for `ractor` that can move between hosts.

pub mod id;
