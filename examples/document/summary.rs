//! What came of the run: for people, and as json.

use std::fmt;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use super::options::{Class, Options};
use super::oracle::Verdict;
use super::percentile::percentile;
use super::ping::PingMicros;
use super::reports::Reports;
use super::script::Script;
use super::storm_summary::StormSummary;
use super::tally::Tally;
use super::transport::Transport;
use super::witness::Account;

/// One move that a room really made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// How long the room handled nothing.
    pub(crate) pause: Duration,
    /// The size of the snapshot that travelled.
    pub(crate) snapshot_bytes: u64,
}

/// What came of one document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Edits that were accepted.
    pub(crate) edits: u64,
    /// Notes of the chatters that were accepted.
    pub(crate) notes: u64,
    /// The moves that the room made.
    pub(crate) moves: Vec<Move>,
    /// How often a move had to be tried again.
    pub(crate) retries: u64,
    /// What became of the messages.
    pub(crate) verdict: Verdict,
    /// The sum of the text that the room handed out at the end.
    pub(crate) sha256: String,
    /// Whether that text is the known one.
    pub(crate) matches: bool,
    /// Whether it is what comes of the edits that the room has handled: the known one, unless some were undone.
    pub(crate) accounted_for: bool,
    /// Edits that did not fit the text when they were handled.
    pub(crate) misfits: u64,
    /// Whether the dead weight came through unchanged.
    pub(crate) ballast_intact: bool,
    /// What the room said of itself meanwhile.
    pub(crate) account: Account,
    /// What went wrong on the way, in words.
    pub(crate) problems: Vec<String>,
}

/// What came of all documents together. The fields are the json that `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    all_right: bool,
    edits: u64,
    edits_asked: u64,
    notes: u64,
    moves: u64,
    moves_asked: u64,
    move_retries: u64,
    lost: u64,
    /// Gone because a live room went back to a checkpoint and said so.
    rolled_back: u64,
    /// Gone because the store was made to forget, and a host said so.
    reported: u64,
    doubled: u64,
    reordered: u64,
    foreign: u64,
    misfits: u64,
    sha256: String,
    /// Whether each text is the known one, to the letter.
    matches: bool,
    /// Whether nothing is missing but what a roll-back or a host told of. So it is where each text matches.
    missing_is_reported: bool,
    ballast_intact: bool,
    pause_us: PauseMicros,
    /// The largest snapshot.
    snapshot_bytes: u64,
    /// All snapshots together.
    bytes_moved: u64,
    hosts: u32,
    writers: u32,
    delivery: String,
    transport: &'static str,
    processes: bool,
    /// How long the store took to answer a PING meanwhile, if it is one that can be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    ping_us: Option<PingMicros>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    storm: Option<StormSummary>,
    seed: u64,
    elapsed_ms: u64,
    problems: Vec<String>,
}

/// How long rooms stood still while they moved, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct PauseMicros {
    p50: u64,
    p99: u64,
    max: u64,
}

impl PauseMicros {
    fn of(moves: &[Move]) -> Self {
        let mut pauses: Vec<u64> =
            moves.iter().map(|one| one.pause.as_micros().try_into().unwrap_or(u64::MAX)).collect();
        pauses.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&pauses, percent));
        Self { p50, p99, max }
    }
}

impl Summary {
    /// Adds the documents up.
    pub(crate) fn new(
        options: &Options,
        script: &Script,
        outcomes: &[Outcome],
        elapsed: Duration,
    ) -> Self {
        let mut verdict = Verdict::default();
        outcomes.iter().for_each(|outcome| verdict += outcome.verdict);
        let moves: Vec<Move> = outcomes.iter().flat_map(|o| o.moves.iter().copied()).collect();
        // The documents have one text; if one differs, it is the one to show.
        let differs = |o: &&Outcome| !o.matches;
        let shown = outcomes.iter().find(|o| !o.accounted_for);
        let shown = shown.or_else(|| outcomes.iter().find(differs)).or(outcomes.first());
        let writers = u64::from(options.writers);
        let mut summary = Self {
            all_right: false,
            edits: outcomes.iter().map(|o| o.edits).sum(),
            edits_asked: script.edits.len() as u64 * writers,
            notes: outcomes.iter().map(|o| o.notes).sum(),
            moves: moves.len() as u64,
            moves_asked: u64::from(options.moves) * writers,
            move_retries: outcomes.iter().map(|o| o.retries).sum(),
            lost: verdict.lost,
            rolled_back: verdict.rolled_back,
            reported: verdict.reported,
            doubled: verdict.doubled,
            reordered: verdict.reordered,
            foreign: verdict.foreign,
            misfits: outcomes.iter().map(|o| o.misfits).sum(),
            sha256: shown.map(|o| o.sha256.clone()).unwrap_or_default(),
            matches: shown.is_some_and(|o| o.matches),
            missing_is_reported: shown.is_some_and(|o| o.accounted_for) && verdict.lost == 0,
            ballast_intact: outcomes.iter().all(|o| o.ballast_intact),
            pause_us: PauseMicros::of(&moves),
            snapshot_bytes: moves.iter().map(|one| one.snapshot_bytes).max().unwrap_or(0),
            bytes_moved: moves.iter().map(|one| one.snapshot_bytes).sum(),
            hosts: options.hosts,
            writers: options.writers,
            delivery: options.delivery.to_string(),
            transport: match (&options.transport, options.cluster) {
                (Transport::Memory, _) => "memory",
                (Transport::PrivateRedis | Transport::Redis(_), false) => "redis",
                (Transport::PrivateRedis | Transport::Redis(_), true) => "redis cluster",
            },
            processes: options.processes,
            ping_us: None,
            storm: None,
            seed: options.seed,
            elapsed_ms: elapsed.as_millis().try_into().unwrap_or(u64::MAX),
            problems: outcomes.iter().flat_map(|o| o.problems.iter().cloned()).collect(),
        };
        summary.all_right = summary.missing_is_reported
            && verdict.is_clean()
            && (options.delivery == Class::Live || verdict.rolled_back == 0)
            && summary.moves == summary.moves_asked
            && summary.edits == summary.edits_asked
            && summary.misfits == 0
            && summary.ballast_intact
            && summary.problems.is_empty();
        summary
    }

    /// Adds how long the store took to answer a PING.
    pub(crate) fn pinged(&mut self, ping_us: Option<PingMicros>) {
        self.ping_us = ping_us;
    }

    /// Adds which faults struck, and what the rooms made of them; nothing if none was asked for.
    pub(crate) fn stormed(
        &mut self,
        options: &Options,
        tally: &Tally,
        reports: &Reports,
        outcomes: &[Outcome],
        call_retries: u64,
    ) {
        if !options.has_faults() {
            return;
        }
        let storm = StormSummary::of(tally, reports, outcomes, call_retries);
        let asked = [
            options.kills,
            options.stops,
            options.store_restarts,
            options.store_cuts,
            options.store_wipes,
            options.cuts,
            options.black_holes,
        ];
        if storm.struck() != asked {
            self.spoil(format!("expected the faults {asked:?}, found {:?}", storm.struck()));
        }
        let missed: u64 = outcomes.iter().map(|outcome| outcome.account.missed).sum();
        if missed > 0 {
            self.spoil(format!("{missed} events of rooms were not told"));
        }
        self.storm = Some(storm);
    }

    /// Adds what went wrong after the documents were judged.
    pub(crate) fn spoil(&mut self, problem: String) {
        self.all_right = false;
        self.problems.push(problem);
    }

    /// Whether the run proved what it set out to prove.
    pub(crate) fn all_right(&self) -> bool {
        self.all_right
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.writers == 1 { "" } else { "s" };
        writeln!(
            f,
            "edits      {} by {} writer{s}, among {} notes, in {:.1?}",
            HumanCount(self.edits),
            self.writers,
            HumanCount(self.notes),
            Duration::from_millis(self.elapsed_ms),
        )?;
        let (moves, asked) = (HumanCount(self.moves), HumanCount(self.moves_asked));
        let over = match self.transport {
            "memory" => String::new(),
            store if self.processes => format!(", over {store}, each a process"),
            store => format!(", over {store}"),
        };
        writeln!(
            f,
            "moves      {moves} of {asked} between {} hosts ({}{over})",
            self.hosts, self.delivery
        )?;
        writeln!(f, "lost       {}", HumanCount(self.lost))?;
        writeln!(f, "doubled    {}", HumanCount(self.doubled))?;
        writeln!(f, "reordered  {}", HumanCount(self.reordered))?;
        if self.moves > 0 {
            let PauseMicros { p50, p99, max } = self.pause_us;
            let [p50, p99, max] = [p50, p99, max].map(Duration::from_micros);
            let (all, largest) = (self.bytes_moved, self.snapshot_bytes);
            let (all, largest) = (HumanBytes(all), HumanBytes(largest));
            writeln!(f, "pause      p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}")?;
            if let Some(ping) = &self.ping_us {
                writeln!(f, "ping       p50 {:.1?}", Duration::from_micros(ping.p50))?;
            }
            writeln!(f, "moved      {all} in snapshots, the largest {largest}")?;
        }
        if let Some(storm) = &self.storm {
            write!(f, "{storm}")?;
            writeln!(
                f,
                "undone     {} by roll-backs that were told",
                HumanCount(self.rolled_back)
            )?;
            if self.reported > 0 {
                writeln!(f, "reported   {} lost by the store", HumanCount(self.reported))?;
            }
        }
        let text = match (self.matches, self.missing_is_reported) {
            (true, _) => "matches",
            (false, true) => "lacks what was told to be missing, and nothing else",
            (false, false) => "DIFFERS",
        };
        writeln!(f, "text       {text} (sha256 {})", self.sha256)?;
        if self.move_retries > 0 {
            let retries = HumanCount(self.move_retries);
            writeln!(f, "retries    {retries} of the moves")?;
        }
        if self.foreign > 0 {
            writeln!(f, "foreign    {} messages that nobody sent", HumanCount(self.foreign))?;
        }
        if self.misfits > 0 {
            writeln!(f, "misfits    {} edits outside the text", HumanCount(self.misfits))?;
        }
        if !self.ballast_intact {
            writeln!(f, "ballast    DIFFERS")?;
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "problem    {problem}"))?;
        f.write_str(if self.all_right { "all right" } else { "NOT all right" })
    }
}

#[cfg(test)]
mod tests;
