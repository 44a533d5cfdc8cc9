//! Writes what each decoder takes into `corpus/TARGET/DECODER`, and prints a line `TARGET DECODER` for each.

use std::path::Path;

fn write<D: std::fmt::Debug, B: AsRef<[u8]>>(target: &str, decoder: D, samples: Vec<B>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{target}/{decoder:?}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (number, sample) in samples.into_iter().enumerate() {
        std::fs::write(folder.join(format!("sample-{number}")), sample).expect("a file");
    }
    println!("{target} {decoder:?}");
}

fn main() {
    for decoder in ractor_rooms::testing::Decoder::ALL {
        write("core", decoder, decoder.samples());
    }
    for decoder in ractor_rooms_redis::testing::Decoder::ALL {
        write("redis", decoder, decoder.samples());
    }
}
