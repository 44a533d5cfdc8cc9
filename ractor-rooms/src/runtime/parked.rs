//! Which rooms this host has put to rest, and in what state: what a store loses of that, nobody else knows of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::core::{HostCore, RoomFault};
use crate::id::{Life, RoomId, SnapshotNumber};
use crate::protocol::record::RecordView;

/// So many rooms are remembered; what is lost of one that was parked before them goes unnoticed.
const MOST: usize = 1_024;
/// Records that are read at once after the store has been away.
const AT_ONCE: usize = 16;

/// The state in which a room was parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    life: Life,
    number: SnapshotNumber,
}

impl State {
    /// Whether a record has this state, or a later one.
    fn is_in(self, view: &RecordView) -> bool {
        let stored = view.snapshot.as_ref().map_or(SnapshotNumber(0), |snapshot| snapshot.number);
        view.life == self.life && stored >= self.number
    }

    /// Whether the store knows less. A later life is no loss: the room was closed and born again.
    fn is_missed(self, view: Option<&RecordView>) -> bool {
        view.is_none_or(|view| !self.is_in(view) && view.life <= self.life)
    }
}

/// The rooms that were parked last.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    rooms: BTreeMap<RoomId, (u64, State)>,
    /// In the order of their parks, with the count of these; some have been parked again since.
    order: VecDeque<(u64, RoomId)>,
    count: u64,
}

impl Parked {
    /// A room was parked with a snapshot.
    pub(crate) fn note(&mut self, room: RoomId, life: Life, number: SnapshotNumber) {
        self.count += 1;
        self.order.push_back((self.count, room.clone()));
        self.rooms.insert(room, (self.count, State { life, number }));
        while self.order.len() > MOST {
            let Some((count, oldest)) = self.order.pop_front() else { return };
            if self.rooms.get(&oldest).is_some_and(|(kept, _)| *kept == count) {
                self.rooms.remove(&oldest);
            }
        }
    }

    /// A room runs here again, or its loss is known. Whether it was remembered.
    pub(crate) fn forget(&mut self, room: &RoomId) -> bool {
        self.rooms.remove(room).is_some()
    }

    fn all(&self) -> Vec<(RoomId, State)> {
        self.rooms.iter().map(|(room, (_, state))| (room.clone(), *state)).collect()
    }
}

impl HostCore {
    /// The store may have lost data: looks whether it still has the rooms that rest since this host parked them. Their
    /// bytes are gone here, so that a loss can only be told.
    pub(crate) async fn look_at_parked(self: &Arc<Self>) {
        let parked = self.parked.lock().all();
        stream::iter(parked)
            .for_each_concurrent(AT_ONCE, |(room, state)| async move {
                // Several looks may be under way, of several generations.
                if self.is_state_lost(&room, state).await && self.parked.lock().forget(&room) {
                    self.report(RoomFault::StateLost { room });
                }
            })
            .await;
    }

    /// Whether nobody has a state that the store knew. Who took the room up since may have it, and re-asserts it before
    /// anybody can take the room, or within a session's time at the latest.
    async fn is_state_lost(&self, room: &RoomId, state: State) -> bool {
        let Some(first) = self.view_or_leave(room).await else { return false };
        if !state.is_missed(first.as_deref()) {
            return false;
        }
        let epoch = |view: &Option<Box<RecordView>>| view.as_ref().map(|view| view.seen.epoch);
        let start = self.clock.mark();
        while self.clock.elapsed_since(start) < self.config.session_ttl {
            tokio::time::sleep(self.config.retry_interval).await;
            let Some(now) = self.view_or_leave(room).await else { return false };
            if now.as_ref().is_some_and(|now| state.is_in(now)) {
                return false;
            }
            if epoch(&now) > epoch(&first) {
                return true;
            }
        }
        true
    }

    /// Looks at a record until there is an answer; none when this host stops.
    async fn view_or_leave(&self, room: &RoomId) -> Option<Option<Box<RecordView>>> {
        while !self.is_leaving() {
            if let Ok(view) = self.view(room).await {
                return Some(view);
            }
            tokio::time::sleep(self.config.retry_interval).await;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(number: usize) -> RoomId {
        RoomId::new("chat", number.to_string()).unwrap()
    }

    #[test]
    fn the_rooms_that_were_parked_last_are_remembered_once_each() {
        let mut parked = Parked::default();
        for number in 0..MOST * 3 {
            parked.note(room(number % (MOST + 8)), Life(1), SnapshotNumber(number as u64));
        }
        assert!(parked.rooms.len() <= MOST && parked.order.len() <= MOST);
        let newest = MOST * 3 - 1;
        let state = State { life: Life(1), number: SnapshotNumber(newest as u64) };
        assert!(parked.all().contains(&(room(newest % (MOST + 8)), state)));
        parked.forget(&room(newest % (MOST + 8)));
        assert!(!parked.all().iter().any(|(of, _)| *of == room(newest % (MOST + 8))));
    }
}
