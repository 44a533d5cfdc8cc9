//! What the benchmarks share: private servers, yardsticks, and how a ratio is printed.
//!
//! On a shared machine a ratio of two things that were measured minutes apart is noise. So a yardstick and
//! what it measures are taken in turns, a short while each, and a ratio is that of the medians.
#![allow(dead_code, reason = "each benchmark uses a part")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

use std::process::{Command, Stdio};
use std::time::Duration;

use ractor_rooms_redis::testing::{PrivateServer, ServerErr, ServerOptions};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;

/// Whether this run only has to show that the benchmarks work.
pub(crate) fn brief() -> bool {
    let tests = std::env::args().any(|arg| arg == "--test");
    tests || std::env::var_os("CI").is_some_and(|ci| ci == "true" || ci == "1")
}

/// `full`, or `short` in a brief run.
pub(crate) fn scaled(full: usize, short: usize) -> usize {
    if brief() { short } else { full }
}

/// Whether a measurement is one of those that the command line names by a part of them, or it names none.
pub(crate) fn wanted(name: &str) -> bool {
    let mut filters = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).peekable();
    filters.peek().is_none() || filters.any(|filter| name.contains(&filter))
}

/// A runtime with two threads.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A server of this benchmark alone. Ends the process with what to do where there is none to start.
pub(crate) async fn server() -> PrivateServer {
    server_with(ServerOptions::default()).await
}

/// The same with options.
pub(crate) async fn server_with(options: ServerOptions) -> PrivateServer {
    match PrivateServer::start_with(options).await {
        Ok(server) => server,
        Err(ServerErr::NotInstalled) => {
            println!(
                "no benchmark was run: redis-server is not in PATH; install Redis 7.0 or newer"
            );
            std::process::exit(1);
        }
        Err(error) => {
            println!("no benchmark was run: {error}");
            std::process::exit(1);
        }
    }
}

/// A connection of the client library alone, set up as the transport's are.
pub(crate) async fn connection(server: &PrivateServer) -> MultiplexedConnection {
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let info: redis::ConnectionInfo =
        redis::IntoConnectionInfo::into_connection_info(server.url()).expect("an address");
    let client = redis::Client::open(info.set_tcp_settings(settings)).expect("a client");
    let config = redis::AsyncConnectionConfig::new();
    client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection")
}

/// Pipelined SETs of 100 bytes a second, as `redis-benchmark` counts them.
pub(crate) fn sets_per_second(server: &PrivateServer, count: usize) -> f64 {
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-t", "set", "-d", "100"])
        .args(["-P", "100", "-c", "8", "-n", &count.to_string(), "--csv"])
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!(
                "no yardstick: redis-benchmark could not be started ({error}); install it and put it \
                 in PATH, it comes with Redis (Debian: redis-tools)"
            );
            std::process::exit(1);
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("\"SET\""));
    let rate = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    rate.expect("a rate of redis-benchmark")
}

/// A quantile of samples, or zero of none.
pub(crate) fn quantile(samples: &[Duration], quantile: f64) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * quantile).round() as usize).copied().unwrap_or_default()
}

/// The median of rates.
pub(crate) fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Prints a rate as a share of its yardstick's: over 1 when it is faster.
pub(crate) fn report_rate(name: &str, goal: Option<f64>, rates: &[f64], yardstick: &[f64]) {
    let (rate, base) = (median(rates), median(yardstick));
    let goal = goal.map_or("no goal".to_owned(), |goal| format!("goal >= {goal}"));
    println!(
        "ratio {name}: {:.3} ({goal}); {} pairs, medians {rate:.0} messages/s and {base:.0} SETs/s",
        rate / base,
        rates.len()
    );
}

/// Prints a time as a multiple of its yardstick's.
pub(crate) fn report_time(name: &str, goal: Option<f64>, time: Duration, yardstick: Duration) {
    let ratio = time.as_secs_f64() / yardstick.as_secs_f64();
    let goal = goal.map_or("no goal".to_owned(), |goal| format!("goal <= {goal}"));
    println!("ratio {name}: {ratio:.2} ({goal}); {time:?} and {yardstick:?}");
}
