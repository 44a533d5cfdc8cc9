//! What came of the faults of a run: for people, and as json.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::percentile::percentile;
use super::reports::Reports;
use super::summary::Outcome;
use super::tally::{Struck, Tally};

/// Which faults struck, and what the rooms made of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StormSummary {
    kills: u32,
    stops: u32,
    store_restarts: u32,
    store_cuts: u32,
    store_wipes: u32,
    cuts: u32,
    black_holes: u32,
    /// How many of these struck while there was typing.
    faults_in_typing: u32,
    /// How often a room went back to a checkpoint.
    roll_backs: u64,
    /// How often a host gave the store back what it had lost of a room.
    regressed: u64,
    /// How often a host dropped a room that somebody else had after the store had lost data.
    diverged: u64,
    /// How often a call ended without an answer and was made again.
    call_retries: u64,
    /// From the SIGKILL of a room's host until the room said that it runs elsewhere, in milliseconds.
    recovery_ms: RecoveryMillis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct RecoveryMillis {
    count: usize,
    p50: u64,
    max: u64,
}

impl RecoveryMillis {
    fn of(recoveries: impl IntoIterator<Item = Duration>) -> Self {
        let millis = |one: Duration| one.as_millis().try_into().unwrap_or(u64::MAX);
        let mut all: Vec<u64> = recoveries.into_iter().map(millis).collect();
        all.sort_unstable();
        Self { count: all.len(), p50: percentile(&all, 50), max: percentile(&all, 100) }
    }
}

impl StormSummary {
    /// Adds the documents up.
    pub(crate) fn of(
        tally: &Tally,
        reports: &Reports,
        outcomes: &[Outcome],
        call_retries: u64,
    ) -> Self {
        let ends = tally.ends();
        Self {
            kills: tally.count(Struck::Kill),
            stops: tally.count(Struck::Stop),
            store_restarts: tally.count(Struck::StoreRestart),
            store_cuts: tally.count(Struck::StoreCut),
            store_wipes: tally.count(Struck::StoreWipe),
            cuts: tally.count(Struck::Cut),
            black_holes: tally.count(Struck::BlackHole),
            faults_in_typing: tally.in_typing(),
            roll_backs: outcomes.iter().map(|o| o.account.roll_backs.len() as u64).sum(),
            regressed: reports.regressed(),
            diverged: reports.diverged(),
            call_retries,
            recovery_ms: RecoveryMillis::of(
                outcomes.iter().flat_map(|outcome| outcome.account.recoveries(&ends)),
            ),
        }
    }

    /// How often each kind struck.
    pub(crate) fn struck(&self) -> [u32; 7] {
        [
            self.kills,
            self.stops,
            self.store_restarts,
            self.store_cuts,
            self.store_wipes,
            self.cuts,
            self.black_holes,
        ]
    }
}

impl fmt::Display for StormSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kills, stops, restarts, torn, wiped, cuts, holes] = self.struck();
        let all: u32 = self.struck().iter().sum();
        writeln!(f, "killed     {kills} hosts; {stops} stopped")?;
        writeln!(f, "broken     the store {restarts} times; links {cuts} cut, {holes} swallowing")?;
        if torn + wiped > 0 {
            let Self { regressed, diverged, .. } = self;
            writeln!(
                f,
                "forgotten  the store's file was cut {torn} times; {wiped} times everything"
            )?;
            writeln!(f, "given back {regressed} rooms by their hosts; {diverged} dropped by them")?;
        }
        writeln!(f, "in typing  {} of {all} faults", self.faults_in_typing)?;
        let RecoveryMillis { count, p50, max } = self.recovery_ms;
        if count > 0 {
            writeln!(f, "recovery   {count} times, p50 {p50} ms, max {max} ms")?;
        }
        writeln!(f, "calls      {} made again", self.call_retries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recoveries_are_summed_up() {
        let of =
            |millis: &[u64]| RecoveryMillis::of(millis.iter().copied().map(Duration::from_millis));
        assert_eq!(of(&[]), RecoveryMillis { count: 0, p50: 0, max: 0 });
        assert_eq!(of(&[30, 10, 20]), RecoveryMillis { count: 3, p50: 20, max: 30 });
    }
}
