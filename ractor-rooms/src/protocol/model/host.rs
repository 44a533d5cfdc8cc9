//! A host's driver: turns the actions of the adopter and the source into requests and steps.

use super::configs::{Config, Mutant};
use super::world::{Content, Host, Leaving, World, room};
use crate::id::{Activation, Epoch};
use crate::protocol::Adopter;
use crate::protocol::adopter::{AdopterAction, AdopterEvent, AdopterState};
use crate::protocol::record::{
    Answer, DeclineReason, Lease, ParkReason, Phase, Record, RecordView, Request, Seen,
    SnapshotKey, SnapshotRef,
};
use crate::protocol::source::{SourceAction, SourceEvent, SourceState};

pub(super) fn seen(record: &Record) -> Seen {
    Seen { epoch: record.epoch, owner: record.owner.clone() }
}

/// A step that the driver only makes where it has a place.
pub(super) fn step(adopter: &mut Adopter, event: AdopterEvent) -> Vec<AdopterAction> {
    adopter.step(event).unwrap_or_else(|rejected| panic!("{rejected}"))
}

impl World {
    /// Takes a new activation for a room that this host wants to acquire.
    pub(super) fn begin_adoption(&mut self, host: usize) -> (Adopter, Vec<AdopterAction>) {
        self.adoption(host, Ok(()))
    }

    pub(super) fn adoption(
        &mut self,
        host: usize,
        acceptable: Result<(), DeclineReason>,
    ) -> (Adopter, Vec<AdopterAction>) {
        let seen = self.store.record(&room()).map(seen).unwrap();
        let h = self.host_mut(host);
        if acceptable.is_ok() {
            h.acquisitions += 1;
        }
        let activation = Activation { by: h.incarnation.clone(), number: h.acquisitions };
        Adopter::start(activation, seen, acceptable)
    }

    pub(super) fn adopter_step(&mut self, config: &Config, host: usize, event: AdopterEvent) {
        let Some(adopter) = self.host_mut(host).adopter.as_mut() else { return };
        let actions = step(adopter, event);
        for action in actions {
            match action {
                AdopterAction::Restore(mut acquired) => {
                    // A reading of the log as those that follow, which find the same entries.
                    acquired.page.entries.clear();
                    if let Some(leaving) = self.host_mut(host).leaving.as_mut() {
                        leaving.claim = acquired.lease.clone();
                    }
                    self.host_mut(host).acquired = Some(*acquired);
                    if config.budget.fail_restore == 0 {
                        self.restore(config, host);
                    }
                }
                AdopterAction::Discard => {
                    self.host_mut(host).acquired = None;
                    self.drop_run(config, host);
                }
                AdopterAction::GoLive { .. } => {
                    if let Some(run) = self.run_mut(host) {
                        run.live = true;
                    }
                    self.open_gates(host, config);
                    self.host_mut(host).adopter = None;
                }
                // Sent again by the step that sends what the state asks for.
                AdopterAction::Acquire { .. }
                | AdopterAction::Settle { .. }
                | AdopterAction::GiveBack { .. }
                | AdopterAction::Decline { .. }
                | AdopterAction::Arm(_) => {}
            }
        }
        let over =
            |a: &Adopter| matches!(a.state(), AdopterState::Declined { .. } | AdopterState::Lost);
        if self.hosts[host].adopter.as_ref().is_some_and(over) {
            self.host_mut(host).adopter = None;
        }
    }

    /// Makes a room out of what was acquired.
    pub(super) fn restore(&mut self, config: &Config, host: usize) {
        let Some(acquired) = self.host_mut(host).acquired.take() else { return };
        let content = match &acquired.snapshot {
            None => Content::empty(),
            Some(snapshot) => self.content(&snapshot.key).cloned().unwrap(),
        };
        let number = acquired.snapshot.as_ref().map(|s| s.number).unwrap_or_default();
        let mut run = content.run(acquired.lease, acquired.life, number);
        if let Some(pointer) = &acquired.snapshot {
            run.consumer.read_again_from(pointer.cursor, pointer.cursor_seq);
            run.saved = Some(run.content());
        }
        // A live room goes on from what was published; a durable one repeats what its replay emits.
        let goes_on = config.mutant != Some(Mutant::NumbersFromTheSnapshot);
        if !config.durable && acquired.recovered && goes_on {
            run.published = acquired.out_seq.0;
            run.pending.clear();
        }
        self.host_mut(host).run = Some(run);
        self.adopter_step(config, host, AdopterEvent::Restored);
    }

    /// The room here stops and nothing of it is kept.
    pub(super) fn drop_run(&mut self, config: &Config, host: usize) {
        self.host_mut(host).run = None;
        self.close_gates(host);
        let pending = |l: &Leaving| *l.source.state() == SourceState::Pending;
        if self.hosts[host].leaving.as_ref().is_some_and(pending) {
            self.source_step(config, host, SourceEvent::Lost);
        }
    }

    pub(super) fn source_step(&mut self, config: &Config, host: usize, event: SourceEvent) {
        let Some(leaving) = self.host_mut(host).leaving.as_mut() else { return };
        let actions = leaving.source.step(event).unwrap_or_else(|rejected| panic!("{rejected}"));
        for action in actions {
            match action {
                SourceAction::Upload => self.cut(config, host),
                SourceAction::Park { to } => {
                    if let Some(leaving) = self.host_mut(host).leaving.as_mut() {
                        leaving.park = Some(to);
                    }
                }
                SourceAction::Thaw => self.open_gates(host, config),
                SourceAction::Reacquire => {
                    if let Some(leaving) = self.host_mut(host).leaving.as_mut() {
                        leaving.wants_back = true;
                    }
                }
                SourceAction::Release => {
                    let Some(leaving) = self.host_mut(host).leaving.as_mut() else { return };
                    leaving.cut = None;
                    if matches!(leaving.source.state(), SourceState::Adopted { .. }) {
                        self.source_step(config, host, SourceEvent::Released);
                    }
                }
                SourceAction::Diverge => {
                    if let Some(leaving) = self.host_mut(host).leaving.as_mut() {
                        leaving.held = None;
                    }
                }
                SourceAction::Reassert => self.freeze_to_reassert(config, host),
                SourceAction::Retake
                | SourceAction::Freeze
                | SourceAction::Watch
                | SourceAction::Arm(_)
                | SourceAction::Report(_) => {}
            }
        }
        let ended = |l: &Leaving| matches!(l.source.state(), SourceState::Ended(_));
        if self.hosts[host].leaving.as_ref().is_some_and(ended) {
            self.host_mut(host).leaving = None;
        }
    }

    /// The cut: what the room is goes into a snapshot, and the room runs no more.
    fn cut(&mut self, config: &Config, host: usize) {
        let Some(snapshot) = self.snapshot(config, host) else { return };
        let h = self.host_mut(host);
        h.run = None;
        if let Some(leaving) = h.leaving.as_mut() {
            leaving.cut = Some(snapshot);
        }
        self.source_step(config, host, SourceEvent::Uploaded);
    }

    /// Puts the bytes of a snapshot into the store, and says how a pointer to them looks.
    pub(super) fn snapshot(&mut self, config: &Config, host: usize) -> Option<SnapshotRef> {
        let run = self.run_mut(host)?;
        run.number = run.number.next();
        let run = run.clone();
        let mut content = run.content();
        let mut cursor = run.consumer.position();
        match config.mutant {
            Some(Mutant::CutWithoutUnread) => content.mailbox.clear(),
            Some(Mutant::CutOfReceived) => {
                cursor = self.store.record(&room()).map(|r| r.last).unwrap_or(cursor);
            }
            Some(Mutant::UnreadTwice) => {
                let log = self.store.record(&room()).into_iter().flat_map(|r| r.log.iter());
                let unread = log.filter(|e| e.position > cursor).flat_map(|e| e.batch.iter());
                content.mailbox = unread.map(|m| m[0]).collect();
            }
            _ => {}
        }
        let key = SnapshotKey { by: run.lease.owner.clone(), attempt: run.number.0 };
        let snapshot = SnapshotRef {
            key: key.clone(),
            number: run.number,
            cursor,
            cursor_seq: run.consumer.seq(),
            unread: content.mailbox.len() as u32,
            bytes: 0,
            schema: 1,
            next_timer: None,
        };
        self.store_mut().put_snapshot(&room(), key.clone(), bytes::Bytes::new());
        self.contents.get_mut().push((key, content));
        Some(snapshot)
    }
}

/// Whether a host may take the room now, by what it can read. An offer to a host whose session ended is
/// as good as over.
pub(super) fn may_take(world: &World, record: &Record, host: &Host) -> bool {
    match &record.phase {
        Phase::Running => record.owner.as_ref().is_some_and(|o| !world.store.is_alive(&o.by)),
        Phase::Offered { to, until } => {
            let target = world.hosts.iter().find(|h| h.id == *to);
            let living = target.is_some_and(|h| world.store.is_alive(&h.incarnation));
            *to == host.id || world.store.now() >= *until || !living
        }
        Phase::Parked { why: ParkReason::Blocked { retry_after, .. } } => {
            world.store.now() >= *retry_after || record.parted.as_ref() == Some(&host.incarnation)
        }
        Phase::Parked { .. } => true,
        Phase::Closed { .. } => false,
    }
}

pub(super) fn view(world: &World) -> Option<Box<RecordView>> {
    match (*world.store).clone().step(&room(), Request::Read, Epoch(0)).0 {
        Answer::View(view) => view,
        _ => None,
    }
}

pub(super) fn give_back(lease: Lease, failed: Option<DeclineReason>) -> Request {
    Request::Park { lease, snapshot: None, offer: None, why: ParkReason::GivenBack, failed }
}
