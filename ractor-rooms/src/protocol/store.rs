//! All that a store holds: records, sessions, snapshot bytes and the indexes over them.
//!
//! Pure like the rest of the protocol. The in-process transport keeps one behind a lock; the model check
//! keeps one per explored state.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::record::{
    AcquireAnswer, Answer, AppendAnswer, Effect, Env, OfferAnswer, OwnerAnswer, Phase, Record,
    RecordLimits, Request, SnapshotKey,
};
use super::session::{OpenAnswer, SessionInfo, SessionSpec};
use crate::id::{
    Activation, Epoch, Generation, HostId, Incarnation, Millis, Position, RoomId, Seq,
};

/// One room that a host owns by the record, as the reconcile sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The room.
    pub room: RoomId,
    /// The activation that holds it.
    pub activation: Activation,
    /// Under which epoch.
    pub epoch: Epoch,
    /// The last `seq`: an owner that has received less reads the log.
    pub head: Seq,
    /// The position of the last entry.
    pub last: Position,
}

/// One room that needs somebody to look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrest {
    /// The room.
    pub room: RoomId,
    /// Where it stands.
    pub phase: Phase,
    /// Whether there is work; without, only a timer may be waiting.
    pub backlog: bool,
    /// The next timer of a parked room.
    pub next_timer: Option<Millis>,
    /// Hosts that would not adopt it.
    pub declined: Vec<HostId>,
    /// Whose it was, where the owner's session has ended.
    pub owner: Option<Incarnation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Session {
    number: u64,
    expires: Millis,
    spec: SessionSpec,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    now: Millis,
    generation: Generation,
    /// Until when a host may still re-assert what it runs; 0 once all have.
    unproved_until: Millis,
    /// Nothing tells which hosts there were when the generation began.
    hosts_unknown: bool,
    /// The longest that any session may last.
    longest_ttl_ms: u64,
    last_incarnation: u64,
    records: BTreeMap<RoomId, Record>,
    /// What is left of rooms whose records were lost, and when they may be born again.
    remains: BTreeMap<RoomId, (Record, Option<Millis>)>,
    sessions: BTreeMap<HostId, Session>,
    snapshots: BTreeMap<(RoomId, SnapshotKey), Bytes>,
    owned: BTreeMap<Incarnation, BTreeSet<RoomId>>,
    unrest: BTreeSet<RoomId>,
    limits: RecordLimits,
}

impl Store {
    /// An empty store with these bounds per record.
    pub fn new(limits: RecordLimits) -> Self {
        Self {
            now: Millis(0),
            generation: Generation(1),
            unproved_until: Millis(0),
            hosts_unknown: false,
            longest_ttl_ms: 0,
            last_incarnation: 0,
            records: BTreeMap::new(),
            remains: BTreeMap::new(),
            sessions: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            owned: BTreeMap::new(),
            unrest: BTreeSet::new(),
            limits,
        }
    }

    /// Moves the store's clock; a step back is ignored.
    pub fn advance(&mut self, now: Millis) {
        self.now = self.now.max(now);
    }

    /// The store's clock.
    pub fn now(&self) -> Millis {
        self.now
    }

    /// The generation that it is in.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether a host may still have to re-assert what it runs.
    pub fn is_unproved(&self) -> bool {
        self.now < self.unproved_until
    }

    /// Begins a new generation, as at a restart that lost nothing.
    pub fn restart(&mut self) {
        let above = self.generation.next().0.max(self.now.0);
        self.hosts_unknown &= self.is_unproved();
        self.generation = Generation(above);
        self.unproved_until = Millis(self.now.0.saturating_add(self.longest_ttl_ms));
    }

    /// Begins a new generation with what was there at an earlier time, as after a restart that lost the
    /// end of what was written.
    pub fn restart_from(&mut self, earlier: Self) {
        let (now, generation) = (self.now, self.generation.max(earlier.generation));
        let longest_ttl_ms = self.longest_ttl_ms.max(earlier.longest_ttl_ms);
        // Not what a store would know, but its clock would have gone on as far.
        let last_incarnation = self.last_incarnation.max(earlier.last_incarnation);
        *self = Self { now, generation, longest_ttl_ms, last_incarnation, ..earlier };
        self.restart();
    }

    /// Begins a new generation with nothing.
    pub fn forget(&mut self) {
        self.restart_from(Self::new(self.limits));
        self.unproved_until = Millis(self.now.0.saturating_add(self.longest_ttl_ms));
        self.hosts_unknown = true;
    }

    /// Notices that every host has proved or dropped what it ran.
    fn settle_generation(&mut self) {
        let mut living = self.sessions.values().filter(|s| s.expires > self.now);
        if !self.hosts_unknown && living.all(|s| s.spec.proved >= self.generation) {
            self.unproved_until = Millis(0);
        }
    }

    /// A room's record, if it has one.
    pub fn record(&self, room: &RoomId) -> Option<&Record> {
        self.records.get(room)
    }

    /// A room's record, for a model that lets a deadline pass or takes a rule away.
    #[cfg(test)]
    pub(crate) fn record_mut(&mut self, room: &RoomId) -> Option<&mut Record> {
        self.records.get_mut(room)
    }

    /// Whether a session is unlapsed.
    #[cfg(test)]
    pub(crate) fn is_alive(&self, by: &Incarnation) -> bool {
        live_session(&self.sessions, self.now, &by.host).as_ref() == Some(by)
    }

    /// A session's time has passed since the generation began; until when it was unproved.
    #[cfg(test)]
    pub(crate) fn end_doubt(&mut self) -> Millis {
        std::mem::take(&mut self.unproved_until)
    }

    /// For a model that takes a rule away: the generation is unproved until then.
    #[cfg(test)]
    pub(crate) fn doubt_until(&mut self, until: Millis) {
        self.unproved_until = until;
    }

    /// For a model that takes a rule away: gives a room a record, whatever the generation says.
    #[cfg(test)]
    pub(crate) fn bear(&mut self, room: &RoomId) {
        self.birth(room, Epoch(0));
    }

    /// Lets snapshot bytes that nobody can name any more expire.
    #[cfg(test)]
    pub(crate) fn keep_snapshots(&mut self, keep: impl Fn(&SnapshotKey) -> bool) {
        self.snapshots.retain(|(_, key), _| keep(key));
    }

    /// Carries one request out, atomically.
    pub fn step(&mut self, room: &RoomId, request: Request, floor: Epoch) -> (Answer, Vec<Effect>) {
        if let Request::Offer { create: true, .. } = &request {
            if self.is_unproved() && !self.records.contains_key(room) {
                return (Answer::Offer(OfferAnswer::Unproved), Vec::new());
            }
            if self.is_mourned(room) {
                return (Answer::Offer(OfferAnswer::Unproved), Vec::new());
            }
            self.birth(room, floor);
        }
        let forgotten = if let Request::Reassert(claim) = &request {
            let remains = self.remains.get(room).map(|(remains, _)| remains.clone());
            Some(remains.unwrap_or_else(Record::nothing).forgotten(claim.life))
        } else {
            None
        };
        let Some(mut record) = self.records.remove(room).or(forgotten) else {
            return (missing(&request, self.generation), Vec::new());
        };
        let before = record.owner.clone();
        let writes_snapshot = matches!(
            &request,
            Request::Checkpoint { .. } | Request::Park { .. } | Request::Reassert(_)
        );
        let (answer, effects) = {
            let (sessions, now, snapshots) = (&self.sessions, self.now, &self.snapshots);
            let session = |host: &HostId| live_session(sessions, now, host);
            let env = Env {
                now,
                floor,
                generation: self.generation,
                unproved: now < self.unproved_until,
                alive: &|i: &Incarnation| session(&i.host).as_ref() == Some(i),
                session: &session,
                has_snapshot: &|key| snapshots.contains_key(&(room.clone(), key.clone())),
                limits: &self.limits,
            };
            record.apply(room, request, &env)
        };
        if record.epoch == Epoch(0) {
            return (answer, effects); // not brought back: there is still no record
        }
        self.remains.remove(room);
        self.reindex(room, before.as_ref(), &record);
        if let Some(snapshot) = record.snapshot.as_ref().filter(|_| writes_snapshot) {
            self.drop_older_attempts(room, &snapshot.key);
        }
        self.records.insert(room.clone(), record);
        for effect in &effects {
            if let Effect::DropSnapshot(key) = effect {
                self.snapshots.remove(&(room.clone(), key.clone()));
            }
        }
        (answer, effects)
    }

    /// Whether a room's record was lost, by whatever took it alone, and a host may still have the room: until a
    /// session's time has passed since somebody asked for it, only a re-assert brings it back.
    fn is_mourned(&mut self, room: &RoomId) -> bool {
        let until = Millis(self.now.0.saturating_add(self.longest_ttl_ms));
        let now = self.now;
        self.remains.get_mut(room).is_some_and(|(_, at)| now < *at.get_or_insert(until))
    }

    /// Gives a room a record if it has none, or if its last life has ended; then under a later epoch.
    fn birth(&mut self, room: &RoomId, floor: Epoch) {
        let floor = floor.max(Epoch(self.now.0)).max(Epoch(1));
        match self.records.get_mut(room) {
            None => {
                let born = Record::born(floor, self.generation);
                let remains = self.remains.remove(room);
                let (now, max) = (self.now, self.limits.dead_letters);
                let record = match remains {
                    Some((remains, _)) => remains.born_again(born, now, max),
                    None => born,
                };
                self.records.insert(room.clone(), record);
            }
            Some(record)
                if matches!(record.phase, Phase::Closed { .. })
                    && (self.now >= self.unproved_until || record.proved == self.generation) =>
            {
                let epoch = record.epoch.next().max(floor);
                let (last, dead_letters) = (record.last, std::mem::take(&mut record.dead_letters));
                *record = Record { last, dead_letters, ..Record::born(epoch, self.generation) };
            }
            Some(_) => {}
        }
    }

    /// Attempts of one activation are committed in order: what is older than a committed one and not
    /// named never will be.
    fn drop_older_attempts(&mut self, room: &RoomId, key: &SnapshotKey) {
        let from = (room.clone(), SnapshotKey { by: key.by.clone(), attempt: 0 });
        let to = (room.clone(), key.clone());
        let older: Vec<_> = self.snapshots.range(from..to).map(|(key, _)| key.clone()).collect();
        for key in older {
            self.snapshots.remove(&key);
        }
    }

    fn reindex(&mut self, room: &RoomId, before: Option<&Activation>, record: &Record) {
        if before != record.owner.as_ref() {
            if let Some(old) = before
                && let Some(rooms) = self.owned.get_mut(&old.by)
            {
                rooms.remove(room);
                if rooms.is_empty() {
                    self.owned.remove(&old.by);
                }
            }
            if let Some(new) = &record.owner {
                self.owned.entry(new.by.clone()).or_default().insert(room.clone());
            }
        }
        if record.unrest() {
            self.unrest.insert(room.clone());
        } else {
            self.unrest.remove(room);
        }
    }

    /// The rooms that an incarnation owns by the record, with their heads.
    pub fn owned(&self, by: &Incarnation) -> Vec<Owned> {
        let rooms = self.owned.get(by).into_iter().flatten();
        rooms
            .filter_map(|room| {
                let record = self.records.get(room)?;
                Some(Owned {
                    room: room.clone(),
                    activation: record.owner.clone()?,
                    epoch: record.epoch,
                    head: record.seq,
                    last: record.last,
                })
            })
            .collect()
    }

    /// Up to `limit` rooms, after a given one, that nobody runs and that have work, an offer or a timer,
    /// and rooms whose owner's session has ended.
    pub fn unrest(&self, after: Option<&RoomId>, limit: usize) -> Vec<Unrest> {
        let dead = self
            .owned
            .iter()
            .filter(|(by, _)| live_session(&self.sessions, self.now, &by.host).as_ref() != Some(by))
            .flat_map(|(_, rooms)| rooms);
        let mut rooms: BTreeSet<&RoomId> = dead.collect();
        rooms.extend(self.unrest.iter());
        rooms
            .into_iter()
            .filter(|room| after.is_none_or(|after| *room > after))
            .filter_map(|room| Some((room, self.records.get(room)?)))
            .map(|(room, record)| Unrest {
                room: room.clone(),
                phase: record.phase.clone(),
                backlog: record.backlog() || record.owner.is_some(),
                next_timer: record.snapshot.as_ref().and_then(|s| s.next_timer),
                declined: record.declined.iter().cloned().collect(),
                owner: record.owner.as_ref().map(|owner| owner.by.clone()),
            })
            .take(limit)
            .collect()
    }

    /// Keeps snapshot bytes under a key of their own. A repeat keeps what is there.
    pub fn put_snapshot(&mut self, room: &RoomId, key: SnapshotKey, bytes: Bytes) {
        self.snapshots.entry((room.clone(), key)).or_insert(bytes);
    }

    /// Snapshot bytes by key.
    pub fn snapshot(&self, room: &RoomId, key: &SnapshotKey) -> Option<Bytes> {
        self.snapshots.get(&(room.clone(), key.clone())).cloned()
    }

    /// Loses snapshot bytes, as a store does that went back in time; whether they were there.
    pub fn lose_snapshot(&mut self, room: &RoomId, key: &SnapshotKey) -> bool {
        self.snapshots.remove(&(room.clone(), key.clone())).is_some()
    }

    /// Loses a room's record and nothing else, as when its key is deleted by hand; whether it was there.
    pub fn lose_record(&mut self, room: &RoomId) -> bool {
        let Some(record) = self.records.remove(room) else { return false };
        self.remains.insert(room.clone(), (record.remains(), None));
        true
    }

    /// Forgets bytes that no pointer names and whose attempt cannot be committed any more.
    pub fn drop_orphans(&mut self) {
        let (records, sessions, now) = (&self.records, &self.sessions, self.now);
        self.snapshots.retain(|(room, key), _| {
            let named =
                records.get(room).and_then(|r| r.snapshot.as_ref()).is_some_and(|s| s.key == *key);
            let pending = records.get(room).is_some_and(|r| r.owner.as_ref() == Some(&key.by));
            named
                || pending
                || live_session(sessions, now, &key.by.by.host).as_ref() == Some(&key.by.by)
        });
    }

    /// Opens a session for a host, under a new incarnation.
    pub fn open_session(&mut self, host: &HostId, ttl_ms: u64, spec: SessionSpec) -> OpenAnswer {
        if let Some(session) = self.sessions.get(host)
            && session.expires > self.now
        {
            return OpenAnswer::Taken { until: session.expires };
        }
        self.last_incarnation = self.last_incarnation.saturating_add(1).max(self.now.0);
        let number = self.last_incarnation;
        let expires = Millis(self.now.0.saturating_add(ttl_ms));
        self.longest_ttl_ms = self.longest_ttl_ms.max(ttl_ms);
        self.sessions.insert(host.clone(), Session { number, expires, spec });
        self.settle_generation();
        OpenAnswer::Opened(Incarnation { host: host.clone(), number })
    }

    /// Renews a session; `false` when it lapsed, which cannot be undone. One that the store has forgotten
    /// did not lapse: nothing is known here that is as new.
    pub fn renew_session(&mut self, by: &Incarnation, ttl_ms: u64, spec: SessionSpec) -> bool {
        let now = self.now;
        let renewed =
            Session { number: by.number, expires: Millis(now.0.saturating_add(ttl_ms)), spec };
        match self.sessions.get_mut(&by.host) {
            Some(session) if session.number > by.number => return false,
            Some(session) if session.number == by.number && session.expires <= now => return false,
            Some(session) => *session = renewed,
            None => {
                self.sessions.insert(by.host.clone(), renewed);
            }
        }
        self.last_incarnation = self.last_incarnation.max(by.number);
        self.longest_ttl_ms = self.longest_ttl_ms.max(ttl_ms);
        self.settle_generation();
        true
    }

    /// Ends a session at once. It is remembered as one that has ended, and not as one that was forgotten.
    pub fn close_session(&mut self, by: &Incarnation) {
        if let Some(session) = self.sessions.get_mut(&by.host)
            && session.number == by.number
        {
            session.expires = Millis(0);
        }
    }

    /// All unlapsed sessions, by host.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.expires > self.now)
            .map(|(host, session)| SessionInfo {
                incarnation: Incarnation { host: host.clone(), number: session.number },
                spec: session.spec.clone(),
            })
            .collect()
    }
}

fn live_session(
    sessions: &BTreeMap<HostId, Session>,
    now: Millis,
    host: &HostId,
) -> Option<Incarnation> {
    let session = sessions.get(host).filter(|s| s.expires > now)?;
    Some(Incarnation { host: host.clone(), number: session.number })
}

/// What a room without a record answers.
fn missing(request: &Request, generation: Generation) -> Answer {
    if request.lease().is_some_and(|lease| lease.generation != generation) {
        return Answer::OtherGeneration { generation };
    }
    match request {
        Request::Append { .. } => Answer::Append(AppendAnswer::Missing),
        Request::Acquire { .. } | Request::Reassert(_) => Answer::Acquire(AcquireAnswer::Missing),
        Request::Settle { .. }
        | Request::Checkpoint { .. }
        | Request::Ack { .. }
        | Request::Park { .. }
        | Request::Emit { .. }
        | Request::CountFailure { .. }
        | Request::GiveUp { .. } => Answer::Owner(OwnerAnswer::Fenced { epoch: Epoch(0) }),
        Request::Offer { .. } | Request::Decline { .. } => Answer::Offer(OfferAnswer::Missing),
        Request::ReadLog { .. } => Answer::Page(Err(Epoch(0))),
        Request::Close { .. } => {
            Answer::Close(super::record::CloseAnswer::Fenced { epoch: Epoch(0) })
        }
        Request::Read => Answer::View(None),
        Request::ReadHistory { .. } => Answer::History {
            first: crate::id::OutSeq(1),
            events: Vec::new(),
            life: crate::id::Life(0),
        },
        Request::ReadDeadLetters => Answer::DeadLetters(Vec::new()),
    }
}
