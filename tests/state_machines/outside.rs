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
mod formats;
mod hook;
mod memory;
mod process;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};

use journal_core::policy::{Pacing, Policy};
use journal_core::units::BlockSize;
use journal_core::{Buffers, DeviceFacts, Geometry, Overwrite, PortableKernels, Rule};
use lab::erased::{AnyMachine, DynHook, DynJournal, DynPolicy, any_options};
use nvm_journal::{AnyPolicy, Error, Options};
use sim_disk::rng::mix;
use sim_disk::{DiskImage, Image, Model, Mutator, SimPmem, World};

use crate::lives::{Ended, Machine, Process, run};
use crate::policies::{for_each_policy, tiny};
use crate::run::{Sample, cases, counterexample, holds};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Block, Copies};

use acts::{Act, Case, Edit, Make, Settings, Shape, Tx};
use hook::{Marks, Watch};
use memory::copied;
use process::{Store, Wrong};

type Journal = DynJournal;
type Transaction<'j> = nvm_journal::Transaction<'j, DynPolicy, AnyMachine>;

/// Blocks of the disk-side log at most; the disk has room for it beside the store.
const LOG_BLOCKS_MAX: u64 = 3 * 3 * 2;
const DISK_BLOCKS: u64 = BLOCKS as u64 + LOG_BLOCKS_MAX;
const LINE: usize = 64;

/// A case has ended after this many seconds, on a busy machine too.
const SECONDS_MAX: u64 = 30;

/// Cases until a bug has to be found.
const CASES: u32 = 800;

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
    /// What the process does now; a case that does not end is told by it.
    now: Arc<Mutex<String>>,
    reach: Arc<Reach>,
}

/// How often cases came to what is rare.
#[derive(Debug, Default)]
struct Reach {
    /// Formats: each journal has an id of its own.
    formats: AtomicU64,
    /// Opens behind a format that was cut short, which found none; and those that found one.
    no_journal: AtomicU64,
    cut_short: AtomicU64,
    crowds: AtomicU64,
    copies: AtomicU64,
    failed: AtomicU64,
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

impl Outside {
    fn new(case: &Case, mutator: Mutator, reach: Arc<Reach>) -> Self {
        Self {
            case: case.clone(),
            mutator,
            copies: Copies::default(),
            watch: Watch::default(),
            now: Arc::default(),
            reach,
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
        let mut id = [0; 16];
        id[..8].copy_from_slice(&mix(count(&self.reach.formats)).to_le_bytes());
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
    ) -> Options<DynPolicy, DynHook> {
        let after = |milliseconds| Some(Duration::from_millis(milliseconds));
        let mut options = any_options(policy, hook)
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

    /// A block of the journal's own memory.
    fn copied(&self, world: &World, which: u16) -> Block {
        count(&self.reach.copies);
        let longest = self.shapes().map(|shape| shape.lane_lines).max().unwrap_or(0);
        copied(world.visible().pmem(), longest * LINE as u64, which)
    }

    fn note(&self, what: String) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What the owner of the core finds in what this journal leaves.
    fn audit(&self, world: &World, policy: AnyPolicy, geometry: &Geometry) -> Result<(), String> {
        let world = World::boot(world.visible(), self.case.model);
        let mut buffers = Buffers::new(geometry, 512, 2);
        let (pmem, disk, kernels) = (world.pmem(), world.disk(0), PortableKernels);
        let opened = journal_core::Journal::open(
            pmem,
            disk,
            policy,
            Mutator::new(),
            kernels,
            buffers.borrow(),
        );
        let mut journal = opened.map_err(|error| format!("the core opens: {error}"))?;
        journal.audit().map_err(|error| format!("the core audits: {error}"))
    }
}

impl Store<'_> {
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
                Act::Crowd(crowd) => {
                    count(&self.outside.reach.crowds);
                    self.crowd(&journal, crowd)?;
                }
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
        let result = self.live_in(&store, process);
        if process.has_failed() {
            count(&self.reach.failed);
        }
        result
    }

    fn three_more(&self) -> Vec<Act> {
        let one = |make| {
            let edits = vec![Edit { block: 2, make }];
            Act::Transact(Tx { edits, ..Tx::default() })
        };
        vec![one(Make::Write), Act::Checkpoint, one(Make::Touch { at: 3, bytes: 9 })]
    }
}

impl Outside {
    fn live_in(&self, store: &Store<'_>, process: &Process<'_, Act>) -> Result<(), String> {
        let journal = match store.run(process.acts, || process.has_failed()) {
            Err(Wrong::Error(_)) if process.has_failed() => return Ok(()),
            Err(Wrong::Told(told)) if process.has_failed() && told.starts_with("open: ") => {
                return Ok(());
            }
            result => result.map_err(|wrong| wrong.to_string())?,
        };
        let Some(journal) = journal else { return Ok(()) };
        self.note("end".to_owned());
        let policy = AnyPolicy::by_id(journal.policy().id()).expect("one of them");
        let (policy, geometry) = (tiny(policy.name()), *journal.geometry());
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
}

/// Lives through a case, in a thread that is watched.
fn lives(case: &Case, mutator: &Mutator, reach: &Arc<Reach>) -> Result<Ended, String> {
    let outside = Outside::new(case, mutator.clone(), Arc::clone(reach));
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
    let sample = Sample { cases: 600, share: 1, source: file!() };
    let reach = Arc::default();
    holds(&sample, &acts::case(number_of(name)), |case| {
        lives(case, &Mutator::new(), &reach).map(drop)
    });
}

for_each_policy!(check);

/// The smallest case in which a broken rule shows.
fn without(rule: Rule, name: &str, cases: u32, shrinks: u32) -> Option<Case> {
    let mutator = Mutator::without(&[rule]);
    let (case, reach) = (acts::case(number_of(name)), Arc::default());
    counterexample(cases, shrinks, &case, |case| lives(case, &mutator, &reach).map(drop))
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

#[test]
fn the_rare_is_reached() {
    let reach = Arc::<Reach>::default();
    let mut images = 0;
    for name in ["full-block", "two-level"] {
        for case in cases(&acts::case(number_of(name)), 100) {
            images += lives(&case, &Mutator::new(), &reach).expect("holds").images;
        }
    }
    let Reach { formats, no_journal, cut_short, crowds, copies, failed } = &*reach;
    let reached = [formats, no_journal, cut_short, crowds, copies, failed];
    let reached = reached.map(|counter| counter.load(Ordering::Relaxed));
    assert!(
        reached.iter().zip([200, 5, 20, 50, 500, 30]).all(|(is, min)| *is > min),
        "{reached:?}"
    );
    assert!(images > 1_000, "{images}");
}
