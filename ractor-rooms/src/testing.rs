#![doc = include_str!("../docs/writing_a_transport.md")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this is test code for other crates: a failed check panics"
)]

pub mod conformance;
mod decoders;
mod dice;
pub mod differential;
pub mod faulty;
mod mutations;
mod subject;

pub use decoders::Decoder;
pub use faulty::{
    Aimed, Call, CallTrace, Fault, FaultEvent, FaultPlan, FaultyTransport, Operation,
};
pub use mutations::mutations;
pub use subject::{MemorySubject, Subject, small_limits};
