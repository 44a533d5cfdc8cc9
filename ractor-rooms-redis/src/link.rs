//! The connections to the store: ordered calls, bulk bytes, reads and pushes.
//!
//! A root actor supervises three others: the command line with its ordered, pipelining writer, the bulk
//! line, on which large snapshots do not delay calls, and the push line. Each owns its connection, drops
//! one that broke or fell silent, and connects again with backoff. Handles hold bounded queues.

mod backoff;
mod conn;
mod fault;
mod line;
mod push;
mod queue;
mod root;
mod subscription;

#[cfg(test)]
#[cfg(feature = "cluster")]
mod cluster_test;
#[cfg(test)]
mod faults_test;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod order_test;
#[cfg(test)]
mod push_test;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use ractor::ActorRef;
use ractor_rooms::id::Generation;
use ractor_rooms::transport::TransportErr;
use redis::Value;
use tokio::sync::watch;

pub(crate) use conn::Conn;
pub(crate) use subscription::Subscription;

use crate::connect::{Connector, LOOKS};
use crate::error::ConnectErr;
use crate::script::Script;
use crate::words::Words;
use line::Line;
use push::PushLine;
use root::{Root, RootMessage};

/// One call to the store. `keys[0]` decides the slot.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: Script,
    pub(crate) keys: Words,
    pub(crate) args: Words,
    pub(crate) merge: Merge,
}

/// Which calls of the same script that wait together go as one: keys concatenated, the number of calls as
/// the first argument, then the arguments concatenated. The script answers an array with one element for
/// each. One that goes alone has the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// None: the arguments go as they are.
    Never,
    /// Those of the same hash tag.
    Tag,
    /// On a single server those of all hash tags. What fails in one call must not fail the others.
    All,
}

/// A handle to the connections. Cheap to clone; the last one to go ends them.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    connector: Arc<Connector>,
    commands: Arc<Line>,
    bulk: Arc<Line>,
    push: Arc<PushLine>,
    root: ActorRef<RootMessage>,
    /// One look at the generations at a time serves all that found another one.
    looking: tokio::sync::Mutex<()>,
}

impl Link {
    /// Starts the actors, each with its connection.
    pub(crate) async fn start(connector: Arc<Connector>) -> Result<Self, ConnectErr> {
        let deadline = connector.config().deadline;
        let bulk_deadline = connector.config().bulk_deadline;
        let commands = Line::new("commands", connector.clone(), deadline);
        let bulk = Line::new("bulk", connector.clone(), bulk_deadline);
        let push = PushLine::new(connector.clone());
        let root = Root::start(commands.clone(), bulk.clone(), push.clone()).await?;
        Ok(Self(Arc::new(Inner {
            connector,
            commands,
            bulk,
            push,
            root,
            looking: tokio::sync::Mutex::default(),
        })))
    }

    /// Carries a script out, in the order of calls with the same hash tag. The same bytes are sent again
    /// when the script is not there, the slot moves, the server is loading or the connection breaks,
    /// until the deadline.
    ///
    /// # Errors
    /// [`TransportErr::Unavailable`] when it was never sent or the server refused it before it began;
    /// [`TransportErr::Unanswered`] in any other case.
    ///
    /// # Cancel safety
    /// A dropped future may still take effect.
    pub(crate) async fn call(&self, call: Call) -> Result<Value, TransportErr> {
        self.0.commands.call(call).await
    }

    /// Plain commands of one slot on the bulk connection. They may be sent more than once.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub(crate) async fn bulk(&self, pipeline: redis::Pipeline) -> Result<Vec<Value>, TransportErr> {
        self.0.bulk.direct(pipeline).await
    }

    /// Plain reading commands of one slot on the command connection, in no order with the calls.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub(crate) async fn read(&self, pipeline: redis::Pipeline) -> Result<Vec<Value>, TransportErr> {
        self.0.commands.direct(pipeline).await
    }

    /// Subscribes to channels, sharded ones in a cluster. The stream ends when the connection breaks or
    /// its queue is full; dropping it unsubscribes.
    ///
    /// # Errors
    /// [`TransportErr`] when there is no connection within the deadline.
    pub(crate) async fn subscribe(
        &self,
        channels: Vec<Bytes>,
    ) -> Result<Subscription, TransportErr> {
        self.0.push.subscribe(channels).await
    }

    /// Whether the store is a cluster: then pushes go by sharded channels.
    pub(crate) fn is_cluster(&self) -> bool {
        self.0.connector.config().is_cluster()
    }

    /// The generation of a shard, as far as it is known.
    pub(crate) fn generation_of(&self, shard: u16) -> Generation {
        self.0.connector.generations().of(shard)
    }

    /// The newest of any shard; told anew whenever one has begun.
    pub(crate) fn generations(&self) -> watch::Receiver<Generation> {
        self.0.connector.generations().newest()
    }

    /// Whether hosts may still have to re-assert what they run.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.0.connector.generations().is_doubtful()
    }

    /// No host has to any more.
    pub(crate) fn settled(&self, generation: Generation) {
        self.0.connector.generations().settled(generation);
    }

    /// Looks at the generations again, unless that of the shard is another than the caller's by now.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub(crate) async fn look(&self, shard: u16, stale: Generation) -> Result<(), TransportErr> {
        let _one = self.0.looking.lock().await;
        if self.generation_of(shard) > stale {
            return Ok(());
        }
        self.look_now().await
    }

    /// Notes how long a session lasts, for whoever has to wait for its end after a loss.
    ///
    /// # Errors
    /// As [`Link::call`].
    pub(crate) async fn note_ttl(&self, ttl: Duration) -> Result<(), TransportErr> {
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).min(crate::text::EXACT / 2);
        if self.0.connector.generations().note_ttl(ttl) {
            let _one = self.0.looking.lock().await;
            self.look_now().await?;
        }
        Ok(())
    }

    async fn look_now(&self) -> Result<(), TransportErr> {
        let generations = self.0.connector.generations();
        let asked = stream::iter(generations.questions()).map(|(shards, pipeline)| async move {
            let value = self.read(pipeline).await?.into_iter().next().unwrap_or(Value::Nil);
            Ok::<_, TransportErr>((shards, value))
        });
        let answers: Vec<_> = asked.buffer_unordered(LOOKS).try_collect().await?;
        if generations.learn(&answers) {
            Ok(())
        } else {
            Err(crate::reply::Damaged.unanswered("generation"))
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.root.stop(None);
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("config", self.0.connector.config()).finish_non_exhaustive()
    }
}
