//! What members see: the events of a room, each once and in order, wherever the room runs.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::{HostCore, unexpected};
use super::room_actor::RoomActor;
use super::wire::{EventPayload, decode_event};
use crate::id::{Life, Millis, OutSeq, RoomId};
use crate::protocol::record::{Answer, Request};
use crate::transport::TransportErr;

/// What a member is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoomEvent<E> {
    /// The room emitted this.
    Event {
        /// Its number within the room's life.
        number: OutSeq,
        /// What it says.
        event: E,
    },
    /// This member was too slow for so many events, which it will not see.
    Lagged(u64),
    /// Events happened that are not kept any more.
    Missed {
        /// The first number.
        from: OutSeq,
        /// The last number.
        to: OutSeq,
    },
    /// The room lost its owner and went back to a checkpoint made then.
    RolledBack {
        /// When the checkpoint was made.
        since: Millis,
    },
    /// The room ended. If it is born again, its events follow with numbers from 1.
    Closed {
        /// Why.
        reason: String,
    },
    /// The room was born again, and nobody told that it had ended: the store lost it with all that was in it, or the
    /// word of its end. Its events follow with numbers from 1.
    BornAgain,
    /// An event came that this version of the app cannot read.
    Unreadable {
        /// Its number.
        number: OutSeq,
    },
}

#[derive(Clone, Debug)]
enum Raw {
    Event { number: OutSeq, frame: Bytes },
    Lagged(u64),
    Missed { from: OutSeq, to: OutSeq },
    Closed { reason: String },
    BornAgain,
}

/// The members of this host, by room.
#[derive(Default)]
pub(crate) struct Watches {
    rooms: DashMap<RoomId, Watch>,
    next_member: AtomicU64,
}

struct Watch {
    life: Life,
    /// Members were told that the last life ended.
    closed: bool,
    next: OutSeq,
    healing: bool,
    members: Vec<(u64, Arc<Queue>)>,
}

struct Queue {
    state: Mutex<QueueState>,
    wake: Notify,
    limit: usize,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Raw>,
    lagged: u64,
    ended: bool,
}

impl Queue {
    fn push(&self, item: &Raw) {
        let mut state = self.state.lock();
        if state.items.len() >= self.limit {
            // Only events are counted; a marker that finds no space is covered by the next one.
            state.lagged += u64::from(matches!(item, Raw::Event { .. }));
            return;
        }
        if state.lagged > 0 {
            let lagged = std::mem::take(&mut state.lagged);
            state.items.push_back(Raw::Lagged(lagged));
        }
        state.items.push_back(item.clone());
        drop(state);
        self.wake.notify_one();
    }

    fn end(&self) {
        self.state.lock().ended = true;
        self.wake.notify_one();
    }

    async fn pop(&self) -> Option<Raw> {
        loop {
            let woken = self.wake.notified();
            {
                let mut state = self.state.lock();
                if let Some(item) = state.items.pop_front() {
                    return Some(item);
                }
                if state.lagged > 0 {
                    return Some(Raw::Lagged(std::mem::take(&mut state.lagged)));
                }
                if state.ended {
                    return None;
                }
            }
            woken.await;
        }
    }
}

impl Watch {
    fn tell(&self, item: &Raw) {
        for (_, queue) in &self.members {
            queue.push(item);
        }
    }

    /// A later life than the one that was known, if one was.
    fn enter(&mut self, life: Life) {
        if self.life > Life(0) && !std::mem::take(&mut self.closed) {
            self.tell(&Raw::BornAgain);
        }
        self.life = life;
        self.next = OutSeq(1);
    }

    /// Takes events in order; `false` when some before them are missing.
    fn take(&mut self, life: Life, first: OutSeq, events: &[Bytes]) -> bool {
        if life != self.life {
            if life < self.life {
                return true; // late, of a life that ended
            }
            self.enter(life);
        }
        if first > self.next {
            return false;
        }
        for (i, frame) in events.iter().enumerate() {
            let number = OutSeq(first.0 + i as u64);
            if number == self.next {
                self.tell(&Raw::Event { number, frame: frame.clone() });
                self.next = number.next();
            }
        }
        true
    }
}

impl Watches {
    pub(crate) fn clear(&self) {
        for room in self.rooms() {
            let Some((_, watch)) = self.rooms.remove(&room) else { continue };
            for (_, queue) in &watch.members {
                queue.end();
            }
        }
    }

    /// The rooms that somebody watches, in order.
    pub(crate) fn rooms(&self) -> Vec<RoomId> {
        let mut rooms: Vec<RoomId> = self.rooms.iter().map(|w| w.key().clone()).collect();
        rooms.sort_unstable();
        rooms
    }

    pub(crate) fn closed(&self, room: &RoomId, life: Life, reason: &str) {
        if let Some(mut watch) = self.rooms.get_mut(room)
            && watch.life <= life
        {
            watch.life = life.next();
            watch.next = OutSeq(1);
            watch.closed = true;
            watch.tell(&Raw::Closed { reason: reason.to_owned() });
        }
    }
}

impl HostCore {
    /// Events that were pushed.
    pub(crate) fn events(
        self: &Arc<Self>,
        room: &RoomId,
        life: Life,
        first: OutSeq,
        events: &[Bytes],
    ) {
        let gap = match self.watches.rooms.get_mut(room) {
            Some(mut watch) => {
                !watch.take(life, first, events) && !std::mem::replace(&mut watch.healing, true)
            }
            None => false,
        };
        if gap {
            let (core, room) = (self.clone(), room.clone());
            self.spawn(async move { core.heal_events(&room).await });
        }
    }

    /// Reads what a lost push would have brought.
    pub(crate) async fn heal_events(&self, room: &RoomId) {
        let Some(after) = self.watches.rooms.get(room).map(|w| OutSeq(w.next.0 - 1)) else {
            return;
        };
        let answer = self.execute(room, Request::ReadHistory { after }).await;
        let Some(mut watch) = self.watches.rooms.get_mut(room) else { return };
        watch.healing = false;
        match answer {
            Ok(Answer::History { first, events, life }) if life >= watch.life && life.0 > 0 => {
                if life > watch.life {
                    watch.enter(life);
                    return; // the next look reads it from its start
                }
                if first > watch.next && !events.is_empty() {
                    let (from, to) = (watch.next, OutSeq(first.0 - 1));
                    watch.tell(&Raw::Missed { from, to });
                    watch.next = first;
                }
                watch.take(life, first, &events);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%room, %error, "events"), // read again at the next look
        }
    }

    async fn watch_room(
        self: &Arc<Self>,
        room: &RoomId,
    ) -> Result<(u64, Arc<Queue>), TransportErr> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            wake: Notify::new(),
            limit: self.config.max_member_events,
        });
        let member = self.watches.next_member.fetch_add(1, Ordering::Relaxed);
        let by = self.incarnation();
        self.deadline(self.transport.watch(&by, room, true)).await?;
        // Watched before it is read, so that nothing falls between.
        let (life, next) = match self.execute(room, Request::Read).await? {
            Answer::View(Some(view)) => (view.life, view.out_seq.next()),
            Answer::View(None) => (Life(0), OutSeq(1)),
            other => return Err(unexpected(&other)),
        };
        let mut watch = self.watches.rooms.entry(room.clone()).or_insert_with(|| Watch {
            life,
            closed: false,
            next,
            healing: false,
            members: Vec::new(),
        });
        // Those who were here before are told; this one comes into the life that is.
        if life > watch.life {
            watch.enter(life);
        }
        watch.members.push((member, queue.clone()));
        Ok((member, queue))
    }

    fn unwatch_room(self: &Arc<Self>, room: &RoomId, member: u64) {
        let gone = self.watches.rooms.remove_if_mut(room, |_, watch| {
            watch.members.retain(|(id, _)| *id != member);
            watch.members.is_empty()
        });
        if gone.is_some() && !self.is_stopped() {
            let (core, room) = (self.clone(), room.clone());
            // Outside a runtime there is no way to tell the store; its session's end does.
            if tokio::runtime::Handle::try_current().is_ok() {
                self.spawn(async move {
                    let by = core.incarnation();
                    let _ = core.deadline(core.transport.watch(&by, &room, false)).await;
                });
            }
        }
    }
}

/// The events of a room from now on. It stays up while the room moves, crashes or rests.
pub struct EventStream<R: RoomActor> {
    core: Arc<HostCore>,
    room: RoomId,
    member: u64,
    queue: Arc<Queue>,
    kind: PhantomData<fn() -> R>,
}

impl<R: RoomActor> EventStream<R> {
    pub(crate) async fn open(core: &Arc<HostCore>, room: &RoomId) -> Result<Self, TransportErr> {
        let (member, queue) = core.watch_room(room).await?;
        Ok(Self { core: core.clone(), room: room.clone(), member, queue, kind: PhantomData })
    }

    /// The next event; `None` once the host is stopped.
    ///
    /// # Cancel safety
    /// A dropped future takes nothing.
    pub async fn next(&mut self) -> Option<RoomEvent<R::Event>> {
        Some(match self.queue.pop().await? {
            Raw::Event { number, frame } => {
                match decode_event::<R::Event>(frame, self.core.config.max_message_bytes) {
                    Ok(EventPayload::App(event)) => RoomEvent::Event { number, event },
                    Ok(EventPayload::RolledBack { since }) => RoomEvent::RolledBack { since },
                    Err(error) => {
                        tracing::warn!(room = %self.room, %number, %error, "event");
                        RoomEvent::Unreadable { number }
                    }
                }
            }
            Raw::Lagged(n) => RoomEvent::Lagged(n),
            Raw::Missed { from, to } => RoomEvent::Missed { from, to },
            Raw::Closed { reason } => RoomEvent::Closed { reason },
            Raw::BornAgain => RoomEvent::BornAgain,
        })
    }
}

impl<R: RoomActor> Drop for EventStream<R> {
    fn drop(&mut self) {
        self.core.unwatch_room(&self.room, self.member);
    }
}

impl<R: RoomActor> std::fmt::Debug for EventStream<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("room", &self.room).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(life: u64) -> (Watch, Arc<Queue>) {
        let queue = Arc::new(Queue { state: Mutex::default(), wake: Notify::new(), limit: 9 });
        let members = vec![(1, queue.clone())];
        let (life, next) = (Life(life), OutSeq(5));
        (Watch { life, closed: false, next, healing: false, members }, queue)
    }

    fn told(queue: &Queue) -> Vec<String> {
        let items = queue.state.lock().items.drain(..).collect::<Vec<_>>();
        let name = |item: Raw| match item {
            Raw::Event { number, .. } => number.to_string(),
            Raw::Closed { .. } => "closed".to_owned(),
            Raw::BornAgain => "born again".to_owned(),
            other => panic!("{other:?}"),
        };
        items.into_iter().map(name).collect()
    }

    #[test]
    fn members_are_told_that_a_room_was_born_again() {
        let event = || [Bytes::new()];
        let (mut lost, queue) = watch(3);
        assert!(lost.take(Life(7), OutSeq(1), &event()));
        assert!(lost.take(Life(3), OutSeq(5), &event()), "late");
        assert!(!lost.take(Life(8), OutSeq(2), &event()), "the first is read");
        assert!(lost.take(Life(8), OutSeq(1), &event()));
        assert_eq!(told(&queue), ["born again", "1", "born again", "1"]);
        // There was no room yet.
        let (mut first, queue) = watch(0);
        first.next = OutSeq(1);
        assert!(first.take(Life(7), OutSeq(1), &event()));
        assert_eq!(told(&queue), ["1"]);
    }

    #[test]
    fn who_was_told_of_the_end_needs_no_telling() {
        let watches = Watches::default();
        let (watch, queue) = watch(3);
        let room = RoomId::new("pad", "x").unwrap();
        watches.rooms.insert(room.clone(), watch);
        watches.closed(&room, Life(3), "over");
        let mut watch = watches.rooms.get_mut(&room).unwrap();
        assert!(watch.take(Life(7), OutSeq(1), &[Bytes::new()]));
        assert!(watch.take(Life(9), OutSeq(1), &[Bytes::new()]));
        assert_eq!(told(&queue), ["closed", "1", "born again", "1"]);
    }
}
