//! Which rooms this host has put to rest, and in what state: what a store loses of that, nobody else knows of.

use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::core::{HostCore, RoomFault};
use super::newest::Newest;
use crate::id::{Life, RoomId, SnapshotNumber};
use crate::protocol::record::{RecordView, SnapshotKey, SnapshotRef};

/// Records that are read at once after the store has been away.
const AT_ONCE: usize = 16;

/// The state in which a room was parked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    life: Life,
    number: SnapshotNumber,
    key: SnapshotKey,
}

impl State {
    /// Whether a record has this state, or a later one: numbers grow, but whoever goes on from an older state gives the
    /// same ones again.
    fn is_in(&self, view: &RecordView) -> bool {
        view.life == self.life && self.is_kept_by(view.snapshot.as_ref())
    }

    fn is_kept_by(&self, stored: Option<&SnapshotRef>) -> bool {
        stored.is_some_and(|s| s.number > self.number || s.key == self.key)
    }

    /// Whether the store knows less. A later life is no loss: the room was closed and born again.
    fn is_missed(&self, view: Option<&RecordView>) -> bool {
        view.is_none_or(|view| !self.is_in(view) && view.life <= self.life)
    }
}

/// The rooms that were parked last; what is lost of one that was parked before them goes unnoticed.
#[derive(Debug, Default)]
pub(crate) struct Parked(Newest<State>);

impl Parked {
    /// A room was parked with a snapshot.
    pub(crate) fn note(&mut self, room: RoomId, life: Life, snapshot: &SnapshotRef) {
        let state = State { life, number: snapshot.number, key: snapshot.key.clone() };
        self.0.keep(room, state);
    }

    /// A room is to run here again, from this snapshot. Whether that is older than the one in which it was parked.
    pub(crate) fn taken_up(
        &mut self,
        room: &RoomId,
        life: Life,
        snapshot: Option<&SnapshotRef>,
    ) -> bool {
        let parked = self.0.take(room);
        parked.is_some_and(|state| state.life == life && !state.is_kept_by(snapshot))
    }

    /// The loss of a room is known. Whether it was remembered.
    fn forget(&mut self, room: &RoomId) -> bool {
        self.0.take(room).is_some()
    }

    fn all(&self) -> Vec<(RoomId, State)> {
        self.0.all().map(|(room, state)| (room.clone(), state.clone())).collect()
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
    use crate::id::{Activation, Epoch, HostId, Incarnation, OutSeq, Position, Seq};
    use crate::protocol::record::{Phase, Seen};

    fn room(number: usize) -> RoomId {
        RoomId::new("chat", number.to_string()).unwrap()
    }

    fn snapshot(number: u64, attempt: u64) -> SnapshotRef {
        let by = Incarnation { host: HostId::new("a").unwrap(), number: 1 };
        SnapshotRef {
            key: SnapshotKey { by: Activation { by, number: 1 }, attempt },
            number: SnapshotNumber(number),
            cursor: Position::START,
            cursor_seq: Seq(0),
            unread: 0,
            bytes: 0,
            schema: 1,
            next_timer: None,
        }
    }

    fn view(life: u64, snapshot: Option<SnapshotRef>) -> RecordView {
        RecordView {
            life: Life(life),
            seen: Seen { epoch: Epoch(1), owner: None },
            owner_alive: false,
            settled: false,
            phase: Phase::Running,
            seq: Seq(0),
            last: Position::START,
            snapshot,
            backlog: false,
            out_seq: OutSeq(0),
            declined: Vec::new(),
            crashes: 0,
            dead_letters: 0,
        }
    }

    #[test]
    fn a_state_is_there_by_its_key_or_by_a_later_number() {
        let mut parked = Parked::default();
        parked.note(room(1), Life(5), &snapshot(3, 7));
        let (_, state) = parked.all().pop().unwrap();
        let missed = |view: Option<RecordView>| state.is_missed(view.as_ref());
        assert!(!missed(Some(view(5, Some(snapshot(3, 7))))));
        assert!(!missed(Some(view(5, Some(snapshot(4, 1))))));
        assert!(!missed(Some(view(6, None))), "it was closed and born again");
        assert!(missed(Some(view(5, Some(snapshot(2, 6))))));
        assert!(missed(Some(view(5, Some(snapshot(3, 1))))), "an older one went on");
        assert!(missed(Some(view(4, Some(snapshot(9, 9))))));
        assert!(missed(Some(view(5, None))));
        assert!(missed(None));
    }

    #[test]
    fn a_room_that_is_taken_up_from_an_older_state_has_lost_one() {
        let mut parked = Parked::default();
        let mut lost = |life, stored: Option<SnapshotRef>| {
            parked.note(room(1), Life(5), &snapshot(3, 7));
            let lost = parked.taken_up(&room(1), Life(life), stored.as_ref());
            assert!(parked.all().is_empty());
            lost
        };
        assert!(!lost(5, Some(snapshot(3, 7))));
        assert!(!lost(5, Some(snapshot(4, 1))));
        assert!(!lost(6, None));
        assert!(lost(5, Some(snapshot(2, 6))));
        assert!(!parked.taken_up(&room(1), Life(5), None), "nothing is known of it");
    }
}
