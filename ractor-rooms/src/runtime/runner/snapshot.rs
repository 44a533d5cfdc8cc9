//! Freezing, thawing and checkpoints.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use futures::FutureExt;

use super::super::room_actor::RoomActor;
use super::super::runner_handle::{FrozenRoom, RunnerEvent};
use super::super::wire::{SnapshotBody, Unread, encode_message, snapshot_limit};
use super::{Control, Phase, RunnerState, Waiting};
use crate::codec::{CodecErr, Compression, SnapshotHeader, body};
use crate::delivery::Delivery;
use crate::id::SnapshotNumber;
use crate::protocol::record::{Answer, OwnerAnswer, Request, SnapshotKey, SnapshotRef};
use crate::protocol::source::AbortReason;

impl<R: RoomActor> RunnerState<R> {
    /// The cut: everything admitted before is in `unread`, and nothing comes after it.
    pub(super) async fn freeze(&mut self, actor: &R, generation: u64) {
        // Also if it came to nothing: what comes through the store from now on was sent later.
        self.meta.take_all();
        if self.meta.shared.freeze.load(Ordering::SeqCst) != generation {
            return; // thawed before it came to this
        }
        if self.meta.phase != Phase::Live {
            return;
        }
        self.settle();
        let outcome = match &self.meta.failure {
            Some(error) => Err(AbortReason::FreezeFailed {
                error: format!("the last handler failed: {error}"),
            }),
            None => self.snapshot_for_move(actor).await,
        };
        let event = match outcome {
            Ok(frozen) => {
                self.meta.phase = Phase::Frozen;
                self.disarm();
                RunnerEvent::Froze { generation, frozen: Box::new(frozen) }
            }
            Err(why) => RunnerEvent::NotFrozen { generation, why },
        };
        self.meta.tell(event);
    }

    async fn snapshot_for_move(&mut self, actor: &R) -> Result<FrozenRoom, AbortReason> {
        let hook = actor.before_freeze(&mut self.ctx, &mut self.inner);
        let outcome = AssertUnwindSafe(hook).catch_unwind().await;
        self.finish(outcome).map_err(|error| AbortReason::FreezeFailed { error })?;
        self.build().map_err(|error| match error {
            CodecErr::TooLarge { size, limit } => {
                AbortReason::SnapshotTooLarge { size: size as u64, limit: limit as u64 }
            }
            error => AbortReason::FreezeFailed { error: error.to_string() },
        })
    }

    /// Goes on after a freeze that came to nothing, in order: what waits first, then the log.
    pub(super) async fn thaw(&mut self, actor: &R) {
        if self.meta.phase == Phase::Frozen {
            self.meta.phase = Phase::Live;
        }
        if self.meta.phase != Phase::Live {
            return;
        }
        self.handle_unread(actor).await;
        self.catch_up(actor).await;
        self.open();
    }

    /// Lets the host's senders in, and starts what runs only while the room is live.
    pub(super) fn open(&mut self) {
        if self.meta.phase != Phase::Live || self.meta.freezing() {
            return;
        }
        if R::DELIVERY == Delivery::Live
            && let Some(route) = &self.meta.route
            && let Some(mailbox) = &self.meta.mailbox
        {
            let shared = &self.meta.shared;
            let may = || {
                shared.freeze.load(Ordering::SeqCst) == 0 && !shared.muted.load(Ordering::SeqCst)
            };
            route.open(mailbox.clone(), shared.life, self.meta.consumer.seq(), may);
        }
        self.arm();
    }

    /// Sends what the host's senders have for the room through the store: what is in the mailbox now is all that
    /// will be in it.
    pub(super) fn shut(&self) {
        if let Some(route) = &self.meta.route {
            route.close(self.meta.me.get_id(), || {});
        }
    }

    /// Ends a copy that another host has had since: it does nothing more, and the app takes leave of it.
    pub(super) async fn diverge(&mut self, actor: &R) {
        self.disarm();
        self.meta.phase = Phase::Gone;
        let hook = AssertUnwindSafe(actor.on_diverged(&mut self.inner)).catch_unwind().await;
        if hook.is_err() {
            tracing::warn!(room = %self.meta.shared.room, "the hook on_diverged panicked");
        }
        self.meta.me.kill(); // without `post_stop`: the room has not left
    }

    /// Makes the bytes of everything that travels.
    pub(super) fn build(&mut self) -> Result<FrozenRoom, CodecErr> {
        let meta = &mut self.meta;
        let cut_at = meta.core.clock.mark();
        let limit = meta.core.config.max_snapshot_bytes;
        let scope = self.ctx.scope();
        let expected = meta.acquired.snapshot.as_ref().map_or(0, |last| last.bytes);
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        let state = scope.run(|| body::encode_about(&self.inner, expected, limit))?;
        let mut unread = Vec::with_capacity(meta.unread.len());
        for waiting in &meta.unread {
            let frame = match waiting {
                Waiting::Frame(frame) => frame.clone(),
                Waiting::Local(message) => {
                    scope.run(|| encode_message(message, R::MESSAGE_VERSION, limit))?
                }
            };
            unread.push(Unread { frame });
        }
        let (out_seq, events) = self.ctx.emitter.pending();
        let old = cut_at.checked_sub(meta.core.config.session_ttl.saturating_mul(2));
        for couriers in meta.outputs.values_mut() {
            if let Some(old) = old {
                couriers.iter().for_each(|courier| courier.let_go(old));
            }
            let last = couriers.len().saturating_sub(1);
            let mut i = 0;
            couriers.retain(|courier| {
                i += 1;
                i > last || courier.is_busy() || courier.holds()
            });
        }
        // With its records the store may have lost what it had accepted from this room.
        let forgotten = meta.core.is_stale(&meta.shared.room, &meta.shared.lease);
        let outputs = meta
            .outputs
            .iter()
            .map(|(target, couriers)| {
                (target.clone(), couriers.iter().map(|c| c.segment(forgotten)).collect())
            })
            .collect();
        let count = unread.len() as u32;
        let cut = meta.consumer.position();
        let snapshot = SnapshotBody {
            consumer: meta.consumer.clone(),
            timers: self.ctx.timers.clone(),
            out_seq,
            events,
            outputs,
            calls: self.ctx.calls.clone(),
            next_call: self.ctx.next_call,
            unread,
            rng_count: self.ctx.rng_count,
            at: meta.core.clock.now(),
        };
        let whole = snapshot_limit(limit);
        let header = SnapshotHeader {
            room_kind: meta.shared.room.kind.clone(),
            schema: R::STATE_VERSION,
            life: meta.shared.life,
            epoch: meta.shared.lease.epoch,
            cut,
            compression: Compression::None,
        };
        let bytes = snapshot.seal(&header, &state, whole)?;
        meta.attempt += 1;
        meta.snapshot_number = meta.snapshot_number.next();
        let snapshot = SnapshotRef {
            key: SnapshotKey { by: meta.shared.lease.owner.clone(), attempt: meta.attempt },
            number: meta.snapshot_number,
            cursor: cut,
            cursor_seq: meta.consumer.seq(),
            unread: count,
            bytes: bytes.len() as u64,
            schema: R::STATE_VERSION,
            next_timer: self.ctx.next_deadline(),
        };
        meta.shared.bytes.store(snapshot.bytes, Ordering::Relaxed);
        let handled = meta.consumer.handled();
        Ok(FrozenRoom { snapshot, bytes, handled, out_seq, cut_at })
    }

    /// Saves a checkpoint beside the room: the bytes are made now, the rest happens while it goes on.
    pub(super) fn checkpoint(&mut self) {
        // A state that went back must not be saved before it has everything again: an earlier checkpoint may
        // have trimmed what it lacks.
        let busy = self.meta.checkpointing || self.meta.phase != Phase::Live || self.meta.went_back;
        self.meta.checkpoint_due =
            busy || self.meta.failure.is_some() || !self.meta.unread.is_empty();
        if self.meta.checkpoint_due {
            return;
        }
        self.settle();
        let frozen = match self.build() {
            Ok(frozen) => frozen,
            Err(error) => {
                self.meta.since_checkpoint = (0, 0); // not again at once
                return self.meta.not_saved(error.to_string());
            }
        };
        let meta = &mut self.meta;
        meta.checkpointing = true;
        meta.since_checkpoint = (0, 0);
        let handled = meta.shared.handled.load(Ordering::Relaxed);
        meta.shared.checkpointed.store(handled, Ordering::Relaxed);
        *meta.shared.checkpoint_at.lock() = meta.core.clock.mark();
        let (core, me, shared) = (meta.core.clone(), meta.me.clone(), meta.shared.clone());
        let number = frozen.snapshot.number;
        meta.pending = Some(frozen.snapshot.clone());
        meta.core.spawn(async move {
            let done = core.commit(&shared.room, shared.lease.clone(), frozen).await;
            let control = Control::Checkpointed { number, done };
            let _ = me.cast(control.into()); // the room is gone by now
        });
    }

    pub(super) fn checkpointed(&mut self, number: SnapshotNumber, done: Result<bool, String>) {
        self.meta.checkpointing = false;
        let pending = self.meta.pending.take();
        match done {
            Ok(true) => {
                if let Some(pending) = pending.filter(|p| p.number == number) {
                    self.meta.acquired.snapshot = Some(pending);
                }
            }
            // A frozen room has been parked meanwhile, and that it moved is no loss. Had another host
            // taken it, the park will say so.
            Ok(false) if self.meta.phase == Phase::Frozen => {}
            Ok(false) => self.meta.tell(RunnerEvent::Fenced),
            Err(error) => {
                // Not saved after all, so that it is tried again also when no message comes.
                let saved = self.meta.shared.handled.load(Ordering::Relaxed).wrapping_sub(1);
                self.meta.shared.checkpointed.store(saved, Ordering::Relaxed);
                // In another generation the room is re-asserted, and saved by that.
                let shared = &self.meta.shared;
                if !self.meta.core.is_stale(&shared.room, &shared.lease) {
                    self.meta.not_saved(error);
                }
            }
        }
    }
}

impl super::super::core::HostCore {
    /// Uploads a snapshot and points to it. `Ok(false)` when the lease is not in force any more.
    pub(super) async fn commit(
        &self,
        room: &crate::id::RoomId,
        lease: crate::protocol::record::Lease,
        frozen: FrozenRoom,
    ) -> Result<bool, String> {
        let key = frozen.snapshot.key.clone();
        self.put_snapshot(room, key, frozen.bytes).await.map_err(|error| error.to_string())?;
        let request = Request::Checkpoint { lease, snapshot: frozen.snapshot };
        match self.execute(room, request).await {
            Ok(Answer::Owner(OwnerAnswer::Done)) => Ok(true),
            Ok(Answer::Owner(OwnerAnswer::Fenced { .. })) => Ok(false),
            Ok(other) => Err(format!("the store answered {other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}
