//! Simulation of whole clusters on virtual time: one seed makes one plan of hosts, rooms, senders, members
//! and troubles, and replays it.
//!
//! The hosts are the real ones, on one thread whose clock stands still while anybody has something to do.
//! Below them is the pure store, behind a network that delays, loses and repeats. The seed first makes
//! trouble for a while; then the network heals, what died starts again, and everything must come to rest as
//! the design promises. The judge knows only what senders and members were told, and what the rooms say.
//!
//! What makes a run the same each time: a runtime of one thread with a paused clock; every host's clock made
//! of that one; every chance out of the seed; tables that are walked in order. What a seed did is summed up
//! in [`Outcome::digest`].

pub mod clock;
pub mod dice;
pub mod journal;
pub mod judge;
pub mod member;
pub mod plan;
pub mod planted;
pub mod room;
pub mod run;
pub mod sender;
pub mod world;

pub use dice::Dice;
pub use journal::Journal;
pub use plan::{Plan, Profile};
pub use planted::Bug;
pub use run::{Outcome, run};
