//! Replies that travel: an address instead of a port.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::oneshot;

use super::calls::{CallNumber, CallTable};
use super::scope;
use crate::codec::{CodecErr, body};
use crate::id::{Incarnation, Life, RoomId};

/// Who waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum ReplyAddr {
    /// A caller at a host.
    Host { incarnation: Incarnation, call: u64 },
    /// A room that made the call with `call_then`.
    Room { room: RoomId, life: Life, call: u64 },
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// It was answered.
    Answer(Bytes),
    /// The reply was dropped without an answer.
    Dropped,
    /// The room ended.
    Closed { reason: String },
    /// Nobody can tell whether the call was accepted.
    Unknown,
}

/// Takes answers on their way.
pub(crate) trait ReplySink: Send + Sync {
    fn reply(&self, addr: ReplyAddr, outcome: Outcome);
}

/// Where an answer goes, as a value that can be sent, kept in a room's state and moved with it.
///
/// The room answers from wherever it then runs, once, with [`Reply::send`]. A reply that is dropped
/// without an answer tells the caller so at once.
///
/// A `Reply` can be serialised only inside a room's messages and state: elsewhere there is no host that
/// could forward the answer, and serialising is an error.
pub struct Reply<T> {
    cell: Mutex<Cell<T>>,
    answer: PhantomData<fn(T)>,
}

enum Cell<T> {
    /// The caller waits in this process.
    Port { port: oneshot::Sender<Result<T, Outcome>>, call: CallNumber },
    /// The caller is reached through a host. `owed` is cleared once another copy of the address has been
    /// written, because that copy then answers for a drop.
    Addr { addr: ReplyAddr, sink: Arc<dyn ReplySink>, owed: bool },
    /// The answer was given.
    Done,
}

impl<T> Reply<T> {
    pub(crate) fn port(port: oneshot::Sender<Result<T, Outcome>>, call: CallNumber) -> Self {
        Self::from_cell(Cell::Port { port, call })
    }

    pub(crate) fn addressed(addr: ReplyAddr, sink: Arc<dyn ReplySink>) -> Self {
        Self::from_cell(Cell::Addr { addr, sink, owed: true })
    }

    fn from_cell(cell: Cell<T>) -> Self {
        Self { cell: Mutex::new(cell), answer: PhantomData }
    }

    /// Whether nobody waits any more, as far as this process can tell.
    pub fn is_closed(&self) -> bool {
        match &*self.cell.lock() {
            Cell::Port { port, .. } => port.is_closed(),
            Cell::Addr { .. } => false,
            Cell::Done => true,
        }
    }
}

impl<T: Serialize> Reply<T> {
    /// Answers the call. From a durable room's handler the answer leaves once the handler returned `Ok`.
    ///
    /// A caller that does not wait any more is no error: it has had its timeout.
    pub fn send(mut self, value: T) {
        match std::mem::replace(self.cell.get_mut(), Cell::Done) {
            Cell::Port { port, .. } => {
                let _ = port.send(Ok(value)); // nobody waits any more
            }
            Cell::Addr { addr, sink, .. } => {
                let outcome = match body::encode(&value, MAX_ANSWER_BYTES) {
                    Ok(bytes) => Outcome::Answer(bytes),
                    Err(error) => {
                        tracing::warn!(%error, "an answer could not be encoded");
                        Outcome::Dropped
                    }
                };
                sink.reply(addr, outcome);
            }
            Cell::Done => {}
        }
    }
}

/// The largest answer in bytes. Answers travel through a host's inbox, one letter each.
pub(crate) const MAX_ANSWER_BYTES: usize = 16 << 20;

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Cell::Addr { addr, sink, owed: true } =
            std::mem::replace(self.cell.get_mut(), Cell::Done)
        {
            sink.reply(addr, Outcome::Dropped);
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.cell.lock() {
            Cell::Port { .. } => f.write_str("Reply(here)"),
            Cell::Addr { addr, .. } => write!(f, "Reply({addr:?})"),
            Cell::Done => f.write_str("Reply(done)"),
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> Reply<T> {
    /// Turns a port into an address, because the message leaves this process as bytes.
    fn address(&self) -> Option<ReplyAddr> {
        let mut cell = self.cell.lock();
        match std::mem::replace(&mut *cell, Cell::Done) {
            Cell::Port { port, call } => {
                let scope = scope::current()?;
                let number = scope.calls.add_as(call, Box::new(waiter(port)));
                scope::note_call(number);
                let addr = scope.address(number);
                *cell = Cell::Addr { addr: addr.clone(), sink: scope.sink, owed: false };
                Some(addr)
            }
            Cell::Addr { addr, sink, .. } => {
                *cell = Cell::Addr { addr: addr.clone(), sink, owed: false };
                Some(addr)
            }
            Cell::Done => None,
        }
    }
}

fn waiter<T: DeserializeOwned + Send + 'static>(
    port: oneshot::Sender<Result<T, Outcome>>,
) -> impl FnOnce(Outcome) + Send + Sync {
    let port = Mutex::new(Some(port)); // `Sync` for the table's sake; used once
    move |outcome| {
        let Some(port) = port.lock().take() else { return };
        let value = match outcome {
            Outcome::Answer(bytes) => body::decode(&bytes, MAX_ANSWER_BYTES).map_err(|error| {
                tracing::warn!(%error, "an answer could not be decoded");
                Outcome::Dropped
            }),
            other => Err(other),
        };
        let _ = port.send(value); // nobody waits any more
    }
}

impl<T: DeserializeOwned + Send + 'static> Serialize for Reply<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if scope::current().is_none() {
            return Err(S::Error::custom("a reply can be written only inside a room's data"));
        }
        match self.address() {
            Some(addr) => addr.serialize(serializer),
            None => Err(S::Error::custom("a reply that was used cannot be written")),
        }
    }
}

impl<'de, T> Deserialize<'de> for Reply<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let addr = ReplyAddr::deserialize(deserializer)?;
        let scope = scope::current()
            .ok_or_else(|| D::Error::custom("a reply can be read only inside a room's data"))?;
        Ok(Self::addressed(addr, scope.sink))
    }
}

/// The answer to a call that a room made with `RoomContext::call_then`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(Result<Bytes, AnswerErr>);

/// Why a room's call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerErr {
    /// It did not come in time.
    #[error("the call was not answered in time")]
    Timeout,
    /// The room that was called dropped the reply.
    #[error("the room dropped the call without an answer")]
    Dropped,
    /// The room that was called ended.
    #[error("the room was closed: {reason}")]
    RoomClosed {
        /// Why.
        reason: String,
    },
    /// Nobody can tell whether the call was accepted.
    #[error("nobody can tell whether the call was accepted")]
    OutcomeUnknown,
    /// The answer is of another type.
    #[error("the answer cannot be read: {0}")]
    Codec(CodecErr),
}

impl Answer {
    pub(crate) fn timeout() -> Self {
        Self(Err(AnswerErr::Timeout))
    }

    /// The answer as the type that the called room sent.
    ///
    /// # Errors
    /// [`AnswerErr`] when there is none, or when it is of another type.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, AnswerErr> {
        let bytes = self.0?;
        body::decode(&bytes, MAX_ANSWER_BYTES).map_err(AnswerErr::Codec)
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Self(match outcome {
            Outcome::Answer(bytes) => Ok(bytes),
            Outcome::Dropped => Err(AnswerErr::Dropped),
            Outcome::Closed { reason } => Err(AnswerErr::RoomClosed { reason }),
            Outcome::Unknown => Err(AnswerErr::OutcomeUnknown),
        })
    }
}

/// So that a table of calls can be named without its internals.
impl fmt::Debug for CallTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallTable")
    }
}
