//! The state of a room, as it is stored and moved.
//!
//! A frame of kind [`FrameKind::Snapshot`] whose schema is the state's and whose body begins with a header
//! laid out by hand, so that it can be read without knowing the state. All numbers are big-endian:
//!
//! ```text
//! header length u16 | format u16 | compression u8 | life u64 | epoch u64 | cut u64 u64 | kind length u8 | kind | state
//! ```
//!
//! The header length counts what follows it up to the state.

use bytes::{BufMut, Bytes};

use super::{CodecErr, Frame, FrameKind, body, frame};
use crate::id::{Epoch, Kind, Life, MAX_NAME_BYTES, Position};

const FORMAT: u16 = 1;
/// A header without the name of the kind, and with the longest one.
const FIXED: usize = 2 + 2 + 1 + 8 + 8 + 16 + 1;
const LONGEST: usize = FIXED + MAX_NAME_BYTES;

/// How the state's bytes are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// As they are.
    #[default]
    None = 0,
}

/// Whose state it is, and up to where it has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The kind of the room.
    pub room_kind: Kind,
    /// The app's version of the state. Carried here; whether it can be read is for the app to say.
    pub schema: u32,
    /// The life of the room.
    pub life: Life,
    /// The epoch under which it was taken.
    pub epoch: Epoch,
    /// The last log entry that is in it.
    pub cut: Position,
    /// How the state is packed.
    pub compression: Compression,
}

/// The state of a room between two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose state it is.
    pub header: SnapshotHeader,
    /// The encoded state.
    pub body: Bytes,
}

impl Snapshot {
    /// The snapshot as bytes. `limit` is for the state alone, without what goes around it.
    ///
    /// # Errors
    /// [`CodecErr::TooLarge`] when the state is over the limit, or over what a frame can hold (4 GiB less
    /// some bytes for the header).
    pub fn encode(&self, limit: usize) -> Result<Bytes, CodecErr> {
        self.header.seal(&[&self.body], limit)
    }

    /// Reads the snapshot of a room of the expected kind. Its state shares the memory of `bytes`.
    ///
    /// # Errors
    /// What [`Frame::decode`] finds; [`CodecErr::UnsupportedSnapshotFormat`];
    /// [`CodecErr::UnknownCompression`]; [`CodecErr::BadSnapshotHeader`]; [`CodecErr::OtherKind`];
    /// [`CodecErr::TooLarge`] when the state has more than `limit` bytes.
    pub fn decode(bytes: Bytes, expected_kind: &Kind, limit: usize) -> Result<Self, CodecErr> {
        let max_body = limit.saturating_add(LONGEST);
        let frame = Frame::decode(bytes, FrameKind::Snapshot, max_body).map_err(|e| match e {
            // The caller's limit, not the one with room for a header.
            CodecErr::TooLarge { size, .. } => CodecErr::TooLarge { size, limit },
            other => other,
        })?;
        let schema = frame.schema();
        let body = frame.into_body();
        let mut rest = Fields(&body);
        let length = usize::from(u16::from_be_bytes(rest.take("header length")?));
        let header = SnapshotHeader::decode(Fields(rest.bytes(length, "header")?), schema)?;
        if header.room_kind != *expected_kind {
            let (expected, found) = (expected_kind.clone(), header.room_kind);
            return Err(CodecErr::OtherKind { expected, found });
        }
        let state = body.slice_ref(rest.0);
        if state.len() > limit {
            return Err(CodecErr::TooLarge { size: state.len(), limit });
        }
        Ok(Self { header, body: state })
    }
}

impl SnapshotHeader {
    /// The snapshot of a state whose bytes lie in parts, so that a large one is copied only once.
    ///
    /// # Errors
    /// As [`Snapshot::encode`].
    pub fn seal(&self, state: &[&[u8]], limit: usize) -> Result<Bytes, CodecErr> {
        let header = self.encode();
        let limit = limit.min(body::MAX_BODY.saturating_sub(header.len()));
        let size = state.iter().fold(0, |size: usize, part| size.saturating_add(part.len()));
        if size > limit {
            return Err(CodecErr::TooLarge { size, limit });
        }
        let length = frame::length(header.len().saturating_add(size))?;
        let parts: Vec<&[u8]> = std::iter::once(&header[..]).chain(state.iter().copied()).collect();
        Ok(frame::seal(FrameKind::Snapshot, self.schema, length, &parts))
    }

    fn encode(&self) -> Vec<u8> {
        let kind = self.room_kind.as_str().as_bytes();
        // At most `LONGEST`: a kind has no more than 128 bytes.
        let length = FIXED - 2 + kind.len();
        let mut out = Vec::with_capacity(LONGEST);
        out.put_u16(length as u16);
        out.put_u16(FORMAT);
        out.put_u8(self.compression as u8);
        out.put_u64(self.life.0);
        out.put_u64(self.epoch.0);
        out.put_u64(self.cut.ms);
        out.put_u64(self.cut.n);
        out.put_u8(kind.len() as u8);
        out.put_slice(kind);
        out
    }

    fn decode(mut fields: Fields<'_>, schema: u32) -> Result<Self, CodecErr> {
        let format = u16::from_be_bytes(fields.take("format")?);
        if format != FORMAT {
            return Err(CodecErr::UnsupportedSnapshotFormat { found: format, supported: FORMAT });
        }
        let [compression] = fields.take("compression")?;
        let compression = match compression {
            0 => Compression::None,
            found => {
                return Err(CodecErr::UnknownCompression { found, supported: 0 });
            }
        };
        let life = Life(u64::from_be_bytes(fields.take("life")?));
        let epoch = Epoch(u64::from_be_bytes(fields.take("epoch")?));
        let ms = u64::from_be_bytes(fields.take("cut")?);
        let n = u64::from_be_bytes(fields.take("cut")?);
        let [kind] = fields.take("kind length")?;
        let kind = str::from_utf8(fields.bytes(usize::from(kind), "kind")?)
            .map_err(|e| bad(format!("expected a kind in UTF-8, found {e}")))?;
        let room_kind = Kind::new(kind).map_err(|e| bad(e.to_string()))?;
        if !fields.0.is_empty() {
            return Err(bad(format!("expected it to end, found {} more bytes", fields.0.len())));
        }
        Ok(Self { room_kind, schema, life, epoch, cut: Position { ms, n }, compression })
    }
}

fn bad(why: String) -> CodecErr {
    CodecErr::BadSnapshotHeader { why }
}

/// What is still to be read of a header.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], CodecErr> {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else {
            return Err(missing(what, N, self.0.len()));
        };
        self.0 = rest;
        Ok(*field)
    }

    fn bytes(&mut self, size: usize, what: &str) -> Result<&'a [u8], CodecErr> {
        let Some((field, rest)) = self.0.split_at_checked(size) else {
            return Err(missing(what, size, self.0.len()));
        };
        self.0 = rest;
        Ok(field)
    }
}

fn missing(what: &str, expected: usize, found: usize) -> CodecErr {
    bad(format!("expected {expected} bytes of {what}, found {found}"))
}
