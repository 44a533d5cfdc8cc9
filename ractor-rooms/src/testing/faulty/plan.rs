//! What may go wrong, how often, and where.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::id::HostId;
use crate::protocol::record::Request;

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// One call of a transport, or one kind of request of [`execute`].
        ///
        /// [`execute`]: crate::transport::Transport::execute
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation { $($(#[doc = $doc])* $name,)* }

        impl Operation {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

operations! {
    /// [`Request::Append`].
    Append,
    /// [`Request::Acquire`].
    Acquire,
    /// [`Request::Settle`].
    Settle,
    /// [`Request::Checkpoint`].
    Checkpoint,
    /// [`Request::Ack`].
    Ack,
    /// [`Request::Park`].
    Park,
    /// [`Request::Offer`].
    Offer,
    /// [`Request::Decline`].
    Decline,
    /// [`Request::Reassert`].
    Reassert,
    /// [`Request::ReadLog`].
    ReadLog,
    /// [`Request::Emit`].
    Emit,
    /// [`Request::Close`].
    Close,
    /// [`Request::CountFailure`].
    CountFailure,
    /// [`Request::GiveUp`].
    GiveUp,
    /// [`Request::Read`].
    Read,
    /// [`Request::ReadHistory`].
    ReadHistory,
    /// [`Request::ReadDeadLetters`].
    ReadDeadLetters,
    /// `put_snapshot`.
    PutSnapshot,
    /// `get_snapshot`.
    GetSnapshot,
    /// `open_session`.
    OpenSession,
    /// `renew_session`.
    RenewSession,
    /// `close_session`.
    CloseSession,
    /// `sessions`.
    Sessions,
    /// `owned`.
    Owned,
    /// `unrest`.
    Unrest,
    /// `post`.
    Post,
    /// `read_inbox`.
    ReadInbox,
    /// `subscribe`.
    Subscribe,
    /// `watch`.
    Watch,
}

impl Operation {
    /// What a request is.
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Append { .. } => Self::Append,
            Request::Acquire { .. } => Self::Acquire,
            Request::Reassert(_) => Self::Reassert,
            Request::Settle { .. } => Self::Settle,
            Request::Checkpoint { .. } => Self::Checkpoint,
            Request::Ack { .. } => Self::Ack,
            Request::Park { .. } => Self::Park,
            Request::Offer { .. } => Self::Offer,
            Request::Decline { .. } => Self::Decline,
            Request::ReadLog { .. } => Self::ReadLog,
            Request::Emit { .. } => Self::Emit,
            Request::Close { .. } => Self::Close,
            Request::CountFailure { .. } => Self::CountFailure,
            Request::GiveUp { .. } => Self::GiveUp,
            Request::Read => Self::Read,
            Request::ReadHistory { .. } => Self::ReadHistory,
            Request::ReadDeadLetters => Self::ReadDeadLetters,
        }
    }

    /// Whether a second execution changes nothing that the first did not. A letter that is posted twice
    /// is there twice, and a second stream ends the first.
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Subscribe)
    }
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It is not carried out, and the caller knows: [`Unavailable`].
    ///
    /// [`Unavailable`]: crate::transport::TransportErr::Unavailable
    Refuse,
    /// It is not carried out, and the caller does not know: [`Unanswered`].
    ///
    /// [`Unanswered`]: crate::transport::TransportErr::Unanswered
    LoseRequest,
    /// It is carried out, and the caller does not know.
    LoseAnswer,
    /// It is carried out after so many more calls, when the caller has long been told that there was no
    /// answer: a late copy.
    Delay {
        /// After how many further calls through the transport, of any host.
        calls: u32,
    },
    /// It is carried out twice in a row, and the caller gets the first answer.
    Repeat,
    /// It is carried out twice in a row, and the caller gets the second answer: the first was lost, and
    /// the transport repeated the request by itself.
    Retry,
    /// It waits until it is released, then is carried out.
    HoldRequest,
    /// It is carried out, and its answer waits until it is released.
    HoldAnswer,
}

/// How often what goes wrong, per mille of the calls or pushes. At most one thing happens to each, so
/// the sums for calls and for pushes should not be above 1000.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FaultPlan {
    /// How often [`Fault::Refuse`].
    pub refuse: u16,
    /// How often [`Fault::LoseRequest`].
    pub lose_request: u16,
    /// How often [`Fault::LoseAnswer`].
    pub lose_answer: u16,
    /// How often [`Fault::Delay`], by 0 to [`FaultPlan::longest_delay`] calls.
    pub delay_request: u16,
    /// How often [`Fault::Repeat`].
    pub repeat_request: u16,
    /// How often [`Fault::Retry`].
    pub retry_request: u16,
    /// The most calls that a request or push is delayed by.
    pub longest_delay: u32,
    /// How often a push is lost.
    pub drop_push: u16,
    /// How often a push comes after later ones: by 0 to [`FaultPlan::longest_delay`] calls.
    pub delay_push: u16,
    /// How often a push comes twice.
    pub repeat_push: u16,
    /// How often the stream of pushes ends instead of the next push.
    pub end_pushes: u16,
    /// The calls that the plan is for; all, when empty.
    pub only: BTreeSet<Operation>,
    /// The calls that the plan spares.
    pub except: BTreeSet<Operation>,
    /// How long a caller waits before it is told that there was no answer; not at all without.
    pub answer_after: Option<Duration>,
    /// The longest that a request is on its way before it is carried out, chosen anew for each in whole
    /// milliseconds. It is lost when its caller stops waiting before. Requests overtake each other.
    pub request_takes: Duration,
    /// The longest that an answer is on its way, in the same manner.
    pub answer_takes: Duration,
    /// The longest that a push is on its way, in the same manner. Those of one stream keep their order.
    pub push_takes: Duration,
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub fn calm() -> Self {
        Self::default()
    }

    /// A tenth of the calls and a fifth of the pushes go wrong, in every way.
    pub fn rough() -> Self {
        Self {
            refuse: 10,
            lose_request: 20,
            lose_answer: 30,
            delay_request: 20,
            repeat_request: 10,
            retry_request: 10,
            longest_delay: 20,
            drop_push: 100,
            delay_push: 50,
            repeat_push: 50,
            end_pushes: 2,
            ..Self::default()
        }
    }

    /// Every request that may be repeated is, and every push is.
    pub fn repeat_all() -> Self {
        let all = Operation::ALL.iter().copied();
        Self {
            repeat_request: 1_000,
            repeat_push: 1_000,
            except: all.filter(|operation| !operation.is_idempotent()).collect(),
            ..Self::default()
        }
    }

    pub(super) fn spares(&self, operation: Operation) -> bool {
        self.except.contains(&operation)
            || (!self.only.is_empty() && !self.only.contains(&operation))
    }
}

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultEvent {
    /// During which call through the transport, counted from 1.
    pub call: u64,
    /// Whose call or push it was, if known.
    pub host: Option<HostId>,
    /// What kind of call or push, and the room or incarnation.
    pub what: String,
    /// What was done to it.
    pub did: String,
}

impl fmt::Display for FaultEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_ref().map_or("-", HostId::as_str);
        write!(f, "call {}, {host}, {}: {}", self.call, self.what, self.did)
    }
}
