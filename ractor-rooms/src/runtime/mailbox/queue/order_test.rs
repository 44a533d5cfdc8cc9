//! Every interleaving of two senders, a runner and a host that freezes and thaws it, over the queue itself.
//!
//! What is around the queue is modelled: the door, ractor's mailbox, the room's log, and the turns of the
//! runner as `runner/log.rs` and `runner/snapshot.rs` take them, one message a step. Each rule that they
//! keep is taken away in a test of its own, which must find the harm.

use std::collections::{HashSet, VecDeque};

use super::{Next, Queue};

const SENDERS: usize = 2;
const BATCH: usize = 2;

/// Sender and number.
type Message = (usize, u8);

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    None,
    /// A send that was admitted is in the mailbox before the gate closes.
    Admission,
    /// The first message in an empty queue rings.
    FirstRings,
    /// A batch that leaves something rings again.
    RestRings,
    /// The freeze is looked at before every message.
    FreezeSeen,
    /// The cut is told before the gate lets anybody send through the store.
    CutBehindDoor,
    /// The cut takes the queue also when its freeze came to nothing.
    CutTakes,
    /// What waits inside the runner is handled before what it is told next.
    OldFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mail {
    Bell,
    Entry(usize),
    Cut(u8),
    Thaw,
}

/// What the runner is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    Idle,
    Prepare(Mail),
    Batch { more: bool },
    CatchUp { open: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Host {
    Calm,
    /// The freeze is set, and the gate is not closed.
    Flagged,
    /// The gate is closed, and the cut is not told. Only with `CutBehindDoor` broken.
    Closed,
    Asked,
    Moved,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    queue: Queue<Message>,
    mail: VecDeque<Mail>,
    open: bool,
    log: Vec<Message>,
    cursor: usize,
    freeze: u8,
    frozen: bool,
    turn: Turn,
    unread: VecDeque<Message>,
    handled: [u8; SENDERS],
    sent: [u8; SENDERS],
    /// Senders that have a ticket and have not rung. They are inside the door.
    ringing: [bool; SENDERS],
    /// Senders that saw an open gate and are on their way in. Only with `Admission` broken.
    admitted: [bool; SENDERS],
    host: Host,
    freezes: u8,
}

struct Search {
    broken: Broken,
    messages: u8,
    freezes: u8,
}

impl World {
    fn new() -> Self {
        Self {
            queue: Queue::default(),
            mail: VecDeque::new(),
            open: true,
            log: Vec::new(),
            cursor: 0,
            freeze: 0,
            frozen: false,
            turn: Turn::Idle,
            unread: VecDeque::new(),
            handled: [0; SENDERS],
            sent: [0; SENDERS],
            ringing: [false; SENDERS],
            admitted: [false; SENDERS],
            host: Host::Calm,
            freezes: 0,
        }
    }

    fn takes(&self) -> bool {
        !self.frozen && self.freeze == 0 && self.host != Host::Moved
    }

    fn handle(&mut self, (from, number): Message) -> Result<(), String> {
        if self.freeze != 0 {
            return Err(format!("{number} of {from} was handled during a freeze"));
        }
        self.count((from, number))
    }

    fn count(&mut self, (from, number): Message) -> Result<(), String> {
        let expected = self.handled[from] + 1;
        if number != expected {
            return Err(format!("expected {expected} of sender {from}, found {number}"));
        }
        self.handled[from] = number;
        Ok(())
    }
}

impl Search {
    fn is_broken(&self, rule: Broken) -> bool {
        self.broken == rule
    }

    fn send(&self, world: &mut World, from: usize) -> Result<(), String> {
        if world.ringing[from] {
            world.ringing[from] = false;
            if !self.is_broken(Broken::FirstRings) {
                world.mail.push_back(Mail::Bell);
            }
            return Ok(());
        }
        if !world.admitted[from] && self.is_broken(Broken::Admission) && world.open {
            world.admitted[from] = true;
            return Ok(());
        }
        world.sent[from] += 1;
        let message = (from, world.sent[from]);
        if world.open || world.admitted[from] {
            world.admitted[from] = false;
            let put = world.queue.put(message);
            let ticket = put.map_err(|m| format!("{m:?} was refused"))?;
            world.ringing[from] = ticket.is_some();
            return Ok(());
        }
        world.mail.push_back(Mail::Entry(world.log.len()));
        world.log.push(message);
        Ok(())
    }

    /// The steps of the host.
    fn host(&self, world: &World) -> Vec<Result<World, String>> {
        let mut next = Vec::new();
        let mut to = |step: &dyn Fn(&mut World) -> Result<(), String>| {
            let mut world = world.clone();
            next.push(step(&mut world).map(|()| world));
        };
        match world.host {
            Host::Calm if world.freezes < self.freezes => to(&|w| {
                w.freezes += 1;
                w.freeze = w.freezes;
                w.host = Host::Flagged;
                Ok(())
            }),
            Host::Calm | Host::Moved => {}
            // The writer side of the door waits for who is inside.
            Host::Flagged
                if world.ringing.contains(&true) && !self.is_broken(Broken::Admission) => {}
            Host::Flagged => to(&|w| {
                w.open = false;
                w.host = Host::Closed;
                if !self.is_broken(Broken::CutBehindDoor) {
                    w.mail.push_back(Mail::Cut(w.freeze));
                    w.host = Host::Asked;
                }
                Ok(())
            }),
            Host::Closed => to(&|w| {
                w.mail.push_back(Mail::Cut(w.freeze));
                w.host = Host::Asked;
                Ok(())
            }),
            Host::Asked => {
                to(&|w| {
                    w.freeze = 0;
                    w.mail.push_back(Mail::Thaw);
                    w.host = Host::Calm;
                    Ok(())
                });
                if world.frozen {
                    to(&|w| {
                        w.host = Host::Moved;
                        let rest = w.queue.len();
                        if rest > 0 {
                            Err(format!("{rest} are not in the snapshot"))
                        } else {
                            Ok(())
                        }
                    });
                }
            }
        }
        next
    }

    /// The next step of the runner. `false` when it has none.
    fn run(&self, world: &mut World) -> Result<bool, String> {
        if world.host == Host::Moved {
            return Ok(false);
        }
        let takes = world.takes();
        match world.turn {
            Turn::Idle => {
                let Some(mail) = world.mail.pop_front() else { return Ok(false) };
                // The short way.
                if mail == Mail::Bell && takes && world.unread.is_empty() {
                    match world.queue.next() {
                        Next::Only(message) => return world.handle(message).map(|()| true),
                        Next::Nothing => return Ok(true),
                        Next::Several => {}
                    }
                }
                world.turn = Turn::Prepare(mail);
            }
            Turn::Prepare(mail) => {
                let old_first = !self.is_broken(Broken::OldFirst) || mail == Mail::Thaw;
                if takes
                    && old_first
                    && let Some(message) = world.unread.pop_front()
                {
                    world.handle(message)?;
                    return Ok(true);
                }
                world.turn = Turn::Batch { more: false };
                self.told(world, mail)?;
            }
            Turn::Batch { more } => {
                let goes_on = takes || (more && self.is_broken(Broken::FreezeSeen));
                if goes_on && let Some(message) = world.unread.pop_front() {
                    world.handle(message)?;
                    return Ok(true);
                }
                if more && takes && !self.is_broken(Broken::RestRings) {
                    world.mail.push_back(Mail::Bell);
                }
                world.turn = Turn::Idle;
            }
            Turn::CatchUp { open } => {
                if takes && let Some(message) = world.unread.pop_front() {
                    world.handle(message)?;
                } else if takes && let Some(message) = world.log.get(world.cursor).copied() {
                    world.cursor += 1;
                    world.handle(message)?;
                } else {
                    world.open |= open && takes;
                    world.turn = Turn::Idle;
                }
            }
        }
        Ok(true)
    }

    fn told(&self, world: &mut World, mail: Mail) -> Result<(), String> {
        let takes = world.takes();
        match mail {
            Mail::Bell if takes => {
                let unread = &mut world.unread;
                let more = world.queue.take(BATCH, |message| unread.push_back(message));
                world.turn = Turn::Batch { more };
            }
            Mail::Entry(index) if takes && index == world.cursor => {
                world.cursor += 1;
                world.handle(world.log[index])?;
            }
            Mail::Entry(index) if takes && index > world.cursor => {
                world.turn = Turn::CatchUp { open: false };
            }
            Mail::Bell | Mail::Entry(_) => {}
            Mail::Cut(generation) => {
                let comes_to_nothing = world.freeze != generation;
                if !(comes_to_nothing && self.is_broken(Broken::CutTakes)) {
                    let unread = &mut world.unread;
                    world.queue.take(usize::MAX, |message| unread.push_back(message));
                }
                world.frozen |= !comes_to_nothing;
            }
            Mail::Thaw => {
                world.frozen = false;
                world.turn = Turn::CatchUp { open: true };
            }
        }
        Ok(())
    }

    fn next(&self, world: &World) -> Result<Vec<World>, String> {
        let mut next = Vec::new();
        for from in 0..SENDERS {
            if world.sent[from] < self.messages || world.ringing[from] {
                let mut world = world.clone();
                self.send(&mut world, from)?;
                next.push(world);
            }
        }
        for world in self.host(world) {
            next.push(world?);
        }
        let mut ran = world.clone();
        if self.run(&mut ran)? {
            next.push(ran);
        }
        Ok(next)
    }

    /// Nothing happens any more: is everything handled, here or from the snapshot and the log?
    fn end(&self, mut world: World) -> Result<(), String> {
        if world.host == Host::Moved {
            let rest = world.unread.split_off(0).into_iter();
            let logged = world.log.split_off(world.cursor);
            for message in rest.chain(logged) {
                world.count(message)?;
            }
        }
        match world.handled == [self.messages; SENDERS] {
            true => Ok(()),
            false => Err(format!("only {:?} of {} were handled", world.handled, self.messages)),
        }
    }

    /// The number of states, or the first harm.
    fn all(&self) -> Result<usize, String> {
        let mut seen = HashSet::from([World::new()]);
        let mut open = vec![World::new()];
        while let Some(world) = open.pop() {
            let next = self.next(&world)?;
            if next.is_empty() {
                self.end(world)?;
                continue;
            }
            for world in next {
                if seen.insert(world.clone()) {
                    open.push(world);
                }
            }
        }
        Ok(seen.len())
    }
}

#[test]
fn order_holds_in_every_interleaving() {
    for (messages, freezes) in [(4, 0), (3, 1), (3, 2)] {
        let states = Search { broken: Broken::None, messages, freezes }.all();
        let states = states.unwrap_or_else(|harm| panic!("{messages}, {freezes}: {harm}"));
        println!("{messages} messages a sender, {freezes} freezes: {states} states");
        assert!(states > 100, "{states}");
    }
}

#[test]
fn every_rule_is_needed() {
    let rules = [
        Broken::Admission,
        Broken::FirstRings,
        Broken::RestRings,
        Broken::FreezeSeen,
        Broken::CutBehindDoor,
        Broken::CutTakes,
        Broken::OldFirst,
    ];
    for broken in rules {
        match (Search { broken, messages: 3, freezes: 2 }).all() {
            Ok(states) => panic!("no harm without {broken:?} in {states} states"),
            Err(harm) => println!("without {broken:?}: {harm}"),
        }
    }
}

#[test]
fn bell_that_nobody_hears_hands_the_message_back() {
    let mut queue = Queue::default();
    let ticket = queue.put(1).unwrap().unwrap();
    assert_eq!(queue.put(2), Ok(None));
    assert_eq!(queue.retract(ticket), Some(1));
    // Nobody comes for what is put in from now on.
    assert_eq!(queue.put(3), Err(3));
    assert_eq!(queue.end(), [2]);
}

#[test]
fn message_that_was_taken_out_is_not_handed_back() {
    let mut queue = Queue::default();
    let first = queue.put(1).unwrap().unwrap();
    assert_eq!(queue.next(), Next::Only(1));
    let second = queue.put(2).unwrap().unwrap();
    assert_eq!(queue.retract(first), None);
    assert_eq!(queue.retract(second), Some(2));
    assert_eq!(queue.put(3), Err(3));
}

#[test]
fn memory_is_given_back_after_a_burst() {
    let mut queue = Queue::default();
    for number in 0..100_000 {
        assert_eq!(queue.put(number).unwrap().is_some(), number == 0);
    }
    let mut expected = 0;
    let mut check = |number| {
        assert_eq!(number, expected);
        expected += 1;
    };
    // Never empty.
    while queue.len() > 64 {
        assert!(queue.take(64, &mut check));
        assert!(
            queue.waiting.capacity() <= (queue.len() * 8 + 8).max(super::KEPT),
            "{}",
            queue.len()
        );
    }
}
