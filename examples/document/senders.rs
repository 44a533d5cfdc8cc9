//! Who talks to a document room: one writer, and a chatter on every host.

use tokio::sync::watch;

use super::client::{Client, ClientErr};
use super::journal::SenderId;
use super::pace::Pace;
use super::progress::Progress;
use super::room::{DeliveryClass, DocumentMsg};
use super::schedule::Schedule;
use super::script::Script;

/// The writer's number among the senders of a room; chatters come after it.
pub(crate) const WRITER: SenderId = 0;
/// Every so many messages a sender waits for the acknowledgement, so that its queue stays short.
const ACKNOWLEDGED_EVERY: u64 = 64;
/// So many edits are typed for each note of a chatter, unless it is told how many to send.
const EDITS_PER_NOTE: u64 = 8;
/// So many notes a visitor sends to a room.
const NOTES_OF_VISITOR: u64 = 50;

/// How many notes a chatter has sent by when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chatter {
    /// How many edits there are to the document.
    pub(crate) edits: u64,
    /// How many notes the chatter sends meanwhile, if that is told.
    pub(crate) notes: Option<u64>,
}

impl Chatter {
    fn due(self, typed: u64) -> u64 {
        let share =
            |notes: u64| u128::from(notes) * u128::from(typed) / u128::from(self.edits.max(1));
        // No more than all of them: `typed` goes up to `edits`.
        self.notes.map_or(typed / EDITS_PER_NOTE, |notes| share(notes) as u64)
    }
}

/// A sender's own account of what it sent.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Who sent.
    pub(crate) sender: SenderId,
    /// The number of the last message that was accepted; the numbers begin at 1.
    pub(crate) last: u64,
    /// Why it stopped before its end.
    pub(crate) problem: Option<ClientErr>,
}

/// One sender's numbered messages.
struct Stream<C: DeliveryClass> {
    client: Client<C>,
    sent: Sent,
}

impl<C: DeliveryClass> Stream<C> {
    fn new(client: Client<C>, sender: SenderId) -> Self {
        Self { client, sent: Sent { sender, last: 0, problem: None } }
    }

    /// Sends the message made from the sender and the next number; false when the stream has ended.
    async fn next(&mut self, msg: impl FnOnce(SenderId, u64) -> DocumentMsg, flush: bool) -> bool {
        let number = self.sent.last + 1;
        let msg = msg(self.sent.sender, number);
        let accepted = if flush || number.is_multiple_of(ACKNOWLEDGED_EVERY) {
            self.client.send(msg).await
        } else {
            self.client.cast(msg).await
        };
        match accepted {
            Ok(()) => self.sent.last = number,
            Err(why) => self.sent.problem = Some(why),
        }
        self.sent.problem.is_none()
    }
}

fn note(from: SenderId, number: u64) -> DocumentMsg {
    DocumentMsg::Note { from, number }
}

/// Types the script. `typed` tells the others how far it is; `moved` is how many moves are over.
pub(crate) async fn write<C: DeliveryClass>(
    client: Client<C>,
    script: &Script,
    schedule: Schedule,
    typed: watch::Sender<u64>,
    mut moved: watch::Receiver<u32>,
    mut pace: Option<Pace>,
    progress: &Progress,
) -> Sent {
    let mut stream = Stream::new(client, WRITER);
    let whole = script.edits.len() as u64;
    for edit in &script.edits {
        let over = schedule.over_after(stream.sent.last);
        // An error means that the mover is gone: then there is no move to wait for.
        let _ = moved.wait_for(|moved| *moved >= over).await;
        if let Some(pace) = &mut pace {
            pace.due(stream.sent.last, whole).await;
        }
        let flush = stream.sent.last + 1 == whole;
        let edit = edit.clone();
        if !stream.next(|from, number| DocumentMsg::Edit { from, number, edit }, flush).await {
            break;
        }
        typed.send_replace(stream.sent.last);
        progress.typed();
    }
    stream.sent
}

/// Sends notes in step with the writer, and a last one when the writer is done.
pub(crate) async fn chat<C: DeliveryClass>(
    client: Client<C>,
    sender: SenderId,
    chatter: Chatter,
    mut typed: watch::Receiver<u64>,
) -> Sent {
    let mut stream = Stream::new(client, sender);
    loop {
        let done = typed.changed().await.is_err();
        let due = chatter.due(*typed.borrow_and_update());
        while stream.sent.last < due {
            if !stream.next(note, false).await {
                return stream.sent;
            }
        }
        if done {
            stream.next(note, true).await;
            return stream.sent;
        }
    }
}

/// Sends the notes of a visitor.
pub(crate) async fn call_in<C: DeliveryClass>(client: Client<C>, sender: SenderId) -> Sent {
    let mut stream = Stream::new(client, sender);
    for number in 1..=NOTES_OF_VISITOR {
        if !stream.next(note, number == NOTES_OF_VISITOR).await {
            break;
        }
    }
    stream.sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chatter_keeps_step_with_the_writer() {
        let free = Chatter { edits: 100, notes: None };
        assert_eq!([0, 8, 100].map(|typed| free.due(typed)), [0, 1, 12]);
        let told = Chatter { edits: 100, notes: Some(1_000) };
        assert_eq!([0, 8, 100].map(|typed| told.due(typed)), [0, 80, 1_000]);
        let most = Chatter { edits: u64::MAX, notes: Some(u64::MAX) };
        assert_eq!(most.due(u64::MAX), u64::MAX);
        assert_eq!(Chatter { edits: 0, notes: Some(5) }.due(0), 0);
    }
}
