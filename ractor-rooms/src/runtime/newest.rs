//! What is remembered of the rooms that were noted last.

use std::collections::{BTreeMap, VecDeque};

use crate::id::RoomId;

/// So many rooms are remembered.
pub(crate) const MOST: usize = 1_024;

/// Something of each room, of the [`MOST`] that were noted last.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    rooms: BTreeMap<RoomId, (u64, T)>,
    /// In the order in which they were noted, with the count of these; some have been taken since, and perhaps been
    /// noted again.
    order: VecDeque<(u64, RoomId)>,
    count: u64,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { rooms: BTreeMap::new(), order: VecDeque::new(), count: 0 }
    }
}

impl<T> Newest<T> {
    /// Notes something of a room, in the place of what was noted before.
    pub(crate) fn keep(&mut self, room: RoomId, what: T) {
        self.count += 1;
        self.order.push_back((self.count, room.clone()));
        self.rooms.insert(room, (self.count, what));
        while self.order.len() > MOST {
            let Some((count, oldest)) = self.order.pop_front() else { return };
            if self.rooms.get(&oldest).is_some_and(|(kept, _)| *kept == count) {
                self.rooms.remove(&oldest);
            }
        }
    }

    /// Forgets a room; what was known of it.
    pub(crate) fn take(&mut self, room: &RoomId) -> Option<T> {
        self.rooms.remove(room).map(|(_, what)| what)
    }

    /// All that is known, in the order of rooms.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&RoomId, &T)> {
        self.rooms.iter().map(|(room, (_, what))| (room, what))
    }

    /// The rooms, in order.
    pub(crate) fn rooms(&self) -> Vec<RoomId> {
        self.rooms.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(number: usize) -> RoomId {
        RoomId::new("pad", number.to_string()).unwrap()
    }

    #[test]
    fn the_newest_are_kept() {
        let mut newest = Newest::default();
        newest.keep(room(0), 1);
        for number in 0..MOST {
            newest.keep(room(number), 2);
        }
        assert_eq!(newest.rooms().len(), MOST);
        assert_eq!(newest.take(&room(0)), Some(2), "noted again, and late");
        newest.keep(room(MOST), 3);
        newest.keep(room(MOST + 1), 3);
        assert_eq!(newest.take(&room(1)), None, "the oldest");
        assert_eq!(newest.take(&room(2)), Some(2));
        assert!(newest.order.len() <= MOST && newest.rooms().len() <= MOST);
    }

    #[test]
    fn rooms_that_are_noted_again_and_again_are_kept_once_each() {
        let mut newest = Newest::default();
        for number in 0..MOST * 3 {
            newest.keep(room(number % (MOST + 8)), number);
        }
        assert!(newest.rooms.len() <= MOST && newest.order.len() <= MOST);
        let last = MOST * 3 - 1;
        assert!(newest.all().any(|known| known == (&room(last % (MOST + 8)), &last)));
        assert_eq!(newest.take(&room(last % (MOST + 8))), Some(last));
        assert!(!newest.all().any(|(of, _)| *of == room(last % (MOST + 8))));
    }
}
