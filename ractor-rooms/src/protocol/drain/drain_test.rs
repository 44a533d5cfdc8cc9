use std::collections::{BTreeMap, BTreeSet};

use super::{Drain, DrainAction, DrainBudget, DrainEnd, DrainEvent, Here, Overdue, Stay, Way};
use crate::id::{HostId, RoomId};

fn room(number: u32) -> RoomId {
    RoomId::new("chat", format!("{number}")).unwrap()
}

fn host(name: &str) -> HostId {
    HostId::new(name).unwrap()
}

fn here(bytes: u64, overdue: Overdue) -> Here {
    Here { bytes, overdue }
}

fn found(rooms: impl IntoIterator<Item = (u32, u64)>) -> DrainEvent {
    let rooms = rooms.into_iter().map(|(n, bytes)| (room(n), here(bytes, Overdue::Park)));
    DrainEvent::Found { rooms: rooms.collect(), busy: BTreeSet::new() }
}

fn one(overdue: Overdue) -> DrainEvent {
    DrainEvent::Found { rooms: [(room(1), here(1, overdue))].into(), busy: BTreeSet::new() }
}

fn moves(actions: &[DrainAction]) -> Vec<u32> {
    let number = |action: &DrainAction| {
        let DrainAction::Move { room, .. } = action else { panic!("{action:?}") };
        std::str::from_utf8(room.key.as_bytes()).unwrap().parse().unwrap()
    };
    actions.iter().map(number).collect()
}

fn left(number: u32) -> DrainEvent {
    DrainEvent::Left { room: room(number) }
}

fn stayed(number: u32, why: Stay) -> DrainEvent {
    DrainEvent::Stayed { room: room(number), why }
}

fn blocked() -> Stay {
    Stay::Blocked { why: "it does not return".to_owned() }
}

fn start(rooms: usize, bytes: u64) -> Drain {
    let (drain, first) = Drain::start(DrainBudget { rooms, bytes });
    assert_eq!(first, [DrainAction::Look]);
    drain
}

#[test]
fn no_more_rooms_leave_at_once_than_the_budget_says() {
    let mut drain = start(2, 100);
    assert_eq!(moves(&drain.step(found((1..=4).map(|n| (n, 1))))), [1, 2]);
    assert_eq!((drain.remaining(), drain.leaving()), (4, 2));
    assert_eq!(moves(&drain.step(left(2))), [3]);
    assert_eq!(
        moves(&drain.step(found((1..=4).filter(|n| *n != 2).map(|n| (n, 1))))),
        Vec::<u32>::new()
    );
    assert_eq!(moves(&drain.step(left(1))), [4]);
    assert_eq!(drain.step(left(3)), []);
    assert_eq!(drain.step(left(4)), [DrainAction::Look], "one may have come meanwhile");
    assert_eq!(drain.step(found([])), [DrainAction::End(DrainEnd::Drained)]);
    assert_eq!(drain.left(Way::Move), 4);
    assert_eq!(drain.step(found([(9, 1)])), [], "it is over");
}

#[test]
fn a_large_room_waits_for_its_turn_and_goes_alone() {
    let mut drain = start(10, 100);
    assert_eq!(
        moves(&drain.step(found([(1, 60), (2, 500), (3, 1)]))),
        [1],
        "3 does not overtake 2"
    );
    assert_eq!(moves(&drain.step(left(1))), [2]);
    assert_eq!(moves(&drain.step(left(2))), [3]);
}

#[test]
fn a_room_that_comes_while_the_host_drains_leaves_too() {
    let mut drain = start(4, 100);
    let none = BTreeMap::new();
    assert_eq!(
        drain.step(DrainEvent::Found { rooms: none, busy: [room(1)].into() }),
        [],
        "it is being taken"
    );
    assert_eq!(drain.remaining(), 1);
    assert_eq!(moves(&drain.step(found([(1, 1)]))), [1]);
    assert_eq!(drain.step(left(1)), [DrainAction::Look]);
    assert_eq!(drain.step(found([])), [DrainAction::End(DrainEnd::Drained)]);
}

#[test]
fn a_room_that_ended_by_itself_is_not_waited_for() {
    let mut drain = start(1, 100);
    assert_eq!(moves(&drain.step(found([(1, 1), (2, 1)]))), [1]);
    assert_eq!(drain.step(found([])), [], "the one that leaves is heard of");
    assert_eq!(drain.step(left(1)), [DrainAction::Look]);
    assert_eq!(drain.step(found([])), [DrainAction::End(DrainEnd::Drained)]);
    assert_eq!(drain.left(Way::Move), 1);
}

#[test]
fn a_room_that_stays_is_tried_again_in_the_next_round_and_elsewhere() {
    let mut drain = start(1, 100);
    let declined = |by: &str| Stay::Declined { by: host(by), why: "it is full".to_owned() };
    let to = |declined: &[&str]| {
        let declined = declined.iter().map(|by| host(by)).collect();
        [DrainAction::Move { room: room(1), declined }]
    };
    assert_eq!(drain.step(found([(1, 1)])), to(&[]));
    assert_eq!(drain.step(stayed(1, declined("b"))), [], "not before the next round");
    assert_eq!(drain.blockers().collect::<Vec<_>>(), [(&room(1), "b did not take it: it is full")]);
    assert_eq!(drain.step(found([(1, 1)])), to(&["b"]));
    assert_eq!(drain.step(stayed(1, declined("c"))), []);
    assert_eq!(drain.step(found([(1, 1)])), to(&["b", "c"]));
    assert_eq!(drain.step(stayed(1, Stay::NoHost)), []);
    assert_eq!(drain.step(found([(1, 1)])), to(&[]), "all are asked again");
}

#[test]
fn a_room_that_stays_holds_nobody_up() {
    let mut drain = start(1, 100);
    assert_eq!(moves(&drain.step(found([(1, 1), (2, 1)]))), [1]);
    assert_eq!(moves(&drain.step(stayed(1, blocked()))), [2]);
    assert_eq!(drain.step(left(2)), [], "a round later");
    assert_eq!(moves(&drain.step(found([(1, 1)]))), [1]);
}

#[test]
fn after_the_deadline_rooms_go_by_the_policy_of_their_kind() {
    let close = Overdue::Close { reason: "deploy".to_owned() };
    let closed = DrainAction::Close { room: room(1), reason: "deploy".to_owned() };
    let parked = DrainAction::Park { room: room(1) };
    let moved = DrainAction::Move { room: room(1), declined: Vec::new() };
    for (policy, action, way) in [
        (Overdue::Park, parked, Way::Park),
        (close, closed, Way::Close),
        (Overdue::Wait, moved, Way::Move),
    ] {
        let mut drain = start(1, 100);
        drain.step(one(policy));
        drain.step(stayed(1, Stay::NoHost));
        assert_eq!(drain.step(DrainEvent::Overdue), [action]);
        assert_eq!(drain.step(left(1)), [DrainAction::Look]);
        assert_eq!(drain.left(way), 1);
    }
}

#[test]
fn a_handler_that_never_returns_is_stopped_only_after_the_deadline_and_by_the_policy() {
    for (policy, stopped) in [
        (Overdue::Park, true),
        (Overdue::Close { reason: "deploy".to_owned() }, true),
        (Overdue::Wait, false),
    ] {
        let mut drain = start(1, 100);
        for _ in 0..3 {
            assert_eq!(moves(&drain.step(one(policy.clone()))), [1]);
            drain.step(stayed(1, blocked()));
        }
        let late = drain.step(DrainEvent::Overdue);
        let kill = [DrainAction::Kill { room: room(1) }];
        assert_ne!(late, kill, "it gets a last chance");
        drain.step(stayed(1, blocked()));
        assert_eq!(drain.step(one(policy)) == kill, stopped);
    }
}

#[test]
fn a_move_that_was_under_way_at_the_deadline_is_the_last_chance_of_a_handler() {
    let mut drain = start(1, 100);
    assert_eq!(moves(&drain.step(one(Overdue::Park))), [1]);
    assert_eq!(drain.step(DrainEvent::Overdue), []);
    drain.step(stayed(1, blocked()));
    assert_eq!(drain.step(one(Overdue::Park)), [DrainAction::Kill { room: room(1) }]);
}

#[test]
fn a_cancelled_drain_waits_for_what_is_leaving() {
    let mut drain = start(2, 100);
    drain.step(found([(1, 1), (2, 1), (3, 1)]));
    assert_eq!(drain.step(DrainEvent::Cancelled), []);
    assert_eq!(drain.step(left(1)), []);
    let stays = Stay::Failed { why: "it could not".to_owned() };
    assert_eq!(drain.step(stayed(2, stays)), [DrainAction::End(DrainEnd::Cancelled)]);
    assert_eq!(drain.remaining(), 2);
    let mut idle = start(2, 100);
    assert_eq!(idle.step(DrainEvent::Cancelled), [DrainAction::End(DrainEnd::Cancelled)]);
}

#[test]
fn what_is_said_of_rooms_that_are_not_here_changes_nothing() {
    let mut drain = start(2, 100);
    drain.step(found([(1, 1)]));
    let before = drain.clone();
    assert_eq!(drain.step(stayed(7, blocked())), []);
    assert_eq!(drain.step(left(7)), []);
    assert_eq!(drain, before);
}
