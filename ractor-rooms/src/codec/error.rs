//! What can be wrong with bytes, or with a value that should become bytes.

use thiserror::Error;

use super::FrameKind;
use crate::id::Kind;

/// Why a value was not encoded, or bytes were not decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecErr {
    /// More bytes than are allowed.
    #[error("{size} bytes are too many; expected at most {limit}")]
    TooLarge {
        /// How many bytes it has.
        size: usize,
        /// The most bytes it may have.
        limit: usize,
    },
    /// The value cannot be written in this format.
    #[error("the value cannot be encoded: {why}")]
    Encode {
        /// What the serializer said, shortened.
        why: String,
    },
    /// The body is not a value of the type that was asked for.
    #[error("the body does not decode: {why}")]
    Decode {
        /// What the deserializer said, shortened.
        why: String,
    },
    /// The body holds more than the value that was asked for.
    #[error("the value ends after {expected} bytes; found a body of {found}")]
    TrailingBytes {
        /// How many bytes the value took.
        expected: usize,
        /// How many bytes the body has.
        found: usize,
    },
    /// Not a frame of this crate.
    #[error("not a frame: expected it to begin with {expected:02x?}, found {found:02x?}")]
    BadMagic {
        /// How a frame begins.
        expected: [u8; 2],
        /// How this begins.
        found: [u8; 2],
    },
    /// A frame version that this build does not read.
    #[error("frame version {found} is not supported; expected {supported}")]
    UnsupportedFrame {
        /// The version in the frame.
        found: u8,
        /// The version that this build reads.
        supported: u8,
    },
    /// The frame ends before its stated end.
    #[error("the frame is cut short: expected {expected} bytes, found {found}")]
    CutShort {
        /// How many bytes it should have.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Something follows the frame.
    #[error("the frame is too long: expected {expected} bytes, found {found}")]
    TooLong {
        /// How many bytes it should have.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// The frame is not what was written.
    #[error("the checksum does not match: expected {expected:08x}, found {found:08x}")]
    Checksum {
        /// The checksum in the frame.
        expected: u32,
        /// The checksum of the frame.
        found: u32,
    },
    /// A kind of frame that this build does not know.
    #[error("frame kind {found} is not known; expected {expected}")]
    UnknownFrameKind {
        /// The kind that was asked for.
        expected: FrameKind,
        /// The number in the frame.
        found: u8,
    },
    /// A frame of another kind than was asked for.
    #[error("a frame of another kind: expected {expected}, found {found}")]
    OtherFrameKind {
        /// The kind that was asked for.
        expected: FrameKind,
        /// The kind in the frame.
        found: FrameKind,
    },
    /// A body format that this build does not read.
    #[error("codec {found} is not known; expected {supported}")]
    UnknownCodec {
        /// The codec in the frame.
        found: u8,
        /// The codec that this build reads.
        supported: u8,
    },
    /// Flags that this build does not know.
    #[error("flags {found:#010b} are not known; expected none outside {supported:#010b}")]
    UnknownFlags {
        /// The flags in the frame.
        found: u8,
        /// The flags that this build knows.
        supported: u8,
    },
    /// A version of the snapshot header that this build does not read.
    #[error("snapshot format {found} is not supported; expected {supported}")]
    UnsupportedSnapshotFormat {
        /// The version in the snapshot.
        found: u16,
        /// The version that this build reads.
        supported: u16,
    },
    /// A compression that this build does not know.
    #[error("compression {found} is not known; expected 0 to {supported}")]
    UnknownCompression {
        /// The number in the snapshot.
        found: u8,
        /// The highest number that this build knows.
        supported: u8,
    },
    /// The snapshot's header contradicts itself, although its checksum is right.
    #[error("the snapshot header is malformed: {why}")]
    BadSnapshotHeader {
        /// What was expected and what was found.
        why: String,
    },
    /// The snapshot of a room of another kind.
    #[error("a snapshot of another room kind: expected {expected}, found {found}")]
    OtherKind {
        /// The kind that was asked for.
        expected: Kind,
        /// The kind in the snapshot.
        found: Kind,
    },
}

impl CodecErr {
    /// Whether other code wrote this, so that another host may read it.
    ///
    /// A body that passed its checksum and yet does not decode counts: it arrived as it was written.
    pub fn is_incompatible(&self) -> bool {
        match self {
            Self::UnsupportedFrame { found, supported } => found > supported,
            Self::UnsupportedSnapshotFormat { found, supported } => found > supported,
            Self::UnknownFrameKind { .. }
            | Self::UnknownCodec { .. }
            | Self::UnknownFlags { .. }
            | Self::UnknownCompression { .. }
            | Self::Decode { .. }
            | Self::TrailingBytes { .. } => true,
            Self::TooLarge { .. }
            | Self::Encode { .. }
            | Self::BadMagic { .. }
            | Self::CutShort { .. }
            | Self::TooLong { .. }
            | Self::Checksum { .. }
            | Self::OtherFrameKind { .. }
            | Self::BadSnapshotHeader { .. }
            | Self::OtherKind { .. } => false,
        }
    }

    /// Whether no host can read this, because it is not what was once written.
    ///
    /// Version 0 was never written, so it is damage. A flipped bit that makes the frame version look
    /// newer cannot be told from a newer frame, whose checksum may lie elsewhere.
    pub fn is_damaged(&self) -> bool {
        match self {
            Self::UnsupportedFrame { found, supported } => found < supported,
            Self::UnsupportedSnapshotFormat { found, supported } => found < supported,
            Self::BadMagic { .. }
            | Self::CutShort { .. }
            | Self::TooLong { .. }
            | Self::Checksum { .. }
            | Self::BadSnapshotHeader { .. } => true,
            Self::TooLarge { .. }
            | Self::Encode { .. }
            | Self::Decode { .. }
            | Self::TrailingBytes { .. }
            | Self::UnknownFrameKind { .. }
            | Self::OtherFrameKind { .. }
            | Self::UnknownCodec { .. }
            | Self::UnknownFlags { .. }
            | Self::UnknownCompression { .. }
            | Self::OtherKind { .. } => false,
        }
    }
}
