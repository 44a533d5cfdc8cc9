//! The actor that starts the lines, and starts one again that failed.

use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use super::line::{Line, LineActor};
use super::push::{PushActor, PushLine};
use crate::error::ConnectErr;

/// The root takes no messages: it ends by `stop`.
#[derive(Debug)]
pub(super) enum RootMessage {}

#[cfg(feature = "ractor-cluster")]
impl ractor::Message for RootMessage {}

/// What the root starts.
pub(super) struct Lines {
    commands: Arc<Line>,
    bulk: Arc<Line>,
    push: Arc<PushLine>,
}

/// The supervisor of the lines.
pub(super) struct Root;

/// The lines and who runs them now.
pub(super) struct RootState {
    lines: Lines,
    commands: ActorId,
    bulk: ActorId,
    push: ActorId,
}

impl Root {
    pub(super) async fn start(
        commands: Arc<Line>,
        bulk: Arc<Line>,
        push: Arc<PushLine>,
    ) -> Result<ActorRef<RootMessage>, ConnectErr> {
        let lines = Lines { commands, bulk, push };
        match Actor::spawn(None, Self, lines).await {
            Ok((root, _)) => Ok(root),
            Err(error) => Err(ConnectErr::Refused {
                address: "this host".into(),
                reason: format!("its actors did not start: {error}"),
            }),
        }
    }
}

async fn start_line(
    line: &Arc<Line>,
    root: &ActorRef<RootMessage>,
) -> Result<ActorId, ActorProcessingErr> {
    let (actor, _) =
        Actor::spawn_linked(None, LineActor(line.clone()), (), root.get_cell()).await?;
    Ok(actor.get_id())
}

async fn start_push(
    push: &Arc<PushLine>,
    root: &ActorRef<RootMessage>,
) -> Result<ActorId, ActorProcessingErr> {
    let (actor, _) =
        Actor::spawn_linked(None, PushActor(push.clone()), (), root.get_cell()).await?;
    Ok(actor.get_id())
}

#[cfg_attr(feature = "ractor-async-trait", ractor::async_trait)]
impl Actor for Root {
    type Msg = RootMessage;
    type State = RootState;
    type Arguments = Lines;

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        lines: Lines,
    ) -> Result<Self::State, ActorProcessingErr> {
        let commands = start_line(&lines.commands, &myself).await?;
        let bulk = start_line(&lines.bulk, &myself).await?;
        let push = start_push(&lines.push, &myself).await?;
        Ok(RootState { lines, commands, bulk, push })
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (SupervisionEvent::ActorFailed(cell, _) | SupervisionEvent::ActorTerminated(cell, ..)) =
            &event
        else {
            return Ok(());
        };
        tracing::error!(%event, "an actor of the store's connections ended and is started again");
        let ended = cell.get_id();
        if ended == state.commands {
            state.commands = start_line(&state.lines.commands, &myself).await?;
        } else if ended == state.bulk {
            state.bulk = start_line(&state.lines.bulk, &myself).await?;
        } else if ended == state.push {
            state.push = start_push(&state.lines.push, &myself).await?;
        }
        Ok(())
    }
}
