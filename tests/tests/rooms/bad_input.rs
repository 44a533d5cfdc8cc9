//! Bad input, and what it gets: a typed error that says what was expected and what was found. The room
//! stays where it was and goes on, and the sender gets its message back.

use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::codec::{Frame, FrameKind, body};
use ractor_rooms::id::{Epoch, HostId, IdErr, Incarnation, Number, Producer};
use ractor_rooms::protocol::record::{Answer, AppendAnswer, DeclineReason, Request};
use ractor_rooms::protocol::session::HostState;
use ractor_rooms::testing::{FaultPlan, Operation};
use ractor_rooms::transport::Transport;
use ractor_rooms::{MigrateTo, MigrationErr, RoomErr, RoomFault};
use ractor_rooms_tests::cluster::{Cluster, ask, host_name, room_id, test_store};
use ractor_rooms_tests::holes::{self, Lab, PadMsg, pad};
use ractor_rooms_tests::meddler::Meddler;
use ractor_rooms_tests::rooms::{Class, Document, Durable, Knobs, Ledger, LedgerMsg, Live};
use ractor_rooms_tests::wait::in_time;
use ractor_rooms_tests::{Oracle, eventually};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::in_both_classes;

in_both_classes! {
    /// No host runs documents here.
    a_kind_that_nobody_runs_is_refused_and_the_message_comes_back;
    /// Empty, and 513 bytes.
    a_key_that_is_none_is_refused_everywhere;
    /// From the host of the room and from another.
    a_message_over_the_limit_comes_back;
    /// A host that does not exist, the room's own, and names that are none.
    a_move_to_nowhere_or_to_where_it_is_is_refused;
    /// A cordoned host, and one that shuts down.
    a_move_to_a_host_that_takes_no_rooms_is_refused;
    /// A host that runs other kinds.
    a_move_to_a_host_that_does_not_run_the_kind_is_refused;
    /// Both get the same report.
    a_second_move_to_the_same_host_joins_the_first;
    /// Another target while a move is under way.
    a_second_move_to_another_host_is_refused;
    /// Never started, parked, closed.
    a_move_of_a_room_that_runs_nowhere_is_refused;
    /// And once it returns, nothing is lost.
    a_handler_that_does_not_return_makes_the_move_time_out;
    /// Random bytes, and frames of other things, in the log of a room.
    bytes_that_are_no_message_become_dead_letters;
}

fn note(number: u64) -> LedgerMsg {
    LedgerMsg::Note { from: 1, number }
}

#[track_caller]
fn assert_is_note(message: Option<LedgerMsg>, expected: u64) {
    match message {
        Some(LedgerMsg::Note { from: 1, number }) => assert_eq!(number, expected),
        other => panic!("expected note {expected} back, found {other:?}"),
    }
}

fn host(index: usize) -> HostId {
    HostId::new(host_name(index)).unwrap()
}

async fn a_kind_that_nobody_runs_is_refused_and_the_message_comes_back<C: Class>() {
    use ractor_rooms_tests::rooms::DocumentMsg;
    let cluster = Cluster::of(2).await;
    let room = cluster.hosts[0].room::<Document<C>>("lost");
    match room.send(DocumentMsg::Note { from: 1, number: 7 }).await.unwrap_err() {
        RoomErr::UnknownKind { kind, message: DocumentMsg::Note { from: 1, number: 7 } } => {
            assert_eq!(kind, C::DOCUMENT);
        }
        other => panic!("expected UnknownKind with the message, found {other:?}"),
    }
    let asked = room.call(DocumentMsg::Text, None).await;
    match asked.unwrap_err() {
        error @ RoomErr::UnknownKind { .. } => {
            assert!(error.to_string().contains(C::DOCUMENT), "{error}");
            assert!(matches!(error.into_message(), Some(DocumentMsg::Text(_))));
        }
        other => panic!("expected UnknownKind, found {other:?}"),
    }
    // A cast has no caller any more: the error hook hears of it.
    room.cast(DocumentMsg::Note { from: 1, number: 8 }).unwrap();
    eventually("the error hook is told", || async {
        let told = |fault: &RoomFault| match fault {
            RoomFault::Undelivered { room, why } => {
                room.kind.as_str() == C::DOCUMENT && why.contains("no living host runs this kind")
            }
            _ => false,
        };
        cluster.faults.all().iter().any(told).then_some(())
    })
    .await;
    for index in 0..2 {
        let request = MigrateTo::host(C::DOCUMENT, "lost", host_name(1));
        let refused = in_time("an answer", cluster.hosts[index].migrate(request)).await;
        let kind = C::DOCUMENT.to_owned();
        assert_eq!(refused.unwrap_err(), MigrationErr::UnknownKind { kind });
    }
    cluster.stop().await;
}

async fn a_key_that_is_none_is_refused_everywhere<C: Class>() {
    let cluster = Cluster::of(1).await;
    let empty = IdErr::Empty { what: "key", limit: 512 };
    let long = IdErr::TooLong { what: "key", found: 513, limit: 512 };
    for (key, expected) in [(Bytes::new(), empty), (Bytes::from(vec![b'x'; 513]), long)] {
        let room = cluster.hosts[0].room::<Ledger<C>>(key.clone());
        assert_eq!(room.room().unwrap_err(), expected);
        let refusals = [
            room.send(note(1)).await.unwrap_err(),
            room.cast(note(1)).unwrap_err(),
            room.call(|_| note(1), None)
                .await
                .map(|_: ractor::rpc::CallResult<()>| ())
                .unwrap_err(),
        ];
        for refusal in refusals {
            match &refusal {
                RoomErr::Address { error, .. } => assert_eq!(*error, expected),
                other => panic!("expected Address, found {other:?}"),
            }
            assert_eq!(refusal.to_string(), expected.to_string());
            assert_is_note(refusal.into_message(), 1);
        }
        let refused = room.events().await.unwrap_err().to_string();
        assert!(refused.contains(&expected.to_string()), "{refused}");
        let request = MigrateTo::host(C::LEDGER, key.clone(), host_name(0));
        match cluster.hosts[0].migrate(request).await.unwrap_err() {
            MigrationErr::Address { error } => assert_eq!(error, expected.to_string()),
            other => panic!("expected Address, found {other:?}"),
        }
        assert!(cluster.hosts[0].unload::<Ledger<C>>(key.clone()).await.is_err());
        assert!(cluster.hosts[0].close::<Ledger<C>>(key.clone(), "no", false).await.is_err());
        assert!(cluster.hosts[0].dead_letters::<Ledger<C>>(key).await.is_err());
    }
    // The longest key, of bytes that are no text, is one.
    let longest = Bytes::from(vec![0xff; 512]);
    let room = cluster.hosts[0].room::<Ledger<C>>(longest);
    room.send(note(1)).await.unwrap();
    assert_eq!(ask(&room, LedgerMsg::Notes).await, [(1, 1)]);
    cluster.stop().await;
}

async fn a_message_over_the_limit_comes_back<C: Class>() {
    let cluster = Cluster::with(2, |_, b| b.configure(|c| c.max_message_bytes = 4096)).await;
    cluster.place::<C>("strict", 0).await;
    let blob = |size: usize| LedgerMsg::Blob { from: 2, number: 1, bytes: vec![7; size].into() };
    let room = cluster.ledger::<C>(1, "strict");
    let refusals = [room.send(blob(5000)).await.unwrap_err(), room.cast(blob(5000)).unwrap_err()];
    for refusal in refusals {
        match refusal {
            RoomErr::TooLarge { size, limit, message: LedgerMsg::Blob { bytes, .. } } => {
                assert!(size > 5000, "{size}");
                assert_eq!((limit, bytes.len()), (4096, 5000));
            }
            other => panic!("expected TooLarge with the message, found {other:?}"),
        }
    }
    room.send(blob(4000)).await.unwrap();
    room.send(note(1)).await.unwrap();
    assert_eq!(cluster.notes::<C>(1, "strict").await, [(2, 1), (1, 1)]);
    assert_eq!(cluster.host_of::<C>(0, "strict").await, host_name(0));
    cluster.stop().await;
}

/// A message from a live room's own host is never encoded, so no limit is applied. If it is unread when
/// the room moves it travels all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_large_local_message_of_a_live_room_that_travels_unread_is_handled() {
    let cluster = Cluster::with(2, |_, b| b.configure(|c| c.max_message_bytes = 4096)).await;
    cluster.place::<Live>("strict", 0).await;
    let room = cluster.ledger::<Live>(0, "strict");
    cluster.hang::<Live>(0, "strict").await;
    let blob = LedgerMsg::Blob { from: 1, number: 2, bytes: vec![7; 50_000].into() };
    room.send(blob).await.unwrap();
    room.send(note(3)).await.unwrap();
    let (report, ()) = tokio::join!(cluster.migrate::<Live>(0, "strict", 1), async {
        until_moving(&cluster, 0).await;
        cluster.knobs.let_go();
    });
    assert_eq!(report.unwrap().unread, 2);
    assert_eq!(cluster.notes::<Live>(0, "strict").await, [(1, 1), (1, 2), (1, 3)]);
    cluster.stop().await;
}

/// Waits until a host's only room is moving.
async fn until_moving(cluster: &Cluster, on: usize) {
    eventually("the move begins", || async {
        cluster.hosts[on].rooms().await.unwrap().is_empty().then_some(())
    })
    .await;
}

async fn a_move_to_nowhere_or_to_where_it_is_is_refused<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("home", 0).await;
    let epoch = cluster.whereabouts::<C>(0, "home").await.epoch;
    // Asked of the host of the room, and of another one, which passes it on.
    for via in 0..2 {
        let refused = cluster.migrate::<C>(via, "home", 7).await.unwrap_err();
        assert_eq!(refused, MigrationErr::UnknownHost { host: host(7) });
        assert!(refused.to_string().contains("host-7"), "{refused}");
        let refused = cluster.migrate::<C>(via, "home", 0).await.unwrap_err();
        let room = room_id::<C>("home");
        assert_eq!(refused, MigrationErr::AlreadyThere { room, host: host(0) });
        for name in [String::new(), "h".repeat(129)] {
            let request = MigrateTo::host(C::LEDGER, "home", name);
            match cluster.hosts[via].migrate(request).await.unwrap_err() {
                MigrationErr::Address { error } => {
                    assert!(error.contains("expected 1 to 128"), "{error}");
                }
                other => panic!("expected Address, found {other:?}"),
            }
        }
    }
    let found = cluster.whereabouts::<C>(1, "home").await;
    assert_eq!((found.host, found.epoch), (host_name(0), epoch), "it was never touched");
    cluster.stop().await;
}

async fn a_move_to_a_host_that_takes_no_rooms_is_refused<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("home", 0).await;
    cluster.hosts[1].cordon().unwrap();
    until_state(&cluster, 1, HostState::Cordoned).await;
    for via in [0, 2] {
        let refused = cluster.migrate::<C>(via, "home", 1).await.unwrap_err();
        let state = HostState::Cordoned;
        assert_eq!(refused, MigrationErr::HostNotReady { host: host(1), state });
    }
    assert_eq!(cluster.host_of::<C>(0, "home").await, host_name(0));

    // A host that shuts down waits for its rooms, and this one hangs meanwhile.
    cluster.hosts[1].uncordon().unwrap();
    until_state(&cluster, 1, HostState::Ready).await;
    cluster.place::<C>("other", 1).await;
    cluster.knobs.hold_freezes(true);
    let leaving = cluster.hosts[1].clone();
    let shutdown = tokio::spawn(async move { leaving.shutdown().await });
    until_state(&cluster, 1, HostState::Draining).await;
    let refused = cluster.migrate::<C>(0, "home", 1).await.unwrap_err();
    let state = HostState::Draining;
    assert_eq!(refused, MigrationErr::HostNotReady { host: host(1), state });
    assert_eq!(cluster.host_of::<C>(2, "home").await, host_name(0));
    cluster.knobs.hold_freezes(false);
    in_time("the host stops", shutdown).await.unwrap().unwrap();
    let refused = cluster.migrate::<C>(0, "home", 1).await.unwrap_err();
    assert_eq!(refused, MigrationErr::UnknownHost { host: host(1) });
    assert_eq!(cluster.host_of::<C>(2, "home").await, host_name(0));
}

async fn until_state(cluster: &Cluster, of: usize, expected: HostState) {
    eventually("the host says its state", || async {
        let sessions = cluster.store.inspect(|store| store.sessions());
        let session = sessions.into_iter().find(|s| s.incarnation.host == host(of))?;
        (session.spec.state == expected).then_some(())
    })
    .await;
}

async fn a_move_to_a_host_that_does_not_run_the_kind_is_refused<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("home", 0).await;
    let stranger = ractor_rooms::RoomHost::builder("stranger", cluster.store.clone())
        .room(Document::<C>::new(""))
        .start()
        .await
        .unwrap();
    let request = MigrateTo::host(C::LEDGER, "home", "stranger");
    let refused = in_time("an answer", cluster.hosts[0].migrate(request)).await.unwrap_err();
    let (room, why) = (room_id::<C>("home"), DeclineReason::UnknownKind);
    let host = stranger.id().clone();
    assert_eq!(refused, MigrationErr::TargetCannotRead { host, room, why });
    assert_eq!(cluster.host_of::<C>(1, "home").await, host_name(0));
    stranger.shutdown().await.unwrap();
    cluster.stop().await;
}

async fn a_second_move_to_the_same_host_joins_the_first<C: Class>() {
    let store = test_store();
    let meddler = Meddler::new(store.clone());
    let cluster = Cluster::over(store, meddler.clone(), 3, Knobs::default(), |_, b| b).await;
    cluster.place::<C>("busy", 0).await;
    cluster.knobs.hold_freezes(true);
    let refused = async |via: usize| {
        let refused = cluster.migrate::<C>(via, "busy", 2).await.unwrap_err();
        let (room, to) = (room_id::<C>("busy"), host(1));
        assert_eq!(refused, MigrationErr::AlreadyMoving { room, to });
    };
    let letters = meddler.letters();
    let first = cluster.migrate::<C>(0, "busy", 1);
    let others = async {
        until_moving(&cluster, 0).await;
        let second = cluster.migrate::<C>(0, "busy", 1);
        let third = cluster.migrate::<C>(2, "busy", 1);
        let release = async {
            // What came after them is answered, so both have been taken in.
            refused(0).await;
            eventually("the third is on its way", || async {
                (meddler.letters() > letters).then_some(())
            })
            .await;
            refused(2).await;
            cluster.knobs.hold_freezes(false);
        };
        tokio::join!(second, third, release)
    };
    let (first, (second, third, ())) = tokio::join!(first, others);
    let first = first.unwrap();
    assert_eq!((first.to.clone(), first.error.clone()), (host(1), None));
    assert_eq!(second.unwrap(), first);
    assert_eq!(third.unwrap(), first);
    assert_eq!(cluster.host_of::<C>(0, "busy").await, host_name(1));
    cluster.stop().await;
}

async fn a_second_move_to_another_host_is_refused<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    cluster.knobs.hold_freezes(true);
    let (first, ()) = tokio::join!(cluster.migrate::<C>(0, "busy", 1), async {
        until_moving(&cluster, 0).await;
        for via in 0..3 {
            let refused = cluster.migrate::<C>(via, "busy", 2).await.unwrap_err();
            let (room, to) = (room_id::<C>("busy"), host(1));
            assert_eq!(refused, MigrationErr::AlreadyMoving { room, to });
        }
        cluster.knobs.hold_freezes(false);
    });
    assert_eq!(first.unwrap().to, host(1));
    assert_eq!(cluster.host_of::<C>(2, "busy").await, host_name(1));
    cluster.stop().await;
}

async fn a_move_of_a_room_that_runs_nowhere_is_refused<C: Class>() {
    let cluster = Cluster::of(2).await;
    let refused = async |key: &str, expected: &str| {
        for via in 0..2 {
            match cluster.migrate::<C>(via, key, 1).await.unwrap_err() {
                MigrationErr::NotRunning { room, why } => {
                    assert_eq!(room, room_id::<C>(key));
                    assert!(why.to_string().contains(expected), "{why}");
                }
                other => panic!("expected NotRunning, found {other:?}"),
            }
        }
    };
    refused("unborn", "never started").await;
    assert_eq!(cluster.record::<C>("unborn"), None, "asking does not create it");

    cluster.place::<C>("resting", 0).await;
    cluster.unload::<C>(0, "resting").await;
    refused("resting", "parked").await;

    cluster.place::<C>("ended", 0).await;
    cluster.ledger::<C>(0, "ended").send(LedgerMsg::End("over".to_owned())).await.unwrap();
    eventually("the room ends", || async {
        cluster.runs_on::<C>("ended").await.is_empty().then_some(())
    })
    .await;
    refused("ended", "closed: over").await;
    cluster.stop().await;
}

async fn a_handler_that_does_not_return_makes_the_move_time_out<C: Class>() {
    let waited = Duration::from_millis(300);
    let cluster = Cluster::with(2, |_, b| b.configure(|c| c.freeze_timeout = waited)).await;
    cluster.place::<C>("stuck", 0).await;
    let oracle = Oracle::default();
    let (local, remote) = (cluster.ledger::<C>(0, "stuck"), cluster.ledger::<C>(1, "stuck"));
    let send_some = |from: u64| {
        for number in from..from + 50 {
            for (sender, room) in [(2, &local), (3, &remote)] {
                room.cast(LedgerMsg::Note { from: sender, number }).unwrap();
                oracle.accepted(sender, number);
            }
        }
    };
    cluster.hang::<C>(0, "stuck").await;
    oracle.accepted(1, 1);
    send_some(1);
    for round in 0..2 {
        match cluster.migrate::<C>(round, "stuck", 1).await.unwrap_err() {
            error @ MigrationErr::FreezeTimedOut { .. } => {
                assert!(error.to_string().contains("300ms"), "{error}");
            }
            other => panic!("expected FreezeTimedOut, found {other:?}"),
        }
        send_some(51 + 50 * round as u64);
    }
    cluster.until_on::<C>(0, "stuck").await;
    cluster.knobs.let_go();
    send_some(151);
    for via in 0..2 {
        cluster.notes::<C>(via, "stuck").await; // behind everything that was sent that way
    }
    oracle.assert_clean(&cluster.notes::<C>(0, "stuck").await);
    assert_eq!(cluster.host_of::<C>(0, "stuck").await, host_name(0));
    eventually("it can move again", || async { cluster.migrate::<C>(0, "stuck", 1).await.ok() })
        .await;
    send_some(201);
    for via in 0..2 {
        cluster.notes::<C>(via, "stuck").await;
    }
    oracle.assert_clean(&cluster.notes::<C>(0, "stuck").await);
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

async fn bytes_that_are_no_message_become_dead_letters<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("target", 0).await;
    let room = cluster.ledger::<C>(1, "target");
    room.send(note(1)).await.unwrap();

    let mut rng = ChaCha8Rng::seed_from_u64(0x5eed);
    let mut junk = vec![Bytes::new()];
    for size in [1, 2, 17, 18, 19, 64, 1000, 70_000] {
        let mut bytes = vec![0; size];
        rng.fill_bytes(&mut bytes);
        junk.push(bytes.clone().into());
        // In a frame whose checksum is right, the body is wrong; and a frame of something else.
        for kind in [FrameKind::Message, FrameKind::Event, FrameKind::Snapshot] {
            junk.push(Frame::new(kind, 1, bytes.clone().into()).unwrap().encode());
        }
    }
    // A length that promises more than there is.
    let promise = body::encode(&(0u8, 1u8, u64::MAX), 64).unwrap();
    junk.push(Frame::new(FrameKind::Message, 1, promise).unwrap().encode());

    let stranger = Incarnation { host: HostId::new("stranger").unwrap(), number: u64::MAX };
    for (number, bytes) in (1..).zip(&junk) {
        let request = Request::Append {
            life: None,
            producer: Producer::Host(stranger.clone()),
            epoch: 0,
            first: Number(number),
            batch: vec![bytes.clone()],
        };
        let answer = cluster.store.execute(&room_id::<C>("target"), request, Epoch(0)).await;
        assert!(matches!(answer, Ok(Answer::Append(AppendAnswer::Accepted { .. }))), "{answer:?}");
    }
    room.send(note(2)).await.unwrap();
    assert_eq!(cluster.notes::<C>(1, "target").await, [(1, 1), (1, 2)]);

    let letters = cluster.hosts[1].dead_letters::<Ledger<C>>("target").await.unwrap();
    let kept: Vec<_> = letters.iter().map(|letter| letter.message.clone()).collect();
    assert_eq!(kept, junk, "each is kept as it came");
    for letter in &letters {
        assert!(!letter.error.is_empty());
        assert_eq!(letter.attempts, 0, "no handler saw it");
    }
    let dead = |f: &&RoomFault| matches!(f, RoomFault::DeadLetter { .. });
    assert_eq!(cluster.faults.all().iter().filter(dead).count(), junk.len());

    // It moves with them, and they are not tried again.
    cluster.migrate::<C>(0, "target", 1).await.unwrap();
    assert_eq!(cluster.notes::<C>(0, "target").await, [(1, 1), (1, 2)]);
    let letters = cluster.hosts[0].dead_letters::<Ledger<C>>("target").await.unwrap();
    assert_eq!(letters.len(), junk.len());
    cluster.stop().await;
}

/// A room of one class is not one of the other: the kinds have names of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rooms_of_two_kinds_and_one_key_do_not_meet() {
    let cluster = Cluster::of(1).await;
    cluster.ledger::<Live>(0, "same").send(note(1)).await.unwrap();
    cluster.ledger::<Durable>(0, "same").send(note(2)).await.unwrap();
    assert_eq!(cluster.notes::<Live>(0, "same").await, [(1, 1)]);
    assert_eq!(cluster.notes::<Durable>(0, "same").await, [(1, 2)]);
    cluster.stop().await;
}

/// A message that nobody takes in time comes back with what stood in its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_expires_says_why() {
    let lab = Lab::default();
    let client = lab
        .host_with("client", |c| {
            c.capacity = 0;
            c.send_timeout = Duration::from_millis(300);
        })
        .await;
    let room = pad::<holes::Durable>(&client, "pad");
    let why = async |number| match room.send(holes::note(1, number)).await {
        Err(RoomErr::Expired { why, message: PadMsg::Note { number: back, .. }, .. }) => {
            assert_eq!(back, number);
            why
        }
        other => panic!("expected Expired, found {other:?}"),
    };
    let found = why(1).await;
    assert!(found.contains("no host"), "{found}");

    let a = lab.host("a").await;
    lab.bring::<holes::Durable>("pad", &a, "a").await;
    let only = [Operation::Append].into();
    lab.net.set_plan(FaultPlan { refuse: 1_000, only, ..FaultPlan::calm() });
    let found = why(2).await;
    assert!(found.contains("store"), "{found}");
    lab.net.set_plan(FaultPlan::calm());
    room.send(holes::note(1, 3)).await.unwrap();
    assert_eq!(holes::show(&room).await.notes, [(1, 3)]);
    holes::stop(&[&a, &client]).await;
}
