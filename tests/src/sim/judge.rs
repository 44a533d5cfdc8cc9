//! Holds what the rooms wrote down against what senders and members were told.
//!
//! Each rule names the promise of the design that it comes from. The judge asks no counter of the library:
//! it has the journal, the rooms' own lists and the dead letters. What the hosts *reported* is an excuse for
//! a loss where the design says that the loss is reported, and for nothing else.

use std::collections::{BTreeMap, BTreeSet};

use ractor_rooms::{RoomEvent, RoomFault};

use super::journal::{ROOM, Record, Sent, Stream, Told};
use super::plan::{Act, Plan};
use super::room::{Id, SimState, kind};
use crate::oracle::SenderId;

/// What is left of one room when all is quiet.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    /// What it wrote down.
    pub state: SimState,
    /// The errors of its dead letters.
    pub dead: Vec<String>,
}

/// What of the promises was broken, by room.
pub fn judge(plan: &Plan, record: &Record, remains: &[Remains]) -> Vec<String> {
    let mut broken = record.broken.clone();
    for index in 0..plan.rooms.len() {
        let room = Room::of(plan, record, remains, index);
        for what in room.judge() {
            broken.push(format!("{} ({}): {what}", plan.rooms[index].key, kind(room.durable)));
        }
    }
    broken
}

struct Room<'a> {
    plan: &'a Plan,
    record: &'a Record,
    remains: &'a [Remains],
    index: usize,
    durable: bool,
    state: &'a SimState,
    /// Something was reported that excuses a loss.
    lossy: bool,
}

impl<'a> Room<'a> {
    fn of(plan: &'a Plan, record: &'a Record, remains: &'a [Remains], index: usize) -> Self {
        let durable = plan.rooms[index].durable;
        let lossy = lossy(plan, record, index);
        Self { plan, record, remains, index, durable, state: &remains[index].state, lossy }
    }

    fn judge(&self) -> Vec<String> {
        let mut broken = Vec::new();
        self.messages(&mut broken);
        self.outputs(&mut broken);
        self.order(&mut broken);
        self.timers_and_calls(&mut broken);
        self.dead_letters(&mut broken);
        let streams = self.record.streams.iter().enumerate();
        for (n, stream) in streams.filter(|(_, stream)| stream.room == self.index) {
            self.events(n, stream, &mut broken);
        }
        broken
    }

    fn sent(&self) -> impl Iterator<Item = (Id, &Sent)> {
        let sent = self.record.sent.iter().filter(|(_, sent)| sent.room == self.index);
        sent.map(|(id, sent)| (*id, sent))
    }

    /// I2, I3: what was accepted is handled once, in the surviving state; what came back is not. I10: a
    /// loss is reported, and a live room loses only with a host, a session or a failed handler.
    fn messages(&self, broken: &mut Vec<String>) {
        let mut times: BTreeMap<Id, u32> = BTreeMap::new();
        for id in self.state.notes.iter().filter(|id| id.0 < ROOM) {
            *times.entry(*id).or_default() += 1;
        }
        for (id, times) in &times {
            match self.record.sent.get(id) {
                Some(sent) if sent.room == self.index && sent.told != Told::HandedBack => {}
                Some(sent) => broken.push(format!("I2: {id:?} is handled, but it was {sent:?}")),
                None => broken.push(format!("I2: {id:?} is handled, but nobody sent it")),
            }
            if *times > 1 {
                broken.push(format!("I2: {id:?} is handled {times} times"));
            }
        }
        let dead = self.dead();
        for (id, sent) in self.sent() {
            let handled = times.contains_key(&id);
            let dies = sent.act == Act::Poison || (sent.act == Act::Flaky && !self.durable);
            let lost = match (sent.told, dies) {
                (_, true) if handled && sent.act == Act::Poison => {
                    broken.push(format!("I2: {id:?} is handled, but it cannot be"));
                    false
                }
                (Told::Accepted, true) => !handled && !dead.contains(&id),
                (Told::Accepted, false) => !handled,
                (Told::Cast, dies) => {
                    let there = handled || (dies && dead.contains(&id));
                    !there && !self.excuses_cast(id.0, sent)
                }
                (Told::Pending, _) => {
                    broken.push(format!("I6: the sender of {id:?} still waits"));
                    false
                }
                (Told::HandedBack | Told::Unknown | Told::Lost, _) => false,
            };
            if lost && !self.lossy && !self.not_known(id) {
                broken.push(format!("I2: {id:?} was {:?} ({:?}) and is lost", sent.told, sent.act));
            }
        }
    }

    /// I10: what a store has lost is reported while a host that knows of it lives. Its sender's host does, and
    /// hears of it with the sender's next message.
    fn not_known(&self, (from, number): Id) -> bool {
        let Some(loss) = self.plan.last_loss() else { return false };
        let heard = |((other, later), sent): (Id, &Sent)| {
            other == from
                && later > number
                && sent.told == Told::Accepted
                && sent.at > u128::from(loss)
        };
        !self.sent().any(heard)
    }

    /// A cast is not acknowledged: it may be refused with a report, or die with its sender's host.
    fn excuses_cast(&self, from: SenderId, sent: &Sent) -> bool {
        let undelivered = self.record.faults.iter().any(|(host, fault)| {
            *host == sent.via
                && matches!(fault, RoomFault::Undelivered { room, .. } if self.is(room))
        });
        let last =
            self.record.sent.keys().map(|id| id.0).filter(|other| other % 1_000 == from % 1_000);
        undelivered
            || self.record.killed.contains(&sent.via)
            || last.max().is_some_and(|last| last != from)
    }

    fn is(&self, room: &ractor_rooms::id::RoomId) -> bool {
        room.kind.as_str() == kind(self.durable)
            && room.key.as_bytes() == self.plan.rooms[self.index].key.as_bytes()
    }

    /// I2: each output of a durable room's surviving state is in its target once, in order, and nothing
    /// else is. A live room promises it as long as nothing made it go back (I3).
    fn outputs(&self, broken: &mut Vec<String>) {
        for (target, remains) in self.remains.iter().enumerate() {
            if self.plan.loses_data() || (!self.durable && self.lossy) {
                continue;
            }
            let from = ROOM + self.index as SenderId;
            let relayed = self.state.relayed.iter().find(|(to, _)| *to as usize == target);
            let expected: Vec<u64> = (1..=relayed.map_or(0, |(_, count)| *count)).collect();
            let found = remains.state.notes.iter().filter(|id| id.0 == from);
            let found: Vec<u64> = found.map(|id| id.1).collect();
            let may_lose = lossy(self.plan, self.record, target);
            let complete = found == expected;
            let in_order = found.is_sorted_by(|a, b| a < b)
                && found.last().unwrap_or(&0) <= expected.last().unwrap_or(&0);
            let kept = complete || (may_lose && in_order);
            if !kept {
                let to = &self.plan.rooms[target].key;
                broken.push(format!("I2: expected outputs {expected:?} in {to}, found {found:?}"));
            }
        }
    }

    /// I4: per sender, handling order is sending order.
    fn order(&self, broken: &mut Vec<String>) {
        let mut last: BTreeMap<SenderId, u64> = BTreeMap::new();
        for (from, number) in self.state.notes.iter().filter(|id| id.0 < ROOM) {
            let before = last.insert(*from, *number).unwrap_or_default();
            if before > *number {
                broken.push(format!("I4: {from} sent {number} before {before}, which is first"));
            }
        }
    }

    /// I7: what set a timer in the surviving state is followed by one tick, not before its time. I8: what
    /// made a call is followed by one answer or the news that there is none.
    fn timers_and_calls(&self, broken: &mut Vec<String>) {
        let mut ticks: BTreeMap<Id, Vec<u64>> = BTreeMap::new();
        for (id, at) in &self.state.ticks {
            ticks.entry(*id).or_default().push(*at);
        }
        for (id, due) in &self.state.timers {
            match ticks.remove(id).as_deref() {
                Some([at]) if at >= due => {}
                ticks => broken.push(format!("I7: timer {id:?} is due at {due}, ticks {ticks:?}")),
            }
        }
        for (id, at) in ticks {
            broken.push(format!("I7: timer {id:?} ticks at {at:?}, but was not set"));
        }
        let mut answers: BTreeMap<Id, Vec<Option<u64>>> = BTreeMap::new();
        for (id, answer) in &self.state.answers {
            answers.entry(*id).or_default().push(*answer);
        }
        for id in &self.state.called {
            match answers.remove(id).as_deref() {
                Some([None]) => {}
                Some([Some(answer)]) if *answer == id.1 => {}
                answers => broken.push(format!("I8: call {id:?} has the answers {answers:?}")),
            }
        }
        for (id, answer) in answers {
            broken.push(format!("I8: call {id:?} has the answers {answer:?}, but was not made"));
        }
    }

    /// The messages that the dead letters name, or the reports of those that the store has lost.
    fn dead(&self) -> BTreeSet<Id> {
        let reported = self.record.faults.iter().filter_map(|(_, fault)| match fault {
            RoomFault::DeadLetter { room, error } if self.is(room) => Some(error),
            _ => None,
        });
        let reported = reported.filter(|_| self.plan.loses_data());
        self.remains[self.index]
            .dead
            .iter()
            .chain(reported)
            .filter_map(|error| parse(error))
            .collect()
    }

    /// A message is given up only if it cannot be handled, and once (section 4, panics and poison).
    fn dead_letters(&self, broken: &mut Vec<String>) {
        let dead = &self.remains[self.index].dead;
        let mut seen = BTreeSet::new();
        for error in dead {
            let id = parse(error);
            let sent = id.and_then(|id| self.record.sent.get(&id));
            let dies = sent.is_some_and(|sent| {
                sent.act == Act::Poison || (sent.act == Act::Flaky && !self.durable)
            });
            if !dies {
                broken.push(format!("I10: a dead letter that is none: {error}, {sent:?}"));
            }
            if !seen.insert(id) && self.durable {
                broken.push(format!("I10: two dead letters for one message: {error}"));
            }
        }
    }

    /// I5: members see each event at most once, in order, and a gap is reported; what they see of a
    /// durable room is what it emitted, to the last event.
    fn events(&self, n: usize, stream: &Stream, broken: &mut Vec<String>) {
        let mut next: Option<u64> = None;
        let mut open = false;
        // Told since the last event; each has a number of its own, in this life or the one before.
        let mut rolled_back = 0;
        for event in &stream.events {
            match event {
                RoomEvent::Event { number, event } => {
                    let number = number.0;
                    match next {
                        Some(next) if number == next || (number > next && open) => {}
                        Some(_)
                            if (1..=1 + rolled_back).contains(&number)
                                && born_again(self.plan, self.record, self.index) => {}
                        Some(next) => broken.push(format!(
                            "I5: stream {n}: expected event {next}, found {number} {event:?}"
                        )),
                        None => {}
                    }
                    let emitted = usize::try_from(number - 1).ok();
                    let emitted = emitted.and_then(|at| self.state.emitted.get(at));
                    if self.durable && !self.plan.loses_data() && emitted != Some(event) {
                        broken.push(format!(
                            "I5: stream {n}: event {number} is {event:?}, the room has {emitted:?}"
                        ));
                    }
                    (next, open, rolled_back) = (Some(number + 1), false, 0);
                }
                // It has a number of its own, which the member is not told.
                RoomEvent::RolledBack { .. } => {
                    if self.durable {
                        broken.push(format!("I5: stream {n}: a durable room rolled back"));
                    }
                    rolled_back += 1;
                    next = next.map(|next| next + 1);
                    open |= next.is_none();
                }
                RoomEvent::Missed { from, to } => {
                    if next.is_some_and(|next| from.0 != next) {
                        broken.push(format!("I5: stream {n}: expected {next:?}, found {event:?}"));
                    }
                    next = Some(to.0 + 1);
                }
                RoomEvent::Lagged(_) => open = true,
                // Also of a life in which it came no further than its record.
                RoomEvent::BornAgain if self.plan.loses_data() => {
                    (next, open, rolled_back) = (Some(1), false, 0);
                }
                RoomEvent::Closed { .. } | RoomEvent::Unreadable { .. } => {
                    broken.push(format!("I5: stream {n}: {event:?}"));
                }
                other => broken.push(format!("I5: stream {n}: {other:?} is news to the judge")),
            }
        }
        let all = self.state.emitted.len() as u64;
        if let Some(next) = next
            && self.durable
            && !self.plan.loses_data()
            && !stream.ended
            && next != all + 1
        {
            broken.push(format!(
                "I5: stream {n}: expected all {all} events, found up to {}",
                next - 1
            ));
        }
    }
}

/// Whether a loss in a room is reported. A durable room may lose only what its store lost. A live room goes
/// back to its last checkpoint with its host, its host's session, or a failed handler.
///
/// A store that forgot a room which nobody ran has it born again, and senders hear of that only by their next
/// message: it is an excuse here, as far as it shows in the journal.
fn lossy(plan: &Plan, record: &Record, index: usize) -> bool {
    let durable = plan.rooms[index].durable;
    let is = |room: &ractor_rooms::id::RoomId| {
        room.kind.as_str() == kind(durable)
            && room.key.as_bytes() == plan.rooms[index].key.as_bytes()
    };
    let reported = |fault: &RoomFault| match fault {
        RoomFault::Lost { room, .. }
        | RoomFault::Diverged { room }
        | RoomFault::StateLost { room } => is(room) && (plan.loses_data() || !durable),
        // Of a durable room this says that all is there again.
        RoomFault::StoreRegressed { room } => !durable && is(room),
        RoomFault::HandlerFailed { room, .. } | RoomFault::Fenced { room } => !durable && is(room),
        // Whoever took its rooms up told their members that they rolled back.
        RoomFault::SessionLapsed { .. } => !durable,
        _ => false,
    };
    !durable && (!record.killed.is_empty() || born_again(plan, record, index))
        || record.faults.iter().any(|(_, fault)| reported(fault))
}

/// Whether a store that lost data had the room born again.
fn born_again(plan: &Plan, record: &Record, index: usize) -> bool {
    let name = format!("{}/{}", kind(plan.rooms[index].durable), plan.rooms[index].key);
    plan.loses_data() && record.born.get(&name).is_some_and(|times| *times > 1)
}

/// The message that a dead letter's error names.
fn parse(error: &str) -> Option<Id> {
    let (_, name) = error.rsplit_once(' ')?;
    let (from, number) = name.split_once('/')?;
    Some((from.parse().ok()?, number.parse().ok()?))
}
