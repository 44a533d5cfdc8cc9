//! The sender: one host's outbound queue to one room, and what the answers to its appends mean.
//!
//! The machine counts, the driver holds the messages: every count in an action is of messages at the
//! head of the queue, but for what it recalls. One append is under way at a time, so order needs no further thought. A number is
//! given to a message when it is first sent and given again only after a withdrawal: an empty append
//! under a higher producer epoch, which fences late copies and tells what was accepted. Before its first
//! message a sender asks for the room's life, so that every message names one.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod rest_test;
#[cfg(test)]
mod step_test;
#[cfg(test)]
mod window_test;

use super::Rejection;
use super::record::{AppendAnswer, Standing};
use crate::id::{Life, Millis, Number, Seq};

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    epoch: u64,
    accepted: Number,
    highest: Seq,
    life: Option<Life>,
    /// Whether it sends again what a former activation has sent: then the last number that the store knows
    /// is not its own last.
    replays: bool,
    /// How many of the newest accepted messages the driver still holds.
    kept: u64,
    /// How many messages at the head of the queue were accepted before, and go again.
    recalled: u64,
    /// Another generation has begun since the store last answered for this life, or it has no record of it.
    doubted: bool,
    /// It has rested, and asks before its next message whether its life goes on.
    asks: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Idle,
    /// The room's life is asked for, before `count` messages go out that shall name it; or, with none, what the
    /// store still has of what it accepted.
    Greeting {
        count: u64,
    },
    /// `count` messages are out; `doubtful` once an attempt had no answer.
    Appending {
        count: u64,
        doubtful: bool,
    },
    /// As before, but the attempt that was answered (or not) is to be repeated.
    Repeating {
        count: u64,
        doubtful: bool,
    },
    /// `count` messages may or may not be in the log; none are left once that was reported.
    Withdrawing {
        count: u64,
    },
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SenderEvent {
    /// So many messages wait, and a new attempt may start (after a backoff, if one was asked for).
    Ready {
        /// How many messages to send at most.
        waiting: u64,
    },
    /// The append or the withdrawal was answered.
    Answered(AppendAnswer),
    /// It was not answered in time, or the connection broke: it may have taken effect or may still.
    Unanswered,
    /// It surely was never sent.
    Unsent,
    /// The deadline of the first `count` messages passed.
    Expired {
        /// How many.
        count: u64,
    },
    /// A withdrawal has been without an answer for too long.
    GiveUp,
    /// The store is in another generation: it may have lost what it accepted. Not while an append is out.
    Forgotten,
    /// There has been no record of the room for so long that nobody brings it back.
    Gone,
}

/// Why messages are handed back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Their deadline passed before the store took them.
    Expired,
    /// The room ended.
    Closed {
        /// Why.
        reason: String,
    },
    /// The room ended and was born again.
    OtherLife {
        /// The life that is now.
        life: Life,
    },
}

/// What the driver does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SenderAction {
    /// Appends the first `count` messages under these numbers.
    Append {
        /// The life to name.
        life: Option<Life>,
        /// The producer's epoch.
        epoch: u64,
        /// The number of the first.
        first: Number,
        /// How many.
        count: u64,
    },
    /// Appends nothing: under a higher epoch to withdraw, under the same to ask for the life.
    Withdraw {
        /// The life to name.
        life: Option<Life>,
        /// The epoch.
        epoch: u64,
        /// The number after the last accepted one.
        first: Number,
    },
    /// The first `count` are in the log: acknowledges and forgets them.
    Accept {
        /// How many.
        count: u64,
    },
    /// The first `count` are surely not in the log: hands them back.
    Refuse {
        /// How many.
        count: u64,
        /// Why.
        why: Refusal,
    },
    /// Nobody can tell of the first `count`: reports that.
    ReportUnknown {
        /// How many.
        count: u64,
    },
    /// The newest `count` of the accepted messages that are held go to the front of the queue, to be sent again
    /// under their numbers: who has them drops them.
    Recall {
        /// How many.
        count: u64,
    },
    /// The store lost messages that it had acknowledged, and they are not held any more.
    ReportLost {
        /// The first lost number.
        from: Number,
        /// The last lost number.
        to: Number,
    },
    /// The store had lost messages that it had acknowledged, whether or not it has them again: reports that.
    ReportRegressed,
    /// Nobody handles the log: has the room placed. `create` when there is no record yet.
    FindHost {
        /// Whether the room must be born.
        create: bool,
    },
    /// This producer is not accepted any more: takes a new one, born not before `at`.
    NewProducer {
        /// The store's clock.
        at: Millis,
    },
    /// Says `Ready` again after a pause, or when a host was found.
    Backoff,
    /// Says `Ready` again at once if messages wait.
    Next,
}

/// What the driver may go on holding of accepted messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Whether what is accepted next follows what is held: else that is of no use any more.
    pub contiguous: bool,
    /// How many of the newest are held, with those that are recalled.
    pub kept: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self::new()
    }
}

impl Sender {
    /// A sender that knows of nothing. Its producer may have sent something before, which the first answer
    /// tells, if none of it is still under way.
    pub fn new() -> Self {
        Self {
            epoch: 0,
            accepted: Number(0),
            highest: Seq(0),
            life: None,
            replays: false,
            kept: 0,
            recalled: 0,
            doubted: false,
            asks: false,
            state: State::Idle,
        }
    }

    /// Where its numbers stand, for one that goes on from there later; `None` when something is under way, when
    /// there is nothing to know, or when they are kept elsewhere.
    pub fn rest(&self) -> Option<Self> {
        let rests = self.state == State::Idle && self.recalled == 0 && !self.replays;
        (rests && self.accepted > Number(0)).then(|| Self { asks: true, kept: 0, ..self.clone() })
    }

    /// A sender that continues a producer's numbers, which live in its room's snapshot.
    pub fn resuming(accepted: Number, life: Option<Life>) -> Self {
        Self { accepted, life, replays: true, ..Self::new() }
    }

    /// Takes back the numbers of messages that surely are not in the log; `false` when there may be
    /// some that are.
    pub fn release_unsent(&mut self) -> bool {
        match self.state {
            State::Idle | State::Greeting { .. } | State::Repeating { doubtful: false, .. } => {
                self.state = State::Idle;
                true
            }
            State::Appending { .. } | State::Repeating { .. } | State::Withdrawing { .. } => false,
        }
    }

    /// A sender that takes a producer over from another activation: the first thing it does is a
    /// withdrawal under `epoch`, which fences what the other may still have under way and tells the last
    /// number.
    pub fn taking_over(epoch: u64) -> Self {
        let state = State::Withdrawing { count: 0 };
        Self { epoch: epoch.saturating_sub(1), state, ..Self::new() }
    }

    /// Whether an append is under way or its outcome unknown.
    pub fn in_flight(&self) -> bool {
        self.state != State::Idle
    }

    /// How many messages at the head of the queue have numbers.
    pub fn numbered(&self) -> u64 {
        match self.state {
            State::Idle | State::Greeting { .. } => 0,
            State::Appending { count, .. }
            | State::Repeating { count, .. }
            | State::Withdrawing { count } => count,
        }
    }

    /// The last of its numbers that was accepted.
    pub fn accepted(&self) -> Number {
        self.accepted
    }

    /// How many of the newest accepted messages could be sent again.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// The driver holds so many of the newest accepted messages, and gives the others up.
    pub fn keep(&mut self, kept: u64) {
        self.kept = kept.min(self.accepted.0);
    }

    /// What is held after a step that came from `before` as the last accepted number and led to these actions. What it
    /// recalls is still held; what it does not know of any more is of another life.
    pub fn holds(&self, before: Number, actions: &[SenderAction]) -> Holds {
        let (mut recalled, mut accepted) = (0u64, 0u64);
        for action in actions {
            if let SenderAction::Recall { count } = action {
                recalled = recalled.saturating_add(*count);
            }
            if let SenderAction::Accept { count } = action {
                accepted = accepted.saturating_add(*count);
            }
        }
        let contiguous =
            before.0.saturating_add(accepted) == self.accepted.0.saturating_add(recalled);
        Holds { contiguous, kept: self.kept.saturating_add(recalled) }
    }

    /// The highest `seq` of a life that any answer named. Those of another life say nothing of it.
    pub fn highest_in(&self, life: Life) -> Seq {
        if self.life == Some(life) { self.highest } else { Seq(0) }
    }

    /// The room's life, once an answer named it.
    pub fn life(&self) -> Option<Life> {
        self.life
    }

    /// Takes one event.
    ///
    /// # Errors
    /// [`Rejection`] for an answer when nothing was asked.
    pub fn step(&mut self, event: SenderEvent) -> Result<Vec<SenderAction>, Rejection> {
        match event {
            SenderEvent::Ready { waiting } => Ok(self.ready(waiting)),
            SenderEvent::Answered(answer) => self.answered(answer),
            SenderEvent::Unanswered => self.not_answered(true, "Unanswered"),
            SenderEvent::Unsent => self.not_answered(false, "Unsent"),
            SenderEvent::Expired { count } => Ok(self.expired(count)),
            SenderEvent::GiveUp => Ok(self.give_up()),
            SenderEvent::Forgotten => self.forgotten(),
            SenderEvent::Gone => Ok(self.gone()),
        }
    }

    fn ready(&mut self, waiting: u64) -> Vec<SenderAction> {
        match self.state {
            State::Idle | State::Greeting { count: 0 }
                if waiting > 0 && (self.life.is_none() || self.asks) =>
            {
                self.state = State::Greeting { count: waiting };
                vec![self.greet()]
            }
            State::Idle if waiting > 0 => self.append(waiting, false),
            State::Greeting { .. } => vec![self.greet()],
            State::Repeating { count, doubtful } => self.append(count, doubtful),
            State::Withdrawing { .. } => vec![self.withdraw()],
            State::Idle | State::Appending { .. } => Vec::new(),
        }
    }

    fn append(&mut self, count: u64, doubtful: bool) -> Vec<SenderAction> {
        self.state = State::Appending { count, doubtful };
        let (life, epoch, first) = (self.life, self.epoch, self.accepted.next());
        vec![SenderAction::Append { life, epoch, first, count }]
    }

    fn withdraw(&self) -> SenderAction {
        SenderAction::Withdraw {
            life: self.life,
            epoch: self.epoch.saturating_add(1),
            first: self.accepted.next(),
        }
    }

    /// Asks for the room's life: a withdrawal under the epoch that is, which fences nothing. Every message
    /// names its life, so that a late copy cannot pass for a message of another.
    fn greet(&self) -> SenderAction {
        SenderAction::Withdraw { life: self.life, epoch: self.epoch, first: self.accepted.next() }
    }

    fn not_answered(
        &mut self,
        sent: bool,
        event: &'static str,
    ) -> Result<Vec<SenderAction>, Rejection> {
        match self.state {
            State::Appending { count, doubtful } => {
                self.state = State::Repeating { count, doubtful: doubtful || sent };
                Ok(vec![SenderAction::Backoff])
            }
            State::Greeting { .. } | State::Withdrawing { .. } => Ok(vec![SenderAction::Backoff]),
            State::Idle | State::Repeating { .. } => Err(self.reject(event)),
        }
    }

    fn expired(&mut self, expired: u64) -> Vec<SenderAction> {
        match self.state {
            State::Idle | State::Repeating { doubtful: false, .. } => {
                self.state = State::Idle;
                self.recalled = self.recalled.saturating_sub(expired);
                let refuse = SenderAction::Refuse { count: expired, why: Refusal::Expired };
                vec![refuse, SenderAction::Next]
            }
            State::Greeting { count } => {
                self.state = State::Greeting { count: count.saturating_sub(expired) };
                self.recalled = self.recalled.saturating_sub(expired);
                vec![SenderAction::Refuse { count: expired, why: Refusal::Expired }]
            }
            // The answer of the attempt that is out decides.
            State::Appending { .. } => Vec::new(),
            State::Repeating { count, doubtful: true } => {
                self.state = State::Withdrawing { count };
                vec![self.withdraw()]
            }
            State::Withdrawing { .. } => Vec::new(),
        }
    }

    fn give_up(&mut self) -> Vec<SenderAction> {
        match self.state {
            State::Withdrawing { count, .. } if count > 0 => {
                // The numbers stay taken until the withdrawal is answered.
                self.state = State::Withdrawing { count: 0 };
                self.recalled = self.recalled.saturating_sub(count);
                vec![SenderAction::ReportUnknown { count }]
            }
            State::Idle
            | State::Greeting { .. }
            | State::Appending { .. }
            | State::Repeating { .. }
            | State::Withdrawing { .. } => Vec::new(),
        }
    }

    /// What was accepted is lost with the room.
    fn gone(&mut self) -> Vec<SenderAction> {
        if !matches!(self.state, State::Greeting { count: 0 }) {
            return Vec::new();
        }
        let lost = self.accepted;
        self.restart(false, 0);
        self.life = None;
        self.highest = Seq(0);
        let report = SenderAction::ReportLost { from: Number(1), to: lost };
        if lost > Number(0) { vec![report] } else { Vec::new() }
    }

    /// Whether what is sent again is in the log is not known: it is given up only by a withdrawal.
    fn forgotten(&mut self) -> Result<Vec<SenderAction>, Rejection> {
        let count = self.kept;
        let state = match self.state {
            // What it has may not be sent to any more: it is asked what it has.
            State::Idle if count == 0 && self.accepted > Number(0) && !self.replays => {
                self.asks = true;
                State::Greeting { count: 0 }
            }
            State::Idle if count == 0 => State::Idle,
            State::Idle => State::Repeating { count, doubtful: true },
            State::Greeting { count: waiting } => {
                State::Greeting { count: waiting.saturating_add(count) }
            }
            State::Repeating { count: numbered, doubtful } => State::Repeating {
                count: numbered.saturating_add(count),
                doubtful: doubtful || count > 0,
            },
            State::Withdrawing { count: doubtful } => {
                State::Withdrawing { count: doubtful.saturating_add(count) }
            }
            State::Appending { .. } => return Err(self.reject("Forgotten")),
        };
        self.state = state;
        self.doubted = self.accepted > Number(0);
        Ok(self.recall(count))
    }

    fn recall(&mut self, count: u64) -> Vec<SenderAction> {
        self.kept = self.kept.saturating_sub(count);
        self.recalled = self.recalled.saturating_add(count);
        self.accepted = Number(self.accepted.0.saturating_sub(count));
        if count == 0 { Vec::new() } else { vec![SenderAction::Recall { count }] }
    }

    /// The store knows nothing above `last`: what is held of it goes again, and the rest is lost. Answers how
    /// many are held.
    fn turned_back(&mut self, last: Number) -> (u64, Vec<SenderAction>) {
        let missing = self.accepted.0.saturating_sub(last.0);
        let count = missing.min(self.kept);
        let mut actions = self.recall(count);
        if missing > 0 {
            actions.push(SenderAction::ReportRegressed);
        }
        if missing > count {
            let (from, to) = (last.next(), self.accepted);
            actions.push(SenderAction::ReportLost { from, to });
            self.kept = 0;
        }
        self.accepted = last;
        (count, actions)
    }

    /// The same without a withdrawal, of which `count` messages are out or wait to be sent again: what is held goes
    /// again under its own numbers. If that is not all that is missing, the numbers of the lost ones would be given
    /// again, and a late copy of one of them could pass for its successor: only a withdrawal tells what is lost.
    fn fell_back(&mut self, count: u64, doubtful: bool, last: Number) -> Vec<SenderAction> {
        if self.accepted.0.saturating_sub(last.0) > self.kept && !self.replays {
            let kept = self.kept;
            let mut actions = self.recall(kept);
            self.state = State::Withdrawing { count: count.saturating_add(kept) };
            actions.push(self.withdraw());
            return actions;
        }
        let (again, mut actions) = self.turned_back(last);
        self.state = match count.saturating_add(again) {
            0 => State::Idle,
            count => State::Repeating { count, doubtful: doubtful || again > 0 },
        };
        actions.push(SenderAction::Next);
        actions
    }

    fn answered(&mut self, answer: AppendAnswer) -> Result<Vec<SenderAction>, Rejection> {
        match self.state {
            State::Appending { count, doubtful } => {
                Ok(self.append_answered(count, doubtful, answer))
            }
            State::Greeting { count } => Ok(self.greeting_answered(count, answer)),
            State::Withdrawing { count } => Ok(self.withdraw_answered(count, answer)),
            State::Idle | State::Repeating { .. } => Err(self.reject("Answered")),
        }
    }

    fn append_answered(
        &mut self,
        count: u64,
        doubtful: bool,
        answer: AppendAnswer,
    ) -> Vec<SenderAction> {
        match answer {
            AppendAnswer::Accepted { last, seq, life, standing } => {
                let regressed = self.recalled > 0;
                let mut actions = self.taken(last, seq, life, standing, count);
                if regressed {
                    actions.insert(0, SenderAction::ReportRegressed); // it had them before
                }
                actions
            }
            AppendAnswer::Duplicate { last, seq, life, standing } => {
                self.taken(last, seq, life, standing, count)
            }
            AppendAnswer::Partial { last, seq } => {
                let left = count.saturating_sub(last.0.saturating_sub(self.accepted.0));
                let mut actions = self.accept_up_to(last, seq, count);
                if left > 0 {
                    self.state = State::Repeating { count: left, doubtful };
                }
                actions.push(SenderAction::Next);
                actions
            }
            AppendAnswer::Gap { last, seq } => {
                self.highest = seq; // an older answer may have named one that the store has lost
                self.fell_back(count, doubtful, last)
            }
            AppendAnswer::Unproved { .. } => {
                self.state = State::Repeating { count, doubtful };
                vec![SenderAction::Backoff]
            }
            AppendAnswer::Full { seq } => {
                self.highest = self.highest.max(seq);
                self.state = State::Repeating { count, doubtful };
                vec![SenderAction::Backoff]
            }
            AppendAnswer::Fenced { now, .. } => {
                let unknown = self.restart(doubtful, count);
                unknown
                    .into_iter()
                    .chain([SenderAction::NewProducer { at: now }, SenderAction::Next])
                    .collect()
            }
            AppendAnswer::Closed { reason } => {
                self.ended(doubtful, count, Refusal::Closed { reason })
            }
            AppendAnswer::OtherLife { life } => self.born_again(doubtful, count, life),
            AppendAnswer::Missing => {
                self.doubt_the_life();
                self.state = State::Repeating { count, doubtful };
                vec![SenderAction::FindHost { create: true }, SenderAction::Backoff]
            }
        }
    }

    /// The log has the messages up to `last`, since now or before.
    fn taken(
        &mut self,
        last: Number,
        seq: Seq,
        life: Life,
        standing: Standing,
        count: u64,
    ) -> Vec<SenderAction> {
        self.enter(life);
        let mut actions = self.accept_up_to(last, seq, count);
        if standing == Standing::NeedsHost {
            actions.push(SenderAction::FindHost { create: false });
        }
        actions.push(SenderAction::Next);
        actions
    }

    /// A record is never deleted: where there is none, the store has lost it, with what was accepted.
    fn doubt_the_life(&mut self) {
        self.doubted |= self.accepted > Number(0);
    }

    /// Notes the life that an answer named. `seq` begins anew in each.
    fn enter(&mut self, life: Life) {
        self.doubted = false;
        self.asks = false;
        if self.life != Some(life) {
            self.life = Some(life);
            self.highest = Seq(0);
        }
    }

    /// Forgets numbers and epoch, because the record that knew them is not there any more.
    fn restart(&mut self, doubtful: bool, count: u64) -> Option<SenderAction> {
        self.accepted = Number(0);
        self.kept = 0;
        self.recalled = 0;
        self.epoch = 0;
        self.asks = false;
        self.state = State::Idle;
        doubtful.then_some(SenderAction::ReportUnknown { count })
    }

    fn ended(&mut self, doubtful: bool, count: u64, why: Refusal) -> Vec<SenderAction> {
        let unknown = self.restart(doubtful, count);
        self.life = None;
        self.highest = Seq(0);
        let first = unknown.unwrap_or(SenderAction::Refuse { count, why });
        vec![first, SenderAction::Next]
    }

    /// What the former life had accepted was handled, unless it ended because the store had forgotten it.
    fn born_again(&mut self, doubtful: bool, count: u64, life: Life) -> Vec<SenderAction> {
        let lost = self.lost_with_its_life();
        let ended = self.ended(doubtful, count, Refusal::OtherLife { life });
        self.enter(life);
        lost.into_iter().chain(ended).collect()
    }

    fn lost_with_its_life(&self) -> Option<SenderAction> {
        let lost = if self.doubted { self.accepted } else { Number(0) };
        (lost > Number(0)).then_some(SenderAction::ReportLost { from: Number(1), to: lost })
    }

    fn accept_up_to(&mut self, last: Number, seq: Seq, count: u64) -> Vec<SenderAction> {
        // Not `last` itself: a room that is replayed sends again what a former activation has sent, and
        // the store may know numbers that this queue has yet to repeat.
        let accepted = last.0.saturating_sub(self.accepted.0).min(count);
        self.accepted = Number(self.accepted.0.saturating_add(accepted));
        self.recalled = self.recalled.saturating_sub(accepted);
        self.highest = self.highest.max(seq);
        self.state = State::Idle;
        if accepted == 0 { Vec::new() } else { vec![SenderAction::Accept { count: accepted }] }
    }

    fn greeting_answered(&mut self, count: u64, answer: AppendAnswer) -> Vec<SenderAction> {
        match answer {
            AppendAnswer::Accepted { last, seq, life, .. } => {
                self.enter(life);
                self.highest = self.highest.max(seq);
                self.state = State::Idle;
                if self.replays {
                    return vec![SenderAction::Next];
                }
                if last < self.accepted {
                    return self.fell_back(0, false, last);
                }
                self.kept = if self.accepted == last { self.kept } else { 0 };
                self.accepted = last;
                vec![SenderAction::Next]
            }
            // Nothing was sent into it yet: what waits goes into the life that is.
            AppendAnswer::OtherLife { life } => {
                let lost = self.lost_with_its_life();
                self.restart(false, 0);
                self.enter(life);
                self.highest = Seq(0);
                lost.into_iter().chain([SenderAction::Next]).collect()
            }
            // A room that nothing waits for is not born for the question.
            AppendAnswer::Missing if count == 0 => {
                self.doubt_the_life();
                vec![SenderAction::Backoff]
            }
            AppendAnswer::Missing => {
                self.doubt_the_life();
                vec![SenderAction::FindHost { create: true }, SenderAction::Backoff]
            }
            AppendAnswer::Closed { reason } => self.ended(false, count, Refusal::Closed { reason }),
            AppendAnswer::Fenced { now, .. } => {
                self.restart(false, 0);
                vec![SenderAction::NewProducer { at: now }, SenderAction::Next]
            }
            // None of these answers an empty batch; ask again.
            AppendAnswer::Duplicate { .. }
            | AppendAnswer::Partial { .. }
            | AppendAnswer::Gap { .. }
            | AppendAnswer::Full { .. }
            | AppendAnswer::Unproved { .. } => vec![SenderAction::Backoff],
        }
    }

    fn withdraw_answered(&mut self, count: u64, answer: AppendAnswer) -> Vec<SenderAction> {
        match answer {
            AppendAnswer::Accepted { last, seq, life, standing } => {
                self.enter(life);
                self.epoch = self.epoch.saturating_add(1);
                // What was not accepted never will be: its numbers are free again, and the driver looks
                // at the deadlines anew.
                let (_, mut actions) = self.turned_back(last.min(self.accepted));
                actions.extend(self.accept_up_to(last, seq, count));
                if self.accepted != last {
                    self.kept = 0; // others are the newest, of which nobody was told
                }
                self.accepted = last;
                if !actions.is_empty() && standing == Standing::NeedsHost {
                    actions.push(SenderAction::FindHost { create: false });
                }
                actions.push(SenderAction::Next);
                actions
            }
            AppendAnswer::Fenced { now, .. } => {
                let unknown = self.restart(count > 0, count);
                unknown
                    .into_iter()
                    .chain([SenderAction::NewProducer { at: now }, SenderAction::Next])
                    .collect()
            }
            AppendAnswer::Closed { reason } => {
                self.ended(count > 0, count, Refusal::Closed { reason })
            }
            AppendAnswer::OtherLife { life } => self.born_again(count > 0, count, life),
            // Nothing was fenced: a record that comes to be could still take a late copy. Its numbers stay
            // taken until the withdrawal has one to take effect on.
            AppendAnswer::Missing => {
                self.doubt_the_life();
                vec![SenderAction::FindHost { create: true }, SenderAction::Backoff]
            }
            // None of these answers an empty batch; ask again.
            AppendAnswer::Duplicate { .. }
            | AppendAnswer::Partial { .. }
            | AppendAnswer::Gap { .. }
            | AppendAnswer::Full { .. }
            | AppendAnswer::Unproved { .. } => vec![SenderAction::Backoff],
        }
    }

    fn reject(&self, event: &'static str) -> Rejection {
        let state = match self.state {
            State::Idle => "Idle",
            State::Greeting { .. } => "Greeting",
            State::Appending { .. } => "Appending",
            State::Repeating { .. } => "Repeating",
            State::Withdrawing { .. } => "Withdrawing",
        };
        Rejection { machine: "sender", state, event }
    }
}
