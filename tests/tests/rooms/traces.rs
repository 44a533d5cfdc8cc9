//! Recorded editing sessions, typed into a document that keeps moving. The recordings are expected in
//! `shared/data` beside the repository; without them these tests fail.

use ractor_rooms::{MigrateTo, RoomHost};
use ractor_rooms_tests::cluster::{ask, host_name, test_config, test_store};
use ractor_rooms_tests::rooms::{Class, Document, DocumentMsg, WRITER};
use ractor_rooms_tests::trace;
use ractor_rooms_tests::wait::in_time;
use ractor_rooms_tests::{Oracle, eventually};
use tokio::sync::watch;

use crate::in_both_classes;

/// Moves of one run.
const MOVES: usize = 40;
/// Every so many edits the writer waits for the acknowledgement, so that its queue stays short.
const ACKNOWLEDGED_EVERY: u64 = 64;

in_both_classes! {
    /// Two hosts.
    clownschool_is_typed_over_two_hosts("clownschool_flat", 2);
    /// Five hosts.
    clownschool_is_typed_over_five_hosts("clownschool_flat", 5);
    /// Two hosts.
    friendsforever_is_typed_over_two_hosts("friendsforever_flat", 2);
    /// Five hosts.
    friendsforever_is_typed_over_five_hosts("friendsforever_flat", 5);
    /// Two hosts.
    sveltecomponent_is_typed_over_two_hosts("sveltecomponent", 2);
    /// Five hosts.
    sveltecomponent_is_typed_over_five_hosts("sveltecomponent", 5);
}
use typed as clownschool_is_typed_over_two_hosts;
use typed as clownschool_is_typed_over_five_hosts;
use typed as friendsforever_is_typed_over_two_hosts;
use typed as friendsforever_is_typed_over_five_hosts;
use typed as sveltecomponent_is_typed_over_two_hosts;
use typed as sveltecomponent_is_typed_over_five_hosts;

async fn typed<C: Class>(name: &str, host_count: usize) {
    let trace = trace::load(name);
    let store = test_store();
    let mut hosts = Vec::new();
    for index in 0..host_count {
        let builder = RoomHost::builder(host_name(index), store.clone())
            .config(test_config())
            .room(Document::<C>::new(&trace.start));
        hosts.push(in_time("a host starts", builder.start()).await.unwrap());
    }
    let key = "session";
    let oracle = Oracle::default();
    let progress = watch::Sender::new(0u64);
    let whole = trace.edits.len() as u64;

    // The writer is on the first host, which the room leaves and comes back to.
    let writer = async {
        let room = hosts[0].room::<Document<C>>(key);
        for (number, edit) in (1..).zip(trace.edits) {
            let message = DocumentMsg::Edit { number, edit };
            if number % ACKNOWLEDGED_EVERY == 0 || number == whole {
                room.send(message).await.unwrap();
            } else {
                room.cast(message).unwrap();
            }
            oracle.accepted(WRITER, number);
            progress.send_replace(number);
        }
    };
    // On every host somebody says something with each move.
    let others = async {
        let mut on = eventually("the document is open", || async {
            for (index, host) in hosts.iter().enumerate() {
                if !host.rooms().await.unwrap().is_empty() {
                    return Some(index);
                }
            }
            None
        })
        .await;
        for nth in 1..=MOVES {
            let due = whole * nth as u64 / (MOVES as u64 + 1);
            progress.subscribe().wait_for(|typed| *typed >= due).await.unwrap();
            let to = (on + 1) % host_count;
            let request = MigrateTo::host(C::DOCUMENT, key, host_name(to));
            let report = in_time("a move ends", hosts[nth % host_count].migrate(request)).await;
            assert_eq!(report.unwrap().to.as_str(), host_name(to));
            on = to;
            for (index, host) in hosts.iter().enumerate() {
                let (from, number) = (index as u32 + 1, nth as u64);
                let room = host.room::<Document<C>>(key);
                room.cast(DocumentMsg::Note { from, number }).unwrap();
                oracle.accepted(from, number);
            }
        }
    };
    tokio::join!(writer, others);

    for host in &hosts {
        ask(&host.room::<Document<C>>(key), DocumentMsg::Notes).await; // behind what went that way
    }
    let room = hosts[host_count - 1].room::<Document<C>>(key);
    let (text, misfits) = ask(&room, DocumentMsg::Text).await;
    oracle.assert_clean(&ask(&room, DocumentMsg::Notes).await);
    assert_eq!(misfits, 0);
    assert!(text == trace.end, "the text is not the recorded one");
    for host in hosts {
        in_time("a host stops", host.shutdown()).await.unwrap();
    }
}
