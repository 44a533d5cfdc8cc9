//! What other projects' users reported, as tests over a real server.

use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::clock::Clock;
use ractor_rooms::transport::{Push, Transport};
use ractor_rooms::{EventStream, RoomErr, RoomEvent, RoomFault};
use ractor_rooms_redis::testing::{PrivateServer, Proxy};
use ractor_rooms_redis::{ConnectErr, RedisConfig};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::hosts::{Hosts, PATIENCE, ask, eventually, in_time, notes, place};
use crate::in_both_classes;
use crate::journal::{Journal, Told};
use crate::ledger::{Class, Durable, Ledger, LedgerMsg, Live, Note};
use crate::store::{Owner, config, connections, operator, run};

const KEY: &[u8] = b"b";

in_both_classes! {
    br06_a_room_handles_what_it_missed_once;
    br06_a_member_sees_what_it_missed_once;
    br26_odd_keys_stay_apart;
}

/// How many channels somebody listens to.
async fn channels(operator: &mut MultiplexedConnection, pattern: &str) -> usize {
    run::<Vec<Value>>(operator, &["PUBSUB", "CHANNELS", pattern]).await.len()
}

/// A link to the server that is cut and restored, and what the server sees of it.
struct Cord {
    proxy: Proxy,
    operator: MultiplexedConnection,
    pattern: &'static str,
}

impl Cord {
    async fn until_listening(&self, listening: bool) {
        eventually("the host listens, or not", || async {
            let found = channels(&mut self.operator.clone(), self.pattern).await;
            ((found > 0) == listening).then_some(())
        })
        .await;
    }

    async fn cut(&self) {
        self.proxy.close();
        self.until_listening(false).await;
    }

    async fn restore(&self) {
        self.proxy.heal();
        self.until_listening(true).await;
    }
}

/// Hosts `a`, behind a cord, and `b`.
async fn one_behind_a_cord(server: &PrivateServer) -> (Cord, Hosts) {
    let proxy = Proxy::start(server.port()).await.unwrap();
    let mut hosts = Hosts::default();
    hosts.add("a", &RedisConfig::new(proxy.url()).shards(4), |_| ()).await;
    hosts.add("b", &config(server), |_| ()).await;
    let operator = operator(&server.url()).await;
    (Cord { proxy, operator, pattern: "rooms:to:a#*" }, hosts)
}

/// Given a room that has handled 1 to 10, and 11 to 15 that wait while its host's link is cut. When the
/// link is restored, and cut and restored twice more with nothing new, and then 16 is sent. Then each is
/// handled once, and the room is at 15 after each and at 16 at the end.
async fn br06_a_room_handles_what_it_missed_once<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let (cord, hosts) = one_behind_a_cord(&server).await;
    hosts.place::<C>(KEY, 0).await;
    let far = hosts.ledger::<C>(1, KEY);
    let up_to = |last: u64| (1..=last).map(|number| (1, number)).collect::<Vec<Note>>();
    let journal = Journal::default();
    in_time("ten are accepted", journal.write(far.clone(), 1, 1..=10)).await.unwrap();
    assert_eq!(notes(&far).await, up_to(10));
    cord.cut().await;
    in_time("five are accepted", journal.write(far.clone(), 1, 11..=15)).await.unwrap();
    assert_eq!(hosts.knobs.handled_on("a"), up_to(10), "the link is cut");
    cord.restore().await;
    assert_eq!(notes(&far).await, up_to(15));
    for _ in 0..2 {
        cord.cut().await;
        cord.restore().await;
        assert_eq!(notes(&far).await, up_to(15));
    }
    in_time("the last is accepted", journal.write(far.clone(), 1, 16..=16)).await.unwrap();
    journal.assert_exact(16, &notes(&far).await);
    assert_eq!(hosts.knobs.handled_on("a"), up_to(16), "each was handled once, on the same host");
    assert_eq!(hosts.faults(), []);
    hosts.stop().await;
}

async fn next_number<C: Class>(events: &mut EventStream<Ledger<C>>) -> u64 {
    match in_time("an event comes", events.next()).await {
        Some(RoomEvent::Event { number, event }) => {
            assert_eq!(number.0, event);
            event
        }
        other => panic!("expected an event, found {other:?}"),
    }
}

/// The same for a member that watches the room over the link.
async fn br06_a_member_sees_what_it_missed_once<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let (cord, hosts) = one_behind_a_cord(&server).await;
    hosts.place::<C>(KEY, 1).await;
    let room = hosts.ledger::<C>(1, KEY);
    let mut events = hosts.ledger::<C>(0, KEY).events().await.unwrap();
    let emit = async |times: usize| {
        for _ in 0..times {
            room.send(LedgerMsg::Emit).await.unwrap();
        }
    };
    emit(10).await;
    for number in 1..=10 {
        assert_eq!(next_number(&mut events).await, number);
    }
    cord.cut().await;
    emit(5).await;
    cord.restore().await;
    for number in 11..=15 {
        assert_eq!(next_number(&mut events).await, number);
    }
    for _ in 0..2 {
        cord.cut().await;
        cord.restore().await;
    }
    emit(1).await;
    assert_eq!(next_number(&mut events).await, 16, "nothing comes again before it");
    hosts.stop().await;
}

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Given eight rooms of one host. When what the connections carry changes 500 times at random moments, by
/// reads that are dropped half-way, by rooms that rest and wake, and by members that come and go, while
/// 10,000 numbered messages go to the rooms. Then each room has its own, all, in order, and the host has
/// as many connections as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br08_reads_that_are_dropped_leave_nothing_behind() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    let keys: Vec<Vec<u8>> = (0..4).map(|i| format!("room-{i}").into_bytes()).collect();
    for key in &keys {
        hosts.place::<Live>(key, 0).await;
        hosts.place::<Durable>(key, 0).await;
    }
    let mut operator = operator(&server.url()).await;
    let before = connections(&mut operator).await;
    let mut writers = Vec::new();
    let mut journals = Vec::new();
    for (from, key) in (0..).zip(&keys) {
        let (live, durable) = (Journal::default(), Journal::default());
        writers.push(live.write(hosts.ledger::<Live>(1, key), from, 1..=1_250));
        writers.push(durable.write(hosts.ledger::<Durable>(1, key), 100 + from, 1..=1_250));
        journals.push((live, durable));
    }
    let mut dice = Dice(7);
    let mut members = Vec::new();
    let mut dropped = 0;
    for _ in 0..500 {
        tokio::time::sleep(Duration::from_millis(1 + dice.below(10))).await;
        let key = &keys[dice.below(4) as usize];
        match dice.below(3) {
            0 => {
                let other = format!("watched-{}", dice.below(64)).into_bytes();
                members.push(hosts.ledger::<Durable>(1, &other).events().await.unwrap());
                if members.len() > 8 {
                    members.remove(0);
                }
            }
            1 => {
                let room = hosts.ledger::<Durable>(1, key);
                let read = room.call(LedgerMsg::Notes, None);
                // In turns of the runtime, whose clock is too coarse for what takes less than it.
                let mut read = std::pin::pin!(read);
                let mut answered = false;
                for _ in 0..=dice.below(40) {
                    answered = futures::poll!(&mut read).is_ready();
                    if answered {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                dropped += usize::from(!answered);
            }
            _ => {
                hosts.hosts[0].unload::<Ledger<Live>>(key.clone()).await.unwrap();
            }
        }
    }
    assert!(dropped > 50, "only {dropped} reads were dropped half-way");
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    for (key, (live, durable)) in keys.iter().zip(&journals) {
        live.assert_exact(1_250, &notes(&hosts.ledger::<Live>(1, key)).await);
        durable.assert_exact(1_250, &notes(&hosts.ledger::<Durable>(1, key)).await);
    }
    drop(members);
    let after = connections(&mut operator).await;
    assert!(before.abs_diff(after) <= 1, "{before} connections before, {after} after");
    hosts.stop().await;
}

/// Given a host that listens and is idle. When it renews its session, and when something is published to
/// it. Then neither waits for the listening.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br08_listening_delays_neither_a_renewal_nor_a_push() {
    use futures::StreamExt;
    let server = PrivateServer::start().await.unwrap();
    let store = config(&server).connect().await.unwrap();
    let owner = Owner::new(&store).await;
    let mut pushes = store.subscribe(owner.by()).await.unwrap();
    let clock = Clock::system();
    let (mut renewals, mut arrivals) = (Vec::new(), Vec::new());
    for number in 1..=11_u64 {
        let from = clock.mark();
        assert!(owner.renew().await);
        renewals.push(clock.elapsed_since(from));
        let from = clock.mark();
        assert!(store.post(owner.by(), Bytes::from(number.to_string())).await.unwrap());
        let push = in_time("a push comes", pushes.next()).await;
        arrivals.push(clock.elapsed_since(from));
        assert!(matches!(push, Some(Push::Letter { position, .. }) if position == number));
    }
    // A machine that is busy delays some; a connection that blocks delays all.
    for times in [&mut renewals, &mut arrivals] {
        times.sort_unstable();
        assert!(times[5] < Duration::from_millis(200), "half took longer: {times:?}");
    }
}

/// Given a durable room on a host behind a link, which somebody else sends twenty messages a second. When
/// the link swallows every byte in both directions for five seconds and closes nothing. Then that host
/// says within three seconds that its session has lapsed, handles nothing after that, the room goes on
/// elsewhere with every message once and in order, and the host comes back with as many connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br09_a_link_that_swallows_everything_is_noticed() {
    const TTL: Duration = Duration::from_secs(2);
    let server = PrivateServer::start().await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let mut hosts = Hosts::default();
    let behind = RedisConfig::new(proxy.url()).shards(4).deadline(Duration::from_secs(1));
    hosts.add("a", &behind, |c| c.session_ttl = TTL).await;
    hosts.add("b", &config(&server), |c| c.session_ttl = TTL).await;
    hosts.place::<Durable>(KEY, 0).await;
    let mut operator = operator(&server.url()).await;
    let before = connections(&mut operator).await;
    let (journal, room) = (Journal::default(), hosts.ledger::<Durable>(1, KEY));
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let writing = tokio::spawn({
        let (journal, room) = (journal.clone(), room.clone());
        async move {
            let mut number = 0;
            let mut pace = tokio::time::interval(Duration::from_millis(50));
            while !*stopped.borrow_and_update() {
                number += 1;
                in_time("a send ends", room.send(LedgerMsg::Note((1, number)))).await.unwrap();
                journal.note((1, number), Told::Accepted);
                pace.tick().await;
            }
            number
        }
    });
    journal.until_accepted(10).await;
    let clock = Clock::system();
    proxy.swallow();
    let from = clock.mark();
    let lapsed = |fault: &RoomFault| matches!(fault, RoomFault::SessionLapsed { rooms: 1, .. });
    eventually("the host notices", || async { hosts.faults().iter().any(lapsed).then_some(()) })
        .await;
    let noticed = clock.elapsed_since(from);
    assert!(noticed < Duration::from_secs(3), "it took {noticed:?}");
    let handled = hosts.knobs.handled_on("a").len();
    let rest = Duration::from_secs(5).saturating_sub(clock.elapsed_since(from));
    tokio::time::sleep(rest).await; // the five seconds of the report
    assert_eq!(place(&room).await, "b");
    assert_eq!(run::<i64>(&mut operator, &["EXISTS", "rooms:{h-a}:session"]).await, 0);
    proxy.heal();
    // What it had before has expired, so that this is a new one.
    let again = || async {
        let session = ["EXISTS", "rooms:{h-a}:session"];
        (run::<i64>(&mut operator.clone(), &session).await == 1).then_some(())
    };
    eventually("the host has a session again", again).await;
    stop.send(true).unwrap();
    let sent = in_time("the writer stops", writing).await.unwrap();
    journal.assert_exact(sent as usize, &notes(&room).await);
    assert_eq!(hosts.knobs.handled_on("a").len(), handled, "handled without a session");
    eventually("the old connections are gone", || async {
        let now = connections(&mut operator.clone()).await;
        (now.abs_diff(before) <= 1).then_some(())
    })
    .await;
    assert_eq!(place(&hosts.ledger::<Durable>(0, KEY)).await, "b");
    hosts.stop().await;
}

/// The keys of BR-26 and H-14.
pub(crate) fn odd_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        "user!31",
        "user#31",
        "a/b",
        "a:b",
        "a b",
        "a%2Fb",
        "{x}y",
        "A}B{C",
        "{}",
        "*",
        "?[a]",
        "a\nb",
        "}x",
        "{}x}",
        "{a}{b}",
        "{",
        "}",
        "4:live:b",
        "é",
        "\r\n$1\r\nx",
    ]
    .map(|key| key.as_bytes().to_vec())
    .to_vec();
    keys.push(vec![b'k'; 512]);
    keys.push(vec![0xff, 0xfe, 0x00]);
    keys.push(vec![0x00]);
    keys
}

/// Sets the counter of a room for each odd key, moves each once, and starts its host anew.
pub(crate) async fn rooms_of_odd_keys<C: Class>(store: &RedisConfig) {
    let mut hosts = Hosts::of(store, &["a", "b"]).await;
    let keys = odd_keys();
    let rooms = |hosts: &Hosts, via: usize| {
        keys.iter().map(|key| hosts.ledger::<C>(via, key)).collect::<Vec<_>>()
    };
    for (index, (key, room)) in (1..).zip(keys.iter().zip(rooms(&hosts, 0))) {
        hosts.place::<C>(key, 0).await;
        for number in 1..=index {
            room.cast(LedgerMsg::Note((index as u32, number))).unwrap();
        }
    }
    for key in &keys {
        hosts.migrate::<C>(0, key, 1).await.expect("the room moves");
    }
    let count = async |room: &ractor_rooms::RoomRef<Ledger<C>>| {
        let notes = notes(room).await;
        let from = notes.first().map_or(0, |note| note.0);
        let expected: Vec<Note> = (1..=notes.len() as u64).map(|number| (from, number)).collect();
        assert_eq!(notes, expected);
        (from, notes.len() as u64)
    };
    let expected: Vec<(u32, u64)> = (1..=keys.len() as u64).map(|i| (i as u32, i)).collect();
    let counts = async |hosts: &Hosts, via: usize| {
        let mut counts = Vec::new();
        for room in rooms(hosts, via) {
            counts.push(count(&room).await);
        }
        counts
    };
    assert_eq!(counts(&hosts, 0).await, expected);
    let mut listed: Vec<Vec<u8>> = Vec::new();
    for room in hosts.hosts[1].rooms().await.unwrap() {
        listed.push(room.key.as_bytes().to_vec());
    }
    listed.sort();
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(listed, sorted, "as many rooms as keys, named byte for byte");
    // One of them rests; the others do not notice.
    hosts.hosts[1].unload::<Ledger<C>>(keys[0].clone()).await.unwrap();
    assert_eq!(counts(&hosts, 0).await, expected);
    let restarted = hosts.hosts.remove(1);
    in_time("the host stops", restarted.shutdown()).await.expect("the host stops");
    hosts.add("b", store, |_| ()).await;
    assert_eq!(counts(&hosts, 1).await, expected);
    for key in [Vec::new(), vec![b'k'; 513]] {
        let sent = hosts.ledger::<C>(0, &key).send(LedgerMsg::Save).await;
        assert!(matches!(sent, Err(RoomErr::Address { .. })), "{sent:?}");
    }
    assert_eq!(hosts.faults(), []);
    hosts.stop().await;
}

/// Given rooms with odd keys, and keys of somebody else that look like the library's. When each room is
/// moved once and its host started anew. Then the counters are right and what is foreign is untouched.
async fn br26_odd_keys_stay_apart<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let mut operator = operator(&server.url()).await;
    let foreign = [
        "rooms",
        "roomsX:{s0000}:meta:4:live:*",
        "Rooms:config",
        "other:{s0001}:log:4:live:a",
        "*",
    ];
    for key in foreign {
        run::<()>(&mut operator, &["SET", key, key]).await;
    }
    rooms_of_odd_keys::<C>(&config(&server)).await;
    for key in foreign {
        assert_eq!(run::<Option<String>>(&mut operator, &["GET", key]).await.as_deref(), Some(key));
    }
}

/// Given a user with a password full of reserved characters. When hosts connect by a URL and by separate
/// fields. Then both work, pushes and snapshots too. A wrong password is an error within two seconds,
/// after at most three attempts, and no text shows a password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br28_a_password_of_reserved_characters() {
    const SECRET: &str = "p@s:s/w?o#r%d=+ é";
    const ENCODED: &str = "p%40s%3As%2Fw%3Fo%23r%25d%3D%2B%20%C3%A9";
    let server = PrivateServer::start().await.unwrap();
    let mut operator = operator(&server.url()).await;
    let password = format!(">{SECRET}");
    let rights = ["~rooms:*", "&rooms:*", "+@all", "-@admin"];
    let user = ["ACL", "SETUSER", "app", "on", &password];
    run::<()>(&mut operator, &[&user[..], &rights[..]].concat()).await;
    run::<()>(&mut operator, &["ACL", "SETUSER", "default", "resetkeys", "resetchannels"]).await;
    let by_url = RedisConfig::new(format!("redis://app:{ENCODED}@127.0.0.1:{}", server.port()));
    let by_fields = RedisConfig::new(server.url()).username("app").password(SECRET);
    let mut hosts = Hosts::default();
    hosts.add("a", &by_url, |_| ()).await;
    hosts.add("b", &by_fields, |_| ()).await;
    hosts.place::<Durable>(KEY, 0).await;
    hosts.ledger::<Durable>(0, KEY).send(LedgerMsg::Note((1, 1))).await.unwrap();
    let mut events = hosts.ledger::<Durable>(0, KEY).events().await.unwrap();
    hosts.migrate::<Durable>(0, KEY, 1).await.expect("the room moves");
    let room = hosts.ledger::<Durable>(0, KEY);
    room.send(LedgerMsg::Emit).await.unwrap();
    assert_eq!(next_number(&mut events).await, 1);
    assert_eq!(notes(&room).await, [(1, 1)]);

    run::<()>(&mut operator, &["ACL", "LOG", "RESET"]).await;
    let wrong = by_fields.clone().password("hunter2=%");
    let clock = Clock::system();
    let from = clock.mark();
    let error = in_time("it is refused", wrong.clone().connect()).await.unwrap_err();
    let took = clock.elapsed_since(from);
    assert!(took < Duration::from_secs(2), "it took {took:?}");
    assert!(matches!(error, ConnectErr::Authentication { .. }), "{error:?}");
    let log: Vec<Vec<Value>> = run(&mut operator, &["ACL", "LOG"]).await;
    let attempts: i64 = log
        .iter()
        .filter_map(|entry| match entry.get(1) {
            Some(Value::Int(count)) => Some(*count),
            _ => None,
        })
        .sum();
    assert!((1..=3).contains(&attempts), "{attempts} attempts: {log:?}");
    let texts = [
        format!("{error}"),
        format!("{error:?}"),
        format!("{by_url:?} {by_fields:?} {wrong:?}"),
        format!("{hosts:?}"),
        format!("{:?}", by_url.connect().await.unwrap()),
    ];
    for text in texts {
        for secret in [SECRET, ENCODED, "hunter2"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    hosts.stop().await;
}

/// The rights that the documentation says a user needs.
pub(crate) fn documented_rights() -> Vec<&'static str> {
    let layout = include_str!("../../docs/layout.md");
    let rule = layout.lines().find_map(|line| line.strip_prefix("> ACL SETUSER rooms "));
    rule.expect("the rights are documented").split_whitespace().skip(2).collect()
}

/// Given a user with all commands and keys and no channels. Then a host does not start, within two
/// seconds, and says what is missing. With the channels it starts, and with no more than what is
/// documented everything works. When a right is withdrawn while it runs, a sender gets an error and the
/// message is not accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br29_rights_that_are_missing_are_named() {
    let server = PrivateServer::start().await.unwrap();
    let mut operator = operator(&server.url()).await;
    let mut user = async |words: &[&str]| {
        run::<()>(&mut operator, &[&["ACL", "SETUSER", "rooms"], words].concat()).await;
    };
    user(&["on", ">hunter2", "resetchannels", "~rooms:*", "+@all"]).await;
    let config = config(&server).username("rooms").password("hunter2");
    let clock = Clock::system();
    let from = clock.mark();
    let error = in_time("it is refused", config.clone().connect()).await.unwrap_err();
    let took = clock.elapsed_since(from);
    assert!(took < Duration::from_secs(2), "it took {took:?}");
    let ConnectErr::MissingRight { right } = &error else { panic!("{error:?}") };
    assert!(right.contains("channel"), "{right}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    user(&["&rooms:*"]).await;
    drop(config.clone().connect().await.expect("with its channels it starts"));

    user(&["reset", "on", ">hunter2"]).await;
    user(&documented_rights()).await;
    let mut hosts = Hosts::default();
    hosts.add("a", &config, |_| ()).await;
    let quick = |c: &mut ractor_rooms::HostConfig| c.send_timeout = Duration::from_secs(1);
    hosts.add("b", &config, quick).await;
    smoke::<Live>(&hosts).await;
    smoke::<Durable>(&hosts).await;

    let room = hosts.ledger::<Durable>(1, b"smoke");
    let before = notes(&room).await.len();
    user(&["-evalsha", "-eval"]).await;
    let refused = in_time("the sender is told", room.send(LedgerMsg::Note((9, 1)))).await;
    refused.expect_err("it was not accepted");
    user(&["+evalsha", "+eval"]).await;
    in_time("it works again", async { while room.send(LedgerMsg::Note((9, 2))).await.is_err() {} })
        .await;
    let found = notes(&room).await;
    assert!(!found.contains(&(9, 1)), "what was refused was handled");
    assert_eq!(found.iter().filter(|note| note.0 == 9).count(), 1, "{found:?}");
    assert_eq!(found.len(), before + 1);
    hosts.stop().await;
}

/// A bit of everything that a host does with the store.
pub(crate) async fn smoke<C: Class>(hosts: &Hosts) {
    let key = b"smoke";
    hosts.place::<C>(key, 0).await;
    let room = hosts.ledger::<C>(1, key);
    let mut events = room.events().await.unwrap();
    for number in 1..=3 {
        room.send(LedgerMsg::Note((1, number))).await.unwrap();
    }
    room.send(LedgerMsg::Emit).await.unwrap();
    assert_eq!(next_number(&mut events).await, 1);
    room.send(LedgerMsg::Grow(700_000)).await.unwrap();
    room.send(LedgerMsg::Save).await.unwrap();
    room.send(LedgerMsg::Remind("alarm".into(), 50)).await.unwrap();
    hosts.migrate::<C>(0, key, 1).await.expect("the room moves");
    eventually("the timer fires", || async {
        (ask(&room, LedgerMsg::Ticks).await.len() == 1).then_some(())
    })
    .await;
    hosts.until_on::<C>(key, 1).await;
    assert!(hosts.hosts[1].unload::<Ledger<C>>(key.to_vec()).await.unwrap());
    assert_eq!(ask(&room, LedgerMsg::Ballast).await.0, 700_000);
    assert_eq!(notes(&room).await, [(1, 1), (1, 2), (1, 3)]);
    let ended = "another".as_bytes();
    hosts.place::<C>(ended, 0).await;
    let closed = hosts.hosts[0].close::<Ledger<C>>(ended.to_vec(), "over", true);
    closed.await.expect("the room ends");
    let sent = hosts.ledger::<C>(1, ended).call(LedgerMsg::Notes, Some(PATIENCE)).await;
    assert!(matches!(sent, Err(RoomErr::Closed { .. })) || sent.is_ok(), "{sent:?}");
}
