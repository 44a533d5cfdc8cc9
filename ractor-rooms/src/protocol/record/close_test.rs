use bytes::Bytes;

use super::bench::{Bench, batch, client, host, room};
use super::*;
use crate::id::Number;
use crate::protocol::Store;
use crate::protocol::session::{HostState, OpenAnswer, SessionSpec};

fn close(bench: &mut Bench, lease: &Lease, cursor: Position, forced: bool) -> CloseAnswer {
    let (lease, reason) = (lease.clone(), "over".to_owned());
    let Answer::Close(answer) = bench.ask(Request::Close { lease, cursor, reason, forced }).0
    else {
        panic!("another answer")
    };
    answer
}

#[test]
fn h29_a_close_waits_for_messages_or_makes_them_dead_letters() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["handled"]);
    let cursor = bench.record.last;
    bench.append(client(5), 2, &["a", "b"]);
    let before = bench.record.clone();
    let refused = CloseAnswer::NotDrained { unhandled: 2 };
    assert_eq!(close(&mut bench, &lease, cursor, false), refused);
    assert_eq!(bench.record, before);
    let done = CloseAnswer::Done { dead_letters: 2 };
    assert_eq!(close(&mut bench, &lease, cursor, true), done);
    let letters: Vec<_> = bench.record.dead_letters.iter().map(|l| l.number).collect();
    assert_eq!(letters, [Number(2), Number(3)]);
    assert_eq!((bench.record.unrest(), bench.record.log_bytes), (false, 0));
    assert!(matches!(bench.offer("b", 9), OfferAnswer::Refused { .. }));
    assert!(matches!(bench.acquire("b", 1, bench.seen()), AcquireAnswer::Refused { .. }));
}

#[test]
fn a_drained_room_closes_without_force() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["x"]);
    let cursor = bench.record.last;
    assert_eq!(close(&mut bench, &lease, cursor, false), CloseAnswer::Done { dead_letters: 0 });
}

fn emit(bench: &mut Bench, lease: &Lease, first: u64, events: &[&'static str]) -> Vec<Effect> {
    let events = batch(events);
    bench.ask(Request::Emit { lease: lease.clone(), first: OutSeq(first), events }).1
}

#[test]
fn events_that_are_repeated_are_published_once() {
    let (mut bench, lease) = Bench::running();
    emit(&mut bench, &lease, 1, &["1", "2"]);
    let again = emit(&mut bench, &lease, 2, &["2", "3"]);
    let new = batch(&["3"]);
    assert_eq!(again, [Effect::Events { life: Life(1), first: OutSeq(3), events: new }]);
    assert_eq!(emit(&mut bench, &lease, 1, &["1", "2", "3"]), []);
    assert_eq!(bench.record.out_seq, OutSeq(3));
}

#[test]
fn the_history_is_bounded_and_read_by_number() {
    let (mut bench, lease) = Bench::running();
    bench.limits.history = 2;
    emit(&mut bench, &lease, 1, &["1", "2", "3"]);
    let read =
        |bench: &mut Bench, after| bench.ask(Request::ReadHistory { after: OutSeq(after) }).0;
    let tail = |first, events: &[&'static str]| Answer::History {
        first: OutSeq(first),
        events: batch(events),
        life: Life(1),
    };
    assert_eq!(read(&mut bench, 0), tail(2, &["2", "3"]), "the first is gone, and shows");
    assert_eq!(read(&mut bench, 2), tail(3, &["3"]));
    emit(&mut bench, &lease, 9, &["9"]);
    assert_eq!(read(&mut bench, 3), tail(9, &["9"]), "numbers in between belong to nothing");
}

#[test]
fn failures_of_one_message_are_counted_until_another_fails() {
    let (mut bench, lease) = Bench::running();
    let mut count = |number, attempt| {
        let (lease, producer, number) = (lease.clone(), client(5), Number(number));
        bench.owner(Request::CountFailure { lease, producer, number, attempt })
    };
    assert_eq!([count(1, 1), count(1, 2)], [1, 2].map(OwnerAnswer::Count));
    assert_eq!(count(1, 2), OwnerAnswer::Count(2), "a repeat counts once");
    assert_eq!(count(2, 3), OwnerAnswer::Count(1));
}

fn store() -> (Store, Activation) {
    let mut store = Store::new(RecordLimits::default());
    store.advance(Millis(1));
    let kinds = BTreeMap::new();
    let spec = SessionSpec {
        state: HostState::Ready,
        load: 0,
        capacity: 1,
        weight: 1,
        kinds,
        proved: Default::default(),
        holds: None,
    };
    match store.open_session(&host("a"), 1_000, spec) {
        OpenAnswer::Opened(by) => (store, Activation { by, number: 1 }),
        OpenAnswer::Taken { .. } => panic!("nobody was there"),
    }
}

fn born(store: &mut Store) -> Life {
    let request = Request::Offer { to: host("a"), until: Millis(9), create: true };
    let Answer::Offer(OfferAnswer::Done { life }) = store.step(&room(), request, Epoch(0)).0 else {
        panic!("another answer")
    };
    life
}

fn append(store: &mut Store, life: Life, number: u64) -> Answer {
    let (producer, first) = (client(5), Number(number));
    let batch = vec![Bytes::from_static(b"x")];
    let request = Request::Append { life: Some(life), producer, epoch: 0, first, batch };
    store.step(&room(), request, Epoch(0)).0
}

#[test]
fn h17_a_closed_room_that_is_opened_again_is_another_life() {
    let (mut store, activation) = store();
    let old = born(&mut store);
    append(&mut store, old, 1);
    let seen = Seen { epoch: Epoch(old.0), owner: None };
    let acquire = Request::Acquire { activation, seen };
    store.step(&room(), acquire, Epoch(0));
    let record = store.record(&room()).unwrap();
    let (lease, last) = (record.lease().unwrap(), record.last);
    let close = Request::Close { lease, cursor: last, reason: "over".to_owned(), forced: false };
    store.step(&room(), close, Epoch(0));
    let new = born(&mut store);
    assert!(new > old);
    let record = store.record(&room()).unwrap();
    assert_eq!((record.seq, record.out_seq, record.last), (Seq(0), OutSeq(0), last));
    let refused = AppendAnswer::OtherLife { life: new };
    assert_eq!(append(&mut store, old, 2), Answer::Append(refused));
    assert!(matches!(append(&mut store, new, 1), Answer::Append(AppendAnswer::Accepted { .. })));
}

#[test]
fn the_indexes_follow_the_record() {
    let (mut store, activation) = store();
    let life = born(&mut store);
    assert_eq!(store.unrest(None, 9).len(), 1, "an offer is open");
    let seen = Seen { epoch: Epoch(life.0), owner: None };
    let acquire = Request::Acquire { activation: activation.clone(), seen };
    store.step(&room(), acquire, Epoch(0));
    append(&mut store, life, 1);
    assert_eq!(store.unrest(None, 9), []);
    let owned = store.owned(&activation.by);
    assert_eq!((owned.len(), owned[0].head, &owned[0].activation), (1, Seq(1), &activation));
    store.advance(Millis(2_000));
    let unrest = store.unrest(None, 9);
    assert_eq!((unrest.len(), unrest[0].backlog), (1, true), "its owner's session has ended");
}
