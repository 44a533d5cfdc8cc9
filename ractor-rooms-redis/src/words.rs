//! Byte strings in one buffer: the keys or the arguments of a call cost two allocations, not one each.

use std::fmt;
use std::io::Write as _;

use bytes::Bytes;

/// Byte strings, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    pub(crate) fn with_capacity(words: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    pub(crate) fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn print(&mut self, word: fmt::Arguments<'_>) {
        let _ = self.bytes.write_fmt(word); // to a buffer, which cannot fail
        self.ends.push(self.bytes.len());
    }

    /// Adds the word that `put` writes behind what is there.
    pub(crate) fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }

    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All words together, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }
}

impl From<Vec<Bytes>> for Words {
    fn from(words: Vec<Bytes>) -> Self {
        let mut all = Self::with_capacity(words.len(), words.iter().map(Bytes::len).sum());
        for word in words {
            all.push(&word);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_any_bytes_stay_apart() {
        let mut words = Words::from(vec![Bytes::from_static(b"a\0"), Bytes::new()]);
        words.print(format_args!("{}:{}", 1, 2));
        words.put(|bytes| bytes.extend_from_slice(b" c"));
        let all: Vec<&[u8]> = words.iter().collect();
        assert_eq!(all, [&b"a\0"[..], b"", b"1:2", b" c"]);
        assert_eq!((words.first(), words.len(), words.size()), (Some(&b"a\0"[..]), 4, 7));
        assert_eq!(Words::default().first(), None);
    }
}
