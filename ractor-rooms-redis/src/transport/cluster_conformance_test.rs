//! The conformance suite on a cluster of three masters: in one test, since a cluster takes long to form.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use ractor_rooms::testing::conformance::{self, CHECKS};

use super::bench::{Place, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_clause_holds_on_a_cluster() {
    let place = Place::cluster().await;
    let checks = stream::iter(CHECKS).map(|check| {
        let store = Arc::new(Store::at(place.clone(), check.name.to_owned()));
        async move {
            let outcome = conformance::outcome(check.name, store).await;
            outcome.err().map(|text| format!("{}: {text}", check.name))
        }
    });
    let broken: Vec<String> =
        checks.buffer_unordered(16).filter_map(std::future::ready).collect().await;
    assert!(broken.is_empty(), "{} clauses are broken: {broken:#?}", broken.len());
}
