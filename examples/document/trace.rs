//! Reads a recorded editing session and proves it before anything is started.
//!
//! A trace is gzipped json: `startContent`, `endContent` and `txns`, each with `patches` of
//! `[position, deleted count, inserted text]`. Positions are code points.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ropey::Rope;
use serde::Deserialize;

use super::script::{Edit, OutsideText, Script};

/// The most that a trace may unpack to: a damaged or hostile file must not fill the memory.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;
/// The most that one patch may insert: an edit is one message, and a message holds 1 MiB.
const MAX_INSERT_BYTES: usize = 512 << 10;
/// The first bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why a trace cannot be typed.
#[derive(Debug)]
pub(crate) enum TraceErr {
    /// The file cannot be opened or read.
    Unreadable(io::Error),
    /// The file does not begin as gzip does.
    NotGzip,
    /// The file begins as gzip and then breaks off or is damaged.
    DamagedGzip(io::Error),
    /// The file unpacks to more than [`MAX_UNPACKED_BYTES`].
    TooLarge,
    /// What was unpacked is not json.
    NotJson(serde_json::Error),
    /// It is json, but not a trace.
    NotTrace(serde_json::Error),
    /// A patch reaches beyond the text as it is at that point.
    Outside { txn: usize, patch: usize, why: OutsideText },
    /// A patch inserts more than one message can carry.
    LongInsert { txn: usize, patch: usize, bytes: usize },
    /// The patches lead to another text than `endContent`; `at` is the first code point that differs.
    OtherEnd { at: usize, found: usize, expected: usize },
}

impl fmt::Display for TraceErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "it cannot be read: {why}"),
            Self::NotGzip => f.write_str("it is not a gzip file; expected gzipped json"),
            Self::DamagedGzip(why) => write!(f, "its gzip data is damaged: {why}"),
            Self::TooLarge => {
                write!(f, "it unpacks to more than {} MiB", MAX_UNPACKED_BYTES >> 20)
            }
            Self::NotJson(why) => write!(f, "it is not json inside: {why}"),
            Self::NotTrace(why) => write!(f, "its json is not an editing trace: {why}"),
            Self::Outside { txn, patch, why } => {
                write!(f, "patch {patch} of transaction {txn} does not fit: {why}")
            }
            Self::LongInsert { txn, patch, bytes } => write!(
                f,
                "patch {patch} of transaction {txn} inserts {bytes} bytes; one edit carries up to {MAX_INSERT_BYTES}"
            ),
            Self::OtherEnd { at, found, expected } => write!(
                f,
                "its patches do not lead to its endContent: the texts part at code point {at} \
                 ({found} code points after the patches, {expected} in endContent)"
            ),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recording {
    start_content: String,
    end_content: String,
    txns: Vec<Txn>,
}

#[derive(Deserialize)]
struct Txn {
    patches: Vec<(usize, usize, String)>,
}

/// Reads the trace in `path`, applies it to a rope and compares the end.
pub(crate) fn load(path: &Path) -> Result<Script, TraceErr> {
    read(File::open(path).map_err(TraceErr::Unreadable)?)
}

fn read(mut file: impl Read) -> Result<Script, TraceErr> {
    let mut packed = Vec::new();
    file.read_to_end(&mut packed).map_err(TraceErr::Unreadable)?;
    prove(parse(&unpack(&packed, MAX_UNPACKED_BYTES)?)?)
}

fn unpack(packed: &[u8], limit: u64) -> Result<Vec<u8>, TraceErr> {
    if !packed.starts_with(&GZIP_MAGIC) {
        return Err(TraceErr::NotGzip);
    }
    let mut json = Vec::new();
    let read = MultiGzDecoder::new(packed).take(limit + 1).read_to_end(&mut json);
    match read.map_err(TraceErr::DamagedGzip)? as u64 {
        read if read > limit => Err(TraceErr::TooLarge),
        _ => Ok(json),
    }
}

fn parse(json: &[u8]) -> Result<Recording, TraceErr> {
    serde_json::from_slice(json).map_err(|why| match why.classify() {
        serde_json::error::Category::Data => TraceErr::NotTrace(why),
        _ => TraceErr::NotJson(why),
    })
}

fn prove(recording: Recording) -> Result<Script, TraceErr> {
    let Recording { start_content, end_content, txns } = recording;
    let mut text = Rope::from_str(&start_content);
    let mut edits = Vec::new();
    for (txn, Txn { patches }) in txns.into_iter().enumerate() {
        for (patch, (position, deleted, inserted)) in patches.into_iter().enumerate() {
            if inserted.len() > MAX_INSERT_BYTES {
                return Err(TraceErr::LongInsert { txn, patch, bytes: inserted.len() });
            }
            let edit = Edit { position, deleted, inserted };
            edit.apply(&mut text).map_err(|why| TraceErr::Outside { txn, patch, why })?;
            edits.push(edit);
        }
    }
    if text != end_content.as_str() {
        let same = text.chars().zip(end_content.chars()).take_while(|(a, b)| a == b);
        return Err(TraceErr::OtherEnd {
            at: same.count(),
            found: text.len_chars(),
            expected: end_content.chars().count(),
        });
    }
    Ok(Script { start: start_content, edits, end: end_content })
}

#[cfg(test)]
mod tests;
