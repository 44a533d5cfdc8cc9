use super::{Adopter, AdopterAction, AdopterEvent, AdopterState, AdopterTimer};
use crate::id::{
    Activation, Epoch, HostId, Incarnation, Life, OutSeq, Position, Seq, SnapshotNumber,
};
use crate::protocol::cells;
use crate::protocol::record::{
    AcquireAnswer, Acquired, DeclineReason, Lease, OwnerAnswer, ParkReason, Phase, Seen,
    SnapshotKey, SnapshotRef,
};

const TABLE: &str = "
    Claiming   | ClaimUnanswered | =: Acquire
    Claiming   | SnapshotLost | Declining(restore): Decline(restore)
    Claiming   | Refused, NoSession, Missing, ClaimFired, Fenced | Lost: Discard
    Claiming   | Acquired | Restoring: Arm(Restore), Restore
    Claiming   | else | reject

    Restoring  | ClaimFired | =
    Restoring  | RestoreFired | GivingBack(deadline): Discard, GiveBack(deadline)
    Restoring  | RestoreFailed | GivingBack(kind): Discard, GiveBack(kind)
    Restoring  | Fenced | Lost: Discard
    Restoring  | Restored | Replaying
    Restoring  | else | reject

    Replaying  | ClaimFired | =
    Replaying  | RestoreFired | GivingBack(deadline): Discard, GiveBack(deadline)
    Replaying  | Progressed | =: Arm(Restore)
    Replaying  | RestoreFailed | GivingBack(kind): Discard, GiveBack(kind)
    Replaying  | Fenced | Lost: Discard
    Replaying  | CaughtUp | Settling: Settle
    Replaying  | else | reject

    Settling   | ClaimFired, RestoreFired, Progressed | =
    Settling   | SettleUnanswered | =: Settle
    Settling   | Settled | Live: GoLive
    Settling   | SettleFenced, Fenced | Lost: Discard
    Settling   | else | reject

    Live       | ClaimFired, RestoreFired, Progressed | =
    Live       | Fenced | Lost: Discard
    Live       | else | reject

    GivingBack | Restored, RestoreFailed, CaughtUp, ClaimFired, RestoreFired, Progressed | =
    GivingBack | GiveBackUnanswered | =: GiveBack(capacity)
    GivingBack | GaveBack, Fenced | Declined(capacity)
    GivingBack | else | reject

    Declining  | ClaimFired, RestoreFired, Progressed | =
    Declining  | DeclineAnswered, Fenced | Declined(capacity)
    Declining  | else | reject

    Declined, Lost | else | reject
";

const STATES: [&str; 9] = [
    "Claiming",
    "Restoring",
    "Replaying",
    "Settling",
    "Live",
    "GivingBack",
    "Declining",
    "Declined",
    "Lost",
];
const EVENTS: [&str; 19] = [
    "Acquired",
    "Refused",
    "NoSession",
    "SnapshotLost",
    "Missing",
    "ClaimUnanswered",
    "Restored",
    "RestoreFailed",
    "CaughtUp",
    "Settled",
    "SettleFenced",
    "SettleUnanswered",
    "GaveBack",
    "GiveBackUnanswered",
    "DeclineAnswered",
    "ClaimFired",
    "RestoreFired",
    "Progressed",
    "Fenced",
];

fn activation() -> Activation {
    let host = HostId::new("b").unwrap();
    Activation { by: Incarnation { host, number: 1 }, number: 7 }
}

fn lease() -> Lease {
    Lease { epoch: Epoch(2), owner: activation(), generation: crate::id::Generation(1) }
}

fn seen() -> Seen {
    Seen { epoch: Epoch(1), owner: None }
}

fn last_logged() -> Position {
    Position { ms: 4, n: 2 }
}

fn acquired() -> Acquired {
    Acquired {
        lease: lease(),
        life: Life(1),
        snapshot: None,
        out_seq: OutSeq(0),
        head: Seq(0),
        pruned: None,
        recovered: false,
        regressed: false,
        dead_letters: 0,
        page: Default::default(),
    }
}

fn snapshot() -> SnapshotRef {
    SnapshotRef {
        key: SnapshotKey { by: activation(), attempt: 1 },
        number: SnapshotNumber(3),
        cursor: Position::START,
        cursor_seq: Seq(0),
        unread: 0,
        bytes: 0,
        schema: 1,
        next_timer: None,
    }
}

fn state(name: &str) -> AdopterState {
    let (lease, why) = (lease(), DeclineReason::OverCapacity);
    match name {
        "Claiming" => AdopterState::Claiming,
        "Restoring" => AdopterState::Restoring { lease },
        "Replaying" => AdopterState::Replaying { lease },
        "Settling" => AdopterState::Settling { lease },
        "Live" => AdopterState::Live { lease },
        "GivingBack" => AdopterState::GivingBack { lease, why },
        "Declining" => AdopterState::Declining { why },
        "Declined" => AdopterState::Declined { why },
        "Lost" => AdopterState::Lost,
        other => panic!("{other}"),
    }
}

fn event(name: &str) -> AdopterEvent {
    let claim = AdopterEvent::ClaimAnswered;
    match name {
        "Acquired" => claim(AcquireAnswer::Acquired(Box::new(acquired()))),
        "Refused" => claim(AcquireAnswer::Refused {
            seen: seen(),
            phase: Phase::Parked { why: ParkReason::Idle },
        }),
        "NoSession" => claim(AcquireAnswer::NoSession),
        "SnapshotLost" => claim(AcquireAnswer::SnapshotLost { snapshot: Box::new(snapshot()) }),
        "Missing" => claim(AcquireAnswer::Missing),
        "ClaimUnanswered" => AdopterEvent::ClaimUnanswered,
        "Restored" => AdopterEvent::Restored,
        "RestoreFailed" => AdopterEvent::RestoreFailed(DeclineReason::UnknownKind),
        "CaughtUp" => AdopterEvent::CaughtUp,
        "Settled" => AdopterEvent::SettleAnswered(OwnerAnswer::Settled { last: last_logged() }),
        "SettleFenced" => AdopterEvent::SettleAnswered(OwnerAnswer::Fenced { epoch: Epoch(9) }),
        "SettleUnanswered" => AdopterEvent::SettleUnanswered,
        "GaveBack" => AdopterEvent::GaveBack,
        "GiveBackUnanswered" => AdopterEvent::GiveBackUnanswered,
        "DeclineAnswered" => AdopterEvent::DeclineAnswered,
        "ClaimFired" => AdopterEvent::Fired(AdopterTimer::Claim),
        "RestoreFired" => AdopterEvent::Fired(AdopterTimer::Restore),
        "Progressed" => AdopterEvent::Progressed,
        "Fenced" => AdopterEvent::Fenced,
        other => panic!("{other}"),
    }
}

fn why(reason: &DeclineReason) -> &'static str {
    match reason {
        DeclineReason::UnknownKind => "kind",
        DeclineReason::OverCapacity => "capacity",
        DeclineReason::DeadlineMissed => "deadline",
        DeclineReason::RestoreFailed { .. } => "restore",
        DeclineReason::UnreadableVersion { .. } => "version",
        DeclineReason::Draining => "draining",
    }
}

/// An action as the table names it. What it carries is compared here, once for all rows.
fn action(action: &AdopterAction) -> String {
    match action {
        AdopterAction::Acquire { activation: a, seen: s } => {
            assert_eq!((a, s), (&activation(), &seen()), "the same acquire again");
            "Acquire".to_owned()
        }
        AdopterAction::Restore(given) => {
            assert_eq!(**given, acquired());
            "Restore".to_owned()
        }
        AdopterAction::Settle { lease: l } => named("Settle", l),
        AdopterAction::GoLive { lease: l, last } => {
            assert_eq!(*last, last_logged());
            named("GoLive", l)
        }
        AdopterAction::GiveBack { lease: l, why: w } => {
            format!("{}({})", named("GiveBack", l), why(w))
        }
        AdopterAction::Discard => "Discard".to_owned(),
        AdopterAction::Decline { why: w } => format!("Decline({})", why(w)),
        AdopterAction::Arm(timer) => format!("Arm({timer:?})"),
    }
}

fn named(name: &str, given: &Lease) -> String {
    assert_eq!(*given, lease());
    name.to_owned()
}

fn next(adopter: &Adopter) -> String {
    match adopter.state() {
        AdopterState::GivingBack { why: w, .. }
        | AdopterState::Declining { why: w }
        | AdopterState::Declined { why: w } => format!("{}({})", adopter.state_name(), why(w)),
        AdopterState::Claiming
        | AdopterState::Restoring { .. }
        | AdopterState::Replaying { .. }
        | AdopterState::Settling { .. }
        | AdopterState::Live { .. }
        | AdopterState::Lost => adopter.state_name().to_owned(),
    }
}

#[test]
fn every_cell_of_the_adopter() {
    cells::check(TABLE, &STATES, &EVENTS, |name, event_name| {
        let before = Adopter { activation: activation(), seen: seen(), state: state(name) };
        let mut adopter = before.clone();
        let stepped = adopter.step(event(event_name));
        let stepped = stepped.map(|actions| actions.iter().map(action).collect());
        cells::cell(name, &next(&adopter), stepped, adopter == before)
    });
}

#[test]
fn an_acceptable_offer_is_claimed_with_a_deadline_and_another_is_declined() {
    let (adopter, actions) = Adopter::start(activation(), seen(), Ok(()));
    assert_eq!(*adopter.state(), AdopterState::Claiming);
    assert_eq!(actions.iter().map(action).collect::<Vec<_>>(), ["Arm(Claim)", "Acquire"]);

    let (adopter, actions) = Adopter::start(activation(), seen(), Err(DeclineReason::Draining));
    assert_eq!(*adopter.state(), AdopterState::Declining { why: DeclineReason::Draining });
    assert_eq!(actions.iter().map(action).collect::<Vec<_>>(), ["Decline(draining)"]);
}

#[test]
fn a_lease_is_named_in_exactly_the_states_that_hold_one() {
    for name in STATES {
        let adopter = Adopter { activation: activation(), seen: seen(), state: state(name) };
        let holds = ["Restoring", "Replaying", "Settling", "Live", "GivingBack"].contains(&name);
        assert_eq!(adopter.lease().is_some(), holds, "{name}");
        assert_eq!(adopter.is_done(), ["Live", "Declined", "Lost"].contains(&name), "{name}");
    }
}
