//! The Redis transport of [`ractor_rooms`], for rooms that move between processes.

mod layout;
mod link;
mod reply;
mod script;
mod text;
#[cfg(test)]
mod text_test;
mod transport;
mod wire;

pub use transport::RedisTransport;
