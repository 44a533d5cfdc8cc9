//! Handling one message: the short way, and what follows when the handler returns.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use pin_project_lite::pin_project;
use ractor::ActorProcessingErr;

use super::super::courier::Courier;
use super::super::mailbox::Next;
use super::super::room_actor::RoomActor;
use super::super::wire::{Segment, output_producer};
use super::{Control, HostMessage, Meta, Phase, RoomMessage, RunnerState};
use crate::delivery::Delivery;
use crate::id::{Number, RoomId};

pin_project! {
    /// The future of one message.
    #[project = HandlingProj]
    pub(crate) enum Handling<'a, R: RoomActor, F> {
        /// The app's own future, polled in place.
        App { #[pin] fut: F, meta: &'a mut Meta<R> },
        /// Everything else.
        Control { fut: BoxFuture<'a, ()> },
        /// Nothing to await.
        Done,
    }
}

impl<'s, R: RoomActor> Handling<'s, R, ()> {
    /// The future of `message`. Only the short way borrows the actor; the others hold it, so that the
    /// future needs no more than one lifetime.
    #[inline]
    pub(crate) fn of<'a>(
        actor: &'a Arc<R>,
        message: RoomMessage,
        state: &'s mut RunnerState<R>,
    ) -> Handling<'s, R, impl Future<Output = Result<(), ActorProcessingErr>> + Send + use<'a, 's, R>>
    {
        match message {
            RoomMessage::Bell => {
                if !state.meta.takes() {
                    return Handling::Done; // what takes everything is on its way
                }
                if state.meta.is_clear()
                    && let Some(mailbox) = &state.meta.mailbox
                {
                    match mailbox.next() {
                        Next::Only(message) => {
                            let RunnerState { ctx, inner, meta } = state;
                            return Handling::App { fut: actor.handle(ctx, message, inner), meta };
                        }
                        Next::Nothing => return Handling::Done,
                        Next::Several => {}
                    }
                }
                Handling::Control { fut: belled(actor.clone(), state) }
            }
            RoomMessage::Host(message) => {
                Handling::Control { fut: controlled(actor.clone(), state, message) }
            }
        }
    }
}

// Out of line, to keep these large futures off the short way's stack.
#[inline(never)]
fn belled<R: RoomActor>(actor: Arc<R>, state: &mut RunnerState<R>) -> BoxFuture<'_, ()> {
    Box::pin(async move { state.answer_bell(&*actor).await })
}

#[inline(never)]
fn controlled<R: RoomActor>(
    actor: Arc<R>,
    state: &mut RunnerState<R>,
    message: Box<HostMessage>,
) -> BoxFuture<'_, ()> {
    Box::pin(async move { state.control(&*actor, *message).await })
}

impl<R: RoomActor, F> Future for Handling<'_, R, F>
where
    F: Future<Output = Result<(), ActorProcessingErr>>,
{
    type Output = Result<(), ActorProcessingErr>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            HandlingProj::App { fut, meta } => {
                // A panic must not end the actor: the mailbox would go with it.
                let outcome = match catch_unwind(AssertUnwindSafe(|| fut.poll(cx))) {
                    Ok(polled) => ready!(polled).map_err(|e| e.to_string()),
                    Err(panic) => Err(panic_text(&*panic)),
                };
                meta.note_handled();
                match outcome {
                    Ok(()) if meta.shared.dirty.load(Ordering::Relaxed) => {
                        meta.control(Control::Settle);
                    }
                    Ok(()) => {}
                    Err(error) => {
                        meta.failure = Some(error);
                        meta.control(Control::Repair);
                    }
                }
                Poll::Ready(Ok(()))
            }
            HandlingProj::Control { fut } => fut.as_mut().poll(cx).map(Ok),
            HandlingProj::Done => Poll::Ready(Ok(())),
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a text".to_owned()))
}

impl<R: RoomActor> RunnerState<R> {
    /// Handles one message, with a panic as an error, and settles what it left.
    pub(super) async fn handle_app(&mut self, actor: &R, message: R::Msg) -> Result<(), String> {
        self.settle();
        self.relieve().await;
        let Self { ctx, inner, meta } = self;
        let durable = R::DELIVERY == Delivery::Durable;
        if durable {
            ctx.sink.keep();
        }
        let outcome = AssertUnwindSafe(actor.handle(ctx, message, inner)).catch_unwind().await;
        meta.note_handled();
        self.finish(outcome)
    }

    /// Decides what becomes of a handler's exits.
    pub(super) fn finish(
        &mut self,
        outcome: Result<Result<(), ActorProcessingErr>, Box<dyn std::any::Any + Send>>,
    ) -> Result<(), String> {
        let outcome = match outcome {
            Ok(returned) => returned.map_err(|e| e.to_string()),
            Err(panic) => Err(panic_text(&*panic)),
        };
        self.ctx.sink.settle(outcome.is_ok());
        match outcome {
            Ok(()) => {
                self.settle();
                Ok(())
            }
            Err(error) => {
                self.ctx.exits = Default::default();
                Err(error)
            }
        }
    }

    /// Waits while too much of what earlier handlers left has not got out. It does not refuse: a refusal
    /// would come out differently in a replay. A freeze ends the wait, because what waits travels.
    async fn relieve(&mut self) {
        let full = |meta: &Meta<R>| meta.outputs.values().flatten().any(|c| c.is_full());
        while (self.ctx.emitter.is_full() || full(&self.meta)) && !self.meta.freezing() {
            tokio::time::sleep(self.meta.core.config.retry_interval).await;
        }
    }

    /// Lets out what the last handler left, which returned `Ok`.
    pub(super) fn settle(&mut self) {
        if !self.meta.shared.dirty.load(Ordering::Relaxed) {
            return;
        }
        self.meta.shared.dirty.store(false, Ordering::Relaxed); // set by this room's handlers only
        let exits = std::mem::take(&mut self.ctx.exits);
        self.ctx.emitter.emit(exits.events);
        for (target, frame) in exits.sends {
            self.output(target).send_for_room(frame);
        }
        if let Some(reason) = exits.close
            && self.meta.closing.is_none()
        {
            self.meta.closing = Some(super::Closing { reason, forced: false, reply: None });
            self.meta.control(Control::TryClose);
        }
        if exits.checkpoint {
            self.meta.control(Control::Checkpoint);
        }
        self.arm();
    }

    /// The courier of this room's messages to another.
    fn output(&mut self, target: RoomId) -> Arc<Courier> {
        let durable = R::DELIVERY == Delivery::Durable;
        let meta = &mut self.meta;
        if let Some(courier) = meta.outputs.get(&target).and_then(|c| c.last()) {
            return courier.clone();
        }
        let (room, life) = (&meta.shared.room, meta.shared.life);
        let producer = output_producer(durable, room, life, &meta.shared.lease.owner);
        let segment = Segment { producer, life: None, accepted: Number(0), pending: Vec::new() };
        let courier = Courier::of_room(&meta.core, target.clone(), segment);
        meta.outputs.insert(target, vec![courier.clone()]);
        courier
    }

    /// Sets the alarm for what is due next.
    pub(super) fn arm(&mut self) {
        let due = match self.meta.phase {
            // A tick that is on its way through the log is not due a second time.
            Phase::Live => {
                let ticking = &self.meta.ticking;
                self.ctx.next_deadline_except(|name, due| ticking.get(name) == Some(&due))
            }
            Phase::Replaying | Phase::Frozen | Phase::Gone => None,
        };
        if self.meta.alarm.as_ref().map(|(at, _)| *at) == due {
            return;
        }
        self.disarm();
        let Some(due) = due else { return };
        let me = self.meta.me.clone();
        let wait = due.0.saturating_sub(self.meta.core.clock.now().0);
        let task = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
            let _ = me.cast(HostMessage::Alarm.into()); // the room is gone by now
        });
        self.meta.alarm = Some((due, task.abort_handle()));
    }

    pub(super) fn disarm(&mut self) {
        if let Some((_, task)) = self.meta.alarm.take() {
            task.abort();
        }
    }
}
