//! The Redis transport of [`ractor_rooms`], for rooms that move between processes.
//!
//! This crate is a skeleton: it holds its name and its place in the workspace. Until the transport
//! lands here, rooms move between the hosts of one process, over the transport that `ractor-rooms`
//! brings along.
