//! Notes that come with transactions: after every crash the newest note is that of the newest
//! transaction which is there, whatever checkpoints and opens have come between.
//!
//! Each transaction writes one block and has a note of its own. It is committed after the one
//! before, so there is one order of all, and what is found has to be a state of it: blocks and note
//! alike.

use journal_core::{BlockNumber, Rule};
use sim_disk::{Explorer, Image, Mark, Model, Mutator, Scenario, World};

use crate::probe::Logged;
use crate::program::{Front, Program, read_all};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Block};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Durable,
    Deferred,
    Gathered,
}

use End::{Deferred, Durable, Gathered};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// By a transaction from one of two seats, to a block.
    Noted(usize, usize, End),
    /// One without a note.
    Plain(usize, usize),
    Sync,
    Checkpoint,
    Rings,
    Reopen,
}

use Step::{Checkpoint, Noted, Plain, Reopen, Rings, Sync};

/// The note of a step.
fn note_of(number: u64) -> [u64; 2] {
    [number, !number]
}

/// The block that is written after a recovery. That may be crashed too: the block is not judged.
const AFTERWARDS: usize = BLOCKS - 1;

/// What blocks and the newest note say.
type State = ([u8; BLOCKS], Option<[u64; 2]>);

#[derive(Clone)]
struct Notes {
    program: Program,
    steps: Vec<Step>,
}

impl Notes {
    fn new(steps: &[Step]) -> Self {
        let program = Program::new(Logged::Whole, 2, Vec::new());
        let program = Program { lane_bytes: 24 * 64, ..program };
        Self { program, steps: steps.to_vec() }
    }

    fn without(self, rule: Rule) -> Self {
        let program = Program { mutator: Mutator::without(&[rule]), ..self.program };
        Self { program, ..self }
    }

    fn states(&self) -> Vec<State> {
        let mut states = vec![([0; BLOCKS], None)];
        for (number, step) in (1_u64..).zip(&self.steps) {
            let (mut blocks, mut note) = states[states.len() - 1];
            match step {
                Noted(_, block, _) => {
                    (blocks[*block], note) = (number as u8, Some(note_of(number)));
                }
                Plain(_, block) => blocks[*block] = number as u8,
                Sync | Checkpoint | Rings | Reopen => {}
            }
            states.push((blocks, note));
        }
        states
    }

    fn open(&self, world: &World) -> Result<Front, String> {
        self.program.open(world).map_err(|error| format!("opens: {error}"))
    }

    /// Which state of those from the last durable one on is there.
    fn judge(&self, world: &World, journal: &Front) -> Result<u64, String> {
        let history = world.history();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        let durable = history.iter().filter_map(|mark| match mark {
            Mark::Returned(number) => Some(*number as usize),
            _ => None,
        });
        let durable = durable.max().unwrap_or(0);
        let blocks = read_all(journal)?.map(|block| block[0]);
        // What an earlier recovery has noted is newer than all steps.
        let note = journal.recovery().note;
        let is_it = |(its_blocks, its_note): &State| {
            let is_newest = *its_note == note || note == Some(AFTER);
            its_blocks[..AFTERWARDS] == blocks[..AFTERWARDS] && is_newest
        };
        let states = self.states();
        let fitting = (durable..=called).find(|at| is_it(&states[*at]));
        self.check_told(journal, &blocks)?;
        fitting
            .map(|at| at as u64)
            .ok_or_else(|| format!("{durable} to {called}: {blocks:?}, {note:?}"))
    }

    /// What records in the lanes say of their blocks is what was said of these.
    fn check_told(&self, journal: &Front, blocks: &[u8; BLOCKS]) -> Result<(), String> {
        let mut wrong = None;
        let mut stamps = std::collections::BTreeMap::new();
        let told = journal.each_noted(|block, note, committed| {
            // What one step has noted is of one record, and of a step after it of a later one.
            let is_known = stamps.insert(committed.stamp, note);
            if is_known.is_some_and(|known| known != note) {
                wrong = Some(format!("{committed:?} has {note:?} and {is_known:?}"));
            }
            let step = usize::try_from(note[0] - 1).ok().and_then(|at| self.steps.get(at));
            let at = block.raw() as usize;
            let is_right = match step {
                Some(Noted(_, its, _)) => *its == at && u64::from(blocks[at]) >= note[0],
                _ => note == AFTER && at == AFTERWARDS,
            };
            if !is_right || note != [note[0], !note[0]] {
                wrong = Some(format!("{block:?}: {note:?}"));
            }
        });
        told.map_err(|error| error.to_string())?;
        if !stamps.values().is_sorted_by_key(|note| note[0]) {
            wrong = Some(format!("stamps and steps disagree: {stamps:?}"));
        }
        wrong.map_or(Ok(()), Err)
    }
}

/// The note of what comes after a recovery.
const AFTER: [u64; 2] = [1 << 20, !(1 << 20)];

/// Takes a step; returns whether all up to it is durable.
fn take(journal: &Front, number: u64, step: Step) -> Result<bool, nvm_journal::Error> {
    let image: Block = [number as u8; BLOCK_BYTES];
    match step {
        Noted(seat, block, _) | Plain(seat, block) => {
            let _others = (0..seat).map(|_| journal.begin()).collect::<Result<Vec<_>, _>>()?;
            let mut tx = journal.begin()?;
            if let Noted(..) = step {
                tx.note(note_of(number))?;
            }
            tx.write(BlockNumber(block as u64), &image)?;
            match step {
                Noted(_, _, Deferred) => tx.commit_deferred().map(|_| false),
                Noted(_, _, Gathered) => tx.commit_gathered().map(|()| false),
                _ => tx.commit().map(|_| true),
            }
        }
        Sync => journal.sync().map(|()| true),
        Checkpoint => journal.checkpoint().map(|_| true),
        Rings => journal.checkpoint_rings().map(|_| true),
        Reopen => unreachable!("the caller sees to it"),
    }
}

impl Scenario for Notes {
    fn name(&self) -> String {
        format!("{:?}: {:?}", self.program.logs, self.steps)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let mut journal = self.open(world)?;
        for (number, step) in (1_u64..).zip(&self.steps) {
            world.called(number);
            let is_durable = match step {
                Reopen => {
                    drop(journal);
                    journal = self.open(world)?;
                    self.judge(world, &journal)?;
                    true
                }
                step => {
                    take(&journal, number, *step).map_err(|error| format!("{step:?}: {error}"))?
                }
            };
            if is_durable {
                world.returned(number);
            }
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let journal = self.open(world)?;
        let digest = self.judge(world, &journal)?;
        world.recovered(digest);
        let image = [AFTER[0] as u8; BLOCK_BYTES];
        let noted = journal.transact(|tx| {
            tx.write(BlockNumber(AFTERWARDS as u64), &image)?;
            tx.note(AFTER)
        });
        noted.map_err(|error| error.to_string())?;
        drop(journal);
        let note = self.open(world)?.recovery().note;
        if note == Some(AFTER) { Ok(()) } else { Err(format!("afterwards: {note:?}")) }
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(16)
}

fn survives(scenario: &Notes) -> u64 {
    let report = explorer().with_kills().explore(scenario);
    report.unwrap_or_else(|failure| panic!("{failure}")).images
}

fn needs(rule: Rule, scenario: Notes) {
    survives(&scenario);
    let broken = explorer().explore(&scenario.without(rule));
    assert!(broken.is_err(), "{rule:?} is off, and nothing notices");
}

#[test]
fn the_newest_note_survives_every_crash() {
    let mut images = survives(&Notes::new(&[
        Noted(0, 0, Durable),
        Noted(1, 1, Durable),
        Noted(0, 0, Deferred),
        Plain(1, 2),
        Noted(1, 1, Durable),
    ]));
    images +=
        survives(&Notes::new(&[Noted(0, 0, Deferred), Sync, Checkpoint, Noted(1, 0, Durable)]));
    images += survives(&Notes::new(&[
        Plain(0, 0),
        Noted(1, 1, Gathered),
        Noted(0, 1, Gathered),
        Sync,
        Noted(0, 2, Durable),
        Reopen,
        Checkpoint,
        Reopen,
        Plain(1, 0),
    ]));
    assert!(images > 1000, "{images}");
}

/// A record that is dropped for its torn slot takes its note with it, and folded ones leave theirs.
#[test]
fn notes_of_blocks_in_slots_survive_every_crash() {
    let of = |logs, steps: &[Step]| {
        let notes = Notes::new(steps);
        let program = Program { logs, lane_slots: 6, ..notes.program };
        Notes { program, ..notes }
    };
    let rewritten = [
        Noted(0, 0, Durable),
        Noted(0, 0, Durable),
        Noted(0, 0, Durable),
        Rings,
        Noted(1, 1, Durable),
        Noted(0, 0, Durable),
    ];
    survives(&of(Logged::Versions, &rewritten));
    survives(&of(Logged::Cached, &rewritten));
    // Gathered content lies in active slots before its record does.
    let steps = [0, 1, 2, 3].map(|block| Noted(0, block, Gathered));
    let notes = of(Logged::Cached, &[&steps[..], &[Sync, Checkpoint]].concat());
    let program = Program { buffer: 2, ..notes.program };
    survives(&Notes { program, ..notes });
}

#[test]
fn no_checkpoint_loses_the_newest_note() {
    needs(Rule::NoteKept, Notes::new(&[Noted(0, 0, Durable), Noted(1, 1, Durable), Checkpoint]));
}

/// Lanes count their stamps apart: a transaction that has nothing in common with the one before is
/// newer all the same.
#[test]
fn the_last_note_is_the_newest_whatever_its_lane() {
    let steps = [Noted(1, 0, Durable), Noted(1, 0, Durable), Noted(0, 1, Durable)];
    needs(Rule::NotesRise, Notes::new(&steps));
}
