//! BR-15: stored snapshots that cannot be read; and those that cannot be stored.

use std::time::Duration;

use bytes::Bytes;
use ractor::rpc::CallResult;
use ractor_rooms::clock::Clock;
use ractor_rooms::codec::Snapshot;
use ractor_rooms::id::{Kind, Life};
use ractor_rooms::protocol::Record;
use ractor_rooms::protocol::record::{DeclineReason, ParkReason, Phase, RecordLimits};
use ractor_rooms::testing::{Fault, Operation};
use ractor_rooms::{MemoryTransport, MigrationErr, RoomFault};
use ractor_rooms_tests::cluster::{Cluster, host_name, test_store};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::holes::{self, Lab, PadMsg, in_time, note, notes, pad, show};
use ractor_rooms_tests::meddler::Meddler;
use ractor_rooms_tests::rooms::{Class, Knobs, LedgerMsg, Seen};

use crate::in_both_classes;

in_both_classes! {
    /// BR-15.
    br_15_a_snapshot_that_is_cut_short_is_refused(Damage::Cut);
    /// BR-15.
    br_15_a_snapshot_with_a_flipped_bit_is_refused(Damage::Flipped);
    /// BR-15.
    br_15_a_snapshot_of_an_unknown_frame_version_is_refused(Damage::NewerFrame);
    /// BR-15.
    br_15_a_snapshot_of_a_newer_schema_is_refused(Damage::NewerSchema);
    /// BR-15.
    br_15_a_snapshot_of_another_kind_is_refused(Damage::OtherKind);
    /// BR-15.
    br_15_a_snapshot_of_another_life_is_refused(Damage::OtherLife);
    /// BR-15.
    br_15_an_empty_snapshot_is_refused(Damage::Empty);
    /// BR-15, when the reader is the target of a move.
    br_15_a_room_whose_snapshot_the_target_cannot_read_stays;
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    Cut,
    Flipped,
    NewerFrame,
    NewerSchema,
    OtherKind,
    OtherLife,
    Empty,
}
use br_15_refused as br_15_a_snapshot_that_is_cut_short_is_refused;
use br_15_refused as br_15_a_snapshot_with_a_flipped_bit_is_refused;
use br_15_refused as br_15_a_snapshot_of_an_unknown_frame_version_is_refused;
use br_15_refused as br_15_a_snapshot_of_a_newer_schema_is_refused;
use br_15_refused as br_15_a_snapshot_of_another_kind_is_refused;
use br_15_refused as br_15_a_snapshot_of_another_life_is_refused;
use br_15_refused as br_15_an_empty_snapshot_is_refused;

impl Damage {
    fn on(self, kind: &str, bytes: &Bytes) -> Bytes {
        let again = |change: fn(&mut Snapshot)| {
            let kind = Kind::new(kind.to_owned()).unwrap();
            let mut snapshot = Snapshot::decode(bytes.clone(), &kind, usize::MAX).unwrap();
            change(&mut snapshot);
            snapshot.encode(usize::MAX).unwrap()
        };
        let byte = |at: usize, change: fn(u8) -> u8| {
            let mut bytes = bytes.to_vec();
            bytes[at] = change(bytes[at]);
            Bytes::from(bytes)
        };
        match self {
            Self::Cut => bytes.slice(..bytes.len() - 10),
            Self::Flipped => byte(bytes.len() / 2, |b| b ^ 0x10),
            Self::NewerFrame => byte(2, |_| 200),
            Self::NewerSchema => again(|s| s.header.schema = 2),
            Self::OtherKind => again(|s| s.header.room_kind = Kind::new("stranger").unwrap()),
            Self::OtherLife => again(|s| s.header.life = Life(s.header.life.0 + 1)),
            Self::Empty => Bytes::new(),
        }
    }

    /// Whether the reason is the right one, with what was expected and what was found.
    fn explains(self, why: &DeclineReason) -> bool {
        let parts: &[&str] = match self {
            Self::Cut => &["cut short", "expected", "found"],
            Self::Flipped => &["checksum", "expected", "found"],
            Self::NewerFrame => &["version 200", "expected 1"],
            Self::NewerSchema => {
                return *why == DeclineReason::UnreadableVersion { found: 2, supported: 1 };
            }
            Self::OtherKind => &["expected", "ledger", "found", "stranger"],
            Self::OtherLife => &["expected a snapshot of life", "found life"],
            Self::Empty => &["expected", "found"],
        };
        match why {
            DeclineReason::RestoreFailed { error } => parts.iter().all(|part| error.contains(part)),
            _ => false,
        }
    }
}

/// How long a room rests in these tests once nobody could adopt it.
const REST: Duration = Duration::from_secs(1);

async fn br_15_refused<C: Class>(damage: Damage) {
    let blocked_ms = REST.as_millis() as u64;
    let limits = RecordLimits { blocked_ms, ..RecordLimits::default() };
    let store = MemoryTransport::with(limits, Clock::system());
    let meddler = Meddler::new(store.clone());
    let cluster = Cluster::over(store, meddler.clone(), 1, Knobs::default(), |_, b| b).await;
    let room = cluster.ledger::<C>(0, "kept");
    for number in 1..=5 {
        room.send(LedgerMsg::Note { from: 1, number }).await.unwrap();
    }
    cluster.notes::<C>(0, "kept").await;
    cluster.unload::<C>(0, "kept").await;
    let stored = cluster.stored_snapshot::<C>("kept").unwrap();
    meddler.alter_snapshots(move |bytes| damage.on(C::LEDGER, &bytes));
    let reads_before = meddler.snapshot_reads();

    // It is wanted, so it is tried; and after three failures it rests.
    room.send(LedgerMsg::Note { from: 1, number: 6 }).await.unwrap();
    let why = blocked_because::<C>(&cluster).await;
    assert!(damage.explains(&why), "{damage:?}: {why:?}");
    let impatient = room.call(LedgerMsg::Notes, Some(Duration::from_millis(300))).await;
    assert!(matches!(impatient, Ok(CallResult::Timeout)), "answered although it cannot run");
    assert_eq!(cluster.knobs.count(&Seen::Started), 1, "it did not start anew");
    assert_eq!(cluster.stored_snapshot::<C>("kept").unwrap(), stored);

    // Two more rests, to see that the attempts are bounded.
    let failures = eventually("five failures", || async {
        let failures = failed_starts(&cluster);
        (failures.len() >= 5).then_some(failures)
    })
    .await;
    for (i, (at, why)) in failures.iter().enumerate() {
        assert!(damage.explains_text(why), "{damage:?}: {why}");
        if i >= 3 {
            let rested = *at - failures[i - 1].0;
            assert!(rested >= REST - Duration::from_millis(2), "tried again after {rested:?}");
        }
    }
    let reads = meddler.snapshot_reads() - reads_before;
    assert!(reads <= failed_starts(&cluster).len() as u64 + 1, "{reads} reads");

    meddler.heal_snapshots();
    let expected: Vec<_> = (1..=6).map(|number| (1, number)).collect();
    assert_eq!(cluster.notes::<C>(0, "kept").await, expected);
    assert_eq!(cluster.knobs.count(&Seen::Started), 1);
    assert_eq!(cluster.record::<C>("kept").unwrap().dead_letters, []);
    cluster.stop().await;
}

impl Damage {
    /// The same for the reason as a fault carries it.
    fn explains_text(self, why: &str) -> bool {
        match self {
            Self::NewerSchema => why.contains("schema version 2") && why.contains("up to 1"),
            _ => self.explains(&DeclineReason::RestoreFailed { error: why.to_owned() }),
        }
    }
}

async fn blocked_because<C: Class>(cluster: &Cluster) -> DeclineReason {
    eventually("the room rests", || async {
        match cluster.record::<C>("kept").unwrap().phase {
            Phase::Parked { why: ParkReason::Blocked { why, .. } } => Some(why),
            _ => None,
        }
    })
    .await
}

fn failed_starts(cluster: &Cluster) -> Vec<(Duration, String)> {
    let failed = |(at, fault)| match fault {
        RoomFault::StartFailed { why, .. } => Some((at, why)),
        _ => None,
    };
    cluster.faults.timed().into_iter().filter_map(failed).collect()
}

async fn br_15_a_room_whose_snapshot_the_target_cannot_read_stays<C: Class>() {
    let store = test_store();
    let meddler = Meddler::new(store.clone());
    let cluster = Cluster::over(store, meddler.clone(), 2, Knobs::default(), |_, b| b).await;
    cluster.place::<C>("kept", 0).await;
    let room = cluster.ledger::<C>(0, "kept");
    for (number, damage) in [(1, Damage::Cut), (2, Damage::Flipped), (3, Damage::OtherKind)] {
        room.send(LedgerMsg::Note { from: 1, number }).await.unwrap();
        cluster.notes::<C>(0, "kept").await;
        meddler.alter_snapshots(move |bytes| damage.on(C::LEDGER, &bytes));
        match cluster.migrate::<C>(0, "kept", 1).await.unwrap_err() {
            MigrationErr::NotAdopted { why: Some(why), .. } => {
                assert!(damage.explains(&why), "{damage:?}: {why:?}");
            }
            other => panic!("expected NotAdopted, found {other:?}"),
        }
        assert_eq!(cluster.host_of::<C>(1, "kept").await, host_name(0));
    }
    meddler.heal_snapshots();
    assert_eq!(cluster.notes::<C>(1, "kept").await, [(1, 1), (1, 2), (1, 3)]);
    cluster.migrate::<C>(0, "kept", 1).await.unwrap();
    assert_eq!(cluster.notes::<C>(0, "kept").await, [(1, 1), (1, 2), (1, 3)]);
    assert_eq!(cluster.host_of::<C>(0, "kept").await, host_name(1));
    cluster.stop().await;
}

/// A checkpoint fails after the last message. It is reported, and made again though nothing more comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_checkpoint_that_fails_is_reported_and_made_again() {
    let lab = Lab::default();
    let every = Duration::from_millis(200);
    let a = lab.host_with("a", |c| c.checkpoint_interval = every).await;
    let room = pad::<holes::Durable>(&a, "pad");
    room.send(note(1, 1)).await.unwrap();
    lab.record_when::<holes::Durable>("pad", "it is saved", |r| r.log.is_empty()).await;
    lab.next_of("a", Operation::PutSnapshot, Fault::Refuse);
    room.send(note(1, 2)).await.unwrap();
    lab.record_when::<holes::Durable>("pad", "it is saved again", |r| r.log.is_empty()).await;
    let of_the_room = |fault: &RoomFault| match fault {
        RoomFault::CheckpointFailed { room, .. } => room.key.as_bytes() == b"pad",
        _ => false,
    };
    let faults = lab.faults();
    assert_eq!(faults.iter().filter(|fault| of_the_room(fault)).count(), 1, "{faults:?}");
    holes::stop(&[&a]).await;
}

/// A checkpoint is under way when the store restarts. The room is re-asserted, and saved by that: nothing failed.
/// Several times, because the host may notice first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_checkpoint_of_an_earlier_generation_is_no_failure() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let room = pad::<holes::Durable>(&a, "pad");
    let last = 12;
    for number in 1..=last {
        room.send(note(1, number)).await.unwrap();
        let held = lab.next_of("a", Operation::Checkpoint, Fault::HoldRequest);
        room.send(PadMsg::Save).await.unwrap();
        in_time("it is saved", held.hit()).await;
        lab.store.restart(None);
        held.release();
        let generation = lab.store.inspect(|store| store.generation());
        let proved = |r: &Record| r.proved == generation && r.settled;
        lab.record_when::<holes::Durable>("pad", "it is proved", proved).await;
    }
    assert_eq!(show(&room).await.notes, notes(1, 1..=last));
    assert_eq!(lab.faults(), []);
    holes::stop(&[&a]).await;
}
