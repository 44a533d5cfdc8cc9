//! What an observer who sees everything makes of a state.

use super::configs::Config;
use super::world::{Code, Content, World, bit, room, sent};
use crate::protocol::consumer::Intake;
use crate::protocol::invariants::{
    Broken, Rest, Sent, Verdict, i2_handled_once, i3_in_one_place, i4_in_order, i6_at_rest,
    i10_reported,
};
use crate::protocol::record::Phase;

fn marks(codes: impl IntoIterator<Item = Code>) -> Vec<Sent> {
    codes.into_iter().map(sent).collect()
}

fn set(bits: u64) -> Vec<Sent> {
    marks((0..64).filter(|code| bits & bit(*code) != 0))
}

impl World {
    /// The room as it would go on if every host died now.
    fn stored(&self) -> Content {
        let record = self.store.record(&room());
        let snapshot = record.and_then(|r| r.snapshot.as_ref());
        let Some(pointer) = snapshot else { return Content::empty() };
        let Some(mut content) = self.content(&pointer.key).cloned() else {
            return Content::empty();
        };
        // As it is restored: after a re-assert the log is read again from where the store had it.
        content.consumer.read_again_from(pointer.cursor, pointer.cursor_seq);
        content
    }

    /// The room as it goes on if nobody dies: in the memory of the one who has the lease.
    fn present(&self) -> Content {
        let Some(lease) = self.store.record(&room()).and_then(|r| r.lease()) else {
            return self.stored();
        };
        for host in self.hosts.iter().filter(|h| h.up) {
            if let Some(run) = host.run.as_ref().filter(|run| run.lease == lease) {
                return run.content();
            }
            let leaving = host.leaving.as_ref().filter(|leaving| leaving.lease == lease);
            if let Some(cut) = leaving.and_then(|leaving| leaving.cut.as_ref()) {
                return self.content(&cut.key).cloned().unwrap_or_else(Content::empty);
            }
        }
        self.stored()
    }

    /// What the log still has for a room that is this far.
    fn waiting(&self, content: &Content) -> Vec<Code> {
        let mut consumer = content.consumer.clone();
        let mut waiting = Vec::new();
        let log = self.store.record(&room()).into_iter().flat_map(|r| r.log.iter());
        for entry in log.filter(|entry| content.consumer.is_behind(entry.position)) {
            if let Intake::Take { skip } = consumer.read(entry) {
                for (index, message) in entry.batch.iter().enumerate().skip(skip) {
                    consumer.took(entry, index);
                    waiting.push(message[0]);
                }
            }
        }
        waiting
    }

    /// Every message that somebody has who will bring it back: the store, a host that may still prove the
    /// room, or who sent it.
    fn remembered(&self, stored: &Content) -> u64 {
        let waiting = self.waiting(stored);
        let living = self.hosts.iter().filter(|h| h.up && !h.lapsed);
        let mut all: Vec<Code> = [&stored.state[..], &waiting].concat();
        for host in living {
            let frozen = host.leaving.as_ref();
            let cut = frozen.and_then(|l| self.content(&l.cut.as_ref()?.key)).cloned();
            let held = frozen.and_then(|l| Some(l.held.as_ref()?.0.content()));
            let running = host.run.as_ref().map(|run| run.content());
            for content in [cut, held, running].into_iter().flatten() {
                all.extend(content.state.into_iter().chain(content.mailbox));
            }
        }
        for place in self.places.iter().filter(|p| !p.dead) {
            all.extend(place.queue.iter().chain(&place.window).chain(&place.held));
        }
        all.into_iter().fold(0, |all, code| all | bit(code))
    }

    /// Whether everybody has done what a new generation asks for.
    fn is_settled(&self, config: &Config) -> bool {
        let sent = |p: &super::world::Place| {
            !p.forgotten && p.queue.is_empty() && p.held.is_empty() && !p.sender.in_flight()
        };
        let leaves = |h: usize| self.hosts[h].up && self.hosts[h].leaving.is_some();
        self.places.iter().all(|p| p.dead || sent(p))
            && (0..self.hosts.len()).all(|h| !self.has_stale(config, h) && !leaves(h))
    }

    /// The first invariant that does not hold here.
    pub(super) fn check(&self, config: &Config) -> Verdict {
        if let Some(broken) = &self.ghost.broken {
            return Err(broken.clone());
        }
        let ghost = &self.ghost;
        let at_rest = ghost.regressed && self.is_settled(config);
        let former = self.observe_all() & ghost.former;
        let live_again =
            self.store.record(&room()).is_some_and(|r| !matches!(r.phase, Phase::Closed { .. }));
        if former != 0 && live_again {
            let what = format!("{:?} of a former life is back", set(former));
            return Err(Broken { invariant: "I2", what });
        }
        let stored = self.stored();
        i4_in_order(&marks(stored.state.iter().copied()))?;
        if config.durable {
            let acknowledged = set(ghost.acknowledged & !ghost.former);
            let waiting = marks(self.waiting(&stored));
            let state = marks(stored.state.iter().copied());
            if !ghost.regressed {
                i2_handled_once(&acknowledged, &set(ghost.refused), &state, &waiting)?;
            } else {
                let reported = ghost.reported | ghost.former;
                let owed = set(if at_rest { ghost.acknowledged & !reported } else { 0 });
                i2_handled_once(&owed, &set(ghost.refused), &state, &waiting)?;
                let there = set(self.remembered(&stored));
                i10_reported(&set(ghost.acknowledged), &there, &set(reported))?;
            }
        }
        if ghost.faulted || config.budget.closes > 0 || (ghost.regressed && !at_rest) {
            return Ok(());
        }
        let present = self.present();
        let waiting = self.waiting(&present);
        let Content { state, mailbox, .. } = present;
        let mut places: Vec<Code> = [state, mailbox, waiting].concat();
        let there = places.iter().fold(0, |all, code| all | bit(*code));
        let queued =
            self.places.iter().flat_map(|p| p.queue.iter().chain(&p.held).chain(&p.admitted));
        // A message whose append was not answered is in the queue and may be in the log as well.
        places.extend(queued.filter(|code| there & bit(**code) == 0));
        let sent = self.places.iter().flat_map(|p| p.sent_codes());
        let given_up = ghost.refused | ghost.unknown | ghost.reported;
        let sent = sent.filter(|code| given_up & bit(*code) == 0);
        i3_in_one_place(&marks(sent), &marks(places))
    }

    /// Whether everything has ended well.
    pub(super) fn is_good(&self, config: &Config) -> bool {
        let mut rest = Rest::default();
        for (at, place) in self.places.iter().enumerate().filter(|(_, p)| !p.dead) {
            let mine = (0..2).filter(|s| config.place_of(*s) == at);
            let unsent: u8 = mine.map(|s| config.messages[s] - place.next[s]).sum();
            let unheard =
                place.queue.len() + place.held.len() + usize::from(place.admitted.is_some());
            rest.unsettled += usize::from(unsent) + unheard + usize::from(place.sender.in_flight());
        }
        for host in self.hosts.iter().filter(|h| h.up) {
            rest.open += usize::from(host.adopter.is_some()) + usize::from(host.leaving.is_some());
        }
        rest.open += (0..self.hosts.len()).filter(|h| self.has_stale(config, *h)).count();
        rest.open += self.places.iter().filter(|p| p.forgotten).count();
        rest.open += usize::from(config.events && self.member_is_behind());
        rest.open += self
            .hosts
            .iter()
            .filter_map(|h| h.run.as_ref())
            .filter(|r| !r.pending.is_empty())
            .count();
        let Some(record) = self.store.record(&room()) else {
            rest.named_reason = true;
            return i6_at_rest(&rest);
        };
        match &record.phase {
            Phase::Running => {
                let lease = record.lease();
                let run = self.hosts.iter().filter(|h| h.up && self.store.is_alive(&h.incarnation));
                let mut run = run.filter_map(|h| h.run.as_ref());
                let run = run.find(|run| run.live && Some(&run.lease) == lease.as_ref());
                rest.runs = run.is_some();
                if let Some(run) = run {
                    rest.work = run.mailbox.len() + self.waiting(&run.content()).len();
                }
            }
            Phase::Parked { .. } => {
                rest.named_reason = true;
                let content = self.stored();
                rest.work = content.mailbox.len() + self.waiting(&content).len();
            }
            Phase::Closed { .. } => rest.named_reason = true,
            Phase::Offered { .. } => {}
        }
        i6_at_rest(&rest)
    }
}
