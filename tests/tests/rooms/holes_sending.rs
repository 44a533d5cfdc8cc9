//! Holes in the way of a message into its room.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::clock::Clock;
use ractor_rooms::id::{Epoch, Incarnation, Millis, Number, Producer};
use ractor_rooms::protocol::record::{Answer, AppendAnswer, Phase, RecordLimits, Request};
use ractor_rooms::testing::{Aimed, Fault, FaultPlan, Operation};
use ractor_rooms::transport::Transport;
use ractor_rooms::{MemoryTransport, MigrationErr, MigrationReport, RoomErr, RoomHost, RoomRef};
use ractor_rooms_tests::holes::{
    Class, Durable, Lab, Live, Pad, PadMsg, RELAYED, What, eventually, host_id, in_time, leaving,
    migrate, migrating, note, notes, pad, room_id, show, stop,
};
use tokio::task::JoinHandle;

use super::both;

/// Senders, by the host that they are on.
const A: u32 = 1;
const B: u32 = 2;

/// Given: m1 times out as number 1, its repeat is refused because the log is full, and it is handed back.
/// When: the first copy lands late, and m2 is sent. Then: m1 is not handled and m2 is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_03_refused_after_a_late_copy_is_not_handled_and_hides_nothing() {
    let limits = RecordLimits { log_entries: 16, ..RecordLimits::default() };
    let lab = Lab::with(limits);
    let a = lab.host("a").await;
    let b = lab.host_with("b", |c| c.send_timeout = Duration::from_millis(500)).await;
    lab.bring::<Durable>("pad", &b, "a").await;
    let (from_a, from_b) = (pad::<Durable>(&a, "pad"), pad::<Durable>(&b, "pad"));
    from_a.send(PadMsg::Hold { gate: "full".to_owned() }).await.unwrap();
    from_a.send(PadMsg::Save).await.unwrap();
    let mut filled = 0;
    while lab.record::<Durable>("pad").log.len() < 14 {
        filled += 1;
        from_a.send(note(A, filled)).await.unwrap();
    }

    let late = lab.next_of("b", Operation::Append, Fault::Delay { calls: u32::MAX });
    let refused = in_time("m1 comes back", from_b.send(note(B, 1))).await.unwrap_err();
    assert!(late.is_hit());
    assert!(matches!(refused, RoomErr::Full { .. } | RoomErr::Expired { .. }), "{refused:?}");
    let message = refused.into_message();
    assert!(matches!(message, Some(PadMsg::Note { from: B, number: 1 })), "{message:?}");

    lab.stage.open("full");
    let has_space = |r: &ractor_rooms::protocol::Record| r.log.len() < 14;
    let seq = lab.record_when::<Durable>("pad", "the log has space", has_space).await.seq;
    assert_eq!(lab.net.delayed(), 1);
    lab.net.flush().await;
    assert_eq!(lab.record::<Durable>("pad").seq, seq, "the late copy was taken");
    from_b.send(note(B, 2)).await.unwrap();
    let shown = show(&from_b).await;
    assert_eq!(shown.of(B), [(B, 2)]);
    assert_eq!(shown.of(A), notes(A, 1..=filled));
    stop(&[&a, &b]).await;
}

/// Given: a durable room sends to another inside its handler, and was never checkpointed since.
/// When: its host dies and it is replayed elsewhere. Then: the other has each message once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_04_what_a_replay_sends_again_is_handled_once() {
    let lab = Lab::default();
    let (a, b) = (lab.doomed("a").await, lab.host("b").await);
    lab.bring::<Durable>("source", &b, "a").await;
    lab.bring::<Durable>("target", &b, "b").await;
    let (source, target) = (pad::<Durable>(&b, "source"), pad::<Durable>(&b, "target"));
    let relay = |number| PadMsg::Relay { from: B, number, to: "target".to_owned() };
    for number in 1..=30 {
        source.send(relay(number)).await.unwrap();
    }
    eventually("some have arrived", async || show(&target).await.notes.len() >= 10).await;
    let logged: usize = lab.record::<Durable>("source").log.iter().map(|e| e.batch.len()).sum();
    assert!(logged >= 30, "all is replayed: {logged} in the log");
    a.kill();
    for number in 31..=40 {
        source.send(relay(number)).await.unwrap();
    }
    // The sender's way is in order, so the last has come only after all that came before it.
    eventually("the last has arrived", async || show(&target).await.notes.contains(&(RELAYED, 40)))
        .await;
    assert_eq!(show(&target).await.notes, notes(RELAYED, 1..=40));
    assert_eq!(show(&source).await.notes, notes(B, 1..=40));
    assert_eq!(lab.stage.hosts_of("source", What::Handled(B, 1)), ["a", "b"], "no replay");
    stop(&[&b]).await;
}

both! {
    h_12_a_room_that_parks_before_the_push_wakes;
    h_13_a_room_wakes_although_its_sender_died_at_once;
    h_34_the_last_message_of_a_burst_is_handled_without_its_push;
}

/// Given: an append was answered `Running`. When: the owner parks for idleness before the push arrives.
/// Then: the room wakes and handles it.
async fn h_12_a_room_that_parks_before_the_push_wakes<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    lab.bring::<C>("pad", &b, "a").await;
    let from_b = pad::<C>(&b, "pad");
    lab.go_unheard(&from_b).await;
    from_b.send(note(B, 1)).await.unwrap();
    let epoch = lab.record::<C>("pad").epoch;
    assert_eq!(lab.stage.hosts_of("pad", What::Handled(B, 1)), [""; 0]);
    assert!(a.unload::<Pad<C>>("pad").await.unwrap());
    lab.stage.seen("pad", What::Handled(B, 1)).await;
    lab.lose_pushes(false);
    assert!(lab.record::<C>("pad").epoch > epoch, "it was never unloaded");
    assert_eq!(show(&from_b).await.notes, [(B, 1)]);
    assert_eq!(lab.stage.handled_after_a_cut("pad"), []);
    stop(&[&a, &b]).await;
}

/// Given: an append was answered `NeedsHost`. When: the sender is killed before it does anything about it.
/// Then: the room wakes all the same.
async fn h_13_a_room_wakes_although_its_sender_died_at_once<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.doomed("b").await);
    lab.bring::<C>("pad", &b, "a").await;
    assert!(a.unload::<Pad<C>>("pad").await.unwrap());
    lab.record_when::<C>("pad", "it rests", |r| matches!(r.phase, Phase::Parked { .. })).await;

    let answer = lab.next_of("b", Operation::Append, Fault::HoldAnswer);
    let from_b = pad::<C>(&b, "pad");
    let sent = tokio::spawn(async move { from_b.send(note(B, 1)).await });
    in_time("it is appended", answer.hit()).await;
    b.kill();
    lab.stage.seen("pad", What::Handled(B, 1)).await;
    assert!(in_time("the sender is told", sent).await.unwrap().is_err());
    assert_eq!(show(&pad::<C>(&a, "pad")).await.notes, [(B, 1)]);
    stop(&[&a]).await;
}

/// Given: a durable room with 100 unread messages, pushed and logged. When: it moves, and again.
/// Then: each is handled once and in order, not from the mailbox and from the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_19_unread_messages_of_a_durable_room_are_handled_once_per_cut() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    lab.bring::<Durable>("pad", &a, "a").await;
    let (from_a, from_b) = (pad::<Durable>(&a, "pad"), pad::<Durable>(&b, "pad"));
    for round in 0..4u64 {
        let (here, there) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let gate = format!("cut {round}");
        from_a.send(PadMsg::Hold { gate: gate.clone() }).await.unwrap();
        for number in round * 50 + 1..=round * 50 + 50 {
            from_a.send(note(A, number)).await.unwrap();
            from_b.send(note(B, number)).await.unwrap();
        }
        let moved = migrating::<Durable>(here, "pad", there.id().as_str());
        leaving::<Durable>(here, "pad").await;
        lab.stage.open(&gate);
        assert_eq!(moved.await.unwrap().unwrap().error, None);
        lab.stage.seen("pad", What::Handled(B, round * 50 + 50)).await;
        // All hundred were unread at the cut: none was handled where the room was.
        let new = lab.stage.of("pad");
        let early = new.iter().filter(|s| {
            s.host == here.id().as_str()
                && matches!(s.what, What::Handled(_, number) if number > round * 50)
        });
        assert_eq!(early.count(), 0, "handled at the source in round {round}");
    }
    let shown = show(&from_b).await;
    assert_eq!(shown.of(A), notes(A, 1..=200));
    assert_eq!(shown.of(B), notes(B, 1..=200));
    assert_eq!(shown.notes.len(), 400);
    stop(&[&a, &b]).await;
}

/// A live room that moves from `a` to `b` and has read its log there for the last time before it opens to
/// the senders of `b`: it says that it has caught up.
struct Threshold {
    lab: Lab,
    a: RoomHost,
    b: RoomHost,
    from_b: RoomRef<Pad<Live>>,
    /// The question, or its answer, with which it says so.
    settle: Aimed,
    moved: JoinHandle<Result<MigrationReport, MigrationErr>>,
}

impl Threshold {
    /// With pushes that are lost: what the room does not read it hears of when heads are compared, every two
    /// seconds.
    async fn deaf() -> Self {
        let plan = FaultPlan { drop_push: 1_000, ..FaultPlan::calm() };
        Self::reach(plan, Fault::HoldAnswer).await
    }

    /// With heads that are never compared.
    async fn alone(drop_push: u16, held: Fault) -> Self {
        let only = [Operation::Owned].into();
        Self::reach(FaultPlan { drop_push, refuse: 1_000, only, ..FaultPlan::calm() }, held).await
    }

    async fn reach(plan: FaultPlan, held: Fault) -> Self {
        let lab = Lab::default();
        let a = lab.host("a").await;
        let b = lab.host_with("b", |c| c.session_ttl = Duration::from_secs(6)).await;
        lab.bring::<Live>("pad", &b, "a").await;
        lab.net.set_plan(plan);
        let settle = lab.next_of("b", Operation::Settle, held);
        let moved = migrating::<Live>(&a, "pad", "b");
        in_time("it has caught up", settle.hit()).await;
        let from_b = pad::<Live>(&b, "pad");
        Self { lab, a, b, from_b, settle, moved }
    }

    /// A message that comes now is handled once the room goes live. Not from a sender of `b`, whose gate would ask
    /// for it.
    async fn handles_what_comes_now(self) {
        pad::<Live>(&self.a, "pad").send(note(A, 1)).await.unwrap();
        self.settle.release();
        self.lab.stage.seen("pad", What::Handled(A, 1)).await;
        self.lab.lose_pushes(false);
        self.moved.await.unwrap().unwrap();
        assert_eq!(show(&self.from_b).await.notes, [(A, 1)]);
        stop(&[&self.a, &self.b]).await;
    }

    /// Sends one message after the other, from `first`, until the message `until` is handled, and holds
    /// the room's list against what was sent.
    async fn send_on_until_handled(self, first: u64, until: u64) {
        let Self { lab, a, b, from_b, moved, .. } = self;
        let mut last = first - 1;
        eventually("what the store had is handled", async || {
            last += 1;
            from_b.cast(note(B, last)).unwrap();
            !lab.stage.hosts_of("pad", What::Handled(B, until)).is_empty()
        })
        .await;
        lab.lose_pushes(false);
        moved.await.unwrap().unwrap();
        let shown = show(&from_b).await;
        assert_eq!(shown.host, "b");
        assert_eq!(shown.notes, notes(B, 1..=last));
        stop(&[&a, &b]).await;
    }
}

/// Given: a sender on the adopter's host sent m1 through the store, and its push is lost.
/// When: the room is there and m2 goes the short way. Then: m1 before m2.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_20_what_went_through_the_store_is_not_overtaken_through_the_mailbox() {
    let threshold = Threshold::deaf().await;
    for number in 1..=3 {
        threshold.from_b.send(note(B, number)).await.unwrap();
    }
    threshold.settle.release();
    threshold.send_on_until_handled(4, 3).await;
}

/// Given: a message was logged between the last page that the adopter read and its word that it has caught up, and
/// its push is lost. When: the room goes live. Then: it is handled; nothing else shows it before heads are compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_34_a_room_that_goes_live_reads_what_it_was_not_pushed() {
    let threshold = Threshold::alone(1_000, Fault::HoldRequest).await;
    threshold.handles_what_comes_now().await;
}

/// Given: a message was logged after the adopter said that it has caught up, and its push came before the answer.
/// When: the room goes live. Then: it is handled; it was pushed to a room that did not take any.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_34_a_room_that_goes_live_reads_what_it_was_pushed_before() {
    let threshold = Threshold::alone(0, Fault::HoldAnswer).await;
    threshold.handles_what_comes_now().await;
}

/// Given: a sender's append was accepted, its answer lost, and the repeat is answered `Duplicate`.
/// When: the room has just come to the sender's host. Then: the next message does not overtake it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_40_a_duplicate_is_not_overtaken_through_the_mailbox() {
    let threshold = Threshold::deaf().await;
    let lost = threshold.lab.next_of("b", Operation::Append, Fault::LoseAnswer);
    let again = threshold.lab.next_of("b", Operation::Append, Fault::HoldRequest);
    threshold.from_b.cast(note(B, 1)).unwrap();
    in_time("it is sent again", again.hit()).await;
    assert!(lost.is_hit());
    threshold.settle.release();
    let room = room_id::<Live>("pad");
    eventually("the room is there", async || threshold.b.rooms().await.unwrap().contains(&room))
        .await;
    for number in 2..=20 {
        threshold.from_b.cast(note(B, number)).unwrap();
    }
    assert_eq!(threshold.lab.stage.hosts_of("pad", What::Handled(B, 2)), [""; 0]);
    again.release();
    threshold.send_on_until_handled(21, 1).await;
}

/// Given: four threads send through one handle. When: the room is cut away from under them, six times.
/// Then: each sender's order holds, and nothing is handled by a source after its cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn h_21_four_threads_at_the_instant_of_the_cut() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    lab.bring::<Live>("pad", &a, "a").await;
    let room = pad::<Live>(&a, "pad");
    let mut sent = [0u64; 4];
    for round in 0..6 {
        let to = if round % 2 == 0 { "b" } else { "a" };
        let (start, over) = (Arc::new(Barrier::new(5)), Arc::new(AtomicBool::new(false)));
        let threads: Vec<_> = (0..4u32)
            .zip(sent)
            .map(|(from, last)| {
                let (room, start, over) = (room.clone(), start.clone(), over.clone());
                tokio::task::spawn_blocking(move || {
                    start.wait();
                    let mut number = last;
                    while !over.load(Ordering::Relaxed) && number < last + 5_000 {
                        number += 1;
                        room.cast(note(from, number)).unwrap();
                        std::thread::yield_now();
                    }
                    number
                })
            })
            .collect();
        tokio::task::spawn_blocking(move || start.wait()).await.unwrap();
        let report = migrate::<Live>(&a, "pad", to).await.unwrap();
        assert_eq!(report.error, None);
        over.store(true, Ordering::Relaxed);
        for (last, thread) in sent.iter_mut().zip(threads) {
            *last = in_time("a thread ends", thread).await.unwrap();
        }
    }
    let shown = show(&room).await;
    for (from, last) in (0..4).zip(sent) {
        assert_eq!(shown.of(from), notes(from, 1..=last), "sender {from}");
    }
    assert_eq!(shown.notes.len() as u64, sent.iter().sum::<u64>());
    assert_eq!(lab.stage.handled_after_a_cut("pad"), []);
    assert_eq!(lab.faults(), []);
    stop(&[&a, &b]).await;
}

/// Given: a producer's entry was pruned after long silence. When: a copy of its first message arrives.
/// Then: it is refused, not accepted twice.
#[tokio::test]
async fn h_25_a_late_copy_of_a_pruned_producer_is_refused() {
    let limits = RecordLimits { producers: 2, ..RecordLimits::default() };
    let now = Arc::new(std::sync::atomic::AtomicU64::new(1_000));
    let clock = Clock::manual({
        let now = now.clone();
        move || Duration::from_millis(now.load(Ordering::Relaxed))
    });
    let store = MemoryTransport::with(limits, clock);
    let room = room_id::<Durable>("pad");
    let to = host_id("a");
    let offer = Request::Offer { to, until: Millis(9_000), create: true };
    store.execute(&room, offer, Epoch(0)).await.unwrap();
    let life = store.inspect(|s| s.record(&room).unwrap().life);
    let first = |number| Request::Append {
        life: Some(life),
        producer: Producer::Host(Incarnation { host: host_id("b"), number }),
        epoch: 0,
        first: Number(1),
        batch: vec![Bytes::from_static(b"m")],
    };
    for producer in [1_001, 1_002, 1_003] {
        now.store(producer, Ordering::Relaxed);
        let answer = store.execute(&room, first(producer), Epoch(0)).await.unwrap();
        assert!(matches!(answer, Answer::Append(AppendAnswer::Accepted { .. })), "{answer:?}");
    }
    let seq = store.inspect(|s| s.record(&room).unwrap().seq);
    let answer = store.execute(&room, first(1_001), Epoch(0)).await.unwrap();
    assert!(matches!(answer, Answer::Append(AppendAnswer::Fenced { .. })), "{answer:?}");
    assert_eq!(store.inspect(|s| s.record(&room).unwrap().seq), seq);
}

/// Given: the last message of a burst was accepted and its push is lost. When: nothing more is sent.
/// Then: it is handled within a session's TTL by the owner, which lives.
async fn h_34_the_last_message_of_a_burst_is_handled_without_its_push<C: Class>() {
    let lab = Lab::default();
    let ttl = Duration::from_secs(6);
    let a = lab.host_with("a", |c| c.session_ttl = ttl).await;
    let b = lab.host("b").await;
    lab.bring::<C>("pad", &b, "a").await;
    let from_b = pad::<C>(&b, "pad");
    for number in 1..=9 {
        from_b.send(note(B, number)).await.unwrap();
    }
    lab.stage.seen("pad", What::Handled(B, 9)).await;
    let epoch = lab.record::<C>("pad").epoch;
    lab.lose_pushes(true);
    let clock = Clock::system();
    let start = clock.mark();
    from_b.send(note(B, 10)).await.unwrap();
    lab.stage.seen("pad", What::Handled(B, 10)).await;
    assert!(clock.elapsed_since(start) < ttl, "{:?}", clock.elapsed_since(start));
    lab.lose_pushes(false);
    assert_eq!(lab.record::<C>("pad").epoch, epoch, "another owner handled it");
    assert_eq!(show(&from_b).await.notes, notes(B, 1..=10));
    stop(&[&a, &b]).await;
}
