//! What an error that the server answered means for a request.

use ractor_rooms::transport::TransportErr;
use redis::{ServerError, Value};

/// What to do after an error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The server does not have the script: send it along.
    NoScript,
    /// The same bytes may succeed a moment later.
    Later,
    /// This connection leads to a server that takes no writes.
    WrongServer,
    /// The server refused before it began.
    Refused,
    /// It failed on the way.
    Failed,
}

impl Fault {
    pub(super) fn of(error: &ServerError) -> Self {
        match error.code() {
            "NOSCRIPT" => Self::NoScript,
            "LOADING" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "BUSY" | "MOVED" | "ASK" => {
                Self::Later
            }
            "READONLY" => Self::WrongServer,
            // Out of memory is found at the first write of a script at the latest, and nothing was
            // written then.
            "OOM" | "NOAUTH" | "NOPERM" | "CROSSSLOT" => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// The answer of a request that ends with an error of the server.
pub(super) fn answer(error: &ServerError, what: &str) -> TransportErr {
    let detail = error.details().unwrap_or_default();
    match Fault::of(error) {
        Fault::Refused => {
            TransportErr::Unavailable { reason: format!("{} {detail}", error.code()) }
        }
        Fault::NoScript | Fault::Later | Fault::WrongServer | Fault::Failed => {
            let code = error.code();
            if let Some(unsaid) = crate::recurring::came(&format!("{what} is answered by {code}")) {
                tracing::error!(what, code, detail, unsaid, "the store answered with an error");
            }
            TransportErr::Failed { reason: format!("{what}: {} {detail}", error.code()) }
        }
    }
}

/// The first error among answers.
pub(super) fn first(values: &[Value]) -> Option<&ServerError> {
    values.iter().find_map(|value| match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    })
}
