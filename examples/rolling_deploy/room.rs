//! A room that writes down what it is told.

use ractor::ActorProcessingErr;
use ractor_rooms::{Delivery, Reply, RoomActor, RoomContext};
use serde::{Deserialize, Serialize};

/// A list of numbers, in the order in which they were handled.
#[derive(Debug)]
pub(crate) struct Ledger<const DURABLE: bool>;

/// What a ledger is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LedgerMsg {
    /// Write this down.
    Add(u64),
    /// How many are there?
    Count(Reply<u64>),
    /// Which?
    Read(Reply<Vec<u64>>),
}

impl<const DURABLE: bool> RoomActor for Ledger<DURABLE> {
    const KIND: &'static str = if DURABLE { "durable-ledger" } else { "live-ledger" };
    const DELIVERY: Delivery = if DURABLE { Delivery::Durable } else { Delivery::Live };
    type Msg = LedgerMsg;
    type State = Vec<u64>;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Vec<u64>, ActorProcessingErr> {
        Ok(Vec::new())
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        message: LedgerMsg,
        numbers: &mut Vec<u64>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LedgerMsg::Add(number) => numbers.push(number),
            LedgerMsg::Count(reply) => reply.send(numbers.len() as u64),
            LedgerMsg::Read(reply) => reply.send(numbers.clone()),
        }
        Ok(())
    }
}
