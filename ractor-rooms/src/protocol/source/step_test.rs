use super::{
    AbortReason, Goal, Outcome, Source, SourceAction, SourceEvent, SourceState, SourceTimer,
};
use crate::id::{Activation, Epoch, HostId, Incarnation, Life, Millis, OutSeq, Position, Seq};
use crate::protocol::cells;
use crate::protocol::record::{DeclineReason, ParkReason, Phase, RecordView, Seen};

/// A move from host `a`, epoch 5, to host `b`.
const MOVE: &str = "
    Pending       | Froze | Frozen: Upload
    Pending       | Lost | Gone: Release, Report
    Pending       | FreezeFailed | Thawed(large): Thaw, Report
    Pending       | FreezeFired | Thawed(late): Thaw, Report
    Pending       | OtherGeneration | Pending/reassert
    Pending       | else | reject

    Frozen        | FreezeFired | =
    Frozen        | Lost | Gone: Release, Report
    Frozen        | Uploaded | Snapshotted: Park(b)
    Frozen        | UploadFailed | Thawed(upload): Thaw, Report
    Frozen        | OtherGeneration | Resuming: Reassert
    Frozen        | else | reject

    Snapshotted   | FreezeFired | =
    Snapshotted   | ParkFenced, ParkUnanswered | Doubtful: Watch
    Snapshotted   | Lost | Gone: Release, Report
    Snapshotted   | Parked | Offered: Arm(Offer), Watch
    Snapshotted   | ParkRefused | Thawed(upload): Thaw, Report
    Snapshotted   | OtherGeneration | Resuming: Reassert
    Snapshotted   | else | reject

    Doubtful      | FreezeFired | =
    Doubtful      | ParkFenced, ParkRefused, ParkUnanswered | =: Watch
    Doubtful      | SawUsSettled | Adopted(a): Release
    Doubtful      | SawPeerSettled | Adopted(b): Release
    Doubtful      | SawOurs | Doubtful/self: Park(a)
    Doubtful      | SawClosed, SawClosedLater, Lost | Gone: Release, Report
    Doubtful      | SawOffered, SawParked, SawDeclined, SawBlocked | Offered: Arm(Offer), Watch
    Doubtful      | SawOfferedOn, SawRunningFree | Offered: Arm(Offer), Watch
    Doubtful      | SawPeer | Relaying(b 6): Arm(Relay), Watch
    Doubtful      | SawPeerAgain | Relaying(c 7): Arm(Relay), Watch
    Doubtful      | Parked, SawOfferedToUs, SawOfferedOnToUs | Resuming: Reacquire
    Doubtful      | SawGivenBack, SawPeerDead | Resuming: Reacquire
    Doubtful      | OtherGeneration | Resuming: Reassert
    Doubtful      | else | reject

    Doubtful/self | FreezeFired | =
    Doubtful/self | SawOurs | =: Park(a)
    Doubtful/self | ParkFenced, ParkRefused, ParkUnanswered | =: Watch
    Doubtful/self | SawUsSettled | Adopted(a): Release
    Doubtful/self | SawPeerSettled | Adopted(b): Release
    Doubtful/self | SawClosed, SawClosedLater, Lost | Gone: Release, Report
    Doubtful/self | SawOffered, SawParked, SawDeclined, SawBlocked | Offered: Arm(Offer), Watch
    Doubtful/self | SawOfferedOn, SawRunningFree | Offered: Arm(Offer), Watch
    Doubtful/self | SawPeer | Relaying(b 6): Arm(Relay), Watch
    Doubtful/self | SawPeerAgain | Relaying(c 7): Arm(Relay), Watch
    Doubtful/self | Parked, SawOfferedToUs, SawOfferedOnToUs | Resuming: Reacquire
    Doubtful/self | SawGivenBack, SawPeerDead | Resuming: Reacquire
    Doubtful/self | OtherGeneration | Resuming: Reassert
    Doubtful/self | else | reject

    Offered       | FreezeFired, RelayFired, RetakeFired, Progressed | =
    Offered       | SawOurs, SawOffered, SawOfferedOn, SawRunningFree | =: Watch
    Offered       | SawUsSettled | Adopted(a): Release
    Offered       | SawPeerSettled | Adopted(b): Release
    Offered       | SawClosed, SawClosedLater, Lost | Gone: Release, Report
    Offered       | SawPeer | Relaying(b 6): Arm(Relay), Watch
    Offered       | SawPeerAgain | Relaying(c 7): Arm(Relay), Watch
    Offered       | SawDeclined, SawBlocked | Resuming(capacity): Reacquire
    Offered       | SawOfferedToUs, SawOfferedOnToUs | Resuming: Reacquire
    Offered       | SawParked, SawGivenBack, SawPeerDead, OfferFired | Resuming: Reacquire
    Offered       | OtherGeneration | Resuming: Reassert
    Offered       | else | reject

    Relaying      | FreezeFired, OfferFired, RetakeFired | =
    Relaying      | SawOurs, SawOffered, SawOfferedToUs, SawParked, SawDeclined | =: Watch
    Relaying      | SawBlocked, SawClosed, SawPeer | =: Watch
    Relaying      | RelayFired | Abandoned(b): Release, Report
    Relaying      | Progressed | =: Arm(Relay)
    Relaying      | SawUsSettled | Adopted(a): Release
    Relaying      | SawPeerSettled | Adopted(b): Release
    Relaying      | SawClosedLater, Lost | Gone: Release, Report
    Relaying      | SawOfferedOn, SawRunningFree | Offered: Arm(Offer), Watch
    Relaying      | SawPeerAgain | Relaying(c 7): Arm(Relay), Watch
    Relaying      | SawGivenBack, SawPeerDead, SawOfferedOnToUs | Resuming: Reacquire
    Relaying      | OtherGeneration | Resuming: Reassert
    Relaying      | else | reject

    Adopted       | Released | Migrated(b): Report
    Adopted       | Froze, FreezeFailed, Uploaded, UploadFailed, Parked, ParkFenced, ParkRefused, ParkUnanswered | reject
    Adopted       | Reacquired, ReacquireRefused, Reopened | reject
    Adopted       | else | =

    Resuming      | Lost | Gone: Release, Report
    Resuming      | ReacquireRefused | Offered: Arm(Offer), Watch
    Resuming      | Reacquired | Resumed(draining): Release, Report
    Resuming      | Froze, FreezeFailed, Uploaded, UploadFailed, Parked, ParkFenced, ParkRefused, ParkUnanswered | reject
    Resuming      | Released, Reopened | reject
    Resuming      | OtherGeneration | Resuming: Reassert
    Resuming      | else | =

    Migrated, Parked, Resumed, Thawed, Abandoned, Gone | else | reject
";

/// Where an unload differs from a move.
const UNLOAD: &str = "
    Frozen        | Uploaded                                       | Snapshotted: Park(rest)
    Snapshotted   | Parked                                         | Parked: Release, Report
    Doubtful      | SawOffered, SawParked, SawDeclined, SawBlocked | Parked: Release, Report
    Doubtful/self | SawOffered, SawParked, SawDeclined, SawBlocked | Parked: Release, Report
";

/// Where a re-assert does. It never parks.
const REASSERT: &str = "
    Pending       | Froze                                          | Resuming: Reassert
    Pending       | OtherGeneration                                | =
    Resuming      | ReacquireRefused                               | Gone: Release, Report
    Frozen        | Uploaded                                       | Snapshotted: Park(rest)
    Snapshotted   | Parked                                         | Parked: Release, Report
    Doubtful      | SawOffered, SawParked, SawDeclined, SawBlocked | Parked: Release, Report
    Doubtful/self | SawOffered, SawParked, SawDeclined, SawBlocked | Parked: Release, Report
";

/// Where a room that is held and taken back does. It never parks and never thaws.
const RETAKE: &str = "
    Pending       | Froze                                          | Resuming
    Pending       | FreezeFailed, FreezeFired                      | Gone: Release, Report
    Pending       | OtherGeneration, Reopened                      | =
    Resuming      | Reopened                                       | =: Arm(Retake), Retake
    Resuming      | ReacquireRefused, RetakeFired, Lost            | Gone: Diverge, Report
    Resuming      | OtherGeneration                                | =
    Frozen        | Uploaded                                       | Snapshotted: Park(rest)
    Snapshotted   | Parked                                         | Parked: Release, Report
    Doubtful      | SawOffered, SawParked, SawDeclined, SawBlocked | Parked: Release, Report
    Doubtful/self | SawOffered, SawParked, SawDeclined, SawBlocked | Parked: Release, Report
";

const STATES: [&str; 15] = [
    "Pending",
    "Frozen",
    "Snapshotted",
    "Doubtful",
    "Doubtful/self",
    "Offered",
    "Relaying",
    "Adopted",
    "Resuming",
    "Migrated",
    "Parked",
    "Resumed",
    "Thawed",
    "Abandoned",
    "Gone",
];
const EVENTS: [&str; 36] = [
    "Froze",
    "FreezeFailed",
    "Uploaded",
    "UploadFailed",
    "Parked",
    "ParkFenced",
    "ParkRefused",
    "ParkUnanswered",
    "SawOurs",
    "SawOffered",
    "SawOfferedToUs",
    "SawParked",
    "SawDeclined",
    "SawBlocked",
    "SawClosed",
    "SawPeer",
    "SawPeerAgain",
    "SawPeerDead",
    "SawPeerSettled",
    "SawUsSettled",
    "SawGivenBack",
    "SawOfferedOn",
    "SawOfferedOnToUs",
    "SawRunningFree",
    "SawClosedLater",
    "Reacquired",
    "ReacquireRefused",
    "Released",
    "FreezeFired",
    "OfferFired",
    "RelayFired",
    "RetakeFired",
    "Progressed",
    "OtherGeneration",
    "Reopened",
    "Lost",
];

fn host(name: &str) -> HostId {
    HostId::new(name).unwrap()
}

fn owner(name: &str) -> Option<Activation> {
    Some(Activation { by: Incarnation { host: host(name), number: 1 }, number: 1 })
}

fn state(name: &str) -> SourceState {
    let ended = |outcome| SourceState::Ended(outcome);
    match name {
        "Pending" => SourceState::Pending,
        "Frozen" => SourceState::Frozen,
        "Snapshotted" => SourceState::Snapshotted,
        "Doubtful" => SourceState::Doubtful { to_self: false },
        "Doubtful/self" => SourceState::Doubtful { to_self: true },
        "Offered" => SourceState::Offered,
        "Relaying" => SourceState::Relaying { by: host("b"), epoch: Epoch(6) },
        "Adopted" => SourceState::Adopted { by: host("b") },
        "Resuming" => SourceState::Resuming { why: Some(DeclineReason::Draining) },
        "Migrated" => ended(Outcome::Migrated { to: host("b") }),
        "Parked" => ended(Outcome::Parked),
        "Resumed" => ended(Outcome::Resumed { why: None }),
        "Thawed" => ended(Outcome::Thawed { why: AbortReason::FreezeTimedOut }),
        "Abandoned" => ended(Outcome::Abandoned { by: host("b") }),
        "Gone" => ended(Outcome::Gone),
        other => panic!("{other}"),
    }
}

fn saw(epoch: u64, owner: Option<Activation>, settled: bool, phase: Phase) -> SourceEvent {
    SourceEvent::Saw(Box::new(view(epoch, owner, settled, phase)))
}

fn view(epoch: u64, owner: Option<Activation>, settled: bool, phase: Phase) -> RecordView {
    RecordView {
        life: Life(1),
        seen: Seen { epoch: Epoch(epoch), owner },
        owner_alive: true,
        settled,
        phase,
        seq: Seq(0),
        last: Position::START,
        snapshot: None,
        backlog: false,
        out_seq: OutSeq(0),
        declined: Vec::new(),
        crashes: 0,
        dead_letters: 0,
    }
}

fn event(name: &str) -> SourceEvent {
    let offered = |to| Phase::Offered { to: host(to), until: Millis(9) };
    let parked = |why| Phase::Parked { why };
    let closed = || Phase::Closed { reason: "over".to_owned() };
    let why = DeclineReason::OverCapacity;
    match name {
        "Froze" => SourceEvent::Froze,
        "FreezeFailed" => {
            SourceEvent::FreezeFailed(AbortReason::SnapshotTooLarge { size: 2, limit: 1 })
        }
        "Uploaded" => SourceEvent::Uploaded,
        "UploadFailed" => SourceEvent::UploadFailed { error: "x".to_owned() },
        "Parked" => SourceEvent::Parked,
        "ParkFenced" => SourceEvent::ParkFenced,
        "ParkRefused" => SourceEvent::ParkRefused,
        "ParkUnanswered" => SourceEvent::ParkUnanswered,
        "SawOurs" => saw(5, owner("a"), true, Phase::Running),
        "SawOffered" => saw(5, None, false, offered("b")),
        "SawOfferedToUs" => saw(5, None, false, offered("a")),
        "SawParked" => saw(5, None, false, parked(ParkReason::Idle)),
        "SawDeclined" => saw(5, None, false, parked(ParkReason::Declined { why })),
        "SawBlocked" => {
            saw(5, None, false, parked(ParkReason::Blocked { retry_after: Millis(9), why }))
        }
        "SawClosed" => saw(5, None, false, closed()),
        "SawPeer" => saw(6, owner("b"), false, Phase::Running),
        "SawPeerAgain" => saw(7, owner("c"), false, Phase::Running),
        "SawPeerDead" => {
            let view = view(6, owner("b"), false, Phase::Running);
            SourceEvent::Saw(Box::new(RecordView { owner_alive: false, ..view }))
        }
        "SawPeerSettled" => saw(6, owner("b"), true, Phase::Running),
        "SawUsSettled" => saw(6, owner("a"), true, Phase::Running),
        "SawGivenBack" => saw(6, None, false, parked(ParkReason::GivenBack)),
        "SawOfferedOn" => saw(6, None, false, offered("c")),
        "SawOfferedOnToUs" => saw(6, None, false, offered("a")),
        "SawRunningFree" => saw(6, None, false, Phase::Running),
        "SawClosedLater" => saw(6, None, false, closed()),
        "Reacquired" => SourceEvent::Reacquired,
        "ReacquireRefused" => SourceEvent::ReacquireRefused,
        "Released" => SourceEvent::Released,
        "FreezeFired" => SourceEvent::Fired(SourceTimer::Freeze),
        "OfferFired" => SourceEvent::Fired(SourceTimer::Offer),
        "RelayFired" => SourceEvent::Fired(SourceTimer::Relay),
        "RetakeFired" => SourceEvent::Fired(SourceTimer::Retake),
        "Progressed" => SourceEvent::Progressed,
        "Reopened" => SourceEvent::Reopened,
        "OtherGeneration" => SourceEvent::OtherGeneration,
        "Lost" => SourceEvent::Lost,
        other => panic!("{other}"),
    }
}

fn reason(why: Option<&DeclineReason>) -> &'static str {
    match why {
        None => "",
        Some(DeclineReason::Draining) => "(draining)",
        Some(DeclineReason::OverCapacity) => "(capacity)",
        Some(other) => panic!("{other}"),
    }
}

fn action(action: &SourceAction) -> String {
    match action {
        SourceAction::Park { to } => {
            format!("Park({})", to.as_ref().map_or("rest", HostId::as_str))
        }
        // The next state says it.
        SourceAction::Report(_) => "Report".to_owned(),
        SourceAction::Arm(timer) => format!("Arm({timer:?})"),
        SourceAction::Freeze
        | SourceAction::Upload
        | SourceAction::Watch
        | SourceAction::Thaw
        | SourceAction::Reacquire
        | SourceAction::Reassert
        | SourceAction::Retake
        | SourceAction::Diverge
        | SourceAction::Release => format!("{action:?}"),
    }
}

fn next(source: &Source) -> String {
    let name = source.state_name();
    match source.state() {
        SourceState::Pending if source.goal == Goal::Reassert => "Pending/reassert".to_owned(),
        SourceState::Doubtful { to_self: true } => "Doubtful/self".to_owned(),
        SourceState::Relaying { by, epoch } => format!("{name}({by} {epoch})"),
        SourceState::Adopted { by } => format!("{name}({by})"),
        SourceState::Resuming { why } => format!("{name}{}", reason(why.as_ref())),
        SourceState::Ended(Outcome::Migrated { to: by } | Outcome::Abandoned { by }) => {
            format!("{name}({by})")
        }
        SourceState::Ended(Outcome::Resumed { why }) => format!("{name}{}", reason(why.as_ref())),
        SourceState::Ended(Outcome::Thawed { why }) => match why {
            AbortReason::FreezeTimedOut => "Thawed(late)".to_owned(),
            AbortReason::SnapshotTooLarge { .. } => "Thawed(large)".to_owned(),
            AbortReason::FreezeFailed { .. } => "Thawed(freeze)".to_owned(),
            AbortReason::UploadFailed { .. } => "Thawed(upload)".to_owned(),
        },
        SourceState::Pending
        | SourceState::Frozen
        | SourceState::Snapshotted
        | SourceState::Doubtful { to_self: false }
        | SourceState::Offered
        | SourceState::Ended(Outcome::Parked | Outcome::Gone) => name.to_owned(),
    }
}

fn outcome(goal: &Goal, name: &str, event_name: &str) -> String {
    let before = Source { me: host("a"), epoch: Epoch(5), goal: goal.clone(), state: state(name) };
    let mut source = before.clone();
    let stepped = source.step(event(event_name));
    let stepped = stepped.map(|actions| actions.iter().map(action).collect());
    cells::cell(name, &next(&source), stepped, source == before)
}

#[test]
fn every_cell_of_a_move() {
    let goal = Goal::Move { to: host("b") };
    cells::check(MOVE, &STATES, &EVENTS, |state, event| outcome(&goal, state, event));
}

#[test]
fn every_cell_of_an_unload() {
    check_variant(&Goal::Unload, UNLOAD);
}

#[test]
fn every_cell_of_a_reassert() {
    check_variant(&Goal::Reassert, REASSERT);
}

#[test]
fn every_cell_of_a_retake() {
    check_variant(&Goal::Retake, RETAKE);
}

fn check_variant(goal: &Goal, variant: &str) {
    let differs: Vec<(&str, &str)> = variant
        .lines()
        .filter_map(|line| line.split_once('|'))
        .flat_map(|(state, rest)| {
            let events = rest.split('|').next().unwrap_or_default();
            events.split(',').map(move |event| (state.trim(), event.trim()))
        })
        .collect();
    let rest: String = MOVE
        .lines()
        .filter_map(|line| {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let [state, events, cell] = parts[..] else { return None };
            let kept = events.split(',').map(str::trim);
            let kept: Vec<_> = kept.filter(|event| !differs.contains(&(state, event))).collect();
            (!kept.is_empty()).then(|| format!("{state} | {} | {cell}\n", kept.join(",")))
        })
        .collect();
    cells::check(&(rest + variant), &STATES, &EVENTS, |state, event| outcome(goal, state, event));
}

#[test]
fn it_starts_with_a_freeze_that_has_a_deadline() {
    let (source, actions) = Source::start(host("a"), Epoch(5), Goal::Unload);
    assert_eq!(*source.state(), SourceState::Pending);
    assert_eq!(actions.iter().map(action).collect::<Vec<_>>(), ["Arm(Freeze)", "Freeze"]);
}

/// The rule that everything else follows, over all states and events at once: once a park was sent, no
/// event but the store's own refusal of the only copy thaws the room.
#[test]
fn a_park_that_was_sent_is_never_followed_by_a_thaw() {
    for name in STATES {
        for event_name in EVENTS {
            let cell = outcome(&Goal::Move { to: host("b") }, name, event_name);
            let before_the_park = ["Pending", "Frozen"].contains(&name);
            let only_copy = (name, event_name) == ("Snapshotted", "ParkRefused");
            if cell.contains("Thaw") {
                assert!(before_the_park || only_copy, "{name} × {event_name}: {cell}");
            }
        }
    }
}
