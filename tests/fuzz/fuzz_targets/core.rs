//! Everything in `ractor-rooms` that reads bytes from outside; `DECODER` names one of them.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ractor_rooms::testing::Decoder;

static DECODER: LazyLock<Decoder> = LazyLock::new(|| {
    let name = std::env::var("DECODER").unwrap_or_default();
    let named = |decoder: &Decoder| format!("{decoder:?}") == name;
    let all = Decoder::ALL;
    all.into_iter().find(named).unwrap_or_else(|| panic!("DECODER is {name:?}, not one of {all:?}"))
});

fuzz_target!(|bytes: &[u8]| {
    DECODER.takes(bytes);
});
