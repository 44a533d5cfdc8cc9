//! What reaches a host from the store: its pushes and its inbox.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::oneshot;

use super::core::HostCore;
use super::migrate::MigrateTo;
use super::supervisor::{Responder, RoomSupervisorMessage};
use super::wire::{LetterBody, decode_letter};
use crate::id::Generation;
use crate::transport::Push;

impl HostCore {
    /// Listens to the pushes of the present incarnation, until it has another or the host stops. What it
    /// gives resolves once the first attempt has an answer, whichever.
    pub(crate) fn listen(self: &Arc<Self>) -> oneshot::Receiver<()> {
        let core = self.clone();
        *self.inbox.lock() = 0;
        let (answered, first) = oneshot::channel();
        self.spawn(async move {
            let by = core.incarnation();
            let mut answered = Some(answered);
            while core.incarnation() == by {
                let stream = core.deadline(core.transport.subscribe(&by)).await;
                if let Some(answered) = answered.take() {
                    let _ = answered.send(()); // nobody waits for it
                }
                match stream {
                    Ok(mut pushes) => {
                        for room in core.watches.rooms() {
                            let _ = core.deadline(core.transport.watch(&by, &room, true)).await;
                        }
                        // What was missed before: the last push of a burst leaves no gap to see.
                        core.tell(RoomSupervisorMessage::listening());
                        while let Some(push) = pushes.next().await {
                            core.pushed(push);
                        }
                    }
                    Err(error) => tracing::debug!(%error, "pushes"),
                }
                tokio::time::sleep(core.config.retry_interval).await;
            }
        });
        first
    }

    fn pushed(self: &Arc<Self>, push: Push) {
        match push {
            Push::Entry { room, epoch, generation, entry } => {
                if let Some(runner) = self.runners.get(&room) {
                    runner.push(epoch, generation, entry);
                }
            }
            Push::Offered { room, notice } => {
                self.tell(RoomSupervisorMessage::offered(room, notice));
            }
            Push::Moved { room, settled } => {
                self.tell(RoomSupervisorMessage::moved(room, settled));
            }
            Push::Events { room, life, first, events } => {
                self.events(&room, life, first, &events);
            }
            Push::Closed { room, life, reason } => self.watches.closed(&room, life, &reason),
            Push::Letter { position, letter } => {
                let next = {
                    let mut last = self.inbox.lock();
                    if position <= *last {
                        *last = 0; // the store has forgotten the inbox, and this is in a new one
                    }
                    let next = position == *last + 1;
                    if next {
                        *last = position;
                    }
                    next
                };
                if next {
                    self.open_letter(letter);
                } else {
                    let core = self.clone();
                    self.spawn(async move { core.read_inbox().await });
                }
            }
        }
    }

    /// Tells the supervisor of each generation of the store that begins after `known`.
    pub(crate) fn follow_generations(self: &Arc<Self>, known: Generation) {
        let (core, mut generations) = (self.clone(), self.transport.generations());
        if self.transport.newest_generation() != known {
            self.tell(RoomSupervisorMessage::generation());
        }
        self.spawn(async move {
            while generations.next().await.is_some() {
                core.tell(RoomSupervisorMessage::generation());
            }
        });
    }

    /// Sends and asks again for all that a store may have forgotten and no room holds.
    pub(crate) async fn ask_again(self: &Arc<Self>) {
        self.send_again();
        let by = self.incarnation();
        for room in self.watches.rooms() {
            let _ = self.deadline(self.transport.watch(&by, &room, true)).await; // at the next look
        }
        // An inbox that is new counts from 1. A letter that comes twice is opened twice, which it bears.
        *self.inbox.lock() = 0;
        self.read_inbox().await;
        self.look_at_parked().await;
    }

    fn tell(&self, message: RoomSupervisorMessage) {
        if let Some(supervisor) = self.supervisor.get() {
            let _ = supervisor.cast(message); // the host is stopping
        }
    }

    /// Reads the letters that no push brought, and has the store forget the others.
    pub(crate) async fn read_inbox(self: &Arc<Self>) {
        let (by, after) = (self.incarnation(), *self.inbox.lock());
        let letters = match self.deadline(self.transport.read_inbox(&by, after)).await {
            Ok(letters) => letters,
            Err(error) => {
                tracing::debug!(%error, "inbox");
                return;
            }
        };
        if letters.first().is_some_and(|letter| letter.position <= after) {
            *self.inbox.lock() = 0; // they are in a new one
        }
        for letter in letters {
            let new = {
                let mut last = self.inbox.lock();
                let new = letter.position > *last;
                *last = letter.position.max(*last);
                new
            };
            if new {
                self.open_letter(letter.letter);
            }
        }
    }

    fn open_letter(self: &Arc<Self>, letter: Bytes) {
        match decode_letter(letter) {
            Ok(LetterBody::Outcome { call, outcome }) => self.calls.complete(call, outcome),
            Ok(LetterBody::Migrate { reply, .. }) if !self.letters.is_new(&reply) => {}
            Ok(LetterBody::Migrate { room, to, reply }) => {
                let request = MigrateTo::parsed(&room, &to);
                self.tell(RoomSupervisorMessage::migrate(request, Responder::There(reply)));
            }
            Err(error) => tracing::warn!(%error, host = %self.id, "a letter cannot be read"),
        }
    }
}
