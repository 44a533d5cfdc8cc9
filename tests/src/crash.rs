//! One move in which a host dies at a chosen point, and what must be true afterwards.
//!
//! The points are not listed anywhere: a move without a crash is recorded, and every call on the room by its
//! source or its adopter is a point. A call that the protocol makes tomorrow is a point tomorrow.

mod judge;
mod site;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::{FutureExt, StreamExt, stream};
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

/// How a move goes when nobody dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The adopter takes the room.
    Adopted,
    /// The adopter claims it, cannot read it and gives it back; it goes on at its source.
    GivenBack,
}

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

/// The points that moves have in which nobody dies, and of each whether every such move has it.
pub async fn points<C: Class, S: Stores>(stores: &S, course: Course) -> BTreeMap<Point, bool> {
    let mut counts: BTreeMap<Point, usize> = BTreeMap::new();
    for _ in 0..RECORDED {
        for point in Site::<S::Transport>::new(stores, course).await.record::<C>().await {
            *counts.entry(point).or_default() += 1;
        }
    }
    // Whether a sender beside the room goes by the store depends on when it sends.
    let always = |point: &Point, count| count == RECORDED && point.operation != Operation::Append;
    counts
        .into_iter()
        .filter(|(point, _)| point.nth < CALLS_OF_A_KIND)
        .map(|(point, count)| (point, always(&point, count)))
        .collect()
}

/// Every crash at these points.
pub fn crashes(points: &[Point]) -> Vec<Crash> {
    let mut crashes = Vec::new();
    for at in points {
        for moment in [Moment::Before, Moment::After] {
            crashes.extend(Role::ALL.map(|killed| Crash { at: *at, moment, killed }));
        }
    }
    crashes
}

/// Makes source and adopter die in every way that a move offers. Returns the points of the move.
///
/// # Panics
/// When something that must be true afterwards is not, naming the crash; all others have run by then.
pub async fn crash_everywhere<C: Class, S: Stores>(stores: &S, course: Course) -> Vec<Point> {
    let found = points::<C, S>(stores, course).await;
    let points: Vec<Point> = found.keys().copied().collect();
    let cases = crashes(&points);
    let count = cases.len();
    let run = |crash: Crash| async move { (crash, try_often::<C, S>(stores, course, crash).await) };
    let ended: Vec<_> = stream::iter(cases).map(run).buffer_unordered(AT_ONCE).collect().await;
    let mut reached: BTreeMap<(Role, Operation), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (crash, outcome) in ended {
        match outcome {
            Ok(true) => *reached.entry((crash.at.by, crash.at.operation)).or_default() += 1,
            // What not every move does need not be done now.
            Ok(false) if crash.at.nth > 0 || !found[&crash.at] => {}
            Ok(false) => wrong.push(format!("{crash}: never reached")),
            Err(why) => wrong.push(format!("{crash}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {count} went wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(reached.len() > 5, "a move is more than that: {reached:?}");
    points
}

/// Whether the point was reached, or what went wrong.
async fn try_often<C: Class, S: Stores>(
    stores: &S,
    course: Course,
    crash: Crash,
) -> Result<bool, String> {
    for _ in 0..TRIES {
        let site = Site::<S::Transport>::new(stores, course).await;
        // A panic is to name its crash and not to hide the other cases.
        let ended = AssertUnwindSafe(site.crash::<C>(crash)).catch_unwind().await;
        let verdict = ended.map_err(|_| "it panicked, as told above".to_owned())?;
        verdict.check::<C>()?;
        if verdict.reached {
            return Ok(true);
        }
    }
    Ok(false)
}
