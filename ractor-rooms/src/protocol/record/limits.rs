//! The bounds of a record. Nothing in it grows beyond them.

/// How large a record may grow. Full is a typed refusal, never a silent trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordLimits {
    /// Entries in the log. An eighth of it is reserved for the room's own appends, without which a full
    /// room could never reach its next checkpoint.
    pub log_entries: usize,
    /// Payload bytes in the log, with the same reserve.
    pub log_bytes: usize,
    /// Producers that are remembered. Hosts that are silent longest are pruned; other rooms never are,
    /// because a replay may repeat what they sent, so that a new producer may find the record full.
    pub producers: usize,
    /// Events that are kept for members who were away.
    pub history: usize,
    /// Dead letters that are kept; the oldest go first.
    pub dead_letters: usize,
    /// Failed adoptions in a row after which the room rests a while.
    pub failed_adoptions: u32,
    /// How long a room rests after that, in milliseconds.
    pub blocked_ms: u64,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            log_entries: 65_536,
            log_bytes: 64 << 20,
            producers: 4_096,
            history: 256,
            dead_letters: 1_024,
            failed_adoptions: 3,
            blocked_ms: 30_000,
        }
    }
}
