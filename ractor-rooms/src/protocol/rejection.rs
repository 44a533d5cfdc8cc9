//! Why a machine refused an event.

use thiserror::Error;

/// An event that has no place in the state a machine is in. Nothing changed.
///
/// A rejection is normal where messages may be late or repeated: the driver logs it at debug level and
/// goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{machine} in state {state} does not take {event}")]
pub struct Rejection {
    /// Which machine: `source`, `adopter`, `gate`, `sender`.
    pub machine: &'static str,
    /// The state it is in.
    pub state: &'static str,
    /// The event it was given.
    pub event: &'static str,
}
