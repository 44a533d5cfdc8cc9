//! Which subscription gets what is published on a channel.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use tokio::sync::mpsc;

struct Target {
    sender: mpsc::Sender<(Bytes, Bytes)>,
    channels: HashSet<Bytes>,
}

/// Which subscription gets what is published on a channel.
#[derive(Default)]
pub(super) struct Routes {
    /// The connection that these are subscribed on.
    pub(super) conn: u64,
    channels: HashMap<Bytes, Vec<u64>>,
    targets: HashMap<u64, Target>,
}

impl Routes {
    pub(super) fn insert(&mut self, id: u64, sender: mpsc::Sender<(Bytes, Bytes)>) {
        self.targets.insert(id, Target { sender, channels: HashSet::new() });
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.targets.contains_key(&id)
    }

    /// Routes channels to a subscription; gives those that nobody had before.
    pub(super) fn add(&mut self, id: u64, channels: Vec<Bytes>) -> Vec<Bytes> {
        let Some(target) = self.targets.get_mut(&id) else { return Vec::new() };
        let mut fresh = Vec::new();
        for channel in channels {
            if target.channels.insert(channel.clone()) {
                let ids = self.channels.entry(channel.clone()).or_default();
                if ids.is_empty() {
                    fresh.push(channel);
                }
                ids.push(id);
            }
        }
        fresh
    }

    /// Routes channels to a subscription no more; gives those that nobody has now.
    fn remove(&mut self, id: u64, channels: &[Bytes]) -> Vec<Bytes> {
        let Some(target) = self.targets.get_mut(&id) else { return Vec::new() };
        let mut unused = Vec::new();
        for channel in channels {
            if target.channels.remove(channel)
                && let Some(ids) = self.channels.get_mut(channel)
            {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.channels.remove(channel);
                    unused.push(channel.clone());
                }
            }
        }
        unused
    }

    /// Forgets a subscription; gives the channels that nobody has now.
    pub(super) fn forget(&mut self, id: u64) -> Vec<Bytes> {
        let Some(target) = self.targets.get(&id) else { return Vec::new() };
        let channels: Vec<Bytes> = target.channels.iter().cloned().collect();
        let unused = self.remove(id, &channels);
        self.targets.remove(&id);
        unused
    }

    /// Hands a message out. Gives the subscriptions whose queue was full: they must end, or they would
    /// miss it unknowingly.
    pub(super) fn publish(&self, channel: &Bytes, payload: &Bytes) -> Vec<u64> {
        let Some(ids) = self.channels.get(channel) else { return Vec::new() };
        let mut full = Vec::new();
        for id in ids {
            let Some(target) = self.targets.get(id) else { continue };
            if target.sender.try_send((channel.clone(), payload.clone())).is_err() {
                full.push(*id);
            }
        }
        full
    }

    /// The subscriptions that have a channel.
    pub(super) fn having(&self, channel: &Bytes) -> Vec<u64> {
        self.channels.get(channel).cloned().unwrap_or_default()
    }

    /// Ends all streams.
    pub(super) fn clear(&mut self) {
        self.channels.clear();
        self.targets.clear();
    }
}
