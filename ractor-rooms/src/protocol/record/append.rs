//! Appending to the log: identity, order and bounds.

use bytes::Bytes;

use super::{AppendAnswer, Effect, Entry, Env, Phase, ProducerEntry, Record, Standing};
use crate::id::{Life, Millis, Number, Producer, RoomId, Seq};

/// One append, as its request names it.
pub(super) struct Append {
    pub(super) life: Option<Life>,
    pub(super) producer: Producer,
    pub(super) epoch: u64,
    pub(super) first: Number,
    pub(super) batch: Vec<Bytes>,
}

impl Record {
    pub(super) fn append(
        &mut self,
        room: &RoomId,
        append: Append,
        env: &Env<'_>,
    ) -> (AppendAnswer, Vec<Effect>) {
        match self.admit(room, &append, env) {
            Err(answer) => (answer, Vec::new()),
            Ok(()) => self.write(room, append, env),
        }
    }

    /// Decides whether a batch goes in; the answer if not.
    fn admit(&self, room: &RoomId, append: &Append, env: &Env<'_>) -> Result<(), AppendAnswer> {
        if append.life.is_some_and(|life| life != self.life) {
            return Err(AppendAnswer::OtherLife { life: self.life });
        }
        if let Phase::Closed { reason } = &self.phase {
            return Err(AppendAnswer::Closed { reason: reason.clone() });
        }
        let known = self.producers.get(&append.producer);
        let (epoch, last) = known.map_or((0, Number(0)), |p| (p.epoch, p.last));
        // A pruned producer's late copy must not pass for a new producer's first message.
        let pruned = known.is_none()
            && !self.is_kept(room, &append.producer)
            && self.was_pruned(&append.producer);
        if pruned || append.epoch < epoch {
            return Err(AppendAnswer::Fenced { epoch, last: known.map(|p| p.last), now: env.now });
        }
        let count = append.batch.len() as u64;
        if known.is_none() && (count > 0 || append.epoch > 0) && !self.has_place(room, env) {
            return Err(AppendAnswer::Full { seq: self.seq });
        }
        let withdraws = count == 0 && append.epoch > 0;
        let beyond = count > 0 && append.first > last.next();
        if self.is_unproved(env) && (withdraws || beyond) {
            // A sender that learnt a number from this record would give it to another message than the one
            // that its owner has handled under it.
            return Err(AppendAnswer::Unproved { seq: self.seq });
        }
        if count == 0 {
            return Ok(()); // a withdrawal, or a sender that asks for the life
        }
        if append.first.0.saturating_add(count - 1) <= last.0 {
            return Err(AppendAnswer::Duplicate {
                last,
                seq: self.seq,
                life: self.life,
                standing: self.standing(env),
            });
        }
        if append.first <= last {
            return Err(AppendAnswer::Partial { last, seq: self.seq });
        }
        if append.first > last.next() {
            return Err(AppendAnswer::Gap { last, seq: self.seq });
        }
        let bytes: usize = append.batch.iter().map(Bytes::len).sum();
        if !self.has_space(bytes, self.is_own(room, &append.producer), env) {
            return Err(AppendAnswer::Full { seq: self.seq });
        }
        Ok(())
    }

    fn write(
        &mut self,
        room: &RoomId,
        append: Append,
        env: &Env<'_>,
    ) -> (AppendAnswer, Vec<Effect>) {
        let mut effects = Vec::new();
        let last = self.producers.get(&append.producer).map_or(Number(0), |p| p.last);
        let count = append.batch.len() as u64;
        let used = if count == 0 { self.last } else { self.last.following(env.now) };
        if count > 0 {
            let entry = Entry {
                position: used,
                first_seq: self.seq.next(),
                producer: append.producer.clone(),
                first: append.first,
                batch: append.batch,
            };
            self.log_bytes += entry.bytes();
            self.last = entry.position;
            self.seq = entry.last_seq();
            if let Some(owner) = &self.owner {
                effects.push(Effect::Push {
                    to: owner.by.clone(),
                    epoch: self.epoch,
                    generation: env.generation,
                    entry: entry.clone(),
                });
            }
            self.log.push_back(entry);
        }
        let last = Number(last.0 + count);
        // Who only asked for the life has nothing to be remembered by.
        if count > 0 || append.epoch > 0 {
            let entry = ProducerEntry { epoch: append.epoch, last, used };
            self.producers.insert(append.producer, entry);
            self.prune_producers(room, env);
        }
        let answer = AppendAnswer::Accepted {
            last,
            seq: self.seq,
            life: self.life,
            standing: self.standing(env),
        };
        (answer, effects)
    }

    /// Whether anybody will handle what is in the log: a living owner, or an open offer to a living
    /// host.
    pub(super) fn standing(&self, env: &Env<'_>) -> Standing {
        let tended = match (&self.owner, &self.phase) {
            (Some(owner), _) => (env.alive)(&owner.by),
            (None, Phase::Offered { to, until }) => env.now < *until && (env.session)(to).is_some(),
            (None, Phase::Parked { why: super::ParkReason::Blocked { retry_after, .. } }) => {
                // Asking again before it may be tried would only make noise; the sweep wakes it.
                env.now < *retry_after
            }
            (None, Phase::Running | Phase::Parked { .. } | Phase::Closed { .. }) => false,
        };
        if tended { Standing::Running } else { Standing::NeedsHost }
    }

    /// Whether the room itself sends: its ticks and records, which have a reserve of their own.
    fn is_own(&self, room: &RoomId, producer: &Producer) -> bool {
        match producer {
            Producer::Room(id, _) | Producer::Activation(id, _) => id == room,
            Producer::Host(_) => false,
        }
    }

    /// Whether a producer without an entry may have been pruned.
    pub(super) fn was_pruned(&self, producer: &Producer) -> bool {
        !matches!(producer, Producer::Room(..))
            && self.pruned.is_some_and(|pruned| producer.birth() <= pruned)
    }

    /// Whether one more producer can be remembered.
    fn has_place(&self, room: &RoomId, env: &Env<'_>) -> bool {
        self.producers.len() < env.limits.producers.max(1)
            || self.producers.keys().any(|producer| !self.is_kept(room, producer))
    }

    /// Whether a producer is never pruned: durable rooms, and the room's present activation. Neither can
    /// come back under a younger name, as a host can, so a pruned one would be fenced for ever.
    fn is_kept(&self, room: &RoomId, producer: &Producer) -> bool {
        match producer {
            Producer::Room(..) => true,
            Producer::Activation(id, activation) => {
                id == room && self.owner.as_ref() == Some(activation)
            }
            Producer::Host(_) => false,
        }
    }

    fn has_space(&self, bytes: usize, own: bool, env: &Env<'_>) -> bool {
        let share = |limit: usize| if own { limit } else { limit - limit / 8 };
        self.log.len() < share(env.limits.log_entries)
            && self.log_bytes.saturating_add(bytes) <= share(env.limits.log_bytes)
    }

    /// Forgets the producers that are silent longest, and remembers the newest birth among them.
    fn prune_producers(&mut self, room: &RoomId, env: &Env<'_>) {
        while self.producers.len() > env.limits.producers.max(1) {
            let oldest = self
                .producers
                .iter()
                .filter(|(producer, _)| !self.is_kept(room, producer))
                .min_by_key(|(_, p)| p.used)
                .map(|(producer, _)| producer.clone());
            let Some(oldest) = oldest else { return };
            self.pruned = self.pruned.max(Some(oldest.birth()));
            self.producers.remove(&oldest);
        }
    }

    /// The first `seq` of what is above a position, for counting what is unhandled.
    pub(super) fn unhandled_after(&self, cursor: crate::id::Position) -> u64 {
        self.log.iter().filter(|e| e.position > cursor).map(|e| e.batch.len() as u64).sum()
    }

    /// Removes entries up to a position.
    pub(super) fn trim(&mut self, upto: crate::id::Position) {
        while let Some(entry) = self.log.front() {
            if entry.position > upto {
                return;
            }
            self.log_bytes = self.log_bytes.saturating_sub(entry.bytes());
            self.log.pop_front();
        }
    }

    /// The head that an answer carries.
    pub(super) fn head(&self) -> Seq {
        self.seq
    }
}

impl Producer {
    /// When this producer came to be, by the store's clock: what a pruned entry is remembered by.
    pub fn birth(&self) -> Millis {
        match self {
            Self::Host(incarnation) => Millis(incarnation.number),
            Self::Room(_, life) => Millis(life.0),
            Self::Activation(_, activation) => Millis(activation.by.number),
        }
    }
}
