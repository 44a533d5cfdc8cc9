//! Holes in the way of a room from one host to another: starting, moving, parking, recovering.

use std::time::Duration;

use ractor::rpc::CallResult;
use ractor_rooms::clock::Clock;
use ractor_rooms::id::{Activation, Epoch, HostId};
use ractor_rooms::protocol::Record;
use ractor_rooms::protocol::placement::{evenly, place};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, DeclineReason, Phase, RecordLimits, Request, Seen,
};
use ractor_rooms::testing::{Fault, FaultPlan, Operation};
use ractor_rooms::transport::Transport;
use ractor_rooms::{HostConfig, MigrationErr, RoomErr, RoomFault};
use ractor_rooms_tests::holes::{
    Class, DOOMED, Durable, Lab, Live, Pad, PadMsg, Upgrade, What, eventually, host_id, in_time,
    key_placed, leaving, migrate, migrating, note, notes, pad, room_id, show, stop,
};

use super::both;

/// The sender.
const S: u32 = 1;

both! {
    h_10_a_room_whose_acquirer_gave_up_runs_within_a_ttl;
    h_11_a_room_goes_on_at_its_source_when_the_adopter_hangs_in_upgrade;
    h_11_a_room_goes_on_at_its_source_when_the_adopter_cannot_read_it;
    h_11_a_room_goes_on_elsewhere_when_its_first_heir_cannot_read_it;
    a_blocked_room_is_tried_on_another_host_than_the_one_that_failed;
    a_source_waits_for_an_adopter_that_takes_its_time;
    h_24_a_room_that_moved_gets_the_answer_to_its_call;
    h_24_a_room_that_moved_gets_the_timeout_of_its_call;
    h_27_the_notice_of_an_offer_is_lost;
    h_27_the_offered_host_dies_at_once;
    h_27_the_offered_host_of_a_new_room_is_dead;
    h_27_the_adopter_dies_with_the_lease;
    h_27_the_decline_is_lost;
    h_36_a_late_park_after_the_source_took_a_message;
    h_36_a_late_park_before_the_source_looks;
    h_45_a_lapsed_host_does_not_acquire;
    h_45_a_caller_whose_host_lost_its_session_is_told;
}

/// Given: an `acquire` times out at the caller and is applied. When: the caller gives up.
/// Then: the room runs somewhere within a session's TTL.
async fn h_10_a_room_whose_acquirer_gave_up_runs_within_a_ttl<C: Class>() {
    let lab = Lab::default();
    let ttl = Duration::from_secs(6);
    let a = lab
        .host_with("a", |c| {
            c.session_ttl = ttl;
            c.offer_timeout = Duration::from_millis(300);
        })
        .await;
    let claim = lab.next_of("a", Operation::Acquire, Fault::HoldAnswer);
    let room = pad::<C>(&a, "pad");
    room.send(note(S, 1)).await.unwrap();
    in_time("it is claimed", claim.hit()).await;
    let clock = Clock::system();
    let start = clock.mark();
    let taken = lab.record_when::<C>("pad", "the claim is applied", |r| r.owner.is_some()).await;
    lab.stage.seen("pad", What::Handled(S, 1)).await;
    assert!(clock.elapsed_since(start) < ttl, "{:?}", clock.elapsed_since(start));
    assert!(lab.record::<C>("pad").epoch > taken.epoch, "the claim was answered after all");
    claim.release();
    room.send(note(S, 2)).await.unwrap();
    assert_eq!(show(&room).await.notes, notes(S, 1..=2));
    stop(&[&a]).await;
}

/// A call that a pad keeps in its state, and what its caller gets in the end.
fn ask_and_wait<C: Class>(
    room: &ractor_rooms::RoomRef<Pad<C>>,
) -> tokio::task::JoinHandle<Result<CallResult<u64>, String>> {
    let room = room.clone();
    tokio::spawn(async move {
        let timeout = Some(ractor_rooms_tests::holes::PATIENCE);
        room.call(PadMsg::Keep, timeout).await.map_err(|error| error.to_string())
    })
}

/// Given: an adopter hangs in `upgrade`. When: its deadline passes. Then: the room goes on at the source
/// with everything, snapshot and cursor are as they were, and the adopter's copy comes to nothing.
async fn h_11_a_room_goes_on_at_its_source_when_the_adopter_hangs_in_upgrade<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let room = pad::<C>(&a, "pad");
    for number in 1..=3 {
        room.send(note(S, number)).await.unwrap();
    }
    let answer = ask_and_wait(&room);
    eventually("the call is kept", async || show(&room).await.kept == 1).await;
    let b = lab.newer("b", |c| c.restore_timeout = Duration::from_millis(500)).await;
    lab.stage.upgrade(Upgrade::Hang);
    let moved = migrating::<C>(&a, "pad", "b");
    eventually("the adopter reads", async || lab.stage.upgrades("b") > 0).await;
    let frozen = lab.record::<C>("pad");
    for number in 4..=5 {
        room.send(note(S, number)).await.unwrap();
    }
    match moved.await.unwrap().unwrap_err() {
        MigrationErr::NotAdopted { why: Some(DeclineReason::DeadlineMissed), .. } => {}
        other => panic!("expected NotAdopted, found {other:?}"),
    }
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes, shown.kept), ("a", notes(S, 1..=5), 1));
    let after = lab.record::<C>("pad");
    assert_eq!(after.snapshot, frozen.snapshot);
    assert!(frozen.snapshot.is_some());
    // It comes back from its hook at last.
    lab.stage.upgrade(Upgrade::Pass);
    room.send(PadMsg::Answer(7)).await.unwrap();
    let answer = in_time("the call is answered", answer).await.unwrap().unwrap();
    assert!(matches!(answer, CallResult::Success(7)), "{answer:?}");
    assert_eq!(b.rooms().await.unwrap(), []);
    let shown = show(&room).await;
    assert_eq!((&*shown.host, Epoch(shown.epoch)), ("a", after.epoch));
    stop(&[&a, &b]).await;
}

/// The same when the adopter reads the state and refuses it: what it read of unanswered calls is not
/// dropped as if they were over.
async fn h_11_a_room_goes_on_at_its_source_when_the_adopter_cannot_read_it<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let room = pad::<C>(&a, "pad");
    room.send(note(S, 1)).await.unwrap();
    let answer = ask_and_wait(&room);
    eventually("the call is kept", async || show(&room).await.kept == 1).await;
    let b = lab.newer("b", |_| {}).await;
    lab.stage.upgrade(Upgrade::Fail);
    match migrate::<C>(&a, "pad", "b").await.unwrap_err() {
        MigrationErr::NotAdopted { why: Some(DeclineReason::RestoreFailed { .. }), .. } => {}
        other => panic!("expected NotAdopted, found {other:?}"),
    }
    assert_eq!(lab.stage.upgrades("b"), 1);
    room.send(note(S, 2)).await.unwrap();
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes, shown.kept), ("a", notes(S, 1..=2), 1));
    room.send(PadMsg::Answer(7)).await.unwrap();
    let answer = in_time("the call is answered", answer).await.unwrap().unwrap();
    assert!(matches!(answer, CallResult::Success(7)), "{answer:?}");
    stop(&[&a, &b]).await;
}

/// The same when there is no source: another host takes it, with all that it had.
async fn h_11_a_room_goes_on_elsewhere_when_its_first_heir_cannot_read_it<C: Class>() {
    let lab = Lab::default();
    let key = key_placed::<C>("b", &["b", "c"]);
    let (a, c) = (lab.doomed("a").await, lab.host("c").await);
    lab.bring::<C>(&key, &c, "a").await;
    let room = pad::<C>(&c, &key);
    for number in 1..=5 {
        room.send(note(S, number)).await.unwrap();
    }
    let answer = ask_and_wait(&room);
    eventually("the call is kept", async || show(&room).await.kept == 1).await;
    let before = lab.record::<C>(&key).snapshot.map(|s| s.number);
    room.send(PadMsg::Save).await.unwrap();
    let saved = lab
        .record_when::<C>(&key, "it is saved", |r| r.snapshot.as_ref().map(|s| s.number) > before)
        .await;
    let b = lab.newer("b", |c| c.restore_timeout = Duration::from_millis(500)).await;
    lab.stage.upgrade(Upgrade::Hang);
    a.kill();
    eventually("the first heir reads", async || lab.stage.upgrades("b") > 0).await;
    room.send(note(S, 6)).await.unwrap(); // without work the room would rest
    assert_eq!(lab.record::<C>(&key).snapshot, saved.snapshot);
    lab.record_when::<C>(&key, "the other has it", |r| {
        r.settled && r.owner.as_ref().is_some_and(|o| o.by.host.as_str() == "c")
    })
    .await;
    lab.stage.upgrade(Upgrade::Fail);
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes, shown.kept), ("c", notes(S, 1..=6), 1));
    room.send(PadMsg::Answer(7)).await.unwrap();
    let answer = in_time("the call is answered", answer).await.unwrap().unwrap();
    assert!(matches!(answer, CallResult::Success(7)), "{answer:?}");
    stop(&[&b, &c]).await;
}

/// Given: the host that comes first cannot read a room, and fails so often that the room rests. When: it is tried
/// again. Then: by the host that can read it.
async fn a_blocked_room_is_tried_on_another_host_than_the_one_that_failed<C: Class>() {
    let limits = RecordLimits { failed_adoptions: 1, blocked_ms: 200, ..RecordLimits::default() };
    let lab = Lab::with(limits);
    // On `a` while there is one, whose host nothing is read from that it cannot read; then on `b`.
    let hosts = ["a", "b", "c"].map(host_id);
    let first = |key: &str, of: &[HostId]| place(&room_id::<C>(key), evenly(of)).cloned();
    let mut keys = (0..10_000).map(|i| format!("pad-{i}"));
    let mine = |key: &String| {
        first(key, &hosts).as_ref() == Some(&hosts[0])
            && first(key, &hosts[1..]).as_ref() == Some(&hosts[1])
    };
    let key = keys.find(mine).expect("a key that is placed there");
    lab.stage.upgrade(Upgrade::Fail);
    // `c` places it, and comes last: it knows of both others.
    let (a, b) = (lab.host("a").await, lab.newer("b", |_| {}).await);
    let c = lab.host("c").await;
    let room = pad::<C>(&c, &key);
    room.send(note(S, 1)).await.unwrap();
    assert_eq!(show(&room).await.host, "a");
    stop(&[&a]).await;
    room.send(note(S, 2)).await.unwrap();
    lab.record_when::<C>(&key, "the other has it", |r| {
        r.settled && r.owner.as_ref().is_some_and(|o| o.by.host.as_str() == "c")
    })
    .await;
    assert!(lab.stage.upgrades("b") > 0, "it was asked first");
    assert_eq!(show(&room).await.notes, notes(S, 1..=2));
    stop(&[&b, &c]).await;
}

/// Given: an adopter reads a log for longer than a source waits for one that hangs. When: it is done.
/// Then: the move is made, and nobody was told that it was given up.
async fn a_source_waits_for_an_adopter_that_takes_its_time<C: Class>() {
    let lab = Lab::default();
    let quick = |c: &mut HostConfig| {
        c.restore_timeout = Duration::from_secs(2); // twice and the offer's: 4.2 s
        c.offer_timeout = Duration::from_millis(200);
    };
    let (a, b) = (lab.host_with("a", quick).await, lab.host_with("b", quick).await);
    lab.bring::<C>("pad", &a, "a").await;
    let room = pad::<C>(&b, "pad");
    room.send(note(S, 1)).await.unwrap();
    show(&room).await;
    // What the source does not hear of is what the adopter reads.
    lab.go_unheard(&room).await;
    for _ in 0..60 {
        room.send(PadMsg::Linger { ms: 100 }).await.unwrap();
    }
    lab.lose_pushes(false);
    let report = migrate::<C>(&a, "pad", "b").await.expect("the room is moved");
    assert_eq!(report.to.as_str(), "b");
    assert_eq!(show(&room).await.host, "b");
    stop(&[&a, &b]).await;
}

/// Given: room X calls room Y. When: X moves before the answer, and its old host is stopped.
/// Then: X gets the answer.
async fn h_24_a_room_that_moved_gets_the_answer_to_its_call<C: Class>() {
    let lab = Lab::default();
    let (a, b, c) = (lab.host("a").await, lab.host("b").await, lab.host("c").await);
    lab.bring::<C>("x", &c, "a").await;
    lab.bring::<C>("y", &c, "c").await;
    let (x, y) = (pad::<C>(&c, "x"), pad::<C>(&c, "y"));
    x.send(PadMsg::Ask { of: "y".to_owned(), timeout_ms: 60_000 }).await.unwrap();
    eventually("the call is kept", async || show(&y).await.kept == 1).await;
    migrate::<C>(&a, "x", "b").await.unwrap();
    stop(&[&a]).await;
    assert_eq!(show(&x).await.answers, []);
    y.send(PadMsg::Answer(7)).await.unwrap();
    eventually("it is answered", async || !show(&x).await.answers.is_empty()).await;
    let shown = show(&x).await;
    assert_eq!((&*shown.host, shown.answers), ("b", vec![Ok(7)]));
    stop(&[&b, &c]).await;
}

/// The same without an answer: X gets its timeout, and an answer that comes later is nothing.
async fn h_24_a_room_that_moved_gets_the_timeout_of_its_call<C: Class>() {
    let lab = Lab::default();
    let (a, b, c) = (lab.host("a").await, lab.host("b").await, lab.host("c").await);
    lab.bring::<C>("x", &c, "a").await;
    lab.bring::<C>("y", &c, "c").await;
    let (x, y) = (pad::<C>(&c, "x"), pad::<C>(&c, "y"));
    x.send(PadMsg::Ask { of: "y".to_owned(), timeout_ms: 1_500 }).await.unwrap();
    eventually("the call is kept", async || show(&y).await.kept == 1).await;
    migrate::<C>(&a, "x", "b").await.unwrap();
    stop(&[&a]).await;
    eventually("it has timed out", async || !show(&x).await.answers.is_empty()).await;
    y.send(PadMsg::Answer(7)).await.unwrap();
    assert_eq!(show(&y).await.kept, 0);
    // The late answer is in X's log by the time that a second call is answered.
    x.send(PadMsg::Ask { of: "y".to_owned(), timeout_ms: 60_000 }).await.unwrap();
    eventually("the second call is kept", async || show(&y).await.kept == 1).await;
    y.send(PadMsg::Answer(8)).await.unwrap();
    eventually("it is answered", async || show(&x).await.answers.len() > 1).await;
    let late = Err("the call was not answered in time".to_owned());
    assert_eq!(show(&x).await.answers, [late, Ok(8)]);
    stop(&[&b, &c]).await;
}

/// Given: the notices of an offer and of an adoption are lost. Then: the room starts and moves all the
/// same, long before the offer's deadline.
async fn h_27_the_notice_of_an_offer_is_lost<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    let clock = Clock::system();
    lab.lose_pushes(true);
    let room = pad::<C>(&a, "pad");
    let start = clock.mark();
    room.send(note(S, 1)).await.unwrap();
    lab.stage.seen("pad", What::Handled(S, 1)).await;
    let owner = lab.owner::<C>("pad").unwrap();
    let to = if owner == "a" { "b" } else { "a" };
    // The request itself is a letter, so it is given to the owner.
    let via = if owner == "a" { &a } else { &b };
    let here = room_id::<C>("pad");
    eventually("it is live", async || via.rooms().await.unwrap().contains(&here)).await;
    let report = migrate::<C>(via, "pad", to).await.unwrap();
    assert_eq!((report.error, report.to.as_str()), (None, to));
    let offered = Duration::from_secs(20);
    assert!(clock.elapsed_since(start) < offered, "{:?}", clock.elapsed_since(start));
    lab.lose_pushes(false);
    assert_eq!(show(&room).await.notes, [(S, 1)]);
    stop(&[&a, &b]).await;
}

/// Given: a room is offered. When: the offered host dies at once. Then: the room runs again once the
/// offer is over, and what was sent meanwhile is handled.
async fn h_27_the_offered_host_dies_at_once<C: Class>() {
    let lab = Lab::default();
    let a = lab.host_with("a", |c| c.offer_timeout = Duration::from_secs(3)).await;
    let b = lab.doomed("b").await;
    lab.bring::<C>("pad", &a, "a").await;
    let room = pad::<C>(&a, "pad");
    room.send(note(S, 1)).await.unwrap();
    let claim = lab.next_of("b", Operation::Acquire, Fault::HoldRequest);
    let moved = migrating::<C>(&a, "pad", "b");
    in_time("it is claimed", claim.hit()).await;
    b.kill();
    room.send(note(S, 2)).await.unwrap();
    let reader = {
        let room = room.clone();
        tokio::spawn(async move { show(&room).await })
    };
    match moved.await.unwrap().unwrap_err() {
        MigrationErr::NotAdopted { why: None, .. } => {}
        other => panic!("expected NotAdopted, found {other:?}"),
    }
    let shown = reader.await.unwrap();
    assert_eq!((&*shown.host, shown.notes), ("a", notes(S, 1..=2)));
    stop(&[&a]).await;
}

/// The same when the room has no source: it is new, and placed on a host that is dead and not lapsed.
async fn h_27_the_offered_host_of_a_new_room_is_dead<C: Class>() {
    let lab = Lab::default();
    let key = key_placed::<C>("b", &["a", "b"]);
    let (a, b) = (lab.host("a").await, lab.doomed("b").await);
    b.kill();
    let room = pad::<C>(&a, &key);
    room.send(note(S, 1)).await.unwrap();
    let offered = lab.record::<C>(&key);
    let to_b = |phase| matches!(phase, Phase::Offered { to, .. } if to.as_str() == "b");
    assert!(to_b(offered.phase.clone()), "{:?}", offered.phase);
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes), ("a", vec![(S, 1)]));
    stop(&[&a]).await;
}

/// Given: the adopter of a move has the lease. When: it dies before it has settled. Then: the room runs
/// again soon after its session has ended, with everything, wherever placement would have it.
async fn h_27_the_adopter_dies_with_the_lease<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.doomed("b").await);
    lab.bring::<C>("pad", &a, "a").await;
    let room = pad::<C>(&a, "pad");
    room.send(note(S, 1)).await.unwrap();
    let bytes = lab.next_of("b", Operation::GetSnapshot, Fault::HoldRequest);
    let moved = migrating::<C>(&a, "pad", "b");
    in_time("the adopter restores", bytes.hit()).await;
    // The bytes are asked for while the room is acquired.
    let has_it = |r: &Record| r.owner.as_ref().is_some_and(|o| o.by.host.as_str() == "b");
    lab.record_when::<C>("pad", "the adopter has the lease", has_it).await;
    b.kill();
    let clock = Clock::system();
    let start = clock.mark();
    room.send(note(S, 2)).await.unwrap();
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes), ("a", notes(S, 1..=2)));
    // Not as late as a host that lives and does not finish would be given up.
    let relay = Duration::from_secs(20);
    assert!(clock.elapsed_since(start) < relay, "{:?}", clock.elapsed_since(start));
    assert!(moved.await.unwrap().is_err());
    stop(&[&a]).await;
}

/// Given: the offered host declines. When: its decline is lost, however often it is repeated.
/// Then: the room runs again once the offer is over.
async fn h_27_the_decline_is_lost<C: Class>() {
    let lab = Lab::default();
    let a = lab.host_with("a", |c| c.offer_timeout = Duration::from_secs(3)).await;
    lab.bring::<C>("pad", &a, "a").await;
    let b = lab.host_with("b", |c| c.capacity = 0).await;
    let only = [Operation::Decline].into();
    lab.net.set_plan(FaultPlan { lose_request: 1_000, only, ..FaultPlan::calm() });
    let room = pad::<C>(&a, "pad");
    let moved = migrating::<C>(&a, "pad", "b");
    leaving::<C>(&a, "pad").await;
    room.send(note(S, 1)).await.unwrap();
    match moved.await.unwrap().unwrap_err() {
        MigrationErr::NotAdopted { why: None, .. } => {}
        other => panic!("expected NotAdopted, found {other:?}"),
    }
    assert!(lab.net.events().iter().any(|e| e.what.contains("Decline")), "nobody declined");
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes), ("a", vec![(S, 1)]));
    stop(&[&a, &b]).await;
}

/// Given: an idle `park` is not answered. When: the room takes a message, and then the late `park`
/// executes. Then: the message is handled, and the source never went live at the old epoch.
async fn h_36_a_late_park_after_the_source_took_a_message<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let room = pad::<C>(&a, "pad");
    for number in 1..=3 {
        room.send(note(S, number)).await.unwrap();
    }
    lab.bring::<C>("pad", &a, "a").await;
    let old = lab.record::<C>("pad").epoch;
    let park = lab.next_of("a", Operation::Park, Fault::Delay { calls: u32::MAX });
    assert!(a.unload::<Pad<C>>("pad").await.unwrap());
    in_time("it is parked", park.hit()).await;
    room.send(note(S, 4)).await.unwrap();
    lab.stage.seen("pad", What::Handled(S, 4)).await;
    assert_eq!(lab.net.delayed(), 1);
    let before = lab.record::<C>("pad");
    lab.net.flush().await;
    let after = lab.record::<C>("pad");
    assert_eq!((after.epoch, &after.owner), (before.epoch, &before.owner), "it was taken away");
    assert!(after.epoch > old);
    assert_eq!(show(&room).await.notes, notes(S, 1..=4));
    assert_eq!(lab.stage.handled_after_a_cut("pad"), []);
    stop(&[&a]).await;
}

/// The same when the late `park` executes while the source does not know yet what became of it.
async fn h_36_a_late_park_before_the_source_looks<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let room = pad::<C>(&a, "pad");
    for number in 1..=3 {
        room.send(note(S, number)).await.unwrap();
    }
    lab.bring::<C>("pad", &a, "a").await;
    let park = lab.next_of("a", Operation::Park, Fault::Delay { calls: u32::MAX });
    let look = lab.next_of("a", Operation::Read, Fault::HoldRequest);
    assert!(a.unload::<Pad<C>>("pad").await.unwrap());
    in_time("it is parked", park.hit()).await;
    in_time("it looks", look.hit()).await;
    room.send(note(S, 4)).await.unwrap();
    assert_eq!(lab.stage.hosts_of("pad", What::Handled(S, 4)), [""; 0]);
    lab.net.flush().await;
    assert_eq!(lab.record::<C>("pad").owner, None);
    look.release();
    lab.stage.seen("pad", What::Handled(S, 4)).await;
    assert_eq!(show(&room).await.notes, notes(S, 1..=4));
    assert_eq!(lab.stage.handled_after_a_cut("pad"), []);
    stop(&[&a]).await;
}

/// Given: an adopter replays and the log has backlog. When: it hits its restore deadline.
/// Then: it can give the room back, as it was, and another host takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_37_an_adopter_that_is_late_gives_the_backlog_back() {
    let lab = Lab::default();
    let key = key_placed::<Durable>("b", &["b", "c"]);
    let a = lab.doomed("a").await;
    let b = lab.host_with("b", |c| c.restore_timeout = Duration::from_secs(2)).await;
    let c = lab.host("c").await;
    lab.bring::<Durable>(&key, &c, "a").await;
    let room = pad::<Durable>(&c, &key);
    for number in 1..=50 {
        room.send(note(S, number)).await.unwrap();
    }
    lab.stage.seen(&key, What::Handled(S, 50)).await;
    let before = lab.record::<Durable>(&key);
    lab.stage.stick("b", 25);
    a.kill();
    lab.stage.seen(&key, What::Stuck(25)).await;
    lab.record_when::<Durable>(&key, "it is given back", |r| {
        r.owner.as_ref().is_none_or(|o| o.by.host.as_str() == "c")
    })
    .await;
    lab.record_when::<Durable>(&key, "another has it", |r| {
        r.settled && r.owner.as_ref().is_some_and(|o| o.by.host.as_str() == "c")
    })
    .await;
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes), ("c", notes(S, 1..=50)));
    // All of it came out of the log again, from the same snapshot.
    assert_eq!(lab.stage.hosts_of(&key, What::Handled(S, 1)), ["a", "b", "c"]);
    let after = lab.record::<Durable>(&key);
    assert!(after.last >= before.last);
    let missed = |fault: &RoomFault| matches!(fault, RoomFault::StartFailed { .. });
    assert!(lab.faults().iter().any(missed), "{:?}", lab.faults());
    stop(&[&b, &c]).await;
}

/// Given: a live room with two unread local messages and an empty log. When: it parks for idleness.
/// Then: it wakes and handles them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_38_a_room_that_parks_with_unread_messages_wakes() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    lab.bring::<Live>("pad", &a, "a").await;
    let room = pad::<Live>(&a, "pad");
    let old = unread_at_a_cut(&lab, &a, &room).await;
    assert!(a.unload::<Pad<Live>>("pad").await.unwrap());
    leaving::<Live>(&a, "pad").await;
    lab.stage.open("idle");
    lab.stage.seen("pad", What::Handled(S, 2)).await;
    let record = lab.record::<Live>("pad");
    assert!(record.epoch > old);
    assert_eq!(record.log, []);
    assert_eq!(show(&room).await.notes, notes(S, 1..=2));
    assert_eq!(lab.stage.handled_after_a_cut("pad"), []);
    stop(&[&a]).await;
}

/// Sends two messages the short way, behind a handler that waits for the gate `idle`.
async fn unread_at_a_cut(
    lab: &Lab,
    a: &ractor_rooms::RoomHost,
    room: &ractor_rooms::RoomRef<Pad<Live>>,
) -> Epoch {
    let record = lab.record_when::<Live>("pad", "all is taken", |r| r.log.is_empty()).await;
    // The gate is open once a message leaves no trace in the log.
    let seq = record.seq;
    room.send(PadMsg::Hold { gate: "idle".to_owned() }).await.unwrap();
    for number in 1..=2 {
        room.send(note(S, number)).await.unwrap();
    }
    lab.stage.seen("pad", What::Holding).await;
    let record = lab.record::<Live>("pad");
    assert_eq!((record.seq, &record.log), (seq, &[].into()), "they went through the store");
    assert_eq!(record.owner.unwrap().by.host, *a.id());
    record.epoch
}

/// The same when the next owner dies with the unread messages inside the snapshot, unhandled.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_38_unread_messages_outlive_the_owner_that_never_handled_them() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    lab.bring::<Live>("pad", &a, "a").await;
    let room = pad::<Live>(&a, "pad");
    unread_at_a_cut(&lab, &a, &room).await;
    let b = lab.doomed("b").await;
    lab.stage.stick("b", 1);
    let moved = migrating::<Live>(&a, "pad", "b");
    leaving::<Live>(&a, "pad").await;
    lab.stage.open("idle");
    lab.stage.seen("pad", What::Stuck(1)).await;
    let record = lab.record::<Live>("pad");
    assert_eq!((record.snapshot.unwrap().unread, record.log), (2, [].into()));
    b.kill();
    lab.stage.seen("pad", What::Handled(S, 2)).await;
    assert_eq!(show(&room).await.notes, notes(S, 1..=2));
    assert!(moved.await.unwrap().is_err());
    stop(&[&a]).await;
}

/// Given: an adopter of a live room has read more of the log than it takes to acknowledge it.
/// When: it gives up. Then: nothing that it read is missing afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_39_what_an_adopter_read_before_it_gave_up_is_still_there() {
    let lab = Lab::default();
    let key = key_placed::<Live>("b", &["b", "c"]);
    let a = lab.doomed("a").await;
    let b = lab.host_with("b", |c| c.restore_timeout = Duration::from_secs(3)).await;
    let c = lab.host("c").await;
    lab.bring::<Live>(&key, &c, "a").await;
    let room = pad::<Live>(&c, &key);
    lab.record_when::<Live>(&key, "all is taken", |r| r.log.is_empty()).await;
    lab.stage.stick("a", 1);
    for number in 1..=100 {
        room.send(note(S, number)).await.unwrap();
    }
    lab.stage.stick("b", 90);
    let before = lab.record::<Live>(&key);
    let logged = |record: &Record| record.log.iter().map(|e| e.batch.len()).sum::<usize>();
    assert_eq!(logged(&before), 100);
    a.kill();
    lab.stage.seen(&key, What::Stuck(90)).await;
    // Until it is given back: an acknowledgement that is on its way would come in this time.
    eventually("it is given back", async || {
        let record = lab.record::<Live>(&key);
        let at_b = record.owner.is_some_and(|o| o.by.host.as_str() == "b");
        assert!(!at_b || logged(&lab.record::<Live>(&key)) == 100, "the adopter acknowledged");
        !at_b
    })
    .await;
    lab.record_when::<Live>(&key, "another has it", |r| {
        r.settled && r.owner.as_ref().is_some_and(|o| o.by.host.as_str() == "c")
    })
    .await;
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes), ("c", notes(S, 1..=100)));
    stop(&[&b, &c]).await;
}

/// Given: a host's session lapsed, and it can reach the store. When: it looks after its rooms, and one of
/// its claims is under way. Then: it acquires nothing until it has a session, and epochs do not run away.
async fn h_45_a_lapsed_host_does_not_acquire<C: Class>() {
    let lab = Lab::default();
    let a = lab.host_with("a", |c| c.session_ttl = DOOMED).await;
    let b = lab.host_with("b", |c| c.capacity = 0).await;
    let room = pad::<C>(&b, "pad");
    room.send(note(S, 1)).await.unwrap();
    room.send(PadMsg::Save).await.unwrap();
    lab.record_when::<C>("pad", "it is saved", |r| {
        r.snapshot.as_ref().is_some_and(|s| s.number.0 > 1)
    })
    .await;
    let old = lab.record::<C>("pad");
    let lease = old.lease().unwrap();

    let only = [Operation::RenewSession].into();
    lab.net.set_plan(FaultPlan { refuse: 1_000, only, ..FaultPlan::calm() });
    let reopening = lab.next_of("a", Operation::OpenSession, Fault::HoldRequest);
    in_time("the session lapses", reopening.hit()).await;
    let dead = |sessions: Vec<ractor_rooms::protocol::session::SessionInfo>| {
        !sessions.iter().any(|s| s.incarnation == lease.owner.by)
    };
    eventually("the store knows", async || dead(lab.store.inspect(|s| s.sessions()))).await;
    lab.net.set_plan(FaultPlan::calm());
    // Work for the room, and senders that ask for a host again and again.
    for number in 2..=20 {
        room.send(note(S, number)).await.unwrap();
    }
    // A claim of the old incarnation, as it may still be under way.
    let seen = Seen { epoch: old.epoch, owner: old.owner.clone() };
    let activation = Activation { by: lease.owner.by.clone(), number: u64::MAX };
    let claim = Request::Acquire { activation, seen };
    let answer = lab.store.execute(&room_id::<C>("pad"), claim, Epoch(0)).await.unwrap();
    assert_eq!(answer, Answer::Acquire(AcquireAnswer::NoSession));
    assert_eq!(lab.record::<C>("pad").epoch, old.epoch);
    assert_eq!(lab.stage.hosts_of("pad", What::Handled(S, 2)), [""; 0]);

    reopening.release();
    lab.stage.seen("pad", What::Handled(S, 20)).await;
    assert_eq!(show(&room).await.notes, notes(S, 1..=20));
    assert_eq!(lab.stage.hosts_of("pad", What::Thawed), ["a"], "acquired more than once");
    let lapsed = |fault: &&RoomFault| matches!(fault, RoomFault::SessionLapsed { .. });
    assert_eq!(lab.faults().iter().filter(lapsed).count(), 1);
    stop(&[&a, &b]).await;
}

/// The same for a caller on the lapsed host: answers go to the incarnation that asked, which is no more.
async fn h_45_a_caller_whose_host_lost_its_session_is_told<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let b = lab
        .host_with("b", |c| {
            c.capacity = 0;
            c.session_ttl = DOOMED;
        })
        .await;
    lab.bring::<C>("pad", &b, "a").await;
    let call = ask_and_wait(&pad::<C>(&b, "pad"));
    let beside = pad::<C>(&a, "pad");
    eventually("the call is kept", async || show(&beside).await.kept == 1).await;

    let only = [Operation::RenewSession].into();
    lab.net.set_plan(FaultPlan { refuse: 1_000, only, ..FaultPlan::calm() });
    let lapsed = |fault: &RoomFault| matches!(fault, RoomFault::SessionLapsed { .. });
    eventually("the session lapses", async || lab.faults().iter().any(lapsed)).await;
    lab.net.set_plan(FaultPlan::calm());
    let told = in_time("the caller is told", call).await.unwrap();
    assert_eq!(told, Err(RoomErr::<PadMsg>::OutcomeUnknown.to_string()));
    beside.send(PadMsg::Answer(7)).await.unwrap();
    assert_eq!(show(&pad::<C>(&b, "pad")).await.kept, 0);
    stop(&[&a, &b]).await;
}
