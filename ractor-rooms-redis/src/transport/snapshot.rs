//! The bytes of snapshots, which go past the scripts: through Lua a mebibyte costs five times more.

use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use ractor_rooms::id::RoomId;
use ractor_rooms::protocol::record::SnapshotKey;
use ractor_rooms::transport::TransportErr;
use redis::Value;

use super::Inner;
use crate::reply::{self, Damaged};

/// Beyond this a snapshot is a list of pieces: what the server takes in at once, it serves nobody else
/// meanwhile.
pub(super) const WHOLE: usize = 2 << 20;
/// The size of a piece.
const PIECE: usize = 512 << 10;
/// Up to here it goes along with the park that points to it, through Lua.
pub(super) const CARRIED: usize = 32 << 10;
/// How long bytes stay that no pointer names.
const ORPHAN_MS: u64 = 3_600_000;
/// How long a half of an upload stays.
const UPLOAD_MS: u64 = 600_000;

impl Inner {
    pub(super) async fn put_snapshot(
        &self,
        room: &RoomId,
        key: &SnapshotKey,
        bytes: Bytes,
    ) -> Result<(), TransportErr> {
        let name = self.layout.snapshot(room, key);
        if bytes.len() <= WHOLE {
            let mut pipeline = redis::pipe();
            let set = pipeline.cmd("SET").arg(&name[..]).arg(&bytes[..]);
            set.arg("PX").arg(ORPHAN_MS).arg("NX");
            return self.link.bulk(pipeline).await.map(drop);
        }
        // Pieces are gathered under a name of their own and moved at once, so that nobody reads a half.
        // Two transports of one process, or two hosts, do not put the same attempt up at once, and if they
        // do, the count below shows it.
        let count = self.uploads.fetch_add(1, Ordering::Relaxed);
        let nonce = count ^ (u64::from(std::process::id()) << 32);
        let upload = self.layout.upload(room, key, nonce);
        let mut first = redis::pipe();
        first.cmd("DEL").arg(&upload[..]);
        self.link.bulk(first).await?;
        for (i, piece) in bytes.chunks(PIECE).enumerate() {
            let mut pipeline = redis::pipe();
            pipeline.cmd("RPUSH").arg(&upload[..]).arg(piece);
            if i == 0 {
                pipeline.cmd("PEXPIRE").arg(&upload[..]).arg(UPLOAD_MS);
            }
            self.link.bulk(pipeline).await?;
        }
        let pieces = bytes.len().div_ceil(PIECE);
        let mut last = redis::pipe();
        last.cmd("LLEN").arg(&upload[..]);
        last.cmd("PEXPIRE").arg(&upload[..]).arg(ORPHAN_MS);
        let length = self.link.bulk(last).await?.into_iter().next();
        if length != Some(Value::Int(i64::try_from(pieces).unwrap_or(i64::MAX))) {
            // A piece was repeated after a broken connection: the whole is put up again by the caller.
            return Err(Damaged.unanswered("upload"));
        }
        let mut name_it = redis::pipe();
        name_it.cmd("RENAMENX").arg(&upload[..]).arg(&name[..]);
        match self.link.bulk(name_it).await?.into_iter().next() {
            Some(Value::Int(0)) => {
                let mut drop_it = redis::pipe();
                drop_it.cmd("UNLINK").arg(&upload[..]);
                self.link.bulk(drop_it).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn get_snapshot(
        &self,
        room: &RoomId,
        key: &SnapshotKey,
    ) -> Result<Option<Bytes>, TransportErr> {
        let name = self.layout.snapshot(room, key);
        // Of what is no string, MGET says that it is not there, where GET would fail.
        let mut whole = redis::pipe();
        whole.cmd("MGET").arg(&name[..]).cmd("TYPE").arg(&name[..]);
        let mut values = self.link.bulk(whole).await?.into_iter();
        if let Some(Value::Array(found)) = values.next()
            && let Some(Value::BulkString(bytes)) = found.into_iter().next()
        {
            return Ok(Some(bytes.into()));
        }
        // Nothing, or what is no snapshot.
        if values.next().and_then(reply::bytes).as_deref() != Some(b"list") {
            return Ok(None);
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("LRANGE").arg(&name[..]).arg(0).arg(-1);
        Ok(match self.link.bulk(pipeline).await?.into_iter().next() {
            Some(list @ Value::Array(_)) => {
                let pieces = reply::list(list).ok_or_else(|| Damaged.unanswered("snapshot"))?;
                if pieces.is_empty() {
                    return Ok(None); // it went meanwhile
                }
                let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
                for piece in pieces {
                    whole.extend_from_slice(&piece);
                }
                Some(whole.freeze())
            }
            _ => None,
        })
    }
}
