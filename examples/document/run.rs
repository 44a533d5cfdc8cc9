//! The whole run: a store, hosts, documents, and the judgement at the end.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor_rooms::clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::ballast::Ballast;
use super::client::Calls;
use super::faults::Faults;
use super::fleet::{Fleet, StartErr};
use super::interrupt::Interrupt;
use super::options::{Class, Options};
use super::pace::Pace;
use super::ping::Pinger;
use super::progress::Progress;
use super::room::{Beginning, DeliveryClass, Durable, Live};
use super::schedule::Schedule;
use super::script::Script;
use super::store::{Store, StoreErr};
use super::storm::Storm;
use super::summary::{Outcome, Summary};
use super::tally::Tally;
use super::typing::{Stage, type_document};
use super::visits::Visits;

/// How often the progress is told where no bar can be drawn.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Why there is nothing to judge.
#[derive(Debug)]
pub(crate) enum RunErr {
    /// There is no store.
    Store(StoreErr),
    /// A host did not start.
    Start(StartErr),
    /// Signals cannot be listened to.
    Signals(io::Error),
    /// The user ended it.
    Interrupted,
}

impl fmt::Display for RunErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(why) => write!(f, "{why}"),
            Self::Start(why) => write!(f, "{why}"),
            Self::Signals(why) => write!(f, "signals cannot be listened to: {why}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// Types the script into as many documents as there are writers, and judges what came of it. Whatever
/// happens, the hosts are stopped and the store is left as it was.
pub(crate) async fn run(options: &Options, script: Script) -> Result<Summary, RunErr> {
    let mut interrupt = pin!(Interrupt::listen().map_err(RunErr::Signals)?.wished());
    let store = tokio::select! {
        store = Store::open(options) => store.map_err(RunErr::Store)?,
        () = &mut interrupt => return Err(RunErr::Interrupted),
    };
    let ran = match options.delivery {
        Class::Live => run_on::<Live>(&store, options, script, interrupt).await,
        Class::Durable => run_on::<Durable>(&store, options, script, interrupt).await,
    };
    match (ran, store.clear().await) {
        (Ok(mut summary), Err(why)) => {
            summary.spoil(why.to_string());
            Ok(summary)
        }
        (Err(failure), Err(why)) => {
            eprintln!("error: {why}");
            Err(failure)
        }
        (ran, Ok(())) => ran,
    }
}

async fn run_on<C: DeliveryClass>(
    store: &Store,
    options: &Options,
    script: Script,
    mut interrupt: Pin<&mut impl Future<Output = ()>>,
) -> Result<Summary, RunErr> {
    let ballast = Ballast::new(options.state_bytes as usize, options.seed);
    let ballast_sha256 = ballast.sha256();
    let text = script.start.clone();
    let beginning = Arc::new(Beginning { text, ballast });
    let mut fleet = Fleet::default();
    let started = tokio::select! {
        started = fleet.start::<C>(options, store, &beginning) => started.map_err(RunErr::Start),
        () = &mut interrupt => Err(RunErr::Interrupted),
    };
    if let Err(failure) = started {
        fleet.stop().await;
        return Err(failure);
    }
    let pinger = store.address().cloned().map(Pinger::start);
    let schedule = Schedule::new(script.edits.len(), options.moves);
    let all_edits = script.edits.len() as u64 * u64::from(options.writers);
    let progress = Arc::new(Progress::new(all_edits, options.writers));
    let hosts = fleet.ways(options.hosts);
    let clock = Clock::system();
    let tally = Arc::new(Tally::new(Arc::clone(&progress)));
    let reports = Arc::clone(fleet.reports());
    let visits = Arc::new(Visits::new(options, &beginning, &reports));
    let storm = options.has_faults().then(|| {
        let (tally, visits) = (Arc::clone(&tally), Arc::clone(&visits));
        Storm::new(Faults::of(options), clock.clone(), tally, visits)
    });
    let (over, calm) = watch::channel(false);
    let calls_again = Arc::default();
    let calls = storm.as_ref().map_or(Calls::Once, |_| Calls::Again(Arc::clone(&calls_again)));
    let pace = storm.as_ref().map(|storm| Pace::new(storm.lasts(), calm));
    let forgetting = options.store_forgets().then(|| Arc::clone(&reports));
    let stage = Arc::new(Stage {
        hosts,
        rooms: options.writers,
        script,
        schedule,
        ballast_sha256,
        progress,
        calls,
        clock,
        pace,
        notes: options.notes,
        visits: Arc::clone(&visits),
        forgetting,
    });
    if storm.is_some() {
        eprintln!("the faults follow from seed {}", options.seed);
    }

    let (done, typed_out) = watch::channel(false);
    let typing = async {
        let outcomes = type_all::<C>(&stage, options.writers).await;
        done.send_replace(true);
        outcomes
    };
    let raging = async {
        let problems = match storm {
            Some(storm) => storm.rage::<C>(&mut fleet, store, typed_out).await,
            None => Vec::new(),
        };
        over.send_replace(true);
        problems
    };
    let typed = tokio::select! {
        typed = async { tokio::join!(typing, raging) } => Some(typed),
        () = interrupt => None,
    };
    let elapsed = stage.progress.finish();
    let ping = pinger.and_then(Pinger::finish);
    // Where the store is made to forget, what was lost is held against them message by message.
    let mut problems = if options.store_forgets() { Vec::new() } else { reports.complaints() };
    fleet.take_hosts(visits.take_hosts());
    problems.extend(fleet.stop().await);
    let (outcomes, raged) = typed.ok_or(RunErr::Interrupted)?;
    problems.extend(raged);
    let mut summary = Summary::new(options, &stage.script, &outcomes, elapsed);
    summary.pinged(ping);
    summary.stormed(options, &tally, &reports, &outcomes, calls_again.load(Ordering::Relaxed));
    problems.into_iter().for_each(|problem| summary.spoil(problem));
    Ok(summary)
}

async fn type_all<C: DeliveryClass>(stage: &Arc<Stage>, documents: u32) -> Vec<Outcome> {
    let mut typing = JoinSet::new();
    for room in 0..documents {
        typing.spawn(type_document::<C>(Arc::clone(stage), room));
    }
    let mut outcomes = Vec::new();
    let mut tell = interval(TOLD_EVERY);
    tell.reset(); // The first tick would come at once.
    loop {
        let outcome = tokio::select! {
            outcome = typing.join_next() => outcome,
            _ = tell.tick() => {
                stage.progress.tell();
                continue;
            }
        };
        match outcome {
            Some(Ok(outcome)) => outcomes.push(outcome),
            Some(Err(why)) => {
                outcomes.push(Outcome { problems: vec![why.to_string()], ..Outcome::default() });
            }
            None => return outcomes,
        }
    }
}
