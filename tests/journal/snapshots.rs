//! A snapshot sees one committed state, as long as no room has to be made.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use journal_core::{Hook, NoHook, Rule};
use lab::erased::{DynDisk, DynJournal, any_options};
use nvm_journal::policy::{Policy as _, Thresholds};
use nvm_journal::{AnyPolicy, Durability, Error, Journal, Operation};

use crate::use_it::{BLOCK, Files, any_memory, block};

/// Breaks some rule.
#[derive(Clone, Debug)]
struct Without(Rule);

impl Hook for Without {
    fn keeps(&self, rule: Rule) -> bool {
        self.0 != rule
    }
}

fn open(
    files: &Files,
    policy: AnyPolicy,
    hook: impl Hook + Clone + Send + Sync + 'static,
) -> DynJournal {
    let options = any_options(policy, hook).lanes(2).lane_bytes(256 << 10);
    let options = if policy.wants_slots() { options.lane_slots(40) } else { options };
    let disk = DynDisk::new(files.disk());
    Journal::format(any_memory(2 << 20), disk, &options).expect("formats")
}

fn write(journal: &DynJournal, number: u64, value: u8) {
    let image = [value; BLOCK];
    journal.commit(&[Operation::write(block(number), &image)], Durability::Durable).expect("fits");
}

/// Writes a block through the second lane: the first seat is taken.
fn write_through_the_second(journal: &DynJournal, number: u64, value: u8) {
    let _first = journal.begin().expect("begins");
    journal.transact(|tx| tx.write(block(number), &[value; BLOCK])).expect("commits");
}

#[test]
fn a_snapshot_sees_what_was_committed_when_it_was_made() {
    for policy in AnyPolicy::ALL {
        let files = Files::new(&format!("snapshot-{policy}"));
        let journal = open(&files, *policy, NoHook);
        let mut expected = [0; 6];
        // Some blocks are home, and some are not.
        for number in 0..4 {
            write(&journal, number, 1);
            expected[number as usize] = 1;
        }
        journal.checkpoint().expect("writes home");
        write(&journal, 1, 2);
        journal.transact_deferred(|tx| tx.write(block(2), &[3; BLOCK])).expect("commits");
        journal.transact_gathered(|tx| tx.write(block(3), &[4; BLOCK])).expect("is gathered");
        expected[1..4].copy_from_slice(&[2, 3, 4]);
        let snapshot = journal.snapshot().expect("is made");
        // Whatever comes now, in whatever way, the snapshot does not see.
        for round in 0..8_u8 {
            for number in 0..6 {
                match (u64::from(round) + number) % 5 {
                    0 => write(&journal, number, 100 + round),
                    1 => write_through_the_second(&journal, number, 120 + round),
                    2 => journal
                        .transact_gathered(|tx| tx.write_at(block(number), 7, &[round; 30]))
                        .expect("is gathered"),
                    3 => journal
                        .transact_deferred(|tx| tx.write_at(block(number), 90, &[round; 9]))
                        .expect("commits"),
                    _ => journal.transact(|tx| tx.discard(block(number))).expect("commits"),
                }
            }
            for (number, expected) in (0..).zip(expected) {
                let mut found = [9; BLOCK];
                snapshot.read(block(number), &mut found).expect("is kept");
                assert!(found == [expected; BLOCK], "{policy}: {round}, {number}: {}", found[0]);
                let mut some = [9; 5];
                snapshot.read_at(block(number), 88, &mut some).expect("is kept");
                assert_eq!(some, [expected; 5]);
            }
        }
        assert!(!snapshot.is_too_old());
        journal.checkpoint().expect("writes home");
        assert!(snapshot.is_too_old());
        assert_eq!(snapshot.read(block(1), &mut [0; BLOCK]), Err(Error::SnapshotTooOld));
        assert_eq!(journal.stats().expect("counts").snapshots_ended, 1);
        // The next one is as good as new, and one that is dropped keeps nothing.
        write(&journal, 1, 77);
        let next = journal.snapshot().expect("is made");
        drop(snapshot);
        write(&journal, 1, 78);
        let mut found = [0; BLOCK];
        next.read(block(1), &mut found).expect("is kept");
        assert!(found == [77; BLOCK]);
        drop(next);
        journal.checkpoint().expect("writes home");
        assert_eq!(journal.stats().expect("counts").snapshots_ended, 1);
    }
}

/// Writers go on without a thread, a tick or a checkpoint of the host: the snapshot gives way.
#[test]
fn a_snapshot_ends_where_writers_need_the_room() {
    for policy in AnyPolicy::ALL {
        let files = Files::new(&format!("snapshot-full-{policy}"));
        let journal = open(&files, *policy, NoHook);
        write(&journal, 0, 1);
        let snapshot = journal.snapshot().expect("is made");
        let mut rounds = 0;
        while !snapshot.is_too_old() {
            rounds += 1;
            assert!(rounds < 100_000, "{policy}: there cannot be room for so much");
            let mut found = [0; BLOCK];
            let read = snapshot.read(block(0), &mut found);
            assert!(read == Ok(()) && found == [1; BLOCK], "{policy}: {rounds}, {read:?}");
            write(&journal, 0, (rounds % 100) as u8 + 2);
        }
        // Two lanes of 64 blocks, or their slots.
        assert!(rounds > 20, "{policy}: {rounds}");
    }
}

/// What shows when a rule is not kept: whether the snapshot is as it was.
fn holds_without(rule: Rule) -> bool {
    let files = Files::new(&format!("snapshot-without-{rule:?}"));
    let policy = AnyPolicy::by_name("full-block").expect("there is one");
    let journal = open(&files, policy, Without(rule));
    for _ in 0..5 {
        write(&journal, 0, 1);
    }
    let snapshot = journal.snapshot().expect("is made");
    match rule {
        Rule::SnapshotsKept => (2..9).for_each(|value| write(&journal, 0, value)),
        // The second lane has hardly any stamps yet.
        Rule::SnapshotsStamped => write_through_the_second(&journal, 1, 7),
        _ => {
            write(&journal, 0, 2);
            journal.checkpoint().expect("writes home");
        }
    }
    let (mut first, mut second) = ([0; BLOCK], [0; BLOCK]);
    let read = |number, into: &mut [u8]| snapshot.read(block(number), into);
    match (read(0, &mut first), read(1, &mut second)) {
        (Ok(()), Ok(())) => first == [1; BLOCK] && second == [0; BLOCK],
        (Err(Error::SnapshotTooOld), _) | (_, Err(Error::SnapshotTooOld)) => true,
        _ => false,
    }
}

/// What a snapshot shows of a block that is at home when it begins, and is then discarded and
/// appended.
fn seen_below_an_append(policy: AnyPolicy, rule: Rule) -> u8 {
    let files = Files::new(&format!("snapshot-append-{policy}-{rule:?}"));
    let journal = open(&files, policy, Without(rule));
    write(&journal, 0, 1);
    journal.checkpoint().expect("writes home");
    let snapshot = journal.snapshot().expect("is made");
    journal.commit(&[Operation::Discard(block(0))], Durability::Durable).expect("fits");
    journal.transact(|tx| tx.append(block(0), &[2; BLOCK])).expect("commits");
    let mut image = [0; BLOCK];
    snapshot.read(block(0), &mut image).expect("is kept");
    image[0]
}

#[test]
fn an_append_is_logged_where_a_snapshot_may_see_what_is_home() {
    for policy in AnyPolicy::ALL {
        assert_eq!(seen_below_an_append(*policy, Rule::Sticky), 1, "{policy}");
    }
    let found = AnyPolicy::ALL.iter();
    let found = found.filter(|policy| seen_below_an_append(**policy, Rule::SnapshotsKept) == 2);
    assert!(found.count() > 0, "nothing notices");
}

#[test]
fn each_rule_of_snapshots_is_needed() {
    for rule in [Rule::SnapshotsKept, Rule::SnapshotsEnd, Rule::SnapshotsStamped] {
        assert!(!holds_without(rule), "{rule:?} is off, and nothing notices");
    }
    assert!(holds_without(Rule::Sticky), "which has nothing to do with it");
}

/// Threads move amounts between blocks, and readers add all of them up, while room is made in the
/// background: the sum is always the same.
#[test]
fn a_snapshot_is_one_state_beside_threads() {
    const ACCOUNTS: u64 = 12;
    for policy in AnyPolicy::ALL {
        let files = Files::new(&format!("snapshot-threads-{policy}"));
        let options = any_options(*policy, NoHook).lanes(3).thresholds(Thresholds::new(128, 160));
        let options = options.background_checkpoint(true);
        let disk = DynDisk::new(files.disk());
        let journal = Journal::format(any_memory(4 << 20), disk, &options).expect("formats");
        let journal: &DynJournal = &journal;
        let (stops, sums) = (&AtomicBool::new(false), &AtomicU64::new(0));
        let amount = |image: &[u8]| i64::from_le_bytes(image.try_into().expect("a word"));
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                scope.spawn(move || {
                    let mut at = thread * 7 + 1;
                    while !stops.load(Ordering::Relaxed) {
                        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let (from, to) = (at >> 33 & 0xFF, at >> 41 & 0xFF);
                        let (from, to) = (from % ACCOUNTS, to % ACCOUNTS);
                        let moved = journal.transact(|tx| {
                            for (number, step) in [(from, -1), (to, 1)] {
                                let mut word = [0; 8];
                                tx.read_at(block(number), 0, &mut word)?;
                                let sum = amount(&word) + step;
                                tx.write_at(block(number), 0, &sum.to_le_bytes())?;
                            }
                            Ok::<_, Error>(())
                        });
                        moved.expect("commits");
                    }
                });
            }
            let begun = std::time::Instant::now();
            while sums.load(Ordering::Relaxed) < 50 && begun.elapsed() < Duration::from_secs(20) {
                let snapshot = journal.snapshot().expect("is made");
                let words: Result<Vec<_>, Error> = (0..ACCOUNTS)
                    .map(|number| {
                        let mut word = [0; 8];
                        snapshot.read_at(block(number), 0, &mut word).map(|()| amount(&word))
                    })
                    .collect();
                match words {
                    Ok(words) => {
                        let sum: i64 = words.iter().sum();
                        if sum != 0 {
                            stops.store(true, Ordering::Relaxed);
                            panic!("{policy}: {words:?}");
                        }
                        sums.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(Error::SnapshotTooOld) => {}
                    Err(error) => {
                        stops.store(true, Ordering::Relaxed);
                        panic!("{policy}: {error}");
                    }
                }
            }
            stops.store(true, Ordering::Relaxed);
        });
        assert!(sums.load(Ordering::Relaxed) > 0, "{policy}: no snapshot lived long enough");
    }
}
