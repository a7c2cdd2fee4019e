//! Bugs that are planted, one at a time: each has to be noticed.

use std::collections::BTreeSet;

use block_journal::{JournalDevice, Mode, Rule, site};
use journal_core::{BlockNumber, Overwrite};
use sim_disk::mutants::{Group, hunt};
use sim_disk::{
    Explorer, Fault, FaultKind, Model, Mutant, Mutation, Mutator, Operation, Scenario, World,
};

use crate::program::{BLOCK_BYTES, Block, Planted, Program, STEPS, Step};

/// Metadata of block 0 and data of block 1.
const FILE: Step = STEPS[0];
/// Metadata of two blocks.
const PAIR: Step = STEPS[1];
/// Block 0 is freed.
const FREE: Step = STEPS[2];
/// Block 0 holds data.
const REUSE: Step = STEPS[3];
/// Data alone.
const DATA: Step = STEPS[5];

/// Programs that between them reach every site, under a hook.
fn programs(hook: &Planted) -> Vec<Program> {
    let of = |mode, ring, steps: &[Step]| Program {
        ring,
        hook: hook.clone(),
        ..Program::new(mode, steps)
    };
    let on_one_disk =
        Program { journal_device: JournalDevice::SameDevice, ..of(Mode::Ordered, 9, &[FILE]) };
    vec![
        on_one_disk,
        of(Mode::Ordered, 9, &[FILE, PAIR]),
        of(Mode::Ordered, 16, &[FILE, FREE, REUSE]),
        of(Mode::Ordered, 16, &[FILE, REUSE]),
        of(Mode::Ordered, 16, &[PAIR, DATA, Step::Reopen]),
        of(Mode::Data, 9, &[FILE, PAIR, FILE]),
        of(Mode::Data, 16, &[FILE, PAIR, FILE]),
        of(Mode::Data, 9, &[PAIR, Step::Checkpoint, PAIR]),
        of(Mode::Writeback, 9, &[DATA, Step::Sync, PAIR]),
        of(Mode::None, 9, &[FILE, PAIR]),
    ]
}

fn with_mutator(mutator: &Mutator) -> Vec<Box<dyn Scenario>> {
    let hook = Planted { mutator: mutator.clone(), off: None };
    programs(&hook).into_iter().map(|program| Box::new(program) as Box<dyn Scenario>).collect()
}

#[test]
fn every_mutant_at_every_site_is_killed() {
    let groups = [
        Group::new(Explorer::new(Model::Torn8), &with_mutator),
        Group::new(Explorer::new(Model::Torn8).with_kills(), &with_mutator),
    ];
    let bag = hunt(&groups, &[site::ALL], &[]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(bag.is_clean(), "{bag}");
    // Seven sites write, eight sync.
    assert_eq!(bag.killed(), 15, "{bag}");
}

/// The bugs that a block journal is known for, by name.
#[test]
fn the_classic_bugs_are_killed_for_what_they_do() {
    use Mode::{Data, None, Ordered, Writeback};
    use Mutation::{DropSync, SwapAcross};
    let early_commit = "the commit block before the sync of its images";
    let classic = [
        (Data, site::IMAGES_SYNC, DropSync, early_commit),
        (Ordered, site::IMAGES_SYNC, DropSync, early_commit),
        (Writeback, site::IMAGES_SYNC, DropSync, early_commit),
        (Data, site::COMMIT_SYNC, DropSync, "no sync after the commit block"),
        (Ordered, site::COMMIT_SYNC, DropSync, "no sync after the commit block"),
        (Writeback, site::COMMIT_SYNC, DropSync, "no sync after the commit block"),
        (Data, site::HOME_SYNC, DropSync, "the tail moved before home writes were synced"),
        (Ordered, site::HOME_SYNC, DropSync, "the tail moved before home writes were synced"),
        (Ordered, site::DATA, SwapAcross, "data after the commit"),
        (Ordered, site::DATA_SYNC, DropSync, "data not durable before the commit"),
        (Writeback, site::DATA_SYNC, DropSync, "a sync of data that is none"),
        (Data, site::SUPERBLOCK_SYNC, DropSync, "space used again before the tail is durable"),
        (Data, site::FOUND_SYNC, DropSync, "a replay of what only the cache holds"),
        (Data, site::REPLAY_SYNC, DropSync, "the ring emptied before the replay is durable"),
        (None, site::THROUGH_SYNC, DropSync, "a commit without a journal that is not durable"),
    ];
    for (mode, site, mutation, bug) in classic {
        let hook = Planted { mutator: Mutator::with(Mutant { site, mutation }), off: Option::None };
        let explorer = Explorer::new(Model::Torn8).with_kills();
        let programs = programs(&hook).into_iter().filter(|program| program.mode == mode);
        let killed = programs.map(|program| explorer.explore(&program)).any(|it| it.is_err());
        assert!(killed, "{mode:?}: {bug}");
    }
}

/// Whether anything notices that a rule is not kept. With none, nothing may be noticed.
fn noticed(off: Option<Rule>) -> bool {
    let hook = Planted { off, ..Planted::default() };
    let explorer = Explorer::new(Model::Torn8);
    let explored = programs(&hook).iter().any(|program| explorer.explore(program).is_err());
    explored
        || failing_calls(&hook)
        || look_alike(&hook, true).is_err()
        || look_alike(&hook, false).is_err()
        || rot(&hook).is_err()
}

#[test]
fn every_rule_that_is_switched_off_is_noticed() {
    assert!(!noticed(None));
    let missed: BTreeSet<Rule> =
        Rule::ALL.into_iter().filter(|rule| !noticed(Some(*rule))).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// Whether a failing call is survived badly.
fn failing_calls(hook: &Planted) -> bool {
    let program = Program { hook: hook.clone(), ..Program::new(Mode::Ordered, &[FILE, PAIR]) };
    let world = World::boot(program.start(), Model::Torn8);
    let _ran = program.program(&world);
    let counts = world.operations();
    [Operation::DiskWrite, Operation::DiskSync].into_iter().any(|operation| {
        (0..counts.of(operation)).any(|index| {
            let fault = Some(Fault::on(operation, index, FaultKind::Error));
            let failing = Program { fault, ..program.clone() };
            Explorer::new(Model::Torn8).explore(&failing).is_err()
        })
    })
}

fn program_of(hook: &Planted, ring: u32) -> Program {
    let program = Program { ring, hook: hook.clone(), ..Program::new(Mode::Data, &[]) };
    Program { overwrite: Overwrite::NeverInPlace, ..program }
}

/// Commits these blocks as metadata, in one transaction.
fn commit(
    journal: &mut crate::program::Journal<Planted>,
    blocks: &[(u64, Block)],
) -> Result<(), String> {
    let mut transaction = journal.begin();
    for (block, content) in blocks {
        let staged = transaction.metadata(BlockNumber(*block), content);
        staged.map_err(|error| error.to_string())?;
    }
    journal.commit(transaction).map_err(|error| error.to_string())
}

/// A store keeps blocks that are, to the last bit, a transaction of its journal: the one that an
/// open will look for, in the place where it looks.
fn look_alike(hook: &Planted, looks_behind: bool) -> Result<(), String> {
    let program = program_of(hook, 10);
    let evil = [0xEE; BLOCK_BYTES];
    // The transaction is made by a journal of its kind, as the fourth one there.
    let world = World::boot(program.start(), Model::Torn8);
    let mut journal = program_of(&Planted::default(), 10).open(&world)?;
    for block in 0..3 {
        commit(&mut journal, &[(block, [1; BLOCK_BYTES])])?;
        journal.checkpoint().map_err(|error| error.to_string())?;
    }
    commit(&mut journal, &[(3, evil)])?;
    let image = world.visible();
    // Three transactions of three blocks come before it; it begins with the last block.
    let ring = |position: u64| -> Block {
        image.disk(0).block(BlockNumber(2 + position % 10)).try_into().expect("a block")
    };
    let forged = [9, 10, 11].map(ring);
    assert!(forged[0].starts_with(&crate::program::MAGIC) && forged[1] == evil);

    // The store: its first transaction has the images at 1, 2 and 3; the fourth will begin at 1.
    let world = World::boot(program.start(), Model::Torn8);
    let mut journal = program.open(&world)?;
    commit(&mut journal, &[(0, forged[0]), (1, forged[1]), (2, forged[2])])?;
    journal.checkpoint().map_err(|error| error.to_string())?;
    for value in [2, 3] {
        commit(&mut journal, &[(3, [value; BLOCK_BYTES])])?;
    }
    drop(journal);
    let (journal, home) = program.devices(&world);
    let config = program.config().looks_behind(looks_behind);
    let opened =
        crate::program::Journal::open_with_hook(journal, home, config, program.hook.clone());
    let (mut journal, _) = opened.map_err(|error| error.to_string())?;
    for (block, expected) in [(0, forged[0]), (1, forged[1]), (2, forged[2]), (3, [3; 64])] {
        let mut content = [0; BLOCK_BYTES];
        journal.read(BlockNumber(block), &mut content).map_err(|error| error.to_string())?;
        if content != expected {
            return Err(format!("block {block} holds {content:x?}"));
        }
    }
    Ok(())
}

/// One bit of a committed transaction rots. That is an error, but in the commit block of the last
/// one, whose loss nothing proves; no other content is ever shown.
fn rot(hook: &Planted) -> Result<(), String> {
    let program = program_of(hook, 10);
    let world = World::boot(program.start(), Model::Torn8);
    let mut journal = program.open(&world)?;
    for value in [1, 2] {
        commit(&mut journal, &[(0, [value; BLOCK_BYTES]), (2, [value; BLOCK_BYTES])])?;
    }
    drop(journal);
    let image = world.visible();
    // Two transactions of four blocks.
    for at in 0..8 * BLOCK_BYTES {
        let mut harmed = image.clone();
        let place = 2 * BLOCK_BYTES + at;
        harmed.flip_bit(sim_disk::Medium::Disk(0), place as u64, (at % 8) as u8);
        let world = World::boot(harmed, Model::Torn8);
        let Ok(mut journal) = program.open(&world) else { continue };
        for block in [0, 2] {
            let mut content = [0; BLOCK_BYTES];
            journal.read(BlockNumber(block), &mut content).map_err(|error| error.to_string())?;
            if at < 7 * BLOCK_BYTES || content != [1; BLOCK_BYTES] {
                return Err(format!("a bit at {at} rots, and block {block} holds {content:x?}"));
            }
        }
    }
    Ok(())
}
