//! The trait that app authors implement.

use std::future::Future;
use std::future::ready;

use ractor::ActorProcessingErr;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::RoomContext;
use super::reply::Answer;
use crate::codec::{CodecErr, body};
use crate::delivery::Delivery;
use crate::on_store_loss::OnStoreLoss;

/// A kind of rooms: what they hold and what they do.
///
/// One value per host and kind; it holds what does not travel, such as pools and configuration. What
/// travels is [`RoomActor::State`]. The hooks have the names and meanings of `ractor::Actor`'s, and a
/// handler runs to its end before the next message, before a freeze and before a snapshot.
///
/// A durable room sees everything through its log, so that a replay after a crash comes to the same
/// state: its handler must not read a clock or random numbers except through [`RoomContext::now`] and
/// [`RoomContext::rng`]. What it sends, emits or answers leaves only after it returned `Ok`.
///
/// ```
/// use ractor::ActorProcessingErr;
/// use ractor_rooms::{Delivery, Reply, RoomActor, RoomContext};
/// use serde::{Deserialize, Serialize};
///
/// struct Counter;
///
/// #[derive(Serialize, Deserialize)]
/// enum CounterMsg {
///     Add(u64),
///     Get(Reply<u64>),
/// }
///
/// impl RoomActor for Counter {
///     const KIND: &'static str = "counter";
///     const DELIVERY: Delivery = Delivery::Durable;
///     type Msg = CounterMsg;
///     type State = u64;
///     type Event = ();
///     type Arguments = ();
///
///     async fn pre_start(&self, _: &mut RoomContext<Self>, _: ()) -> Result<u64, ActorProcessingErr> {
///         Ok(0)
///     }
///
///     async fn handle(
///         &self,
///         _: &mut RoomContext<Self>,
///         message: CounterMsg,
///         state: &mut u64,
///     ) -> Result<(), ActorProcessingErr> {
///         match message {
///             CounterMsg::Add(n) => *state += n,
///             CounterMsg::Get(reply) => reply.send(*state),
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait RoomActor: Sized + Send + Sync + 'static {
    /// The kind's name, 1 to 128 bytes; part of every room's name.
    const KIND: &'static str;
    /// How messages reach rooms of this kind.
    const DELIVERY: Delivery;
    /// What a room does while the store does not answer for longer than a session lasts.
    const ON_STORE_LOSS: OnStoreLoss = OnStoreLoss::Pause;
    /// The schema version of [`RoomActor::State`], as snapshots carry it.
    const STATE_VERSION: u32 = 1;
    /// The schema version of [`RoomActor::Msg`], as logged messages carry it.
    const MESSAGE_VERSION: u32 = 1;

    /// What the room is told.
    type Msg: Serialize + DeserializeOwned + Send + 'static;
    /// What travels when the room moves.
    type State: Serialize + DeserializeOwned + Send + 'static;
    /// What members see.
    type Event: Serialize + DeserializeOwned + Send + 'static;
    /// What a room's first start needs. Later starts restore the state instead.
    type Arguments: Send + 'static;

    /// Makes the state of a new room. Called once in a room's life.
    fn pre_start(
        &self,
        ctx: &mut RoomContext<Self>,
        args: Self::Arguments,
    ) -> impl Future<Output = Result<Self::State, ActorProcessingErr>> + Send;

    /// Handles one message. An error or a panic takes the room back to its last checkpoint.
    fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send;

    /// Takes the answer to a call made with [`RoomContext::call_then`]. `name` is the one that the call
    /// was given.
    fn answered(
        &self,
        ctx: &mut RoomContext<Self>,
        name: &str,
        answer: Answer,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let _ = (ctx, name, answer, state);
        ready(Ok(()))
    }

    /// Runs before the state is snapshotted for a move or an unload. An error or a panic keeps the room
    /// where it is, with the state as the hook left it.
    fn before_freeze(
        &self,
        ctx: &mut RoomContext<Self>,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let _ = (ctx, state);
        ready(Ok(()))
    }

    /// Runs after the state was restored, on the same host or another, before the next message.
    fn after_thaw(
        &self,
        ctx: &mut RoomContext<Self>,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        let _ = (ctx, state);
        ready(Ok(()))
    }

    /// Reads a state that an older version wrote. `version` is the one it wrote.
    ///
    /// # Errors
    /// An error makes the host decline the room; nothing of it is lost.
    fn upgrade(&self, version: u32, bytes: &[u8]) -> Result<Self::State, ActorProcessingErr> {
        let _ = bytes;
        Err(format!(
            "expected a state of schema version {}, found {version}, and the kind has no upgrade",
            Self::STATE_VERSION
        )
        .into())
    }

    /// Takes leave of a copy that was kept while its host had no session, and that another host has had
    /// meanwhile: what it handled since is not in the room. The room itself goes on elsewhere, so this may
    /// save the state for somebody to look at, and can send nothing.
    fn on_diverged(&self, state: &mut Self::State) -> impl Future<Output = ()> + Send {
        let _ = state;
        ready(())
    }

    /// Runs when the room leaves this host for good: it moved, was unloaded or was closed. Not after a
    /// failure.
    fn post_stop(&self, state: &mut Self::State) -> impl Future<Output = ()> + Send {
        let _ = state;
        ready(())
    }
}

/// Reads a state of the present or an older version.
pub(crate) fn decode_state<R: RoomActor>(
    actor: &R,
    version: u32,
    bytes: &[u8],
    limit: usize,
) -> Result<R::State, DecodeStateErr> {
    if version == R::STATE_VERSION {
        body::decode(bytes, limit).map_err(DecodeStateErr::Codec)
    } else if version > R::STATE_VERSION {
        Err(DecodeStateErr::Newer { found: version })
    } else {
        actor.upgrade(version, bytes).map_err(|e| DecodeStateErr::Upgrade(e.to_string()))
    }
}

pub(crate) enum DecodeStateErr {
    Codec(CodecErr),
    Newer { found: u32 },
    Upgrade(String),
}
