//! The lives of a journal as a store leads them from outside: it knows the front door, the disk,
//! and what it has formatted; and it does what it likes.
//!
//! - It stores what it has read of the journal's own memory as the content of blocks.
//! - Calls of the disk fail, the process ends, and the next one goes on with what is visible.
//! - Each open has other options than the one before.
//! - It formats the closed journal over, with another policy and another geometry. A crash in the
//!   middle leaves the old journal, none, or the new one.
//! - Several threads use the journal at once, with little room. All of them come to an end.
//!
//! What the journal shows is judged by the oracle of the front door's own crash tests.

mod acts;
mod crowd;
mod hook;
mod process;

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};

use journal_core::policy::{Pacing, Policy};
use journal_core::units::BlockSize;
use journal_core::{
    BlockNumber, DeviceFacts, Geometry, NoHook, OpenError, Overwrite, PortableKernels, Rule,
};
use nvm_journal::{AnyPolicy, Buffers, Error, Options};
use sim_disk::rng::mix;
use sim_disk::suite::Habits;
use sim_disk::{DiskImage, Image, Mark, Model, Mutator, SimDisk, SimPmem, World};

use crate::lives::{Ended, Machine, Process, run};
use crate::oracle::{BLOCK_BYTES, BLOCKS, Block, Copies, End, sync_label};
use crate::policies::{for_each_policy, tiny};
use crate::run::{Sample, counterexample, holds};

use acts::{Act, Case, Edit, Make, Settings, Shape, Tx};
use hook::{Marks, Watch};
use process::{Store, Wrong};

type Journal = nvm_journal::Journal<AnyPolicy, SimPmem, SimDisk, Marks>;
type Transaction<'j> = nvm_journal::Transaction<'j, AnyPolicy, SimPmem, SimDisk, Marks>;

/// Blocks of the disk-side log at most; the disk has room for it beside the store.
const LOG_BLOCKS_MAX: u64 = 3 * 3 * 2;
const DISK_BLOCKS: u64 = BLOCKS as u64 + LOG_BLOCKS_MAX;
const LINE: usize = 64;

/// A case has ended after so many seconds, on however busy a machine.
const SECONDS_MAX: u64 = 30;

/// Cases until a bug has to be found.
const CASES: u32 = 800;

/// In the id of a format's label, beside the number of its policy.
const FORMATS: u64 = 1 << 21;
const POLICY_AT: u32 = 22;
/// Counts formats.
const COUNT_MAX: u64 = 1 << 16;

fn policy(number: usize) -> AnyPolicy {
    tiny(AnyPolicy::ALL[number].name())
}

/// A store, with what outlives its processes beside the media.
#[derive(Debug)]
pub(crate) struct Outside {
    case: Case,
    mutator: Mutator,
    copies: Copies,
    watch: Watch,
    /// What it does, for whoever waits in vain.
    now: Arc<Mutex<String>>,
    /// Formats so far: each journal has an id of its own.
    formats: Mutex<u64>,
}

/// What is on the media.
enum Found {
    Journal(Journal),
    /// No journal.
    Nothing,
}

impl Outside {
    fn new(case: &Case, mutator: Mutator) -> Self {
        Self {
            case: case.clone(),
            mutator,
            copies: Copies::default(),
            watch: Watch::default(),
            now: Arc::default(),
            formats: Mutex::default(),
        }
    }

    fn geometry(&self, shape: &Shape) -> Geometry {
        let policy = policy(shape.policy);
        let has_log = policy.wants_log();
        let may_tear = self.case.overwrite == Overwrite::MayLeaveGarbage
            || (self.case.at_once_bytes as usize) < BLOCK_BYTES;
        let shield_min = u32::from(may_tear && !policy.logs_images());
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: shape.lanes,
            lane_bytes: shape.lane_lines * LINE as u64,
            shield_blocks: shape.shield_blocks.max(shield_min),
            unit_bytes: shape.unit_bytes,
            protocol: shape.protocol,
            lane_slots: if policy.wants_slots() { shape.lane_slots } else { 0 },
            lane_log_blocks: if has_log { 2 * shape.lane_segments } else { 0 },
            segment_blocks: if has_log { 2 } else { 0 },
        }
    }

    /// All that are formatted in this case.
    fn shapes(&self) -> impl Iterator<Item = &Shape> {
        let acts = self.case.lives.iter().flat_map(|life| &life.acts);
        let formats = acts.filter_map(|act| match act {
            Act::Format { shape, .. } => Some(shape),
            _ => None,
        });
        [&self.case.shape].into_iter().chain(formats)
    }

    fn format(&self, pmem: SimPmem, hook: &Mutator, shape: &Shape) -> Result<(), Error> {
        let mut formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        *formats += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&mix(*formats).to_le_bytes());
        let (geometry, kernels) = (self.geometry(shape), PortableKernels);
        let (policy, blocks) = (policy(shape.policy), DISK_BLOCKS - geometry.log_blocks());
        let hook = hook.clone();
        Ok(journal_core::format(pmem, hook, &kernels, &geometry, id, &policy, blocks)?)
    }

    fn options(
        &self,
        hook: Marks,
        policy: AnyPolicy,
        settings: &Settings,
    ) -> Options<AnyPolicy, Marks> {
        let after = |milliseconds| Some(Duration::from_millis(milliseconds));
        let mut options = Options::new()
            .policy(policy)
            .hook(hook)
            .batch_blocks(settings.batch)
            .buffer_bytes(settings.buffer * BLOCK_BYTES)
            .pacing(Pacing::new(after(20), None, after(100)))
            .background_checkpoint(settings.background)
            .drain_on_open(settings.drain_on_open)
            .keep_on_close(settings.keep_on_close);
        if let Some(frames) = settings.index_frames {
            options = options.index_frames(frames);
        }
        match settings.cache {
            Some(blocks) => options.cache_bytes(blocks * BLOCK_BYTES),
            None => options,
        }
    }

    /// A block of the journal's own memory: mostly of what looks like the header of a record, and of
    /// those mostly one that may come to lie in another lane where it lies in its own.
    fn copied(&self, world: &World, which: u16) -> Block {
        let image = world.visible();
        let memory = image.pmem();
        let longest = self.shapes().map(|shape| shape.lane_lines).max().unwrap_or(0);
        let lines = memory.chunks_exact(LINE);
        let headers: Vec<Header<'_>> =
            lines.filter_map(|line| Header::of(line, longest * LINE as u64)).collect();
        let mut tails = [None; 3];
        for header in &headers {
            if let Some(tail) = tails.get_mut(header.lane) {
                *tail = (*tail).max(Some(header.end));
            }
        }
        let is_near = |header: &&Header<'_>| {
            let others = tails.iter().enumerate().filter(|(lane, _)| *lane != header.lane);
            let ahead = others.filter_map(|(_, tail)| header.position.checked_sub((*tail)?));
            ahead.into_iter().any(|ahead| (1..8 * LINE as u64).contains(&ahead))
        };
        let near: Vec<&Header<'_>> = headers.iter().filter(is_near).collect();
        let (dice, which) = (which % 16, usize::from(which / 16));
        let bytes = match (near.len(), headers.len()) {
            (count @ 1.., _) if dice < 10 => near[which % count].line,
            (_, count @ 1..) if dice < 14 => headers[which % count].line,
            _ => &memory[which * 7 % (memory.len() - BLOCK_BYTES)..][..BLOCK_BYTES],
        };
        let mut block = [0; BLOCK_BYTES];
        block.copy_from_slice(bytes);
        block
    }

    fn note(&self, what: String) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What the owner of the core finds in what this journal leaves.
    fn audit(&self, world: &World, policy: AnyPolicy, geometry: &Geometry) -> Result<(), String> {
        let world = World::boot(world.visible(), self.case.model);
        let mut buffers = Buffers::new(geometry, 512, 2);
        let (pmem, disk, kernels) = (world.pmem(), world.disk(0), PortableKernels);
        let opened =
            journal_core::Journal::open(pmem, disk, policy, NoHook, kernels, buffers.borrow());
        let mut journal = opened.map_err(|error| format!("the core opens: {error}"))?;
        journal.audit().map_err(|error| format!("the core audits: {error}"))
    }
}

/// What looks like the header of a record.
struct Header<'a> {
    line: &'a [u8],
    lane: usize,
    /// Its log offset, and the one behind its part.
    position: u64,
    end: u64,
}

impl<'a> Header<'a> {
    fn of(line: &'a [u8], lane_bytes: u64) -> Option<Self> {
        let word = |at: usize| {
            line[at..at + 8].iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte))
        };
        let (lane, lines) = (usize::from(line[15]), word(8) & 0xFFFF_FFFF);
        let (position, sequence) = (word(16), word(24));
        let is_placed = position % LINE as u64 == 0 && position < 1 << 20;
        let can_be = is_placed && (1..1 << 16).contains(&sequence) && lines * 64 <= lane_bytes;
        can_be.then_some(Self { line, lane, position, end: position + lines * LINE as u64 })
    }
}

/// The journals that there may be, by their policies, and whether there may be none.
fn may_be(outside: &Outside, history: &[Mark]) -> (Vec<usize>, bool) {
    let (mut policies, mut is_open) = (vec![outside.case.shape.policy], false);
    for mark in history {
        match mark {
            Mark::Called(label) if format_of(*label).is_some() => {
                policies.extend(format_of(*label));
                is_open = true;
            }
            Mark::Returned(label) if format_of(*label).is_some() => {
                policies = format_of(*label).into_iter().collect();
                is_open = false;
            }
            _ => {}
        }
    }
    policies.reverse();
    (policies, is_open)
}

/// The policy of a format, if that is what a label is of.
fn format_of(label: u64) -> Option<usize> {
    let id = label >> 32;
    let is_format = label == sync_label(id) && id & FORMATS != 0;
    is_format.then_some((id >> POLICY_AT & 7) as usize)
}

impl Store<'_> {
    /// Opens what is there.
    fn open(&self, settings: &Settings) -> Result<Found, Wrong> {
        let (policies, may_be_none) = may_be(self.outside, &self.world.history());
        for number in policies {
            let policy = policy(number);
            let options = self.outside.options(self.hook.clone(), policy, settings);
            let pmem = self.world.pmem().with_gathers(settings.streams);
            match Journal::open(pmem, self.world.disk(0), &options) {
                Ok(journal) => {
                    let takes_patches = Habits::of(&policy).takes_patches;
                    self.takes_patches.store(takes_patches, Ordering::Relaxed);
                    return Ok(Found::Journal(journal));
                }
                Err(Error::Open(OpenError::WrongPolicy { .. })) => {}
                Err(error) if may_be_none && error.is_no_journal() => return Ok(Found::Nothing),
                Err(error) => return Err(Wrong::Told(format!("open: {error}"))),
            }
        }
        Err(Wrong::Told("another journal is there than there can be".into()))
    }

    /// Opens what is there, and judges it. Where a format was cut short, all is at home; then it is
    /// formatted once more.
    fn enter(&self, settings: &Settings) -> Result<Journal, Wrong> {
        if let Found::Journal(journal) = self.open(settings)? {
            self.recover(&journal)?;
            return Ok(journal);
        }
        let image = self.world.visible();
        let home = |block| {
            let mut content = [0; BLOCK_BYTES];
            content.copy_from_slice(&image.disk(0).block(BlockNumber(block as u64)));
            content
        };
        self.recovered(&core::array::from_fn(home))?;
        self.format(&self.outside.case.shape)?;
        match self.open(settings)? {
            Found::Journal(journal) => {
                self.recover(&journal)?;
                Ok(journal)
            }
            Found::Nothing => Err(Wrong::Told("there is none after a format".into())),
        }
    }

    /// Formats over what is there, all of which is home.
    fn format(&self, shape: &Shape) -> Result<(), Wrong> {
        let count = self.world.history().len() as u64 % COUNT_MAX;
        let id = FORMATS | (shape.policy as u64) << POLICY_AT | count;
        let pmem = self.world.pmem();
        self.covering(id, || self.outside.format(pmem, &self.outside.mutator, shape))
    }

    fn close(&self, journal: Journal) -> Result<(), Wrong> {
        self.covers(|| journal.close())
    }

    /// Takes all steps; returns the journal, unless the last step has ended it.
    fn run(&self, acts: &[Act], ended: impl Fn() -> bool) -> Result<Option<Journal>, Wrong> {
        let (mut settings, mut acts) = (Settings::default(), acts);
        if let [Act::Reopen(first), rest @ ..] = acts {
            (settings, acts) = (*first, rest);
        }
        let mut journal = self.enter(&settings)?;
        let mut now = Duration::ZERO;
        for act in acts {
            self.outside.note(format!("{act:?}"));
            match act {
                Act::Transact(tx) => {
                    let others = (0..tx.beside).map(|_| journal.begin());
                    let _others = others.collect::<Result<Vec<_>, _>>()?;
                    self.transact(&journal, tx, false)?;
                }
                Act::Crowd(crowd) => self.crowd(&journal, crowd)?,
                Act::Sync => self.covers(|| journal.sync())?,
                Act::Checkpoint => self.covers(|| journal.checkpoint().map(drop))?,
                Act::Tick(milliseconds) => {
                    now += Duration::from_millis((*milliseconds).into());
                    journal.tick(now)?;
                }
                Act::Reopen(next) => {
                    settings = *next;
                    drop(journal);
                    journal = self.enter(&settings)?;
                }
                Act::Close(next) => {
                    settings = *next;
                    self.close(journal)?;
                    journal = self.enter(&settings)?;
                }
                Act::Format { shape, ends } => {
                    // So that all goes home.
                    drop(journal);
                    let drains = Settings { keep_on_close: false, ..settings };
                    let last = self.enter(&drains)?;
                    self.close(last)?;
                    self.format(shape)?;
                    if *ends {
                        return Ok(None);
                    }
                    journal = self.enter(&settings)?;
                }
            }
            if ended() {
                return Ok(Some(journal));
            }
            match self.look(&journal) {
                Err(_) if ended() => return Ok(Some(journal)),
                Err(wrong) => return Err(Wrong::Told(format!("{act:?}: {wrong}"))),
                Ok(()) => {}
            }
        }
        Ok(Some(journal))
    }
}

impl Machine for Outside {
    type Act = Act;
    /// All is in the world's history.
    type Memory = ();

    fn start(&self) -> Image {
        let spans = self.shapes().map(|shape| self.geometry(shape).span_bytes().expect("small"));
        let span = usize::try_from(spans.max().unwrap_or(0)).expect("small");
        let facts = DeviceFacts::new(self.case.at_once_bytes, self.case.overwrite);
        let block_size = BlockSize::new(BLOCK_BYTES as u32).expect("a block size");
        let disk = DiskImage::blank(block_size, DISK_BLOCKS, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), self.case.model);
        self.format(world.pmem(), &Mutator::new(), &self.case.shape).expect("formats");
        world.visible()
    }

    fn model(&self) -> Model {
        self.case.model
    }

    fn live(&self, process: &Process<'_, Act>, (): &mut ()) -> Result<(), String> {
        self.note("open".to_owned());
        let store = Store::new(self, process);
        let journal = match store.run(process.acts, || process.has_failed()) {
            Err(Wrong::Error(_)) if process.has_failed() => return Ok(()),
            Err(Wrong::Told(told)) if process.has_failed() && told.starts_with("open: ") => {
                return Ok(());
            }
            result => result.map_err(|wrong| wrong.to_string())?,
        };
        let Some(journal) = journal else { return Ok(()) };
        self.note("end".to_owned());
        let (policy, geometry) = (*journal.policy(), *journal.geometry());
        if process.closes {
            match store.close(journal) {
                Err(_) if process.has_failed() => return Ok(()),
                closed => closed.map_err(|error| format!("close: {error}"))?,
            }
        } else {
            drop(journal);
        }
        match process.fails {
            Some(_) => Ok(()),
            None => self.audit(process.world, policy, &geometry),
        }
    }

    fn three_more(&self) -> Vec<Act> {
        let one = |make| {
            let edits = vec![Edit { block: 2, make }];
            Act::Transact(Tx {
                edits,
                descends: false,
                end: End::Durable,
                at_once: false,
                beside: 0,
            })
        };
        vec![one(Make::Write), Act::Checkpoint, one(Make::Touch { at: 3, bytes: 9 })]
    }
}

/// Lives through a case, in a thread that is watched.
fn lives(case: &Case, mutator: &Mutator) -> Result<Ended, String> {
    let outside = Outside::new(case, mutator.clone());
    let (watch, now) = (outside.watch.clone(), Arc::clone(&outside.now));
    let (tells, told) = channel();
    let thread = std::thread::spawn(move || {
        let _ = tells.send(run(&outside, &outside.case.lives));
    });
    let result = match told.recv_timeout(Duration::from_secs(SECONDS_MAX)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => Err("the case's thread has panicked".to_owned()),
        Err(RecvTimeoutError::Timeout) => {
            watch.end();
            let now = now.lock().unwrap_or_else(PoisonError::into_inner);
            // Its threads may be waiting for ever, and are left to themselves.
            return Err(format!("no end of {now} in {SECONDS_MAX} seconds"));
        }
    };
    let _ = thread.join();
    result
}

fn number_of(name: &str) -> usize {
    let number = AnyPolicy::ALL.iter().position(|policy| policy.name() == name);
    number.expect("one of the seven")
}

fn check(name: &str) {
    let sample = Sample { cases: 100, share: 1, source: file!() };
    holds(&sample, &acts::case(number_of(name)), |case| lives(case, &Mutator::new()).map(drop));
}

for_each_policy!(check);

/// The smallest case in which a broken rule shows.
fn without(rule: Rule, name: &str, cases: u32, shrinks: u32) -> Option<Case> {
    let mutator = Mutator::without(&[rule]);
    let number = number_of(name);
    counterexample(cases, shrinks, &acts::case(number), |case| lives(case, &mutator).map(drop))
}

#[test]
fn it_finds_broken_rules() {
    let rules = [
        (Rule::LaneChecked, "full-block"),
        (Rule::AppendsGivenUp, "byte-delta"),
        (Rule::HomesMadeSure, "byte-delta"),
        (Rule::IndexGrows, "two-level"),
        (Rule::VoidedFirst, "two-level"),
    ];
    for (rule, policy) in rules {
        assert!(without(rule, policy, CASES, 0).is_some(), "{policy} without {rule:?}");
    }
}
