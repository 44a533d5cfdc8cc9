//! The connection on which pushes come.

mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_rooms::transport::TransportErr;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::backoff::Backoff;
use super::conn::Conn;
use super::queue::tag;
use super::subscription::Subscription;
use crate::connect::{Connector, PushSender};
use routes::Routes;

/// How often the line asks whether the server is there.
const TICK: Duration = Duration::from_millis(500);
/// Channels in one command.
const CHUNK: usize = 512;
/// Changes that wait at most.
const WAITING: usize = 4_096;
/// The pause before another attempt to subscribe, within the caller's deadline.
const AGAIN: Duration = Duration::from_millis(50);

type Done = oneshot::Sender<Result<(), TransportErr>>;

/// What the push line's actor does.
pub(super) enum PushMessage {
    Connect,
    Tick,
    /// The connection with this number broke.
    Broken {
        conn: u64,
    },
    Subscribe {
        id: u64,
        sender: mpsc::Sender<(Bytes, Bytes)>,
        channels: Vec<Bytes>,
        done: Done,
        seat: OwnedSemaphorePermit,
    },
    Forget {
        id: u64,
    },
    /// Channels that nobody had when this was sent.
    Unused {
        channels: Vec<Bytes>,
    },
}

#[cfg(feature = "ractor-cluster")]
impl ractor::Message for PushMessage {}

/// What the handles, the actor and the connection's reader share.
pub(super) struct PushLine {
    connector: Arc<Connector>,
    routes: Mutex<Routes>,
    actor: Mutex<Option<ActorRef<PushMessage>>>,
    seats: Arc<Semaphore>,
    next_id: AtomicU64,
    next_conn: AtomicU64,
}

fn unavailable(reason: &str) -> TransportErr {
    TransportErr::Unavailable { reason: reason.to_owned() }
}

impl PushLine {
    pub(super) fn new(connector: Arc<Connector>) -> Arc<Self> {
        Arc::new(Self {
            connector,
            routes: Mutex::default(),
            actor: Mutex::new(None),
            seats: Arc::new(Semaphore::new(WAITING)),
            next_id: AtomicU64::new(0),
            next_conn: AtomicU64::new(1),
        })
    }

    pub(super) async fn subscribe(
        self: &Arc<Self>,
        channels: Vec<Bytes>,
    ) -> Result<Subscription, TransportErr> {
        let deadline = self.connector.config().deadline;
        let mut last = unavailable("there was no connection in time");
        let subscribed = tokio::time::timeout(deadline, async {
            loop {
                let id = self.next_id.fetch_add(1, Ordering::Relaxed);
                let (sender, received) = mpsc::channel(self.connector.config().push_queue);
                // Before it is asked for, so that it is forgotten whenever this future is dropped.
                let subscription = Subscription::new(self.clone(), id, received);
                let channels = channels.clone();
                let asked = self.ask(|done, seat| PushMessage::Subscribe {
                    id,
                    sender,
                    channels,
                    done,
                    seat,
                });
                match asked.await {
                    Ok(()) => return subscription,
                    Err(error) => last = error,
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        match subscribed.await {
            Ok(subscription) => Ok(subscription),
            Err(_) => Err(last),
        }
    }

    pub(super) fn dropped(&self, id: u64) {
        self.tell(PushMessage::Forget { id });
    }

    async fn ask(
        &self,
        message: impl FnOnce(Done, OwnedSemaphorePermit) -> PushMessage,
    ) -> Result<(), TransportErr> {
        let Ok(seat) = self.seats.clone().try_acquire_owned() else {
            return Err(unavailable("too many changes of subscriptions wait already"));
        };
        let (done, answer) = oneshot::channel();
        self.tell(message(done, seat));
        answer.await.unwrap_or_else(|_| Err(unavailable("the push connection is down")))
    }

    fn tell(&self, message: PushMessage) {
        if let Some(actor) = &*self.actor.lock() {
            // A stopped actor answers nobody, and the callers have deadlines.
            let _ = actor.cast(message);
        }
    }

    /// Takes what the connection with this number pushed.
    fn take(&self, conn: u64, info: PushInfo) {
        let PushInfo { kind, data } = info;
        let mut data = data.into_iter();
        let mut next = || match data.next() {
            Some(Value::BulkString(bytes)) => Some(Bytes::from(bytes)),
            _ => None,
        };
        let mut routes = self.routes.lock();
        if routes.conn != conn {
            return;
        }
        let ended = match kind {
            PushKind::Message | PushKind::SMessage => {
                let (Some(channel), Some(payload)) = (next(), next()) else { return };
                routes.publish(&channel, &payload)
            }
            // Nobody here asked for it, or the route would be gone: the slot has moved away.
            PushKind::SUnsubscribe | PushKind::Unsubscribe => {
                let Some(channel) = next() else { return };
                routes.having(&channel)
            }
            PushKind::Disconnection => {
                routes.clear();
                drop(routes);
                self.tell(PushMessage::Broken { conn });
                return;
            }
            _ => return,
        };
        let mut unused = Vec::new();
        for id in ended {
            tracing::warn!(id, "a subscription ends: its queue is full, or its slot moved");
            unused.extend(routes.forget(id));
        }
        drop(routes);
        if !unused.is_empty() {
            self.tell(PushMessage::Unused { channels: unused });
        }
    }
}

/// The actor that owns the push connection.
pub(super) struct PushActor(pub(super) Arc<PushLine>);

/// What only the actor knows.
pub(super) struct PushState {
    live: Option<(u64, Conn)>,
    backoff: Backoff,
}

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for PushActor {
    type Msg = PushMessage;
    type State = PushState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        self.0.routes.lock().clear();
        *self.0.actor.lock() = Some(myself.clone());
        myself.send_interval(TICK, || PushMessage::Tick);
        myself.cast(PushMessage::Connect).map_err(|error| error.to_string())?;
        Ok(PushState { live: None, backoff: Backoff::default() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let line = &self.0;
        match message {
            PushMessage::Connect => self.connect(&myself, state).await,
            PushMessage::Tick => self.heartbeat(&myself, state).await,
            PushMessage::Broken { conn } => {
                if state.live.as_ref().is_some_and(|(live, _)| *live == conn) {
                    self.drop_connection(&myself, state, "the connection broke");
                }
            }
            PushMessage::Subscribe { id, sender, channels, done, seat } => {
                if done.is_closed() {
                    return Ok(());
                }
                line.routes.lock().insert(id, sender);
                let answer = self.add(&myself, state, id, channels).await;
                let _ = done.send(answer);
                drop(seat);
            }
            PushMessage::Forget { id } => {
                let unused = line.routes.lock().forget(id);
                // Where that fails the connection is dropped, and with it the subscriptions.
                let _ = self.change(&myself, state, unused, false).await;
            }
            PushMessage::Unused { mut channels } => {
                channels.retain(|channel| line.routes.lock().having(channel).is_empty());
                let _ = self.change(&myself, state, channels, false).await;
            }
        }
        Ok(())
    }
}

impl PushActor {
    async fn connect(&self, myself: &ActorRef<PushMessage>, state: &mut PushState) {
        if state.live.is_some() {
            return;
        }
        let line = &self.0;
        let number = line.next_conn.fetch_add(1, Ordering::Relaxed);
        {
            let mut routes = line.routes.lock();
            routes.clear();
            routes.conn = number;
        }
        // Not an owner of the line: the connection's reader lives as long as the connection, which the
        // line owns.
        let taker = Arc::downgrade(line);
        let push: PushSender = Arc::new(move |info| {
            if let Some(line) = taker.upgrade() {
                line.take(number, info);
            }
            Ok(())
        });
        match line.connector.connect(Some(push)).await {
            Ok(conn) => state.live = Some((number, conn)),
            Err(error) => {
                let wait = state.backoff.next();
                tracing::warn!(%error, ?wait, "no push connection to the store");
                myself.send_after(wait, || PushMessage::Connect);
            }
        }
    }

    async fn heartbeat(&self, myself: &ActorRef<PushMessage>, state: &mut PushState) {
        let silence = self.silence();
        let Some((_, conn)) = &mut state.live else { return };
        match tokio::time::timeout(silence, conn.ask(&redis::cmd("PING"))).await {
            Ok(Ok(_)) => state.backoff.reset(),
            Ok(Err(error)) => self.drop_connection(myself, state, &error.to_string()),
            Err(_) => self.drop_connection(myself, state, "the server fell silent"),
        }
    }

    async fn add(
        &self,
        myself: &ActorRef<PushMessage>,
        state: &mut PushState,
        id: u64,
        channels: Vec<Bytes>,
    ) -> Result<(), TransportErr> {
        let fresh = {
            let mut routes = self.0.routes.lock();
            if !routes.has(id) {
                return Err(unavailable("the subscription has ended"));
            }
            routes.add(id, channels)
        };
        let changed = self.change(myself, state, fresh, true).await;
        // The connection may have broken after the last answer.
        let there = self.0.routes.lock().has(id);
        match changed {
            Ok(()) if there => Ok(()),
            Ok(()) => Err(unavailable("the push connection broke")),
            Err(error) => {
                let unused = self.0.routes.lock().forget(id);
                let _ = self.change(myself, state, unused, false).await;
                Err(error)
            }
        }
    }

    /// Subscribes to or unsubscribes from channels on the server.
    async fn change(
        &self,
        myself: &ActorRef<PushMessage>,
        state: &mut PushState,
        channels: Vec<Bytes>,
        on: bool,
    ) -> Result<(), TransportErr> {
        if channels.is_empty() && state.live.is_some() {
            return Ok(());
        }
        let silence = self.silence();
        let Some((_, conn)) = &mut state.live else {
            self.0.routes.lock().clear();
            return Err(unavailable("the push connection is down"));
        };
        for chunk in self.chunks(channels) {
            let changed = async {
                if on { conn.subscribe(&chunk).await } else { conn.unsubscribe(&chunk).await }
            };
            let reason = match tokio::time::timeout(silence, changed).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) if error.code() == Some("NOPERM") => {
                    return Err(unavailable(&error.to_string()));
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the server fell silent".to_owned(),
            };
            self.drop_connection(myself, state, &reason);
            return Err(unavailable(&reason));
        }
        Ok(())
    }

    /// Commands of bounded length; in a cluster each of one slot.
    fn chunks(&self, channels: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        let cluster = self.0.connector.config().is_cluster();
        let mut by_tag: BTreeMap<Bytes, Vec<Bytes>> = BTreeMap::new();
        for channel in channels {
            let group = if cluster { Bytes::copy_from_slice(tag(&channel)) } else { Bytes::new() };
            by_tag.entry(group).or_default().push(channel);
        }
        by_tag.values().flat_map(|group| group.chunks(CHUNK)).map(<[Bytes]>::to_vec).collect()
    }

    fn silence(&self) -> Duration {
        self.0.connector.config().deadline / 2
    }

    fn drop_connection(&self, myself: &ActorRef<PushMessage>, state: &mut PushState, reason: &str) {
        tracing::warn!(reason, "the push connection to the store is given up");
        state.live = None;
        self.0.routes.lock().clear();
        let wait = state.backoff.next();
        myself.send_after(wait, || PushMessage::Connect);
    }
}
