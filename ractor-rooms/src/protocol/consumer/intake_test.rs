use bytes::Bytes;

use super::{Consumer, Intake};
use crate::id::{HostId, Incarnation, Number, Position, Producer, Seq};
use crate::protocol::record::Entry;

fn producer(number: u64) -> Producer {
    Producer::Host(Incarnation { host: HostId::new("client").unwrap(), number })
}

fn entry(position: u64, first_seq: u64, by: u64, first: u64, count: usize) -> Entry {
    Entry {
        position: Position { ms: 0, n: position },
        first_seq: Seq(first_seq),
        producer: producer(by),
        first: Number(first),
        batch: vec![Bytes::new(); count],
    }
}

fn take(consumer: &mut Consumer, entry: &Entry) {
    for index in 0..entry.batch.len() {
        consumer.took(entry, index);
    }
    consumer.finished(entry);
}

#[test]
fn what_is_known_is_known_by_producer_and_number() {
    let mut consumer = Consumer::default();
    let first = entry(1, 1, 5, 1, 2);
    assert_eq!(consumer.pushed(&first), Intake::Take { skip: 0 });
    take(&mut consumer, &first);
    assert_eq!(consumer.pushed(&first), Intake::Known);
    assert_eq!(consumer.read(&entry(2, 3, 5, 2, 2)), Intake::Take { skip: 1 }, "half is new");
    assert_eq!(consumer.read(&entry(2, 3, 6, 1, 1)), Intake::Take { skip: 0 }, "another's");
    assert_eq!(consumer.last(&producer(5)), Number(2));
}

#[test]
fn a_gap_in_a_push_is_read_from_the_log() {
    let mut consumer = Consumer::default();
    assert_eq!(consumer.pushed(&entry(2, 2, 5, 1, 1)), Intake::Behind);
    assert_eq!(consumer.read(&entry(2, 2, 5, 1, 1)), Intake::Take { skip: 0 }, "nothing is before");
    take(&mut consumer, &entry(2, 2, 5, 1, 1));
    assert_eq!(consumer.pushed(&entry(3, 3, 5, 2, 1)), Intake::Take { skip: 0 });
}

/// A torn script may leave a batch in the log that the indexes do not know, and its `seq` is given again.
#[test]
fn h02_an_entry_with_an_old_seq_and_a_new_number_is_taken() {
    let mut consumer = Consumer::default();
    take(&mut consumer, &entry(1, 1, 5, 1, 1));
    let again = entry(2, 1, 6, 1, 1);
    assert_eq!(consumer.pushed(&again), Intake::Take { skip: 0 });
    take(&mut consumer, &again);
    assert_eq!((consumer.seq(), consumer.position()), (Seq(1), again.position));
    assert_eq!(consumer.read(&entry(3, 2, 5, 1, 1)), Intake::Known, "the first one's repeat");
}

/// H-44. Positions say what is missing; `seq` does not.
#[test]
fn h44_it_is_behind_by_position() {
    let mut consumer = Consumer::default();
    take(&mut consumer, &entry(1, 1, 5, 1, 1));
    assert!(consumer.is_behind(entry(2, 1, 6, 1, 1).position));
    assert!(!consumer.is_behind(entry(1, 1, 5, 1, 1).position));
}

#[test]
fn a_batch_that_is_half_taken_is_not_finished() {
    let mut consumer = Consumer::default();
    let batch = entry(1, 1, 5, 1, 2);
    consumer.took(&batch, 0);
    assert_eq!(consumer.position(), Position::START);
    assert_eq!(consumer.read(&batch), Intake::Take { skip: 1 });
}

#[test]
fn what_was_trimmed_is_not_waited_for() {
    let mut consumer = Consumer::default();
    consumer.caught_up(Seq(7));
    assert_eq!(consumer.pushed(&entry(8, 8, 5, 1, 1)), Intake::Take { skip: 0 });
    consumer.caught_up(Seq(3));
    assert_eq!(consumer.seq(), Seq(7));
}
