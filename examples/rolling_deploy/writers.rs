//! A writer for each room, and its list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor_rooms::{RoomActor, RoomHost, RoomRef};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::host::Failure;
use super::oracle::{Told, Verdict};
use super::room::{Ledger, LedgerMsg};

/// One message in so many is followed by a call.
const CALLS: u64 = 16;
/// How long a caller waits.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the lists are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all writers together have done.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) failed_sends: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) failed_calls: AtomicU64,
    /// Rooms that have accepted something.
    pub(crate) started: AtomicU64,
    stop: AtomicBool,
}

/// The writers of all rooms.
#[derive(Debug)]
pub(crate) struct Writers {
    pub(crate) counts: Arc<Counts>,
    tasks: JoinSet<Result<Verdict, Failure>>,
}

impl Writers {
    /// Starts one for each room; together they send at this rate.
    pub(crate) fn start(via: &RoomHost, durable: u32, live: u32, rate: u32) -> Self {
        let mut writers = Self { counts: Arc::default(), tasks: JoinSet::new() };
        let every = Duration::from_secs(1) * (durable + live) / rate;
        writers.start_some::<Ledger<true>>(via, durable, every);
        writers.start_some::<Ledger<false>>(via, live, every);
        writers
    }

    fn start_some<R: RoomActor<Msg = LedgerMsg>>(
        &mut self,
        via: &RoomHost,
        rooms: u32,
        every: Duration,
    ) {
        for number in 0..rooms {
            let room = via.room::<R>(format!("ledger-{number}"));
            // Not all in the same instant.
            let first = every * number / rooms;
            self.tasks.spawn(write(room, self.counts.clone(), first, every));
        }
    }

    /// Stops them, reads every room's list, and judges.
    pub(crate) async fn judge(mut self) -> Result<Verdict, Failure> {
        self.counts.stop.store(true, Ordering::Relaxed);
        let mut all = Verdict::default();
        while let Some(verdict) = self.tasks.join_next().await {
            all += verdict??;
        }
        Ok(all)
    }
}

async fn write<R: RoomActor<Msg = LedgerMsg>>(
    room: RoomRef<R>,
    counts: Arc<Counts>,
    first: Duration,
    every: Duration,
) -> Result<Verdict, Failure> {
    tokio::time::sleep(first).await;
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = Told::default();
    let mut number = 0;
    while !counts.stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        number += 1;
        match room.send(LedgerMsg::Add(number)).await {
            Ok(()) => {
                if told.accepted.is_empty() {
                    counts.started.fetch_add(1, Ordering::Relaxed);
                }
                told.accepted.insert(number);
                counts.accepted.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                told.unknown.insert(number);
                counts.failed_sends.fetch_add(1, Ordering::Relaxed);
            }
        }
        if number % CALLS == 0 {
            counts.calls.fetch_add(1, Ordering::Relaxed);
            let answer = room.call(LedgerMsg::Count, Some(CALL_TIMEOUT)).await;
            if !matches!(answer, Ok(CallResult::Success(_))) {
                counts.failed_calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    match room.call(LedgerMsg::Read, Some(PATIENCE)).await {
        Ok(CallResult::Success(numbers)) => Ok(told.judge(&numbers)),
        Ok(_) => Err(format!("{room:?} does not answer").into()),
        Err(why) => Err(why.to_string().into()),
    }
}
