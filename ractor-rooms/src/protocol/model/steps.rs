//! Everything that may happen next: what hosts, rooms and senders do, and what befalls them.

use super::configs::{Config, Mutant};
use super::world::{Leaving, World, open, room};
use super::{adopt, events, host, leave, places, regress, rooms};
use crate::id::{Activation, Millis};
use crate::protocol::Source;
use crate::protocol::adopter::AdopterEvent;
use crate::protocol::record::{Answer, Phase, Request};
use crate::protocol::source::{Goal, SourceEvent, SourceState};

/// The store's clock stands still: a deadline passes by a step of its own.
pub(super) const NOW: u64 = 1;

/// A deadline that has not passed.
pub(super) fn open_until() -> Millis {
    Millis(NOW + 1)
}

/// What may become of a request besides being carried out and answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lossy {
    No,
    /// The caller may not wait for it: it executes at any time later, or never.
    Late,
    /// That, or it executes and only the answer is lost.
    Both,
}

/// One step: what it is called, where it leads, and whether it is something that nobody may count on.
pub(super) struct Step {
    pub(super) label: String,
    pub(super) world: World,
    pub(super) fault: bool,
}

/// Collects the steps out of a state.
pub(super) struct Steps<'a> {
    pub(super) config: &'a Config,
    pub(super) labels: bool,
    pub(super) all: Vec<Step>,
}

impl Steps<'_> {
    fn add(&mut self, mut world: World, fault: bool, label: impl FnOnce() -> String) {
        world.normalise();
        let label = if self.labels { label() } else { String::new() };
        self.all.push(Step { label, world, fault });
    }

    /// A step that happens in the end if nothing else does.
    pub(super) fn go(&mut self, world: World, label: impl FnOnce() -> String) {
        self.add(world, false, label);
    }

    /// A step that may happen or not.
    pub(super) fn fault(&mut self, world: World, label: impl FnOnce() -> String) {
        self.add(world, true, label);
    }

    /// Sends a request to the store, with all that may become of it. `None` stands for no answer.
    pub(super) fn ask(
        &mut self,
        world: &World,
        request: Request,
        lossy: Lossy,
        label: impl Fn() -> String,
        then: impl Fn(&mut World, Option<Answer>),
    ) {
        let mut w = world.clone();
        let answer = w.execute(self.config, request.clone());
        let said = if self.labels { format!("{answer:?}") } else { String::new() };
        // Of another generation: nothing changed, and whoever asked learns nothing from it.
        let answer = Some(answer).filter(|a| !matches!(a, Answer::OtherGeneration { .. }));
        then(&mut w, answer);
        self.go(w, || format!("{} -> {said}", label()));
        if lossy == Lossy::Both && world.budget.lost > 0 {
            let mut w = world.clone();
            w.budget.lost -= 1;
            w.execute(self.config, request.clone());
            then(&mut w, None);
            self.fault(w, || format!("{} -> the answer is lost ({said})", label()));
        }
        if lossy != Lossy::No && world.budget.late > 0 {
            let mut w = world.clone();
            w.budget.late -= 1;
            w.late.get_mut().push(request);
            then(&mut w, None);
            self.fault(w, || format!("{} -> no answer, and a copy is under way", label()));
        }
    }
}

pub(super) fn steps(config: &Config, world: &World, labels: bool) -> Vec<Step> {
    let mut steps = Steps { config, labels, all: Vec::new() };
    for at in 0..world.places.len() {
        places::place_steps(&mut steps, world, at);
    }
    for h in 0..world.hosts.len() {
        if world.hosts[h].up {
            adopt::adopter_steps(&mut steps, world, h);
            rooms::run_steps(&mut steps, world, h);
            leave::leave_steps(&mut steps, world, h);
            leave::source_steps(&mut steps, world, h);
            reconcile(&mut steps, world, h);
            regress::prove_steps(&mut steps, world, h);
        }
        die_and_return(&mut steps, world, h);
    }
    sweep(&mut steps, world);
    store_steps(&mut steps, world);
    regress::store_steps(&mut steps, world);
    if config.events {
        events::member_steps(&mut steps, world);
    }
    steps.all
}

/// What the record says that this incarnation owns, and it does not run, is given back.
fn reconcile(steps: &mut Steps<'_>, world: &World, h: usize) {
    let host = &world.hosts[h];
    if steps.config.mutant == Some(Mutant::NoReconcile) || !world.in_session(h) {
        return;
    }
    if !world.has_proved(h) {
        return; // what the store says may be older than what runs here
    }
    for owned in world.store.owned(&host.incarnation) {
        let leaving = host.leaving.as_ref().filter(|leaving| match leaving.source.state() {
            SourceState::Pending
            | SourceState::Frozen
            | SourceState::Snapshotted
            | SourceState::Doubtful { .. } => true,
            SourceState::Offered
            | SourceState::Relaying { .. }
            | SourceState::Adopted { .. }
            | SourceState::Resuming { .. }
            | SourceState::Ended(_) => false,
        });
        let held = host.leaving.as_ref().and_then(|leaving| leaving.held.as_ref());
        let held = held.is_some_and(|(_, first)| first.by == owned.activation.by);
        let tended = [
            host.run.as_ref().map(|run| &run.lease.owner),
            host.adopter.as_ref().map(|adopter| adopter.activation()),
            leaving.map(|leaving| &leaving.lease.owner),
            host.leaving.as_ref().and_then(|leaving| leaving.asserting.as_ref()),
        ];
        if held || tended.contains(&Some(&owned.activation)) {
            continue;
        }
        let lease = crate::protocol::record::Lease {
            epoch: owned.epoch,
            owner: owned.activation,
            generation: world.store.generation(),
        };
        let request = host::give_back(lease, None);
        let name = || format!("{} gives back what it does not run", host.id);
        steps.ask(world, request, Lossy::Late, name, |_, _| {});
    }
}

/// Any living host looks after rooms that nobody runs.
fn sweep(steps: &mut Steps<'_>, world: &World) {
    let config = steps.config;
    let living: Vec<usize> =
        (0..world.hosts.len()).filter(|h| world.hosts[*h].up && world.in_session(*h)).collect();
    if config.mutant == Some(Mutant::NoSweep) || living.is_empty() {
        return;
    }
    for unrest in world.store.unrest(None, 1) {
        let dead_owner = unrest.phase == Phase::Running;
        if dead_owner && config.mutant == Some(Mutant::NoRecovery) {
            continue;
        }
        // An open offer is told again, with the deadline that it has. Otherwise hosts that declined are
        // passed over, unless all have.
        let mut until = open_until();
        let mut targets: Vec<usize> = living
            .iter()
            .copied()
            .filter(|h| !unrest.declined.contains(&world.hosts[*h].id))
            .collect();
        if targets.is_empty() {
            targets = living.clone();
        }
        if let Phase::Offered { to, until: open } = &unrest.phase
            && *open > world.store.now()
            && let Some(to) = living.iter().find(|h| world.hosts[**h].id == *to)
        {
            until = *open;
            let untold = [Some(Mutant::OffersAreToldOnce), Some(Mutant::OffersNeverEndUntold)];
            let told = world.hosts[*to].noticed || !config.notices;
            let again = !told && !untold.contains(&config.mutant);
            targets = if again { vec![*to] } else { Vec::new() };
        }
        for h in targets {
            let to = world.hosts[h].id.clone();
            let request = Request::Offer { to, until, create: false };
            let name = || format!("a sweep offers the room to {}", world.hosts[h].id);
            steps.ask(world, request, Lossy::Late, name, |_, _| {});
        }
    }
}

fn store_steps(steps: &mut Steps<'_>, world: &World) {
    let config = steps.config;
    let endless = [Some(Mutant::OffersNeverEnd), Some(Mutant::OffersNeverEndUntold)];
    if !endless.contains(&config.mutant) && (config.early || !answers_soon(config, world)) {
        let mut w = world.clone();
        if w.pass_deadline() {
            steps.go(w, || "the deadline passes".to_owned());
        }
    }
    for h in 0..world.hosts.len() {
        if world.hosts[h].noticed {
            let mut w = world.clone();
            w.host_mut(h).noticed = false;
            steps.fault(w, || format!("the notice to {} is lost", world.hosts[h].id));
        }
    }
    for at in 0..world.pushes.len() {
        let entry = &world.pushes[at].1;
        let mut w = world.clone();
        w.deliver(config, at);
        steps.go(w, || format!("the push of {:?} arrives", entry.position));
        if world.budget.late > 0 {
            let mut w = world.clone();
            w.budget.late -= 1;
            w.deliver(config, at);
            w.pushes = world.pushes.clone();
            steps.fault(w, || format!("the push of {:?} arrives, and will again", entry.position));
        }
        let mut w = world.clone();
        w.pushes.get_mut().remove(at);
        steps.fault(w, || format!("the push of {:?} is lost", entry.position));
    }
    for at in 0..world.late.len() {
        if at > 0 && world.late[at] == world.late[at - 1] {
            continue;
        }
        let mut w = world.clone();
        let request = w.late.get_mut().remove(at);
        let answer = w.execute(config, request);
        steps.fault(w, || format!("a late copy executes: {:?} -> {answer:?}", world.late[at]));
    }
    let closed =
        world.store.record(&room()).is_some_and(|r| matches!(r.phase, Phase::Closed { .. }));
    if closed {
        // Somebody opens the room again under the same key.
        let to = world.hosts[0].id.clone();
        let request = Request::Offer { to, until: open_until(), create: true };
        steps.ask(world, request, Lossy::No, || "the room is born again".to_owned(), |_, _| {});
    }
}

/// Whether the host that the room is offered to is about to take it.
fn answers_soon(config: &Config, world: &World) -> bool {
    let to = world.store.record(&room()).and_then(|record| match &record.phase {
        Phase::Offered { to, .. } => world.hosts.iter().position(|h| h.id == *to),
        Phase::Running | Phase::Parked { .. } | Phase::Closed { .. } => None,
    });
    to.is_some_and(|h| {
        let host = &world.hosts[h];
        let told = host.noticed || host.adopter.is_some() || !config.notices;
        host.up && world.in_session(h) && told && host.run.is_none()
    })
}

fn die_and_return(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    if !host.up {
        let mut w = world.clone();
        if world.in_session(h) {
            w.store_mut().close_session(&host.incarnation);
            return steps.go(w, || format!("the session of dead {} ends", host.id));
        }
        // Nobody may count on a dead host to return.
        w.return_as_new(h);
        w.host_mut(h).up = true;
        return steps.fault(w, || format!("{} starts again", host.id));
    }
    if world.budget.crash > 0 {
        let mut w = world.clone();
        w.budget.crash -= 1;
        w.ghost_mut().faulted = true;
        w.bereave(h);
        w.forget_everything(h);
        w.host_mut(h).lapsed = false;
        w.host_mut(h).up = false;
        for place in 0..w.places.len() {
            if w.places[place].host == Some(h) {
                w.close_gates(h);
                let place = w.place_mut(place);
                place.dead = true;
                place.admitted = None;
                place.queue.clear();
                place.held.clear();
            }
        }
        steps.fault(w, || format!("{} dies", host.id));
    }
    if host.lapsed {
        if world.store.is_alive(&host.incarnation) {
            let mut w = world.clone();
            w.store_mut().close_session(&host.incarnation);
            return steps.go(w, || format!("the session of {} ends", host.id));
        }
        let live = host.run.as_ref().filter(|run| run.live);
        if let Some(run) = live.filter(|_| host.leaving.is_none() && host.adopter.is_none()) {
            let mut w = world.clone();
            w.hold(h, run.clone());
            steps.go(w, || format!("{} holds its room: its session lapsed", host.id));
        }
        let mut w = world.clone();
        w.adopter_step(config, h, AdopterEvent::Fenced);
        w.source_step(config, h, SourceEvent::Lost);
        w.drop_run(config, h);
        w.forget_everything(h);
        w.return_as_new(h);
        return steps.go(w, || format!("{} notices that its session lapsed", host.id));
    }
    if world.budget.lapse > 0 {
        let mut w = world.clone();
        w.budget.lapse -= 1;
        w.ghost_mut().faulted = true;
        w.host_mut(h).lapsed = true;
        w.bereave(h);
        w.store_mut().close_session(&host.incarnation);
        steps.fault(w, || format!("the session of {} lapses", host.id));
    }
}

impl World {
    fn forget_everything(&mut self, h: usize) {
        let host = self.host_mut(h);
        host.noticed = false;
        host.adopter = None;
        host.acquired = None;
        host.run = None;
        host.leaving = None;
    }

    /// What runs is frozen, the host opens another session, and the room waits to be taken back.
    fn hold(&mut self, h: usize, run: super::world::Run) {
        let (mut source, _) =
            Source::start(self.hosts[h].id.clone(), run.lease.epoch, Goal::Retake);
        for event in [SourceEvent::Froze, SourceEvent::Reopened] {
            source.step(event).unwrap_or_else(|rejected| panic!("{rejected}"));
        }
        self.close_gates(h);
        self.forget_everything(h);
        self.return_as_new(h);
        let host = self.host_mut(h);
        host.acquisitions = 2; // one to take it back, one to go on with it
        let by = host.incarnation.clone();
        let (lease, life) = (run.lease.clone(), run.life);
        let held = Some((run, Activation { by, number: 1 }));
        host.leaving = Some(Leaving { held, ..Leaving::new(source, lease, life) });
    }

    fn return_as_new(&mut self, h: usize) {
        let id = self.hosts[h].id.clone();
        let incarnation = open(self.store_mut(), &id);
        let host = self.host_mut(h);
        host.incarnation = incarnation;
        host.lapsed = false;
        host.acquisitions = 0;
    }
}
