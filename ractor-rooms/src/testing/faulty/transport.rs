//! Every call of the contract, through the plan.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};

use super::{FaultyTransport, Operation, Shared, released};
use crate::id::{Epoch, Generation, HostId, Incarnation, Producer, RoomId};
use crate::protocol::record::{Answer, Request, SnapshotKey};
use crate::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use crate::protocol::store::{Owned, Unrest};
use crate::transport::{Letter, Push, Transport, TransportFuture};

/// The host that a request speaks for, where it says so.
fn caller(request: &Request) -> Option<HostId> {
    match request {
        Request::Append { producer: Producer::Host(incarnation), .. } => {
            Some(incarnation.host.clone())
        }
        Request::Reassert(claim) => Some(claim.activation.by.host.clone()),
        Request::Append { producer: Producer::Activation(_, activation), .. }
        | Request::Acquire { activation, .. } => Some(activation.by.host.clone()),
        Request::Settle { lease }
        | Request::Checkpoint { lease, .. }
        | Request::Ack { lease, .. }
        | Request::Park { lease, .. }
        | Request::ReadLog { lease, .. }
        | Request::Emit { lease, .. }
        | Request::Close { lease, .. }
        | Request::CountFailure { lease, .. }
        | Request::GiveUp { lease, .. } => Some(lease.owner.by.host.clone()),
        Request::Decline { by, .. } => Some(by.clone()),
        Request::Append { producer: Producer::Room(..), .. }
        | Request::Offer { .. }
        | Request::Read
        | Request::ReadHistory { .. }
        | Request::ReadDeadLetters => None,
    }
}

impl<T: Transport + ?Sized> Transport for FaultyTransport<T> {
    fn generation(&self, room: &RoomId) -> Generation {
        self.shared.inner.generation(room)
    }

    fn newest_generation(&self) -> Generation {
        self.shared.inner.newest_generation()
    }

    fn generations(&self) -> BoxStream<'static, ()> {
        self.shared.inner.generations()
    }

    fn execute(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
    ) -> TransportFuture<'_, Answer> {
        let (operation, host, what) = (Operation::of(&request), caller(&request), room.to_string());
        let room = room.clone();
        self.call(operation, host, what, move |t| t.execute(&room, request.clone(), floor))
    }

    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()> {
        let (host, what, room) = (key.by.by.host.clone(), room.to_string(), room.clone());
        self.call(Operation::PutSnapshot, Some(host), what, move |t| {
            t.put_snapshot(&room, key.clone(), bytes.clone())
        })
    }

    fn carries(&self) -> usize {
        self.shared.inner.carries()
    }

    fn execute_with(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
        snapshot: (SnapshotKey, Bytes),
    ) -> TransportFuture<'_, Answer> {
        let (operation, host, what) = (Operation::of(&request), caller(&request), room.to_string());
        let room = room.clone();
        self.call(operation, host, what, move |t| {
            t.execute_with(&room, request.clone(), floor, snapshot.clone())
        })
    }

    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>> {
        let (what, room, key) = (room.to_string(), room.clone(), key.clone());
        self.call(Operation::GetSnapshot, None, what, move |t| t.get_snapshot(&room, &key))
    }

    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer> {
        let host = host.clone();
        self.call(Operation::OpenSession, Some(host.clone()), host.to_string(), move |t| {
            t.open_session(&host, ttl, spec.clone())
        })
    }

    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool> {
        let by = by.clone();
        self.call(Operation::RenewSession, Some(by.host.clone()), by.to_string(), move |t| {
            t.renew_session(&by, ttl, spec.clone())
        })
    }

    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()> {
        let by = by.clone();
        self.call(Operation::CloseSession, Some(by.host.clone()), by.to_string(), move |t| {
            t.close_session(&by)
        })
    }

    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>> {
        self.call(Operation::Sessions, None, String::new(), |t| t.sessions())
    }

    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>> {
        let by = by.clone();
        self.call(Operation::Owned, Some(by.host.clone()), by.to_string(), move |t| t.owned(&by))
    }

    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>> {
        let after = after.cloned();
        self.call(Operation::Unrest, None, String::new(), move |t| t.unrest(after.as_ref(), limit))
    }

    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool> {
        let to = to.clone();
        self.call(Operation::Post, None, to.to_string(), move |t| t.post(&to, letter.clone()))
    }

    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>> {
        let by = by.clone();
        self.call(Operation::ReadInbox, Some(by.host.clone()), by.to_string(), move |t| {
            t.read_inbox(&by, after)
        })
    }

    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>> {
        let (host, asked) = (by.host.clone(), by.clone());
        let pushes =
            self.call(Operation::Subscribe, Some(by.host.clone()), by.to_string(), move |t| {
                t.subscribe(&asked)
            });
        let shared = Arc::clone(&self.shared);
        pushes.map(|pushes| pushes.map(|pushes| through(shared, host, pushes))).boxed()
    }

    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()> {
        let (by, room) = (by.clone(), room.clone());
        let what = format!("{room} by {by}");
        self.call(Operation::Watch, Some(by.host.clone()), what, move |t| t.watch(&by, &room, on))
    }
}

/// A host's pushes through the plan. It ends when they do, whatever is still delayed.
fn through<T: Transport + ?Sized>(
    shared: Arc<Shared<T>>,
    host: HostId,
    pushes: BoxStream<'static, Push>,
) -> BoxStream<'static, Push> {
    let (late, delayed) = mpsc::unbounded();
    let (network, to) = (Arc::clone(&shared), host.clone());
    let now = pushes
        .then(move |push| {
            let (takes, stalled) = {
                let mut state = network.lock();
                (state.push_takes(), state.stalled(&to))
            };
            async move {
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                released(stalled).await;
                push
            }
        })
        .flat_map(move |push| stream::iter(shared.lock().push(&host, push, &late)))
        .chain(stream::iter([None]));
    stream::select(now, delayed.map(Some))
        .take_while(|push| ready(push.is_some()))
        .filter_map(ready)
        .boxed()
}
