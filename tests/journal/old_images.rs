//! Policies that are shown what a block held: in one call as in a transaction.

use std::io::{Seek as _, SeekFrom, Write as _};

use adaptive::Wish;
use journal_core::BlockDevice as _;
use journal_core::policy::{Change, Kind, Span, Update};
use nvm_journal::{
    Adaptive, AnyPolicy, BlockSize, CompressedDelta, Durability, Error, FileDisk, Hint, Journal,
    Operation, Options, TwoLevel,
};

use crate::claims::Dice;
use crate::use_it::{BLOCK, BLOCKS, Files, block, memory};

const USED: u64 = 24;

/// Ranges of a block.
const ALL: [Span; 1] = [Span { at: 0, len: BLOCK as u32 }];
const FEW: [Span; 1] = [Span { at: 8, len: 8 }];

/// What becomes of a block.
enum Step {
    Write(Hint, Vec<u8>),
    Discard,
}

fn noise(dice: &mut Dice) -> Vec<u8> {
    (0..BLOCK / 8).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect()
}

/// Some blocks, ascending, and what becomes of each; the model is brought up to it.
fn steps(dice: &mut Dice, model: &mut [Option<Vec<u8>>]) -> Vec<(u64, Step)> {
    let mut numbers: Vec<_> = (0..=dice.below(3)).map(|_| dice.below(USED)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut step = |number: u64| {
        let content = &mut model[number as usize];
        let hint = content.as_ref().map_or(Hint::APPEND, |_| Hint::DATA);
        let image = match (content.take(), dice.below(10)) {
            (Some(_), 0) => return (number, Step::Discard),
            (None, _) | (_, 1) => noise(dice),
            (Some(image), 2) => image,
            (Some(mut image), _) => {
                for _ in 0..=dice.below(4) {
                    image[dice.below(BLOCK as u64) as usize] ^= 0x55;
                }
                image
            }
        };
        *content = Some(image.clone());
        (number, Step::Write(hint, image))
    };
    numbers.into_iter().map(&mut step).collect()
}

fn operations<'o>(steps: &'o [(u64, Step)], stale: &'o [u8]) -> Vec<Operation<'o>> {
    let operation = |(number, step): &'o (u64, Step)| match step {
        Step::Discard => Operation::Discard(block(*number)),
        Step::Write(hint, image) => {
            // Nor need what it takes for new be all that is.
            let change = match number % 3 {
                _ if hint.kind == Kind::Append => Change::Image(image),
                0 => Change::Image(image),
                1 => Change::Ranges { image, ranges: &ALL },
                _ => Change::Ranges { image, ranges: &FEW[..(number % 2) as usize] },
            };
            let mut update = Update::new(block(*number), change);
            (update.class, update.kind) = (hint.class, hint.kind);
            // What a caller has read at some time need not be what is committed.
            update.old = (number % 2 == 0 && hint.kind == Kind::Overwrite).then_some(stale);
            Operation::Update(update)
        }
    };
    steps.iter().map(operation).collect()
}

fn in_a_transaction(
    journal: &Journal<AnyPolicy>,
    steps: &[(u64, Step)],
    durability: Durability,
) -> Result<(), Error> {
    let mut tx = journal.begin()?;
    for (number, step) in steps {
        match step {
            Step::Write(hint, image) => tx.write_with(block(*number), *hint, image)?,
            Step::Discard => tx.discard(block(*number))?,
        }
    }
    match durability {
        Durability::Durable => tx.commit().map(drop),
        Durability::Deferred => tx.commit_deferred().map(drop),
    }
}

fn logged(journal: &Journal<AnyPolicy>) -> [u64; 4] {
    let total = journal.stats().expect("goes on").total();
    [total.commits, total.bytes, total.logged, total.fences]
}

#[test]
fn a_call_logs_what_a_transaction_logs() {
    let wear = adaptive::Settings::new().wish(Wish::Wear);
    let policies: [AnyPolicy; 4] = [
        CompressedDelta::new().into(),
        TwoLevel::new().into(),
        Adaptive::new().into(),
        Adaptive::with(wear).into(),
    ];
    for (at, policy) in policies.into_iter().enumerate() {
        for cached in [0, 8, 64] {
            let options = Options::new().policy(policy).lanes(1).cache_bytes(cached * BLOCK);
            let name = format!("olds-{at}-{cached}");
            let files = [0, 1].map(|which| Files::new(&format!("{name}-{which}")));
            let format = |files: &Files| {
                let journal = Journal::format(memory(8 << 20), files.disk(), &options);
                journal.expect("formats")
            };
            let [called, staged]: [Journal<AnyPolicy>; 2] = files.each_ref().map(format);
            let mut dice = Dice(at as u64 * 100 + cached as u64);
            let mut model: Vec<_> = (0..USED).map(|_| Some(vec![0; BLOCK])).collect();
            let stale = noise(&mut dice);
            for round in 0..300 {
                let durability = match dice.below(4) {
                    0 => Durability::Deferred,
                    _ => Durability::Durable,
                };
                if dice.below(20) == 0 {
                    let number = dice.below(USED);
                    let image = noise(&mut dice);
                    for journal in [&called, &staged] {
                        let gathered =
                            journal.transact_gathered(|tx| tx.write(block(number), &image));
                        gathered.expect("gathers");
                    }
                    model[number as usize] = Some(image);
                }
                let steps = steps(&mut dice, &mut model);
                called.commit(&operations(&steps, &stale), durability).expect("commits");
                in_a_transaction(&staged, &steps, durability).expect("commits");
                assert_eq!(logged(&called), logged(&staged), "{name}, round {round}");
                if dice.below(50) == 0 {
                    for journal in [&called, &staged] {
                        journal.checkpoint().expect("goes home");
                    }
                }
                let mut found = vec![0; BLOCK];
                for (number, content) in (0..).zip(&model) {
                    let Some(content) = content else { continue };
                    called.read(block(number), &mut found).expect("reads");
                    assert!(found == *content, "{name}, round {round}, block {number}");
                }
            }
            let [_, bytes, ..] = logged(&called);
            // Mostly what differs.
            assert!(bytes < 200 * BLOCK as u64, "{name}: {bytes}");
            called.close().expect("closes");
            let mut disk = FileDisk::open(&files[0].0, BlockSize::DEFAULT).expect("is there");
            let mut found = vec![0; BLOCK];
            for (number, content) in (0..).zip(&model) {
                let Some(content) = content else { continue };
                disk.read(block(number), &mut found).expect("reads");
                assert!(found == *content, "{name}, block {number} at home");
            }
        }
    }
}

#[test]
fn what_is_said_to_be_new_is_not_looked_at() {
    let files = Files::new("olds-new");
    let options = Options::new().policy(AnyPolicy::from(CompressedDelta::new())).lanes(1);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    let image = noise(&mut Dice(2));
    let looked = || journal.stats().expect("goes on").cached.misses;
    for (number, kind, misses) in [(1, Kind::Append, 0), (2, Kind::Overwrite, 1)] {
        let mut update = Update::new(block(number), Change::Image(&image));
        update.kind = kind;
        // Brought, so that it is not looked at for another reason.
        update.old = Some(&image);
        let committed = journal.commit(&[Operation::Update(update)], Durability::Durable);
        committed.expect("commits").expect("is logged");
        assert_eq!(looked(), misses, "{kind:?}");
    }
}

#[test]
fn a_block_that_cannot_be_read_is_written_anew_in_one_call() {
    let files = Files::new("olds-rotten");
    let policy = AnyPolicy::from(CompressedDelta::new());
    let options = Options::new().policy(policy).lanes(1).cache_bytes(0).lane_log_blocks(64);
    let mut dice = Dice(1);
    let journal: Journal<AnyPolicy> =
        Journal::format(memory(4 << 20), files.disk(), &options).expect("formats");
    let images = [noise(&mut dice), noise(&mut dice)];
    let write = |change| {
        let update = Operation::Update(Update::new(block(3), change));
        journal.commit(&[update], Durability::Durable)
    };
    write(Change::Image(&images[0])).expect("commits").expect("is logged");
    // It lies in the disk-side log, all of which rots.
    let mut file = std::fs::OpenOptions::new().write(true).open(&files.0).expect("is there");
    let behind = journal.block_count() as usize * BLOCK;
    file.seek(SeekFrom::Start(behind as u64)).expect("seeks");
    file.write_all(&vec![0xA5; BLOCKS as usize * BLOCK - behind]).expect("writes");
    let mut found = vec![0; BLOCK];
    let rotten = journal.read(block(3), &mut found);
    assert!(matches!(rotten, Err(Error::RottenLog { .. })), "{rotten:?}");
    let anew = Change::Ranges { image: &images[1], ranges: &FEW };
    write(anew).expect("commits").expect("is logged");
    journal.read(block(3), &mut found).expect("reads");
    assert!(found == images[1]);
}

#[test]
fn neighbours_stay_in_a_small_cache() {
    for blocks in [16, 64, 256] {
        let files = Files::new(&format!("olds-small-{blocks}"));
        let policy = AnyPolicy::from(CompressedDelta::new());
        let options = Options::new().policy(policy).lanes(1).cache_bytes(blocks * BLOCK);
        let journal: Journal<AnyPolicy> =
            Journal::format(memory(8 << 20), files.disk(), &options).expect("formats");
        let mut image = noise(&mut Dice(blocks as u64));
        for round in 0..4 {
            let before = journal.stats().expect("goes on").cached;
            image[round] ^= 1;
            let used = (blocks as u64 / 4).min(BLOCKS / 2);
            for number in 0..used {
                let update = Operation::Update(Update::new(block(number), Change::Image(&image)));
                journal
                    .commit(&[update], Durability::Durable)
                    .expect("commits")
                    .expect("is logged");
            }
            let after = journal.stats().expect("goes on").cached;
            let missed = after.misses - before.misses;
            assert!(after.blocks <= blocks, "{after:?} of {blocks}");
            assert_eq!(missed, if round == 0 { used } else { 0 }, "{blocks}, round {round}");
        }
    }
}

/// The next writer of a block finds its last image in the cache, whichever way that was committed.
#[test]
fn the_last_image_is_kept_for_a_policy_that_looks_at_it() {
    let files = Files::new("olds-kept");
    let options = Options::new().policy(AnyPolicy::from(TwoLevel::new())).cache_bytes(64 * BLOCK);
    let journal = Journal::format(memory(8 << 20), files.disk(), &options).expect("formats");
    let image = |byte: u8| {
        let mut image = vec![7; BLOCK];
        image[100] = byte;
        image
    };
    journal.transact(|tx| tx.write(block(3), &image(0))).expect("commits");
    for round in 1..20 {
        let misses = journal.stats().expect("counts").cached.misses;
        match round % 3 {
            0 => journal.transact(|tx| tx.write(block(3), &image(round))),
            1 => journal.transact(|tx| tx.write_at(block(3), 100, &[round])),
            _ => {
                let (image, old) = (image(round), image(round - 1));
                let mut update = Update::new(block(3), Change::Image(&image));
                update.old = Some(&old);
                journal.commit(&[Operation::Update(update)], Durability::Durable).map(drop)
            }
        }
        .expect("commits");
        assert_eq!(journal.stats().expect("counts").cached.misses, misses, "{round}");
        let mut found = [0; BLOCK];
        journal.read(block(3), &mut found).expect("reads");
        assert!(found == image(round)[..], "{round}");
    }
}
