//! One request in, one answer and its effects out.

use super::append::Append;
use super::{
    AcquireAnswer, Acquired, Answer, CloseAnswer, DeadLetter, DeclineReason, Effect, Entry, Env,
    FIRST_PAGE_BYTES, Failing, Lease, OfferAnswer, OfferNotice, OwnerAnswer, Page, ParkReason,
    Phase, Record, RecordView, Request, Seen, SnapshotRef,
};
use crate::id::{
    Activation, Epoch, HostId, Incarnation, Millis, Number, OutSeq, Position, Producer, RoomId,
};

type Outcome<T> = (T, Vec<Effect>);

impl Record {
    /// Carries one request out, atomically.
    pub fn apply(&mut self, room: &RoomId, request: Request, env: &Env<'_>) -> Outcome<Answer> {
        fn wrap<T>(outcome: Outcome<T>, answer: impl FnOnce(T) -> Answer) -> Outcome<Answer> {
            (answer(outcome.0), outcome.1)
        }
        if let Some(lease) = request.lease()
            && lease.generation != env.generation
        {
            return (Answer::OtherGeneration { generation: env.generation }, Vec::new());
        }
        match request {
            Request::Append { life, producer, epoch, first, batch } => {
                let append = Append { life, producer, epoch, first, batch };
                wrap(self.append(room, append, env), Answer::Append)
            }
            Request::Acquire { activation, seen } => {
                (Answer::Acquire(self.acquire(activation, &seen, env)), Vec::new())
            }
            Request::Reassert(claim) => wrap(self.reassert(*claim, env), Answer::Acquire),
            Request::Settle { lease } => wrap(self.settle(&lease), Answer::Owner),
            Request::Checkpoint { lease, snapshot } => {
                wrap(self.checkpoint(&lease, snapshot, env), Answer::Owner)
            }
            Request::Ack { lease, received } => {
                let answer = self.fence(&lease).map_or_else(
                    |fenced| fenced,
                    |()| {
                        self.trim(received);
                        OwnerAnswer::Done
                    },
                );
                (Answer::Owner(answer), Vec::new())
            }
            Request::Park { lease, snapshot, offer, why, failed } => {
                wrap(self.park(&lease, snapshot, offer, why, failed, env), Answer::Owner)
            }
            Request::Offer { to, until, create: _ } => {
                wrap(self.offer(to, until, env), Answer::Offer)
            }
            Request::Decline { by, why } => wrap(self.decline(by, why, env), Answer::Offer),
            Request::ReadLog { lease, after, max_bytes } => {
                (Answer::Page(self.page(&lease, after, max_bytes)), Vec::new())
            }
            Request::Emit { lease, first, events } => {
                wrap(self.emit(&lease, first, events, env), Answer::Owner)
            }
            Request::Close { lease, cursor, reason, forced } => {
                wrap(self.close(&lease, cursor, reason, forced, env), Answer::Close)
            }
            Request::CountFailure { lease, producer, number, attempt } => {
                (Answer::Owner(self.count_failure(&lease, producer, number, attempt)), Vec::new())
            }
            Request::GiveUp { lease, letter } => {
                (Answer::Owner(self.give_up(&lease, letter, env)), Vec::new())
            }
            Request::Read => (Answer::View(Some(Box::new(self.view(env)))), Vec::new()),
            Request::ReadHistory { after } => (self.read_history(after), Vec::new()),
            Request::ReadDeadLetters => {
                (Answer::DeadLetters(self.dead_letters.iter().cloned().collect()), Vec::new())
            }
        }
    }

    /// Refuses a lease that is not the one in force.
    fn fence(&self, lease: &Lease) -> Result<(), OwnerAnswer> {
        if self.epoch == lease.epoch && self.owner.as_ref() == Some(&lease.owner) {
            Ok(())
        } else {
            Err(OwnerAnswer::Fenced { epoch: self.epoch })
        }
    }

    fn acquire(&mut self, activation: Activation, seen: &Seen, env: &Env<'_>) -> AcquireAnswer {
        let now = Seen { epoch: self.epoch, owner: self.owner.clone() };
        if !(env.alive)(&activation.by) {
            // A lapsed host that kept acquiring its own rooms would make epochs run away.
            return AcquireAnswer::NoSession;
        }
        if self.is_unproved(env) {
            return AcquireAnswer::Unproved;
        }
        let repeated = self.owner.as_ref() == Some(&activation);
        if !repeated && (*seen != now || !self.may_acquire(&activation.by, env)) {
            return AcquireAnswer::Refused { seen: now, phase: self.phase.clone() };
        }
        if let Some(snapshot) = &self.snapshot
            && !(env.has_snapshot)(&snapshot.key)
        {
            return AcquireAnswer::SnapshotLost { snapshot: Box::new(snapshot.clone()) };
        }
        let mut recovered = false;
        if !repeated {
            recovered = self.owner.is_some();
            if recovered {
                self.crashes = self.crashes.saturating_add(1);
            }
            self.epoch = self.epoch.next().max(env.floor).max(Epoch(env.now.0));
            self.owner = Some(activation.clone());
            self.phase = Phase::Running;
            self.settled = false;
        }
        self.proved = env.generation;
        AcquireAnswer::Acquired(self.acquired(activation, recovered || self.crashes > 0))
    }

    /// What somebody gets who holds the lease now.
    pub(super) fn acquired(&self, owner: Activation, recovered: bool) -> Box<Acquired> {
        Box::new(Acquired {
            lease: Lease { epoch: self.epoch, owner, generation: self.proved },
            life: self.life,
            snapshot: self.snapshot.clone(),
            out_seq: self.out_seq,
            head: self.head(),
            pruned: self.pruned,
            recovered,
            regressed: false,
            dead_letters: self.dead_letters.len() as u32,
            page: self.page_after(self.cursor(), FIRST_PAGE_BYTES),
        })
    }

    /// Whether what is stored may be older than what a host has that may still re-assert it.
    pub(super) fn is_unproved(&self, env: &Env<'_>) -> bool {
        env.unproved && self.proved != env.generation
    }

    /// Whether a host may take the room now: it is free, its owner is dead, or the offer is to this
    /// host or over.
    fn may_acquire(&self, by: &Incarnation, env: &Env<'_>) -> bool {
        match &self.phase {
            Phase::Running => self.owner.as_ref().is_none_or(|owner| !(env.alive)(&owner.by)),
            Phase::Offered { to, until } => {
                *to == by.host || env.now >= *until || (env.session)(to).is_none()
            }
            // The source of a move that nobody could adopt goes on at once.
            Phase::Parked { why: ParkReason::Blocked { retry_after, .. } } => {
                env.now >= *retry_after || self.parted.as_ref() == Some(by)
            }
            Phase::Parked { .. } => true,
            Phase::Closed { .. } => false,
        }
    }

    fn settle(&mut self, lease: &Lease) -> Outcome<OwnerAnswer> {
        if let Err(fenced) = self.fence(lease) {
            return (fenced, Vec::new());
        }
        let settled = OwnerAnswer::Settled { last: self.last };
        if self.settled {
            return (settled, Vec::new());
        }
        self.settled = true;
        self.declined.clear();
        self.failures = 0;
        (settled, self.tell_parted(Some(self.epoch)))
    }

    fn tell_offered(&self, to: &HostId) -> Effect {
        let notice = OfferNotice { epoch: self.epoch, snapshot: self.snapshot.clone() };
        Effect::Offered { to: to.clone(), notice: Box::new(notice) }
    }

    fn tell_parted(&self, settled: Option<Epoch>) -> Vec<Effect> {
        self.parted.iter().map(|to| Effect::Moved { to: to.clone(), settled }).collect()
    }

    fn checkpoint(
        &mut self,
        lease: &Lease,
        snapshot: SnapshotRef,
        env: &Env<'_>,
    ) -> Outcome<OwnerAnswer> {
        if let Err(fenced) = self.fence(lease) {
            return (fenced, Vec::new());
        }
        match self.flip(snapshot, env) {
            Ok(effects) => (OwnerAnswer::Done, effects),
            Err(refused) => (refused, Vec::new()),
        }
    }

    /// Points to a newer snapshot and trims what is inside it. A pointer that is not newer changes
    /// nothing: a late copy of an older checkpoint must not turn the room back.
    fn flip(&mut self, snapshot: SnapshotRef, env: &Env<'_>) -> Result<Vec<Effect>, OwnerAnswer> {
        if self.snapshot.as_ref().is_some_and(|s| snapshot.number <= s.number) {
            return Ok(Vec::new());
        }
        if !(env.has_snapshot)(&snapshot.key) {
            return Err(OwnerAnswer::NoSnapshot);
        }
        let (cursor, key) = (snapshot.cursor, snapshot.key.clone());
        // A later number may name the same bytes again; those are not the old ones' to drop.
        let old = self.snapshot.replace(snapshot).filter(|old| old.key != key);
        self.trim(cursor);
        self.crashes = 0;
        Ok(old.map(|old| Effect::DropSnapshot(old.key)).into_iter().collect())
    }

    fn park(
        &mut self,
        lease: &Lease,
        snapshot: Option<SnapshotRef>,
        offer: Option<(HostId, Millis)>,
        why: ParkReason,
        failed: Option<DeclineReason>,
        env: &Env<'_>,
    ) -> Outcome<OwnerAnswer> {
        if let Err(fenced) = self.fence(lease) {
            return (fenced, Vec::new());
        }
        let snapshot_kept = snapshot.is_none();
        let mut effects = match snapshot.map(|s| self.flip(s, env)).transpose() {
            Ok(flipped) => flipped.unwrap_or_default(),
            Err(refused) => return (refused, Vec::new()),
        };
        if snapshot_kept && self.settled {
            // What it handled since its last snapshot is gone with it, as after a crash.
            self.crashes = self.crashes.saturating_add(1);
        }
        self.owner = None;
        self.settled = false;
        match failed {
            Some(reason) => {
                self.note_decline(lease.owner.by.host.clone(), reason, env);
                effects.extend(self.tell_parted(None));
            }
            None => {
                self.parted = Some(lease.owner.by.clone());
                self.phase = Phase::Parked { why };
            }
        }
        if let Some((to, until)) = offer {
            effects.push(self.tell_offered(&to));
            self.phase = Phase::Offered { to, until };
        }
        (OwnerAnswer::Done, effects)
    }

    /// Back to parked; after several failures in a row, for a while.
    fn note_decline(&mut self, by: HostId, why: DeclineReason, env: &Env<'_>) {
        let again = !self.declined.insert(by.clone());
        self.failures = self.failures.saturating_add(u32::from(why.is_failure()));
        let why = if why.is_failure() && self.failures >= env.limits.failed_adoptions {
            // Who failed is not the first to be asked when the room is tried again, or it would be the only one.
            // Once every host has failed, all but the last come before it.
            if again {
                self.declined.retain(|host| *host == by);
            }
            let retry_after = Millis(env.now.0.saturating_add(env.limits.blocked_ms));
            ParkReason::Blocked { retry_after, why }
        } else {
            ParkReason::Declined { why }
        };
        self.phase = Phase::Parked { why };
    }

    fn offer(&mut self, to: HostId, until: Millis, env: &Env<'_>) -> Outcome<OfferAnswer> {
        if self.is_unproved(env) {
            return (OfferAnswer::Unproved, Vec::new());
        }
        let free = match &self.phase {
            Phase::Running => self.owner.as_ref().is_none_or(|owner| !(env.alive)(&owner.by)),
            // An open offer to a living host is not overwritten, else two hosts that both look after a
            // room would take it from each other for ever. The same host is told again.
            Phase::Offered { to: old, until } => {
                *old == to || env.now >= *until || (env.session)(old).is_none()
            }
            Phase::Parked { why: ParkReason::Blocked { retry_after, .. } } => {
                env.now >= *retry_after
            }
            Phase::Parked { .. } => true,
            Phase::Closed { .. } => false,
        };
        if !free {
            let phase = self.phase.clone();
            return (OfferAnswer::Refused { phase, life: self.life }, Vec::new());
        }
        if self.owner.take().is_some() {
            self.crashes = self.crashes.saturating_add(1);
            self.settled = false;
        }
        let notice = self.tell_offered(&to);
        self.phase = Phase::Offered { to, until };
        (OfferAnswer::Done { life: self.life }, vec![notice])
    }

    fn decline(&mut self, by: HostId, why: DeclineReason, env: &Env<'_>) -> Outcome<OfferAnswer> {
        match &self.phase {
            Phase::Offered { to, .. } if *to == by => {
                self.note_decline(by, why, env);
                (OfferAnswer::Done { life: self.life }, self.tell_parted(None))
            }
            Phase::Running
            | Phase::Offered { .. }
            | Phase::Parked { .. }
            | Phase::Closed { .. } => {
                let phase = self.phase.clone();
                (OfferAnswer::Refused { phase, life: self.life }, Vec::new())
            }
        }
    }

    fn page(&self, lease: &Lease, after: Position, max_bytes: usize) -> Result<Page, Epoch> {
        self.fence(lease).map_err(|_| self.epoch)?;
        Ok(self.page_after(after, max_bytes))
    }

    fn page_after(&self, after: Position, max_bytes: usize) -> Page {
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0usize;
        let mut more = false;
        let start = self.log.partition_point(|e| e.position <= after);
        for entry in self.log.range(start..) {
            if !entries.is_empty() && bytes.saturating_add(entry.bytes()) > max_bytes {
                more = true;
                break;
            }
            bytes = bytes.saturating_add(entry.bytes());
            entries.push(entry.clone());
        }
        Page { entries, more, head: self.head() }
    }

    fn emit(
        &mut self,
        lease: &Lease,
        first: OutSeq,
        events: Vec<bytes::Bytes>,
        env: &Env<'_>,
    ) -> Outcome<OwnerAnswer> {
        if let Err(fenced) = self.fence(lease) {
            return (fenced, Vec::new());
        }
        // A replay emits again what was emitted before: the numbers tell which events are new.
        let skip = self.out_seq.next().0.saturating_sub(first.0) as usize;
        let new: Vec<_> = events.into_iter().skip(skip).collect();
        if new.is_empty() {
            return (OwnerAnswer::Done, Vec::new());
        }
        let first = OutSeq(first.0.saturating_add(skip as u64));
        if first > self.out_seq.next() {
            self.history.clear(); // events in it are numbered by their distance from the last
        }
        self.out_seq = OutSeq(first.0.saturating_add(new.len() as u64 - 1));
        for event in &new {
            self.history.push_back(event.clone());
            while self.history.len() > env.limits.history {
                self.history.pop_front();
            }
        }
        (OwnerAnswer::Done, vec![Effect::Events { life: self.life, first, events: new }])
    }

    fn close(
        &mut self,
        lease: &Lease,
        cursor: Position,
        reason: String,
        forced: bool,
        env: &Env<'_>,
    ) -> Outcome<CloseAnswer> {
        if self.fence(lease).is_err() {
            return (CloseAnswer::Fenced { epoch: self.epoch }, Vec::new());
        }
        let unhandled = self.unhandled_after(cursor);
        if unhandled > 0 && !forced {
            return (CloseAnswer::NotDrained { unhandled }, Vec::new());
        }
        self.trim(cursor);
        let error = format!("the room was closed: {reason}");
        let count = self.bury(&error, env.now, env.limits.dead_letters);
        self.owner = None;
        self.settled = false;
        self.phase = Phase::Closed { reason: reason.clone() };
        let mut effects = vec![Effect::Closed { life: self.life, reason }];
        effects.extend(self.snapshot.take().map(|s| Effect::DropSnapshot(s.key)));
        (CloseAnswer::Done { dead_letters: count }, effects)
    }

    fn count_failure(
        &mut self,
        lease: &Lease,
        producer: Producer,
        number: Number,
        attempt: u64,
    ) -> OwnerAnswer {
        if let Err(fenced) = self.fence(lease) {
            return fenced;
        }
        let attempt = (lease.epoch, attempt);
        let count = match &self.failing {
            Some(f) if f.producer == producer && f.number == number => {
                f.count.saturating_add(u32::from(f.attempt != attempt))
            }
            Some(_) | None => 1,
        };
        self.failing = Some(Failing { producer, number, count, attempt });
        OwnerAnswer::Count(count)
    }

    fn give_up(&mut self, lease: &Lease, letter: DeadLetter, env: &Env<'_>) -> OwnerAnswer {
        if let Err(fenced) = self.fence(lease) {
            return fenced;
        }
        self.push_letter(letter, env.limits.dead_letters);
        OwnerAnswer::Done
    }

    /// Makes dead letters of what the log holds; how many there were.
    pub(super) fn bury(&mut self, error: &str, at: Millis, max: usize) -> u32 {
        let mut count = 0u32;
        for entry in std::mem::take(&mut self.log) {
            for (number, message) in (entry.first.0..).zip(entry.batch) {
                count = count.saturating_add(1);
                let (producer, error) = (entry.producer.clone(), error.to_owned());
                let number = Number(number);
                let letter = DeadLetter { producer, number, message, attempts: 0, error, at };
                self.push_letter(letter, max);
            }
        }
        self.log_bytes = 0;
        count
    }

    /// Keeps a letter once: a replay gives the same message up again.
    fn push_letter(&mut self, letter: DeadLetter, max: usize) {
        let known = self
            .dead_letters
            .iter()
            .any(|l| l.producer == letter.producer && l.number == letter.number);
        if known && letter.number != Number(0) {
            return;
        }
        self.dead_letters.push_back(letter);
        while self.dead_letters.len() > max {
            self.dead_letters.pop_front();
        }
    }

    fn read_history(&self, after: OutSeq) -> Answer {
        let oldest = self.out_seq.0 + 1 - (self.history.len() as u64).min(self.out_seq.0);
        let first = OutSeq(oldest.max(after.0.saturating_add(1)));
        let skip = (first.0 - oldest) as usize;
        let events = self.history.iter().skip(skip).cloned().collect();
        Answer::History { first, events, life: self.life }
    }

    fn view(&self, env: &Env<'_>) -> RecordView {
        let alive = |i: &Incarnation| (env.alive)(i);
        RecordView {
            life: self.life,
            seen: Seen { epoch: self.epoch, owner: self.owner.clone() },
            owner_alive: self.owner.as_ref().is_some_and(|o| alive(&o.by)),
            settled: self.settled,
            phase: self.phase.clone(),
            seq: self.seq,
            last: self.last,
            snapshot: self.snapshot.clone(),
            backlog: self.backlog(),
            out_seq: self.out_seq,
            declined: self.declined.iter().cloned().collect(),
            crashes: self.crashes,
            dead_letters: self.dead_letters.len() as u32,
        }
    }
}
