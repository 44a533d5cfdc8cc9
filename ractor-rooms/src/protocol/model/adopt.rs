//! What may happen next to a host that takes the room.

use super::configs::Mutant;
use super::host::give_back;
use super::steps::{Lossy, Steps};
use super::world::{World, room};
use crate::protocol::adopter::{AdopterEvent, AdopterState, AdopterTimer};
use crate::protocol::record::{Answer, DeclineReason, OwnerAnswer, Phase, Request};

/// What a host's adopter does next.
pub(super) fn adopter_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(adopter) = &host.adopter else { return start_steps(steps, world, h) };
    match adopter.state().clone() {
        AdopterState::Claiming => {
            let (activation, seen) = (adopter.activation().clone(), adopter.seen().clone());
            let request = Request::Acquire { activation, seen };
            steps.ask(
                world,
                request,
                Lossy::Both,
                || format!("{} acquires", host.id),
                |w, answer| {
                    let event = match answer {
                        Some(Answer::Acquire(answer)) => AdopterEvent::ClaimAnswered(answer),
                        _ => AdopterEvent::ClaimUnanswered,
                    };
                    w.adopter_step(config, h, event);
                },
            );
            if world.budget.give_up > 0 {
                let mut w = world.clone();
                w.budget.give_up -= 1;
                w.adopter_step(config, h, AdopterEvent::Fired(AdopterTimer::Claim));
                steps.fault(w, || format!("{} gives its acquire up", host.id));
            }
        }
        AdopterState::Restoring { .. } => {
            let mut w = world.clone();
            w.restore(config, h);
            steps.go(w, || format!("{} restores", host.id));
            fail_restore(steps, world, h, AdopterEvent::RestoreFailed(DeclineReason::UnknownKind));
        }
        AdopterState::Replaying { .. } => {
            fail_restore(steps, world, h, AdopterEvent::Fired(AdopterTimer::Restore));
        }
        AdopterState::Settling { lease } => {
            let request = Request::Settle { lease };
            steps.ask(
                world,
                request,
                Lossy::Both,
                || format!("{} settles", host.id),
                |w, answer| {
                    let event = match answer {
                        Some(Answer::Owner(answer)) => AdopterEvent::SettleAnswered(answer),
                        _ => AdopterEvent::SettleUnanswered,
                    };
                    w.adopter_step(config, h, event);
                },
            );
        }
        AdopterState::GivingBack { lease, why } => {
            let request = give_back(lease, Some(why));
            steps.ask(
                world,
                request,
                Lossy::Both,
                || format!("{} gives back", host.id),
                |w, answer| {
                    let event = match answer {
                        Some(Answer::Owner(OwnerAnswer::Done | OwnerAnswer::Fenced { .. })) => {
                            AdopterEvent::GaveBack
                        }
                        _ => AdopterEvent::GiveBackUnanswered,
                    };
                    w.adopter_step(config, h, event);
                },
            );
        }
        AdopterState::Declining { why } => {
            let request = Request::Decline { by: host.id.clone(), why };
            steps.ask(
                world,
                request,
                Lossy::Both,
                || format!("{} declines", host.id),
                |w, _| {
                    w.adopter_step(config, h, AdopterEvent::DeclineAnswered);
                },
            );
        }
        AdopterState::Live { .. } | AdopterState::Declined { .. } | AdopterState::Lost => {}
    }
}

fn fail_restore(steps: &mut Steps<'_>, world: &World, h: usize, event: AdopterEvent) {
    if world.budget.fail_restore == 0 {
        return;
    }
    let mut w = world.clone();
    w.budget.fail_restore -= 1;
    w.adopter_step(steps.config, h, event);
    steps.fault(w, || format!("{} cannot restore in time", world.hosts[h].id));
}

/// A host that was told of an offer takes it up, or not.
fn start_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(record) = world.store.record(&room()) else { return };
    let stealing = config.mutant == Some(Mutant::TakenFromTheLiving) && host.acquisitions == 0;
    // What is frozen here goes on by its own way.
    if host.leaving.as_ref().is_some_and(|leaving| leaving.asserts || leaving.held.is_some()) {
        return;
    }
    let told = host.noticed || !config.notices;
    if !stealing && (!told || host.run.is_some()) {
        return;
    }
    let to_me = matches!(&record.phase, Phase::Offered { to, .. } if *to == host.id);
    if !world.in_session(h) || !(to_me || stealing) {
        return;
    }
    let mut w = world.clone();
    w.host_mut(h).noticed = false;
    let mut declining = w.clone();
    let (adopter, _) = w.begin_adoption(h);
    w.host_mut(h).adopter = Some(adopter);
    steps.go(w, || format!("{} takes the offer up", host.id));
    if world.budget.decline > 0 {
        declining.budget.decline -= 1;
        let (adopter, _) = declining.adoption(h, Err(DeclineReason::OverCapacity));
        declining.host_mut(h).adopter = Some(adopter);
        steps.fault(declining, || format!("{} will decline", host.id));
    }
}
