//! Many at once.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::bench::*;
use crate::id::{Epoch, Number, Producer, Seq};
use crate::protocol::record::{Answer, AppendAnswer, Entry, Request};
use crate::transport::Push;

/// That a log holds these producers' numbers, each once and in order, and counts without a gap.
fn orderly(log: &[Entry], producers: &[Producer], count: u64) {
    let mut seq = Seq(0);
    let mut numbers: BTreeMap<&Producer, u64> = BTreeMap::new();
    for entry in log {
        assert_eq!(entry.first_seq, seq.next(), "{entry:?}");
        seq = entry.last_seq();
        let last = numbers.entry(&entry.producer).or_default();
        assert_eq!(entry.first.0, *last + 1, "{entry:?}");
        for message in &entry.batch {
            *last += 1;
            assert_eq!(*message, last.to_string(), "{entry:?}");
        }
    }
    for producer in producers {
        assert_eq!(numbers.get(producer), Some(&count), "{producer:?}");
    }
}

/// Sends numbers in batches of two through one connection, each batch `copies` times at once.
async fn send(b: &Bench<'_>, producers: &[Producer], count: u64, copies: usize) {
    let room = room("r");
    let mut tasks = Vec::new();
    for (i, producer) in producers.iter().enumerate() {
        let transport = if i % 2 == 0 { b.here.clone() } else { b.there.clone() };
        let (room, producer) = (room.clone(), producer.clone());
        tasks.push(tokio::spawn(async move {
            for first in (1..count).step_by(2) {
                let batch: Vec<_> =
                    [first, first + 1].iter().map(|n| Bytes::from(n.to_string())).collect();
                let copy = || {
                    let request = Request::Append {
                        life: None,
                        producer: producer.clone(),
                        epoch: 0,
                        first: Number(first),
                        batch: batch.clone(),
                    };
                    transport.execute(&room, request, Epoch(0))
                };
                let answers = futures::future::join_all((0..copies).map(|_| copy())).await;
                let accepted = answers
                    .iter()
                    .filter(|answer| {
                        matches!(answer, Ok(Answer::Append(AppendAnswer::Accepted { .. })))
                    })
                    .count();
                assert_eq!(accepted, 1, "{answers:?}");
                tokio::task::yield_now().await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Many producers at once: each one's order holds and `seq` counts without a gap.
pub(super) async fn crowd_of_producers_keeps_order(b: &Bench<'_>) {
    let a = b.host("a").await;
    let lease = b.start(&room("r"), &a).await;
    let producers: Vec<_> = (1..=8).map(|birth| producer("p", birth)).collect();
    let count = (b.limits.log_entries as u64 * 3 / 4 / 8).clamp(1, 100) * 2;
    send(b, &producers, count, 1).await;
    let log = b.log(&room("r"), &lease).await;
    orderly(&log, &producers, count);
    assert_eq!(b.view(&room("r")).await.seq, Seq(count * 8));
}

/// Copies of one batch that arrive at once are taken once.
pub(super) async fn crowd_of_copies_is_taken_once(b: &Bench<'_>) {
    let a = b.host("a").await;
    let lease = b.start(&room("r"), &a).await;
    let producers: Vec<_> = (1..=4).map(|birth| producer("p", birth)).collect();
    let count = (b.limits.log_entries as u64 * 3 / 4 / 4).clamp(1, 20) * 2;
    send(b, &producers, count, 4).await;
    orderly(&b.log(&room("r"), &lease).await, &producers, count);
}

/// What the owner is pushed while many append is what the log holds.
pub(super) async fn crowd_is_pushed_as_it_is_logged(b: &Bench<'_>) {
    let a = b.host("a").await;
    let mut pushes = b.listen(&a).await;
    let lease = b.start(&room("r"), &a).await;
    let producers: Vec<_> = (1..=4).map(|birth| producer("p", birth)).collect();
    send(b, &producers, 20, 1).await;
    let log = b.log(&room("r"), &lease).await;
    orderly(&log, &producers, 20);
    let mut missing: Vec<_> = log.iter().collect();
    while !missing.is_empty() {
        let push = pushes.want("an entry", |push| matches!(push, Push::Entry { .. })).await;
        let (epoch, entry) = given!(push, Push::Entry { epoch, entry, .. } => (epoch, entry));
        assert_eq!(epoch, lease.epoch);
        assert!(log.contains(&entry), "invented: {entry:?}");
        missing.retain(|e| **e != entry);
    }
}
