//! Letters that were sent lately, for a store that loses them before they are read.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::reply::ReplyAddr;
use crate::id::Incarnation;

/// Letters that are held at most. What is older is not sent again: its caller has a timeout.
const HELD: usize = 4_096;
/// Their bytes at most.
const HELD_BYTES: usize = 16 << 20;
/// Requests whose repeats are known.
const OPENED: usize = 4_096;

/// See the [module](self). A letter that comes twice does no harm: the first answer to a call wins, and a
/// request is opened once.
#[derive(Default)]
pub(crate) struct Letters {
    sent: Mutex<Sent>,
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Sent {
    held: VecDeque<(Duration, Incarnation, Bytes)>,
    bytes: usize,
}

#[derive(Default)]
struct Opened {
    order: VecDeque<ReplyAddr>,
    known: HashSet<ReplyAddr>,
}

impl Sent {
    fn drop_oldest(&mut self) {
        if let Some((_, _, letter)) = self.held.pop_front() {
            self.bytes = self.bytes.saturating_sub(letter.len());
        }
    }

    fn let_go(&mut self, now: Duration, age: Duration) {
        while self.held.front().is_some_and(|(at, ..)| now.saturating_sub(*at) > age) {
            self.drop_oldest();
        }
    }
}

impl Letters {
    /// A letter was put into an inbox.
    pub(crate) fn hold(&self, now: Duration, to: Incarnation, letter: Bytes) {
        let mut sent = self.sent.lock();
        sent.bytes = sent.bytes.saturating_add(letter.len());
        sent.held.push_back((now, to, letter));
        while sent.held.len() > HELD || sent.bytes > HELD_BYTES {
            sent.drop_oldest();
        }
    }

    /// Forgets those that nobody waits for any more.
    pub(crate) fn let_go(&self, now: Duration, age: Duration) {
        self.sent.lock().let_go(now, age);
    }

    /// Those that somebody may still wait for, oldest first, to be sent again.
    pub(crate) fn take(&self, now: Duration, age: Duration) -> Vec<(Incarnation, Bytes)> {
        let mut sent = self.sent.lock();
        sent.let_go(now, age);
        let held = std::mem::take(&mut *sent).held;
        held.into_iter().map(|(_, to, letter)| (to, letter)).collect()
    }

    /// Whether a request that is answered to this address was not opened before.
    pub(crate) fn is_new(&self, reply: &ReplyAddr) -> bool {
        let mut opened = self.opened.lock();
        if !opened.known.insert(reply.clone()) {
            return false;
        }
        opened.order.push_back(reply.clone());
        if opened.order.len() > OPENED
            && let Some(oldest) = opened.order.pop_front()
        {
            opened.known.remove(&oldest);
        }
        true
    }
}
