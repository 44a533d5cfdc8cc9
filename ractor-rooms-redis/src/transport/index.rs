//! The indexes: which rooms an incarnation owns, and which need somebody to look at them.
//!
//! An index may name a room too many, so each room is looked up before it is named, and taken out of
//! the index that should not have it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use ractor_rooms::id::{Generation, Incarnation, RoomId};
use ractor_rooms::protocol::record::{Phase, RecordView};
use ractor_rooms::protocol::store::{Owned, Unrest};
use ractor_rooms::transport::TransportErr;

use super::Inner;
use crate::reply::{self, Damaged, Reply};
use crate::text;

/// Questions that are asked at once.
pub(super) const AT_ONCE: usize = 64;
/// Members of an index that are read in one answer.
const PAGE: usize = 512;

/// Shards whose indexes are read at once where one server has them all: it serves nobody else meanwhile.
const TOGETHER: usize = 128;

/// How long a shard in which nothing was found is passed over, as long as its count of changes is the same.
/// What somebody changes by hand is found after that.
const TRUSTED: Duration = Duration::from_secs(30);

/// Incarnations that the index of a shard names, each with whether it has a session.
struct Owners {
    shard: u16,
    named: Vec<(Incarnation, String, bool)>,
}

/// What was found when the indexes of a shard were looked at. A host at rest asks for the counts of changes
/// alone, however many rooms and owners there are.
#[derive(Debug)]
pub(super) struct Looked {
    generation: Generation,
    /// The shard's count of index entries that were ever added.
    changes: Option<Bytes>,
    at: Duration,
    owners: Vec<Incarnation>,
    /// Somebody has to look at a room of it, now or later.
    restless: bool,
}

/// Members of one index, and whether it has more.
struct Found {
    rooms: Vec<RoomId>,
    more: bool,
    /// Whether there was anything, also what is no room.
    any: bool,
}

impl Inner {
    pub(super) async fn owned(&self, by: &Incarnation) -> Result<Vec<Owned>, TransportErr> {
        let name = text::incarnation(by);
        let found: Vec<Vec<RoomId>> = stream::iter(self.together())
            .map(|shards| self.owned_in(shards, &name))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let rooms = stream::iter(found.into_iter().flatten());
        let owned = rooms
            .map(|room| {
                let name = &name;
                async move { (room.to_string(), self.owned_room(room, by, name).await) }
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        Ok(readable(owned)?.into_iter().flatten().collect())
    }

    /// Shards that one question can be about: in a cluster each is asked by itself.
    fn together(&self) -> Vec<Vec<u16>> {
        self.grouped(0..self.layout.shards())
    }

    /// What the indexes of some shards say that an incarnation owns.
    async fn owned_in(&self, shards: Vec<u16>, by: &str) -> Result<Vec<RoomId>, TransportErr> {
        let mut all = Vec::new();
        let pages = self.owned_pages(&shards, by, None, PAGE).await?;
        for (shard, mut found) in shards.into_iter().zip(pages) {
            while found.more
                && let Some(last) = found.rooms.last().cloned()
            {
                all.append(&mut found.rooms);
                let next = self.owned_pages(&[shard], by, Some(&last), PAGE).await?;
                found = next.into_iter().next().ok_or_else(|| Damaged.unanswered("index"))?;
            }
            all.append(&mut found.rooms);
        }
        Ok(all)
    }

    async fn owned_room(
        &self,
        room: RoomId,
        by: &Incarnation,
        name: &str,
    ) -> Result<Option<Owned>, TransportErr> {
        let view = self.view(&room).await?;
        let owned = view.and_then(|view| {
            let activation = view.seen.owner.filter(|owner| owner.by == *by)?;
            let (epoch, head, last) = (view.seen.epoch, view.seq, view.last);
            Some(Owned { room: room.clone(), activation, epoch, head, last })
        });
        if owned.is_none() {
            self.reindex(&room, name).await?;
        }
        Ok(owned)
    }

    /// A page of what the index of each shard says that an incarnation owns.
    async fn owned_pages(
        &self,
        shards: &[u16],
        by: &str,
        after: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<Found>, TransportErr> {
        let mut prefix = by.as_bytes().to_vec();
        prefix.push(0);
        let mut end = by.as_bytes().to_vec();
        end.push(1);
        self.members(shards, "owned", &prefix, after, Some(&end), limit).await
    }

    /// Members of the same index of each shard that begin with `prefix`, above a room.
    async fn members(
        &self,
        shards: &[u16],
        index: &str,
        prefix: &[u8],
        after: Option<&RoomId>,
        end: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Found>, TransportErr> {
        let mut from = vec![if after.is_some() { b'(' } else { b'[' }];
        from.extend_from_slice(prefix);
        from.extend(after.map(text::member).unwrap_or_default());
        let to = end.map_or_else(|| b"+".to_vec(), |end| [b"(", end].concat());
        let mut pipeline = redis::pipe();
        for shard in shards {
            let key = self.layout.of_shard(*shard, index);
            let command = pipeline.cmd("ZRANGEBYLEX").arg(&key[..]).arg(&from).arg(&to);
            command.arg("LIMIT").arg(0).arg(limit);
        }
        let values = self.link.read(pipeline).await?;
        if values.len() != shards.len() {
            return Err(Damaged.unanswered("index"));
        }
        let found = |value| {
            let members = reply::list(value).ok_or_else(|| Damaged.unanswered("index"))?;
            let (more, any) = (members.len() >= limit, !members.is_empty());
            // What is no room was put there by hand.
            let rooms = members
                .iter()
                .filter_map(|member| text::parse_member(member.get(prefix.len()..)?))
                .collect();
            Ok(Found { rooms, more, any })
        };
        values.into_iter().map(found).collect()
    }

    /// The counts of changes of all shards.
    async fn changes(&self) -> Result<Vec<(u16, Option<Bytes>)>, TransportErr> {
        let counts: Vec<Vec<(u16, Option<Bytes>)>> = stream::iter(self.together())
            .map(|shards| async move {
                let mut pipeline = redis::pipe();
                let command = pipeline.cmd("MGET");
                for shard in &shards {
                    command.arg(&self.layout.of_shard(*shard, "changes")[..]);
                }
                let answer = self.link.read(pipeline).await?.into_iter().next();
                let counts = answer.and_then(|answer| match answer {
                    redis::Value::Array(counts) if counts.len() == shards.len() => Some(counts),
                    _ => None,
                });
                let counts = counts.ok_or_else(|| Damaged.unanswered("changes"))?;
                let counts = counts.into_iter().map(reply::bytes);
                Ok::<_, TransportErr>(shards.into_iter().zip(counts).collect())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(counts.into_iter().flatten().collect())
    }

    /// Shards in which there may be something, each with its count of changes.
    async fn stirred(&self) -> Result<BTreeMap<u16, Option<Bytes>>, TransportErr> {
        let mut owners = BTreeSet::new();
        let mut stirred = BTreeMap::new();
        let mut quiet = Vec::new();
        let counts = self.changes().await?;
        {
            let now = self.known.mark();
            let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            for (shard, changes) in counts {
                let same = looked.get(&shard).filter(|looked| {
                    !looked.restless
                        && looked.changes == changes
                        && looked.generation == self.link.generation_of(shard)
                        && now.saturating_sub(looked.at) < TRUSTED
                });
                match same {
                    Some(looked) => {
                        owners.extend(looked.owners.iter().cloned());
                        quiet.push((shard, changes, looked.owners.clone()));
                    }
                    None => {
                        stirred.insert(shard, changes);
                    }
                }
            }
        }
        let lives = stream::iter(owners)
            .map(|by| async move { Ok::<_, TransportErr>((self.about_alive(&by).await?, by)) });
        let lives: Vec<(bool, Incarnation)> = lives.buffer_unordered(AT_ONCE).try_collect().await?;
        let dead: BTreeSet<_> =
            lives.into_iter().filter(|(alive, _)| !alive).map(|(_, by)| by).collect();
        if !dead.is_empty() {
            let with_dead =
                quiet.into_iter().filter(|(_, _, by)| by.iter().any(|b| dead.contains(b)));
            stirred.extend(with_dead.map(|(shard, changes, _)| (shard, changes)));
        }
        Ok(stirred)
    }

    /// Groups of some shards that one question can be about.
    fn grouped(&self, shards: impl IntoIterator<Item = u16>) -> Vec<Vec<u16>> {
        let shards: Vec<u16> = shards.into_iter().collect();
        let most = if self.link.is_cluster() { 1 } else { TOGETHER };
        shards.chunks(most).map(<[u16]>::to_vec).collect()
    }

    /// The incarnations that the indexes of some shards name; or why that of a shard could not be read.
    async fn owners(&self, shards: Vec<u16>) -> Vec<(String, Result<Owners, TransportErr>)> {
        let keys = shards.iter().map(|shard| self.layout.of_shard(*shard, "owned"));
        let keys: Vec<_> = keys.collect();
        let named = |shard: u16| format!("shard {shard}");
        let replies = match self.run_on(&shards, &self.scripts.owners, &keys).await {
            Ok(replies) => replies,
            Err(error) => {
                return shards.into_iter().map(|s| (named(s), Err(error.clone()))).collect();
            }
        };
        let mut all = Vec::with_capacity(shards.len());
        for (shard, reply) in shards.into_iter().zip(replies) {
            let owners = match reply {
                Ok((_, reply)) => self.owners_of(shard, reply).await,
                Err(error) => Err(error),
            };
            all.push((named(shard), owners));
        }
        all
    }

    async fn owners_of(&self, shard: u16, mut reply: Reply) -> Result<Owners, TransportErr> {
        let mut named = Vec::new();
        while !reply.is_empty() {
            let name = reply.text().map_err(|error| error.unanswered("owners"))?;
            let Some(by) = text::parse_incarnation(&name) else {
                continue; // put there by hand
            };
            let alive = self.about_alive(&by).await?;
            named.push((by, name, alive));
        }
        Ok(Owners { shard, named })
    }

    /// Remembers what was found in shards that were looked at whole.
    fn note_looked(
        &self,
        stirred: BTreeMap<u16, Option<Bytes>>,
        generations: &BTreeMap<u16, Generation>,
        owners: Vec<Owners>,
        restless: &BTreeSet<u16>,
        at: Duration,
    ) {
        let mut all = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        // One that could not be read is looked at again.
        for Owners { shard, named } in owners {
            let Some(changes) = stirred.get(&shard) else { continue };
            let dead = named.iter().any(|(_, _, alive)| !alive);
            let looked = Looked {
                generation: generations.get(&shard).copied().unwrap_or_default(),
                changes: changes.clone(),
                at,
                owners: named.into_iter().map(|(by, ..)| by).collect(),
                restless: dead || restless.contains(&shard),
            };
            all.insert(shard, looked);
        }
    }

    pub(super) async fn unrest(
        &self,
        after: Option<RoomId>,
        limit: usize,
    ) -> Result<Vec<Unrest>, TransportErr> {
        let limit = limit.min(1 << 16);
        if limit == 0 {
            return Ok(Vec::new());
        }
        crate::recurring::tell_ended();
        let at = self.known.mark();
        // Before the counts: what begins meanwhile is looked at again.
        let generations: BTreeMap<u16, Generation> = (0..self.layout.shards())
            .map(|shard| (shard, self.link.generation_of(shard)))
            .collect();
        let stirred = self.stirred().await?;
        if stirred.is_empty() {
            return Ok(Vec::new());
        }
        let shards = self.grouped(stirred.keys().copied());
        let owners: Vec<Vec<_>> = stream::iter(shards.clone())
            .map(|shards| self.owners(shards))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let owners = readable(owners.into_iter().flatten().collect())?;
        let dead: Vec<(u16, String)> = owners
            .iter()
            .flat_map(|of| of.named.iter().map(|owner| (of.shard, owner)))
            .filter(|(_, (_, _, alive))| !alive)
            .map(|(shard, (_, name, _))| (shard, name.clone()))
            .collect();
        let from_start = after.is_none();
        let mut noted = Some((stirred, owners)).filter(|_| from_start);
        let mut unrest = Vec::new();
        let mut after = after;
        loop {
            let (candidates, horizon, restless) =
                self.candidates(&shards, &dead, after.as_ref(), limit).await?;
            if let Some((stirred, owners)) = noted.take() {
                self.note_looked(stirred, &generations, owners, &restless, at);
            }
            // No more than are asked for: what is beyond them would be looked at again for the next page.
            let mut candidates = candidates.into_iter();
            let (mut looked, mut found) = (Vec::new(), unrest.len());
            while found < limit && candidates.len() > 0 {
                let some: Vec<_> = candidates.by_ref().take((limit - found).max(AT_ONCE)).collect();
                let dead: Vec<_> = some.iter().filter(|(_, by)| !by.is_empty()).cloned().collect();
                let mut orphans = self.orphans(&dead).await;
                let some = some.into_iter().map(|(room, by)| (orphans.remove(&room), room, by));
                let answers: Vec<_> = stream::iter(some)
                    .map(|(orphan, room, by)| async move {
                        let name = room.to_string();
                        match orphan {
                            Some(orphan) => (name, Ok(Some(orphan))),
                            None => (name, self.restless(room, by).await),
                        }
                    })
                    .buffered(AT_ONCE)
                    .collect()
                    .await;
                found += answers.iter().filter(|(_, read)| matches!(read, Ok(Some(_)))).count();
                looked.extend(answers);
            }
            unrest.extend(readable(looked)?.into_iter().flatten());
            if unrest.len() >= limit {
                unrest.truncate(limit);
                return Ok(unrest);
            }
            match horizon {
                Some(horizon) => after = Some(horizon),
                None => return Ok(unrest),
            }
        }
    }

    /// Rooms above `after` by name, each with the dead owner whose index named it, up to where every
    /// index was read; that is the second part, or none at the end. The third are the shards that have any.
    async fn candidates(
        &self,
        shards: &[Vec<u16>],
        dead: &[(u16, String)],
        after: Option<&RoomId>,
        limit: usize,
    ) -> Result<(BTreeMap<RoomId, String>, Option<RoomId>, BTreeSet<u16>), TransportErr> {
        let page = limit.min(PAGE);
        let restless: Vec<Vec<(u16, Found)>> = stream::iter(shards.to_vec())
            .map(|shards| async move {
                let found = self.members(&shards, "unrest", b"", after, None, page).await?;
                Ok::<_, TransportErr>(shards.into_iter().zip(found).collect())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let restless: Vec<(u16, Found)> = restless.into_iter().flatten().collect();
        let any = restless.iter().filter(|(_, found)| found.any).map(|(shard, _)| *shard);
        let any: BTreeSet<u16> = any.collect();
        let restless = restless.into_iter().map(|(_, found)| (found, String::new()));
        let orphans: Vec<Vec<(Found, String)>> = stream::iter(dead.iter().cloned())
            .map(|(shard, by)| async move {
                let found = self.owned_pages(&[shard], &by, after, page).await?;
                Ok::<_, TransportErr>(found.into_iter().map(|f| (f, by.clone())).collect())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let orphans = orphans.into_iter().flatten();
        let mut all = BTreeMap::new();
        let mut horizon: Option<RoomId> = None;
        for (found, by) in restless.chain(orphans) {
            if found.more
                && let Some(last) = found.rooms.last()
                && horizon.as_ref().is_none_or(|horizon| last < horizon)
            {
                horizon = Some(last.clone());
            }
            all.extend(found.rooms.into_iter().map(|room| (room, by.clone())));
        }
        if let Some(horizon) = &horizon {
            let beyond = (Bound::Excluded(horizon.clone()), Bound::Unbounded);
            let beyond: Vec<_> = all.range(beyond).map(|(room, _)| room.clone()).collect();
            for room in beyond {
                all.remove(&room);
            }
        }
        Ok((all, horizon, any))
    }

    async fn restless(&self, room: RoomId, by: String) -> Result<Option<Unrest>, TransportErr> {
        let view = self.view(&room).await?;
        let orphan = match view.as_ref().and_then(|view| view.seen.owner.as_ref()) {
            Some(owner) => !self.about_alive(&owner.by).await?,
            None => false,
        };
        match view.filter(|view| orphan || is_restless(view)) {
            Some(view) => Ok(Some(Unrest {
                room,
                phase: view.phase,
                backlog: view.backlog || orphan,
                next_timer: view.snapshot.and_then(|snapshot| snapshot.next_timer),
                declined: view.declined,
                owner: view.seen.owner.map(|owner| owner.by),
            })),
            None => {
                self.reindex(&room, &by).await?;
                Ok(None)
            }
        }
    }
}

/// What could be read. One thing that is damaged must not hide the rest; when there are several and none
/// could be read, it is the store that does not answer.
pub(super) fn readable<T>(
    read: Vec<(String, Result<T, TransportErr>)>,
) -> Result<Vec<T>, TransportErr> {
    let several = read.len() > 1;
    let mut good = Vec::with_capacity(read.len());
    let mut failed = None;
    for (what, result) in read {
        match result {
            Ok(value) => good.push(value),
            Err(error) => {
                if let Some(unsaid) = crate::recurring::came(&format!("{what} cannot be read")) {
                    tracing::warn!(%error, what, unsaid, "passed over: it cannot be read");
                }
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if several && good.is_empty() => Err(error),
        Some(_) | None => Ok(good),
    }
}

fn is_restless(view: &RecordView) -> bool {
    view.seen.owner.is_none()
        && match &view.phase {
            Phase::Running | Phase::Closed { .. } => false,
            Phase::Offered { .. } => true,
            Phase::Parked { .. } => {
                view.backlog || view.snapshot.as_ref().is_some_and(|s| s.next_timer.is_some())
            }
        }
}
