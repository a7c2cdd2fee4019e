//! A program on the journal as a scenario for the simulator, and the oracle of each mode.

use block_journal::{BlockJournal, Config, JournalDevice, Mode, Partition, ProtocolHook, Rule};
use journal_core::{
    BlockDevice, BlockNumber, BlockSize, DeviceError, DeviceFacts, Hook, Overwrite, Site,
};
use sim_disk::rng::mix;
use sim_disk::{DiskImage, Fault, Image, Mark, Model, Mutator, Scenario, SimDisk, World};

/// Blocks of the store.
pub(crate) const BLOCKS: u64 = 4;
pub(crate) const BLOCK_BYTES: usize = 64;
/// What blocks of the journal's own begin with.
pub(crate) const MAGIC: [u8; 4] = *b"BJL1";

pub(crate) type Block = [u8; BLOCK_BYTES];
pub(crate) type Disk = Partition<SimDisk>;
pub(crate) type Journal<H> = BlockJournal<Disk, Disk, H>;

/// What a step does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Metadata(u64),
    Data(u64),
    Free(u64),
}
use Change::{Data, Free, Metadata};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Commit(&'static [Change]),
    Sync,
    Checkpoint,
    /// Images go home without a sync.
    WriteBack,
    Reopen,
}

/// All steps that the short programs are made of.
pub(crate) const STEPS: [Step; 10] = [
    Step::Commit(&[Metadata(0), Data(1)]),
    Step::Commit(&[Metadata(0), Metadata(2)]),
    Step::Commit(&[Free(0), Metadata(3)]),
    Step::Commit(&[Metadata(3), Data(0)]),
    Step::Commit(&[Free(0), Data(0), Metadata(1)]),
    Step::Commit(&[Data(1)]),
    Step::Sync,
    Step::Checkpoint,
    Step::Reopen,
    Step::WriteBack,
];

/// The hook of the tests: a mutator of the simulator, and rules that are switched off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planted {
    pub(crate) mutator: Mutator,
    pub(crate) off: Option<Rule>,
}

impl Hook for Planted {
    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        self.mutator.disk_write(site, device, first, from)
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        self.mutator.disk_sync(site, device)
    }
}

impl ProtocolHook for Planted {
    fn keeps_to(&self, rule: Rule) -> bool {
        self.off != Some(rule)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) mode: Mode,
    pub(crate) journal_device: JournalDevice,
    pub(crate) steps: Vec<Step>,
    /// Steps after each recovery, to see that the journal goes on.
    pub(crate) after: Vec<Step>,
    pub(crate) ring: u32,
    pub(crate) overwrite: Overwrite,
    pub(crate) fault: Option<Fault>,
    pub(crate) hook: Planted,
}

impl Program {
    /// A program on a ring of nine blocks: two transactions of one image, or one of two and a bit.
    pub(crate) fn new(mode: Mode, steps: &[Step]) -> Self {
        Self {
            mode,
            journal_device: JournalDevice::OwnDevice,
            steps: steps.to_vec(),
            after: vec![Step::Commit(&[Metadata(1)])],
            ring: 9,
            overwrite: Overwrite::OldOrNew,
            fault: None,
            hook: Planted::default(),
        }
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(self.mode).journal_device(self.journal_device).ring_blocks(self.ring).id(77)
    }

    /// The devices of a world: one disk for both, or one for each.
    pub(crate) fn devices(&self, world: &World) -> (Disk, Disk) {
        let ring = u64::from(self.ring) + 2;
        let (journal, home, first) = match self.journal_device {
            JournalDevice::OwnDevice => (world.disk(0), world.disk(1), 0),
            JournalDevice::SameDevice => (world.disk(0), world.disk(0), ring),
        };
        let part = |disk, first, count| {
            Partition::new(disk, BlockNumber(first), count).expect("inside the disk")
        };
        (part(journal, 0, ring), part(home, first, BLOCKS))
    }

    pub(crate) fn open(&self, world: &World) -> Result<Journal<Planted>, String> {
        let (journal, home) = self.devices(world);
        let opened = Journal::open_with_hook(journal, home, self.config(), self.hook.clone());
        opened.map(|(journal, _)| journal).map_err(|error| error.to_string())
    }

    fn step(
        &self,
        world: &World,
        mut journal: Journal<Planted>,
        step: Step,
    ) -> Result<Journal<Planted>, String> {
        let say = |error: block_journal::Error| format!("{step:?}: {error}");
        match step {
            Step::Checkpoint => journal.checkpoint().map_err(say)?,
            Step::WriteBack => journal.write_back(|_| true).map_err(say)?,
            Step::Reopen => {
                drop(journal.close().map_err(say)?);
                return self.open(world);
            }
            Step::Sync => {
                let label = label(world, step);
                world.called(label);
                journal.sync().map_err(say)?;
                world.returned(label);
            }
            Step::Commit(changes) => {
                let label = label(world, step);
                let mut transaction = journal.begin();
                for change in changes {
                    let content = |block| content(label, block);
                    match *change {
                        Metadata(block) => {
                            transaction.metadata(BlockNumber(block), &content(block))
                        }
                        Data(block) => transaction.data(BlockNumber(block), &content(block)),
                        Free(block) => transaction.discard(BlockNumber(block)),
                    }
                    .map_err(say)?;
                }
                world.called(label);
                if let Err(error) = journal.commit(transaction) {
                    let mut empty = journal.begin();
                    let _ = empty.metadata(BlockNumber(0), &[0; BLOCK_BYTES]);
                    if journal.commit(empty).is_ok() {
                        return Err("the journal went on after an error".to_owned());
                    }
                    return Err(say(error));
                }
                world.returned(label);
            }
        }
        Ok(journal)
    }

    /// Which of the allowed states the journal shows.
    fn judge(&self, world: &World, journal: &mut Journal<Planted>) -> Result<State, String> {
        let mut found = [[0; BLOCK_BYTES]; BLOCKS as usize];
        for (block, into) in (0..).zip(&mut found) {
            journal.read(BlockNumber(block), into).map_err(|error| error.to_string())?;
        }
        let allowed = self.allowed(&world.history());
        let shows = |state: &&State| {
            (0..).zip(state.iter().zip(&found)).all(|(block, (known, found))| match known {
                Known::Is(label) => content(*label, block) == *found,
                Known::Any | Known::Sent(_) => true,
            })
        };
        allowed.iter().find(shows).copied().ok_or_else(|| {
            let labels: Vec<u64> = allowed.iter().flatten().filter_map(Known::label).collect();
            let who = (0..).zip(&found).map(|(block, found)| {
                let by = labels.iter().find(|label| content(**label, block) == *found);
                by.map_or_else(|| "unknown content".to_owned(), |label| format!("{label:#x}"))
            });
            let who: Vec<String> = who.collect();
            format!("the blocks hold what calls {who:x?} wrote; allowed are {allowed:x?}")
        })
    }

    /// The states that the history allows. Those that are cut short come before those that are
    /// whole, so that the first that fits is the weaker claim.
    fn allowed(&self, history: &[Mark]) -> Vec<State> {
        let mut starts: Vec<State> = vec![[Known::Is(0); BLOCKS as usize]];
        // What each state becomes if the call under way is cut short, and if it is not.
        let mut under_way: Option<u64> = None;
        let ends = |starts: &[State], under_way: Option<u64>| -> Vec<State> {
            let Some(label) = under_way else { return starts.to_vec() };
            let mut ends: Vec<State> = Vec::new();
            let cut = starts.iter().map(|state| self.cut_short(*state, label));
            let whole = starts.iter().map(|state| self.whole(*state, label));
            for state in cut.chain(whole) {
                if !ends.contains(&state) {
                    ends.push(state);
                }
            }
            ends
        };
        for mark in history {
            match mark {
                Mark::Called(label) => under_way = Some(*label),
                Mark::Returned(label) => {
                    starts = starts.iter().map(|state| self.whole(*state, *label)).collect();
                    under_way = None;
                }
                Mark::PowerLost | Mark::Killed => {
                    starts = ends(&starts, under_way.take());
                    let lost = starts.iter_mut().flatten();
                    // What was sent and not synced before is lost or not; nobody will know.
                    lost.filter(|known| matches!(known, Known::Sent(_)))
                        .for_each(|known| *known = Known::Any);
                }
                Mark::Recovered(digest) => starts.retain(|state| digest_of(state) == *digest),
            }
        }
        ends(&starts, under_way)
    }

    /// A call that returned.
    fn whole(&self, mut state: State, label: u64) -> State {
        match step_of(label) {
            Step::Sync => {
                for known in &mut state {
                    if let Known::Sent(label) = *known {
                        *known = Known::Is(label);
                    }
                }
            }
            Step::Commit(changes) => {
                for change in changes {
                    let was_freed = |block| changes.contains(&Free(block));
                    let (block, known) = match *change {
                        Metadata(block) => (block, Known::Is(label)),
                        Data(block) if self.mode == Mode::Writeback && !was_freed(block) => {
                            (block, Known::Sent(label))
                        }
                        Data(block) => (block, Known::Is(label)),
                        Free(block) => (block, Known::Any),
                    };
                    state[block as usize] = known;
                }
            }
            Step::Checkpoint | Step::WriteBack | Step::Reopen => {}
        }
        state
    }

    /// A call that a crash cut short before it was committed.
    fn cut_short(&self, mut state: State, label: u64) -> State {
        let Step::Commit(changes) = step_of(label) else { return state };
        for change in changes {
            match *change {
                Metadata(block) | Data(block) if self.mode == Mode::None => {
                    state[block as usize] = Known::Any;
                }
                Data(block) if self.mode != Mode::Data && !changes.contains(&Free(block)) => {
                    state[block as usize] = Known::Any;
                }
                _ => {}
            }
        }
        state
    }
}

/// What is known of a block: the call that wrote it, zero for none; or that it may hold anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Is(u64),
    /// Data went home without a sync.
    Sent(u64),
    Any,
}

impl Known {
    fn label(&self) -> Option<u64> {
        match *self {
            Self::Is(label) | Self::Sent(label) => Some(label),
            Self::Any => None,
        }
    }
}

type State = [Known; BLOCKS as usize];

fn digest_of(state: &State) -> u64 {
    state.iter().fold(1, |sum, known| {
        mix(sum
            ^ match known {
                Known::Is(label) => *label,
                Known::Sent(_) | Known::Any => u64::MAX,
            })
    })
}

/// The label of the next call: which call of the store's whole life it is, and of what step.
fn label(world: &World, step: Step) -> u64 {
    let calls = world.history();
    let number = calls.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64 + 1;
    let known = all_steps().position(|known| known == step).expect("a step of the list");
    number << 8 | known as u64
}

fn step_of(label: u64) -> Step {
    all_steps().nth((label & 0xFF) as usize).expect("a step of the list")
}

/// All steps: of the short programs, and of single tests.
fn all_steps() -> impl Iterator<Item = Step> {
    let more: [Step; 4] = [
        Step::Commit(&[Metadata(1)]),
        Step::Commit(&[Data(0)]),
        Step::Commit(&[Metadata(0), Metadata(1), Metadata(2), Metadata(3)]),
        Step::Commit(&[Metadata(2)]),
    ];
    STEPS.into_iter().chain(more)
}

/// What call `label` writes to a block. First and last word differ from every other call's.
/// Contents of block 2 begin with the magic.
pub(crate) fn content(label: u64, block: u64) -> Block {
    let mut content = [0; BLOCK_BYTES];
    if label == 0 {
        return content;
    }
    content[..8].copy_from_slice(&mix(label << 8 | block << 1).to_le_bytes());
    content[56..].copy_from_slice(&mix(label << 8 | block << 1 | 1).to_le_bytes());
    if block == 2 {
        content[..4].copy_from_slice(&MAGIC);
    }
    content
}

impl Scenario for Program {
    fn name(&self) -> String {
        let Self { mode, journal_device, steps, .. } = self;
        format!("{mode:?}, {journal_device:?}, {steps:?}")
    }

    fn start(&self) -> Image {
        let size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        let facts = DeviceFacts::new(32, self.overwrite);
        let ring = u64::from(self.ring) + 2;
        let image = Image::blank(64);
        let image = match self.journal_device {
            JournalDevice::OwnDevice => image
                .with_disk(DiskImage::blank(size, ring, facts))
                .with_disk(DiskImage::blank(size, BLOCKS, facts)),
            JournalDevice::SameDevice => {
                image.with_disk(DiskImage::blank(size, ring + BLOCKS, facts))
            }
        };
        let world = World::boot(image, Model::Torn8);
        let (mut journal, home) = self.devices(&world);
        BlockJournal::format(&mut journal, &home, self.config()).expect("a journal is made");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        if let Some(fault) = self.fault {
            world.inject(fault);
        }
        let run = || {
            let mut journal = self.open(world)?;
            for step in &self.steps {
                journal = self.step(world, journal, *step)?;
                if self.fault.is_none() {
                    self.judge(world, &mut journal)?;
                }
            }
            Ok::<(), String>(())
        };
        match run() {
            Err(message) if self.fault.is_none() || message.contains("went on") => Err(message),
            _ => Ok(()),
        }
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let mut journal = self.open(world)?;
        let state = self.judge(world, &mut journal)?;
        world.recovered(digest_of(&state));
        for step in &self.after {
            journal = self.step(world, journal, *step)?;
        }
        self.judge(world, &mut journal).map(drop)
    }
}

/// Shown with `--nocapture`, and where a test fails.
#[allow(clippy::print_stdout, reason = "the harness keeps it")]
pub(crate) fn tell(what: &str, found: &impl core::fmt::Display) {
    println!("{what}: {found}");
}
