//! The in-process transport keeps the contract.
#![cfg(feature = "testing")]

mod memory {
    use ractor_rooms::testing::MemorySubject;

    ractor_rooms::conformance_suite!(MemorySubject::new());
}

/// Time that goes on with every call, so that positions and epochs have gaps.
mod ticking_memory {
    use ractor_rooms::testing::MemorySubject;

    ractor_rooms::conformance_suite!(MemorySubject::ticking());
}
