//! Re-assert: what an owner does once the store may have lost data.

use super::{AcquireAnswer, Effect, Env, Phase, ProducerEntry, Reassert, Record, Seen};
use crate::id::{Epoch, Generation, Life, Millis, Number, Position, Producer, Seq};

impl Record {
    /// Of a room that the store knows nothing of.
    pub(crate) fn nothing() -> Self {
        Self::born(Epoch(0), Generation(0))
    }

    /// What is left of a room whose record was lost, and nothing else: what is kept beside it.
    pub(crate) fn remains(self) -> Self {
        let Self { log, log_bytes, producers, dead_letters, .. } = self;
        let (seq, last) =
            log.back().map_or((Seq(0), Position::START), |e| (e.last_seq(), e.position));
        Self { seq, last, log, log_bytes, producers, dead_letters, ..Self::nothing() }
    }

    /// What a re-assert of a room of this life finds in them. Only a re-assert makes a record of it.
    pub(crate) fn forgotten(self, life: Life) -> Self {
        Self { life, ..self }
    }

    /// A room that begins anew because no host had it any more. Its numbers begin anew as well, so that the
    /// messages that are left can not be told from others: they become dead letters, and none is dropped
    /// unseen.
    pub(crate) fn born_again(mut self, born: Self, now: Millis, max_letters: usize) -> Self {
        self.bury("the record of the room was lost", now, max_letters);
        let Self { last, dead_letters, .. } = self;
        Self { last, dead_letters, ..born }
    }

    pub(super) fn reassert(
        &mut self,
        claim: Reassert,
        env: &Env<'_>,
    ) -> (AcquireAnswer, Vec<Effect>) {
        if !(env.alive)(&claim.activation.by) {
            return (AcquireAnswer::NoSession, Vec::new());
        }
        let repeated = self.owner.as_ref() == Some(&claim.activation);
        if !repeated && !self.may_reassert(&claim) {
            let seen = Seen { epoch: self.epoch, owner: self.owner.clone() };
            let phase = self.phase.clone();
            return (AcquireAnswer::Refused { seen, phase }, Vec::new());
        }
        let named = if repeated { self.snapshot.as_ref() } else { Some(&claim.snapshot) };
        if let Some(snapshot) = named.filter(|s| !(env.has_snapshot)(&s.key)) {
            let snapshot = Box::new(snapshot.clone());
            return (AcquireAnswer::SnapshotLost { snapshot }, Vec::new());
        }
        self.proved = env.generation;
        let owner = claim.activation.clone();
        if repeated {
            return (AcquireAnswer::Acquired(self.acquired(owner, false)), Vec::new());
        }
        let forgotten = |producer: &Producer, number: Number| match self.producers.get(producer) {
            Some(known) => known.last < number,
            None => !self.was_pruned(producer),
        };
        let regressed = self.epoch < claim.lease.epoch
            || self.seq < claim.seq
            || self.out_seq < claim.out_seq
            || claim.handled.iter().any(|(producer, number)| forgotten(producer, *number));
        let effects = self.bring_back(claim, env);
        let mut acquired = self.acquired(owner, false);
        acquired.regressed = regressed;
        (AcquireAnswer::Acquired(acquired), effects)
    }

    /// Nobody has taken the room since the host did: an epoch is given out once, so a higher one is
    /// somebody else's, and so is the same one with another owner. Equal epoch and owner say nothing about
    /// the rest of the record.
    fn may_reassert(&self, claim: &Reassert) -> bool {
        let lease = &claim.lease;
        let theirs = self.epoch > lease.epoch
            || (self.epoch == lease.epoch
                && self.owner.as_ref().is_some_and(|owner| *owner != lease.owner));
        !theirs && !matches!(self.phase, Phase::Closed { .. }) && self.life == claim.life
    }

    fn bring_back(&mut self, claim: Reassert, env: &Env<'_>) -> Vec<Effect> {
        let Reassert { lease, activation, life: _, mut snapshot, handled, seq, out_seq } = claim;
        let mut effects = Vec::new();
        let before = self.snapshot.take();
        // The log is read again from where the store has it: what the host received of it may be what the
        // store has forgotten, with other entries in its place.
        let (cursor, cursor_seq) =
            before.as_ref().map_or((Position::START, Seq(0)), |s| (s.cursor, s.cursor_seq));
        snapshot.cursor = cursor;
        snapshot.cursor_seq = cursor_seq;
        if let Some(old) = before {
            snapshot.number = snapshot.number.max(old.number.next());
            if old.key != snapshot.key {
                effects.push(Effect::DropSnapshot(old.key));
            }
        }
        self.snapshot = Some(snapshot);
        self.epoch = self.epoch.next().max(lease.epoch.next()).max(env.floor).max(Epoch(env.now.0));
        self.owner = Some(activation);
        self.settled = false;
        self.phase = Phase::Running;
        self.crashes = 0;
        self.seq = self.seq.max(seq);
        if out_seq > self.out_seq {
            self.out_seq = out_seq;
            self.history.clear(); // events in it are numbered by their distance from the last
        }
        for (producer, number) in handled {
            if !self.producers.contains_key(&producer) && self.was_pruned(&producer) {
                continue; // its late copies are fenced, and the room drops them besides
            }
            let used = self.last;
            let known = self.producers.entry(producer);
            let known = known.or_insert(ProducerEntry { epoch: 0, last: Number(0), used });
            known.last = known.last.max(number);
        }
        effects
    }
}
