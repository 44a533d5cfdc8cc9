//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};
use serde::{Deserialize, Serialize};

use super::transport::Transport;

/// More faults of a kind than this are a slip of the finger.
const MAX_FAULTS: i64 = 100_000;
/// Each brings a host that stays.
const MAX_WIPES: i64 = 100;
/// More notes than this are a slip of the finger.
const MAX_NOTES: u64 = 1_000_000_000;
/// More moves than this are a slip of the finger.
const MAX_MOVES: i64 = 1_000_000;

/// Type a document key by key while its room keeps moving between hosts, and prove that nothing of
/// it gets lost, doubled or out of order on the way.
///
/// Exits with 0 when all came out right, with 1 when something did not, and with 2 for bad usage or
/// a trace that cannot be typed.
#[derive(Clone, Debug, Parser)]
#[command(name = "document", args_override_self = true)]
pub(crate) struct Options {
    /// Type this recorded session (gzipped json) instead of the built-in text
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// How many hosts there are
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=26))]
    pub(crate) hosts: u32,

    /// How many times each document moves, spread over its edits
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_MOVES))]
    pub(crate) moves: u32,

    /// What carries the messages between the hosts: `memory`, `redis` (a redis-server that is started
    /// for this run) or the address of a Redis, such as redis://127.0.0.1:6379
    #[arg(long, value_name = "WHAT", default_value = "memory")]
    pub(crate) transport: Transport,

    /// The Redis is a cluster; with `--transport redis`, one of three masters is started
    #[arg(long)]
    pub(crate) cluster: bool,

    /// Run every host in a process of its own, and the writers in this one
    #[arg(long)]
    pub(crate) processes: bool,

    /// What the room promises for a message that was accepted
    #[arg(long, value_enum, default_value_t = Class::Durable)]
    pub(crate) delivery: Class,

    /// How many writers there are; each types the whole session into a document of its own
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) writers: u32,

    /// Dead weight in each document's state, so that its snapshots are at least that big
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..))]
    pub(crate) state_bytes: u32,

    /// Type only the first N edits
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub(crate) edits: Option<u64>,

    /// How many notes each chatter of a document sends while it is typed; one for every 8 edits otherwise
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u64).range(0..=MAX_NOTES))]
    pub(crate) notes: Option<u64>,

    /// Chaos for so many minutes: 20 documents and over five thousand messages a second between processes
    /// over Redis, a session of a second, and kills, stops, restarts of the store, cuts, black holes and moves
    /// all the time. What else is said on the command line counts instead
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=1440))]
    pub(crate) chaos_minutes: Option<u32>,

    /// How long a host's session lasts without a heartbeat, in milliseconds: a dead host's rooms are
    /// taken up after this long
    #[arg(long, value_name = "MS", default_value_t = 10_000, allow_negative_numbers = true, value_parser = value_parser!(u32).range(100..=3_600_000))]
    pub(crate) session_ttl_ms: u32,

    /// Kill the process of a host so many times (SIGKILL), and start it again at once; with --processes
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_FAULTS))]
    pub(crate) kills: u32,

    /// Stop the process of a host so many times for longer than its session (SIGSTOP, SIGCONT); with
    /// --processes
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_FAULTS))]
    pub(crate) stops: u32,

    /// How far the kills and stops are apart on average, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2_500, allow_negative_numbers = true, value_parser = value_parser!(u32).range(1..=3_600_000))]
    pub(crate) kill_every_ms: u32,

    /// Kill the store's server so many times (SIGKILL) and start it again; it writes every command to
    /// its file before it answers. With --transport redis
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_FAULTS))]
    pub(crate) store_restarts: u32,

    /// So many times, kill the store's server, cut off some of what it wrote to its file within the last second,
    /// as a loss of power does, and start it twice; the file goes to the disk every second. With --transport
    /// redis
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_FAULTS))]
    pub(crate) store_cuts: u32,

    /// Let a host join so many times, delete everything that the store holds, and let the host send; with
    /// --transport redis
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_WIPES))]
    pub(crate) store_wipes: u32,

    /// Cut the connections of a process to the store so many times; with --transport redis
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_FAULTS))]
    pub(crate) cuts: u32,

    /// So many times, let the connections of a process to the store swallow everything and stay open;
    /// with --transport redis
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = value_parser!(u32).range(0..=MAX_FAULTS))]
    pub(crate) black_holes: u32,

    /// Decides the faults and their times, the slips of the built-in typist and the bytes of the dead weight
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, value_parser = whole_number)]
    pub(crate) seed: u64,

    /// Print the summary as one json object
    #[arg(long)]
    pub(crate) json: bool,

    /// Be the host of this name, as told on stdin: what `--processes` starts
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) host_process: Option<String>,
}

fn whole_number(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// A delivery class by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
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
pub(crate) enum UsageErr {
    /// Moves, and one host.
    NowhereToMove,
    /// Hosts in processes of their own, and a transport that is one process's memory.
    NothingBetweenProcesses,
    /// A cluster, and a transport that has none.
    NoCluster,
    /// Faults of hosts, and none that is a process.
    NothingToKill,
    /// Faults of the store, and none that is a single server of ours.
    NothingToBreak,
}

impl fmt::Display for UsageErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NowhereToMove => {
                "a document can move only where there are two hosts: use --hosts 2 or more, or --moves 0"
            }
            Self::NothingBetweenProcesses => {
                "processes do not share memory: use --processes with --transport redis or an address"
            }
            Self::NoCluster => "--cluster is said of a Redis: add --transport redis or an address",
            Self::NothingToKill => "only processes can be killed and stopped: add --processes",
            Self::NothingToBreak => {
                "only a server of the program's own is broken: use --store-restarts, --store-cuts, --store-wipes, --cuts and --black-holes with --processes --transport redis and without --cluster"
            }
        })
    }
}

impl Options {
    /// Reads a command line. What some options stand for is written before it, so that the rest of it counts.
    ///
    /// # Errors
    /// What clap says of it.
    pub(crate) fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let options = Self::try_parse_from(&line)?;
        let Some(minutes) = options.chaos_minutes else { return Ok(options) };
        let mut chaos = chaos(minutes).into_iter().map(OsString::from);
        let mut words = line.into_iter();
        let name = words.next();
        Self::try_parse_from(name.into_iter().chain(&mut chaos).chain(words))
    }

    /// Looks for what clap cannot see.
    pub(crate) fn check(&self) -> Result<(), UsageErr> {
        let in_memory = self.transport == Transport::Memory;
        if self.hosts < 2 && self.moves > 0 {
            Err(UsageErr::NowhereToMove)
        } else if in_memory && self.processes {
            Err(UsageErr::NothingBetweenProcesses)
        } else if in_memory && self.cluster {
            Err(UsageErr::NoCluster)
        } else if !self.processes && self.kills + self.stops > 0 {
            Err(UsageErr::NothingToKill)
        } else if self.breaks_store() && !self.has_own_server() {
            Err(UsageErr::NothingToBreak)
        } else {
            Ok(())
        }
    }
}

impl Options {
    /// Whether anything is to go wrong.
    pub(crate) fn has_faults(&self) -> bool {
        self.kills + self.stops > 0 || self.breaks_store()
    }

    /// Whether the store is to lose what it had accepted.
    pub(crate) fn store_forgets(&self) -> bool {
        self.store_cuts + self.store_wipes > 0
    }

    /// Whether links to the store are to break.
    pub(crate) fn breaks_links(&self) -> bool {
        self.cuts + self.black_holes > 0
    }

    fn breaks_store(&self) -> bool {
        self.store_restarts > 0 || self.store_forgets() || self.breaks_links()
    }

    fn has_own_server(&self) -> bool {
        self.transport == Transport::PrivateRedis && !self.cluster && self.processes
    }
}

/// What chaos for so many minutes is.
fn chaos(minutes: u32) -> Vec<String> {
    let words = "--transport redis --processes --hosts 3 --writers 20 --session-ttl-ms 1000 --kill-every-ms 2500";
    // A kill or stop every 2.5 s is 24 a minute. 20 documents with 3 chatters each send ten million notes in half
    // an hour.
    let counts = [
        ("--kills", 20),
        ("--stops", 4),
        ("--store-restarts", 2),
        ("--cuts", 10),
        ("--black-holes", 2),
        ("--moves", 2),
        ("--notes", 5_600),
    ];
    let counts = counts.map(|(name, count)| [name.to_owned(), (count * minutes).to_string()]);
    words.split(' ').map(str::to_owned).chain(counts.into_iter().flatten()).collect()
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
        let bad = [
            "--hosts 0",
            "--hosts 27",
            "--moves ten",
            "--moves -1",
            "--moves 1000001",
            "--transport pigeon",
            "--writers 0",
            "--writers -1",
            "--edits -1",
            "--seed -1",
            "--state-bytes -1",
            "--kills -1",
            "--kill-every-ms 0",
            "--session-ttl-ms 1",
            "--cuts many",
        ];
        for line in bad {
            let err = parse(&format!("document {line}")).unwrap_err();
            assert_eq!(err.exit_code(), 2, "{line}");
            assert_ne!(err.kind(), ErrorKind::UnknownArgument, "{line}");
            let (option, value) = line.split_once(' ').unwrap();
            let told = err.to_string();
            assert!(told.contains(option) && told.contains(value), "{told}");
        }
    }

    #[test]
    fn a_number_below_its_range_is_told_the_range() {
        for (line, range) in [("--moves -1", "0..=1000000"), ("--edits -1", "from 0 to")] {
            let told = parse(&format!("document {line}")).unwrap_err().to_string();
            assert!(told.contains(range), "{told}");
        }
    }

    #[test]
    fn options_that_do_not_go_together() {
        let check = |line: &str| parse(&format!("document {line}")).unwrap().check();
        assert_eq!(check("--hosts 1"), Err(UsageErr::NowhereToMove));
        assert_eq!(check("--hosts 1 --moves 0"), Ok(()));
        assert_eq!(check("--processes"), Err(UsageErr::NothingBetweenProcesses));
        assert_eq!(check("--cluster"), Err(UsageErr::NoCluster));
        assert_eq!(check("--processes --cluster --transport redis"), Ok(()));
        assert_eq!(check("--processes --transport redis://127.0.0.1"), Ok(()));
        assert_eq!(check("--kills 1 --transport redis"), Err(UsageErr::NothingToKill));
        assert_eq!(check("--stops 1"), Err(UsageErr::NothingToKill));
        for fault in [
            "--store-restarts 1",
            "--store-cuts 1",
            "--store-wipes 1",
            "--cuts 1",
            "--black-holes 1",
        ] {
            let check = |rest: &str| check(&format!("{fault} {rest}"));
            assert_eq!(check("--processes --transport redis"), Ok(()), "{fault}");
            for rest in ["--transport redis", "--processes --transport redis://127.0.0.1"] {
                assert_eq!(check(rest), Err(UsageErr::NothingToBreak), "{fault} {rest}");
            }
        }
    }

    #[test]
    fn chaos_is_many_options_that_others_override() {
        let read = |line: &str| Options::read(line.split(' ').map(OsString::from)).unwrap();
        let chaos = read("document --chaos-minutes 30");
        assert_eq!(chaos.check(), Ok(()));
        assert_eq!((chaos.writers, chaos.kills, chaos.stops), (20, 600, 120));
        let notes = chaos.notes.unwrap() * u64::from(chaos.writers * chaos.hosts);
        assert!(notes >= 10_000_000, "{notes}");
        let other = read("document --kills 0 --chaos-minutes 1 --writers 2 --delivery live");
        assert_eq!((other.writers, other.kills, other.stops), (2, 0, 4));
        assert_eq!(other.delivery, Class::Live);
        assert_eq!(read("document --writers 1 --chaos-minutes 1").writers, 1);
    }

    #[test]
    fn a_password_in_the_address_is_not_shown() {
        let options = parse("document --transport redis://:secret@127.0.0.1").unwrap();
        assert!(!format!("{options:?}").contains("secret"));
    }
}
