//! Three hosts over a store of their own: a source, an adopter and a third, which sends, listens and takes
//! over what is left.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms::id::{Epoch, HostId, RoomId};
use ractor_rooms::protocol::placement::{evenly, place};
use ractor_rooms::protocol::record::{Answer, Request};
use ractor_rooms::testing::{Aimed, CallTrace, Fault, FaultPlan, FaultyTransport, Operation};
use ractor_rooms::transport::Transport;
use ractor_rooms::{MigrationErr, RoomEvent, RoomHost, RoomHostBuilder, RoomRef};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::judge::{Sent, Verdict};
use super::{Course, Crash, Moment, Point, Role};
use crate::holes::{
    Class, DOOMED, Durable, Live, Pad, Stage, Upgrade, config, eventually, host_id, in_time,
    migrate, migrating, note, pad, room_id, show, stop,
};

const THIRD: &str = "c";
/// The sender beside the room, and the one on the third host.
const NEAR: u32 = 1;
const FAR: u32 = 2;
/// How far apart a sender's messages are.
const PACE: Duration = Duration::from_millis(3);
/// After this the room will not answer any more.
const UNANSWERED: Duration = Duration::from_secs(40);
/// How many messages each sender gets acknowledged before the move, and the far one after the crash.
const SOME: u64 = 5;

/// Stores for sites, each of its own.
pub trait Stores: Sync {
    /// What a host uses.
    type Transport: Transport;

    /// The same new store for each of these hosts.
    fn open(&self, hosts: usize) -> impl Future<Output = Vec<Self::Transport>> + Send;
}

/// One case of a crash: the hosts, their store and the room.
pub struct Site<T: Transport> {
    course: Course,
    key: String,
    nets: BTreeMap<&'static str, FaultyTransport<T>>,
    hosts: BTreeMap<&'static str, RoomHost>,
    trace: CallTrace,
    stage: Stage,
    clock: Clock,
}

impl<T: Transport> std::fmt::Debug for Site<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("hosts", &self.hosts.keys()).finish_non_exhaustive()
    }
}

/// Senders that write until they are told to stop.
struct Writers {
    tasks: Vec<JoinHandle<Sent>>,
    seen: Vec<watch::Receiver<u64>>,
    stop: watch::Sender<bool>,
}

impl<T: Transport> Site<T> {
    /// Starts the hosts.
    ///
    /// # Panics
    /// When they do not start.
    pub async fn new<S: Stores<Transport = T>>(stores: &S, course: Course) -> Self {
        let names = [Role::Source.host(), Role::Adopter.host(), THIRD];
        let (stage, trace) = (Stage::default(), CallTrace::default());
        stage.upgrade(Upgrade::Fail);
        let (mut nets, mut hosts) = (BTreeMap::new(), BTreeMap::new());
        for (name, transport) in names.into_iter().zip(stores.open(names.len()).await) {
            let net = FaultyTransport::new(transport, 0, FaultPlan::calm()).for_host(host_id(name));
            net.trace_into(trace.clone());
            let builder = RoomHost::builder(name, net.clone()).config(config()).configure(|c| {
                if name != THIRD {
                    c.session_ttl = DOOMED;
                }
            });
            let unable = course == Course::GivenBack && name == Role::Adopter.host();
            let start = if unable {
                with_pads::<2>(builder, name, &stage).start()
            } else {
                with_pads::<1>(builder, name, &stage).start()
            };
            hosts.insert(name, in_time("a host starts", start).await.expect("a host starts"));
            nets.insert(name, net);
        }
        // Placed on the source, which then need not get it from a host that may write what others cannot read.
        let key = key_placed(Role::Source.host(), &names);
        Self { course, key, nets, hosts, trace, stage, clock: Clock::system() }
    }

    /// Moves the room and returns the points that the move had.
    ///
    /// # Panics
    /// When the room does not move.
    pub async fn record<C: Class>(self) -> Vec<Point> {
        let writers = self.begin::<C>().await;
        self.trace.take();
        let moved = migrate::<C>(self.third(), &self.key, Role::Adopter.host()).await;
        match (self.course, moved) {
            (Course::Adopted, Ok(_)) => {}
            (Course::GivenBack, Err(MigrationErr::NotAdopted { .. })) => {}
            (course, moved) => panic!("expected {course:?}, found {moved:?}"),
        }
        self.until_settled::<C>().await;
        let calls = self.trace.take();
        writers.finish(None).await;
        stop(&self.hosts.values().collect::<Vec<_>>()).await;
        let room = room_id::<C>(&self.key).to_string();
        let mut counts: BTreeMap<(Role, Operation), usize> = BTreeMap::new();
        let mut points = Vec::new();
        for call in calls.into_iter().filter(|call| call.what == room) {
            let by = Role::ALL
                .into_iter()
                .find(|role| call.host.as_ref().is_some_and(|host| host.as_str() == role.host()));
            if let Some(by) = by {
                let nth = counts.entry((by, call.operation)).or_default();
                points.push(Point { by, operation: call.operation, nth: *nth });
                *nth += 1;
            }
        }
        points
    }

    /// Moves the room, lets a host die, and returns what was seen.
    ///
    /// # Panics
    /// When something does not come to an end.
    pub async fn crash<C: Class>(self, crash: Crash) -> Verdict {
        let writers = self.begin::<C>().await;
        let room = pad::<C>(self.third(), &self.key);
        let mut events = in_time("a member joins", room.events()).await.expect("a member joins");
        let aimed = self.aim(crash);
        let mut moving = migrating::<C>(self.third(), &self.key, Role::Adopter.host());
        let mut ended = false;
        let reached = tokio::select! {
            () = aimed.hit() => true,
            _ = &mut moving => {
                ended = true;
                // Some calls come when the move is over for who asked for it.
                self.until_settled::<C>().await;
                tokio::time::timeout(SOON, aimed.hit()).await.is_ok()
            }
        };
        if reached && crash.moment == Moment::After {
            in_time("the store carries it out", aimed.carried_out()).await;
        }
        let dead = crash.killed.host();
        self.hosts[dead].kill();
        let died = self.clock.mark();
        if crash.at.by != crash.killed {
            aimed.release();
        }
        let mut owned = false;
        let answered_after = {
            let mut answer = std::pin::pin!(show(&room));
            loop {
                // Not only now: what the host had sent may still be carried out, and name a dead owner.
                owned |= self.owner::<C>().await.as_deref() == Some(dead);
                if self.clock.elapsed_since(died) > UNANSWERED {
                    let calls = self.trace.take();
                    let calls = calls.iter().filter(|c| c.operation != Operation::Append);
                    let calls: Vec<String> = calls
                        .filter(|c| c.what == room_id::<C>(&self.key).to_string())
                        .map(|c| {
                            format!("{:?} {:?}", c.host.as_ref().map(HostId::as_str), c.operation)
                        })
                        .collect();
                    panic!("{crash}: no answer; {:?}; {calls:?}", self.look::<C>(THIRD).await);
                }
                tokio::select! {
                    _ = &mut answer => break self.clock.elapsed_since(died),
                    () = tokio::time::sleep(PACE) => {}
                }
            }
        };
        let acked: Vec<u64> = writers.seen.iter().map(|seen| *seen.borrow()).collect();
        if !ended {
            let asked = in_time("who asked for the move is told", moving).await;
            // Whatever it is told: it may have been made, and may not.
            let _ = asked.expect("the task that asked runs");
        }
        writers.until(1, acked[1] + SOME).await;
        let sent = writers.finish(Some((dead, acked))).await;
        let shown = show(&room).await;
        let (mut roll_backs, mut told) = (0, Vec::new());
        // The room has answered in its new epoch, so what it said before is in the store, and comes soon.
        while let Ok(Some(event)) = tokio::time::timeout(SOON, events.next()).await {
            match event {
                RoomEvent::RolledBack { .. } => roll_backs += 1,
                other => told.push(format!("{other:?}")),
            }
        }
        let alive: Vec<&RoomHost> =
            self.hosts.iter().filter(|(name, _)| **name != dead).map(|(_, host)| host).collect();
        stop(&alive).await;
        let sights = self.stage.of(&self.key);
        Verdict { reached, owned, answered_after, shown, sent, roll_backs, told, sights, dead }
    }

    fn third(&self) -> &RoomHost {
        &self.hosts[THIRD]
    }

    /// Brings the room to its source and has messages come in.
    async fn begin<C: Class>(&self) -> Writers {
        let source = Role::Source.host();
        if show(&pad::<C>(self.third(), &self.key)).await.host != source {
            migrate::<C>(self.third(), &self.key, source)
                .await
                .expect("the room is moved to its place");
        }
        let here = room_id::<C>(&self.key);
        eventually("the source runs the room", async || {
            self.hosts[source].rooms().await.expect("the host runs").contains(&here)
        })
        .await;
        let writers = Writers::start([
            (NEAR, pad::<C>(&self.hosts[source], &self.key)),
            (FAR, pad::<C>(self.third(), &self.key)),
        ]);
        writers.until(0, SOME).await;
        writers.until(1, SOME).await;
        writers
    }

    /// Holds the call that the crash is about.
    fn aim(&self, crash: Crash) -> Aimed {
        let Point { by, operation, nth } = crash.at;
        let net = &self.nets[by.host()];
        for _ in 0..nth {
            net.next(operation, Fault::HoldRequest).release();
        }
        let fault = match crash.moment {
            Moment::Before => Fault::HoldRequest,
            Moment::After => Fault::HoldAnswer,
        };
        net.next(operation, fault)
    }

    async fn look<C: Class>(&self, via: &str) -> Answer {
        let room: RoomId = room_id::<C>(&self.key);
        let inner = self.nets[via].inner();
        let read = inner.execute(&room, Request::Read, Epoch(0));
        in_time("the store answers", read).await.expect("the store answers")
    }

    async fn owner<C: Class>(&self) -> Option<String> {
        match self.look::<C>(THIRD).await {
            Answer::View(view) => Some(view?.seen.owner?.by.host.as_str().to_owned()),
            other => panic!("expected a record, found {other:?}"),
        }
    }

    /// Waits until the adopter has the room and says so.
    async fn until_settled<C: Class>(&self) {
        eventually("the room is settled", async || {
            matches!(self.look::<C>(THIRD).await, Answer::View(Some(view)) if view.settled)
        })
        .await;
    }
}

/// A key whose rooms of both classes are placed on `first`, out of these hosts.
fn key_placed(first: &str, among: &[&str]) -> String {
    let hosts: Vec<_> = among.iter().map(|name| host_id(name)).collect();
    let first = host_id(first);
    let is_there = |room: RoomId| place(&room, evenly(&hosts)) == Some(&first);
    (0..10_000)
        .map(|number| format!("pad-{number}"))
        .find(|key| is_there(room_id::<Live>(key)) && is_there(room_id::<Durable>(key)))
        .expect("a key that is placed there")
}

fn with_pads<const V: u32>(builder: RoomHostBuilder, name: &str, stage: &Stage) -> RoomHostBuilder {
    builder.room(Pad::<Live, V>::new(name, stage)).room(Pad::<Durable, V>::new(name, stage))
}

/// How long events are waited for that may come or not.
const SOON: Duration = Duration::from_millis(300);

impl Writers {
    fn start<C: Class>(rooms: [(u32, RoomRef<Pad<C>>); 2]) -> Self {
        let stop = watch::Sender::new(false);
        let (mut tasks, mut seen) = (Vec::new(), Vec::new());
        for (from, room) in rooms {
            let (acked, acked_seen) = watch::channel(0);
            tasks.push(tokio::spawn(write(room, from, acked, stop.subscribe())));
            seen.push(acked_seen);
        }
        Self { tasks, seen, stop }
    }

    /// Waits until this one got so many acknowledged.
    async fn until(&self, which: usize, acked: u64) {
        let mut seen = self.seen[which].clone();
        let reached =
            in_time("messages are acknowledged", seen.wait_for(|seen| *seen >= acked)).await;
        assert!(reached.is_ok(), "a sender stopped");
    }

    /// Stops them. `crash` is the host that died and what was acknowledged before.
    async fn finish(self, crash: Option<(&str, Vec<u64>)>) -> Vec<Sent> {
        self.stop.send_replace(true);
        let mut all = Vec::new();
        for (index, task) in self.tasks.into_iter().enumerate() {
            let mut sent = in_time("a sender stops", task).await.expect("a sender stops");
            if let Some((dead, acked)) = &crash {
                sent.killed = sent.from == NEAR && *dead == Role::Source.host();
                sent.acked_before = acked[index];
            }
            all.push(sent);
        }
        all
    }
}

async fn write<C: Class>(
    room: RoomRef<Pad<C>>,
    from: u32,
    seen: watch::Sender<u64>,
    stop: watch::Receiver<bool>,
) -> Sent {
    let mut sent = Sent { from, acked: 0, tried: 0, refused: None, killed: false, acked_before: 0 };
    while !*stop.borrow() {
        sent.tried += 1;
        match room.send(note(from, sent.tried)).await {
            Ok(()) => sent.acked = sent.tried,
            Err(refusal) => {
                sent.refused = Some(refusal.to_string());
                return sent;
            }
        }
        seen.send_replace(sent.acked);
        tokio::time::sleep(PACE).await;
    }
    sent
}
