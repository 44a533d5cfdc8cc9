//! What a writer types: a start, edits in order, and the text they must lead to.

use std::fmt;

use ropey::Rope;
use serde::{Deserialize, Serialize};

/// One change of a document. Positions and lengths are counted in code points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edit {
    /// Where the change begins.
    pub(crate) position: usize,
    /// How many code points go away.
    pub(crate) deleted: usize,
    /// What takes their place.
    pub(crate) inserted: String,
}

impl Edit {
    /// Puts `text` in at `position`.
    pub(crate) fn insert(position: usize, text: impl Into<String>) -> Self {
        Self { position, deleted: 0, inserted: text.into() }
    }

    /// Takes `deleted` code points out at `position`.
    pub(crate) fn delete(position: usize, deleted: usize) -> Self {
        Self { position, deleted, inserted: String::new() }
    }

    /// Changes `text`, or leaves it as it is and says why the edit does not fit.
    pub(crate) fn apply(&self, text: &mut Rope) -> Result<(), OutsideText> {
        let length = text.len_chars();
        match self.position.checked_add(self.deleted) {
            Some(end) if end <= length => {
                text.remove(self.position..end);
                text.insert(self.position, &self.inserted);
                Ok(())
            }
            _ => Err(OutsideText { position: self.position, deleted: self.deleted, length }),
        }
    }
}

/// An edit reached beyond the end of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutsideText {
    position: usize,
    deleted: usize,
    length: usize,
}

impl fmt::Display for OutsideText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, deleted, length } = self;
        write!(f, "it deletes {deleted} code points at {position}, but the text has {length} there")
    }
}

/// Everything one writer does, and what must come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// The text before the first edit.
    pub(crate) start: String,
    /// The edits, in the order in which they are typed.
    pub(crate) edits: Vec<Edit>,
    /// The text after the last edit.
    pub(crate) end: String,
}

impl Script {
    /// Keeps the first `edits` edits; the end is worked out anew.
    pub(crate) fn shortened_to(mut self, edits: usize) -> Result<Self, OutsideText> {
        if edits < self.edits.len() {
            self.edits.truncate(edits);
            let mut text = Rope::from_str(&self.start);
            self.edits.iter().try_for_each(|edit| edit.apply(&mut text))?;
            self.end = text.to_string();
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_code_points() {
        let mut text = Rope::from_str("né 漢字");
        Edit { position: 3, deleted: 1, inserted: "🦀".into() }.apply(&mut text).unwrap();
        assert_eq!(text.to_string(), "né 🦀字");
    }

    #[test]
    fn an_edit_outside_the_text_changes_nothing() {
        for edit in [Edit::insert(4, "x"), Edit::delete(1, 3), Edit::delete(1, usize::MAX)] {
            let mut text = Rope::from_str("abc");
            edit.apply(&mut text).unwrap_err();
            assert_eq!(text.to_string(), "abc");
        }
    }

    #[test]
    fn a_shortened_script_ends_where_its_edits_lead() {
        let script = Script {
            start: "a".into(),
            edits: vec![Edit::insert(1, "b"), Edit::insert(2, "c")],
            end: "abc".into(),
        };
        assert_eq!(script.clone().shortened_to(1).unwrap().end, "ab");
        assert_eq!(script.clone().shortened_to(9).unwrap(), script);
    }
}
