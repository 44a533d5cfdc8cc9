//! The rooms of a simulation: they write down everything that happens to them.

use std::marker::PhantomData;
use std::time::{Duration, UNIX_EPOCH};

use ractor::ActorProcessingErr;
use ractor_rooms::{Answer, Delivery, Reply, RoomActor, RoomContext};
use serde::{Deserialize, Serialize};

use super::journal::{Journal, ROOM};
use crate::oracle::SenderId;
use crate::rooms::{Class, Durable, Live};

/// A message's sender and number.
pub type Id = (SenderId, u64);

/// What a room is told.
#[allow(missing_docs, reason = "the fields are named as in the plan")]
#[derive(Debug, Serialize, Deserialize)]
pub enum SimMsg {
    /// Only written down.
    Note { id: Id },
    /// Passed on to another room.
    Relay { id: Id, to: u32, durable: bool },
    /// Told to the members.
    Emit { id: Id },
    /// Sets a timer.
    Timer { id: Id, after: u64 },
    /// The timer is due.
    Tick { id: Id },
    /// Answered.
    Ask { id: Id, reply: Reply<u64> },
    /// Makes the room call another one.
    CallThen { id: Id, to: u32, durable: bool },
    /// Another room calls; not written down.
    Echo { number: u64, reply: Reply<u64> },
    /// Takes a while.
    Slow { id: Id, takes: u64 },
    /// Never handled.
    Poison { id: Id },
    /// Handled at the second attempt.
    Flaky { id: Id },
    /// Says what the room wrote down.
    Look(Reply<SimState>),
}

/// What a room wrote down. All of it must fit together, whatever became of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimState {
    /// What was handled, in order.
    pub notes: Vec<Id>,
    /// How much was passed on, by target.
    pub relayed: Vec<(u32, u64)>,
    /// What the members were told, in order.
    pub emitted: Vec<Id>,
    /// The timers that were set, and when each is due.
    pub timers: Vec<(Id, u64)>,
    /// Those that fired, and when.
    pub ticks: Vec<(Id, u64)>,
    /// The calls that were made.
    pub called: Vec<Id>,
    /// Those that ended, with the answer if there was one.
    pub answers: Vec<(Id, Option<u64>)>,
}

/// The rooms of one class at one host.
#[derive(Debug)]
pub struct SimRoom<C> {
    host: String,
    journal: Journal,
    class: PhantomData<fn() -> C>,
}

impl<C> SimRoom<C> {
    /// Rooms at this host.
    pub fn new(host: &str, journal: &Journal) -> Self {
        Self { host: host.to_owned(), journal: journal.clone(), class: PhantomData }
    }
}

/// The name of a kind of rooms.
pub const fn kind(durable: bool) -> &'static str {
    if durable { "sim-durable" } else { "sim-live" }
}

/// The number of a room by its key.
fn number(key: &[u8]) -> u32 {
    let digits = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix('r'));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX - ROOM)
}

impl<C: Class> RoomActor for SimRoom<C> {
    const KIND: &'static str = match C::DELIVERY {
        Delivery::Durable => kind(true),
        Delivery::Live => kind(false),
    };
    const DELIVERY: Delivery = C::DELIVERY;
    type Msg = SimMsg;
    type State = SimState;
    type Event = Id;
    type Arguments = ();

    async fn pre_start(
        &self,
        ctx: &mut RoomContext<Self>,
        (): (),
    ) -> Result<SimState, ActorProcessingErr> {
        self.journal.say(format!("{} makes {} in epoch {}", self.host, ctx.room(), ctx.epoch()));
        *self.journal.lock().born.entry(ctx.room().to_string()).or_default() += 1;
        Ok(SimState::default())
    }

    async fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        message: SimMsg,
        state: &mut SimState,
    ) -> Result<(), ActorProcessingErr> {
        let me = number(ctx.room().key.as_bytes());
        let now = ctx.now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        match message {
            SimMsg::Note { id } => self.note(ctx, id, state),
            SimMsg::Relay { id, to, durable } => {
                self.note(ctx, id, state);
                let nth = match state.relayed.iter_mut().find(|(target, _)| *target == to) {
                    Some((_, count)) => {
                        *count += 1;
                        *count
                    }
                    None => {
                        state.relayed.push((to, 1));
                        1
                    }
                };
                let (key, note) = (format!("r{to}"), SimMsg::Note { id: (ROOM + me, nth) });
                let sent = if durable {
                    ctx.send_to::<SimRoom<Durable>>(key, note)
                } else {
                    ctx.send_to::<SimRoom<Live>>(key, note)
                };
                sent.map_err(|error| error.to_string())?;
            }
            SimMsg::Emit { id } => {
                self.note(ctx, id, state);
                state.emitted.push(id);
                ctx.emit(id)?;
            }
            SimMsg::Timer { id, after } => {
                self.note(ctx, id, state);
                state.timers.push((id, now + after));
                let name = format!("{}/{}", id.0, id.1);
                ctx.set_timer(&name, Duration::from_millis(after), SimMsg::Tick { id })?;
            }
            SimMsg::Tick { id } => {
                self.journal.say(format!("{} ticks {id:?} in {}", self.host, ctx.room()));
                state.ticks.push((id, now));
            }
            SimMsg::Ask { id, reply } => {
                self.note(ctx, id, state);
                reply.send(id.1);
            }
            SimMsg::CallThen { id, to, durable } => {
                self.note(ctx, id, state);
                state.called.push(id);
                let (key, name) = (format!("r{to}"), format!("{}/{}", id.0, id.1));
                let timeout = Duration::from_secs(3);
                let echo = |reply| SimMsg::Echo { number: id.1, reply };
                let called = if durable {
                    ctx.call_then::<SimRoom<Durable>, u64>(key, name, echo, timeout)
                } else {
                    ctx.call_then::<SimRoom<Live>, u64>(key, name, echo, timeout)
                };
                called.map_err(|error| error.to_string())?;
            }
            SimMsg::Echo { number, reply } => reply.send(number),
            SimMsg::Slow { id, takes } => {
                tokio::time::sleep(Duration::from_millis(takes)).await;
                self.note(ctx, id, state);
            }
            SimMsg::Poison { id } => {
                self.journal.say(format!("{} fails at {id:?} in {}", self.host, ctx.room()));
                return Err(format!("poison {}/{}", id.0, id.1).into());
            }
            SimMsg::Flaky { id } => {
                let first = {
                    let mut record = self.journal.lock();
                    let tried = record.tried.entry((ctx.room().to_string(), id.0, id.1));
                    let tried = tried.or_default();
                    *tried += 1;
                    *tried == 1
                };
                if first {
                    return Err(format!("flaky {}/{}", id.0, id.1).into());
                }
                self.note(ctx, id, state);
            }
            SimMsg::Look(reply) => reply.send(state.clone()),
        }
        Ok(())
    }

    async fn answered(
        &self,
        ctx: &mut RoomContext<Self>,
        name: &str,
        answer: Answer,
        state: &mut SimState,
    ) -> Result<(), ActorProcessingErr> {
        let parsed = name.split_once('/');
        let parsed = parsed.and_then(|(from, n)| Some((from.parse().ok()?, n.parse().ok()?)));
        let id = parsed.ok_or("the name is none that was given")?;
        let answer = answer.decode::<u64>().ok();
        self.journal.say(format!("{} hears {answer:?} of {id:?} in {}", self.host, ctx.room()));
        state.answers.push((id, answer));
        Ok(())
    }

    async fn after_thaw(
        &self,
        ctx: &mut RoomContext<Self>,
        state: &mut SimState,
    ) -> Result<(), ActorProcessingErr> {
        let (room, epoch, notes) = (ctx.room(), ctx.epoch(), state.notes.len());
        let what = format!("{} has {room} in epoch {epoch} with {notes} notes", self.host);
        self.journal.say(what);
        Ok(())
    }
}

impl<C: Class> SimRoom<C> {
    fn note(&self, ctx: &RoomContext<Self>, id: Id, state: &mut SimState) {
        self.journal.say(format!("{} handles {id:?} in {}", self.host, ctx.room()));
        state.notes.push(id);
    }
}
