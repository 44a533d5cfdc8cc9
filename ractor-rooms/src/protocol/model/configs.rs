//! The bounds: who is there, what they send, and how often what may go wrong. All of them are green.

use super::explore::{Outcome, explore};
use crate::protocol::record::RecordLimits;

/// How often something may befall the world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Moves that are asked for.
    pub(super) moves: u8,
    /// Idle unloads.
    pub(super) unloads: u8,
    /// Hosts that die.
    pub(super) crash: u8,
    /// Sessions that lapse while their host goes on.
    pub(super) lapse: u8,
    /// Answers that are lost.
    pub(super) lost: u8,
    /// Requests that execute late, or never.
    pub(super) late: u8,
    /// Offers that are declined.
    pub(super) decline: u8,
    /// Adoptions that fail after the acquire.
    pub(super) fail_restore: u8,
    /// Freezes that take too long.
    pub(super) abort: u8,
    /// Claims, relays and withdrawals that are waited for no longer.
    pub(super) give_up: u8,
    /// Messages whose deadline passes.
    pub(super) expire: u8,
    /// Rooms that the app closes.
    pub(super) closes: u8,
    /// Times that the store goes back to what is on its disk.
    pub(super) regress: u8,
    /// Times that something gets to the disk. With 0 that is what there is at first.
    pub(super) keep: u8,
    /// Times that the store is emptied.
    pub(super) forget: u8,
}

#[derive(Clone)]
pub(super) struct Config {
    pub(super) durable: bool,
    pub(super) hosts: usize,
    /// Where the two senders are: the index of a host, or beyond for clients.
    pub(super) places: [usize; 2],
    pub(super) messages: [u8; 2],
    /// Messages in one append, at most.
    pub(super) batch: usize,
    /// Whether entries are pushed. Without, an owner finds them by looking at the log.
    pub(super) push: bool,
    /// Whether a host learns of an offer by a notice, which may be lost. Without, it sees the record.
    pub(super) notices: bool,
    /// Whether an offer's deadline may pass while the host it is for is about to take it.
    pub(super) early: bool,
    pub(super) checkpoints: bool,
    /// Whether a send into the mailbox takes two steps.
    pub(super) threads: bool,
    /// Whether there is no record at first.
    pub(super) unborn: bool,
    /// Whether a handler puts an event out, and somebody is a member.
    pub(super) events: bool,
    /// Whether hosts are owed their rooms whose sessions the store forgets.
    pub(super) strangers: bool,
    /// How many accepted messages a sender holds, to send them again.
    pub(super) window: usize,
    pub(super) limits: RecordLimits,
    pub(super) budget: Budget,
    pub(super) mutant: Option<Mutant>,
    /// States that the search may hold.
    pub(super) cap: usize,
}

impl Config {
    /// Which place a sender is at.
    pub(super) fn place_of(&self, sender: usize) -> usize {
        if self.places[0] == self.places[1] { 0 } else { sender }
    }

    /// Whether the store may go back.
    pub(super) fn tracks(&self) -> bool {
        self.budget.regress > 0 || self.budget.forget > 0
    }
}

/// A rule that is taken away. See [`super::mutants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mutant {
    NoFence,
    OlderCheckpointWins,
    UnreadIsNoBacklog,
    NoDedupe,
    NoDedupeAtAll,
    NoWithdrawalFence,
    PrunedIsForgotten,
    NoLife,
    TakenFromTheLiving,
    StaleLiveness,
    StaleLivenessNoCompare,
    ParkNeedsAnEmptyLog,
    DeclineIsLost,
    DuplicateHidesSeq,
    CutWithoutUnread,
    CutOfReceived,
    UnreadTwice,
    ThawAfterPark,
    ThawAfterParkOlderWins,
    NoResume,
    NoAdmission,
    TakeEverything,
    GapsAreIgnored,
    NoCaughtUp,
    NoHeadCheck,
    AckWhileReplaying,
    DurableAcks,
    InFlightIsIgnored,
    HighestIsHidden,
    NoReconcile,
    NoSweep,
    NoRecovery,
    TakesBackWhatOthersHad,
    OffersNeverEnd,
    OffersAreToldOnce,
    OffersNeverEndUntold,
    EqualEpochProves,
    AcquireBeforeAllHaveProved,
    AppendCreatesRecord,
    ProducersNotAtMaximum,
    CursorNotBack,
    ReassertAfterLapse,
    ReassertOverOthers,
    ResentOnlyAfterGaps,
    UnprovedTellsNumbers,
    SourceBeforeItsPeer,
    RetakenIsNotProved,
    NumbersFromTheSnapshot,
    OutSeqNotAtMaximum,
    EventsInAnyOrder,
    MissedIsNotReported,
    /// Nothing is taken away.
    Strangers,
}

pub(super) fn durable() -> Config {
    Config {
        durable: true,
        hosts: 2,
        places: [2, 3],
        messages: [2, 0],
        batch: 1,
        push: false,
        notices: false,
        early: false,
        checkpoints: true,
        threads: false,
        unborn: false,
        events: false,
        strangers: false,
        window: 0,
        limits: RecordLimits::default(),
        budget: Budget::default(),
        mutant: None,
        cap: if full() { 20_000_000 } else { 1_500_000 },
    }
}

pub(super) fn live() -> Config {
    Config { durable: false, ..durable() }
}

/// Whether the bounds are the larger ones, which take many minutes.
pub(super) fn full() -> bool {
    std::env::var("ROOMS_MODEL").is_ok_and(|value| value == "full")
}

pub(super) fn green(name: &str, config: Config) {
    let clock = crate::clock::Clock::system();
    let start = clock.mark();
    let found = explore(&config);
    let took = clock.elapsed_since(start).as_secs_f32();
    println!("{name}: {} states, {} steps, {took:.1} s", found.states, found.steps);
    match found.outcome {
        Outcome::Green => {}
        Outcome::TooMany => panic!("{name}: more than {} states", config.cap),
        Outcome::Red { broken, trace } => panic!("{name}: {broken}\n  {}", trace.join("\n  ")),
    }
}

/// A bound, and the larger one.
fn upto<T>(quick: T, large: T) -> T {
    if full() { large } else { quick }
}

macro_rules! configs {
    ($(
        $(#[$doc:meta])*
        $name:ident: $base:ident { $($field:ident $(. $sub:ident)? = $value:expr),* $(,)? }
    )*) => {
        $(
            $(#[$doc])*
            pub(super) fn $name() -> Config {
                let mut config = $base();
                $(config.$field $(. $sub)? = $value;)*
                config
            }
        )*

        mod all {
            $(
                #[test]
                fn $name() {
                    super::green(stringify!($name), super::$name());
                }
            )*
        }
    };
}

configs! {
    /// A move with pushes under way, any of which may be lost; the target may decline. H-34.
    durable_move_and_pushes: durable {
        places = [0, 2], messages = [2, 1], push = true, early = true,
        budget.moves = 1, budget.decline = 1,
    }
    /// The cut falls into the middle of a batch. H-19.
    durable_batches: durable {
        batch = 2, messages = [3, 0], push = true, budget.moves = 1, budget.lost = 1,
        budget.late = upto(0, 1),
    }
    durable_crash: durable {
        messages = [2, 1], budget.crash = 1, budget.moves = 1, budget.lost = 1,
    }
    /// Copies of appends, checkpoints, parks, acquires and offers execute late. H-35, H-36.
    durable_late_copies: durable {
        messages = [2, 0], early = true, budget.late = 2, budget.moves = 1,
    }
    /// A host goes on after its session lapsed. H-45.
    durable_zombie: durable {
        messages = [2, 0], budget.lapse = 1, budget.late = 1, budget.moves = 1,
    }
    /// Adopters decline, fail, and give the room back, and notices of offers are lost. H-27, H-37.
    durable_given_back: durable {
        notices = true, budget.moves = 1, budget.fail_restore = 3, budget.decline = 1,
        budget.lost = upto(0, 1),
    }
    /// An acquire is carried out, and the one who asked has given up. H-10.
    durable_lost_claim: durable {
        notices = true, early = true, budget.moves = 1, budget.lost = 1, budget.give_up = 1,
        budget.late = upto(0, 1),
    }
    /// The room rests while messages are on their way to it. H-12, H-13.
    durable_unload: durable {
        early = true, budget.unloads = 1, budget.lost = 1, budget.late = 1,
        budget.moves = upto(0, 1),
    }
    /// What a host held while it had no session is taken back, or others have had it.
    durable_held: durable {
        messages = [2, 0], budget.lapse = upto(1, 2), budget.late = 1, budget.lost = upto(0, 1),
        budget.moves = 1,
    }
    durable_three_hosts: durable {
        hosts = 3, places = [3, 4], messages = [1, 0], budget.crash = 1, budget.lapse = 1,
        budget.moves = 1,
    }
    live_move_and_pushes: live {
        places = [0, 2], messages = [2, 1], push = true, budget.moves = 1,
        budget.decline = upto(0, 1),
    }
    /// A sender is on the host that the room leaves, one on the host that it comes to. H-20.
    live_two_moves: live {
        places = [0, 1], messages = [2, 1], checkpoints = false, budget.moves = 2,
        budget.lost = upto(0, 1),
    }
    /// The room thaws, and its gate opens again while appends are in doubt. H-40.
    live_aborted_move: live {
        places = [0, 2], messages = [3, 0], early = true, budget.moves = 1,
        budget.abort = 1, budget.lost = 1,
    }
    /// Two senders share a handle, and a send may be on its way through the gate at the cut. H-21.
    live_threads: live {
        places = [0, 0], messages = [2, 2], checkpoints = false, threads = true,
        budget.moves = upto(1, 2), budget.abort = 1,
    }
    live_late_copies: live {
        places = [0, 2], messages = [2, upto(0, 1)], budget.moves = 1, budget.late = 1,
    }
    /// H-39.
    live_given_back: live {
        places = [0, 2], early = true, budget.moves = 1, budget.fail_restore = 1,
        budget.decline = 1, budget.lost = upto(0, 1),
    }
    /// The room rests with unread messages inside. H-38.
    live_unload: live {
        places = [0, 2], budget.unloads = 1, budget.lost = 1, budget.late = 1,
        budget.moves = upto(0, 1),
    }
    live_crash: live {
        places = [1, 2], messages = [2, upto(0, 1)], budget.crash = 1, budget.moves = 1,
    }
    live_zombie: live {
        places = [1, 2], budget.lapse = 1, budget.moves = upto(0, 1), budget.late = 1,
    }
    /// There is no room at first; messages expire while nobody knows what became of them.
    birth_and_withdrawals: durable {
        unborn = true, budget.expire = upto(1, 2), budget.late = 1, budget.lost = 1,
        budget.give_up = 1,
    }
    /// The log holds two entries. H-03.
    full_log: durable {
        messages = [2, 2], limits.log_entries = 2, budget.expire = 1, budget.late = 1,
    }
    /// One producer is remembered. H-25.
    pruned_producers: durable {
        messages = [2, 1], limits.producers = 1, budget.late = 1, budget.expire = 1,
    }
    /// The room is closed and born again under the same key. H-17.
    closed_and_born_again: durable {
        messages = [2, 0], budget.closes = 1, budget.late = 1, budget.expire = 1,
    }
    /// The store goes back, and its owner and its senders live.
    torn_tail: durable {
        messages = [1, 1], window = 4, budget.regress = 1, budget.keep = 1, budget.late = upto(0, 1),
    }
    /// And senders hold nothing of what was accepted.
    torn_tail_no_window: durable {
        messages = [2, 0], budget.regress = 1, budget.keep = 1,
        budget.expire = 1,
    }
    /// And copies of that are still under way. Nothing is withdrawn before: a fence is lost as well.
    torn_tail_no_window_late: durable {
        messages = [2, 0], budget.regress = 1, budget.keep = 1,
        budget.late = 1,
    }
    torn_tail_crash: durable {
        messages = [1, upto(0, 1)], window = 4, checkpoints = full(),
        budget.regress = 1, budget.keep = 1, budget.crash = 1,
    }
    /// The former owner does not know, or takes the room back. H-45.
    torn_tail_lapse: durable {
        messages = [1, upto(0, 1)], window = 4, checkpoints = full(),
        budget.regress = 1, budget.keep = 1, budget.lapse = 1,
    }
    /// The end of a move is forgotten: two hosts have the room.
    torn_tail_move: durable {
        messages = [1, upto(0, 1)], window = 4, checkpoints = full(),
        budget.regress = 1, budget.keep = 1, budget.moves = 1,
    }
    /// The store went back twice.
    torn_twice: durable {
        messages = [1, upto(0, 1)], window = 4, budget.regress = 2, budget.keep = 2,
    }
    emptied: durable {
        messages = [1, 1], window = 4, checkpoints = full(), budget.forget = 1,
        budget.late = upto(0, 1),
    }
    emptied_move: durable {
        messages = [1, upto(0, 1)], window = 4, budget.forget = 1, budget.moves = 1,
    }
    emptied_crash: durable {
        messages = [1, upto(0, 1)], window = 4, checkpoints = full(), budget.forget = 1, budget.crash = 1,
    }
    /// A live room, with a sender on its host.
    live_torn_tail: live {
        places = [0, 2], messages = [2, upto(0, 1)], window = 4, budget.regress = 1,
        budget.keep = 1, budget.moves = upto(0, 1),
    }
    /// One event is kept, and a move goes on meanwhile.
    events_move: durable {
        messages = [2, 0], events = true, limits.history = 1, budget.moves = 1,
        budget.late = upto(0, 1),
    }
    events_late_copies: durable {
        messages = [2, 0], events = true, checkpoints = full(), budget.late = 1, budget.lost = 1,
    }
    events_zombie: durable {
        messages = [1, 0], events = true, budget.lapse = 1, budget.late = 1,
    }
    events_live_crash: live {
        messages = [2, 0], events = true, budget.crash = 1,
    }
    events_live_torn_tail: live {
        messages = [2, 0], events = true, checkpoints = false, budget.regress = 1,
        budget.crash = upto(0, 1),
    }
    /// The numbers of a life begin anew.
    events_born_again: durable {
        messages = [2, 0], events = true, checkpoints = full(), budget.closes = 1,
        budget.late = upto(0, 1),
    }
}
