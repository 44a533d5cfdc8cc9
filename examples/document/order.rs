//! What the process of a host is told by the one that starts it.
//!
//! ```text
//!   stdin   the order, one line of json; then `stop`, or the end if the starter is gone
//!   stdout  `ready`, once the host has started; then a word for each report of a store that lost something
//!   stderr  for people
//! ```
//!
//! The address may hold a password, so it does not go by the command line, which everybody may read.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::address::Address;
use super::host::Limits;
use super::options::Class;

/// The word that ends a host.
pub(crate) const STOP: &str = "stop";
/// What a host says when it has started.
pub(crate) const READY: &str = "ready";
/// No line is longer. The order holds the text before the first edit, which a trace may bring.
const MAX_LINE_BYTES: u64 = 1 << 30;

/// Which host to be.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The number of the host.
    pub(crate) host: u32,
    /// Where the hosts meet.
    pub(crate) address: Address,
    /// What the rooms promise.
    pub(crate) delivery: Class,
    /// How every document begins.
    pub(crate) text: String,
    /// The dead weight of every document.
    pub(crate) state_bytes: u32,
    /// What the dead weight is made from.
    pub(crate) seed: u64,
    /// The limits of the host.
    pub(crate) limits: Limits,
}

/// Without the address, which may hold a password.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("host", &self.host).finish_non_exhaustive()
    }
}

/// A host process was not told what to be.
#[derive(Debug)]
pub(crate) enum OrderErr {
    /// Nothing can be read.
    Unreadable(io::Error),
    /// It is no order.
    NotOrder(serde_json::Error),
}

impl fmt::Display for OrderErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "the order on stdin cannot be read: {why}"),
            // What serde says may quote the address.
            Self::NotOrder(why) => write!(
                f,
                "expected the order of a starting document on stdin, found something else at column {}",
                why.column()
            ),
        }
    }
}

impl Order {
    /// Reads one.
    pub(crate) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> Result<Self, OrderErr> {
        let line = read_line(from).await.map_err(OrderErr::Unreadable)?;
        serde_json::from_slice(&line).map_err(OrderErr::NotOrder)
    }

    /// Writes it as one line.
    pub(crate) fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// One line without its end; what there is if the stream ends or the line is too long.
pub(crate) async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            host: 2,
            address: Address::new(vec!["redis://:secret@localhost".into()], true),
            delivery: Class::Live,
            text: "two\nlines".into(),
            state_bytes: 7,
            seed: u64::MAX,
            limits: Limits { session_ttl_ms: 5, has_faults: true },
        }
    }

    #[tokio::test]
    async fn an_order_is_one_line_and_comes_through() {
        let mut sent = order().to_line().unwrap();
        assert_eq!(sent.iter().filter(|byte| **byte == b'\n').count(), 1);
        sent.extend_from_slice(b"stop\n");
        let mut from = sent.as_slice();
        let read = Order::read(&mut from).await.unwrap();
        assert_eq!(read.to_line().unwrap(), order_like(&read));
        assert_eq!(
            (read.host, read.delivery, read.text.as_str(), read.state_bytes, read.seed),
            (2, Class::Live, "two\nlines", 7, u64::MAX)
        );
        assert_eq!(read_line(&mut from).await.unwrap(), STOP.as_bytes());
        assert_eq!(read_line(&mut from).await.unwrap(), b"");
    }

    /// The same order in the namespace of another.
    fn order_like(other: &Order) -> Vec<u8> {
        Order { address: other.address.clone(), ..order() }.to_line().unwrap()
    }

    #[tokio::test]
    async fn what_is_no_order_is_refused_without_being_quoted() {
        for line in ["", "{}", "{\"host\":\"redis://:secret@localhost\"}", "nonsense"] {
            match Order::read(&mut line.as_bytes()).await {
                Err(why) => assert!(!why.to_string().contains("secret"), "{why}"),
                Ok(_) => panic!("{line} was taken for an order"),
            }
        }
    }
}
