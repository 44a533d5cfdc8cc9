//! The operations on a record.

use bytes::{Bytes, BytesMut};
use ractor_rooms::id::{Epoch, Generation, Life, OutSeq, Position, RoomId};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, DeclineReason, FIRST_PAGE_BYTES, Lease, Reassert, Request, SnapshotKey,
    SnapshotRef,
};
use ractor_rooms::transport::TransportErr;

use super::answer;
use super::append::Append;
use super::facts::Facts;
use super::{Failed, Inner, inexact};
use crate::reply::{Damaged, Reply};
use crate::script::Script;
use crate::text::EXACT;
use crate::{text, wire};

/// How often a script may find that the record has changed since its facts were read.
const ROUNDS: usize = 16;

fn arg(value: impl ToString) -> Bytes {
    value.to_string().into()
}

fn flag(on: bool) -> Bytes {
    Bytes::from_static(if on { b"1" } else { b"" })
}

pub(super) fn exact(what: &str, found: u64) -> Result<u64, TransportErr> {
    if found < EXACT { Ok(found) } else { Err(inexact(what, found)) }
}

fn position(of: Position) -> Result<Bytes, TransportErr> {
    exact("position", of.ms.max(of.n))?;
    Ok(arg(of))
}

fn lease(of: &Lease) -> [Bytes; 2] {
    [arg(of.epoch), text::activation(&of.owner).into()]
}

/// `number cursor text pointer`
fn snapshot(of: &SnapshotRef) -> Result<[Bytes; 4], TransportErr> {
    exact("snapshot's number", of.number.0)?;
    let cursor = position(of.cursor)?;
    Ok([arg(of.number), cursor, text::snapshot(of).into(), text::pointer(&of.key).into()])
}

/// One operation beyond append.
struct Ask<'a> {
    script: &'a Script,
    args: Vec<Bytes>,
    /// The snapshot that is to be named.
    new: Option<SnapshotKey>,
    facts: Facts,
}

impl<'a> Ask<'a> {
    fn new(script: &'a Script, args: impl IntoIterator<Item = Bytes>) -> Self {
        let args = args.into_iter().collect();
        Self { script, args, new: None, facts: Facts::default() }
    }
}

impl Inner {
    /// `carried` are the bytes of the snapshot that a park points to.
    pub(super) async fn execute(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
        carried: Option<Bytes>,
    ) -> Result<Answer, TransportErr> {
        match self.carry_out(room, request, floor, carried).await {
            Ok(answer) => Ok(answer),
            Err(Failed::OtherGeneration(generation)) => Ok(Answer::OtherGeneration { generation }),
            Err(Failed::Transport(error)) => Err(error),
        }
    }

    async fn carry_out(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
        carried: Option<Bytes>,
    ) -> Result<Answer, Failed> {
        use Request as R;
        // What an owner asks goes under the generation of its lease, everything else under the present one.
        let claim = request.lease().map(|lease| lease.generation);
        let s = &self.scripts;
        match request {
            R::Append { life, producer, epoch, first, batch } => {
                let append = Append { life, producer, epoch, first, batch };
                let prepared = self.prepare(room, &append)?;
                let answer = Box::pin(self.append(room, &append, prepared)).await?;
                Ok(Answer::Append(answer))
            }
            R::Acquire { activation, seen } => {
                let owner = seen.owner.as_ref().map(text::activation).unwrap_or_default();
                let pointer = self.known.pointer(room).unwrap_or_default();
                let (lives, facts) = futures::try_join!(
                    self.is_alive_here(&activation.by),
                    self.facts(owner.clone(), String::new(), pointer)
                )?;
                let args = [
                    text::activation(&activation).into(),
                    text::host(&activation.by.host).into(),
                    flag(lives),
                    arg(seen.epoch),
                    owner.into(),
                    arg(exact("floor", floor.0)?),
                    arg(FIRST_PAGE_BYTES),
                ];
                let ask = Ask { facts, ..Ask::new(&s.acquire, args) };
                let read = |code: &str, reply: &mut Reply, generation| {
                    answer::acquire(code, reply, activation, generation)
                };
                self.ask_generation(room, claim, ask, read).await.map(Answer::Acquire)
            }
            R::Reassert(claim) => self.reassert(room, *claim, floor).await,
            R::Settle { lease: of } => {
                self.owner(room, claim, Ask::new(&s.settle, lease(&of))).await
            }
            R::Checkpoint { lease: of, snapshot: new } => {
                let args = lease(&of).into_iter().chain(snapshot(&new)?);
                let ask = Ask { new: Some(new.key), ..Ask::new(&s.checkpoint, args) };
                self.owner(room, claim, ask).await
            }
            R::Ack { lease: of, received } => {
                let args = lease(&of).into_iter().chain([position(received)?]);
                self.owner(room, claim, Ask::new(&s.ack, args)).await
            }
            R::Park { lease: of, snapshot: new, offer, why, failed } => {
                let mut args: Vec<Bytes> = lease(&of).into();
                match &new {
                    Some(new) => args.extend(snapshot(new)?),
                    None => args.extend([const { Bytes::new() }; 4]),
                }
                match offer {
                    Some((to, until)) => args.extend([text::host(&to).into(), arg(until)]),
                    None => args.extend([const { Bytes::new() }; 2]),
                }
                let (phase, deadline, why) = text::park(&why);
                args.extend([phase.into(), deadline.into(), why.into()]);
                let failed_why = failed.as_ref().map(text::decline).unwrap_or_default();
                args.push(failed_why.into());
                args.extend(self.decline_args(failed.as_ref()));
                args.push(text::host(&of.owner.by.host).into());
                args.extend([flag(carried.is_some()), carried.unwrap_or_default()]);
                let ask = Ask { new: new.map(|new| new.key), ..Ask::new(&s.park, args) };
                self.owner(room, claim, ask).await
            }
            R::Offer { to, until, create } => {
                let floor = arg(exact("floor", floor.0)?);
                let max = arg(self.limits.dead_letters);
                let args = [text::host(&to).into(), arg(until), flag(create), floor, max];
                let read = |code: &str, reply: &mut Reply| {
                    let answer = answer::offer(code, reply)?;
                    if code == "done" && !reply.is_empty() {
                        let why = "its record was deleted, and no living host had the room";
                        tracing::error!(%room, why, "a room begins anew");
                    }
                    Ok(answer)
                };
                self.ask(room, claim, Ask::new(&s.offer, args), read).await.map(Answer::Offer)
            }
            R::Decline { by, why } => {
                let args = [text::host(&by).into(), text::decline(&why).into()];
                let args = args.into_iter().chain(self.decline_args(Some(&why)));
                self.ask(room, claim, Ask::new(&s.decline, args), answer::offer)
                    .await
                    .map(Answer::Offer)
            }
            R::ReadLog { lease: of, after, max_bytes } => {
                let max = u64::try_from(max_bytes).unwrap_or(EXACT).min(EXACT);
                let args = lease(&of).into_iter().chain([position(after)?, arg(max)]);
                self.ask(room, claim, Ask::new(&s.page, args), answer::page).await.map(Answer::Page)
            }
            R::Emit { lease: of, first, events } => {
                exact("event's number", first.0.saturating_add(events.len() as u64))?;
                let blob = wire::batch(&events).ok_or_else(|| inexact("event", u64::MAX))?;
                let args = [arg(first), arg(events.len()), blob, arg(self.limits.history)];
                self.owner(room, claim, Ask::new(&s.emit, lease(&of).into_iter().chain(args))).await
            }
            R::Close { lease: of, cursor, reason, forced } => {
                let max = arg(self.limits.dead_letters);
                let args = [position(cursor)?, reason.into(), flag(forced), max];
                let ask = Ask::new(&s.close, lease(&of).into_iter().chain(args));
                self.ask(room, claim, ask, answer::close).await.map(Answer::Close)
            }
            R::CountFailure { lease: of, producer, number, attempt } => {
                let mut id = format!("{number} ").into_bytes();
                id.extend(text::producer(&producer));
                let args = lease(&of).into_iter().chain([id.into(), arg(attempt)]);
                self.owner(room, claim, Ask::new(&s.count, args)).await
            }
            R::GiveUp { lease: of, letter } => {
                let (id, rest) = wire::letter(&letter);
                let max = arg(self.limits.dead_letters);
                let args = lease(&of).into_iter().chain([id, rest, max]);
                self.owner(room, claim, Ask::new(&s.give_up, args)).await
            }
            R::Read => {
                let view = self.view(room).await?;
                let Some(mut view) = view else {
                    return Ok(Answer::View(None));
                };
                if let Some(owner) = &view.seen.owner {
                    view.owner_alive = self.about_alive(&owner.by).await?;
                }
                Ok(Answer::View(Some(Box::new(view))))
            }
            R::ReadHistory { after } => {
                let ask = Ask::new(&s.history, [arg(after.0.min(EXACT))]);
                self.ask(room, claim, ask, |code, reply| history(code, reply, after)).await
            }
            R::ReadDeadLetters => {
                let read = |code: &str, reply: &mut Reply| {
                    let mut letters = Vec::new();
                    while code == "letters" && !reply.is_empty() {
                        letters.push(wire::parse_letter(reply.bytes()?).ok_or(Damaged)?);
                    }
                    Ok(letters)
                };
                self.ask(room, claim, Ask::new(&s.letters, []), read).await.map(Answer::DeadLetters)
            }
        }
    }

    /// `is-failure failed-adoptions blocked-ms`
    fn decline_args(&self, why: Option<&DeclineReason>) -> [Bytes; 3] {
        let is_failure = why.is_some_and(DeclineReason::is_failure);
        let (adoptions, blocked) = (self.limits.failed_adoptions, self.limits.blocked_ms);
        [flag(is_failure), arg(adoptions), arg(blocked.min(EXACT / 2))]
    }

    /// The record as anybody may see it, but for whether its owner is alive.
    pub(super) async fn view(
        &self,
        room: &RoomId,
    ) -> Result<Option<ractor_rooms::protocol::record::RecordView>, TransportErr> {
        let ask = Ask::new(&self.scripts.read, []);
        let view = self.ask(room, None, ask, answer::view).await.map_err(Failed::into_transport)?;
        if let Some(snapshot) = view.as_ref().and_then(|view| view.snapshot.as_ref()) {
            self.known.point(room, text::pointer(&snapshot.key));
        }
        Ok(view)
    }

    /// Takes a room out of an index that should not name it: `unrest`, or the one of an incarnation.
    pub(super) async fn reindex(&self, room: &RoomId, by: &str) -> Result<(), TransportErr> {
        let ask = Ask::new(&self.scripts.reindex, [by.to_owned().into()]);
        self.ask(room, None, ask, answer::owner).await.map(drop).map_err(Failed::into_transport)
    }

    pub(super) async fn watch(
        &self,
        by: &ractor_rooms::id::Incarnation,
        room: &RoomId,
        on: bool,
    ) -> Result<(), TransportErr> {
        let args = [text::incarnation(by).into(), flag(on)];
        let ask = Ask::new(&self.scripts.watch, args);
        self.ask(room, None, ask, answer::owner).await.map(drop).map_err(Failed::into_transport)
    }

    async fn owner(
        &self,
        room: &RoomId,
        claim: Option<Generation>,
        ask: Ask<'_>,
    ) -> Result<Answer, Failed> {
        self.ask(room, claim, ask, answer::owner).await.map(Answer::Owner)
    }

    async fn ask<T>(
        &self,
        room: &RoomId,
        claim: Option<Generation>,
        ask: Ask<'_>,
        read: impl FnOnce(&str, &mut Reply) -> Result<T, Damaged>,
    ) -> Result<T, Failed> {
        self.ask_generation(room, claim, ask, |code, reply, _| read(code, reply)).await
    }

    /// Asks until the script has the facts that it needs. `read` is told the generation that answered.
    async fn ask_generation<T>(
        &self,
        room: &RoomId,
        claim: Option<Generation>,
        ask: Ask<'_>,
        read: impl FnOnce(&str, &mut Reply, Generation) -> Result<T, Damaged>,
    ) -> Result<T, Failed> {
        let Ask { script, args, new, mut facts } = ask;
        if facts.pointer.is_none() {
            facts.pointer = self.known.pointer(room);
        }
        let head = [
            text::room(room).into(),
            text::member(room).into(),
            self.layout.publish().into(),
            self.layout.room_channels(&text::room(room)).into(),
        ];
        for _ in 0..ROUNDS {
            let old = facts.pointer.as_deref().and_then(text::parse_pointer);
            let keys = self.layout.room_keys(room, new.as_ref(), old.as_ref());
            let args: Vec<_> =
                head.iter().cloned().chain(facts.args()).chain(args.iter().cloned()).collect();
            let shard = self.layout.shard(room);
            let (code, mut reply, generation) =
                self.run_in(shard, claim, script, keys, args).await?;
            if code != "again" {
                if let Some(key) = new.filter(|_| code == "done") {
                    self.known.point(room, text::pointer(&key));
                }
                let read = read(&code, &mut reply, generation);
                return Ok(read.map_err(|error| error.unanswered(script.name))?);
            }
            let mut part = || reply.text().map_err(|error| error.unanswered(script.name));
            let (owner, to, pointer) = (part()?, part()?, part()?);
            self.known.point(room, pointer.clone());
            facts = self.facts(owner, to, pointer).await?;
        }
        let reason = format!("the record of {room} changed {ROUNDS} times while it was looked at");
        Err(TransportErr::Unavailable { reason }.into())
    }

    async fn reassert(
        &self,
        room: &RoomId,
        claim: Reassert,
        floor: Epoch,
    ) -> Result<Answer, Failed> {
        let Reassert { lease: of, activation, life, snapshot: new, handled, seq, out_seq } = claim;
        exact("snapshot's number", new.number.0)?;
        exact("seq", seq.0)?;
        exact("event's number", out_seq.0)?;
        let pointer = self.known.pointer(room).unwrap_or_default();
        let (lives, facts) = futures::try_join!(
            self.is_alive(&activation.by),
            self.facts(String::new(), String::new(), pointer)
        )?;
        let mut numbers = BytesMut::new();
        for (producer, last) in &handled {
            exact("producer's number", last.0)?;
            let producer = text::producer(producer);
            numbers.extend_from_slice(format!("{} {last} ", producer.len()).as_bytes());
            numbers.extend_from_slice(&producer);
        }
        let [epoch, owner] = lease(&of);
        let args = [
            epoch,
            owner,
            text::activation(&activation).into(),
            flag(lives),
            arg(life),
            arg(new.number),
            text::snapshot(&new).into(),
            text::pointer(&new.key).into(),
            arg(seq),
            arg(out_seq),
            numbers.freeze(),
            arg(exact("floor", floor.0)?),
            arg(FIRST_PAGE_BYTES),
        ];
        let key = new.key;
        let ask = Ask { new: Some(key.clone()), facts, ..Ask::new(&self.scripts.reassert, args) };
        let read = |code: &str, reply: &mut Reply, generation| {
            answer::acquire(code, reply, activation, generation)
        };
        let answer = self.ask_generation(room, None, ask, read).await?;
        if let AcquireAnswer::Acquired(_) = &answer {
            self.known.point(room, text::pointer(&key));
        }
        Ok(Answer::Acquire(answer))
    }
}

fn history(code: &str, reply: &mut Reply, after: OutSeq) -> Result<Answer, Damaged> {
    if code == "missing" {
        return Ok(Answer::History { first: OutSeq(1), events: Vec::new(), life: Life(0) });
    }
    let (life, out) = (Life(reply.number()?), reply.number()?);
    let mut first = None;
    let mut events = Vec::new();
    while !reply.is_empty() {
        let event = reply.bytes()?;
        let colon = event.iter().position(|byte| *byte == b':').ok_or(Damaged)?;
        if first.is_none() {
            let number = std::str::from_utf8(&event[..colon]).map_err(|_| Damaged)?;
            first = Some(OutSeq(number.parse().map_err(|_| Damaged)?));
        }
        events.push(event.slice(colon + 1..));
    }
    let first = first.unwrap_or(OutSeq(out.max(after.0)).next());
    Ok(Answer::History { first, events, life })
}
