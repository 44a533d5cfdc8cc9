//! A gate is not opened behind the back of whoever closes it.

use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::super::room_actor::RoomActor;
use super::super::runner::RoomMessage;
use super::*;
use crate::delivery::Delivery;
use crate::{MemoryTransport, RoomContext, RoomHost};

struct Numbers;

impl RoomActor for Numbers {
    const KIND: &'static str = "numbers";
    const DELIVERY: Delivery = Delivery::Live;
    type Msg = u64;
    type State = u64;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        number: u64,
        last: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *last = number;
        Ok(())
    }
}

/// A runner that looks into no mailbox.
struct Frozen;

#[cfg_attr(feature = "async-trait", ractor::async_trait)]
impl Actor for Frozen {
    type Msg = RoomMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

#[tokio::test]
async fn a_gate_is_not_opened_behind_the_cut() {
    let host = RoomHost::builder("a", MemoryTransport::new()).room(Numbers);
    let host = host.start().await.expect("a host starts");
    let room = RoomId::new(Numbers::KIND, "x").expect("a name");
    let (actor, task) = Actor::spawn(None, Frozen, ()).await.expect("an actor starts");
    let route = Route::<Numbers>::to(&host.core, &room).expect("a way");
    let mailbox = Arc::new(Mailbox::of(actor.clone(), 9));
    // It froze, and who froze it was at the door first.
    route.close(actor.get_id(), || {});
    route.open(mailbox.clone(), Life(1), Seq(0), || {
        assert!(route.door.try_read().is_none(), "nobody else may be at the door now");
        false
    });
    assert_eq!(route.door.read().gate, Gate::Store);
    assert!(route.door.read().mailbox.is_none());
    route.open(mailbox, Life(1), Seq(0), || true);
    assert_eq!(route.door.read().gate, Gate::Mailbox);
    route.close(actor.get_id(), || {});
    actor.stop(None);
    task.await.expect("it stops");
    host.shutdown().await.expect("it stops");
}
