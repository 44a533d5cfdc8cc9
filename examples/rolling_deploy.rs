//! Three hosts are replaced one after another while a fourth process writes to all their rooms.
//!
//! `cargo run --release --example rolling_deploy` needs a `redis-server` (7.0 or newer) on the `PATH`, which it starts
//! for itself. Every host is a process of its own. Each is asked to end (SIGTERM) once its successor is there: it moves
//! its rooms out and exits. Every message is numbered, and at the end each room's list is held against what its
//! writer was told.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program speaks to its user")]

use std::process::ExitCode;

use clap::Parser;

mod rolling_deploy {
    pub(crate) mod deploy;
    pub(crate) mod fleet;
    pub(crate) mod host;
    pub(crate) mod leftovers;
    pub(crate) mod options;
    pub(crate) mod oracle;
    pub(crate) mod room;
    pub(crate) mod summary;
    pub(crate) mod writers;
}

use rolling_deploy::options::Options;
use rolling_deploy::{deploy, host};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.be {
        Some(name) => {
            host::serve(name, options.url.as_deref().unwrap_or_default()).await.map(|()| true)
        }
        None => deploy::run(&options).await.map(|summary| {
            if options.json {
                println!("{}", summary.json());
            } else {
                println!("{summary}");
            }
            summary.all_right()
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
