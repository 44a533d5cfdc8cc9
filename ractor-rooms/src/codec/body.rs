//! Bodies: what serde makes of the app's types. The only place that names bincode.
//!
//! The format is bincode's `config::standard()`. It does not describe itself: a field that moved is
//! another schema, and `skip_serializing_if`, `flatten`, `untagged` and other things that need to look
//! ahead do not work with it.
//!
//! bincode's own limit is not enough. It counts an integer by its width in memory, up to sixteen times
//! its bytes, so a limit near the size of a body refuses what was encoded within it; a wide limit lets
//! a stated string length allocate that much; and nesting, or elements without bytes, is not limited at
//! all. So bincode gets the widest limit that no readable body reaches, and a guard around it sees to the rest
//! on both sides alike: a value that can be saved can be loaded.

mod access;
mod bounds;
mod parts;
mod read;
mod visit;
mod write;

use std::marker::PhantomData;

use bincode::config::{self, Configuration, Limit, LittleEndian, Varint};
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::bounds::{Bounds, Guard, Shared};
use super::CodecErr;

pub use self::bounds::MAX_DEPTH;

/// The number of this body format in a frame.
pub(super) const CODEC: u8 = 1;

/// The most bytes a body may have: a frame counts them in 32 bits.
pub(super) const MAX_BODY: usize = u32::MAX as usize;

/// A `u128` takes one byte when small and is counted as sixteen.
const WIDEST: usize = MAX_BODY.saturating_mul(16);

const CONFIG: Configuration<LittleEndian, Varint, Limit<WIDEST>> =
    config::standard().with_limit::<WIDEST>();

/// Characters of an error text: it may quote what was read, and reports must not carry that whole.
const MAX_WHY: usize = 240;

/// Encodes a value into at most `limit` bytes.
///
/// # Errors
/// [`CodecErr::TooLarge`] with the full size when that is over the limit (or over 4 GiB - 1), having
/// kept no more than the limit in memory; [`CodecErr::Encode`] when the value does not fit the format,
/// is nested deeper than [`MAX_DEPTH`] or has more elements than `limit`, which only elements that take
/// no bytes can.
pub fn encode<T>(value: &T, limit: usize) -> Result<Bytes, CodecErr>
where
    T: Serialize + ?Sized,
{
    encode_about(value, 0, limit)
}

/// The same for a value that has about so many bytes, for which there is space from the start.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_about<T>(value: &T, size: usize, limit: usize) -> Result<Bytes, CodecErr>
where
    T: Serialize + ?Sized,
{
    let limit = limit.min(MAX_BODY);
    let shared = Shared::new(usize::MAX, 0);
    let guarded = Guard::new(value, Bounds::new(&shared));
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size.min(limit))
        .map_err(|_| CodecErr::Encode { why: "out of memory".into() })?;
    let mut out = Bounded { bytes, over: 0, limit };
    bincode::serde::encode_into_writer(guarded, &mut out, CONFIG)
        .map_err(|e| CodecErr::Encode { why: encode_text(e) })?;
    if out.over > 0 {
        return Err(CodecErr::TooLarge { size: out.over, limit });
    }
    // Not before: what has bytes as well is rather too large.
    if shared.elements() > limit {
        return Err(CodecErr::Encode { why: bounds::too_many(shared.elements(), limit) });
    }
    Ok(Bytes::from(out.bytes))
}

/// Splits bytes off that were encoded in front of something else, sharing the memory.
///
/// # Errors
/// [`CodecErr::Decode`] when there are fewer than their length says.
#[cfg(feature = "runtime")] // whose snapshots begin with the state
pub(crate) fn split_bytes(bytes: &Bytes) -> Result<(Bytes, Bytes), CodecErr> {
    let (length, at): (u64, usize) = bincode::serde::decode_from_slice(bytes, CONFIG)
        .map_err(|e| CodecErr::Decode { why: decode_text(e) })?;
    let rest = bytes.slice(at..);
    match usize::try_from(length) {
        Ok(length) if length <= rest.len() => Ok((rest.slice(..length), rest.slice(length..))),
        Ok(_) | Err(_) => {
            let why = format!("expected {length} bytes, found {}", rest.len());
            Err(CodecErr::Decode { why })
        }
    }
}

/// Decodes a value from exactly these bytes.
///
/// Allocates for what is there, not for the lengths that the bytes state.
///
/// # Errors
/// [`CodecErr::TooLarge`] when there are more than `limit` bytes; [`CodecErr::Decode`] when they are
/// not a `T`, are nested deeper than [`MAX_DEPTH`] or state more elements than `limit`;
/// [`CodecErr::TrailingBytes`] when they are a `T` and more.
pub fn decode<T>(bytes: &[u8], limit: usize) -> Result<T, CodecErr>
where
    T: DeserializeOwned,
{
    let limit = limit.min(MAX_BODY);
    let found = bytes.len();
    if found > limit {
        return Err(CodecErr::TooLarge { size: found, limit });
    }
    let shared = Shared::new(limit, found);
    let guarded = Guard::new(PhantomData::<T>, Bounds::new(&shared));
    let (value, expected) = bincode::serde::seed_decode_from_slice(guarded, bytes, CONFIG)
        .map_err(|e| CodecErr::Decode { why: decode_text(e) })?;
    if expected != found {
        return Err(CodecErr::TrailingBytes { expected, found });
    }
    Ok(value)
}

/// Keeps up to `limit` bytes, or drops them and goes on counting, so that the refusal can say the size.
struct Bounded {
    bytes: Vec<u8>,
    /// The size so far, once it is over the limit.
    over: usize,
    limit: usize,
}

impl Bounded {
    fn reserve(&mut self, more: usize) -> Result<(), EncodeError> {
        let size = self.bytes.len().saturating_add(more);
        if self.over > 0 || size > self.limit {
            self.over = self.over.max(self.bytes.len()).saturating_add(more);
            self.bytes = Vec::new();
            return Ok(());
        }
        // Doubling as a vector does, but never beyond the limit.
        let capacity = self.bytes.capacity().saturating_mul(2).max(128).min(self.limit).max(size);
        self.bytes
            .try_reserve_exact(capacity.saturating_sub(self.bytes.len()))
            .map_err(|_| EncodeError::Other("out of memory"))
    }
}

impl Writer for Bounded {
    // Called for every byte of every number.
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        if bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.reserve(bytes.len())?;
            if self.over > 0 {
                return Ok(());
            }
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

fn encode_text(error: EncodeError) -> String {
    match error {
        EncodeError::OtherString(text) => shortened(text),
        other => shortened(other.to_string()),
    }
}

fn decode_text(error: DecodeError) -> String {
    match error {
        DecodeError::OtherString(text) => shortened(text),
        other => shortened(other.to_string()),
    }
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_WHY) {
        text.truncate(end);
        text.push('…');
    }
    text
}
