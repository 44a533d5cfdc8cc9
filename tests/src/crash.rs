//! One move in which a host dies at a chosen point, and what must be true afterwards.
//!
//! The points are not listed anywhere: a move without a crash is recorded, and every call on the room by its
//! source or its adopter is a point. A call that the protocol makes tomorrow is a point tomorrow.

mod judge;
mod site;

use std::collections::BTreeMap;
use std::fmt;

use futures::StreamExt;
use futures::stream;
use ractor_rooms::testing::Operation;

pub use judge::Verdict;
pub use site::{Site, Stores};

use crate::holes::Class;

/// How many clean moves are recorded.
const RECORDED: usize = 3;
/// Of one operation, so many calls are points; more come only from waiting.
const CALLS_OF_A_KIND: usize = 2;
/// How often a case is tried whose point does not come: what else goes on differs from move to move.
const TRIES: usize = 8;
/// How many cases run at a time.
const AT_ONCE: usize = 12;

/// A part in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Who gives the room up.
    Source,
    /// Who takes it.
    Adopter,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Source, Self::Adopter];

    /// The name of the host that plays it.
    pub fn host(self) -> &'static str {
        match self {
            Self::Source => "a",
            Self::Adopter => "b",
        }
    }
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the store has carried the call out.
    Before,
    /// After it has, and before the caller knows.
    After,
}

/// A call in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Whose.
    pub by: Role,
    /// Which.
    pub operation: Operation,
    /// Which of these of this host, from 0.
    pub nth: usize,
}

/// A crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Around which call.
    pub at: Point,
    /// On which side of it.
    pub moment: Moment,
    /// Who dies.
    pub killed: Role,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at: Point { by, operation, nth }, moment, killed } = self;
        write!(f, "{killed:?} dies {moment:?} {operation:?} {nth} of {by:?}")
    }
}

/// The points that clean moves have.
pub async fn points<C: Class, S: Stores>(stores: &S) -> Vec<Point> {
    let mut points = Vec::new();
    for _ in 0..RECORDED {
        points.extend(Site::<S::Transport>::new(stores).await.record::<C>().await);
    }
    points.retain(|point: &Point| point.nth < CALLS_OF_A_KIND);
    points.sort_unstable();
    points.dedup();
    points
}

/// Every crash at these points in which this host dies.
pub fn crashes(points: &[Point], killed: Role) -> Vec<Crash> {
    let both = |at: &Point| {
        [Moment::Before, Moment::After].map(|moment| Crash { at: *at, moment, killed })
    };
    points.iter().flat_map(both).collect()
}

/// Makes a host die in every way that a move offers. Returns the points of the move.
///
/// # Panics
/// When something that must be true afterwards is not, naming the crash; all others have run by then.
pub async fn crash_everywhere<C: Class, S: Stores>(stores: &S, killed: Role) -> Vec<Point> {
    let points = points::<C, S>(stores).await;
    let cases = crashes(&points, killed);
    let count = cases.len();
    let run = |crash: Crash| async move { (crash, try_often::<C, S>(stores, crash).await) };
    let ended: Vec<_> = stream::iter(cases).map(run).buffer_unordered(AT_ONCE).collect().await;
    let mut reached: BTreeMap<(Role, Operation), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (crash, outcome) in ended {
        match outcome {
            Ok(true) => *reached.entry((crash.at.by, crash.at.operation)).or_default() += 1,
            // A second call of a kind may be due to waiting; that there is a first is certain.
            Ok(false) if crash.at.nth > 0 => {}
            Ok(false) => wrong.push(format!("{crash}: never reached")),
            Err(why) => wrong.push(format!("{crash}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {count} went wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(reached.len() > 5, "a move is more than that: {reached:?}");
    points
}

/// Whether the point was reached, or what went wrong.
async fn try_often<C: Class, S: Stores>(stores: &S, crash: Crash) -> Result<bool, String> {
    for _ in 0..TRIES {
        let verdict = Site::<S::Transport>::new(stores).await.crash::<C>(crash).await;
        verdict.check::<C>()?;
        if verdict.reached {
            return Ok(true);
        }
    }
    Ok(false)
}
