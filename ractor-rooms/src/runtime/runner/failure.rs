//! A handler that failed: back to the checkpoint, and the message counted.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use super::super::core::{HostCore, RoomFault};
use super::super::room_actor::RoomActor;
use super::super::runner_handle::RunnerEvent;
use super::super::wire::{EventPayload, decode_message, encode_event};
use super::start::{couriers, read_snapshot};
use super::{Phase, RunnerState};
use crate::delivery::Delivery;
use crate::id::{Number, Producer, RoomId};
use crate::protocol::record::{Answer, DeadLetter, Lease, OwnerAnswer, Request, SnapshotRef};
use crate::transport::TransportErr;

/// A message of the log.
pub(super) struct Culprit {
    pub(super) producer: Producer,
    pub(super) number: Number,
    pub(super) frame: Bytes,
}

impl<R: RoomActor> RunnerState<R> {
    /// The short way's handler failed: its message is gone with it, so it is a dead letter at once.
    pub(super) async fn repair(&mut self, actor: &R) {
        // What waits is handled by whoever called, so that a second failure comes back here.
        let Some(error) = self.meta.failure.take() else { return };
        self.ctx.exits = Default::default();
        self.ctx.sink.settle(false);
        self.report_failure(&error);
        let by = self.meta.core.incarnation();
        let culprit =
            Culprit { producer: Producer::Host(by), number: Number(0), frame: Bytes::new() };
        self.give_up(&culprit, 1, error).await;
        self.reload(actor).await;
    }

    /// A message of the log failed. It is counted in the record before it is tried again, so that the
    /// count survives this host. `false` when the room cannot go on here.
    pub(super) async fn fail(&mut self, actor: &R, culprit: Culprit, error: String) -> bool {
        self.report_failure(&error);
        let Some(attempts) = self.count(&culprit).await else { return false };
        if attempts >= self.meta.core.config.max_attempts {
            self.give_up(&culprit, attempts, error).await;
            self.meta.given_up.insert((culprit.producer, culprit.number));
        }
        // Not at once: what made it fail may be passing.
        let pause = self.meta.core.config.retry_interval.saturating_mul(attempts);
        tokio::time::sleep(pause.min(Duration::from_secs(1))).await;
        self.reload(actor).await
    }

    fn report_failure(&self, error: &str) {
        let (room, error) = (self.meta.shared.room.clone(), error.to_owned());
        self.meta.core.report(RoomFault::HandlerFailed { room, error });
    }

    async fn count(&mut self, culprit: &Culprit) -> Option<u32> {
        self.meta.failures += 1;
        let request = Request::CountFailure {
            lease: self.meta.shared.lease.clone(),
            producer: culprit.producer.clone(),
            number: culprit.number,
            attempt: self.meta.failures,
        };
        loop {
            match self.meta.core.execute(&self.meta.shared.room, request.clone()).await {
                Ok(Answer::Owner(OwnerAnswer::Count(count))) => return Some(count),
                Ok(_) => {
                    self.lose();
                    return None;
                }
                // Nothing is counted under this lease any more, and the state is no good to re-assert.
                Err(_)
                    if self.meta.core.is_stale(&self.meta.shared.room, &self.meta.shared.lease) =>
                {
                    self.lose();
                    return None;
                }
                // The room does not go on without the count. Its host's session bounds the wait.
                Err(_) => tokio::time::sleep(self.meta.core.config.retry_interval).await,
            }
        }
    }

    /// Sets a message aside.
    pub(super) async fn give_up(&mut self, culprit: &Culprit, attempts: u32, error: String) {
        let letter = DeadLetter {
            producer: culprit.producer.clone(),
            number: culprit.number,
            message: culprit.frame.clone(),
            attempts,
            error: error.clone(),
            at: self.meta.core.clock.now(),
        };
        let (room, lease) = (self.meta.shared.room.clone(), self.meta.shared.lease.clone());
        let request = Request::GiveUp { lease, letter };
        let mut doubtful = false;
        loop {
            let gone = match self.meta.core.execute(&room, request.clone()).await {
                Ok(Answer::Owner(OwnerAnswer::Done)) => break,
                Ok(_) => true,
                Err(sent) => {
                    doubtful |= sent.may_have_executed();
                    self.meta.core.is_stale(&room, &self.meta.shared.lease)
                }
            };
            if gone {
                if doubtful {
                    // If the letter is there, whoever has the room now passes the message over in silence.
                    self.meta.core.report(RoomFault::DeadLetter { room, error });
                }
                return self.lose();
            }
            tokio::time::sleep(self.meta.core.config.retry_interval).await;
        }
        self.meta.core.report(RoomFault::DeadLetter { room, error });
        // A caller that waits for the answer is told: its reply is read and dropped.
        if !culprit.frame.is_empty() {
            let limit = self.meta.core.config.max_message_bytes;
            let frame = culprit.frame.clone();
            let message = self.ctx.scope().run(|| decode_message::<R::Msg>(frame, limit));
            drop(message);
        }
    }

    /// The room is not this host's any more.
    pub(super) fn lose(&mut self) {
        self.meta.phase = Phase::Gone;
        self.disarm();
        self.meta.tell(RunnerEvent::Fenced);
    }

    /// Takes the state back to the last checkpoint. `false` when the room cannot go on here.
    pub(super) async fn reload(&mut self, actor: &R) -> bool {
        match self.try_reload(actor).await {
            Ok(()) => true,
            Err(error) => {
                self.meta.phase = Phase::Gone;
                self.disarm();
                self.meta.tell(RunnerEvent::Failed { error });
                false
            }
        }
    }

    async fn try_reload(&mut self, actor: &R) -> Result<(), String> {
        let core = self.meta.core.clone();
        let room = self.meta.shared.room.clone();
        let lease = self.meta.shared.lease.clone();
        let mut pointer =
            self.meta.acquired.snapshot.clone().ok_or("the room has no checkpoint")?;
        let start = core.clock.mark();
        let bytes = loop {
            match core.snapshot(&room, &pointer.key).await {
                Ok(Some(bytes)) => break bytes,
                Ok(None) => match newer_checkpoint(&core, &room, &lease, &pointer).await {
                    Ok(Some(newer)) => pointer = newer,
                    Ok(None) => {
                        let number = pointer.number;
                        return Err(format!("the store lost the bytes of snapshot {number}"));
                    }
                    Err(error) => {
                        if core.clock.elapsed_since(start) > core.config.restore_timeout {
                            return Err(error.to_string());
                        }
                        tokio::time::sleep(core.config.retry_interval).await;
                    }
                },
                Err(error) => {
                    if core.clock.elapsed_since(start) > core.config.restore_timeout {
                        return Err(error.to_string());
                    }
                    tokio::time::sleep(core.config.retry_interval).await;
                }
            }
        };
        self.meta.acquired.snapshot = Some(pointer.clone());
        let limit = core.config.max_snapshot_bytes;
        let scope = self.ctx.scope();
        let life = self.meta.shared.life;
        self.ctx.sink.keep();
        let body = read_snapshot(actor, &scope, bytes, &room, life, limit).map(|restored| {
            self.inner = restored.state;
            restored.body
        });
        // The failed state's replies are in the restored one again; those of a state that could not be
        // read are in the snapshot still.
        self.ctx.sink.settle(false);
        let body = body.map_err(|e| e.to_string())?;
        self.ctx.timers = body.timers;
        // The state knows of these calls, also of those whose answers it knows no more.
        self.ctx.calls = body.calls;
        self.meta.ticking.clear();
        if R::DELIVERY == Delivery::Durable {
            self.meta.went_back = true;
            // The replay sends, emits and calls again, under the same numbers.
            self.ctx.next_call = body.next_call;
            self.ctx.rng_count = body.rng_count;
            self.meta.consumer = body.consumer;
            self.meta.consumer.read_again_from(pointer.cursor, pointer.cursor_seq);
            for courier in self.meta.outputs.values().flatten() {
                courier.abandon();
            }
            self.meta.outputs = couriers::<R>(&core, &self.meta.shared, body.outputs, false);
            self.ctx.emitter = super::super::emitter::Emitter::new(
                &core,
                room,
                self.meta.shared.lease.clone(),
                body.out_seq,
                body.events,
            );
        } else {
            self.emit_rolled_back(body.at);
        }
        let thawed = actor.after_thaw(&mut self.ctx, &mut self.inner);
        let thawed = std::panic::AssertUnwindSafe(thawed).catch_unwind().await;
        self.finish(thawed)?;
        self.arm();
        Ok(())
    }

    /// Tells members that what they saw after a checkpoint is undone.
    pub(super) fn emit_rolled_back(&mut self, since: crate::id::Millis) {
        let event: EventPayload<R::Event> = EventPayload::RolledBack { since };
        match encode_event(&event, self.meta.core.config.max_message_bytes) {
            Ok(frame) => self.ctx.emitter.emit([frame]),
            Err(error) => tracing::warn!(%error, "roll-back notice"),
        }
    }
}

/// The checkpoint that the record points to, if it came after this one under the same lease: the room may
/// not have heard of it yet, or never, and the bytes before it are gone.
pub(super) async fn newer_checkpoint(
    core: &HostCore,
    room: &RoomId,
    lease: &Lease,
    than: &SnapshotRef,
) -> Result<Option<SnapshotRef>, TransportErr> {
    let Some(view) = core.view(room).await? else { return Ok(None) };
    let mine = view.seen.epoch == lease.epoch && view.seen.owner.as_ref() == Some(&lease.owner);
    Ok(view.snapshot.filter(|snapshot| mine && snapshot.number > than.number))
}
