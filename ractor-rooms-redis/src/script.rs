//! The Lua scripts: one per operation, each with what it shares with the others in front.

use std::sync::Arc;

/// One script. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// For messages.
    pub(crate) name: &'static str,
    /// The source, as the server gets it.
    pub(crate) body: Arc<str>,
    /// The name that the server knows it by.
    pub(crate) sha: Arc<str>,
}

impl Script {
    pub(crate) fn new(name: &'static str, body: &str) -> Self {
        let sha = redis::Script::new(body).get_hash().into();
        Self { name, body: body.into(), sha }
    }
}

const BASE: &str = include_str!("lua/base.lua");
const ROOM: &str = include_str!("lua/room.lua");
const TAIL: &str = include_str!("lua/tail.lua");

macro_rules! scripts {
    ($($name:ident: [$($part:expr),*] $file:literal;)*) => {
        /// All scripts of this version of the protocol.
        #[derive(Debug)]
        pub(crate) struct Scripts {
            $(pub(crate) $name: Script,)*
        }

        impl Scripts {
            fn with(base: &str) -> Self {
                Self {
                    $($name: {
                        let parts: &[&str] = &[
                            "-- rooms1 ", stringify!($name), "\n", base, $($part,)*
                            include_str!(concat!("lua/", $file, ".lua")), TAIL,
                        ];
                        Script::new(stringify!($name), &parts.concat())
                    },)*
                }
            }
        }
    };
}

scripts! {
    append: [] "append";
    acquire: [ROOM] "acquire";
    reassert: [ROOM] "reassert";
    settle: [ROOM] "settle";
    checkpoint: [ROOM] "checkpoint";
    ack: [ROOM] "ack";
    park: [ROOM] "park";
    offer: [ROOM] "offer";
    decline: [ROOM] "decline";
    page: [ROOM] "page";
    emit: [ROOM] "emit";
    close: [ROOM] "close";
    count: [ROOM] "count";
    give_up: [ROOM] "giveup";
    read: [ROOM] "read";
    history: [ROOM] "history";
    letters: [ROOM] "letters";
    reindex: [ROOM] "reindex";
    watch: [ROOM] "watch";
    owners: [] "owners";
    open: [] "open";
    renew: [] "renew";
    prove: [] "prove";
    end: [] "end";
    post: [] "post";
    inbox: [] "inbox";
    enlist: [] "enlist";
    stream: [] "stream";
}

impl Scripts {
    /// As the source says.
    pub(crate) fn new() -> Self {
        Self::with(BASE)
    }

    /// Scripts that are cut off after so many writes, as a log of commands that was torn leaves them.
    #[cfg(test)]
    pub(crate) fn torn(writes: u32) -> Self {
        let from = "local BUDGET = math.huge";
        assert!(BASE.contains(from));
        Self::with(&BASE.replace(from, &format!("local BUDGET = {writes}")))
    }
}
