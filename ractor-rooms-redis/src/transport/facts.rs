//! What a script is told of other slots: who is alive, and where the snapshot was.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::clock::Clock;
use ractor_rooms::id::{Generation, HostId, Incarnation, RoomId};
use ractor_rooms::transport::TransportErr;

use super::Inner;
use crate::reply;
use crate::text;

/// What is remembered of the store. All of it may be old: a script compares it with the record.
#[derive(Debug)]
pub(super) struct Known {
    clock: Clock,
    age: Duration,
    sessions: Mutex<HashMap<String, (Duration, Option<u64>)>>,
    /// Sessions that were opened or renewed here.
    own: Mutex<HashMap<HostId, Own>>,
    pointers: Mutex<HashMap<RoomId, String>>,
}

/// A session that the store said was open.
#[derive(Debug)]
struct Own {
    number: u64,
    /// Until then it has at least half of its time left: the store counts from when it was told, which is
    /// after the telling began.
    until: Duration,
    /// Of the servers that said so.
    generation: Generation,
}

/// More than this is forgotten and asked for again.
const REMEMBERED: usize = 65_536;

impl Known {
    pub(super) fn new(age: Duration) -> Self {
        Self {
            clock: Clock::system(),
            age,
            sessions: Mutex::default(),
            own: Mutex::default(),
            pointers: Mutex::default(),
        }
    }

    pub(super) fn mark(&self) -> Duration {
        self.clock.mark()
    }

    /// A session that was told at `at` to last so long; or one that is over.
    pub(super) fn note_own(
        &self,
        by: &Incarnation,
        open: Option<(Duration, Duration)>,
        generation: Generation,
    ) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        match open {
            Some((at, lasts)) if !self.age.is_zero() => {
                let until = at.saturating_add(lasts / 2);
                own.insert(by.host.clone(), Own { number: by.number, until, generation });
            }
            Some(_) | None => {
                own.remove(&by.host);
            }
        }
    }

    /// Whether a session is known to be open without asking.
    fn is_own(&self, by: &Incarnation, generation: Generation) -> bool {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.get(&by.host).is_some_and(|own| {
            own.number == by.number && own.generation == generation && self.clock.mark() < own.until
        })
    }

    /// The text of the room's snapshot pointer, when it was last seen.
    pub(super) fn pointer(&self, room: &RoomId) -> Option<String> {
        self.pointers.lock().unwrap_or_else(PoisonError::into_inner).get(room).cloned()
    }

    pub(super) fn point(&self, room: &RoomId, pointer: String) {
        let mut pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        if pointers.len() >= REMEMBERED {
            pointers.clear();
        }
        pointers.insert(room.clone(), pointer);
    }

    /// One caller asks anew for what has become old; to the others it stays as it was meanwhile.
    fn session(&self, host: &str) -> Option<Option<u64>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, number) = sessions.get_mut(host)?;
        if self.clock.elapsed_since(*at) >= self.age {
            *at = self.clock.mark();
            return None;
        }
        Some(*number)
    }

    fn note(&self, host: &str, at: Duration, number: Option<u64>) {
        if self.age.is_zero() {
            return;
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= REMEMBERED {
            sessions.clear();
        }
        sessions.insert(host.to_owned(), (at, number));
    }
}

/// The facts of one call. What is not known is asked for when the script says that it needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) owner: Option<(String, bool)>,
    pub(super) to: Option<(String, bool)>,
    pub(super) pointer: Option<String>,
}

impl Facts {
    /// As `room.lua` takes them.
    pub(super) fn args(&self) -> [Bytes; 5] {
        let (owner, owner_lives) = told(self.owner.as_ref());
        let (to, to_lives) = told(self.to.as_ref());
        let pointer = self.pointer.clone().unwrap_or_else(|| "?".to_owned());
        [owner, owner_lives, to, to_lives, pointer.into()]
    }
}

fn told(fact: Option<&(String, bool)>) -> (Bytes, Bytes) {
    match fact {
        None => (Bytes::from_static(b"?"), Bytes::new()),
        Some((of, lives)) => {
            (of.clone().into(), Bytes::from_static(if *lives { b"1" } else { b"" }))
        }
    }
}

impl Inner {
    /// The number of a host's session, read now.
    pub(super) async fn session_number(&self, host: &str) -> Result<Option<u64>, TransportErr> {
        let at = self.known.clock.mark();
        let mut pipeline = redis::pipe();
        let keys = self.layout.host_keys(host);
        pipeline.cmd("GET").arg(&keys[0][..]);
        let value = self.link.read(pipeline).await?.into_iter().next().and_then(reply::bytes);
        let number = value.and_then(|value| {
            let end = value.iter().position(|byte| *byte == b' ')?;
            std::str::from_utf8(&value[..end]).ok()?.parse().ok()
        });
        self.known.note(host, at, number);
        Ok(number)
    }

    /// The same, or as it was a moment ago: for hints only.
    pub(super) async fn about_session(&self, host: &str) -> Result<Option<u64>, TransportErr> {
        match self.known.session(host) {
            Some(number) => Ok(number),
            None => self.session_number(host).await,
        }
    }

    pub(super) async fn is_alive(&self, by: &Incarnation) -> Result<bool, TransportErr> {
        Ok(self.session_number(&text::host(&by.host)).await? == Some(by.number))
    }

    /// The same of a host of this transport's, whose session it has just opened or renewed as a rule.
    pub(super) async fn is_alive_here(&self, by: &Incarnation) -> Result<bool, TransportErr> {
        if self.known.is_own(by, *self.generation.borrow()) {
            return Ok(true);
        }
        self.is_alive(by).await
    }

    pub(super) async fn about_alive(&self, by: &Incarnation) -> Result<bool, TransportErr> {
        Ok(self.about_session(&text::host(&by.host)).await? == Some(by.number))
    }

    /// Facts on what a script found: an owner, a host with an offer, a pointer; each may be empty.
    pub(super) async fn facts(
        &self,
        owner: String,
        to: String,
        pointer: String,
    ) -> Result<Facts, TransportErr> {
        let owner_lives = async {
            match text::parse_activation(&owner) {
                Some(by) => self.is_alive(&by.by).await,
                None => Ok(false),
            }
        };
        let to_lives = async {
            if to.is_empty() { Ok(false) } else { Ok(self.session_number(&to).await?.is_some()) }
        };
        let (owner_lives, to_lives) = futures::try_join!(owner_lives, to_lives)?;
        Ok(Facts {
            owner: Some((owner, owner_lives)),
            to: Some((to, to_lives)),
            pointer: Some(pointer),
        })
    }
}
