use super::*;
use crate::id::{HostId, Incarnation};

fn m(sender: u32, index: u32) -> Sent {
    Sent { sender, index }
}

fn activation(number: u64) -> Activation {
    let host = HostId::new("a").unwrap();
    Activation { by: Incarnation { host, number: 1 }, number }
}

fn broken(verdict: Verdict, invariant: &str) -> bool {
    verdict.is_err_and(|broken| broken.invariant == invariant)
}

#[test]
fn i1_names_who_wrote_without_the_lease() {
    let lease = |epoch, number| Lease {
        epoch: Epoch(epoch),
        owner: activation(number),
        generation: crate::id::Generation(1),
    };
    assert!(i1_one_writer(Some(&lease(2, 1)), &lease(2, 1)).is_ok());
    for other in [lease(1, 1), lease(2, 2)] {
        assert!(broken(i1_one_writer(Some(&lease(2, 1)), &other), "I1"));
        assert!(broken(i1_one_writer(None, &other), "I1"));
    }
}

#[test]
fn i1_an_epoch_has_one_owner() {
    let (a, b) = (activation(1), activation(2));
    assert!(i1_epochs_grow((Epoch(2), Some(&a)), (Epoch(2), Some(&a))).is_ok());
    assert!(i1_epochs_grow((Epoch(2), Some(&a)), (Epoch(2), None)).is_ok());
    assert!(i1_epochs_grow((Epoch(2), Some(&a)), (Epoch(3), Some(&b))).is_ok());
    assert!(broken(i1_epochs_grow((Epoch(2), Some(&a)), (Epoch(2), Some(&b))), "I1"));
    assert!(broken(i1_epochs_grow((Epoch(2), None), (Epoch(1), None)), "I1"));
    assert!(i1_taken_from_nobody(false, true).is_ok());
    assert!(broken(i1_taken_from_nobody(true, true), "I1"));
    assert!(broken(i1_taken_from_nobody(false, false), "I1"));
}

#[test]
fn i2_knows_missing_doubled_and_refused_messages() {
    let (acknowledged, refused) = ([m(0, 1), m(0, 2)], [m(0, 3)]);
    let check =
        |state: &[Sent], waiting: &[Sent]| i2_handled_once(&acknowledged, &refused, state, waiting);
    assert!(check(&[m(0, 1)], &[m(0, 2), m(0, 4)]).is_ok(), "the fourth was not answered yet");
    assert!(broken(check(&[m(0, 1)], &[]), "I2"));
    assert!(broken(check(&[m(0, 1), m(0, 2)], &[m(0, 2)]), "I2"));
    assert!(broken(check(&[m(0, 1), m(0, 2)], &[m(0, 3)]), "I2"));
    assert!(i2_outputs_repeat(&[1, 2, 3], &[1, 2]).is_ok());
    assert!(broken(i2_outputs_repeat(&[1, 2, 3], &[1, 3]), "I2"));
}

#[test]
fn i3_wants_one_place_each() {
    assert!(i3_in_one_place(&[m(0, 1)], &[m(0, 1), m(1, 1)]).is_ok());
    assert!(broken(i3_in_one_place(&[m(0, 1)], &[m(1, 1)]), "I3"));
    assert!(broken(i3_in_one_place(&[m(0, 1)], &[m(0, 1), m(0, 1)]), "I3"));
}

#[test]
fn i4_is_per_sender() {
    assert!(i4_in_order(&[m(0, 1), m(1, 1), m(0, 3), m(1, 2)]).is_ok());
    assert!(broken(i4_in_order(&[m(0, 2), m(1, 1), m(0, 1)]), "I4"));
    assert!(broken(i4_in_order(&[m(0, 2), m(0, 2)]), "I4"));
}

#[test]
fn i5_wants_gaps_named() {
    use Shown::{Event, MissedTo};
    assert!(i5_events_in_order(4, &[Event(5), MissedTo(8), Event(9)]).is_ok());
    assert!(broken(i5_events_in_order(4, &[Event(6)]), "I5"));
    assert!(broken(i5_events_in_order(4, &[Event(5), Event(5)]), "I5"));
    assert!(broken(i5_events_in_order(4, &[MissedTo(4)]), "I5"));
}

#[test]
fn i6_rest_is_a_host_or_a_reason_and_nothing_open() {
    let good = Rest { runs: true, ..Rest::default() };
    assert!(i6_at_rest(&good));
    assert!(i6_at_rest(&Rest { named_reason: true, ..Rest::default() }));
    assert!(!i6_at_rest(&Rest::default()), "neither");
    assert!(!i6_at_rest(&Rest { work: 1, ..good }));
    assert!(!i6_at_rest(&Rest { unsettled: 1, ..good }));
    assert!(!i6_at_rest(&Rest { open: 1, ..good }));
}

#[test]
fn i7_a_deadline_fires_once_and_epochs_do_not_go_back() {
    let firing = |timer, deadline, epoch| Firing { timer, deadline, epoch: Epoch(epoch) };
    assert!(i7_fires_once(&[firing(1, 10, 2), firing(1, 20, 2), firing(2, 10, 3)]).is_ok());
    assert!(broken(i7_fires_once(&[firing(1, 10, 2), firing(1, 10, 3)]), "I7"));
    assert!(broken(i7_fires_once(&[firing(1, 10, 3), firing(1, 20, 2)]), "I7"));
}

#[test]
fn i8_every_call_ends_once() {
    assert!(i8_one_outcome(&[1, 2], &[2, 1]).is_ok());
    assert!(broken(i8_one_outcome(&[1], &[]), "I8"));
    assert!(broken(i8_one_outcome(&[1], &[1, 1]), "I8"));
}

#[test]
fn i9_counts_every_part_of_a_record() {
    let room = RoomId::new("chat", "r").unwrap();
    let limits = RecordLimits { log_entries: 8, history: 1, ..RecordLimits::default() };
    let mut record = Record::born(Epoch(1), crate::id::Generation(1));
    assert!(i9_bounded(&room, &record, &limits).is_ok());
    record.history.extend([bytes::Bytes::new(), bytes::Bytes::new()]);
    assert!(broken(i9_bounded(&room, &record, &limits), "I9"));
}

#[test]
fn i10_wants_a_report_for_what_is_gone() {
    assert!(i10_reported(&[m(0, 1), m(0, 2)], &[m(0, 1)], &[m(0, 2)]).is_ok());
    assert!(broken(i10_reported(&[m(0, 1)], &[], &[]), "I10"));
}
