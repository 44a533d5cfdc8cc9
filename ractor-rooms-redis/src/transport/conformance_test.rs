use super::bench::Store;

ractor_rooms::conformance_suite!(Store::new().await);
