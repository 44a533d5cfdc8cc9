//! What members see.

use std::sync::Arc;
use std::time::Duration;

use ractor_rooms::RoomRef;

use super::journal::Stream;
use super::room::SimRoom;
use super::world::World;
use crate::rooms::{Class, Durable, Live};

/// Watches a room through a host, and again when the host has died and is back.
pub async fn watch(world: Arc<World>, host: usize, room: usize) {
    if world.plan.rooms[room].durable {
        watch_class::<Durable>(&world, host, room).await;
    } else {
        watch_class::<Live>(&world, host, room).await;
    }
}

async fn watch_class<C: Class>(world: &World, index: usize, room: usize) {
    loop {
        let (host, _) = world.running(index).await;
        let handle: RoomRef<SimRoom<C>> = host.room(world.plan.rooms[room].key.clone());
        let mut events = match handle.events().await {
            Ok(events) => events,
            Err(error) => {
                world.journal.say(format!("{} cannot watch {handle:?}: {error}", host.id()));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let stream = {
            let mut record = world.journal.lock();
            record.streams.push(Stream { room, ended: false, events: Vec::new() });
            record.streams.len() - 1
        };
        world.journal.say(format!("{} watches {handle:?} in stream {stream}", host.id()));
        while let Some(event) = events.next().await {
            world.journal.say(format!("stream {stream} brings {event:?}"));
            world.journal.lock().streams[stream].events.push(event);
        }
        world.journal.say(format!("stream {stream} ends"));
        world.journal.lock().streams[stream].ended = true;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
