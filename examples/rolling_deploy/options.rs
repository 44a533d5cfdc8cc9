//! What can be chosen.

use clap::Parser;

/// Replaces every host of a fleet under load, and counts what went wrong.
#[derive(Clone, Debug, Parser)]
#[command(name = "rolling_deploy")]
pub(crate) struct Options {
    /// How many hosts there are at a time.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) hosts: u32,
    /// How many rooms are durable: every message is logged before it is accepted.
    #[arg(long, default_value_t = 100)]
    pub(crate) durable_rooms: u32,
    /// How many rooms are live.
    #[arg(long, default_value_t = 30)]
    pub(crate) live_rooms: u32,
    /// Messages a second, over all rooms.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: u32,
    /// Print the summary as one json object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the host of this name, in the store that `--url` names.
    #[arg(long, hide = true, requires = "url")]
    pub(crate) be: Option<String>,
    /// See `--be`.
    #[arg(long, hide = true)]
    pub(crate) url: Option<String>,
}
