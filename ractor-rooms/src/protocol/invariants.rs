//! What must always hold, as numbered predicates over plain data.
//!
//! Nothing here knows how the data came to be: the model check asks in every state, a simulation after
//! every step, a test against a real store at the end. Each predicate takes what an observer can collect
//! and says which invariant is broken and how. I6 is the odd one: "it ends well" is not a property of a
//! state, so [`i6_at_rest`] says what a good end is, and whoever explores shows that one is reached.

#[cfg(test)]
mod broken_test;

use std::collections::BTreeSet;

use thiserror::Error;

use super::record::{Lease, Record, RecordLimits};
use crate::id::{Activation, Epoch, Producer, RoomId};

/// A message, as the one who sent it counts: the `index`-th of a `sender`, from 1. The identity on the
/// wire is another one (producer and number); these are the test's own names, so that a fault in the
/// wire's identity shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sent {
    /// Who sent it.
    pub sender: u32,
    /// Its place among what that sender sent to the room.
    pub index: u32,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{invariant}: {what}")]
pub struct Broken {
    /// Which one: `I1` to `I10`.
    pub invariant: &'static str,
    /// How.
    pub what: String,
}

/// What a predicate says.
pub type Verdict = Result<(), Broken>;

fn holds(is: bool, invariant: &'static str, what: impl FnOnce() -> String) -> Verdict {
    if is { Ok(()) } else { Err(Broken { invariant, what: what() }) }
}

fn first_repeat<T: Ord + Copy>(items: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().find(|item| !seen.insert(*item))
}

/// I1: a write that took effect was made under the lease in force.
///
/// # Errors
/// [`Broken`] when it was another.
pub fn i1_one_writer(in_force: Option<&Lease>, by: &Lease) -> Verdict {
    holds(in_force == Some(by), "I1", || {
        format!("a write of {} at epoch {} took effect", by.owner, by.epoch)
    })
}

/// I1: epochs only grow; one epoch has one owner.
///
/// # Errors
/// [`Broken`] when an epoch went back, or changed hands without growing.
pub fn i1_epochs_grow(
    before: (Epoch, Option<&Activation>),
    after: (Epoch, Option<&Activation>),
) -> Verdict {
    let taken = after.1.is_some() && after.1 != before.1;
    let grows = if taken { after.0 > before.0 } else { after.0 >= before.0 };
    holds(grows, "I1", || format!("epoch {} followed epoch {}", after.0, before.0))
}

/// I1: a room is taken only by a host whose session is alive, and from nobody whose session is.
///
/// # Errors
/// [`Broken`] when it was stolen, or taken by a dead host.
pub fn i1_taken_from_nobody(owner_alive: bool, taker_alive: bool) -> Verdict {
    holds(!owner_alive, "I1", || "a room was taken from a living host".to_owned())?;
    holds(taker_alive, "I1", || "a host took a room after its session lapsed".to_owned())
}

/// I2: what survives of a durable room has every acknowledged message exactly once, either handled
/// (`state`) or still to come from the log (`waiting`), and none that was handed back as refused.
///
/// # Errors
/// [`Broken`] for a message that is missing, there twice, or there though it was refused.
pub fn i2_handled_once(
    acknowledged: &[Sent],
    refused: &[Sent],
    state: &[Sent],
    waiting: &[Sent],
) -> Verdict {
    let all = || state.iter().chain(waiting);
    if let Some(twice) = first_repeat(all()) {
        return holds(false, "I2", || format!("{twice:?} is there twice"));
    }
    let kept: BTreeSet<&Sent> = all().collect();
    for message in acknowledged {
        holds(kept.contains(message), "I2", || format!("acknowledged {message:?} is nowhere"))?;
    }
    for message in refused {
        holds(!kept.contains(message), "I2", || format!("refused {message:?} is there"))?;
    }
    Ok(())
}

/// I2, for outputs: a replay repeats what a former run of the same messages had put out. `first` is the
/// longest that anybody put out so far.
///
/// # Errors
/// [`Broken`] where they differ.
pub fn i2_outputs_repeat<T: PartialEq>(first: &[T], again: &[T]) -> Verdict {
    let differ = first.iter().zip(again).position(|(a, b)| a != b);
    holds(differ.is_none(), "I2", || {
        format!("output {} is another at the replay", differ.unwrap_or_default() + 1)
    })
}

/// I3: in a move that nobody died in, everything that was sent is in exactly one place. `places` is
/// everything that will be handled or was: queues, log, mailbox, state.
///
/// # Errors
/// [`Broken`] for a message that is in none or in two.
pub fn i3_in_one_place(sent: &[Sent], places: &[Sent]) -> Verdict {
    for message in sent {
        let count = places.iter().filter(|place| *place == message).count();
        holds(count == 1, "I3", || format!("{message:?} is in {count} places"))?;
    }
    Ok(())
}

/// I4: per sender, handling order is sending order, and nothing is handled twice.
///
/// # Errors
/// [`Broken`] for the first message that is out of order.
pub fn i4_in_order(handled: &[Sent]) -> Verdict {
    for (i, message) in handled.iter().enumerate() {
        let before = handled[..i].iter().rev().find(|m| m.sender == message.sender);
        let in_order = before.is_none_or(|m| m.index < message.index);
        holds(in_order, "I4", || format!("{message:?} came after {before:?}"))?;
    }
    Ok(())
}

/// What a member was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// An event with this number.
    Event(u64),
    /// A report that events up to this number were missed.
    MissedTo(u64),
}

/// I5: a member sees each event of a life at most once, in order, and is told of every gap.
///
/// # Errors
/// [`Broken`] for an event that came again, too early or after a gap that nobody named.
pub fn i5_events_in_order(joined_at: u64, shown: &[Shown]) -> Verdict {
    let mut last = joined_at;
    for item in shown {
        let (next, is) = match *item {
            Shown::Event(number) => (number, number == last + 1),
            Shown::MissedTo(number) => (number, number > last),
        };
        holds(is, "I5", || format!("{item:?} was shown after event {last}"))?;
        last = next;
    }
    Ok(())
}

/// What there is to see of a room and of those who deal with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rest {
    /// A living host runs the room under the lease in force.
    pub runs: bool,
    /// Nobody does, and the record says why.
    pub named_reason: bool,
    /// Messages in the log that a running room has not taken, or the backlog of a resting one.
    pub work: usize,
    /// Messages that senders still wait to hear of.
    pub unsettled: usize,
    /// Moves, starts and recoveries that have not ended.
    pub open: usize,
}

/// I6: a good end. Every started move, start, wake and recovery has ended, every sender knows what became
/// of its messages, and the room runs with nothing left to do or rests with a reason and no work.
pub fn i6_at_rest(rest: &Rest) -> bool {
    (rest.runs || rest.named_reason) && rest.work == 0 && rest.unsettled == 0 && rest.open == 0
}

/// One firing of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Firing {
    /// Which timer: a name's hash or index.
    pub timer: u64,
    /// The deadline that fired: a periodic timer has one after the other.
    pub deadline: u64,
    /// The epoch that it fired under.
    pub epoch: Epoch,
}

/// I7: a deadline of a timer fires once, under one epoch, in what survives; and no timer goes back to an
/// older epoch.
///
/// # Errors
/// [`Broken`] for a deadline that fired again, or under an epoch that was over.
pub fn i7_fires_once(firings: &[Firing]) -> Verdict {
    if let Some((timer, deadline)) = first_repeat(firings.iter().map(|f| (f.timer, f.deadline))) {
        return holds(false, "I7", || format!("timer {timer} fired twice for {deadline}"));
    }
    let grows = firings.windows(2).all(|pair| pair[0].epoch <= pair[1].epoch);
    holds(grows, "I7", || "a timer fired under an epoch that was over".to_owned())
}

/// I8: each call has one outcome, an answer or a typed error.
///
/// # Errors
/// [`Broken`] for a call with none or with two.
pub fn i8_one_outcome(calls: &[u64], outcomes: &[u64]) -> Verdict {
    for call in calls {
        let count = outcomes.iter().filter(|outcome| *outcome == call).count();
        holds(count == 1, "I8", || format!("call {call} has {count} outcomes"))?;
    }
    Ok(())
}

/// I9: a record stays within its bounds, and others leave the room's own reserve alone.
///
/// # Errors
/// [`Broken`] for what is too large.
pub fn i9_bounded(room: &RoomId, record: &Record, limits: &RecordLimits) -> Verdict {
    let own = |producer: &Producer| match producer {
        Producer::Room(id, _) | Producer::Activation(id, _) => id == room,
        Producer::Host(_) => false,
    };
    let others = record.log.iter().filter(|entry| !own(&entry.producer));
    let (mut entries, mut bytes) = (0, 0);
    for entry in others {
        entries += 1;
        bytes += entry.bytes();
    }
    let share = |limit: usize| limit - limit / 8;
    let in_bounds = [
        ("log entries", record.log.len(), limits.log_entries),
        ("log entries of others", entries, share(limits.log_entries)),
        ("log bytes", record.log_bytes, limits.log_bytes),
        ("log bytes of others", bytes, share(limits.log_bytes)),
        ("producers", record.producers.len(), limits.producers.max(1)),
        ("events", record.history.len(), limits.history),
        ("dead letters", record.dead_letters.len(), limits.dead_letters),
    ];
    for (what, is, limit) in in_bounds {
        holds(is <= limit, "I9", || format!("{is} {what} of at most {limit}"))?;
    }
    Ok(())
}

/// I10: what was acknowledged is still there, was handled, or its loss was reported.
///
/// # Errors
/// [`Broken`] for a message that went silently.
pub fn i10_reported(acknowledged: &[Sent], there: &[Sent], reported: &[Sent]) -> Verdict {
    for message in acknowledged {
        let known = there.contains(message) || reported.contains(message);
        holds(known, "I10", || format!("acknowledged {message:?} was dropped in silence"))?;
    }
    Ok(())
}
