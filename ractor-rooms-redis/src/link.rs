//! Connections (a plain stand-in).
use bytes::Bytes;
use futures::{Stream, StreamExt};
use ractor_rooms::transport::TransportErr;
use crate::script::Script;
#[derive(Debug)]
pub(crate) struct Call { pub(crate) script: Script, pub(crate) keys: Vec<Bytes>, pub(crate) args: Vec<Bytes>, pub(crate) merge: bool }
#[derive(Clone)]
pub(crate) struct Link { client: redis::Client, conn: redis::aio::MultiplexedConnection }
impl std::fmt::Debug for Link { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("Link") } }
fn err(e: &redis::RedisError) -> TransportErr { TransportErr::Unavailable { reason: e.to_string() } }
pub(crate) struct Subscription(redis::aio::PubSubStream, #[allow(dead_code)] redis::aio::PubSubSink);
impl Stream for Subscription {
    type Item = (Bytes, Bytes);
    fn poll_next(mut self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map(|m| m.map(|m| (Bytes::copy_from_slice(m.get_channel_name().as_bytes()), Bytes::copy_from_slice(m.get_payload_bytes()))))
    }
}
impl Link {
    #[cfg(test)]
    pub(crate) async fn open(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        let cfg = redis::AsyncConnectionConfig::new().set_response_timeout(Some(std::time::Duration::from_secs(5)));
        let conn = client.get_multiplexed_async_connection_with_config(&cfg).await.unwrap();
        Self { client, conn }
    }
    pub(crate) fn is_cluster(&self) -> bool { false }
    pub(crate) async fn call(&self, call: Call) -> Result<redis::Value, TransportErr> {
        assert!(call.merge);
        let mut conn = self.conn.clone();
        loop {
            let mut c = redis::cmd("EVALSHA");
            c.arg(&*call.script.sha).arg(call.keys.len());
            for k in &call.keys { c.arg(&k[..]); }
            c.arg(1);
            for k in &call.args { c.arg(&k[..]); }
            match c.query_async::<redis::Value>(&mut conn).await {
                Ok(redis::Value::Array(mut v)) => return Ok(v.remove(0)),
                Ok(_) => return Err(TransportErr::Unavailable { reason: "shape".into() }),
                Err(e) if e.code() == Some("NOSCRIPT") => {
                    redis::cmd("SCRIPT").arg("LOAD").arg(&*call.script.body).query_async::<String>(&mut conn).await.map_err(|e| err(&e))?;
                }
                Err(e) => return Err(err(&e)),
            }
        }
    }
    pub(crate) async fn bulk(&self, pipeline: redis::Pipeline) -> Result<Vec<redis::Value>, TransportErr> {
        pipeline.query_async(&mut self.conn.clone()).await.map_err(|e| err(&e))
    }
    pub(crate) async fn read(&self, pipeline: redis::Pipeline) -> Result<Vec<redis::Value>, TransportErr> { self.bulk(pipeline).await }
    pub(crate) async fn subscribe(&self, channels: Vec<Bytes>) -> Result<Subscription, TransportErr> {
        let pubsub = self.client.get_async_pubsub().await.map_err(|e| err(&e))?;
        let (mut sink, stream) = pubsub.split();
        for c in channels { sink.subscribe(&c[..]).await.map_err(|e| err(&e))?; }
        Ok(Subscription(stream, sink))
    }
}
