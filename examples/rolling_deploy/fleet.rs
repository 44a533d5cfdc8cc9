//! The hosts that run now, and what they say of themselves.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor_rooms::protocol::session::{HostState, SessionInfo};
use ractor_rooms::transport::Transport;
use ractor_rooms_redis::RedisTransport;

use super::writers::Counts;

/// Prints a row a second: each host with its state and its rooms, and how many messages were accepted.
pub(crate) async fn tell(transport: RedisTransport, counts: &Counts) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        let Ok(sessions) = transport.sessions().await else { continue };
        eprintln!("{} | {} accepted", row(sessions), counts.accepted.load(Ordering::Relaxed));
    }
}

fn row(mut sessions: Vec<SessionInfo>) -> String {
    sessions.sort_by(|a, b| a.incarnation.host.cmp(&b.incarnation.host));
    let mut row = String::new();
    for SessionInfo { incarnation, spec } in sessions.iter().filter(|s| s.spec.capacity > 0) {
        let state = match spec.state {
            HostState::Joining => "joining",
            HostState::Ready => "ready",
            HostState::Cordoned => "cordoned",
            HostState::Draining => "draining",
        };
        let bar = if row.is_empty() { "" } else { " | " };
        let (host, load) = (&incarnation.host, spec.load);
        let _ = write!(row, "{bar}{host} {state:<8} {load:>5} rooms"); // to a string
    }
    row
}
