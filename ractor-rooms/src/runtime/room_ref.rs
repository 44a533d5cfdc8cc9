//! The caller's handle to a room.

use std::sync::Arc;
use std::time::Duration;

use ractor::rpc::CallResult;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::calls::{CallNumber, CallTable};
use super::core::HostCore;
use super::error::RoomErr;
use super::events::EventStream;
use super::reply::{Outcome, Reply};
use super::room_actor::RoomActor;
use super::route::{Acked, Route};
use crate::id::{IdErr, RoomId};
use crate::transport::TransportErr;

/// A handle to a room, wherever it runs. Cheap to clone; it stays good while the room moves.
///
/// It has the methods that ractor's `cast!`, `call!` and `call_t!` expect, so these work on it.
///
/// What one caller sends through one host arrives in the order in which it was sent.
pub struct RoomRef<R: RoomActor> {
    core: Arc<HostCore>,
    target: Result<(RoomId, Arc<Route<R>>), IdErr>,
}

impl<R: RoomActor> Clone for RoomRef<R> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), target: self.target.clone() }
    }
}

impl<R: RoomActor> RoomRef<R> {
    pub(crate) fn new(core: &Arc<HostCore>, room: Result<RoomId, IdErr>) -> Self {
        let target = room.and_then(|room| {
            // Fails only when two kinds of one name share a host, which the builder refuses.
            let route = Route::to(core, &room).ok_or(IdErr::Empty { what: "kind", limit: 0 })?;
            Ok((room, route))
        });
        Self { core: core.clone(), target }
    }

    /// The room.
    ///
    /// # Errors
    /// [`IdErr`] when the key that this handle was made with is none.
    pub fn room(&self) -> Result<&RoomId, IdErr> {
        self.target.as_ref().map(|(room, _)| room).map_err(Clone::clone)
    }

    /// Sends a message without waiting until it is accepted. It is delivered in order; if it cannot be
    /// delivered in time, the host's error hook hears of it.
    ///
    /// # Errors
    /// [`RoomErr`] with the message when it cannot even be queued: a bad key, too large, too many
    /// waiting, the host stopped.
    pub fn cast(&self, message: R::Msg) -> Result<(), RoomErr<R::Msg>> {
        match &self.target {
            Ok((_, route)) => route.cast(message),
            Err(error) => Err(RoomErr::Address { error: error.clone(), message }),
        }
    }

    /// Sends a message and waits until it is accepted: for a durable room in its log, for a live room on
    /// this host in its mailbox.
    ///
    /// # Errors
    /// [`RoomErr`], with the message where it surely was not accepted.
    ///
    /// # Cancel safety
    /// A dropped future does not take the message back.
    pub async fn send(&self, message: R::Msg) -> Result<(), RoomErr<R::Msg>> {
        let acked = match &self.target {
            Ok((_, route)) => route.send(message)?,
            Err(error) => return Err(RoomErr::Address { error: error.clone(), message }),
        };
        match acked {
            None => Ok(()),
            Some(acked) => acked.await.unwrap_or(Err(RoomErr::OutcomeUnknown)),
        }
    }

    /// Asks the room and waits for its answer, as `ActorRef::call` does. Without a timeout the host's
    /// `call_timeout` applies, because a room's host may die with the question.
    ///
    /// # Errors
    /// [`RoomErr`] when the question was not accepted or the room ended. No answer in time is
    /// [`CallResult::Timeout`]; a reply dropped without an answer is [`CallResult::SenderError`].
    ///
    /// # Cancel safety
    /// A dropped future does not take the question back.
    pub async fn call<T, F>(
        &self,
        message: F,
        timeout: Option<Duration>,
    ) -> Result<CallResult<T>, RoomErr<R::Msg>>
    where
        T: DeserializeOwned + Send + 'static,
        F: FnOnce(Reply<T>) -> R::Msg,
    {
        let (port, answer) = oneshot::channel();
        let calls = &*self.core.calls;
        let mut leave = Leave { call: calls.number(), table: Some(calls) };
        let message = message(Reply::port(port, leave.call));
        let acked = match &self.target {
            Ok((_, route)) => route.send(message)?,
            Err(error) => return Err(RoomErr::Address { error: error.clone(), message }),
        };
        let timeout = timeout.unwrap_or(self.core.config.call_timeout);
        let answered = match acked {
            None => tokio::time::timeout(timeout, answer).await.map(Ok),
            Some(acked) => tokio::time::timeout(timeout, accepted(acked, answer)).await,
        };
        match answered {
            Ok(Ok(Ok(answer))) => {
                leave.table = None; // who answered took it out
                match answer {
                    Ok(value) => Ok(CallResult::Success(value)),
                    Err(Outcome::Closed { reason }) => {
                        Err(RoomErr::Closed { reason, message: None })
                    }
                    Err(Outcome::Unknown) => Err(RoomErr::OutcomeUnknown),
                    Err(Outcome::Dropped | Outcome::Answer(_)) => Ok(CallResult::SenderError),
                }
            }
            Ok(Ok(Err(_))) => Ok(CallResult::SenderError),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(CallResult::Timeout),
        }
    }

    /// The room's events from now on.
    ///
    /// # Errors
    /// [`TransportErr`] when the store does not answer, or the key is none.
    pub async fn events(&self) -> Result<EventStream<R>, TransportErr> {
        match &self.target {
            Ok((room, _)) => EventStream::open(&self.core, room).await,
            Err(error) => Err(TransportErr::Unavailable { reason: error.to_string() }),
        }
    }
}

/// Waits for an answer, or for the news that the question was not accepted.
async fn accepted<T, M>(
    acked: Acked<M>,
    mut answer: oneshot::Receiver<T>,
) -> Result<Result<T, oneshot::error::RecvError>, RoomErr<M>> {
    tokio::select! {
        biased;
        answer = &mut answer => Ok(answer),
        acked = acked => match acked {
            Ok(Err(error)) => Err(error),
            // Accepted; or nobody can tell, and an answer may still come.
            Ok(Ok(())) | Err(_) => Ok(answer.await),
        },
    }
}

/// A call that may be in the table. Taken out also when the caller's future is dropped: the table must
/// not keep a call that nobody waits for.
struct Leave<'a> {
    call: CallNumber,
    table: Option<&'a CallTable>,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if let Some(table) = self.table {
            table.give_up(self.call);
        }
    }
}

impl<R: RoomActor> std::fmt::Debug for RoomRef<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RoomRef").field(&self.target.as_ref().map(|(room, _)| room)).finish()
    }
}
