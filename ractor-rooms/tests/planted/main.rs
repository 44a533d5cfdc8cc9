//! Transports that break one clause each: the suite must notice every one.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test panic as the test does"
)]

mod bugs;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor_rooms::protocol::record::RecordLimits;
use ractor_rooms::testing::{MemorySubject, Subject, conformance, differential};
use ractor_rooms::transport::Transport;

use bugs::{Bug, Planted};

#[derive(Debug)]
struct PlantedSubject {
    memory: MemorySubject,
    transport: Planted,
}

impl PlantedSubject {
    fn new(bug: Bug) -> Self {
        let memory = MemorySubject::new();
        let inner = memory.transport().clone();
        Self { memory, transport: Planted { bug, inner, kept: Arc::default() } }
    }
}

impl Subject for PlantedSubject {
    fn connect(&self) -> BoxFuture<'_, Arc<dyn Transport>> {
        let transport: Arc<dyn Transport> = Arc::new(self.transport.clone());
        std::future::ready(transport).boxed()
    }

    fn ttl(&self) -> Duration {
        self.memory.ttl()
    }

    fn limits(&self) -> RecordLimits {
        self.memory.limits()
    }

    fn let_sessions_lapse(&self) -> BoxFuture<'_, ()> {
        self.memory.let_sessions_lapse()
    }

    fn begin_generation(&self) -> BoxFuture<'_, bool> {
        self.memory.begin_generation()
    }

    fn forget(&self) -> BoxFuture<'_, bool> {
        self.memory.forget()
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn quiet(&self) -> Duration {
        self.memory.quiet()
    }
}

macro_rules! caught_by_the_suite {
    ($($name:ident: $bug:ident by $check:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let subject = Arc::new(PlantedSubject::new(Bug::$bug));
            let outcome = conformance::outcome(stringify!($check), subject).await;
            assert!(outcome.is_err(), "{} passes with {:?}", stringify!($check), Bug::$bug);
        }
    )*};
}

caught_by_the_suite! {
    duplicates: AcceptsDuplicates by append_again_is_a_duplicate;
    duplicates_in_a_crowd: AcceptsDuplicates by crowd_of_copies_is_taken_once;
    parts: AcceptsPartsAsWhole by append_of_old_and_new_is_partial;
    producer_epoch: IgnoresProducerEpoch by append_under_an_old_producer_epoch_is_fenced;
    withdrawal: IgnoresProducerEpoch by append_of_nothing_is_a_withdrawal;
    life: IgnoresLife by append_to_another_life_is_refused;
    life_of_the_reborn: BornAgainInTheSameLife by closed_room_is_born_again;
    owner: IgnoresOwnerInFence by fences_compare_the_owner;
    epoch: IgnoresEpochInFence by fences_compare_the_epoch;
    checkpoint_trim: ForgetsToTrimAtCheckpoint by checkpoint_flips_and_trims;
    ack_trim: ForgetsToTrimAtAck by ack_trims;
    late_checkpoint: LateCheckpointTurnsBack by late_checkpoint_changes_nothing;
    epochs: ReusesEpochs by epochs_grow_above_the_floor;
    compare: AcquireForgetsToCompare by acquire_compares_what_was_seen;
    repeated_acquire: RepeatedAcquireIsRefused by acquire_repeats_by_activation;
    page: AcquireBringsNoPage by acquire_brings_a_page;
    carried: CarriesNothing by snapshot_may_come_along;
    notices: NoticesAreOld by offers_are_told;
    repeated_park: RepeatedParkIsDone by park_commits_once;
    offers: OverwritesOffers by offer_is_not_overwritten;
    declines: AnyoneDeclines by decline_parks_the_room;
    close: ClosesUndrained by close_waits_for_the_log;
    settle: SettleForgetsTheHead by settle_is_noted;
    pages: IgnoresThePageBound by log_is_read_in_pages;
    more: PagesForgetMore by log_is_read_in_pages;
    history: HistoryCountsFromOne by history_is_bounded;
    failures: CountsFailuresOfAny by failures_are_counted;
    positions: PositionsBeginAnew by checkpoint_flips_and_trims;
    sessions: LapsedSessionsComeBack by lapsed_session_stays_lapsed;
    unrest: UnrestForgetsTheDead by unrest_names_the_rooms_of_the_dead;
    unrest_pages: UnrestIgnoresAfter by unrest_has_pages;
    owned: OwnedForgetsHeads by owned_follows_the_leases;
    inbox: InboxIgnoresAfter by inbox_keeps_letters_until_read;
    post: PostsToAnyone by inbox_belongs_to_an_incarnation;
    pushes: PushesNothing by entries_go_to_the_owner;
    push_epoch: PushesUnderAnOldEpoch by entries_go_to_the_owner;
    streams: OldStreamStays by second_stream_replaces_the_first;
    closed_stream: OldStreamStays by closed_session_ends_its_stream;
    snapshots: SnapshotsAreOverwritten by snapshot_bytes_live_as_long_as_their_pointer;
    old_snapshots: SnapshotsStay by snapshot_bytes_live_as_long_as_their_pointer;
    cut_keys: KeysAreCut by odd_keys_stay_apart;
    text_keys: KeysAreText by odd_keys_stay_apart;
    full: FullDropsTheOldest by full_log_refuses_entries;
    seq: AnswersAnOldSeq by append_again_is_a_duplicate;
    equal_epoch: ProvesByEqualEpochAlone by lease_of_another_generation_is_refused;
    early_acquire: AcquiresBeforeTheReasserts by nobody_takes_a_room_before_the_reasserts;
    newer_owner: ReassertsOverANewerOwner by reassert_gives_way_to_a_newer_owner;
    stored_cursor: ReassertKeepsTheOwnersCursor by reassert_reads_the_log_again;
}

macro_rules! found_by_comparison {
    ($($name:ident: $bug:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            for seed in 0..50 {
                let subject = PlantedSubject::new(Bug::$bug);
                if differential::compare(&subject, seed, 300).await.is_err() {
                    return;
                }
            }
            panic!("{:?} was not found", Bug::$bug);
        }
    )*};
}

found_by_comparison! {
    compared_duplicates: AcceptsDuplicates;
    compared_parts: AcceptsPartsAsWhole;
    compared_producer_epoch: IgnoresProducerEpoch;
    compared_owner: IgnoresOwnerInFence;
    compared_epoch: IgnoresEpochInFence;
    compared_checkpoint_trim: ForgetsToTrimAtCheckpoint;
    compared_ack_trim: ForgetsToTrimAtAck;
    compared_late_checkpoint: LateCheckpointTurnsBack;
    compared_epochs: ReusesEpochs;
    compared_acquire: AcquireForgetsToCompare;
    compared_park: RepeatedParkIsDone;
    compared_offers: OverwritesOffers;
    compared_close: ClosesUndrained;
    compared_pages: IgnoresThePageBound;
    compared_positions: PositionsBeginAnew;
    compared_sessions: LapsedSessionsComeBack;
    compared_unrest: UnrestForgetsTheDead;
    compared_owned: OwnedForgetsHeads;
    compared_inbox: InboxIgnoresAfter;
    compared_seq: AnswersAnOldSeq;
    compared_equal_epoch: ProvesByEqualEpochAlone;
    compared_early_acquire: AcquiresBeforeTheReasserts;
    compared_newer_owner: ReassertsOverANewerOwner;
    compared_stored_cursor: ReassertKeepsTheOwnersCursor;
}
