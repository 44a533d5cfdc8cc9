//! What a seed makes happen.

use std::fmt;
use std::time::Duration;

use ractor_rooms::HostConfig;
use ractor_rooms::protocol::record::RecordLimits;
use ractor_rooms::testing::FaultPlan;

use super::dice::Dice;

/// What kinds of trouble a seed may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Planned moves, unloads, and hosts that stop and start again; a network that takes its time.
    Calm,
    /// And calls that are refused, lost, late and doubled, pushes that are lost.
    Network,
    /// And hosts that are killed, cut off and paused, for less than their session and for more.
    Hosts,
    /// And a store that restarts and keeps everything.
    Restarts,
    /// And a store that goes back in time, or forgets everything.
    Losses,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Calm, Self::Network, Self::Hosts, Self::Restarts, Self::Losses];

    fn breaks_calls(self) -> bool {
        self != Self::Calm
    }

    fn breaks_hosts(self) -> bool {
        matches!(self, Self::Hosts | Self::Restarts | Self::Losses)
    }
}

/// A room of the plan.
#[derive(Clone, Debug)]
pub struct RoomSpec {
    /// Its key.
    pub key: String,
    /// Its class.
    pub durable: bool,
}

/// What a sender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends, and waits until it is accepted.
    Note,
    /// Sends without waiting.
    Cast,
    /// Sends what the room passes on to another one.
    Relay {
        /// The other one.
        to: usize,
    },
    /// Sends what makes the room tell its members.
    Emit,
    /// Sends what makes the room set a timer.
    Timer {
        /// In milliseconds.
        after: u64,
    },
    /// Calls, and waits for the answer.
    Ask,
    /// Sends what makes the room call another one.
    CallThen {
        /// The other one.
        to: usize,
    },
    /// Sends what is handled for a while.
    Slow {
        /// In milliseconds.
        takes: u64,
    },
    /// Sends what no attempt can handle.
    Poison,
    /// Sends what the first attempt cannot handle.
    Flaky,
}

/// One thing that a sender does.
#[derive(Clone, Copy, Debug)]
pub struct Errand {
    /// In milliseconds, before it.
    pub pause: u64,
    /// To which room.
    pub room: usize,
    /// What.
    pub act: Act,
}

/// A sender, by way of one host.
#[derive(Clone, Debug)]
pub struct SenderSpec {
    /// The host.
    pub via: usize,
    /// What it does, one after the other.
    pub errands: Vec<Errand>,
}

/// What happens to the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A host is asked to move a room.
    Move {
        /// The host that is asked.
        via: usize,
        /// The room.
        room: usize,
        /// Where it shall go.
        to: usize,
    },
    /// A host is asked to unload a room.
    Unload {
        /// The host.
        host: usize,
        /// The room.
        room: usize,
    },
    /// A host stops as it should and starts again after so many milliseconds.
    Stop {
        /// The host.
        host: usize,
        /// In milliseconds.
        rest: u64,
        /// Whether it has its rooms moved out before; they rest otherwise.
        drains: bool,
    },
    /// A host dies and starts again after so many milliseconds.
    Kill {
        /// The host.
        host: usize,
        /// In milliseconds.
        rest: u64,
    },
    /// A host cannot reach the store for so many milliseconds.
    Cut {
        /// The host.
        host: usize,
        /// In milliseconds.
        lasts: u64,
    },
    /// A host's process stands still for so many milliseconds.
    Pause {
        /// The host.
        host: usize,
        /// In milliseconds.
        lasts: u64,
    },
    /// The store restarts and has everything.
    Restart,
    /// What the store has now is what it has after a later [`Step::GoBack`].
    Remember,
    /// The store restarts and has what it had.
    GoBack,
    /// The store has nothing any more.
    Forget,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Plan {
    /// What made it.
    pub seed: u64,
    /// What it was made for.
    pub profile: Profile,
    /// How many hosts.
    pub hosts: usize,
    /// The rooms.
    pub rooms: Vec<RoomSpec>,
    /// The senders.
    pub senders: Vec<SenderSpec>,
    /// Which host has a member of which room.
    pub members: Vec<(usize, usize)>,
    /// What happens when, in milliseconds from the beginning.
    pub steps: Vec<(u64, Step)>,
    /// What the network does until it heals.
    pub faults: FaultPlan,
    /// When it heals, in milliseconds from the beginning.
    pub heals_at: u64,
    /// The limits and deadlines of the hosts.
    pub config: HostConfig,
    /// The bounds of the store.
    pub limits: RecordLimits,
}

/// The hosts' session, in milliseconds.
pub const SESSION: u64 = 2_000;

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, profile: Profile) -> Self {
        let mut dice = Dice::new(seed);
        let hosts = 2 + dice.index(3);
        let rooms: Vec<RoomSpec> = (0..1 + dice.index(4))
            .map(|n| RoomSpec { key: format!("r{n}"), durable: dice.chance(650) })
            .collect();
        let heals_at = dice.within(6_000..=15_000);
        let senders =
            (0..2 + dice.index(3)).map(|_| sender(&mut dice, hosts, &rooms, heals_at)).collect();
        let members = (0..1 + dice.index(3)).map(|_| (dice.index(hosts), dice.index(rooms.len())));
        let members = members.collect();
        let mut plan = Self {
            seed,
            profile,
            hosts,
            rooms,
            senders,
            members,
            steps: Vec::new(),
            faults: faults(&mut dice, profile),
            heals_at,
            config: config(&mut dice),
            limits: RecordLimits {
                blocked_ms: 500,
                history: if dice.chance(200) { 8 } else { 256 },
                ..RecordLimits::default()
            },
        };
        plan.make_trouble(&mut dice);
        plan
    }

    /// Whether the store may lose what it had accepted.
    pub fn loses_data(&self) -> bool {
        self.last_loss().is_some()
    }

    /// When it does for the last time, in milliseconds from the beginning.
    pub fn last_loss(&self) -> Option<u64> {
        let losses = self.steps.iter().filter(|(_, s)| matches!(s, Step::GoBack | Step::Forget));
        losses.map(|(at, _)| *at).max()
    }

    fn make_trouble(&mut self, dice: &mut Dice) {
        let (hosts, rooms) = (self.hosts, self.rooms.len());
        let last = self.heals_at - 1_000;
        for _ in 0..dice.within(3..=10) {
            let at = dice.within(200..=last);
            let step = match dice.below(8) {
                0 => Step::Unload { host: dice.index(hosts), room: dice.index(rooms) },
                1 => {
                    let (host, rest) = (dice.index(hosts), dice.within(10..=2_000));
                    // Without a throw of its own, so that a seed goes on making the plan that it made.
                    Step::Stop { host, rest, drains: rest % 2 == 0 }
                }
                _ => Step::Move {
                    via: dice.index(hosts),
                    room: dice.index(rooms),
                    to: dice.index(hosts),
                },
            };
            self.steps.push((at, step));
        }
        if self.profile.breaks_hosts() {
            for _ in 0..dice.within(1..=3) {
                let (at, host) = (dice.within(500..=last), dice.index(hosts));
                let lasts = dice.within(50..=SESSION * 2);
                let step = match dice.below(3) {
                    0 => Step::Kill { host, rest: lasts },
                    1 => Step::Cut { host, lasts },
                    _ => Step::Pause { host, lasts },
                };
                self.steps.push((at, step));
            }
        }
        if matches!(self.profile, Profile::Restarts | Profile::Losses) {
            for _ in 0..dice.within(1..=2) {
                self.steps.push((dice.within(1_000..=last), Step::Restart));
            }
        }
        if self.profile == Profile::Losses {
            let at = dice.within(1_500..=last);
            if dice.chance(500) {
                self.steps.push((at, Step::Forget));
            } else {
                self.steps.push((at - dice.within(10..=1_400), Step::Remember));
                self.steps.push((at, Step::GoBack));
            }
        }
        self.steps.sort_by_key(|(at, _)| *at);
    }
}

fn sender(dice: &mut Dice, hosts: usize, rooms: &[RoomSpec], heals_at: u64) -> SenderSpec {
    let via = dice.index(hosts);
    // Some stay with one room, so that it is busy; all go on for a while after the network healed.
    let favourite = dice.chance(500).then(|| dice.index(rooms.len()));
    let mut errands = Vec::new();
    let mut at = 0;
    let pace = dice.within(40..=600);
    while at < heals_at + 1_500 {
        let pause = if dice.chance(300) { 0 } else { dice.below(pace * 2) };
        let room = favourite.unwrap_or_else(|| dice.index(rooms.len()));
        let durable = rooms[room].durable;
        let other = dice.index(rooms.len());
        let act = match dice.below(100) {
            0..=29 => Act::Note,
            30..=44 => Act::Cast,
            45..=56 if other != room => Act::Relay { to: other },
            57..=68 => Act::Emit,
            69..=76 => Act::Timer { after: dice.within(1..=4_000) },
            77..=86 => Act::Ask,
            87..=92 if other != room => Act::CallThen { to: other },
            93..=95 => Act::Slow { takes: dice.within(1..=300) },
            96 if durable || dice.chance(200) => Act::Poison,
            97..=98 if durable || dice.chance(200) => Act::Flaky,
            _ => Act::Note,
        };
        errands.push(Errand { pause, room, act });
        at += pause.max(5);
    }
    SenderSpec { via, errands }
}

fn faults(dice: &mut Dice, profile: Profile) -> FaultPlan {
    let slow = Duration::from_millis(dice.below(12));
    let mut faults = match profile.breaks_calls() {
        true if dice.chance(700) => {
            let mut some = |most: u64| u16::try_from(dice.below(most + 1)).unwrap_or(0);
            FaultPlan {
                refuse: some(30),
                lose_request: some(40),
                lose_answer: some(60),
                delay_request: some(40),
                repeat_request: some(30),
                retry_request: some(30),
                longest_delay: 60,
                drop_push: some(200),
                delay_push: some(100),
                repeat_push: some(100),
                end_pushes: some(5),
                answer_after: Some(Duration::from_millis(u64::from(some(400)))),
                ..FaultPlan::calm()
            }
        }
        true | false => FaultPlan::calm(),
    };
    faults.request_takes = slow;
    faults.answer_takes = slow;
    faults.push_takes = slow;
    faults
}

fn config(dice: &mut Dice) -> HostConfig {
    HostConfig {
        session_ttl: Duration::from_millis(SESSION),
        store_timeout: Duration::from_millis(500),
        retry_interval: Duration::from_millis(20),
        send_timeout: Duration::from_millis(3_000),
        call_timeout: Duration::from_millis(5_000),
        freeze_timeout: Duration::from_millis(1_500),
        offer_timeout: Duration::from_millis(1_500),
        restore_timeout: Duration::from_millis(2_000),
        sweep_interval: Duration::from_millis(100),
        idle_timeout: dice.chance(500).then(|| Duration::from_millis(700)),
        checkpoint_messages: u32::try_from(dice.within(1..=40)).unwrap_or(1),
        checkpoint_interval: Duration::from_millis(dice.within(200..=5_000)),
        max_member_events: 100_000,
        ..HostConfig::default()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {} ({:?}): {} hosts, heals at {} ms",
            self.seed, self.profile, self.hosts, self.heals_at
        )?;
        for room in &self.rooms {
            let class = if room.durable { "durable" } else { "live" };
            writeln!(f, "  room {} is {class}", room.key)?;
        }
        for (n, sender) in self.senders.iter().enumerate() {
            writeln!(
                f,
                "  sender {n} sends {} times through host-{}",
                sender.errands.len(),
                sender.via
            )?;
        }
        for (host, room) in &self.members {
            writeln!(f, "  a member of {} is at host-{host}", self.rooms[*room].key)?;
        }
        for (at, step) in &self.steps {
            writeln!(f, "  at {at:>6} ms {step:?}")?;
        }
        writeln!(f, "  {:?}", self.faults)
    }
}
