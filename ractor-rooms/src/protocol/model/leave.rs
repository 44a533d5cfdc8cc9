//! What may happen next to a host that gives the room up.

use super::configs::Mutant;
use super::host::{may_take, seen, view};
use super::regress;
use super::steps::{Lossy, Steps, open_until};
use super::world::{Leaving, World, room};
use crate::id::{Activation, HostId, OutSeq};
use crate::protocol::record::{
    AcquireAnswer, Answer, OwnerAnswer, ParkReason, Phase, Reassert, Record, Request, Seen,
};
use crate::protocol::source::{AbortReason, Goal, SourceEvent, SourceState, SourceTimer};
use crate::protocol::{Adopter, Source};

/// What a host's source does next.
pub(super) fn source_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(leaving) = &host.leaving else { return };
    if let Some(to) = &leaving.park {
        let request = Request::Park {
            lease: leaving.lease.clone(),
            snapshot: leaving.cut.clone(),
            offer: to.clone().map(|to| (to, open_until())),
            why: ParkReason::Idle,
            failed: None,
        };
        let name = || format!("{} parks, offered to {to:?}", host.id);
        steps.ask(world, request, Lossy::Both, name, |w, answer| {
            if let Some(leaving) = w.host_mut(h).leaving.as_mut() {
                leaving.park = None;
            }
            let event = match answer {
                Some(Answer::Owner(OwnerAnswer::Done)) => SourceEvent::Parked,
                Some(Answer::Owner(OwnerAnswer::Fenced { .. })) => SourceEvent::ParkFenced,
                Some(_) => SourceEvent::ParkRefused,
                None => SourceEvent::ParkUnanswered,
            };
            w.source_step(config, h, event);
        });
        return;
    }
    match leaving.source.state() {
        SourceState::Pending => {
            let mut w = world.clone();
            w.source_step(config, h, SourceEvent::Froze);
            steps.go(w, || format!("{} makes the cut", host.id));
            if world.budget.abort > 0 {
                let mut w = world.clone();
                w.budget.abort -= 1;
                w.source_step(config, h, SourceEvent::FreezeFailed(AbortReason::FreezeTimedOut));
                steps.fault(w, || format!("{} thaws", host.id));
            }
        }
        SourceState::Doubtful { .. } | SourceState::Offered | SourceState::Relaying { .. } => {
            watch(steps, world, h);
        }
        SourceState::Resuming { .. } if leaving.held.is_some() => retake(steps, world, h),
        SourceState::Resuming { .. } if leaving.asserts => regress::reassert(steps, world, h),
        SourceState::Resuming { .. } => resume(steps, world, h),
        SourceState::Frozen
        | SourceState::Snapshotted
        | SourceState::Adopted { .. }
        | SourceState::Ended(_) => {}
    }
}

fn watch(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(view) = view(world) else { return };
    let mut w = world.clone();
    w.source_step(config, h, SourceEvent::Saw(view));
    if w.hosts[h] != world.hosts[h] {
        steps.go(w, || format!("{} reads the record as the source", host.id));
    }
    let Some(leaving) = &host.leaving else { return };
    let doubtful = matches!(leaving.source.state(), SourceState::Doubtful { .. });
    let thaws = [Some(Mutant::ThawAfterPark), Some(Mutant::ThawAfterParkOlderWins)];
    if doubtful && thaws.contains(&config.mutant) {
        let mut w = world.clone();
        if let Some(cut) = &leaving.cut {
            let content = w.content(&cut.key).cloned().unwrap();
            let run = content.run(leaving.lease.clone(), leaving.life, cut.number);
            w.host_mut(h).run = Some(super::world::Run { live: true, ..run });
        }
        w.host_mut(h).leaving = None;
        w.open_gates(h, config);
        steps.go(w, || format!("{} goes live again at its old epoch", host.id));
    }
    let Some(record) = world.store.record(&room()) else { return };
    let due = match leaving.source.state() {
        SourceState::Offered => may_take(world, record, host).then_some(SourceTimer::Offer),
        SourceState::Relaying { .. } if world.budget.give_up > 0 => Some(SourceTimer::Relay),
        _ => None,
    };
    if let Some(timer) = due
        && config.mutant != Some(Mutant::NoResume)
    {
        let mut w = world.clone();
        w.source_step(config, h, SourceEvent::Fired(timer));
        if timer == SourceTimer::Relay {
            w.budget.give_up -= 1;
            steps.fault(w, || format!("{} has waited long enough", host.id));
        } else {
            steps.go(w, || format!("{}: nobody adopted in time", host.id));
        }
    }
}

/// The source wants the room back: one adoption per room and host at a time, whoever began it.
fn resume(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(leaving) = &host.leaving else { return };
    if host.adopter.is_some() {
        return;
    }
    let mut w = world.clone();
    if host.run.as_ref().is_some_and(|run| run.live) {
        w.source_step(config, h, SourceEvent::Reacquired);
        return steps.go(w, || format!("{} has the room again", host.id));
    }
    let Some(record) = world.store.record(&room()) else { return };
    let take = leaving.wants_back && may_take(world, record, host) && world.in_session(h);
    if take && config.mutant != Some(Mutant::NoResume) {
        if let Some(leaving) = w.host_mut(h).leaving.as_mut() {
            leaving.wants_back = false;
        }
        w.host_mut(h).noticed = false;
        let (adopter, _) = w.begin_adoption(h);
        w.host_mut(h).adopter = Some(adopter);
        steps.go(w, || format!("{} wants the room back", host.id));
    } else {
        if let Some(leaving) = w.host_mut(h).leaving.as_mut() {
            leaving.wants_back = false;
        }
        w.source_step(config, h, SourceEvent::ReacquireRefused);
        steps.go(w, || format!("{} cannot get it back", host.id));
    }
}

/// A room that was held while its host had no session is taken back, if nobody has had it.
fn retake(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(leaving) = &host.leaving else { return };
    let Some((run, activation)) = &leaving.held else { return };
    if host.adopter.is_some() {
        return;
    }
    let Some(record) = world.store.record(&room()) else {
        let mut w = world.clone();
        w.source_step(config, h, SourceEvent::ReacquireRefused);
        return steps.go(w, || format!("{} ends its copy: there is no such room", host.id));
    };
    if host.run.as_ref().is_some_and(|run| run.live) {
        let mut w = world.clone();
        w.source_step(config, h, SourceEvent::Reacquired);
        return steps.go(w, || format!("{} has the room that it held", host.id));
    }
    if leaving.acquired {
        return reassert(steps, world, h);
    }
    let ours = record.owner.as_ref() == Some(activation);
    let looks = config.mutant != Some(Mutant::TakesBackWhatOthersHad);
    let had = !ours && (record.epoch != run.lease.epoch || is_closed(record));
    if had && looks || is_closed(record) {
        let mut w = world.clone();
        w.source_step(config, h, SourceEvent::ReacquireRefused);
        return steps.go(w, || format!("{} ends its copy: others have had the room", host.id));
    }
    if !ours && !may_take(world, record, host) {
        return;
    }
    // A repeat names what the first one saw.
    let first = Seen { epoch: run.lease.epoch, owner: Some(run.lease.owner.clone()) };
    let seen = if ours { first } else { seen(record) };
    let request = Request::Acquire { activation: activation.clone(), seen };
    let name = || format!("{} takes back what it held", host.id);
    steps.ask(world, request, Lossy::Both, name, |w, answer| {
        let Some(Answer::Acquire(AcquireAnswer::Acquired(acquired))) = answer else { return };
        if let Some(leaving) = w.host_mut(h).leaving.as_mut() {
            leaving.claim = acquired.lease.clone();
            leaving.lease = acquired.lease;
            leaving.told = leaving.lease.generation;
            leaving.acquired = true;
        }
    });
}

/// What is held goes on in place of what is stored.
fn reassert(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(leaving) = &host.leaving else { return };
    let Some((held, first)) = &leaving.held else { return };
    let mut w = world.clone();
    w.host_mut(h).run = Some(held.clone());
    let snapshot = w.snapshot(config, h);
    w.host_mut(h).run = None;
    let Some(snapshot) = snapshot else { return };
    let request = Request::Reassert(Box::new(Reassert {
        lease: leaving.lease.clone(),
        activation: Activation { by: first.by.clone(), number: first.number + 1 },
        life: held.life,
        handled: held.consumer.handled(),
        seq: held.consumer.seq(),
        out_seq: OutSeq(held.published),
        snapshot,
    }));
    let name = || format!("{} goes on with what it held", host.id);
    steps.ask(&w, request, Lossy::Both, name, |w, answer| match answer {
        Some(Answer::Acquire(AcquireAnswer::Acquired(acquired))) => {
            let (adopter, _) = Adopter::holding(acquired.clone());
            let host = w.host_mut(h);
            if let Some(leaving) = host.leaving.as_mut() {
                leaving.claim = acquired.lease.clone();
            }
            host.adopter = Some(adopter);
            host.acquired = Some(*acquired);
            if let Some(acquired) = &mut host.acquired {
                acquired.page.entries.clear();
            }
        }
        Some(Answer::Acquire(AcquireAnswer::Refused { .. })) => {
            w.source_step(config, h, SourceEvent::ReacquireRefused);
        }
        Some(_) | None => {}
    });
}

fn is_closed(record: &Record) -> bool {
    matches!(record.phase, Phase::Closed { .. })
}

/// A move or an idle unload begins: the gate closes, and the handler under way goes on.
pub(super) fn leave_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(run) = host.run.as_ref().filter(|run| run.live) else { return };
    if host.leaving.is_some() {
        return;
    }
    let admitted = world.places.iter().any(|p| p.host == Some(h) && p.admitted.is_some());
    if admitted && config.mutant != Some(Mutant::NoAdmission) {
        return;
    }
    let mut begin = |goal: Goal, spend: fn(&mut World), name: &str| {
        let mut w = world.clone();
        spend(&mut w);
        let (source, _) = Source::start(host.id.clone(), run.lease.epoch, goal);
        let leaving = Leaving::new(source, run.lease.clone(), run.life);
        w.host_mut(h).leaving = Some(leaving);
        w.close_gates(h);
        steps.fault(w, || format!("{} begins {name}", host.id));
    };
    if world.budget.moves > 0 {
        let targets: Vec<HostId> = world.hosts.iter().map(|h| h.id.clone()).collect();
        for to in targets.into_iter().filter(|to| *to != host.id) {
            begin(Goal::Move { to }, |w| w.budget.moves -= 1, "a move");
        }
    }
    if world.budget.unloads > 0 {
        begin(Goal::Unload, |w| w.budget.unloads -= 1, "an idle unload");
    }
}
