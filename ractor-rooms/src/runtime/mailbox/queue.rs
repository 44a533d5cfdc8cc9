//! The queue of a mailbox, without its lock and its actor.

#[cfg(test)]
mod order_test;

use std::collections::VecDeque;

use super::KEPT;

/// Messages in the order in which they were put in.
///
/// The rule that every caller keeps up: a queue that is not empty has somebody on the way to it. That is a
/// bell, or a sender with a [`Ticket`] for one, or the runner at work on a batch, or, once the gate is
/// closed, the control that takes everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Queue<M> {
    waiting: VecDeque<M>,
    /// How many were ever taken out.
    taken: u64,
    ended: bool,
}

/// Obliges whoever put a message into an empty queue to ring for it. Names the message.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Ticket(u64);

/// What a bell finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<M> {
    /// Nothing: it was taken out for another reason.
    Nothing,
    /// One message, which is out now.
    Only(M),
    /// More, which are still in.
    Several,
}

impl<M> Default for Queue<M> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), taken: 0, ended: false }
    }
}

impl<M> Queue<M> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Puts a message in. With a ticket if it is the only one.
    #[inline]
    pub(crate) fn put(&mut self, message: M) -> Result<Option<Ticket>, M> {
        if self.ended {
            return Err(message);
        }
        let first = self.waiting.is_empty();
        self.waiting.push_back(message);
        Ok(first.then_some(Ticket(self.taken)))
    }

    /// The bell was not heard: the queue takes no more, and hands the message back unless it is out.
    #[cold]
    pub(crate) fn retract(&mut self, ticket: Ticket) -> Option<M> {
        self.ended = true;
        if self.taken != ticket.0 {
            return None; // in order, so this one was the first to be taken out
        }
        self.taken += 1;
        self.waiting.pop_front()
    }

    /// Takes the message out if there is but one: whoever puts the next one in rings for it.
    #[inline]
    pub(crate) fn next(&mut self) -> Next<M> {
        if self.waiting.len() > 1 {
            return Next::Several;
        }
        match self.waiting.pop_front() {
            Some(message) => {
                self.taken += 1;
                Next::Only(message)
            }
            None => Next::Nothing,
        }
    }

    /// Takes up to `most` messages out. Whether it left some: whoever puts one in behind them does not
    /// ring, so the caller must, or come back.
    pub(crate) fn take(&mut self, most: usize, give: impl FnMut(M)) -> bool {
        let count = most.min(self.waiting.len());
        self.taken += count as u64;
        self.waiting.drain(..count).for_each(give);
        self.give_back();
        !self.waiting.is_empty()
    }

    /// Takes no more from now on. What is still in is the caller's to drop.
    pub(crate) fn end(&mut self) -> VecDeque<M> {
        self.ended = true;
        self.taken += self.waiting.len() as u64;
        std::mem::take(&mut self.waiting)
    }

    /// Gives memory back after a burst. In steps, so that a queue that is never quite empty does so too,
    /// and by a factor that lets it pay for itself.
    fn give_back(&mut self) {
        if self.waiting.capacity() > KEPT && self.waiting.len() <= self.waiting.capacity() / 8 {
            self.waiting.shrink_to((self.waiting.len() * 2).max(KEPT));
        }
    }
}
