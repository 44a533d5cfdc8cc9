//! Signals that ask the program to end.

use std::io;
use std::process::exit;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell reports for a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Turns signals that would end the process at once into a wish that it ends soon.
#[derive(Debug)]
pub(crate) struct Interrupt {
    signals: [Signal; 3],
}

impl Interrupt {
    /// From now on Ctrl-C, SIGTERM and SIGHUP are wishes.
    pub(crate) fn listen() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [one, two, three] = kinds.map(signal);
        Ok(Self { signals: [one?, two?, three?] })
    }

    /// Waits for a wish. A second one ends the process at once.
    pub(crate) async fn wished(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            exit(INTERRUPTED.into());
        });
    }

    async fn next(&mut self) {
        let [one, two, three] = &mut self.signals;
        tokio::select! {
            _ = one.recv() => {}
            _ = two.recv() => {}
            _ = three.recv() => {}
        }
    }
}
