//! The conformance suite: one check a clause of the contract, for any transport.
//!
//! [`conformance_suite!`](crate::conformance_suite) makes one test of each. The list of checks exists
//! once, in `for_each_conformance_check!`; a check that is not in it is dead code and does not compile
//! without a warning.

mod acquire;
mod append;
mod bench;
mod crowd;
mod generation;
mod index;
mod log;
mod offer;
mod owner;
mod push;
mod session;

use std::sync::Arc;

use futures::future::BoxFuture;

use super::Subject;

/// One check of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name, which says the clause.
    pub name: &'static str,
    check: for<'a> fn(&'a dyn Subject) -> BoxFuture<'a, ()>,
}

impl Check {
    /// Runs it on a subject that is empty.
    ///
    /// # Panics
    /// When the transport breaks the clause.
    pub async fn run(&self, subject: &dyn Subject) {
        (self.check)(subject).await;
    }
}

/// Gives the names of all checks to another macro, by module.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_conformance_check {
    ([$($then:tt)*] $($arguments:tt)*) => {
        $($then)*! {
            [$($arguments)*]
            append: append_takes_the_next_number, append_again_is_a_duplicate, append_of_old_and_new_is_partial, append_beyond_the_next_number_is_a_gap, append_under_an_old_producer_epoch_is_fenced, append_of_nothing_is_a_withdrawal, withdrawal_needs_no_space, full_log_refuses_entries, full_log_refuses_bytes, append_to_another_life_is_refused, append_to_a_missing_room, batches_keep_their_order_and_bytes, append_answers_the_standing, pruned_producers_are_fenced, rooms_are_not_pruned, record_full_of_rooms_refuses_producers;
            acquire: acquire_needs_a_record, acquire_needs_an_own_session, acquire_gives_a_lease, acquire_repeats_by_activation, acquire_compares_what_was_seen, acquire_is_refused_while_the_owner_lives, acquire_after_the_owner_died, acquire_by_the_next_incarnation, acquire_after_a_park, acquire_respects_an_offer, acquire_says_that_the_snapshot_is_lost, acquire_gives_the_snapshot, acquire_brings_a_page, epochs_grow_above_the_floor, births_respect_the_floor, acquire_has_one_winner;
            offer: offer_makes_a_room, offer_is_not_overwritten, offer_to_the_same_host_is_renewed, offer_gives_way_when_over_or_to_the_dead, offer_clears_a_dead_owner_only, decline_parks_the_room, failed_adoptions_block_the_room, source_of_a_blocked_room_goes_on, busy_hosts_do_not_block_a_room, settled_room_forgets_failures, failed_park_counts_as_a_decline;
            owner: fences_compare_the_epoch, fences_compare_the_owner, fences_refuse_an_old_lease, settle_is_noted, checkpoint_flips_and_trims, late_checkpoint_changes_nothing, pointer_needs_its_bytes, checkpoint_forgets_crashes, snapshot_bytes_live_as_long_as_their_pointer, snapshot_bytes_may_be_named_again, newer_attempts_outlive_a_commit, ack_trims, park_commits_once, park_with_an_offer_is_a_move, park_with_an_old_snapshot_keeps_the_newer, snapshot_may_come_along;
            log: log_is_read_in_pages, log_is_read_after_a_trim, emit_takes_each_number_once, history_is_bounded, history_has_no_holes, close_waits_for_the_log, forced_close_keeps_dead_letters, closed_room_leaves_a_tombstone, closed_room_is_born_again, failures_are_counted, dead_letters_are_kept;
            index: owned_follows_the_leases, unrest_names_what_needs_somebody, unrest_names_the_rooms_of_the_dead, unrest_has_pages, odd_keys_stay_apart;
            session: session_is_one_a_host, session_is_renewed, lapsed_session_stays_lapsed, session_is_closed, incarnations_never_repeat, inbox_keeps_letters_until_read, inbox_belongs_to_an_incarnation;
            push: entries_go_to_the_owner, offers_are_told, source_is_told_of_the_adopter, source_is_told_of_a_decline, events_go_to_watchers, closing_is_told_to_watchers, letters_are_pushed, second_stream_replaces_the_first, closed_session_ends_its_stream;
            generation: lease_of_another_generation_is_refused, reassert_proves_a_lease, reassert_repeats_by_activation, reassert_brings_back_what_was_lost, reassert_gives_way_to_a_newer_owner, reassert_reads_the_log_again, forgotten_session_is_renewed, nobody_takes_a_room_before_the_reasserts, unproved_record_tells_no_number, time_ends_the_doubts, pushes_name_their_generation, lost_record_is_for_its_owner, lost_record_without_an_owner_begins_anew;
            crowd: crowd_of_producers_keeps_order, crowd_of_copies_is_taken_once, crowd_is_pushed_as_it_is_logged;
        }
    };
}

macro_rules! list {
    ([] $($module:ident: $($name:ident),*;)*) => {
        /// Every check, once.
        pub const CHECKS: &[Check] = &[$($(Check {
            name: stringify!($name),
            check: |subject| {
                Box::pin(async move { $module::$name(&bench::Bench::new(subject).await).await })
            },
        },)*)*];
    };
}
for_each_conformance_check!([list]);

/// Runs the check of that name.
///
/// # Panics
/// When the transport breaks the clause, or there is no such check.
pub async fn run(name: &str, subject: &dyn Subject) {
    let check = CHECKS.iter().find(|check| check.name == name);
    check.unwrap_or_else(|| panic!("there is no check {name}")).run(subject).await;
}

/// Runs the check of that name in a task of its own, and gives what it panicked with as an error.
///
/// # Errors
/// The text of the panic.
pub async fn outcome(name: &'static str, subject: Arc<dyn Subject>) -> Result<(), String> {
    let task = tokio::spawn(async move { run(name, &*subject).await });
    let Err(error) = task.await else {
        return Ok(());
    };
    let panic = match error.try_into_panic() {
        Ok(panic) => panic,
        Err(error) => return Err(error.to_string()),
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    Err(text.unwrap_or_else(|| "it panicked".to_owned()))
}

/// Makes one `#[tokio::test]` of each check. The subject is an expression that is evaluated for each
/// test, and gives an empty store each time.
///
/// The crate that uses it needs `tokio` with the features `rt` and `macros`.
///
/// ```
/// use ractor_rooms::testing::MemorySubject;
///
/// # #[cfg(test)]
/// mod memory {
///     use super::MemorySubject;
///     ractor_rooms::conformance_suite!(MemorySubject::new());
/// }
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($subject:expr) => {
        $crate::for_each_conformance_check! { [$crate::conformance_tests] $subject }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ([$subject:expr] $($module:ident: $($name:ident),*;)*) => {
        $($(
            #[::tokio::test]
            async fn $name() {
                let subject = $subject;
                $crate::testing::conformance::run(stringify!($name), &subject).await;
            }
        )*)*
    };
}
