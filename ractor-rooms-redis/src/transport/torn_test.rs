//! A script may be cut off after any write: a log of commands that was torn in the middle of a script
//! and replayed does that. The same request again must leave what one undisturbed request leaves.

use std::sync::Arc;

use bytes::Bytes;
use ractor_rooms::id::{
    Activation, Epoch, HostId, Incarnation, Millis, Number, OutSeq, Position, Producer, RoomId,
    Seq, SnapshotNumber,
};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, DeadLetter, DeclineReason, Lease, ParkReason, Reassert,
    RecordLimits, Request, Seen, SnapshotKey, SnapshotRef,
};
use ractor_rooms::protocol::session::{HostState, OpenAnswer, SessionSpec};
use ractor_rooms::testing::small_limits;
use ractor_rooms::transport::Transport;

use super::RedisTransport;
use crate::RedisConfig;
use crate::link::Link;
use crate::testing::PrivateServer;

const FAR: Millis = Millis(4_102_444_800_000);
const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

struct Story {
    good: RedisTransport,
    torn: RedisTransport,
    /// The step that is cut off.
    at: usize,
    step: usize,
    /// Whether the cut was felt.
    cut: bool,
    told: Vec<String>,
    room: RoomId,
}

fn batch(messages: &[&'static str]) -> Vec<Bytes> {
    messages.iter().map(|m| Bytes::from_static(m.as_bytes())).collect()
}

fn client(number: u64) -> Producer {
    Producer::Host(Incarnation { host: HostId::new("client").unwrap(), number })
}

/// A producer's name without what comes from a clock.
fn sender(of: &Producer) -> u64 {
    match of {
        Producer::Host(by) => by.number,
        Producer::Room(..) | Producer::Activation(..) => 0,
    }
}

impl Story {
    fn new(link: &Link, config: &RedisConfig, name: &str, at: usize, writes: u32) -> Self {
        let config = config.clone().namespace(name);
        let over = || RedisTransport::over(link.clone(), &config);
        let (good, mut torn) = (over(), over());
        let inner = Arc::get_mut(&mut torn.0).unwrap();
        inner.scripts = crate::script::Scripts::torn(writes);
        let room = RoomId::new("torn", "r\0}").unwrap();
        Self { good, torn, at, step: 0, cut: false, told: Vec::new(), room }
    }

    /// The link looks after the generations of its own namespace only.
    async fn seed(&self) {
        for shard in 0..self.good.0.layout.shards() {
            let number = self.good.0.link.generation_of(shard).to_string();
            let key = self.good.0.layout.of_shard(shard, "generation");
            let mut pipeline = redis::pipe();
            pipeline.cmd("HSET").arg(&key[..]).arg("number").arg(number);
            self.good.0.link.bulk(pipeline).await.unwrap();
        }
    }

    /// A log of commands is torn by a restart only, after which another generation counts: what was counted
    /// was counted in an earlier one.
    async fn restart(&self) {
        let key = self.good.0.layout.append_keys(&crate::text::room(&self.room));
        let key = key.first().unwrap();
        let script = "local tail = redis.call('HGET', KEYS[1], 'tail') \
                      if tail then redis.call('HSET', KEYS[1], 'tail', \
                      (string.gsub(tail, '^(%d+ %S+ %S+ %d+ %d+) %d+', '%1 0'))) end";
        let mut pipeline = redis::pipe();
        pipeline.cmd("EVAL").arg(script).arg(1).arg(key);
        self.good.0.link.bulk(pipeline).await.unwrap();
    }

    async fn ask(&mut self, request: Request) -> Answer {
        let cut = self.step == self.at;
        if cut {
            let torn = self.torn.execute(&self.room, request.clone(), Epoch(0)).await;
            self.cut = torn.is_err();
            self.restart().await;
        }
        self.step += 1;
        let answer = self.good.execute(&self.room, request, Epoch(0)).await.unwrap();
        if let Answer::Append(answer) = &answer {
            // Whether it is the first or the second that is accepted does not matter.
            let told = match answer {
                AppendAnswer::Accepted { last, seq, .. }
                | AppendAnswer::Duplicate { last, seq, .. } => {
                    format!("{last} at {seq}")
                }
                AppendAnswer::Fenced { epoch, last, .. } => format!("fenced {epoch} {last:?}"),
                other => format!("{other:?}"),
            };
            self.told.push(told);
        }
        answer
    }

    async fn append(&mut self, producer: Producer, first: u64, messages: &[&'static str]) {
        let batch = batch(messages);
        let first = Number(first);
        self.ask(Request::Append { life: None, producer, epoch: 0, first, batch }).await;
    }

    async fn host(&self, name: &str) -> Incarnation {
        let kinds = std::collections::BTreeMap::new();
        let spec = SessionSpec {
            state: HostState::Ready,
            load: 0,
            capacity: 1,
            weight: 1,
            kinds,
            proved: Default::default(),
            holds: None,
        };
        match self.good.open_session(&HostId::new(name).unwrap(), MINUTE, spec).await.unwrap() {
            OpenAnswer::Opened(by) => by,
            OpenAnswer::Taken { .. } => panic!("{name} is there already"),
        }
    }

    async fn acquire(&mut self, by: &Incarnation, number: u64) -> Lease {
        let read = self.good.execute(&self.room, Request::Read, Epoch(0)).await.unwrap();
        let Answer::View(Some(view)) = read else { panic!("no record") };
        let seen = Seen { epoch: view.seen.epoch, owner: view.seen.owner };
        let activation = Activation { by: by.clone(), number };
        match self.ask(Request::Acquire { activation, seen }).await {
            Answer::Acquire(AcquireAnswer::Acquired(acquired)) => acquired.lease,
            other => panic!("{other:?}"),
        }
    }

    /// Of an owner that knows more than the record.
    async fn reassert(&mut self, lease: Lease) -> Lease {
        let read = self.good.execute(&self.room, Request::Read, Epoch(0)).await.unwrap();
        let Answer::View(Some(view)) = read else { panic!("no record") };
        let snapshot = self.snapshot(&lease, 9, Position::START).await;
        let claim = Reassert {
            activation: Activation { number: 40, ..lease.owner.clone() },
            lease,
            life: view.life,
            snapshot,
            handled: vec![(client(7), Number(3))],
            seq: view.seq,
            out_seq: OutSeq(20),
        };
        match self.ask(Request::Reassert(Box::new(claim))).await {
            Answer::Acquire(AcquireAnswer::Acquired(acquired)) => acquired.lease,
            other => panic!("{other:?}"),
        }
    }

    async fn snapshot(&self, lease: &Lease, number: u64, cursor: Position) -> SnapshotRef {
        let key = SnapshotKey { by: lease.owner.clone(), attempt: number };
        let bytes = Bytes::from(number.to_string());
        self.good.put_snapshot(&self.room, key.clone(), bytes).await.unwrap();
        SnapshotRef {
            key,
            number: SnapshotNumber(number),
            cursor,
            cursor_seq: Seq(0),
            unread: 0,
            bytes: 1,
            schema: 1,
            next_timer: None,
        }
    }

    async fn log(&self, lease: &Lease) -> Vec<ractor_rooms::protocol::record::Entry> {
        let after = Position::START;
        let page = Request::ReadLog { lease: lease.clone(), after, max_bytes: 1 << 20 };
        match self.good.execute(&self.room, page, Epoch(0)).await.unwrap() {
            Answer::Page(Ok(page)) => page.entries,
            other => panic!("{other:?}"),
        }
    }

    /// What there is to see, without what comes from a clock.
    async fn look(&mut self, lease: &Lease, hosts: &[Incarnation]) {
        let log: Vec<_> = self.log(lease).await;
        let log: Vec<_> =
            log.into_iter().map(|e| (e.first_seq, sender(&e.producer), e.first, e.batch)).collect();
        self.told.push(format!("{log:?}"));
        self.look_outside(hosts).await;
    }

    async fn look_outside(&mut self, hosts: &[Incarnation]) {
        let ask = async |request| self.good.execute(&self.room, request, Epoch(0)).await.unwrap();
        let Answer::View(Some(view)) = ask(Request::Read).await else { panic!("no record") };
        let Answer::History { first, events, .. } =
            ask(Request::ReadHistory { after: OutSeq(0) }).await
        else {
            panic!("another answer")
        };
        let Answer::DeadLetters(letters) = ask(Request::ReadDeadLetters).await else {
            panic!("another answer")
        };
        let letters: Vec<_> = letters.into_iter().map(|l| (l.number, l.message, l.error)).collect();
        let mut told = format!("{:?} {first} {events:?} {letters:?}", view.phase);
        told += &format!(
            " {} {} {} {:?} {:?} {} {}",
            view.settled,
            view.seq,
            view.backlog,
            view.snapshot.as_ref().map(|s| s.number),
            view.declined,
            view.crashes,
            view.out_seq,
        );
        let unrest = self.good.unrest(None, 9).await.unwrap();
        told += &format!(" unrest {:?}", unrest.iter().map(|u| &u.room).collect::<Vec<_>>());
        for host in hosts {
            told += &format!(" owned {}", self.good.owned(host).await.unwrap().len());
        }
        let bytes = match &view.snapshot {
            Some(snapshot) => self.good.get_snapshot(&self.room, &snapshot.key).await.unwrap(),
            None => None,
        };
        self.told.push(format!("{told} {bytes:?}"));
    }

    async fn tell(&mut self) {
        let (a, b) = (self.host("a").await, self.host("b").await);
        let hosts = [a.clone(), b.clone()];
        let offer =
            |to: &Incarnation| Request::Offer { to: to.host.clone(), until: FAR, create: true };
        self.ask(offer(&a)).await;
        let lease = self.acquire(&a, 1).await;
        self.ask(Request::Settle { lease: lease.clone() }).await;
        self.append(client(1), 1, &["one", "two"]).await;
        self.append(client(2), 1, &["x"]).await;
        self.append(Producer::Activation(self.room.clone(), lease.owner.clone()), 1, &["own"])
            .await;
        for (first, events) in [(1, &["e1", "e2"][..]), (3, &["e3"]), (9, &["e9"])] {
            let events = batch(events);
            self.ask(Request::Emit { lease: lease.clone(), first: OutSeq(first), events }).await;
        }
        let cursor = self.log(&lease).await[0].position;
        let snapshot = self.snapshot(&lease, 1, cursor).await;
        self.ask(Request::Checkpoint { lease: lease.clone(), snapshot }).await;
        self.look(&lease, &hosts).await;
        self.append(client(3), 1, &["prunes"]).await;
        self.append(client(4), 1, &["prunes"]).await;
        self.append(client(1), 3, &["it was pruned"]).await;
        self.ask(Request::CountFailure {
            lease: lease.clone(),
            producer: client(2),
            number: Number(1),
            attempt: 1,
        })
        .await;
        self.ask(Request::GiveUp {
            lease: lease.clone(),
            letter: DeadLetter {
                producer: client(2),
                number: Number(1),
                message: Bytes::from_static(b"x"),
                attempts: 3,
                error: "no".to_owned(),
                at: FAR,
            },
        })
        .await;
        let received = self.log(&lease).await[0].position;
        self.ask(Request::Ack { lease: lease.clone(), received }).await;
        self.look(&lease, &hosts).await;
        let cursor = self.log(&lease).await[0].position;
        let snapshot = self.snapshot(&lease, 2, cursor).await;
        self.ask(Request::Park {
            lease,
            snapshot: Some(snapshot),
            offer: Some((b.host.clone(), FAR)),
            why: ParkReason::Idle,
            failed: None,
        })
        .await;
        self.look_outside(&hosts).await;
        self.append(client(4), 2, &["while offered"]).await;
        let lease = self.acquire(&b, 2).await;
        self.look(&lease, &hosts).await;
        self.ask(Request::Park {
            lease,
            snapshot: None,
            offer: None,
            why: ParkReason::GivenBack,
            failed: Some(DeclineReason::DeadlineMissed),
        })
        .await;
        self.look_outside(&hosts).await;
        self.append(client(4), 3, &["while parked"]).await;
        self.ask(offer(&b)).await;
        self.ask(Request::Decline { by: b.host.clone(), why: DeclineReason::Draining }).await;
        self.look_outside(&hosts).await;
        let lease = self.acquire(&b, 3).await;
        self.look(&lease, &hosts).await;
        self.good.close_session(&b).await.unwrap();
        self.ask(offer(&a)).await;
        self.look_outside(&hosts).await;
        let lease = self.acquire(&a, 4).await;
        self.look(&lease, &hosts).await;
        let lease = self.reassert(lease).await;
        self.look(&lease, &hosts).await;
        let cursor = self.log(&lease).await[0].position;
        let reason = "over".to_owned();
        self.ask(Request::Close { lease, cursor, reason, forced: true }).await;
        self.look_outside(&hosts).await;
        self.ask(offer(&a)).await;
        self.append(client(4), 1, &["another life"]).await;
        let lease = self.acquire(&a, 5).await;
        self.append(client(4), 2, &["more"]).await;
        self.look(&lease, &hosts).await;
    }
}

#[tokio::test]
async fn h02_a_script_that_was_cut_off_heals_when_it_is_repeated() {
    let server = PrivateServer::start().await.unwrap();
    let limits = RecordLimits { producers: 3, ..small_limits(MINUTE) };
    let config = super::bench::config(&server, "torn", limits);
    let link = config.clone().open().await.unwrap();
    let mut undisturbed = Story::new(&link, &config, "whole", usize::MAX, 0);
    undisturbed.seed().await;
    undisturbed.tell().await;
    let mut cuts = 0;
    for at in 0..undisturbed.step {
        for writes in 0.. {
            let mut story = Story::new(&link, &config, &format!("cut{at}-{writes}"), at, writes);
            story.seed().await;
            story.tell().await;
            for (n, (found, expected)) in story.told.iter().zip(&undisturbed.told).enumerate() {
                assert_eq!(found, expected, "step {at} cut after {writes} writes, sight {n}");
            }
            assert_eq!(story.told.len(), undisturbed.told.len());
            if !story.cut {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts > 100, "only {cuts} cuts were felt");
    println!("{cuts} cuts in {} steps", undisturbed.step);
}
