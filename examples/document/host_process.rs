//! A host in a process of its own, seen from the one that started it.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::PATIENCE;
use super::names;
use super::order::{Order, READY, STOP, read_line};
use super::reports::Reports;

/// A longer line of a host is passed on in pieces.
const PASSED_ON_AT_ONCE: u64 = 64 << 10;

/// Why a process is no host.
#[derive(Debug)]
pub(crate) enum ProcessErr {
    /// It was not started, or not reached.
    Io(io::Error),
    /// The order could not be written down.
    Order(serde_json::Error),
    /// It ended, or said something else, before it was ready. It told why on its stderr.
    NotReady,
    /// It was not ready in time.
    TooSlow,
}

impl fmt::Display for ProcessErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => write!(f, "its process cannot be used: {why}"),
            Self::Order(why) => write!(f, "its order cannot be written down: {why}"),
            Self::NotReady => f.write_str("its process ended before it was ready"),
            Self::TooSlow => write!(f, "its process was not ready within {PATIENCE:?}"),
        }
    }
}

impl From<io::Error> for ProcessErr {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
    }
}

/// A host in a process of its own. The process ends when this is dropped.
#[derive(Debug)]
pub(crate) struct HostProcess {
    name: String,
    stdin: ChildStdin,
    stopping: Arc<AtomicBool>,
    signals: mpsc::Sender<(Signal, oneshot::Sender<io::Result<()>>)>,
    ended: JoinHandle<io::Result<ExitStatus>>,
}

impl HostProcess {
    /// Starts one and waits until the host has started in it.
    pub(crate) async fn start(order: &Order, reports: &Arc<Reports>) -> Result<Self, ProcessErr> {
        let name = names::host(order.host);
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--host-process", &name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on the terminal is for the starter, which then ends its hosts in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let words = tokio::spawn(pass_on(stderr, name.clone()));
        let line = order.to_line().map_err(ProcessErr::Order)?;
        let begin = async {
            stdin.write_all(&line).await?;
            stdin.flush().await?;
            read_line(&mut stdout).await
        };
        let said = timeout(PATIENCE, begin).await.map_err(|_| ProcessErr::TooSlow)?;
        if said.is_ok_and(|said| said == READY.as_bytes()) {
            tokio::spawn(report(stdout, Arc::clone(reports)));
            let stopping = Arc::new(AtomicBool::new(false));
            let (signals, told) = mpsc::channel(1);
            let watch = watch(child, words, told, Arc::clone(&stopping), name.clone());
            return Ok(Self { name, stdin, stopping, signals, ended: tokio::spawn(watch) });
        }
        // It ends, at the latest now. What it says on its stderr is better heard before the error.
        drop(stdin);
        let _ = timeout(PATIENCE, words).await;
        Err(ProcessErr::NotReady)
    }

    /// Whether its process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_finished()
    }

    /// Ends the process as a crash does.
    pub(crate) async fn kill(mut self) -> io::Result<()> {
        self.stopping.store(true, Ordering::Relaxed);
        self.signal(Signal::Kill).await?;
        match timeout(PATIENCE, &mut self.ended).await {
            Ok(ended) => ended.map_err(io::Error::other)?.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Stops the process in its tracks.
    pub(crate) async fn pause(&self) -> io::Result<()> {
        self.signal(Signal::Pause).await
    }

    /// Lets it go on.
    pub(crate) async fn resume(&self) -> io::Result<()> {
        self.signal(Signal::Resume).await
    }

    async fn signal(&self, signal: Signal) -> io::Result<()> {
        let (done, outcome) = oneshot::channel();
        let sent = async {
            self.signals.send((signal, done)).await.map_err(|_| has_ended())?;
            outcome.await.map_err(|_| has_ended())?
        };
        timeout(PATIENCE, sent).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Tells the host to stop, waits for its end, and says what was wrong with it.
    pub(crate) async fn stop(mut self) -> Option<String> {
        let name = &self.name;
        let early = self.ended.is_finished();
        self.stopping.store(true, Ordering::Relaxed);
        // If this fails it has ended, which is found next.
        let _ = self.stdin.write_all(format!("{STOP}\n").as_bytes()).await;
        let status = match timeout(PATIENCE, &mut self.ended).await {
            Ok(Ok(Ok(status))) => status,
            Ok(Ok(Err(why))) => return Some(format!("{name} could not be waited for: {why}")),
            Ok(Err(why)) => return Some(format!("{name} could not be waited for: {why}")),
            Err(_) => {
                // Its process ends with the task that holds it.
                self.ended.abort();
                return Some(format!("{name} did not stop within {PATIENCE:?}"));
            }
        };
        match (early, status.success()) {
            (true, _) => Some(format!("the process of {name} ended during the run: {status}")),
            (false, false) => Some(format!("the process of {name} ended badly: {status}")),
            (false, true) => None,
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        self.ended.abort();
    }
}

/// What a process can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Kill,
    Pause,
    Resume,
}

fn has_ended() -> io::Error {
    io::Error::other("its process has ended")
}

async fn send(signal: Signal, child: &mut Child) -> io::Result<()> {
    let name = match signal {
        Signal::Kill => return child.start_kill(),
        Signal::Pause => "STOP",
        Signal::Resume => "CONT",
    };
    // Nobody else gets the number before it was waited for, and then there is none.
    let id = child.id().ok_or_else(has_ended)?.to_string();
    // By a shell, which has `kill` built in: sending a signal needs unsafe code otherwise.
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).stdin(Stdio::null());
    let status = shell.status().await?;
    if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
}

/// Waits for the end of a process and says at once if it comes by itself.
async fn watch(
    mut child: Child,
    words: JoinHandle<()>,
    mut signals: mpsc::Receiver<(Signal, oneshot::Sender<io::Result<()>>)>,
    stopping: Arc<AtomicBool>,
    name: String,
) -> io::Result<ExitStatus> {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            Some((signal, done)) = signals.recv() => {
                let _ = done.send(send(signal, &mut child).await); // whoever asked may be gone
            }
        }
    };
    // Until all it said is out.
    let _ = timeout(PATIENCE, words).await;
    if !stopping.load(Ordering::Relaxed) {
        eprintln!("{name}: its process ended: {status}");
    }
    Ok(status)
}

/// Takes down what a host reports, until it ends.
async fn report(mut from: impl AsyncBufRead + Unpin, reports: Arc<Reports>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(PASSED_ON_AT_ONCE).read_until(b'\n', &mut line).await {
            Ok(1..) => reports.take_word(String::from_utf8_lossy(line.trim_ascii_end()).as_ref()),
            Ok(0) | Err(_) => return,
        }
    }
}

/// Passes on what a host says, with its name before each line.
async fn pass_on(from: impl AsyncRead + Unpin, name: String) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(PASSED_ON_AT_ONCE).read_until(b'\n', &mut line).await {
            Ok(1..) => eprintln!("{name}: {}", String::from_utf8_lossy(line.trim_ascii_end())),
            Ok(0) | Err(_) => return,
        }
    }
}
