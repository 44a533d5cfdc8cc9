//! A host that leaves while its rooms go on: the driver of [`Drain`](crate::protocol::drain::Drain).

use std::collections::{BTreeMap, BTreeSet};
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::core::FindErr;
use super::error::{CloseErr, HostErr, MigrationErr};
use super::host::RoomHost;
use super::supervisor::{RoomSupervisorMessage, RoomsHere};
use crate::id::{HostId, RoomId};
use crate::protocol::drain::{
    Drain as Machine, DrainAction, DrainBudget, DrainEnd, DrainEvent, Here, Overdue, Stay, Way,
};
use crate::protocol::session::HostState;

/// How a host is drained.
///
/// ```
/// use std::time::Duration;
/// use ractor_rooms::{DrainOptions, protocol::drain::Overdue};
///
/// let options = DrainOptions::default()
///     .deadline(Duration::from_secs(60))
///     .overdue_of("game", Overdue::Close { reason: "deploy".to_owned() });
/// # let _ = options;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainOptions {
    deadline: Duration,
    budget: DrainBudget,
    overdue: Overdue,
    kinds: BTreeMap<String, Overdue>,
}

impl Default for DrainOptions {
    /// 20 seconds, because Kubernetes gives a pod 30 between SIGTERM and SIGKILL unless told otherwise, and what is
    /// overdue must still be parked; 32 rooms and 64 MiB at once; what is overdue is parked.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(20),
            budget: DrainBudget { rooms: 32, bytes: 64 << 20 },
            overdue: Overdue::Park,
            kinds: BTreeMap::new(),
        }
    }
}

impl DrainOptions {
    /// How long rooms may take to move; what is still here then goes by its policy.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many rooms leave at once. Well below the `max_restores` of the hosts that take them, or rooms wait there
    /// for a place.
    #[must_use]
    pub fn rooms_at_once(mut self, rooms: usize) -> Self {
        self.budget.rooms = rooms;
        self
    }

    /// How many bytes of snapshots are on their way at once; a larger room goes alone.
    #[must_use]
    pub fn bytes_at_once(mut self, bytes: u64) -> Self {
        self.budget.bytes = bytes;
        self
    }

    /// What happens to rooms that have not moved by the deadline.
    #[must_use]
    pub fn overdue(mut self, policy: Overdue) -> Self {
        self.overdue = policy;
        self
    }

    /// The same for the rooms of one kind.
    #[must_use]
    pub fn overdue_of(mut self, kind: impl Into<String>, policy: Overdue) -> Self {
        self.kinds.insert(kind.into(), policy);
        self
    }

    fn policy(&self, room: &RoomId) -> Overdue {
        self.kinds.get(room.kind.as_str()).unwrap_or(&self.overdue).clone()
    }
}

/// A room that was asked to leave and is still here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The room.
    pub room: RoomId,
    /// Why.
    pub why: String,
}

/// How far a drain is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Since it began.
    pub elapsed: Duration,
    /// Rooms that are still here, also those that are leaving.
    pub remaining: usize,
    /// Rooms that are leaving now.
    pub leaving: usize,
    /// Rooms that run elsewhere.
    pub moved: u64,
    /// Rooms that rest in the store.
    pub parked: u64,
    /// Rooms that have ended.
    pub closed: u64,
    /// Rooms whose handlers did not return: they were stopped, and are recovered elsewhere.
    pub killed: u64,
    /// Rooms that stay, and why; not more than 64 of them.
    pub blockers: Vec<Blocker>,
}

/// The most blockers that progress names.
const NAMED: usize = 64;

/// How a drain ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainReport {
    /// Whether everything has left, or it was cancelled.
    pub end: DrainEnd,
    /// What was done.
    pub progress: DrainProgress,
}

/// A drain that is under way; made by [`RoomHost::drain`].
///
/// Await it for its end. It goes on when it is dropped.
#[derive(Debug)]
pub struct Drain {
    cancel: Arc<Notify>,
    progress: watch::Receiver<DrainProgress>,
    end: oneshot::Receiver<Result<DrainReport, HostErr>>,
}

impl Drain {
    /// How far it is now.
    pub fn now(&self) -> DrainProgress {
        self.progress.borrow().clone()
    }

    /// How far it is, each time that this changes; what nobody looks at is passed over. Ends with the drain.
    pub fn progress(&self) -> impl Stream<Item = DrainProgress> + Send + use<> {
        futures::stream::unfold(self.progress.clone(), |mut progress| async move {
            progress.changed().await.ok()?;
            let now = progress.borrow_and_update().clone();
            Some((now, progress))
        })
    }

    /// Lets the host stay: moves that are under way end, no other begins, and the host takes rooms again. Too late
    /// once everything has left.
    pub fn cancel(&self) {
        self.cancel.notify_one();
    }
}

impl IntoFuture for Drain {
    type Output = Result<DrainReport, HostErr>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.end.await.unwrap_or(Err(HostErr::Stopped)) })
    }
}

impl RoomHost {
    /// Moves every room to another host, then ends the session: nothing of this host is left in the store, and the
    /// process can end. Meanwhile the host is [`Draining`](HostState::Draining): no room is placed on it, its senders
    /// and members go on. Rooms that cannot move, because no other host is ready or their handlers do not return,
    /// are named in [`Drain::progress`], tried again, and after the deadline go by the policy of their kind.
    ///
    /// ```
    /// # use ractor_rooms::{DrainOptions, MemoryTransport, RoomHost};
    /// # async fn rolls(host: &RoomHost) -> Result<(), ractor_rooms::HostErr> {
    /// let report = host.drain(DrainOptions::default())?.await?;
    /// println!("{} rooms moved", report.progress.moved);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`HostErr::AlreadyDraining`], and [`HostErr::Stopped`]; awaiting it, [`HostErr::Store`] when everything has
    /// left but the store did not take the end of the session, which then lapses.
    ///
    /// # Cancel safety
    /// Dropping it does not stop it; [`Drain::cancel`] does.
    pub fn drain(&self, options: DrainOptions) -> Result<Drain, HostErr> {
        if self.core.is_stopped() {
            return Err(HostErr::Stopped);
        }
        if self.core.draining.swap(true, Ordering::SeqCst) {
            return Err(HostErr::AlreadyDraining { host: self.core.id.clone() });
        }
        let cancel = Arc::new(Notify::new());
        let (report, progress) = watch::channel(DrainProgress::default());
        let (reply, end) = oneshot::channel();
        let driver = Driver {
            host: self.clone(),
            options,
            cancel: cancel.clone(),
            report,
            started: self.core.clock.mark(),
        };
        tokio::spawn(async move {
            let _ = reply.send(driver.run().await); // nobody waits for it
        });
        Ok(Drain { cancel, progress, end })
    }

    /// Waits for the signal with which a process is asked to end (SIGTERM), and drains the host.
    ///
    /// ```no_run
    /// # use ractor_rooms::{DrainOptions, RoomHost};
    /// # async fn serve(host: RoomHost) -> Result<(), ractor_rooms::HostErr> {
    /// host.drain_at_sigterm(DrainOptions::default()).await?;
    /// // and leave `main`: the process ends with code 0
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`HostErr::NoSignal`], and those of [`RoomHost::drain`].
    ///
    /// # Cancel safety
    /// Before the signal it can be dropped without effect, but the signal does not end the process by itself any
    /// more. After it, the drain goes on.
    #[cfg(unix)]
    pub async fn drain_at_sigterm(&self, options: DrainOptions) -> Result<DrainReport, HostErr> {
        use tokio::signal::unix::{SignalKind, signal};

        let mut asked = signal(SignalKind::terminate())
            .map_err(|error| HostErr::NoSignal { error: error.to_string() })?;
        asked.recv().await;
        tracing::info!(host = %self.core.id, "asked to end: the host is drained");
        self.drain(options)?.await
    }
}

/// Carries out what the machine decides.
struct Driver {
    host: RoomHost,
    options: DrainOptions,
    cancel: Arc<Notify>,
    report: watch::Sender<DrainProgress>,
    started: Duration,
}

type Events = FuturesUnordered<BoxFuture<'static, Option<DrainEvent>>>;

impl Driver {
    async fn run(self) -> Result<DrainReport, HostErr> {
        let end = self.drive().await;
        let core = &self.host.core;
        let end = match end {
            Some(DrainEnd::Drained) => {
                self.host.shutdown().await?;
                DrainEnd::Drained
            }
            Some(DrainEnd::Cancelled) => {
                core.draining.store(false, Ordering::SeqCst);
                self.tell(RoomSupervisorMessage::set_state(HostState::Ready))
                    .ok_or(HostErr::Stopped)?;
                DrainEnd::Cancelled
            }
            None => return Err(HostErr::Stopped),
        };
        let progress = self.report.borrow().clone();
        tracing::info!(host = %core.id, ?end, ?progress, "drain");
        Ok(DrainReport { end, progress })
    }

    /// None when the host is stopped under it.
    async fn drive(&self) -> Option<DrainEnd> {
        self.tell(RoomSupervisorMessage::set_state(HostState::Draining))?;
        let (mut machine, mut actions) = Machine::start(self.options.budget);
        let mut events = Events::new();
        let mut looking = false;
        let deadline = tokio::time::sleep(self.options.deadline);
        tokio::pin!(deadline);
        let mut overdue = false;
        let mut rounds = tokio::time::interval(self.host.core.config.sweep_interval);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        rounds.reset();
        loop {
            for action in actions {
                match action {
                    DrainAction::End(end) => {
                        self.note(&machine);
                        return Some(end);
                    }
                    DrainAction::Look => self.look(&mut looking, &events),
                    DrainAction::Move { room, declined } => {
                        events.push(self.move_out(room, declined))
                    }
                    DrainAction::Park { room } => events.push(self.park(room)),
                    DrainAction::Close { room, reason } => events.push(self.close(room, reason)),
                    DrainAction::Kill { room } => events.push(self.kill(room)),
                }
            }
            self.note(&machine);
            let event = tokio::select! {
                biased; // the same order in each run of a simulation
                Some(event) = events.next() => event?,
                () = &mut deadline, if !overdue => {
                    overdue = true;
                    DrainEvent::Overdue
                }
                () = self.cancel.notified() => DrainEvent::Cancelled,
                _ = rounds.tick() => {
                    self.look(&mut looking, &events);
                    actions = Vec::new();
                    continue;
                }
            };
            looking &= !matches!(event, DrainEvent::Found { .. });
            actions = machine.step(event);
        }
    }

    /// One look at a time.
    fn look(&self, looking: &mut bool, events: &Events) {
        if !std::mem::replace(looking, true) {
            events.push(self.found());
        }
    }

    fn note(&self, machine: &Machine) {
        let blockers = machine.blockers().take(NAMED);
        let now = DrainProgress {
            elapsed: self.host.core.clock.elapsed_since(self.started),
            remaining: machine.remaining(),
            leaving: machine.leaving(),
            moved: machine.left(Way::Move),
            parked: machine.left(Way::Park),
            closed: machine.left(Way::Close),
            killed: machine.left(Way::Kill),
            blockers: blockers
                .map(|(room, why)| Blocker { room: room.clone(), why: why.to_owned() })
                .collect(),
        };
        self.report.send_replace(now);
    }

    /// None when the host is stopped.
    fn tell(&self, message: RoomSupervisorMessage) -> Option<()> {
        self.host.supervisor.cast(message).ok()
    }

    fn found(&self) -> BoxFuture<'static, Option<DrainEvent>> {
        let (reply, here) = oneshot::channel();
        let asked = self.tell(RoomSupervisorMessage::here(reply));
        let options = self.options.clone();
        Box::pin(async move {
            asked?;
            let RoomsHere { live, busy } = here.await.ok()?;
            let rooms = live.into_iter().map(|(room, bytes)| {
                let overdue = options.policy(&room);
                (room, Here { bytes, overdue })
            });
            let (rooms, busy) = (rooms.collect(), BTreeSet::from_iter(busy));
            Some(DrainEvent::Found { rooms, busy })
        })
    }

    fn move_out(
        &self,
        room: RoomId,
        mut declined: Vec<HostId>,
    ) -> BoxFuture<'static, Option<DrainEvent>> {
        let host = self.host.clone();
        Box::pin(async move {
            // The sessions may not say yet that this host leaves.
            declined.push(host.core.id.clone());
            let placed =
                host.core.placement(&room, &declined, host.core.config.sweep_interval).await;
            let why = match placed {
                Ok(to) => match leave(&host, &room, Some(to.clone())).await? {
                    // Abandoned is the adopter's by now.
                    Ok(()) | Err(MigrationErr::Abandoned { .. }) => {
                        return Some(DrainEvent::Left { room });
                    }
                    Err(MigrationErr::NotAdopted { why, .. }) => {
                        let why = why.map_or_else(|| "no answer".to_owned(), |why| why.to_string());
                        Stay::Declined { by: to, why }
                    }
                    Err(error) => stays(&error),
                },
                Err(FindErr::UnknownKind | FindErr::NoneReady) => Stay::NoHost,
                Err(FindErr::Store(error)) => Stay::Failed { why: error.to_string() },
            };
            Some(DrainEvent::Stayed { room, why })
        })
    }

    fn park(&self, room: RoomId) -> BoxFuture<'static, Option<DrainEvent>> {
        let host = self.host.clone();
        Box::pin(async move {
            Some(match leave(&host, &room, None).await? {
                Ok(()) => DrainEvent::Left { room },
                Err(error) => DrainEvent::Stayed { room, why: stays(&error) },
            })
        })
    }

    fn close(&self, room: RoomId, reason: String) -> BoxFuture<'static, Option<DrainEvent>> {
        let (reply, closed) = oneshot::channel();
        let asked = self.tell(RoomSupervisorMessage::close(room.clone(), reason, true, reply));
        let waited = self.host.core.config.freeze_timeout;
        Box::pin(async move {
            asked?;
            let why = match tokio::time::timeout(waited, closed).await {
                Ok(Ok(Ok(_) | Err(CloseErr::NotHere { .. } | CloseErr::Fenced { .. }))) => {
                    return Some(DrainEvent::Left { room });
                }
                Ok(Ok(Err(error))) => Stay::Failed { why: error.to_string() },
                Ok(Err(_)) => Stay::Failed { why: "it was restarted".to_owned() },
                Err(_) => {
                    let (room, waited) = (room.clone(), waited);
                    stays(&MigrationErr::FreezeTimedOut { room, waited })
                }
            };
            Some(DrainEvent::Stayed { room, why })
        })
    }

    fn kill(&self, room: RoomId) -> BoxFuture<'static, Option<DrainEvent>> {
        let (reply, killed) = oneshot::channel();
        let asked = self.tell(RoomSupervisorMessage::kill(room.clone(), reply));
        Box::pin(async move {
            asked?;
            Some(match killed.await.ok()? {
                true => DrainEvent::Left { room },
                false => {
                    let why = "it was not at rest".to_owned();
                    DrainEvent::Stayed { room, why: Stay::Failed { why } }
                }
            })
        })
    }
}

/// How a room left; none when the host is stopped.
async fn leave(
    host: &RoomHost,
    room: &RoomId,
    to: Option<HostId>,
) -> Option<Result<(), MigrationErr>> {
    let (reply, left) = oneshot::channel();
    host.supervisor.cast(RoomSupervisorMessage::leave(room.clone(), to, reply)).ok()?;
    Some(left.await.ok()?.map(drop))
}

fn stays(error: &MigrationErr) -> Stay {
    let why = error.to_string();
    match error {
        MigrationErr::FreezeTimedOut { .. } => Stay::Blocked { why },
        _ => Stay::Failed { why },
    }
}
