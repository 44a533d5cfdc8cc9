//! What senders do.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor_rooms::{RoomActor, RoomErr, RoomHost, RoomRef};

use super::journal::{Sent, Told};
use super::plan::{Act, Errand};
use super::room::{Id, SimMsg, SimRoom};
use super::world::{BOUND, World};
use crate::rooms::{Class, Durable, Live};

/// Does what the plan has a sender do. After its host died it is another sender: the process that knew
/// what it had sent is gone.
pub async fn send_all(world: Arc<World>, sender: usize) {
    let spec = world.plan.senders[sender].clone();
    let mut number = 0;
    let mut last = 0;
    for errand in &spec.errands {
        tokio::time::sleep(Duration::from_millis(errand.pause)).await;
        let (host, starts) = world.running(spec.via).await;
        if starts != last {
            (number, last) = (0, starts);
        }
        number += 1;
        let id = (sender as u32 + 1_000 * starts, number);
        let room = &world.plan.rooms[errand.room];
        if room.durable {
            one::<Durable>(&world, &host, spec.via, id, errand).await;
        } else {
            one::<Live>(&world, &host, spec.via, id, errand).await;
        }
    }
}

async fn one<C: Class>(world: &World, host: &RoomHost, via: usize, id: Id, errand: &Errand) {
    let room: RoomRef<SimRoom<C>> = host.room(world.plan.rooms[errand.room].key.clone());
    let at = world.now().as_millis();
    let sent = Sent { room: errand.room, via, at, act: errand.act, told: Told::Pending };
    world.journal.lock().sent.insert(id, sent);
    world.journal.say(format!("{} sends {id:?} to {room:?}: {:?}", host.id(), errand.act));
    let durable = |room: usize| world.plan.rooms[room].durable;
    let message = match errand.act {
        Act::Note | Act::Cast | Act::Ask => SimMsg::Note { id },
        Act::Relay { to } => SimMsg::Relay { id, to: to as u32, durable: durable(to) },
        Act::Emit => SimMsg::Emit { id },
        Act::Timer { after } => SimMsg::Timer { id, after },
        Act::CallThen { to } => SimMsg::CallThen { id, to: to as u32, durable: durable(to) },
        Act::Slow { takes } => SimMsg::Slow { id, takes },
        Act::Poison => SimMsg::Poison { id },
        Act::Flaky => SimMsg::Flaky { id },
    };
    let told = match errand.act {
        Act::Cast => match room.cast(message) {
            Ok(()) => Told::Cast,
            Err(error) => told(world, id, &error),
        },
        Act::Ask => ask(world, &room, id).await,
        _ => match tokio::time::timeout(BOUND, room.send(message)).await {
            Ok(Ok(())) => Told::Accepted,
            Ok(Err(error)) => told(world, id, &error),
            Err(_) => {
                world.journal.broken(format!("I6: the sender of {id:?} is told nothing"));
                Told::Unknown
            }
        },
    };
    world.journal.say(format!("{id:?} is {told:?}"));
    if let Some(sent) = world.journal.lock().sent.get_mut(&id) {
        sent.told = told;
    }
}

async fn ask<R: RoomActor<Msg = SimMsg>>(world: &World, room: &RoomRef<R>, id: Id) -> Told {
    let question = |reply| SimMsg::Ask { id, reply };
    let call = room.call(question, Some(Duration::from_secs(3)));
    match tokio::time::timeout(BOUND, call).await {
        Ok(Ok(CallResult::Success(answer))) => {
            if answer != id.1 {
                world.journal.broken(format!("I8: {id:?} is answered with {answer}"));
            }
            Told::Accepted
        }
        Ok(Ok(CallResult::Timeout | CallResult::SenderError)) => Told::Unknown,
        Ok(Err(error)) => told(world, id, &error),
        Err(_) => {
            world.journal.broken(format!("I8: the caller {id:?} is told nothing"));
            Told::Unknown
        }
    }
}

fn told<M>(world: &World, id: Id, error: &RoomErr<M>) -> Told
where
    RoomErr<M>: Debug,
{
    world.journal.say(format!("{id:?}: {error:?}"));
    match error {
        RoomErr::OutcomeUnknown => Told::Unknown,
        RoomErr::Lost => Told::Lost,
        RoomErr::Closed { .. } | RoomErr::OtherLife { .. } => {
            if !world.plan.loses_data() {
                world.journal.broken(format!("{id:?}: {error:?}, but no room was closed"));
            }
            Told::HandedBack
        }
        _ => Told::HandedBack,
    }
}
