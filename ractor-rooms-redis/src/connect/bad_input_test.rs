//! What is wrong with an address, a server or a store, and what is said of it.

use std::time::Duration;

use ractor_rooms::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::config::RedisConfig;
use crate::error::ConnectErr;
use crate::link::Link;
use crate::testing::{PrivateServer, ServerOptions};

const SECRET: &str = "p@:/?#%é w0rd";

/// Opens within 3 s, and tells no secret.
async fn open(config: RedisConfig) -> Result<Link, ConnectErr> {
    let clock = Clock::system();
    let start = clock.mark();
    let debug = format!("{config:?}");
    let opened = config.open().await;
    let waited = clock.elapsed_since(start);
    assert!(waited < Duration::from_secs(3), "{waited:?}");
    let told = match &opened {
        Ok(link) => format!("{debug} {link:?}"),
        Err(error) => format!("{debug} {error} {error:?}"),
    };
    for secret in [SECRET, "w0rd", "hunter2"] {
        assert!(!told.contains(secret), "a secret is told: {told}");
    }
    opened
}

async fn refused(config: RedisConfig) -> ConnectErr {
    match open(config).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

async fn server(options: ServerOptions) -> PrivateServer {
    PrivateServer::start_with(options).await.expect("redis-server starts")
}

async fn plain() -> PrivateServer {
    server(ServerOptions::default()).await
}

async fn run(server: &PrivateServer, command: &[&str]) {
    let mut conn = crate::link::fixture::meddler(&server.url()).await;
    let mut run = redis::cmd(command[0]);
    run.arg(&command[1..]);
    run.exec_async(&mut conn).await.expect("it is done");
}

#[tokio::test]
async fn addresses_that_are_none() {
    for url in [
        "",
        "redis://",
        "127.0.0.1:6379",
        "http://127.0.0.1",
        "redis://127.0.0.1:port",
        "redis://127.0.0.1:99999",
        "redis://:hunter2@",
        "redis://user:hunter2@127.0.0.1:x",
        "redis://:hunter2@127.0.0.1/database",
        "redis://:hunter2@127.0.0.1/-1",
        "redis://:%ffhunter2@127.0.0.1",
        "redis://:hunter2@127.0.0.1/?protocol=hunter2",
    ] {
        let error = refused(RedisConfig::new(url)).await;
        assert!(matches!(error, ConnectErr::InvalidUrl { .. }), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn options_that_cannot_be() {
    let url = "redis://127.0.0.1";
    for config in [
        RedisConfig::new(url).namespace(""),
        RedisConfig::new(url).namespace("a{b"),
        RedisConfig::new(url).namespace("a".repeat(65)),
        RedisConfig::new(url).shards(0),
        RedisConfig::new(url).shards(16_385),
        RedisConfig::new(url).deadline(Duration::ZERO),
        RedisConfig::new(url).push_queue(0),
        RedisConfig::cluster(Vec::<String>::new()),
    ] {
        let error = refused(config).await;
        assert!(matches!(error, ConnectErr::InvalidOption { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn nobody_is_there() {
    let port = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port")
        .local_addr()
        .expect("a port")
        .port();
    let error = refused(RedisConfig::new(format!("redis://127.0.0.1:{port}"))).await;
    assert!(matches!(error, ConnectErr::Unreachable { .. }), "{error:?}");
    let error = refused(RedisConfig::new("redis://no-such-host.invalid")).await;
    assert!(matches!(error, ConnectErr::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn somebody_else_is_there() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("a port"));
    let error = refused(RedisConfig::new(url)).await;
    assert!(matches!(error, ConnectErr::Silent { .. }), "{error:?}");

    let curt = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", curt.local_addr().expect("a port"));
    let hanging_up = tokio::spawn(async move { while curt.accept().await.is_ok() {} });
    let error = refused(RedisConfig::new(url)).await;
    assert!(matches!(error, ConnectErr::HungUp { .. }), "{error:?}");
    hanging_up.abort();

    let web = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", web.local_addr().expect("a port"));
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = web.accept().await {
            let _ = client.read(&mut [0; 64]).await;
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = refused(RedisConfig::new(url)).await;
    assert!(matches!(error, ConnectErr::NotRedis { .. }), "{error:?}");
    serving.abort();
}

/// Who is one too many is told so before it can say anything, and then hung up on.
#[tokio::test]
async fn the_server_takes_no_more_clients() {
    let server = server(ServerOptions::default()).await;
    let first = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await;
    run(&server, &["CONFIG", "SET", "maxclients", "1"]).await;
    let error = refused(RedisConfig::new(server.url())).await;
    let told =
        matches!(&error, ConnectErr::Refused { reason, .. } if reason.contains("max number"));
    assert!(told, "{error:?}");
    drop(first);
}

#[tokio::test]
async fn br28_passwords() {
    let server = server(ServerOptions::default().password(SECRET)).await;
    let port = server.port();
    open(RedisConfig::new(server.url()).password(SECRET)).await.expect("by the setter");
    let encoded = "p%40%3A%2F%3F%23%25%C3%A9%20w0rd";
    let url = format!("redis://:{encoded}@127.0.0.1:{port}");
    open(RedisConfig::new(url)).await.expect("percent-encoded");
    let wrong = format!("redis://:hunter2@127.0.0.1:{port}");
    for config in [
        RedisConfig::new(server.url()),
        RedisConfig::new(wrong),
        RedisConfig::new(server.url()).username("nobody").password(SECRET),
    ] {
        let error = refused(config).await;
        assert!(matches!(error, ConnectErr::Authentication { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there() {
    let server = plain().await;
    open(RedisConfig::new(format!("{}/15", server.url()))).await.expect("the last database");
    let error = refused(RedisConfig::new(format!("{}/16", server.url()))).await;
    let ConnectErr::Database { database: 16, .. } = error else { panic!("{error:?}") };
}

#[tokio::test]
async fn a_server_that_is_too_old() {
    let old = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", old.local_addr().expect("a port"));
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = old.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1_024];
                while let Ok(1..) = client.read(&mut request).await {
                    let info = "# Server\r\nredis_version:6.2.14\r\nrun_id:1\r\nrole:master\r\n";
                    let answer = format!("${}\r\n{info}\r\n", info.len());
                    if client.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let error = refused(RedisConfig::new(url)).await;
    assert_eq!(error, ConnectErr::ServerTooOld { found: "6.2.14".into() });
    serving.abort();
}

#[tokio::test]
async fn a_server_that_throws_keys_away() {
    let server = server(ServerOptions::default().line("maxmemory-policy allkeys-lru")).await;
    let error = refused(RedisConfig::new(server.url())).await;
    assert_eq!(error, ConnectErr::EvictionPolicy { found: "allkeys-lru".into() });
}

#[tokio::test]
async fn br29_rights_that_are_missing() {
    let all = "on >hunter2 ~rooms:* &rooms:* +@all -@admin";
    let options = ServerOptions::default()
        .line(format!("user enough {all}"))
        .line(format!("user no-scripts {all} -@scripting"))
        .line(format!("user no-streams {all} -xadd"))
        .line(format!("user no-info {all} -info"))
        .line(format!("user no-evalsha {all} -evalsha"))
        .line(format!("user no-subscribe {all} -subscribe"))
        .line("user no-keys on >hunter2 ~other:* &* +@all")
        .line("user no-publish on >hunter2 ~rooms:* &other:* +@all");
    let server = server(options).await;
    let by = |user: &str| RedisConfig::new(server.url()).username(user).password("hunter2");
    open(by("enough")).await.expect("without CONFIG GET it goes on");
    for (user, told) in [
        ("no-scripts", "eval"),
        ("no-streams", "XADD"),
        ("no-info", "info"),
        ("no-evalsha", "evalsha"),
        ("no-subscribe", "subscribe"),
        ("no-keys", "key"),
        ("no-publish", "channel"),
    ] {
        let error = refused(by(user)).await;
        let ConnectErr::MissingRight { right } = &error else { panic!("{user}: {error:?}") };
        assert!(right.contains(told), "{user}: {right}");
    }
}

#[tokio::test]
async fn another_store() {
    let server = plain().await;
    open(RedisConfig::new(server.url()).shards(16)).await.expect("the first host records it");
    open(RedisConfig::new(server.url()).shards(16)).await.expect("the second finds it");
    let error = refused(RedisConfig::new(server.url())).await;
    assert_eq!(error, ConnectErr::ShardCount { stored: "16".into(), configured: 64 });
    open(RedisConfig::new(server.url()).namespace("other")).await.expect("another namespace");

    run(&server, &["HSET", "rooms:config", "protocol", "2", "shards", "64"]).await;
    let error = refused(RedisConfig::new(server.url())).await;
    assert_eq!(error, ConnectErr::ProtocolVersion { stored: "2".into(), spoken: 1 });

    run(&server, &["SET", "rooms:config", "x"]).await;
    let error = refused(RedisConfig::new(server.url())).await;
    assert_eq!(error, ConnectErr::WrongType { key: "rooms:config".into(), expected: "hash" });

    run(&server, &["DEL", "rooms:config", "rooms:hosts"]).await;
    run(&server, &["SET", "rooms:hosts", "x"]).await;
    let error = refused(RedisConfig::new(server.url())).await;
    assert_eq!(error, ConnectErr::WrongType { key: "rooms:hosts".into(), expected: "sorted set" });
}

#[tokio::test]
async fn a_replica() {
    let master = plain().await;
    let replica =
        server(ServerOptions::default().line(format!("replicaof 127.0.0.1 {}", master.port())))
            .await;
    let error = refused(RedisConfig::new(replica.url())).await;
    assert!(matches!(error, ConnectErr::Replica { .. }), "{error:?}");
}

#[tokio::test]
async fn a_cluster_where_none_is_expected() {
    let server = server(ServerOptions::default().line("cluster-enabled yes")).await;
    let error = refused(RedisConfig::new(server.url())).await;
    assert!(matches!(error, ConnectErr::IsCluster { .. }), "{error:?}");
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn no_cluster_where_one_is_expected() {
    let server = plain().await;
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = refused(RedisConfig::new(url)).await;
    assert!(matches!(error, ConnectErr::NotCluster { .. }), "{error:?}");
}

#[cfg(not(feature = "cluster"))]
#[tokio::test]
async fn a_cluster_needs_its_feature() {
    let error = refused(RedisConfig::cluster(["redis://127.0.0.1"])).await;
    assert_eq!(error, ConnectErr::MissingFeature { feature: "cluster" });
}

#[cfg(not(feature = "sentinel"))]
#[tokio::test]
async fn sentinel_needs_its_feature() {
    let error = refused(RedisConfig::sentinel(["redis://127.0.0.1"], "main")).await;
    assert_eq!(error, ConnectErr::MissingFeature { feature: "sentinel" });
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn tls_needs_its_feature() {
    let error = refused(RedisConfig::new("rediss://127.0.0.1")).await;
    assert_eq!(error, ConnectErr::MissingFeature { feature: "tls" });
}

/// Answers a greeting as a TLS server does: with an alert.
#[tokio::test]
async fn a_server_that_speaks_tls() {
    let tls = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("redis://{}", tls.local_addr().expect("a port"));
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = tls.accept().await {
            let mut record = [0; 64];
            let Ok(1..) = client.read(&mut record).await else { continue };
            if record[0] == 22 {
                let _ = client.write_all(&[21, 3, 3, 0, 2, 2, 40]).await;
            }
        }
    });
    let error = refused(RedisConfig::new(url)).await;
    assert!(matches!(error, ConnectErr::TlsRequired { .. }), "{error:?}");
    serving.abort();
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_does_not_speak_tls() {
    let server = plain().await;
    let url = server.url().replace("redis://", "rediss://");
    let error = refused(RedisConfig::new(url)).await;
    assert!(matches!(error, ConnectErr::TlsUnsupported { .. }), "{error:?}");
}
