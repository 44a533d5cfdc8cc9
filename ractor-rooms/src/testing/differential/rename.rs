//! Walks through requests and answers and renames the numbers in them.

use super::names::Names;
use crate::id::{Activation, Epoch, Generation, Incarnation, Life, Millis, Position, Producer};
use crate::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, CloseAnswer, DeadLetter, Entry, Lease, OfferAnswer,
    OwnerAnswer, Page, ParkReason, Phase, Reassert, Request, Seen, SnapshotKey, SnapshotRef,
};
use crate::protocol::store::{Owned, Unrest};

/// What becomes of each kind of number.
pub(super) trait Rename {
    /// An epoch, or a life.
    fn epoch(&mut self, epoch: u64) -> u64;
    fn position(&mut self, position: Position) -> Position;
    fn incarnation(&mut self, incarnation: Incarnation) -> Incarnation;
    fn time(&mut self, time: Millis) -> Millis;
    fn generation(&mut self, generation: Generation) -> Generation;
}

/// Gives each number a name, by the order of their first appearance, and leaves times out that are not
/// a caller's.
pub(super) struct Hide<'a>(pub(super) &'a mut Names);

impl Rename for Hide<'_> {
    fn epoch(&mut self, epoch: u64) -> u64 {
        self.0.name_epoch(epoch)
    }

    fn position(&mut self, position: Position) -> Position {
        self.0.name_position(position)
    }

    fn incarnation(&mut self, incarnation: Incarnation) -> Incarnation {
        self.0.name_incarnation(incarnation)
    }

    fn time(&mut self, time: Millis) -> Millis {
        if super::moves::is_callers(time) { time } else { Millis(0) }
    }

    fn generation(&mut self, generation: Generation) -> Generation {
        self.0.name_generation(generation)
    }
}

fn activation(r: &mut impl Rename, activation: Activation) -> Activation {
    Activation { by: r.incarnation(activation.by), ..activation }
}

fn lease(r: &mut impl Rename, lease: Lease) -> Lease {
    Lease {
        epoch: Epoch(r.epoch(lease.epoch.0)),
        owner: activation(r, lease.owner),
        generation: r.generation(lease.generation),
    }
}

fn seen(r: &mut impl Rename, seen: Seen) -> Seen {
    Seen {
        epoch: Epoch(r.epoch(seen.epoch.0)),
        owner: seen.owner.map(|owner| activation(r, owner)),
    }
}

fn life(r: &mut impl Rename, life: Life) -> Life {
    Life(r.epoch(life.0))
}

pub(super) fn key(r: &mut impl Rename, key: SnapshotKey) -> SnapshotKey {
    SnapshotKey { by: activation(r, key.by), ..key }
}

fn snapshot(r: &mut impl Rename, snapshot: SnapshotRef) -> SnapshotRef {
    SnapshotRef {
        key: key(r, snapshot.key),
        cursor: r.position(snapshot.cursor),
        next_timer: snapshot.next_timer.map(|timer| r.time(timer)),
        ..snapshot
    }
}

/// Producers that are hosts are the sequences' own, with numbers that are the same on both sides.
fn producer(r: &mut impl Rename, producer: Producer) -> Producer {
    match producer {
        Producer::Host(incarnation) => Producer::Host(incarnation),
        Producer::Room(room, of) => Producer::Room(room, life(r, of)),
        Producer::Activation(room, of) => Producer::Activation(room, activation(r, of)),
    }
}

fn entry(r: &mut impl Rename, entry: Entry) -> Entry {
    Entry { position: r.position(entry.position), producer: producer(r, entry.producer), ..entry }
}

fn page(r: &mut impl Rename, page: Page) -> Page {
    Page { entries: page.entries.into_iter().map(|e| entry(r, e)).collect(), ..page }
}

fn letter(r: &mut impl Rename, letter: DeadLetter) -> DeadLetter {
    DeadLetter { producer: producer(r, letter.producer), at: r.time(letter.at), ..letter }
}

fn phase(r: &mut impl Rename, phase: Phase) -> Phase {
    match phase {
        Phase::Offered { to, until } => Phase::Offered { to, until: r.time(until) },
        Phase::Parked { why: ParkReason::Blocked { retry_after, why } } => {
            let retry_after = r.time(retry_after);
            Phase::Parked { why: ParkReason::Blocked { retry_after, why } }
        }
        Phase::Running => Phase::Running,
        Phase::Parked { why } => Phase::Parked { why },
        Phase::Closed { reason } => Phase::Closed { reason },
    }
}

pub(super) fn owned(r: &mut impl Rename, owned: &mut Owned) {
    owned.activation = activation(r, owned.activation.clone());
    owned.epoch = Epoch(r.epoch(owned.epoch.0));
    owned.last = r.position(owned.last);
}

pub(super) fn unrest(r: &mut impl Rename, unrest: &mut Unrest) {
    unrest.phase = phase(r, unrest.phase.clone());
    unrest.next_timer = unrest.next_timer.map(|timer| r.time(timer));
    unrest.declined.sort();
    unrest.owner = unrest.owner.take().map(|owner| r.incarnation(owner));
}

pub(super) fn request(r: &mut impl Rename, request: Request) -> Request {
    use Request as R;
    match request {
        R::Append { life: of, producer: by, epoch, first, batch } => R::Append {
            life: of.map(|of| life(r, of)),
            producer: producer(r, by),
            epoch,
            first,
            batch,
        },
        R::Acquire { activation: by, seen: was } => {
            R::Acquire { activation: activation(r, by), seen: seen(r, was) }
        }
        R::Reassert(claim) => R::Reassert(Box::new(Reassert {
            lease: lease(r, claim.lease),
            activation: activation(r, claim.activation),
            life: life(r, claim.life),
            snapshot: snapshot(r, claim.snapshot),
            handled: claim.handled.into_iter().map(|(by, n)| (producer(r, by), n)).collect(),
            ..*claim
        })),
        R::Settle { lease: l } => R::Settle { lease: lease(r, l) },
        R::Checkpoint { lease: l, snapshot: s } => {
            R::Checkpoint { lease: lease(r, l), snapshot: snapshot(r, s) }
        }
        R::Ack { lease: l, received } => {
            R::Ack { lease: lease(r, l), received: r.position(received) }
        }
        R::Park { lease: l, snapshot: s, offer, why, failed } => R::Park {
            lease: lease(r, l),
            snapshot: s.map(|s| snapshot(r, s)),
            offer: offer.map(|(to, until)| (to, r.time(until))),
            why,
            failed,
        },
        R::Offer { to, until, create } => R::Offer { to, until: r.time(until), create },
        R::Decline { by, why } => R::Decline { by, why },
        R::ReadLog { lease: l, after, max_bytes } => {
            R::ReadLog { lease: lease(r, l), after: r.position(after), max_bytes }
        }
        R::Emit { lease: l, first, events } => R::Emit { lease: lease(r, l), first, events },
        R::Close { lease: l, cursor, reason, forced } => {
            R::Close { lease: lease(r, l), cursor: r.position(cursor), reason, forced }
        }
        R::CountFailure { lease: l, producer: p, number, attempt } => {
            R::CountFailure { lease: lease(r, l), producer: producer(r, p), number, attempt }
        }
        R::GiveUp { lease: l, letter: given } => {
            R::GiveUp { lease: lease(r, l), letter: letter(r, given) }
        }
        R::Read => R::Read,
        R::ReadHistory { after } => R::ReadHistory { after },
        R::ReadDeadLetters => R::ReadDeadLetters,
    }
}

fn append(r: &mut impl Rename, answer: AppendAnswer) -> AppendAnswer {
    use AppendAnswer as A;
    match answer {
        A::Accepted { last, seq, life: of, standing } => {
            A::Accepted { last, seq, life: life(r, of), standing }
        }
        A::Duplicate { last, seq, life: of, standing } => {
            A::Duplicate { last, seq, life: life(r, of), standing }
        }
        A::Fenced { epoch, last, now } => A::Fenced { epoch, last, now: r.time(now) },
        A::OtherLife { life: of } => A::OtherLife { life: life(r, of) },
        A::Partial { .. }
        | A::Gap { .. }
        | A::Full { .. }
        | A::Closed { .. }
        | A::Missing
        | A::Unproved { .. } => answer,
    }
}

fn acquire(r: &mut impl Rename, answer: AcquireAnswer) -> AcquireAnswer {
    use AcquireAnswer as A;
    match answer {
        A::Acquired(mut acquired) => {
            acquired.lease = lease(r, acquired.lease.clone());
            acquired.life = life(r, acquired.life);
            acquired.snapshot = acquired.snapshot.take().map(|s| snapshot(r, s));
            acquired.pruned = acquired.pruned.map(|pruned| r.time(pruned));
            acquired.page = page(r, std::mem::take(&mut acquired.page));
            A::Acquired(acquired)
        }
        A::Refused { seen: was, phase: at } => {
            A::Refused { seen: seen(r, was), phase: phase(r, at) }
        }
        A::SnapshotLost { snapshot: lost } => {
            A::SnapshotLost { snapshot: Box::new(snapshot(r, *lost)) }
        }
        A::NoSession | A::Missing | A::Unproved => answer,
    }
}

pub(super) fn answer(r: &mut impl Rename, answer: Answer) -> Answer {
    match answer {
        Answer::OtherGeneration { generation } => {
            Answer::OtherGeneration { generation: r.generation(generation) }
        }
        Answer::Append(answer) => Answer::Append(append(r, answer)),
        Answer::Acquire(answer) => Answer::Acquire(acquire(r, answer)),
        Answer::Owner(OwnerAnswer::Fenced { epoch }) => {
            Answer::Owner(OwnerAnswer::Fenced { epoch: Epoch(r.epoch(epoch.0)) })
        }
        Answer::Owner(OwnerAnswer::Settled { last }) => {
            Answer::Owner(OwnerAnswer::Settled { last: r.position(last) })
        }
        Answer::Owner(
            answer @ (OwnerAnswer::Done | OwnerAnswer::NoSnapshot | OwnerAnswer::Count(_)),
        ) => Answer::Owner(answer),
        Answer::Offer(OfferAnswer::Done { life: of }) => {
            Answer::Offer(OfferAnswer::Done { life: life(r, of) })
        }
        Answer::Offer(OfferAnswer::Refused { phase: at, life: of }) => {
            Answer::Offer(OfferAnswer::Refused { phase: phase(r, at), life: life(r, of) })
        }
        Answer::Offer(answer @ (OfferAnswer::Missing | OfferAnswer::Unproved)) => {
            Answer::Offer(answer)
        }
        Answer::Close(CloseAnswer::Fenced { epoch }) => {
            Answer::Close(CloseAnswer::Fenced { epoch: Epoch(r.epoch(epoch.0)) })
        }
        Answer::Close(answer) => Answer::Close(answer),
        Answer::Page(Ok(read)) => Answer::Page(Ok(page(r, read))),
        Answer::Page(Err(epoch)) => Answer::Page(Err(Epoch(r.epoch(epoch.0)))),
        Answer::View(None) => Answer::View(None),
        Answer::View(Some(mut view)) => {
            view.life = life(r, view.life);
            view.seen = seen(r, view.seen.clone());
            view.phase = phase(r, view.phase.clone());
            view.last = r.position(view.last);
            view.snapshot = view.snapshot.take().map(|s| snapshot(r, s));
            view.declined.sort();
            Answer::View(Some(view))
        }
        Answer::History { first, events, life: of } => {
            Answer::History { first, events, life: life(r, of) }
        }
        Answer::DeadLetters(letters) => {
            Answer::DeadLetters(letters.into_iter().map(|l| letter(r, l)).collect())
        }
    }
}
