//! The mailbox between the senders on a host and a live room there.
//!
//! A message through ractor's own mailbox costs a box, a dozen atomic steps and a turn of the actor's loop.
//! So the app's messages wait in a [`Queue`] of ours, and ractor's mailbox carries *bells*: one when the
//! queue stops being empty, and one from the runner whenever it leaves something behind. Everything else
//! that a runner is told goes through ractor's mailbox as ever. `docs/adr/0004-hot-path.md` has the argument
//! for order.
//!
//! Lock order: the route's door, then the queue, under whose lock nothing else is done.

mod queue;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use ractor::{ActorId, ActorRef};

use super::room_actor::RoomActor;
use super::runner::{RoomMessage, Waiting};

pub(crate) use queue::Next;
use queue::{Queue, Ticket};

/// Messages that a runner takes out for one bell. Its freeze and its executor are looked at after each,
/// but what ractor's mailbox holds for it waits for all of them.
const BATCH: usize = 64;
/// Space that an empty queue keeps, in messages.
pub(crate) const KEPT: usize = 256;

/// The mailbox of one runner.
pub(crate) struct Mailbox<R: RoomActor> {
    actor: ActorRef<RoomMessage>,
    queue: Mutex<Queue<R::Msg>>,
    /// Messages that the runner took out and has not begun. Raised under the queue's lock and lowered
    /// without it, by the runner alone, so a sender may see too many and never too few.
    taken: AtomicUsize,
    /// How many messages may wait.
    limit: usize,
}

impl<R: RoomActor> Mailbox<R> {
    pub(crate) fn of(actor: ActorRef<RoomMessage>, limit: usize) -> Self {
        Self { actor, queue: Mutex::new(Queue::default()), taken: AtomicUsize::new(0), limit }
    }

    pub(crate) fn actor(&self) -> ActorId {
        self.actor.get_id()
    }

    /// Puts a message in. Only under the route's door.
    #[inline]
    pub(crate) fn put(&self, message: R::Msg) -> Result<(), NotPut<R::Msg>> {
        let ticket = {
            let mut queue = self.queue.lock();
            if queue.len() + self.taken.load(Ordering::Relaxed) >= self.limit {
                return Err(NotPut::Full(message));
            }
            queue.put(message).map_err(NotPut::Gone)?
        };
        self.ring_for(ticket).map_err(NotPut::Gone)
    }

    /// Puts a message in that was held, and with that accepted: on top of the bound. Whether it is in.
    pub(crate) fn put_held(&self, message: R::Msg) -> bool {
        let put = self.queue.lock().put(message);
        put.is_ok_and(|ticket| self.ring_for(ticket).is_ok())
    }

    /// Not under the queue's lock: the runner may run at once on another thread, and would find it taken.
    #[inline]
    fn ring_for(&self, ticket: Option<Ticket>) -> Result<(), R::Msg> {
        match ticket {
            Some(ticket) if !self.ring() => self.queue.lock().retract(ticket).map_or(Ok(()), Err),
            Some(_) | None => Ok(()),
        }
    }

    /// Has the runner look into the queue; whether it will. It will not once it ends.
    pub(crate) fn ring(&self) -> bool {
        self.actor.cast(RoomMessage::Bell).is_ok()
    }

    /// What a bell is for, without a batch if there is but one message.
    #[inline]
    pub(crate) fn next(&self) -> Next<R::Msg> {
        self.queue.lock().next()
    }

    /// Moves a batch over to what waits inside the runner. Whether it left something, for which nobody
    /// but the runner rings.
    pub(crate) fn take(&self, into: &mut VecDeque<Waiting<R::Msg>>) -> bool {
        self.take_up_to(BATCH, into)
    }

    /// Moves everything over.
    pub(crate) fn take_all(&self, into: &mut VecDeque<Waiting<R::Msg>>) {
        self.take_up_to(usize::MAX, into);
    }

    fn take_up_to(&self, most: usize, into: &mut VecDeque<Waiting<R::Msg>>) -> bool {
        let before = into.len();
        let mut queue = self.queue.lock();
        let more = queue.take(most, |message| into.push_back(Waiting::Local(message)));
        let taken = self.taken.load(Ordering::Relaxed) + (into.len() - before);
        self.taken.store(taken, Ordering::Relaxed);
        more
    }

    /// The runner begins with a message that it had taken out.
    #[inline]
    pub(crate) fn begun(&self) {
        // One writer, so it need not be one atomic step, which costs twenty times as much.
        let taken = self.taken.load(Ordering::Relaxed);
        self.taken.store(taken.saturating_sub(1), Ordering::Relaxed);
    }

    /// The runner has ended: takes no more, and drops what waits, so that callers among it hear of it.
    pub(crate) fn end(&self) {
        let waiting = self.queue.lock().end();
        drop(waiting); // runs the app's code, and so not under the lock
    }
}

/// Why a message is not in a mailbox.
pub(crate) enum NotPut<M> {
    /// The gate is not open.
    Closed(M),
    /// Too many wait.
    Full(M),
    /// The runner has ended, and the gate is not closed yet.
    Gone(M),
}
