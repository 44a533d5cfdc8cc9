//! State × event tables in tests: every cell written down, every cell tried.
//!
//! A table is text, a line per outcome, so that it can be reviewed as a whole:
//!
//! ```text
//! State | Event, Event | Next: Action, Action
//! State | Event        | reject
//! ```
//!
//! `Next` alone means that nothing is to be done; `=` means that the state stays; `else` stands for the
//! events that no other row of these states names.

use std::collections::BTreeMap;

/// Renders what a step did as a cell: the next state and the actions, or `reject`.
pub(super) fn cell<R>(
    before: &str,
    after: &str,
    stepped: Result<Vec<String>, R>,
    unchanged: bool,
) -> String {
    let Ok(actions) = stepped else {
        assert!(unchanged, "{before}: a rejection changed the state");
        return "reject".to_owned();
    };
    let next = if unchanged { "=" } else { after };
    if actions.is_empty() { next.to_owned() } else { format!("{next}: {}", actions.join(", ")) }
}

/// Compares a table with what the machine does, in every state for every event.
pub(super) fn check(
    table: &str,
    states: &[&str],
    events: &[&str],
    outcome: impl Fn(&str, &str) -> String,
) {
    let mut expected = BTreeMap::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [of, names, cell] = parts[..] else { panic!("not a row: {line}") };
        for state in of.split(',').map(str::trim) {
            assert!(states.contains(&state), "no such state {state}: {line}");
            for event in names.split(',').map(str::trim) {
                assert!(event == "else" || events.contains(&event), "no event {event}: {line}");
                let double = expected.insert((state, event), cell);
                assert!(double.is_none(), "{state} × {event} is in the table twice");
            }
        }
    }
    let mut wrong = Vec::new();
    for state in states {
        // What differs is listed as rows, so that a missing table can be read off the failure.
        let mut rows: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for event in events {
            let is = outcome(state, event);
            let cell = expected.get(&(*state, *event)).or(expected.get(&(*state, "else")));
            if cell.copied() != Some(is.as_str()) {
                rows.entry(is).or_default().push(event);
            }
        }
        for (is, events) in rows {
            wrong.push(format!("{state} | {} | {is}", events.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "cells that are not as in the table:\n{}", wrong.join("\n"));
}
