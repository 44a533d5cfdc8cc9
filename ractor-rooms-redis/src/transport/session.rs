//! Sessions and inboxes: what belongs to a host.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use ractor_rooms::id::{Generation, HostId, Incarnation, Millis};
use ractor_rooms::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use ractor_rooms::transport::{Letter, TransportErr};

use super::index::{AT_ONCE, readable};
use super::{Failed, Inner, inexact, millis};
use crate::reply::{self, Damaged, Reply};
use crate::script::Script;
use crate::{text, wire};

/// Letters that wait for one host.
const INBOX: usize = 65_536;

fn ttl(of: Duration) -> Bytes {
    millis(of).max(1).to_string().into()
}

impl Inner {
    async fn at_host(
        &self,
        script: &Script,
        host: &HostId,
        args: Vec<Bytes>,
    ) -> Result<(String, Reply), TransportErr> {
        self.run(script, self.layout.host_keys(&text::host(host)), args).await
    }

    /// Hosts are named before they have a session and for a day after, so that none is overlooked.
    async fn enlist(&self, host: &HostId, on: bool) -> Result<(), TransportErr> {
        let args = vec![text::host(host).into(), Bytes::from_static(if on { b"1" } else { b"" })];
        self.run(&self.scripts.enlist, vec![self.layout.hosts()], args).await.map(drop)
    }

    fn publishing(&self, host: &HostId) -> [Bytes; 2] {
        [self.layout.publish().into(), self.layout.host_channel(host)]
    }

    pub(super) async fn open_session(
        &self,
        host: &HostId,
        lasts: Duration,
        spec: &SessionSpec,
    ) -> Result<OpenAnswer, TransportErr> {
        self.enlist(host, true).await?;
        self.link.note_ttl(lasts).await?;
        let mut args = vec![ttl(lasts), wire::spec(spec)];
        args.extend(self.publishing(host));
        let (at, generation) = (self.known.mark(), *self.generation.borrow());
        let (code, mut reply) = self.at_host(&self.scripts.open, host, args).await?;
        let number = reply.number().map_err(|error| error.unanswered("open"))?;
        if code == "opened" {
            self.settle_generation(spec.proved).await;
        }
        Ok(if code == "opened" {
            let by = Incarnation { host: host.clone(), number };
            self.known.note_own(&by, Some((at, lasts)), generation);
            OpenAnswer::Opened(by)
        } else {
            OpenAnswer::Taken { until: Millis(number) }
        })
    }

    pub(super) async fn renew_session(
        &self,
        by: &Incarnation,
        lasts: Duration,
        spec: &SessionSpec,
    ) -> Result<bool, TransportErr> {
        let args = vec![by.number.to_string().into(), ttl(lasts), wire::spec(spec)];
        let (at, generation) = (self.known.mark(), *self.generation.borrow());
        let (code, _) = self.at_host(&self.scripts.renew, &by.host, args).await?;
        self.known.note_own(by, (code == "done").then_some((at, lasts)), generation);
        if code == "done" {
            self.enlist(&by.host, true).await?;
            self.settle_generation(spec.proved).await;
        }
        Ok(code == "done")
    }

    /// Notices that every host has proved or dropped what it ran, so that nobody waits for one that may come
    /// yet. In a cluster each shard has a generation of its own, and hosts name but one: there the time
    /// decides.
    async fn settle_generation(&self, proved: Generation) {
        if self.link.is_cluster() || !self.link.is_doubtful() {
            return;
        }
        let newest = *self.link.generations().borrow();
        if proved < newest {
            return;
        }
        let settled = async {
            let sessions = self.sessions().await?;
            if sessions.iter().any(|session| session.spec.proved < newest) {
                return Ok(());
            }
            let shards = (0..self.layout.shards()).map(|shard| async move {
                let keys = vec![self.layout.of_shard(shard, "generation")];
                let args = vec![newest.to_string().into()];
                self.run_in(shard, Some(newest), &self.scripts.prove, keys, args).await
            });
            // Another one that has begun meanwhile is looked at with the next heartbeat.
            futures::future::try_join_all(shards).await.map_err(Failed::into_transport)?;
            self.link.settled(newest);
            Ok::<_, TransportErr>(())
        };
        if let Err(error) = settled.await {
            tracing::debug!(%error, "the generation is still in doubt"); // looked at with the next heartbeat
        }
    }

    pub(super) async fn close_session(&self, by: &Incarnation) -> Result<(), TransportErr> {
        let mut args = vec![by.number.to_string().into()];
        args.extend(self.publishing(&by.host));
        let ended = self.at_host(&self.scripts.end, &by.host, args).await;
        self.known.note_own(by, None, Generation(0)); // also after a renewal that was answered meanwhile
        let (code, _) = ended?;
        if code == "done" {
            self.enlist(&by.host, false).await?;
        }
        Ok(())
    }

    pub(super) async fn sessions(&self) -> Result<Vec<SessionInfo>, TransportErr> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("ZRANGE").arg(&self.layout.hosts()[..]).arg(0).arg(-1);
        let hosts = self.link.read(pipeline).await?.into_iter().next().and_then(reply::list);
        let hosts = hosts.ok_or_else(|| Damaged.unanswered("hosts"))?;
        let sessions: Vec<(String, Result<Option<SessionInfo>, _>)> = stream::iter(hosts)
            .map(|host| async move { (host.escape_ascii().to_string(), self.session(&host).await) })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        // One that is damaged must not hide the others. But one that was not read may be open, and nobody may
        // take its absence from the list for its end.
        let unread = sessions.iter().find_map(|(_, read)| match read {
            Err(error @ (TransportErr::Unanswered { .. } | TransportErr::Unavailable { .. })) => {
                Some(error.clone())
            }
            _ => None,
        });
        if let Some(error) = unread {
            return Err(error);
        }
        let mut sessions: Vec<_> = readable(sessions)?.into_iter().flatten().collect();
        sessions.sort_by(|a: &SessionInfo, b| a.incarnation.cmp(&b.incarnation));
        Ok(sessions)
    }

    async fn session(&self, host: &[u8]) -> Result<Option<SessionInfo>, TransportErr> {
        let Some((name, host)) =
            std::str::from_utf8(host).ok().and_then(|name| Some((name, text::parse_host(name)?)))
        else {
            return Ok(None); // put there by hand
        };
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(&self.layout.host_keys(name)[0][..]);
        let value = self.link.read(pipeline).await?.into_iter().next().and_then(reply::bytes);
        Ok(value
            .and_then(wire::parse_session)
            .map(|(number, spec)| SessionInfo { incarnation: Incarnation { host, number }, spec }))
    }

    pub(super) async fn post(&self, to: &Incarnation, letter: Bytes) -> Result<bool, TransportErr> {
        let mut args = vec![to.number.to_string().into(), letter, INBOX.to_string().into()];
        args.extend(self.publishing(&to.host));
        let (code, _) = self.at_host(&self.scripts.post, &to.host, args).await?;
        Ok(code == "done")
    }

    pub(super) async fn read_inbox(
        &self,
        by: &Incarnation,
        after: u64,
    ) -> Result<Vec<Letter>, TransportErr> {
        if after > text::EXACT {
            return Err(inexact("place in the inbox", after));
        }
        let args = vec![by.number.to_string().into(), after.to_string().into()];
        let (_, mut reply) = self.at_host(&self.scripts.inbox, &by.host, args).await?;
        let mut letters = Vec::new();
        while !reply.is_empty() {
            let letter =
                reply.number().and_then(|position| Ok(Letter { position, letter: reply.bytes()? }));
            letters.push(letter.map_err(|error| error.unanswered("inbox"))?);
        }
        Ok(letters)
    }
}
