//! The adopter: a host that takes a room over, to start it, wake it, recover it or as the target of a
//! move. All four are the same path.
//!
//! ```text
//!  Claiming ─acquired─▶ Restoring ─restored─▶ Replaying ─caught up─▶ Settling ─▶ Live
//!     │                    │                     │                      │
//!     ├─▶ Declined         └──── failed, late ───┴─▶ GivingBack ─▶ Declined
//!     └─▶ Lost (somebody else has it)                (park, nothing kept back)
//! ```
//!
//! An adopter acknowledges nothing before it is `Live`: until then it can give the room back as it got
//! it, and snapshot, cursor and log are untouched.

#[cfg(test)]
mod step_test;

use super::Rejection;
use super::record::{AcquireAnswer, Acquired, DeclineReason, Lease, OwnerAnswer, Seen};
use crate::id::{Activation, Position};

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adopter {
    activation: Activation,
    seen: Seen,
    state: AdopterState,
}

/// Where an adopter is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdopterState {
    /// The acquire is out; it may have to be repeated.
    Claiming,
    /// The lease is held; the snapshot is fetched and decoded.
    Restoring {
        /// The lease.
        lease: Lease,
    },
    /// The room reads its log.
    Replaying {
        /// The lease.
        lease: Lease,
    },
    /// It has caught up and the store is told.
    Settling {
        /// The lease.
        lease: Lease,
    },
    /// The room runs here.
    Live {
        /// The lease.
        lease: Lease,
    },
    /// It could not be restored, and the lease is given back.
    GivingBack {
        /// The lease.
        lease: Lease,
        /// Why.
        why: DeclineReason,
    },
    /// The offer is declined.
    Declining {
        /// Why.
        why: DeclineReason,
    },
    /// It ended without the room.
    Declined {
        /// Why.
        why: DeclineReason,
    },
    /// Somebody else has the room, or the host lost it.
    Lost,
}

/// A deadline that the driver keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdopterTimer {
    /// For the acquire to be answered.
    Claim,
    /// For the room to be restored, and for it to take some of its log each time.
    Restore,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdopterEvent {
    /// The acquire was answered.
    ClaimAnswered(AcquireAnswer),
    /// It was not.
    ClaimUnanswered,
    /// The snapshot is decoded and the room exists.
    Restored,
    /// It is not: damaged bytes, an unreadable version, a hook that failed.
    RestoreFailed(DeclineReason),
    /// The room has taken everything in its log.
    CaughtUp,
    /// The settle was answered.
    SettleAnswered(OwnerAnswer),
    /// It was not.
    SettleUnanswered,
    /// The room was given back, or it is known that it is not held any more.
    GaveBack,
    /// That was not answered.
    GiveBackUnanswered,
    /// The decline was answered, whatever the answer.
    DeclineAnswered,
    /// A deadline passed.
    Fired(AdopterTimer),
    /// The deadline of the restore passed, and the room has taken some of its log since that was set. Until it
    /// is live nothing of that is kept: given back, a long log would be begun anew, and never be read to its end.
    Progressed,
    /// The host's session lapsed, or a write was fenced.
    Fenced,
}

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdopterAction {
    /// Acquires with this activation and what was seen; a repeat uses the same.
    Acquire {
        /// The activation.
        activation: Activation,
        /// What was seen.
        seen: Seen,
    },
    /// Fetches and decodes the snapshot and creates the room.
    Restore(Box<Acquired>),
    /// Tells the store that the room has caught up.
    Settle {
        /// The lease.
        lease: Lease,
    },
    /// The room runs here: opens it to its host.
    GoLive {
        /// The lease.
        lease: Lease,
        /// The position of the last entry of the log when the store was told: what the room has not taken of it
        /// is read first.
        last: Position,
    },
    /// Stops what was created, without a snapshot.
    Discard,
    /// Parks the room, keeping snapshot and cursor.
    GiveBack {
        /// The lease.
        lease: Lease,
        /// Why.
        why: DeclineReason,
    },
    /// Declines the offer.
    Decline {
        /// Why.
        why: DeclineReason,
    },
    /// Sets a deadline.
    Arm(AdopterTimer),
}

impl Adopter {
    /// Starts to take a room; the actions begin it. `acceptable` is what the host says of the offer
    /// before it claims anything.
    pub fn start(
        activation: Activation,
        seen: Seen,
        acceptable: Result<(), DeclineReason>,
    ) -> (Self, Vec<AdopterAction>) {
        match acceptable {
            Ok(()) => {
                let claim =
                    AdopterAction::Acquire { activation: activation.clone(), seen: seen.clone() };
                let adopter = Self { activation, seen, state: AdopterState::Claiming };
                (adopter, vec![AdopterAction::Arm(AdopterTimer::Claim), claim])
            }
            Err(why) => {
                let state = AdopterState::Declining { why: why.clone() };
                (Self { activation, seen, state }, vec![AdopterAction::Decline { why }])
            }
        }
    }

    /// Goes on with a room that was re-asserted: the lease is held already.
    pub fn holding(acquired: Box<Acquired>) -> (Self, Vec<AdopterAction>) {
        let lease = acquired.lease.clone();
        let (epoch, activation) = (lease.epoch, lease.owner.clone());
        let seen = Seen { epoch, owner: Some(activation.clone()) };
        let adopter = Self { activation, seen, state: AdopterState::Restoring { lease } };
        let actions =
            vec![AdopterAction::Arm(AdopterTimer::Restore), AdopterAction::Restore(acquired)];
        (adopter, actions)
    }

    /// Where it is.
    pub fn state(&self) -> &AdopterState {
        &self.state
    }

    /// The activation that it acquires with.
    pub fn activation(&self) -> &Activation {
        &self.activation
    }

    /// What was seen of the record before it was asked for.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The lease, while one is held.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            AdopterState::Restoring { lease }
            | AdopterState::Replaying { lease }
            | AdopterState::Settling { lease }
            | AdopterState::Live { lease }
            | AdopterState::GivingBack { lease, .. } => Some(lease),
            AdopterState::Claiming
            | AdopterState::Declining { .. }
            | AdopterState::Declined { .. }
            | AdopterState::Lost => None,
        }
    }

    /// Whether it ended, one way or the other.
    pub fn is_done(&self) -> bool {
        match self.state {
            AdopterState::Live { .. } | AdopterState::Declined { .. } | AdopterState::Lost => true,
            AdopterState::Claiming
            | AdopterState::Restoring { .. }
            | AdopterState::Replaying { .. }
            | AdopterState::Settling { .. }
            | AdopterState::GivingBack { .. }
            | AdopterState::Declining { .. } => false,
        }
    }

    /// Takes one event.
    ///
    /// # Errors
    /// [`Rejection`] for an event that has no place in the state; nothing changed.
    pub fn step(&mut self, event: AdopterEvent) -> Result<Vec<AdopterAction>, Rejection> {
        match self.state.clone() {
            AdopterState::Claiming => self.claiming(event),
            AdopterState::Restoring { lease } => self.restoring(lease, event),
            AdopterState::Replaying { lease } => self.replaying(lease, event),
            AdopterState::Settling { lease } => self.settling(lease, event),
            AdopterState::Live { .. } => self.live(event),
            AdopterState::GivingBack { lease, why } => self.giving_back(lease, why, event),
            AdopterState::Declining { why } => self.declining(why, event),
            AdopterState::Declined { .. } | AdopterState::Lost => Err(self.reject(&event)),
        }
    }

    fn claiming(&mut self, event: AdopterEvent) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::ClaimAnswered(AcquireAnswer::Acquired(acquired)) => {
                self.state = AdopterState::Restoring { lease: acquired.lease.clone() };
                Ok(vec![
                    AdopterAction::Arm(AdopterTimer::Restore),
                    AdopterAction::Restore(acquired),
                ])
            }
            AdopterEvent::ClaimAnswered(AcquireAnswer::SnapshotLost { snapshot }) => {
                let error = format!("the store lost the bytes of snapshot {}", snapshot.number);
                let why = DeclineReason::RestoreFailed { error };
                self.state = AdopterState::Declining { why: why.clone() };
                Ok(vec![AdopterAction::Decline { why }])
            }
            AdopterEvent::ClaimAnswered(
                AcquireAnswer::Refused { .. } | AcquireAnswer::NoSession | AcquireAnswer::Missing,
            )
            | AdopterEvent::Fenced => Ok(self.lost()),
            // The same activation again: if the first took effect, the answer is the same.
            AdopterEvent::ClaimAnswered(AcquireAnswer::Unproved)
            | AdopterEvent::ClaimUnanswered => Ok(vec![AdopterAction::Acquire {
                activation: self.activation.clone(),
                seen: self.seen.clone(),
            }]),
            // If it took effect after all, the reconcile gives the room back.
            AdopterEvent::Fired(AdopterTimer::Claim) => Ok(self.lost()),
            AdopterEvent::Fired(AdopterTimer::Restore)
            | AdopterEvent::Progressed
            | AdopterEvent::Restored
            | AdopterEvent::RestoreFailed(_)
            | AdopterEvent::CaughtUp
            | AdopterEvent::SettleAnswered(_)
            | AdopterEvent::SettleUnanswered
            | AdopterEvent::GaveBack
            | AdopterEvent::GiveBackUnanswered
            | AdopterEvent::DeclineAnswered => Err(self.reject(&event)),
        }
    }

    fn restoring(
        &mut self,
        lease: Lease,
        event: AdopterEvent,
    ) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::Restored => {
                self.state = AdopterState::Replaying { lease };
                Ok(Vec::new())
            }
            AdopterEvent::RestoreFailed(why) => Ok(self.give_back(lease, why)),
            AdopterEvent::Fired(AdopterTimer::Restore) => {
                Ok(self.give_back(lease, DeclineReason::DeadlineMissed))
            }
            AdopterEvent::Fired(AdopterTimer::Claim) => Ok(Vec::new()),
            AdopterEvent::Fenced => Ok(self.lost()),
            AdopterEvent::ClaimAnswered(_)
            | AdopterEvent::ClaimUnanswered
            | AdopterEvent::Progressed
            | AdopterEvent::CaughtUp
            | AdopterEvent::SettleAnswered(_)
            | AdopterEvent::SettleUnanswered
            | AdopterEvent::GaveBack
            | AdopterEvent::GiveBackUnanswered
            | AdopterEvent::DeclineAnswered => Err(self.reject(&event)),
        }
    }

    fn replaying(
        &mut self,
        lease: Lease,
        event: AdopterEvent,
    ) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::CaughtUp => {
                self.state = AdopterState::Settling { lease: lease.clone() };
                Ok(vec![AdopterAction::Settle { lease }])
            }
            AdopterEvent::RestoreFailed(why) => Ok(self.give_back(lease, why)),
            AdopterEvent::Fired(AdopterTimer::Restore) => {
                Ok(self.give_back(lease, DeclineReason::DeadlineMissed))
            }
            AdopterEvent::Progressed => Ok(vec![AdopterAction::Arm(AdopterTimer::Restore)]),
            AdopterEvent::Fired(AdopterTimer::Claim) => Ok(Vec::new()),
            AdopterEvent::Fenced => Ok(self.lost()),
            AdopterEvent::ClaimAnswered(_)
            | AdopterEvent::ClaimUnanswered
            | AdopterEvent::Restored
            | AdopterEvent::SettleAnswered(_)
            | AdopterEvent::SettleUnanswered
            | AdopterEvent::GaveBack
            | AdopterEvent::GiveBackUnanswered
            | AdopterEvent::DeclineAnswered => Err(self.reject(&event)),
        }
    }

    fn settling(
        &mut self,
        lease: Lease,
        event: AdopterEvent,
    ) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::SettleAnswered(OwnerAnswer::Settled { last }) => {
                self.state = AdopterState::Live { lease: lease.clone() };
                Ok(vec![AdopterAction::GoLive { lease, last }])
            }
            AdopterEvent::SettleAnswered(
                OwnerAnswer::Fenced { .. }
                | OwnerAnswer::Done
                | OwnerAnswer::NoSnapshot
                | OwnerAnswer::Count(_),
            )
            | AdopterEvent::Fenced => Ok(self.lost()),
            AdopterEvent::SettleUnanswered => Ok(vec![AdopterAction::Settle { lease }]),
            // The settle may have taken effect, and the source let go of its copy: only a fence or the
            // end of the session takes the room away now.
            AdopterEvent::Fired(_) | AdopterEvent::Progressed => Ok(Vec::new()),
            AdopterEvent::ClaimAnswered(_)
            | AdopterEvent::ClaimUnanswered
            | AdopterEvent::Restored
            | AdopterEvent::RestoreFailed(_)
            | AdopterEvent::CaughtUp
            | AdopterEvent::GaveBack
            | AdopterEvent::GiveBackUnanswered
            | AdopterEvent::DeclineAnswered => Err(self.reject(&event)),
        }
    }

    fn live(&mut self, event: AdopterEvent) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::Fenced => Ok(self.lost()),
            AdopterEvent::Fired(_) | AdopterEvent::Progressed => Ok(Vec::new()),
            AdopterEvent::ClaimAnswered(_)
            | AdopterEvent::ClaimUnanswered
            | AdopterEvent::Restored
            | AdopterEvent::RestoreFailed(_)
            | AdopterEvent::CaughtUp
            | AdopterEvent::SettleAnswered(_)
            | AdopterEvent::SettleUnanswered
            | AdopterEvent::GaveBack
            | AdopterEvent::GiveBackUnanswered
            | AdopterEvent::DeclineAnswered => Err(self.reject(&event)),
        }
    }

    fn giving_back(
        &mut self,
        lease: Lease,
        why: DeclineReason,
        event: AdopterEvent,
    ) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::GaveBack | AdopterEvent::Fenced => {
                self.state = AdopterState::Declined { why };
                Ok(Vec::new())
            }
            AdopterEvent::GiveBackUnanswered => Ok(vec![AdopterAction::GiveBack { lease, why }]),
            // What the restore says once it is given up does not matter.
            AdopterEvent::Restored
            | AdopterEvent::RestoreFailed(_)
            | AdopterEvent::CaughtUp
            | AdopterEvent::Progressed
            | AdopterEvent::Fired(_) => Ok(Vec::new()),
            AdopterEvent::ClaimAnswered(_)
            | AdopterEvent::ClaimUnanswered
            | AdopterEvent::SettleAnswered(_)
            | AdopterEvent::SettleUnanswered
            | AdopterEvent::DeclineAnswered => Err(self.reject(&event)),
        }
    }

    fn declining(
        &mut self,
        why: DeclineReason,
        event: AdopterEvent,
    ) -> Result<Vec<AdopterAction>, Rejection> {
        match event {
            AdopterEvent::DeclineAnswered | AdopterEvent::Fenced => {
                self.state = AdopterState::Declined { why };
                Ok(Vec::new())
            }
            AdopterEvent::Fired(_) | AdopterEvent::Progressed => Ok(Vec::new()),
            AdopterEvent::ClaimAnswered(_)
            | AdopterEvent::ClaimUnanswered
            | AdopterEvent::Restored
            | AdopterEvent::RestoreFailed(_)
            | AdopterEvent::CaughtUp
            | AdopterEvent::SettleAnswered(_)
            | AdopterEvent::SettleUnanswered
            | AdopterEvent::GaveBack
            | AdopterEvent::GiveBackUnanswered => Err(self.reject(&event)),
        }
    }

    fn give_back(&mut self, lease: Lease, why: DeclineReason) -> Vec<AdopterAction> {
        self.state = AdopterState::GivingBack { lease: lease.clone(), why: why.clone() };
        vec![AdopterAction::Discard, AdopterAction::GiveBack { lease, why }]
    }

    fn lost(&mut self) -> Vec<AdopterAction> {
        self.state = AdopterState::Lost;
        vec![AdopterAction::Discard]
    }

    /// The name of the state, for spans and reports.
    pub fn state_name(&self) -> &'static str {
        match &self.state {
            AdopterState::Claiming => "Claiming",
            AdopterState::Restoring { .. } => "Restoring",
            AdopterState::Replaying { .. } => "Replaying",
            AdopterState::Settling { .. } => "Settling",
            AdopterState::Live { .. } => "Live",
            AdopterState::GivingBack { .. } => "GivingBack",
            AdopterState::Declining { .. } => "Declining",
            AdopterState::Declined { .. } => "Declined",
            AdopterState::Lost => "Lost",
        }
    }

    fn reject(&self, event: &AdopterEvent) -> Rejection {
        let event = match event {
            AdopterEvent::ClaimAnswered(_) => "ClaimAnswered",
            AdopterEvent::ClaimUnanswered => "ClaimUnanswered",
            AdopterEvent::Restored => "Restored",
            AdopterEvent::RestoreFailed(_) => "RestoreFailed",
            AdopterEvent::CaughtUp => "CaughtUp",
            AdopterEvent::SettleAnswered(_) => "SettleAnswered",
            AdopterEvent::SettleUnanswered => "SettleUnanswered",
            AdopterEvent::GaveBack => "GaveBack",
            AdopterEvent::GiveBackUnanswered => "GiveBackUnanswered",
            AdopterEvent::DeclineAnswered => "DeclineAnswered",
            AdopterEvent::Fired(_) => "Fired",
            AdopterEvent::Progressed => "Progressed",
            AdopterEvent::Fenced => "Fenced",
        };
        Rejection { machine: "adopter", state: self.state_name(), event }
    }
}
