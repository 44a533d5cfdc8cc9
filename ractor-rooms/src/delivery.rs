//! The two delivery classes.

use serde::{Deserialize, Serialize};

/// How messages reach a room, and with it what a crash can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Delivery {
    /// Senders on the room's own host go straight into its mailbox, without the store. A planned move
    /// loses nothing; a killed owner goes back to its last checkpoint and members are told.
    Live,
    /// Every message goes through the store's log first. Nothing that was acknowledged is lost.
    Durable,
}
