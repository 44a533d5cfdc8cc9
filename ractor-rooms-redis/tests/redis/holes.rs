//! Interleavings that break a naive version of the protocol, over a real server.

use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::id::{Activation, HostId, Incarnation};
use ractor_rooms::protocol::record::{AppendAnswer, RecordLimits, SnapshotKey};
use ractor_rooms::transport::Transport;
use ractor_rooms_redis::testing::{PrivateServer, Proxy, ServerOptions};
use ractor_rooms_redis::{RedisConfig, RedisTransport};

use crate::hosts::{Hosts, ask, eventually, in_time, notes};
use crate::in_both_classes;
use crate::journal::{Journal, Told};
use crate::ledger::{Class, Durable, LedgerMsg, Note};
use crate::store::{
    Owner, append, config, create, keys, operator, producer, room_id, run, settle, upload, view,
};

const KEY: &[u8] = b"r";

in_both_classes! {
    h01_an_owner_that_was_cut_off_reads_the_log;
    h01_an_owner_that_was_cut_off_moves_its_room;
    h30_a_large_room_moves_over_a_link_that_breaks;
}

/// A host on a thread of its own, which can be made to stand still: it then reads nothing from its
/// connections, while the server goes on writing to them.
struct Apart {
    halt: tokio::sync::mpsc::Sender<std::sync::mpsc::Receiver<()>>,
    thread: std::thread::JoinHandle<()>,
    end: tokio::sync::oneshot::Sender<()>,
}

impl Apart {
    async fn start(store: RedisConfig, mut hosts: Hosts) -> (Self, Hosts) {
        let (halt, mut halted) = tokio::sync::mpsc::channel::<std::sync::mpsc::Receiver<()>>(1);
        let (end, ended) = tokio::sync::oneshot::channel();
        let (started, starts) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                hosts.add("a", &store, |_| ()).await;
                tokio::spawn(async move {
                    while let Some(go_on) = halted.recv().await {
                        // Blocks the only thread that there is.
                        let _ = go_on.recv();
                    }
                });
                let _ = started.send(hosts);
                let _ = ended.await;
            });
        });
        let hosts = in_time("the host starts", starts).await.unwrap();
        (Self { halt, thread, end }, hosts)
    }

    /// Stands still until what this gives is dropped.
    async fn stand_still(&self) -> std::sync::mpsc::Sender<()> {
        let (go_on, waits) = std::sync::mpsc::channel();
        in_time("it hears", self.halt.send(waits)).await.unwrap();
        // Taken from the channel once the thread begins to block.
        eventually("it stands still", || async { (self.halt.capacity() == 1).then_some(()) }).await;
        go_on
    }

    async fn stop(self, hosts: Hosts) {
        hosts.stop().await;
        let _ = self.end.send(());
        let joined = tokio::task::spawn_blocking(|| self.thread.join());
        in_time("the thread ends", joined).await.unwrap().unwrap();
    }
}

/// Publishes 37 MB to an owner that reads nothing, so that the server cuts it off.
async fn publish_to_an_owner_that_stands_still<C: Class>(
    server: &PrivateServer,
) -> (Apart, Hosts, Journal, std::sync::mpsc::Sender<()>) {
    const BYTES: usize = 100_000;
    const COUNT: u64 = 370;
    let limits = RecordLimits { log_bytes: 128 << 20, ..RecordLimits::default() };
    let store = config(server).limits(limits);
    let mut operator = operator(&server.url()).await;
    let bound = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 4mb 4mb 1"];
    run::<()>(&mut operator, &bound).await;
    let hosts = Hosts::of(&store, &["b"]).await;
    let (apart, hosts) = Apart::start(store, hosts).await;
    hosts.place::<C>(KEY, 1).await;
    let go_on = apart.stand_still().await;
    let room = hosts.ledger::<C>(0, KEY);
    let journal = Journal::default();
    let blob = Bytes::from(vec![7; BYTES]);
    for number in 1..=COUNT {
        let sent = room.send(LedgerMsg::Blob((1, number), blob.clone()));
        in_time("a blob is accepted", sent).await.unwrap();
        journal.note((1, number), Told::Accepted);
    }
    let listening: Vec<String> = run(&mut operator, &["PUBSUB", "CHANNELS", "rooms:to:a#*"]).await;
    assert_eq!(listening, Vec::<String>::new(), "the subscriber was cut off");
    assert_eq!(hosts.knobs.handled_on("a"), []);
    (apart, hosts, journal, go_on)
}

/// Given an owner that reads nothing from its connections. When 37 MB are published to it, the server cuts
/// it off, and it goes on. Then every message is handled, in order, out of the log.
async fn h01_an_owner_that_was_cut_off_reads_the_log<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let (apart, hosts, journal, go_on) = publish_to_an_owner_that_stands_still::<C>(&server).await;
    drop(go_on);
    let room = hosts.ledger::<C>(0, KEY);
    journal.assert_exact(370, &notes(&room).await);
    assert_eq!(hosts.knobs.handled_on("a").len(), 370);
    assert_eq!(hosts.faults(), []);
    apart.stop(hosts).await;
}

/// The same, and the room is to move in that second.
async fn h01_an_owner_that_was_cut_off_moves_its_room<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let (apart, hosts, journal, go_on) = publish_to_an_owner_that_stands_still::<C>(&server).await;
    let moving = hosts.migrate::<C>(0, KEY, 0);
    drop(go_on);
    moving.await.expect("the room moves");
    let room = hosts.ledger::<C>(0, KEY);
    in_time("one more", room.send(LedgerMsg::Note((1, 371)))).await.unwrap();
    journal.note((1, 371), Told::Accepted);
    journal.assert_exact(371, &notes(&room).await);
    hosts.until_on::<C>(KEY, 0).await;
    apart.stop(hosts).await;
}

/// The bytes in the log of notes that a host sends: a note's number among them, as it was sent.
async fn encoded<C: Class>(
    store: &RedisTransport,
    config: &RedisConfig,
    of: &[Note],
) -> Vec<Bytes> {
    let room = room_id::<C>(b"encoded");
    let owner = Owner::new(store).await;
    let lease = owner.take(&room, 1).await;
    let hosts = Hosts::of(config, &["sender"]).await;
    let ledger = hosts.ledger::<C>(0, b"encoded");
    for note in of {
        in_time("it is accepted", ledger.send(LedgerMsg::Note(*note))).await.unwrap();
    }
    let bytes: Vec<Bytes> =
        owner.log(&room, &lease).await.into_iter().flat_map(|entry| entry.batch).collect();
    assert_eq!(bytes.len(), of.len());
    hosts.stop().await;
    owner.leave().await;
    bytes
}

/// The number on a line of a log of commands, behind its first byte, and where the next line begins.
fn line(log: &[u8], from: usize) -> (usize, usize) {
    let end = from + log[from..].windows(2).position(|window| window == b"\r\n").unwrap();
    let text = std::str::from_utf8(&log[from + 1..end]).unwrap();
    (text.parse().unwrap(), end + 2)
}

/// Where each command of the last script in a log of commands begins, and where the log ends.
fn last_script(log: &[u8]) -> Vec<usize> {
    let begin = b"*1\r\n$5\r\nMULTI\r\n";
    let mut at = log.windows(begin.len()).rposition(|window| window == begin).expect("a script");
    let mut places = Vec::new();
    while at < log.len() {
        places.push(at);
        // A command is `*count`, then `$length` and the bytes of each word.
        let (words, mut next) = line(log, at);
        for _ in 0..words {
            let (length, word) = line(log, next);
            next = word + length + 2;
        }
        at = next;
    }
    places.push(log.len());
    places
}

/// Given P's append, which the server's log of commands holds half of when the power goes. When the server
/// is back, Q appends and is acknowledged, P appends again, the server starts anew once more, and a host
/// replays the room. Then P's and Q's messages are handled once each, and both go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h02_an_append_that_was_torn_is_handled_once() {
    let options = ServerOptions::default().append_only();
    let mut server = PrivateServer::start_with(options).await.unwrap();
    let config = config(&server);
    let store = config.clone().connect().await.unwrap();
    let all: [Note; 4] = [(1, 1), (2, 1), (1, 2), (2, 2)];
    let bytes = encoded::<Durable>(&store, &config, &all).await;
    let (p, q) = (producer("p", 1), producer("q", 1));
    let mut tears = 0;
    for tear in 1.. {
        let key = format!("torn-{tear}").into_bytes();
        let room = room_id::<Durable>(&key);
        settle(&store).await;
        create(&store, &room).await;
        let first = append(&store, &room, &p, 1, &bytes[..1]).await;
        assert!(matches!(first, AppendAnswer::Accepted { .. }), "{first:?}");
        server.kill9().unwrap();
        let mut commands = 0;
        let cut = |log: &[u8]| {
            let places = last_script(log);
            commands = places.len() - 1;
            // In the middle of a command of the script, or of its end.
            places.get(tear + 1).map_or(log.len(), |next| (places[tear] + next) / 2)
        };
        server.tear_log(cut).unwrap();
        server.restart().await.unwrap();
        if tear >= commands {
            break;
        }
        tears += 1;
        let second = append(&store, &room, &q, 1, &bytes[1..2]).await;
        assert!(matches!(second, AppendAnswer::Accepted { .. }), "{second:?}");
        let again = append(&store, &room, &p, 1, &bytes[..1]).await;
        let taken = matches!(again, AppendAnswer::Accepted { .. } | AppendAnswer::Duplicate { .. });
        assert!(taken, "{again:?}");
        server.restart().await.unwrap();
    }
    assert!(tears >= 4, "only {tears} places to tear a script at");
    let hosts = Hosts::of(&config, &["a"]).await;
    for tear in 1..=tears {
        let key = format!("torn-{tear}").into_bytes();
        let room = room_id::<Durable>(&key);
        let ledger = hosts.ledger::<Durable>(0, &key);
        let mut found = notes(&ledger).await;
        found.sort_unstable();
        assert_eq!(found, [(1, 1), (2, 1)], "torn in command {tear}");
        for (producer, batch) in [(&p, &bytes[2..3]), (&q, &bytes[3..4])] {
            let answer = append(&store, &room, producer, 2, batch).await;
            assert!(matches!(answer, AppendAnswer::Accepted { .. }), "{answer:?}");
        }
        let journal = Journal::default();
        for note in all {
            journal.note(note, Told::Accepted);
        }
        journal.assert_exact(4, &notes(&ledger).await);
    }
    assert_eq!(hosts.faults(), []);
    hosts.stop().await;
}

/// Given a producer whose entry was pruned after a long silence. When a copy of its first message arrives.
/// Then it is refused and not handled again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h25_a_copy_from_a_producer_that_was_pruned_is_refused() {
    let server = PrivateServer::start().await.unwrap();
    let limits = RecordLimits { producers: 3, ..RecordLimits::default() };
    let config = config(&server).limits(limits);
    let store = config.clone().connect().await.unwrap();
    let all: Vec<Note> = (1..=7).map(|from| (from, 1)).collect();
    let bytes = encoded::<Durable>(&store, &config, &all).await;
    let hosts = Hosts::of(&config, &["a"]).await;
    hosts.place::<Durable>(KEY, 0).await;
    let (room, ledger) = (room_id::<Durable>(KEY), hosts.ledger::<Durable>(0, KEY));
    // Younger than the host, and hardly: whoever comes to be after one that was pruned is welcome.
    let born = store.sessions().await.unwrap()[0].incarnation.number;
    for (number, message) in (born + 1..).zip(&bytes) {
        let name = producer("sender", number);
        let batch = std::slice::from_ref(message);
        let answer = append(&store, &room, &name, 1, batch).await;
        assert!(matches!(answer, AppendAnswer::Accepted { .. }), "{answer:?}");
    }
    eventually("all are handled", || async { (notes(&ledger).await.len() == 7).then_some(()) })
        .await;
    ledger.send(LedgerMsg::Save).await.unwrap();
    let copy = append(&store, &room, &producer("sender", born + 1), 1, &bytes[..1]).await;
    assert!(matches!(copy, AppendAnswer::Fenced { .. }), "{copy:?}");
    let mut found = notes(&ledger).await;
    found.sort_unstable();
    assert_eq!(found, all);
    hosts.stop().await;
}

/// Given the bytes of a snapshot that go up in pieces. When the link breaks in the middle and the upload
/// is tried again. Then what is read is what was written, and what is left of the attempts expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h30_an_upload_that_is_tried_again_leaves_no_piece_twice() {
    let server = PrivateServer::start().await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let config = RedisConfig::new(proxy.url()).shards(4).bulk_deadline(Duration::from_secs(4));
    let store = config.connect().await.unwrap();
    let mut operator = operator(&server.url()).await;
    let room = room_id::<Durable>(KEY);
    let host = HostId::new("a").unwrap();
    let activation = Activation { by: Incarnation { host, number: 1 }, number: 1 };
    // What follows a piece differs from what follows any other.
    let bytes: Bytes = (0..3_000_000_u32).map(|i| (i ^ (i >> 9) ^ (i >> 17)) as u8).collect();
    for attempt in 1..=3 {
        let key = SnapshotKey { by: activation.clone(), attempt };
        proxy.delay(Duration::from_millis(2));
        let cutting = async {
            eventually("the first pieces are there", || async {
                (!keys(&mut operator.clone(), "rooms:*:upload:*").await.is_empty()).then_some(())
            })
            .await;
            proxy.cut();
        };
        let (attempts, ()) = tokio::join!(upload(&store, &room, &key, &bytes), cutting);
        assert!(attempts < 20, "{attempts} attempts");
        let read = store.get_snapshot(&room, &key).await.unwrap();
        assert!(read.as_ref() == Some(&bytes), "another snapshot than was put up");
    }
    proxy.heal();
    for key in keys(&mut operator, "rooms:*").await {
        let text = String::from_utf8_lossy(&key).into_owned();
        if text.contains(":snap:") || text.contains(":upload:") {
            let left: i64 = run(&mut operator, &["PTTL", &text]).await;
            assert!((1..=3_600_000).contains(&left), "{text} stays for {left} ms");
        }
    }
}

/// Given a room of 3 MB. When it moves to and fro while the links of both hosts break in the middle of
/// uploads. Then it is whole, and what is left in the store of snapshots that nobody needs expires.
async fn h30_a_large_room_moves_over_a_link_that_breaks<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let behind = RedisConfig::new(proxy.url()).shards(4);
    let hosts = Hosts::of(&behind, &["a", "b"]).await;
    let bare = config(&server).connect().await.unwrap();
    let mut operator = operator(&server.url()).await;
    hosts.place::<C>(KEY, 0).await;
    let room = hosts.ledger::<C>(0, KEY);
    room.send(LedgerMsg::Grow(3_000_000)).await.unwrap();
    let whole = ask(&room, LedgerMsg::Ballast).await;
    assert_eq!(whole.0, 3_000_000);
    for to in [1, 0] {
        let uploads = || async {
            (!keys(&mut operator.clone(), "rooms:*:upload:*").await.is_empty()).then_some(())
        };
        proxy.delay(Duration::from_millis(1));
        let breaking = async {
            eventually("an upload is under way", uploads).await;
            proxy.cut();
            proxy.heal();
        };
        let (moved, ()) = tokio::join!(hosts.migrate::<C>(0, KEY, to), breaking);
        moved.expect("the room moves");
        assert_eq!(ask(&room, LedgerMsg::Ballast).await, whole);
    }
    hosts.until_on::<C>(KEY, 0).await;
    let pointer = view(&bare, &room_id::<C>(KEY)).await.and_then(|view| view.snapshot);
    assert!(pointer.is_some(), "the room has no snapshot");
    let mut kept = 0;
    for key in keys(&mut operator, "rooms:*").await {
        let text = String::from_utf8_lossy(&key).into_owned();
        if text.contains(":snap:") || text.contains(":upload:") {
            let left: i64 = run(&mut operator, &["PTTL", &text]).await;
            assert!((-1..=3_600_000).contains(&left), "{text} stays for {left} ms");
            kept += usize::from(left == -1);
        }
    }
    assert_eq!(kept, 1, "snapshots that stay for good");
    hosts.stop().await;
}
