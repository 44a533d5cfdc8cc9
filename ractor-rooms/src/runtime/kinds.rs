//! The kinds of rooms that a host runs, without their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use ractor::{Actor, ActorCell, SpawnErr};

use super::core::HostCore;
use super::room_actor::RoomActor;
use super::route::Route;
use super::runner::{RoomRunner, StartArgs, StartErr, TypedRunner};
use super::runner_handle::{Runner, RunnerShared};
use crate::delivery::Delivery;
use crate::id::{Kind, Position, RoomId, RoomKey, Seq};
use crate::on_store_loss::OnStoreLoss;
use crate::protocol::record::{Acquired, DeclineReason};

/// How to make a room of one kind.
pub(crate) trait RoomKind: Send + Sync {
    /// The highest schema version of a state that it reads.
    fn reads(&self) -> u32;

    /// Makes the runner; ready when the state is restored or, for a new room, made.
    fn spawn(
        &self,
        core: Arc<HostCore>,
        supervisor: ActorCell,
        room: RoomId,
        acquired: Acquired,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'static, Result<Arc<dyn Runner>, DeclineReason>>;
}

pub(crate) type Kinds = BTreeMap<Kind, Arc<dyn RoomKind>>;

/// Makes the arguments of a room's first start.
pub(crate) type MakeArgs<A> = Arc<dyn Fn(&RoomKey) -> A + Send + Sync>;

pub(crate) struct TypedKind<R: RoomActor> {
    pub(crate) actor: Arc<R>,
    pub(crate) args: MakeArgs<R::Arguments>,
}

impl<R: RoomActor> RoomKind for TypedKind<R> {
    fn reads(&self) -> u32 {
        R::STATE_VERSION
    }

    fn spawn(
        &self,
        core: Arc<HostCore>,
        supervisor: ActorCell,
        room: RoomId,
        acquired: Acquired,
        bytes: Option<Bytes>,
    ) -> BoxFuture<'static, Result<Arc<dyn Runner>, DeclineReason>> {
        let runner = RoomRunner(self.actor.clone());
        let args = acquired.snapshot.is_none().then(|| (self.args)(&room.key));
        async move {
            let shared = Arc::new(RunnerShared {
                room: room.clone(),
                lease: acquired.lease.clone(),
                life: acquired.life,
                freeze: 0.into(),
                muted: false.into(),
                on_store_loss: match R::DELIVERY {
                    Delivery::Live => R::ON_STORE_LOSS,
                    Delivery::Durable => OnStoreLoss::Pause,
                },
                dirty: false.into(),
                handled: 0.into(),
                checkpointed: 0.into(),
                bytes: acquired.snapshot.as_ref().map_or(0, |s| s.bytes).into(),
                checkpoint_at: Mutex::new(core.clock.mark()),
                received: Mutex::new((Position::START, Seq(0))),
            });
            let start =
                StartArgs { core: core.clone(), shared: shared.clone(), acquired, bytes, args };
            match Actor::spawn_linked(None, runner, start, supervisor).await {
                Ok((actor, _)) => {
                    let route = Route::<R>::to(&core, &room);
                    Ok(Arc::new(TypedRunner { actor, route, shared }) as Arc<dyn Runner>)
                }
                Err(SpawnErr::StartupFailed(error)) => Err(match error.downcast::<StartErr>() {
                    Ok(start) => start.0,
                    Err(other) => DeclineReason::RestoreFailed { error: other.to_string() },
                }),
                Err(other) => Err(DeclineReason::RestoreFailed { error: other.to_string() }),
            }
        }
        .boxed()
    }
}
