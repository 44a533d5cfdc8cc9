//! What the documents say of the tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The names in backticks that look like those of tests: several words in small letters.
fn named(document: &str) -> BTreeSet<&str> {
    let is_test = |name: &&str| {
        name.matches('_').count() > 3
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    document.split('`').skip(1).step_by(2).filter(is_test).collect()
}

#[test]
fn every_test_that_the_table_of_faults_names_is_there() {
    let mut all = String::new();
    for folder in
        ["tests/tests", "ractor-rooms/src", "ractor-rooms-redis/tests", "ractor-rooms-redis/src"]
    {
        sources(&root().join(folder), &mut all);
    }
    let document = std::fs::read_to_string(root().join("ractor-rooms/docs/faults.md")).unwrap();
    let named = named(&document);
    assert!(named.len() > 40, "only {} tests are named", named.len());
    let is_there = |name: &&str| {
        let beginnings = [format!("fn {name}("), format!(" {name}("), format!(" {name};")];
        beginnings.iter().any(|text| all.contains(text.as_str()))
    };
    let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "there are no tests with these names: {missing:?}");
}
