//! What may happen next where senders are: sends, appends, answers, and the gate.

use super::configs::{Config, Mutant};
use super::steps::{Lossy, Steps, open_until};
use super::world::{Code, Place, World, bit, code, numbers, payload, sent};
use crate::id::{Incarnation, Producer, Seq};
use crate::protocol::Gate;
use crate::protocol::gate::{GateAction, GateEvent};
use crate::protocol::invariants::Broken;
use crate::protocol::record::{Answer, Request};
use crate::protocol::sender::{Holds, SenderAction, SenderEvent};

impl Place {
    /// Everything that was sent from here.
    pub(super) fn sent_codes(&self) -> impl Iterator<Item = Code> + '_ {
        (0..2).flat_map(|s| (1..=self.next[s]).map(move |index| code(s, index)))
    }

    /// One step of the sender.
    fn step(&mut self, event: SenderEvent) -> Vec<SenderAction> {
        let before = self.sender.accepted();
        let actions = self.sender.step(event).unwrap_or_else(|rejected| panic!("{rejected}"));
        let Holds { contiguous, kept } = self.sender.holds(before, &actions);
        self.contiguous = contiguous;
        let gone = self.window.len().saturating_sub(kept as usize);
        self.window.drain(..gone);
        actions
    }

    /// Keeps what was accepted, as far as the window goes.
    fn hold(&mut self, config: &Config, count: u64) {
        if config.window == 0 && !config.tracks() {
            return;
        }
        let accepted = self.queue[..(count as usize).min(self.queue.len())].to_vec();
        self.numbers.extend(&accepted);
        self.numbers.truncate(self.sender.accepted().0 as usize);
        if !self.contiguous {
            self.window.clear();
            return self.sender.keep(0);
        }
        self.window.extend(accepted);
        let gone = self.window.len().saturating_sub(config.window);
        self.window.drain(..gone);
        self.sender.keep(self.window.len() as u64);
    }

    /// Puts the newest of what is held in front of what waits.
    fn recall(&mut self, count: u64) {
        let from = self.window.len().saturating_sub(count as usize);
        let again = self.window.split_off(from);
        self.numbers.truncate(self.numbers.len().saturating_sub(again.len()));
        self.queue.splice(0..0, again);
    }
}

impl World {
    pub(super) fn open_gates(&mut self, host: usize, config: &Config) {
        for place in 0..self.places.len() {
            if !config.durable && self.places[place].host == Some(host) {
                self.gate(place, GateEvent::RoomLive);
            }
        }
    }

    pub(super) fn close_gates(&mut self, host: usize) {
        for place in 0..self.places.len() {
            if self.places[place].host == Some(host) {
                self.gate(place, GateEvent::Close);
            }
        }
    }

    fn gate(&mut self, place: usize, event: GateEvent) {
        let actions = self.place_mut(place).gate.step(event);
        for action in actions.unwrap_or_else(|rejected| panic!("{rejected}")) {
            match action {
                GateAction::FlushToMailbox => {
                    let held = std::mem::take(&mut self.place_mut(place).held);
                    let host = self.places[place].host.unwrap_or_default();
                    if let Some(run) = self.run_mut(host) {
                        run.mailbox.extend(held);
                    }
                }
                GateAction::FlushToStore => {
                    let place = self.place_mut(place);
                    place.queue.append(&mut place.held);
                }
                GateAction::Hold => {}
            }
        }
    }

    /// Tells the gate how far the queue and the room are.
    pub(super) fn gate_progress(&mut self, config: &Config, place: usize) {
        let p = &self.places[place];
        let run = p.host.and_then(|host| self.hosts[host].run.as_ref());
        let Some(received) = run.filter(|run| run.live).map(|run| run.consumer.seq()) else {
            return;
        };
        let ignore = |mutant| config.mutant == Some(mutant);
        let under_way = p.sender.in_flight() || !p.queue.is_empty();
        let in_flight = under_way && !ignore(Mutant::InFlightIsIgnored);
        let named = p.sender.life().map_or(Seq(0), |life| p.sender.highest_in(life));
        let highest = if ignore(Mutant::HighestIsHidden) { Seq(0) } else { named };
        self.gate(place, GateEvent::Progress { in_flight, highest, received });
    }

    pub(super) fn sender_step(&mut self, config: &Config, place: usize, event: SenderEvent) {
        let actions = self.place_mut(place).step(event);
        for action in actions {
            match action {
                SenderAction::Accept { count } => {
                    self.place_mut(place).hold(config, count);
                    let done = self.shift(place, count);
                    self.ghost_mut().acknowledged |= done;
                }
                SenderAction::Refuse { count, .. } => {
                    let done = self.shift(place, count);
                    self.ghost_mut().give_up(done, |ghost| &mut ghost.refused);
                }
                SenderAction::ReportUnknown { count } => {
                    let done = self.shift(place, count);
                    self.ghost_mut().give_up(done, |ghost| &mut ghost.unknown);
                }
                SenderAction::ReportLost { from, to } => {
                    if !self.ghost.regressed {
                        let what = format!("the store lost {from} to {to}");
                        self.note(Err(Broken { invariant: "I10", what }));
                    }
                    let numbers = &mut self.place_mut(place).numbers;
                    let kept = numbers.len().min(from.0 as usize - 1);
                    let lost = numbers.split_off(kept);
                    let lost = lost.iter().take((to.0 + 1 - from.0) as usize);
                    let lost = lost.fold(0, |all, code| all | bit(*code));
                    self.ghost_mut().reported |= lost;
                }
                SenderAction::Recall { count } => self.place_mut(place).recall(count),
                SenderAction::FindHost { create } => {
                    // For a room that has a record the sweep looks after it.
                    self.place_mut(place).homeless |= create;
                }
                SenderAction::NewProducer { at } => {
                    let place = self.place_mut(place);
                    if let Producer::Host(old) = &place.producer {
                        let number = old.number.max(at.0) + 1;
                        let host = old.host.clone();
                        place.producer = Producer::Host(Incarnation { host, number });
                    }
                }
                SenderAction::ReportRegressed
                | SenderAction::Append { .. }
                | SenderAction::Withdraw { .. }
                | SenderAction::Backoff
                | SenderAction::Next => {}
            }
        }
    }

    fn shift(&mut self, place: usize, count: u64) -> u64 {
        let queue = &mut self.place_mut(place).queue;
        let count = (count as usize).min(queue.len());
        queue.drain(..count).fold(0, |all, code| all | bit(code))
    }
}

pub(super) fn place_steps(steps: &mut Steps<'_>, world: &World, at: usize) {
    let config = steps.config;
    let place = &world.places[at];
    if place.dead {
        return;
    }
    for sender in 0..2 {
        let here = config.place_of(sender) == at;
        if here && place.next[sender] < config.messages[sender] && place.admitted.is_none() {
            send_step(steps, world, at, sender);
        }
    }
    if let Some(message) = place.admitted {
        let mut w = world.clone();
        w.place_mut(at).admitted = None;
        if let Some(run) = place.host.and_then(|host| w.run_mut(host)) {
            run.mailbox.push(message);
        }
        steps.go(w, || format!("{:?} is put into the mailbox", sent(message)));
    }
    if place.gate == Gate::Opening {
        let mut w = world.clone();
        w.gate_progress(config, at);
        if w.places[at].gate != place.gate {
            steps.go(w, || format!("the gate at place {at} opens"));
        }
    }
    if place.forgotten {
        let mut w = world.clone();
        w.place_mut(at).forgotten = false;
        w.sender_step(config, at, SenderEvent::Forgotten);
        steps.go(w, || format!("place {at} learns of the generation"));
    }
    if place.homeless {
        for host in world.hosts.iter().filter(|h| world.store.is_alive(&h.incarnation)) {
            let mut w = world.clone();
            w.place_mut(at).homeless = false;
            let to = host.id.clone();
            let request = Request::Offer { to, until: open_until(), create: true };
            steps.ask(
                &w,
                request,
                Lossy::No,
                || format!("place {at} finds {}", host.id),
                |_, _| {},
            );
        }
    }
    let whole = place.queue.len().min(config.batch) as u64;
    let sizes = if place.sender.in_flight() || whole <= 1 { whole..=whole } else { 1..=whole };
    for waiting in sizes {
        append_step(steps, world, at, waiting);
    }
    if world.budget.expire > 0 && !place.queue.is_empty() {
        let mut w = world.clone();
        w.budget.expire -= 1;
        w.sender_step(config, at, SenderEvent::Expired { count: 1 });
        if w.places[at] != *place {
            steps.fault(w, || format!("the first message at place {at} expires"));
        }
    }
    if world.budget.give_up > 0 && !place.queue.is_empty() {
        let mut w = world.clone();
        w.budget.give_up -= 1;
        w.sender_step(config, at, SenderEvent::GiveUp);
        if w.places[at] != *place {
            steps.fault(w, || format!("place {at} gives a withdrawal up"));
        }
    }
}

fn send_step(steps: &mut Steps<'_>, world: &World, at: usize, sender: usize) {
    let config = steps.config;
    let mut w = world.clone();
    let place = w.place_mut(at);
    place.next[sender] += 1;
    let message = code(sender, place.next[sender]);
    if place.gate != Gate::Mailbox {
        let holds = place.gate == Gate::Opening;
        if holds {
            place.held.push(message)
        } else {
            place.queue.push(message)
        }
        return steps.go(w, || format!("{:?} is queued (held: {holds})", sent(message)));
    }
    if config.threads {
        place.admitted = Some(message);
        return steps.go(w, || format!("{:?} passes the gate", sent(message)));
    }
    if let Some(run) = place.host.and_then(|host| w.run_mut(host)) {
        run.mailbox.push(message);
    }
    steps.go(w, || format!("{:?} is put into the mailbox", sent(message)));
}

fn append_step(steps: &mut Steps<'_>, world: &World, at: usize, waiting: u64) {
    let config = steps.config;
    let mut w = world.clone();
    let place = w.place_mut(at);
    let Ok(actions) = place.sender.step(SenderEvent::Ready { waiting }) else { return };
    let request = match &actions[..] {
        [SenderAction::Append { life, epoch, first, count }] => Request::Append {
            life: *life,
            producer: place.producer.clone(),
            epoch: *epoch,
            first: *first,
            batch: place.queue[..*count as usize].iter().map(|code| payload(*code)).collect(),
        },
        [SenderAction::Withdraw { life, epoch, first }] => Request::Append {
            life: *life,
            producer: place.producer.clone(),
            epoch: *epoch,
            first: *first,
            batch: Vec::new(),
        },
        [] => return,
        other => panic!("{other:?}"),
    };
    let name = || match &request {
        Request::Append { life, first, batch, .. } => {
            format!("place {at} appends {}", numbers(*first, batch.len(), *life))
        }
        _ => String::new(),
    };
    steps.ask(&w, request.clone(), Lossy::Both, name, |w, answer| {
        let event = match answer {
            Some(Answer::Append(answer)) => SenderEvent::Answered(answer),
            _ => SenderEvent::Unanswered,
        };
        w.sender_step(config, at, event);
    });
}
