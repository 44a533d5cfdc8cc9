//! Everything but the short way: the log, ticks, and the controls of the host.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use super::super::context::{CALL_TIMER, call_timer};
use super::super::courier::Courier;
use super::super::error::CloseErr;
use super::super::reply::Answer as CallAnswer;
use super::super::room_actor::RoomActor;
use super::super::runner_handle::RunnerEvent;
use super::super::wire::{Payload, decode_message, encode_payload};
use super::failure::{Culprit, newer_checkpoint};
use super::{Closing, Control, HostMessage, Phase, RunnerState, Waiting};
use crate::delivery::Delivery;
use crate::id::{Millis, Number, Position};
use crate::protocol::consumer::Intake;
use crate::protocol::record::{Answer, CloseAnswer, Entry, Page, Request};

/// Payload bytes of one page of the log.
const PAGE_BYTES: usize = 1 << 20;
/// Messages after which a live room acknowledges what it has taken.
const ACK_MESSAGES: u32 = 64;
/// Time after which it does.
const ACK_INTERVAL: Duration = Duration::from_millis(50);

/// How an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// All of it was taken.
    Taken,
    /// The room freezes or is gone: the rest stays in the log.
    Stop,
    /// The room went back to a checkpoint: the log is read again.
    Again,
}

impl<R: RoomActor> RunnerState<R> {
    pub(super) async fn control(&mut self, actor: &R, message: HostMessage) {
        self.prepare(actor).await;
        match message {
            HostMessage::Entry(entry) => self.pushed(actor, &entry).await,
            HostMessage::Head(last) => {
                if self.meta.takes() && self.meta.consumer.is_behind(last) {
                    self.catch_up(actor).await;
                }
            }
            HostMessage::Alarm => self.ticks(actor).await,
            HostMessage::Control(control) => self.controlled(actor, control).await,
        }
        self.handle_unread(actor).await;
        if self.meta.checkpoint_due {
            self.checkpoint(); // perhaps what was in its way is over
        }
    }

    /// Does what was left before this message came.
    async fn prepare(&mut self, actor: &R) {
        if self.meta.failure.is_some() {
            self.repair(actor).await;
        }
        self.settle();
        // After a freeze that came to nothing, an entry may come before the word to go on: what waits
        // was sent before it.
        self.handle_unread(actor).await;
    }

    /// Handles a batch out of the mailbox.
    pub(super) async fn answer_bell(&mut self, actor: &R) {
        self.prepare(actor).await;
        // While the room freezes, what is left is for the cut, or for the thaw behind it.
        while self.meta.takes() {
            let Some(mailbox) = self.meta.mailbox.clone() else { return };
            let more = mailbox.take(&mut self.meta.unread);
            self.handle_unread(actor).await;
            // Behind what ractor's mailbox has got meanwhile. It takes no more if the actor is to end
            // with what it has, and then this turn is the last.
            if !more || (self.meta.takes() && mailbox.ring()) {
                break;
            }
        }
        if self.meta.checkpoint_due {
            self.checkpoint();
        }
    }

    async fn controlled(&mut self, actor: &R, control: Control) {
        match control {
            Control::Replay => self.replay(actor).await,
            Control::GoLive(last) => self.go_live(actor, last).await,
            Control::Cut(generation) => self.freeze(actor, generation).await,
            Control::Thaw => self.thaw(actor).await,
            // Both were done on the way here.
            Control::Settle | Control::Repair => {}
            Control::Checkpoint => self.checkpoint(),
            Control::Checkpointed { number, done } => self.checkpointed(number, done),
            Control::Ack => self.ack(),
            Control::Diverge => self.diverge(actor).await,
            Control::Close { reason, forced, reply } => {
                self.shut(); // again: whoever asked shut it, and the room may have gone live since
                self.meta.take_all();
                self.handle_unread(actor).await;
                self.meta.closing = Some(Closing { reason, forced, reply: Some(reply) });
                self.try_close(actor).await;
            }
            Control::TryClose => {
                // What was sent before the room asked for its end is in here, and what comes now goes to the log.
                if self.meta.closing.is_some() && self.meta.takes() {
                    self.shut();
                    self.meta.take_all();
                    self.handle_unread(actor).await;
                }
                self.try_close(actor).await;
            }
        }
    }

    async fn pushed(&mut self, actor: &R, entry: &Entry) {
        if !self.meta.takes() {
            self.meta.passed_over = self.meta.passed_over.max(entry.position);
            return; // it stays in the log
        }
        match self.meta.consumer.pushed(entry) {
            Intake::Behind => self.catch_up(actor).await,
            intake => {
                if self.take(actor, entry, intake).await == Flow::Again {
                    self.catch_up(actor).await;
                }
            }
        }
    }

    /// Handles the messages of an entry that were not taken before.
    async fn take(&mut self, actor: &R, entry: &Entry, intake: Intake) -> Flow {
        let skip = match intake {
            Intake::Take { skip } => skip,
            Intake::Known | Intake::Behind => entry.batch.len(),
        };
        for (index, frame) in entry.batch.iter().enumerate().skip(skip) {
            if self.meta.stops() || self.meta.phase == Phase::Gone {
                return Flow::Stop;
            }
            let number = Number(entry.first.0.saturating_add(index as u64));
            let known = (entry.producer.clone(), number);
            if !self.meta.given_up.contains(&known) {
                self.ctx.input = (entry.position, index as u64);
                let limit = self.meta.core.config.max_message_bytes;
                let outcome = self.handle_frame(actor, frame.clone(), limit).await;
                if let Err(error) = outcome {
                    let (producer, number) = known;
                    let culprit = Culprit { producer, number, frame: frame.clone() };
                    match error {
                        Fault::Handler(error) => {
                            let again = self.fail(actor, culprit, error).await;
                            return if again { Flow::Again } else { Flow::Stop };
                        }
                        Fault::Undecodable(error) => self.give_up(&culprit, 0, error).await,
                    }
                }
            }
            self.meta.consumer.took(entry, index);
            self.counted(frame.len());
        }
        self.meta.consumer.finished(entry);
        self.meta.note_received();
        self.plan_ack(entry.batch.len() as u32);
        Flow::Taken
    }

    /// A message of the log was handled: perhaps it is time for a checkpoint, which trims the log.
    fn counted(&mut self, size: usize) {
        let config = &self.meta.core.config;
        let (most, most_bytes) = (config.checkpoint_messages, config.checkpoint_bytes);
        let (count, bytes) = &mut self.meta.since_checkpoint;
        *count = count.saturating_add(1);
        *bytes = bytes.saturating_add(size);
        let due = (most > 0 && *count >= most) || (most_bytes > 0 && *bytes >= most_bytes);
        if R::DELIVERY == Delivery::Durable && due {
            self.checkpoint();
        }
    }

    async fn handle_frame(&mut self, actor: &R, frame: Bytes, limit: usize) -> Result<(), Fault> {
        let payload = self.ctx.scope().run(|| decode_message::<R::Msg>(frame, limit));
        match payload {
            Ok(Payload::App(message)) => {
                self.handle_app(actor, message).await.map_err(Fault::Handler)
            }
            Ok(Payload::Tick { name, due }) => self.tick(actor, &name, due).await,
            Ok(Payload::Answer { call, outcome }) => {
                match self.ctx.calls.remove(&call) {
                    Some(pending) => {
                        self.answered(actor, &pending.name, CallAnswer::from(outcome)).await
                    }
                    None => Ok(()), // the first answer won, or the call timed out
                }
            }
            Err(error) => Err(Fault::Undecodable(error.to_string())),
        }
    }

    async fn answered(&mut self, actor: &R, name: &str, answer: CallAnswer) -> Result<(), Fault> {
        if R::DELIVERY == Delivery::Durable {
            self.ctx.sink.keep();
        }
        let work = actor.answered(&mut self.ctx, name, answer, &mut self.inner);
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        self.meta.note_handled();
        self.finish(outcome).map_err(Fault::Handler)
    }

    /// A timer's or a call's deadline has come, now or when it was logged.
    async fn tick(&mut self, actor: &R, name: &str, due: Millis) -> Result<(), Fault> {
        self.meta.ticking.remove(name);
        if let Some(call) = name.strip_prefix(CALL_TIMER).and_then(|n| n.parse::<u64>().ok()) {
            let expired = self.ctx.calls.get(&call).is_some_and(|c| c.deadline == due);
            return match self.ctx.calls.remove(&call).filter(|_| expired) {
                Some(pending) => self.answered(actor, &pending.name, CallAnswer::timeout()).await,
                None => Ok(()),
            };
        }
        let now = self.ctx.now_ms().max(due);
        let message = self.ctx.timers.fire(name, due, now);
        self.meta.shared.dirty.store(true, Ordering::Relaxed); // the next deadline is another
        match message {
            Some(frame) => {
                let limit = self.meta.core.config.max_message_bytes;
                match self.ctx.scope().run(|| decode_message::<R::Msg>(frame, limit)) {
                    Ok(Payload::App(message)) => {
                        self.handle_app(actor, message).await.map_err(Fault::Handler)
                    }
                    Ok(Payload::Tick { .. } | Payload::Answer { .. }) => Ok(()), // never set
                    Err(error) => Err(Fault::Undecodable(error.to_string())),
                }
            }
            None => Ok(()),
        }
    }

    /// The alarm rang. A durable room logs its ticks and handles them when they come out of the log.
    async fn ticks(&mut self, actor: &R) {
        self.meta.alarm = None;
        if !self.meta.takes() {
            return;
        }
        let now = self.meta.core.clock.now();
        let mut due = self.ctx.timers.due(now);
        let calls = self.ctx.calls.iter().filter(|(_, c)| c.deadline <= now);
        due.extend(calls.map(|(call, c)| (call_timer(*call), c.deadline)));
        for (name, at) in due {
            if R::DELIVERY == Delivery::Durable {
                self.log_tick(name, at);
            } else if let Err(fault) = self.tick(actor, &name, at).await {
                self.meta.failure = Some(match fault {
                    Fault::Handler(error) | Fault::Undecodable(error) => error,
                });
                self.repair(actor).await;
                break; // the timers are those of the checkpoint now
            }
            if !self.meta.takes() {
                return;
            }
        }
        self.settle();
        self.arm();
    }

    fn log_tick(&mut self, name: String, due: Millis) {
        if self.meta.ticking.get(&name) == Some(&due) {
            return;
        }
        let payload = Payload::Tick { name: name.clone(), due };
        let limit = self.meta.core.config.max_message_bytes;
        match (encode_payload(&payload, limit), &self.meta.own) {
            (Ok(frame), Some(own)) => {
                own.send_for_room(frame);
                self.meta.ticking.insert(name, due);
            }
            (Ok(_), None) => {}
            (Err(error), _) => tracing::warn!(%error, "tick"),
        }
    }

    /// Reads the log until nothing is missing.
    pub(super) async fn catch_up(&mut self, actor: &R) {
        self.catch_up_from(actor, None).await;
    }

    /// The same, with a first page that was read already, from where the room is.
    async fn catch_up_from(&mut self, actor: &R, mut first: Option<Page>) {
        while self.meta.phase != Phase::Gone && !self.meta.stops() {
            let request = Request::ReadLog {
                lease: self.meta.shared.lease.clone(),
                after: self.meta.consumer.position(),
                max_bytes: PAGE_BYTES,
            };
            let answer = match first.take() {
                Some(page) => Ok(Answer::Page(Ok(page))),
                None => self.meta.core.execute(&self.meta.shared.room, request).await,
            };
            let page = match answer {
                Ok(Answer::Page(Ok(page))) => page,
                Ok(_) => return self.lose(),
                Err(error) => {
                    tracing::debug!(room = %self.meta.shared.room, %error, "read log");
                    if self.meta.phase == Phase::Live && !self.meta.went_back {
                        return; // read again when the host compares heads
                    }
                    let (room, lease) = (&self.meta.shared.room, &self.meta.shared.lease);
                    if self.meta.core.is_stale(room, lease) {
                        return self.lose(); // the state is no good to re-assert
                    }
                    tokio::time::sleep(self.meta.core.config.retry_interval).await;
                    continue;
                }
            };
            if self.meta.went_back && !self.reads_all(actor).await {
                continue;
            }
            let mut again = false;
            for entry in &page.entries {
                let intake = self.meta.consumer.read(entry);
                match self.take(actor, entry, intake).await {
                    Flow::Taken => {}
                    Flow::Stop => return,
                    Flow::Again => {
                        again = true;
                        break;
                    }
                }
            }
            if !again && !page.more {
                self.meta.went_back = false;
                self.meta.consumer.caught_up(page.head);
                self.meta.note_received();
                return;
            }
        }
    }

    /// Whether a page that was just read has all that follows a checkpoint to which the room went back. A
    /// checkpoint that was sent before the failure may take effect at any later time, and trims the log
    /// under the replay: then the room goes back to that one instead.
    async fn reads_all(&mut self, actor: &R) -> bool {
        let (core, room) = (self.meta.core.clone(), self.meta.shared.room.clone());
        let (lease, pointer) = (self.meta.shared.lease.clone(), &self.meta.acquired.snapshot);
        let Some(pointer) = pointer.clone() else { return true };
        match newer_checkpoint(&core, &room, &lease, &pointer).await {
            Ok(None) => true,
            Ok(Some(newer)) => {
                self.meta.acquired.snapshot = Some(newer);
                self.reload(actor).await;
                false
            }
            Err(error) => {
                tracing::debug!(%room, %error, "checkpoint");
                tokio::time::sleep(core.config.retry_interval).await;
                false
            }
        }
    }

    /// Makes the room ready: a first checkpoint for a new one, then everything in its log.
    async fn replay(&mut self, actor: &R) {
        let acquired = &self.meta.acquired;
        if acquired.recovered && acquired.dead_letters > 0 && !self.load_given_up().await {
            return;
        }
        let restored = self.meta.acquired.snapshot.is_some();
        if restored {
            if self.meta.acquired.recovered && R::DELIVERY == Delivery::Live {
                let since = self.meta.acquired.snapshot.as_ref().map(|s| Millis(s.cursor.ms));
                self.emit_rolled_back(since.unwrap_or_default());
            }
            let thawed = actor.after_thaw(&mut self.ctx, &mut self.inner);
            let thawed = AssertUnwindSafe(thawed).catch_unwind().await;
            if let Err(error) = self.finish(thawed) {
                return self.meta.tell(RunnerEvent::Failed { error });
            }
        } else if !self.first_checkpoint().await {
            return;
        }
        self.handle_unread_replaying(actor).await;
        let first = std::mem::take(&mut self.meta.acquired.page);
        self.catch_up_from(actor, Some(first)).await;
        if self.meta.phase == Phase::Replaying {
            self.meta.tell(RunnerEvent::CaughtUp);
        }
    }

    /// Without it, a room that failed early would run its `pre_start` again.
    async fn first_checkpoint(&mut self) -> bool {
        self.settle();
        let frozen = match self.build() {
            Ok(frozen) => frozen,
            Err(error) => {
                self.meta.tell(RunnerEvent::Failed { error: error.to_string() });
                return false;
            }
        };
        let pointer = frozen.snapshot.clone();
        let (core, shared) = (self.meta.core.clone(), self.meta.shared.clone());
        loop {
            match core.commit(&shared.room, shared.lease.clone(), frozen.clone()).await {
                Ok(true) => {
                    self.meta.acquired.snapshot = Some(pointer);
                    return true;
                }
                Ok(false) => {
                    self.lose();
                    return false;
                }
                Err(error) => {
                    tracing::debug!(room = %shared.room, error, "first checkpoint");
                    tokio::time::sleep(core.config.retry_interval).await;
                }
            }
        }
    }

    async fn load_given_up(&mut self) -> bool {
        loop {
            match self.meta.core.execute(&self.meta.shared.room, Request::ReadDeadLetters).await {
                Ok(Answer::DeadLetters(letters)) => {
                    let known = letters.into_iter().map(|l| (l.producer, l.number));
                    self.meta.given_up = known.filter(|(_, n)| n.0 > 0).collect();
                    return true;
                }
                Ok(_) => {
                    self.lose();
                    return false;
                }
                Err(_) => tokio::time::sleep(self.meta.core.config.retry_interval).await,
            }
        }
    }

    async fn go_live(&mut self, actor: &R, last: Position) {
        if self.meta.phase != Phase::Replaying {
            return;
        }
        self.meta.phase = Phase::Live;
        if R::DELIVERY == Delivery::Durable {
            let (shared, core) = (&self.meta.shared, &self.meta.core);
            let epoch = shared.lease.epoch.0;
            self.meta.own = Some(Courier::own(core, shared.room.clone(), shared.life, epoch));
        }
        // What was pushed while the room replayed was left in the log; and no gap shows that the last push was
        // lost.
        if self.meta.consumer.is_behind(last.max(self.meta.passed_over)) {
            self.catch_up(actor).await;
        }
        if R::DELIVERY == Delivery::Live {
            self.ack(); // of what it replayed: a full log lets nobody in who would have it acknowledged
        }
        self.open();
        if self.meta.acquired.recovered {
            self.checkpoint(); // so that another crash does not go back as far
        }
    }

    /// Handles what waits inside the runner, in order.
    pub(super) async fn handle_unread(&mut self, actor: &R) {
        while self.meta.takes() {
            if self.meta.failure.is_some() {
                self.repair(actor).await;
                continue;
            }
            let Some(waiting) = self.meta.next_unread() else { return };
            // A batch is many messages to the executor, as it would be to an actor's loop.
            tokio::task::consume_budget().await;
            self.handle_waiting(actor, waiting).await;
        }
    }

    async fn handle_unread_replaying(&mut self, actor: &R) {
        while self.meta.phase == Phase::Replaying {
            if self.meta.failure.is_some() {
                self.repair(actor).await;
                continue;
            }
            let Some(waiting) = self.meta.next_unread() else { return };
            self.handle_waiting(actor, waiting).await;
        }
    }

    async fn handle_waiting(&mut self, actor: &R, waiting: Waiting<R::Msg>) {
        self.ctx.input = (Position::START, 0);
        let outcome = match waiting {
            Waiting::Local(message) => {
                self.handle_app(actor, message).await.map_err(Fault::Handler)
            }
            Waiting::Frame(frame) => {
                // It may be a local message, which no limit was put on before it had to travel.
                let limit = self.meta.core.config.max_snapshot_bytes;
                self.handle_frame(actor, frame, limit).await
            }
        };
        if let Err(Fault::Handler(error) | Fault::Undecodable(error)) = outcome {
            self.meta.failure = Some(error);
        }
    }

    fn plan_ack(&mut self, taken: u32) {
        if R::DELIVERY != Delivery::Live || self.meta.phase != Phase::Live {
            return;
        }
        self.meta.unacked = self.meta.unacked.saturating_add(taken);
        if self.meta.unacked >= ACK_MESSAGES {
            self.ack();
        } else if self.meta.unacked > 0 && !self.meta.ack_planned {
            self.meta.ack_planned = true;
            self.meta.control_after(ACK_INTERVAL, Control::Ack);
        }
    }

    /// Trims what a live room has taken. Never before it is live: until then it may be given back.
    fn ack(&mut self) {
        self.meta.ack_planned = false;
        let received = self.meta.consumer.position();
        if !self.meta.takes() || received <= self.meta.acked {
            return;
        }
        self.meta.acked = received;
        self.meta.unacked = 0;
        let (core, shared) = (self.meta.core.clone(), self.meta.shared.clone());
        self.meta.core.spawn(async move {
            let request = Request::Ack { lease: shared.lease.clone(), received };
            if let Err(error) = core.execute(&shared.room, request).await {
                tracing::debug!(room = %shared.room, %error, "ack"); // the next one covers it
            }
        });
    }

    async fn try_close(&mut self, actor: &R) {
        if self.meta.closing.is_none() || !self.meta.takes() {
            return;
        }
        let forced = self.meta.closing.as_ref().is_some_and(|c| c.forced);
        if !forced {
            self.catch_up(actor).await;
        }
        // What it published goes out before its end: nothing does after.
        self.settle();
        let drained = self.ctx.emitter.drained();
        let _ = tokio::time::timeout(self.meta.core.config.store_timeout, drained).await; // not for ever
        let Some(closing) = self.meta.closing.take() else { return };
        let rest = if forced { self.read_rest().await } else { Vec::new() };
        let request = Request::Close {
            lease: self.meta.shared.lease.clone(),
            cursor: self.meta.consumer.position(),
            reason: closing.reason.clone(),
            forced: closing.forced,
        };
        let answer = match self.meta.core.execute(&self.meta.shared.room, request).await {
            Ok(Answer::Close(CloseAnswer::Done { dead_letters })) => {
                self.ctx.sink.end(&closing.reason);
                self.meta.phase = Phase::Gone;
                self.disarm();
                if forced {
                    self.refuse(rest).await;
                }
                self.meta.tell(RunnerEvent::Closed);
                Ok(dead_letters)
            }
            Ok(Answer::Close(CloseAnswer::NotDrained { unhandled })) => {
                if closing.reply.is_none() {
                    self.meta.closing = Some(closing);
                    return self.meta.control(Control::TryClose);
                }
                Err(CloseErr::NotDrained { unhandled })
            }
            Ok(_) => {
                self.lose();
                Err(CloseErr::Fenced { room: self.meta.shared.room.clone() })
            }
            Err(error) => {
                if closing.reply.is_none() {
                    self.meta.closing = Some(closing);
                    let pause = self.meta.core.config.retry_interval;
                    return self.meta.control_after(pause, Control::TryClose);
                }
                Err(CloseErr::Store { error: error.to_string() })
            }
        };
        if answer.is_err() {
            self.open();
        }
        if let Some(reply) = closing.reply {
            let _ = reply.send(answer); // nobody waits any more
        }
    }

    /// The unhandled messages, as far as they are there.
    async fn read_rest(&mut self) -> Vec<Entry> {
        let mut rest: Vec<Entry> = Vec::new();
        loop {
            let lease = self.meta.shared.lease.clone();
            let after = rest.last().map_or(self.meta.consumer.position(), |last| last.position);
            let request = Request::ReadLog { lease, after, max_bytes: PAGE_BYTES };
            let answer = self.meta.core.execute(&self.meta.shared.room, request).await;
            let Ok(Answer::Page(Ok(page))) = answer else { return rest };
            let more = page.more && !page.entries.is_empty();
            rest.extend(page.entries);
            if !more {
                return rest;
            }
        }
    }

    /// Tells the callers among messages that the room ended with: those of the log, and those that came
    /// while it was closed, which are dead letters by now. Not before it is closed: it might go on.
    async fn refuse(&mut self, rest: Vec<Entry>) {
        let mut frames = BTreeMap::new();
        for entry in rest {
            for (number, frame) in (entry.first.0..).zip(entry.batch) {
                frames.insert((entry.producer.clone(), Number(number)), frame);
            }
        }
        let room = self.meta.shared.room.clone();
        match self.meta.core.execute(&room, Request::ReadDeadLetters).await {
            Ok(Answer::DeadLetters(letters)) => {
                // Others were given up before, and their callers told.
                let late = letters.into_iter().filter(|letter| letter.attempts == 0);
                frames.extend(late.map(|l| ((l.producer, l.number), l.message)));
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%room, %error, "dead letters"),
        }
        let limit = self.meta.core.config.max_message_bytes;
        let scope = self.ctx.scope();
        for frame in frames.into_values() {
            drop(scope.run(|| decode_message::<R::Msg>(frame, limit)));
        }
    }
}

/// Why a message could not be handled.
enum Fault {
    Handler(String),
    Undecodable(String),
}
