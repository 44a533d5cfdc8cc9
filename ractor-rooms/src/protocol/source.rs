//! The source: a host that gives a room up, for a move or because it is idle.
//!
//! ```text
//!  Pending ─froze─▶ Frozen ─uploaded─▶ Snapshotted ─parked─▶ Offered ─▶ Relaying ─▶ Adopted ─▶ Migrated
//!     │               │                    │                   │            │
//!     └───────────────┴─▶ Thawed           ▼ no answer         │            └─▶ Abandoned
//!        (park never sent)              Doubtful ◀──┐          │ nobody adopted
//!                                          │ still ours        ▼
//!                                          └─ park to self ▶ Resuming ─▶ Resumed (a new epoch)
//! ```
//!
//! A room whose host has lost its session waits, frozen, in `Resuming` for the next one, and is taken back then if
//! nobody has had it.
//!
//! The rule that everything else follows: a source that has *sent* a park and does not know that it
//! failed never goes live again at that epoch, because a late copy of the park may still take the room
//! away from under it. It reads the record, and goes on only by acquiring again.

#[cfg(test)]
mod step_test;

use super::Rejection;
use super::record::{DeclineReason, ParkReason, Phase, RecordView};
use crate::id::{Epoch, HostId};

/// Why a room is given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// It moves to a host.
    Move {
        /// The host.
        to: HostId,
    },
    /// It is idle and rests.
    Unload,
    /// It stays, and is re-asserted: the store may have lost data.
    Reassert,
    /// It waits, frozen, and is taken back: the session that it ran under has ended.
    Retake,
}

/// Why a source gave up before it parked. The room goes on where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AbortReason {
    /// The handler under way did not return in time.
    FreezeTimedOut,
    /// The state is too large.
    SnapshotTooLarge {
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The state could not be encoded, or the app's hook refused.
    FreezeFailed {
        /// What went wrong.
        error: String,
    },
    /// The snapshot could not be stored.
    UploadFailed {
        /// What went wrong.
        error: String,
    },
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The host it runs on.
    me: HostId,
    /// The epoch that it holds the room under.
    epoch: Epoch,
    goal: Goal,
    state: SourceState,
}

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceState {
    /// The gate closes and the room comes to its next message boundary.
    Pending,
    /// The cut is made and the bytes exist here.
    Frozen,
    /// The bytes are in the store and a park has been sent.
    Snapshotted,
    /// A park has been sent and nobody knows what became of it.
    Doubtful {
        /// Whether the park that was sent last offers the room to this host.
        to_self: bool,
    },
    /// The room is parked with an offer.
    Offered,
    /// A peer holds the lease and catches up.
    Relaying {
        /// Who.
        by: HostId,
        /// Under which epoch.
        epoch: Epoch,
    },
    /// A peer runs the room; the frozen bytes may go.
    Adopted {
        /// Who.
        by: HostId,
    },
    /// Nobody adopted: this host acquires again.
    Resuming {
        /// Why nobody did, if a host said so.
        why: Option<DeclineReason>,
    },
    /// It ended.
    Ended(Outcome),
}

/// How a source ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The room runs elsewhere.
    Migrated {
        /// Where.
        to: HostId,
    },
    /// The room rests in the store.
    Parked,
    /// Nobody adopted, and the room goes on here under a new epoch.
    Resumed {
        /// Why nobody did, if a host said so.
        why: Option<DeclineReason>,
    },
    /// The room was never parked, and goes on here.
    Thawed {
        /// Why.
        why: AbortReason,
    },
    /// A peer holds the room and did not finish in time; it is that peer's now.
    Abandoned {
        /// Who.
        by: HostId,
    },
    /// The room is not this host's any more.
    Gone,
}

/// A deadline that the driver keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceTimer {
    /// For the handler under way to return.
    Freeze,
    /// For somebody to adopt.
    Offer,
    /// For the adopter to catch up.
    Relay,
    /// For a room to be taken back.
    Retake,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceEvent {
    /// The room is frozen and its snapshot is made.
    Froze,
    /// It could not be frozen or snapshotted; it still runs.
    FreezeFailed(AbortReason),
    /// The snapshot is in the store.
    Uploaded,
    /// It is not.
    UploadFailed {
        /// What went wrong.
        error: String,
    },
    /// The park took effect.
    Parked,
    /// The park was refused: it took effect before, or the room was overtaken.
    ParkFenced,
    /// The park found no snapshot bytes; nothing changed.
    ParkRefused,
    /// The park was not answered.
    ParkUnanswered,
    /// The record, read again or told by a notice.
    Saw(Box<RecordView>),
    /// This host holds the room again.
    Reacquired,
    /// It could not get it.
    ReacquireRefused,
    /// The frozen room is forgotten.
    Released,
    /// A deadline passed.
    Fired(SourceTimer),
    /// The deadline for the adopter passed, and it lives and has not given the room back: it takes its time for a
    /// long log, of which it takes some each time that its own deadline passes.
    Progressed,
    /// The store is in another generation: it may have forgotten whatever it said, and nothing that was
    /// sent under the lease takes effect any more.
    OtherGeneration,
    /// The host's session lapsed, or another write was fenced.
    Lost,
    /// The host has a session again, after the one that the room ran under had lapsed.
    Reopened,
}

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceAction {
    /// Closes the gate and freezes the room at its next message boundary.
    Freeze,
    /// Puts the snapshot into the store, under a key of its own.
    Upload,
    /// Parks the room under the lease, with the snapshot; offered to `to` if named.
    Park {
        /// The host it is offered to.
        to: Option<HostId>,
    },
    /// Reads the record, and says [`SourceEvent::Saw`]; again after a pause for as long as the state
    /// does not change.
    Watch,
    /// Lets the room go on: nothing was sent that could take it away.
    Thaw,
    /// Acquires the room for this host again and starts it from the frozen bytes.
    Reacquire,
    /// Puts the frozen bytes into the store, re-asserts the room and starts it from them.
    Reassert,
    /// Acquires the room if nobody has had it since, and then re-asserts it; or says
    /// [`SourceEvent::ReacquireRefused`].
    Retake,
    /// Ends the frozen copy, of which somebody else has another.
    Diverge,
    /// Forgets the frozen room, and says [`SourceEvent::Released`].
    Release,
    /// Sets a deadline.
    Arm(SourceTimer),
    /// Reports the outcome.
    Report(Outcome),
}

impl Source {
    /// Starts to give up a room that `me` holds under `epoch`; the actions begin it.
    pub fn start(me: HostId, epoch: Epoch, goal: Goal) -> (Self, Vec<SourceAction>) {
        let source = Self { me, epoch, goal, state: SourceState::Pending };
        (source, vec![SourceAction::Arm(SourceTimer::Freeze), SourceAction::Freeze])
    }

    /// Where it is.
    pub fn state(&self) -> &SourceState {
        &self.state
    }

    /// Why the room is given up.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// The name of the state, for spans and reports.
    pub fn state_name(&self) -> &'static str {
        match &self.state {
            SourceState::Pending => "Pending",
            SourceState::Frozen => "Frozen",
            SourceState::Snapshotted => "Snapshotted",
            SourceState::Doubtful { .. } => "Doubtful",
            SourceState::Offered => "Offered",
            SourceState::Relaying { .. } => "Relaying",
            SourceState::Adopted { .. } => "Adopted",
            SourceState::Resuming { .. } => "Resuming",
            SourceState::Ended(outcome) => match outcome {
                Outcome::Migrated { .. } => "Migrated",
                Outcome::Parked => "Parked",
                Outcome::Resumed { .. } => "Resumed",
                Outcome::Thawed { .. } => "Thawed",
                Outcome::Abandoned { .. } => "Abandoned",
                Outcome::Gone => "Gone",
            },
        }
    }

    /// Takes one event.
    ///
    /// # Errors
    /// [`Rejection`] for an event that has no place in the state; nothing changed.
    pub fn step(&mut self, event: SourceEvent) -> Result<Vec<SourceAction>, Rejection> {
        match self.state.clone() {
            SourceState::Pending => self.pending(event),
            SourceState::Frozen => self.frozen(event),
            SourceState::Snapshotted => self.snapshotted(event),
            SourceState::Doubtful { to_self } => self.doubtful(to_self, event),
            SourceState::Offered => self.offered(event),
            SourceState::Relaying { by, epoch } => self.relaying(by, epoch, event),
            SourceState::Adopted { by } => self.adopted(by, event),
            SourceState::Resuming { why } => self.resuming(why, event),
            SourceState::Ended(_) => Err(self.reject(&event)),
        }
    }

    fn pending(&mut self, event: SourceEvent) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Froze if self.goal == Goal::Reassert => Ok(self.reassert()),
            SourceEvent::Froze if self.goal == Goal::Retake => {
                self.state = SourceState::Resuming { why: None };
                Ok(Vec::new())
            }
            // It must not go on under a session that has ended.
            SourceEvent::FreezeFailed(_) | SourceEvent::Fired(SourceTimer::Freeze)
                if self.goal == Goal::Retake =>
            {
                Ok(self.gone())
            }
            SourceEvent::Froze => {
                self.state = SourceState::Frozen;
                Ok(vec![SourceAction::Upload])
            }
            SourceEvent::FreezeFailed(why) => Ok(self.thaw(why)),
            SourceEvent::Fired(SourceTimer::Freeze) => Ok(self.thaw(AbortReason::FreezeTimedOut)),
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::Reopened | SourceEvent::OtherGeneration if self.goal == Goal::Retake => {
                Ok(Vec::new())
            }
            // Whatever it was given up for, it is re-asserted once it is frozen.
            SourceEvent::OtherGeneration => {
                self.goal = Goal::Reassert;
                Ok(Vec::new())
            }
            SourceEvent::Fired(SourceTimer::Offer | SourceTimer::Relay | SourceTimer::Retake)
            | SourceEvent::Progressed
            | SourceEvent::Reopened
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Parked
            | SourceEvent::ParkFenced
            | SourceEvent::ParkRefused
            | SourceEvent::ParkUnanswered
            | SourceEvent::Saw(_)
            | SourceEvent::Reacquired
            | SourceEvent::Released
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    fn frozen(&mut self, event: SourceEvent) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Uploaded => {
                self.state = SourceState::Snapshotted;
                let to = match &self.goal {
                    Goal::Move { to } => Some(to.clone()),
                    Goal::Unload | Goal::Reassert | Goal::Retake => None,
                };
                Ok(vec![SourceAction::Park { to }])
            }
            SourceEvent::UploadFailed { error } => {
                Ok(self.thaw(AbortReason::UploadFailed { error }))
            }
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::OtherGeneration => Ok(self.reassert()),
            // Frozen in time: what is left has deadlines of its own.
            SourceEvent::Fired(SourceTimer::Freeze) => Ok(Vec::new()),
            SourceEvent::Fired(SourceTimer::Offer | SourceTimer::Relay | SourceTimer::Retake)
            | SourceEvent::Progressed
            | SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Parked
            | SourceEvent::ParkFenced
            | SourceEvent::ParkRefused
            | SourceEvent::ParkUnanswered
            | SourceEvent::Saw(_)
            | SourceEvent::Reacquired
            | SourceEvent::Released
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    fn snapshotted(&mut self, event: SourceEvent) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Parked => Ok(self.committed()),
            SourceEvent::ParkFenced | SourceEvent::ParkUnanswered => {
                self.state = SourceState::Doubtful { to_self: false };
                Ok(vec![SourceAction::Watch])
            }
            // The store answered that nothing changed, and this was the only copy of the park.
            SourceEvent::ParkRefused => Ok(self.thaw(AbortReason::UploadFailed {
                error: "the snapshot was gone when the room was parked".to_owned(),
            })),
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::OtherGeneration => Ok(self.reassert()),
            SourceEvent::Fired(SourceTimer::Freeze) => Ok(Vec::new()),
            SourceEvent::Fired(SourceTimer::Offer | SourceTimer::Relay | SourceTimer::Retake)
            | SourceEvent::Progressed
            | SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Saw(_)
            | SourceEvent::Reacquired
            | SourceEvent::Released
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    /// The room is parked, with an offer unless it rests.
    fn committed(&mut self) -> Vec<SourceAction> {
        match &self.goal {
            Goal::Unload | Goal::Reassert | Goal::Retake => {
                self.end(Outcome::Parked, vec![SourceAction::Release])
            }
            Goal::Move { .. } => {
                self.state = SourceState::Offered;
                vec![SourceAction::Arm(SourceTimer::Offer), SourceAction::Watch]
            }
        }
    }

    fn doubtful(
        &mut self,
        to_self: bool,
        event: SourceEvent,
    ) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Saw(view) => Ok(self.resolve(&view)),
            // Parked with an offer to this host: nothing is open any more.
            SourceEvent::Parked => Ok(self.resume(None)),
            SourceEvent::ParkFenced | SourceEvent::ParkUnanswered | SourceEvent::ParkRefused => {
                self.state = SourceState::Doubtful { to_self };
                Ok(vec![SourceAction::Watch])
            }
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::OtherGeneration => Ok(self.reassert()),
            SourceEvent::Fired(SourceTimer::Freeze) => Ok(Vec::new()),
            SourceEvent::Fired(SourceTimer::Offer | SourceTimer::Relay | SourceTimer::Retake)
            | SourceEvent::Progressed
            | SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Reacquired
            | SourceEvent::Released
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    /// Reads out of the record what became of the park.
    fn resolve(&mut self, view: &RecordView) -> Vec<SourceAction> {
        if view.seen.epoch > self.epoch {
            return self.overtaken(view);
        }
        if view.seen.owner.is_some() {
            // Still ours: the park has not taken effect, but a copy of it may. Parking again with an
            // offer to this host makes the room safe from it, and this host acquires it anew.
            self.state = SourceState::Doubtful { to_self: true };
            return vec![SourceAction::Park { to: Some(self.me.clone()) }];
        }
        match &view.phase {
            Phase::Offered { to, .. } if *to == self.me => self.resume(None),
            Phase::Offered { .. } | Phase::Running | Phase::Parked { .. } => self.committed(),
            Phase::Closed { .. } => self.gone(),
        }
    }

    /// Somebody acquired the room after this source parked it.
    fn overtaken(&mut self, view: &RecordView) -> Vec<SourceAction> {
        let epoch = view.seen.epoch;
        match &view.seen.owner {
            Some(owner) if view.settled => {
                let by = owner.by.host.clone();
                self.state = SourceState::Adopted { by };
                vec![SourceAction::Release]
            }
            // It died before it had caught up. Nobody is nearer to the room than this host.
            Some(_) if !view.owner_alive => self.resume(None),
            Some(owner) => {
                let same =
                    matches!(&self.state, SourceState::Relaying { epoch: e, .. } if *e == epoch);
                self.state = SourceState::Relaying { by: owner.by.host.clone(), epoch };
                // A deadline per adopter, not per look.
                let arm = (!same).then_some(SourceAction::Arm(SourceTimer::Relay));
                arm.into_iter().chain([SourceAction::Watch]).collect()
            }
            // An adopter had it and gave it back, or it moved on already.
            None => match &view.phase {
                Phase::Parked { why } => self.resume(declined(why)),
                // Whoever gave it to this host waits for it, and so would this host.
                Phase::Offered { to, .. } if *to == self.me => self.resume(None),
                Phase::Offered { .. } | Phase::Running => {
                    let same = self.state == SourceState::Offered;
                    self.state = SourceState::Offered;
                    // A deadline per offer that is seen, not per look: the first one may have passed.
                    let arm = (!same).then_some(SourceAction::Arm(SourceTimer::Offer));
                    arm.into_iter().chain([SourceAction::Watch]).collect()
                }
                Phase::Closed { .. } => self.gone(),
            },
        }
    }

    fn offered(&mut self, event: SourceEvent) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Saw(view) => Ok(self.look(&view)),
            SourceEvent::Fired(SourceTimer::Offer) => Ok(self.resume(None)),
            SourceEvent::Fired(SourceTimer::Freeze | SourceTimer::Relay | SourceTimer::Retake)
            | SourceEvent::Progressed => Ok(Vec::new()),
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::OtherGeneration => Ok(self.reassert()),
            SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Parked
            | SourceEvent::ParkFenced
            | SourceEvent::ParkRefused
            | SourceEvent::ParkUnanswered
            | SourceEvent::Reacquired
            | SourceEvent::Released
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    fn look(&mut self, view: &RecordView) -> Vec<SourceAction> {
        if view.seen.epoch > self.epoch {
            return self.overtaken(view);
        }
        match &view.phase {
            Phase::Offered { to, .. } if *to == self.me => self.resume(None),
            Phase::Offered { .. } | Phase::Running => vec![SourceAction::Watch],
            // The offered host declined: no need to wait for the deadline.
            Phase::Parked { why } => self.resume(declined(why)),
            Phase::Closed { .. } => self.gone(),
        }
    }

    fn relaying(
        &mut self,
        by: HostId,
        epoch: Epoch,
        event: SourceEvent,
    ) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Saw(view) if view.seen.epoch >= epoch => Ok(self.overtaken(&view)),
            SourceEvent::Saw(_) => Ok(vec![SourceAction::Watch]),
            // A log is bounded, and takes nothing more once it is full: this comes to an end.
            SourceEvent::Progressed => Ok(vec![SourceAction::Arm(SourceTimer::Relay)]),
            SourceEvent::Fired(SourceTimer::Relay) => {
                Ok(self.end(Outcome::Abandoned { by }, vec![SourceAction::Release]))
            }
            SourceEvent::Fired(SourceTimer::Freeze | SourceTimer::Offer | SourceTimer::Retake) => {
                Ok(Vec::new())
            }
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::OtherGeneration => Ok(self.reassert()),
            SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Parked
            | SourceEvent::ParkFenced
            | SourceEvent::ParkRefused
            | SourceEvent::ParkUnanswered
            | SourceEvent::Reacquired
            | SourceEvent::Released
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    fn adopted(&mut self, by: HostId, event: SourceEvent) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Released => Ok(self.end(Outcome::Migrated { to: by }, Vec::new())),
            // The room is the peer's, whatever becomes of this host's session.
            SourceEvent::Lost
            | SourceEvent::Fired(_)
            | SourceEvent::Progressed
            | SourceEvent::Saw(_)
            | SourceEvent::OtherGeneration => Ok(Vec::new()),
            SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Parked
            | SourceEvent::ParkFenced
            | SourceEvent::ParkRefused
            | SourceEvent::ParkUnanswered
            | SourceEvent::Reacquired
            | SourceEvent::ReacquireRefused => Err(self.reject(&event)),
        }
    }

    fn resuming(
        &mut self,
        why: Option<DeclineReason>,
        event: SourceEvent,
    ) -> Result<Vec<SourceAction>, Rejection> {
        match event {
            SourceEvent::Reacquired => {
                Ok(self.end(Outcome::Resumed { why }, vec![SourceAction::Release]))
            }
            // Nobody was asked to take it: who has it knows of something newer.
            SourceEvent::ReacquireRefused if self.goal == Goal::Reassert => Ok(self.gone()),
            SourceEvent::ReacquireRefused
            | SourceEvent::Lost
            | SourceEvent::Fired(SourceTimer::Retake)
                if self.goal == Goal::Retake =>
            {
                Ok(self.end(Outcome::Gone, vec![SourceAction::Diverge]))
            }
            // Once for each session that it is taken back under.
            SourceEvent::Reopened if self.goal == Goal::Retake => {
                Ok(vec![SourceAction::Arm(SourceTimer::Retake), SourceAction::Retake])
            }
            // It is taken back as any room is acquired: not before all others are proved.
            SourceEvent::OtherGeneration if self.goal == Goal::Retake => Ok(Vec::new()),
            SourceEvent::ReacquireRefused => {
                // Somebody was faster. Whoever it was, the record tells.
                self.state = SourceState::Offered;
                Ok(vec![SourceAction::Arm(SourceTimer::Offer), SourceAction::Watch])
            }
            SourceEvent::Lost => Ok(self.gone()),
            SourceEvent::OtherGeneration => Ok(self.reassert()),
            SourceEvent::Fired(_) | SourceEvent::Progressed | SourceEvent::Saw(_) => Ok(Vec::new()),
            SourceEvent::Reopened
            | SourceEvent::Froze
            | SourceEvent::FreezeFailed(_)
            | SourceEvent::Uploaded
            | SourceEvent::UploadFailed { .. }
            | SourceEvent::Parked
            | SourceEvent::ParkFenced
            | SourceEvent::ParkRefused
            | SourceEvent::Released
            | SourceEvent::ParkUnanswered => Err(self.reject(&event)),
        }
    }

    fn resume(&mut self, why: Option<DeclineReason>) -> Vec<SourceAction> {
        self.state = SourceState::Resuming { why };
        vec![SourceAction::Reacquire]
    }

    /// Nothing that was sent under the lease takes effect any more, so the frozen room may go on at once, if
    /// nobody else has it.
    fn reassert(&mut self) -> Vec<SourceAction> {
        self.state = SourceState::Resuming { why: None };
        vec![SourceAction::Reassert]
    }

    fn thaw(&mut self, why: AbortReason) -> Vec<SourceAction> {
        self.end(Outcome::Thawed { why }, vec![SourceAction::Thaw])
    }

    fn gone(&mut self) -> Vec<SourceAction> {
        self.end(Outcome::Gone, vec![SourceAction::Release])
    }

    fn end(&mut self, outcome: Outcome, mut actions: Vec<SourceAction>) -> Vec<SourceAction> {
        actions.push(SourceAction::Report(outcome.clone()));
        self.state = SourceState::Ended(outcome);
        actions
    }

    fn reject(&self, event: &SourceEvent) -> Rejection {
        let event = match event {
            SourceEvent::Froze => "Froze",
            SourceEvent::FreezeFailed(_) => "FreezeFailed",
            SourceEvent::Uploaded => "Uploaded",
            SourceEvent::UploadFailed { .. } => "UploadFailed",
            SourceEvent::Parked => "Parked",
            SourceEvent::ParkFenced => "ParkFenced",
            SourceEvent::ParkRefused => "ParkRefused",
            SourceEvent::ParkUnanswered => "ParkUnanswered",
            SourceEvent::Saw(_) => "Saw",
            SourceEvent::Reacquired => "Reacquired",
            SourceEvent::ReacquireRefused => "ReacquireRefused",
            SourceEvent::Released => "Released",
            SourceEvent::Fired(_) => "Fired",
            SourceEvent::Progressed => "Progressed",
            SourceEvent::OtherGeneration => "OtherGeneration",
            SourceEvent::Lost => "Lost",
            SourceEvent::Reopened => "Reopened",
        };
        Rejection { machine: "source", state: self.state_name(), event }
    }
}

/// What the host that did not adopt said.
fn declined(why: &ParkReason) -> Option<DeclineReason> {
    match why {
        ParkReason::Declined { why } | ParkReason::Blocked { why, .. } => Some(why.clone()),
        ParkReason::New | ParkReason::Idle | ParkReason::GivenBack => None,
    }
}
