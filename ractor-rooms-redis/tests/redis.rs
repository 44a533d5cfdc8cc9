//! Whole hosts over a real server: field reports, holes of the protocol, and faults under traffic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by a panic"
)]

#[cfg(feature = "cluster")]
#[path = "redis/cluster.rs"]
mod cluster;
#[path = "redis/damage.rs"]
mod damage;
#[path = "redis/decoders.rs"]
mod decoders;
#[path = "redis/faults.rs"]
mod faults;
#[path = "redis/field_reports.rs"]
mod field_reports;
#[path = "redis/generations.rs"]
mod generations;
#[path = "redis/holes.rs"]
mod holes;
#[path = "redis/hosts.rs"]
mod hosts;
#[path = "redis/idle.rs"]
mod idle;
#[path = "redis/journal.rs"]
mod journal;
#[path = "redis/ledger.rs"]
mod ledger;
#[path = "redis/life.rs"]
mod life;
#[path = "redis/store.rs"]
mod store;

/// Makes a test of each class out of a function that takes the class as a type.
macro_rules! in_both_classes {
    ($($name:ident;)*) => {
        mod live {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name::<crate::ledger::Live>().await;
                }
            )*
        }
        mod durable {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name::<crate::ledger::Durable>().await;
                }
            )*
        }
    };
}
use in_both_classes;
