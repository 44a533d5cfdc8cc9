use super::bench::{Bench, activation, batch, client, room};
use super::*;
use crate::id::{Number, RoomId};

fn accepted(last: u64, seq: u64, standing: Standing) -> AppendAnswer {
    AppendAnswer::Accepted { last: Number(last), seq: Seq(seq), life: Life(1), standing }
}

#[test]
fn a_batch_is_one_entry_and_is_pushed_to_the_owner() {
    let (mut bench, lease) = Bench::running();
    let request = Request::Append {
        life: Some(Life(1)),
        producer: client(5),
        epoch: 0,
        first: Number(1),
        batch: batch(&["x", "y"]),
    };
    let (answer, effects) = bench.ask(request);
    assert_eq!(answer, Answer::Append(accepted(2, 2, Standing::Running)));
    let entry = bench.record.log[0].clone();
    assert_eq!((entry.first_seq, entry.last_seq(), entry.first), (Seq(1), Seq(2), Number(1)));
    assert_eq!(
        effects,
        [Effect::Push {
            to: lease.owner.by,
            epoch: lease.epoch,
            generation: lease.generation,
            entry
        }]
    );
}

#[test]
fn a_room_that_nobody_runs_says_so() {
    let mut bench = Bench::new();
    assert_eq!(bench.append(client(5), 1, &["x"]), accepted(1, 1, Standing::NeedsHost));
    bench.offer("b", 9);
    assert_eq!(bench.append(client(5), 2, &["y"]), accepted(2, 2, Standing::Running), "on offer");
    bench.now = Millis(9);
    assert_eq!(bench.append(client(5), 3, &["z"]), accepted(3, 3, Standing::NeedsHost), "over");
    bench.now = Millis(0);
    bench.alive.clear();
    assert_eq!(bench.append(client(5), 4, &["w"]), accepted(4, 4, Standing::NeedsHost), "dead");
}

#[test]
fn numbers_continue_or_are_told_where_to_go_on() {
    let (mut bench, _) = Bench::running();
    bench.append(client(5), 1, &["1", "2"]);
    bench.append(client(6), 1, &["other"]);
    let (last, seq) = (Number(2), Seq(3));
    let duplicate =
        AppendAnswer::Duplicate { last, seq, life: Life(1), standing: Standing::Running };
    assert_eq!(bench.append(client(5), 1, &["1", "2"]), duplicate);
    assert_eq!(bench.append(client(5), 2, &["2"]), duplicate);
    assert_eq!(bench.append(client(5), 2, &["2", "3"]), AppendAnswer::Partial { last, seq });
    assert_eq!(bench.append(client(5), 4, &["4"]), AppendAnswer::Gap { last, seq });
    assert_eq!(bench.logged(), ["1", "2", "other"], "no refusal wrote anything");
    assert_eq!(bench.append(client(5), 3, &["3"]), accepted(3, 4, Standing::Running));
}

#[test]
fn h03_a_withdrawal_tells_the_last_number_and_fences_older_copies() {
    let (mut bench, _) = Bench::running();
    bench.append(client(5), 1, &["1"]);
    let withdrawn = bench.append_as(None, client(5), 1, 2, &[]);
    assert_eq!(withdrawn, accepted(1, 1, Standing::Running));
    let late = bench.append_as(None, client(5), 0, 2, &["2"]);
    let fenced = AppendAnswer::Fenced { epoch: 1, last: Some(Number(1)), now: Millis(0) };
    assert_eq!(late, fenced);
    assert_eq!(
        bench.append_as(None, client(5), 1, 2, &["other 2"]),
        accepted(2, 2, Standing::Running)
    );
    assert_eq!(bench.append_as(None, client(5), 1, 3, &[]), accepted(2, 2, Standing::Running));
    assert_eq!(bench.logged(), ["1", "other 2"]);
}

#[test]
fn who_asks_for_the_life_leaves_nothing_behind() {
    let (mut bench, _) = Bench::running();
    let before = bench.record.clone();
    assert_eq!(bench.append(client(5), 1, &[]), accepted(0, 0, Standing::Running));
    assert_eq!(bench.record, before);
}

#[test]
fn h17_a_message_of_another_life_is_refused() {
    let (mut bench, _) = Bench::running();
    let answer = bench.append_as(Some(Life(9)), client(5), 0, 1, &["x"]);
    assert_eq!(answer, AppendAnswer::OtherLife { life: Life(1) });
    bench.record.phase = Phase::Closed { reason: "over".to_owned() };
    let closed = AppendAnswer::Closed { reason: "over".to_owned() };
    assert_eq!(bench.append_as(Some(Life(1)), client(5), 0, 1, &["x"]), closed);
    let answer = bench.append_as(Some(Life(9)), client(5), 0, 1, &["x"]);
    assert_eq!(answer, AppendAnswer::OtherLife { life: Life(1) }, "the life comes first");
}

#[test]
fn h25_a_pruned_producer_is_fenced_and_a_younger_one_is_not() {
    let (mut bench, _) = Bench::running();
    bench.limits.producers = 1;
    bench.append(client(5), 1, &["old"]);
    bench.append(client(7), 1, &["new"]);
    assert_eq!(bench.record.producers.len(), 1, "the one that was silent longest is forgotten");
    let fenced = AppendAnswer::Fenced { epoch: 0, last: None, now: Millis(0) };
    assert_eq!(bench.append(client(5), 1, &["old"]), fenced, "a late copy is not taken twice");
    assert_eq!(bench.append(client(4), 1, &["older"]), fenced);
    assert_eq!(bench.append(client(8), 1, &["young"]), accepted(1, 3, Standing::Running));
}

#[test]
fn rooms_are_not_pruned_and_a_full_record_takes_no_more_of_them() {
    let (mut bench, _) = Bench::running();
    bench.limits.producers = 2;
    let other = |key: &'static str| Producer::Room(RoomId::new("chat", key).unwrap(), Life(3));
    bench.append(client(5), 1, &["host"]);
    bench.append(other("x"), 1, &["x"]);
    bench.append(other("y"), 1, &["y"]);
    assert_eq!(bench.append(other("z"), 1, &["z"]), AppendAnswer::Full { seq: Seq(3) });
    assert_eq!(bench.append_as(None, other("z"), 1, 1, &[]), AppendAnswer::Full { seq: Seq(3) });
    assert_eq!(bench.append(other("x"), 2, &["x"]), accepted(2, 4, Standing::Running));
    assert_eq!(bench.record.producers.len(), 2);
}

#[test]
fn h28_others_leave_the_rooms_own_reserve_alone() {
    let (mut bench, lease) = Bench::running();
    bench.limits.log_entries = 8;
    for number in 1..=7 {
        assert_eq!(
            bench.append(client(5), number, &["x"]),
            accepted(number, number, Standing::Running)
        );
    }
    let full = AppendAnswer::Full { seq: Seq(7) };
    assert_eq!(bench.append(client(5), 8, &["x"]), full, "an eighth is the room's own");
    let own = Producer::Room(room(), Life(1));
    assert_eq!(bench.append(own.clone(), 1, &["tick"]), accepted(1, 8, Standing::Running));
    assert_eq!(bench.append(own, 2, &["tick"]), AppendAnswer::Full { seq: Seq(8) });
    let snapshot = bench.snapshot(&lease, 1);
    assert_eq!(bench.checkpoint(&lease, snapshot), OwnerAnswer::Done);
    assert_eq!(bench.append(client(5), 8, &["x"]), accepted(8, 9, Standing::Running));
}

#[test]
fn h28_bytes_are_bounded_with_the_same_reserve() {
    let (mut bench, lease) = Bench::running();
    bench.limits.log_bytes = 8;
    assert_eq!(bench.append(client(5), 1, &["1234567"]), accepted(1, 1, Standing::Running));
    assert_eq!(bench.append(client(5), 2, &["8"]), AppendAnswer::Full { seq: Seq(1) });
    let own = Producer::Activation(room(), activation("a", 1));
    assert_eq!(bench.append(own, 1, &["8"]), accepted(1, 2, Standing::Running));
    assert_eq!(bench.record.log_bytes, 8);
    let received = bench.record.last;
    assert_eq!(bench.owner(Request::Ack { lease, received }), OwnerAnswer::Done);
    assert_eq!(bench.record.log_bytes, 0);
}

#[test]
fn a_position_never_comes_again() {
    let (mut bench, lease) = Bench::running();
    bench.now = Millis(5);
    bench.append(client(5), 1, &["x"]);
    let first = bench.record.last;
    bench.owner(Request::Ack { lease, received: first });
    assert!(bench.record.log.is_empty());
    bench.now = Millis(0);
    bench.append(client(5), 2, &["y"]);
    assert!(bench.record.last > first, "whatever was trimmed, and whatever the clock says");
}
