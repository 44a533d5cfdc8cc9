//! What came of it.

use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::oracle::Verdict;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) rooms: u32,
    pub(crate) accepted: u64,
    pub(crate) failed_sends: u64,
    pub(crate) calls: u64,
    pub(crate) failed_calls: u64,
    pub(crate) verdict: Verdict,
    pub(crate) leftovers: Vec<String>,
    pub(crate) exit_codes: Vec<Option<i32>>,
    /// How long each host took to end.
    pub(crate) drains: Vec<Duration>,
    pub(crate) took: Duration,
}

impl Summary {
    /// Whether nothing went wrong.
    pub(crate) fn all_right(&self) -> bool {
        self.verdict == Verdict::default()
            && self.failed_sends == 0
            && self.failed_calls == 0
            && self.leftovers.is_empty()
            && self.exit_codes.iter().all(|code| *code == Some(0))
    }

    /// As one json object.
    pub(crate) fn json(&self) -> String {
        let Verdict { lost, doubled, reordered, foreign } = self.verdict;
        let millis = |time: &Duration| time.as_millis() as u64;
        json!({
            "rooms": self.rooms,
            "messages": self.accepted,
            "calls": self.calls,
            "lost": lost,
            "doubled": doubled,
            "reordered": reordered,
            "foreign": foreign,
            "failed_sends": self.failed_sends,
            "failed_calls": self.failed_calls,
            "leftover_keys": self.leftovers.len(),
            "exit_codes": self.exit_codes,
            "drain_ms": self.drains.iter().map(millis).collect::<Vec<_>>(),
            "elapsed_ms": millis(&self.took),
            "all_right": self.all_right(),
        })
        .to_string()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { lost, doubled, reordered, foreign } = self.verdict;
        writeln!(f, "rooms          {}", self.rooms)?;
        writeln!(f, "messages       {} accepted, {} failed", self.accepted, self.failed_sends)?;
        writeln!(f, "calls          {}, {} failed", self.calls, self.failed_calls)?;
        writeln!(f, "lost           {lost}")?;
        writeln!(f, "doubled        {doubled}")?;
        writeln!(f, "reordered      {reordered}")?;
        if foreign > 0 {
            writeln!(f, "never sent     {foreign}")?;
        }
        writeln!(f, "hosts ended    {}, exit codes {:?}", self.exit_codes.len(), self.exit_codes)?;
        writeln!(f, "drained in     {:.1?}", self.drains)?;
        writeln!(f, "left of them   {} keys", self.leftovers.len())?;
        for left in self.leftovers.iter().take(10) {
            writeln!(f, "    {left}")?;
        }
        write!(f, "{}", if self.all_right() { "all right" } else { "NOT all right" })
    }
}
