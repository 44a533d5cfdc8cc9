//! Which fault comes next, and what waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::future::BoxFuture;

use super::super::dice::Dice;
use super::aim::Gate;
use super::plan::{Fault, FaultEvent, FaultPlan, Operation};
use super::trace::CallTrace;
use crate::id::HostId;
use crate::transport::{Push, Transport};

/// A request that is carried out later.
pub(super) type Late<T> = Box<dyn for<'t> FnOnce(&'t T) -> BoxFuture<'t, ()> + Send + Sync>;

/// Faults that are kept for the output of a failed test.
const EVENTS: usize = 4_096;

struct Aim {
    host: Option<HostId>,
    operation: Operation,
    fault: Fault,
    gate: Arc<Gate>,
}

struct LatePush {
    due: u64,
    to: mpsc::UnboundedSender<Push>,
    push: Push,
}

pub(super) struct State<T: ?Sized> {
    pub(super) plan: FaultPlan,
    pub(super) cut: BTreeSet<HostId>,
    pub(super) calls: u64,
    pub(super) late: Vec<(u64, Late<T>)>,
    pub(super) events: VecDeque<FaultEvent>,
    pub(super) trace: Option<CallTrace>,
    dice: Dice,
    aims: Vec<Aim>,
    held: Vec<Arc<Gate>>,
    stalled: BTreeMap<HostId, Arc<Gate>>,
    late_pushes: Vec<LatePush>,
}

/// What happens with one call.
pub(super) struct Decision<T: ?Sized> {
    pub(super) due: Vec<Late<T>>,
    pub(super) fault: Option<Fault>,
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) answer_after: Option<Duration>,
    /// How long the request and the answer are on their way.
    pub(super) takes: (Duration, Duration),
}

impl<T: Transport + ?Sized> State<T> {
    pub(super) fn new(seed: u64, plan: FaultPlan) -> Self {
        Self {
            plan,
            cut: BTreeSet::new(),
            calls: 0,
            late: Vec::new(),
            events: VecDeque::new(),
            trace: None,
            dice: Dice::new(seed),
            aims: Vec::new(),
            held: Vec::new(),
            stalled: BTreeMap::new(),
            late_pushes: Vec::new(),
        }
    }

    pub(super) fn aim(
        &mut self,
        host: Option<HostId>,
        operation: Operation,
        fault: Fault,
        gate: Arc<Gate>,
    ) {
        self.aims.push(Aim { host, operation, fault, gate });
    }

    pub(super) fn stall(&mut self, host: &HostId) {
        self.stalled.entry(host.clone()).or_insert_with(Gate::new);
    }

    pub(super) fn resume(&mut self, host: &HostId) {
        if let Some(gate) = self.stalled.remove(host) {
            gate.open();
        }
    }

    /// What a host waits for that is stalled.
    pub(super) fn stalled(&self, host: &HostId) -> Option<Arc<Gate>> {
        self.stalled.get(host).cloned()
    }

    pub(super) fn heal(&mut self) {
        self.plan = FaultPlan {
            longest_delay: self.plan.longest_delay,
            request_takes: self.plan.request_takes,
            answer_takes: self.plan.answer_takes,
            push_takes: self.plan.push_takes,
            ..FaultPlan::calm()
        };
        self.cut.clear();
        self.aims.clear();
        let stalled = std::mem::take(&mut self.stalled);
        for gate in self.held.drain(..).chain(stalled.into_values()) {
            gate.open();
        }
    }

    pub(super) fn delay(&mut self, calls: u32, late: Late<T>) {
        self.late.push((self.calls.saturating_add(u64::from(calls)), late));
    }

    pub(super) fn take_late(&mut self) -> Vec<Late<T>> {
        self.late.drain(..).map(|(_, late)| late).collect()
    }

    pub(super) fn decide(
        &mut self,
        operation: Operation,
        host: Option<&HostId>,
        what: &str,
    ) -> Decision<T> {
        self.calls += 1;
        if let Some(trace) = &self.trace {
            trace.note(host, operation, what);
        }
        let due = self.take_due(host);
        self.release_pushes(self.calls);
        let (fault, gate) = self.fault(operation, host);
        if let Some(fault) = fault {
            self.note(host, format!("{operation:?} {what}"), format!("{fault:?}"));
        }
        let takes = (self.some(self.plan.request_takes), self.some(self.plan.answer_takes));
        Decision { due, fault, gate, answer_after: self.plan.answer_after, takes }
    }

    /// Some whole milliseconds, at most so many. Without any, no chance is used up.
    fn some(&mut self, longest: Duration) -> Duration {
        match u64::try_from(longest.as_millis()).unwrap_or(u64::MAX) {
            0 => Duration::ZERO,
            longest => Duration::from_millis(self.dice.below(longest.saturating_add(1))),
        }
    }

    /// How long the next push is on its way.
    pub(super) fn push_takes(&mut self) -> Duration {
        self.some(self.plan.push_takes)
    }

    fn take_due(&mut self, host: Option<&HostId>) -> Vec<Late<T>> {
        let calls = self.calls;
        let (due, rest): (Vec<_>, Vec<_>) = self.late.drain(..).partition(|(due, _)| *due < calls);
        self.late = rest;
        if !due.is_empty() {
            self.note(host, format!("{} late requests", due.len()), "carried out".to_owned());
        }
        due.into_iter().map(|(_, late)| late).collect()
    }

    fn fault(
        &mut self,
        operation: Operation,
        host: Option<&HostId>,
    ) -> (Option<Fault>, Option<Arc<Gate>>) {
        if host.is_some_and(|host| self.cut.contains(host)) {
            return (Some(Fault::Refuse), None);
        }
        if let Some(gate) = host.and_then(|host| self.stalled(host)) {
            return (Some(Fault::HoldRequest), Some(gate));
        }
        let aimed = self.aims.iter().position(|aim| {
            aim.operation == operation && (aim.host.is_none() || aim.host.as_ref() == host)
        });
        if let Some(at) = aimed {
            let aim = self.aims.remove(at);
            self.held.push(Arc::clone(&aim.gate));
            return (Some(aim.fault), Some(aim.gate));
        }
        if self.plan.spares(operation) {
            return (None, None);
        }
        let roll = self.dice.below(1_000);
        let plan = &self.plan;
        let mut below = 0;
        let mut hit = |per_mille: u16| {
            below += u64::from(per_mille);
            roll < below
        };
        let fault = if hit(plan.refuse) {
            Some(Fault::Refuse)
        } else if hit(plan.lose_request) {
            Some(Fault::LoseRequest)
        } else if hit(plan.lose_answer) {
            Some(Fault::LoseAnswer)
        } else if hit(plan.delay_request) {
            Some(Fault::Delay { calls: self.some_delay() })
        } else if hit(plan.repeat_request) {
            Some(Fault::Repeat)
        } else if hit(plan.retry_request) {
            Some(Fault::Retry)
        } else {
            None
        };
        (fault, None)
    }

    fn some_delay(&mut self) -> u32 {
        let bound = u64::from(self.plan.longest_delay) + 1;
        u32::try_from(self.dice.below(bound)).unwrap_or(0)
    }

    /// What becomes of a push: those that come now; `None` ends the stream.
    pub(super) fn push(
        &mut self,
        host: &HostId,
        push: Push,
        late: &mpsc::UnboundedSender<Push>,
    ) -> Vec<Option<Push>> {
        let what = name(&push);
        if self.cut.contains(host) {
            self.note(Some(host), what, "lost, the host is cut off".to_owned());
            return Vec::new();
        }
        let roll = self.dice.below(1_000);
        let plan = &self.plan;
        let mut below = 0;
        let mut hit = |per_mille: u16| {
            below += u64::from(per_mille);
            roll < below
        };
        if hit(plan.drop_push) {
            self.note(Some(host), what, "lost".to_owned());
            Vec::new()
        } else if hit(plan.delay_push) {
            let calls = self.some_delay();
            self.note(Some(host), what, format!("delayed by {calls} calls"));
            let due = self.calls.saturating_add(u64::from(calls));
            self.late_pushes.push(LatePush { due, to: late.clone(), push });
            Vec::new()
        } else if hit(plan.repeat_push) {
            self.note(Some(host), what, "repeated".to_owned());
            vec![Some(push.clone()), Some(push)]
        } else if hit(plan.end_pushes) {
            self.note(Some(host), what, "the stream ended".to_owned());
            vec![None]
        } else {
            vec![Some(push)]
        }
    }

    /// Lets the pushes come that were due before this call.
    pub(super) fn release_pushes(&mut self, calls: u64) {
        let (due, rest): (Vec<_>, _) =
            self.late_pushes.drain(..).partition(|late| late.due < calls);
        self.late_pushes = rest;
        for late in due {
            // A stream that has ended since takes nothing more, and a push is a hint.
            let _ended = late.to.unbounded_send(late.push);
        }
    }

    fn note(&mut self, host: Option<&HostId>, what: String, did: String) {
        if self.events.len() >= EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(FaultEvent { call: self.calls, host: host.cloned(), what, did });
    }
}

fn name(push: &Push) -> String {
    match push {
        Push::Entry { room, entry, .. } => format!("push of entry {} of {room}", entry.position),
        Push::Offered { room, .. } => format!("push of an offer of {room}"),
        Push::Moved { room, .. } => format!("push of a move of {room}"),
        Push::Events { room, first, .. } => format!("push of event {first} of {room}"),
        Push::Closed { room, .. } => format!("push of the end of {room}"),
        Push::Letter { position, .. } => format!("push of letter {position}"),
    }
}
