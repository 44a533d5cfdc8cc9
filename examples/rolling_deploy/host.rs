//! A host, which is a process of its own; and such a process, seen from the one that started it.

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use ractor_rooms::{DrainOptions, RoomHost};
use ractor_rooms_redis::RedisTransport;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use super::room::Ledger;

/// What a host says once it takes rooms.
const READY: &str = "ready";
/// Longer than this nothing takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why something went wrong, for the user.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Is a host until it is asked to end, and then moves its rooms out.
pub(crate) async fn serve(name: &str, url: &str) -> Result<(), Failure> {
    let host = RoomHost::builder(name, RedisTransport::connect(url).await?)
        .room(Ledger::<true>)
        .room(Ledger::<false>)
        .start()
        .await?;
    println!("{READY}");
    let mut input = tokio::io::stdin();
    let mut rest = Vec::new();
    tokio::select! {
        drained = host.drain_at_sigterm(DrainOptions::default().deadline(PATIENCE)) => { drained?; }
        // Whoever started it is gone.
        _ = input.read_to_end(&mut rest) => host.shutdown().await?,
    }
    // Not by leaving `main`: the runtime would wait for the thread that reads from stdin.
    std::process::exit(0);
}

/// The process of a host.
#[derive(Debug)]
pub(crate) struct HostProcess {
    pub(crate) name: String,
    child: Child,
}

impl HostProcess {
    /// Starts one, and waits until it takes rooms.
    pub(crate) async fn start(name: String, url: &str) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--be", &name, "--url", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the host has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        match tokio::time::timeout(PATIENCE, lines.next_line()).await?? {
            Some(line) if line == READY => Ok(Self { name, child }),
            other => Err(format!("{name} did not start: it said {other:?}").into()),
        }
    }

    /// Asks it to end, and waits; its exit code, if it has one.
    pub(crate) async fn end(mut self) -> Result<Option<i32>, Failure> {
        let pid = self.child.id().ok_or("it has ended by itself")?;
        let kill = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await?;
        if !kill.success() {
            return Err(format!("{} cannot be signalled: {kill}", self.name).into());
        }
        Ok(tokio::time::timeout(PATIENCE * 2, self.child.wait()).await??.code())
    }

    /// Has it stop with its rooms at rest, and waits; its exit code, if it has one.
    pub(crate) async fn stop(mut self) -> Result<Option<i32>, Failure> {
        drop(self.child.stdin.take());
        Ok(tokio::time::timeout(PATIENCE, self.child.wait()).await??.code())
    }
}
