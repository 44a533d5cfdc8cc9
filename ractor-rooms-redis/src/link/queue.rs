//! What waits and what is under way on a line: order, merging and bounds, without IO.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::transport::TransportErr;
use redis::{Pipeline, Value};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::fault::{self, Fault};
use super::{Call, Merge};
use crate::config::Quorum;

/// Calls and bytes that wait at most.
const WAITING: usize = 16_384;
const WAITING_BYTES: usize = 64 << 20;
/// Batches under way at once on one server. More would merge less.
const WINDOW: usize = 4;
/// Batches under way at once in a cluster, one for each hash tag.
const WINDOW_CLUSTER: usize = 256;
/// Calls and bytes of one batch, all of which may be one merged command. They bound how long the server serves
/// nobody else, and keep it busy with the next batches while the callers of one get their answers.
const BATCH_CALLS: usize = 128;
const BATCH_BYTES: usize = 256 << 10;
/// Scripts that are known to be loaded, per hash tag in a cluster.
const KNOWN: usize = 16_384;

pub(super) type Answer = Result<Value, TransportErr>;

/// Who has the word on a call: only one of the line and its caller decides whether it is sent.
pub(super) struct Fate(AtomicU8);

const WAITS: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Fate {
    fn send(&self) -> bool {
        match self.0.compare_exchange(WAITS, SENT, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(SENT) => true,
            Err(_) => false,
        }
    }

    /// Whether it can still be kept from being sent for the first time.
    pub(super) fn withdraw(&self) -> bool {
        self.0.compare_exchange(WAITS, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A call and its caller.
struct Item {
    call: Call,
    /// The hash of the hash tag.
    tag: u64,
    order: u64,
    bytes: usize,
    fate: Arc<Fate>,
    answer: oneshot::Sender<Answer>,
}

impl Item {
    /// Whether it must be sent, or sent again.
    fn wanted(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// One command: one call, or several that were merged.
struct Command {
    items: Vec<Item>,
    bytes: usize,
}

/// Commands that go together, and whose answers come together.
struct Batch {
    lane: Bytes,
    commands: Vec<Command>,
    sent: Duration,
    task: Option<AbortHandle>,
}

/// Calls that keep their order: all on one server, those of one hash tag in a cluster.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Item>,
    in_flight: usize,
    /// Something must be sent again: first everything under way is answered, else what is sent now could be
    /// taken before a call whose own failure is still on its way here.
    held: bool,
}

/// What the line has to do with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing waits, or somebody will see to it.
    Rest,
    /// Send what waits.
    Pump,
    /// Send what waits after a moment.
    PumpLater,
    /// Drop the connection.
    Reconnect(&'static str),
}

/// Who is to send what waits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pump {
    /// The caller itself: nothing is under way, so that to leave it to another task would only take time.
    Caller,
    /// The actor: what else is called meanwhile goes along.
    Actor,
}

/// A call that was taken in.
pub(super) struct Taken {
    pub(super) fate: Arc<Fate>,
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) pump: Option<Pump>,
}

/// A batch to send.
pub(super) struct Sending {
    pub(super) id: u64,
    pub(super) pipeline: Pipeline,
}

/// What waits and what is under way.
pub(super) struct Queue {
    cluster: bool,
    quorum: Option<Quorum>,
    lanes: HashMap<Bytes, Lane>,
    /// Lanes in which something may wait, in the order in which they got it.
    busy: VecDeque<Bytes>,
    waiting: usize,
    bytes: usize,
    in_flight: BTreeMap<u64, Batch>,
    heartbeats: BTreeMap<u64, Duration>,
    next_order: u64,
    next_batch: u64,
    /// Whether the actor was told to pump and did not yet.
    pumping: bool,
    known: HashSet<(Bytes, Arc<str>)>,
    hasher: RandomState,
}

impl Queue {
    pub(super) fn new(cluster: bool, quorum: Option<Quorum>) -> Self {
        Self {
            cluster,
            quorum,
            lanes: HashMap::new(),
            busy: VecDeque::new(),
            waiting: 0,
            bytes: 0,
            in_flight: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
            next_order: 0,
            next_batch: 0,
            pumping: false,
            known: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    /// Takes a call in. Answers who must send what waits, unless somebody will.
    pub(super) fn push(&mut self, call: Call) -> Result<Taken, TransportErr> {
        let bytes = call.keys.size() + call.args.size() + 64;
        if self.waiting >= WAITING || self.bytes + bytes > WAITING_BYTES {
            self.forget_dropped();
        }
        if self.waiting >= WAITING || self.bytes + bytes > WAITING_BYTES {
            let reason = format!("{} calls of {} bytes wait already", self.waiting, self.bytes);
            return Err(TransportErr::Unavailable { reason });
        }
        let Some(key) = call.keys.first() else {
            let reason = "a call without a key has no slot".to_owned();
            return Err(TransportErr::Unavailable { reason });
        };
        let tag = tag(key);
        let lane = if self.cluster { Bytes::copy_from_slice(tag) } else { Bytes::new() };
        // Two tags with one hash would only keep an order that nobody asked for.
        let tag = self.hasher.hash_one(tag);
        let fate = Arc::new(Fate(AtomicU8::new(WAITS)));
        let (answer, receiver) = oneshot::channel();
        let order = self.next_order;
        self.next_order += 1;
        self.waiting += 1;
        self.bytes += bytes;
        let item = Item { call, tag, order, bytes, fate: fate.clone(), answer };
        let place = self.lanes.entry(lane.clone()).or_default();
        if place.waiting.is_empty() {
            self.busy.push_back(lane);
        }
        place.waiting.push_back(item);
        let idle = self.in_flight.is_empty() && self.waiting == 1;
        let pump = match std::mem::replace(&mut self.pumping, true) {
            true => None,
            false if idle => Some(Pump::Caller),
            false => Some(Pump::Actor),
        };
        Ok(Taken { fate, answer: receiver, pump })
    }

    /// Drops what nobody waits for and nobody sent.
    pub(super) fn forget_dropped(&mut self) {
        let (mut waiting, mut bytes) = (0, 0);
        for lane in self.lanes.values_mut() {
            lane.waiting.retain(Item::wanted);
            waiting += lane.waiting.len();
            bytes += lane.waiting.iter().map(|item| item.bytes).sum::<usize>();
        }
        self.waiting = waiting;
        self.bytes = bytes;
    }

    /// What can be sent now.
    pub(super) fn pump(&mut self, now: Duration) -> Vec<Sending> {
        self.pumping = false;
        let mut sending = Vec::new();
        for _ in 0..self.busy.len() {
            let Some(lane) = self.busy.pop_front() else { break };
            while let Some(batch) = self.take(&lane, now) {
                sending.push(batch);
            }
            match self.lanes.get(&lane) {
                Some(left) if !left.waiting.is_empty() => self.busy.push_back(lane),
                Some(left) if left.in_flight == 0 => {
                    self.lanes.remove(&lane);
                }
                Some(_) | None => {}
            }
        }
        sending
    }

    fn take(&mut self, name: &Bytes, now: Duration) -> Option<Sending> {
        let window = if self.cluster { WINDOW_CLUSTER } else { WINDOW };
        let lane = self.lanes.get_mut(name)?;
        let full = if self.cluster { lane.in_flight > 0 } else { false };
        lane.held &= lane.in_flight > 0;
        if full || lane.held || self.in_flight.len() >= window {
            return None;
        }
        let mut commands: Vec<Command> = Vec::new();
        // The last command of each tag, before which nothing of the tag may go any more; and the last of each
        // script.
        let mut last: HashMap<u64, usize> = HashMap::new();
        let mut newest: HashMap<Arc<str>, usize> = HashMap::new();
        let (mut calls, mut batch_bytes) = (0, 0);
        while let Some(item) = lane.waiting.pop_front() {
            self.waiting -= 1;
            self.bytes -= item.bytes;
            if !item.wanted() || !item.fate.send() {
                continue;
            }
            batch_bytes += item.bytes;
            let tag = item.tag;
            let behind = last.get(&tag).copied();
            let place = match item.call.merge {
                Merge::Never => None,
                Merge::Tag => behind,
                Merge::All => {
                    newest.get(&item.call.script.sha).copied().filter(|at| Some(*at) >= behind)
                }
            };
            match place.and_then(|at| Some((at, commands.get_mut(at)?))) {
                Some((at, command)) if command.takes(&item) => {
                    command.add(item);
                    last.insert(tag, at);
                }
                _ => {
                    last.insert(tag, commands.len());
                    newest.insert(item.call.script.sha.clone(), commands.len());
                    commands.push(Command { bytes: item.bytes, items: vec![item] });
                }
            }
            calls += 1;
            if calls >= BATCH_CALLS || batch_bytes >= BATCH_BYTES {
                break;
            }
        }
        if commands.is_empty() {
            return None;
        }
        lane.in_flight += 1;
        if self.known.len() > KNOWN {
            self.known.clear();
        }
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in &commands {
            pipeline.add_command(command.encode(name, &mut self.known));
        }
        if let Some(quorum) = self.quorum {
            pipeline.add_command(quorum.wait());
        }
        let id = self.next_batch;
        self.next_batch += 1;
        self.in_flight.insert(id, Batch { lane: name.clone(), commands, sent: now, task: None });
        Some(Sending { id, pipeline })
    }

    /// A batch without calls, to see whether the server answers; none when something is under way.
    pub(super) fn heartbeat(&mut self, now: Duration) -> Option<Sending> {
        if !self.in_flight.is_empty() || !self.heartbeats.is_empty() {
            return None;
        }
        let id = self.next_batch;
        self.next_batch += 1;
        self.heartbeats.insert(id, now);
        let mut pipeline = Pipeline::new();
        pipeline.cmd("PING");
        Some(Sending { id, pipeline })
    }

    /// The task that waits for a batch, to end it with the connection.
    pub(super) fn attach(&mut self, id: u64, task: AbortHandle) {
        if let Some(batch) = self.in_flight.get_mut(&id) {
            batch.task = Some(task);
        }
    }

    /// When the oldest batch under way was sent.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let batch = self.in_flight.values().next().map(|batch| batch.sent);
        let heartbeat = self.heartbeats.values().next().copied();
        batch.into_iter().chain(heartbeat).min()
    }

    /// Brings the answers of a batch to the callers. They are handed out by the caller of this function,
    /// outside of the lock.
    pub(super) fn finish(
        &mut self,
        id: u64,
        mut values: Vec<Value>,
        out: &mut Vec<(oneshot::Sender<Answer>, Answer)>,
    ) -> Next {
        if self.heartbeats.remove(&id).is_some() {
            return match fault::first(&values).map(Fault::of) {
                Some(Fault::WrongServer) => Next::Reconnect("the server takes no writes"),
                _ => self.rest(),
            };
        }
        let Some(batch) = self.in_flight.get(&id) else { return Next::Rest };
        let waited = self.quorum.map(|quorum| {
            values.pop().map_or_else(
                || Some("the server did not answer WAIT".to_owned()),
                |answer| quorum.lacks(&answer),
            )
        });
        let lacks = waited.flatten();
        if batch.commands.len() != values.len() {
            return Next::Reconnect("the server answered another number of times");
        }
        let Some(batch) = self.in_flight.remove(&id) else { return Next::Rest };
        if let Some(lane) = self.lanes.get_mut(&batch.lane) {
            lane.in_flight -= 1;
        }
        let mut next = Next::Rest;
        let mut again = Vec::new();
        for (command, value) in batch.commands.into_iter().zip(values) {
            let Value::ServerError(error) = &value else {
                match &lacks {
                    None => command.answer(value, out),
                    Some(reason) => command.lack(reason, out),
                }
                continue;
            };
            match Fault::of(error) {
                Fault::NoScript => {
                    if let Some(item) = command.items.first() {
                        self.known.remove(&(batch.lane.clone(), item.call.script.sha.clone()));
                    }
                    again.extend(command.items);
                    // Only here a node may have restarted behind a connection that the library made again.
                    if self.cluster {
                        next = Next::Reconnect("a server has forgotten the scripts");
                    }
                }
                Fault::Later => {
                    next = Next::PumpLater;
                    again.extend(command.items);
                }
                Fault::WrongServer => {
                    next = Next::Reconnect("the server takes no writes");
                    again.extend(command.items);
                }
                Fault::Refused | Fault::Failed => command.fail(error, out),
            }
        }
        self.put_back(&batch.lane, again);
        match next {
            Next::Rest => self.rest(),
            Next::PumpLater => {
                self.pumping = true;
                next
            }
            Next::Pump | Next::Reconnect(_) => next,
        }
    }

    /// Whether the actor must be told to pump.
    fn rest(&mut self) -> Next {
        if self.waiting > 0 && !std::mem::replace(&mut self.pumping, true) {
            Next::Pump
        } else {
            Next::Rest
        }
    }

    /// Puts calls back in front of what was not sent yet.
    fn put_back(&mut self, lane: &Bytes, items: Vec<Item>) {
        let items: Vec<Item> = items.into_iter().filter(Item::wanted).collect();
        self.waiting += items.len();
        self.bytes += items.iter().map(|item| item.bytes).sum::<usize>();
        let place = self.lanes.entry(lane.clone()).or_default();
        if !items.is_empty() {
            if place.waiting.is_empty() {
                self.busy.push_back(lane.clone());
            }
            place.held = true;
            place.waiting.extend(items);
            place.waiting.make_contiguous().sort_by_key(|item| item.order);
        } else if place.waiting.is_empty() && place.in_flight == 0 {
            self.lanes.remove(lane);
        }
    }

    /// The connection is gone: what was under way goes again, in its order.
    pub(super) fn disconnected(&mut self) {
        self.heartbeats.clear();
        self.known.clear();
        for (_, batch) in std::mem::take(&mut self.in_flight) {
            if let Some(task) = batch.task {
                task.abort();
            }
            if let Some(lane) = self.lanes.get_mut(&batch.lane) {
                lane.in_flight -= 1;
            }
            let items = batch.commands.into_iter().flat_map(|command| command.items).collect();
            self.put_back(&batch.lane, items);
        }
    }

    /// A batch came to nothing though the connection is still good: it goes again after a moment. Answers
    /// whether the actor must be told.
    pub(super) fn failed(&mut self, id: u64) -> bool {
        self.heartbeats.remove(&id);
        let Some(batch) = self.in_flight.remove(&id) else { return false };
        if let Some(lane) = self.lanes.get_mut(&batch.lane) {
            lane.in_flight -= 1;
        }
        let items = batch.commands.into_iter().flat_map(|command| command.items).collect();
        self.put_back(&batch.lane, items);
        self.pumping = true;
        true
    }

    /// Marks that the actor is going to pump by itself.
    pub(super) fn expect_pump(&mut self) {
        self.pumping = true;
    }
}

impl Command {
    fn takes(&self, item: &Item) -> bool {
        let Some(first) = self.items.first() else { return false };
        first.call.merge == item.call.merge
            && first.call.script.sha == item.call.script.sha
            && first.call.keys.len() == item.call.keys.len()
            && first.call.args.len() == item.call.args.len()
            && self.bytes + item.bytes <= BATCH_BYTES
    }

    fn add(&mut self, item: Item) {
        self.bytes += item.bytes;
        self.items.push(item);
    }

    /// The first time on a connection the script itself goes along, which also loads it: calls behind it
    /// then cannot overtake it while it is loaded.
    fn encode(&self, lane: &Bytes, known: &mut HashSet<(Bytes, Arc<str>)>) -> redis::Cmd {
        let Some(first) = self.items.first() else { return redis::cmd("PING") };
        let script = &first.call.script;
        let with_body = known.insert((lane.clone(), script.sha.clone()));
        let mut command = redis::Cmd::with_capacity(
            4 + self.items.len() * (first.call.keys.len() + first.call.args.len()),
            self.bytes + 64,
        );
        if with_body {
            command.arg("EVAL").arg(&*script.body);
        } else {
            command.arg("EVALSHA").arg(&*script.sha);
        }
        command.arg(self.items.iter().map(|item| item.call.keys.len()).sum::<usize>());
        for key in self.items.iter().flat_map(|item| item.call.keys.iter()) {
            command.arg(key);
        }
        if first.call.merge != Merge::Never {
            command.arg(self.items.len());
        }
        for arg in self.items.iter().flat_map(|item| item.call.args.iter()) {
            command.arg(arg);
        }
        command
    }

    /// It was carried out, and a failover may take it back.
    fn lack(self, reason: &str, out: &mut Vec<(oneshot::Sender<Answer>, Answer)>) {
        let failed = TransportErr::Failed { reason: reason.to_owned() };
        out.extend(self.items.into_iter().map(|item| (item.answer, Err(failed.clone()))));
    }

    fn answer(self, value: Value, out: &mut Vec<(oneshot::Sender<Answer>, Answer)>) {
        if self.items.first().is_some_and(|item| item.call.merge == Merge::Never) {
            out.extend(self.items.into_iter().map(|item| (item.answer, Ok(value.clone()))));
            return;
        }
        match value {
            Value::Array(values) if values.len() == self.items.len() => {
                out.extend(self.items.into_iter().zip(values).map(|(item, value)| {
                    let answer = match &value {
                        Value::ServerError(error) => {
                            Err(fault::answer(error, item.call.script.name))
                        }
                        _ => Ok(value),
                    };
                    (item.answer, answer)
                }));
            }
            _ => {
                let script = self.items.first().map_or("", |item| item.call.script.name);
                tracing::error!(script, "a merged script did not answer one element for each call");
                let reason = format!("{script} did not answer one element for each call");
                let failed = TransportErr::Failed { reason };
                out.extend(self.items.into_iter().map(|item| (item.answer, Err(failed.clone()))));
            }
        }
    }

    fn fail(self, error: &redis::ServerError, out: &mut Vec<(oneshot::Sender<Answer>, Answer)>) {
        let name = self.items.first().map_or("", |item| item.call.script.name);
        let answer = fault::answer(error, name);
        out.extend(self.items.into_iter().map(|item| (item.answer, Err(answer.clone()))));
    }
}

/// The hash tag of a key: what is between the first `{` and the next `}`, or the whole key without one.
pub(super) fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    match key[open + 1..].iter().position(|byte| *byte == b'}') {
        Some(length) if length > 0 => &key[open + 1..open + 1 + length],
        Some(_) | None => key,
    }
}
