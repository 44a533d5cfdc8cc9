//! Whole-system tests; one binary, a module per topic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by a panic"
)]

#[path = "rooms/bad_input.rs"]
mod bad_input;
#[path = "rooms/bounds.rs"]
mod bounds;
#[path = "rooms/bursts.rs"]
mod bursts;
#[path = "rooms/calls.rs"]
mod calls;
#[path = "rooms/crash_points.rs"]
mod crash_points;
#[path = "rooms/decoders.rs"]
mod decoders;
#[path = "rooms/documents.rs"]
mod documents;
#[path = "rooms/drain.rs"]
mod drain;
#[path = "rooms/field_reports.rs"]
mod field_reports;
#[path = "rooms/generations.rs"]
mod generations;
#[path = "rooms/held.rs"]
mod held;
#[path = "rooms/holes.rs"]
mod holes;
#[path = "rooms/life.rs"]
mod life;
#[path = "rooms/moves.rs"]
mod moves;
#[path = "rooms/placing.rs"]
mod placing;
#[path = "rooms/poison.rs"]
mod poison;
#[path = "rooms/room_to_room.rs"]
mod room_to_room;
#[path = "rooms/simulation.rs"]
mod simulation;
#[path = "rooms/snapshots.rs"]
mod snapshots;
#[path = "rooms/timers.rs"]
mod timers;
#[path = "rooms/traces.rs"]
mod traces;
#[path = "rooms/versions.rs"]
mod versions;

/// Makes a test of each class out of a function that takes the class as a type.
macro_rules! in_both_classes {
    ($($(#[$doc:meta])* $name:ident $(($($arg:expr),*))?;)*) => {
        mod live {
            #[allow(unused_imports, reason = "what the arguments name")]
            use super::*;
            $(
                $(#[$doc])*
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    super::$name::<ractor_rooms_tests::rooms::Live>($($($arg),*)?).await;
                }
            )*
        }
        mod durable {
            #[allow(unused_imports, reason = "what the arguments name")]
            use super::*;
            $(
                $(#[$doc])*
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    super::$name::<ractor_rooms_tests::rooms::Durable>($($($arg),*)?).await;
                }
            )*
        }
    };
}
use in_both_classes;
