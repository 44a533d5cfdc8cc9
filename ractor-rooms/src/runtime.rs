//! The actors: everything that touches ractor or tokio.
//!
//! ```text
//!   RoomHost ─ HostCore (store, clock, tables, tasks)
//!      │
//!      └─ RoomSupervisor (actor) ─ one Slot per room
//!             ├─ Adopter, Source: pure machines, driven
//!             └─ RoomRunner (actor, one per room) ─ the app's RoomActor
//!
//!   RoomRef ─ Route (gate) ─┬─ the room's Mailbox        (live room, same host)
//!                           └─ Courier ─ the room's log  (everything else)
//! ```
//!
//! Nothing here decides a protocol question: see [`crate::protocol`].

mod calls;
mod config;
mod context;
mod core;
mod courier;
mod drain;
mod emitter;
mod error;
mod events;
mod host;
mod inbox;
mod kinds;
mod letters;
mod mailbox;
mod migrate;
mod newest;
mod not_running;
mod parked;
pub(crate) mod reply;
mod report;
mod room_actor;
mod room_ref;
mod route;
mod runner;
mod runner_handle;
mod scope;
mod supervisor;
pub(crate) mod timers;
pub(crate) mod wire;

pub use self::config::HostConfig;
pub use self::context::{ContextErr, RoomContext};
pub use self::core::RoomFault;
pub use self::drain::{Blocker, Drain, DrainOptions, DrainProgress, DrainReport};
pub use self::error::{CloseErr, HostErr, MigrationErr, RoomErr};
pub use self::events::{EventStream, RoomEvent};
pub use self::host::{RoomHost, RoomHostBuilder};
pub use self::migrate::MigrateTo;
pub use self::not_running::WhyNotRunning;
pub use self::reply::{Answer, AnswerErr, Reply};
pub use self::report::{MigrationReport, MoveReason, StateTime};
pub use self::room_actor::RoomActor;
pub use self::room_ref::RoomRef;
pub use self::supervisor::RoomSupervisorMessage;
pub use self::timers::{MissedPolicy, TimerInfo};
