//! Calls: ractor's own macros, replies that travel, and calls of rooms to rooms.

use ractor::rpc::CallResult;
use ractor::{MessagingErr, RactorErr};
use ractor_rooms::RoomErr;
use ractor_rooms_tests::cluster::{Cluster, ask, host_name};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::rooms::{Address, Class, Durable, Ledger, LedgerMsg, Live};
use ractor_rooms_tests::wait::in_time;
use tokio::task::JoinHandle;

use crate::in_both_classes;

in_both_classes! {
    /// `cast!`, `call!`, `call_t!`, from the room's host and from another.
    ractors_macros_work_on_a_room;
    /// Three moves between the question and the answer.
    a_kept_reply_is_answered_from_wherever_the_room_then_is;
    /// It waits behind a handler that does not return before the move.
    a_call_that_is_unread_when_the_room_moves_is_answered_from_there;
    /// At once, not at the timeout.
    a_caller_is_told_that_its_reply_was_dropped;
    /// With the reason.
    a_caller_is_told_that_the_room_has_ended;
    /// Asker and asked both move meanwhile.
    a_rooms_call_is_answered_across_moves_of_both;
    /// And an answer that comes too late is dropped.
    a_rooms_call_that_is_not_answered_times_out_once_wherever_it_is;
    /// Dropped by the room that was called.
    a_rooms_call_that_is_dropped_is_told;
}

fn note(number: u64) -> LedgerMsg {
    LedgerMsg::Note { from: 1, number }
}

async fn ractors_macros_work_on_a_room<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("room", 0).await;
    for (via, notes) in [(0, 1), (1, 2)] {
        let room = cluster.ledger::<C>(via, "room");
        ractor::cast!(room, note(notes)).unwrap();
        assert_eq!(ractor::call!(room, LedgerMsg::Count).unwrap(), notes);
        assert_eq!(ractor::call_t!(room, LedgerMsg::Count, 60_000).unwrap(), notes);
        let forgotten = ractor::call!(room, LedgerMsg::Forget, "nothing".to_owned());
        assert!(!forgotten.unwrap());
        let forgotten = ractor::call_t!(room, LedgerMsg::Forget, 60_000, "nothing".to_owned());
        assert!(!forgotten.unwrap());
        match ractor::call_t!(room, LedgerMsg::Keep, 50) {
            Err(RactorErr::Timeout) => {}
            other => panic!("expected a timeout, found {other:?}"),
        }
        let nowhere = cluster.hosts[via].room::<Ledger<C>>("");
        match ractor::cast!(nowhere, note(9)) {
            Err(RactorErr::Messaging(MessagingErr::SendErr(LedgerMsg::Note {
                number: 9, ..
            }))) => {}
            other => panic!("expected the message back, found {other:?}"),
        }
        match ractor::call!(nowhere, LedgerMsg::Count) {
            Err(RactorErr::Messaging(MessagingErr::SendErr(LedgerMsg::Count(_)))) => {}
            other => panic!("expected the message back, found {other:?}"),
        }
    }
    cluster.stop().await;
}

type Call = JoinHandle<Result<CallResult<u64>, RoomErr<LedgerMsg>>>;

/// Makes a call by way of a host that the room keeps, and waits until it has it.
async fn keep<C: Class>(cluster: &Cluster, via: usize, key: &str) -> Call {
    let room = cluster.ledger::<C>(via, key);
    let before = ask(&room, LedgerMsg::Kept).await;
    let caller = room.clone();
    let call = tokio::spawn(async move { caller.call(LedgerMsg::Keep, None).await });
    eventually("the reply is kept", || async {
        (ask(&room, LedgerMsg::Kept).await > before).then_some(())
    })
    .await;
    call
}

async fn a_kept_reply_is_answered_from_wherever_the_room_then_is<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("keeper", 0).await;
    let mut calls = Vec::new();
    for via in [0, 1, 2, 0] {
        calls.push(keep::<C>(&cluster, via, "keeper").await);
    }
    for (via, to) in [(0, 1), (0, 2), (1, 0), (2, 1)] {
        cluster.migrate::<C>(via, "keeper", to).await.unwrap();
        assert_eq!(ask(&cluster.ledger::<C>(via, "keeper"), LedgerMsg::Kept).await, 4);
    }
    cluster.unload::<C>(1, "keeper").await;
    cluster.ledger::<C>(2, "keeper").send(LedgerMsg::Answer).await.unwrap();
    for (place, call) in (0..).zip(calls) {
        match in_time("an answer", call).await.unwrap().unwrap() {
            CallResult::Success(answer) => assert_eq!(answer, place),
            other => panic!("expected an answer, found {other:?}"),
        }
    }
    cluster.stop().await;
}

async fn a_call_that_is_unread_when_the_room_moves_is_answered_from_there<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("busy", 0).await;
    let (local, remote) = (cluster.ledger::<C>(0, "busy"), cluster.ledger::<C>(1, "busy"));
    cluster.hang::<C>(0, "busy").await;
    let (here, there, report, ()) = tokio::join!(
        ask(&local, LedgerMsg::Whereabouts),
        ask(&remote, LedgerMsg::Whereabouts),
        cluster.migrate::<C>(0, "busy", 1),
        async {
            eventually("the move begins", || async {
                cluster.runs_on::<C>("busy").await.is_empty().then_some(())
            })
            .await;
            cluster.knobs.let_go();
        }
    );
    let report = report.unwrap();
    assert_eq!((here.host, there.host), (host_name(1), host_name(1)), "{report:?}");
    cluster.stop().await;
}

async fn a_caller_is_told_that_its_reply_was_dropped<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("careless", 0).await;
    let calls =
        [keep::<C>(&cluster, 0, "careless").await, keep::<C>(&cluster, 1, "careless").await];
    cluster.migrate::<C>(0, "careless", 1).await.unwrap();
    assert!(calls.iter().all(|call| !call.is_finished()), "the copy that stayed behind is silent");
    cluster.ledger::<C>(0, "careless").send(LedgerMsg::Forsake).await.unwrap();
    for call in calls {
        let outcome = in_time("an outcome", call).await.unwrap().unwrap();
        assert!(matches!(outcome, CallResult::SenderError), "{outcome:?}");
    }
    cluster.stop().await;
}

async fn a_caller_is_told_that_the_room_has_ended<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("ending", 0).await;
    let call = keep::<C>(&cluster, 1, "ending").await;
    let room = cluster.ledger::<C>(1, "ending");
    room.send(LedgerMsg::End("last orders".to_owned())).await.unwrap();
    match in_time("an outcome", call).await.unwrap() {
        Err(RoomErr::Closed { reason, message: None }) => assert_eq!(reason, "last orders"),
        other => panic!("expected Closed, found {other:?}"),
    }
    for via in 0..2 {
        let late = cluster.ledger::<C>(via, "ending");
        match late.send(note(9)).await.unwrap_err() {
            RoomErr::Closed { reason, message: Some(LedgerMsg::Note { number: 9, .. }) } => {
                assert_eq!(reason, "last orders");
            }
            other => panic!("expected Closed with the message, found {other:?}"),
        }
    }
    cluster.stop().await;
}

type Answers = Vec<(String, Result<u64, String>)>;

/// Asks each class of ledger; `act` makes of the two calls what it wants.
async fn ask_both<C: Class>(cluster: &Cluster, timeout_ms: u64) {
    cluster.place::<C>("asker", 0).await;
    cluster.place::<Live>("asked", 1).await;
    cluster.place::<Durable>("asked", 1).await;
    let asker = cluster.ledger::<C>(2, "asker");
    let of = [("live", Address::of::<Live>("asked")), ("durable", Address::of::<Durable>("asked"))];
    for (name, of) in of {
        let name = name.to_owned();
        asker.send(LedgerMsg::Ask { name, of, kept: true, timeout_ms }).await.unwrap();
    }
    eventually("both are asked", || async {
        let live = ask(&cluster.ledger::<Live>(2, "asked"), LedgerMsg::Kept).await;
        let durable = ask(&cluster.ledger::<Durable>(2, "asked"), LedgerMsg::Kept).await;
        (live + durable == 2).then_some(())
    })
    .await;
}

async fn tell_both(cluster: &Cluster, message: fn() -> LedgerMsg) {
    cluster.ledger::<Live>(2, "asked").send(message()).await.unwrap();
    cluster.ledger::<Durable>(2, "asked").send(message()).await.unwrap();
}

async fn both_answers<C: Class>(cluster: &Cluster) -> Answers {
    let asker = cluster.ledger::<C>(2, "asker");
    let mut answers = eventually("two answers", || async {
        let answers: Answers = ask(&asker, LedgerMsg::Answers).await;
        (answers.len() >= 2).then_some(answers)
    })
    .await;
    answers.sort();
    answers
}

async fn move_all<C: Class>(cluster: &Cluster) {
    cluster.migrate::<C>(0, "asker", 1).await.unwrap();
    cluster.migrate::<Live>(0, "asked", 2).await.unwrap();
    cluster.migrate::<Durable>(0, "asked", 2).await.unwrap();
    cluster.migrate::<C>(0, "asker", 2).await.unwrap();
}

async fn a_rooms_call_is_answered_across_moves_of_both<C: Class>() {
    let cluster = Cluster::of(3).await;
    ask_both::<C>(&cluster, 600_000).await;
    move_all::<C>(&cluster).await;
    tell_both(&cluster, || LedgerMsg::Answer).await;
    let expected = [("durable".to_owned(), Ok(0)), ("live".to_owned(), Ok(0))];
    assert_eq!(both_answers::<C>(&cluster).await, expected);
    // Not a second time, from wherever.
    cluster.migrate::<C>(0, "asker", 0).await.unwrap();
    assert_eq!(both_answers::<C>(&cluster).await, expected);
    cluster.stop().await;
}

async fn a_rooms_call_that_is_not_answered_times_out_once_wherever_it_is<C: Class>() {
    let cluster = Cluster::of(3).await;
    ask_both::<C>(&cluster, 700).await;
    move_all::<C>(&cluster).await;
    let late = || Err("the call was not answered in time".to_owned());
    let expected = [("durable".to_owned(), late()), ("live".to_owned(), late())];
    assert_eq!(both_answers::<C>(&cluster).await, expected);
    tell_both(&cluster, || LedgerMsg::Answer).await;
    // The answers come to the room before a later message of the same rooms does.
    for of in [Address::of::<Live>("asked"), Address::of::<Durable>("asked")] {
        let name = "count".to_owned();
        let message = LedgerMsg::Ask { name, of, kept: false, timeout_ms: 600_000 };
        cluster.ledger::<C>(2, "asker").send(message).await.unwrap();
    }
    let answers: Answers = eventually("the counts", || async {
        let answers: Answers = ask(&cluster.ledger::<C>(2, "asker"), LedgerMsg::Answers).await;
        (answers.iter().filter(|(name, _)| name == "count").count() == 2).then_some(answers)
    })
    .await;
    assert_eq!(answers.len(), 4, "{answers:?}");
    cluster.stop().await;
}

async fn a_rooms_call_that_is_dropped_is_told<C: Class>() {
    let cluster = Cluster::of(3).await;
    ask_both::<C>(&cluster, 600_000).await;
    move_all::<C>(&cluster).await;
    tell_both(&cluster, || LedgerMsg::Forsake).await;
    let dropped = || Err("the room dropped the call without an answer".to_owned());
    let expected = [("durable".to_owned(), dropped()), ("live".to_owned(), dropped())];
    assert_eq!(both_answers::<C>(&cluster).await, expected);
    cluster.stop().await;
}
