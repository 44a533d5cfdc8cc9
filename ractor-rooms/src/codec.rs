//! Bytes that leave the process: bounded bodies in a checked frame, and snapshots.
//!
//! A body is what serde makes of the app's types; [`body`] alone knows the format. Around it goes a
//! [`Frame`] laid out by hand, because a serde format as the outermost layer can tell neither damage
//! nor a newer writer from a value. A [`Snapshot`] is a frame that also says whose state it is and up
//! to where it has read.
//!
//! Everything read here is suspect: each fault is a typed [`CodecErr`], nothing panics, and no length
//! in the bytes decides how much is allocated.

pub mod body;
mod error;
mod frame;
mod frame_kind;
mod snapshot;

pub use error::CodecErr;
pub use frame::Frame;
pub use frame_kind::FrameKind;
pub use snapshot::{Compression, Snapshot, SnapshotHeader};

#[cfg(test)]
mod body_test;
#[cfg(test)]
mod frame_test;
#[cfg(test)]
mod golden_test;
#[cfg(test)]
mod hostile_test;
#[cfg(test)]
mod snapshot_test;
