//! The protocol: pure state machines that decide, and nothing that acts.
//!
//! ```text
//!   Sender ──append──▶ Record (in the Store) ──push──▶ Consumer ──▶ the room's mailbox
//!     ▲                  ▲            ▲                                ▲
//!   Gate              Source       Adopter                           Gate
//!  (who sends where) (gives up)    (takes over)                  (same-host senders)
//! ```
//!
//! Every machine is `step(&mut self, event) -> Result<Vec<Action>, Rejection>` or, for the record, a
//! request that gets an answer. No clock, no randomness, no async and no IO: time comes in as data and
//! deadlines go out as actions. States are `Clone + Eq + Hash`, so the model check explores the very
//! functions that production runs. Matches have no catch-all arm: a new event must be thought about in
//! every state.
//!
//! The drivers are in the runtime: they translate actions into calls and answers into events, and never
//! decide.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod adopter;
#[cfg(test)]
mod cells;
pub mod consumer;
pub mod drain;
pub mod gate;
pub mod invariants;
#[cfg(test)]
mod model;
pub mod placement;
pub mod record;
pub mod rejection;
pub mod sender;
pub mod session;
pub mod source;
pub mod store;

pub use adopter::Adopter;
pub use consumer::Consumer;
pub use gate::Gate;
pub use record::Record;
pub use rejection::Rejection;
pub use sender::Sender;
pub use session::SessionKeeper;
pub use source::Source;
pub use store::Store;
