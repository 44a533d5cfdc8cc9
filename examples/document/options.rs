//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

/// Type a document key by key while its room keeps moving between hosts, and prove that nothing of
/// it gets lost, doubled or out of order on the way.
///
/// Exits with 0 when all came out right, with 1 when something did not, and with 2 for bad usage or
/// a trace that cannot be typed.
#[derive(Clone, Debug, Parser)]
#[command(name = "document")]
pub(crate) struct Options {
    /// Type this recorded session (gzipped json) instead of the built-in text
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// How many hosts there are
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=26))]
    pub(crate) hosts: u32,

    /// How many times each document moves, spread over its edits
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) moves: u32,

    /// What carries the messages between the hosts
    #[arg(long, value_enum, default_value_t = Transport::Memory)]
    pub(crate) transport: Transport,

    /// What the room promises for a message that was accepted
    #[arg(long, value_enum, default_value_t = Class::Durable)]
    pub(crate) delivery: Class,

    /// How many writers there are; each types the whole session into a document of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) writers: u32,

    /// Dead weight in each document's state, so that its snapshots are at least that big
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) state_bytes: u32,

    /// Type only the first N edits
    #[arg(long, value_name = "N")]
    pub(crate) edits: Option<usize>,

    /// Decides the slips of the built-in typist and the bytes of the dead weight
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Print the summary as one json object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A transport by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Transport {
    /// All hosts in this process
    Memory,
}

/// A delivery class by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Class {
    /// Fast: messages of the same host go straight into the mailbox
    Live,
    /// Safe: every message is logged before it is accepted
    Durable,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Durable => "durable",
        })
    }
}

/// Options that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NowhereToMove;

impl fmt::Display for NowhereToMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a document can move only where there are two hosts: use --hosts 2 or more, or --moves 0")
    }
}

impl Options {
    /// Looks for what clap cannot see.
    pub(crate) fn check(&self) -> Result<(), NowhereToMove> {
        if self.hosts < 2 && self.moves > 0 { Err(NowhereToMove) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_defaults() {
        let options = parse("document").unwrap();
        assert_eq!((options.hosts, options.moves, options.writers), (3, 50, 1));
        assert!(matches!(options.delivery, Class::Durable));
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn bad_values_are_usage_errors() {
        for line in ["--hosts 0", "--hosts 27", "--moves ten", "--transport pigeon", "--writers 0"]
        {
            let err = parse(&format!("document {line}")).unwrap_err();
            assert_eq!(err.exit_code(), 2, "{line}");
            assert_ne!(err.kind(), ErrorKind::UnknownArgument, "{line}");
        }
    }

    #[test]
    fn one_host_is_enough_only_without_moves() {
        assert_eq!(parse("document --hosts 1").unwrap().check(), Err(NowhereToMove));
        assert_eq!(parse("document --hosts 1 --moves 0").unwrap().check(), Ok(()));
    }
}
