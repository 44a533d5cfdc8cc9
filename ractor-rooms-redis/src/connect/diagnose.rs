//! Finds out why a connection could not be made.

use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, ErrorKind, RedisError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::CONNECT;
use crate::error::ConnectErr;

/// How long a probe of what speaks at an address may take.
const PROBE: Duration = Duration::from_millis(500);
/// The shortest greeting that a TLS server answers: TLS 1.2, one cipher, no extension.
const CLIENT_HELLO: [u8; 50] = {
    let mut hello = [0; 50];
    // Record: handshake, TLS 1.0, 45 bytes; message: client hello, 41 bytes, TLS 1.2; then a random that
    // may be zero, no session, one cipher, no compression.
    hello[0] = 22;
    hello[1] = 3;
    hello[2] = 1;
    hello[4] = 45;
    hello[5] = 1;
    hello[8] = 41;
    hello[9] = 3;
    hello[10] = 3;
    hello[45] = 2;
    hello[46] = 0xc0;
    hello[47] = 0x2f;
    hello[48] = 1;
    hello
};

/// What the error says, without what it might quote.
pub(super) fn words(error: &RedisError) -> String {
    error.to_string()
}

/// Why a server refused a command.
pub(super) fn refusal(error: &RedisError, address: &str) -> ConnectErr {
    let text = words(error);
    match error.code() {
        Some("NOAUTH" | "WRONGPASS") => ConnectErr::Authentication {
            address: address.to_owned(),
            code: error.code().unwrap_or_default().to_owned(),
        },
        Some("NOPERM") => {
            ConnectErr::MissingRight { right: error.detail().unwrap_or("of its ACL").to_owned() }
        }
        Some("READONLY") => ConnectErr::Replica { address: address.to_owned() },
        _ if error.is_timeout() => {
            ConnectErr::Silent { address: address.to_owned(), waited: CONNECT }
        }
        _ if error.is_io_error() => ConnectErr::HungUp { address: address.to_owned() },
        _ if text.contains("unknown command") => {
            ConnectErr::ServerTooOld { found: "older than 6.0".into() }
        }
        _ => ConnectErr::Refused { address: address.to_owned(), reason: text },
    }
}

/// Why a connection could not be made.
pub(super) async fn connect_error(error: &RedisError, info: &ConnectionInfo) -> ConnectErr {
    let address = info.addr().to_string();
    let text = words(error);
    if error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
    {
        let code = ["WRONGPASS", "NOAUTH"].into_iter().find(|code| text.contains(code));
        return ConnectErr::Authentication { address, code: code.unwrap_or("refused").into() };
    }
    if text.contains("DB index") || text.contains("database number") || text.contains("SELECT") {
        return ConnectErr::Database { address, database: info.redis_settings().db() };
    }
    let (host, port, tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host.as_str(), *port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host.as_str(), *port, true),
        _ => return ConnectErr::Unreachable { address, reason: text },
    };
    if error.is_connection_refusal() {
        return ConnectErr::Unreachable { address, reason: "connection refused".into() };
    }
    match probe(host, port, tls).await {
        Spoken::Nothing(reason) => ConnectErr::Unreachable { address, reason },
        Spoken::Tls if !tls => ConnectErr::TlsRequired { address },
        Spoken::Redis(_) if tls => ConnectErr::TlsUnsupported { address },
        Spoken::Tls => ConnectErr::TlsHandshake { address, reason: text },
        Spoken::Other => ConnectErr::NotRedis { address },
        Spoken::Silence => ConnectErr::Silent { address, waited: CONNECT },
        Spoken::HungUp => ConnectErr::HungUp { address },
        // The connection broke, and what the server says of it can only be read by who sends nothing else.
        Spoken::Redis(reason) if error.is_io_error() && reason.starts_with('-') => {
            ConnectErr::Refused { address, reason: reason[1..].to_owned() }
        }
        Spoken::Redis(_) => refusal(error, &address),
    }
}

/// What speaks at an address.
enum Spoken {
    Nothing(String),
    Silence,
    HungUp,
    /// The first line of its answer.
    Redis(String),
    Tls,
    Other,
}

async fn probe(host: &str, port: u16, tls_first: bool) -> Spoken {
    let greetings: [&[u8]; 2] = [b"PING\r\n", &CLIENT_HELLO];
    let (mut other, mut hung_up) = (false, false);
    let order = if tls_first { [0, 1] } else { [1, 0] };
    for index in order {
        let answer = match tokio::time::timeout(PROBE, greet(host, port, greetings[index])).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Spoken::Nothing(error.to_string()),
            Err(_) => continue,
        };
        match (answer.as_slice(), index) {
            ([21 | 22, 3, ..], _) => return Spoken::Tls,
            ([b'+' | b'-', ..], 0) => {
                let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
                return Spoken::Redis(String::from_utf8_lossy(line).into_owned());
            }
            ([], _) => hung_up = true,
            _ => other = true,
        }
    }
    match (other, hung_up) {
        (true, _) => Spoken::Other,
        (false, true) => Spoken::HungUp,
        (false, false) => Spoken::Silence,
    }
}

async fn greet(host: &str, port: u16, greeting: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((host, port)).await?;
    let mut answer = vec![0; 128];
    // A peer that hangs up has answered nothing; only the way to it counts as unreachable.
    let read = match stream.write_all(greeting).await {
        Ok(()) => stream.read(&mut answer).await.unwrap_or(0),
        Err(_) => 0,
    };
    answer.truncate(read);
    Ok(answer)
}
