//! Which faults strike when: all of it follows from a seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::options::Options;

/// What each fault needs, about, until all have found their way again.
const BETWEEN_RESTARTS: Duration = Duration::from_millis(2_500);
const BETWEEN_STORE_CUTS: Duration = Duration::from_millis(10_000);
const BETWEEN_WIPES: Duration = Duration::from_millis(10_000);
const BETWEEN_CUTS: Duration = Duration::from_millis(500);
const BETWEEN_BLACK_HOLES: Duration = Duration::from_millis(4_000);
/// How long a server is down, or a link swallows everything, at most, in milliseconds.
const DOWN_AT_MOST_MS: u64 = 1_500;
/// How much of the time before a loss of power the store's file may miss, in milliseconds: it goes to the disk
/// every second.
const UNWRITTEN_AT_MOST_MS: u64 = 1_000;
/// How long a server that lost its file's end runs until it is restarted once more, in milliseconds.
const RUNS_ON_MS: std::ops::RangeInclusive<u64> = 500..=2_500;
/// Mixed into the seed, so that the typist's slips and the faults have nothing to do with each other.
const SALT: u64 = 0x000f_a017;

/// One fault. Hosts have the numbers from 0 on, and so have their links to the store; the last link is that
/// of the writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL, and a new process at once.
    Kill { host: u32 },
    /// SIGSTOP, and SIGCONT after this.
    Stop { host: u32, lasts: Duration },
    /// SIGKILL of the store's server, which is started again after this.
    RestartStore { down: Duration },
    /// A loss of power: SIGKILL of the store's server, the end of whose file is cut off, a seeded share of what
    /// was `written` last. It is started again after `down`, and once more after it ran for `runs`.
    CutStore { written: Duration, lost_permille: u16, down: Duration, runs: Duration },
    /// A host joins, everything in the store is deleted, and the host sends.
    WipeStore,
    /// Every connection of a link is closed.
    Cut { link: u32 },
    /// The server's side of every connection of a link is closed.
    HalfCut { link: u32 },
    /// Every connection of a link swallows what it is given and stays open; new ones work.
    BlackHole { link: u32 },
    /// New ones neither, for this long.
    Isolate { link: u32, lasts: Duration },
}

/// Every fault of a run with its time, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// The faults, each with its time after the beginning.
    pub(crate) faults: Vec<(Duration, Fault)>,
    /// How long they go on.
    pub(crate) lasts: Duration,
}

impl Faults {
    /// Those that the options ask for, at times of chance over as long as they need.
    pub(crate) fn of(options: &Options) -> Self {
        let every = Duration::from_millis(options.kill_every_ms.into());
        let needs = [
            every.saturating_mul(options.kills.saturating_add(options.stops)),
            BETWEEN_RESTARTS.saturating_mul(options.store_restarts),
            BETWEEN_STORE_CUTS.saturating_mul(options.store_cuts),
            BETWEEN_WIPES.saturating_mul(options.store_wipes),
            BETWEEN_CUTS.saturating_mul(options.cuts),
            BETWEEN_BLACK_HOLES.saturating_mul(options.black_holes),
        ];
        let lasts = needs.into_iter().max().unwrap_or_default();
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed ^ SALT);
        let mut faults = Vec::new();
        let (hosts, links) = (options.hosts, options.hosts + 1);
        let mut add = |count: u32, make: &dyn Fn(&mut ChaCha8Rng) -> Fault| {
            for _ in 0..count {
                let at = lasts.mul_f64(rng.random_range(0.0..1.0));
                faults.push((at, make(&mut rng)));
            }
        };
        let ttl = u64::from(options.session_ttl_ms);
        let short =
            |rng: &mut ChaCha8Rng| Duration::from_millis(rng.random_range(0..=DOWN_AT_MOST_MS));
        add(options.kills, &|rng| Fault::Kill { host: rng.random_range(0..hosts) });
        add(options.stops, &|rng| Fault::Stop {
            host: rng.random_range(0..hosts),
            lasts: Duration::from_millis(rng.random_range(ttl + ttl / 4..=ttl * 3)),
        });
        add(options.store_restarts, &|rng| Fault::RestartStore { down: short(rng) });
        add(options.cuts, &|rng| {
            let link = rng.random_range(0..links);
            if rng.random_ratio(1, 4) { Fault::HalfCut { link } } else { Fault::Cut { link } }
        });
        add(options.black_holes, &|rng| {
            let link = rng.random_range(0..links);
            if rng.random_ratio(1, 2) {
                Fault::BlackHole { link }
            } else {
                Fault::Isolate { link, lasts: short(rng) }
            }
        });
        add(options.store_cuts, &|rng| {
            let millis =
                |rng: &mut ChaCha8Rng, range| Duration::from_millis(rng.random_range(range));
            Fault::CutStore {
                written: millis(rng, 0..=UNWRITTEN_AT_MOST_MS),
                lost_permille: rng.random_range(1..=1_000),
                down: short(rng),
                runs: millis(rng, RUNS_ON_MS),
            }
        });
        add(options.store_wipes, &|_| Fault::WipeStore);
        faults.sort_by_key(|(at, _)| *at);
        Self { faults, lasts }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn faults(line: &str) -> Faults {
        let line = format!("document --transport redis --processes {line}");
        Faults::of(&Options::parse_from(line.split(' ')))
    }

    const ALL: &str = "--kills 30 --stops 10 --store-restarts 5 --cuts 40 --black-holes 20 --store-cuts 3 --store-wipes 2";

    #[test]
    fn all_that_are_asked_for_come_within_their_time() {
        let all = faults(ALL);
        let count = |is: fn(&Fault) -> bool| all.faults.iter().filter(|(_, f)| is(f)).count();
        assert_eq!(count(|f| matches!(f, Fault::Kill { host: 0..3 })), 30);
        assert_eq!(count(|f| matches!(f, Fault::Stop { host: 0..3, .. })), 10);
        assert_eq!(count(|f| matches!(f, Fault::RestartStore { .. })), 5);
        assert_eq!(count(|f| matches!(f, Fault::CutStore { lost_permille: 1..=1000, .. })), 3);
        assert_eq!(count(|f| matches!(f, Fault::WipeStore)), 2);
        let cut =
            |f: &Fault| matches!(f, Fault::Cut { link: 0..4 } | Fault::HalfCut { link: 0..4 });
        assert_eq!(count(cut), 40);
        let hole = |f: &Fault| {
            matches!(f, Fault::BlackHole { link: 0..4 } | Fault::Isolate { link: 0..4, .. })
        };
        assert_eq!(count(hole), 20);
        assert_eq!(all.lasts, Duration::from_secs(100));
        assert!(all.faults.is_sorted_by_key(|(at, _)| *at));
        assert!(all.faults.iter().all(|(at, _)| *at < all.lasts));
    }

    #[test]
    fn a_stop_outlasts_the_session() {
        for (_, fault) in faults("--stops 50 --session-ttl-ms 1000").faults {
            let Fault::Stop { lasts, .. } = fault else { panic!("{fault:?}") };
            assert!(lasts > Duration::from_secs(1), "{lasts:?}");
        }
    }

    #[test]
    fn they_follow_from_the_seed() {
        assert_eq!(faults(&format!("{ALL} --seed 7")), faults(&format!("{ALL} --seed 7")));
        assert_ne!(faults(&format!("{ALL} --seed 7")), faults(&format!("{ALL} --seed 8")));
        assert_eq!(faults("--seed 7"), Faults::default());
    }
}
