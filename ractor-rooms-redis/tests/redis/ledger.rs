//! The room of these tests: it writes down what it handles, in both delivery classes.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use ractor::ActorProcessingErr;
use ractor_rooms::{Delivery, Reply, RoomActor, RoomContext};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Who sent a message, and its number among those of this sender.
pub(crate) type Note = (u32, u64);

/// A delivery class as a type.
pub(crate) trait Class: Send + Sync + 'static {
    const DELIVERY: Delivery;
    const KIND: &'static str;
}

#[derive(Debug)]
pub(crate) struct Live;

impl Class for Live {
    const DELIVERY: Delivery = Delivery::Live;
    const KIND: &'static str = "live";
}

#[derive(Debug)]
pub(crate) struct Durable;

impl Class for Durable {
    const DELIVERY: Delivery = Delivery::Durable;
    const KIND: &'static str = "durable";
}

/// What a ledger is told and asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LedgerMsg {
    /// Written down.
    Note(Note),
    /// Written down, with something heavy.
    Blob(Note, Bytes),
    /// Written down; the handler returns once the gate is open.
    Hang(Note),
    /// Publishes the next event: 1, 2, 3 and so on.
    Emit,
    /// The reply is kept in the state.
    Keep(Reply<u64>),
    /// Kept replies are answered with their places.
    Answer,
    /// Sets a timer.
    Remind(String, u64),
    /// A timer fired.
    Tick(String),
    /// Makes the state so many bytes larger.
    Grow(u32),
    /// Asks for a checkpoint.
    Save,
    Notes(Reply<Vec<Note>>),
    /// The timers that fired, each with the host.
    Ticks(Reply<Vec<(String, String)>>),
    /// The size and the sum of what `Grow` added.
    Ballast(Reply<(u64, u64)>),
    /// The host on which it runs.
    Place(Reply<String>),
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LedgerState {
    notes: Vec<Note>,
    ticks: Vec<(String, String)>,
    kept: Vec<Reply<u64>>,
    emitted: u64,
    ballast: Bytes,
}

/// What a test sees of the ledgers of its hosts, and does to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knobs(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Every time that a note was handled, on which host; unlike the state, never turned back.
    handled: Mutex<Vec<(String, Note)>>,
    gate: watch::Sender<bool>,
}

impl Knobs {
    /// What was handled on a host.
    pub(crate) fn handled_on(&self, host: &str) -> Vec<Note> {
        self.0.handled.lock().iter().filter(|(on, _)| on == host).map(|(_, note)| *note).collect()
    }

    /// Handlers that hang return, now and from now on.
    pub(crate) fn open_gate(&self) {
        self.0.gate.send_replace(true);
    }
}

/// The ledgers of one host.
pub(crate) struct Ledger<C> {
    host: String,
    knobs: Knobs,
    class: PhantomData<fn() -> C>,
}

impl<C> Ledger<C> {
    pub(crate) fn new(host: &str, knobs: &Knobs) -> Self {
        Self { host: host.to_owned(), knobs: knobs.clone(), class: PhantomData }
    }

    fn note(&self, note: Note, state: &mut LedgerState) {
        self.knobs.0.handled.lock().push((self.host.clone(), note));
        state.notes.push(note);
    }
}

impl<C: Class> RoomActor for Ledger<C> {
    const KIND: &'static str = C::KIND;
    const DELIVERY: Delivery = C::DELIVERY;
    type Msg = LedgerMsg;
    type State = LedgerState;
    type Event = u64;
    type Arguments = ();

    async fn pre_start(
        &self,
        _ctx: &mut RoomContext<Self>,
        (): (),
    ) -> Result<LedgerState, ActorProcessingErr> {
        Ok(LedgerState::default())
    }

    async fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        msg: LedgerMsg,
        state: &mut LedgerState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            LedgerMsg::Note(note) | LedgerMsg::Blob(note, _) => self.note(note, state),
            LedgerMsg::Hang(note) => {
                self.note(note, state);
                // Fails only without a sender, and this holds one.
                let _ = self.knobs.0.gate.subscribe().wait_for(|open| *open).await;
            }
            LedgerMsg::Emit => {
                state.emitted += 1;
                ctx.emit(state.emitted)?;
            }
            LedgerMsg::Keep(reply) => state.kept.push(reply),
            LedgerMsg::Answer => {
                for (place, reply) in (0..).zip(state.kept.drain(..)) {
                    reply.send(place);
                }
            }
            LedgerMsg::Remind(name, after_ms) => {
                let after = Duration::from_millis(after_ms);
                ctx.set_timer(&name, after, LedgerMsg::Tick(name.clone()))?;
            }
            LedgerMsg::Tick(name) => state.ticks.push((name, self.host.clone())),
            LedgerMsg::Grow(by) => {
                let mut ballast = state.ballast.to_vec();
                ballast.extend((0..by).map(|i| (i % 251) as u8));
                state.ballast = ballast.into();
            }
            LedgerMsg::Save => ctx.checkpoint(),
            LedgerMsg::Notes(reply) => reply.send(state.notes.clone()),
            LedgerMsg::Ticks(reply) => reply.send(state.ticks.clone()),
            LedgerMsg::Ballast(reply) => {
                let sum = state.ballast.iter().map(|byte| u64::from(*byte)).sum();
                reply.send((state.ballast.len() as u64, sum));
            }
            LedgerMsg::Place(reply) => reply.send(ctx.host().as_str().to_owned()),
        }
        Ok(())
    }
}

impl<C: Class> fmt::Debug for Ledger<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(C::KIND).field("host", &self.host).finish_non_exhaustive()
    }
}
