//! Blocks that cannot be read. Whatever writes home or copies leaves them out and goes on, nothing
//! of them is replaced, and nobody waits for what they keep from coming free.

use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, CheckpointReport, CommitError, Durability, Journal, JournalError, On, Operation,
    Overwrite, Rule,
};
use sim_disk::suite::oracle::{BLOCK_BYTES, BLOCKS, Block};
use sim_disk::suite::{Edit, Memory, Step};
use sim_disk::{Image, Mark, Model, Mutator, Scenario, SimDisk, SimPmem, World};

use crate::rules::{commit, explorer, write, write_at};
use lab::core_crash::program::{Kind, Program};

type Opened<'m> = Journal<'m, Kind, On<SimPmem, SimDisk, Mutator>>;

const SICK: BlockNumber = BlockNumber(0);
const WELL: BlockNumber = BlockNumber(1);
const LANES: [LaneNumber; 2] = [LaneNumber(0), LaneNumber(1)];

/// What has rotted below block 0. Block 1 is as it was; each of both has changes in the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotten {
    /// Its content in the disk-side log.
    Log,
    /// Its content in the disk-side log, with a change on top.
    LogBelow,
    /// Its home, which a change says that it was not made of.
    Home,
}

use Rotten::{Home, Log, LogBelow};

const ALL: [Rotten; 3] = [Log, LogBelow, Home];

impl Rotten {
    fn program(self, lanes: u16) -> Program {
        let changes = [write_at(0, 0), write_at(0, 1)];
        let (kind, steps) = match self {
            Log => (Kind::Logged, vec![write(0, 0), write(0, 1)]),
            LogBelow => (Kind::Logged, [vec![write(0, 0), write(0, 1)], changes.into()].concat()),
            Home => {
                let begin = vec![write(0, 0), write(0, 1), Step::Checkpoint];
                (Kind::CompressedDelta, [begin, changes.into()].concat())
            }
        };
        let program = Program::new(kind, lanes, steps);
        Program { lane_bytes: 16 * 64, overwrite: Overwrite::MayLeaveGarbage, ..program }
    }

    /// Where on the disk the rot is.
    fn place(self) -> BlockNumber {
        BlockNumber(if self == Home { SICK.raw() } else { BLOCKS as u64 })
    }

    fn is_error(self, error: &JournalError) -> bool {
        match error {
            JournalError::RottenLog { block, lies_at } => {
                self != Home && (*block, *lies_at) == (SICK, self.place())
            }
            JournalError::Apply { block, .. } => self == Home && *block == SICK,
            _ => false,
        }
    }
}

/// A journal with a block that cannot be read.
#[derive(Clone, Debug)]
struct Ward {
    rotten: Rotten,
    program: Program,
    /// With the rot.
    image: Image,
    /// What is there without it.
    sound: Vec<u8>,
    contents: [Block; 2],
}

impl Ward {
    fn new(rotten: Rotten, lanes: u16) -> Self {
        let program = rotten.program(lanes);
        let world = World::boot(program.start(), Model::Torn8);
        program.program(&world).expect("runs");
        let mut image = world.visible();
        let world = World::boot(image.clone(), Model::Torn8);
        let contents = with(&program, &world, |journal| {
            [SICK, WELL].map(|block| read(journal, block).expect("reads"))
        });
        let sound = image.disk(0).block(rotten.place());
        let mut harmed = sound.clone();
        harmed[13] ^= 1;
        image.disk_mut(0).set_block(rotten.place(), &harmed);
        Self { rotten, program, image, sound, contents }
    }

    fn boot(&self) -> World {
        World::boot(self.image.clone(), Model::Torn8)
    }

    /// The sick block answers its error, and the other one what it holds.
    fn check(&self, journal: &mut Opened<'_>) -> Result<(), String> {
        match read(journal, SICK) {
            Err(error) if self.rotten.is_error(&error) => {}
            found => return Err(format!("{SICK}: {found:?}")),
        }
        match read(journal, WELL) {
            Ok(found) if found == self.contents[1] => Ok(()),
            found => Err(format!("{WELL}: {found:?}")),
        }
    }
}

fn with<R>(program: &Program, world: &World, call: impl FnOnce(&mut Opened<'_>) -> R) -> R {
    let mut memory = Memory::new(&program.geometry(), 64, program.batch);
    let journal = program.open(world, program.policy, memory.borrow());
    call(&mut journal.expect("opens"))
}

fn read(journal: &mut Opened<'_>, block: BlockNumber) -> Result<Block, JournalError> {
    let mut found = [0; BLOCK_BYTES];
    journal.read(block, &mut found).map(|()| found)
}

fn put(
    journal: &mut Opened<'_>,
    lane: LaneNumber,
    block: u64,
    byte: u8,
) -> Result<(), CommitError> {
    let image = [byte; BLOCK_BYTES];
    let operations = [Operation::write(BlockNumber(block), &image)];
    journal.commit(lane, &operations, Durability::Durable).map(drop)
}

/// What writes home or copies; what it says of it.
type Way = fn(&mut Opened<'_>) -> Result<Option<CheckpointReport>, JournalError>;

const WAYS: [(&str, Way); 7] = [
    ("checkpoint", |journal| journal.checkpoint().map(Some)),
    ("rings", |journal| journal.checkpoint_rings().map(Some)),
    ("batch by batch", |journal| {
        let mut report = CheckpointReport::default();
        while journal.checkpoint_batch(journal_core::Scope::All, &mut report)? {}
        journal.let_heads_pass(&mut report).map(|()| Some(report))
    }),
    ("clean", |journal| journal.clean_log().map(|_| None)),
    ("evict", |journal| journal.evict().map(|_| None)),
    ("relog", |journal| journal.relog(LANES[0]).map(|_| None)),
    ("move", |journal| journal.move_to_log(LANES[0]).map(|_| None)),
];

#[test]
fn it_is_left_out_and_everything_else_goes_on() {
    for rotten in ALL {
        let ward = Ward::new(rotten, 1);
        for (name, way) in WAYS {
            let world = ward.boot();
            with(&ward.program, &world, |journal| {
                for _ in 0..2 {
                    let report = way(journal).unwrap_or_else(|error| panic!("{name}: {error}"));
                    if let Some(report) = report {
                        // What is folded, the rings need not keep.
                        let is_folded = rotten == Log && name == "rings";
                        let expected = u64::from(!is_folded);
                        assert_eq!(report.unreadable, expected, "{rotten:?}, {name}");
                        assert_eq!(journal.unreadable().count() as u64, expected);
                    }
                    ward.check(journal).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
                    put(journal, LANES[0], 2, 1).expect("goes on");
                }
                let report = journal.checkpoint().expect("goes on");
                assert_eq!(report.unreadable, 1);
                assert!(journal.unreadable().eq([SICK]));
            });
            // Everything else is home, of which nobody else takes care.
            let killed = world.visible();
            assert_eq!(killed.disk(0).block(WELL), ward.contents[1], "{rotten:?}, {name}");
            assert_eq!(killed.disk(0).block(BlockNumber(2)), [1; BLOCK_BYTES]);
            let world = World::boot(killed.clone(), Model::Torn8);
            with(&ward.program, &world, |journal| {
                ward.check(journal).unwrap_or_else(|wrong| panic!("{name}, killed: {wrong}"));
                assert_eq!(journal.checkpoint().expect("goes on").unreadable, 1);
            });
            // Nothing of it was lost: where the rot goes, what was there is there again.
            let mut healed = killed;
            healed.disk_mut(0).set_block(rotten.place(), &ward.sound);
            let world = World::boot(healed, Model::Torn8);
            with(&ward.program, &world, |journal| {
                assert_eq!(read(journal, SICK), Ok(ward.contents[0]), "{rotten:?}, {name}");
                assert_eq!(journal.checkpoint().expect("goes on").unreadable, 0);
            });
            assert_eq!(world.visible().disk(0).block(SICK), ward.contents[0]);
        }
    }
}

/// Moving takes those that can be read, however few are taken at a time.
#[test]
fn what_cannot_be_read_does_not_keep_others_from_moving() {
    let ward = Ward::new(LogBelow, 1);
    for batch in [1, 2] {
        let program = Program { batch, ..ward.program.clone() };
        with(&program, &ward.boot(), |journal| {
            assert_eq!(journal.move_to_log(LANES[0]), Ok(1), "the other one");
            assert_eq!(journal.move_to_log(LANES[0]), Ok(0));
            ward.check(journal).expect("both are as they were");
        });
    }
}

/// A segment that cannot be emptied is not the one that is cleaned again and again.
#[test]
fn the_cleaner_takes_another_segment() {
    let ward = Ward::new(Log, 1);
    with(&ward.program, &ward.boot(), |journal| {
        // The first segment has the sick block alone then; the second one is full.
        put(journal, LANES[0], 1, 1).expect("is logged");
        put(journal, LANES[0], 2, 2).expect("is logged");
        put(journal, LANES[0], 3, 3).expect("is logged");
        journal.fold().expect("folds");
        journal.collect_garbage().expect("collects");
        let free = journal.free_log_blocks(LANES[0]);
        assert_eq!(journal.clean_log().expect("finds out").unreadable, 1);
        assert_eq!(journal.free_log_blocks(LANES[0]), free);
        assert_eq!(journal.clean_log().expect("cleans").unreadable, 0);
        assert!(journal.free_log_blocks(LANES[0]) > free, "{free:?}");
        assert!(ward.rotten.is_error(&read(journal, SICK).expect_err("is as it was")));
    });
}

/// Makes room whenever there is too little, as an owner does that knows of no rot; what ends it.
fn fill(journal: &mut Opened<'_>, lane: LaneNumber) -> CommitError {
    for round in 0..100_u32 {
        match put(journal, lane, 2 + u64::from(round) % 2, round as u8) {
            Ok(()) => {}
            Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) => {
                journal.checkpoint().expect("goes on");
            }
            Err(error) => return error,
        }
    }
    panic!("it goes on for ever")
}

#[test]
fn whoever_waits_for_room_is_told_what_keeps_it() {
    // What lies in the log alone pins its lane as long as it is not folded.
    for rotten in ALL {
        let ward = Ward::new(rotten, 2);
        for cure in [Edit::Write, Edit::Discard] {
            // Images in the records fill the lane, others the index.
            let log_is_full = || {
                (0..2)
                    .map(|_| commit(1, &[(2, Edit::Write), (3, Edit::Write)], Durability::Durable))
            };
            let program = Program { steps: log_is_full().collect(), ..ward.program.clone() };
            with(&program, &ward.boot(), |journal| {
                assert_eq!(fill(journal, LANES[0]), CommitError::Unreadable { block: SICK });
                // Another lane has room, and so there is a way out.
                match cure {
                    Edit::Discard => {
                        let discard = [Operation::Discard(SICK)];
                        journal.commit(LANES[1], &discard, Durability::Durable).expect("fits");
                    }
                    _ => put(journal, LANES[1], SICK.raw(), 7).expect("fits"),
                }
                assert_eq!(journal.unreadable().next(), None);
                let report = journal.checkpoint().expect("goes on");
                assert_eq!(report.unreadable, 0);
                let free = journal.free_bytes(LANES[0]);
                assert_eq!(free, Some(program.lane_bytes), "{rotten:?}");
                if cure == Edit::Write {
                    assert_eq!(read(journal, SICK), Ok([7; BLOCK_BYTES]));
                }
                put(journal, LANES[0], 2, 1).expect("goes on");
            });
        }
    }
}

/// A lane whose own blocks are home, but for what another lane, pinned, has of them.
#[test]
fn a_lane_that_waits_for_a_pinned_one_is_told_as_well() {
    let ward = Ward::new(LogBelow, 2);
    with(&ward.program, &ward.boot(), |journal| {
        // An older frame of block 2 lies behind the sick block, and keeps the newer one in lane 1.
        put(journal, LANES[0], 2, 1).expect("fits");
        put(journal, LANES[1], 2, 2).expect("fits");
        assert_eq!(journal.checkpoint().expect("goes on").unreadable, 1);
        assert_eq!(fill(journal, LANES[1]), CommitError::Unreadable { block: SICK });
    });
}

/// An index full of what cannot go.
#[test]
fn a_full_index_is_an_error_that_says_why() {
    let ward = Ward::new(LogBelow, 1);
    let program = &ward.program;
    let mut memory = Memory::new(&program.geometry(), 6, program.batch);
    let world = ward.boot();
    let journal = program.open(&world, program.policy, memory.borrow());
    let mut journal = journal.expect("opens");
    assert_eq!(fill(&mut journal, LANES[0]), CommitError::Unreadable { block: SICK });
}

/// Every crash of a checkpoint that leaves a block out, of what is done about it, and of the
/// checkpoint after that.
struct Crashed {
    ward: Ward,
    cure: Option<Edit>,
    mutator: Mutator,
}

impl Crashed {
    fn run(
        &self,
        world: &World,
        call: impl FnOnce(&mut Opened<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let program = Program { mutator: self.mutator.clone(), ..self.ward.program.clone() };
        with(&program, world, call)
    }

    /// The sick block is as it was, or as it was written anew.
    fn check(&self, journal: &mut Opened<'_>, history: &[Mark]) -> Result<(), String> {
        let is_called = history.contains(&Mark::Called(1));
        let is_cured = history.contains(&Mark::Returned(1));
        let found = read(journal, SICK);
        let is_new = match self.cure {
            Some(Edit::Discard) => found.is_ok(),
            _ => found == Ok([7; BLOCK_BYTES]),
        };
        let is_old = found.as_ref().is_err_and(|error| self.ward.rotten.is_error(error));
        if (is_cured && !is_new) || !(is_old || (is_called && is_new)) {
            return Err(format!("{SICK}: {found:?}, cured: {is_cured}"));
        }
        match read(journal, WELL) {
            Ok(found) if found == self.ward.contents[1] => Ok(()),
            found => Err(format!("{WELL}: {found:?}")),
        }
    }
}

impl Scenario for Crashed {
    fn start(&self) -> Image {
        self.ward.image.clone()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let text = |error: JournalError| error.to_string();
        self.run(world, |journal| {
            if journal.checkpoint().map_err(text)?.unreadable != 1 {
                return Err("it is not left out".into());
            }
            put(journal, LANES[0], 2, 1).map_err(|error| error.to_string())?;
            if let Some(cure) = self.cure {
                world.called(1);
                let image = [7; BLOCK_BYTES];
                let operation = match cure {
                    Edit::Discard => Operation::Discard(SICK),
                    _ => Operation::write(SICK, &image),
                };
                journal
                    .commit(LANES[0], &[operation], Durability::Durable)
                    .map_err(|error| error.to_string())?;
                world.returned(1);
            }
            let expected = u64::from(self.cure.is_none());
            if journal.checkpoint_rings().map_err(text)?.unreadable > expected {
                return Err("it is left out once more".into());
            }
            if journal.checkpoint().map_err(text)?.unreadable != expected {
                return Err("it is not as it should be".into());
            }
            self.check(journal, &world.history())
        })
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let history = world.history();
        self.run(world, |journal| {
            self.check(journal, &history)?;
            world.recovered(0);
            journal.checkpoint().map_err(|error| error.to_string())?;
            self.check(journal, &history)
        })
    }
}

#[test]
fn leaving_out_and_writing_anew_survive_every_crash() {
    for rotten in ALL {
        for cure in [None, Some(Edit::Write), Some(Edit::Discard)] {
            let ward = Ward::new(rotten, 1);
            let scenario = Crashed { ward, cure, mutator: Mutator::new() };
            let report = explorer().with_kills().explore(&scenario);
            let report = report.unwrap_or_else(|failure| panic!("{rotten:?}, {cure:?}: {failure}"));
            assert!(report.images > 100, "{report}");
        }
    }
}

/// The frames of what is left out are kept by the same rule that keeps all that is not home.
#[test]
fn what_is_left_out_is_kept_by_the_cut() {
    for rotten in ALL {
        let mutator = Mutator::without(&[Rule::CutKeepsNeeded]);
        let scenario = Crashed { ward: Ward::new(rotten, 1), cure: None, mutator };
        assert!(explorer().explore(&scenario).is_err(), "{rotten:?}: nothing notices");
    }
}

/// Attempts of other kinds come between, as many as there are numbers of a byte.
#[test]
fn a_checkpoint_tries_what_one_long_ago_left_out() {
    let ward = Ward::new(LogBelow, 1);
    for rounds in 245..260 {
        with(&ward.program, &ward.boot(), |journal| {
            assert_eq!(journal.checkpoint().expect("goes on").unreadable, 1);
            for _ in 0..rounds {
                journal.clean_log().expect("nothing to clean");
            }
            assert_eq!(journal.unreadable().count(), 1);
            assert_eq!(journal.checkpoint().expect("goes on").unreadable, 1, "{rounds}");
        });
    }
}
