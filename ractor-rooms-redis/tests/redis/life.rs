//! What a room is for, with whole hosts: moves, rests, wakes, and goes on after its host died.

use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms_redis::testing::PrivateServer;

use crate::hosts::{Hosts, ask, eventually, in_time, notes, place};
use crate::in_both_classes;
use crate::journal::{Journal, Told};
use crate::ledger::{Class, Durable, LedgerMsg};
use crate::store::{config, room_id, view};

const KEY: &[u8] = b"lobby";

in_both_classes! {
    a_planned_move_takes_everything_along;
    an_idle_room_rests_and_wakes;
    two_namespaces_do_not_meet;
}

/// Given a room whose handler is under way, with fifty messages unread, two timers and two calls that it
/// has not answered. When it is moved. Then each of these happens on the other host, once.
async fn a_planned_move_takes_everything_along<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let (near, far) = (hosts.ledger::<C>(0, KEY), hosts.ledger::<C>(1, KEY));
    let callers: Vec<_> = [&near, &far]
        .into_iter()
        .map(|room| {
            let room = room.clone();
            tokio::spawn(async move { ask(&room, LedgerMsg::Keep).await })
        })
        .collect();
    near.send(LedgerMsg::Remind("soon".into(), 1)).await.unwrap();
    near.send(LedgerMsg::Remind("later".into(), 2_000)).await.unwrap();
    eventually("the first timer has fired", || async {
        (!ask(&near, LedgerMsg::Ticks).await.is_empty()).then_some(())
    })
    .await;
    let journal = Journal::default();
    near.send(LedgerMsg::Hang((0, 1))).await.unwrap();
    journal.note((0, 1), Told::Accepted);
    for number in 1..=25 {
        for (from, room) in [(1, &near), (2, &far)] {
            room.send(LedgerMsg::Note((from, number))).await.unwrap();
            journal.note((from, number), Told::Accepted);
        }
    }
    let mut moving = Box::pin(hosts.migrate::<C>(1, KEY, 1));
    let asked = eventually("the room is moving", || async {
        hosts.runs_on::<C>(KEY).await.is_empty().then_some(())
    });
    tokio::select! {
        moved = &mut moving => panic!("it moved under a running handler: {moved:?}"),
        () = asked => hosts.knobs.open_gate(),
    }
    let report = moving.await.expect("the room moves");
    assert_eq!(report.states.last().map(|state| state.state.as_str()), Some("Migrated"));
    hosts.until_on::<C>(KEY, 1).await;
    assert_eq!(place(&near).await, "b");
    near.send(LedgerMsg::Answer).await.unwrap();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(in_time("a caller is answered", caller).await.unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, [0, 1]);
    let ticks = eventually("the second timer has fired", || async {
        Some(ask(&near, LedgerMsg::Ticks).await).filter(|ticks| ticks.len() >= 2)
    })
    .await;
    assert_eq!(ticks, [("soon".into(), "a".into()), ("later".into(), "b".into())]);
    journal.assert_exact(51, &notes(&near).await);
    assert_eq!(hosts.knobs.handled_on("a"), [(0, 1)], "it was frozen before the next message");
    assert_eq!(hosts.faults(), []);
    hosts.stop().await;
}

/// Given a room that is idle. When nobody sends, it is unloaded. Then a message wakes it, and so does its
/// timer, with its state as it was.
async fn an_idle_room_rests_and_wakes<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let config = config(&server);
    let mut hosts = Hosts::default();
    for name in ["a", "b"] {
        hosts.add(name, &config, |c| c.idle_timeout = Some(Duration::from_millis(150))).await;
    }
    let bare = config.connect().await.unwrap();
    let room = hosts.ledger::<C>(0, KEY);
    let journal = Journal::default();
    in_time("all is written", journal.write(room.clone(), 1, 1..=5)).await.unwrap();
    let rests = || async {
        eventually("the room rests", || async {
            let view = view(&bare, &room_id::<C>(KEY)).await?;
            (view.seen.owner.is_none() && hosts.runs_on::<C>(KEY).await.is_empty()).then_some(view)
        })
        .await
    };
    let view = rests().await;
    assert!(!view.backlog, "{view:?}");
    let other = hosts.ledger::<C>(1, KEY);
    in_time("all is written", journal.write(other.clone(), 2, 1..=5)).await.unwrap();
    journal.assert_exact(10, &notes(&room).await);
    other.send(LedgerMsg::Remind("alarm".into(), 900)).await.unwrap();
    let view = rests().await;
    assert!(view.snapshot.is_some_and(|snapshot| snapshot.next_timer.is_some()));
    let wakes = || async { (!hosts.runs_on::<C>(KEY).await.is_empty()).then_some(()) };
    eventually("its timer wakes it", wakes).await;
    let ticks = eventually("it fires", || async {
        Some(ask(&room, LedgerMsg::Ticks).await).filter(|ticks| !ticks.is_empty())
    })
    .await;
    assert_eq!(ticks.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["alarm"]);
    journal.assert_exact(10, &notes(&room).await);
    assert_eq!(hosts.faults(), []);
    hosts.stop().await;
}

/// H-33. Given two apps with hosts, kinds and keys of the same names on one server. When both use them.
/// Then neither sees anything of the other.
async fn two_namespaces_do_not_meet<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let app = |name: &str| config(&server).namespace(name);
    // One name is the beginning of the other.
    let (one, two) = (app("app"), app("app2"));
    let one = Hosts::of(&one, &["a", "b"]).await;
    let two = Hosts::of(&two, &["a", "b"]).await;
    one.place::<C>(KEY, 0).await;
    two.place::<C>(KEY, 1).await;
    let (first, second) = (Journal::default(), Journal::default());
    let writers = [
        first.write(one.ledger::<C>(0, KEY), 1, 1..=50),
        second.write(two.ledger::<C>(0, KEY), 2, 1..=50),
        first.write(one.ledger::<C>(1, KEY), 3, 1..=50),
        second.write(two.ledger::<C>(1, KEY), 4, 1..=50),
    ];
    first.until_accepted(20).await;
    one.migrate::<C>(0, KEY, 1).await.expect("the room of the first app moves");
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    one.until_on::<C>(KEY, 1).await;
    two.until_on::<C>(KEY, 1).await;
    first.assert_exact(100, &notes(&one.ledger::<C>(0, KEY)).await);
    second.assert_exact(100, &notes(&two.ledger::<C>(0, KEY)).await);
    one.stop().await;
    // The end of the one is nothing to the other.
    assert_eq!(place(&two.ledger::<C>(0, KEY)).await, "b");
    assert_eq!(two.faults(), []);
    two.stop().await;
}

/// Given a durable room under traffic. When its host dies without a word. Then another host has it within
/// the session's TTL and a sweep, and nothing that was acknowledged is lost or handled twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_goes_on_elsewhere_after_its_host_died() {
    const TTL: Duration = Duration::from_millis(1_500);
    const SWEEP: Duration = Duration::from_millis(100);
    /// For what the machine does besides.
    const GRACE: Duration = Duration::from_millis(2_500);
    let server = PrivateServer::start().await.unwrap();
    let config = config(&server);
    let mut hosts = Hosts::default();
    for name in ["a", "b", "c"] {
        let change = |c: &mut ractor_rooms::HostConfig| {
            (c.session_ttl, c.sweep_interval) = (TTL, SWEEP);
            c.checkpoint_messages = 64;
        };
        hosts.add(name, &config, change).await;
    }
    hosts.place::<Durable>(KEY, 0).await;
    let journal = Journal::default();
    let writers: Vec<_> = (1..=4)
        .map(|from| {
            let via = 1 + (from as usize % 2);
            journal.write(hosts.ledger::<Durable>(via, KEY), from, 1..=250)
        })
        .collect();
    journal.until_accepted(150).await;
    let clock = Clock::system();
    let killed = clock.mark();
    hosts.hosts.remove(0).kill();
    let survivor = eventually("a survivor runs the room", || async {
        hosts.runs_on::<Durable>(KEY).await.first().copied()
    })
    .await;
    let took = clock.elapsed_since(killed);
    assert!(took < TTL + SWEEP + GRACE, "it took {took:?}");
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    let room = hosts.ledger::<Durable>(1 - survivor, KEY);
    journal.assert_exact(1_000, &notes(&room).await);
    assert_ne!(place(&room).await, "a");
    hosts.stop().await;
}

/// Given a live room that was saved at number 20 and has gone on to 30. When its host dies. Then it goes
/// on elsewhere from where it was saved, or later, without a gap before its end, and takes new messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_room_goes_back_to_its_checkpoint_when_its_host_dies() {
    use crate::ledger::Live;
    let server = PrivateServer::start().await.unwrap();
    let config = config(&server);
    let mut hosts = Hosts::default();
    for name in ["a", "b"] {
        hosts.add(name, &config, |c| c.session_ttl = Duration::from_millis(1_500)).await;
    }
    hosts.place::<Live>(KEY, 0).await;
    let bare = config.clone().connect().await.unwrap();
    let near = hosts.ledger::<Live>(0, KEY);
    for number in 1..=20 {
        near.send(LedgerMsg::Note((1, number))).await.unwrap();
    }
    near.send(LedgerMsg::Save).await.unwrap();
    eventually("it is saved", || async {
        view(&bare, &room_id::<Live>(KEY)).await?.snapshot.map(|_| ())
    })
    .await;
    for number in 21..=30 {
        near.send(LedgerMsg::Note((1, number))).await.unwrap();
    }
    assert_eq!(notes(&near).await.len(), 30);
    hosts.hosts.remove(0).kill();
    let room = hosts.ledger::<Live>(0, KEY);
    room.send(LedgerMsg::Note((2, 1))).await.unwrap();
    assert_eq!(place(&room).await, "b");
    let mut found = notes(&room).await;
    assert_eq!(found.pop(), Some((2, 1)));
    let kept = found.len() as u64;
    assert!((20..=30).contains(&kept), "{found:?}");
    assert_eq!(found, (1..=kept).map(|number| (1, number)).collect::<Vec<_>>());
    hosts.stop().await;
}
