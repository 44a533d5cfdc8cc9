//! The gate: whether a sender on a room's own host may go straight into the mailbox.
//!
//! One gate per room and host. Order is the whole point: what a sender put into the store must be in the
//! mailbox before what it puts into the mailbox itself.
//!
//! The driver keeps the gate behind a reader-writer lock. A send into the mailbox happens under the
//! reader side, which is the admission count; every step happens under the writer side, so that a closing
//! gate has waited for every admitted send, and what is cast next (the cut) comes after all of them.

#[cfg(test)]
mod step_test;

use super::Rejection;
use crate::id::Seq;

/// Where sends go. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gate {
    /// To the store: the room runs elsewhere, or is durable, or is about to move.
    #[default]
    Store,
    /// Nowhere yet: a live room has started here, and what is under way through the store must arrive
    /// first. New sends are held; holding them is what makes the wait end under steady traffic.
    Opening,
    /// Straight into the mailbox.
    Mailbox,
}

/// What happened to a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateEvent {
    /// A live room runs on this host and reads its log.
    RoomLive,
    /// The state of the outbound queue and of the room's intake.
    Progress {
        /// Whether an append is under way or its outcome unknown.
        in_flight: bool,
        /// The highest `seq` that any answer to this host's appends named, of the life that the room is in.
        highest: Seq,
        /// The `seq` up to which the room has received.
        received: Seq,
    },
    /// The room freezes, stops or is lost.
    Close,
}

/// What the driver does, before it lets go of the writer side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GateAction {
    /// Holds sends from now on and tells the outbound queue to start nothing new.
    Hold,
    /// Puts what was held into the mailbox, in order.
    FlushToMailbox,
    /// Leaves what was held to the outbound queue, in order.
    FlushToStore,
}

impl Gate {
    /// Takes one event.
    ///
    /// # Errors
    /// [`Rejection`] for a `RoomLive` at a gate that is open or opening: the room before was not closed.
    pub fn step(&mut self, event: GateEvent) -> Result<Vec<GateAction>, Rejection> {
        match *self {
            Self::Store => match event {
                GateEvent::RoomLive => {
                    *self = Self::Opening;
                    Ok(vec![GateAction::Hold])
                }
                GateEvent::Progress { .. } | GateEvent::Close => Ok(Vec::new()),
            },
            Self::Opening => match event {
                GateEvent::RoomLive => Err(self.reject("RoomLive")),
                GateEvent::Progress { in_flight, highest, received } => {
                    if in_flight || highest > received {
                        return Ok(Vec::new());
                    }
                    *self = Self::Mailbox;
                    Ok(vec![GateAction::FlushToMailbox])
                }
                GateEvent::Close => {
                    *self = Self::Store;
                    Ok(vec![GateAction::FlushToStore])
                }
            },
            Self::Mailbox => match event {
                GateEvent::RoomLive => Err(self.reject("RoomLive")),
                GateEvent::Progress { .. } => Ok(Vec::new()),
                GateEvent::Close => {
                    *self = Self::Store;
                    Ok(vec![GateAction::FlushToStore])
                }
            },
        }
    }

    fn reject(self, event: &'static str) -> Rejection {
        let state = match self {
            Self::Store => "Store",
            Self::Opening => "Opening",
            Self::Mailbox => "Mailbox",
        };
        Rejection { machine: "gate", state, event }
    }
}
