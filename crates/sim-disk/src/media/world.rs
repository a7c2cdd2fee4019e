//! A world: simulated memory, disks and files that share one tape and one fate.
//!
//! A program under test gets its media from a world and runs on them. The world keeps what the
//! program sees (every store, at once) and the tape of what happened. `crash` turns the tape into
//! what a power loss may leave, and [`World::boot`] makes the next world out of that.
//!
//! Calls are attributed to the real thread that makes them, so that a fence completes what its own
//! thread flushed, whichever handle it went through. Where the program's threads are not real, as
//! under an explorer of schedules, [`name_callers`] tells them apart.

use core::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;

use journal_core::units::LINE_BYTES;

use crate::media::fault::{Fault, FaultKind, Operation, OperationCounts};
use crate::media::file::image::FileImage;
use crate::media::image::{Image, Medium};
use crate::media::model::{Defect, Rules};
use crate::media::tape::{Event, Mark, Tape, Thread};

/// How the call that is under way on this thread is to be taken down. Set by the mutating hook.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calling {
    /// The site it came from.
    pub(crate) site: Option<&'static str>,
    /// Whether the program is to behave as if it had made the call after the next persist point.
    pub(crate) late: bool,
    /// Whether a fence is to be a mere compiler fence.
    pub(crate) weak: bool,
}

thread_local! {
    static CALLING: Cell<Calling> = const {
        Cell::new(Calling { site: None, late: false, weak: false })
    };
}

/// Says which of the program's threads is calling.
type NamesCaller = fn() -> u64;

thread_local! {
    static NAMES_CALLER: Cell<Option<NamesCaller>> = const { Cell::new(None) };
}

/// Runs a program whose threads all run on this one of the system's: `names` says which of them is
/// calling, whenever one does.
pub fn name_callers<R>(names: fn() -> u64, program: impl FnOnce() -> R) -> R {
    /// Puts back what was before.
    struct Before(Option<NamesCaller>);

    impl Drop for Before {
        fn drop(&mut self) {
            NAMES_CALLER.set(self.0);
        }
    }

    let _before = Before(NAMES_CALLER.replace(Some(names)));
    program()
}

/// A thread of the program under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    System(ThreadId),
    Named(u64),
}

impl Caller {
    fn now() -> Self {
        match NAMES_CALLER.get() {
            Some(names) => Self::Named(names()),
            None => Self::System(std::thread::current().id()),
        }
    }
}

/// Puts back what was before, even when the call ends by a panic. A mutant may well provoke a
/// panic, and later calls of this thread are none of its business.
struct Restore(Calling);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLING.set(self.0);
    }
}

/// Runs `call` with what it does taken down as `calling` says.
pub(crate) fn calling<R>(calling: Calling, call: impl FnOnce() -> R) -> R {
    let _restore = Restore(CALLING.replace(calling));
    call()
}

/// A handle to a world; clones are the same world.
#[derive(Clone, Debug)]
pub struct World {
    shared: Arc<Mutex<Shared>>,
}

/// A range of a medium that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReadRange {
    pub(crate) medium: Medium,
    pub(crate) at: u64,
    pub(crate) len: usize,
}

/// Held by the regions of the span; while one lives, the span is taken.
#[derive(Debug)]
pub(crate) struct Lease;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rules: Rules,
    start: Arc<Image>,
    /// What the program sees.
    pub(crate) now: Image,
    /// What reads of a file show once its unsynced pages are dropped; the start, where it is not
    /// here.
    synced: BTreeMap<u16, FileImage>,
    tape: Tape,
    /// Events of calls that a mutant delays, by thread.
    late: Vec<(Thread, Event, Option<&'static str>)>,
    threads: Vec<Caller>,
    past: Vec<Mark>,
    faults: Vec<Fault>,
    operations: OperationCounts,
    /// Whether a fence of the span has failed.
    pub(crate) stuck: bool,
    /// What was read of the media, in order, where somebody wants to know.
    reads: Option<Vec<ReadRange>>,
    lease: Weak<Lease>,
}

impl World {
    /// Media with this content, freshly powered on.
    #[must_use]
    pub fn boot(image: Image, rules: impl Into<Rules>) -> Self {
        Self::with_past(image, rules.into(), Vec::new())
    }

    pub(crate) fn with_past(image: Image, rules: Rules, past: Vec<Mark>) -> Self {
        let shared = Shared {
            rules,
            now: image.clone(),
            synced: BTreeMap::new(),
            start: Arc::new(image),
            tape: Tape::new(),
            late: Vec::new(),
            threads: Vec::new(),
            past,
            faults: Vec::new(),
            operations: OperationCounts::default(),
            stuck: false,
            reads: None,
            lease: Weak::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// The world in which the process that made `tape` was killed after its first `position`
    /// events. All it stored is visible, the power is still on, and no more is durable than before.
    #[must_use]
    pub fn killed(
        start: &Image,
        rules: impl Into<Rules>,
        tape: &Tape,
        position: usize,
        past: Vec<Mark>,
    ) -> Self {
        let rules = rules.into();
        let world = Self::with_past(start.clone(), rules, past);
        {
            let mut shared = world.lock();
            shared.tape = tape.prefix(position);
            if !rules.has(Defect::KillLosesCaches) {
                for entry in &tape.entries()[..position] {
                    shared.show(&entry.event);
                }
            }
            // The threads of the killed process are gone; the next ones get numbers of their own.
            let threads = tape.entries().iter().map(|entry| usize::from(entry.thread.0) + 1);
            let nobody = Caller::now();
            shared.tape.push(Thread(0), Event::Mark(Mark::Killed));
            shared.retire_threads(threads.max().unwrap_or(0), nobody);
        }
        world
    }

    /// Arranges for calls to fail.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Takes the span, until the lease is dropped; what it holds.
    ///
    /// # Panics
    /// While it is taken.
    pub(crate) fn take_span(&self) -> (Arc<Lease>, Vec<u8>) {
        let lease = Arc::new(Lease);
        let mut shared = self.lock();
        assert!(shared.lease.strong_count() == 0, "the span is taken: a region of it still lives");
        shared.lease = Arc::downgrade(&lease);
        (lease, shared.now.pmem.clone())
    }

    /// The program calls: from now on, effects of `label` may be found after a crash.
    pub fn called(&self, label: u64) {
        self.mark(Mark::Called(label));
    }

    /// The call returned: what it promised holds from now on, whatever happens.
    pub fn returned(&self, label: u64) {
        self.mark(Mark::Returned(label));
    }

    /// Recovery has finished and found the logical state that `digest` describes. A recovery that
    /// is itself interrupted by a power loss before this has to find the same state when it is run
    /// again.
    pub fn recovered(&self, digest: u64) {
        self.mark(Mark::Recovered(digest));
    }

    fn mark(&self, mark: Mark) {
        self.lock().record(Event::Mark(mark));
    }

    /// All marks so far, earlier lives first.
    #[must_use]
    pub fn history(&self) -> Vec<Mark> {
        let shared = self.lock();
        let mut history = shared.past.clone();
        history.extend(shared.tape.marks_before(shared.tape.len()));
        history
    }

    /// What happened since power on.
    #[must_use]
    pub fn tape(&self) -> Tape {
        let mut shared = self.lock();
        for (thread, event, site) in core::mem::take(&mut shared.late) {
            shared.tape.push_at(thread, event, site);
        }
        shared.tape.clone()
    }

    /// What the media held at power on.
    #[must_use]
    pub fn start(&self) -> Image {
        Image::clone(&self.lock().start)
    }

    /// What the program sees now, durable or not.
    #[must_use]
    pub fn visible(&self) -> Image {
        self.lock().now.clone()
    }

    /// The rules this world goes by.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.lock().rules
    }

    /// How many operations that can fail were made so far: the range of indexes to fault.
    #[must_use]
    pub fn operations(&self) -> OperationCounts {
        self.lock().operations
    }

    /// Takes down from now on what is read.
    pub(crate) fn log_reads(&self) {
        self.lock().reads = Some(Vec::new());
    }

    /// What was read, and ends the taking down.
    pub(crate) fn take_reads(&self) -> Vec<ReadRange> {
        self.lock().reads.take().unwrap_or_default()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic of the program under test is a finding, not a reason to lose the tape.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn thread(&mut self) -> Thread {
        let id = Caller::now();
        let known = self.threads.iter().rposition(|known| *known == id);
        let index = known.unwrap_or_else(|| {
            self.threads.push(id);
            self.threads.len() - 1
        });
        Thread(u16::try_from(index).expect("fewer than 65536 threads"))
    }

    /// Makes the first `count` numbers refer to threads that are no more.
    fn retire_threads(&mut self, count: usize, this: Caller) {
        // The newest entry of a thread counts, so the dead ones are hidden by a new one of `this`.
        self.threads = vec![this; count + 1];
    }

    /// Takes an event down and makes it visible.
    pub(crate) fn record(&mut self, event: Event) {
        let calling = CALLING.get();
        let thread = self.thread();
        self.show(&event);
        let event = if calling.weak && event == Event::Fence { Event::OrderStores } else { event };
        if calling.late {
            self.late.push((thread, event, calling.site));
            return;
        }
        let (due, waiting): (Vec<_>, Vec<_>) = core::mem::take(&mut self.late)
            .into_iter()
            .partition(|(of, late, _)| *of == thread && releases(&event, late));
        self.late = waiting;
        self.tape.push_at(thread, event, calling.site);
        for (thread, event, site) in due {
            self.tape.push_at(thread, event, site);
        }
    }

    /// Makes visible what an event does.
    fn show(&mut self, event: &Event) {
        if let Some((medium, at, bytes)) = event.change() {
            self.now.patch(medium, at, bytes);
        }
        match *event {
            Event::Exchange { at, value } => {
                self.now.patch(Medium::Pmem, at, &value.to_le_bytes());
            }
            Event::FileWrite { file, at, ref bytes } => {
                if let Some(file) = self.now.file_mut(file) {
                    file.write(at, bytes);
                }
            }
            Event::FileSetLen { file: number, len } => {
                if let Some(file) = self.now.file_mut(number) {
                    file.set_len(len);
                }
                // What is cut off does not come back with older pages.
                if let Some(synced) = self.synced(number).filter(|synced| synced.len() > len) {
                    synced.set_len(len);
                }
            }
            Event::FileSync { file: number } => {
                if let Some(file) = self.now.file(number) {
                    self.synced.insert(number, file.clone());
                }
            }
            Event::FileDropped { file: number } => {
                let older = self.synced(number).cloned();
                if let (Some(file), Some(older)) = (self.now.file_mut(number), older) {
                    let len = file.len();
                    *file = older;
                    file.set_len(len);
                }
            }
            _ => {}
        }
    }

    /// The pages of a file that are not only in the page cache.
    fn synced(&mut self, number: u16) -> Option<&mut FileImage> {
        let start = self.start.file(number)?;
        Some(self.synced.entry(number).or_insert_with(|| start.clone()))
    }

    /// Notes that a range of a medium is read.
    pub(crate) fn note_read(&mut self, medium: Medium, at: u64, len: usize) {
        if let Some(reads) = &mut self.reads {
            reads.push(ReadRange { medium, at, len });
        }
    }

    pub(crate) fn at_power_on(&self) -> &Image {
        &self.start
    }

    /// Counts an operation that can fail, and says whether and how this one does.
    pub(crate) fn operation(&mut self, operation: Operation) -> Option<FaultKind> {
        let index = self.operations.count(operation);
        let hit = self.faults.iter().find(|fault| fault.hits(operation, index));
        let kind = hit.map(|fault| fault.kind)?;
        self.record(Event::Fault(kind.name()));
        Some(kind)
    }

    /// Whether a line of the range is poisoned; which.
    pub(crate) fn poisoned(&self, at: u64, len: usize) -> Option<u64> {
        let line = LINE_BYTES as u64;
        let last = at + len.max(1) as u64;
        self.now.poisoned.range(at / line * line..last).next().copied()
    }
}

/// Whether a call that is to come late has waited long enough: for a persist point of its medium.
fn releases(event: &Event, late: &Event) -> bool {
    match (event, late) {
        (Event::DiskSync { disk }, Event::DiskWrite { disk: of, .. }) => disk == of,
        (Event::Fence, late) => !matches!(late, Event::DiskWrite { .. }),
        _ => false,
    }
}
