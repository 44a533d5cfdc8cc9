//! Holes in what a room keeps, publishes and leaves behind.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use ractor::rpc::CallResult;
use ractor_rooms::id::{Epoch, Millis, OutSeq, Seq, SnapshotNumber};
use ractor_rooms::protocol::record::{
    Answer, OwnerAnswer, Phase, Record, RecordLimits, Request, SnapshotKey,
};
use ractor_rooms::testing::{Fault, Operation};
use ractor_rooms::transport::Transport;
use ractor_rooms::{CloseErr, EventStream, RoomErr, RoomEvent, RoomFault, RoomRef};
use ractor_rooms_tests::holes::{
    Class, Durable, Lab, Live, Pad, PadMsg, What, eventually, host_id, in_time, leaving, migrating,
    note, notes, pad, room_id, show, stop,
};

use super::both;

/// The sender.
const S: u32 = 1;

async fn next<C: Class>(member: &mut EventStream<Pad<C>>) -> RoomEvent<u64> {
    in_time("an event", member.next()).await.expect("the stream goes on")
}

/// The next events of a member, which must be these: number and value.
async fn expect<C: Class>(
    member: &mut EventStream<Pad<C>>,
    events: impl IntoIterator<Item = (u64, u64)>,
) {
    for (number, event) in events {
        let expected = RoomEvent::Event { number: OutSeq(number), event };
        assert_eq!(next(member).await, expected);
    }
}

/// Given: a live room checkpoints at event 10 and emits to 25. When: its host dies.
/// Then: members see the numbers go on, none as a repeat, and are told of the roll-back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_05_event_numbers_go_on_after_a_roll_back() {
    let lab = Lab::default();
    let (a, b) = (lab.doomed("a").await, lab.host("b").await);
    lab.bring::<Live>("pad", &b, "a").await;
    let room = pad::<Live>(&b, "pad");
    let mut member = room.events().await.unwrap();
    room.send(PadMsg::Emit(10)).await.unwrap();
    expect(&mut member, (1..=10).map(|n| (n, n))).await;
    let before = lab.record::<Live>("pad").snapshot.map(|s| s.number);
    room.send(PadMsg::Save).await.unwrap();
    lab.record_when::<Live>("pad", "it is saved", |r| {
        r.snapshot.as_ref().map(|s| s.number) > before
    })
    .await;
    room.send(PadMsg::Emit(15)).await.unwrap();
    expect(&mut member, (11..=25).map(|n| (n, n))).await;
    lab.record_when::<Live>("pad", "all is taken", |r| r.log.is_empty()).await;
    a.kill();
    // The notice has the number 26; the room's own count is back at 10.
    let event = next(&mut member).await;
    assert!(matches!(event, RoomEvent::RolledBack { .. }), "{event:?}");
    room.send(PadMsg::Emit(5)).await.unwrap();
    expect(&mut member, (27..=31).zip(11..=15)).await;
    assert_eq!(lab.record::<Live>("pad").out_seq, OutSeq(31));
    assert_eq!(show(&room).await.host, "b");
    stop(&[&b]).await;
}

both! {
    h_06_a_failed_attempt_publishes_nothing;
    h_17_what_was_sent_into_an_old_life_is_refused;
    h_17_a_late_first_message_does_not_enter_a_new_life;
    h_17_a_sender_beside_the_room_goes_on_in_its_new_life;
    h_17_a_member_that_missed_the_end_sees_the_new_life_from_its_start;
    h_28_a_checkpoint_that_is_asked_for_in_a_replay_is_made;
    h_29_a_close_that_is_not_forced_waits_for_nobody_and_loses_nothing;
    h_29_a_forced_close_answers_each_caller;
    h_29_a_forced_close_that_fails_has_told_nobody;
    h_29_a_room_that_ends_itself_handles_what_was_acknowledged;
    h_35_a_late_checkpoint_does_not_turn_the_room_back;
}

/// Given: a message emits two events and fails. When: it has failed three times and is given up.
/// Then: no event of a failed attempt was seen, and later ones keep contiguous numbers.
async fn h_06_a_failed_attempt_publishes_nothing<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    lab.bring::<C>("pad", &b, "a").await;
    let room = pad::<C>(&b, "pad");
    let mut member = room.events().await.unwrap();
    room.send(PadMsg::Emit(2)).await.unwrap();
    expect(&mut member, [(1, 1), (2, 2)]).await;
    let before = lab.record::<C>("pad").snapshot.map(|s| s.number);
    room.send(PadMsg::Save).await.unwrap();
    lab.record_when::<C>("pad", "it is saved", |r| r.snapshot.as_ref().map(|s| s.number) > before)
        .await;
    room.send(PadMsg::Poison { from: S, number: 1 }).await.unwrap();
    room.send(PadMsg::Emit(2)).await.unwrap();
    let mut number = 3;
    for event in [3, 4] {
        // A live room that goes back to its checkpoint says so, under a number of its own.
        let mut seen = next(&mut member).await;
        while C::KIND == Live::KIND && matches!(seen, RoomEvent::RolledBack { .. }) {
            number += 1;
            seen = next(&mut member).await;
        }
        assert_eq!(seen, RoomEvent::Event { number: OutSeq(number), event });
        number += 1;
    }
    assert_eq!(lab.record::<C>("pad").out_seq, OutSeq(number - 1));
    let letters = a.dead_letters::<Pad<C>>("pad").await.unwrap();
    assert_eq!(
        letters.iter().map(|l| (l.attempts, &*l.error)).collect::<Vec<_>>(),
        [(3, "poison")]
    );
    assert_eq!(lab.stage.hosts_of("pad", What::Handled(S, 1)), ["a"; 3]);
    assert_eq!(show(&room).await.notes, []);
    stop(&[&a, &b]).await;
}

/// A room is born again by an offer, as anybody may make one.
async fn born_again<C: Class>(lab: &Lab, on: &str) -> Record {
    let until = Millis(Millis(lab.store.inspect(|s| s.now().0)).0 + 20_000);
    let offer = Request::Offer { to: host_id(on), until, create: true };
    lab.store.execute(&room_id::<C>("pad"), offer, Epoch(0)).await.unwrap();
    lab.record_when::<C>("pad", "the new life has begun", |r| r.settled).await
}

async fn close<C: Class>(lab: &Lab, a: &ractor_rooms::RoomHost) {
    lab.record_when::<C>("pad", "all is taken or handled", |r| r.settled).await;
    eventually("it is closed", async || a.close::<Pad<C>>("pad", "over", false).await.is_ok())
        .await;
    assert!(matches!(lab.record::<C>("pad").phase, Phase::Closed { .. }));
}

/// Given: a room is closed and created again under its key. When: a producer of the old life sends again.
/// Then: that is refused as another life, and a member sees event 1 of the new one.
async fn h_17_what_was_sent_into_an_old_life_is_refused<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host_with("b", |c| c.capacity = 0).await);
    lab.bring::<C>("pad", &b, "a").await;
    let room = pad::<C>(&b, "pad");
    let mut member = room.events().await.unwrap();
    room.send(PadMsg::Emit(50)).await.unwrap();
    expect(&mut member, (1..=50).map(|n| (n, n))).await;
    let old = lab.record::<C>("pad").life;

    let held = lab.next_of("b", Operation::Append, Fault::HoldRequest);
    let sent = {
        let room = room.clone();
        tokio::spawn(async move { room.send(note(S, 1)).await })
    };
    in_time("it is under way", held.hit()).await;
    close::<C>(&lab, &a).await;
    let new = born_again::<C>(&lab, "a").await;
    assert!(new.life > old);
    held.release();
    match in_time("it is refused", sent).await.unwrap() {
        Err(RoomErr::OtherLife { message: PadMsg::Note { from: S, number: 1 } }) => {}
        other => panic!("expected OtherLife, found {other:?}"),
    }
    room.send(note(S, 2)).await.unwrap();
    room.send(PadMsg::Emit(2)).await.unwrap();
    assert_eq!(next(&mut member).await, RoomEvent::Closed { reason: "over".to_owned() });
    expect(&mut member, [(1, 1), (2, 2)]).await;
    let shown = show(&room).await;
    assert_eq!((shown.life, shown.notes), (new.life.0, vec![(S, 2)]));
    stop(&[&a, &b]).await;
}

/// The same for the very first message of a producer, of which a copy is still under way.
async fn h_17_a_late_first_message_does_not_enter_a_new_life<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host_with("b", |c| c.capacity = 0).await);
    lab.bring::<C>("pad", &a, "a").await;
    let room = pad::<C>(&b, "pad");
    let greeting = lab.next_of("b", Operation::Append, Fault::Repeat);
    let late = lab.next_of("b", Operation::Append, Fault::Delay { calls: u32::MAX });
    room.send(note(S, 1)).await.unwrap();
    assert!(greeting.is_hit() && late.is_hit());
    lab.stage.seen("pad", What::Handled(S, 1)).await;
    close::<C>(&lab, &a).await;
    let new = born_again::<C>(&lab, "a").await;
    assert_eq!(lab.net.delayed(), 1);
    lab.net.flush().await;
    assert_eq!(lab.record::<C>("pad").seq, new.seq, "a message of the old life was taken");
    // The sender finds the new life and loses nothing of what it sends there.
    let first = room.send(note(S, 2)).await;
    assert!(matches!(first, Ok(()) | Err(RoomErr::OtherLife { .. })), "{first:?}");
    room.send(note(S, 3)).await.unwrap();
    let shown = show(&room).await;
    let expected = if first.is_ok() { notes(S, 2..=3) } else { notes(S, 3..=3) };
    assert_eq!((shown.life, shown.notes), (new.life.0, expected));
    stop(&[&a, &b]).await;
}

/// The same for a sender on the room's own host, whose first message went through the store: `seq` begins
/// anew, and its gate must not wait for a number of the old life.
async fn h_17_a_sender_beside_the_room_goes_on_in_its_new_life<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let room = pad::<C>(&a, "pad");
    room.send(note(S, 1)).await.unwrap();
    assert!(lab.record::<C>("pad").seq > Seq(0));
    lab.stage.seen("pad", What::Handled(S, 1)).await;
    close::<C>(&lab, &a).await;
    let new = born_again::<C>(&lab, "a").await;
    in_time("the first is answered", room.send(note(S, 2))).await.ok(); // it may only learn of the new life
    in_time("the second is answered", room.send(note(S, 3))).await.unwrap();
    let shown = show(&room).await;
    assert_eq!((shown.life, shown.notes.last()), (new.life.0, notes(S, 3..=3).last()));
    stop(&[&a]).await;
}

/// The same for a member at event 50, when every push of the end and of the new life is lost, and for one
/// that subscribes again.
async fn h_17_a_member_that_missed_the_end_sees_the_new_life_from_its_start<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let b = lab
        .host_with("b", |c| {
            c.capacity = 0;
            c.session_ttl = Duration::from_secs(3); // it looks every second for what it missed
        })
        .await;
    lab.bring::<C>("pad", &b, "a").await;
    let (from_a, room) = (pad::<C>(&a, "pad"), pad::<C>(&b, "pad"));
    let mut member = in_time("the events are there", room.events()).await.unwrap();
    in_time("fifty are sent", from_a.send(PadMsg::Emit(50))).await.unwrap();
    expect(&mut member, (1..=50).map(|n| (n, n))).await;

    let (hearing, pushes) = lab.deafen("b").await;
    close::<C>(&lab, &a).await;
    born_again::<C>(&lab, "a").await;
    let mut again = in_time("events again", room.events()).await.unwrap();
    in_time("first send", from_a.send(PadMsg::Emit(3))).await.ok(); // the first send may only learn of the new life
    in_time("second send", from_a.send(PadMsg::Emit(3))).await.unwrap();
    assert_eq!(next(&mut member).await, RoomEvent::BornAgain);
    expect(&mut member, (1..=3).map(|n| (n, n))).await;
    expect(&mut again, (1..=3).map(|n| (n, n))).await;
    drop(pushes);
    hearing.release();
    stop(&[&a, &b]).await;
}

/// Given: a durable room with a ticking timer uses its clock and its dice and sends what comes of them;
/// ticks fall between messages. When: its host dies and it is replayed. Then: the state is the one that
/// its outputs tell of, and no output differs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_22_a_replay_with_ticks_comes_to_the_same_state_and_outputs() {
    let lab = Lab::default();
    let (a, b) = (lab.doomed("a").await, lab.host("b").await);
    lab.bring::<Durable>("dice", &b, "a").await;
    lab.bring::<Durable>("control", &b, "b").await;
    let (dice, control) = (pad::<Durable>(&b, "dice"), pad::<Durable>(&b, "control"));
    let to = "control".to_owned();
    dice.send(PadMsg::Every { ms: 20, roll_to: Some(to.clone()) }).await.unwrap();
    let rolled = async |count: usize| {
        eventually("the control has enough", async || show(&control).await.rolled.len() >= count)
            .await;
    };
    for i in 1..=10 {
        dice.send(PadMsg::Roll { to: to.clone() }).await.unwrap();
        rolled(i * 2).await;
    }
    let first_run = show(&control).await.rolled;
    a.kill();
    rolled(first_run.len() + 10).await;
    dice.send(PadMsg::Roll { to }).await.unwrap();
    dice.send(PadMsg::Rest).await.unwrap();
    let state = show(&dice).await;
    assert_eq!(state.host, "b");
    rolled(state.rolls.len()).await;
    let outputs = show(&control).await.rolled;
    assert_eq!(state.rolls, outputs);
    assert_eq!(outputs[..first_run.len()], first_run);
    // The replay really ran, and each roll of it was one of the first run's.
    let on = |host: &str| -> Vec<_> {
        let sights = lab.stage.of("dice").into_iter().filter(|s| s.host == host);
        sights.filter(|s| matches!(s.what, What::Rolled(..))).map(|s| s.what).collect()
    };
    let (before, after) = (on("a"), on("b"));
    assert_eq!(after[..before.len()], before);
    let distinct: BTreeSet<u64> = outputs.iter().map(|(_, dice)| *dice).collect();
    assert_eq!(distinct.len(), outputs.len(), "the dice do not roll");
    stop(&[&b]).await;
}

/// Given: the handler is slow, the log is full and only the room's own ticks would let it checkpoint.
/// Then: senders get a typed refusal with the message, ticks get in, the room checkpoints, and everything
/// that was acknowledged is handled, once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_28_a_full_log_refuses_senders_and_lets_the_room_checkpoint() {
    let limits = RecordLimits { log_entries: 256, ..RecordLimits::default() };
    let lab = Lab::with(limits);
    let a = lab.host("a").await;
    let b = lab.host_with("b", |c| c.send_timeout = Duration::from_millis(300)).await;
    lab.bring::<Durable>("pad", &b, "a").await;
    let room = pad::<Durable>(&b, "pad");
    room.send(PadMsg::Every { ms: 250, roll_to: None }).await.unwrap();
    room.send(PadMsg::Hold { gate: "slow".to_owned() }).await.unwrap();
    let mut accepted = Vec::new();
    let mut number = 0;
    let mut send = async || {
        number += 1;
        match in_time("the send ends", room.send(note(S, number))).await {
            Ok(()) => {
                accepted.push((S, number));
                true
            }
            Err(refused) => {
                assert!(
                    matches!(refused, RoomErr::Full { .. } | RoomErr::Expired { .. }),
                    "{refused:?}"
                );
                let message = refused.into_message();
                let same = matches!(message, Some(PadMsg::Note { number: n, .. }) if n == number);
                assert!(same, "{message:?}");
                false
            }
        }
    };
    while send().await {}
    let full = lab.record::<Durable>("pad");
    assert!(full.log.len() >= 224, "{} entries", full.log.len());
    assert!(full.log.len() < 256, "the reserve is gone");
    let saved = full.snapshot.unwrap().number;

    // Nothing but a tick asks for a checkpoint, and a tick needs a place in the log.
    lab.stage.open("save");
    lab.stage.open("slow");
    lab.record_when::<Durable>("pad", "it checkpoints", |r| {
        r.snapshot.as_ref().is_some_and(|s| s.number > saved)
    })
    .await;
    eventually("senders get in again", async || send().await).await;
    let shown = show(&room).await;
    assert_eq!(shown.notes, accepted);
    assert!(shown.ticks > 0);
    stop(&[&a, &b]).await;
}

/// The checkpoint may be asked for by a message that the room handles while it replays.
async fn h_28_a_checkpoint_that_is_asked_for_in_a_replay_is_made<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    lab.bring::<C>("pad", &a, "a").await;
    assert!(a.unload::<Pad<C>>("pad").await.unwrap());
    let rests = |r: &Record| matches!(r.phase, Phase::Parked { .. });
    let saved = lab.record_when::<C>("pad", "it rests", rests).await.snapshot.unwrap();
    let room = pad::<C>(&a, "pad");
    room.send(PadMsg::Save).await.unwrap();
    lab.record_when::<C>("pad", "it checkpoints", |r| {
        r.snapshot.as_ref().is_some_and(|s| s.number > saved.number)
    })
    .await;
    stop(&[&a]).await;
}

/// The same for a live room, which trims its log by acknowledging what it takes: it comes to a host with a
/// full log, replays it, and nobody could send what would have it acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn h_28_a_live_room_that_replayed_a_full_log_lets_senders_in() {
    let limits = RecordLimits { log_entries: 32, ..RecordLimits::default() };
    let lab = Lab::with(limits);
    let a = lab.host("a").await;
    let b = lab.host_with("b", |c| c.send_timeout = Duration::from_millis(300)).await;
    let c = lab.host_with("c", |c| c.capacity = 0).await;
    lab.bring::<Live>("pad", &b, "a").await;
    let (room, client) = (pad::<Live>(&b, "pad"), pad::<Live>(&c, "pad"));
    lab.record_when::<Live>("pad", "all is taken", |r| r.log.is_empty()).await;
    room.send(PadMsg::Hold { gate: "slow".to_owned() }).await.unwrap();
    lab.lose_pushes(true);
    let mut number = 1;
    while room.send(note(S, number)).await.is_ok() {
        number += 1;
    }
    assert!(lab.record::<Live>("pad").log.len() >= 28);
    let moved = migrating::<Live>(&a, "pad", "b");
    leaving::<Live>(&a, "pad").await;
    lab.stage.open("slow");
    moved.await.unwrap().unwrap();
    lab.lose_pushes(false);
    in_time("a sender gets in", client.send(note(2, 1))).await.unwrap();
    let shown = show(&client).await;
    assert_eq!(&*shown.host, "b");
    assert_eq!(shown.of(S), notes(S, 1..=number - 1));
    assert_eq!(shown.of(2), [(2, 1)]);
    stop(&[&a, &b, &c]).await;
}

/// Twenty calls into a room that has not read them yet: they are in its log, and it goes unheard from here
/// on.
async fn twenty_unread<C: Class>(
    lab: &Lab,
    room: &RoomRef<Pad<C>>,
) -> Vec<tokio::task::JoinHandle<Result<CallResult<u64>, RoomErr<PadMsg>>>> {
    lab.go_unheard(room).await;
    let seq = lab.record::<C>("pad").seq;
    let calls = (0..20).map(|_| {
        let room = room.clone();
        tokio::spawn(async move {
            room.call(PadMsg::Keep, Some(ractor_rooms_tests::holes::PATIENCE)).await
        })
    });
    let calls = calls.collect();
    lab.record_when::<C>("pad", "all are accepted", |r| r.seq.0 >= seq.0 + 20).await;
    calls
}

/// Given: 20 acknowledged messages are unread. When: the room is closed, not forced, and one more comes
/// while it closes. Then: `NotDrained`; the room goes on, and everything is handled and answered.
async fn h_29_a_close_that_is_not_forced_waits_for_nobody_and_loses_nothing<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host_with("b", |c| c.capacity = 0).await);
    lab.bring::<C>("pad", &b, "a").await;
    let room = pad::<C>(&b, "pad");
    let calls = twenty_unread(&lab, &room).await;
    let closing = lab.next_of("a", Operation::Close, Fault::HoldRequest);
    let closed = {
        let a = a.clone();
        tokio::spawn(async move { a.close::<Pad<C>>("pad", "over", false).await })
    };
    in_time("it closes", closing.hit()).await;
    lab.lose_pushes(false);
    room.send(note(S, 1)).await.unwrap();
    closing.release();
    let answer = in_time("the close ends", closed).await.unwrap();
    assert_eq!(answer, Err(CloseErr::NotDrained { unhandled: 1 }));
    let shown = show(&room).await;
    assert_eq!((shown.notes, shown.kept), (vec![(S, 1)], 20));
    room.send(PadMsg::Answer(7)).await.unwrap();
    for call in calls {
        let answer = in_time("a call ends", call).await.unwrap();
        assert!(matches!(answer, Ok(CallResult::Success(7))), "{answer:?}");
    }
    close::<C>(&lab, &a).await;
    assert_eq!(a.dead_letters::<Pad<C>>("pad").await.unwrap(), []);
    let refused = room.send(note(S, 2)).await;
    assert!(matches!(refused, Err(RoomErr::Closed { message: Some(_), .. })), "{refused:?}");
    stop(&[&a, &b]).await;
}

/// The same, forced: each caller is told that the room ended, also the one whose call came while it
/// closed, and each message is a dead letter.
async fn h_29_a_forced_close_answers_each_caller<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host_with("b", |c| c.capacity = 0).await);
    lab.bring::<C>("pad", &b, "a").await;
    let room = pad::<C>(&b, "pad");
    let mut calls = twenty_unread(&lab, &room).await;
    let closing = lab.next_of("a", Operation::Close, Fault::HoldRequest);
    let closed = {
        let a = a.clone();
        tokio::spawn(async move { a.close::<Pad<C>>("pad", "over", true).await })
    };
    in_time("it closes", closing.hit()).await;
    lab.lose_pushes(false);
    let seq = lab.record::<C>("pad").seq;
    calls.push({
        let room = room.clone();
        tokio::spawn(async move {
            room.call(PadMsg::Keep, Some(ractor_rooms_tests::holes::PATIENCE)).await
        })
    });
    lab.record_when::<C>("pad", "the late one is accepted", |r| r.seq > seq).await;
    closing.release();
    assert_eq!(in_time("the close ends", closed).await.unwrap(), Ok(21));
    for call in calls {
        match in_time("a call ends", call).await.unwrap() {
            Err(RoomErr::Closed { reason, message: None }) => assert_eq!(reason, "over"),
            other => panic!("expected Closed, found {other:?}"),
        }
    }
    let letters = a.dead_letters::<Pad<C>>("pad").await.unwrap();
    assert_eq!(letters.len(), 21);
    stop(&[&a, &b]).await;
}

/// The same when the store does not carry the close out: nobody was told that the room ended, because it
/// did not, and everything is handled and answered.
async fn h_29_a_forced_close_that_fails_has_told_nobody<C: Class>() {
    let lab = Lab::default();
    let a = lab.host_with("a", |c| c.session_ttl = Duration::from_secs(3)).await;
    let b = lab.host_with("b", |c| c.capacity = 0).await;
    lab.bring::<C>("pad", &b, "a").await;
    let room = pad::<C>(&b, "pad");
    let calls = twenty_unread(&lab, &room).await;
    lab.next_of("a", Operation::Close, Fault::Refuse);
    let answer = in_time("the close ends", a.close::<Pad<C>>("pad", "over", true)).await;
    assert!(matches!(answer, Err(CloseErr::Store { .. })), "{answer:?}");
    lab.lose_pushes(false);
    eventually("it goes on", async || show(&room).await.kept == 20).await;
    room.send(PadMsg::Answer(7)).await.unwrap();
    for call in calls {
        let answer = in_time("a call ends", call).await.unwrap();
        assert!(matches!(answer, Ok(CallResult::Success(7))), "{answer:?}");
    }
    assert_eq!(a.dead_letters::<Pad<C>>("pad").await.unwrap(), []);
    let letter = |fault: &RoomFault| matches!(fault, RoomFault::DeadLetter { .. });
    assert!(!lab.faults().iter().any(letter));
    stop(&[&a, &b]).await;
}

/// Given: a room asks for its end. When: a message of its own host is acknowledged while the store is told.
/// Then: it is handled before the room ends. Nobody looks into the mailbox any more.
async fn h_29_a_room_that_ends_itself_handles_what_was_acknowledged<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    lab.bring::<C>("pad", &a, "a").await;
    let room = pad::<C>(&a, "pad");
    room.send(note(S, 1)).await.unwrap();
    let closing = lab.next_of("a", Operation::Close, Fault::HoldRequest);
    room.cast(PadMsg::End("over".to_owned())).unwrap();
    in_time("it closes", closing.hit()).await;
    room.send(note(S, 2)).await.unwrap();
    closing.release();
    let ended = |r: &Record| matches!(r.phase, Phase::Closed { .. });
    lab.record_when::<C>("pad", "it has ended", ended).await;
    assert_eq!(lab.stage.hosts_of("pad", What::Handled(S, 2)), ["a"]);
    stop(&[&a]).await;
}

/// Given: checkpoint 1 is not answered, message 2 is handled, checkpoint 2 succeeds and trims.
/// When: the late copy of checkpoint 1 executes. Then: the snapshot stays checkpoint 2.
async fn h_35_a_late_checkpoint_does_not_turn_the_room_back<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.doomed("a").await, lab.host("b").await);
    lab.bring::<C>("pad", &b, "a").await;
    let room = pad::<C>(&b, "pad");
    room.send(note(S, 1)).await.unwrap();
    let late = lab.next_of("a", Operation::Checkpoint, Fault::Delay { calls: u32::MAX });
    let first = lab.record::<C>("pad").snapshot.unwrap();
    room.send(PadMsg::Save).await.unwrap();
    in_time("it checkpoints", late.hit()).await;
    room.send(note(S, 2)).await.unwrap();
    lab.stage.seen("pad", What::Handled(S, 2)).await;
    eventually("it checkpoints again", async || {
        room.send(PadMsg::Save).await.unwrap();
        lab.record::<C>("pad").snapshot.is_some_and(|s| s.number > first.number.next())
    })
    .await;
    // Its bytes as well, so that nothing but the number is in its way.
    let second = lab.record::<C>("pad").snapshot.unwrap();
    let bytes = Bytes::from_static(b"of checkpoint 1");
    let key = SnapshotKey { by: second.key.by.clone(), attempt: second.key.attempt - 1 };
    lab.store.put_snapshot(&room_id::<C>("pad"), key, bytes).await.unwrap();
    assert_eq!(lab.net.delayed(), 1);
    lab.net.flush().await;
    let after = lab.record::<C>("pad").snapshot.unwrap();
    assert!(after.number >= second.number, "{after:?} after {second:?}");
    a.kill();
    let shown = show(&room).await;
    assert_eq!((&*shown.host, shown.notes), ("b", notes(S, 1..=2)));
    stop(&[&b]).await;
}

/// The same of the record alone, with the pointers as they are.
#[tokio::test]
async fn h_35_a_pointer_that_is_not_newer_changes_nothing() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    lab.bring::<Durable>("pad", &a, "a").await;
    let room = room_id::<Durable>("pad");
    let record = lab.record::<Durable>("pad");
    let (lease, old) = (record.lease().unwrap(), record.snapshot.unwrap());
    let checkpoint = async |number: u64, attempt: u64| {
        let key = SnapshotKey { by: lease.owner.clone(), attempt };
        lab.store.put_snapshot(&room, key.clone(), Bytes::from_static(b"x")).await.unwrap();
        let snapshot = ractor_rooms::protocol::record::SnapshotRef {
            key,
            number: SnapshotNumber(number),
            ..old.clone()
        };
        let request = Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() };
        let answer = lab.store.execute(&room, request, Epoch(0)).await.unwrap();
        assert_eq!(answer, Answer::Owner(OwnerAnswer::Done));
        (snapshot, lab.record::<Durable>("pad").snapshot.unwrap())
    };
    let newer = old.number.0 + 2;
    let (sent, stored) = checkpoint(newer, 1_000).await;
    assert_eq!(stored, sent);
    for late in [newer, newer - 1, 0] {
        let (_, stored) = checkpoint(late, 1_000 + late).await;
        assert_eq!(stored, sent, "number {late}");
    }
    a.kill();
}
