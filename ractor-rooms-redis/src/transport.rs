//! Rooms in Redis.

pub(crate) mod answer;
mod append;
#[cfg(test)]
mod bench;
#[cfg(test)]
#[cfg(feature = "cluster")]
mod cluster_conformance_test;
#[cfg(test)]
mod conformance_test;
#[cfg(test)]
mod damage_test;
#[cfg(test)]
mod differential_test;
mod facts;
#[cfg(test)]
mod facts_test;
mod index;
mod orphans;
#[cfg(test)]
mod producers_test;
mod push;
mod room;
mod session;
mod snapshot;
#[cfg(test)]
mod standing_test;
#[cfg(test)]
mod torn_test;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use ractor_rooms::id::{Epoch, Generation, HostId, Incarnation, Millis, RoomId};
use ractor_rooms::protocol::record::{Answer, RecordLimits, Request, SnapshotKey};
use ractor_rooms::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use ractor_rooms::protocol::store::{Owned, Unrest};
use ractor_rooms::transport::{Letter, Push, Transport, TransportErr, TransportFuture};
use redis::Value;
use tokio::sync::watch;

use crate::config::RedisConfig;
use crate::error::ConnectErr;
use crate::keys::Layout;
use crate::link::{Call, Link, Merge};
use crate::reply::Reply;
use crate::script::{Script, Scripts};
use append::Append;
use facts::Known;
use index::Looked;

/// A store of rooms in Redis or Valkey, for hosts in many processes. Cheap to clone; clones share the
/// connections.
#[derive(Clone, Debug)]
pub struct RedisTransport(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Link,
    layout: Layout,
    scripts: Scripts,
    limits: RecordLimits,
    known: Arc<Known>,
    /// What was found in each shard when its indexes were looked at.
    looked: Mutex<HashMap<u16, Looked>>,
    generation: watch::Receiver<Generation>,
    /// How many snapshots were put up in pieces.
    uploads: AtomicU64,
}

impl RedisTransport {
    /// Connects to one server by its URL, with the default options; see [`RedisConfig`] for others.
    ///
    /// # Errors
    /// [`ConnectErr`] names what is wrong and what to change.
    pub async fn connect(url: impl Into<String>) -> Result<Self, ConnectErr> {
        RedisConfig::new(url).connect().await
    }

    fn over(link: Link, config: &RedisConfig) -> Self {
        let layout = Layout::new(&config.namespace, config.shards, link.is_cluster());
        Self(Arc::new(Inner {
            generation: link.generations(),
            link,
            layout,
            scripts: Scripts::new(),
            limits: config.limits,
            known: Arc::new(Known::new(config.session_facts_age)),
            looked: Mutex::default(),
            uploads: AtomicU64::new(0),
        }))
    }
}

impl RedisConfig {
    /// Connects and checks the server: version, rights, eviction policy and what the namespace holds.
    /// Takes at most 3 s.
    ///
    /// # Errors
    /// [`ConnectErr`] names what is wrong and what to change.
    pub async fn connect(self) -> Result<RedisTransport, ConnectErr> {
        let config = self.clone();
        Ok(RedisTransport::over(self.open().await?, &config))
    }
}

/// Why an operation on a room was not answered as such.
#[derive(Debug)]
enum Failed {
    Transport(TransportErr),
    /// The lease that it was asked under is of another generation than this.
    OtherGeneration(Generation),
}

impl From<TransportErr> for Failed {
    fn from(error: TransportErr) -> Self {
        Self::Transport(error)
    }
}

impl Failed {
    /// For what was asked without a lease.
    fn into_transport(self) -> TransportErr {
        match self {
            Self::Transport(error) => error,
            Self::OtherGeneration(generation) => {
                let reason = format!("the store is in generation {generation}");
                TransportErr::Unavailable { reason }
            }
        }
    }
}

/// How often a call may find that another generation has begun since it was made.
const GENERATIONS: usize = 8;

/// It found so each time.
fn restless() -> TransportErr {
    let reason = format!("{GENERATIONS} generations began while it was asked");
    TransportErr::Unavailable { reason }
}

impl Inner {
    /// One item of a script on a shard, and the generation that answered it. `claim` is what the caller
    /// insists on; without one the call goes again under a generation that has begun meanwhile.
    async fn run_in(
        &self,
        shard: u16,
        claim: Option<Generation>,
        script: &Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<(String, Reply, Generation), Failed> {
        for _ in 0..GENERATIONS {
            let known = self.link.generation_of(shard);
            let generation = claim.unwrap_or(known);
            if generation < known {
                return Err(Failed::OtherGeneration(known));
            }
            let mut args = args.clone();
            args.push(generation.to_string().into());
            let (code, reply) = self.run(script, keys.clone(), args).await?;
            if code != "generation" {
                return Ok((code, reply, generation));
            }
            self.link.look(shard, generation).await?;
        }
        Err(restless().into())
    }

    /// One item of a script, and what it answered.
    async fn run(
        &self,
        script: &Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<(String, Reply), TransportErr> {
        let (keys, args) = (keys.into(), args.into());
        let call = Call { script: script.clone(), keys, args, merge: Merge::Tag };
        read(script.name, self.link.call(call).await?)
    }

    /// One item without arguments for each of some shards, which all must be where one question can be about
    /// them.
    async fn run_on(
        &self,
        shards: &[u16],
        script: &Script,
        keys: &[Bytes],
    ) -> Result<Vec<Result<(String, Reply), TransportErr>>, TransportErr> {
        for _ in 0..GENERATIONS {
            let known = shards.iter().map(|shard| (*shard, self.link.generation_of(*shard)));
            let known: Vec<(u16, Generation)> = known.collect();
            let mut args = vec![Bytes::from(shards.len().to_string())];
            args.extend(known.iter().map(|(_, generation)| Bytes::from(generation.to_string())));
            let (keys, args) = (keys.to_vec().into(), args.into());
            let call = Call { script: script.clone(), keys, args, merge: Merge::Never };
            let answers: Vec<_> = match self.link.call(call).await? {
                Value::Array(values) if values.len() == shards.len() => {
                    values.into_iter().map(|value| read(script.name, value)).collect()
                }
                _ => return Err(crate::reply::Damaged.unanswered(script.name)),
            };
            let other = |answer: &Result<(String, Reply), TransportErr>| {
                answer.as_ref().is_ok_and(|(code, _)| code == "generation")
            };
            let Some(at) = answers.iter().position(other) else { return Ok(answers) };
            let (shard, generation) = known[at];
            self.link.look(shard, generation).await?;
        }
        Err(restless())
    }
}

/// What a script answered to one item.
fn read(name: &'static str, value: Value) -> Result<(String, Reply), TransportErr> {
    let damaged = |damaged: crate::reply::Damaged| damaged.unanswered(name);
    let mut reply = Reply::of_one(value).map_err(damaged)?;
    let code = reply.text().map_err(damaged)?;
    match code.as_str() {
        "refused" => {
            let reason = explain(&reply.text().unwrap_or_default());
            Err(TransportErr::Unavailable { reason })
        }
        "broken" => {
            let error = explain(&reply.text().unwrap_or_default());
            if let Some(unsaid) = crate::recurring::came(&format!("{name} is cut off: {error}")) {
                tracing::warn!(script = name, error, unsaid, "a script was cut off");
            }
            Err(TransportErr::Failed { reason: format!("{name} was cut off: {error}") })
        }
        _ => Ok((code, reply)),
    }
}

/// What to do about an error that a script met before it wrote anything.
fn explain(error: &str) -> String {
    let error = error.lines().next().unwrap_or_default();
    let remedy = match error.split_whitespace().next().unwrap_or_default() {
        "WRONGTYPE" => {
            "a key of the room holds another type than the layout says: delete or rename that key"
        }
        "DAMAGED" => {
            "a key holds what no host wrote: delete the key (of a record: `meta`, and the host that runs the \
             room brings it back)"
        }
        "OOM" => "the store is out of memory: give it more, or unload rooms",
        "READONLY" => "the server is a replica: connect to the master",
        "MISCONF" => "the store cannot save to its disk: see the server's log",
        "NOPERM" => "the user's rights do not allow it: see the layout's documentation",
        _ => "the script failed",
    };
    format!("{remedy} ({error})")
}

/// A number that a script would not count exactly.
fn inexact(what: &str, found: u64) -> TransportErr {
    let reason = format!("the {what} is {found}; expected at most {}", crate::text::EXACT);
    TransportErr::Unavailable { reason }
}

fn millis(duration: Duration) -> u64 {
    Millis::of(duration).0.min(crate::text::EXACT)
}

impl Transport for RedisTransport {
    fn generation(&self, room: &RoomId) -> Generation {
        self.0.link.generation_of(self.0.layout.shard(room))
    }

    fn newest_generation(&self) -> Generation {
        *self.0.link.generations().borrow()
    }

    fn generations(&self) -> BoxStream<'static, ()> {
        let mut newest = self.0.link.generations();
        newest.mark_unchanged();
        let next = |mut newest: watch::Receiver<Generation>| async move {
            newest.changed().await.ok()?;
            Some(((), newest))
        };
        futures::stream::unfold(newest, next).boxed()
    }

    fn execute(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
    ) -> TransportFuture<'_, Answer> {
        // Apart from the others: a future of all operations is much larger than that of the most frequent.
        if let Request::Append { life, producer, epoch, first, batch } = request {
            let append = Append { life, producer, epoch, first, batch };
            let (room, prepared) = (room.clone(), self.0.prepare(room, &append));
            return async move {
                self.0.append(&room, &append, prepared?).await.map(Answer::Append)
            }
            .boxed();
        }
        let room = room.clone();
        async move { self.0.execute(&room, request, floor, None).await }.boxed()
    }

    fn carries(&self) -> usize {
        snapshot::CARRIED
    }

    fn execute_with(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
        (key, bytes): (SnapshotKey, Bytes),
    ) -> TransportFuture<'_, Answer> {
        let room = room.clone();
        async move {
            let carried = match &request {
                Request::Park { snapshot: Some(snapshot), .. } => {
                    snapshot.key == key && bytes.len() <= snapshot::CARRIED
                }
                _ => false,
            };
            if carried {
                return self.0.execute(&room, request, floor, Some(bytes)).await;
            }
            self.0.put_snapshot(&room, &key, bytes).await?;
            self.0.execute(&room, request, floor, None).await
        }
        .boxed()
    }

    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()> {
        let room = room.clone();
        async move { self.0.put_snapshot(&room, &key, bytes).await }.boxed()
    }

    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>> {
        let (room, key) = (room.clone(), key.clone());
        async move { self.0.get_snapshot(&room, &key).await }.boxed()
    }

    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer> {
        let host = host.clone();
        async move { self.0.open_session(&host, ttl, &spec).await }.boxed()
    }

    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool> {
        let by = by.clone();
        async move { self.0.renew_session(&by, ttl, &spec).await }.boxed()
    }

    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()> {
        let by = by.clone();
        async move { self.0.close_session(&by).await }.boxed()
    }

    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>> {
        async move { self.0.sessions().await }.boxed()
    }

    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>> {
        let by = by.clone();
        async move { self.0.owned(&by).await }.boxed()
    }

    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>> {
        let after = after.cloned();
        async move { self.0.unrest(after, limit).await }.boxed()
    }

    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool> {
        let to = to.clone();
        async move { self.0.post(&to, letter).await }.boxed()
    }

    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>> {
        let by = by.clone();
        async move { self.0.read_inbox(&by, after).await }.boxed()
    }

    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>> {
        let by = by.clone();
        async move { self.0.subscribe(&by).await }.boxed()
    }

    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()> {
        let (by, room) = (by.clone(), room.clone());
        async move { self.0.watch(&by, &room, on).await }.boxed()
    }
}
