//! A Lua script and the name under which the server keeps it.

use std::sync::Arc;

/// A script. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// What it is called in logs.
    pub(crate) name: &'static str,
    /// Its source.
    pub(crate) body: Arc<str>,
    /// The SHA-1 of the source, in hex.
    pub(crate) sha: Arc<str>,
}

impl Script {
    pub(crate) fn new(name: &'static str, body: &str) -> Self {
        let sha = redis::Script::new(body).get_hash().into();
        Self { name, body: body.into(), sha }
    }
}
