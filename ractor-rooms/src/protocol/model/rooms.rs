//! What may happen next to a room that exists in a host's memory: it takes messages, handles them, saves
//! itself.

use super::configs::{Config, Mutant};
use super::events;
use super::steps::{Lossy, Steps};
use super::world::{Code, Content, Run, World, bit, room, sent};
use crate::id::Position;
use crate::protocol::adopter::{AdopterEvent, AdopterState};
use crate::protocol::consumer::Intake;
use crate::protocol::invariants::{i2_outputs_repeat, i4_in_order};
use crate::protocol::record::{Answer, Entry, OwnerAnswer, Page, Request};

impl Run {
    pub(super) fn content(&self) -> Content {
        Content {
            consumer: self.consumer.clone(),
            state: self.state.clone(),
            mailbox: self.mailbox.clone(),
            published: self.published,
            pending: self.pending.clone(),
        }
    }
}

impl World {
    fn handle(&mut self, config: &Config, host: usize, message: Code) {
        let Some(run) = self.run_mut(host) else { return };
        run.state.push(message);
        if config.events {
            run.pending.push(message);
        }
        let state = run.state.clone();
        let handled: Vec<_> = state.iter().map(|code| sent(*code)).collect();
        if config.durable && !self.ghost.forked {
            self.note(i2_outputs_repeat(&self.ghost.outputs, &state));
            if state.len() > self.ghost.outputs.len() {
                self.ghost_mut().outputs = state;
            }
        }
        self.note(i4_in_order(&handled));
    }

    /// Takes what an entry brings: a durable room handles its next message, a live one puts all of it
    /// into the mailbox. Says whether the entry is done with.
    fn take(&mut self, config: &Config, host: usize, entry: &Entry, pushed: bool) -> bool {
        let Some(run) = self.run_mut(host) else { return true };
        let intake = match config.mutant {
            Some(Mutant::TakeEverything | Mutant::NoDedupeAtAll) => {
                match run.consumer.pushed(entry) {
                    Intake::Behind if pushed => Intake::Behind,
                    Intake::Take { .. } | Intake::Known | Intake::Behind => {
                        Intake::Take { skip: 0 }
                    }
                }
            }
            Some(Mutant::GapsAreIgnored) => run.consumer.read(entry),
            _ if pushed => run.consumer.pushed(entry),
            _ => run.consumer.read(entry),
        };
        let skip = match intake {
            Intake::Behind => {
                run.behind = true;
                return true;
            }
            Intake::Known => {
                run.consumer.finished(entry);
                return true;
            }
            Intake::Take { skip } => skip,
        };
        let upto = if config.durable { skip + 1 } else { entry.batch.len() };
        for index in skip..upto {
            run.consumer.took(entry, index);
        }
        let done = upto == entry.batch.len();
        if done {
            run.consumer.finished(entry);
        }
        if config.durable {
            self.handle(config, host, entry.batch[skip][0]);
        } else {
            run.mailbox.extend(entry.batch[skip..].iter().map(|message| message[0]));
        }
        done
    }

    /// A push arrives where its lease says.
    pub(super) fn deliver(&mut self, config: &Config, at: usize) {
        let (lease, entry) = self.pushes[at].clone();
        let host = self.hosts.iter().position(|h| h.up && h.incarnation == lease.owner.by);
        let runs = |h: &usize| self.hosts[*h].run.as_ref().is_some_and(|r| r.lease == lease);
        let Some(host) = host.filter(runs) else {
            self.pushes.get_mut().remove(at);
            return;
        };
        if self.take(config, host, &entry, true) {
            self.pushes.get_mut().remove(at);
        }
    }

    /// Reads one page of the log and takes what is next in it; false when nothing was.
    fn read_log(&mut self, config: &Config, host: usize) -> Read {
        let Some(run) = self.hosts[host].run.as_ref() else { return Read::Fenced };
        let (lease, after) = (run.lease.clone(), run.consumer.position());
        let request = Request::ReadLog { lease, after, max_bytes: usize::MAX };
        let Answer::Page(Ok(page)) = self.execute(config, request) else { return Read::Fenced };
        let Page { entries, more, head } = page;
        let mut left = entries.len();
        for entry in &entries {
            let done = self.take(config, host, entry, false);
            left -= usize::from(done);
            if config.durable {
                break;
            }
        }
        if left == 0
            && !more
            && config.mutant != Some(Mutant::NoCaughtUp)
            && let Some(run) = self.run_mut(host)
        {
            run.behind = false;
            run.consumer.caught_up(head);
        }
        if entries.is_empty() { Read::Nothing } else { Read::Took }
    }
}

enum Read {
    Fenced,
    Nothing,
    Took,
}

pub(super) fn run_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(run) = &host.run else { return };
    if run.live && !run.mailbox.is_empty() {
        let mut w = world.clone();
        if let Some(run) = w.run_mut(h) {
            let message = run.mailbox.remove(0);
            w.handle(config, h, message);
        }
        steps.go(w, || format!("{} handles {:?}", host.id, sent(run.mailbox[0])));
    }
    if world.is_stale(config, &run.lease) {
        return; // whatever it asks under that lease changes nothing
    }
    let Some(record) = world.store.record(&room()) else { return };
    if record.lease().as_ref() != Some(&run.lease) {
        // The reconcile shows it, or the refusal of any write.
        let mut w = world.clone();
        w.lose(config, h);
        steps.go(w, || format!("{} learns that it is fenced", host.id));
    }
    events::emit_step(steps, world, h);
    let adopter = host.adopter.as_ref().map(|adopter| adopter.state());
    let replaying = matches!(adopter, Some(AdopterState::Replaying { .. }));
    let head_check = config.mutant != Some(Mutant::NoHeadCheck) || !config.push;
    let reads = replaying || run.behind || head_check;
    let lacks = record.last > run.consumer.position() && has_after(world, run.consumer.position());
    if reads && (lacks || run.behind) || replaying {
        read_step(steps, world, h, replaying);
    }
    if run.live {
        save_steps(steps, world, h);
    }
    let early = config.mutant == Some(Mutant::AckWhileReplaying) && !run.live;
    let acks = (!config.durable && run.live) || early || config.mutant == Some(Mutant::DurableAcks);
    let received = run.consumer.position();
    if acks && record.log.front().is_some_and(|e| e.position <= received) {
        let request = Request::Ack { lease: run.lease.clone(), received };
        steps.ask(
            world,
            request,
            Lossy::Late,
            || format!("{} acks", host.id),
            |w, answer| {
                if matches!(answer, Some(Answer::Owner(OwnerAnswer::Fenced { .. }))) {
                    w.lose(config, h);
                }
            },
        );
    }
}

fn has_after(world: &World, position: Position) -> bool {
    let log = world.store.record(&room()).and_then(|r| r.log.back());
    log.is_some_and(|entry| entry.position > position)
}

fn read_step(steps: &mut Steps<'_>, world: &World, h: usize, replaying: bool) {
    let config = steps.config;
    let id = &world.hosts[h].id;
    let mut w = world.clone();
    match w.read_log(config, h) {
        Read::Fenced => {
            w.lose(config, h);
            steps.go(w, || format!("{id} is refused its log"));
        }
        Read::Took => steps.go(w, || format!("{id} reads the log")),
        Read::Nothing => {
            if replaying {
                w.adopter_step(config, h, AdopterEvent::CaughtUp);
            }
            steps.go(w, || format!("{id} has caught up"));
        }
    }
}

fn save_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(run) = &host.run else { return };
    let pending = host.leaving.is_some();
    if config.checkpoints && !pending && run.saved.as_ref() != Some(&run.content()) {
        let mut w = world.clone();
        if let Some(snapshot) = w.snapshot(config, h) {
            let request = Request::Checkpoint { lease: run.lease.clone(), snapshot };
            let content = run.content();
            let name = || format!("{} checkpoints {:?}", host.id, content.state);
            steps.ask(&w, request, Lossy::Both, name, |w, answer| match answer {
                Some(Answer::Owner(OwnerAnswer::Done)) => {
                    if let Some(run) = w.run_mut(h) {
                        run.saved = Some(content.clone());
                    }
                }
                Some(_) => w.lose(config, h),
                None => {}
            });
        }
    }
    if world.budget.closes > 0 && !pending {
        let mut w = world.clone();
        w.budget.closes -= 1;
        // What is anywhere but in a queue belongs to the life that ends.
        let queued = w.places.iter().flat_map(|p| p.queue.iter().chain(&p.held).chain(&p.admitted));
        let queued = queued.fold(0, |all, code| all | bit(*code));
        let all = w.places.iter().flat_map(|p| p.sent_codes());
        let over = all.fold(0, |all, code| all | bit(code)) & !queued;
        w.ghost_mut().former |= over;
        let cursor = run.consumer.position();
        let reason = "over".to_owned();
        let request = Request::Close { lease: run.lease.clone(), cursor, reason, forced: true };
        let closed = w.execute(config, request);
        w.host_mut(h).run = None;
        w.close_gates(h);
        steps.fault(w, || format!("{} closes the room: {closed:?}", host.id));
    }
}

impl World {
    /// The room is not this host's any more.
    pub(super) fn lose(&mut self, config: &Config, host: usize) {
        if self.hosts[host].adopter.is_some() {
            self.adopter_step(config, host, AdopterEvent::Fenced);
        } else {
            self.drop_run(config, host);
        }
    }
}
