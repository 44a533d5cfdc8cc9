//! The value of `--transport`.

use std::fmt;
use std::str::FromStr;

/// What carries the messages between the hosts.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// The memory of this process.
    Memory,
    /// A Redis that the program starts for itself.
    PrivateRedis,
    /// The Redis at this address, which may hold a password.
    Redis(String),
}

/// Neither a name nor an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoTransport;

impl fmt::Display for NoTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected memory, redis, or the address of a Redis such as redis://127.0.0.1:6379",
        )
    }
}

impl std::error::Error for NoTransport {}

impl FromStr for Transport {
    type Err = NoTransport;

    // A wrong value is quoted in the message that the user gets. What may hold a password is taken here
    // and judged where nothing is quoted.
    fn from_str(value: &str) -> Result<Self, NoTransport> {
        match value {
            "memory" => Ok(Self::Memory),
            "redis" => Ok(Self::PrivateRedis),
            address if address.contains([':', '@']) => Ok(Self::Redis(address.to_owned())),
            _ => Err(NoTransport),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "Memory",
            Self::PrivateRedis => "PrivateRedis",
            Self::Redis(_) => "Redis(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        assert_eq!("memory".parse(), Ok(Transport::Memory));
        assert_eq!("redis".parse(), Ok(Transport::PrivateRedis));
        let address = "rediss://me:secret@localhost:6380/2";
        assert_eq!(address.parse(), Ok(Transport::Redis(address.into())));
        assert_eq!("pigeon".parse::<Transport>(), Err(NoTransport));
    }

    #[test]
    fn a_password_is_not_shown() {
        for address in ["redis://:secret@localhost", "redis:/secret@localhost", "secret@localhost"]
        {
            let shown = format!("{:?}", address.parse::<Transport>());
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}
