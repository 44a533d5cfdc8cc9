use std::sync::Arc;

use futures::stream::{self, StreamExt};
use ractor_rooms::testing::differential::{self, Tally};

use super::bench::{Place, Store};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// `ROOMS_SEEDS` sequences from seed `ROOMS_SEED` on, of `ROOMS_STEPS` operations each, and `ROOMS_AT_ONCE`
/// of them at once.
async fn compare(place: Arc<Place>, seeds: u64) {
    let (first, seeds) = (from_env("ROOMS_SEED", 0), from_env("ROOMS_SEEDS", seeds));
    let steps = usize::try_from(from_env("ROOMS_STEPS", 300)).unwrap();
    let runs = stream::iter(first..first + seeds).map(|seed| {
        let store = Store::at(place.clone(), format!("seed{seed}"));
        async move { differential::compare(&store, seed, steps).await }
    });
    let mut tally = Tally::default();
    let at_once = usize::try_from(from_env("ROOMS_AT_ONCE", 8)).unwrap();
    let mut runs = runs.buffer_unordered(at_once.max(1));
    while let Some(run) = runs.next().await {
        match run {
            Ok(one) => tally.add(one),
            Err(difference) => panic!("{difference}"),
        }
    }
    println!("{tally:#?}");
    for answer in [
        "Append(Accepted",
        "Append(Fenced",
        "Append(Full",
        "Acquire(Acquired(Acquired",
        "Close(Done",
        "OtherGeneration",
        "Acquire(Unproved)",
        "Offer(Unproved)",
    ] {
        assert!(tally.answers.contains_key(answer), "{answer} never came: {tally:?}");
    }
}

#[tokio::test]
async fn scripts_answer_as_the_record_does() {
    compare(Place::server().await, 24).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn scripts_answer_as_the_record_does_on_a_cluster() {
    compare(Place::cluster().await, 14).await;
}
