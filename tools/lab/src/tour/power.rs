//! The third stop: a power cut, which only the simulator can make.
//!
//! A killed process tears nothing that it has stored: the kernel and the processor finish it. When
//! the power goes, each word of what was stored and not fenced is there or is not.

use core::error::Error;

use journal_core::NoHook;
use nvm_journal::{BlockNumber, BlockSize, FullBlock};
use sim_disk::tape::Mark;
use sim_disk::{CrashPoints, DiskImage, Image, Model, Rng, World};

use super::stop::Verdict;
use crate::erased::{DynJournal, any_options, of_world};

const ACKNOWLEDGED: u64 = 3;
const BLOCKS: u64 = 4;
const BYTES: usize = 512;
const NVM_BYTES: usize = 64 << 10;
const CUTS: u32 = 200;

/// What the memory held of the last record.
#[derive(Default)]
struct Cuts {
    none: u64,
    all: u64,
    torn: u64,
}

pub fn power() -> Result<Verdict, Box<dyn Error>> {
    let size = BlockSize::new(BYTES as u32).ok_or("512 is a block size")?;
    let disk = DiskImage::blank(size, 16, journal_core::DeviceFacts::cautious());
    let world = World::boot(Image::blank(NVM_BYTES).with_disk(disk), Model::Torn8);
    let options = any_options(FullBlock, NoHook).lanes(1).shield_blocks(0);
    let (pmem, disk) = of_world(&world);
    let journal = DynJournal::format(pmem, disk, &options)?;
    for number in 1..=ACKNOWLEDGED + 1 {
        world.called(number);
        journal.transact(|tx| {
            (0..BLOCKS).try_for_each(|block| tx.write(BlockNumber(block), &[number as u8; BYTES]))
        })?;
        world.returned(number);
    }
    drop(journal);
    let (start, tape) = (world.start(), world.tape());
    let (called, returned) = (Mark::Called(ACKNOWLEDGED + 1), Mark::Returned(ACKNOWLEDGED + 1));
    let points = CrashPoints::new(&start, &tape, Model::Torn8, 0);
    let during = |marks: &[Mark]| marks.contains(&called) && !marks.contains(&returned);
    // All is stored and flushed, and the fence has not returned.
    let point =
        points.filter(|point| during(point.marks())).max_by_key(|point| point.cells().len());
    let point = point.ok_or("the tape has no such instant")?;
    let words = point.cells().len();
    let (mut cuts, mut verdict, mut shown) = (Cuts::default(), Verdict::default(), None);
    for choice in point.choices(0, CUTS, &mut Rng::new(1)).take(CUTS as usize) {
        let arrived = choice.iter().filter(|option| **option != 0).count();
        let after = World::boot(point.image(&choice), Model::Torn8);
        let (pmem, disk) = of_world(&after);
        let journal = DynJournal::open(pmem, disk, &options)?;
        let mut found = [0; BLOCKS as usize * BYTES];
        for (block, content) in (0..).zip(found.chunks_mut(BYTES)) {
            journal.read(BlockNumber(block), content)?;
        }
        let last = u64::from(found[0]);
        verdict.wrong_blocks += u64::from(found.iter().any(|byte| u64::from(*byte) != last));
        verdict.lost += ACKNOWLEDGED.saturating_sub(last);
        verdict.invented += u64::from(last > ACKNOWLEDGED && arrived < words);
        match arrived {
            0 => cuts.none += 1,
            all if all == words => cuts.all += 1,
            _ => {
                cuts.torn += 1;
                // One from the middle of the sample, where about half has arrived.
                if arrived.abs_diff(words / 2) < words / 8 {
                    shown = shown.or(Some((arrived, last)));
                }
            }
        }
    }
    println!(
        "   {ACKNOWLEDGED} transactions acknowledged, the power cut inside the fence of the next"
    );
    println!("   at that instant {words} words are on their way; each may arrive or not");
    println!(
        "   of {} ways it may end, {} tore the record, {} kept all of it and {} nothing",
        cuts.torn + cuts.all + cuts.none,
        cuts.torn,
        cuts.all,
        cuts.none
    );
    if let Some((arrived, last)) = shown {
        println!(
            "   for example {arrived} of {words} words arrived: the torn record was dropped, and \
             all blocks are as transaction {last} left them"
        );
    }
    println!(
        "   acknowledged transactions lost {}, torn ones believed {}",
        verdict.lost,
        verdict.invented + verdict.wrong_blocks
    );
    if cuts.torn == 0 {
        return Err("no cut tore the record, so that nothing was shown".into());
    }
    Ok(verdict)
}
