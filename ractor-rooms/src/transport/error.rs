//! Why a transport gave no answer.

use std::time::Duration;

use thiserror::Error;

/// Why a transport gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransportErr {
    /// There was no answer in time, or the connection broke: the request may have taken effect, or may
    /// still.
    #[error("the store did not answer within {waited:?}; the request may have taken effect")]
    Unanswered {
        /// How long was waited.
        waited: Duration,
    },
    /// The store answered with an error that may have come on the way, or with what cannot be read: the
    /// request may have taken effect.
    #[error("the store failed: {reason}; the request may have taken effect")]
    Failed {
        /// What it said, or what is wrong with its answer.
        reason: String,
    },
    /// The request was never sent.
    #[error("the store cannot be reached: {reason}")]
    Unavailable {
        /// What is known of the reason.
        reason: String,
    },
}

impl TransportErr {
    /// Whether the request may have taken effect, or may still.
    pub fn may_have_executed(&self) -> bool {
        match self {
            Self::Unanswered { .. } | Self::Failed { .. } => true,
            Self::Unavailable { .. } => false,
        }
    }
}
