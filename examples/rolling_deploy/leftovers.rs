//! What is left in the store of hosts that have ended.

use redis::AsyncCommands;

use super::host::Failure;

/// Kept on purpose, and for 30 days: with them the numbers of a host's incarnations never repeat.
const KEPT: [&str; 2] = [":last", ":stream"];

/// Counts keys that belong to one of these hosts, entries of indexes that name one, and channels to one.
pub(crate) async fn count(url: &str, hosts: &[String]) -> Result<Vec<String>, Failure> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut left = Vec::new();
    let keys: Vec<Vec<u8>> = connection.keys("*").await?;
    for key in keys {
        let name = String::from_utf8_lossy(&key).into_owned();
        let of_one = |host: &String| name.contains(&format!("{{h-{host}}}"));
        if hosts.iter().any(of_one) && !KEPT.iter().any(|kept| name.ends_with(kept)) {
            left.push(name.clone());
        }
        if name.ends_with(":owned") || name.ends_with(":hosts") {
            let members: Vec<Vec<u8>> = connection.zrange(&key, 0, -1).await?;
            for member in members {
                let member = String::from_utf8_lossy(&member).into_owned();
                let names =
                    |host: &String| member == *host || member.starts_with(&format!("{host}#"));
                if hosts.iter().any(names) {
                    left.push(format!("{name}: {member:?}"));
                }
            }
        }
    }
    let channels: Vec<String> =
        redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut connection).await?;
    for channel in channels {
        let of_one = |host: &String| {
            channel.ends_with(&format!(":host:{host}")) || channel.contains(&format!(":to:{host}#"))
        };
        if hosts.iter().any(of_one) {
            left.push(channel);
        }
    }
    Ok(left)
}
