//! One seed from its beginning to its verdict.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor_rooms::protocol::Store;
use ractor_rooms::{MigrateTo, RoomHost, RoomRef};
use tokio::task::JoinSet;

use super::judge::{Remains, judge};
use super::member::watch;
use super::plan::{Plan, Profile, Step};
use super::planted::Bug;
use super::room::{SimMsg, SimRoom, SimState, kind};
use super::sender::send_all;
use super::world::{BOUND, World};
use crate::cluster::host_name;
use crate::rooms::{Class, Durable, Live};

/// So long after the troubles have ended and everybody has sent what he wanted, everything must be as
/// promised: sessions end, rooms are taken up, calls time out, timers fire.
const HEALS_WITHIN: Duration = Duration::from_secs(30);
/// And so long it must stay so: what is late comes by then.
const STAYS: Duration = Duration::from_secs(6);

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was to happen.
    pub plan: Plan,
    /// The promises that were broken.
    pub broken: Vec<String>,
    /// The sum of all that happened, equal in each run of the seed.
    pub digest: u64,
    /// All that happened.
    pub lines: Vec<String>,
}

impl Outcome {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.broken.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)?;
        let last = self.lines.len().saturating_sub(60);
        writeln!(f, "the last of {} lines:", self.lines.len())?;
        for line in &self.lines[last..] {
            writeln!(f, "  {line}")?;
        }
        for what in &self.broken {
            writeln!(f, "BROKEN {what}")?;
        }
        let (seed, profile) = (self.plan.seed, format!("{:?}", self.plan.profile).to_lowercase());
        write!(
            f,
            "again: ROOMS_SEEDS=1 ROOMS_FIRST_SEED={seed} ROOMS_TRACE=1 cargo nextest run -p \
             ractor-rooms-tests simulation::{profile} --no-capture"
        )
    }
}

/// Runs a seed.
///
/// # Panics
/// When there can be no runtime.
pub fn run(seed: u64, profile: Profile, bug: Option<Bug>) -> Outcome {
    let plan = Plan::of(seed, profile);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (broken, journal) = runtime.block_on(async {
        let world = World::new(plan.clone(), bug);
        let broken = live(&world).await;
        (broken, world.journal.clone())
    });
    drop(runtime);
    Outcome { plan, broken, digest: journal.digest(), lines: journal.lines() }
}

async fn live(world: &Arc<World>) -> Vec<String> {
    for host in 0..world.plan.hosts {
        world.start(host).await;
    }
    let mut watching = JoinSet::new();
    for (host, room) in world.plan.members.clone() {
        watching.spawn(watch(world.clone(), host, room));
    }
    let mut working = JoinSet::new();
    for sender in 0..world.plan.senders.len() {
        working.spawn(send_all(world.clone(), sender));
    }
    let mut remembered = None;
    for (at, step) in world.plan.steps.clone() {
        until(world, at).await;
        take(world, step, &mut remembered, &mut working);
    }
    until(world, world.plan.heals_at).await;
    world.journal.say("the network heals");
    world.network.heal();
    for host in 0..world.plan.hosts {
        world.pause(host, false);
    }
    world.network.flush().await;
    while let Some(done) = working.join_next().await {
        if let Err(error) = done {
            world.journal.broken(format!("a task failed: {error}"));
        }
    }
    let broken = come_to_rest(world).await;
    for host in 0..world.plan.hosts {
        if let Some(stopping) = world.take(host) {
            world.shut_down(&stopping).await;
        }
    }
    watching.shutdown().await;
    if broken.is_empty() { world.journal.lock().broken.clone() } else { broken }
}

async fn until(world: &World, at: u64) {
    let wait = Duration::from_millis(at).saturating_sub(world.now());
    tokio::time::sleep(wait).await;
}

fn take(world: &Arc<World>, step: Step, remembered: &mut Option<Store>, working: &mut JoinSet<()>) {
    world.journal.say(format!("step {step:?}"));
    let world = world.clone();
    match step {
        Step::Move { via, room, to } => {
            working.spawn(async move { migrate(&world, via, room, to).await });
        }
        Step::Unload { host, room } => {
            working.spawn(async move { unload(&world, host, room).await });
        }
        Step::Stop { host, rest, drains } => {
            if let Some(stopping) = world.take(host) {
                working.spawn(async move {
                    if drains {
                        world.drain(&stopping).await;
                    } else {
                        world.shut_down(&stopping).await;
                    }
                    tokio::time::sleep(Duration::from_millis(rest)).await;
                    world.start(host).await;
                });
            }
        }
        Step::Kill { host, rest } => {
            if let Some(killed) = world.take(host) {
                killed.kill();
                world.journal.lock().killed.push(host);
                working.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(rest)).await;
                    world.pause(host, false);
                    world.start(host).await;
                });
            }
        }
        Step::Cut { host, lasts } => {
            let id = ractor_rooms::id::HostId::new(host_name(host)).expect("a name");
            world.network.cut(&id);
            working.spawn(async move {
                tokio::time::sleep(Duration::from_millis(lasts)).await;
                world.network.restore(&id);
            });
        }
        Step::Pause { host, lasts } => {
            world.pause(host, true);
            working.spawn(async move {
                tokio::time::sleep(Duration::from_millis(lasts)).await;
                world.pause(host, false);
            });
        }
        Step::Restart => world.store.restart(None),
        Step::Remember => *remembered = Some(world.store.inspect(Clone::clone)),
        Step::GoBack => world.store.restart(remembered.take()),
        Step::Forget => world.store.forget(),
    }
}

/// I6: every move that was begun ends.
async fn migrate(world: &World, via: usize, room: usize, to: usize) {
    let Some((host, _)) = world.host(via) else { return };
    let room = &world.plan.rooms[room];
    let request = MigrateTo::host(kind(room.durable), room.key.clone(), host_name(to));
    match tokio::time::timeout(BOUND, host.migrate(request)).await {
        Ok(Ok(report)) => {
            world.journal.say(format!("{} is at {} since {:?}", room.key, report.to, report.pause));
        }
        Ok(Err(error)) => world.journal.say(format!("{} does not move: {error}", room.key)),
        Err(_) => world.journal.broken(format!("I6: a move of {} does not end", room.key)),
    }
}

async fn unload(world: &World, host: usize, room: usize) {
    let Some((host, _)) = world.host(host) else { return };
    let room = &world.plan.rooms[room];
    let unloaded = async {
        if room.durable {
            host.unload::<SimRoom<Durable>>(room.key.clone()).await
        } else {
            host.unload::<SimRoom<Live>>(room.key.clone()).await
        }
    };
    match tokio::time::timeout(BOUND, unloaded).await {
        Ok(unloaded) => world.journal.say(format!("{} is unloaded: {unloaded:?}", room.key)),
        Err(_) => world.journal.broken(format!("I6: {} is not unloaded", room.key)),
    }
}

/// I6: every room answers, and every promise is kept, within bounds; and it stays so.
async fn come_to_rest(world: &World) -> Vec<String> {
    let deadline = world.now() + HEALS_WITHIN;
    let mut broken = look(world).await;
    while !broken.is_empty() && world.now() < deadline {
        tokio::time::sleep(Duration::from_millis(500)).await;
        broken = look(world).await;
    }
    if broken.is_empty() {
        tokio::time::sleep(STAYS).await;
        broken = look(world).await;
    }
    world.journal.say(format!("{} promises are broken", broken.len()));
    broken
}

async fn look(world: &World) -> Vec<String> {
    let mut remains = Vec::new();
    for index in 0..world.plan.rooms.len() {
        let durable = world.plan.rooms[index].durable;
        // By way of another host each, so that no answer comes from one host alone.
        let (host, _) = world.running(index % world.plan.hosts).await;
        let found = if durable {
            remains_of::<Durable>(world, &host, index).await
        } else {
            remains_of::<Live>(world, &host, index).await
        };
        match found {
            Ok(found) => remains.push(found),
            Err(error) => {
                let mut broken = world.journal.lock().broken.clone();
                broken.push(format!("I6: {}: {error}", world.plan.rooms[index].key));
                return broken;
            }
        }
    }
    judge(&world.plan, &world.journal.lock(), &remains)
}

async fn remains_of<C: Class>(
    world: &World,
    host: &RoomHost,
    index: usize,
) -> Result<Remains, String> {
    let key = world.plan.rooms[index].key.clone();
    let room: RoomRef<SimRoom<C>> = host.room(key.clone());
    let state: SimState = match room.call(SimMsg::Look, Some(Duration::from_secs(5))).await {
        Ok(CallResult::Success(state)) => state,
        Ok(CallResult::Timeout) => return Err("no answer".to_owned()),
        Ok(CallResult::SenderError) => return Err("the call was dropped".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let dead = host.dead_letters::<SimRoom<C>>(key).await.map_err(|error| error.to_string())?;
    let dead = dead.into_iter().map(|letter| letter.error).collect();
    Ok(Remains { state, dead })
}
