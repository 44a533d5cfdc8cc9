//! The deploy: start a successor, ask its predecessor to end, and so on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor_rooms::RoomHost;
use ractor_rooms::clock::Clock;
use ractor_rooms_redis::RedisTransport;
use ractor_rooms_redis::testing::PrivateServer;

use super::fleet;
use super::host::{Failure, HostProcess};
use super::leftovers;
use super::options::Options;
use super::room::Ledger;
use super::summary::Summary;
use super::writers::Writers;

/// Traffic between two replacements.
const BETWEEN: Duration = Duration::from_secs(1);

/// Runs it, and tells what came of it.
pub(crate) async fn run(options: &Options) -> Result<Summary, Failure> {
    let clock = Clock::system();
    let began = clock.mark();
    let server = PrivateServer::start().await?;
    let url = server.url();
    let mut serving = Vec::new();
    for number in 1..=options.hosts {
        serving.push(HostProcess::start(format!("host-{number}"), &url).await?);
    }
    let client = RoomHost::builder("writers", RedisTransport::connect(&url).await?)
        .room(Ledger::<true>)
        .room(Ledger::<false>)
        .capacity(0)
        .start()
        .await?;
    let writers = Writers::start(&client, options.durable_rooms, options.live_rooms, options.rate);
    let counts = writers.counts.clone();
    let rooms = options.durable_rooms + options.live_rooms;
    let transport = RedisTransport::connect(&url).await?;
    let told = counts.clone();
    let table = tokio::spawn(async move { fleet::tell(transport, &told).await });
    while counts.started.load(Ordering::Relaxed) < u64::from(rooms) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let (mut names, mut exit_codes, mut drains) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=options.hosts {
        tokio::time::sleep(BETWEEN).await;
        let successor = format!("host-{}", options.hosts + number);
        serving.push(HostProcess::start(successor, &url).await?);
        let old = serving.remove(0);
        names.push(old.name.clone());
        let asked = clock.mark();
        exit_codes.push(old.end().await?);
        drains.push(clock.elapsed_since(asked));
    }
    tokio::time::sleep(BETWEEN).await;

    let verdict = writers.judge().await?;
    table.abort();
    let leftovers = leftovers::count(&url, &names).await?;
    for host in serving {
        exit_codes.push(host.stop().await?);
    }
    client.shutdown().await?;
    Ok(Summary {
        rooms,
        accepted: counts.accepted.load(Ordering::Relaxed),
        failed_sends: counts.failed_sends.load(Ordering::Relaxed),
        calls: counts.calls.load(Ordering::Relaxed),
        failed_calls: counts.failed_calls.load(Ordering::Relaxed),
        verdict,
        leftovers,
        exit_codes,
        drains,
        took: clock.elapsed_since(began),
    })
}
