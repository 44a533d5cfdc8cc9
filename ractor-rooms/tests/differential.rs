//! The in-process transport answers as the pure store does.
#![cfg(feature = "testing")]

use ractor_rooms::testing::{MemorySubject, differential, differential::Tally};

/// The number of sequences; `DIFFERENTIAL_RUNS` asks for more.
fn runs() -> u64 {
    std::env::var("DIFFERENTIAL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(100)
}

const ANSWERS: &[&str] = &[
    "Append(Accepted",
    "Append(Duplicate",
    "Append(Partial",
    "Append(Gap",
    "Append(Fenced",
    "Append(Full",
    "Append(Closed",
    "Append(OtherLife",
    "Acquire(Acquired(Acquired",
    "Acquire(Refused",
    "Acquire(NoSession)",
    "Owner(Done)",
    "Owner(Fenced",
    "Owner(NoSnapshot)",
    "Owner(Count(",
    "Offer(Done",
    "Offer(Refused",
    "Offer(Missing)",
    "Close(Done",
    "Close(Fenced",
    "Close(NotDrained",
    "Page(Ok(Page",
    "Page(Err(Epoch(",
    "View(None)",
    "View(Some(RecordView",
    "History",
    "DeadLetters([DeadLetter",
];

#[tokio::test]
async fn memory_answers_as_the_store() {
    let mut tally = Tally::default();
    for seed in 0..runs() {
        let subject = MemorySubject::new();
        match differential::compare(&subject, seed, 300).await {
            Ok(run) => tally.add(run),
            Err(difference) => panic!("{difference}"),
        }
    }
    // A sequence that never gets anywhere would find nothing.
    for answer in ANSWERS {
        assert!(tally.answers.contains_key(*answer), "{answer} was never answered: {tally:#?}");
    }
}

#[tokio::test]
async fn memory_answers_as_the_store_while_its_clock_goes_on() {
    for seed in 0..runs() {
        let subject = MemorySubject::ticking();
        if let Err(difference) = differential::compare(&subject, seed, 300).await {
            panic!("{difference}");
        }
    }
}
