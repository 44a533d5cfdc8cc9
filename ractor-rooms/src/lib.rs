//! Room actors for [`ractor`] that can move between hosts.
//!
//! [`ractor`]: https://docs.rs/ractor
//!
//! A room is an actor with state: a chat room, a game table, a shared document. An app implements
//! [`RoomActor`], starts a [`RoomHost`] per process over a shared [`transport`], and sends through
//! [`RoomRef`]s. Cluster code sends [`MigrateTo`], and the room goes on at another host with its state,
//! its unread mailbox, its timers and its unanswered calls; each message is handled once, each sender's in
//! order.
//!
//! # The one idea
//!
//! A room is a record that a host leases. The record lies in a store; it numbers every acquisition with a
//! growing epoch, keeps every inbound message in a log, and points to the last snapshot. Running is
//! holding the lease. Starting, waking, recovering and moving are the same path: offer, acquire, restore,
//! read the log. So there is one protocol to prove: see [`protocol`].
//!
//! # Where things are
//!
//! | module | what it holds | depends on |
//! |---|---|---|
//! | [`protocol`] | pure state machines that decide | [`id`] |
//! | [`transport`] | the contract of a store, and [`MemoryTransport`] | `protocol` |
//! | [`codec`] | the layout of bytes | `id` |
//! | the crate's root (feature `runtime`) | the actors and handles | all of them |
//! | `testing` (feature `testing`) | the conformance suite and a transport that fails on purpose | `transport` |
//!
//! # Features
//!
//! - `runtime` (default): the actors. Without it the crate needs neither tokio nor ractor.
//! - `async-trait`, `cluster`, `monitors`: forwarded to ractor. Turn one on if another crate of your
//!   graph turns it on for ractor, because cargo unifies features.
//! - `testing`: for authors of transports.

pub mod clock;
pub mod codec;
pub mod delivery;
pub mod id;
pub mod on_store_loss;
pub mod protocol;
#[cfg(feature = "runtime")]
mod runtime;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transport;

pub use delivery::Delivery;
pub use on_store_loss::OnStoreLoss;
#[cfg(feature = "runtime")]
pub use runtime::*;
pub use transport::MemoryTransport;
