//! Whole clusters on virtual time, seed by seed; see [`ractor_rooms_tests::sim`].
//!
//! `ROOMS_SEEDS` (how many seeds each profile runs) and `ROOMS_FIRST_SEED` choose other seeds; `ROOMS_TRACE`
//! prints all that a seed did, and with `ROOMS_TRACE=store` also what the store was asked.

use std::env;

use ractor_rooms_tests::sim::{Bug, Profile, run};

/// Seeds of each profile, unless `ROOMS_SEEDS` says otherwise.
const SEEDS: u64 = 100;

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("expected a number in {name}: {text:?}")),
        Err(_) => default,
    }
}

/// Runs the seeds of a profile, each of which must keep every promise.
fn seeds(profile: Profile) {
    let (first, count) = (number("ROOMS_FIRST_SEED", 1), number("ROOMS_SEEDS", SEEDS));
    let trace = env::var_os("ROOMS_TRACE").is_some();
    let mut red = Vec::new();
    for seed in first..first.saturating_add(count) {
        let outcome = run(seed, profile, None);
        if trace {
            println!("{}", outcome.lines.join("\n"));
        }
        if !outcome.is_clean() {
            println!("{outcome}\n");
            red.push(seed);
        }
        assert!(red.len() < 10, "seeds that broke a promise: {red:?}");
    }
    assert!(red.is_empty(), "seeds that broke a promise: {red:?} of {count}");
}

#[test]
fn calm() {
    seeds(Profile::Calm);
}

#[test]
fn network() {
    seeds(Profile::Network);
}

#[test]
fn hosts() {
    seeds(Profile::Hosts);
}

#[test]
fn restarts() {
    seeds(Profile::Restarts);
}

#[test]
fn losses() {
    seeds(Profile::Losses);
}

/// Otherwise a red seed could not be looked at.
#[test]
fn the_same_seed_is_the_same_run() {
    for profile in Profile::ALL {
        for seed in 1..=4 {
            let (one, other) = (run(seed, profile, None), run(seed, profile, None));
            let differs = one.lines.iter().zip(&other.lines).position(|(a, b)| a != b);
            if let Some(at) = differs {
                panic!(
                    "seed {seed} of {profile:?} differs at line {at}:\n{}\n{}",
                    one.lines[at], other.lines[at]
                );
            }
            assert_eq!(one.lines.len(), other.lines.len(), "seed {seed} of {profile:?}");
            assert_eq!(one.digest, other.digest, "seed {seed} of {profile:?}");
        }
    }
}

/// A judge that finds nothing is no judge.
#[test]
fn planted_bugs_are_found() {
    for bug in Bug::ALL {
        let found = (1..=200).find(|seed| !run(*seed, Profile::Hosts, Some(bug)).is_clean());
        assert!(found.is_some(), "{bug:?} is not found");
        println!("{bug:?} is found by seed {found:?}");
    }
}
