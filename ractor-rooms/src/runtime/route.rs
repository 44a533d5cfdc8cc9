//! The way from this host to one room: the gate, the mailbox behind it, and the courier beside it.
//!
//! Lock order: door, then `held`, then the mailbox's queue or the courier's. A send holds the reader side of the door for as
//! long as it takes to put the message somewhere, which is what a closing gate waits for.

#[cfg(test)]
mod open_test;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use ractor::ActorId;
use tokio::sync::oneshot;

use super::core::{HostCore, RoomFault};
use super::courier::{Courier, Parcel, Undelivered};
use super::error::RoomErr;
use super::mailbox::{Mailbox, NotPut};
use super::room_actor::RoomActor;
use super::wire::encode_message;
use crate::codec::CodecErr;
use crate::id::{Life, RoomId, Seq};
use crate::protocol::Gate;
use crate::protocol::gate::{GateAction, GateEvent};

pub(crate) struct Route<R: RoomActor> {
    me: Weak<Self>,
    core: Arc<HostCore>,
    room: RoomId,
    courier: Arc<Courier>,
    door: RwLock<Door<R>>,
    held: Mutex<VecDeque<Held<R::Msg>>>,
    /// The `seq` up to which the room here has received.
    received: AtomicU64,
    /// Whether the gate is opening; spares a lock on the way of every entry.
    opening: AtomicBool,
}

struct Door<R: RoomActor> {
    gate: Gate,
    mailbox: Option<Arc<Mailbox<R>>>,
    /// The life of the room behind the mailbox: what was sent into another will never arrive there.
    life: Life,
}

type Ack<M> = oneshot::Sender<Result<(), RoomErr<M>>>;
/// Hears of a message's acceptance.
pub(crate) type Acked<M> = oneshot::Receiver<Result<(), RoomErr<M>>>;

struct Held<M> {
    message: M,
    ack: Option<Ack<M>>,
    /// By the host's clock.
    deadline: Duration,
}

impl<R: RoomActor> Route<R> {
    pub(crate) fn to(core: &Arc<HostCore>, room: &RoomId) -> Option<Arc<Self>> {
        core.route(room, || {
            let courier = core.courier(room);
            let route = Arc::new_cyclic(|me| Self {
                me: me.clone(),
                core: core.clone(),
                room: room.clone(),
                courier: courier.clone(),
                door: RwLock::new(Door { gate: Gate::default(), mailbox: None, life: Life(0) }),
                held: Mutex::default(),
                received: AtomicU64::new(0),
                opening: AtomicBool::new(false),
            });
            let told = Arc::downgrade(&route);
            courier.on_progress(move || {
                if let Some(route) = told.upgrade() {
                    route.progress();
                }
            });
            route
        })
    }

    /// Puts a message on its way, in order with what this caller sent before. If it cannot be delivered,
    /// the error hook hears of it.
    #[inline]
    pub(crate) fn cast(&self, message: R::Msg) -> Result<(), RoomErr<R::Msg>> {
        match self.at_once(message) {
            Ok(()) => Ok(()),
            Err(not_put) => self.not_at_once(not_put, None),
        }
    }

    /// The same for a caller who waits until it is accepted. `None` when it is already.
    #[inline]
    pub(crate) fn send(&self, message: R::Msg) -> Result<Option<Acked<R::Msg>>, RoomErr<R::Msg>> {
        match self.at_once(message) {
            Ok(()) => Ok(None),
            Err(not_put) => {
                let (ack, acked) = oneshot::channel();
                self.not_at_once(not_put, Some(ack)).map(|()| Some(acked))
            }
        }
    }

    /// The short way: into the mailbox, if the gate is open.
    #[inline]
    fn at_once(&self, message: R::Msg) -> Result<(), NotPut<R::Msg>> {
        let door = self.door.read();
        match (door.gate, &door.mailbox) {
            (Gate::Mailbox, Some(mailbox)) => mailbox.put(message),
            (Gate::Store | Gate::Opening | Gate::Mailbox, _) => Err(NotPut::Closed(message)),
        }
    }

    /// Everything else, under the door anew: the gate may be another by now.
    #[cold]
    #[inline(never)]
    fn not_at_once(
        &self,
        not_put: NotPut<R::Msg>,
        ack: Option<Ack<R::Msg>>,
    ) -> Result<(), RoomErr<R::Msg>> {
        let message = match not_put {
            NotPut::Closed(message) | NotPut::Gone(message) => message,
            NotPut::Full(message) => return Err(RoomErr::Full { message }),
        };
        let door = self.door.read();
        match (door.gate, &door.mailbox) {
            (Gate::Mailbox, Some(mailbox)) => match mailbox.put(message) {
                Ok(()) => {
                    accept(ack);
                    Ok(())
                }
                Err(NotPut::Full(message)) => Err(RoomErr::Full { message }),
                Err(NotPut::Closed(message) | NotPut::Gone(message)) => {
                    self.through_store(message, ack)
                }
            },
            (Gate::Opening, _) => {
                let mut held = self.held.lock();
                if held.len() >= self.core.config.max_outbound_messages {
                    return Err(RoomErr::Full { message });
                }
                if held.is_empty() {
                    self.expire_later();
                }
                let deadline = self.core.clock.mark() + self.core.config.send_timeout;
                held.push_back(Held { message, ack, deadline });
                Ok(())
            }
            (Gate::Store | Gate::Mailbox, _) => self.through_store(message, ack),
        }
    }

    /// A gate that never opens must not hold a sender for ever: hands back what is past its deadline.
    fn expire_later(&self) {
        let (route, timeout) = (self.me.clone(), self.core.config.send_timeout);
        self.core.spawn(async move {
            loop {
                tokio::time::sleep(timeout).await;
                let Some(route) = route.upgrade() else { return };
                if route.expire_held(timeout) {
                    return;
                }
            }
        });
    }

    /// Hands back what was held for too long; whether nothing is held any more.
    fn expire_held(&self, waited: Duration) -> bool {
        let now = self.core.clock.mark();
        let (expired, none_left) = {
            let mut held = self.held.lock();
            let count = held.iter().take_while(|held| held.deadline <= now).count();
            let expired: Vec<_> = held.drain(..count).collect();
            (expired, held.is_empty())
        };
        for Held { message, ack, .. } in expired {
            let why = "the room is not ready on this host yet".to_owned();
            hand_back(&self.core, &self.room, Undelivered::Expired { why }, waited, message, ack);
        }
        none_left
    }

    fn through_store(
        &self,
        message: R::Msg,
        ack: Option<Ack<R::Msg>>,
    ) -> Result<(), RoomErr<R::Msg>> {
        if self.core.is_stopped() {
            return Err(RoomErr::HostStopped { message });
        }
        let (encoded, call) = self.encode(&message);
        let frame = match encoded {
            Ok(frame) => frame,
            Err(CodecErr::TooLarge { size, limit }) => {
                return Err(RoomErr::TooLarge { size, limit, message });
            }
            Err(error) => return Err(RoomErr::Encode { error, message }),
        };
        let timeout = self.core.config.send_timeout;
        // The message waits in here, so that it can be handed back.
        let slot = Arc::new(Mutex::new(Some(message)));
        let kept = slot.clone();
        let (core, room) = (self.core.clone(), self.room.clone());
        let done = move |outcome: Result<(), Undelivered>| {
            let Some(message) = kept.lock().take() else { return };
            match outcome {
                Ok(()) => accept(ack),
                Err(why) => hand_back(&core, &room, why, timeout, message, ack),
            }
        };
        let deadline = Some(self.core.clock.mark() + timeout);
        let parcel = Parcel { frame, deadline, done: Some(Box::new(done)), again: false, call };
        match self.courier.send(parcel) {
            Ok(()) => Ok(()),
            Err(_) => match slot.lock().take() {
                Some(message) if self.core.is_stopped() => Err(RoomErr::HostStopped { message }),
                Some(message) => Err(RoomErr::Full { message }),
                None => Err(RoomErr::OutcomeUnknown),
            },
        }
    }

    /// A message as bytes, and the call that asks with it.
    fn encode(&self, message: &R::Msg) -> (Result<Bytes, CodecErr>, Option<u64>) {
        let limit = self.core.config.max_message_bytes;
        self.core.scope().run_for_call(|| encode_message(message, R::MESSAGE_VERSION, limit))
    }

    /// A live room runs here, with this mailbox, in a life of which it has received up to `seq`; if it still `may`
    /// be opened. Whoever closes the gate says so before, and may have been at the door first: a gate that was opened
    /// behind the cut would let messages into a mailbox that nobody looks into any more.
    pub(crate) fn open(
        &self,
        mailbox: Arc<Mailbox<R>>,
        life: Life,
        seq: Seq,
        may: impl FnOnce() -> bool,
    ) {
        {
            let mut door = self.door.write();
            if !may() {
                return;
            }
            self.received.store(seq.0, Ordering::Release);
            match door.gate.step(GateEvent::RoomLive) {
                Ok(actions) => {
                    (door.mailbox, door.life) = (Some(mailbox), life);
                    self.perform(&mut door, &actions);
                }
                Err(rejection) => tracing::debug!(%rejection, room = %self.room, "gate"),
            }
        }
        self.progress();
    }

    /// Waits for every admitted send, closes the gate, and runs `cut` before anybody else gets in. A gate
    /// that another runner than `me` has opened since stays as it is.
    pub(crate) fn close(&self, me: ActorId, cut: impl FnOnce()) {
        let mut door = self.door.write();
        if door.mailbox.as_ref().is_some_and(|m| m.actor() != me) {
            return cut();
        }
        match door.gate.step(GateEvent::Close) {
            Ok(actions) => {
                cut();
                door.mailbox = None;
                self.perform(&mut door, &actions);
            }
            Err(rejection) => tracing::debug!(%rejection, room = %self.room, "gate"),
        }
    }

    /// The room here has received up to `seq`.
    pub(crate) fn received(&self, seq: Seq) {
        self.received.store(seq.0, Ordering::Release);
        if self.opening.load(Ordering::Acquire) {
            self.progress();
        }
    }

    /// Something was answered or received: perhaps the gate opens.
    fn progress(&self) {
        if !self.opening.load(Ordering::Acquire) {
            return;
        }
        let mut door = self.door.write();
        // What was sent into another life will never arrive in this one.
        let (in_flight, highest) = self.courier.standing(door.life);
        let received = Seq(self.received.load(Ordering::Acquire));
        match door.gate.step(GateEvent::Progress { in_flight, highest, received }) {
            Ok(actions) => self.perform(&mut door, &actions),
            Err(rejection) => tracing::debug!(%rejection, room = %self.room, "gate"),
        }
    }

    fn perform(&self, door: &mut Door<R>, actions: &[GateAction]) {
        for action in actions {
            match action {
                GateAction::Hold => self.opening.store(true, Ordering::Release),
                GateAction::FlushToMailbox => {
                    self.opening.store(false, Ordering::Release);
                    for Held { message, ack, .. } in self.held.lock().drain(..) {
                        let open = door.mailbox.as_ref();
                        // It fails only if the runner died as it opened.
                        match open.is_some_and(|m| m.put_held(message)) {
                            true => accept(ack),
                            false => lost(ack),
                        }
                    }
                }
                GateAction::FlushToStore => {
                    self.opening.store(false, Ordering::Release);
                    let held: Vec<_> = self.held.lock().drain(..).collect();
                    for Held { message, ack, .. } in held {
                        // The caller was told `Ok`; what cannot even be queued now is reported, and its
                        // ack, dropped on the way, tells that the outcome is not known.
                        let failed = self.through_store(message, ack);
                        if let Err(error) = failed {
                            let (room, why) = (self.room.clone(), error.to_string());
                            self.core.report(RoomFault::Undelivered { room, why });
                        }
                    }
                }
            }
        }
    }
}

fn accept<M>(ack: Option<Ack<M>>) {
    if let Some(ack) = ack {
        let _ = ack.send(Ok(())); // nobody waits any more
    }
}

fn lost<M>(ack: Option<Ack<M>>) {
    if let Some(ack) = ack {
        let _ = ack.send(Err(RoomErr::OutcomeUnknown)); // nobody waits any more
    }
}

/// Tells the sender that a message was not accepted, or the error hook if it does not wait.
fn hand_back<M>(
    core: &HostCore,
    room: &RoomId,
    why: Undelivered,
    waited: Duration,
    message: M,
    ack: Option<Ack<M>>,
) {
    match (ack, why) {
        (Some(ack), why) => {
            let _ = ack.send(Err(refused(why, room.kind.as_str(), waited, message))); // nobody waits
        }
        (None, Undelivered::HostStopped) => {}
        (None, why) => {
            core.report(RoomFault::Undelivered { room: room.clone(), why: why.to_string() });
        }
    }
}

fn refused<M>(why: Undelivered, kind: &str, waited: Duration, message: M) -> RoomErr<M> {
    match why {
        Undelivered::Expired { why } => RoomErr::Expired { waited, why, message },
        Undelivered::Full => RoomErr::Full { message },
        Undelivered::Closed { reason } => RoomErr::Closed { reason, message: Some(message) },
        Undelivered::OtherLife => RoomErr::OtherLife { message },
        Undelivered::UnknownKind => RoomErr::UnknownKind { kind: kind.to_owned(), message },
        Undelivered::OutcomeUnknown => RoomErr::OutcomeUnknown,
        Undelivered::HostStopped => RoomErr::HostStopped { message },
    }
}

impl<R: RoomActor> std::fmt::Debug for Route<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("room", &self.room).finish_non_exhaustive()
    }
}
