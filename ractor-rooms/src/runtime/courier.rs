//! A courier: one producer's queue of messages to one room, and the task that brings them.
//!
//! The pure [`Sender`] decides; this file holds the messages, the lock and the clock.

pub(crate) mod rests;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use thiserror::Error;

use super::core::{FindErr, HostCore, RoomFault, unexpected};
use super::reply::Outcome;
use super::wire::Segment;
use crate::id::{Incarnation, Life, Number, Producer, RoomId, Seq};
use crate::protocol::Sender;
use crate::protocol::record::{Answer, AppendAnswer, Request};
use crate::protocol::sender::{Holds, Refusal, SenderAction, SenderEvent};

/// Messages in one append at most.
const BATCH_MESSAGES: usize = 512;
/// Bytes in one append, unless a single message has more.
const BATCH_BYTES: usize = 256 << 10;

/// Calls whose questions were accepted are looked through beyond so many.
const FEW_CALLS: usize = 64;

/// Accepted messages that a way holds at most, so that they can be sent again if the store forgets them. It is
/// also what goes in one append then.
const WINDOW_MESSAGES: usize = 1_024;
/// Their bytes.
const WINDOW_BYTES: usize = 512 << 10;
/// Bytes that all ways of a host hold at most.
pub(crate) const ALL_WINDOWS_BYTES: usize = 64 << 20;

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Undelivered {
    #[error("it was not accepted in time: {why}")]
    Expired { why: String },
    #[error("too many messages wait for the room")]
    Full,
    #[error("the room was closed: {reason}")]
    Closed { reason: String },
    #[error("the room was closed and born again")]
    OtherLife,
    #[error("no living host runs this kind")]
    UnknownKind,
    #[error("nobody can tell whether it was accepted")]
    OutcomeUnknown,
    #[error("the host is stopped")]
    HostStopped,
}

type Done = Box<dyn FnOnce(Result<(), Undelivered>) + Send>;

/// One message on its way.
pub(crate) struct Parcel {
    pub(crate) frame: Bytes,
    /// When it is given up; `None` for what a room sends, which is never given up.
    pub(crate) deadline: Option<Duration>,
    pub(crate) done: Option<Done>,
    /// Whether the store had accepted it before.
    pub(crate) again: bool,
    /// The call of this host that it asks for an answer.
    pub(crate) call: Option<u64>,
}

pub(crate) struct Courier {
    core: Weak<HostCore>,
    target: RoomId,
    state: Mutex<State>,
    /// Told when something was answered, so that a gate can open.
    progress: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

struct State {
    producer: Producer,
    sender: Sender,
    queue: VecDeque<Parcel>,
    bytes: usize,
    /// What the store has accepted lately, oldest first.
    window: Window,
    /// Whether what was accepted last follows what is held.
    contiguous: bool,
    /// Calls whose questions were accepted, each with its question's number. Some have been answered since.
    asked: VecDeque<(Number, u64)>,
    /// How many of these there are before those that were answered are taken out.
    most_asked: usize,
    /// Since when the room has had no record.
    missing_since: Option<Duration>,
    /// Another generation of the store has begun since the window was sent again.
    forgotten: bool,
    pumping: bool,
    full: bool,
    /// What stood in the way of the last attempt.
    trouble: Option<String>,
    /// The host is: nothing is taken any more.
    stopped: bool,
    withdrawing_since: Option<Duration>,
}

/// What the pump does next, decided under the lock.
enum Todo {
    Act(Vec<SenderAction>),
    Pause,
    Rest,
}

impl Courier {
    pub(crate) fn of_host(core: Arc<HostCore>, target: RoomId, producer: Producer) -> Arc<Self> {
        Self::with(&core, target, producer, Sender::new())
    }

    /// Goes on where a way that was forgotten stood.
    pub(crate) fn resting(core: &Arc<HostCore>, target: RoomId, rest: rests::Rest) -> Arc<Self> {
        Self::with(core, target, rest.producer, rest.sender)
    }

    /// Goes on with what a room had still to deliver.
    pub(crate) fn of_room(core: &Arc<HostCore>, target: RoomId, segment: Segment) -> Arc<Self> {
        let sender = Sender::resuming(segment.accepted, segment.life);
        let courier = Self::with(core, target, segment.producer, sender);
        for frame in segment.pending {
            courier.send_for_room(frame);
        }
        courier
    }

    /// The queue of a room's own appends: it first fences what another activation may have under way.
    pub(crate) fn own(core: &Arc<HostCore>, room: RoomId, life: Life, epoch: u64) -> Arc<Self> {
        let producer = Producer::Room(room.clone(), life);
        Self::with(core, room, producer, Sender::taking_over(epoch))
    }

    fn with(core: &Arc<HostCore>, target: RoomId, producer: Producer, sender: Sender) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::downgrade(core),
            target,
            state: Mutex::new(State {
                producer,
                sender,
                queue: VecDeque::new(),
                bytes: 0,
                window: Window { held: VecDeque::new(), bytes: 0, all: core.windows.clone() },
                contiguous: true,
                asked: VecDeque::new(),
                most_asked: FEW_CALLS,
                missing_since: None,
                forgotten: false,
                pumping: false,
                full: false,
                trouble: None,
                stopped: false,
                withdrawing_since: None,
            }),
            progress: Mutex::default(),
        })
    }

    /// The room that it brings messages to.
    pub(crate) fn target(&self) -> &RoomId {
        &self.target
    }

    /// Sets who is told of progress.
    pub(crate) fn on_progress(&self, told: impl Fn() + Send + Sync + 'static) {
        *self.progress.lock() = Some(Arc::new(told));
    }

    /// Whether anything is under way or waits.
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state.lock();
        state.sender.in_flight() || !state.queue.is_empty()
    }

    /// Whether anything is held in case the store forgets it.
    pub(crate) fn holds(&self) -> bool {
        !self.state.lock().window.held.is_empty()
    }

    /// Lets go of what was accepted before a moment of the host's clock: a room has handled or saved it by now,
    /// or its log is far behind.
    pub(crate) fn let_go(&self, before: Duration) {
        let mut state = self.state.lock();
        while state.window.held.front().is_some_and(|(at, ..)| *at < before) {
            state.window.drop_oldest();
        }
        let kept = state.window.held.len() as u64;
        state.sender.keep(kept);
    }

    /// Where its numbers stand, if there is anything to know and nothing is under way.
    pub(crate) fn rest(&self) -> Option<rests::Rest> {
        let state = self.state.lock();
        let sender = state.sender.rest().filter(|_| state.queue.is_empty())?;
        Some(rests::Rest { producer: state.producer.clone(), sender })
    }

    /// The store may have lost what it had accepted: sends again what is held, and asks what it has of the rest.
    pub(crate) fn forgotten(self: &Arc<Self>) {
        let Some(core) = self.core.upgrade() else { return };
        let start = {
            let mut state = self.state.lock();
            let knows = state.sender.accepted() > Number(0);
            state.forgotten = true; // seen to before the next message, if nothing was accepted
            !state.stopped && knows && !std::mem::replace(&mut state.pumping, true)
        };
        if start {
            let courier = self.clone();
            core.errand(async move { courier.pump().await });
        }
    }

    /// Whether so much waits that the room which sends it should wait.
    pub(crate) fn is_full(&self) -> bool {
        let Some(core) = self.core.upgrade() else { return false };
        let state = self.state.lock();
        state.queue.len() >= core.config.max_outbound_messages
            || state.bytes >= core.config.max_outbound_bytes
    }

    /// Whether something is under way, and the highest `seq` of a life that an answer named.
    pub(crate) fn standing(&self, life: Life) -> (bool, Seq) {
        let state = self.state.lock();
        (state.sender.in_flight() || !state.queue.is_empty(), state.sender.highest_in(life))
    }

    /// Queues a message.
    ///
    /// # Errors
    /// The parcel, when too much waits already.
    pub(crate) fn send(self: &Arc<Self>, parcel: Parcel) -> Result<(), Parcel> {
        let Some(core) = self.core.upgrade() else { return Err(parcel) };
        let start = {
            let mut state = self.state.lock();
            let limits = &core.config;
            let full = state.queue.len() >= limits.max_outbound_messages
                || state.bytes.saturating_add(parcel.frame.len()) > limits.max_outbound_bytes;
            if state.stopped || (full && parcel.deadline.is_some()) {
                return Err(parcel);
            }
            state.bytes = state.bytes.saturating_add(parcel.frame.len());
            state.queue.push_back(parcel);
            !std::mem::replace(&mut state.pumping, true)
        };
        if start {
            let courier = self.clone();
            core.errand(async move { courier.pump().await });
        }
        Ok(())
    }

    /// Queues a message of a room. It is never given up, so it has no deadline; the room handles nothing
    /// while too many wait.
    pub(crate) fn send_for_room(self: &Arc<Self>, frame: Bytes) {
        let parcel = Parcel { frame, deadline: None, done: None, again: false, call: None };
        let _ = self.send(parcel); // fails only without a host
    }

    /// Queues a message that nobody waits for, with the deadline of a call.
    pub(crate) fn send_errand(self: &Arc<Self>, frame: Bytes) {
        let Some(core) = self.core.upgrade() else { return };
        let deadline = Some(core.clock.mark() + core.config.call_timeout);
        if self.send(Parcel { frame, deadline, done: None, again: false, call: None }).is_err() {
            let (room, why) = (self.target.clone(), "too many messages wait".to_owned());
            core.report(RoomFault::Undelivered { room, why });
        }
    }

    /// What has not been accepted, for a snapshot. With `forgotten`, the store may have lost what it had
    /// accepted, and what is held of that goes along.
    pub(crate) fn segment(&self, forgotten: bool) -> Segment {
        let state = self.state.lock();
        let kept = if forgotten { state.sender.kept() } else { 0 };
        let held = state.window.held.iter().map(|(_, frame, _)| frame);
        let held = held.skip(state.window.held.len().saturating_sub(kept as usize));
        let held = held.take(kept as usize);
        Segment {
            producer: state.producer.clone(),
            life: state.sender.life(),
            accepted: Number(state.sender.accepted().0.saturating_sub(kept)),
            pending: held.chain(state.queue.iter().map(|p| &p.frame)).cloned().collect(),
        }
    }

    /// Forgets what waits, because the room that sends it is not here any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.queue.clear();
        state.bytes = 0;
        state.window.clear();
        state.asked.clear();
        state.sender = Sender::new();
    }

    /// The host stops. Whoever waits is told now: the senders' own handles keep this alive.
    pub(crate) fn stop(&self) {
        let stopped = self.state.lock().stop();
        tell(stopped);
    }

    async fn pump(self: Arc<Self>) {
        let Some(core) = self.core.upgrade() else { return };
        let mut failures = 0u32;
        loop {
            match self.decide(&core) {
                Todo::Rest => return,
                Todo::Pause => tokio::time::sleep(core.config.retry_interval).await,
                Todo::Act(actions) => {
                    let (mut pause, mut found) = (false, false);
                    let mut work: VecDeque<SenderAction> = actions.into();
                    while let Some(action) = work.pop_front() {
                        match self.act(&core, action).await {
                            Step::Event(event) => {
                                failures = self.count_failures(failures, &event);
                                work.extend(self.step(event));
                            }
                            Step::Pause => pause = true,
                            Step::Found => found = true,
                            Step::Nothing => {}
                        }
                    }
                    let told = self.progress.lock().clone(); // it runs the app's code
                    if let Some(told) = told {
                        told();
                    }
                    if pause && !found {
                        let way = (core.incarnation(), &self.target);
                        tokio::time::sleep(backoff(core.config.retry_interval, failures, &way))
                            .await;
                    }
                }
            }
        }
    }

    fn decide(&self, core: &HostCore) -> Todo {
        let now = core.clock.mark();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let expired = state
            .queue
            .iter()
            .take_while(|p| p.deadline.is_some_and(|deadline| now >= deadline))
            .count() as u64;
        let mut actions = Vec::new();
        if std::mem::take(&mut state.forgotten) {
            actions = state.sender.step(SenderEvent::Forgotten).unwrap_or_default();
        }
        if actions.is_empty() && expired > 0 {
            actions =
                state.sender.step(SenderEvent::Expired { count: expired }).unwrap_or_default();
        }
        if let Some(since) = state.withdrawing_since
            && actions.is_empty()
            && now.saturating_sub(since) > core.config.send_timeout
        {
            actions = state.sender.step(SenderEvent::GiveUp).unwrap_or_default();
            state.withdrawing_since = Some(now);
        }
        if let Some(since) = state.missing_since
            && actions.is_empty()
            && now.saturating_sub(since)
                > core.config.call_timeout.max(core.config.session_ttl.saturating_mul(2))
        {
            state.missing_since = None;
            actions = state.sender.step(SenderEvent::Gone).unwrap_or_default();
        }
        if actions.is_empty() {
            let waiting = batch_len(&state.queue);
            actions = state.sender.step(SenderEvent::Ready { waiting }).unwrap_or_default();
        }
        if !actions.is_empty() {
            return Todo::Act(actions);
        }
        if state.queue.is_empty() && !state.sender.in_flight() {
            state.pumping = false;
            return Todo::Rest;
        }
        Todo::Pause
    }

    fn step(&self, event: SenderEvent) -> Vec<SenderAction> {
        let mut state = self.state.lock();
        if let SenderEvent::Answered(answer) = &event {
            state.full = matches!(answer, AppendAnswer::Full { .. });
            if !matches!(answer, AppendAnswer::Missing) {
                state.trouble = None; // what stands in the way of a new room is said by who places it
            }
            state.withdrawing_since = None;
        }
        let before = state.sender.accepted();
        let actions = state.sender.step(event).unwrap_or_else(|rejection| {
            tracing::debug!(%rejection, room = %self.target, "sender");
            Vec::new()
        });
        let Holds { contiguous, kept } = state.sender.holds(before, &actions);
        state.contiguous = contiguous;
        while state.window.held.len() as u64 > kept {
            state.window.drop_oldest();
        }
        actions
    }

    async fn act(&self, core: &Arc<HostCore>, action: SenderAction) -> Step {
        match action {
            SenderAction::Append { life, epoch, first, count } => {
                let (producer, batch) = {
                    let state = self.state.lock();
                    let frames = state.queue.iter().take(count as usize);
                    (state.producer.clone(), frames.map(|p| p.frame.clone()).collect())
                };
                self.append(core, Request::Append { life, producer, epoch, first, batch }).await
            }
            SenderAction::Withdraw { life, epoch, first } => {
                let producer = {
                    let mut state = self.state.lock();
                    state.withdrawing_since.get_or_insert(core.clock.mark());
                    state.producer.clone()
                };
                let batch = Vec::new();
                self.append(core, Request::Append { life, producer, epoch, first, batch }).await
            }
            SenderAction::Accept { count } => {
                self.note_calls(core, count);
                self.hold(core, count);
                self.finish(count, |_| Ok(()))
            }
            SenderAction::Recall { count } => {
                self.recall(core, count);
                Step::Nothing
            }
            SenderAction::Refuse { count, why } => {
                let why = self.state.lock().undelivered(&why);
                self.finish(count, |_| Err(why.clone()))
            }
            SenderAction::ReportUnknown { count } => {
                self.finish(count, |_| Err(Undelivered::OutcomeUnknown))
            }
            SenderAction::ReportLost { from, to } => {
                let count = (to.0 + 1).saturating_sub(from.0);
                core.report(RoomFault::Lost { room: self.target.clone(), count });
                self.lose_calls(core, from, to);
                Step::Nothing
            }
            SenderAction::ReportRegressed => {
                core.report(RoomFault::StoreRegressed { room: self.target.clone() });
                Step::Nothing
            }
            SenderAction::FindHost { create: false } => {
                core.find_host_soon(&self.target);
                Step::Nothing
            }
            SenderAction::FindHost { create: true } => {
                match core.find_host(&self.target, true).await {
                    Ok(()) => Step::Found,
                    Err(FindErr::UnknownKind) => {
                        let unnumbered = self.unnumbered();
                        self.finish(unnumbered, |_| Err(Undelivered::UnknownKind))
                    }
                    Err(FindErr::NoneReady) => {
                        self.note("no host that runs this kind is ready and has room");
                        Step::Pause
                    }
                    Err(FindErr::Store(error)) => {
                        self.note(error);
                        Step::Pause
                    }
                }
            }
            SenderAction::NewProducer { at } => {
                let mut state = self.state.lock();
                match &state.producer {
                    Producer::Host(old) => {
                        let number = old.number.max(at.0).saturating_add(1);
                        let host = old.host.clone();
                        state.producer = Producer::Host(Incarnation { host, number });
                        Step::Nothing
                    }
                    // Another activation has taken the room's numbers over, and says what there is to say.
                    Producer::Room(..) => {
                        drop(state);
                        self.abandon();
                        Step::Nothing
                    }
                    Producer::Activation(..) => Step::Pause, // it cannot be another
                }
            }
            SenderAction::Backoff => {
                // A host was just found, or nothing has changed: either way the next try is soon.
                Step::Pause
            }
            SenderAction::Next => Step::Nothing,
        }
    }

    /// Remembers what stands in the way.
    fn note(&self, trouble: impl std::fmt::Display) {
        self.state.lock().trouble = Some(trouble.to_string());
    }

    /// How many messages wait that were never sent, when none is doubtful.
    fn unnumbered(&self) -> u64 {
        let mut state = self.state.lock();
        if state.sender.release_unsent() { state.queue.len() as u64 } else { 0 }
    }

    async fn append(&self, core: &Arc<HostCore>, request: Request) -> Step {
        match core.execute(&self.target, request).await {
            Ok(Answer::Append(answer)) => {
                let mut state = self.state.lock();
                if matches!(answer, AppendAnswer::Missing) {
                    state.missing_since.get_or_insert(core.clock.mark());
                } else {
                    state.missing_since = None;
                }
                Step::Event(SenderEvent::Answered(answer))
            }
            Ok(other) => {
                tracing::error!(error = %unexpected(&other), "append");
                Step::Event(SenderEvent::Unanswered)
            }
            Err(error) => {
                tracing::debug!(%error, room = %self.target, "append");
                self.note(&error);
                Step::Event(match error.may_have_executed() {
                    true => SenderEvent::Unanswered,
                    false => SenderEvent::Unsent,
                })
            }
        }
    }

    /// So many failures in a row, for the pause before the next try. A way on which nothing waits has time.
    fn count_failures(&self, before: u32, event: &SenderEvent) -> u32 {
        let most = match event {
            SenderEvent::Unanswered | SenderEvent::Unsent => u32::MAX,
            SenderEvent::Answered(AppendAnswer::Missing) if !self.waits() => u32::MAX,
            // A gate may wait for it, so not for long.
            SenderEvent::Answered(AppendAnswer::Unproved { .. }) if !self.waits() => 3,
            _ => 0,
        };
        before.saturating_add(1).min(most)
    }

    fn waits(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }

    /// Remembers which calls ask with what was accepted.
    fn note_calls(&self, core: &HostCore, count: u64) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let first = state.sender.accepted().0.saturating_sub(count).saturating_add(1);
        for (number, parcel) in (first..).zip(state.queue.iter().take(count as usize)) {
            let Some(call) = parcel.call else { continue };
            // Numbers that are given again are of another life.
            while state.asked.back().is_some_and(|(asked, _)| asked.0 >= number) {
                state.asked.pop_back();
            }
            state.asked.push_back((Number(number), call));
        }
        if state.asked.len() > state.most_asked {
            state.asked.retain(|(_, call)| core.calls.waits(*call));
            state.most_asked = FEW_CALLS.max(state.asked.len().saturating_mul(2));
        }
    }

    /// Tells those who ask with messages that the store has lost: nobody answers them, or what answered is gone.
    fn lose_calls(&self, core: &HostCore, from: Number, to: Number) {
        let mut lost = Vec::new();
        self.state.lock().asked.retain(|(number, call)| {
            let is_lost = (from..=to).contains(number);
            if is_lost {
                lost.push(*call);
            }
            !is_lost
        });
        for call in lost {
            core.calls.complete(call, Outcome::Unknown);
        }
    }

    /// Holds what was accepted, as far as there is space for it.
    fn hold(&self, core: &HostCore, count: u64) {
        let now = core.clock.mark();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.contiguous {
            state.window.clear();
            return state.sender.keep(0);
        }
        for parcel in state.queue.iter().take(count as usize) {
            state.window.add(now, parcel.frame.clone(), parcel.call);
        }
        state.sender.keep(state.window.held.len() as u64);
    }

    /// Puts the newest of what is held in front of what waits. Nobody waits for it any more.
    fn recall(&self, core: &HostCore, count: u64) {
        // As long as a caller may wait: first the room must be re-asserted.
        let deadline = core.clock.mark() + core.config.call_timeout;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let deadline = match state.producer {
            Producer::Host(_) => Some(deadline),
            Producer::Room(..) | Producer::Activation(..) => None, // never given up
        };
        for _ in 0..count {
            let Some((frame, call)) = state.window.take_newest() else { return };
            state.bytes = state.bytes.saturating_add(frame.len());
            if let Some(call) = call {
                state.asked.retain(|(_, asked)| *asked != call);
            }
            state.queue.push_front(Parcel { frame, deadline, done: None, again: true, call });
        }
    }

    fn finish(&self, count: u64, outcome: impl Fn(u64) -> Result<(), Undelivered>) -> Step {
        let parcels: Vec<Parcel> = {
            let mut state = self.state.lock();
            let count = (count as usize).min(state.queue.len());
            let parcels: Vec<_> = state.queue.drain(..count).collect();
            let bytes: usize = parcels.iter().map(|p| p.frame.len()).sum();
            state.bytes = state.bytes.saturating_sub(bytes);
            parcels
        };
        let mut lost = 0u64;
        for (i, parcel) in parcels.into_iter().enumerate() {
            let outcome = outcome(i as u64);
            match parcel.done {
                None if parcel.again => {
                    lost += u64::from(outcome.is_err());
                    if let (Err(_), Some(call), Some(core)) =
                        (&outcome, parcel.call, self.core.upgrade())
                    {
                        core.calls.complete(call, Outcome::Unknown);
                    }
                }
                Some(done) => done(outcome),
                None => {
                    if let Err(why) = outcome
                        && let Some(core) = self.core.upgrade()
                    {
                        let (room, why) = (self.target.clone(), why.to_string());
                        core.report(RoomFault::Undelivered { room, why });
                    }
                }
            }
        }
        if lost > 0
            && let Some(core) = self.core.upgrade()
        {
            core.report(RoomFault::Lost { room: self.target.clone(), count: lost });
        }
        Step::Nothing
    }
}

impl State {
    fn undelivered(&self, why: &Refusal) -> Undelivered {
        match why {
            Refusal::Expired if self.full => Undelivered::Full,
            Refusal::Expired => {
                let slow = || "what was sent before it took too long".to_owned();
                Undelivered::Expired { why: self.trouble.clone().unwrap_or_else(slow) }
            }
            Refusal::Closed { reason } => Undelivered::Closed { reason: reason.clone() },
            Refusal::OtherLife { .. } => Undelivered::OtherLife,
        }
    }

    /// Nothing is sent any more: takes what waits, each with what its sender is told.
    fn stop(&mut self) -> Vec<(Parcel, Undelivered)> {
        self.stopped = true;
        self.bytes = 0;
        // What may be in the log must not be handed back as if it were not.
        let doubtful = if self.sender.release_unsent() { 0 } else { self.sender.numbered() };
        let outcome = |i| match i < doubtful {
            true => Undelivered::OutcomeUnknown,
            false => Undelivered::HostStopped,
        };
        (0..).zip(self.queue.drain(..)).map(|(i, parcel)| (parcel, outcome(i))).collect()
    }
}

fn tell(stopped: Vec<(Parcel, Undelivered)>) {
    for (parcel, why) in stopped {
        if let Some(done) = parcel.done {
            done(Err(why));
        }
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        tell(self.state.get_mut().stop());
    }
}

/// Accepted messages that could be sent again, each with when it was accepted and with the call that asks with it.
struct Window {
    held: VecDeque<(Duration, Bytes, Option<u64>)>,
    bytes: usize,
    /// Bytes that all ways of the host hold.
    all: Arc<AtomicUsize>,
}

impl Window {
    fn add(&mut self, at: Duration, frame: Bytes, call: Option<u64>) {
        self.bytes = self.bytes.saturating_add(frame.len());
        self.all.fetch_add(frame.len(), Ordering::Relaxed);
        self.held.push_back((at, frame, call));
        while self.held.len() > WINDOW_MESSAGES
            || self.bytes > WINDOW_BYTES
            || (self.all.load(Ordering::Relaxed) > ALL_WINDOWS_BYTES && !self.held.is_empty())
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.held.pop_front();
        self.forget(oldest);
    }

    fn take_newest(&mut self) -> Option<(Bytes, Option<u64>)> {
        let newest = self.held.pop_back();
        self.forget(newest)
    }

    fn forget(
        &mut self,
        held: Option<(Duration, Bytes, Option<u64>)>,
    ) -> Option<(Bytes, Option<u64>)> {
        let (_, frame, call) = held?;
        self.bytes = self.bytes.saturating_sub(frame.len());
        self.all.fetch_sub(frame.len(), Ordering::Relaxed);
        Some((frame, call))
    }

    fn clear(&mut self) {
        while !self.held.is_empty() {
            self.drop_oldest();
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What follows from an action.
enum Step {
    Event(SenderEvent),
    Pause,
    /// There is a host now: no pause is needed.
    Found,
    Nothing,
}

/// The wait after so many failures in a row: it doubles, up to sixteen times the first, and each is between
/// half and all of its length, so that the ways of many hosts do not come back together. By the way and not by
/// chance, so that a simulation can be replayed.
fn backoff(first: Duration, failures: u32, way: &impl Hash) -> Duration {
    let full = first.saturating_mul(1 << failures.saturating_sub(1).min(4));
    if failures == 0 {
        return full;
    }
    let mut hasher = DefaultHasher::new();
    (way, failures).hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 512).unwrap_or(0);
    full / 2 + full / 2 * share / 511
}

fn batch_len(queue: &VecDeque<Parcel>) -> u64 {
    let mut bytes = 0usize;
    let mut count = 0u64;
    for parcel in queue.iter().take(BATCH_MESSAGES) {
        bytes = bytes.saturating_add(parcel.frame.len());
        if count > 0 && bytes > BATCH_BYTES {
            break;
        }
        count += 1;
    }
    count
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier").field("target", &self.target).finish_non_exhaustive()
    }
}
