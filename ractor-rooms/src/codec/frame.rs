//! The outer frame of everything that travels.
//!
//! All numbers are big-endian:
//!
//! ```text
//! "RR" | frame version u8 | kind u8 | codec u8 | flags u8 | schema u32 | body length u32 | crc32c u32 | body
//! ```
//!
//! The checksum covers the header too (with the checksum itself as zero) and is judged before kind,
//! codec and flags are: a flipped bit is then damage and not a newer writer. Only the frame version comes
//! before it, since another version may keep its checksum elsewhere.

use bytes::{BufMut, Bytes, BytesMut};

use super::body::{CODEC, MAX_BODY};
use super::{CodecErr, FrameKind};

const MAGIC: [u8; 2] = *b"RR";
const VERSION: u8 = 1;
const NO_FLAGS: u8 = 0;
pub(super) const HEADER: usize = 18;

/// A body and what is needed to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    kind: FrameKind,
    schema: u32,
    body: Bytes,
}

impl Frame {
    /// Frames a body that was written with the app's `schema` version.
    ///
    /// # Errors
    /// [`CodecErr::TooLarge`] when the body has more than 4 GiB - 1.
    pub fn new(kind: FrameKind, schema: u32, body: Bytes) -> Result<Self, CodecErr> {
        length(body.len())?;
        Ok(Self { kind, schema, body })
    }

    /// What the body is.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The app's version of what is in the body.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// The body, not yet decoded.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, not yet decoded.
    pub fn into_body(self) -> Bytes {
        self.body
    }

    /// The frame as bytes.
    pub fn encode(&self) -> Bytes {
        // `new` and `decode` let no body in that is longer than its length field.
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        seal(self.kind, self.schema, length, &[&self.body])
    }

    /// Reads exactly one frame of the expected kind. Its body shares the memory of `bytes`.
    ///
    /// # Errors
    /// One [`CodecErr`] per fault, first things first: [`BadMagic`](CodecErr::BadMagic),
    /// [`UnsupportedFrame`](CodecErr::UnsupportedFrame), [`CutShort`](CodecErr::CutShort) or
    /// [`TooLong`](CodecErr::TooLong), [`TooLarge`](CodecErr::TooLarge) when the body has more than
    /// `max_body` bytes, [`Checksum`](CodecErr::Checksum), then an unknown or other kind, an unknown
    /// codec, unknown flags.
    pub fn decode(bytes: Bytes, expected: FrameKind, max_body: usize) -> Result<Self, CodecErr> {
        check_start(&bytes)?;
        let size = bytes.len();
        let Some((header, body)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(CodecErr::CutShort { expected: HEADER, found: size });
        };
        let [_, _, _, kind, codec, flags, s0, s1, s2, s3, l0, l1, l2, l3, c0, c1, c2, c3] = *header;
        let schema = u32::from_be_bytes([s0, s1, s2, s3]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let stated = u32::from_be_bytes([c0, c1, c2, c3]);

        let body_size = length as usize;
        if body_size > max_body {
            return Err(CodecErr::TooLarge { size: body_size, limit: max_body });
        }
        let whole = HEADER.saturating_add(body_size);
        if size < whole {
            return Err(CodecErr::CutShort { expected: whole, found: size });
        }
        if size > whole {
            return Err(CodecErr::TooLong { expected: whole, found: size });
        }
        let computed = checksum(kind, codec, flags, schema, length, &[body]);
        if stated != computed {
            return Err(CodecErr::Checksum { expected: stated, found: computed });
        }

        match FrameKind::from_number(kind) {
            None => {
                return Err(CodecErr::UnknownFrameKind { expected, found: kind });
            }
            Some(found) if found != expected => {
                return Err(CodecErr::OtherFrameKind { expected, found });
            }
            Some(_) => {}
        }
        if codec != CODEC {
            return Err(CodecErr::UnknownCodec { found: codec, supported: CODEC });
        }
        if flags != NO_FLAGS {
            return Err(CodecErr::UnknownFlags { found: flags, supported: NO_FLAGS });
        }
        Ok(Self { kind: expected, schema, body: bytes.slice(HEADER..) })
    }
}

/// The length of a body, if a frame can state it.
pub(super) fn length(size: usize) -> Result<u32, CodecErr> {
    u32::try_from(size).map_err(|_| CodecErr::TooLarge { size, limit: MAX_BODY })
}

/// A frame around a body that lies in parts, so that a large state is copied only once. `length` is that
/// of all the parts.
pub(super) fn seal(kind: FrameKind, schema: u32, length: u32, parts: &[&[u8]]) -> Bytes {
    let kind = kind as u8;
    let crc = checksum(kind, CODEC, NO_FLAGS, schema, length, parts);
    let mut out = BytesMut::with_capacity(HEADER.saturating_add(length as usize));
    out.put_slice(&header(kind, CODEC, NO_FLAGS, schema, length, crc));
    for part in parts {
        out.put_slice(part);
    }
    out.freeze()
}

/// Foreign bytes and other versions are told apart before anything else, also when cut short.
fn check_start(bytes: &[u8]) -> Result<(), CodecErr> {
    if let Some(found) = bytes.first_chunk::<2>()
        && *found != MAGIC
    {
        return Err(CodecErr::BadMagic { expected: MAGIC, found: *found });
    }
    match bytes.get(2) {
        Some(&found) if found != VERSION => {
            Err(CodecErr::UnsupportedFrame { found, supported: VERSION })
        }
        _ => Ok(()),
    }
}

fn header(kind: u8, codec: u8, flags: u8, schema: u32, length: u32, crc: u32) -> [u8; HEADER] {
    let [m0, m1] = MAGIC;
    let [s0, s1, s2, s3] = schema.to_be_bytes();
    let [l0, l1, l2, l3] = length.to_be_bytes();
    let [c0, c1, c2, c3] = crc.to_be_bytes();
    [m0, m1, VERSION, kind, codec, flags, s0, s1, s2, s3, l0, l1, l2, l3, c0, c1, c2, c3]
}

fn checksum(kind: u8, codec: u8, flags: u8, schema: u32, length: u32, parts: &[&[u8]]) -> u32 {
    let of_header = crc32c::crc32c(&header(kind, codec, flags, schema, length, 0));
    parts.iter().fold(of_header, |crc, part| crc32c::crc32c_append(crc, part))
}
