//! What a room publishes, and what a member is shown of it.

use super::configs::{Config, Mutant};
use super::steps::{Lossy, Steps};
use super::world::{Code, World, payload, room};
use crate::id::{Epoch, Life, OutSeq};
use crate::protocol::invariants::{Broken, Shown, i5_events_in_order};
use crate::protocol::record::{Answer, OwnerAnswer, Request};

/// No event has this code.
const NONE: Code = Code::MAX;

/// A member, whoever and wherever: it has joined at the room's first life.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Member {
    life: Life,
    /// The number of the next event that it is to be shown.
    next: u64,
    /// What it was shown of this life.
    shown: Vec<Shown>,
}

/// Events on their way to members: of which life, from which number on.
pub(super) type Told = (Life, OutSeq, Vec<Code>);

impl Member {
    fn of(life: Life) -> Self {
        Self { life, next: 1, shown: Vec::new() }
    }
}

impl World {
    /// The member joins.
    pub(super) fn join(&mut self) {
        let life = self.store.record(&room()).map(|record| record.life).unwrap_or_default();
        self.member = Member::of(life);
    }

    /// An emit was carried out, or had been: a number names one event.
    pub(super) fn judge_emit(&mut self, first: OutSeq, events: &[bytes::Bytes]) {
        for (at, event) in (first.0 as usize - 1..).zip(events) {
            let known = &mut self.ghost_mut().events;
            if known.len() <= at {
                known.resize(at + 1, NONE);
            }
            let before = std::mem::replace(&mut known[at], event[0]);
            if before != NONE && before != event[0] && !self.ghost.forked {
                let what = format!("number {} names event {before} and event {}", at + 1, event[0]);
                self.note(Err(Broken { invariant: "I5", what }));
            }
        }
    }

    /// Takes events in order; `false` when some before them are missing.
    fn show(&mut self, config: &Config, life: Life, first: OutSeq, events: &[Code]) -> bool {
        let member = &mut self.member;
        if life < member.life {
            return true;
        }
        if life > member.life {
            *member = Member::of(life);
        }
        if first.0 > member.next && config.mutant != Some(Mutant::EventsInAnyOrder) {
            return false;
        }
        for (number, code) in (first.0..).zip(events) {
            let skips =
                config.mutant == Some(Mutant::EventsInAnyOrder) && number > self.member.next;
            if number != self.member.next && !skips {
                continue;
            }
            self.member.next = number + 1;
            self.member.shown.push(Shown::Event(number));
            let known = self.ghost.events.get(number as usize - 1);
            if known.is_some_and(|known| known != code) && !self.ghost.forked {
                let what = format!("a member was shown {code} as event {number}");
                self.note(Err(Broken { invariant: "I5", what }));
            }
        }
        self.note(i5_events_in_order(0, &self.member.shown));
        true
    }

    /// Reads what lost pushes would have brought.
    fn heal(&mut self, config: &Config) {
        let after = OutSeq(self.member.next - 1);
        let (answer, _) = self.store_mut().step(&room(), Request::ReadHistory { after }, Epoch(0));
        let Answer::History { first, events, life } = answer else { return };
        if life < self.member.life || life == Life(0) {
            return;
        }
        if life > self.member.life {
            self.member = Member::of(life);
            return; // the next look reads it from its start
        }
        if first.0 > self.member.next && !events.is_empty() {
            if config.mutant != Some(Mutant::MissedIsNotReported) {
                self.member.shown.push(Shown::MissedTo(first.0 - 1));
            }
            self.member.next = first.0;
        }
        let events: Vec<Code> = events.iter().map(|event| event[0]).collect();
        self.show(config, life, first, &events);
    }

    /// Whether something is published that the member has not been shown.
    pub(super) fn member_is_behind(&self) -> bool {
        self.store.record(&room()).is_some_and(|record| {
            let lacks = record.out_seq.0 >= self.member.next && !record.history.is_empty();
            record.life > self.member.life || (record.life == self.member.life && lacks)
        })
    }
}

/// A room publishes what its handlers put out.
pub(super) fn emit_step(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(run) = host.run.as_ref().filter(|run| !run.pending.is_empty()) else { return };
    let first = OutSeq(run.published + 1);
    let events: Vec<_> = run.pending.iter().map(|code| payload(*code)).collect();
    let count = events.len();
    let request = Request::Emit { lease: run.lease.clone(), first, events };
    let name = || format!("{} emits {:?} from {first} on", host.id, run.pending);
    steps.ask(world, request, Lossy::Both, name, |w, answer| match answer {
        Some(Answer::Owner(OwnerAnswer::Done)) => {
            if let Some(run) = w.run_mut(h) {
                run.pending.drain(..count);
                run.published += count as u64;
            }
        }
        Some(_) => w.lose(config, h),
        None => {}
    });
}

/// What may happen next to a member.
pub(super) fn member_steps(steps: &mut Steps<'_>, world: &World) {
    let config = steps.config;
    for at in 0..world.told.len() {
        let (life, first, events) = &world.told[at];
        let mut lost = world.clone();
        lost.told.get_mut().remove(at);
        let mut w = lost.clone();
        w.show(config, *life, *first, events);
        steps.go(w, || format!("a member is told of {events:?} from {first} on"));
        steps.fault(lost, || format!("what tells of {events:?} is lost"));
    }
    if world.member_is_behind() {
        let mut w = world.clone();
        w.heal(config);
        steps.go(w, || "a member reads the history".to_owned());
    }
}
