//! Requests to the store: the real one carries them out, and an observer compares before and after.
//!
//! Mutants take a rule away here by rewriting a request or an answer; the store itself has no switches.

use super::configs::{Config, Mutant};
use super::world::{World, bit, room};
use crate::id::{Epoch, Millis, Number};
use crate::protocol::invariants::{
    i1_epochs_grow, i1_one_writer, i1_taken_from_nobody, i9_bounded,
};
use crate::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, CloseAnswer, Effect, Lease, OfferAnswer, OwnerAnswer,
    ParkReason, Phase, Record, Request,
};

impl World {
    pub(super) fn execute(&mut self, config: &Config, request: Request) -> Answer {
        let before = self.store.clone();
        let asked = request.clone();
        let request = self.without_a_rule(config, request);
        let Some(request) = request else { return refused(&asked) };
        let tells = config.mutant == Some(Mutant::UnprovedTellsNumbers)
            && matches!(request, Request::Append { .. });
        let doubt = tells.then(|| self.store_mut().end_doubt());
        let (mut answer, effects) = self.store_mut().step(&room(), request, Epoch(0));
        if let Some(until) = doubt {
            self.store_mut().doubt_until(until);
        }
        self.keep_the_cursor(config, &asked, &mut answer);
        self.judge(config, before.record(&room()), &asked, &answer);
        for effect in effects {
            self.effect(config, effect);
        }
        hide(config, answer)
    }

    fn effect(&mut self, config: &Config, effect: Effect) {
        match effect {
            Effect::Push { epoch, generation, entry, .. } if config.push => {
                let owner = self.store.record(&room()).and_then(|r| r.owner.clone());
                if let Some(owner) = owner {
                    self.pushes.get_mut().push((Lease { epoch, owner, generation }, entry));
                }
            }
            Effect::Offered { to, .. } if config.notices => {
                if let Some(host) = self.hosts.iter().position(|h| h.id == to && h.up) {
                    self.host_mut(host).noticed = true;
                }
            }
            // Where the store goes back, a member reads the history only: that is enough to tell.
            Effect::Events { life, first, events } if config.events && !config.tracks() => {
                let codes = events.iter().map(|event| event[0]).collect();
                self.told.get_mut().push((life, first, codes));
            }
            // Told besides; whoever waits for it looks at the record again anyway.
            Effect::Push { .. }
            | Effect::Offered { .. }
            | Effect::Moved { .. }
            | Effect::Events { .. }
            | Effect::Closed { .. }
            | Effect::DropSnapshot(_) => {}
        }
    }

    /// A re-assert that does not turn the cursor back.
    fn keep_the_cursor(&mut self, config: &Config, request: &Request, answer: &mut Answer) {
        if config.mutant == Some(Mutant::CursorNotBack)
            && let Request::Reassert(claim) = request
            && let Answer::Acquire(AcquireAnswer::Acquired(acquired)) = answer
            && let Some(record) = self.store_mut().record_mut(&room())
            && let Some(snapshot) = record.snapshot.as_mut()
        {
            snapshot.cursor = claim.snapshot.cursor;
            snapshot.cursor_seq = claim.snapshot.cursor_seq;
            acquired.snapshot = Some(snapshot.clone());
        }
    }

    /// What the store must never have let through.
    fn judge(
        &mut self,
        config: &Config,
        before: Option<&Record>,
        request: &Request,
        answer: &Answer,
    ) {
        let store = self.store.clone();
        let (Some(before), Some(after)) = (before, store.record(&room())) else { return };
        if let Some(lease) = lease_of(request)
            && before != after
        {
            // A host that gives back what it does not run has proved nothing of it.
            let generation = lease.generation;
            let in_force = before.lease().map(|in_force| Lease { generation, ..in_force });
            self.note(i1_one_writer(in_force.as_ref(), lease));
        }
        let (was, is) = (before.owner.as_ref(), after.owner.as_ref());
        self.note(i1_epochs_grow((before.epoch, was), (after.epoch, is)));
        if let (Request::Acquire { activation, .. }, Answer::Acquire(AcquireAnswer::Acquired(_))) =
            (request, answer)
            && was != Some(activation)
        {
            let owner_alive = was.is_some_and(|owner| self.store.is_alive(&owner.by));
            self.note(i1_taken_from_nobody(owner_alive, self.store.is_alive(&activation.by)));
        }
        if let (Request::Reassert(claim), Answer::Acquire(AcquireAnswer::Acquired(_))) =
            (request, answer)
            && self.ghost.heir.as_ref() == Some(&claim.lease)
        {
            self.ghost_mut().heir = None;
        }
        if let (Request::Emit { first, events, .. }, Answer::Owner(OwnerAnswer::Done)) =
            (request, answer)
        {
            self.judge_emit(*first, events);
        }
        if matches!(answer, Answer::Close(CloseAnswer::Done { .. })) {
            // What the room had is over, and so is what had been answered about it.
            let over = self.observe_all();
            let ghost = self.ghost_mut();
            ghost.former |= over | ghost.acknowledged;
            ghost.outputs.clear();
            ghost.events.clear();
        }
        self.note(i9_bounded(&room(), after, &config.limits));
    }

    /// The request as a store or a host without the mutant's rule would have it; none if it never gets
    /// there.
    fn without_a_rule(&mut self, config: &Config, mut request: Request) -> Option<Request> {
        let Some(mutant) = config.mutant else { return Some(request) };
        if mutant == Mutant::AppendCreatesRecord
            && matches!(request, Request::Append { .. })
            && self.store.record(&room()).is_none()
        {
            self.store_mut().bear(&room());
        }
        let Some(record) = self.store.record(&room()).cloned() else { return Some(request) };
        match mutant {
            Mutant::NoFence => {
                if let (Some(lease), Some(in_force)) = (lease_mut(&mut request), record.lease()) {
                    *lease = in_force;
                }
            }
            Mutant::OlderCheckpointWins | Mutant::ThawAfterParkOlderWins => {
                if let Request::Checkpoint { snapshot, .. }
                | Request::Park { snapshot: Some(snapshot), .. } = &mut request
                    && let Some(stored) = &record.snapshot
                {
                    snapshot.number = snapshot.number.max(stored.number.next());
                    // Its bytes went with the newer one's commit; that guards as well.
                    let key = snapshot.key.clone();
                    self.store_mut().put_snapshot(&room(), key, bytes::Bytes::new());
                }
            }
            Mutant::UnreadIsNoBacklog => {
                if let Request::Checkpoint { snapshot, .. }
                | Request::Park { snapshot: Some(snapshot), .. } = &mut request
                {
                    snapshot.unread = 0;
                }
            }
            Mutant::NoDedupe | Mutant::NoDedupeAtAll => {
                if let Request::Append { producer, first, batch, .. } = &request
                    && !batch.is_empty()
                    && let Some(stored) = self.store_mut().record_mut(&room())
                    && let Some(known) = stored.producers.get_mut(producer)
                {
                    known.last = Number(known.last.0.min(first.0 - 1));
                }
            }
            Mutant::NoWithdrawalFence => {
                if let Request::Append { producer, epoch, batch, .. } = &mut request
                    && !batch.is_empty()
                    && let Some(known) = record.producers.get(producer)
                {
                    *epoch = (*epoch).max(known.epoch);
                }
            }
            Mutant::PrunedIsForgotten => {
                self.store_mut().record_mut(&room())?.pruned = None;
            }
            Mutant::NoLife => {
                if let Request::Append { life, .. } = &mut request {
                    *life = None;
                }
            }
            Mutant::TakenFromTheLiving | Mutant::StaleLiveness | Mutant::StaleLivenessNoCompare => {
                if let Request::Acquire { seen, .. } = &mut request {
                    if mutant != Mutant::StaleLiveness {
                        *seen = super::host::seen(&record);
                    }
                    // The session was looked up elsewhere, and the answer says that the owner is dead.
                    if *seen == super::host::seen(&record) && record.owner.is_some() {
                        self.store_mut().record_mut(&room())?.phase =
                            Phase::Parked { why: ParkReason::GivenBack };
                    }
                }
            }
            Mutant::EqualEpochProves => {
                let generation = self.store.generation();
                if let Some(lease) = lease_mut(&mut request) {
                    lease.generation = generation;
                }
            }
            Mutant::ProducersNotAtMaximum => {
                if let Request::Reassert(claim) = &mut request {
                    claim.handled.clear();
                }
            }
            Mutant::OutSeqNotAtMaximum => {
                if let Request::Reassert(claim) = &mut request {
                    claim.out_seq = crate::id::OutSeq(0);
                }
            }
            Mutant::ReassertOverOthers => {
                if let Request::Reassert(claim) = &mut request
                    && let Some(lease) = record.lease()
                {
                    claim.lease = lease;
                    claim.life = record.life;
                }
            }
            Mutant::ParkNeedsAnEmptyLog => {
                if let Request::Park { snapshot: None, .. } = &request
                    && record.backlog()
                {
                    return None;
                }
            }
            Mutant::DeclineIsLost => {
                if let Request::Decline { .. } = &request {
                    return None;
                }
            }
            _ => {}
        }
        Some(request)
    }
}

/// An answer with something kept back.
fn hide(config: &Config, mut answer: Answer) -> Answer {
    if config.mutant == Some(Mutant::DuplicateHidesSeq)
        && let Answer::Append(AppendAnswer::Duplicate { seq, .. }) = &mut answer
    {
        *seq = crate::id::Seq(0);
    }
    answer
}

/// What a store that cannot do it says.
fn refused(request: &Request) -> Answer {
    match request {
        Request::Decline { .. } => {
            let phase = Phase::Parked { why: ParkReason::Idle };
            Answer::Offer(OfferAnswer::Refused { phase, life: crate::id::Life(0) })
        }
        _ => Answer::Owner(OwnerAnswer::NoSnapshot),
    }
}

pub(super) fn lease_of(request: &Request) -> Option<&Lease> {
    match request {
        Request::Settle { lease }
        | Request::Checkpoint { lease, .. }
        | Request::Ack { lease, .. }
        | Request::Park { lease, .. }
        | Request::Emit { lease, .. }
        | Request::Close { lease, .. } => Some(lease),
        _ => None,
    }
}

fn lease_mut(request: &mut Request) -> Option<&mut Lease> {
    match request {
        Request::Settle { lease }
        | Request::Checkpoint { lease, .. }
        | Request::Ack { lease, .. }
        | Request::Park { lease, .. }
        | Request::ReadLog { lease, .. }
        | Request::Emit { lease, .. }
        | Request::Close { lease, .. } => Some(lease),
        _ => None,
    }
}

impl World {
    /// Every message that the record has in its log or its snapshot.
    pub(super) fn observe_all(&self) -> u64 {
        let Some(record) = self.store.record(&room()) else { return 0 };
        let logged = record.log.iter().flat_map(|e| &e.batch).map(|m| bit(m[0]));
        let snapshot = record.snapshot.as_ref().and_then(|s| self.content(&s.key));
        let kept = snapshot.iter().flat_map(|c| c.state.iter().chain(&c.mailbox)).map(|c| bit(*c));
        logged.chain(kept).fold(0, |all, one| all | one)
    }

    /// The open deadline of the record passes.
    pub(super) fn pass_deadline(&mut self) -> bool {
        let now = self.store.now();
        let Some(record) = self.store.record(&room()) else { return false };
        let open = |until: Millis| until > now;
        let passes = match &record.phase {
            Phase::Offered { until, .. } => open(*until),
            Phase::Parked { why: ParkReason::Blocked { retry_after, .. } } => open(*retry_after),
            Phase::Running | Phase::Parked { .. } | Phase::Closed { .. } => false,
        };
        if !passes {
            return false;
        }
        if let Some(record) = self.store_mut().record_mut(&room()) {
            match &mut record.phase {
                Phase::Offered { until, .. } => *until = now,
                Phase::Parked { why: ParkReason::Blocked { retry_after, .. } } => {
                    *retry_after = now;
                }
                Phase::Running | Phase::Parked { .. } | Phase::Closed { .. } => {}
            }
        }
        true
    }
}
