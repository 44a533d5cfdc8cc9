//! The transport that fails on purpose does what it says, and nothing without being asked.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test panic as the test does"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use ractor_rooms::MemoryTransport;
use ractor_rooms::id::{
    Epoch, HostId, Incarnation, Life, Millis, Number, OutSeq, Position, Producer, RoomId,
};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, Lease, OwnerAnswer, ParkReason, Phase, RecordLimits,
    Request, SnapshotKey,
};
use ractor_rooms::protocol::session::{HostState, OpenAnswer, SessionSpec};
use ractor_rooms::testing::{Fault, FaultPlan, FaultyTransport, MemorySubject, Operation, Subject};
use ractor_rooms::transport::{Push, Transport, TransportErr};

#[derive(Debug)]
struct FaultySubject {
    memory: MemorySubject,
    faulty: FaultyTransport<MemoryTransport>,
}

impl FaultySubject {
    fn new(plan: FaultPlan) -> Self {
        let memory = MemorySubject::new();
        let faulty = FaultyTransport::new(memory.transport().clone(), 1, plan);
        Self { memory, faulty }
    }
}

impl Subject for FaultySubject {
    fn connect(&self) -> BoxFuture<'_, Arc<dyn Transport>> {
        let transport: Arc<dyn Transport> = Arc::new(self.faulty.clone());
        std::future::ready(transport).boxed()
    }

    fn ttl(&self) -> Duration {
        self.memory.ttl()
    }

    fn limits(&self) -> RecordLimits {
        self.memory.limits()
    }

    fn let_sessions_lapse(&self) -> BoxFuture<'_, ()> {
        self.memory.let_sessions_lapse()
    }

    fn quiet(&self) -> Duration {
        self.memory.quiet()
    }

    fn lose_snapshot<'a>(&'a self, room: &'a RoomId, key: &'a SnapshotKey) -> BoxFuture<'a, bool> {
        self.memory.lose_snapshot(room, key)
    }
}

mod calm {
    use super::{FaultPlan, FaultySubject};

    ractor_rooms::conformance_suite!(FaultySubject::new(FaultPlan::calm()));
}

/// A transport may repeat by itself whatever may be repeated.
mod repeating {
    use super::{FaultPlan, FaultySubject};

    ractor_rooms::conformance_suite!(FaultySubject::new(FaultPlan::repeat_all()));
}

type Faulty = FaultyTransport<MemoryTransport>;

fn faulty(plan: FaultPlan) -> Faulty {
    FaultyTransport::new(MemoryTransport::new(), 42, plan)
}

fn room() -> RoomId {
    RoomId::new("chat", "lobby").unwrap()
}

fn host(name: &str) -> HostId {
    HostId::new(name).unwrap()
}

async fn ask(t: &Faulty, request: Request) -> Result<Answer, TransportErr> {
    t.execute(&room(), request, Epoch(0)).await
}

/// What the store holds, without faults.
async fn view(t: &Faulty) -> ractor_rooms::protocol::record::RecordView {
    match t.inner().execute(&room(), Request::Read, Epoch(0)).await {
        Ok(Answer::View(Some(view))) => *view,
        other => panic!("{other:?}"),
    }
}

async fn open(t: &Faulty, name: &str) -> Incarnation {
    let kinds = std::collections::BTreeMap::new();
    let spec = SessionSpec {
        state: HostState::Ready,
        load: 0,
        capacity: 1,
        weight: 1,
        kinds,
        proved: Default::default(),
        holds: None,
    };
    match t.open_session(&host(name), Duration::from_secs(60), spec).await {
        Ok(OpenAnswer::Opened(incarnation)) => incarnation,
        other => panic!("{other:?}"),
    }
}

fn append(first: u64) -> Request {
    let producer = Producer::Host(Incarnation { host: host("sender"), number: 1 });
    let batch = vec![Bytes::from(first.to_string())];
    Request::Append { life: None, producer, epoch: 0, first: Number(first), batch }
}

fn offer(to: &str) -> Request {
    Request::Offer { to: host(to), until: Millis(u64::MAX >> 12), create: true }
}

fn park(lease: &Lease) -> Request {
    let lease = lease.clone();
    Request::Park { lease, snapshot: None, offer: None, why: ParkReason::Idle, failed: None }
}

async fn acquire(t: &Faulty, by: &Incarnation, number: u64) -> Result<Lease, TransportErr> {
    let activation = ractor_rooms::id::Activation { by: by.clone(), number };
    let seen = view(t).await.seen;
    match ask(t, Request::Acquire { activation, seen }).await? {
        Answer::Acquire(AcquireAnswer::Acquired(acquired)) => Ok(acquired.lease),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn lost_answer_took_effect() {
    let t = faulty(FaultPlan::calm());
    ask(&t, offer("a")).await.unwrap();
    let aimed = t.next(Operation::Append, Fault::LoseAnswer);
    let lost = ask(&t, append(1)).await.unwrap_err();
    assert!(lost.may_have_executed() && aimed.is_hit());
    assert_eq!(view(&t).await.seq.0, 1);
    let again = ask(&t, append(1)).await.unwrap();
    assert!(matches!(again, Answer::Append(AppendAnswer::Duplicate { .. })), "{again:?}");
    assert_eq!(t.events().len(), 1);
    assert!(t.events()[0].to_string().contains("LoseAnswer"), "{}", t.events()[0]);
}

#[tokio::test]
async fn lost_and_refused_requests_took_none() {
    let t = faulty(FaultPlan::calm());
    ask(&t, offer("a")).await.unwrap();
    t.next(Operation::Append, Fault::LoseRequest);
    t.next(Operation::Append, Fault::Refuse);
    assert!(ask(&t, append(1)).await.unwrap_err().may_have_executed());
    assert!(!ask(&t, append(1)).await.unwrap_err().may_have_executed());
    assert_eq!(view(&t).await.seq.0, 0);
    ask(&t, append(1)).await.unwrap();
    assert_eq!(view(&t).await.seq.0, 1);
}

/// The acquire that timed out and came later all the same.
#[tokio::test]
async fn delayed_request_is_a_late_copy() {
    let t = faulty(FaultPlan::calm());
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    t.next(Operation::Acquire, Fault::Delay { calls: 2 });
    assert!(acquire(&t, &a, 1).await.unwrap_err().may_have_executed());
    assert_eq!(t.delayed(), 1);
    for _ in 0..2 {
        ask(&t, Request::ReadDeadLetters).await.unwrap();
        assert!(view(&t).await.seen.owner.is_none());
    }
    ask(&t, Request::ReadDeadLetters).await.unwrap();
    assert_eq!(view(&t).await.seen.owner.unwrap().by, a);
    assert_eq!(t.delayed(), 0);
}

#[tokio::test]
async fn flush_brings_what_is_delayed() {
    let t = faulty(FaultPlan::calm());
    ask(&t, offer("a")).await.unwrap();
    t.next(Operation::Append, Fault::Delay { calls: 1_000 });
    ask(&t, append(1)).await.unwrap_err();
    t.heal();
    assert_eq!(view(&t).await.seq.0, 0);
    t.flush().await;
    assert_eq!(view(&t).await.seq.0, 1);
}

#[tokio::test]
async fn repeat_gives_the_first_answer_and_retry_the_second() {
    let t = faulty(FaultPlan::calm());
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    let lease = acquire(&t, &a, 1).await.unwrap();
    t.next(Operation::Park, Fault::Repeat);
    let first = ask(&t, park(&lease)).await.unwrap();
    assert_eq!(first, Answer::Owner(OwnerAnswer::Done));
    let lease = acquire(&t, &a, 2).await.unwrap();
    t.next(Operation::Park, Fault::Retry);
    let second = ask(&t, park(&lease)).await.unwrap();
    assert_eq!(second, Answer::Owner(OwnerAnswer::Fenced { epoch: lease.epoch }));
    assert!(matches!(view(&t).await.phase, Phase::Parked { .. }));
}

#[tokio::test]
async fn held_call_waits_for_its_release() {
    let t = faulty(FaultPlan::calm());
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    let lease = acquire(&t, &a, 1).await.unwrap();
    for (fault, executed) in [(Fault::HoldRequest, false), (Fault::HoldAnswer, true)] {
        let held = t.next_of(host("a"), Operation::Settle, fault);
        let (t2, lease) = (t.clone(), lease.clone());
        let call = tokio::spawn(async move { ask(&t2, Request::Settle { lease }).await });
        held.hit().await;
        tokio::task::yield_now().await;
        assert!(!call.is_finished());
        assert_eq!(view(&t).await.settled, executed);
        held.release();
        let settled = OwnerAnswer::Settled { last: Position::START };
        assert_eq!(call.await.unwrap().unwrap(), Answer::Owner(settled));
    }
}

#[tokio::test]
async fn faults_aim_at_one_host() {
    let t = faulty(FaultPlan::calm());
    let (a, b) = (t.for_host(host("a")), t.for_host(host("b")));
    ask(&t, offer("a")).await.unwrap();
    a.next(Operation::Read, Fault::Refuse);
    ask(&b, Request::Read).await.unwrap();
    ask(&a, Request::Read).await.unwrap_err();
    ask(&a, Request::Read).await.unwrap();
    t.cut(&host("a"));
    ask(&b, Request::Read).await.unwrap();
    assert!(!ask(&a, Request::Read).await.unwrap_err().may_have_executed());
    t.restore(&host("a"));
    ask(&a, Request::Read).await.unwrap();
    t.cut(&host("b"));
    t.heal();
    ask(&b, Request::Read).await.unwrap();
}

#[tokio::test]
async fn a_stalled_host_waits_until_it_goes_on() {
    let t = faulty(FaultPlan::calm());
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    acquire(&t, &a, 1).await.unwrap();
    let mut pushes = t.subscribe(&a).await.unwrap();
    let (of_a, of_b) = (t.for_host(host("a")), t.for_host(host("b")));
    t.stall(&host("a"));
    let mut held = Box::pin(ask(&of_a, append(1)));
    assert!(held.as_mut().now_or_never().is_none(), "the call did not wait");
    ask(&of_b, append(1)).await.unwrap();
    assert!(pushes.next().now_or_never().is_none(), "a push reached a host that is stalled");
    t.resume(&host("a"));
    held.await.unwrap();
    assert!(pushes.next().await.is_some(), "a push was lost that had only to wait");
    t.stall(&host("b"));
    t.heal();
    ask(&of_b, Request::Read).await.unwrap();
}

#[tokio::test]
async fn what_takes_time_is_carried_out_all_the_same() {
    let longest = Duration::from_millis(3);
    let t = faulty(FaultPlan {
        request_takes: longest,
        answer_takes: longest,
        push_takes: longest,
        ..FaultPlan::calm()
    });
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    acquire(&t, &a, 1).await.unwrap();
    let mut pushes = t.subscribe(&a).await.unwrap();
    for number in 1..=20 {
        ask(&t, append(number)).await.unwrap();
        let push = pushes.next().await;
        assert!(matches!(push, Some(Push::Entry { entry, .. }) if entry.first.0 == number));
    }
    // Who stops waiting before the request arrives has sent nothing.
    let far = FaultPlan { request_takes: Duration::from_secs(3_600), ..FaultPlan::calm() };
    t.set_plan(far);
    assert!(ask(&t, append(21)).now_or_never().is_none(), "it took no time");
    t.set_plan(FaultPlan::calm());
    assert!(matches!(ask(&t, append(21)).await, Ok(Answer::Append(AppendAnswer::Accepted { .. }))));
}

/// Without a view of its own, a host is known by what its calls name.
#[tokio::test]
async fn cut_host_is_known_by_its_lease() {
    let t = faulty(FaultPlan::calm());
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    let lease = acquire(&t, &a, 1).await.unwrap();
    let mut pushes = t.subscribe(&a).await.unwrap();
    t.cut(&host("a"));
    ask(&t, Request::Settle { lease: lease.clone() }).await.unwrap_err();
    ask(&t, append(1)).await.unwrap();
    assert!(pushes.next().now_or_never().is_none(), "a push reached a host that is cut off");
    t.restore(&host("a"));
    ask(&t, append(2)).await.unwrap();
    let push = pushes.next().now_or_never().flatten();
    assert!(matches!(push, Some(Push::Entry { entry, .. }) if entry.first.0 == 2));
}

async fn pushed(plan: FaultPlan) -> (Faulty, Vec<u64>, Vec<u64>, bool) {
    let t = faulty(plan);
    let a = open(&t, "a").await;
    ask(&t, offer("a")).await.unwrap();
    acquire(&t, &a, 1).await.unwrap();
    let mut pushes = t.subscribe(&a).await.unwrap();
    let mut ended = false;
    let mut take = |ended: &mut bool| {
        let mut numbers = Vec::new();
        while let Some(next) = pushes.next().now_or_never() {
            match next {
                Some(Push::Entry { entry, .. }) => numbers.push(entry.first.0),
                Some(other) => panic!("{other:?}"),
                None => {
                    *ended = true;
                    break;
                }
            }
        }
        numbers
    };
    for number in 1..=3 {
        ask(&t, append(number)).await.unwrap();
    }
    let now = take(&mut ended);
    t.flush().await;
    let later = if ended { Vec::new() } else { take(&mut ended) };
    (t, now, later, ended)
}

#[tokio::test]
async fn pushes_are_lost_repeated_delayed_and_ended() {
    let calm = FaultPlan::calm;
    let (_, now, later, _) = pushed(FaultPlan { drop_push: 1_000, ..calm() }).await;
    assert_eq!((now, later), (vec![], vec![]));
    let (_, now, _, _) = pushed(FaultPlan { repeat_push: 1_000, ..calm() }).await;
    assert_eq!(now, [1, 1, 2, 2, 3, 3]);
    let plan = FaultPlan { delay_push: 1_000, longest_delay: 1_000, ..calm() };
    let (_, now, later, ended) = pushed(plan).await;
    assert_eq!((now, later, ended), (vec![], vec![1, 2, 3], false));
    let (t, now, _, ended) = pushed(FaultPlan { end_pushes: 1_000, ..calm() }).await;
    assert_eq!((now, ended), (vec![], true));
    assert!(!t.events().is_empty());
}

/// A sender that repeats until it knows: nothing is lost, doubled or out of order.
async fn rough_run(seed: u64) -> (Vec<u64>, Vec<String>) {
    let t = FaultyTransport::new(MemoryTransport::new(), seed, FaultPlan::rough());
    t.inner().execute(&room(), offer("a"), Epoch(0)).await.unwrap();
    let mut number = 1;
    while number <= 200 {
        match ask(&t, append(number)).await {
            Ok(Answer::Append(
                AppendAnswer::Accepted { last, .. } | AppendAnswer::Duplicate { last, .. },
            )) => number = last.0 + 1,
            Err(_) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
    t.heal();
    t.flush().await;
    let a = open(&t, "a").await;
    let lease = acquire(&t, &a, 1).await.unwrap();
    let after = Position::START;
    let page = ask(&t, Request::ReadLog { lease, after, max_bytes: usize::MAX }).await.unwrap();
    let Answer::Page(Ok(page)) = page else { panic!("{page:?}") };
    let log = page.entries.iter().map(|entry| entry.first.0).collect();
    (log, t.events().iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn rough_weather_is_survived_and_repeats_by_its_seed() {
    for seed in 0..20 {
        let (log, events) = rough_run(seed).await;
        assert_eq!(log, (1..=200).collect::<Vec<_>>(), "seed {seed}: {events:#?}");
        assert!(events.len() > 5, "seed {seed}: {events:?}");
        assert_eq!(rough_run(seed).await.1, events, "seed {seed}");
    }
}

#[tokio::test]
async fn plan_is_for_some_calls() {
    let only = [Operation::Append].into();
    let t = faulty(FaultPlan { refuse: 1_000, only, ..FaultPlan::calm() });
    ask(&t, offer("a")).await.unwrap();
    ask(&t, append(1)).await.unwrap_err();
    let except = [Operation::Append].into();
    t.set_plan(FaultPlan { refuse: 1_000, except, ..FaultPlan::calm() });
    ask(&t, append(1)).await.unwrap();
    ask(&t, Request::ReadHistory { after: OutSeq(0) }).await.unwrap_err();
    assert_ne!(view(&t).await.life, Life(0));
    assert_eq!(t.calls(), 4);
}

#[tokio::test]
async fn caller_may_wait_for_nothing() {
    let wait = Duration::from_millis(20);
    let plan = FaultPlan { lose_answer: 1_000, answer_after: Some(wait), ..FaultPlan::calm() };
    let t = faulty(plan);
    let clock = ractor_rooms::clock::Clock::system();
    let before = clock.mark();
    let lost = ask(&t, Request::Read).await.unwrap_err();
    assert_eq!(lost, TransportErr::Unanswered { waited: wait });
    assert!(clock.elapsed_since(before) >= wait);
}
