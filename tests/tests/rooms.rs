//! Whole-system tests; one binary, a module per topic.
