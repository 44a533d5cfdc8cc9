//! The whole run: hosts, documents, and the judgement at the end.

use std::fmt;
use std::sync::Arc;

use ractor_rooms::{MemoryTransport, RoomHost};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ballast::Ballast;
use super::client::PATIENCE;
use super::names;
use super::options::{Class, Options, Transport};
use super::progress::Progress;
use super::room::{Beginning, DeliveryClass, Document, Durable, Live};
use super::schedule::Schedule;
use super::script::Script;
use super::summary::{Outcome, Summary};
use super::typing::{Stage, type_document};

/// Room in a snapshot for text and journal, beside the dead weight.
const SNAPSHOT_ROOM: usize = 64 << 20;

/// A host did not start, so nothing was typed.
#[derive(Debug)]
pub(crate) struct StartErr {
    host: String,
    why: String,
}

impl fmt::Display for StartErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not start: {}", self.host, self.why)
    }
}

/// Types the script into as many documents as there are writers, and judges what came of it.
pub(crate) async fn run(options: &Options, script: Script) -> Result<Summary, StartErr> {
    match options.delivery {
        Class::Live => run_as::<Live>(options, script).await,
        Class::Durable => run_as::<Durable>(options, script).await,
    }
}

async fn run_as<C: DeliveryClass>(options: &Options, script: Script) -> Result<Summary, StartErr> {
    let ballast = Ballast::new(options.state_bytes as usize, options.seed);
    let ballast_sha256 = ballast.sha256();
    let text = script.start.clone();
    let beginning = Arc::new(Beginning { text, ballast });
    let hosts = start_hosts::<C>(options, &beginning).await?;
    let schedule = Schedule::new(script.edits.len(), options.moves);
    let all_edits = script.edits.len() as u64 * u64::from(options.writers);
    let progress = Progress::new(all_edits, options.writers, options.json);
    let stage = Arc::new(Stage { hosts, script, schedule, ballast_sha256, progress });

    let mut documents = JoinSet::new();
    for room in 0..options.writers {
        documents.spawn(type_document::<C>(Arc::clone(&stage), room));
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = documents.join_next().await {
        outcomes.push(outcome.unwrap_or_else(|why| Outcome {
            problems: vec![why.to_string()],
            ..Outcome::default()
        }));
    }
    let elapsed = stage.progress.finish();
    let mut summary = Summary::new(options, &stage.script, &outcomes, elapsed);

    // The documents are done, so nobody else holds the stage any more.
    let hosts = Arc::into_inner(stage).map(|stage| stage.hosts);
    stop_hosts(hosts.unwrap_or_default(), &mut summary).await;
    Ok(summary)
}

async fn start_hosts<C: DeliveryClass>(
    options: &Options,
    beginning: &Arc<Beginning>,
) -> Result<Vec<RoomHost>, StartErr> {
    let transport = match options.transport {
        Transport::Memory => MemoryTransport::new(),
    };
    let mut hosts = Vec::new();
    for index in 0..options.hosts {
        let host = names::host(index);
        let started = RoomHost::builder(host.clone(), transport.clone())
            .room(Document::<C>::new(index, Arc::clone(beginning)))
            .max_snapshot_bytes(SNAPSHOT_ROOM + options.state_bytes as usize)
            .start()
            .await;
        hosts.push(started.map_err(|why| StartErr { host, why: why.to_string() })?);
    }
    Ok(hosts)
}

async fn stop_hosts(hosts: Vec<RoomHost>, summary: &mut Summary) {
    for (name, host) in (0..).map(names::host).zip(hosts) {
        match timeout(PATIENCE, host.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => summary.spoil(format!("{name} did not stop: {why}")),
            Err(_) => summary.spoil(format!("{name} did not stop within {PATIENCE:?}")),
        }
    }
}
