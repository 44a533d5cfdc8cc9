//! A document is typed key by key while its room keeps moving between hosts.
//!
//! `cargo run --release --example document -- --help` lists what can be chosen. Every key is a
//! message to a document room. The room moves again and again while the keys come in, and other
//! senders talk to it from every host. At the end the text must be the known one, and no message may
//! be lost, doubled or out of its sender's order; the program's own oracle judges that.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program speaks to its user")]

use std::io::Write;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

mod document {
    pub(crate) mod address;
    pub(crate) mod ballast;
    pub(crate) mod client;
    pub(crate) mod digest;
    pub(crate) mod faults;
    pub(crate) mod fleet;
    pub(crate) mod host;
    pub(crate) mod host_process;
    pub(crate) mod interrupt;
    pub(crate) mod intervals;
    pub(crate) mod journal;
    pub(crate) mod mover;
    pub(crate) mod names;
    pub(crate) mod options;
    pub(crate) mod oracle;
    pub(crate) mod order;
    pub(crate) mod pace;
    pub(crate) mod percentile;
    pub(crate) mod ping;
    pub(crate) mod progress;
    pub(crate) mod reports;
    pub(crate) mod room;
    pub(crate) mod run;
    pub(crate) mod schedule;
    pub(crate) mod script;
    pub(crate) mod senders;
    pub(crate) mod serve;
    pub(crate) mod state;
    pub(crate) mod store;
    pub(crate) mod storm;
    pub(crate) mod storm_summary;
    pub(crate) mod summary;
    pub(crate) mod tally;
    pub(crate) mod trace;
    pub(crate) mod transport;
    pub(crate) mod typing;
    pub(crate) mod typist;
    pub(crate) mod visits;
    pub(crate) mod warden;
    pub(crate) mod witness;
}

use document::interrupt::INTERRUPTED;
use document::options::Options;
use document::run::RunErr;
use document::script::Script;
use document::store::StoreErr;
use document::{trace, typist};
use ractor_rooms_redis::ConnectErr;

/// Bad usage, or a trace that cannot be typed; clap exits with the same code.
const BAD_USAGE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::read(std::env::args_os()).unwrap_or_else(|why| why.exit());
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would panic where stderr is gone, as it is for a host whose starter was killed.
        .log_internal_errors(false)
        .init();
    if options.host_process.is_some() {
        return serve().await;
    }
    let script = match script(&options) {
        Ok(script) => script,
        Err(why) => {
            eprintln!("error: {why}");
            return BAD_USAGE.into();
        }
    };
    run(&options, script).await
}

/// Is one host.
async fn serve() -> ExitCode {
    match document::serve::serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What is to be typed, or why there is nothing to type.
fn script(options: &Options) -> Result<Script, String> {
    options.check().map_err(|why| why.to_string())?;
    let whole = match &options.trace {
        None => typist::type_out(typist::TEXT, options.seed),
        Some(path) => trace::load(path)
            .map_err(|why| format!("the trace {} cannot be typed: {why}", path.display()))?,
    };
    let edits = options.edits.and_then(|edits| edits.try_into().ok());
    whole.shortened_to(edits.unwrap_or(usize::MAX)).map_err(|why| why.to_string())
}

/// Types the script and tells the user what came of it.
async fn run(options: &Options, script: Script) -> ExitCode {
    let summary = match document::run::run(options, script).await {
        Ok(summary) => summary,
        Err(why) => {
            eprintln!("error: {why}");
            return exit_code(&why);
        }
    };
    match serde_json::to_string(&summary) {
        Ok(json) if options.json => println!("{json}"),
        _ => println!("{summary}"),
    }
    if summary.all_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn exit_code(why: &RunErr) -> ExitCode {
    match why {
        RunErr::Store(StoreErr::Connect(
            ConnectErr::InvalidUrl { .. }
            | ConnectErr::InvalidOption { .. }
            | ConnectErr::MissingFeature { .. },
        )) => BAD_USAGE.into(),
        RunErr::Interrupted => INTERRUPTED.into(),
        RunErr::Store(_) | RunErr::Start(_) | RunErr::Signals(_) => ExitCode::FAILURE,
    }
}
