//! The transport: what a store of rooms must offer, as one trait.
//!
//! The contract is the pure [`Record`](crate::protocol::Record): [`Transport::execute`] carries one
//! [`Request`] out atomically and answers as the record would. Beyond that a transport keeps snapshot
//! bytes, sessions, inboxes and two indexes, and gives each host one stream of pushes.
//!
//! | clause | what a transport promises |
//! |---|---|
//! | atomic | a request takes effect as a whole or not at all, in one order that all hosts see |
//! | answered or unknown | an answer is true; an error of [`TransportErr::Unanswered`] says nothing about whether the request took effect or still will |
//! | idempotent | the same request again does what the record says of repeats, so a transport may repeat it by itself |
//! | pushes are hints | they may be lost, late or repeated, but never invented and never wrong; a stream that ends or lags is healed from the log |
//! | bounded | every queue has a bound; a full push queue drops pushes |
//!
//! `testing::conformance` checks each clause against any implementation.

mod error;
mod memory;

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

pub use error::TransportErr;
pub use memory::MemoryTransport;

use crate::id::{Epoch, Generation, HostId, Incarnation, Life, OutSeq, RoomId};
use crate::protocol::record::{Answer, Entry, OfferNotice, Request, SnapshotKey};
use crate::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use crate::protocol::store::{Owned, Unrest};

/// What a transport call gives.
pub type TransportFuture<'a, T> = BoxFuture<'a, Result<T, TransportErr>>;

/// A hint for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// A room that it owns has a new entry.
    Entry {
        /// The room.
        room: RoomId,
        /// The epoch it is owned under.
        epoch: Epoch,
        /// The store's generation when it was written. An owner of another one ignores it.
        generation: Generation,
        /// The entry.
        entry: Entry,
    },
    /// A room is reserved for it.
    Offered {
        /// The room.
        room: RoomId,
        /// The record as it was then.
        notice: Box<OfferNotice>,
    },
    /// A room that it parked was adopted (`settled`) or declined.
    Moved {
        /// The room.
        room: RoomId,
        /// The adopter's epoch.
        settled: Option<Epoch>,
    },
    /// A room that it watches published events.
    Events {
        /// The room.
        room: RoomId,
        /// The room's life.
        life: Life,
        /// The number of the first.
        first: OutSeq,
        /// The events, each a frame.
        events: Vec<Bytes>,
    },
    /// A room that it watches ended.
    Closed {
        /// The room.
        room: RoomId,
        /// The room's life.
        life: Life,
        /// Why.
        reason: String,
    },
    /// Its inbox has a letter.
    Letter {
        /// The place of the letter in the inbox.
        position: u64,
        /// The letter.
        letter: Bytes,
    },
}

/// A letter in a host's inbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Letter {
    /// Its place; the first is 1.
    pub position: u64,
    /// What it says.
    pub letter: Bytes,
}

/// A store of rooms, shared by the hosts of a cluster. See the [module](self) for the contract.
///
/// # Cancel safety
/// A dropped future may still take effect, as one that was [`TransportErr::Unanswered`].
pub trait Transport: Send + Sync + std::fmt::Debug + 'static {
    /// The generation of the part of the store that holds a room, as far as this transport knows. Whatever
    /// it answered under an earlier one may be lost.
    fn generation(&self, room: &RoomId) -> Generation;

    /// The newest generation of any part of the store.
    fn newest_generation(&self) -> Generation;

    /// Tells of each generation that begins from now on in any part of the store; once for several that
    /// begin before it is asked. Ends with the transport.
    fn generations(&self) -> BoxStream<'static, ()>;

    /// Carries one request out on a room's record. `floor` is the lowest epoch that may be given out.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn execute(&self, room: &RoomId, request: Request, floor: Epoch)
    -> TransportFuture<'_, Answer>;

    /// Keeps the bytes of a snapshot attempt under a key of their own. They stay for as long as a record
    /// points to them, and before that for an hour, unless a newer attempt of the same activation is
    /// committed or the session of the host that put them ends. A commit that finds them gone says so.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()>;

    /// The largest snapshot, in bytes, that [`execute_with`](Self::execute_with) brings along in the same
    /// trip to the store; 0 when it would take two.
    fn carries(&self) -> usize {
        0
    }

    /// Keeps the bytes of a snapshot attempt, as [`put_snapshot`](Self::put_snapshot) does, then carries a
    /// request out that points to them.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn execute_with(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
        (key, bytes): (SnapshotKey, Bytes),
    ) -> TransportFuture<'_, Answer> {
        let room = room.clone();
        async move {
            self.put_snapshot(&room, key, bytes).await?;
            self.execute(&room, request, floor).await
        }
        .boxed()
    }

    /// The bytes of a snapshot; `None` when they are not there.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>>;

    /// Opens a session for a host under a new incarnation, or says until when an older one lasts.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer>;

    /// Renews a session; `false` when it lapsed, which cannot be undone.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool>;

    /// Ends a session, its inbox and its pushes.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()>;

    /// All unlapsed sessions, by host.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>>;

    /// The rooms that an incarnation owns by their records, with their heads.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>>;

    /// Up to `limit` rooms after a given one that need somebody to look at them.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>>;

    /// Puts a letter into a host's inbox; `false` when the incarnation has no session or its inbox is
    /// full.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool>;

    /// Letters after a place, and forgets those up to it.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>>;

    /// The stream of pushes for an incarnation. A second one replaces the first, which ends.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>>;

    /// Starts or stops pushing the events of a room to an incarnation.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no answer.
    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()>;
}
