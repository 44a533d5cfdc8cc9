//! Any transport against the pure [`Store`], operation by operation, with random sequences.
//!
//! Both sides get the same operations, and every answer is compared. What comes from a clock differs:
//! epochs, lives, positions and incarnations are named by the order of their first appearance, and times
//! that only the store's clock decides are left out. That new epochs and positions grow is checked
//! besides.

mod moves;
mod names;
mod rename;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Subject;
use crate::id::{Epoch, Incarnation, Millis, RoomId};
use crate::protocol::Store;
use crate::protocol::record::{Answer, Request};
use crate::protocol::session::{OpenAnswer, SessionSpec};
use crate::transport::{Letter, Transport, TransportErr};
use moves::{Moves, Step};
use names::{Names, Translate};
use rename::{Hide, Rename, answer, request};

/// How often each kind of answer was given, so that a run shows what it reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By the names of the answer's variants, as in `Append(Accepted`.
    pub answers: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: Self) {
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
    }

    fn count(&mut self, answer: &Answer) {
        let text = format!("{answer:?}");
        let name = text.split(|c: char| c == ' ' || c.is_ascii_digit()).next().unwrap_or_default();
        *self.answers.entry(name.to_owned()).or_default() += 1;
    }
}

/// Where the two sides parted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The seed, with which the run can be repeated.
    pub seed: u64,
    /// The step, counted from 0.
    pub step: usize,
    /// What the pure store answered, with times and numbers renamed.
    pub expected: String,
    /// What the transport answered.
    pub found: String,
    /// The last steps up to here, oldest first, in the pure store's numbers.
    pub steps: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}", self.seed, self.step)?;
        for step in &self.steps {
            writeln!(f, "    {step}")?;
        }
        writeln!(f, "expected: {}", self.expected)?;
        write!(f, "found:    {}", self.found)
    }
}

impl std::error::Error for Difference {}

/// Runs one sequence of `steps` operations on an empty subject and on the pure store.
///
/// On a store with a real clock, a run must take less than [`Subject::ttl`] from one lapse of the
/// sessions to the next; some hundred steps, and many seeds, are better than one long run.
///
/// # Errors
/// The first [`Difference`].
pub async fn compare(subject: &dyn Subject, seed: u64, steps: usize) -> Result<Tally, Difference> {
    let mut run = Run::new(subject, seed).await;
    for step in 0..steps {
        run.step().await.map_err(|(expected, found)| Difference {
            seed,
            step,
            expected,
            found,
            steps: run.trace.split_off(run.trace.len().saturating_sub(30)),
        })?;
    }
    Ok(run.tally)
}

/// An answer, in words that both sides share.
type Told = (String, String);

struct Run<'a> {
    subject: &'a dyn Subject,
    transport: Arc<dyn Transport>,
    store: Store,
    now: u64,
    moves: Moves,
    here: Names,
    there: Names,
    trace: Vec<String>,
    tally: Tally,
}

impl<'a> Run<'a> {
    async fn new(subject: &'a dyn Subject, seed: u64) -> Self {
        let mut run = Self::unnamed(subject, seed).await;
        run.name_generation();
        run
    }

    /// The generations that there are now are the same.
    fn name_generation(&mut self) {
        let here = self.store.generation();
        for room in Moves::rooms() {
            self.here.at(&room);
            self.there.at(&room);
            Hide(&mut self.here).generation(here);
            Hide(&mut self.there).generation(self.transport.generation(&room));
        }
        self.moves.generation(here);
    }

    async fn unnamed(subject: &'a dyn Subject, seed: u64) -> Self {
        Self {
            subject,
            transport: subject.connect().await,
            store: Store::new(subject.limits()),
            now: 1_000_000,
            moves: Moves::new(seed, subject.limits(), subject.ends_doubts_early()),
            here: Names::default(),
            there: Names::default(),
            trace: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn ttl_ms(&self) -> u64 {
        Millis::of(self.subject.ttl()).0
    }

    async fn step(&mut self) -> Result<(), Told> {
        self.now += 1;
        self.store.advance(Millis(self.now));
        let step = self.moves.next(&self.store);
        self.trace.push(format!("{step:?}"));
        match step {
            Step::Ask { room, request, floor } => {
                self.ask(&room, request, floor).await?;
                self.ask(&room, Request::Read, Epoch(0)).await?;
            }
            Step::Open(host) => {
                let ttl = self.ttl_ms();
                let spec = self.moves.spec();
                let expected = self.store.open_session(&host, ttl, spec.clone());
                if let OpenAnswer::Opened(incarnation) = &expected {
                    self.moves.opened(incarnation.clone());
                    self.store.drop_orphans();
                }
                let spec = self.proving(spec);
                let found =
                    told(self.transport.open_session(&host, self.subject.ttl(), spec).await)?;
                let hidden = [(&mut self.here, expected), (&mut self.there, found)].map(
                    |(names, answer)| match answer {
                        OpenAnswer::Opened(incarnation) => {
                            Some(Hide(names).incarnation(incarnation))
                        }
                        OpenAnswer::Taken { .. } => None,
                    },
                );
                same(&hidden[0], &hidden[1])?;
            }
            Step::Renew(by) => {
                let (ttl, mut spec) = (self.ttl_ms(), self.moves.spec());
                let expected = self.store.renew_session(&by, ttl, spec.clone());
                let by = self.incarnation(by);
                spec = self.proving(spec);
                let found = self.transport.renew_session(&by, self.subject.ttl(), spec).await;
                same(&expected, &told(found)?)?;
            }
            Step::End(by) => {
                self.store.close_session(&by);
                self.store.drop_orphans();
                self.moves.ended(&by);
                let by = self.incarnation(by);
                told(self.transport.close_session(&by).await)?;
            }
            Step::Begin => {
                if self.subject.begin_generation().await {
                    self.store.restart();
                    // Connections hear of it when they ask.
                    for room in Moves::rooms() {
                        told(self.transport.execute(&room, Request::Read, Epoch(0)).await)?;
                    }
                    self.name_generation();
                }
            }
            Step::Lapse => {
                self.now += self.ttl_ms() + 1;
                self.store.advance(Millis(self.now));
                self.subject.let_sessions_lapse().await;
            }
            Step::Look => self.look().await?,
            Step::Put { room, key, bytes } => {
                self.store.put_snapshot(&room, key.clone(), bytes.clone());
                let key = Translate::new(&self.here, &self.there, &room).key(key);
                told(self.transport.put_snapshot(&room, key, bytes).await)?;
            }
            Step::Get { room, key } => {
                let expected = self.store.snapshot(&room, &key);
                let key = Translate::new(&self.here, &self.there, &room).key(key);
                same(&expected, &told(self.transport.get_snapshot(&room, &key).await)?)?;
            }
            Step::Post { to, letter } => {
                let expected =
                    self.store.sessions().iter().any(|session| session.incarnation == to);
                if expected {
                    self.moves.posted(&to, letter.clone());
                }
                let to = self.incarnation(to);
                same(&expected, &told(self.transport.post(&to, letter).await)?)?;
            }
            Step::ReadInbox { by, after } => {
                let expected: Vec<Letter> = self.moves.read_inbox(&by, after);
                let by = self.incarnation(by);
                same(&expected, &told(self.transport.read_inbox(&by, after).await)?)?;
            }
        }
        match self.there.complaints.first() {
            Some(complaint) => Err(("numbers that grow".to_owned(), complaint.clone())),
            None => Ok(()),
        }
    }

    /// With the transport's generation in place of the store's. Where each room may have one of its own,
    /// nobody says that it has proved any.
    fn proving(&self, spec: SessionSpec) -> SessionSpec {
        let any = &Moves::rooms()[0];
        let proved = Translate::new(&self.here, &self.there, any).generation(spec.proved);
        SessionSpec { proved, ..spec }
    }

    fn incarnation(&self, by: Incarnation) -> Incarnation {
        Translate::anywhere(&self.here, &self.there).incarnation(by)
    }

    async fn ask(&mut self, room: &RoomId, asked: Request, floor: Epoch) -> Result<(), Told> {
        let mut translate = Translate::new(&self.here, &self.there, room);
        let translated = request(&mut translate, asked.clone());
        let floor_there = Epoch(translate.epoch(floor.0));
        let (expected, _effects) = self.store.step(room, asked, floor);
        self.tally.count(&expected);
        let found = told(self.transport.execute(room, translated, floor_there).await)?;
        self.compare_answers(room, expected, found)
    }

    fn compare_answers(
        &mut self,
        room: &RoomId,
        expected: Answer,
        found: Answer,
    ) -> Result<(), Told> {
        self.here.at(room);
        self.there.at(room);
        let expected = answer(&mut Hide(&mut self.here), expected);
        let found = answer(&mut Hide(&mut self.there), found);
        same(&expected, &found)
    }

    /// Compares what no single operation answers: sessions, indexes, history, dead letters and the log.
    async fn look(&mut self) -> Result<(), Told> {
        self.look_at_indexes().await?;
        for room in Moves::rooms() {
            self.ask(&room, Request::Read, Epoch(0)).await?;
            let history = Request::ReadHistory { after: crate::id::OutSeq(0) };
            self.ask(&room, history, Epoch(0)).await?;
            self.ask(&room, Request::ReadDeadLetters, Epoch(0)).await?;
            if let Some(lease) = self.store.record(&room).and_then(|record| record.lease()) {
                let after = crate::id::Position::START;
                let page = Request::ReadLog { lease, after, max_bytes: usize::MAX >> 12 };
                self.ask(&room, page, Epoch(0)).await?;
            }
        }
        Ok(())
    }

    async fn look_at_indexes(&mut self) -> Result<(), Told> {
        let mut expected = self.store.sessions();
        let mut found = told(self.transport.sessions().await)?;
        for (names, sessions) in [(&mut self.here, &mut expected), (&mut self.there, &mut found)] {
            for session in sessions.iter_mut() {
                session.incarnation = Hide(names).incarnation(session.incarnation.clone());
                session.spec.proved = Hide(names).generation(session.spec.proved);
            }
            sessions.sort_by(|a, b| a.incarnation.cmp(&b.incarnation));
        }
        same(&expected, &found)?;
        for by in self.moves.incarnations() {
            let mut expected = self.store.owned(&by);
            let there = self.incarnation(by);
            let mut found = told(self.transport.owned(&there).await)?;
            for (names, all) in [(&mut self.here, &mut expected), (&mut self.there, &mut found)] {
                for owned in all.iter_mut() {
                    names.at(&owned.room);
                    rename::owned(&mut Hide(names), owned);
                }
                all.sort_by(|a, b| a.room.cmp(&b.room));
            }
            same(&expected, &found)?;
        }
        let mut expected = self.store.unrest(None, usize::MAX);
        let mut found = told(self.transport.unrest(None, 1_000).await)?;
        for (names, all) in [(&mut self.here, &mut expected), (&mut self.there, &mut found)] {
            all.sort_by(|a, b| a.room.cmp(&b.room));
            for unrest in all.iter_mut() {
                rename::unrest(&mut Hide(names), unrest);
            }
        }
        same(&expected, &found)
    }
}

fn same<T: PartialEq + fmt::Debug>(expected: &T, found: &T) -> Result<(), Told> {
    if expected == found { Ok(()) } else { Err((format!("{expected:?}"), format!("{found:?}"))) }
}

fn told<T>(answer: Result<T, TransportErr>) -> Result<T, Told> {
    answer.map_err(|error| ("an answer".to_owned(), error.to_string()))
}
