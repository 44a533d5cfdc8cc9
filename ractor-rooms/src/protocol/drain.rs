//! A host that leaves: which of its rooms goes next, and how.
//!
//! Rooms move out in the order of their names, as many at once as the budget of counts and bytes allows; one that
//! does not fit is waited for, so that a large one is not put off for ever. A room that stays (nobody takes it, its
//! handler does not return) is tried again in the next round. Once the deadline has passed, what is still here goes
//! by the policy of its kind.
//!
//! ```text
//!            found                         left
//!   (here) ─────────▶ waiting ─budget─▶ leaving ─────▶ gone
//!                        ▲                 │ stayed
//!                        └──next round─────┘   after the deadline: Move → Park | Close → Kill
//! ```

#[cfg(test)]
mod drain_test;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{HostId, RoomId};

/// What happens to a room that has not moved when the deadline of a drain passes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overdue {
    /// It rests in the store, and whichever host takes it next goes on with it. If its handler does not return, it
    /// is stopped, and goes on elsewhere from its checkpoint and its log.
    #[default]
    Park,
    /// It ends. What it has not handled becomes dead letters.
    Close {
        /// What its senders and members are told.
        reason: String,
    },
    /// It is moved all the same: the drain lasts as long as it takes.
    Wait,
}

/// How much may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DrainBudget {
    /// Rooms; at least one is.
    pub rooms: usize,
    /// Bytes of their snapshots, as far as sizes are known; a room that is larger goes alone.
    pub bytes: u64,
}

/// A way in which a room may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// To another host.
    Move,
    /// To the store.
    Park,
    /// It ends.
    Close,
    /// Its runner is stopped, and the room recovered elsewhere.
    Kill,
}

/// Why a room is still here after it was asked to leave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stay {
    /// No other host that is ready runs its kind.
    NoHost,
    /// A host did not take it.
    Declined {
        /// Which.
        by: HostId,
        /// What it said.
        why: String,
    },
    /// Its handler does not return.
    Blocked {
        /// For how long was waited, in words.
        why: String,
    },
    /// Anything else, which may pass.
    Failed {
        /// What went wrong.
        why: String,
    },
}

/// A room that is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Here {
    /// The size of its last snapshot in bytes; 0 before it has one.
    pub bytes: u64,
    /// What becomes of it after the deadline.
    pub overdue: Overdue,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DrainEvent {
    /// What runs here now, of which a new round begins.
    Found {
        /// The rooms that could leave.
        rooms: BTreeMap<RoomId, Here>,
        /// Rooms that are being taken or given up.
        busy: BTreeSet<RoomId>,
    },
    /// A room has left.
    Left {
        /// The room.
        room: RoomId,
    },
    /// It has not.
    Stayed {
        /// The room.
        room: RoomId,
        /// Why.
        why: Stay,
    },
    /// The deadline has passed.
    Overdue,
    /// The host stays after all.
    Cancelled,
}

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DrainAction {
    /// Moves a room to the host that placement names.
    Move {
        /// The room.
        room: RoomId,
        /// Hosts that would not take it.
        declined: Vec<HostId>,
    },
    /// Unloads it.
    Park {
        /// The room.
        room: RoomId,
    },
    /// Ends it, handled or not.
    Close {
        /// The room.
        room: RoomId,
        /// Why.
        reason: String,
    },
    /// Stops its runner and gives its lease back.
    Kill {
        /// The room.
        room: RoomId,
    },
    /// Looks at once what is still here.
    Look,
    /// It is over.
    End(DrainEnd),
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DrainEnd {
    /// Nothing runs here any more.
    Drained,
    /// It was cancelled: rooms that had not left stay.
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Room {
    here: Here,
    leaving: Option<Way>,
    /// Not in this round any more.
    tried: bool,
    declined: Vec<HostId>,
    /// It did not come to a message boundary, and the deadline has passed.
    stuck: bool,
    why: Option<String>,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Drain {
    budget: DrainBudget,
    rooms: BTreeMap<RoomId, Room>,
    busy: usize,
    overdue: bool,
    cancelled: bool,
    ended: bool,
    left: BTreeMap<Way, u64>,
}

impl Drain {
    /// Begins; the first thing to do is to look what is here.
    pub fn start(budget: DrainBudget) -> (Self, Vec<DrainAction>) {
        let drain = Self {
            budget,
            rooms: BTreeMap::new(),
            busy: 0,
            overdue: false,
            cancelled: false,
            ended: false,
            left: BTreeMap::new(),
        };
        (drain, vec![DrainAction::Look])
    }

    /// How many rooms have left in a way.
    pub fn left(&self, way: Way) -> u64 {
        self.left.get(&way).copied().unwrap_or_default()
    }

    /// How many rooms are here.
    pub fn remaining(&self) -> usize {
        self.rooms.len() + self.busy
    }

    /// How many are leaving.
    pub fn leaving(&self) -> usize {
        self.rooms.values().filter(|room| room.leaving.is_some()).count()
    }

    /// Rooms that were asked to leave and are still here, each with the reason.
    pub fn blockers(&self) -> impl Iterator<Item = (&RoomId, &str)> {
        self.rooms.iter().filter_map(|(id, room)| Some((id, room.why.as_deref()?)))
    }

    /// Takes one event. What does not fit (a room that is not known, anything after the end) changes nothing: it is
    /// about a room that ended meanwhile.
    pub fn step(&mut self, event: DrainEvent) -> Vec<DrainAction> {
        if self.ended {
            return Vec::new();
        }
        let looked = matches!(event, DrainEvent::Found { .. });
        match event {
            DrainEvent::Found { rooms, busy } => self.found(rooms, &busy),
            DrainEvent::Left { room } => {
                if let Some(way) = self.rooms.remove(&room).and_then(|room| room.leaving) {
                    *self.left.entry(way).or_default() += 1;
                }
            }
            DrainEvent::Stayed { room, why } => self.stayed(&room, why),
            DrainEvent::Overdue => {
                self.overdue = true;
                self.rooms.values_mut().for_each(|room| room.tried = false);
            }
            DrainEvent::Cancelled => self.cancelled = true,
        }
        self.go_on(looked)
    }

    fn found(&mut self, rooms: BTreeMap<RoomId, Here>, busy: &BTreeSet<RoomId>) {
        let leaves = |id: &RoomId| self.rooms.get(id).is_some_and(|room| room.leaving.is_some());
        self.busy = busy.iter().filter(|id| !leaves(id)).count();
        // One that is gone ended by itself, or its host lost it.
        self.rooms.retain(|id, room| room.leaving.is_some() || rooms.contains_key(id));
        for (id, here) in rooms {
            let room = self.rooms.entry(id).or_insert_with(|| Room {
                here: here.clone(),
                leaving: None,
                tried: false,
                declined: Vec::new(),
                stuck: false,
                why: None,
            });
            room.here = here;
            room.tried = false;
        }
    }

    fn stayed(&mut self, id: &RoomId, why: Stay) {
        let Some(room) = self.rooms.get_mut(id) else { return };
        room.leaving = None;
        room.tried = true;
        let why = match why {
            Stay::NoHost => {
                // Whoever declined is asked again when there is nobody else.
                room.declined.clear();
                "no other host that is ready runs its kind".to_owned()
            }
            Stay::Declined { by, why } => {
                let text = format!("{by} did not take it: {why}");
                if !room.declined.contains(&by) {
                    room.declined.push(by);
                }
                text
            }
            Stay::Blocked { why } => {
                room.stuck |= self.overdue;
                why
            }
            Stay::Failed { why } => why,
        };
        room.why = Some(why);
    }

    fn go_on(&mut self, looked: bool) -> Vec<DrainAction> {
        let mut actions = Vec::new();
        let leaving = self.rooms.values().filter(|room| room.leaving.is_some());
        let (mut count, mut bytes) = (0usize, 0u64);
        for room in leaving {
            count += 1;
            bytes = bytes.saturating_add(room.here.bytes);
        }
        if self.cancelled {
            if count == 0 {
                self.ended = true;
                actions.push(DrainAction::End(DrainEnd::Cancelled));
            }
            return actions;
        }
        for (id, room) in &mut self.rooms {
            if room.leaving.is_some() || room.tried {
                continue;
            }
            let fits = bytes.saturating_add(room.here.bytes) <= self.budget.bytes;
            if count > 0 && (count >= self.budget.rooms || !fits) {
                break;
            }
            count += 1;
            bytes = bytes.saturating_add(room.here.bytes);
            actions.push(room.leave(id, self.overdue));
        }
        if count == 0 && self.rooms.is_empty() {
            if !looked {
                // Something may have come since the last look.
                actions.push(DrainAction::Look);
            } else if self.busy == 0 {
                self.ended = true;
                actions.push(DrainAction::End(DrainEnd::Drained));
            }
        }
        actions
    }
}

impl Room {
    fn leave(&mut self, id: &RoomId, overdue: bool) -> DrainAction {
        let room = id.clone();
        let (way, action) = match &self.here.overdue {
            Overdue::Park | Overdue::Close { .. } if overdue && self.stuck => {
                (Way::Kill, DrainAction::Kill { room })
            }
            Overdue::Park if overdue => (Way::Park, DrainAction::Park { room }),
            Overdue::Close { reason } if overdue => {
                (Way::Close, DrainAction::Close { room, reason: reason.clone() })
            }
            Overdue::Park | Overdue::Close { .. } | Overdue::Wait => {
                (Way::Move, DrainAction::Move { room, declined: self.declined.clone() })
            }
        };
        self.leaving = Some(way);
        action
    }
}
