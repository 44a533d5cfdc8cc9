//! What can be in a frame.

use std::fmt;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameKind {
    /// A message to a room.
    Message = 1,
    /// The state of a room.
    Snapshot = 2,
    /// An event of a room to its members.
    Event = 3,
    /// The answer to a call.
    Reply = 4,
}

impl FrameKind {
    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::Message, Self::Snapshot, Self::Event, Self::Reply]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "message",
            Self::Snapshot => "snapshot",
            Self::Event => "event",
            Self::Reply => "reply",
        })
    }
}
