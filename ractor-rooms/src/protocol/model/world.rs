//! One room, its hosts, its senders and the store: a state of the model, and what may happen in it at all.

use bytes::Bytes;
use std::collections::BTreeMap;

use super::configs::{Budget, Config};
use super::events::{Member, Told};
use super::shared::Shared;
use crate::id::{
    Activation, Generation, HostId, Incarnation, Life, Number, Producer, RoomId, SnapshotNumber,
};
use crate::protocol::invariants::{Broken, Sent};
use crate::protocol::record::{
    AcquireAnswer, Acquired, Answer, Entry, Lease, OfferAnswer, Request, SnapshotKey, SnapshotRef,
};
use crate::protocol::session::{HostState, OpenAnswer, SessionSpec};
use crate::protocol::{Adopter, Consumer, Gate, Sender, Source, Store};

/// The room that all of it is about.
pub(super) fn room() -> RoomId {
    RoomId::new("model", "r").unwrap()
}

/// A message: it is one byte long, and says who sent it and as which.
pub(super) type Code = u8;

pub(super) fn code(sender: usize, index: u8) -> Code {
    (sender as u8) << 4 | index
}

pub(super) fn sent(code: Code) -> Sent {
    Sent { sender: u32::from(code >> 4), index: u32::from(code & 15) }
}

pub(super) fn payload(code: Code) -> Bytes {
    const ALL: [u8; 64] = {
        let mut all = [0; 64];
        let mut i = 0;
        while i < 64 {
            all[i] = i as u8;
            i += 1;
        }
        all
    };
    static BYTES: [u8; 64] = ALL;
    Bytes::from_static(&BYTES[code as usize..=code as usize])
}

/// A set of messages.
pub(super) fn bit(code: Code) -> u64 {
    1 << code
}

/// A room that exists in a host's memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) lease: Lease,
    pub(super) life: Life,
    pub(super) consumer: Consumer,
    /// What was handled, in order: the state.
    pub(super) state: Vec<Code>,
    /// What a live room has received and not handled. A durable one takes a message by handling it.
    pub(super) mailbox: Vec<Code>,
    /// The number of the last event that is published, and those that wait after it.
    pub(super) published: u64,
    pub(super) pending: Vec<Code>,
    /// The number of the last snapshot that was made of it.
    pub(super) number: SnapshotNumber,
    /// What the last checkpoint that was answered had inside.
    pub(super) saved: Option<Content>,
    /// A push or a head check has shown that something is missing.
    pub(super) behind: bool,
    /// Its adopter is `Live`.
    pub(super) live: bool,
}

/// What the bytes of a snapshot say.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub(super) consumer: Consumer,
    pub(super) state: Vec<Code>,
    pub(super) mailbox: Vec<Code>,
    pub(super) published: u64,
    pub(super) pending: Vec<Code>,
}

/// A room that a host gives up.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Leaving {
    pub(super) source: Source,
    pub(super) lease: Lease,
    /// The frozen bytes, from the cut on.
    pub(super) cut: Option<SnapshotRef>,
    /// A park that is to be sent, and whom it offers the room to.
    pub(super) park: Option<Option<HostId>>,
    /// It wants the room back, and nobody here has begun to take it.
    pub(super) wants_back: bool,
    /// The room that is held while its host has no session, and the activation that takes it back.
    pub(super) held: Option<(Run, Activation)>,
    /// It is acquired again, and yet to be re-asserted.
    pub(super) acquired: bool,
    pub(super) life: Life,
    /// The lease that the host has of the room: the one that it leaves under, or of an adoption since.
    pub(super) claim: Lease,
    /// A re-assert is to be sent.
    pub(super) asserts: bool,
    /// The activation that it names.
    pub(super) asserting: Option<Activation>,
    /// The generation that its machine was told of.
    pub(super) told: Generation,
    /// The generation in which the store knew of somebody who had the room later.
    pub(super) conceded: Option<Generation>,
}

impl Leaving {
    /// Nothing is cut yet.
    pub(super) fn new(source: Source, lease: Lease, life: Life) -> Self {
        Self {
            source,
            life,
            claim: lease.clone(),
            asserts: false,
            asserting: None,
            told: lease.generation,
            conceded: None,
            lease,
            cut: None,
            park: None,
            wants_back: false,
            held: None,
            acquired: false,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Host {
    pub(super) id: HostId,
    pub(super) up: bool,
    pub(super) incarnation: Incarnation,
    /// Its session has lapsed, by its own clock.
    pub(super) lapsed: bool,
    pub(super) acquisitions: u64,
    /// It was told that the room is reserved for it.
    pub(super) noticed: bool,
    pub(super) adopter: Option<Adopter>,
    /// What its adopter has acquired and not restored yet.
    pub(super) acquired: Option<Acquired>,
    pub(super) run: Option<Run>,
    pub(super) leaving: Option<Leaving>,
}

/// Where senders are: a host, or a client that runs no rooms. They share an outbound queue.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The host, if it may run the room.
    pub(super) host: Option<usize>,
    pub(super) producer: Producer,
    pub(super) sender: Sender,
    /// What waits to be appended, in order.
    pub(super) queue: Vec<Code>,
    /// What an opening gate holds.
    pub(super) held: Vec<Code>,
    pub(super) gate: Gate,
    /// A send that has passed the gate and has not put its message into the mailbox yet.
    pub(super) admitted: Option<Code>,
    /// How many messages each sender has sent from here.
    pub(super) next: [u8; 2],
    /// What the store has accepted lately, and would be sent again.
    pub(super) window: Vec<Code>,
    /// Whether what was accepted last follows what is in the window.
    pub(super) contiguous: bool,
    /// What was accepted under each number of the producer.
    pub(super) numbers: Vec<Code>,
    /// The store is in another generation, and the sender is yet to hear of it.
    pub(super) forgotten: bool,
    /// An append found no room.
    pub(super) homeless: bool,
    pub(super) dead: bool,
}

/// What only the observer knows.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Ghost {
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    /// What belongs to a life of the room that is over.
    pub(super) former: u64,
    /// The longest sequence of handled messages: each is an output of a durable room.
    pub(super) outputs: Vec<Code>,
    /// Somebody died: what a live room promises for planned moves is off.
    pub(super) faulted: bool,
    /// The store has gone back.
    pub(super) regressed: bool,
    /// Acknowledged, and reported as lost.
    pub(super) reported: u64,
    /// The lease of the host that had the room when the store went back, until it is proved.
    pub(super) heir: Option<Lease>,
    /// The store went back and nobody has what it forgot: outputs may be others.
    pub(super) forked: bool,
    /// What was published under each number.
    pub(super) events: Vec<Code>,
    pub(super) broken: Option<Broken>,
}

impl Ghost {
    /// Messages were handed back. Those that had been acknowledged before are reported as lost.
    pub(super) fn give_up(&mut self, done: u64, which: impl Fn(&mut Self) -> &mut u64) {
        let lost = done & self.acknowledged;
        self.reported |= lost;
        *which(self) |= done & !lost;
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) store: Shared<Store>,
    pub(super) hosts: Vec<Shared<Host>>,
    pub(super) places: Vec<Shared<Place>>,
    /// What is in the snapshots whose bytes the store has, and in frozen ones.
    pub(super) contents: Shared<Vec<(SnapshotKey, Content)>>,
    /// Pushes under way, in log order; any may be lost, and any may arrive next.
    pub(super) pushes: Shared<Vec<(Lease, Entry)>>,
    /// Requests whose caller has given up on the answer, and that may execute at any time or never.
    pub(super) late: Shared<Vec<Request>>,
    /// What is on the store's disk.
    pub(super) kept: Option<Shared<Store>>,
    pub(super) member: Member,
    /// Events on their way to the member; any may be lost, and any may arrive next.
    pub(super) told: Shared<Vec<Told>>,
    pub(super) ghost: Shared<Ghost>,
    pub(super) budget: Budget,
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let mut store = Store::new(config.limits);
        let now = crate::id::Millis(super::steps::NOW);
        store.advance(now);
        let names = ["a", "b", "c"];
        let mut hosts = Vec::new();
        for name in &names[..config.hosts] {
            let id = HostId::new(*name).unwrap();
            let incarnation = open(&mut store, &id);
            hosts.push(Host {
                id,
                up: true,
                incarnation,
                lapsed: false,
                acquisitions: 0,
                noticed: false,
                adopter: None,
                acquired: None,
                run: None,
                leaving: None,
            });
        }
        let mut at: Vec<usize> = config.places.to_vec();
        at.dedup();
        let places = at.iter().enumerate().map(|(place, at)| {
            // Where no mailbox is near, sends wait in the queue from the start.
            let eager = config.durable || *at >= hosts.len();
            let mut next = [0; 2];
            for sender in (0..2).filter(|s| eager && config.place_of(*s) == place) {
                next[sender] = config.messages[sender];
            }
            let all = (0..2).flat_map(|s| (1..=next[s]).map(move |index| code(s, index)));
            let incarnation = match hosts.get(*at) {
                Some(host) => host.incarnation.clone(),
                None => Incarnation {
                    host: HostId::new(format!("client{at}")).unwrap(),
                    number: 10 + *at as u64,
                },
            };
            Shared::new(Place {
                host: (*at < hosts.len()).then_some(*at),
                producer: Producer::Host(incarnation),
                sender: Sender::new(),
                queue: all.collect(),
                held: Vec::new(),
                gate: Gate::Store,
                admitted: None,
                next,
                window: Vec::new(),
                contiguous: true,
                numbers: Vec::new(),
                forgotten: false,
                homeless: false,
                dead: false,
            })
        });
        let places = places.collect();
        let mut world = Self {
            store: Shared::new(store),
            hosts: hosts.into_iter().map(Shared::new).collect(),
            places,
            contents: Shared::new(Vec::new()),
            pushes: Shared::new(Vec::new()),
            late: Shared::new(Vec::new()),
            kept: None,
            member: Member::default(),
            told: Shared::new(Vec::new()),
            ghost: Shared::new(Ghost::default()),
            budget: config.budget.clone(),
        };
        if !config.unborn {
            world.start_on_first_host(config);
        }
        world.join();
        if config.budget.regress > 0 && config.budget.keep == 0 {
            world.kept = Some(world.store.clone());
        }
        world
    }

    /// The room runs on the first host and has handled nothing.
    fn start_on_first_host(&mut self, config: &Config) {
        let id = self.hosts[0].id.clone();
        let until = super::steps::open_until();
        let offered = self.execute(config, Request::Offer { to: id, until, create: true });
        assert!(matches!(offered, Answer::Offer(OfferAnswer::Done { .. })));
        let (mut adopter, _) = self.begin_adoption(0);
        let acquire = Request::Acquire {
            activation: adopter.activation().clone(),
            seen: self.store.record(&room()).map(super::host::seen).unwrap(),
        };
        let Answer::Acquire(AcquireAnswer::Acquired(acquired)) = self.execute(config, acquire)
        else {
            panic!("the first host gets a new room")
        };
        let lease = acquired.lease.clone();
        let claimed = AcquireAnswer::Acquired(acquired);
        super::host::step(
            &mut adopter,
            crate::protocol::adopter::AdopterEvent::ClaimAnswered(claimed),
        );
        self.execute(config, Request::Settle { lease: lease.clone() });
        self.host_mut(0).noticed = false;
        let life = self.store.record(&room()).map(|record| record.life).unwrap_or_default();
        let run = Content::empty().run(lease, life, SnapshotNumber(0));
        self.host_mut(0).run = Some(Run { live: true, ..run });
        self.open_gates(0, config);
        // With no sender under way, the gates open at once.
        for place in 0..self.places.len() {
            self.gate_progress(config, place);
        }
    }

    pub(super) fn host_mut(&mut self, host: usize) -> &mut Host {
        self.hosts[host].get_mut()
    }

    pub(super) fn place_mut(&mut self, place: usize) -> &mut Place {
        self.places[place].get_mut()
    }

    pub(super) fn run_mut(&mut self, host: usize) -> Option<&mut Run> {
        self.host_mut(host).run.as_mut()
    }

    pub(super) fn store_mut(&mut self) -> &mut Store {
        self.store.get_mut()
    }

    pub(super) fn ghost_mut(&mut self) -> &mut Ghost {
        self.ghost.get_mut()
    }

    pub(super) fn content(&self, key: &SnapshotKey) -> Option<&Content> {
        self.contents.iter().find(|(k, _)| k == key).map(|(_, content)| content)
    }

    /// Whether a host's present session is unlapsed, by the store.
    pub(super) fn in_session(&self, host: usize) -> bool {
        !self.hosts[host].lapsed && self.store.is_alive(&self.hosts[host].incarnation)
    }

    /// Notes the first invariant that broke.
    pub(super) fn note(&mut self, verdict: Result<(), Broken>) {
        if let Err(broken) = verdict
            && self.ghost.broken.is_none()
        {
            self.ghost_mut().broken = Some(broken);
        }
    }
}

impl Content {
    pub(super) fn empty() -> Self {
        Self {
            consumer: Consumer::default(),
            state: Vec::new(),
            mailbox: Vec::new(),
            published: 0,
            pending: Vec::new(),
        }
    }

    pub(super) fn run(self, lease: Lease, life: Life, number: SnapshotNumber) -> Run {
        Run {
            lease,
            life,
            saved: Some(self.clone()),
            consumer: self.consumer,
            state: self.state,
            mailbox: self.mailbox,
            published: self.published,
            pending: self.pending,
            number,
            behind: false,
            live: false,
        }
    }
}

/// A session's time: longer than anything here takes.
pub(super) const TTL: u64 = 1 << 40;

/// What a host says of itself.
pub(super) fn spec(proved: Generation) -> SessionSpec {
    SessionSpec {
        state: HostState::Ready,
        load: 0,
        capacity: 1,
        weight: 1,
        kinds: BTreeMap::new(),
        proved,
        holds: None,
    }
}

/// Opens a session that only an explicit step ends.
pub(super) fn open(store: &mut Store, id: &HostId) -> Incarnation {
    match store.open_session(id, TTL, spec(Generation::default())) {
        OpenAnswer::Opened(incarnation) => incarnation,
        OpenAnswer::Taken { .. } => panic!("the session before has ended"),
    }
}

/// The first number of an append, for labels.
pub(super) fn numbers(first: Number, count: usize, life: Option<Life>) -> String {
    let life = life.map_or("?".to_owned(), |l| l.to_string());
    format!("#{first}+{count} (life {life})")
}
