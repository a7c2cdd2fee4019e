//! Wear: what is said of the lines that were stored, region by region, is what the simulator saw.

use journal_core::{DeviceFacts, NoHook, Overwrite};
use lab::erased::{DynJournal, any_options};
use nvm_journal::{AnyPolicy, BlockSize, Journal, Stats};
use sim_disk::{DiskImage, Event, Image, Model, World};

use crate::use_it::{BLOCK, block};

const LINE: u64 = 64;

/// The lines of a region that stores have touched, in parts as the statistics have them.
fn seen(world: &World, from: usize, (start, bytes): (u64, u64)) -> [u64; 16] {
    let mut part = 1;
    while 16 * part * LINE < bytes {
        part *= 2;
    }
    let mut seen = [0; 16];
    for entry in &world.tape().entries()[from..] {
        let (Event::Store { at, bytes: stored } | Event::Stream { at, bytes: stored }) =
            &entry.event
        else {
            continue;
        };
        if *at < start || *at >= start + bytes || stored.is_empty() {
            continue;
        }
        let first = (at - start) / LINE;
        let last = (at - start + stored.len() as u64 - 1) / LINE;
        (first..=last).for_each(|line| seen[(line / part) as usize] += 1);
    }
    seen
}

/// Work of every kind: records that go round the lanes, slots, their entries, spills, the shield.
fn work(journal: &DynJournal) {
    let image = |round: u64| vec![round as u8; BLOCK];
    for round in 0..60_u64 {
        let number = block(round * 7 % 24);
        match round % 5 {
            0 | 1 => journal.transact(|tx| tx.write(number, &image(round))),
            2 => journal.transact(|tx| tx.write_at(number, 50, &round.to_le_bytes())),
            3 => journal.transact_deferred(|tx| tx.write_at(number, 9, &[round as u8])),
            _ => journal.transact_gathered(|tx| {
                (0..4).try_for_each(|more| tx.write(block(30 + more), &image(round)))
            }),
        }
        .expect("commits");
        if round % 10 == 9 {
            journal.sync().expect("commits");
        }
        if round % 20 == 19 {
            journal.checkpoint().expect("writes home");
            let mut into = vec![0; BLOCK];
            (0..8).for_each(|number| journal.read(block(number), &mut into).expect("reads"));
        }
    }
    journal.sync().expect("commits");
}

#[test]
fn wear_is_what_the_simulator_counts_line_by_line() {
    for policy in AnyPolicy::ALL.iter().copied() {
        let facts = DeviceFacts::new(64, Overwrite::MayLeaveGarbage);
        let disk = DiskImage::blank(BlockSize::DEFAULT, 256, facts);
        let world = World::boot(Image::blank(1 << 20).with_disk(disk), Model::Torn8);
        let (nvm, disk) = lab::erased::of_world(&world);
        let options = any_options(policy, NoHook).lanes(2).lane_bytes(64 << 10);
        let options = options.buffer_bytes(3 * BLOCK).clean_slots(4).keep_on_close(true);
        drop(Journal::format(nvm, disk, &options).expect("formats"));
        let from = world.tape().len();
        let (nvm, disk) = lab::erased::of_world(&world);
        let journal: DynJournal = Journal::open(nvm, disk, &options).expect("opens");
        work(&journal);
        let stats: Stats = journal.stats().expect("counts");
        let geometry = journal.geometry();
        let (lanes, lane_bytes) = (u64::from(geometry.lanes), geometry.lane_bytes);
        let unit = u64::from(geometry.unit_bytes);
        let sum = |parts: [u64; 16]| parts.iter().sum::<u64>();
        assert_eq!(sum(seen(&world, from, (0, 2 * unit))), stats.superblock_lines, "{policy}");
        let shield = (geometry.shield().raw(), geometry.shield_bytes());
        assert_eq!(seen(&world, from, shield), stats.shield_wear, "{policy}: shield");
        let rings = shield.0 + shield.1 + geometry.tails_bytes();
        let entries = rings + lanes * lane_bytes;
        let slots = entries + lanes * geometry.entries_bytes();
        for (number, lane) in (0..).zip(&stats.lanes) {
            let region = |start: u64, bytes: u64| (start + number * bytes, bytes);
            let ring = seen(&world, from, region(rings, lane_bytes));
            assert_eq!(ring, lane.ring_wear, "{policy}: ring {number}");
            let of_entries = seen(&world, from, region(entries, geometry.entries_bytes()));
            assert_eq!(of_entries, lane.entry_wear, "{policy}: entries {number}");
            let of_slots = seen(&world, from, region(slots, geometry.slots_bytes()));
            assert_eq!(of_slots, lane.slot_wear, "{policy}: slots {number}");
        }
        let total = stats.total();
        assert_eq!(sum(total.ring_wear), stats.record_lines, "{policy}");
        assert_eq!(sum(total.entry_wear) + sum(total.slot_wear), stats.slot_lines, "{policy}");
        assert!(stats.record_lines > 0 && stats.superblock_lines > 0);
    }
}
