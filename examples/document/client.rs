//! One sender's way into a document room, from one host.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor_rooms::{Reply, RoomErr, RoomRef};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::journal::Run;
use super::room::{Audit, DeliveryClass, Document, DocumentMsg, Sighting};

/// Longer than this nothing takes, or the run has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// How long a sender waits before it knocks again at a full room.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// How long a call waits that is made again.
const ASKED_FOR: Duration = Duration::from_secs(5);

/// What becomes of a call that ends without an answer.
#[derive(Clone, Debug)]
pub(crate) enum Calls {
    /// It has failed.
    Once,
    /// It is made again, which is counted: hosts die, and calls with them. No call changes a document.
    Again(Arc<AtomicU64>),
}

/// Why a room was not reached.
#[derive(Debug)]
pub(crate) enum ClientErr {
    /// The room, or the way to it, refused.
    Refused(String),
    /// The room took a call and did not answer it.
    Unanswered,
    /// It took longer than [`PATIENCE`].
    TooSlow,
    /// A call went on for long after its own deadline.
    NoEnd,
}

impl fmt::Display for ClientErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Unanswered => f.write_str("a call was not answered"),
            Self::TooSlow => write!(f, "it took longer than {PATIENCE:?}"),
            Self::NoEnd => write!(f, "a call with a deadline of {ASKED_FOR:?} did not end"),
        }
    }
}

/// A document room as one sender sees it.
pub(crate) struct Client<C: DeliveryClass> {
    room: RoomRef<Document<C>>,
    calls: Calls,
}

impl<C: DeliveryClass> Client<C> {
    /// Sends through `room`.
    pub(crate) fn new(room: RoomRef<Document<C>>, calls: Calls) -> Self {
        Self { room, calls }
    }

    /// Sends without waiting for the acknowledgement, but for room in the queue.
    pub(crate) async fn cast(&self, mut msg: DocumentMsg) -> Result<(), ClientErr> {
        let knock = async {
            while let Err(refusal) = self.room.cast(msg) {
                msg = returned_if_full(refusal)?;
                sleep(FULL_PAUSE).await;
            }
            Ok(())
        };
        timeout(PATIENCE, knock).await.unwrap_or(Err(ClientErr::TooSlow))
    }

    /// Sends and waits for the acknowledgement.
    pub(crate) async fn send(&self, mut msg: DocumentMsg) -> Result<(), ClientErr> {
        let knock = async {
            while let Err(refusal) = self.room.send(msg).await {
                msg = returned_if_full(refusal)?;
                sleep(FULL_PAUSE).await;
            }
            Ok(())
        };
        timeout(PATIENCE, knock).await.unwrap_or(Err(ClientErr::TooSlow))
    }

    /// Asks the room where it runs.
    pub(crate) async fn whereabouts(&self) -> Result<Sighting, ClientErr> {
        self.call(DocumentMsg::Whereabouts).await
    }

    /// The same, once and not for long: who asks all the time asks again.
    pub(crate) async fn glimpse(&self) -> Result<Sighting, ClientErr> {
        self.ask(&DocumentMsg::Whereabouts, ASKED_FOR).await
    }

    /// Fetches the text, page by page.
    pub(crate) async fn text(&self) -> Result<String, ClientErr> {
        let mut text = String::new();
        let mut after = 0;
        loop {
            let page = self.call(|reply| DocumentMsg::Text { after, reply }).await?;
            if page.is_empty() {
                return Ok(text);
            }
            after += page.chars().count();
            text.push_str(&page);
        }
    }

    /// Fetches the journal, page by page.
    pub(crate) async fn journal(&self) -> Result<Vec<Run>, ClientErr> {
        let mut runs = Vec::new();
        loop {
            let after = runs.len();
            let page = self.call(|reply| DocumentMsg::Journal { after, reply }).await?;
            if page.is_empty() {
                return Ok(runs);
            }
            runs.extend(page);
        }
    }

    /// Fetches what else the oracle wants to know.
    pub(crate) async fn audit(&self) -> Result<Audit, ClientErr> {
        self.call(DocumentMsg::Audit).await
    }

    async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        msg: impl Fn(Reply<T>) -> DocumentMsg,
    ) -> Result<T, ClientErr> {
        let Calls::Again(again) = &self.calls else { return self.ask(&msg, PATIENCE).await };
        let tries = async {
            loop {
                match timeout(ASKED_FOR * 2, self.ask(&msg, ASKED_FOR)).await {
                    Err(_) => return Err(ClientErr::NoEnd),
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(why)) => {
                        again.fetch_add(1, Ordering::Relaxed);
                        tracing::debug!(%why, "a call is made again");
                        sleep(FULL_PAUSE).await;
                    }
                }
            }
        };
        timeout(PATIENCE, tries).await.unwrap_or(Err(ClientErr::TooSlow))
    }

    async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        msg: impl Fn(Reply<T>) -> DocumentMsg,
        deadline: Duration,
    ) -> Result<T, ClientErr> {
        match self.room.call(msg, Some(deadline)).await {
            Ok(CallResult::Success(answer)) => Ok(answer),
            Ok(CallResult::Timeout) => Err(ClientErr::TooSlow),
            Ok(CallResult::SenderError) => Err(ClientErr::Unanswered),
            Err(refusal) => Err(ClientErr::Refused(refusal.to_string())),
        }
    }
}

/// A full room hands the message back, and it may be sent again. Any other refusal ends the stream:
/// were the message sent again after it, it could be handled twice.
fn returned_if_full(refusal: RoomErr<DocumentMsg>) -> Result<DocumentMsg, ClientErr> {
    match refusal {
        RoomErr::Full { message } => Ok(message),
        other => Err(ClientErr::Refused(other.to_string())),
    }
}
