//! Room actors for `ractor` that can move between hosts.

pub mod delivery;
pub mod id;
pub mod protocol;
