//! Blocks that cannot be read, behind the front door: checkpoints leave them out and go on, nothing
//! of them is replaced, and nobody waits for ever for what they keep from coming free.

use journal_core::{BlockNumber, Rule};
use nvm_journal::{Error, Journal};
use sim_disk::{Explorer, Image, Mark, Model, Mutator, Scenario, World};

use crate::guards::within;
use crate::probe::{Device, Logged, Probe};
use crate::program::{Front, Program, media, read_block};
use lab::oracle::{BLOCKS, Block, Change, content_of};

use Change::{Touch, Write};

const SICK: BlockNumber = BlockNumber(0);
/// Where the disk-side log begins.
const PLACE: BlockNumber = BlockNumber(BLOCKS as u64);

/// A journal with block 0 in the disk-side log, where it has rotted, and a change on top of it.
/// Block 1 is as it was.
#[derive(Clone, Debug)]
struct Ward {
    program: Program,
    image: Image,
    sound: Vec<u8>,
    contents: [Block; 2],
}

fn write(journal: &Front, block: usize, image: &Block) -> Result<(), Error> {
    journal.transact(|tx| tx.write(BlockNumber(block as u64), image))
}

impl Ward {
    fn new(lanes: u16, lane_bytes: u64) -> Self {
        let program = Program { lane_bytes, ..Program::new(Logged::Levels, lanes, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let journal = program.open(&world).expect("opens");
        for block in 0..2 {
            write(&journal, block, &content_of(1, block, Write)).expect("commits");
        }
        let touched = content_of(2, 0, Touch);
        journal.transact(|tx| tx.write_at(SICK, 0, &touched[..8])).expect("commits");
        let logged: u64 = journal.stats().expect("counts").total().logged;
        assert_eq!(logged, 2, "and the change is in the lane");
        let contents = [0, 1].map(|block| read_block(&journal, block).expect("reads"));
        drop(journal);
        let mut image = world.visible();
        let sound = image.disk(0).block(PLACE);
        let mut harmed = sound.clone();
        harmed[13] ^= 1;
        image.disk_mut(0).set_block(PLACE, &harmed);
        Self { program, image, sound, contents }
    }

    fn open(&self) -> (World, Front) {
        let world = World::boot(self.image.clone(), Model::Torn8);
        let journal = self.program.open(&world).expect("opens");
        (world, journal)
    }

    fn check(&self, journal: &Front) {
        assert!(is_sick(&read_block(journal, 0)));
        assert_eq!(read_block(journal, 1), Ok(self.contents[1]));
    }
}

fn is_sick(found: &Result<Block, Error>) -> bool {
    *found == Err(Error::RottenLog { block: SICK, lies_at: PLACE })
}

const TOLD: Error = Error::Unreadable { block: SICK };

#[test]
fn a_checkpoint_leaves_out_what_has_rotted_and_goes_on() {
    let ward = Ward::new(1, 64 * 64);
    let (world, journal) = ward.open();
    for round in 1..3 {
        let report = journal.checkpoint().expect("goes on");
        assert_eq!(report.unreadable, 1, "it is tried again");
        let stats = journal.stats().expect("counts");
        assert_eq!(stats.checkpointed.unreadable, round);
        assert!(stats.to_string().contains("cannot be read"), "{stats}");
        assert_eq!(journal.unreadable(), Ok(vec![SICK]));
        ward.check(&journal);
        write(&journal, 2, &content_of(round, 2, Write)).expect("goes on");
    }
    // A kill.
    drop(journal);
    let image = world.visible();
    assert_eq!(image.disk(0).block(BlockNumber(1)), ward.contents[1]);
    for drain_on_open in [false, true] {
        let program = Program { drain_on_open, ..ward.program.clone() };
        let world = World::boot(image.clone(), Model::Torn8);
        let journal = program.open(&world).expect("opens");
        ward.check(&journal);
        let left_out = if drain_on_open { vec![SICK] } else { vec![] };
        assert_eq!(journal.unreadable(), Ok(left_out));
        // The disk alone does not hold everything.
        assert_eq!(journal.close(), Err(TOLD));
        let image = world.visible();
        assert_eq!(image.disk(0).block(BlockNumber(2)), content_of(2, 2, Write));
        // Nothing is lost: where the rot goes, what was there is there again.
        let mut healed = image;
        healed.disk_mut(0).set_block(PLACE, &ward.sound);
        let world = World::boot(healed, Model::Torn8);
        let journal = program.open(&world).expect("opens");
        assert_eq!(read_block(&journal, 0), Ok(ward.contents[0]));
        assert_eq!(journal.close(), Ok(()));
        assert_eq!(world.visible().disk(0).block(SICK), ward.contents[0]);
    }
}

type Cure = fn(&Front) -> Result<(), Error>;

/// What ends it: a whole image, or a discard.
const CURES: [Cure; 3] = [
    |journal| write(journal, 0, &content_of(9, 0, Write)),
    |journal| journal.transact(|tx| tx.discard(SICK)),
    |journal| journal.transact_gathered(|tx| tx.write(SICK, &content_of(9, 0, Write))),
];

/// Writes two blocks in turn until that is refused.
fn fill(journal: &Front) -> Error {
    for number in 0..500 {
        let block = 2 + number as usize % 2;
        if let Err(error) = write(journal, block, &content_of(10 + number, block, Write)) {
            return error;
        }
    }
    panic!("it goes on for ever")
}

#[test]
fn whoever_waits_for_room_is_told_what_keeps_it() {
    within(60, || {
        for (lanes, cure) in CURES.iter().flat_map(|cure| [(1, cure), (2, cure)]) {
            // Short lanes keep nothing for that, but the second one has room; a thread that was
            // told goes through another lane then. What is kept of a long one is enough.
            let ward = Ward::new(lanes, if lanes == 1 { 64 * 64 } else { 10 * 64 });
            let (_world, journal) = ward.open();
            assert_eq!(fill(&journal), TOLD);
            if lanes == 1 {
                let discarded = journal.transact(|tx| tx.discard(BlockNumber(2)));
                assert_eq!(discarded, Err(TOLD), "what is kept is not for that");
            }
            ward.check(&journal);
            let cured = (0..2).find(|_| cure(&journal) == Ok(()));
            assert!(cured.is_some(), "in one of both lanes");
            journal.sync().expect("commits");
            assert_eq!(journal.unreadable(), Ok(vec![]));
            assert_eq!(journal.checkpoint().expect("goes on").unreadable, 0);
            for number in 0..30 {
                let image = content_of(100 + number, 3, Write);
                write(&journal, 3, &image).expect("there is room");
            }
            assert_eq!(journal.close(), Ok(()));
        }
    });
}

/// Room that a thread makes in the background is the same.
#[test]
fn nobody_waits_for_ever_for_a_thread_that_cannot_make_room() {
    within(60, || {
        let ward = Ward::new(1, 10 * 64);
        let world = World::boot(ward.image.clone(), Model::Torn8);
        let options = ward.program.options(Probe::new(Mutator::new())).background_checkpoint(true);
        let (pmem, disk) = media(&world, Device::new(world.disk(0)));
        let journal = Journal::open(pmem, disk, &options);
        let journal = journal.expect("opens");
        assert_eq!(fill(&journal), TOLD);
        ward.check(&journal);
        assert_eq!(journal.close(), Err(TOLD));
    });
}

/// Where the index is full and the lane is not.
#[test]
fn an_index_full_of_what_cannot_go_is_an_error_that_says_why() {
    within(60, || {
        let ward = Ward::new(1, 64 * 64);
        let world = World::boot(ward.image.clone(), Model::Torn8);
        let options = ward.program.options(Probe::new(Mutator::new())).index_frames(6);
        let (pmem, disk) = media(&world, Device::new(world.disk(0)));
        let journal = Journal::open(pmem, disk, &options);
        let journal = journal.expect("opens");
        assert_eq!(fill(&journal), TOLD);
        ward.check(&journal);
    });
}

/// A change whose home is not the one that it was made of: a reader is told, and does not wait
/// until the change has gone home.
#[test]
fn a_reader_does_not_wait_for_what_is_left_out() {
    within(60, || {
        let program =
            Program { lane_bytes: 64 * 64, ..Program::new(Logged::Compressed, 1, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let journal = program.open(&world).expect("opens");
        write(&journal, 0, &content_of(1, 0, Write)).expect("commits");
        journal.checkpoint().expect("writes home");
        let mut touched = content_of(1, 0, Write);
        touched[16..24].copy_from_slice(&[7; 8]);
        write(&journal, 0, &touched).expect("commits");
        drop(journal);
        let mut image = world.visible();
        assert_eq!(image.disk(0).block(SICK), content_of(1, 0, Write));
        image.disk_mut(0).set_block(SICK, &content_of(2, 0, Write));
        let world = World::boot(image, Model::Torn8);
        let journal = program.open(&world).expect("opens");
        for _ in 0..2 {
            assert_eq!(journal.checkpoint().expect("goes on").unreadable, 1);
            let found = read_block(&journal, 0);
            assert!(matches!(found, Err(Error::Apply { block: SICK, .. })), "{found:?}");
        }
        write(&journal, 0, &touched).expect("ends it");
        assert_eq!(journal.close(), Ok(()));
        assert_eq!(world.visible().disk(0).block(SICK), touched);
    });
}

/// Every crash of a checkpoint that leaves a block out, of what ends it, and of the next one.
struct Crashed {
    ward: Ward,
    /// Which of [`CURES`].
    cure: Option<usize>,
}

impl Crashed {
    fn check(&self, journal: &Front, history: &[Mark]) -> Result<(), String> {
        let found = read_block(journal, 0);
        let is_new = match self.cure {
            Some(1) => found.is_ok(),
            _ => found == Ok(content_of(9, 0, Write)),
        };
        let was_called = history.contains(&Mark::Called(1));
        let is_cured = history.contains(&Mark::Returned(1));
        if (is_cured && !is_new) || !(is_sick(&found) || (was_called && is_new)) {
            return Err(format!("{found:?}, cured: {is_cured}"));
        }
        match read_block(journal, 1) {
            Ok(found) if found == self.ward.contents[1] => Ok(()),
            found => Err(format!("the other one: {found:?}")),
        }
    }
}

impl Scenario for Crashed {
    fn start(&self) -> Image {
        self.ward.image.clone()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        let journal = self.ward.program.open(world).map_err(text)?;
        if journal.checkpoint().map_err(text)?.unreadable != 1 {
            return Err("it is not left out".into());
        }
        if let Some(cure) = self.cure {
            world.called(1);
            CURES[cure](&journal).map_err(text)?;
            journal.sync().map_err(text)?;
            world.returned(1);
        }
        let expected = u64::from(self.cure.is_none());
        if journal.checkpoint().map_err(text)?.unreadable != expected {
            return Err("it is not as it should be".into());
        }
        self.check(&journal, &world.history())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let history = world.history();
        let journal = self.ward.program.open(world).map_err(|error| error.to_string())?;
        self.check(&journal, &history)?;
        world.recovered(0);
        journal.checkpoint().map_err(|error| error.to_string())?;
        self.check(&journal, &history)
    }
}

#[test]
fn leaving_out_and_writing_anew_survive_every_crash() {
    let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 7);
    for cure in [None, Some(0), Some(1), Some(2)] {
        let scenario = Crashed { ward: Ward::new(1, 64 * 64), cure };
        let explored = explorer.clone().with_random_per_point(16).with_kills().explore(&scenario);
        let report = explored.unwrap_or_else(|failure| panic!("{cure:?}: {failure}"));
        assert!(report.images > 50, "{report}");
    }
}

/// Blocks that are written beside one that cannot be read, and how often.
const OTHERS: usize = 2;
const WRITES: u64 = 14;

/// Steps beside a block that cannot be read. A change of it lies at the head of the second lane,
/// and its home is not the one that the change was made of. The first lane goes round.
struct Beside {
    program: Program,
    image: Image,
}

impl Beside {
    fn new(mutator: Mutator) -> Self {
        let steps = vec![];
        let program = Program::new(Logged::Compressed, 2, steps);
        let program = Program { mutator, batch: 1, lane_slots: 0, lane_segments: 0, ..program };
        let world = World::boot(program.start(), Model::Torn8);
        let journal = program.open(&world).expect("opens");
        write(&journal, 0, &content_of(1, 0, Write)).expect("commits");
        journal.checkpoint().expect("writes home");
        let first = journal.begin().expect("begins");
        let mut second = journal.begin().expect("begins");
        second.write_at(SICK, 16, &[7; 8]).expect("has room");
        let committed = second.commit().expect("commits").expect("something was logged");
        assert_eq!(committed.lane.raw(), 1);
        drop(first);
        drop(journal);
        let mut image = world.visible();
        image.disk_mut(0).set_block(SICK, &content_of(2, 0, Write));
        Self { program, image }
    }

    /// Checks that the sick block is what it was, and every other one what was written last.
    fn check(journal: &Front, history: &[Mark]) -> Result<(), String> {
        let found = read_block(journal, 0);
        if !matches!(found, Err(Error::Apply { block: SICK, .. })) {
            return Err(format!("the sick block: {found:?}"));
        }
        for block in 1..=OTHERS {
            let of_block = |number: &u64| 1 + *number as usize % OTHERS == block;
            let numbers = (1..=WRITES).filter(of_block);
            let returned = numbers.clone().filter(|at| history.contains(&Mark::Returned(*at)));
            let returned = returned.max().unwrap_or(0);
            let may_be = numbers
                .filter(|at| *at >= returned && history.contains(&Mark::Called(*at)))
                .map(|at| content_of(at, block, Write));
            let found = read_block(journal, block).map_err(|error| error.to_string())?;
            if !may_be.chain((returned == 0).then_some([0; 64])).any(|one| one == found) {
                return Err(format!("block {block} after {returned}: {found:?}"));
            }
        }
        Ok(())
    }
}

impl Scenario for Beside {
    fn start(&self) -> Image {
        self.image.clone()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        let journal = self.program.open(world).map_err(text)?;
        for number in 1..=WRITES {
            let block = 1 + number as usize % OTHERS;
            world.called(number);
            write(&journal, block, &content_of(number, block, Write)).map_err(text)?;
            world.returned(number);
        }
        let stats = journal.stats().map_err(text)?;
        if stats.stops_for_bytes < 3 || stats.checkpointed.unreadable != 1 {
            return Err(format!("whole checkpoints have made room: {stats}"));
        }
        Self::check(&journal, &world.history())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let history = world.history();
        let journal = self.program.open(world).map_err(|error| error.to_string())?;
        Self::check(&journal, &history)?;
        world.recovered(0);
        journal.checkpoint().map_err(|error| error.to_string())?;
        Self::check(&journal, &history)
    }
}

#[test]
fn steps_beside_what_cannot_be_read_survive_every_crash() {
    let explorer = Explorer::new(Model::Torn8).with_images_per_point_max(1 << 5);
    let explore = |mutator| explorer.clone().with_kills().explore(&Beside::new(mutator));
    let report = explore(Mutator::new()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 50, "{report}");
    let without = explore(Mutator::without(&[Rule::StepPassesHeld]));
    assert!(without.is_err(), "the rule is off, and nothing notices");
}
