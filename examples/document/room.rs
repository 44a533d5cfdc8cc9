//! The room actor: a document that takes edits and answers questions.

use std::marker::PhantomData;
use std::sync::Arc;

use ractor::ActorProcessingErr;
use ractor_rooms::{Delivery, Reply, RoomActor, RoomContext};
use serde::{Deserialize, Serialize};

use super::ballast::Ballast;
use super::journal::{Run, SenderId};
use super::script::Edit;
use super::state::DocumentState;

/// The kind of all document rooms.
pub(crate) const KIND: &str = "document";

/// A delivery class as a type: it belongs to the kind of a room, not to a room.
pub(crate) trait DeliveryClass: Send + Sync + 'static {
    /// The class.
    const DELIVERY: Delivery;
}

/// [`Delivery::Live`].
pub(crate) struct Live;

impl DeliveryClass for Live {
    const DELIVERY: Delivery = Delivery::Live;
}

/// [`Delivery::Durable`].
pub(crate) struct Durable;

impl DeliveryClass for Durable {
    const DELIVERY: Delivery = Delivery::Durable;
}

/// What a document room is told and asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DocumentMsg {
    /// The writer pressed a key.
    Edit { from: SenderId, number: u64, edit: Edit },
    /// A chatter says something, only to be counted.
    Note { from: SenderId, number: u64 },
    /// Where does the room run?
    Whereabouts(Reply<Sighting>),
    /// A page of the text, after so many code points.
    Text { after: usize, reply: Reply<String> },
    /// A page of the journal, after so many runs.
    Journal { after: usize, reply: Reply<Vec<Run>> },
    /// The rest of what the oracle wants to know.
    Audit(Reply<Audit>),
}

/// What a document room answers, and a live one tells its members: it runs on this host now, in this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sighting {
    pub(crate) host: u32,
    pub(crate) epoch: u64,
}

/// What the oracle asks for besides text and journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Audit {
    /// Edits that did not fit the text when they were handled.
    pub(crate) misfits: u64,
    /// The epoch of the room.
    pub(crate) epoch: u64,
    /// The sum of the dead weight.
    pub(crate) ballast_sha256: String,
}

/// How every document begins.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The text before the first edit.
    pub(crate) text: String,
    /// The dead weight.
    pub(crate) ballast: Ballast,
}

/// The document rooms of one host.
pub(crate) struct Document<C> {
    host: u32,
    beginning: Arc<Beginning>,
    class: PhantomData<C>,
}

impl<C> Document<C> {
    /// The rooms of host number `host`.
    pub(crate) fn new(host: u32, beginning: Arc<Beginning>) -> Self {
        Self { host, beginning, class: PhantomData }
    }
}

impl<C: DeliveryClass> RoomActor for Document<C> {
    const KIND: &'static str = KIND;
    const DELIVERY: Delivery = C::DELIVERY;
    type Msg = DocumentMsg;
    type State = DocumentState;
    type Event = Sighting;
    type Arguments = ();

    async fn pre_start(
        &self,
        ctx: &mut RoomContext<Self>,
        (): (),
    ) -> Result<DocumentState, ActorProcessingErr> {
        self.tell(ctx)?;
        Ok(DocumentState::new(&self.beginning.text, self.beginning.ballast.clone()))
    }

    async fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        msg: DocumentMsg,
        state: &mut DocumentState,
    ) -> Result<(), ActorProcessingErr> {
        let epoch = ctx.epoch().0;
        match msg {
            DocumentMsg::Edit { from, number, edit } => state.edit(from, number, &edit, epoch),
            DocumentMsg::Note { from, number } => state.note(from, number, epoch),
            DocumentMsg::Whereabouts(reply) => answer(reply, self.sighting(ctx)),
            DocumentMsg::Text { after, reply } => answer(reply, state.text_page(after)),
            DocumentMsg::Journal { after, reply } => answer(reply, state.journal_page(after)),
            DocumentMsg::Audit(reply) => {
                let ballast_sha256 = state.ballast_sha256();
                answer(reply, Audit { misfits: state.misfits(), epoch, ballast_sha256 });
            }
        }
        Ok(())
    }

    async fn after_thaw(
        &self,
        ctx: &mut RoomContext<Self>,
        _state: &mut DocumentState,
    ) -> Result<(), ActorProcessingErr> {
        self.tell(ctx)
    }
}

impl<C: DeliveryClass> Document<C> {
    fn sighting(&self, ctx: &RoomContext<Self>) -> Sighting {
        Sighting { host: self.host, epoch: ctx.epoch().0 }
    }

    /// Not from a durable room: its events are those of its log, whoever replays it.
    fn tell(&self, ctx: &mut RoomContext<Self>) -> Result<(), ActorProcessingErr> {
        if C::DELIVERY == Delivery::Live {
            ctx.emit(self.sighting(ctx))?;
        }
        Ok(())
    }
}

/// A caller that is gone does not concern the room.
fn answer<T: Serialize>(reply: Reply<T>, value: T) {
    reply.send(value);
}
