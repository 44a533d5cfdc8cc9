//! The limits and deadlines of a host.

use std::time::Duration;

/// How a host behaves. Every wait in the protocol is bounded by one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// How long a session lasts without a heartbeat. A dead host's rooms are taken up after this long.
    pub session_ttl: Duration,
    /// How many rooms the host may run; 0 for a host of senders and members only.
    pub capacity: u32,
    /// The host's share of the rooms, relative to the weights of the other hosts. One of 0 gets only what is moved
    /// to it.
    pub weight: u32,
    /// How long a host that has just started leaves rooms to others, if there are any: one that is about to fail, or
    /// starts again and again, does not pull rooms to it each time.
    pub settle_time: Duration,
    /// For one operation on the store.
    pub store_timeout: Duration,
    /// Pause before an operation without an answer is repeated.
    pub retry_interval: Duration,
    /// For a message that waits to be accepted.
    pub send_timeout: Duration,
    /// For a call without a timeout of its own.
    pub call_timeout: Duration,
    /// For the handler under way to return when a room freezes.
    pub freeze_timeout: Duration,
    /// For an offered host to adopt.
    pub offer_timeout: Duration,
    /// For an adopter to restore a room, and for the room to take some of its log; one that takes nothing for as
    /// long, twice at most, is given back.
    pub restore_timeout: Duration,
    /// How often the host looks for rooms that nobody runs. Also how often a source looks at the record
    /// of a room that it has parked, should the notice be lost.
    pub sweep_interval: Duration,
    /// How long a room is idle before it is unloaded; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// The largest message, in bytes.
    pub max_message_bytes: usize,
    /// The largest state, in bytes.
    pub max_snapshot_bytes: usize,
    /// Messages of this host's senders that may wait in the mailbox of a live room.
    pub max_mailbox_messages: usize,
    /// Messages that may wait for one room to accept them.
    pub max_outbound_messages: usize,
    /// Bytes of messages that may wait for one room to accept them.
    pub max_outbound_bytes: usize,
    /// Events that may wait for one member.
    pub max_member_events: usize,
    /// Messages that a durable room handles between two checkpoints at most. 0 switches counting off.
    pub checkpoint_messages: u32,
    /// Bytes of messages that a durable room handles between two checkpoints, about. Well below half of
    /// what a log may hold, so that a busy room does not fill it. 0 switches counting off.
    pub checkpoint_bytes: usize,
    /// Time between two checkpoints of a room that is busy, at most.
    pub checkpoint_interval: Duration,
    /// How often a message is tried before it is given up.
    pub max_attempts: u32,
    /// Restores that may run at once.
    pub max_restores: usize,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            session_ttl: Duration::from_secs(10),
            capacity: u32::MAX,
            weight: 1,
            settle_time: Duration::ZERO,
            store_timeout: Duration::from_secs(2),
            retry_interval: Duration::from_millis(50),
            send_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(60),
            freeze_timeout: Duration::from_secs(5),
            offer_timeout: Duration::from_secs(5),
            restore_timeout: Duration::from_secs(30),
            sweep_interval: Duration::from_millis(250),
            idle_timeout: Some(Duration::from_secs(300)),
            max_message_bytes: 1 << 20,
            max_snapshot_bytes: 64 << 20,
            max_mailbox_messages: 1 << 20,
            max_outbound_messages: 65_536,
            max_outbound_bytes: 64 << 20,
            max_member_events: 1_024,
            checkpoint_messages: 1_024,
            checkpoint_bytes: 8 << 20,
            checkpoint_interval: Duration::from_secs(10),
            max_attempts: 3,
            max_restores: 64,
        }
    }
}
