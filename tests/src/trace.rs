//! Recorded editing sessions. The data are not part of the repository.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use ropey::Rope;
use serde::{Deserialize, Serialize};

/// One change of a text. Positions and lengths are counted in code points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Where it begins.
    pub position: usize,
    /// How many code points go away.
    pub deleted: usize,
    /// What takes their place.
    pub inserted: String,
}

impl Edit {
    /// Changes `text`; `false`, and no change, when the edit does not fit.
    pub fn apply(&self, text: &mut Rope) -> bool {
        match self.position.checked_add(self.deleted) {
            Some(end) if end <= text.len_chars() => {
                text.remove(self.position..end);
                text.insert(self.position, &self.inserted);
                true
            }
            Some(_) | None => false,
        }
    }
}

/// A recorded session: a start, edits, and the text that they must lead to.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The text before the first edit.
    pub start: String,
    /// The edits.
    pub edits: Vec<Edit>,
    /// The text after the last edit.
    pub end: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recording {
    start_content: String,
    end_content: String,
    txns: Vec<Txn>,
}

#[derive(Deserialize)]
struct Txn {
    patches: Vec<(usize, usize, String)>,
}

/// Where the recorded sessions are expected: in `shared/data` beside the repository.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data")
}

/// Reads one session and proves that its edits lead to its end.
///
/// # Panics
/// When the file is not there or is no session; the text says where it is expected.
pub fn load(name: &str) -> Trace {
    let path = folder().join(format!("{name}.json.gz"));
    let file = File::open(&path).unwrap_or_else(|error| {
        panic!(
            "the recorded session {name:?} is missing: expected the file {} ({error}); the data are \
             not part of the repository and belong into the folder shared/data beside it",
            path.display()
        )
    });
    let mut json = Vec::new();
    MultiGzDecoder::new(file).read_to_end(&mut json).expect("gzipped");
    let Recording { start_content, end_content, txns } =
        serde_json::from_slice(&json).expect("a recorded session");
    let edits: Vec<_> = txns
        .into_iter()
        .flat_map(|txn| txn.patches)
        .map(|(position, deleted, inserted)| Edit { position, deleted, inserted })
        .collect();
    let mut text = Rope::from_str(&start_content);
    assert!(edits.iter().all(|edit| edit.apply(&mut text)), "{name}: an edit does not fit");
    assert!(text == end_content.as_str(), "{name}: the edits do not lead to the end");
    Trace { start: start_content, edits, end: end_content }
}
