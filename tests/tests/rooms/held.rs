//! A store that does not answer for longer than a session lasts: rooms are held, and taken back.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::ActorProcessingErr;
use ractor::rpc::CallResult;
use ractor_rooms::clock::Clock;
use ractor_rooms::protocol::record::RecordLimits;
use ractor_rooms::testing::{Fault, FaultPlan, FaultyTransport, Operation};
use ractor_rooms::{
    Delivery, HostConfig, MemoryTransport, OnStoreLoss, Reply, RoomActor, RoomContext, RoomEvent,
    RoomFault, RoomHost, RoomRef,
};
use ractor_rooms_tests::holes::{Class, Durable, Live, config, eventually, host_id, in_time};
use serde::{Deserialize, Serialize};

use super::holes::both;

const KEY: &str = "held";
/// Long enough that no session lapses again because the machine is busy.
const TTL: Duration = Duration::from_secs(3);

/// What a kind does when the store is gone.
trait Policy: Send + Sync + 'static {
    const POLICY: OnStoreLoss;
    const NAME: &'static str;
}

struct Pauses;

impl Policy for Pauses {
    const POLICY: OnStoreLoss = OnStoreLoss::Pause;
    const NAME: &'static str = "pauses";
}

struct GoesOn;

impl Policy for GoesOn {
    const POLICY: OnStoreLoss = OnStoreLoss::Continue;
    const NAME: &'static str = "goes-on";
}

/// A room that counts.
struct Count<C, P> {
    host: String,
    farewells: Farewells,
    kind: PhantomData<fn() -> (C, P)>,
}

/// The states that copies had when they ended, each with its host.
type Farewells = Arc<Mutex<Vec<(String, u64)>>>;

#[derive(Serialize, Deserialize)]
enum CountMsg {
    Add(u64),
    Tell,
    Total(Reply<(String, u64)>),
}

impl<C: Class, P: Policy> RoomActor for Count<C, P> {
    const KIND: &'static str = P::NAME;
    const DELIVERY: Delivery = C::DELIVERY;
    const ON_STORE_LOSS: OnStoreLoss = P::POLICY;
    type Msg = CountMsg;
    type State = u64;
    type Event = u64;
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
        ctx: &mut RoomContext<Self>,
        message: CountMsg,
        total: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CountMsg::Add(number) => *total += number,
            CountMsg::Tell => ctx.emit(*total)?,
            CountMsg::Total(reply) => reply.send((self.host.clone(), *total)),
        }
        Ok(())
    }

    async fn on_diverged(&self, total: &mut u64) {
        lock(&self.farewells).push((self.host.clone(), *total));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two hosts over one store, and what their rooms leave behind.
struct Pair<C, P> {
    store: MemoryTransport,
    net: FaultyTransport<MemoryTransport>,
    hosts: Vec<RoomHost>,
    farewells: Farewells,
    faults: Arc<Mutex<Vec<RoomFault>>>,
    kind: PhantomData<fn() -> (C, P)>,
}

impl<C: Class, P: Policy> Pair<C, P> {
    async fn start() -> Self {
        Self::with_session(TTL).await
    }

    async fn with_session(session_ttl: Duration) -> Self {
        let store = MemoryTransport::with(RecordLimits::default(), Clock::system());
        let net = FaultyTransport::new(store.clone(), 0, FaultPlan::calm());
        let mut pair = Self {
            store,
            net,
            hosts: Vec::new(),
            farewells: Arc::default(),
            faults: Arc::default(),
            kind: PhantomData,
        };
        for name in ["a", "b"] {
            let faults = pair.faults.clone();
            let config = HostConfig { session_ttl, ..config() };
            let room = Count::<C, P> {
                host: name.to_owned(),
                farewells: pair.farewells.clone(),
                kind: PhantomData,
            };
            let start = RoomHost::builder(name, pair.net.for_host(host_id(name)))
                .config(config)
                .room(room)
                .on_fault(move |fault| lock(&faults).push(fault.clone()))
                .start();
            pair.hosts.push(in_time("a host starts", start).await.unwrap());
        }
        // On the first host, whatever placement says.
        let at = pair.total(0).await.0;
        if at != "a" {
            let request = ractor_rooms::MigrateTo::host(P::NAME, KEY, "a");
            pair.hosts[1].migrate(request).await.unwrap();
        }
        pair.until_at(0).await;
        pair
    }

    async fn until_at(&self, host: usize) {
        eventually("the room runs there", async || {
            !self.hosts[host].rooms().await.unwrap().is_empty()
        })
        .await;
    }

    fn room(&self, via: usize) -> RoomRef<Count<C, P>> {
        self.hosts[via].room(KEY)
    }

    async fn total(&self, via: usize) -> (String, u64) {
        match in_time("an answer", self.room(via).call(CountMsg::Total, None)).await {
            Ok(CallResult::Success(total)) => total,
            other => panic!("{other:?}"),
        }
    }

    /// Nobody reaches the store, until every host has given its session up.
    async fn outage(&self) {
        self.net.set_plan(FaultPlan { refuse: 1_000, ..FaultPlan::calm() });
        self.lapsed(2).await;
    }

    async fn lapsed(&self, count: usize) {
        let lapsed = |fault: &&RoomFault| matches!(fault, RoomFault::SessionLapsed { .. });
        eventually("sessions lapse", async || {
            lock(&self.faults).iter().filter(lapsed).count() == count
        })
        .await;
    }

    /// Everybody reaches the store, and has a session again: a caller whose session ended is told so.
    async fn heal(&self) {
        self.net.heal();
        eventually("sessions are open", async || self.hosts.iter().all(RoomHost::is_ready)).await;
    }

    async fn stop(self) {
        for host in &self.hosts {
            in_time("a host stops", host.shutdown()).await.unwrap();
        }
    }
}

both! {
    an_outage_longer_than_a_session_costs_nothing;
    a_store_that_comes_back_in_another_generation_costs_nothing;
    a_second_outage_is_like_the_first;
    a_host_that_is_back_first_leaves_rooms_to_their_host;
    a_copy_that_another_host_has_had_ends;
}

/// Given a room that has handled what no checkpoint has. When no host reaches the store for longer than a
/// session, and then all do. Then the room goes on as it was, where it was, under a new epoch; what was sent
/// meanwhile is handled, its member sees no gap, and nobody started it anew.
async fn an_outage_longer_than_a_session_costs_nothing<C: Class>() {
    let pair = Pair::<C, Pauses>::start().await;
    let room = pair.room(0);
    let mut events = pair.room(1).events().await.unwrap();
    room.send(CountMsg::Add(7)).await.unwrap();
    room.send(CountMsg::Tell).await.unwrap();
    let event = in_time("an event", events.next()).await;
    assert!(matches!(event, Some(RoomEvent::Event { event: 7, .. })), "{event:?}");
    assert!(pair.hosts.iter().all(RoomHost::is_ready));
    pair.outage().await;
    assert!(!pair.hosts[0].is_ready());
    for via in [0, 1] {
        pair.room(via).cast(CountMsg::Add(1)).unwrap();
    }
    pair.heal().await;
    pair.until_at(0).await;
    eventually("all is handled", async || pair.total(1).await == ("a".to_owned(), 9)).await;
    room.send(CountMsg::Tell).await.unwrap();
    let event = in_time("an event", events.next()).await;
    assert!(matches!(event, Some(RoomEvent::Event { event: 9, .. })), "{event:?}");
    assert!(pair.hosts.iter().all(RoomHost::is_ready));
    assert!(lock(&pair.farewells).is_empty());
    let lapsed = |fault: &RoomFault| matches!(fault, RoomFault::SessionLapsed { .. });
    assert!(lock(&pair.faults).iter().all(lapsed), "{:?}", lock(&pair.faults));
    pair.stop().await;
}

/// The same where the store was started again meanwhile, and kept all it had.
async fn a_store_that_comes_back_in_another_generation_costs_nothing<C: Class>() {
    let pair = Pair::<C, Pauses>::start().await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    pair.total(0).await;
    pair.outage().await;
    pair.store.restart(None);
    pair.heal().await;
    eventually("it goes on", async || pair.total(1).await == ("a".to_owned(), 7)).await;
    let lapsed = |fault: &RoomFault| matches!(fault, RoomFault::SessionLapsed { .. });
    assert!(lock(&pair.faults).iter().all(lapsed), "{:?}", lock(&pair.faults));
    pair.stop().await;
}

/// The same where the store goes away again while rooms are taken back.
async fn a_second_outage_is_like_the_first<C: Class>() {
    let pair = Pair::<C, Pauses>::start().await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    pair.total(0).await;
    pair.outage().await;
    // Sessions can be had again, and nothing else.
    let only = [Operation::Acquire, Operation::Reassert, Operation::RenewSession];
    let plan = FaultPlan { refuse: 1_000, only: only.into(), ..FaultPlan::calm() };
    pair.net.set_plan(plan);
    pair.lapsed(4).await;
    pair.heal().await;
    eventually("it goes on", async || pair.total(1).await == ("a".to_owned(), 7)).await;
    pair.stop().await;
}

/// The same where another host has a session first, and work for the room.
async fn a_host_that_is_back_first_leaves_rooms_to_their_host<C: Class>() {
    // It waits for half a session.
    let pair = Pair::<C, Pauses>::with_session(Duration::from_secs(6)).await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    pair.total(0).await;
    pair.outage().await;
    let opens = pair.net.next_of(host_id("a"), Operation::OpenSession, Fault::HoldRequest);
    pair.net.set_plan(FaultPlan::calm());
    in_time("the host comes back", opens.hit()).await;
    eventually("the other is ready", async || pair.hosts[1].is_ready()).await;
    pair.room(1).send(CountMsg::Add(1)).await.unwrap();
    opens.release();
    eventually("it goes on", async || pair.total(1).await == ("a".to_owned(), 8)).await;
    pair.stop().await;
}

/// Given a room whose host is cut off for longer than a session, so that another host has it. When the first
/// host is back. Then its copy ends, the app hears of it with the state that is lost, and the room is the
/// other's.
async fn a_copy_that_another_host_has_had_ends<C: Class>() {
    let pair = Pair::<C, Pauses>::start().await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    pair.total(0).await;
    pair.net.cut(&host_id("a"));
    pair.lapsed(1).await;
    pair.room(1).send(CountMsg::Add(100)).await.unwrap();
    pair.until_at(1).await;
    pair.net.restore(&host_id("a"));
    eventually("the copy ends", async || !lock(&pair.farewells).is_empty()).await;
    assert_eq!(*lock(&pair.farewells), [("a".to_owned(), 7)]);
    // A live room goes back to its last checkpoint, and this one had none.
    let expected = if C::DELIVERY == Delivery::Durable { 107 } else { 100 };
    assert_eq!(pair.total(0).await, ("b".to_owned(), expected));
    eventually("it is reported", async || {
        lock(&pair.faults).iter().any(|fault| matches!(fault, RoomFault::Fenced { .. }))
    })
    .await;
    pair.stop().await;
}

/// Given a live room that goes on without a store. When its own host sends while no session can be had, and
/// the store comes back. Then it has handled that meanwhile, and keeps it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_that_goes_on_keeps_what_it_did() {
    let pair = Pair::<Live, GoesOn>::start().await;
    pair.outage().await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    assert_eq!(pair.total(0).await, ("a".to_owned(), 7));
    pair.heal().await;
    eventually("the other host sees it", async || pair.total(1).await == ("a".to_owned(), 7)).await;
    pair.until_at(0).await;
    assert!(lock(&pair.farewells).is_empty());
    pair.stop().await;
}

/// The same where another host has taken the room meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_that_went_on_beside_another_copy_ends() {
    let pair = Pair::<Live, GoesOn>::start().await;
    pair.net.cut(&host_id("a"));
    pair.lapsed(1).await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    assert_eq!(pair.total(0).await, ("a".to_owned(), 7));
    pair.room(1).send(CountMsg::Add(100)).await.unwrap();
    assert_eq!(pair.total(1).await, ("b".to_owned(), 100));
    pair.net.restore(&host_id("a"));
    eventually("the copy ends", async || !lock(&pair.farewells).is_empty()).await;
    assert_eq!(*lock(&pair.farewells), [("a".to_owned(), 7)]);
    assert_eq!(pair.total(0).await, ("b".to_owned(), 100));
    pair.stop().await;
}

/// A durable room never goes on without its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_room_pauses_whatever_it_says() {
    let pair = Pair::<Durable, GoesOn>::start().await;
    pair.room(0).send(CountMsg::Add(7)).await.unwrap();
    pair.total(0).await;
    pair.outage().await;
    pair.room(0).cast(CountMsg::Add(1)).unwrap();
    pair.heal().await;
    eventually("it goes on", async || pair.total(1).await == ("a".to_owned(), 8)).await;
    pair.stop().await;
}
