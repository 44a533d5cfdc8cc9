//! From the SIGKILL of a host's process until its rooms handle the first message elsewhere: the session's TTL,
//! and what is added to it.
//!
//! The host that dies is a process of its own, which this program starts again as a host; the survivors and the
//! sender are in this one. A session ends a TTL after its last heartbeat, so it has up to a third of it behind it
//! when its host dies: what is added is told from the kill plus a whole TTL, as the goals are, and from the real
//! end of the session.
//!
//!     cargo bench -p ractor-rooms-redis --bench recovery
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use ractor::ActorProcessingErr;
use ractor_rooms::clock::Clock;
use ractor_rooms::{Delivery, MigrateTo, Reply, RoomActor, RoomContext, RoomHost, RoomRef};
use ractor_rooms_redis::RedisTransport;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use yardstick::{connection, quantile, runtime, scaled, wanted};

/// The word before name, address and TTL of the host that this process is to be.
const HOST: &str = "be-the-host";
const SURVIVORS: [&str; 2] = ["survivor-a", "survivor-b"];
/// What the names of the hosts that die begin with.
const VICTIM: &str = "victim";
/// Bytes of a state.
const BYTES: usize = 1 << 10;
/// The pause between two messages to the one room.
const EVERY: Duration = Duration::from_millis(2);
/// Longer than this no recovery takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests that are under way at once while rooms are started.
const AT_ONCE: usize = 64;

/// The time since the first question for it.
fn now() -> Duration {
    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::system);
    CLOCK.mark()
}

/// When which room first handled a message of this round.
#[derive(Default)]
struct Heard {
    round: u64,
    rooms: BTreeMap<String, Duration>,
}

/// A page of bytes.
struct Page {
    heard: Arc<Mutex<Heard>>,
}

#[derive(Serialize, Deserialize)]
enum PageMsg {
    /// A message of this round.
    Write(u64),
    /// On which host does it run?
    Where(Reply<String>),
}

impl RoomActor for Page {
    const KIND: &'static str = "page";
    const DELIVERY: Delivery = Delivery::Durable;
    type Msg = PageMsg;
    type State = Vec<u8>;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Vec<u8>, ActorProcessingErr> {
        Ok(vec![b'x'; BYTES])
    }

    async fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        message: PageMsg,
        page: &mut Vec<u8>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PageMsg::Write(round) => {
                page[0] = round as u8;
                let mut heard = self.heard.lock().expect("no panic");
                if round == heard.round && round > 0 {
                    let room = ctx.room().to_string();
                    heard.rooms.entry(room).or_insert_with(now);
                }
            }
            PageMsg::Where(reply) => reply.send(ctx.host().to_string()),
        }
        Ok(())
    }
}

async fn start(
    id: &str,
    url: &str,
    ttl: Duration,
    heard: &Arc<Mutex<Heard>>,
    rooms: u32,
) -> RoomHost {
    let transport = RedisTransport::connect(url).await.expect("a connection");
    let builder = RoomHost::builder(id, transport).room(Page { heard: Arc::clone(heard) });
    let builder = builder.capacity(rooms).configure(|config| {
        config.session_ttl = ttl;
        config.send_timeout = PATIENCE;
        if id.starts_with(VICTIM) {
            // So that there is a snapshot of each room.
            config.checkpoint_messages = 1;
        }
    });
    builder.start().await.expect("a host")
}

/// Is the host that is to die, until it does or its starter is gone.
async fn be_the_host(id: &str, url: &str, ttl: Duration) {
    let _host = start(id, url, ttl, &Arc::default(), u32::MAX).await;
    println!("ready");
    let read = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let _ = read.await;
}

/// A host in a process of its own.
struct Victim {
    id: String,
    child: Child,
}

impl Victim {
    fn start(id: String, url: &str, ttl: Duration) -> Self {
        let program = std::env::current_exe().expect("a path");
        let mut child = Command::new(program)
            .args([HOST, &id, url, &ttl.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "the host did not start");
        Self { id, child }
    }

    fn kill(&mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("a process");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It has ended, or does with its starter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long the session of a host lasts from now on.
async fn session_left(connection: &mut MultiplexedConnection, id: &str) -> Duration {
    let pattern = format!("*{{h-{id}}}:session");
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(pattern).query_async(connection).await.expect("an answer");
    let key = keys.first().expect("a session");
    let left: i64 = redis::cmd("PTTL").arg(key).query_async(connection).await.expect("an answer");
    Duration::from_millis(left.try_into().expect("a session that ends"))
}

async fn whereabouts(room: &RoomRef<Page>) -> String {
    room.call(PageMsg::Where, Some(PATIENCE)).await.expect("a room").expect("an answer")
}

/// Milliseconds, which may be less than none.
fn millis(from: Duration, to: Duration) -> f64 {
    (to.as_secs_f64() - from.as_secs_f64()) * 1e3
}

fn tell(name: &str, goal_ms: f64, added: &[f64]) {
    let mut sorted = added.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (p50, max) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    println!(
        "{name}: p50 {p50:.0} ms, max {max:.0} ms (goal <= {goal_ms:.0} ms); {} kills",
        sorted.len()
    );
}

async fn ping(connection: &mut MultiplexedConnection, count: usize) -> Duration {
    let clock = Clock::system();
    let mut pings = Vec::new();
    for _ in 0..count {
        let begun = clock.mark();
        let _: String = redis::cmd("PING").query_async(connection).await.expect("an answer");
        pings.push(clock.elapsed_since(begun));
    }
    quantile(&pings, 0.5)
}

/// One room, killed with its host again and again under traffic.
async fn one_room() {
    let ttl = Duration::from_secs(1);
    let server = yardstick::server().await;
    let url = server.url();
    let heard: Arc<Mutex<Heard>> = Arc::default();
    let mut hosts = Vec::new();
    for id in SURVIVORS {
        hosts.push(start(id, &url, ttl, &heard, u32::MAX).await);
    }
    let client = start("client", &url, ttl, &heard, 0).await;
    let room = client.room::<Page>("room");
    whereabouts(&room).await;
    let mut connection = connection(&server).await;
    let ping = ping(&mut connection, 200).await;
    let (mut whole, mut from_end) = (Vec::new(), Vec::new());
    for round in 1..=scaled(20, 2) as u64 {
        let mut victim = Victim::start(format!("{VICTIM}-{round}"), &url, ttl);
        client.migrate(MigrateTo::host("page", "room", victim.id.clone())).await.expect("a move");
        assert_eq!(whereabouts(&room).await, victim.id);
        // Not always at the same time of its heartbeat.
        sleep(Duration::from_millis(500 + 37 * round % 333)).await;
        victim.kill();
        let killed = now();
        *heard.lock().expect("no panic") = Heard { round, rooms: BTreeMap::new() };
        let ends = now() + session_left(&mut connection, &victim.id).await;
        let again = async {
            loop {
                room.cast(PageMsg::Write(round)).expect("a running host");
                sleep(EVERY).await;
                if let Some(at) = heard.lock().expect("no panic").rooms.values().next() {
                    return *at;
                }
            }
        };
        let at = timeout(PATIENCE, again).await.expect("a recovery");
        whole.push(millis(killed + ttl, at));
        from_end.push(millis(ends, at));
    }
    tell("one room, added to a TTL of 1 s from the kill", 250.0, &whole);
    tell("one room, added to the end of the session", 250.0, &from_end);
    println!("one room: PING p50 {ping:?}");
    for host in hosts.iter().chain([&client]) {
        host.shutdown().await.expect("a running host");
    }
}

/// Many rooms that die together.
async fn many_rooms() {
    let (ttl, count) = (Duration::from_secs(3), scaled(5_000, 50));
    let server = yardstick::server().await;
    let url = server.url();
    let heard: Arc<Mutex<Heard>> = Arc::default();
    let mut victim = Victim::start(VICTIM.to_owned(), &url, ttl);
    let client = start("client", &url, ttl, &heard, 0).await;
    let rooms: Vec<RoomRef<Page>> =
        (0..count).map(|room| client.room::<Page>(format!("room-{room}"))).collect();
    for some in rooms.chunks(AT_ONCE) {
        let sent = some.iter().map(|room| room.send(PageMsg::Write(0)));
        futures::future::join_all(sent).await.into_iter().for_each(|sent| sent.expect("a room"));
        futures::future::join_all(some.iter().map(whereabouts)).await;
    }
    let mut hosts = Vec::new();
    for id in SURVIVORS {
        hosts.push(start(id, &url, ttl, &heard, u32::MAX).await);
    }
    let mut connection = connection(&server).await;
    let ping = ping(&mut connection, 200).await;
    let alone = alone(&mut connection, count).await;
    sleep(ttl).await;

    victim.kill();
    let killed = now();
    println!("{count} rooms: their host is killed");
    *heard.lock().expect("no panic") = Heard { round: 1, rooms: BTreeMap::new() };
    let ends = now() + session_left(&mut connection, &victim.id).await;
    // Each has one message that waits.
    rooms.iter().for_each(|room| room.cast(PageMsg::Write(1)).expect("a running host"));
    sleep(ends.saturating_sub(now())).await;
    let _: String =
        redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await.expect("ok");
    let before = cpu(&mut connection).await;
    let all = async {
        while heard.lock().expect("no panic").rooms.len() < count {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let done = timeout(PATIENCE, all).await;
    let cpu = cpu(&mut connection).await - before;
    let used = used(&mut connection).await;
    let heard = std::mem::take(&mut *heard.lock().expect("no panic"));
    assert!(done.is_ok(), "{} of {count} rooms came back within {PATIENCE:?}", heard.rooms.len());
    let mut times: Vec<Duration> = heard.rooms.into_values().collect();
    times.sort_unstable();
    let whole: Vec<f64> = times.iter().map(|at| millis(killed + ttl, *at)).collect();
    let from_end: Vec<f64> = times.iter().map(|at| millis(ends, *at)).collect();
    for (name, added) in
        [("a TTL of 3 s from the kill", &whole), ("the end of the session", &from_end)]
    {
        let at = |share: f64| added[((count - 1) as f64 * share) as usize];
        println!(
            "{count} rooms, added to {name}: first {:.0} ms, p50 {:.0} ms, last {:.0} ms (goal <= 5000 ms)",
            at(0.0),
            at(0.5),
            at(1.0)
        );
    }
    println!(
        "{count} rooms: {} commands took the server {:.0} ms, {:.0} ms of a processor; PING p50 {ping:?}; \
         {count} SETs and GETs of {BYTES} bytes, pipelined, take {alone:?}",
        used.0,
        used.1 * 1e3,
        cpu * 1e3
    );
    for host in hosts.iter().chain([&client]) {
        host.shutdown().await.expect("a running host");
    }
}

/// How long it takes to write and read as many states, pipelined.
async fn alone(connection: &mut MultiplexedConnection, count: usize) -> Duration {
    let clock = Clock::system();
    let begun = clock.mark();
    for first in (0..count).step_by(AT_ONCE) {
        let mut pipe = redis::pipe();
        for number in first..count.min(first + AT_ONCE) {
            let key = format!("yardstick-{number}");
            pipe.cmd("SET").arg(&key).arg(vec![b'x'; BYTES]).ignore();
            pipe.cmd("GET").arg(&key).ignore();
        }
        pipe.exec_async(connection).await.expect("an answer");
    }
    clock.elapsed_since(begun)
}

/// How many seconds of a processor the server has used: on a machine that others use too it says more than times.
async fn cpu(connection: &mut MultiplexedConnection) -> f64 {
    let info: String =
        redis::cmd("INFO").arg("cpu").query_async(connection).await.expect("an answer");
    let of = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
    };
    of("used_cpu_sys") + of("used_cpu_user")
}

/// How many commands the server ran since its statistics were reset, and for how many seconds.
async fn used(connection: &mut MultiplexedConnection) -> (u64, f64) {
    let info: String =
        redis::cmd("INFO").arg("commandstats").query_async(connection).await.expect("an answer");
    let mut used = (0, 0.0);
    let mut named: Vec<(u64, String)> = Vec::new();
    for line in info.lines() {
        let Some((name, rest)) = line.split_once(":calls=") else { continue };
        let mut fields = rest.split(',');
        let calls: u64 = fields.next().and_then(|calls| calls.parse().ok()).unwrap_or_default();
        let micros =
            fields.next().and_then(|field| field.strip_prefix("usec=")?.parse::<u64>().ok());
        let micros = micros.unwrap_or_default();
        named.push((micros, format!("{name} {calls} {micros} us")));
        // What a script calls is part of the script's time.
        if [
            "cmdstat_fcall",
            "cmdstat_evalsha",
            "cmdstat_eval",
            "cmdstat_get",
            "cmdstat_mget",
            "cmdstat_set",
        ]
        .contains(&name)
        {
            used = (used.0 + calls, used.1 + micros as f64 / 1e6);
        }
    }
    named.sort_unstable_by(|a, b| b.cmp(a));
    named.iter().take(8).for_each(|(_, line)| println!("  {line}"));
    used
}

fn main() {
    let runtime = runtime();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, id, url, ttl] = args.as_slice()
        && word == HOST
    {
        let ttl = Duration::from_millis(ttl.parse().expect("a number"));
        return runtime.block_on(be_the_host(id, url, ttl));
    }
    for (name, many) in [("one room", false), ("many rooms", true)] {
        if !wanted(name) {
            continue;
        }
        let run = if many { runtime.spawn(many_rooms()) } else { runtime.spawn(one_room()) };
        runtime.block_on(run).expect("a benchmark");
    }
}
