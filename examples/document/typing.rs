//! One document: its writer, its chatters, its moves, and the judgement at the end.

use std::sync::Arc;

use ractor_rooms::RoomHost;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{Client, ClientErr};
use super::digest::sha256;
use super::mover::{Moved, Mover};
use super::names;
use super::oracle::Oracle;
use super::progress::Progress;
use super::room::{DeliveryClass, Document};
use super::schedule::Schedule;
use super::script::Script;
use super::senders::{self, Sent, WRITER};
use super::summary::Outcome;

/// What all documents of a run share.
pub(crate) struct Stage {
    /// The way to each host that runs rooms: itself, or one that only sends.
    pub(crate) hosts: Vec<RoomHost>,
    pub(crate) script: Script,
    pub(crate) schedule: Schedule,
    pub(crate) ballast_sha256: String,
    pub(crate) progress: Progress,
}

/// Types one document while it moves and others talk to it.
pub(crate) async fn type_document<C: DeliveryClass>(stage: Arc<Stage>, room: u32) -> Outcome {
    let key = names::document(room);
    let client = |host: &RoomHost| Client::new(host.room::<Document<C>>(key.clone()));
    let home = room as usize % stage.hosts.len();
    let (typed, typed_seen) = watch::channel(0);
    let (moved, moved_seen) = watch::channel(0);

    let mut talk = JoinSet::new();
    for (sender, host) in (WRITER + 1..).zip(&stage.hosts) {
        talk.spawn(senders::chat(client(host), sender, typed_seen.clone()));
    }
    let (writer, its_stage) = (client(&stage.hosts[home]), Arc::clone(&stage));
    talk.spawn(async move {
        let Stage { script, schedule, progress, .. } = &*its_stage;
        senders::write(writer, script, *schedule, typed, moved_seen, progress).await
    });
    let clients = stage.hosts.iter().map(client).collect();
    let mover = Mover { room, hosts: &stage.hosts, clients, progress: &stage.progress };
    let Moved { moves, retries, problem } =
        mover.keep_moving(stage.schedule, typed_seen, moved).await;

    let mut outcome =
        Outcome { moves, retries, problems: problem.into_iter().collect(), ..Outcome::default() };
    let mut oracle = Oracle::default();
    while let Some(sent) = talk.join_next().await {
        match sent {
            Ok(sent) => take_account(sent, &mut oracle, &mut outcome),
            Err(why) => outcome.problems.push(why.to_string()),
        }
    }
    let elsewhere = client(&stage.hosts[(home + 1) % stage.hosts.len()]);
    if let Err(why) = judge(&stage, &elsewhere, &oracle, &mut outcome).await {
        outcome.problems.push(format!("{key} could not be read at the end: {why}"));
    }
    outcome
}

fn take_account(sent: Sent, oracle: &mut Oracle, outcome: &mut Outcome) {
    let Sent { sender, last, problem } = sent;
    oracle.accepted(sender, last);
    if sender == WRITER {
        outcome.edits = last;
    } else {
        outcome.notes += last;
    }
    outcome.problems.extend(problem.map(|why| format!("sender {sender} stopped: {why}")));
}

/// Holds what the room now says against what was sent and what must come of it.
async fn judge<C: DeliveryClass>(
    stage: &Stage,
    client: &Client<C>,
    oracle: &Oracle,
    outcome: &mut Outcome,
) -> Result<(), ClientErr> {
    // Until the room has shown its journal, nothing counts as handled.
    outcome.verdict = oracle.judge(&[]);
    outcome.verdict = oracle.judge(&client.journal().await?);
    let text = client.text().await?;
    outcome.sha256 = sha256(&text);
    outcome.matches = text == stage.script.end;
    let audit = client.audit().await?;
    outcome.misfits = audit.misfits;
    outcome.ballast_intact = audit.ballast_sha256 == stage.ballast_sha256;
    Ok(())
}
