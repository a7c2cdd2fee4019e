//! Examining what a crash left: nothing happens, and what it says is what opening then finds.

use core::cell::RefCell;
use std::collections::BTreeSet;

use journal_core::Buffers;
use journal_core::Durability::{Deferred, Durable};
use journal_core::{
    CopyState, EXAMINE_BYTES_MAX, Examination, OpenError, Overwrite, PmemRead as _,
    PortableKernels, Row, examine,
};
use sim_disk::suite::{Edit, SUPERBLOCK_UNIT, Step};
use sim_disk::{Explorer, Image, Mark, Medium, Model, Operation, Scenario, World};

use lab::core_crash::program::{Kind, Program};

use Edit::{Write, WriteAt};

/// What was seen over all images, so that tests can say that they saw something.
#[derive(Debug, Default)]
struct Seen {
    images: u64,
    rows: BTreeSet<Row>,
    found: u64,
    records_behind: u64,
    believed: u64,
    torn_copies: u64,
}

/// A program whose images are examined before they are opened.
struct Examined {
    program: Program,
    seen: RefCell<Seen>,
}

impl Examined {
    fn new(program: Program) -> Self {
        Self { program, seen: RefCell::default() }
    }

    fn explore(self, explorer: &Explorer) -> Seen {
        explorer.explore(&self).unwrap_or_else(|failure| panic!("{failure}"));
        self.seen.into_inner()
    }

    fn note(&self, examination: &Examination) {
        let mut seen = self.seen.borrow_mut();
        seen.images += 1;
        for lane in examination.lanes() {
            seen.rows.insert(lane.row);
            seen.found += lane.found;
            seen.records_behind += u64::from(lane.records_behind);
        }
        seen.believed += u64::from(examination.intent.is_some_and(|intent| intent.believed));
        let torn = examination.copies.iter().filter(|(_, state)| *state == CopyState::Torn);
        seen.torn_copies += torn.count() as u64;
    }

    fn open(&self, world: &World, said: &Examination) -> Result<(), String> {
        let verdict = {
            let mut buffers = Buffers::new(&self.program.geometry(), 64, 2);
            let opened = self.program.open(world, self.program.policy, buffers.borrow());
            let opened = opened.map(|journal| (*journal.recovery(), *journal.geometry()));
            opened.map(|(recovery, geometry)| (geometry == said.geometry).then_some(recovery))
        };
        if verdict != said.verdict.map(Some) {
            return Err(format!("{:?} was foretold, and opening said {verdict:?}", said.verdict));
        }
        if verdict.is_err() {
            return Ok(());
        }
        let after = look(world).map_err(|error| error.to_string())?;
        agree_after_an_open(said, &after)
    }
}

/// What the open that was foretold has made of it.
fn agree_after_an_open(said: &Examination, after: &Examination) -> Result<(), String> {
    let is_later = after.epoch > said.epoch && after.generation > said.generation;
    let both = CopyState::Whole { generation: after.generation };
    let is_whole = after.copies.iter().all(|(_, state)| *state == both);
    let is_settled = after.intent.is_none_or(|intent| !intent.believed);
    let is_same = said.lanes().iter().zip(after.lanes()).all(|(said, after)| {
        (said.head, said.tail, said.records, said.next_sequence, 0)
            == (after.head, after.tail, after.records, after.next_sequence, after.found)
    });
    if is_later && is_whole && is_settled && is_same {
        return Ok(());
    }
    Err(format!("before opening {said:?}, after it {after:?}"))
}

fn look(world: &World) -> Result<Examination, OpenError> {
    examine(&world.pmem(), &PortableKernels, &mut vec![0; EXAMINE_BYTES_MAX])
}

/// Nothing but reads, and the same answer again.
fn look_quietly(world: &World) -> Result<Examination, String> {
    let before = (world.visible(), world.tape().len(), world.operations());
    let said = look(world).map_err(|error| error.to_string())?;
    let operations = world.operations();
    let other = |kind: &Operation| *kind != Operation::MemoryRead;
    let is_quiet = world.tape().len() == before.1
        && world.visible() == before.0
        && Operation::ALL
            .iter()
            .filter(|kind| other(kind))
            .all(|kind| operations.of(*kind) == before.2.of(*kind));
    if !is_quiet {
        return Err("an examination did more than read".into());
    }
    let again = look(world).map_err(|error| error.to_string())?;
    if format!("{said:?}") != format!("{again:?}") {
        return Err("a second examination says something else".into());
    }
    Ok(said)
}

impl Scenario for Examined {
    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.program.program(world)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let said = look_quietly(world)?;
        self.note(&said);
        self.open(world, &said)
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 8).with_random_per_point(32)
}

#[test]
fn an_examination_foretells_an_opening_after_every_crash() {
    let commit = |lane, block, durability| Step::Commit(lane, vec![(block, Write)], durability);
    let steps = vec![
        commit(0, 0, Durable),
        commit(0, 1, Deferred),
        commit(0, 2, Deferred),
        commit(1, 1, Durable),
        Step::Checkpoint,
        Step::Stream(0, vec![vec![(0, Write)], vec![(1, WriteAt)]], true),
        Step::Reopen,
        commit(1, 0, Durable),
    ];
    let program = Program::new(Kind::FullBlock, 2, steps);
    let seen = Examined::new(program).explore(&explorer().with_kills());
    assert!(seen.images > 1_000 && seen.found > 100 && seen.torn_copies > 100, "{seen:?}");
    assert!(seen.records_behind > 0, "deferred records persist in any order: {seen:?}");
    assert!(seen.rows.contains(&Row::Tail), "{seen:?}");
}

#[test]
fn an_examination_tells_of_an_intent() {
    let (write, touch) = (vec![(0, Write)], vec![(0, WriteAt)]);
    let commit = |changes| Step::Commit(0, changes, Durable);
    let steps = vec![commit(write), Step::Checkpoint, commit(touch), Step::Checkpoint];
    let program = Program::new(Kind::Words, 1, steps);
    let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..program };
    let seen = Examined::new(program).explore(&explorer());
    assert!(seen.believed > 0, "{seen:?}");
}

#[test]
fn an_examination_tells_of_what_came_back_and_of_rot() {
    let commit = |block, durability| Step::Commit(0, vec![(block, Write)], durability);
    // Stored, shown absent by an open, uncovered again by the next crash: void.
    let steps = vec![commit(0, Deferred), commit(1, Deferred)];
    let program = Program::new(Kind::FullBlock, 1, steps);
    let program = Program { steps_after: vec![commit(0, Durable)], ..program };
    let returns = Returns(Examined::new(program));
    explorer().with_depth(1).explore(&returns).unwrap_or_else(|failure| panic!("{failure}"));
    let seen = returns.0.seen.into_inner();
    assert!(seen.rows.contains(&Row::Void), "{seen:?}");

    let steps = vec![commit(0, Durable), commit(1, Durable)];
    let program = Examined::new(Program::new(Kind::FullBlock, 1, steps));
    let seen = program.explore(&explorer().with_damage(|image, history| {
        let returned = history.iter().filter(|mark| matches!(mark, Mark::Returned(_)));
        if returned.count() == 2 {
            image.flip_bit(Medium::Pmem, 2 * SUPERBLOCK_UNIT + 128 + 3, 0);
        }
    }));
    assert!(seen.rows.contains(&Row::RottenBelowEvidence), "{seen:?}");
}

/// Goes on after it was examined and opened, so that crashes of that are examined too.
struct Returns(Examined);

impl Scenario for Returns {
    fn start(&self) -> Image {
        self.0.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        self.0.program(world)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let said = look_quietly(world)?;
        self.0.note(&said);
        let opened = self.0.program.recover(world);
        if said.verdict.is_ok() { opened } else { Err(format!("{:?}", said.verdict)) }
    }
}

/// An examination needs room for one front, and says so.
#[test]
fn an_examination_says_what_memory_it_lacks() {
    let program = Program::new(Kind::FullBlock, 1, Vec::new());
    let world = World::boot(program.start(), Model::Torn8);
    let needed = journal_core::Needs::of(&program.geometry(), 1).front_bytes;
    let pmem = world.pmem();
    assert!(needed <= EXAMINE_BYTES_MAX && pmem.len() > 0);
    let look = |bytes| examine(&pmem, &PortableKernels, &mut vec![0; bytes]).map(drop);
    assert_eq!(look(needed), Ok(()));
    let given = needed - 1;
    let lacks = OpenError::MemoryTooShort { slice: "scratch bytes", given, needed };
    assert_eq!(look(given), Err(lacks));
    let text = format!("the memory has {given} scratch bytes, the journal needs {needed}");
    assert_eq!(lacks.to_string(), text);
}
