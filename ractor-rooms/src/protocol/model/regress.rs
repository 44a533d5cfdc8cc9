//! A store that goes back in time: to what is on its disk, or to nothing. And what hosts do then: prove what
//! they run, or drop it, before anybody acquires anything.

use super::configs::{Config, Mutant};
use super::host::view;
use super::shared::Shared;
use super::steps::{Lossy, Steps};
use super::world::{Host, Leaving, TTL, World, bit, room, spec};
use crate::id::{Activation, Generation, OutSeq};
use crate::protocol::adopter::AdopterEvent;
use crate::protocol::record::{AcquireAnswer, Answer, Lease, Phase, Reassert, Request};
use crate::protocol::source::{Goal, SourceEvent, SourceState};
use crate::protocol::{Adopter, Source};

/// What may befall the store.
pub(super) fn store_steps(steps: &mut Steps<'_>, world: &World) {
    if world.budget.regress > 0 {
        if world.kept.as_ref() != Some(&world.store) && world.budget.keep > 0 {
            let mut w = world.clone();
            w.budget.keep -= 1;
            w.kept = Some(world.store.clone());
            steps.fault(w, || "all of it up to here is on the disk".to_owned());
        }
        if let Some(kept) = &world.kept {
            let mut w = world.clone();
            w.go_back(steps.config, Some((**kept).clone()));
            steps.fault(w, || "the store goes back to what is on the disk".to_owned());
        }
    }
    if world.budget.forget > 0 {
        let mut w = world.clone();
        w.budget.forget -= 1;
        w.go_back(steps.config, None);
        steps.fault(w, || "the store is emptied".to_owned());
    }
    // As long as a session lasts: who has not proved by then what it runs has none any more.
    let proved = |h: &usize| world.has_proved(*h) || !world.hosts[*h].up || world.hosts[*h].lapsed;
    if world.store.is_unproved() && (0..world.hosts.len()).all(|h| proved(&h)) {
        let mut w = world.clone();
        w.store_mut().end_doubt();
        steps.go(w, || "a session's time has passed since the store went back".to_owned());
    }
}

impl World {
    fn go_back(&mut self, config: &Config, kept: Option<crate::protocol::Store>) {
        let before = self.store.record(&room()).cloned();
        // A session that was opened since is forgotten, and nobody waits for whom nobody knows.
        let known: Vec<bool> = self
            .hosts
            .iter()
            .map(|host| {
                config.strangers
                    || kept.as_ref().is_none_or(|kept| kept.is_alive(&host.incarnation))
            })
            .collect();
        let back_to = kept.as_ref().and_then(|store| store.record(&room()).cloned());
        match kept {
            Some(kept) => {
                self.budget.regress -= 1;
                self.store_mut().restart_from(kept);
            }
            None => self.store_mut().forget(),
        }
        if self.budget.regress == 0 {
            self.kept = None;
            self.budget.keep = 0;
        }
        if config.mutant == Some(Mutant::AcquireBeforeAllHaveProved) {
            self.store_mut().end_doubt();
        }
        let mut held = 0;
        for at in 0..self.places.len() {
            held |= self.places[at].window.iter().fold(0, |all, code| all | bit(*code));
            if !self.places[at].dead && config.mutant != Some(Mutant::ResentOnlyAfterGaps) {
                self.place_mut(at).forgotten = true;
            }
        }
        // The one that knows all that the record said, if there is one.
        let owner = before.as_ref().and_then(|record| record.lease());
        let knows = |(host, known): &(&Shared<Host>, bool)| *known && host.up && !host.lapsed;
        let heir = self.hosts.iter().zip(known).filter(knows).find_map(|(host, _)| {
            let run =
                host.run.as_ref().filter(|run| run.live && Some(&run.lease) == owner.as_ref());
            let frozen = host.leaving.as_ref().filter(|leaving| {
                let last = match &owner {
                    Some(owner) => leaving.lease == *owner,
                    None => before.as_ref().is_some_and(|r| r.epoch == leaving.lease.epoch),
                };
                last && leaving.cut.is_some()
            });
            let held = host.leaving.as_ref().and_then(|leaving| {
                let (run, _) = leaving.held.as_ref()?;
                (Some(&leaving.claim) == owner.as_ref()).then_some((leaving, run.state.len()))
            });
            let cut = |leaving: &Leaving| {
                let content = leaving.cut.as_ref().and_then(|cut| self.content(&cut.key));
                content.map_or(0, |content| content.state.len())
            };
            run.map(|run| (run.lease.clone(), run.state.len()))
                .or(frozen.map(|leaving| (leaving.lease.clone(), cut(leaving))))
                .or(held.map(|(leaving, outputs)| (leaving.claim.clone(), outputs)))
        });
        let ghost = self.ghost_mut();
        ghost.regressed = true;
        // What is not held any more was accepted long before.
        ghost.reported |= ghost.acknowledged & !held;
        let nothing_lost = back_to == before;
        // What a replay puts out before it has settled is remembered by nobody.
        let heir = heir.filter(|(_, outputs)| *outputs >= ghost.outputs.len());
        let said = !ghost.outputs.is_empty() || !ghost.events.is_empty();
        ghost.forked |= heir.is_none() && !nothing_lost && said;
        ghost.heir = heir.map(|(lease, _)| lease);
    }

    /// What a host knew is lost with it.
    pub(super) fn bereave(&mut self, h: usize) {
        let by = &self.hosts[h].incarnation;
        if self.ghost.heir.as_ref().is_some_and(|heir| heir.owner.by == *by) {
            let ghost = self.ghost_mut();
            ghost.heir = None;
            ghost.forked = true;
        }
    }

    /// Whether a lease proves nothing, because it is of another generation.
    pub(super) fn is_stale(&self, config: &Config, lease: &Lease) -> bool {
        let equal = || {
            let record = self.store.record(&room());
            record.is_some_and(|r| r.epoch == lease.epoch && r.owner.as_ref() == Some(&lease.owner))
        };
        lease.generation != self.store.generation()
            && !(config.mutant == Some(Mutant::EqualEpochProves) && equal())
    }

    /// Whether a host has said that it has proved or dropped all that it ran.
    pub(super) fn has_proved(&self, h: usize) -> bool {
        if self.store.generation() == Generation(1) {
            return true; // the first one
        }
        let sessions = self.store.sessions();
        let mine = sessions.iter().find(|s| s.incarnation == self.hosts[h].incarnation);
        mine.is_some_and(|s| s.spec.proved >= self.store.generation())
    }

    /// Whether a host's source is yet to hear of the generation, or to prove the room in it.
    fn leaving_is_stale(&self, config: &Config, leaving: &Leaving) -> bool {
        let over =
            matches!(leaving.source.state(), SourceState::Adopted { .. } | SourceState::Ended(_));
        *leaving.source.goal() != Goal::Retake
            && !over
            && leaving.conceded != Some(self.store.generation())
            && self.is_stale(config, &leaving.claim)
    }

    /// Whether a room that was held, and is taken back under the present session, is to be proved anew. One
    /// that is not taken back yet is acquired as any other, once everybody has proved.
    fn retaken_is_stale(&self, config: &Config, h: usize, leaving: &Leaving) -> bool {
        *leaving.source.goal() == Goal::Retake
            && leaving.claim.owner.by == self.hosts[h].incarnation
            && config.mutant != Some(Mutant::RetakenIsNotProved)
            && self.is_stale(config, &leaving.claim)
    }

    /// Whether something here is yet to be proved or dropped.
    pub(super) fn has_stale(&self, config: &Config, h: usize) -> bool {
        let host = &self.hosts[h];
        if self.store.generation() == Generation(1) {
            return false;
        }
        if let Some(leaving) = &host.leaving {
            return self.leaving_is_stale(config, leaving)
                || self.retaken_is_stale(config, h, leaving);
        }
        let adopting = host.adopter.as_ref().and_then(|adopter| adopter.lease());
        adopting.is_some_and(|lease| self.is_stale(config, lease))
            || host.run.as_ref().is_some_and(|run| self.is_stale(config, &run.lease))
    }

    /// What is being taken back, under a lease that proves nothing any more, is re-asserted once more.
    fn retake_again(&mut self, h: usize, generation: Generation) {
        self.drop_copy(h);
        if let Some(leaving) = self.host_mut(h).leaving.as_mut() {
            leaving.told = generation;
            leaving.lease = leaving.claim.clone();
            leaving.acquired = true;
        }
    }

    /// What runs or is to run here is given up; what is frozen stays.
    fn drop_copy(&mut self, h: usize) {
        let host = self.host_mut(h);
        host.adopter = None;
        host.acquired = None;
        host.run = None;
        self.close_gates(h);
    }

    /// The room is frozen, if it is not, and what was taking it back is given up.
    pub(super) fn freeze_to_reassert(&mut self, config: &Config, h: usize) {
        let Some(leaving) = &self.hosts[h].leaving else { return };
        let cut = match leaving.cut.clone() {
            Some(cut) => Some(cut),
            None => self.snapshot(config, h),
        };
        self.drop_copy(h);
        if let Some(leaving) = self.host_mut(h).leaving.as_mut() {
            leaving.asserts = true;
            leaving.wants_back = false;
            leaving.park = None;
            leaving.cut = cut;
        }
    }
}

/// A host learns that the store is in another generation, and sees to every lease of an earlier one.
pub(super) fn prove_steps(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let generation = world.store.generation();
    if generation == Generation(1) || (host.lapsed && !reasserts_anyway(config)) {
        return;
    }
    if world.has_stale(config, h) {
        let mut w = world.clone();
        if let Some(leaving) = &host.leaving {
            let live = host.run.as_ref().is_some_and(|run| run.live);
            if *leaving.source.goal() == Goal::Retake {
                if leaving.told != generation && !live {
                    w.retake_again(h, generation);
                    steps.go(w, || format!("{} proves anew what it takes back", host.id));
                }
            } else if leaving.told != generation {
                if let Some(leaving) = w.host_mut(h).leaving.as_mut() {
                    leaving.told = generation;
                }
                w.source_step(config, h, SourceEvent::OtherGeneration);
                steps.go(w, || format!("{} as the source learns of the generation", host.id));
            }
        } else if host.adopter.is_some() {
            w.adopter_step(config, h, AdopterEvent::Fenced);
            steps.go(w, || format!("{} drops what it was taking", host.id));
        } else if let Some(run) = &host.run {
            let (source, _) = Source::start(host.id.clone(), run.lease.epoch, Goal::Reassert);
            let leaving = Leaving::new(source, run.lease.clone(), run.life);
            w.host_mut(h).leaving = Some(Leaving { told: generation, ..leaving });
            w.close_gates(h);
            steps.go(w, || format!("{} freezes its room, to prove it", host.id));
        }
    }
    if host.lapsed {
        return;
    }
    let proved = if world.has_stale(config, h) { Generation::default() } else { generation };
    let mut w = world.clone();
    if !w.store_mut().renew_session(&host.incarnation, TTL, spec(proved)) {
        w.host_mut(h).lapsed = true;
        w.bereave(h);
    }
    if w != *world {
        steps.go(w, || format!("{} renews its session, and has proved {proved}", host.id));
    }
}

fn reasserts_anyway(config: &Config) -> bool {
    config.mutant == Some(Mutant::ReassertAfterLapse)
}

/// What is frozen goes on in place of what is stored.
pub(super) fn reassert(steps: &mut Steps<'_>, world: &World, h: usize) {
    let config = steps.config;
    let host = &world.hosts[h];
    let Some(leaving) = &host.leaving else { return };
    let Some(cut) = leaving.cut.clone() else { return };
    if host.lapsed && !reasserts_anyway(config) {
        return;
    }
    let mut w = world.clone();
    let activation = match &leaving.asserting {
        Some(activation) => activation.clone(),
        None => {
            let host = w.host_mut(h);
            host.acquisitions += 1;
            Activation { by: host.incarnation.clone(), number: host.acquisitions }
        }
    };
    // Once it was parked, a peer may run it and have handled more than the frozen bytes know of.
    if let (Goal::Move { to }, None) = (leaving.source.goal(), &leaving.asserting)
        && config.mutant != Some(Mutant::SourceBeforeItsPeer)
    {
        let peer = world.hosts.iter().position(|peer| peer.id == *to);
        let taken = view(world).is_some_and(|view| view.seen.epoch > leaving.claim.epoch);
        let silent =
            |p: &usize| world.hosts[*p].up && !world.hosts[*p].lapsed && !world.has_proved(*p);
        if peer.is_some_and(|p| silent(&p)) && !taken {
            return;
        }
    }
    if let Some(leaving) = w.host_mut(h).leaving.as_mut() {
        leaving.asserting = Some(activation.clone());
    }
    let Some(frozen) = world.content(&cut.key) else { return };
    w.store_mut().put_snapshot(&room(), cut.key.clone(), bytes::Bytes::new());
    let request = Request::Reassert(Box::new(Reassert {
        lease: leaving.claim.clone(),
        activation,
        life: leaving.life,
        handled: frozen.consumer.handled(),
        seq: cut.cursor_seq,
        out_seq: OutSeq(frozen.published),
        snapshot: cut,
    }));
    let name = || format!("{} re-asserts its room", host.id);
    steps.ask(&w, request, Lossy::Both, name, |w, answer| match answer {
        Some(Answer::Acquire(AcquireAnswer::Acquired(mut acquired))) => {
            let (adopter, _) = Adopter::holding(acquired.clone());
            acquired.page.entries.clear();
            let host = w.host_mut(h);
            host.adopter = Some(adopter);
            if let Some(leaving) = host.leaving.as_mut() {
                leaving.asserts = false;
                leaving.claim = acquired.lease.clone();
            }
            host.acquired = Some(*acquired);
        }
        Some(Answer::Acquire(AcquireAnswer::Refused { seen, phase })) => {
            let generation = w.store.generation();
            let Some(leaving) = w.host_mut(h).leaving.as_mut() else { return };
            let moves = !matches!(leaving.source.goal(), Goal::Reassert | Goal::Retake);
            let later = seen.epoch > leaving.lease.epoch;
            leaving.asserts = false;
            if moves && later && !matches!(phase, Phase::Closed { .. }) {
                leaving.conceded = Some(generation);
                w.source_step(config, h, SourceEvent::ReacquireRefused);
            } else {
                w.source_step(config, h, SourceEvent::Lost);
            }
        }
        Some(_) | None => {}
    });
}
