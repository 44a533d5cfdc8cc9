//! Appends: what a host does most, so that it costs few allocations and a short answer.

use bytes::Bytes;
use ractor_rooms::id::{Generation, Life, Number, Producer, RoomId};
use ractor_rooms::protocol::record::{AppendAnswer, Standing};
use ractor_rooms::transport::TransportErr;
use redis::Value;

use super::answer::{self, Stand};
use super::room::exact;
use super::{GENERATIONS, Inner, inexact, read, restless};
use crate::link::{Call, Merge};
use crate::reply::Damaged;
use crate::words::Words;
use crate::{text, wire};

/// One append, as its request names it.
pub(super) struct Append {
    pub(super) life: Option<Life>,
    pub(super) producer: Producer,
    pub(super) epoch: u64,
    pub(super) first: Number,
    pub(super) batch: Vec<Bytes>,
}

impl Append {
    fn count(&self) -> u64 {
        self.batch.len() as u64
    }

    /// The producer's last number once this is in.
    fn last(&self) -> Number {
        Number(self.first.0.saturating_add(self.count()).saturating_sub(1))
    }

    /// Whether the room itself appends, for which an eighth of the log is kept.
    fn is_own(&self, room: &RoomId) -> bool {
        match &self.producer {
            Producer::Room(id, _) | Producer::Activation(id, _) => id == room,
            Producer::Host(_) => false,
        }
    }
}

/// An append that is ready to go.
#[derive(Debug)]
pub(super) struct Prepared {
    call: Call,
    last: Number,
    /// Of which shard it names which generation.
    under: (u16, Generation),
}

impl Inner {
    /// Writes an append down. Apart from [`Inner::append`], so that its future is small.
    pub(super) fn prepare(&self, room: &RoomId, append: &Append) -> Result<Prepared, TransportErr> {
        exact("producer's epoch", append.epoch)?;
        if !wire::is_sayable(&append.batch) {
            return Err(inexact("message", u64::MAX));
        }
        let named = text::room(room);
        let keys = self.layout.append_keys(&named);
        let mut args = self.append_args(room, &named, append);
        let shard = self.layout.shard(room);
        let generation = self.link.generation_of(shard);
        args.print(format_args!("{generation}"));
        let call = Call { script: self.scripts.append.clone(), keys, args, merge: Merge::All };
        Ok(Prepared { call, last: append.last(), under: (shard, generation) })
    }

    pub(super) async fn append(
        &self,
        room: &RoomId,
        append: &Append,
        mut prepared: Prepared,
    ) -> Result<AppendAnswer, TransportErr> {
        for _ in 0..GENERATIONS {
            let (shard, generation) = prepared.under;
            if let Some(answer) = self.put(prepared).await? {
                return Ok(answer);
            }
            self.link.look(shard, generation).await?;
            prepared = self.prepare(room, append)?;
        }
        Err(restless())
    }

    /// Carries it out; `None` when another generation has begun since it was written down.
    async fn put(&self, prepared: Prepared) -> Result<Option<AppendAnswer>, TransportErr> {
        let Prepared { call, last, under: _ } = prepared;
        let name = call.script.name;
        let value = self.link.call(call).await?;
        let damaged = |error: Damaged| error.unanswered(name);
        if let Value::BulkString(text) = &value {
            let (seq, life, owner) = answer::appended(text).ok_or(Damaged).map_err(damaged)?;
            // The batch is in the log whatever is known of its owner: a failed look must not hide that. The
            // sweep finds a room that nobody runs.
            let alive = self.about_owner_alive(owner).await.unwrap_or(true);
            let standing = if alive { Standing::Running } else { Standing::NeedsHost };
            return Ok(Some(AppendAnswer::Accepted { last, seq, life, standing }));
        }
        let (code, mut reply) = read(name, value)?;
        if code == "generation" {
            return Ok(None);
        }
        let (mut answer, stand) = answer::append(&code, &mut reply).map_err(damaged)?;
        if let (
            Some(stand),
            AppendAnswer::Accepted { standing, .. } | AppendAnswer::Duplicate { standing, .. },
        ) = (stand, &mut answer)
            && self.is_tended(&stand).await.unwrap_or(true)
        {
            *standing = Standing::Running;
        }
        Ok(Some(answer))
    }

    /// The arguments, as `append.lua` names them.
    fn append_args(&self, room: &RoomId, named: &[u8], append: &Append) -> Words {
        let Append { life, producer, epoch, first, batch } = append;
        let bytes: usize = batch.iter().map(Bytes::len).sum();
        let own = append.is_own(room);
        let mut args = Words::with_capacity(10, bytes + 4 * batch.len() + named.len() + 256);
        match life {
            Some(life) => args.print(format_args!("{life}")),
            None => args.push(b""),
        }
        args.put(|text| text::put_producer(text, producer));
        match first.0.checked_sub(1) {
            Some(before) if !batch.is_empty() => args.print(format_args!("{epoch}:{before}:")),
            // It comes next to nothing: an append of nothing, or of a number before the first.
            Some(_) | None => args.push(b"none"),
        }
        args.print(format_args!("{epoch}:{}:", append.last()));
        args.print(format_args!("{} {first} {epoch}", append.count()));
        args.print(format_args!("{bytes}"));
        args.put(|blob| wire::put_batch(blob, batch));
        let birth = producer.birth();
        match producer {
            Producer::Room(..) => args.print(format_args!("{birth} 1")),
            Producer::Activation(_, by) if own => {
                args.print(format_args!("{birth} {}", text::activation(by)));
            }
            Producer::Host(_) | Producer::Activation(..) => args.print(format_args!("{birth} ")),
        }
        let share = |limit: usize| if own { limit } else { limit - limit / 8 };
        let limits = &self.limits;
        let (entries, bytes) = (share(limits.log_entries), share(limits.log_bytes));
        let (producers, publish) = (limits.producers.max(1), self.layout.publish());
        let channels = self.layout.room_channels(named);
        args.print(format_args!("{entries} {bytes} {producers} {publish} {channels}"));
        args
    }

    /// Whether anybody will handle what is in the log. A hint, so that it may be a moment old.
    async fn is_tended(&self, stand: &Stand) -> Result<bool, TransportErr> {
        Ok(match (&stand.owner, stand.phase.as_str()) {
            (Some(owner), _) => self.about_alive(&owner.by).await?,
            (None, "O") => stand.is_open() && self.about_session(&stand.to).await?.is_some(),
            (None, "B") => stand.is_open(),
            (None, _) => false,
        })
    }

    /// The same of an owner as the record names it; an empty name is none.
    async fn about_owner_alive(&self, owner: &str) -> Result<bool, TransportErr> {
        let Some((host, number)) = text::owner_session(owner) else { return Ok(false) };
        Ok(self.about_session(host).await? == Some(number))
    }
}
