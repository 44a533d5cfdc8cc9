//! A typist for runs without a trace: types a text key by key, makes slips and corrects them.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::script::{Edit, Script};

/// What the typist types when no trace is given. Its letters have one to four bytes, because the
/// document counts code points.
pub(crate) const TEXT: &str = include_str!("typist/text.txt");

/// Out of a hundred keys, how many go wrong.
const SLIPS_PER_HUNDRED: u32 = 8;
/// How many keys are typed at most before a slip is noticed.
const NOTICED_WITHIN: usize = 6;
const KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyz ,.";

/// What a typist does wrong.
#[derive(Clone, Copy)]
enum Slip {
    /// Another key is hit.
    WrongKey,
    /// The key is hit twice.
    Twice,
    /// The key is left out.
    LeftOut,
}

/// Types `text` into an empty document; the same seed makes the same slips.
pub(crate) fn type_out(text: &str, seed: u64) -> Script {
    let mut typist = Typist { rng: ChaCha8Rng::seed_from_u64(seed), edits: Vec::new() };
    let keys: Vec<char> = text.chars().collect();
    let mut next = 0;
    while next < keys.len() {
        let seen = typist.rng.random_range(0..NOTICED_WITHIN).min(keys.len() - next - 1);
        match typist.slip() {
            None => {
                typist.key(next, keys[next]);
                next += 1;
            }
            Some(slip) => next = typist.go_wrong(slip, next, &keys[next..=next + seen]),
        }
    }
    Script { start: String::new(), edits: typist.edits, end: text.to_owned() }
}

struct Typist {
    rng: ChaCha8Rng,
    edits: Vec<Edit>,
}

impl Typist {
    fn slip(&mut self) -> Option<Slip> {
        self.rng
            .random_ratio(SLIPS_PER_HUNDRED, 100)
            .then(|| [Slip::WrongKey, Slip::Twice, Slip::LeftOut].choose(&mut self.rng).copied())
            .flatten()
    }

    /// Types `keys` at `at` with a slip at the first of them and mends it after the last. Returns
    /// where typing goes on.
    fn go_wrong(&mut self, slip: Slip, at: usize, keys: &[char]) -> usize {
        match slip {
            Slip::WrongKey => {
                // The wrong key and what came after it is taken back, key by key.
                let wrong = KEYS.choose(&mut self.rng).map_or('x', |key| char::from(*key));
                self.key(at, wrong);
                self.keys(at + 1, &keys[1..]);
                self.edits.extend((at..at + keys.len()).rev().map(|back| Edit::delete(back, 1)));
                at
            }
            Slip::Twice => {
                self.key(at, keys[0]);
                self.keys(at + 1, keys);
                self.edits.push(Edit::delete(at, 1));
                at + keys.len()
            }
            Slip::LeftOut => {
                self.keys(at, &keys[1..]);
                self.key(at, keys[0]);
                at + keys.len()
            }
        }
    }

    fn keys(&mut self, at: usize, keys: &[char]) {
        for (offset, key) in keys.iter().enumerate() {
            self.key(at + offset, *key);
        }
    }

    fn key(&mut self, at: usize, key: char) {
        self.edits.push(Edit::insert(at, key));
    }
}

#[cfg(test)]
mod tests {
    use ropey::Rope;

    use super::*;

    fn typed(script: &Script) -> String {
        let mut text = Rope::from_str(&script.start);
        script.edits.iter().try_for_each(|edit| edit.apply(&mut text)).unwrap();
        text.to_string()
    }

    #[test]
    fn whatever_goes_wrong_the_text_comes_out_right() {
        for seed in 0..200 {
            assert_eq!(typed(&type_out(TEXT, seed)), TEXT, "seed {seed}");
        }
    }

    #[test]
    fn short_texts_come_out_right_too() {
        for (seed, text) in (0..400).flat_map(|seed| ["", "a", "é🦀"].map(|text| (seed, text))) {
            assert_eq!(typed(&type_out(text, seed)), text, "seed {seed}");
        }
    }

    #[test]
    fn a_seed_is_a_typist() {
        assert_eq!(type_out(TEXT, 7), type_out(TEXT, 7));
        assert_ne!(type_out(TEXT, 7), type_out(TEXT, 8));
    }

    #[test]
    fn the_typist_makes_slips_and_goes_back() {
        let edits = type_out(TEXT, 1).edits;
        assert!(edits.len() > TEXT.chars().count() * 11 / 10);
        assert!(edits.iter().any(|edit| edit.deleted > 0));
        assert!(edits.windows(2).any(|pair| pair[1].position + 1 < pair[0].position));
    }
}
