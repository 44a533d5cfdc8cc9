use super::{Refusal, Sender, SenderAction, SenderEvent, State};
use crate::id::{Life, Millis, Number, Seq};
use crate::protocol::cells;
use crate::protocol::record::{AppendAnswer, Standing};

/// Three messages are out in every state but `Idle`, and the last number accepted before them is 5. The
/// answers say that the store knows all three (`last` 8), two of them (7), or none (5). A stranger has not
/// heard of the room's life, 2.
const TABLE: &str = "
    Stranger     | Ready0, GiveUp, Gone | =
    Stranger     | Expired1 | =: Refuse(1 expired), Next
    Stranger     | Expired3 | =: Refuse(3 expired), Next
    Stranger     | Ready9 | Greeting(9) life=?: Greet
    Stranger     | else | reject

    Greeting     | Ready0, Ready9 | =: Greet
    Greeting     | Accepted, AcceptedNoHost | Idle last=8 seq=40: Next
    Greeting     | AcceptedTwo | Idle last=7 seq=40: Next
    Greeting     | AcceptedNone | Idle seq=40: Next
    Greeting     | OtherLife | Idle last=0 seq=0 epoch=0 life=9: Next
    Greeting     | Missing | Greeting(3) life=? doubted: FindHost(true), Backoff
    Greeting     | Closed | Idle last=0 seq=0 epoch=0 life=?: Refuse(3 closed), Next
    Greeting     | Fenced | Idle last=0 epoch=0 life=?: NewProducer(77), Next
    Greeting     | Expired1 | Greeting(2) life=?: Refuse(1 expired)
    Greeting     | Expired3 | Greeting(0) life=?: Refuse(3 expired)
    Greeting     | GiveUp, Gone | =
    Greeting     | else | =: Backoff

    Greeting0    | Ready0 | =: Greet
    Greeting0    | Ready9 | Greeting(9) life=?: Greet
    Greeting0    | Accepted, AcceptedNoHost | Idle last=8 seq=40: Next
    Greeting0    | AcceptedTwo | Idle last=7 seq=40: Next
    Greeting0    | AcceptedNone | Idle seq=40: Next
    Greeting0    | OtherLife | Idle last=0 seq=0 epoch=0 life=9: Next
    Greeting0    | Missing | Greeting(0) life=? doubted: Backoff
    Greeting0    | Closed | Idle last=0 seq=0 epoch=0 life=?: Refuse(0 closed), Next
    Greeting0    | Fenced | Idle last=0 epoch=0 life=?: NewProducer(77), Next
    Greeting0    | Expired1 | =: Refuse(1 expired)
    Greeting0    | Expired3 | =: Refuse(3 expired)
    Greeting0    | GiveUp | =
    Greeting0    | Gone | Idle last=0 seq=0 epoch=0 life=?: Lost(1-5)
    Greeting0    | else | =: Backoff

    Idle         | Ready0, GiveUp, Gone | =
    Idle         | Expired1 | =: Refuse(1 expired), Next
    Idle         | Expired3 | =: Refuse(3 expired), Next
    Idle         | Ready9 | Appending(9): Append(6+9)
    Idle         | else | reject

    Appending    | Ready0, Ready9, Expired1, Expired3, GiveUp, Gone | =
    Appending    | Fenced | Idle last=0 epoch=0: NewProducer(77), Next
    Appending    | Closed | Idle last=0 seq=0 epoch=0 life=?: Refuse(3 closed), Next
    Appending    | OtherLife | Idle last=0 seq=0 epoch=0 life=9: Refuse(3 life), Next
    Appending    | AcceptedTwo | Idle last=7 seq=40: Accept(2), Next
    Appending    | AcceptedNoHost, DuplicateNoHost | Idle last=8 seq=40: Accept(3), FindHost(false), Next
    Appending    | Accepted, Duplicate, PartialAll, MoreThanSent | Idle last=8 seq=40: Accept(3), Next
    Appending    | AcceptedNone | Idle seq=40: Next
    Appending    | Partial | Repeating(1) last=7 seq=40: Accept(2), Next
    Appending    | Gap | Withdrawing(3) seq=40: Withdraw(6)
    Appending    | Full | Repeating(3) seq=40: Backoff
    Appending    | Missing | Repeating(3) doubted: FindHost(true), Backoff
    Appending    | Unanswered | Repeating(3?): Backoff
    Appending    | Unsent     | Repeating(3): Backoff

    Appending?   | Ready0, Ready9, Expired1, Expired3, GiveUp, Gone | =
    Appending?   | Fenced | Idle last=0 epoch=0: Unknown(3), NewProducer(77), Next
    Appending?   | Closed | Idle last=0 seq=0 epoch=0 life=?: Unknown(3), Next
    Appending?   | OtherLife | Idle last=0 seq=0 epoch=0 life=9: Unknown(3), Next
    Appending?   | AcceptedTwo | Idle last=7 seq=40: Accept(2), Next
    Appending?   | AcceptedNoHost, DuplicateNoHost | Idle last=8 seq=40: Accept(3), FindHost(false), Next
    Appending?   | Accepted, Duplicate, PartialAll, MoreThanSent | Idle last=8 seq=40: Accept(3), Next
    Appending?   | AcceptedNone | Idle seq=40: Next
    Appending?   | Partial | Repeating(1?) last=7 seq=40: Accept(2), Next
    Appending?   | Gap | Withdrawing(3) seq=40: Withdraw(6)
    Appending?   | Full | Repeating(3?) seq=40: Backoff
    Appending?   | Unanswered, Unsent | Repeating(3?): Backoff
    Appending?   | Missing | Repeating(3?) doubted: FindHost(true), Backoff

    Repeating    | GiveUp, Gone | =
    Repeating    | Ready0, Ready9 | Appending(3): Append(6+3)
    Repeating    | Expired1 | Idle: Refuse(1 expired), Next
    Repeating    | Expired3 | Idle: Refuse(3 expired), Next
    Repeating    | else | reject

    Repeating?   | GiveUp, Gone | =
    Repeating?   | Ready0, Ready9 | Appending(3?): Append(6+3)
    Repeating?   | Expired1, Expired3 | Withdrawing(3): Withdraw(6)
    Repeating?   | else | reject

    Withdrawing  | Expired1, Expired3, Gone | =
    Withdrawing  | Duplicate, DuplicateNoHost, Partial, PartialAll, Gap, Full, Unanswered, Unsent, MoreThanSent | =: Backoff
    Withdrawing  | Ready0, Ready9 | =: Withdraw(6)
    Withdrawing  | Fenced | Idle last=0 epoch=0: Unknown(3), NewProducer(77), Next
    Withdrawing  | Missing | Withdrawing(3) doubted: FindHost(true), Backoff
    Withdrawing  | Closed | Idle last=0 seq=0 epoch=0 life=?: Unknown(3), Next
    Withdrawing  | OtherLife | Idle last=0 seq=0 epoch=0 life=9: Unknown(3), Next
    Withdrawing  | AcceptedTwo | Idle last=7 seq=40 epoch=5: Accept(2), Next
    Withdrawing  | AcceptedNoHost | Idle last=8 seq=40 epoch=5: Accept(3), FindHost(false), Next
    Withdrawing  | Accepted | Idle last=8 seq=40 epoch=5: Accept(3), Next
    Withdrawing  | AcceptedNone | Idle seq=40 epoch=5: Next
    Withdrawing  | GiveUp | Withdrawing(0): Unknown(3)

    Withdrawing0 | Expired1, Expired3, GiveUp, Gone | =
    Withdrawing0 | Duplicate, DuplicateNoHost, Partial, PartialAll, Gap, Full, Unanswered, Unsent, MoreThanSent | =: Backoff
    Withdrawing0 | Ready0, Ready9 | =: Withdraw(6)
    Withdrawing0 | Fenced | Idle last=0 epoch=0: NewProducer(77), Next
    Withdrawing0 | Missing | Withdrawing(0) doubted: FindHost(true), Backoff
    Withdrawing0 | Closed | Idle last=0 seq=0 epoch=0 life=?: Refuse(0 closed), Next
    Withdrawing0 | OtherLife | Idle last=0 seq=0 epoch=0 life=9: Refuse(0 life), Next
    Withdrawing0 | AcceptedTwo | Idle last=7 seq=40 epoch=5: Next
    Withdrawing0 | Accepted, AcceptedNoHost | Idle last=8 seq=40 epoch=5: Next
    Withdrawing0 | AcceptedNone | Idle seq=40 epoch=5: Next
";

const STATES: [&str; 10] = [
    "Stranger",
    "Greeting",
    "Greeting0",
    "Idle",
    "Appending",
    "Appending?",
    "Repeating",
    "Repeating?",
    "Withdrawing",
    "Withdrawing0",
];
const EVENTS: [&str; 23] = [
    "Gone",
    "Ready0",
    "Ready9",
    "Accepted",
    "AcceptedNoHost",
    "AcceptedTwo",
    "AcceptedNone",
    "Duplicate",
    "DuplicateNoHost",
    "Partial",
    "PartialAll",
    "Gap",
    "Fenced",
    "Full",
    "Closed",
    "OtherLife",
    "Missing",
    "Unanswered",
    "Unsent",
    "Expired1",
    "Expired3",
    "GiveUp",
    "MoreThanSent",
];

fn state(name: &str) -> State {
    match name {
        "Idle" | "Stranger" => State::Idle,
        "Greeting" => State::Greeting { count: 3 },
        "Greeting0" => State::Greeting { count: 0 },
        "Appending" => State::Appending { count: 3, doubtful: false },
        "Appending?" => State::Appending { count: 3, doubtful: true },
        "Repeating" => State::Repeating { count: 3, doubtful: false },
        "Repeating?" => State::Repeating { count: 3, doubtful: true },
        "Withdrawing" => State::Withdrawing { count: 3 },
        "Withdrawing0" => State::Withdrawing { count: 0 },
        other => panic!("{other}"),
    }
}

fn event(name: &str) -> SenderEvent {
    let (seq, life) = (Seq(40), Life(2));
    let accepted = |last, standing| {
        SenderEvent::Answered(AppendAnswer::Accepted { last: Number(last), seq, life, standing })
    };
    let duplicate = |last, standing| {
        SenderEvent::Answered(AppendAnswer::Duplicate { last: Number(last), seq, life, standing })
    };
    let answered = SenderEvent::Answered;
    match name {
        "Ready0" => SenderEvent::Ready { waiting: 0 },
        "Ready9" => SenderEvent::Ready { waiting: 9 },
        "Accepted" => accepted(8, Standing::Running),
        "AcceptedNoHost" => accepted(8, Standing::NeedsHost),
        "AcceptedTwo" => accepted(7, Standing::Running),
        "AcceptedNone" => accepted(5, Standing::Running),
        "Duplicate" => duplicate(8, Standing::Running),
        "DuplicateNoHost" => duplicate(8, Standing::NeedsHost),
        // A replayed room repeats numbers that the store knows already.
        "MoreThanSent" => duplicate(11, Standing::Running),
        "Partial" => answered(AppendAnswer::Partial { last: Number(7), seq }),
        "PartialAll" => answered(AppendAnswer::Partial { last: Number(8), seq }),
        "Gap" => answered(AppendAnswer::Gap { last: Number(3), seq }),
        "Fenced" => answered(AppendAnswer::Fenced { epoch: 9, last: None, now: Millis(77) }),
        "Full" => answered(AppendAnswer::Full { seq }),
        "Closed" => answered(AppendAnswer::Closed { reason: "over".to_owned() }),
        "OtherLife" => answered(AppendAnswer::OtherLife { life: Life(9) }),
        "Missing" => answered(AppendAnswer::Missing),
        "Unanswered" => SenderEvent::Unanswered,
        "Unsent" => SenderEvent::Unsent,
        "Expired1" => SenderEvent::Expired { count: 1 },
        "Expired3" => SenderEvent::Expired { count: 3 },
        "GiveUp" => SenderEvent::GiveUp,
        "Gone" => SenderEvent::Gone,
        other => panic!("{other}"),
    }
}

fn sender(name: &str) -> Sender {
    Sender {
        epoch: 4,
        accepted: Number(5),
        highest: Seq(30),
        life: (!["Stranger", "Greeting", "Greeting0"].contains(&name)).then_some(Life(2)),
        replays: false,
        kept: 0,
        recalled: 0,
        doubted: false,
        asks: false,
        state: state(name),
    }
}

/// `Appending(3?)`: three messages, in doubt; then what else is not as it was before.
fn next(sender: &Sender) -> String {
    let mut text = match sender.state {
        State::Idle => "Idle".to_owned(),
        State::Greeting { count } => format!("Greeting({count})"),
        State::Appending { count, doubtful } => format!("Appending({count}{})", mark(doubtful)),
        State::Repeating { count, doubtful } => format!("Repeating({count}{})", mark(doubtful)),
        State::Withdrawing { count } => format!("Withdrawing({count})"),
    };
    for (name, is, was) in
        [("last", sender.accepted.0, 5), ("seq", sender.highest.0, 30), ("epoch", sender.epoch, 4)]
    {
        if is != was {
            text += &format!(" {name}={is}");
        }
    }
    match sender.life {
        Some(Life(2)) => {}
        Some(life) => text += &format!(" life={life}"),
        None => text += " life=?",
    }
    if sender.doubted {
        text += " doubted";
    }
    text
}

fn mark(doubtful: bool) -> &'static str {
    if doubtful { "?" } else { "" }
}

fn action(action: &SenderAction) -> String {
    match action {
        SenderAction::Append { life, epoch, first, count } => {
            assert_eq!((*life, *epoch), (Some(Life(2)), 4));
            format!("Append({first}+{count})")
        }
        SenderAction::Withdraw { life: None, epoch: 4, .. } => "Greet".to_owned(),
        SenderAction::Withdraw { life, epoch, first } => {
            assert_eq!((*life, *epoch), (Some(Life(2)), 5), "above the epoch of what it fences");
            format!("Withdraw({first})")
        }
        SenderAction::Accept { count } => format!("Accept({count})"),
        SenderAction::Refuse { count, why } => {
            let why = match why {
                Refusal::Expired => "expired",
                Refusal::Closed { .. } => "closed",
                Refusal::OtherLife { .. } => "life",
            };
            format!("Refuse({count} {why})")
        }
        SenderAction::ReportUnknown { count } => format!("Unknown({count})"),
        SenderAction::ReportRegressed => "Regressed".to_owned(),
        SenderAction::ReportLost { from, to } => format!("Lost({from}-{to})"),
        SenderAction::FindHost { create } => format!("FindHost({create})"),
        SenderAction::NewProducer { at } => format!("NewProducer({at})"),
        SenderAction::Backoff => "Backoff".to_owned(),
        SenderAction::Recall { count } => format!("Recall({count})"),
        SenderAction::Next => "Next".to_owned(),
    }
}

#[test]
fn every_cell_of_the_sender() {
    cells::check(TABLE, &STATES, &EVENTS, |name, event_name| {
        let before = sender(name);
        let mut after = before.clone();
        let stepped = after.step(event(event_name));
        let stepped = stepped.map(|actions| actions.iter().map(action).collect());
        cells::cell(name, &next(&after), stepped, after == before)
    });
}

#[test]
fn what_is_numbered_is_what_is_out() {
    for (name, numbered) in [("Idle", 0), ("Appending", 3), ("Repeating?", 3), ("Withdrawing0", 0)]
    {
        assert_eq!(sender(name).numbered(), numbered, "{name}");
        assert_eq!(sender(name).in_flight(), name != "Idle", "{name}");
    }
}

/// `seq` begins anew in each life, so a number of one life must not hold a gate in another.
/// A queue that is made anew goes on with the numbers of its producer. That of a room does not: it repeats
/// what a former activation has sent, by the numbers of its snapshot.
#[test]
fn only_who_does_not_replay_learns_its_last_number() {
    let known = AppendAnswer::Accepted {
        last: Number(9),
        seq: Seq(40),
        life: Life(2),
        standing: Standing::Running,
    };
    for (mut sender, last) in [(Sender::new(), 9), (Sender::resuming(Number(5), None), 5)] {
        sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
        sender.step(SenderEvent::Answered(known.clone())).unwrap();
        assert_eq!(sender.accepted(), Number(last));
    }
}

#[test]
fn h17_a_seq_of_another_life_is_not_waited_for() {
    let accepted = |life, seq| AppendAnswer::Accepted {
        last: Number(1),
        seq: Seq(seq),
        life: Life(life),
        standing: Standing::Running,
    };
    let mut sender = Sender::new();
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    sender.step(SenderEvent::Answered(accepted(7, 30))).unwrap();
    assert_eq!((sender.highest_in(Life(7)), sender.highest_in(Life(8))), (Seq(30), Seq(0)));
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    sender.step(SenderEvent::Answered(AppendAnswer::OtherLife { life: Life(8) })).unwrap();
    assert_eq!((sender.highest_in(Life(7)), sender.highest_in(Life(8))), (Seq(0), Seq(0)));
}
