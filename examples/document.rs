//! Placeholder main, replaced by the program itself.
fn main() {}
