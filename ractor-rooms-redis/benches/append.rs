//! Appends to the logs of rooms a second, against pipelined SETs of `redis-benchmark`.
//!
//! Messages of 100 bytes, by senders that each wait for the answer before they append the next batch, as a
//! host does for each room. All rooms run, so that every batch is also published to the owner's channel;
//! whether anybody listens there, on the same processors as the rest, is said with the figure. The logs are
//! emptied between the samples.
//!
//! A room is hot when more comes for it than one call at a time can carry. Then each host that sends to it has
//! many messages waiting when an answer comes, and its next append takes as many of them as go into one: 512
//! or 256 KiB (`runtime/courier.rs`). So the goal for one hot room is that of a few hosts with as much waiting
//! as they can send; the cases with less waiting show what is lost where the messages of a room come from
//! more hosts than that, few from each.
//!
//! The last cases show what it costs that the server keeps what it says, see `docs/durability.md`; the SETs
//! are written down as the appends are, but never waited for at a replica.
//!
//!     cargo bench -p ractor-rooms-redis --bench append
#![allow(clippy::expect_used, clippy::panic, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use ractor_rooms::clock::Clock;
use ractor_rooms::id::{
    Activation, Epoch, HostId, Incarnation, Life, Millis, Number, Producer, RoomId,
};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, Lease, OfferAnswer, OwnerAnswer, RecordLimits, Request,
    Seen,
};
use ractor_rooms::protocol::session::{HostState, OpenAnswer, SessionSpec};
use ractor_rooms::transport::Transport;
use ractor_rooms_redis::testing::{PrivateServer, ServerOptions};
use ractor_rooms_redis::{RedisConfig, RedisTransport};
use yardstick::{report_rate, runtime, scaled, sets_per_second, wanted};

/// As `redis-benchmark` is told to send.
const MESSAGE_BYTES: usize = 100;
/// Longer than a benchmark takes.
const TTL: Duration = Duration::from_secs(600);

/// What is measured.
struct Case {
    name: &'static str,
    goal: Option<f64>,
    rooms: usize,
    /// Hosts that append to each room at once.
    senders: usize,
    /// Messages that wait at each sender: one batch.
    waiting: usize,
    /// Whether the owner listens.
    heard: bool,
    /// Messages of a sample.
    messages: usize,
    /// What the server does before it answers.
    keeps: Keeps,
}

/// What a server does with what is written, before it answers.
#[derive(Clone, Copy)]
enum Keeps {
    /// It has it in memory.
    InMemory,
    /// It hands it to the operating system, which writes it down each second.
    EverySecond,
    /// It writes it down.
    Always,
    /// It has it in memory, and a replica has it too.
    AtReplica,
}

impl Keeps {
    async fn servers(self) -> Vec<PrivateServer> {
        let line = |line: &str| ServerOptions::default().line(line);
        match self {
            Self::InMemory => vec![yardstick::server().await],
            Self::EverySecond => {
                let options = line("appendonly yes").line("appendfsync everysec");
                vec![yardstick::server_with(options).await]
            }
            Self::Always => {
                vec![yardstick::server_with(ServerOptions::default().append_only()).await]
            }
            Self::AtReplica => {
                let master = yardstick::server_with(line("repl-diskless-sync-delay 0")).await;
                let replica_of = format!("replicaof 127.0.0.1 {}", master.port());
                let replica = yardstick::server_with(line(&replica_of)).await;
                vec![master, replica]
            }
        }
    }
}

/// What a replica may take, also on a machine that does other things.
const SETTLING: Duration = Duration::from_secs(20);

const CASES: [Case; 12] = [
    Case {
        name: "append, one hot room, 8 hosts, 512 waiting each",
        goal: Some(0.8),
        rooms: 1,
        senders: 8,
        waiting: 512,
        heard: false,
        messages: 800_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, one hot room, 8 hosts, 512 waiting each, owner listening",
        goal: None,
        rooms: 1,
        senders: 8,
        waiting: 512,
        heard: true,
        messages: 800_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, one hot room, 64 hosts, 256 waiting each",
        goal: None,
        rooms: 1,
        senders: 64,
        waiting: 256,
        heard: false,
        messages: 800_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, one hot room, 64 hosts, 64 waiting each",
        goal: None,
        rooms: 1,
        senders: 64,
        waiting: 64,
        heard: false,
        messages: 400_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, one hot room, 64 hosts, 16 waiting each",
        goal: None,
        rooms: 1,
        senders: 64,
        waiting: 16,
        heard: false,
        messages: 200_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, one hot room, 64 hosts, 16 waiting each, owner listening",
        goal: None,
        rooms: 1,
        senders: 64,
        waiting: 16,
        heard: true,
        messages: 200_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, 1000 rooms, 16 waiting each",
        goal: Some(0.25),
        rooms: 1_000,
        senders: 1,
        waiting: 16,
        heard: false,
        messages: 160_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, 1000 rooms, 1 waiting each",
        goal: Some(0.12),
        rooms: 1_000,
        senders: 1,
        waiting: 1,
        heard: false,
        messages: 30_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, 1000 rooms, 1 waiting each, owner listening",
        goal: None,
        rooms: 1_000,
        senders: 1,
        waiting: 1,
        heard: true,
        messages: 30_000,
        keeps: Keeps::InMemory,
    },
    Case {
        name: "append, 1000 rooms, 16 waiting each, written down each second",
        goal: None,
        rooms: 1_000,
        senders: 1,
        waiting: 16,
        heard: false,
        messages: 160_000,
        keeps: Keeps::EverySecond,
    },
    Case {
        name: "append, 1000 rooms, 16 waiting each, written down first",
        goal: None,
        rooms: 1_000,
        senders: 1,
        waiting: 16,
        heard: false,
        messages: 160_000,
        keeps: Keeps::Always,
    },
    Case {
        name: "append, 1000 rooms, 16 waiting each, at one replica first",
        goal: None,
        rooms: 1_000,
        senders: 1,
        waiting: 16,
        heard: false,
        messages: 160_000,
        keeps: Keeps::AtReplica,
    },
];

/// A room that runs.
struct Room {
    id: RoomId,
    life: Life,
    lease: Lease,
}

/// One that appends to a room.
struct Sender {
    room: usize,
    producer: Producer,
    next: u64,
}

/// A store with rooms, their owner and their senders.
struct Setup {
    transport: RedisTransport,
    rooms: Arc<Vec<Room>>,
    senders: Vec<Sender>,
}

async fn execute(transport: &RedisTransport, room: &RoomId, request: Request) -> Answer {
    transport.execute(room, request, Epoch(0)).await.expect("an answer")
}

async fn run_room(transport: &RedisTransport, by: &Incarnation, number: usize) -> Room {
    let id = RoomId::new("bench", format!("room-{number}")).expect("a room id");
    let until = Millis(u64::from(u32::MAX) << 10);
    let offer = Request::Offer { to: by.host.clone(), until, create: true };
    let Answer::Offer(OfferAnswer::Done { life }) = execute(transport, &id, offer).await else {
        panic!("a new room that was not offered");
    };
    let Answer::View(Some(view)) = execute(transport, &id, Request::Read).await else {
        panic!("no record of a room that was offered");
    };
    let seen = Seen { epoch: view.seen.epoch, owner: view.seen.owner };
    let activation = Activation { by: by.clone(), number: number as u64 + 1 };
    let acquire = Request::Acquire { activation, seen };
    match execute(transport, &id, acquire).await {
        Answer::Acquire(AcquireAnswer::Acquired(acquired)) => {
            Room { id, life, lease: acquired.lease }
        }
        other => panic!("an offered room was not acquired: {other:?}"),
    }
}

impl Setup {
    async fn new(server: &PrivateServer, case: &Case) -> Self {
        // The logs are emptied between samples only.
        let limits =
            RecordLimits { log_entries: 10_000_000, log_bytes: 4 << 30, ..RecordLimits::default() };
        let config = || RedisConfig::new(server.url()).limits(limits);
        let transport = match case.keeps {
            Keeps::InMemory | Keeps::EverySecond | Keeps::Always => config(),
            Keeps::AtReplica => {
                until_there_is_a_replica(server).await;
                config().replicas(1).deadline(SETTLING) // which it waits for a quarter of
            }
        };
        let transport = transport.connect().await.expect("a connection");
        let host = HostId::new("owner").expect("a host id");
        let spec = SessionSpec {
            state: HostState::Ready,
            load: 0,
            capacity: 1_000_000,
            weight: 1,
            kinds: BTreeMap::new(),
            proved: ractor_rooms::id::Generation::default(),
            holds: None,
        };
        let opened = transport.open_session(&host, TTL, spec).await.expect("an answer");
        let OpenAnswer::Opened(by) = opened else { panic!("a session in a new namespace") };
        if case.heard {
            let listener = config().connect().await.expect("a connection");
            let mut pushes = listener.subscribe(&by).await.expect("a stream");
            tokio::spawn(async move {
                while pushes.next().await.is_some() {}
                drop(listener);
            });
        }
        let rooms = (0..case.rooms).map(|number| run_room(&transport, &by, number));
        let rooms = futures::stream::iter(rooms).buffer_unordered(32).collect::<Vec<_>>().await;
        let senders = (0..case.rooms * case.senders).map(|number| {
            let host = HostId::new(format!("host-{}", number / case.rooms)).expect("a host id");
            let producer = Producer::Host(Incarnation { host, number: 1 });
            Sender { room: number % case.rooms, producer, next: 1 }
        });
        Self { transport, rooms: Arc::new(rooms), senders: senders.collect() }
    }

    /// Messages a second in a sample of so many batches a sender.
    async fn sample(&mut self, waiting: usize, batches: usize) -> f64 {
        let message = Bytes::from(vec![b'x'; MESSAGE_BYTES]);
        let senders = std::mem::take(&mut self.senders);
        let messages = senders.len() * batches * waiting;
        let clock = Clock::system();
        let start = clock.mark();
        let tasks = senders.into_iter().map(|mut sender| {
            let (transport, rooms) = (self.transport.clone(), self.rooms.clone());
            let batch = vec![message.clone(); waiting];
            tokio::spawn(async move {
                let room = &rooms[sender.room];
                for _ in 0..batches {
                    let request = Request::Append {
                        life: Some(room.life),
                        producer: sender.producer.clone(),
                        epoch: 0,
                        first: Number(sender.next),
                        batch: batch.clone(),
                    };
                    let answer = execute(&transport, &room.id, request).await;
                    assert!(
                        matches!(answer, Answer::Append(AppendAnswer::Accepted { .. })),
                        "{answer:?}"
                    );
                    sender.next += waiting as u64;
                }
                sender
            })
        });
        let ended = join_all(tasks.collect::<Vec<_>>()).await;
        let took = clock.elapsed_since(start);
        self.senders = ended.into_iter().map(|sender| sender.expect("a sender")).collect();
        messages as f64 / took.as_secs_f64()
    }

    /// Empties the logs, as an owner does that has received all.
    async fn empty(&self) {
        let acks = self.rooms.iter().map(|room| async {
            let Answer::View(Some(view)) = execute(&self.transport, &room.id, Request::Read).await
            else {
                panic!("no record of a room that runs");
            };
            let ack = Request::Ack { lease: room.lease.clone(), received: view.last };
            let answer = execute(&self.transport, &room.id, ack).await;
            assert_eq!(answer, Answer::Owner(OwnerAnswer::Done));
        });
        futures::stream::iter(acks).buffer_unordered(32).collect::<()>().await;
    }
}

/// A replica counts for a connection that wrote nothing before it has loaded what there is. The library waits for
/// an answer for half a second only, so each question is a short one.
async fn until_there_is_a_replica(server: &PrivateServer) {
    let mut connection = yardstick::connection(server).await;
    let clock = Clock::system();
    let start = clock.mark();
    let mut write = redis::pipe();
    write.cmd("SET").arg("bare").arg("written").ignore();
    write.cmd("WAIT").arg(1).arg(100);
    loop {
        let answer: redis::RedisResult<(u32,)> = write.query_async(&mut connection).await;
        match answer {
            Ok((1,)) => return,
            _ => assert!(clock.elapsed_since(start) < SETTLING, "no replica came: {answer:?}"),
        }
    }
}

async fn measure(case: &Case) {
    let servers = case.keeps.servers().await;
    let server = &servers[0];
    let mut setup = Setup::new(server, case).await;
    let batches = (case.messages / (setup.senders.len() * case.waiting)).max(1);
    let batches = scaled(batches, 1);
    setup.sample(case.waiting, batches).await; // the first entries make the keys
    setup.empty().await;
    let (mut rates, mut sets) = (Vec::new(), Vec::new());
    let sets_of = |count| {
        let count = scaled(count, 10_000);
        tokio::task::block_in_place(|| sets_per_second(server, count))
    };
    for round in 0..scaled(15, 2) {
        if round % 2 == 0 {
            sets.push(sets_of(300_000));
        }
        rates.push(setup.sample(case.waiting, batches).await);
        if round % 2 == 1 {
            sets.push(sets_of(300_000));
        }
        setup.empty().await;
    }
    report_rate(case.name, case.goal, &rates, &sets);
}

fn main() {
    let runtime = runtime();
    for case in CASES.iter().filter(|case| wanted(case.name)) {
        // The senders are tasks of the runtime, as an app's are.
        runtime.block_on(measure(case));
    }
}
