//! What a room does while nothing can be proved.

use serde::{Deserialize, Serialize};

/// What a room does once its host's session has ended because the store did not answer for longer than
/// [`HostConfig::session_ttl`](crate::HostConfig::session_ttl).
///
/// Until then it goes on, and what needs the store waits. Afterwards another host may have the room, and
/// nobody can say. When the store answers again, the room is taken back if no other host has had it; if one
/// has, this copy ends with [`RoomActor::on_diverged`](crate::RoomActor::on_diverged).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub enum OnStoreLoss {
    /// It handles nothing, and keeps its state. Its callers wait.
    #[default]
    Pause,
    /// It goes on for the senders of its own host. Should another host have taken the room meanwhile, what
    /// this copy did is undone, also what its callers were answered. Live rooms only; a durable room pauses.
    Continue,
}
