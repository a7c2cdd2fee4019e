//! The toy log as a scenario: programs, and the oracle that judges what a crash left.

use journal_core::{BlockSize, DeviceFacts, Hook, Overwrite};
use sim_disk::rng::mix;
use sim_disk::{DiskImage, Fault, Image, Mark, Scenario, SimDisk, SimPmem, World};

use crate::toy_log::log::{Block, Log};

/// Blocks of the store.
pub const BLOCKS: u64 = 2;

/// A program: which blocks it writes, one after the other.
#[derive(Clone, Debug)]
pub struct Program<H> {
    /// The blocks.
    pub writes: Vec<u64>,
    /// Writes made after each recovery, to see that the log goes on.
    pub writes_after: Vec<u64>,
    /// Records that the ring holds.
    pub records: usize,
    /// What the disk does to a torn overwrite.
    pub overwrite: Overwrite,
    /// A fault in the program's life; the program then ends where it hits.
    pub fault: Option<Fault>,
    /// Through which every ordered call goes.
    pub hook: H,
}

impl<H: Hook + Clone> Program<H> {
    /// A program on a ring of two records and a disk that tears blocks in two.
    pub fn new(writes: &[u64], hook: H) -> Self {
        Self {
            writes: writes.to_vec(),
            writes_after: vec![0],
            records: 2,
            overwrite: Overwrite::OldOrNew,
            fault: None,
            hook,
        }
    }

    fn open(&self, world: &World) -> Result<Log<SimPmem, SimDisk, H>, String> {
        Log::open(world.pmem(), world.disk(0), self.hook.clone()).map_err(|e| format!("{e:?}"))
    }

    /// Writes `block`; the label says which call of the store's whole life it is, and what to.
    fn write(
        &self,
        world: &World,
        log: &mut Log<SimPmem, SimDisk, H>,
        block: u64,
    ) -> Result<(), String> {
        let calls = world.history();
        let number = calls.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64 + 1;
        let label = number << 8 | block;
        world.called(label);
        log.write(block, &content(label)).map_err(|error| format!("{error:?}"))?;
        world.returned(label);
        Ok(())
    }
}

/// What call `label` writes: its first and last word differ from every other call's. The words
/// between stay zero, so that a crash has 2^2 and not 2^8 ways to tear a block.
fn content(label: u64) -> Block {
    let mut block = [0; 64];
    block[..8].copy_from_slice(&mix(label << 1).to_le_bytes());
    block[56..].copy_from_slice(&mix(label << 1 | 1).to_le_bytes());
    block
}

/// The label of the last call that wrote each block; zero for none.
type State = [u64; BLOCKS as usize];

/// The states that the history allows: of each life a prefix of its calls, with all that returned;
/// what a recovery has shown is settled.
fn allowed(history: &[Mark]) -> Vec<State> {
    // Per state the life may have begun with: the states after each of its calls so far.
    let mut lives: Vec<Vec<State>> = vec![vec![State::default()]];
    let mut returned = 0;
    for mark in history {
        match mark {
            Mark::Called(label) => {
                for life in &mut lives {
                    let mut next = *life.last().expect("a life has a first state");
                    next[(*label & 0xFF) as usize] = *label;
                    life.push(next);
                }
            }
            Mark::Returned(_) => returned += 1,
            Mark::PowerLost | Mark::Killed => {
                let begins = lives.iter().flat_map(|life| &life[returned..]);
                lives = begins.map(|state| vec![*state]).collect();
                returned = 0;
            }
            Mark::Recovered(digest) => lives.retain(|life| digest_of(&life[0]) == *digest),
        }
    }
    lives.into_iter().flat_map(|life| life.into_iter().skip(returned)).collect()
}

fn digest_of(state: &State) -> u64 {
    state.iter().fold(1, |sum, label| mix(sum ^ *label))
}

impl<H: Hook + Clone> Scenario for Program<H> {
    fn name(&self) -> String {
        format!("toy log, writes {:?}, then {:?}", self.writes, self.writes_after)
    }

    fn start(&self) -> Image {
        let size = BlockSize::new(64).expect("a block size");
        let facts = DeviceFacts::new(32, self.overwrite);
        Image::blank(64 + 128 * self.records).with_disk(DiskImage::blank(size, BLOCKS, facts))
    }

    fn program(&self, world: &World) -> Result<(), String> {
        if let Some(fault) = self.fault {
            world.inject(fault);
        }
        let run = || {
            let mut log = self.open(world)?;
            self.writes.iter().try_for_each(|block| {
                let written = self.write(world, &mut log, *block);
                if written.is_err() && log.write(*block, &[0; 64]).is_ok() {
                    return Err("the log went on after an error".to_owned());
                }
                written
            })
        };
        match run() {
            Err(message) if self.fault.is_none() || message.contains("went on") => Err(message),
            _ => Ok(()),
        }
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let allowed_before = allowed(&world.history());
        let mut log = self.open(world)?;
        let found = state(&mut log, &allowed_before)?;
        world.recovered(digest_of(&found));
        for block in &self.writes_after {
            self.write(world, &mut log, *block)?;
        }
        state(&mut log, &allowed(&world.history())).map(drop)
    }
}

/// The call that wrote this content, as far as it is an allowed one; else all ones.
fn label_of(block: &Block, allowed: &[State]) -> u64 {
    let mut labels = allowed.iter().flatten().copied().filter(|label| *label != 0);
    let written = labels.find(|label| content(*label) == *block);
    written.unwrap_or(if *block == [0; 64] { 0 } else { u64::MAX })
}

/// Which of the allowed states the log shows.
fn state<H: Hook + Clone>(
    log: &mut Log<SimPmem, SimDisk, H>,
    allowed: &[State],
) -> Result<State, String> {
    let mut blocks = Vec::new();
    for block in 0..BLOCKS {
        blocks.push(log.read(block).map_err(|error| format!("{error:?}"))?);
    }
    let expected = |label: u64| if label == 0 { [0; 64] } else { content(label) };
    let shows = |state: &&State| state.iter().zip(&blocks).all(|(l, b)| expected(*l) == *b);
    allowed.iter().find(shows).copied().ok_or_else(|| {
        let found: Vec<u64> = blocks.iter().map(|block| label_of(block, allowed)).collect();
        format!("blocks hold what calls {found:?} wrote; allowed are {allowed:?}")
    })
}
