//! What the tests of the link share: servers, scripts and calls.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use super::{Call, Link, Merge};
use crate::config::RedisConfig;
use crate::script::Script;
use crate::testing::PrivateServer;

/// Appends each call's argument to its list, unless that holds it; answers its length.
const LOG: &str = "local out = {} \
    for i = 1, tonumber(ARGV[1]) do \
      if redis.call('HSETNX', KEYS[i] .. ':seen', ARGV[i + 1], 1) == 1 then \
        redis.call('RPUSH', KEYS[i], ARGV[i + 1]) \
      end \
      out[i] = redis.call('LLEN', KEYS[i]) \
    end \
    return out";
/// Answers how many keys and arguments came.
const COUNT: &str = "return {#KEYS, #ARGV}";

pub(crate) fn log_to(key: &str, text: impl ToString) -> Call {
    Call {
        script: Script::new("log", LOG),
        keys: vec![Bytes::copy_from_slice(key.as_bytes())].into(),
        args: vec![Bytes::from(text.to_string())].into(),
        merge: Merge::Tag,
    }
}

pub(crate) fn count(key: &str) -> Call {
    Call {
        script: Script::new("count", COUNT),
        keys: vec![Bytes::copy_from_slice(key.as_bytes())].into(),
        args: vec![Bytes::from_static(b"x")].into(),
        merge: Merge::Never,
    }
}

pub(crate) async fn open(url: String) -> Link {
    RedisConfig::new(url).open().await.expect("the server serves")
}

pub(crate) async fn server_and_link() -> (PrivateServer, Link) {
    server_and(RedisConfig::new).await
}

/// The same where thousands of calls wait for each other: how long that takes is the machine's business.
pub(crate) async fn server_and_patient_link() -> (PrivateServer, Link) {
    server_and(|url| RedisConfig::new(url).deadline(Duration::from_secs(60))).await
}

async fn server_and(config: impl FnOnce(String) -> RedisConfig) -> (PrivateServer, Link) {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let link = config(server.url()).open().await.expect("the server serves");
    (server, link)
}

/// The numbers in a list.
pub(crate) async fn logged(link: &Link, key: &str) -> Vec<u64> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("LRANGE").arg(key).arg(0).arg(-1);
    let mut values = link.read(pipeline).await.expect("the list can be read");
    assert_eq!(values.len(), 1);
    redis::from_redis_value(values.remove(0)).expect("numbers")
}

/// A connection beside the link, to do harm with.
pub(crate) async fn meddler(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("an address");
    let config =
        redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server serves")
}

pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}
