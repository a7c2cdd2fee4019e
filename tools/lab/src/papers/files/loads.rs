//! The workloads of filebench and PostMark: what each thread does, step by step.

use sim_disk::Rng;

use crate::engines::Failure;
use crate::papers::files::world::{Load, World};

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Delete,
    Create,
    Open,
    /// Appends blocks to the file that is open.
    Append(u64),
    /// Appends blocks to the thread's log.
    AppendToLog(u64),
    ReadWhole,
    Fsync,
    Stat,
    Close,
}

/// A log of a thread begins anew at this size.
const LOG_BLOCKS_MAX: u64 = 256;

/// Files that are there and that are not, drawn at random.
#[derive(Debug, Default)]
struct Files {
    there: Vec<usize>,
    absent: Vec<usize>,
    place: Vec<usize>,
    users: Vec<u32>,
}

impl Files {
    fn of(world: &World, from: usize) -> Self {
        let mut files = Self::default();
        for (number, state) in world.fs.files.iter().enumerate() {
            files.users.push(0);
            let list = if state.exists { &mut files.there } else { &mut files.absent };
            files.place.push(list.len());
            if number >= from {
                list.push(number);
            }
        }
        files
    }

    /// A file that is there and that no other thread uses, if one is found.
    fn any(&self, rng: &mut Rng, alone: bool) -> Option<usize> {
        for _ in 0..20 {
            if self.there.is_empty() {
                return None;
            }
            let file = self.there[rng.below(self.there.len() as u64) as usize];
            if !alone || self.users[file] == 0 {
                return Some(file);
            }
        }
        None
    }

    fn remove(&mut self, file: usize) {
        let place = self.place[file];
        self.there.swap_remove(place);
        if let Some(moved) = self.there.get(place) {
            self.place[*moved] = place;
        }
        self.place[file] = self.absent.len();
        self.absent.push(file);
    }

    /// A file that is not there is going to be.
    fn add(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.absent.is_empty() {
            return None;
        }
        let at = rng.below(self.absent.len() as u64) as usize;
        let file = self.absent.swap_remove(at);
        self.place[file] = self.there.len();
        self.there.push(file);
        Some(file)
    }
}

/// Steps that threads repeat.
pub struct Loop {
    steps: &'static [Step],
    /// Operations of a round, as filebench counts them.
    operations: u64,
    files: Files,
    /// The first files are logs, one of each thread.
    logs: usize,
    threads: Vec<Thread>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    at: usize,
    file: Option<usize>,
    is_new: bool,
}

impl Loop {
    pub fn new(
        steps: &'static [Step],
        operations: u64,
        threads: usize,
        logs: usize,
        world: &World,
    ) -> Self {
        let files = Files::of(world, logs);
        Self { steps, operations, files, logs, threads: vec![Thread::default(); threads] }
    }

    fn leave(&mut self, thread: usize) {
        if let Some(file) = self.threads[thread].file.take() {
            self.files.users[file] -= 1;
        }
    }

    fn enter(&mut self, thread: usize, file: Option<usize>, is_new: bool) {
        self.leave(thread);
        if let Some(file) = file {
            self.files.users[file] += 1;
        }
        (self.threads[thread].file, self.threads[thread].is_new) = (file, is_new);
    }
}

impl Load for Loop {
    fn step(&mut self, thread: usize, world: &mut World) -> Result<u64, Failure> {
        let step = self.steps[self.threads[thread].at];
        let open = self.threads[thread].file;
        match step {
            Step::Delete => {
                if let Some(file) = self.files.any(&mut world.rng, true) {
                    self.files.remove(file);
                    world.delete(file)?;
                }
            }
            Step::Create => {
                let file = self.files.add(&mut world.rng);
                self.enter(thread, file, true);
                if let Some(file) = file {
                    world.create(file)?;
                }
            }
            Step::Open => {
                let file = self.files.any(&mut world.rng, false);
                self.enter(thread, file, false);
                world.open();
            }
            Step::Append(blocks) => {
                if let Some(file) = open {
                    world.append(file, blocks)?;
                }
            }
            Step::AppendToLog(blocks) => {
                let log = thread % self.logs.max(1);
                if world.fs.files[log].blocks >= LOG_BLOCKS_MAX {
                    world.delete(log)?;
                }
                if !world.fs.files[log].exists {
                    world.create(log)?;
                }
                world.append(log, blocks)?;
            }
            Step::ReadWhole => {
                if let Some(file) = open {
                    world.read_whole(file)?;
                }
            }
            Step::Fsync => {
                if let Some(file) = open {
                    world.fsync(file, self.threads[thread].is_new)?;
                }
            }
            Step::Stat => world.open(),
            Step::Close => self.leave(thread),
        }
        let at = &mut self.threads[thread].at;
        *at = (*at + 1) % self.steps.len();
        Ok(if *at == 0 { self.operations } else { 0 })
    }
}

/// Operations that filebench counts in a round.
pub const VARMAIL_OPERATIONS: u64 = 13;
pub const FILESERVER_OPERATIONS: u64 = 11;
pub const WEBSERVER_OPERATIONS: u64 = 31;
pub const WEBPROXY_OPERATIONS: u64 = 19;

/// Varmail, with this many blocks an append.
pub const fn varmail<const BLOCKS: u64>() -> &'static [Step] {
    use Step::{Append, Close, Create, Delete, Fsync, Open, ReadWhole};
    const {
        &[
            Delete,
            Create,
            Append(BLOCKS),
            Fsync,
            Close,
            Open,
            ReadWhole,
            Append(BLOCKS),
            Fsync,
            Close,
            Open,
            ReadWhole,
            Close,
        ]
    }
}

/// Fileserver, with files of this many blocks.
pub const fn fileserver<const BLOCKS: u64>() -> &'static [Step] {
    use Step::{Append, Close, Create, Delete, Open, ReadWhole, Stat};
    const {
        &[
            Create,
            Append(BLOCKS),
            Close,
            Open,
            Append(4),
            Close,
            Open,
            ReadWhole,
            Close,
            Delete,
            Stat,
        ]
    }
}

pub const WEBSERVER: &[Step] = {
    use Step::{AppendToLog, Close, Open, ReadWhole};
    &[
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        AppendToLog(4),
    ]
};

pub const WEBPROXY: &[Step] = {
    use Step::{Append, Close, Create, Delete, Open, ReadWhole};
    &[
        Delete,
        Create,
        Append(4),
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
        Open,
        ReadWhole,
        Close,
    ]
};

/// PostMark: one thread.
pub struct Postmark {
    files: Files,
    /// Sizes of files in blocks.
    sizes: (u64, u64),
    /// Whether files are read and appended to as well.
    uses_files: bool,
}

impl Postmark {
    pub fn new(world: &World, sizes: (u64, u64), uses_files: bool) -> Self {
        Self { files: Files::of(world, 0), sizes, uses_files }
    }

    pub fn size((least, most): (u64, u64), rng: &mut Rng) -> u64 {
        least + rng.below(most - least + 1)
    }
}

impl Load for Postmark {
    fn step(&mut self, _: usize, world: &mut World) -> Result<u64, Failure> {
        if self.uses_files
            && let Some(file) = self.files.any(&mut world.rng, true)
        {
            world.open();
            if world.rng.below(2) == 0 {
                world.read_whole(file)?;
            } else {
                let blocks = Self::size(self.sizes, &mut world.rng).div_ceil(16);
                world.append(file, blocks)?;
            }
        }
        let creates = world.rng.below(2) == 0;
        if creates && let Some(file) = self.files.add(&mut world.rng) {
            world.create(file)?;
            let blocks = Self::size(self.sizes, &mut world.rng);
            world.append(file, blocks)?;
        } else if let Some(file) = self.files.any(&mut world.rng, true) {
            self.files.remove(file);
            world.delete(file)?;
        }
        Ok(1)
    }
}

/// A log that is appended to, with an fsync every few writes.
pub struct WriteFsync {
    pub blocks: u64,
    pub every: u64,
    pub written: u64,
    /// The file begins anew at this size.
    pub most: u64,
}

impl Load for WriteFsync {
    fn step(&mut self, _: usize, world: &mut World) -> Result<u64, Failure> {
        if self.written > 0 && self.written.is_multiple_of(self.every) {
            world.fsync(0, false)?;
        }
        self.written += 1;
        if world.fs.files[0].blocks >= self.most {
            world.delete(0)?;
            world.create(0)?;
        }
        world.append(0, self.blocks)?;
        Ok(1)
    }
}

/// Writes over a file: in order, or at random.
pub struct Overwrite {
    pub file: usize,
    pub blocks: u64,
    pub at_a_time: u64,
    pub is_random: bool,
    /// Whether the file grows by what is written.
    pub appends: bool,
    /// In order: how often each region of this number of blocks is written before the next one.
    pub passes: u64,
    pub region: u64,
    /// Writes between two fsyncs, where there are any.
    pub every: Option<u64>,
    pub at: u64,
}

impl Overwrite {
    /// The next place of writes in order.
    fn next_place(&self) -> u64 {
        let region = (self.region / self.at_a_time).max(1);
        let (done, at) = (self.at / (region * self.passes), self.at % region);
        done * region + at
    }
}

impl Load for Overwrite {
    fn step(&mut self, _: usize, world: &mut World) -> Result<u64, Failure> {
        if self.appends {
            world.append(self.file, self.at_a_time)?;
            return Ok(1);
        }
        let places = self.blocks / self.at_a_time;
        let place =
            if self.is_random { world.rng.below(places) } else { self.next_place() % places };
        if self.every.is_some_and(|every| self.at > 0 && self.at.is_multiple_of(every)) {
            world.fsync(self.file, false)?;
        }
        self.at += 1;
        world.overwrite(self.file, place * self.at_a_time, self.at_a_time)?;
        Ok(1)
    }
}
