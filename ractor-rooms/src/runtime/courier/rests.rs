//! What is kept of ways that were forgotten.

use super::super::newest::Newest;
use crate::id::Producer;
use crate::protocol::Sender;

/// Where the numbers of a way stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Whose numbers they are.
    pub(crate) producer: Producer,
    /// At rest.
    pub(crate) sender: Sender,
}

/// Where the numbers of the ways stand that were forgotten last: what a host has had accepted it knows of, also
/// when nothing is sent that way any more. Of the one that was forgotten first nothing is known in the end, and what
/// the store loses of it goes unnoticed.
pub(crate) type Rests = Newest<Rest>;
