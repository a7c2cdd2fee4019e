//! Journals with slots: making room in the middle of a commit gives no slot to two blocks.

use byte_delta::ByteDelta;
use journal_core::{BlockSize, Geometry, NoHook, PortableKernels, Protocol};
use lcow::Lcow;
use nvm_journal::{AnyJournal, AnyPolicy, Durability, Error, Journal, Operation, Options};

use crate::use_it::{BLOCK, BLOCKS, Files, block, memory};

const SLOTS: u32 = 12;

fn geometry(lanes: u16) -> Geometry {
    Geometry {
        block_size: BlockSize::DEFAULT,
        lanes,
        lane_bytes: 6 * 128 + 4096 + 128,
        shield_blocks: 2,
        unit_bytes: 4096,
        protocol: Protocol::OneFence,
        lane_slots: SLOTS,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

fn open(files: &Files, lanes: u16, background: bool) -> AnyJournal {
    let geometry = geometry(lanes);
    let span = geometry.span_bytes().expect("small");
    let mut region = memory(span);
    let policy = AnyPolicy::from(ByteDelta::new());
    let disk = files.disk();
    journal_core::format(
        &mut region,
        NoHook,
        &PortableKernels,
        &geometry,
        [7; 16],
        &policy,
        BLOCKS,
    )
    .expect("formats");
    let options = Options::new().policy(policy).index_frames(1 << 12);
    let options = options.background_checkpoint(background);
    Journal::open(region, disk, &options).expect("opens")
}

/// The version that a commit rewrites may be given back by the very commit, when it makes room: it
/// is written all the same, or another one is, but no other block's.
#[test]
fn room_made_in_a_commit_takes_no_slot_from_it() {
    let files = Files::new("room-slots");
    let journal = open(&files, 1, false);
    let mut expected = vec![0_u8; 5];
    for round in 1..=200_u8 {
        for number in 0..5_u64 {
            if (u64::from(round) * 7 + number) % 3 == 0 {
                continue;
            }
            let image = [round; BLOCK];
            let write = [Operation::write(block(number), &image)];
            journal.commit(&write, Durability::Durable).expect("commits");
            expected[number as usize] = round;
            for (number, expected) in (0..).zip(&expected) {
                let mut found = [0; BLOCK];
                journal.read(block(number), &mut found).expect("reads");
                assert!(found == [*expected; BLOCK], "round {round}, block {number}: {}", found[0]);
            }
        }
    }
}

/// Threads with blocks of their own, in fewer slots than they could use, beside one that makes
/// room: each reads what it wrote, always.
#[test]
fn no_slot_is_given_to_two_blocks_beside_other_threads() {
    let files = Files::new("threads-slots");
    let journal = &open(&files, 2, true);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let mut expected = [[0_u8; 2]; 3];
                for round in 1..=1_500_u64 {
                    let at = (round * 5 + round / 7 + thread) as usize % expected.len();
                    let value = [round as u8, thread as u8];
                    let number = block(thread * 8 + at as u64);
                    let image: Vec<u8> = value.iter().copied().cycle().take(BLOCK).collect();
                    let durability =
                        if round % 5 == 0 { Durability::Deferred } else { Durability::Durable };
                    let write = [Operation::write(number, &image)];
                    journal.commit(&write, durability).expect("commits");
                    expected[at] = value;
                    for (at, expected) in (0..).zip(&expected) {
                        let mut found = vec![0; BLOCK];
                        journal.read(block(thread * 8 + at), &mut found).expect("reads");
                        let is_it = found.chunks(2).all(|pair| pair == expected);
                        assert!(is_it, "thread {thread}, round {round}, block {at}");
                    }
                }
            });
        }
    });
}

/// Four threads move amounts between counters while slots run short all the time: they are folded,
/// given back, evicted and taken again behind the threads' backs.
fn transfers(policy: AnyPolicy, round: u64) {
    let files = Files::new(&format!("short-of-slots-{policy}-{round}"));
    let options = Options::new().policy(policy).lanes(2).lane_bytes(160 << 10).lane_slots(10);
    let options = options.background_checkpoint(true);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(1 << 20), files.disk(), &options).expect("formats");
    let work = |seed: u64| {
        for step in 0..4_000_u64 {
            let mix = (seed * 7919 + step).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let moved = journal.transact(|tx| {
                for (number, amount) in [(mix % 12, u64::MAX), ((mix >> 20) % 12, 1)] {
                    let mut counter = [0; 8];
                    tx.read_at(block(number), 16, &mut counter)?;
                    let counter = u64::from_le_bytes(counter).wrapping_add(amount);
                    tx.write_at(block(number), 16, &counter.to_le_bytes())?;
                }
                Ok::<_, Error>(())
            });
            moved.expect("gets through");
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|seed| {
            let work = &work;
            scope.spawn(move || work(4 * round + seed));
        });
    });
    let mut content = vec![0; BLOCK];
    let counters = (0..12).map(|number| {
        journal.read(block(number), &mut content).expect("reads");
        u64::from_le_bytes(content[16..24].try_into().expect("eight bytes"))
    });
    let sum = counters.fold(0_u64, u64::wrapping_add);
    assert_eq!(sum, 0, "{policy}: nothing is made and nothing is lost");
    journal.close().expect("closes");
}

#[test]
fn transfers_keep_the_sum_while_slots_run_short() {
    for round in 0..6 {
        transfers(ByteDelta::new().into(), round);
        transfers(Lcow::new().into(), round);
    }
}
