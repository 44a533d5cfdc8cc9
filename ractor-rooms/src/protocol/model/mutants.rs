//! The same search with a rule taken away: each must turn red, and for the reason that the rule is there
//! for. Where two rules guard the same thing, taking one away stays green and taking both turns red.

use super::configs::*;
use super::explore::{Outcome, explore};

fn red(name: &str, config: Config, mutant: Mutant, invariants: &[&str]) {
    let found = explore(&Config { mutant: Some(mutant), ..config });
    match found.outcome {
        Outcome::Red { broken, trace } => {
            println!("{name}: {broken} ({} states)\n  {}", found.states, trace.join("\n  "));
            assert!(invariants.contains(&broken.invariant), "{name}: red for {broken}");
        }
        Outcome::Green => panic!("{name}: green after {} states", found.states),
        Outcome::TooMany => panic!("{name}: no end after {} states", found.states),
    }
}

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident: $mutant:ident in $config:ident
        $({ $($field:ident $(. $sub:ident)? = $value:expr),* $(,)? })? => $invariants:expr;)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                #[allow(unused_mut, reason = "not every mutant changes the bounds")]
                let mut config = $config();
                $($(config.$field $(. $sub)? = $value;)*)?
                red(stringify!($name), config, Mutant::$mutant, &$invariants);
            }
        )*
    };
}

mutants! {
    /// A fence compares epoch and owner.
    no_fence: NoFence in durable_zombie => ["I1"];
    /// A room is taken from a host only when its session ended.
    taken_from_the_living: TakenFromTheLiving in durable_zombie => ["I1"];
    /// A room that was held is taken back only in the epoch that it was held under.
    taken_back_from_others: TakesBackWhatOthersHad in durable_held => ["I2", "I3"];
    /// H-35. A checkpoint with a number that is not above the stored one changes nothing.
    h35_an_older_checkpoint_wins: OlderCheckpointWins in durable_late_copies
        { messages = [2, 0] } => ["I2"];
    /// H-36. A source that has sent a park does not go live again at that epoch.
    h36_thaw_after_a_park_durable: ThawAfterParkOlderWins in durable_late_copies => ["I2"];
    h36_thaw_after_a_park_live: ThawAfterPark in live_late_copies => ["I3"];
    /// H-19. A durable room's cut is what it handled; unread messages stay in the log only.
    h19_the_cut_is_what_was_received: CutOfReceived in durable_batches => ["I2"];
    h19_unread_is_in_snapshot_and_log: UnreadTwice in durable_batches => ["I3"];
    /// A live room's snapshot has its unread mailbox inside.
    the_cut_leaves_the_mailbox_out: CutWithoutUnread in live_two_moves => ["I3"];
    /// H-38. Unread messages inside a snapshot are backlog.
    h38_unread_is_no_backlog: UnreadIsNoBacklog in live_unload => ["I6"];
    /// H-39. A live room acknowledges only once it is live.
    h39_ack_while_replaying: AckWhileReplaying in live_given_back => ["I3"];
    /// What trims the log of a durable room is a checkpoint of what was handled.
    a_durable_room_acks: DurableAcks in durable_crash => ["I2"];
    /// H-37. A room with backlog can be given back.
    h37_a_park_needs_an_empty_log: ParkNeedsAnEmptyLog in durable_given_back => ["I6"];
    /// H-20. The gate waits for what its own senders put into the store.
    h20_the_gate_ignores_what_answers_named: HighestIsHidden in live_two_moves => ["I4"];
    /// H-20. And for appends whose answer is not known.
    h20_the_gate_ignores_what_is_under_way: InFlightIsIgnored in live_aborted_move => ["I4"];
    /// H-40. Every answer names the room's `seq`, a repeat's too.
    h40_a_duplicate_hides_the_seq: DuplicateHidesSeq in live_aborted_move => ["I4"];
    /// H-21. The gate closes when every admitted send is in the mailbox.
    h21_the_gate_closes_over_a_send: NoAdmission in live_threads => ["I3"];
    /// What was trimmed does not come any more: nobody waits for it.
    an_opening_gate_waits_for_what_was_trimmed: NoCaughtUp in live_crash => ["I6"];
    /// Repeats are dropped by identity at the consumer.
    the_consumer_takes_everything: TakeEverything in durable_move_and_pushes => ["I2", "I4"];
    /// `seq` reveals gaps.
    gaps_are_ignored: GapsAreIgnored in durable_move_and_pushes => ["I2", "I3", "I4"];
    /// H-34. An owner compares the head with what it received.
    h34_no_head_check_durable: NoHeadCheck in durable_move_and_pushes
        { messages = [1, 0], budget.moves = 0, budget.decline = 0 } => ["I6"];
    h34_no_head_check_live: NoHeadCheck in live_move_and_pushes
        { messages = [0, 1], budget.moves = 0 } => ["I6"];
    /// Repeats are dropped somewhere.
    nobody_drops_repeats: NoDedupeAtAll in durable_late_copies => ["I2", "I3", "I4"];
    /// H-12, H-13. Somebody looks after parked rooms with backlog.
    h12_no_sweep: NoSweep in durable_unload => ["I6"];
    /// A dead owner's room is taken up without waiting for anything.
    no_recovery: NoRecovery in durable_crash => ["I6"];
    /// H-10. What a host owns and does not run it gives back.
    h10_no_reconcile: NoReconcile in durable_lost_claim => ["I6"];
    /// H-27. An open offer is told again, and ends at its deadline.
    h27_offers_never_end_and_are_told_once: OffersNeverEndUntold in durable_given_back => ["I6"];
    /// A source takes the room back when nobody adopts.
    no_resume: NoResume in durable_given_back => ["I6"];
    /// H-03. A withdrawal fences late copies.
    h03_a_withdrawal_fences_nothing: NoWithdrawalFence in full_log { budget.expire = 2 } => ["I2"];
    /// H-25. A pruned producer stays fenced.
    h25_pruned_producers_are_forgotten: PrunedIsForgotten in pruned_producers => ["I10"];
    /// H-17. Messages name the life that they are for.
    h17_appends_name_no_life: NoLife in closed_and_born_again => ["I2", "I10"];
    /// A lease of another generation proves nothing, be epoch and owner the stored ones.
    regress_equal_epoch_proves: EqualEpochProves in torn_tail => ["I2", "I3", "I10"];
    /// Nobody acquires, or is born, before every known host has proved what it runs.
    regress_acquired_before_all_have_proved: AcquireBeforeAllHaveProved in emptied => ["I2"];
    /// An append to a missing record does not make one.
    regress_an_append_creates_the_record: AppendCreatesRecord in emptied => ["I2"];
    /// Producers are at the maximum of what is stored and what was handled.
    regress_producers_not_at_the_maximum: ProducersNotAtMaximum in torn_tail_no_window
        => ["I2", "I10"];
    /// The log is read again from the stored cursor.
    regress_the_cursor_is_not_turned_back: CursorNotBack in torn_tail => ["I2", "I10"];
    /// A host re-asserts only while its session never lapsed.
    regress_reasserted_after_a_lapse: ReassertAfterLapse in torn_tail_lapse
        { messages = [1, 1], budget.keep = 0 } => ["I2"];
    /// What somebody else has gone on with is not overwritten.
    regress_reasserted_over_others: ReassertOverOthers in torn_tail_move { messages = [1, 1] } => ["I1", "I2"];
    /// Senders send their window again in a new generation, not only after a gap.
    regress_resent_only_after_gaps: ResentOnlyAfterGaps in torn_tail => ["I2", "I10"];
    /// A record that is not proved tells no number.
    regress_an_unproved_record_tells_numbers: UnprovedTellsNumbers in torn_tail_no_window
        => ["I2", "I10"];
    /// A source lets the host that it gave the room to prove it first.
    regress_a_source_comes_before_its_peer: SourceBeforeItsPeer in torn_tail_move { messages = [1, 1] } => ["I2"];
    /// What was taken back under the present session is proved before the host says that all is.
    regress_a_retaken_room_is_not_proved: RetakenIsNotProved in torn_tail_lapse { messages = [1, 1] } => ["I2", "I6"];
    /// Not a rule but a limit: a host whose session the store forgets, opened after what it comes back
    /// with, is not waited for.
    regress_a_forgotten_session_is_not_waited_for: Strangers in torn_tail_crash
        { strangers = true, messages = [1, 1] } => ["I2"];
    /// Events are published under the lease in force.
    events_without_a_fence: NoFence in events_zombie => ["I1"];
    /// A live room goes on from the stored number, not from its snapshot's.
    events_numbers_from_the_snapshot: NumbersFromTheSnapshot in events_live_crash => ["I5"];
    /// A re-assert keeps the number of the last event at the maximum of stored and published.
    events_out_seq_not_at_the_maximum: OutSeqNotAtMaximum in events_live_torn_tail
        { budget.crash = 1 } => ["I5"];
    /// A push is shown only if it follows what was shown.
    events_in_any_order: EventsInAnyOrder in events_move => ["I5"];
    /// What is not kept any more is reported.
    events_missed_is_not_reported: MissedIsNotReported in events_move => ["I5"];
    /// Liveness is looked up elsewhere and may be out of date: the compare-and-set catches it.
    stale_liveness_without_a_compare: StaleLivenessNoCompare in durable_zombie => ["I1"];
}

macro_rules! guarded_twice {
    ($($(#[$doc:meta])* $name:ident: $mutant:ident in $config:ident $messages:expr;)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                let (mutant, messages) = (Some(Mutant::$mutant), $messages);
                green(stringify!($name), Config { mutant, messages, ..$config() });
            }
        )*
    };
}

guarded_twice! {
    /// The compare-and-set keeps a room from being stolen on a stale answer about its owner.
    stale_liveness: StaleLiveness in durable_zombie [1, 0];
    /// The consumer drops what the store lets through.
    a_store_that_takes_repeats: NoDedupe in durable_late_copies [1, 0];
    /// A late park brings an older snapshot: the number keeps the newer one, and the log the rest.
    a_durable_room_thaws_after_a_park: ThawAfterPark in durable_late_copies [1, 0];
    /// H-27. The sweep tells the host again.
    h27_offers_never_end: OffersNeverEnd in durable_given_back [1, 0];
    /// H-27. The deadline passes.
    h27_offers_are_told_once: OffersAreToldOnce in durable_given_back [1, 0];
    /// H-27. The deadline passes, or the host thinks better of it.
    h27_a_decline_never_arrives: DeclineIsLost in durable_given_back [1, 0];
}
