//! Broken copies of good bytes.

use super::dice::Dice;

/// So many broken copies of `sample`, from a seed: bits flipped, bytes replaced, taken out or doubled, cut
/// off anywhere, or all of it chance.
pub fn mutations(sample: &[u8], seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut dice = Dice::new(seed);
    let sample = sample.to_vec();
    (0..count).map(move |_| {
        let mut bytes = sample.clone();
        if dice.chance(50) {
            bytes = vec![0; usize::try_from(dice.below(64)).unwrap_or(0)];
            bytes.iter_mut().for_each(|byte| *byte = any_byte(&mut dice));
        }
        for _ in 0..=dice.below(4) {
            change(&mut bytes, &mut dice);
        }
        bytes
    })
}

fn any_byte(dice: &mut Dice) -> u8 {
    // Where numbers change their length, and where text ends, is more telling than what is between.
    let telling = [0, 1, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, b' ', b':', b'#', b'-'];
    match dice.pick(&telling) {
        Some(byte) if dice.chance(400) => *byte,
        _ => u8::try_from(dice.below(256)).unwrap_or(0),
    }
}

fn change(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap_or(0);
    let byte = any_byte(dice);
    match dice.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, byte),
        _ if bytes.is_empty() => {}
        2 => bytes[at] ^= 1 << dice.below(8),
        3 => bytes[at] = byte,
        4 => drop(bytes.remove(at)),
        _ => {
            let tail = bytes[at..].to_vec();
            bytes.extend(tail);
        }
    }
}
