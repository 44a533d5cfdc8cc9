//! What is seen while the documents are typed: edits done, and where each room is.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::names;

/// More rooms than this do not fit beside the bar.
const ROOMS_SHOWN: usize = 4;

/// A bar on stderr if that is a terminal, and lines if it is not.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    drawn: bool,
    places: Mutex<Vec<Option<u32>>>,
}

impl Progress {
    /// A bar for `edits` edits in `rooms` rooms.
    pub(crate) fn new(edits: u64, rooms: u32) -> Self {
        let drawn = std::io::stderr().is_terminal();
        let target =
            if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} edits  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(edits), target).with_style(style);
        Self { bar, drawn, places: Mutex::new(vec![None; rooms as usize]) }
    }

    /// One more edit was accepted.
    pub(crate) fn typed(&self) {
        self.bar.inc(1);
    }

    /// Whether some edits were accepted and some not yet.
    pub(crate) fn is_under_way(&self) -> bool {
        let done = self.bar.position();
        done > 0 && self.bar.length().is_some_and(|all| done < all)
    }

    /// The room answered from this host.
    pub(crate) fn seen(&self, room: u32, host: u32) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get_mut(room as usize) {
            *place = Some(host);
        }
        self.bar.set_message(describe(&places));
    }

    /// Says how far it is, unless the bar says it.
    pub(crate) fn tell(&self) {
        if !self.drawn {
            eprintln!("{}", self.line());
        }
    }

    fn line(&self) -> String {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let [done, all] = [Some(self.bar.position()), self.bar.length()]
            .map(|count| HumanCount(count.unwrap_or_default()));
        format!("{done} of {all} edits  {}", describe(&places)).trim_end().to_owned()
    }

    /// Takes the bar away and says how long it stood.
    pub(crate) fn finish(&self) -> Duration {
        self.bar.finish_and_clear();
        self.bar.elapsed()
    }
}

fn describe(places: &[Option<u32>]) -> String {
    let rooms = (0..).zip(places).filter_map(|(room, place)| {
        place.map(|host| format!("{} on {}", names::document(room), names::host(host)))
    });
    let shown: Vec<String> = rooms.take(ROOMS_SHOWN).collect();
    let more = if places.len() > ROOMS_SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_shown_where_they_were_last_seen() {
        assert_eq!(describe(&[Some(1), None, Some(0)]), "doc-0 on host-b, doc-2 on host-a");
        assert_eq!(describe(&[None]), "");
        assert!(describe(&[Some(0); 5]).ends_with("doc-3 on host-a, ..."));
    }

    #[test]
    fn a_line_says_how_far_it_is_and_where() {
        let progress = Progress::new(2000, 1);
        assert_eq!(progress.line(), "0 of 2,000 edits");
        (0..1001).for_each(|_| progress.typed());
        progress.seen(0, 2);
        assert_eq!(progress.line(), "1,001 of 2,000 edits  doc-0 on host-c");
    }
}
