//! An exhaustive search over the production protocol, in small bounds.
//!
//! A world is one room in a real [`Store`](super::Store), two or three hosts and two senders. What the
//! hosts do is what the production machines ([`Source`](super::Source), [`Adopter`](super::Adopter),
//! [`Consumer`](super::Consumer), [`Gate`](super::Gate), [`Sender`](super::Sender)) say; what is modelled
//! is the driver between them. Each request may be answered, executed without an answer, or left under
//! way to execute at any time or never; each push may come in any order, twice or not at all; hosts die
//! and sessions lapse. The search goes through every interleaving and asks [`invariants`](super::invariants)
//! in each state. For I6 it then goes backwards from the good states: there must be a way to one, without
//! further faults, from everywhere. The search ends only when every state has been seen.
//!
//! - `world` the state, `canon` which states are the same
//! - `execute` requests to the store and what an observer makes of them
//! - `host` what a driver does with actions; `adopt`, `leave`, `rooms`, `places`, `steps` what may happen
//! - `observe` the checks, `explore` the search
//! - `configs` the bounds (green), `mutants` the rules taken away one at a time (red)
//!
//! `ROOMS_MODEL=full` searches larger bounds, for many minutes.
//!
//! # What a driver must do
//!
//! The machines decide, and these rules are left to whoever drives them. The model keeps to them, and a
//! runtime must.
//!
//! 1. A live room acknowledges (`Ack`) only once its adopter is `Live`, never while it replays, and its
//!    lease is never given back with `Park { snapshot: None }` after that.
//! 2. A durable room's cut is what it *handled*; what it received and did not handle stays in the log
//!    only. A live room's cut is what it *received*, with the unread mailbox inside, in order.
//! 3. A durable room numbers as handled exactly what it handled: a batch may be cut in its middle.
//! 4. The gate closes when no send is between the gate and the mailbox; what is in the mailbox at that
//!    time is the unread mailbox, and nothing else comes into it.
//! 5. The gate is told of progress with: whether anything waits in the outbound queue or is under way,
//!    the highest `seq` that any answer named, and the room's [`Consumer::seq`](super::Consumer::seq).
//!    What an opening gate holds is kept apart from the outbound queue, which goes on.
//! 6. After a page of the log with `more: false` of which everything was taken, the consumer is told
//!    ([`Consumer::caught_up`](super::Consumer::caught_up)): what a dead owner of a live room had
//!    acknowledged does not come again, and a gate that waits for it would never open.
//! 7. An owner compares the log's head with [`Consumer::is_behind`](super::Consumer::is_behind) at least
//!    once per TTL, whatever was pushed; a push counts only under the very lease that the room runs under.
//! 8. A host reconciles what it owns by the record with what it tends: its running room, an adoption
//!    under way, a source that has not learnt that it parked. The rest it gives back with
//!    `Park { snapshot: None }`; and a room that runs without owning the record it drops.
//! 9. Any living host sweeps, and finds offers to itself there too, since notices are lost. Whoever tells
//!    an open offer again tells it *with the deadline that it has*, so that telling does not prolong it.
//!    A room is offered to a host that has not declined, and if all have, to any.
//! 10. One adoption per room and host at a time. A source that wants its room back waits for the one
//!     under way; it says `Reacquired` when the room is live here, and `ReacquireRefused` when the
//!     adoption failed or the room is not to be had.
//! 11. An acquire that is repeated names the same activation and the same `seen`.
//! 12. What a source has frozen it keeps until `Release`, and starts again only from what the record
//!     points to. Once it has released, it keeps nothing.
//! 13. A host that learns that its session lapsed tells its adopter `Fenced` and its source `Lost`, closes
//!     its gates and drops the room, before it opens a session anew.
//! 14. A fenced write of a running room drops the room; a source that was `Pending` is told `Lost`.
//! 15. Messages stay at the head of the outbound queue in order until the sender accepts, refuses or
//!     reports them. A new producer's birth is later than the old one's and than what `Fenced` named.
//!
//! And in a new generation of the store, which may have gone back in time:
//!
//! 16. Under a lease of an earlier generation nothing is believed and nothing has an effect: the room is
//!     frozen and re-asserted from what the host has, in the life and with what was *handled*; repeats name
//!     the same activation. An adopter that has not settled drops what it took.
//! 17. Only a host whose session never lapsed, by its own clock, re-asserts. A room that was held while
//!     there was no session is acquired first, once all others have proved theirs; from then on it is the
//!     host's like any other, and is proved anew if the store goes back again.
//! 18. A source that has parked for a move lets the host that it moved the room to prove it first.
//! 19. A host says that it has proved a generation when no lease of an earlier one is left, and only then
//!     reconciles. A session that the store has forgotten did not lapse: it is renewed.
//! 20. A sender holds what was accepted lately, in order and without holes, and sends it again when it learns of
//!     a generation, whether or not there is a gap.
//!
//! And for what members are shown:
//!
//! 21. A room emits in order, each event under the number after the last, until that is answered or fenced.
//!     A durable room begins from its snapshot and repeats; a live one whose owner died begins after the last that
//!     is stored.
//! 22. A member is shown an event only if it follows the one before. On a gap the history is read, and what is
//!     not kept any more is reported.
//!
//! `regress` is the store's going back and what hosts do then, `events` what is published.
//!
//! # What is not in it
//!
//! Calls, timers, dead letters and poison (their rules are the runtime's), outputs to other rooms (but that a
//! replay handles the same messages in the same order), several rooms, snapshots that are lost or cannot be
//! read (but for adoptions that fail), a store that goes back to before a room was closed or born again, or
//! that loses one record alone, clocks (a deadline passes when it passes). I6 is the existence of a way, not
//! fairness: two hosts that wait for each other for ever by choice would not be found.

#![allow(clippy::wildcard_enum_match_arm, reason = "an observer looks for few things in many")]

mod adopt;
mod canon;
mod configs;
mod events;
mod execute;
mod explore;
mod host;
mod leave;
mod mutants;
mod observe;
mod places;
mod regress;
mod rooms;
mod shared;
mod steps;
mod world;
