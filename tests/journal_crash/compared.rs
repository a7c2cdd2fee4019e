//! Images that are compared with those that are kept, and change little or nothing.
//!
//! The states of a program are known one by one, so that two of them may be alike. That is more
//! than contents which follow from numbers can say.

use journal_core::{BlockNumber, Durability, Operation, Overwrite, Rule};
use sim_disk::{Explorer, Image, Mark, Model, Mutator, Scenario, World};

use crate::probe::Logged;
use crate::program::{Front, Program, read_all, read_block};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Block};

/// One commit: a letter for each block that it writes, and a space for each other one. The letter
/// says the block's content, and a dash discards the block.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// By a transaction from one of two seats.
    Tx(usize, &'static str, Durability),
    /// In one call.
    Call(&'static str, Durability),
    Checkpoint,
}

use Durability::{Deferred, Durable};
use Step::{Call, Checkpoint, Tx};

/// The contents of `a` and `b` differ in one byte, and so do those of `c` and `d`. `z` is zeros.
fn content(letter: u8) -> Block {
    if letter == b'z' {
        return [0; BLOCK_BYTES];
    }
    let mut content = [(letter + 1) & !1; BLOCK_BYTES];
    content[20] = letter;
    content
}

/// The block that is written after a recovery. That may be crashed too: the block is not judged.
const AFTERWARDS: usize = BLOCKS - 1;

/// What blocks may hold: `None` where they were discarded.
type State = [Option<u8>; BLOCKS];

#[derive(Clone)]
struct Compared {
    program: Program,
    steps: Vec<Step>,
}

impl Compared {
    fn new(steps: &[Step]) -> Self {
        let program = Program::new(Logged::Compared, 2, Vec::new());
        let (lane_bytes, overwrite) = (24 * 64, Overwrite::MayLeaveGarbage);
        Self { program: Program { lane_bytes, overwrite, ..program }, steps: steps.to_vec() }
    }

    fn without(self, rule: Rule) -> Self {
        let program = Program { mutator: Mutator::without(&[rule]), ..self.program };
        Self { program, ..self }
    }

    /// The states that the steps lead through, the first one before them all.
    fn states(&self) -> Vec<State> {
        let mut states = vec![[Some(b'z'); BLOCKS]];
        for step in &self.steps {
            let mut state = states[states.len() - 1];
            for (block, letter) in writes(step) {
                state[block] = (letter != b'-').then_some(letter);
            }
            states.push(state);
        }
        states
    }

    fn judge(&self, world: &World, found: &[Block; BLOCKS]) -> Result<u64, String> {
        let history = world.history();
        let called = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count();
        let durable = history.iter().filter_map(|mark| match mark {
            Mark::Returned(number) => Some(*number as usize),
            _ => None,
        });
        let durable = durable.max().unwrap_or(0);
        let admits = |state: &State| {
            let mut blocks = state.iter().zip(found).take(AFTERWARDS);
            blocks.all(|(letter, found)| letter.is_none_or(|letter| *found == content(letter)))
        };
        let states = self.states();
        let fitting = (durable..=called).find(|at| admits(&states[*at]));
        let seen = || found.map(|block| char::from(block[20].max(b' ')));
        // Two states may be alike, and one that is deferred may come or not: the digest is what
        // is read.
        let judged = found.iter().take(AFTERWARDS);
        let digest = judged.fold(0, |digest, block| digest << 8 | u64::from(block[20]));
        fitting.map(|_| digest).ok_or_else(|| format!("{durable} to {called}: {:?}", seen()))
    }

    fn run(&self, world: &World, journal: &Front) -> Result<(), String> {
        let states = self.states();
        for (number, step) in (1_u64..).zip(&self.steps) {
            world.called(number);
            let is_durable = take(journal, step).map_err(|error| format!("{step:?}: {error}"))?;
            if is_durable {
                world.returned(number);
            }
            // What was discarded is not read, which would bring it into the cache as it is home.
            for (block, letter) in states[number as usize].iter().enumerate() {
                let Some(letter) = letter else { continue };
                let found = read_block(journal, block).map_err(|error| error.to_string())?;
                if found != content(*letter) {
                    return Err(format!("step {number} leaves {:?} in {block}", found[20]));
                }
            }
        }
        Ok(())
    }
}

fn writes(step: &Step) -> Vec<(usize, u8)> {
    let (Tx(_, letters, _) | Call(letters, _)) = step else { return Vec::new() };
    let letters = letters.bytes().enumerate();
    letters.filter(|(_, letter)| *letter != b' ').collect()
}

/// Takes a step; returns whether it is durable.
fn take(journal: &Front, step: &Step) -> Result<bool, nvm_journal::Error> {
    let at = |block: usize| BlockNumber(block as u64);
    match step {
        Checkpoint => journal.checkpoint().map(|_| true),
        Tx(seat, _, durability) => {
            let _others = (0..*seat).map(|_| journal.begin()).collect::<Result<Vec<_>, _>>()?;
            let mut tx = journal.begin()?;
            for (block, letter) in writes(step) {
                match letter {
                    b'-' => tx.discard(at(block))?,
                    _ => tx.write(at(block), &content(letter))?,
                }
            }
            match durability {
                Durable => tx.commit()?,
                Deferred => tx.commit_deferred()?,
            };
            Ok(*durability == Durable)
        }
        Call(_, durability) => {
            let writes = writes(step);
            let contents: Vec<_> = writes.iter().map(|(_, letter)| content(*letter)).collect();
            let operations = writes.iter().zip(&contents);
            let operations = operations.map(|((block, letter), content)| match letter {
                b'-' => Operation::Discard(at(*block)),
                _ => Operation::write(at(*block), content),
            });
            journal.commit(&operations.collect::<Vec<_>>(), *durability)?;
            Ok(*durability == Durable)
        }
    }
}

impl Scenario for Compared {
    fn name(&self) -> String {
        format!("{:?}", self.steps)
    }

    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let journal = self.program.open(world).map_err(|error| error.to_string())?;
        self.run(world, &journal)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let journal = self.program.open(world).map_err(|error| error.to_string())?;
        let digest = self.judge(world, &read_all(&journal)?)?;
        world.recovered(digest);
        // Compared with what recovery has found and a reader has left in the cache.
        let image = content(b'c');
        for _ in 0..2 {
            let written = journal.transact(|tx| tx.write(BlockNumber(AFTERWARDS as u64), &image));
            written.map_err(|error| error.to_string())?;
        }
        let found = read_all(&journal)?;
        if found[AFTERWARDS] == image { Ok(()) } else { Err("what comes next is lost".to_owned()) }
    }
}

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(1 << 6).with_random_per_point(16)
}

fn holds(steps: &[Step]) {
    let report = explorer().with_kills().explore(&Compared::new(steps));
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.images > 200, "{report}");
}

#[test]
fn images_that_change_little_or_nothing_survive_every_crash() {
    // The third adds nothing, and yet what it was compared with has to be durable.
    holds(&[Tx(0, "aa", Durable), Tx(1, "b", Deferred), Tx(0, "b", Durable)]);
    holds(&[Tx(0, "aa", Durable), Tx(1, "b", Deferred), Call("ba", Durable)]);
    // One of two blocks changes, on top of what another lane has.
    holds(&[Tx(0, "aa", Deferred), Tx(1, "ba", Durable), Tx(0, "bb", Durable)]);
    holds(&[Call("a", Durable), Call("b", Deferred), Checkpoint, Call("a", Durable)]);
    holds(&[Call("ab", Durable), Checkpoint, Call("aa", Durable), Checkpoint, Call("ba", Durable)]);
}

#[test]
fn what_was_discarded_is_written_anew() {
    holds(&[Tx(0, "a", Durable), Tx(1, "-", Durable), Tx(0, "a", Durable)]);
    holds(&[Tx(0, "a", Durable), Tx(1, "-", Durable), Checkpoint, Tx(0, "a", Durable)]);
    holds(&[Call("a", Durable), Call("-", Durable), Checkpoint, Call("b", Durable), Checkpoint]);
}

#[test]
fn an_image_is_compared_with_the_committed_one() {
    for commit in [|letters| Tx(0, letters, Durable), |letters| Call(letters, Durable)] {
        for anew in ["a", "b"] {
            // A checkpoint has forgotten the block, and what is kept of it was never home.
            let before = [commit("a"), commit("-"), commit(" c"), Checkpoint];
            let steps = [&before[..], &[commit(anew), commit(" d"), Checkpoint]].concat();
            let scenario = Compared::new(&steps);
            let explored = explorer().explore(&scenario);
            explored.unwrap_or_else(|failure| panic!("with the rule: {failure}"));
            let rule = Rule::ComparedWithCommitted;
            let broken = explorer().explore(&scenario.without(rule));
            assert!(broken.is_err(), "{rule:?} is off, and nothing notices: {steps:?}");
        }
    }
}
