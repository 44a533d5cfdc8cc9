//! Dead weight in a room's state, so that its snapshots have a size of choice.

use std::fmt;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::digest::sha256;

/// Bytes that do not compress. They are written in one piece: as a sequence of numbers, every byte
/// of a big state would be visited by itself.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Ballast(Vec<u8>);

impl Ballast {
    /// Makes `bytes` of ballast; the same seed makes the same bytes.
    pub(crate) fn new(bytes: usize, seed: u64) -> Self {
        let mut ballast = vec![0; bytes];
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut ballast);
        Self(ballast)
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// A sum by which two sides can see that they hold the same ballast.
    pub(crate) fn sha256(&self) -> String {
        sha256(&self.0)
    }
}

impl fmt::Debug for Ballast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ballast({} bytes)", self.0.len())
    }
}

impl Serialize for Ballast {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Ballast {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(Bytes).map(Self)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    // Formats without a bytes type of their own, json among them, write a sequence.
    fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Vec<u8>, A::Error> {
        std::iter::from_fn(|| bytes.next_element().transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was() {
        let ballast = Ballast::new(1000, 3);
        let json = serde_json::to_vec(&ballast).unwrap();
        assert_eq!(serde_json::from_slice::<Ballast>(&json).unwrap(), ballast);
    }

    #[test]
    fn the_sum_tells_ballast_apart() {
        assert_eq!(Ballast::new(64, 3).sha256(), Ballast::new(64, 3).sha256());
        assert_ne!(Ballast::new(64, 3).sha256(), Ballast::new(64, 4).sha256());
        assert_ne!(Ballast::new(64, 3).sha256(), Ballast::new(63, 3).sha256());
    }
}
