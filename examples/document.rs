//! A document is typed key by key while its room keeps moving between hosts.

#[allow(dead_code, reason = "the program that uses this comes last")]
mod document {
    pub(crate) mod ballast;
    pub(crate) mod digest;
    pub(crate) mod journal;
    pub(crate) mod oracle;
    pub(crate) mod schedule;
    pub(crate) mod script;
    pub(crate) mod state;
    pub(crate) mod trace;
    pub(crate) mod typist;
}

/// Placeholder main, replaced by the program itself.
fn main() {}
