//! The document itself: what travels when the room moves.

use ropey::Rope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ballast::Ballast;
use super::journal::{Journal, Run, SenderId};
use super::script::Edit;

/// Runs in one page of the journal; a page is one message, and a message holds 1 MiB.
const RUNS_PER_PAGE: usize = 16 << 10;
/// Code points in one page of the text: 256 KiB at the most.
const CODE_POINTS_PER_PAGE: usize = 64 << 10;

/// The state of a document room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DocumentState {
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    text: Rope,
    journal: Journal,
    misfits: u64,
    ballast: Ballast,
}

impl DocumentState {
    /// An untouched document.
    pub(crate) fn new(text: &str, ballast: Ballast) -> Self {
        Self { text: Rope::from_str(text), journal: Journal::default(), misfits: 0, ballast }
    }

    /// Takes one edit. One that does not fit is counted, not obeyed: an earlier one must be missing,
    /// and the run is to show that, not to end on it.
    pub(crate) fn edit(&mut self, from: SenderId, number: u64, edit: &Edit, epoch: u64) {
        self.note(from, number, epoch);
        self.misfits += u64::from(edit.apply(&mut self.text).is_err());
    }

    /// Writes a message into the journal, and in which epoch of the room it was handled.
    pub(crate) fn note(&mut self, from: SenderId, number: u64, epoch: u64) {
        self.journal.note(from, number, epoch);
    }

    /// The text after the first `from` code points, as far as it fits into one message. Empty at the
    /// end.
    pub(crate) fn text_page(&self, from: usize) -> String {
        let length = self.text.len_chars();
        let from = from.min(length);
        self.text.slice(from..length.min(from + CODE_POINTS_PER_PAGE)).to_string()
    }

    /// The journal after the first `from` runs, as far as it fits into one message. Empty at the end.
    pub(crate) fn journal_page(&self, from: usize) -> Vec<Run> {
        self.journal.page(from, RUNS_PER_PAGE)
    }

    /// How many edits did not fit.
    pub(crate) fn misfits(&self) -> u64 {
        self.misfits
    }

    /// The sum of the ballast.
    pub(crate) fn ballast_sha256(&self) -> String {
        self.ballast.sha256()
    }
}

fn as_text<S: Serializer>(text: &Rope, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text.to_string())
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rope, D::Error> {
    String::deserialize(deserializer).map(Rope::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> DocumentState {
        DocumentState::new(text, Ballast::new(10, 0))
    }

    fn whole_text(document: &DocumentState) -> String {
        let mut text = String::new();
        loop {
            match document.text_page(text.chars().count()) {
                page if page.is_empty() => return text,
                page => text.push_str(&page),
            }
        }
    }

    #[test]
    fn it_travels_whole() {
        let mut before = document("né");
        before.edit(0, 1, &Edit::insert(2, "漢"), 1);
        before.edit(0, 2, &Edit::insert(9, "x"), 1);
        before.note(5, 1, 1);
        let json = serde_json::to_vec(&before).unwrap();
        let after: DocumentState = serde_json::from_slice(&json).unwrap();
        assert_eq!(whole_text(&after), "né漢");
        assert_eq!(after.journal, before.journal);
        assert_eq!(after.misfits(), 1);
        assert_eq!(after.ballast, before.ballast);
    }

    #[test]
    fn pages_join_to_the_whole_text() {
        let text: String = "aé漢🦀".chars().cycle().take(2 * CODE_POINTS_PER_PAGE + 1).collect();
        assert_eq!(whole_text(&document(&text)), text);
        assert_eq!(document("abc").text_page(usize::MAX), "");
    }

    #[test]
    fn an_edit_that_does_not_fit_is_counted_and_journaled() {
        let mut document = document("abc");
        document.edit(0, 1, &Edit::delete(2, 2), 1);
        assert_eq!(document.misfits(), 1);
        assert_eq!(
            document.journal_page(0),
            [Run { sender: 0, first: 1, count: 1, begun: 1, ended: 1 }]
        );
        assert_eq!(whole_text(&document), "abc");
    }
}
