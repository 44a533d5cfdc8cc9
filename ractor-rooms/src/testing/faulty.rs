//! A transport that fails on purpose, over any other.

mod aim;
mod plan;
mod state;
mod trace;
mod transport;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

pub use aim::Aimed;
pub use plan::{Fault, FaultEvent, FaultPlan, Operation};
pub use trace::{Call, CallTrace};

use crate::id::HostId;
use crate::transport::{Transport, TransportErr, TransportFuture};
use aim::Gate;
use state::{Decision, Late, State};

/// Wraps a transport and loses, delays and repeats what goes through it, by a seed. Cheap to clone;
/// clones share the store, the plan and the seed's course.
///
/// Give each host a view of its own with [`FaultyTransport::for_host`], so that faults can aim at one
/// host and one host can be cut off. The same seed and the same order of calls give the same faults.
///
/// ```
/// # futures::executor::block_on(async {
/// use ractor_rooms::MemoryTransport;
/// use ractor_rooms::id::{Epoch, RoomId};
/// use ractor_rooms::protocol::record::Request;
/// use ractor_rooms::testing::{Fault, FaultPlan, FaultyTransport, Operation};
/// use ractor_rooms::transport::Transport;
///
/// let faulty = FaultyTransport::new(MemoryTransport::new(), 7, FaultPlan::calm());
/// let room = RoomId::new("chat", "lobby").unwrap();
/// faulty.next(Operation::Read, Fault::LoseAnswer);
/// let lost = faulty.execute(&room, Request::Read, Epoch(0)).await;
/// assert!(lost.is_err_and(|e| e.may_have_executed()));
/// assert!(faulty.execute(&room, Request::Read, Epoch(0)).await.is_ok());
/// # });
/// ```
pub struct FaultyTransport<T: Transport + ?Sized> {
    shared: Arc<Shared<T>>,
    host: Option<HostId>,
}

struct Shared<T: Transport + ?Sized> {
    state: Mutex<State<T>>,
    inner: Arc<T>,
}

impl<T: Transport + ?Sized> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport + ?Sized> Clone for FaultyTransport<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), host: self.host.clone() }
    }
}

impl<T: Transport + ?Sized> fmt::Debug for FaultyTransport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyTransport")
            .field("inner", &self.shared.inner)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl<T: Transport> FaultyTransport<T> {
    /// Wraps a transport.
    pub fn new(inner: T, seed: u64, plan: FaultPlan) -> Self {
        Self::over(Arc::new(inner), seed, plan)
    }
}

impl<T: Transport + ?Sized> FaultyTransport<T> {
    /// Wraps a transport that is shared already, or of a type that is not known.
    pub fn over(inner: Arc<T>, seed: u64, plan: FaultPlan) -> Self {
        let state = Mutex::new(State::new(seed, plan));
        Self { shared: Arc::new(Shared { state, inner }), host: None }
    }

    /// The view that a host is given. Without one, a call's host is taken from what it names: the
    /// owner of its lease, its producer, its incarnation.
    #[must_use]
    pub fn for_host(&self, host: HostId) -> Self {
        Self { shared: Arc::clone(&self.shared), host: Some(host) }
    }

    /// The transport underneath, which does not fail.
    pub fn inner(&self) -> &T {
        &self.shared.inner
    }

    /// Replaces the plan from here on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.shared.lock().plan = plan;
    }

    /// The fault of the next such call, whatever the plan says. Several wait in their order.
    pub fn next(&self, operation: Operation, fault: Fault) -> Aimed {
        self.aim(self.host.clone(), operation, fault)
    }

    /// The fault of the next such call of one host.
    pub fn next_of(&self, host: HostId, operation: Operation, fault: Fault) -> Aimed {
        self.aim(Some(host), operation, fault)
    }

    fn aim(&self, host: Option<HostId>, operation: Operation, fault: Fault) -> Aimed {
        let gate = Gate::new();
        self.shared.lock().aim(host, operation, fault, Arc::clone(&gate));
        Aimed::new(gate)
    }

    /// Cuts a host off: each of its calls is [`TransportErr::Unavailable`], and what would be pushed to
    /// it is lost.
    pub fn cut(&self, host: &HostId) {
        self.shared.lock().cut.insert(host.clone());
    }

    /// Stalls a host, as one whose process is paused: its calls and its pushes wait for
    /// [`FaultyTransport::resume`]. A call whose caller stops waiting before is lost.
    pub fn stall(&self, host: &HostId) {
        self.shared.lock().stall(host);
    }

    /// Lets a host go on that was stalled.
    pub fn resume(&self, host: &HostId) {
        self.shared.lock().resume(host);
    }

    /// Lets a host reach the store again that was cut off.
    pub fn restore(&self, host: &HostId) {
        self.shared.lock().cut.remove(host);
    }

    /// No more faults: the plan is calm, every host reaches the store, faults that wait for their call
    /// are forgotten and held calls go on. Calls and pushes take as long as before. What is delayed still
    /// comes; [`FaultyTransport::flush`]
    /// brings it at once.
    pub fn heal(&self) {
        self.shared.lock().heal();
    }

    /// Carries out what is delayed: requests, then pushes.
    pub async fn flush(&self) {
        let late = self.shared.lock().take_late();
        for late in late {
            late(&self.shared.inner).await;
        }
        self.shared.lock().release_pushes(u64::MAX);
    }

    /// From now on every call is noted there, before anything is done with it.
    pub fn trace_into(&self, trace: CallTrace) {
        self.shared.lock().trace = Some(trace);
    }

    /// How many calls came through.
    pub fn calls(&self) -> u64 {
        self.shared.lock().calls
    }

    /// How many requests are delayed.
    pub fn delayed(&self) -> usize {
        self.shared.lock().late.len()
    }

    /// The newest faults, oldest first, for the output of a failed test.
    pub fn events(&self) -> Vec<FaultEvent> {
        self.shared.lock().events.iter().cloned().collect()
    }

    /// One call: what is due from earlier goes first, then this one, as the plan has it.
    ///
    /// The order is that of the calls, not of the awaits, as far as the transport underneath does its
    /// work when it is called and the plan lets requests take no time.
    fn call<R: Send + 'static>(
        &self,
        operation: Operation,
        host: Option<HostId>,
        what: String,
        run: impl for<'t> Fn(&'t T) -> TransportFuture<'t, R> + Send + Sync + 'static,
    ) -> TransportFuture<'_, R> {
        let host = self.host.clone().or(host);
        let inner = &*self.shared.inner;
        let Decision { due, fault, gate, answer_after, takes } =
            self.shared.lock().decide(operation, host.as_ref(), &what);
        let due: Vec<BoxFuture<'_, ()>> = due.into_iter().map(|late| late(inner)).collect();
        if let Some(gate) = &gate {
            gate.hit();
        }
        if takes == (Duration::ZERO, Duration::ZERO) {
            let outcome = self.carry_out(fault, gate, answer_after, run);
            return async move {
                for late in due {
                    late.await;
                }
                outcome.await
            }
            .boxed();
        }
        let this = self.clone();
        async move {
            for late in due {
                late.await;
            }
            tokio::time::sleep(takes.0).await;
            let outcome = this.carry_out(fault, gate, answer_after, run).await;
            tokio::time::sleep(takes.1).await;
            outcome
        }
        .boxed()
    }

    /// One call as its fault has it.
    fn carry_out<R: Send + 'static>(
        &self,
        fault: Option<Fault>,
        gate: Option<Arc<Gate>>,
        answer_after: Option<Duration>,
        run: impl for<'t> Fn(&'t T) -> TransportFuture<'t, R> + Send + Sync + 'static,
    ) -> TransportFuture<'_, R> {
        let inner = &*self.shared.inner;
        match fault {
            None => run(inner),
            Some(Fault::Refuse) => refused().boxed(),
            Some(Fault::LoseRequest) => unanswered(answer_after).boxed(),
            Some(Fault::LoseAnswer) => {
                let first = run(inner);
                async move {
                    let _lost = first.await;
                    unanswered(answer_after).await
                }
                .boxed()
            }
            Some(Fault::Delay { calls }) => {
                let late: Late<T> = Box::new(move |inner| run_and_forget(run(inner)));
                self.shared.lock().delay(calls, late);
                unanswered(answer_after).boxed()
            }
            Some(Fault::Repeat) => {
                let (first, second) = (run(inner), run(inner));
                async move {
                    let answer = first.await;
                    let _copy = second.await;
                    answer
                }
                .boxed()
            }
            Some(Fault::Retry) => {
                let (first, second) = (run(inner), run(inner));
                async move {
                    let _lost = first.await;
                    second.await
                }
                .boxed()
            }
            Some(Fault::HoldRequest) => async move {
                released(gate).await;
                run(inner).await
            }
            .boxed(),
            Some(Fault::HoldAnswer) => {
                let first = run(inner);
                async move {
                    let answer = first.await;
                    if let Some(gate) = &gate {
                        gate.carried_out();
                    }
                    released(gate).await;
                    answer
                }
                .boxed()
            }
        }
    }
}

fn run_and_forget<R: Send + 'static>(run: TransportFuture<'_, R>) -> BoxFuture<'_, ()> {
    run.map(drop).boxed()
}

async fn released(gate: Option<Arc<Gate>>) {
    if let Some(gate) = gate {
        gate.released().await;
    }
}

async fn refused<R>() -> Result<R, TransportErr> {
    Err(TransportErr::Unavailable { reason: "a fault was asked for".to_owned() })
}

async fn unanswered<R>(after: Option<Duration>) -> Result<R, TransportErr> {
    if let Some(after) = after {
        tokio::time::sleep(after).await;
    }
    Err(TransportErr::Unanswered { waited: after.unwrap_or_default() })
}
