//! What is kept of ways that were forgotten.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{Producer, RoomId};
use crate::protocol::Sender;

/// So many ways are remembered. Of the one that was forgotten first nothing is known then, and what the store
/// loses of it goes unnoticed.
const MOST: usize = 1_024;

/// Where the numbers of a way stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Whose numbers they are.
    pub(crate) producer: Producer,
    /// At rest.
    pub(crate) sender: Sender,
}

/// Where the numbers of the ways stand that were forgotten last: what a host has had accepted it knows of, also
/// when nothing is sent that way any more.
#[derive(Debug, Default)]
pub(crate) struct Rests {
    rests: BTreeMap<RoomId, (u64, Rest)>,
    /// The rooms, in the order in which the ways were forgotten, with the count of these; some have been taken up
    /// again since, and perhaps been forgotten again.
    order: VecDeque<(u64, RoomId)>,
    count: u64,
}

impl Rests {
    /// A way is forgotten.
    pub(crate) fn keep(&mut self, room: RoomId, rest: Rest) {
        self.count += 1;
        self.order.push_back((self.count, room.clone()));
        self.rests.insert(room, (self.count, rest));
        while self.order.len() > MOST {
            let Some((count, oldest)) = self.order.pop_front() else { return };
            if self.rests.get(&oldest).is_some_and(|(kept, _)| *kept == count) {
                self.rests.remove(&oldest);
            }
        }
    }

    /// A way is taken up again.
    pub(crate) fn take(&mut self, room: &RoomId) -> Option<Rest> {
        self.rests.remove(room).map(|(_, rest)| rest)
    }

    /// The rooms, in order.
    pub(crate) fn rooms(&self) -> Vec<RoomId> {
        self.rests.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{HostId, Incarnation, Number};

    fn room(number: usize) -> RoomId {
        RoomId::new("pad", number.to_string()).unwrap()
    }

    fn rest(accepted: u64) -> Rest {
        let host = HostId::new("a").unwrap();
        Rest {
            producer: Producer::Host(Incarnation { host, number: 1 }),
            sender: Sender::resuming(Number(accepted), None),
        }
    }

    #[test]
    fn the_newest_are_kept() {
        let mut rests = Rests::default();
        rests.keep(room(0), rest(1));
        for number in 0..MOST {
            rests.keep(room(number), rest(2));
        }
        assert_eq!(rests.rooms().len(), MOST);
        assert_eq!(rests.take(&room(0)), Some(rest(2)), "forgotten again, and late");
        rests.keep(room(MOST), rest(3));
        rests.keep(room(MOST + 1), rest(3));
        assert_eq!(rests.take(&room(1)), None, "the oldest");
        assert_eq!(rests.take(&room(2)), Some(rest(2)));
        assert!(rests.order.len() <= MOST && rests.rooms().len() <= MOST);
    }
}
