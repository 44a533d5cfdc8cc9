//! Bursts from senders on a live room's own host: what waits for the room, and what cuts in.

use std::sync::Arc;
use std::time::Duration;

use ractor_rooms::{RoomErr, RoomRef};
use ractor_rooms_tests::cluster::{Cluster, ask};
use ractor_rooms_tests::oracle::SenderId;
use ractor_rooms_tests::rooms::{Ledger, LedgerMsg, Live, Seen};
use ractor_rooms_tests::wait::in_time;
use ractor_rooms_tests::{Oracle, eventually};

const KEY: &str = "busy";

/// So many hosts, with the room on the first, which has its gate open.
async fn open(hosts: usize) -> (Cluster, RoomRef<Ledger<Live>>) {
    let cluster = Cluster::of(hosts).await;
    cluster.place::<Live>(KEY, 0).await;
    let room = cluster.ledger::<Live>(0, KEY);
    eventually("a question does not go through the log", || async {
        let before = seq(&cluster);
        let _: u64 = ask(&room, LedgerMsg::Count).await;
        (seq(&cluster) == before).then_some(())
    })
    .await;
    (cluster, room)
}

fn seq(cluster: &Cluster) -> u64 {
    cluster.record::<Live>(KEY).map_or(0, |record| record.seq.0)
}

/// Casts so many notes, each again until there is space for it.
async fn burst(
    room: &RoomRef<Ledger<Live>>,
    oracle: &Oracle,
    from: SenderId,
    numbers: std::ops::RangeInclusive<u64>,
) {
    for number in numbers {
        let mut note = LedgerMsg::Note { from, number };
        loop {
            match room.cast(note) {
                Ok(()) => break,
                Err(RoomErr::Full { message }) => note = message,
                Err(error) => panic!("{number} of {from}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        oracle.accepted(from, number);
    }
}

/// What was handled or tried, in order. Never turned back.
fn handled(cluster: &Cluster) -> Vec<(SenderId, u64)> {
    let sights = cluster.knobs.sights().into_iter();
    sights
        .filter_map(|sight| match sight.what {
            Seen::Handled(from, number) => Some((from, number)),
            _ => None,
        })
        .collect()
}

async fn until_handled(cluster: &Cluster, from: SenderId, number: u64) {
    eventually("the last is handled", || async {
        (cluster.knobs.count(&Seen::Handled(from, number)) > 0).then_some(())
    })
    .await;
}

/// Several threads cast on both hosts while the room goes to and fro between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_sender_is_in_order_while_the_room_moves() {
    const NUMBERS: u64 = 4_000;
    let (cluster, _) = open(2).await;
    let (cluster, oracle) = (Arc::new(cluster), Oracle::default());
    let mut senders = Vec::new();
    for from in 10..14 {
        let (room, oracle) = (cluster.ledger::<Live>(from as usize % 2, KEY), oracle.clone());
        senders.push(tokio::spawn(async move {
            for first in (1..=NUMBERS).step_by(20) {
                burst(&room, &oracle, from, first..=first + 19).await;
                // Long bursts and short ones, and messages that find the room at rest.
                match first % 7 {
                    0 => tokio::time::sleep(Duration::from_micros(first % 900)).await,
                    1 => room.send(LedgerMsg::Forsake).await.expect("it is accepted"),
                    _ => tokio::task::yield_now().await,
                }
            }
        }));
    }
    let mut moves = 0;
    while senders.iter().any(|sender| !sender.is_finished()) {
        moves += usize::from(cluster.migrate::<Live>(0, KEY, (moves + 1) % 2).await.is_ok());
        tokio::time::sleep(Duration::from_micros(moves as u64 * 97 % 1_500)).await;
    }
    for sender in senders {
        sender.await.expect("a sender");
    }
    assert!(moves > 2, "it moved {moves} times only");
    for from in 10..14 {
        until_handled(&cluster, from, NUMBERS).await;
    }
    oracle.assert_clean(&cluster.notes::<Live>(0, KEY).await);
    Arc::into_inner(cluster).expect("no sender is left").stop().await;
}

/// A room that is told to move takes no message more, however many wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_does_not_delay_a_freeze() {
    let (cluster, room) = open(2).await;
    let oracle = Oracle::default();
    cluster.hang::<Live>(0, KEY).await;
    oracle.accepted(1, 1);
    burst(&room, &oracle, 2, 1..=300).await;
    let (mut waiting, before) = (300, seq(&cluster));
    let (report, ()) = tokio::join!(cluster.migrate::<Live>(0, KEY, 1), async {
        // The gate is closed once a message goes through the log; all before it are in the mailbox.
        loop {
            burst(&room, &oracle, 2, waiting + 1..=waiting + 1).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            if seq(&cluster) > before {
                break;
            }
            waiting += 1;
        }
        cluster.knobs.let_go();
    });
    assert_eq!(u64::from(report.expect("it moves").unread), waiting);
    until_handled(&cluster, 2, waiting + 1).await;
    oracle.assert_clean(&cluster.notes::<Live>(0, KEY).await);
    cluster.stop().await;
}

/// The first of a burst fails, or one in the middle: by a panic, or an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_follows_a_failure_in_a_burst_is_handled() {
    for sour in [false, true] {
        for before in [0, 10] {
            let (cluster, room) = open(1).await;
            let oracle = Oracle::default();
            burst(&room, &oracle, 2, 1..=before).await;
            let (from, number, fails) = (3, 1, 1);
            let bad = match sour {
                true => LedgerMsg::Sour { from, number, fails },
                false => LedgerMsg::Shaky { from, number, fails },
            };
            room.cast(bad).expect("it is accepted");
            oracle.accepted(from, number);
            burst(&room, &oracle, 2, before + 1..=200).await;
            until_handled(&cluster, 2, 200).await;
            // The room's own notes went back to its checkpoint.
            oracle.assert_clean(&handled(&cluster));
            cluster.stop().await;
        }
    }
}

/// A room that is closed handles what was accepted before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_close_waits_for_the_burst_before_it() {
    for from_inside in [false, true] {
        let (cluster, room) = open(1).await;
        let oracle = Oracle::default();
        cluster.hang::<Live>(0, KEY).await;
        oracle.accepted(1, 1);
        if from_inside {
            room.cast(LedgerMsg::End("over".to_owned())).expect("it is accepted");
        }
        burst(&room, &oracle, 2, 1..=300).await;
        if from_inside {
            cluster.knobs.let_go();
            eventually("the room ends", || async {
                cluster.runs_on::<Live>(KEY).await.is_empty().then_some(())
            })
            .await;
        } else {
            let close = cluster.hosts[0].close::<Ledger<Live>>(KEY, "over", false);
            let (closed, ()) = tokio::join!(in_time("it closes", close), async {
                tokio::task::yield_now().await;
                cluster.knobs.let_go();
            });
            closed.expect("it closes");
        }
        oracle.assert_clean(&handled(&cluster));
        cluster.stop().await;
    }
}

/// A timer that is due fires among a burst, not behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_does_not_starve_a_timer() {
    const NUMBERS: u64 = 100_000;
    let (cluster, room) = open(1).await;
    let oracle = Oracle::default();
    let remind = LedgerMsg::Remind { name: "soon".to_owned(), after_ms: 1, repeat: None };
    cluster.hang::<Live>(0, KEY).await;
    room.cast(remind).expect("it is accepted");
    burst(&room, &oracle, 2, 1..=NUMBERS).await;
    cluster.knobs.let_go();
    until_handled(&cluster, 2, NUMBERS).await;
    let sights = cluster.knobs.sights();
    let place = |what: Seen| sights.iter().position(|sight| sight.what == what);
    let tick = place(Seen::Ticked("soon".to_owned())).expect("it fired before the burst was over");
    let last = place(Seen::Handled(2, NUMBERS)).expect("it was handled");
    assert!(tick < last, "the timer fired at {tick} of {last}");
    cluster.stop().await;
}

/// A caller whose question waits in the mailbox of a room that dies hears of it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_question_that_waits_in_a_room_that_dies_is_not_forgotten() {
    let (cluster, room) = open(1).await;
    cluster.hang::<Live>(0, KEY).await;
    let asked = room.clone();
    let before = seq(&cluster);
    let call = tokio::spawn(async move {
        asked.call(LedgerMsg::Count, Some(Duration::from_secs(3_600))).await
    });
    eventually("the question waits", || async { (!call.is_finished()).then_some(()) }).await;
    let oracle = Oracle::default();
    burst(&room, &oracle, 2, 1..=100).await;
    assert_eq!(seq(&cluster), before, "all of it is in the mailbox");
    cluster.hosts[0].kill();
    let heard = in_time("the caller hears", call).await.expect("the caller");
    assert!(!matches!(heard, Ok(ractor::rpc::CallResult::Success(_))), "{heard:?}");
}
