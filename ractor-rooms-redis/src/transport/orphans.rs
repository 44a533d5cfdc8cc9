//! Rooms whose owner has died, looked at many at once.
//!
//! All rooms of a dead host are looked at by each of its heirs, perhaps several times before it is their turn. A
//! script that reads the whole record costs the server eight times as much as the few fields that tell whose room it
//! was.

use std::collections::BTreeMap;

use ractor_rooms::id::RoomId;
use ractor_rooms::protocol::record::Phase;
use ractor_rooms::protocol::store::Unrest;
use ractor_rooms::transport::TransportErr;
use redis::Value;

use super::Inner;
use crate::reply::{self, Damaged};
use crate::text;

/// What is read of a record.
const FIELDS: [&str; 4] = ["owner", "phase", "snap", "declined"];

impl Inner {
    /// Looks at rooms, each named by the index of an incarnation that has no session. Those of which that is not
    /// enough, because their records say something else by now, are left out, as are those that cannot be read.
    pub(super) async fn orphans(&self, rooms: &[(RoomId, String)]) -> BTreeMap<RoomId, Unrest> {
        let mut groups: BTreeMap<u16, Vec<&(RoomId, String)>> = BTreeMap::new();
        for room in rooms {
            let slot = if self.link.is_cluster() { self.layout.shard(&room.0) } else { 0 };
            groups.entry(slot).or_default().push(room);
        }
        let looks = groups.into_values().map(|group| self.look(group));
        let looked = futures::future::join_all(looks).await;
        looked.into_iter().filter_map(Result::ok).flatten().collect()
    }

    async fn look(
        &self,
        rooms: Vec<&(RoomId, String)>,
    ) -> Result<Vec<(RoomId, Unrest)>, TransportErr> {
        let mut pipeline = redis::pipe();
        for (room, _) in &rooms {
            pipeline.cmd("HMGET").arg(&self.layout.meta(room)[..]).arg(&FIELDS);
        }
        let records = self.link.read(pipeline).await?;
        if records.len() != rooms.len() {
            return Err(Damaged.unanswered("records"));
        }
        let rooms = rooms.into_iter().zip(records);
        Ok(rooms
            .filter_map(|((room, by), record)| Some((room.clone(), self.orphan(room, by, record)?)))
            .collect())
    }

    /// Whether a record's owner is the one that its index says, who has died.
    fn orphan(&self, room: &RoomId, by: &str, record: Value) -> Option<Unrest> {
        let Value::Array(fields) = record else { return None };
        let mut fields = fields.into_iter().map(|field| match field {
            Value::Nil => Some(String::new()),
            field => String::from_utf8(reply::bytes(field)?.into()).ok(),
        });
        let mut next = || fields.next().flatten();
        let owner = text::parse_activation(&next()?)?.by;
        if text::incarnation(&owner) != by || next()? != "R" {
            return None;
        }
        let snapshot = next()?;
        let snapshot = match snapshot.as_str() {
            "" => None,
            snapshot => Some(text::parse_snapshot(snapshot)?),
        };
        if let Some(snapshot) = &snapshot {
            self.known.point(room, text::pointer(&snapshot.key));
        }
        Some(Unrest {
            room: room.clone(),
            phase: Phase::Running,
            backlog: true,
            next_timer: snapshot.and_then(|snapshot| snapshot.next_timer),
            declined: text::parse_hosts(&next()?)?,
            owner: Some(owner),
        })
    }
}
