//! Bytes that no writer of ours made, for everything that reads bytes from the store. `tests/fuzz` looks on.

use ractor_rooms::testing::mutations;
use ractor_rooms_redis::testing::Decoder;

/// Broken copies of each sample.
const COPIES: usize = 20_000;

#[test]
fn what_reads_bytes_takes_its_samples_and_survives_broken_ones() {
    for decoder in Decoder::ALL {
        let mut taken = 0;
        for (number, sample) in decoder.samples().iter().enumerate() {
            assert!(decoder.takes(sample), "{decoder:?} refuses its sample {number}");
            for length in 0..sample.len() {
                decoder.takes(&sample[..length]);
            }
            for broken in mutations(sample, number as u64, COPIES) {
                taken += usize::from(decoder.takes(&broken));
            }
        }
        let all = decoder.samples().len() * COPIES;
        assert!(taken < all, "{decoder:?} takes anything");
        println!("{decoder:?} takes {taken} of {all} broken samples");
    }
}
