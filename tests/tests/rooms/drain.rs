//! Hosts that are drained, with rooms that people write to all the while.

use std::time::Duration;

use futures::StreamExt;
use ractor_rooms::protocol::drain::{DrainEnd, Overdue};
use ractor_rooms::protocol::record::Phase;
use ractor_rooms::protocol::session::HostState;
use ractor_rooms::{Drain, DrainOptions, DrainProgress, DrainReport, HostErr, RoomHost, RoomRef};
use ractor_rooms_tests::holes::{
    Class, Durable, Lab, Live, Pad, PadMsg, What, eventually, host_id, in_time, key_placed, note,
    notes, pad, room_id, show, stop,
};

use super::holes::both;

/// The sender.
const S: u32 = 1;

both! {
    rooms_of_a_drained_host_go_on_under_traffic;
    two_hosts_that_drain_at_once_lose_nothing;
    a_cancelled_drain_leaves_the_host_ready;
    rooms_rest_when_there_is_nobody_to_take_them;
    nothing_is_placed_on_a_host_that_drains;
}

async fn drained(host: &RoomHost, options: DrainOptions) -> DrainReport {
    let drain = host.drain(options).unwrap();
    in_time("a host is drained", async { drain.await }).await.unwrap()
}

/// Progress in which something is so.
async fn progress_when(drain: &Drain, what: &str, so: impl Fn(&DrainProgress) -> bool) {
    let mut seen = Box::pin(drain.progress().filter(|now| std::future::ready(so(now))));
    if !so(&drain.now()) {
        in_time(what, seen.next()).await.expect("it has not ended");
    }
}

/// A drain of `a` that waits for a room, whose handler returns once the gate `go` is open.
async fn held_up<C: Class>(lab: &Lab, a: &RoomHost, b: &RoomHost) -> (RoomRef<Pad<C>>, Drain) {
    lab.bring::<C>("busy", a, "a").await;
    let busy = pad::<C>(b, "busy");
    busy.send(PadMsg::Hold { gate: "go".to_owned() }).await.unwrap();
    lab.stage.seen("busy", What::Holding).await;
    let drain = a.drain(DrainOptions::default()).unwrap();
    progress_when(&drain, "it is asked to leave", |now| now.leaving == 1).await;
    (busy, drain)
}

/// The host has no session; whose its rooms are is asked of them.
fn is_gone(lab: &Lab, host: &str) {
    let sessions = lab.store.inspect(|store| store.sessions());
    assert!(sessions.iter().all(|s| s.incarnation.host != host_id(host)), "{host} has a session");
}

/// Given: a host with many rooms, to each of which somebody sends. When: it is drained.
/// Then: every message is handled once, in order; all rooms have moved, and nothing of the host is left.
async fn rooms_of_a_drained_host_go_on_under_traffic<C: Class>() {
    let lab = Lab::default();
    let (a, b, c) = (lab.host("a").await, lab.host("b").await, lab.host("c").await);
    let keys: Vec<String> = (0..24).map(|room| format!("pad-{room}")).collect();
    for key in &keys {
        lab.bring::<C>(key, &a, "a").await;
    }
    let rooms: Vec<_> = keys.iter().map(|key| pad::<C>(&b, key)).collect();
    let mut sent = 0;
    let mut send = async || {
        sent += 1;
        for room in &rooms {
            room.send(note(S, sent)).await.unwrap();
        }
        sent
    };
    send().await;
    let drain = a.drain(DrainOptions::default().rooms_at_once(5)).unwrap();
    let ended = tokio::spawn(async { drain.await });
    while !ended.is_finished() {
        send().await;
    }
    let report = ended.await.unwrap().unwrap();
    let last = send().await;
    assert_eq!((report.end, report.progress.moved), (DrainEnd::Drained, keys.len() as u64));
    assert_eq!((report.progress.remaining, report.progress.blockers), (0, vec![]));
    for (key, room) in keys.iter().zip(&rooms) {
        let shown = show(room).await;
        assert_eq!(shown.notes, notes(S, 1..=last), "{key}");
        assert_ne!(shown.host, "a");
    }
    is_gone(&lab, "a");
    assert_eq!(lab.faults(), []);
    assert!(matches!(a.drain(DrainOptions::default()), Err(HostErr::Stopped)));
    stop(&[&b, &c]).await;
}

/// Given: rooms on two hosts that call each other. When: both hosts drain at once, to a third.
/// Then: neither waits for the other, and each caller gets its answer.
async fn two_hosts_that_drain_at_once_lose_nothing<C: Class>() {
    let lab = Lab::default();
    let (a, b, c) = (lab.host("a").await, lab.host("b").await, lab.host("c").await);
    lab.bring::<C>("left", &a, "a").await;
    lab.bring::<C>("right", &b, "b").await;
    let (left, right) = (pad::<C>(&c, "left"), pad::<C>(&c, "right"));
    let ask = |of: &str| PadMsg::Ask { of: of.to_owned(), timeout_ms: 60_000 };
    left.send(ask("right")).await.unwrap();
    right.send(ask("left")).await.unwrap();
    eventually("both wait", async || show(&left).await.kept + show(&right).await.kept == 2).await;
    let options = DrainOptions::default;
    let (from_a, from_b) = tokio::join!(drained(&a, options()), drained(&b, options()));
    assert_eq!((from_a.end, from_b.end), (DrainEnd::Drained, DrainEnd::Drained));
    // One that had moved to the other before that drained has moved twice.
    assert!((2..=3).contains(&(from_a.progress.moved + from_b.progress.moved)));
    for (room, answer) in [(&left, 1), (&right, 2)] {
        room.send(PadMsg::Answer(answer)).await.unwrap();
    }
    eventually("both are answered", async || {
        show(&left).await.answers == [Ok(2)] && show(&right).await.answers == [Ok(1)]
    })
    .await;
    assert_eq!((show(&left).await.host, show(&right).await.host), ("c".to_owned(), "c".to_owned()));
    stop(&[&c]).await;
}

/// Given: a host that drains and a room whose handler is busy. When: the drain is cancelled.
/// Then: the room stays, the host takes rooms again, and can be drained another time.
async fn a_cancelled_drain_leaves_the_host_ready<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    let (busy, drain) = held_up::<C>(&lab, &a, &b).await;
    let again = a.drain(DrainOptions::default());
    assert!(matches!(again, Err(HostErr::AlreadyDraining { host }) if host == host_id("a")));
    drain.cancel();
    lab.stage.open("go");
    let report = in_time("it ends", async { drain.await }).await.unwrap();
    assert_eq!(report.end, DrainEnd::Cancelled);
    eventually("the others know", async || {
        let sessions = lab.store.inspect(|store| store.sessions());
        sessions.iter().all(|session| session.spec.state == HostState::Ready)
    })
    .await;
    lab.bring::<C>("new", &b, "a").await;
    assert_eq!(drained(&a, DrainOptions::default()).await.end, DrainEnd::Drained);
    assert_eq!(show(&busy).await.host, "b");
    stop(&[&b]).await;
}

/// Given: no other host runs the kind. When: the deadline of a drain passes.
/// Then: its rooms rest in the store, and the next host goes on with them.
async fn rooms_rest_when_there_is_nobody_to_take_them<C: Class>() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    for key in ["one", "two"] {
        lab.bring::<C>(key, &a, "a").await;
        pad::<C>(&a, key).send(note(S, 1)).await.unwrap();
    }
    let drain = a.drain(DrainOptions::default().deadline(Duration::from_millis(300))).unwrap();
    progress_when(&drain, "why they stay is said", |now| {
        now.blockers.len() == 2 && now.blockers.iter().all(|b| b.why.contains("no other host"))
    })
    .await;
    let report = in_time("it ends", async { drain.await }).await.unwrap();
    assert_eq!((report.progress.parked, report.progress.moved), (2, 0));
    is_gone(&lab, "a");
    let b = lab.host("b").await;
    for key in ["one", "two"] {
        let room = pad::<C>(&b, key);
        room.send(note(S, 2)).await.unwrap();
        assert_eq!(show(&room).await.notes, notes(S, 1..=2));
    }
    assert_eq!(lab.faults(), []);
    stop(&[&b]).await;
}

/// Given: a host that drains and cannot end yet. When: a room starts that placement would give it.
/// Then: it starts elsewhere.
async fn nothing_is_placed_on_a_host_that_drains<C: Class>() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    let (busy, drain) = held_up::<C>(&lab, &a, &b).await;
    let key = key_placed::<C>("a", &["a", "b"]);
    assert_eq!(show(&pad::<C>(&a, &key)).await.host, "b", "by a sender of the host itself");
    lab.stage.open("go");
    in_time("it ends", async { drain.await }).await.unwrap();
    assert_eq!(show(&busy).await.host, "b");
    stop(&[&b]).await;
}

/// Given: a room whose handler never returns. When: the deadline of a drain passes.
/// Then: it was named; its runner is stopped, and another host recovers it from its log: nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_room_that_never_comes_to_a_boundary_is_named_and_then_recovered_elsewhere() {
    let lab = Lab::default();
    let a = lab.host_with("a", |c| c.freeze_timeout = Duration::from_millis(100)).await;
    let b = lab.host("b").await;
    lab.bring::<Durable>("stuck", &a, "a").await;
    let stuck = pad::<Durable>(&b, "stuck");
    lab.stage.stick("a", 2);
    for number in 1..=3 {
        stuck.send(note(S, number)).await.unwrap();
    }
    lab.stage.seen("stuck", What::Stuck(2)).await;
    let drain = a.drain(DrainOptions::default().deadline(Duration::from_millis(500))).unwrap();
    let room = room_id::<Durable>("stuck");
    progress_when(&drain, "it is named", |now| {
        now.blockers.iter().any(|b| b.room == room && b.why.contains("message boundary"))
    })
    .await;
    assert_eq!(drain.now().killed, 0, "not before the deadline");
    let report = in_time("it ends", async { drain.await }).await.unwrap();
    assert_eq!((report.end, report.progress.killed), (DrainEnd::Drained, 1));
    let shown = show(&stuck).await;
    assert_eq!((shown.host.as_str(), shown.notes), ("b", notes(S, 1..=3)));
    is_gone(&lab, "a");
    stop(&[&b]).await;
}

/// Given: kinds with other policies and no host that could take their rooms. When: the deadline passes.
/// Then: those of one end, with the reason; the drain waits for those of the other until somebody takes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overdue_rooms_go_by_the_policy_of_their_kind() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    lab.bring::<Live>("ends", &a, "a").await;
    lab.bring::<Durable>("waits", &a, "a").await;
    let options = DrainOptions::default()
        .deadline(Duration::from_millis(50))
        .overdue(Overdue::Wait)
        .overdue_of(Live::KIND, Overdue::Close { reason: "deploy".to_owned() });
    let drain = a.drain(options).unwrap();
    progress_when(&drain, "one is closed", |now| now.closed == 1).await;
    assert!(
        matches!(lab.record::<Live>("ends").phase, Phase::Closed { reason } if reason == "deploy")
    );
    assert_eq!(lab.owner::<Durable>("waits").as_deref(), Some("a"));
    let b = lab.host("b").await;
    let report = in_time("it ends", async { drain.await }).await.unwrap();
    let DrainProgress { moved, closed, parked, killed, .. } = report.progress;
    assert_eq!((moved, closed, parked, killed), (1, 1, 0, 0));
    assert_eq!(lab.owner::<Durable>("waits").as_deref(), Some("b"));
    stop(&[&b]).await;
}

/// Given: a process that waits for its end. When: it gets SIGTERM. Then: its host is drained.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sigterm_drains_a_host() {
    let lab = Lab::default();
    let (a, b) = (lab.host("a").await, lab.host("b").await);
    lab.bring::<Durable>("pad", &a, "a").await;
    let mut end = Box::pin(a.drain_at_sigterm(DrainOptions::default()));
    // So that it listens: a signal that nobody waits for would end this process.
    assert!(futures::poll!(&mut end).is_pending());
    let pid = std::process::id().to_string();
    let kill = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(kill.success());
    let report = in_time("it is drained", end).await.unwrap();
    assert_eq!((report.end, report.progress.moved), (DrainEnd::Drained, 1));
    assert_eq!(lab.owner::<Durable>("pad").as_deref(), Some("b"));
    is_gone(&lab, "a");
    stop(&[&b]).await;
}
