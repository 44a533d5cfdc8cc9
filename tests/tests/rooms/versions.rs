//! Schema versions: a newer app reads what an older one wrote, and never the other way round.

use std::marker::PhantomData;

use ractor::ActorProcessingErr;
use ractor_rooms::codec::body;
use ractor_rooms::id::RoomId;
use ractor_rooms::protocol::record::{DeclineReason, ParkReason, Phase};
use ractor_rooms::{
    Delivery, MemoryTransport, MigrateTo, MigrationErr, Reply, RoomActor, RoomContext, RoomHost,
    RoomRef,
};
use ractor_rooms_tests::cluster::{ask, test_config, test_store};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::rooms::Class;
use ractor_rooms_tests::wait::in_time;
use serde::{Deserialize, Serialize};

use crate::in_both_classes;

in_both_classes! {
    /// By a move to a host with the newer app.
    a_newer_app_upgrades_the_state_of_an_older_one;
    /// Refused before anything is frozen.
    a_move_to_an_older_app_is_refused_and_the_room_stays;
    /// The room stays where it was.
    an_app_that_cannot_upgrade_declines_the_room;
    /// It rests until a host reads it again.
    a_state_that_only_a_newer_app_reads_is_kept_for_it;
}

const KIND: &str = "book";

#[derive(Debug, Serialize, Deserialize)]
enum BookMsg {
    Write(String),
    Read(Reply<Vec<String>>),
}

/// The first release: the state is the pages.
struct First<C>(PhantomData<fn() -> C>);

/// The second: pages have numbers, and each remembers who wrote its schema.
struct Second<C>(PhantomData<fn() -> C>);

/// A second release whose author forgot the upgrade.
struct Forgetful<C>(PhantomData<fn() -> C>);

#[derive(Serialize, Deserialize)]
struct Numbered {
    pages: Vec<(u32, String)>,
    upgraded_from: u32,
}

impl<C: Class> RoomActor for First<C> {
    const KIND: &'static str = KIND;
    const DELIVERY: Delivery = C::DELIVERY;
    type Msg = BookMsg;
    type State = Vec<String>;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Vec<String>, ActorProcessingErr> {
        Ok(Vec::new())
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        msg: BookMsg,
        state: &mut Vec<String>,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            BookMsg::Write(page) => state.push(page),
            BookMsg::Read(reply) => reply.send(state.clone()),
        }
        Ok(())
    }
}

fn handle_numbered(msg: BookMsg, state: &mut Numbered) {
    match msg {
        BookMsg::Write(page) => state.pages.push((state.pages.len() as u32 + 1, page)),
        BookMsg::Read(reply) => {
            let title = format!("from {}", state.upgraded_from);
            let pages = state.pages.iter().map(|(number, page)| format!("{number}: {page}"));
            reply.send(std::iter::once(title).chain(pages).collect());
        }
    }
}

impl<C: Class> RoomActor for Second<C> {
    const KIND: &'static str = KIND;
    const DELIVERY: Delivery = C::DELIVERY;
    const STATE_VERSION: u32 = 2;
    type Msg = BookMsg;
    type State = Numbered;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Numbered, ActorProcessingErr> {
        Ok(Numbered { pages: Vec::new(), upgraded_from: 0 })
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        msg: BookMsg,
        state: &mut Numbered,
    ) -> Result<(), ActorProcessingErr> {
        handle_numbered(msg, state);
        Ok(())
    }

    fn upgrade(&self, version: u32, bytes: &[u8]) -> Result<Numbered, ActorProcessingErr> {
        let pages: Vec<String> = body::decode(bytes, bytes.len())?;
        Ok(Numbered { pages: (1..).zip(pages).collect(), upgraded_from: version })
    }
}

impl<C: Class> RoomActor for Forgetful<C> {
    const KIND: &'static str = KIND;
    const DELIVERY: Delivery = C::DELIVERY;
    const STATE_VERSION: u32 = 2;
    type Msg = BookMsg;
    type State = Numbered;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Numbered, ActorProcessingErr> {
        Ok(Numbered { pages: Vec::new(), upgraded_from: 0 })
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        msg: BookMsg,
        state: &mut Numbered,
    ) -> Result<(), ActorProcessingErr> {
        handle_numbered(msg, state);
        Ok(())
    }
}

async fn host<R: RoomActor<Arguments = ()>>(
    name: &str,
    store: &MemoryTransport,
    actor: R,
) -> RoomHost {
    let builder = RoomHost::builder(name, store.clone()).config(test_config()).room(actor);
    in_time("the host starts", builder.start()).await.unwrap()
}

async fn migrate(host: &RoomHost, to: &str) -> Result<(), MigrationErr> {
    let request = MigrateTo::host(KIND, "novel", to);
    in_time("the move ends", host.migrate(request)).await.map(|_| ())
}

async fn write<R: RoomActor<Msg = BookMsg>>(room: &RoomRef<R>, pages: &[&str]) {
    for page in pages {
        room.send(BookMsg::Write((*page).to_owned())).await.unwrap();
    }
    ask(room, BookMsg::Read).await;
}

async fn stop(hosts: impl IntoIterator<Item = RoomHost>) {
    for host in hosts {
        in_time("the host stops", host.shutdown()).await.unwrap();
    }
}

async fn a_newer_app_upgrades_the_state_of_an_older_one<C: Class>() {
    let store = test_store();
    let old = host("old", &store, First::<C>(PhantomData)).await;
    let room = old.room::<First<C>>("novel");
    write(&room, &["one", "two"]).await;
    let new = host("new", &store, Second::<C>(PhantomData)).await;
    migrate(&old, "new").await.unwrap();
    write(&room, &["three"]).await;
    assert_eq!(ask(&room, BookMsg::Read).await, ["from 1", "1: one", "2: two", "3: three"]);
    stop([old, new]).await;
}

async fn a_move_to_an_older_app_is_refused_and_the_room_stays<C: Class>() {
    let store = test_store();
    let new = host("new", &store, Second::<C>(PhantomData)).await;
    let room = new.room::<Second<C>>("novel");
    write(&room, &["one"]).await;
    let old = host("old", &store, First::<C>(PhantomData)).await;
    for asked in [&new, &old] {
        let refused = migrate(asked, "old").await.unwrap_err();
        let why = DeclineReason::UnreadableVersion { found: 2, supported: 1 };
        let room = RoomId::new(KIND, "novel").unwrap();
        let host = old.id().clone();
        assert_eq!(refused, MigrationErr::TargetCannotRead { host, room, why });
    }
    write(&room, &["two"]).await;
    assert_eq!(ask(&room, BookMsg::Read).await, ["from 0", "1: one", "2: two"]);
    assert_eq!(new.rooms().await.unwrap().len(), 1);
    stop([new, old]).await;
}

async fn an_app_that_cannot_upgrade_declines_the_room<C: Class>() {
    let store = test_store();
    let old = host("old", &store, First::<C>(PhantomData)).await;
    let room = old.room::<First<C>>("novel");
    write(&room, &["one"]).await;
    let forgetful = host("forgetful", &store, Forgetful::<C>(PhantomData)).await;
    match migrate(&old, "forgetful").await.unwrap_err() {
        MigrationErr::NotAdopted { why: Some(DeclineReason::RestoreFailed { error }), .. } => {
            assert!(error.contains("expected a state of schema version 2, found 1"), "{error}");
        }
        other => panic!("expected NotAdopted with the reason, found {other:?}"),
    }
    write(&room, &["two"]).await;
    assert_eq!(ask(&room, BookMsg::Read).await, ["one", "two"]);
    assert_eq!(old.rooms().await.unwrap().len(), 1);
    stop([old, forgetful]).await;
}

async fn a_state_that_only_a_newer_app_reads_is_kept_for_it<C: Class>() {
    let store = test_store();
    let new = host("new", &store, Second::<C>(PhantomData)).await;
    write(&new.room::<Second<C>>("novel"), &["one"]).await;
    stop([new]).await;

    let old = host("old", &store, First::<C>(PhantomData)).await;
    let room = old.room::<First<C>>("novel");
    room.send(BookMsg::Write("two".to_owned())).await.unwrap();
    let id = RoomId::new(KIND, "novel").unwrap();
    eventually("the older app declines", || async {
        let phase = store.inspect(|store| store.record(&id).unwrap().phase.clone());
        let Phase::Parked { why } = phase else { return None };
        let (ParkReason::Declined { why } | ParkReason::Blocked { why, .. }) = why else {
            return None;
        };
        assert_eq!(why, DeclineReason::UnreadableVersion { found: 2, supported: 1 });
        Some(())
    })
    .await;
    assert_eq!(old.rooms().await.unwrap(), []);

    let new = host("new", &store, Second::<C>(PhantomData)).await;
    let read = ask(&new.room::<Second<C>>("novel"), BookMsg::Read).await;
    assert_eq!(read, ["from 0", "1: one", "2: two"]);
    stop([old, new]).await;
}
