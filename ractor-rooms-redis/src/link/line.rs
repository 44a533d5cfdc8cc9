//! A supervised connection with an ordered, pipelining writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_rooms::clock::Clock;
use ractor_rooms::transport::TransportErr;
use redis::{Pipeline, Value};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::Call;
use super::backoff::Backoff;
use super::conn::Conn;
use super::fault::{self, Fault};
use super::queue::{Answer, Next, Pump, Queue, Sending, Taken};
use crate::connect::Connector;

/// How often a line looks after its connection.
const TICK: Duration = Duration::from_millis(200);
/// Idle time after which a line asks whether the server is there, in ticks.
const IDLE_TICKS: u32 = 3;
/// The pause before the same bytes go again, when the server asked for one.
const LATER: Duration = Duration::from_millis(20);
/// Direct requests at once.
const DIRECT: usize = 256;

/// Errors in a row after which a connection to a cluster is given up.
const CLUSTER_FAILURES: u32 = 8;

/// What a line's actor does.
#[derive(Debug)]
pub(super) enum LineMessage {
    /// Send what waits.
    Pump,
    /// The same after a moment.
    PumpLater,
    /// Look after the connection.
    Tick,
    /// The connection with this number broke.
    Broken { conn: u64, reason: String },
}

#[cfg(feature = "ractor-cluster")]
impl ractor::Message for LineMessage {}

/// A connection that is in use, and its number.
#[derive(Clone)]
struct Live {
    conn: Conn,
    number: u64,
}

/// Where batches are put on the wire, and the runtime in which their answers are waited for: a caller's may
/// end before they come.
struct Wire {
    live: Live,
    runtime: Handle,
}

/// What the handles and the actor of a line share.
pub(super) struct Line {
    name: &'static str,
    connector: Arc<Connector>,
    deadline: Duration,
    clock: Clock,
    queue: Mutex<Queue>,
    /// Locked while batches are put on the wire, before the queue is: the order in which they are taken from
    /// it is the order of sending.
    wire: Mutex<Option<Wire>>,
    /// Looks after the connection in a row in which nothing was sent.
    idle: AtomicU32,
    live: watch::Sender<Option<Live>>,
    actor: Mutex<Option<ActorRef<LineMessage>>>,
    /// Why there is no connection.
    failure: Mutex<String>,
    seats: Semaphore,
    next_conn: AtomicU64,
    /// Errors of the connection since the last answer.
    failures: AtomicU32,
}

impl Line {
    pub(super) fn new(
        name: &'static str,
        connector: Arc<Connector>,
        deadline: Duration,
    ) -> Arc<Self> {
        let (cluster, quorum) = (connector.config().is_cluster(), connector.config().quorum());
        Arc::new(Self {
            name,
            connector,
            deadline,
            clock: Clock::system(),
            queue: Mutex::new(Queue::new(cluster, quorum)),
            wire: Mutex::new(None),
            idle: AtomicU32::new(0),
            live: watch::Sender::new(None),
            actor: Mutex::new(None),
            failure: Mutex::new("it was not reached yet".into()),
            seats: Semaphore::new(DIRECT),
            next_conn: AtomicU64::new(0),
            failures: AtomicU32::new(0),
        })
    }

    /// Carries a call out, in order.
    pub(super) async fn call(self: &Arc<Self>, call: Call) -> Answer {
        let pushed = self.queue.lock().push(call);
        let Taken { fate, answer, pump } = pushed?;
        let sent = match pump {
            None => true,
            Some(Pump::Caller) => self.pump(),
            Some(Pump::Actor) => false,
        };
        if !sent {
            self.tell(LineMessage::Pump);
        }
        match tokio::time::timeout(self.deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) if fate.withdraw() => {
                Err(TransportErr::Unavailable { reason: "the transport has stopped".into() })
            }
            Err(_) if fate.withdraw() => {
                Err(TransportErr::Unavailable { reason: self.failure.lock().clone() })
            }
            Ok(Err(_)) | Err(_) => Err(TransportErr::Unanswered { waited: self.deadline }),
        }
    }

    /// Sends plain commands, in no order with the calls.
    pub(super) async fn direct(&self, pipeline: Pipeline) -> Result<Vec<Value>, TransportErr> {
        let mut sent = false;
        let seated = async {
            let _seat = self.seats.acquire().await; // it is never closed
            self.repeat(&pipeline, &mut sent).await
        };
        let outcome = tokio::time::timeout(self.deadline, seated).await;
        match outcome {
            Ok(answer) => answer,
            Err(_) if sent => Err(TransportErr::Unanswered { waited: self.deadline }),
            Err(_) => Err(TransportErr::Unavailable { reason: self.failure.lock().clone() }),
        }
    }

    async fn repeat(
        &self,
        pipeline: &Pipeline,
        sent: &mut bool,
    ) -> Result<Vec<Value>, TransportErr> {
        let start = self.clock.mark();
        let mut live = self.live.subscribe();
        loop {
            let Ok(Some(mut current)) =
                live.wait_for(Option::is_some).await.map(|live| live.clone())
            else {
                return Err(TransportErr::Unavailable {
                    reason: "the transport has stopped".into(),
                });
            };
            *sent = true;
            let reason =
                match tokio::time::timeout(self.silence(), current.conn.send(pipeline)).await {
                    Ok(Ok(values)) => match fault::first(&values) {
                        None => return Ok(values),
                        Some(error) => match Fault::of(error) {
                            Fault::Later => {
                                tokio::time::sleep(LATER).await;
                                continue;
                            }
                            Fault::WrongServer => "the server takes no writes".to_owned(),
                            Fault::NoScript | Fault::Refused | Fault::Failed => {
                                return Err(fault::answer(error, self.name));
                            }
                        },
                    },
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the server fell silent".to_owned(),
                };
            if !self.gives_up() {
                tokio::time::sleep(LATER).await;
                continue;
            }
            self.tell(LineMessage::Broken { conn: current.number, reason });
            let broken = current.number;
            let other =
                |live: &Option<Live>| live.as_ref().is_none_or(|live| live.number != broken);
            if live.wait_for(other).await.is_err() {
                return Err(TransportErr::Unanswered { waited: self.clock.elapsed_since(start) });
            }
        }
    }

    /// How long the oldest request may be unanswered before the connection is given up: half of what
    /// callers wait, so that the other half is left for a new connection.
    fn silence(&self) -> Duration {
        self.deadline / 2
    }

    /// Whether a connection is given up after an error: at once to a single server, and after some in a
    /// row to a cluster, where one node that is away must not cost the others their connections.
    fn gives_up(&self) -> bool {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        !self.connector.config().is_cluster() || failures >= CLUSTER_FAILURES
    }

    fn tell(&self, message: LineMessage) {
        if let Some(actor) = &*self.actor.lock() {
            // A stopped actor leaves the callers to their deadlines.
            let _ = actor.cast(message);
        }
    }

    /// Puts what waits on the wire. Answers whether there is one.
    fn pump(self: &Arc<Self>) -> bool {
        let wire = self.wire.lock();
        let Some(wire) = &*wire else { return false };
        let batches = self.queue.lock().pump(self.clock.mark());
        if !batches.is_empty() {
            self.idle.store(0, Ordering::Relaxed);
        }
        for batch in batches {
            self.send(wire, batch);
        }
        true
    }

    /// Puts a batch on the wire and leaves its answer to a task.
    fn send(self: &Arc<Self>, wire: &Wire, batch: Sending) {
        let Wire { live: Live { conn, number }, runtime } = wire;
        let (mut conn, number) = (conn.clone(), *number);
        let Sending { id, pipeline } = batch;
        // What the request waits with must outlive the caller's runtime too.
        let _entered = runtime.enter();
        // Without the scheduler's budget, which could leave the first poll without effect: the order of
        // first polls is the order of sending.
        let mut answer =
            Box::pin(tokio::task::unconstrained(async move { conn.send(&pipeline).await }));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(result) = answer.as_mut().poll(&mut context) {
            self.finished(number, id, result);
            return;
        }
        let waiting = self.clone();
        let task = runtime.spawn(async move {
            let result = answer.await;
            waiting.finished(number, id, result);
        });
        self.queue.lock().attach(id, task.abort_handle());
    }

    /// Brings what the connection answered to the callers.
    fn finished(&self, conn: u64, id: u64, result: redis::RedisResult<Vec<Value>>) {
        let values = match result {
            Ok(values) => values,
            Err(error) => {
                if self.gives_up() {
                    self.tell(LineMessage::Broken { conn, reason: error.to_string() });
                } else if self.queue.lock().failed(id) {
                    self.tell(LineMessage::PumpLater);
                }
                return;
            }
        };
        self.failures.store(0, Ordering::Relaxed);
        let mut answers = Vec::new();
        let next = self.queue.lock().finish(id, values, &mut answers);
        for (caller, answer) in answers {
            // Who dropped the future does not want the answer.
            let _ = caller.send(answer);
        }
        match next {
            Next::Rest => {}
            Next::Pump => self.tell(LineMessage::Pump),
            Next::PumpLater => self.tell(LineMessage::PumpLater),
            Next::Reconnect(reason) => {
                self.tell(LineMessage::Broken { conn, reason: reason.to_owned() });
            }
        }
    }
}

/// The actor that owns a line's connection.
pub(super) struct LineActor(pub(super) Arc<Line>);

/// What only the actor knows.
pub(super) struct LineState {
    live: Option<Live>,
    backoff: Backoff,
    /// Whether an attempt to connect is due by a message that was sent.
    due: bool,
}

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for LineActor {
    type Msg = LineMessage;
    type State = LineState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        let line = &self.0;
        // After a failure of the actor before this one: nobody answers what it had sent.
        *line.wire.lock() = None;
        line.queue.lock().disconnected();
        line.queue.lock().expect_pump();
        line.live.send_replace(None);
        *line.actor.lock() = Some(myself.clone());
        myself.send_interval(TICK, || LineMessage::Tick);
        myself.cast(LineMessage::Pump).map_err(|error| error.to_string())?;
        Ok(LineState { live: None, backoff: Backoff::default(), due: false })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LineMessage::Pump => {
                state.due = false;
                self.pump(&myself, state).await;
            }
            LineMessage::PumpLater => {
                myself.send_after(LATER, || LineMessage::Pump);
            }
            LineMessage::Tick => self.tick(&myself, state),
            LineMessage::Broken { conn, reason } => {
                if state.live.as_ref().is_some_and(|live| live.number == conn) {
                    self.drop_connection(&myself, state, &reason);
                }
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        _: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        *self.0.wire.lock() = None;
        self.0.live.send_replace(None);
        Ok(())
    }
}

impl LineActor {
    async fn pump(&self, myself: &ActorRef<LineMessage>, state: &mut LineState) {
        let line = &self.0;
        if state.live.is_none() {
            match line.connector.connect(None).await {
                Ok(conn) => {
                    let number = line.next_conn.fetch_add(1, Ordering::Relaxed);
                    let live = Live { conn, number };
                    line.failures.store(0, Ordering::Relaxed);
                    state.live = Some(live.clone());
                    let runtime = Handle::current();
                    *line.wire.lock() = Some(Wire { live: live.clone(), runtime });
                    line.live.send_replace(Some(live));
                }
                Err(error) => {
                    let wait = state.backoff.next();
                    tracing::warn!(line = line.name, %error, ?wait, "no connection to the store");
                    *line.failure.lock() = error.to_string();
                    line.queue.lock().expect_pump();
                    state.due = true;
                    myself.send_after(wait, || LineMessage::Pump);
                    return;
                }
            }
        }
        line.pump();
    }

    fn tick(&self, myself: &ActorRef<LineMessage>, state: &mut LineState) {
        let line = &self.0;
        if state.live.is_none() {
            line.queue.lock().forget_dropped();
            if !state.due {
                state.due = true;
                line.tell(LineMessage::Pump);
            }
            return;
        }
        state.backoff.reset();
        let now = line.clock.mark();
        let (oldest, heartbeat) = {
            let mut queue = line.queue.lock();
            let idle = line.idle.fetch_add(1, Ordering::Relaxed) >= IDLE_TICKS;
            (queue.oldest(), if idle { queue.heartbeat(now) } else { None })
        };
        // A cluster's client gives a request up by itself in that time, and only that one.
        let cluster = line.connector.config().is_cluster();
        let limit = if cluster { line.deadline } else { line.silence() };
        if oldest.is_some_and(|sent| now.saturating_sub(sent) > limit) {
            self.drop_connection(myself, state, "the server fell silent");
        } else if let Some(heartbeat) = heartbeat {
            line.idle.store(0, Ordering::Relaxed);
            if let Some(wire) = &*line.wire.lock() {
                line.send(wire, heartbeat);
            }
        }
    }

    fn drop_connection(&self, myself: &ActorRef<LineMessage>, state: &mut LineState, reason: &str) {
        let line = &self.0;
        tracing::warn!(line = line.name, reason, "the connection to the store is given up");
        *line.failure.lock() = reason.to_owned();
        state.live = None;
        // First of all: what is put on the wire after this is put on the next one.
        *line.wire.lock() = None;
        line.live.send_replace(None);
        {
            let mut queue = line.queue.lock();
            queue.disconnected();
            queue.expect_pump();
        }
        state.due = true;
        // A connection that breaks as soon as it is made would else be made without a pause.
        let wait = state.backoff.next();
        myself.send_after(wait, || LineMessage::Pump);
    }
}
