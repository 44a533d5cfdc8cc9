//! What is bounded says so, with the message, and nothing that was accepted is lost by it.

use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::clock::Clock;
use ractor_rooms::protocol::record::RecordLimits;
use ractor_rooms::{MemoryTransport, RoomErr};
use ractor_rooms_tests::cluster::Cluster;
use ractor_rooms_tests::rooms::{Durable, Knobs, LedgerMsg, Live, Seen};
use ractor_rooms_tests::{Oracle, eventually};

/// A live room whose handler hangs takes so many messages and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_mailbox_hands_the_message_back() {
    const BOUND: usize = 16;
    let cluster = Cluster::with(1, |_, builder| {
        builder.configure(|config| config.max_mailbox_messages = BOUND)
    })
    .await;
    let room = cluster.ledger::<Live>(0, "narrow");
    let oracle = Oracle::default();
    // Once a message does not go through the log any more, the gate is open.
    let mut number = 1;
    eventually("the gate is open", || {
        let (room, oracle, store) = (room.clone(), oracle.clone(), cluster.store.clone());
        number += 1;
        let (sent, id) = (number, ractor_rooms_tests::cluster::room_id::<Live>("narrow"));
        async move {
            let seq = || store.inspect(|s| s.record(&id).map(|r| r.seq));
            let before = seq();
            room.send(LedgerMsg::Note { from: 1, number: sent }).await.expect("it is accepted");
            oracle.accepted(1, sent);
            (before.is_some() && seq() == before).then_some(())
        }
    })
    .await;
    room.send(LedgerMsg::Hang { from: 2, number: 1 }).await.expect("it is accepted");
    oracle.accepted(2, 1);
    eventually("the handler hangs", || async {
        (cluster.knobs.count(&Seen::Handled(2, 1)) > 0).then_some(())
    })
    .await;
    let mut accepted = 0;
    let refused = loop {
        number += 1;
        match room.cast(LedgerMsg::Note { from: 1, number }) {
            Ok(()) => {
                oracle.accepted(1, number);
                accepted += 1;
                assert!(accepted <= BOUND, "the mailbox takes more than its bound");
            }
            Err(refused) => break refused,
        }
    };
    assert_eq!(accepted, BOUND);
    assert!(
        matches!(refused, RoomErr::Full { message: LedgerMsg::Note { from: 1, number: n } } if n == number)
    );
    cluster.knobs.let_go();
    // Not asked by a call: the mailbox may still be full.
    eventually("everything accepted is handled", || async {
        (cluster.knobs.count(&Seen::Handled(1, number - 1)) > 0).then_some(())
    })
    .await;
    oracle.assert_clean(&cluster.notes::<Live>(0, "narrow").await);
    cluster.stop().await;
}

/// A log that holds a mebibyte takes many of them, because the room saves itself in time and trims it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_busy_room_saves_itself_before_its_log_is_full() {
    let limits = RecordLimits { log_bytes: 1 << 20, ..RecordLimits::default() };
    let store = MemoryTransport::with(limits, Clock::system());
    let cluster = Cluster::over(store.clone(), store, 1, Knobs::default(), |_, builder| {
        builder.configure(|config| {
            config.checkpoint_messages = 0;
            config.checkpoint_interval = Duration::from_secs(3_600);
            config.checkpoint_bytes = 128 << 10;
        })
    })
    .await;
    let room = cluster.ledger::<Durable>(0, "heavy");
    let oracle = Oracle::default();
    for number in 1..=256 {
        let bytes = Bytes::from(vec![7; 32 << 10]);
        room.send(LedgerMsg::Blob { from: 1, number, bytes }).await.expect("there is space again");
        oracle.accepted(1, number);
    }
    eventually("all are handled", || async {
        (cluster.notes::<Durable>(0, "heavy").await.len() == 256).then_some(())
    })
    .await;
    oracle.assert_clean(&cluster.notes::<Durable>(0, "heavy").await);
    cluster.stop().await;
}
