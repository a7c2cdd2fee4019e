//! The tape: every event on every medium of a world, in one order.
//!
//! Memory, disks and files write to the same tape, so that a crash is one instant across all of
//! them. The order of the tape is the order in which stores reach the coherent memory.

use crate::media::image::Medium;

/// A thread of a world, numbered in the order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread(pub u16);

/// How a line is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushKind {
    /// `clwb`, `clflushopt`, `dc cvap`: durable after the issuing thread's next fence.
    Weak,
    /// `clflush`: ordered with stores, durable when it executes.
    Strong,
}

/// What the program told its caller, as far as the oracle wants to know. The labels are the
/// program's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A call was made: from now on its effects may be there.
    Called(u64),
    /// A call returned: what it promised holds from now on. A crash point of its own.
    Returned(u64),
    /// Recovery finished; `digest` describes the logical state it found.
    Recovered(u64),
    /// The power went; only what was durable, and some of what was not, is left.
    PowerLost,
    /// The process was killed; everything it stored is visible, none of it has become durable.
    Killed,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A store to memory, of any length: words become visible in no order inside one call.
    Store {
        /// Where, in bytes from the start of the span.
        at: u64,
        /// What.
        bytes: Box<[u8]>,
    },
    /// A non-temporal store: bypasses the caches, durable after the thread's next fence.
    Stream {
        /// Where.
        at: u64,
        /// What.
        bytes: Box<[u8]>,
    },
    /// A line is flushed.
    Flush {
        /// The first byte of the line.
        line: u64,
        /// How.
        kind: FlushKind,
    },
    /// `sfence`, `mfence`, `dsb`: completes this thread's flushes and streams.
    Fence,
    /// A fence that reported failure: what it should have completed never is.
    FenceFailed,
    /// A locked read-modify-write: a fence, and then a store of one word.
    Exchange {
        /// The word's place.
        at: u64,
        /// Its new value.
        value: u64,
    },
    /// `dmb ishst`, or a compiler fence: orders stores where the model lets them be reordered,
    /// completes nothing.
    OrderStores,
    /// Whole blocks are written to a disk.
    DiskWrite {
        /// Which disk.
        disk: u16,
        /// Where, in bytes from the start of the disk.
        at: u64,
        /// What.
        bytes: Box<[u8]>,
    },
    /// A disk made all earlier writes durable.
    DiskSync {
        /// Which disk.
        disk: u16,
    },
    /// A disk reported a failed sync: writes since the last good one may be lost for ever.
    DiskSyncFailed {
        /// Which disk.
        disk: u16,
    },
    /// Bytes are written to a file, which becomes longer where they need it.
    FileWrite {
        /// Which file.
        file: u16,
        /// Where, in bytes from the start of the file.
        at: u64,
        /// What.
        bytes: Box<[u8]>,
    },
    /// The length of a file is set.
    FileSetLen {
        /// Which file.
        file: u16,
        /// Its new length.
        len: u64,
    },
    /// All earlier writes and lengths of a file became durable.
    FileSync {
        /// Which file.
        file: u16,
    },
    /// A sync of a file failed: what was written since the last one stays readable, and no later
    /// sync covers it.
    FileSyncFailed {
        /// Which file.
        file: u16,
    },
    /// A sync of a file failed, and what was written since the last one is gone: reads show the
    /// bytes from before.
    FileDropped {
        /// Which file.
        file: u16,
    },
    /// The program told its caller something.
    Mark(Mark),
    /// A fault was injected into a call; for the reader of a trace.
    Fault(&'static str),
}

impl Event {
    /// Whether a process that is killed right after the event leaves something new behind. The next
    /// process sees it, or it is lost to that process's fences and syncs.
    pub(crate) fn leaves_something_new(&self) -> bool {
        self.change().is_some()
            || matches!(
                self,
                Self::Exchange { .. }
                    | Self::Mark(_)
                    | Self::FenceFailed
                    | Self::DiskSyncFailed { .. }
                    | Self::FileWrite { .. }
                    | Self::FileSetLen { .. }
                    | Self::FileSyncFailed { .. }
                    | Self::FileDropped { .. }
            )
    }

    /// The range of memory or of a disk whose visible content the event changes, with the new
    /// bytes.
    pub(crate) fn change(&self) -> Option<(Medium, u64, &[u8])> {
        match self {
            Self::Store { at, bytes } | Self::Stream { at, bytes } => {
                Some((Medium::Pmem, *at, bytes))
            }
            Self::DiskWrite { disk, at, bytes } => Some((Medium::Disk(*disk), *at, bytes)),
            _ => None,
        }
    }
}

/// An event with the thread that caused it and the site it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The thread that did it.
    pub thread: Thread,
    /// What.
    pub event: Event,
    /// Where in the program, for calls that came through an ordering hook.
    pub site: Option<&'static str>,
}

/// All events of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tape {
    entries: Vec<Entry>,
}

impl Tape {
    /// An empty tape.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Appends an event.
    pub fn push(&mut self, thread: Thread, event: Event) {
        self.push_at(thread, event, None);
    }

    pub(crate) fn push_at(&mut self, thread: Thread, event: Event, site: Option<&'static str>) {
        self.entries.push(Entry { thread, event, site });
    }

    /// The events.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first `len` events.
    #[must_use]
    pub fn prefix(&self, len: usize) -> Self {
        Self { entries: self.entries[..len].to_vec() }
    }

    /// What the program told its caller before `position`.
    #[must_use]
    pub fn marks_before(&self, position: usize) -> Vec<Mark> {
        let marks = self.entries[..position].iter().filter_map(|entry| match entry.event {
            Event::Mark(mark) => Some(mark),
            _ => None,
        });
        marks.collect()
    }

    /// What the run cost its media.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // A processor puts together what is streamed to one line, one piece after the other.
        let mut open_line = None;
        for entry in &self.entries {
            let line_before = open_line.take();
            match &entry.event {
                Event::Store { bytes, .. } => {
                    counts.stores += 1;
                    counts.stored_bytes += bytes.len() as u64;
                }
                Event::Stream { at, bytes } => {
                    counts.streams += 1;
                    counts.streamed_bytes += bytes.len() as u64;
                    if !bytes.is_empty() {
                        let (first, last) = (at / LINE, (at + bytes.len() as u64 - 1) / LINE);
                        let goes_on = line_before == Some((entry.thread, first));
                        counts.streamed_lines += last - first + u64::from(!goes_on);
                        open_line = Some((entry.thread, last));
                    }
                }
                Event::Flush { .. } => counts.flushed_lines += 1,
                Event::Fence | Event::Exchange { .. } => counts.fences += 1,
                Event::DiskWrite { bytes, .. } => {
                    counts.disk_writes += 1;
                    counts.disk_bytes += bytes.len() as u64;
                }
                Event::DiskSync { .. } => counts.disk_syncs += 1,
                Event::FileWrite { bytes, .. } => {
                    counts.file_writes += 1;
                    counts.file_bytes += bytes.len() as u64;
                }
                Event::FileSync { .. } => counts.file_syncs += 1,
                Event::FenceFailed
                | Event::OrderStores
                | Event::DiskSyncFailed { .. }
                | Event::FileSetLen { .. }
                | Event::FileSyncFailed { .. }
                | Event::FileDropped { .. }
                | Event::Mark(_)
                | Event::Fault(_) => {}
            }
        }
        counts
    }
}

const LINE: u64 = journal_core::LINE_BYTES as u64;

/// What a run cost its media; exact, so that budgets can be asserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Store calls.
    pub stores: u64,
    /// Bytes in them.
    pub stored_bytes: u64,
    /// Stream calls.
    pub streams: u64,
    /// Bytes in them.
    pub streamed_bytes: u64,
    /// Lines touched by them.
    pub streamed_lines: u64,
    /// Lines flushed.
    pub flushed_lines: u64,
    /// Fences.
    pub fences: u64,
    /// Write calls to disks.
    pub disk_writes: u64,
    /// Bytes in them.
    pub disk_bytes: u64,
    /// Syncs of disks.
    pub disk_syncs: u64,
    /// Write calls to files.
    pub file_writes: u64,
    /// Bytes in them.
    pub file_bytes: u64,
    /// Syncs of files.
    pub file_syncs: u64,
}

impl Counts {
    /// Lines written to persistent memory, flushed or streamed.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.flushed_lines + self.streamed_lines
    }
}
