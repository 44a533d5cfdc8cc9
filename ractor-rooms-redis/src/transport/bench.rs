//! A private server for tests, and a store on it as a subject.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor_rooms::id::RoomId;
use ractor_rooms::protocol::record::SnapshotKey;
use ractor_rooms::testing::{Subject, small_limits};
use ractor_rooms::transport::Transport;

use super::RedisTransport;
use crate::link::Link;

#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    url: String,
}

impl Server {
    pub(super) fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, url: format!("redis://127.0.0.1:{port}") }
    }

    pub(super) async fn link(&self) -> Link {
        for _ in 0..500 {
            if redis::Client::open(&*self.url).unwrap().get_connection().is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Link::open(&self.url).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A namespace of a server.
#[derive(Debug)]
pub(super) struct Store {
    server: Arc<Server>,
    namespace: String,
}

const TTL: Duration = Duration::from_millis(2_000);

impl Store {
    pub(super) fn new() -> Self {
        Self::at(Arc::new(Server::start()), "test".to_owned())
    }

    pub(super) fn at(server: Arc<Server>, namespace: String) -> Self {
        Self { server, namespace }
    }

    pub(super) async fn transport(&self) -> RedisTransport {
        let link = self.server.link().await;
        RedisTransport::over(link, &self.namespace, 4, self.limits(), Duration::ZERO)
    }
}

impl Subject for Store {
    fn connect(&self) -> BoxFuture<'_, Arc<dyn Transport>> {
        async move { Arc::new(self.transport().await) as Arc<dyn Transport> }.boxed()
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn limits(&self) -> ractor_rooms::protocol::record::RecordLimits {
        small_limits(TTL)
    }

    fn let_sessions_lapse(&self) -> BoxFuture<'_, ()> {
        tokio::time::sleep(TTL + Duration::from_millis(50)).boxed()
    }

    fn lose_snapshot<'a>(&'a self, room: &'a RoomId, key: &'a SnapshotKey) -> BoxFuture<'a, bool> {
        async move {
            let transport = self.transport().await;
            let mut pipeline = redis::pipe();
            pipeline.cmd("DEL").arg(&transport.0.layout.snapshot(room, key)[..]);
            transport.0.link.bulk(pipeline).await.unwrap() == [redis::Value::Int(1)]
        }
        .boxed()
    }
}
