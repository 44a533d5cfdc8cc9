//! The in-process transport, with one bug of choice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use ractor_rooms::MemoryTransport;
use ractor_rooms::id::{Epoch, Generation, HostId, Incarnation, Number, Position, RoomId};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, CloseAnswer, DeclineReason, Lease, OfferAnswer,
    OwnerAnswer, Phase, RecordView, Request, SnapshotKey,
};
use ractor_rooms::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use ractor_rooms::protocol::store::{Owned, Unrest};
use ractor_rooms::transport::{Letter, Push, Transport, TransportFuture};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    AcceptsDuplicates,
    AcceptsPartsAsWhole,
    IgnoresProducerEpoch,
    IgnoresLife,
    IgnoresOwnerInFence,
    IgnoresEpochInFence,
    ForgetsToTrimAtCheckpoint,
    ForgetsToTrimAtAck,
    LateCheckpointTurnsBack,
    ReusesEpochs,
    AcquireForgetsToCompare,
    AcquireBringsNoPage,
    CarriesNothing,
    NoticesAreOld,
    RepeatedAcquireIsRefused,
    RepeatedParkIsDone,
    OverwritesOffers,
    AnyoneDeclines,
    BornAgainInTheSameLife,
    ClosesUndrained,
    IgnoresThePageBound,
    PagesForgetMore,
    HistoryCountsFromOne,
    CountsFailuresOfAny,
    SettleForgetsTheHead,
    PositionsBeginAnew,
    LapsedSessionsComeBack,
    UnrestForgetsTheDead,
    UnrestIgnoresAfter,
    OwnedForgetsHeads,
    InboxIgnoresAfter,
    PostsToAnyone,
    PushesNothing,
    PushesUnderAnOldEpoch,
    OldStreamStays,
    SnapshotsAreOverwritten,
    SnapshotsStay,
    KeysAreCut,
    KeysAreText,
    FullDropsTheOldest,
    AnswersAnOldSeq,
    ProvesByEqualEpochAlone,
    AcquiresBeforeTheReasserts,
    ReassertsOverANewerOwner,
    ReassertKeepsTheOwnersCursor,
}

#[derive(Clone, Debug)]
pub(super) struct Planted {
    pub(super) bug: Bug,
    pub(super) inner: MemoryTransport,
    pub(super) kept: Arc<Mutex<Kept>>,
}

/// What a bug needs to remember.
#[derive(Debug, Default)]
pub(super) struct Kept {
    snapshots: Vec<(RoomId, SnapshotKey, Bytes)>,
}

impl Planted {
    fn ask(&self, room: &RoomId, request: Request) -> Answer {
        self.ask_above(room, request, Epoch(0))
    }

    fn ask_above(&self, room: &RoomId, request: Request, floor: Epoch) -> Answer {
        let answer = self.inner.execute(room, request, floor);
        answer.now_or_never().unwrap().unwrap()
    }

    fn view(&self, room: &RoomId) -> Option<RecordView> {
        match self.ask(room, Request::Read) {
            Answer::View(view) => view.map(|view| *view),
            other => panic!("{other:?}"),
        }
    }

    fn room(&self, room: &RoomId) -> RoomId {
        let key = room.key.as_bytes();
        let key = match self.bug {
            Bug::KeysAreCut => {
                let end = key.iter().position(|b| *b == b'\n').unwrap_or(key.len());
                key[..end.max(1)].to_vec()
            }
            Bug::KeysAreText => String::from_utf8_lossy(key).into_owned().into_bytes(),
            _ => key.to_vec(),
        };
        RoomId { key: ractor_rooms::id::RoomKey::new(key).unwrap(), ..room.clone() }
    }

    fn lease_of(request: &mut Request) -> Option<&mut Lease> {
        match request {
            Request::Settle { lease }
            | Request::Checkpoint { lease, .. }
            | Request::Ack { lease, .. }
            | Request::Park { lease, .. }
            | Request::ReadLog { lease, .. }
            | Request::Emit { lease, .. }
            | Request::Close { lease, .. }
            | Request::CountFailure { lease, .. }
            | Request::GiveUp { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// Changes what is asked.
    fn before(&self, room: &RoomId, request: &mut Request) {
        let Some(view) = self.view(room) else { return };
        if let (Some(owner), Some(lease)) = (&view.seen.owner, Self::lease_of(request)) {
            match self.bug {
                Bug::IgnoresOwnerInFence => lease.owner = owner.clone(),
                Bug::IgnoresEpochInFence => lease.epoch = view.seen.epoch,
                Bug::ProvesByEqualEpochAlone => lease.generation = self.inner.generation(room),
                _ => {}
            }
        }
        let stored = view.snapshot.as_ref().map(|s| s.number);
        match (self.bug, request) {
            (Bug::IgnoresProducerEpoch, Request::Append { epoch, .. }) => *epoch = 0,
            (Bug::IgnoresLife, Request::Append { life, .. }) => *life = None,
            (Bug::ForgetsToTrimAtCheckpoint, Request::Checkpoint { snapshot, .. }) => {
                snapshot.cursor = Position::START;
            }
            (Bug::ForgetsToTrimAtAck, Request::Ack { received, .. }) => {
                *received = Position::START;
            }
            (Bug::LateCheckpointTurnsBack, Request::Checkpoint { snapshot, .. })
                if stored.is_some_and(|stored| snapshot.number < stored) =>
            {
                snapshot.number = stored.unwrap().next();
            }
            (Bug::AcquireForgetsToCompare, Request::Acquire { seen, .. }) => *seen = view.seen,
            (Bug::AnyoneDeclines, Request::Decline { by, .. }) => {
                if let Phase::Offered { to, .. } = view.phase {
                    *by = to;
                }
            }
            (Bug::ReassertsOverANewerOwner, Request::Reassert(claim)) => {
                claim.lease.epoch = view.seen.epoch;
                claim.lease.owner = view.seen.owner.unwrap_or_else(|| claim.lease.owner.clone());
            }
            (Bug::ClosesUndrained, Request::Close { forced, .. }) => *forced = true,
            (Bug::IgnoresThePageBound, Request::ReadLog { max_bytes, .. }) => {
                *max_bytes = usize::MAX;
            }
            _ => {}
        }
    }

    /// Changes what is answered.
    fn after(&self, room: &RoomId, request: Request, answer: Answer) -> Answer {
        match (self.bug, request, answer) {
            (
                Bug::AcceptsDuplicates,
                Request::Append { life, producer, epoch, batch, .. },
                Answer::Append(AppendAnswer::Duplicate { last, .. }),
            )
            | (
                Bug::AcceptsPartsAsWhole,
                Request::Append { life, producer, epoch, batch, .. },
                Answer::Append(AppendAnswer::Partial { last, .. }),
            ) => {
                let first = last.next();
                self.ask(room, Request::Append { life, producer, epoch, first, batch })
            }
            (Bug::ReusesEpochs, Request::Acquire { seen, .. }, Answer::Acquire(answer)) => {
                Answer::Acquire(match answer {
                    AcquireAnswer::Acquired(mut acquired) => {
                        acquired.lease.epoch = seen.epoch;
                        AcquireAnswer::Acquired(acquired)
                    }
                    other => other,
                })
            }
            (
                Bug::AcquireBringsNoPage,
                Request::Acquire { .. },
                Answer::Acquire(AcquireAnswer::Acquired(mut acquired)),
            ) => {
                acquired.page.entries.clear();
                Answer::Acquire(AcquireAnswer::Acquired(acquired))
            }
            (
                Bug::AcquiresBeforeTheReasserts,
                request @ Request::Acquire { .. },
                Answer::Acquire(AcquireAnswer::Unproved),
            ) => {
                let sessions = self.inner.sessions().now_or_never().unwrap().unwrap();
                for SessionInfo { incarnation, mut spec } in sessions {
                    spec.proved = self.inner.generation(room);
                    let ttl = Duration::from_secs(3_600);
                    let renewed = self.inner.renew_session(&incarnation, ttl, spec);
                    renewed.now_or_never().unwrap().unwrap();
                }
                self.ask(room, request)
            }
            (
                Bug::ReassertKeepsTheOwnersCursor,
                Request::Reassert(claim),
                Answer::Acquire(AcquireAnswer::Acquired(mut acquired)),
            ) => {
                acquired.snapshot = Some(claim.snapshot);
                Answer::Acquire(AcquireAnswer::Acquired(acquired))
            }
            (Bug::RepeatedParkIsDone, Request::Park { .. }, Answer::Owner(_)) => {
                Answer::Owner(OwnerAnswer::Done)
            }
            (
                Bug::OverwritesOffers,
                Request::Offer { to, until, create },
                Answer::Offer(OfferAnswer::Refused {
                    phase: Phase::Offered { to: old, .. }, ..
                }),
            ) => {
                let decline = Request::Decline { by: old, why: DeclineReason::Draining };
                self.ask(room, decline);
                self.ask(room, Request::Offer { to, until, create })
            }
            (Bug::PagesForgetMore, _, Answer::Page(Ok(mut page))) => {
                page.more = false;
                Answer::Page(Ok(page))
            }
            (Bug::HistoryCountsFromOne, _, Answer::History { events, life, .. }) => {
                Answer::History { first: ractor_rooms::id::OutSeq(1), events, life }
            }
            (
                Bug::CountsFailuresOfAny,
                Request::CountFailure { lease, producer, number, attempt },
                Answer::Owner(OwnerAnswer::Count(1)),
            ) if number > Number(1) => {
                let attempt = attempt.wrapping_add(1 << 32);
                self.ask(room, Request::CountFailure { lease, producer, number, attempt })
            }
            (Bug::SettleForgetsTheHead, _, Answer::Owner(OwnerAnswer::Settled { .. })) => {
                Answer::Owner(OwnerAnswer::Settled { last: Position::START })
            }
            (Bug::ClosesUndrained, _, Answer::Close(CloseAnswer::NotDrained { .. })) => {
                Answer::Close(CloseAnswer::Done { dead_letters: 0 })
            }
            (Bug::PositionsBeginAnew, _, Answer::Page(Ok(mut page))) => {
                for (n, entry) in page.entries.iter_mut().enumerate() {
                    entry.position = Position { ms: 1, n: n as u64 };
                }
                Answer::Page(Ok(page))
            }
            (Bug::BornAgainInTheSameLife, _, Answer::Append(AppendAnswer::OtherLife { .. })) => {
                Answer::Append(AppendAnswer::Missing)
            }
            (
                Bug::FullDropsTheOldest,
                Request::Append { life, producer, epoch, first, batch },
                Answer::Append(AppendAnswer::Full { .. }),
            ) => {
                let view = self.view(room).unwrap();
                if let Some(owner) = view.seen.owner {
                    let lease = Lease {
                        epoch: view.seen.epoch,
                        owner,
                        generation: self.inner.generation(room),
                    };
                    self.ask(room, Request::Ack { lease, received: view.last });
                }
                self.ask(room, Request::Append { life, producer, epoch, first, batch })
            }
            (
                Bug::AnswersAnOldSeq,
                _,
                Answer::Append(AppendAnswer::Duplicate { last, life, standing, .. }),
            ) => {
                let seq = ractor_rooms::id::Seq(last.0);
                Answer::Append(AppendAnswer::Duplicate { last, seq, life, standing })
            }
            (_, _, answer) => answer,
        }
    }
}

fn done<'a, T: Send + 'a>(value: T) -> TransportFuture<'a, T> {
    std::future::ready(Ok(value)).boxed()
}

impl Transport for Planted {
    fn generation(&self, room: &RoomId) -> Generation {
        self.inner.generation(room)
    }

    fn newest_generation(&self) -> Generation {
        self.inner.newest_generation()
    }

    fn generations(&self) -> BoxStream<'static, ()> {
        self.inner.generations()
    }

    fn execute(
        &self,
        room: &RoomId,
        mut request: Request,
        floor: Epoch,
    ) -> TransportFuture<'_, Answer> {
        let room = self.room(room);
        if let (Bug::RepeatedAcquireIsRefused, Request::Acquire { activation, .. }) =
            (self.bug, &request)
            && let Some(view) = self.view(&room)
            && view.seen.owner.as_ref() == Some(activation)
        {
            let (seen, phase) = (view.seen, view.phase);
            return done(Answer::Acquire(AcquireAnswer::Refused { seen, phase }));
        }
        self.before(&room, &mut request);
        let answer = self.ask_above(&room, request.clone(), floor);
        done(self.after(&room, request, answer))
    }

    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()> {
        let kept = (room.clone(), key.clone(), bytes.clone());
        self.kept.lock().unwrap().snapshots.push(kept);
        self.inner.put_snapshot(&self.room(room), key, bytes)
    }

    fn execute_with(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
        (key, bytes): (SnapshotKey, Bytes),
    ) -> TransportFuture<'_, Answer> {
        if self.bug != Bug::CarriesNothing {
            self.put_snapshot(room, key, bytes).now_or_never().unwrap().unwrap();
        }
        self.execute(room, request, floor)
    }

    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>> {
        if matches!(self.bug, Bug::SnapshotsAreOverwritten | Bug::SnapshotsStay) {
            let kept = self.kept.lock().unwrap();
            let found: Vec<_> =
                kept.snapshots.iter().filter(|(r, k, _)| r == room && k == key).collect();
            let one = match self.bug {
                Bug::SnapshotsAreOverwritten => found.last(),
                _ => found.first(),
            };
            return done(one.map(|(_, _, bytes)| bytes.clone()));
        }
        self.inner.get_snapshot(&self.room(room), key)
    }

    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer> {
        self.inner.open_session(host, ttl, spec)
    }

    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool> {
        if self.bug == Bug::LapsedSessionsComeBack {
            let opened = self.inner.open_session(&by.host, ttl, spec.clone());
            if let Some(Ok(OpenAnswer::Opened(_))) = opened.now_or_never() {
                return done(true);
            }
        }
        self.inner.renew_session(by, ttl, spec)
    }

    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()> {
        self.inner.close_session(by)
    }

    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>> {
        self.inner.sessions()
    }

    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>> {
        let mut owned = self.inner.owned(by).now_or_never().unwrap().unwrap();
        if self.bug == Bug::OwnedForgetsHeads {
            owned.iter_mut().for_each(|o| o.head = ractor_rooms::id::Seq(0));
        }
        done(owned)
    }

    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>> {
        let after = if self.bug == Bug::UnrestIgnoresAfter { None } else { after };
        let mut unrest = self.inner.unrest(after, limit).now_or_never().unwrap().unwrap();
        if self.bug == Bug::UnrestForgetsTheDead {
            unrest.retain(|u| u.phase != Phase::Running);
        }
        done(unrest)
    }

    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool> {
        let posted = self.inner.post(to, letter).now_or_never().unwrap().unwrap();
        done(posted || self.bug == Bug::PostsToAnyone)
    }

    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>> {
        let after = if self.bug == Bug::InboxIgnoresAfter { 0 } else { after };
        self.inner.read_inbox(by, after)
    }

    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>> {
        let pushes = self.inner.subscribe(by).now_or_never().unwrap().unwrap();
        let pushes = match self.bug {
            Bug::PushesNothing => stream::pending().boxed(),
            Bug::OldStreamStays => pushes.chain(stream::pending()).boxed(),
            Bug::PushesUnderAnOldEpoch => pushes
                .map(|push| match push {
                    Push::Entry { room, epoch, generation, entry } => {
                        Push::Entry { room, epoch: Epoch(epoch.0 - 1), generation, entry }
                    }
                    other => other,
                })
                .boxed(),
            Bug::NoticesAreOld => pushes
                .map(|push| match push {
                    Push::Offered { room, mut notice } => {
                        notice.epoch = Epoch(notice.epoch.0 - 1);
                        Push::Offered { room, notice }
                    }
                    other => other,
                })
                .boxed(),
            _ => pushes,
        };
        done(pushes)
    }

    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()> {
        self.inner.watch(by, &self.room(room), on)
    }
}
