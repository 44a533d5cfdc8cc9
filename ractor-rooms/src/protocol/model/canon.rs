//! States that nobody can tell apart are made one: without this there would be no end of them.

use super::world::{World, room};
use crate::id::Activation;
use crate::protocol::record::{Lease, Request, SnapshotKey};

impl World {
    /// Makes states equal that nothing can tell apart.
    pub(super) fn normalise(&mut self) {
        if self.late.len() > 1 {
            self.late.get_mut().sort();
        }
        if self.told.len() > 1 {
            self.told.get_mut().sort();
        }
        if !self.pushes.is_empty() {
            let hosts = &self.hosts;
            let listens =
                |lease: &Lease| hosts.iter().any(|h| h.up && h.incarnation == lease.owner.by);
            let pushes = self.pushes.get_mut();
            pushes.retain(|(lease, _)| listens(lease));
            pushes.sort_by(|a, b| (a.1.position, &a.0).cmp(&(b.1.position, &b.0)));
            pushes.dedup();
        }
        self.forget_orphans();
        self.forget_activations();
    }

    /// An activation that nothing names any more may be taken again: nobody can tell. Without this, a
    /// host that is refused again and again would count for ever.
    fn forget_activations(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].acquisitions == 0 {
                continue;
            }
            let by = &self.hosts[host].incarnation;
            let mut last = 0;
            self.activations(&mut |activation| {
                if activation.by == *by {
                    last = last.max(activation.number);
                }
            });
            if last != self.hosts[host].acquisitions {
                self.host_mut(host).acquisitions = last;
            }
        }
    }

    /// Every activation that anything names.
    fn activations(&self, each: &mut impl FnMut(&Activation)) {
        let kept = self.kept.as_ref().and_then(|store| store.record(&room()));
        for record in self.store.record(&room()).into_iter().chain(kept) {
            record.owner.iter().for_each(&mut *each);
            record.snapshot.iter().for_each(|snapshot| each(&snapshot.key.by));
        }
        self.ghost.heir.iter().for_each(|heir| each(&heir.owner));
        for (key, _) in self.contents.iter() {
            each(&key.by);
        }
        for host in &self.hosts {
            if let Some(adopter) = &host.adopter {
                each(adopter.activation());
                adopter.seen().owner.iter().for_each(&mut *each);
            }
            host.run.iter().for_each(|run| each(&run.lease.owner));
            if let Some(leaving) = &host.leaving {
                each(&leaving.lease.owner);
                each(&leaving.claim.owner);
                leaving.asserting.iter().for_each(&mut *each);
                leaving.held.iter().for_each(|(_, first)| each(first));
            }
        }
        self.pushes.iter().for_each(|(lease, _)| each(&lease.owner));
        for request in self.late.iter() {
            if let Request::Acquire { activation, seen } = request {
                each(activation);
                seen.owner.iter().for_each(&mut *each);
            }
            if let Request::Reassert(claim) = request {
                each(&claim.activation);
                each(&claim.lease.owner);
            }
            super::execute::lease_of(request).iter().for_each(|lease| each(&lease.owner));
        }
    }

    fn forget_orphans(&mut self) {
        if self.contents.is_empty() {
            return;
        }
        let record = self.store.record(&room());
        let kept = self.kept.as_ref().and_then(|store| store.record(&room()));
        let pointed = record.into_iter().chain(kept).filter_map(|r| r.snapshot.as_ref());
        let frozen = self.hosts.iter().filter_map(|h| h.leaving.as_ref()?.cut.as_ref());
        let acquired = self.hosts.iter().filter_map(|h| h.acquired.as_ref()?.snapshot.as_ref());
        let late = self.late.iter().filter_map(|request| match request {
            Request::Checkpoint { snapshot, .. } => Some(snapshot),
            Request::Park { snapshot, .. } => snapshot.as_ref(),
            Request::Reassert(claim) => Some(&claim.snapshot),
            _ => None,
        });
        let named: Vec<SnapshotKey> = pointed
            .chain(frozen)
            .chain(acquired)
            .chain(late)
            .map(|snapshot| snapshot.key.clone())
            .collect();
        if self.contents.iter().all(|(key, _)| named.contains(key)) {
            return;
        }
        self.contents.get_mut().retain(|(key, _)| named.contains(key));
        self.store_mut().keep_snapshots(|key| named.contains(key));
    }
}
