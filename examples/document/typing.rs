//! One document: its writer, its chatters, its moves, and the judgement at the end.

use std::sync::Arc;

use ractor_rooms::RoomHost;
use ractor_rooms::clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::{Calls, Client, ClientErr};
use super::digest::sha256;
use super::mover::{Moved, Mover};
use super::names;
use super::oracle::{Oracle, typed};
use super::pace::Pace;
use super::progress::Progress;
use super::reports::Reports;
use super::room::{DeliveryClass, Document};
use super::schedule::Schedule;
use super::script::Script;
use super::senders::{self, Chatter, Sent, WRITER};
use super::summary::Outcome;
use super::visits::Visits;
use super::witness::Witness;

/// What all documents of a run share.
pub(crate) struct Stage {
    /// The way to each host that runs rooms: itself, or one that only sends.
    pub(crate) hosts: Vec<RoomHost>,
    /// How many documents there are.
    pub(crate) rooms: u32,
    pub(crate) script: Script,
    pub(crate) schedule: Schedule,
    pub(crate) ballast_sha256: String,
    pub(crate) progress: Arc<Progress>,
    /// What becomes of calls without an answer.
    pub(crate) calls: Calls,
    /// The time by which witnesses note what they are told.
    pub(crate) clock: Clock,
    /// How fast the writers type, if faults strike.
    pub(crate) pace: Option<Pace>,
    /// How many notes each chatter sends, if that is told.
    pub(crate) notes: Option<u64>,
    /// Who joins on the way and sends too.
    pub(crate) visits: Arc<Visits>,
    /// What hosts report of a store that is made to forget; nothing is excused if it is not.
    pub(crate) forgetting: Option<Arc<Reports>>,
}

/// Types one document while it moves and others talk to it.
pub(crate) async fn type_document<C: DeliveryClass>(stage: Arc<Stage>, room: u32) -> Outcome {
    let key = names::document(room);
    let client =
        |host: &RoomHost| Client::new(host.room::<Document<C>>(key.clone()), stage.calls.clone());
    let home = room as usize % stage.hosts.len();
    let mut witness = None;
    // Where nothing breaks, nobody is forgiven anything.
    if stage.pace.is_some() {
        let there = stage.hosts[home].room::<Document<C>>(key.clone());
        match Witness::listen(there, stage.clock.clone(), stage.rooms).await {
            Ok(there) => witness = Some(there),
            Err(why) => return Outcome { problems: vec![why], ..Outcome::default() },
        }
    }
    let (typed, typed_seen) = watch::channel(0);
    let (moved, moved_seen) = watch::channel(0);

    let mut talk = JoinSet::new();
    let chatter = Chatter { edits: stage.script.edits.len() as u64, notes: stage.notes };
    for (sender, host) in (WRITER + 1..).zip(&stage.hosts) {
        talk.spawn(senders::chat(client(host), sender, chatter, typed_seen.clone()));
    }
    let (writer, its_stage) = (client(&stage.hosts[home]), Arc::clone(&stage));
    talk.spawn(async move {
        let Stage { script, schedule, progress, pace, .. } = &*its_stage;
        let pace = pace.clone();
        senders::write(writer, script, *schedule, typed, moved_seen, pace, progress).await
    });
    let clients = stage.hosts.iter().map(client).collect();
    let has_faults = stage.pace.is_some();
    let mover = Mover { room, hosts: &stage.hosts, clients, has_faults, progress: &stage.progress };
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
    for sent in stage.visits.take_sent(room) {
        take_account(sent, &mut oracle, &mut outcome);
    }
    // The last of them is not the writer's.
    let hosts = stage.hosts.len();
    let ways: Vec<_> =
        (home + 2..=home + 1 + hosts).map(|n| client(&stage.hosts[n % hosts])).collect();
    if let Err(why) = judge(&stage, &key, &ways, witness.as_ref(), &mut oracle, &mut outcome).await
    {
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
    key: &str,
    ways: &[Client<C>],
    witness: Option<&Witness>,
    oracle: &mut Oracle,
    outcome: &mut Outcome,
) -> Result<(), ClientErr> {
    // Until the room has shown its journal, nothing counts as handled.
    outcome.verdict = oracle.judge(&[]);
    // What a live room's own host asks overtakes what others had accepted a moment ago and is in its log. What each host
    // asks comes after all that was sent by way of it.
    let mut journal = Vec::new();
    for client in ways {
        journal = client.journal().await?;
    }
    let Some(client) = ways.last() else { return Ok(()) };
    let text = client.text().await?;
    let audit = client.audit().await?;
    if let Some(witness) = witness {
        outcome.account = witness.account(audit.epoch).await;
    }
    outcome.account.roll_backs.iter().for_each(|epoch| oracle.rolled_back(*epoch));
    outcome.verdict = oracle.judge(&journal);
    if let Some(reports) = &stage.forgetting {
        outcome.verdict.excuse(reports.gone(key));
    }
    outcome.sha256 = sha256(&text);
    // Where a roll-back or the store undid edits, those after them may not fit; the text is to show just that.
    let undone = outcome.verdict.rolled_back + outcome.verdict.reported > 0;
    let (end, misfits) =
        if undone { typed(&stage.script, WRITER, &journal) } else { (stage.script.end.clone(), 0) };
    outcome.matches = text == stage.script.end;
    outcome.accounted_for = text == end;
    outcome.misfits = audit.misfits.abs_diff(misfits);
    outcome.ballast_intact = audit.ballast_sha256 == stage.ballast_sha256;
    Ok(())
}
