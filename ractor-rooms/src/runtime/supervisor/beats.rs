//! Heartbeats that are under way.

use crate::protocol::session::SessionSpec;

/// Heartbeats that are not answered yet. Each is a task of its own, because one that hangs must not keep the next
/// from being sent, so that the store may take two of them in the other order: what the later one said is undone
/// by the earlier, until the next one, a third of a session on. A host that has proved what it runs would keep
/// every other from taking up rooms for as long.
#[derive(Debug, Default)]
pub(super) struct Beats {
    under_way: u32,
    last: Option<SessionSpec>,
    /// One that says something else was sent while another was under way.
    unsure: bool,
}

impl Beats {
    /// One is sent.
    pub(super) fn sent(&mut self, spec: &SessionSpec) {
        let changed = self.last.as_ref() != Some(spec);
        self.unsure |= self.under_way > 0 && changed;
        self.under_way = self.under_way.saturating_add(1);
        if changed {
            self.last = Some(spec.clone());
        }
    }

    /// One was answered, or will not be. Whether to send another, because the store may have taken the last ones
    /// in any order.
    pub(super) fn ended(&mut self) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        self.under_way == 0 && std::mem::take(&mut self.unsure)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::id::Generation;
    use crate::protocol::session::HostState;

    fn proved(generation: u64) -> SessionSpec {
        SessionSpec {
            state: HostState::Ready,
            load: 0,
            capacity: 1,
            weight: 1,
            kinds: BTreeMap::new(),
            proved: Generation(generation),
            holds: None,
        }
    }

    #[test]
    fn what_was_said_while_another_was_under_way_is_said_again() {
        let mut beats = Beats::default();
        beats.sent(&proved(1));
        beats.sent(&proved(2));
        beats.sent(&proved(2));
        assert!(!beats.ended() && !beats.ended(), "the last may yet come first");
        assert!(beats.ended());
        beats.sent(&proved(2));
        assert!(!beats.ended(), "once");
    }

    #[test]
    fn the_same_in_any_order_is_the_same() {
        let mut beats = Beats::default();
        beats.sent(&proved(1));
        beats.sent(&proved(1));
        assert!(!beats.ended() && !beats.ended());
        beats.sent(&proved(2));
        assert!(!beats.ended(), "one after the other");
    }
}
