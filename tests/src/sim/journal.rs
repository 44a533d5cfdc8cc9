//! What happened in a run, as senders and members saw it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ractor_rooms::{RoomEvent, RoomFault};

use super::clock::SimTime;
use super::plan::Act;
use crate::oracle::SenderId;

/// The first number of a room among the senders. Senders count from 0, with 1000 more for each start of their
/// host.
pub const ROOM: SenderId = 1_000_000;

/// What a sender was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing yet.
    Pending,
    /// It was accepted.
    Accepted,
    /// It did not wait.
    Cast,
    /// It came back.
    HandedBack,
    /// Nobody can tell.
    Unknown,
    /// It had been accepted, and was lost.
    Lost,
}

/// One message of a sender.
#[derive(Clone, Debug)]
pub struct Sent {
    /// To which room.
    pub room: usize,
    /// Through which host.
    pub via: usize,
    /// When, in milliseconds from the beginning.
    pub at: u128,
    /// What it was.
    pub act: Act,
    /// What its sender was told.
    pub told: Told,
}

/// One stream of events.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Of which room.
    pub room: usize,
    /// Whether it ended, because its host did.
    pub ended: bool,
    /// What came.
    pub events: Vec<RoomEvent<(SenderId, u64)>>,
}

/// Everything so far.
#[derive(Debug, Default)]
pub struct Record {
    /// By sender and number.
    pub sent: BTreeMap<(SenderId, u64), Sent>,
    /// One for each stream.
    pub streams: Vec<Stream>,
    /// What the hosts reported.
    pub faults: Vec<(usize, RoomFault)>,
    /// Hosts that died.
    pub killed: Vec<usize>,
    /// How often a message was tried, for those that fail at first.
    pub tried: BTreeMap<(String, SenderId, u64), u32>,
    /// How often each room was made.
    pub born: BTreeMap<String, u32>,
    /// Promises that were seen broken while it ran.
    pub broken: Vec<String>,
    lines: Vec<String>,
    digest: u64,
}

/// Clones share one record.
#[derive(Clone, Debug)]
pub struct Journal {
    time: SimTime,
    record: Arc<Mutex<Record>>,
}

impl Journal {
    /// An empty one.
    pub fn new(time: SimTime) -> Self {
        let record = Record { digest: 0xcbf2_9ce4_8422_2325, ..Record::default() };
        Self { time, record: Arc::new(Mutex::new(record)) }
    }

    /// The record.
    pub fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what happened, and when.
    pub fn say(&self, what: impl AsRef<str>) {
        let line = format!("{:>6} {}", self.time.now().as_millis(), what.as_ref());
        let mut record = self.lock();
        for byte in line.bytes() {
            record.digest = (record.digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        record.lines.push(line);
    }

    /// Writes down that a promise was broken.
    pub fn broken(&self, what: impl Into<String>) {
        let what = what.into();
        self.say(format!("BROKEN {what}"));
        self.lock().broken.push(what);
    }

    /// The sum of all that happened.
    pub fn digest(&self) -> u64 {
        self.lock().digest
    }

    /// All that happened.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }
}
