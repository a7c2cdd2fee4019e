//! The event loop: threads of a workload, a thread that commits, write-back, and what each waits
//! for. Everything is one thread of the operating system.

use journal_core::{BlockDevice, BlockNumber};
use nvm_journal::Region;
use sim_disk::Rng;
use sim_disk::time::{Actor, Clock, Embargo, Ticket, TimedDisk};

use crate::engines::Failure;
use crate::papers::BLOCK;
use crate::papers::files::cache::{Dirty, PageCache};
use crate::papers::files::data::FileData;
use crate::papers::files::fs::{Changes, FileSystem};
use crate::papers::files::setup::{Checkpoints, Ran, Setup};
use crate::papers::host::{
    BATCH_NS, COMMIT_AFTER_NS, FILLED_TIMES, Host, LONGEST_RUNS, OLD_NS, RUN_NS, WAITS_PERCENT,
    WRITES_BACK_PERCENT,
};
use crate::papers::store::{Store, Written};

/// Blocks of one request of write-back.
const REQUEST_BLOCKS: usize = 256;
/// Blocks of write-back between two tickets.
const TICKET_BLOCKS: usize = 1024;
/// How long a host sleeps that waits for a drive, before it looks again.
const NAP_NS: u64 = 1_000_000;

#[derive(Debug)]
struct UnderWay {
    covers: u64,
    end: Option<u64>,
    /// When the host and the memory had done their part.
    computed: u64,
    tickets: Vec<(TimedDisk, Ticket)>,
}

/// Commits: which transaction is the running one, and which ones are durable.
#[derive(Debug, Default)]
struct Commits {
    running: u64,
    durable: u64,
    under_way: Option<UnderWay>,
    /// When the running transaction got its first change.
    since: Option<u64>,
    objects: u64,
    count: u64,
    /// How long a commit takes on average, and until when handles keep the running transaction
    /// open. The thread that did so last does not wait for others again.
    average_ns: u64,
    open_until: u64,
    last_synced: Option<usize>,
}

/// What a thread goes on with when it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    /// Without a journal: until the drive has served what was written.
    Served(Ticket),
    /// Until this transaction is durable.
    Durable(u64),
}

/// A thread of a workload: what it does next.
pub trait Load {
    /// Does one step of a thread, which may end in [`World::fsync`]. Returns how many operations
    /// that completed.
    fn step(&mut self, thread: usize, world: &mut World) -> Result<u64, Failure>;
}

pub struct World {
    pub clock: Clock,
    pub disk: TimedDisk,
    /// Other disks: the journal's own.
    pub others: Vec<TimedDisk>,
    pub fs: FileSystem,
    pub cache: PageCache,
    pub store: Store,
    pub rng: Rng,
    setup: Setup,
    waiting: Vec<Waiting>,
    commits: Commits,
    versions: u64,
    /// Write-back that is on its way: blocks, and the ticket.
    on_their_way: Vec<(u64, Ticket)>,
    metadata_written_at: u64,
    looked_at: u64,
    data_unsynced: bool,
    embargo: Option<Embargo>,
    /// What the journal in memory had stored when that was counted last.
    stored: u64,
    begun: u64,
    waited_dirty: u64,
    stood_still: u64,
    /// Checkpoints of the journal in memory, when they were counted last.
    checkpoints: u64,
    current: usize,
    pub bytes_written: u64,
}

impl World {
    /// The clock must have one host more than there are threads: the one that commits.
    pub fn new(
        clock: Clock,
        disk: TimedDisk,
        others: Vec<TimedDisk>,
        fs: FileSystem,
        store: Store,
        setup: Setup,
    ) -> Self {
        let begun = (0..=setup.threads).map(|host| clock.now_of(Actor::Host(host)));
        let begun = begun.max().unwrap_or(0);
        for host in 0..=setup.threads {
            clock.switch_to(Actor::Host(host));
            clock.wait_until(begun);
        }
        let mut rng = Rng::new(setup.seed);
        let mut cache = PageCache::new(setup.cache_blocks, fs.files.len());
        // Warm, with a random part of the files.
        let count = fs.files.len();
        let mut files: Vec<usize> = (0..count).collect();
        for at in 0..count {
            files.swap(at, at + rng.below((count - at) as u64) as usize);
        }
        for file in files {
            if fs.files[file].exists && cache.blocks_of(file) == 0 {
                cache.touch(file, fs.files[file].blocks);
            }
            if cache.is_full() {
                break;
            }
        }
        let commits = Commits { running: 1, ..Commits::default() };
        let waiting = vec![Waiting::No; setup.threads];
        Self {
            clock,
            disk,
            others,
            fs,
            cache,
            store,
            rng,
            setup,
            waiting,
            commits,
            versions: 0,
            on_their_way: Vec::new(),
            metadata_written_at: begun,
            looked_at: begun,
            data_unsynced: false,
            embargo: None,
            stored: 0,
            begun,
            waited_dirty: 0,
            stood_still: 0,
            checkpoints: 0,
            current: 0,
            bytes_written: 0,
        }
    }

    const fn committer(&self) -> Actor {
        Actor::Host(self.setup.threads)
    }

    const fn scaled(&self, nanos: u64) -> u64 {
        nanos / self.setup.scale
    }

    fn all_disks(&self) -> impl Iterator<Item = &TimedDisk> {
        [&self.disk].into_iter().chain(&self.others)
    }

    // Operations of the workload.

    fn open_ns(&self) -> u64 {
        self.setup.host.open_ns + self.setup.host.operation_ns
    }

    /// Opens or closes a file, or asks about it.
    pub fn open(&mut self) {
        self.clock.charge_cpu(self.open_ns());
    }

    pub fn create(&mut self, file: usize) -> Result<(), Failure> {
        self.clock.charge_cpu(self.open_ns());
        let changes = self.fs.create(file);
        self.stage(&changes, &[])
    }

    pub fn delete(&mut self, file: usize) -> Result<(), Failure> {
        self.clock.charge_cpu(self.open_ns());
        let changes = self.fs.delete(file);
        self.cache.forget(file, &changes.freed);
        self.stage(&changes, &[])
    }

    /// Appends blocks to a file.
    pub fn append(&mut self, file: usize, blocks: u64) -> Result<(), Failure> {
        let changes = self.fs.append(file, blocks);
        self.cache.touch(file, blocks);
        let new = changes.new.clone();
        self.write(file, &changes, &new, true)
    }

    /// Writes over blocks of a file.
    pub fn overwrite(&mut self, file: usize, from: u64, count: u64) -> Result<(), Failure> {
        let runs = self.fs.blocks_of(file, from, count);
        let blocks: Vec<u64> = runs.iter().flat_map(|(first, some)| *first..first + some).collect();
        let changes = self.fs.touch(file);
        let known = self.cache.blocks_of(file);
        self.cache.touch(file, count.min(self.fs.files[file].blocks.saturating_sub(known)));
        self.write(file, &changes, &blocks, false)
    }

    fn write(
        &mut self,
        file: usize,
        changes: &Changes,
        blocks: &[u64],
        is_new: bool,
    ) -> Result<(), Failure> {
        let Host { page_ns, logged_page_ns, slot_page_ns, operation_ns, .. } = self.setup.host;
        let logged = match &self.store {
            Store::Blocks { .. } if self.store.logs_data() => logged_page_ns,
            Store::Nvm { .. } if self.store.logs_data() => slot_page_ns,
            _ => 0,
        };
        self.clock.charge_cpu(operation_ns + (page_ns + logged) * blocks.len() as u64);
        self.bytes_written += (blocks.len() * BLOCK) as u64;
        let mut data: Vec<Written> = Vec::new();
        for block in blocks {
            self.versions += 1;
            data.push((*block, self.versions, is_new));
        }
        if self.store.logs_data() {
            return self.stage(changes, &data);
        }
        let now = self.clock.now();
        for written in &data {
            self.cache.dirty(file, *written, now);
        }
        self.stage(changes, &[])?;
        self.throttle()
    }

    /// Reads a file from its begin to its end.
    pub fn read_whole(&mut self, file: usize) -> Result<(), Failure> {
        let Host { read_page_ns, operation_ns, .. } = self.setup.host;
        let blocks = self.fs.files[file].blocks;
        self.clock.charge_cpu(operation_ns + read_page_ns * blocks);
        let cached = self.cache.blocks_of(file);
        if cached < blocks {
            let mut into = vec![0; REQUEST_BLOCKS * BLOCK];
            for (first, count) in self.fs.blocks_of(file, 0, blocks) {
                let mut at = 0;
                while at < count {
                    let some = (count - at).min(REQUEST_BLOCKS as u64);
                    let into = &mut into[..some as usize * BLOCK];
                    self.disk.read(BlockNumber(first + at), into)?;
                    at += some;
                }
            }
        }
        self.cache.touch(file, blocks.saturating_sub(cached));
        Ok(())
    }

    /// Makes a file durable, before the thread's next step.
    pub fn fsync(&mut self, file: usize, is_new: bool) -> Result<(), Failure> {
        self.clock.charge_cpu(self.setup.host.fsync_ns);
        if let Store::None { dirty } = &mut self.store {
            let (inode, directory) = self.fs.own_blocks(file);
            let mut metadata = vec![inode];
            metadata.extend((is_new && self.setup.host.syncs_directory).then_some(directory));
            for block in &metadata {
                dirty.remove(block);
            }
            let data = self.cache.take_file(file);
            if !self.setup.host.flushes_without_journal {
                self.write_data(&data)?;
                return self.write_metadata(&metadata);
            }
            // Beside what other threads write: the drive chooses the order.
            let clock = self.clock.clone();
            clock.in_background(|| -> Result<(), Failure> {
                self.write_data(&data)?;
                self.write_metadata(&metadata)
            })?;
            self.waiting[self.current] = Waiting::Served(self.disk.ticket());
            return Ok(());
        }
        if !self.store.logs_data() {
            let data = self.cache.take_file(file);
            self.write_data(&data)?;
        }
        self.waiting[self.current] = Waiting::Durable(self.commits.running);
        let batches = match &self.store {
            Store::Nvm { .. } => self.setup.host.batches_in_memory,
            _ => true,
        };
        if self.store.logs_data() && batches {
            self.wait_for_others();
        }
        Ok(())
    }

    /// A synchronous handle keeps a young transaction open, so that others join ([`BATCH_NS`]).
    fn wait_for_others(&mut self) {
        if self.commits.last_synced.replace(self.current) == Some(self.current) {
            return;
        }
        let (now, waits_ns) = (self.clock.now(), self.commits.average_ns.min(BATCH_NS));
        let since = self.commits.since.unwrap_or(now);
        if now < since + waits_ns {
            self.clock.charge(waits_ns);
            self.commits.open_until = self.commits.open_until.max(now + waits_ns);
        }
    }

    // Where data goes.

    fn write_data(&mut self, data: &[Dirty]) -> Result<(), Failure> {
        let mut sorted: Vec<(u64, u64)> = data.iter().map(|one| (one.block, one.version)).collect();
        self.data_unsynced |= !sorted.is_empty();
        sorted.sort_unstable();
        for run in sorted.chunk_by(|one, next| one.0 + 1 == next.0) {
            for run in run.chunks(REQUEST_BLOCKS) {
                let mut bytes = vec![0; run.len() * BLOCK];
                for ((block, version), into) in run.iter().zip(bytes.chunks_mut(BLOCK)) {
                    FileData::put_marked(*block, *version, into);
                }
                self.disk.write(BlockNumber(run[0].0), &bytes)?;
            }
        }
        Ok(())
    }

    fn write_metadata(&mut self, blocks: &[u64]) -> Result<(), Failure> {
        for block in blocks {
            let image = self.fs.image(*block).to_vec();
            self.disk.write(BlockNumber(*block), &image)?;
        }
        Ok(())
    }

    /// Sends data on its way in the background, some at a time.
    fn send_data(&mut self, data: &[Dirty]) -> Result<(), Failure> {
        let clock = self.clock.clone();
        for some in data.chunks(TICKET_BLOCKS) {
            clock.in_background(|| self.write_data(some))?;
            self.on_their_way.push((some.len() as u64, self.disk.ticket()));
        }
        Ok(())
    }

    fn served_data(&mut self) {
        let disk = self.disk.clone();
        self.on_their_way.retain(|(_, ticket)| disk.served_at(*ticket).is_none());
    }

    fn dirty_blocks(&self) -> u64 {
        let sent: u64 = self.on_their_way.iter().map(|(blocks, _)| blocks).sum();
        self.cache.dirty_blocks() + sent
    }

    /// A writer waits while too much of the memory is dirty.
    fn throttle(&mut self) -> Result<(), Failure> {
        if !self.setup.writes_back {
            return Ok(());
        }
        let limit = |percent: u64| self.setup.memory_blocks * percent / 100;
        let (begins, waits) = (limit(WRITES_BACK_PERCENT), limit(WAITS_PERCENT));
        if self.cache.dirty_blocks() > begins {
            let due = self.cache.take_due(self.clock.now(), u64::MAX, begins * 9 / 10);
            self.send_data(&due)?;
        }
        if self.dirty_blocks() <= waits {
            return Ok(());
        }
        self.served_data();
        let from = self.clock.now();
        while self.dirty_blocks() > waits && !self.on_their_way.is_empty() {
            let (_, ticket) = self.on_their_way.remove(0);
            self.disk.wait_for(ticket);
        }
        self.waited_dirty += self.clock.now() - from;
        Ok(())
    }

    // The running transaction.

    fn stage(&mut self, changes: &Changes, data: &[Written]) -> Result<(), Failure> {
        let more = (changes.metadata.len() + data.len()) as u64;
        let is_full = self.store.running_blocks() + more > self.setup.transaction_blocks;
        let objects = changes.metadata.len() as u64;
        let names_all = self
            .setup
            .objects_max
            .is_some_and(|max| self.commits.objects > 0 && self.commits.objects + objects > max);
        if (is_full || names_all) && !matches!(self.store, Store::None { .. }) {
            self.commit_full()?;
        }
        let now = self.clock.now();
        self.commits.since.get_or_insert(now);
        self.commits.objects += objects;
        let before = self.written();
        self.store.stage(&self.fs, now, changes, (data, self.setup.differs))?;
        // Where the running transaction found no room, the journal has made some.
        self.stand_still_for_room(now, before)
    }

    /// The running transaction is full: it commits once the one before has.
    fn commit_full(&mut self) -> Result<(), Failure> {
        while !self.has_ended() {
            match self.commits.under_way.as_ref().and_then(|under_way| under_way.end) {
                Some(end) => self.clock.wait_until(end),
                None => self.clock.charge(NAP_NS),
            }
        }
        if !self.setup.caller_flushes {
            return self.begin_lazily();
        }
        self.begin_urgently()?;
        let end = self.commits.under_way.as_ref().and_then(|under_way| under_way.end);
        self.clock.wait_until(end.unwrap_or(0));
        Ok(())
    }

    /// Whether no commit is under way at the current time.
    fn has_ended(&mut self) -> bool {
        let now = self.clock.now();
        let Some(under_way) = &mut self.commits.under_way else { return true };
        if under_way.end.is_none() {
            let served = |(disk, ticket): &(TimedDisk, Ticket)| disk.served_at(*ticket);
            let times: Option<Vec<u64>> = under_way.tickets.iter().map(served).collect();
            under_way.end = times.map(|times| times.into_iter().fold(under_way.computed, u64::max));
        }
        if under_way.end.is_none_or(|end| end > now) {
            return false;
        }
        self.commits.durable = under_way.covers;
        self.commits.under_way = None;
        true
    }

    /// Makes room in the journal, if it is time.
    fn make_room(&mut self) -> Result<(), Failure> {
        let start = self.clock.now();
        self.store.make_room()?;
        self.stand_still(start);
        let Store::Nvm { nvm_bytes, .. } = &self.store else { return Ok(()) };
        let nvm_bytes = *nvm_bytes;
        let start = self.clock.now();
        match self.setup.checkpoints {
            Checkpoints::InCommits => {}
            Checkpoints::StandStill => {
                let before = self.written();
                self.store.tick(start)?;
                let _seen = self.has_made_room(before)?;
                self.stand_still(start);
            }
            Checkpoints::Beside if self.embargo.as_ref().is_some_and(Embargo::holds) => {}
            Checkpoints::Beside => {
                let (used, before) = (self.store.used()?, self.written());
                let clock = self.clock.clone();
                clock.in_background(|| self.store.tick(start))?;
                if self.has_made_room(before)? {
                    let free = nvm_bytes / 256 * (256 - used.min(256));
                    self.embargo = Some(Embargo::new(self.disk.clone(), self.disk.ticket(), free));
                    self.stored = self.store.stored()?;
                }
            }
        }
        Ok(())
    }

    /// Requests of writes that the disk of the homes has had so far.
    fn written(&self) -> u64 {
        self.disk.so_far().writes
    }

    /// Whether the journal in memory has made a checkpoint since it was asked last; `before` is
    /// what the disk had been asked to write when that could begin.
    fn has_made_room(&mut self, before: u64) -> Result<bool, Failure> {
        if self.written() == before {
            return Ok(false);
        }
        let checkpoints = self.store.checkpoints()?;
        let is_more = checkpoints > self.checkpoints;
        self.checkpoints = checkpoints;
        Ok(is_more)
    }

    /// Every thread waits for the current actor, if the journal has made room for it since.
    fn stand_still_for_room(&mut self, start: u64, before: u64) -> Result<(), Failure> {
        if self.has_made_room(before)? && self.setup.checkpoints != Checkpoints::Beside {
            self.stand_still(start);
        }
        Ok(())
    }

    /// Every thread waits for the current actor, if that has taken time since `start`.
    fn stand_still(&mut self, start: u64) {
        let (end, actor) = (self.clock.now(), self.clock.actor());
        if end == start {
            return;
        }
        self.stood_still += end - start;
        for thread in 0..self.setup.threads {
            self.clock.switch_to(Actor::Host(thread));
            self.clock.wait_until(end);
        }
        self.clock.switch_to(actor);
    }

    /// A commit has used some of the space that is under embargo.
    fn use_room(&mut self) -> Result<(), Failure> {
        if let Some(embargo) = self.embargo.as_mut().filter(|embargo| embargo.holds()) {
            let before = core::mem::replace(&mut self.stored, self.store.stored()?);
            embargo.use_space(self.stored - before);
        }
        Ok(())
    }

    /// Begins a commit that somebody waits for: it has the drives for itself.
    fn begin_urgently(&mut self) -> Result<(), Failure> {
        let (now, actor) = (self.clock.now(), self.clock.actor());
        self.clock.switch_to(self.committer());
        self.clock.wait_until(now);
        self.clock.charge_cpu(self.setup.host.wake_ns);
        self.make_room()?;
        let is_elsewhere = !self.store.logs_data() && !self.store.shares_disk();
        if self.data_unsynced && is_elsewhere && self.setup.syncs_homes {
            self.disk.sync()?;
        }
        self.data_unsynced = false;
        let (start, before) = (self.clock.now(), self.written());
        self.store.commit()?;
        self.use_room()?;
        self.stand_still_for_room(start, before)?;
        let end = self.clock.now();
        let (average_ns, took_ns) = (self.commits.average_ns, end - start);
        self.commits.average_ns = match average_ns {
            0 => took_ns,
            _ => (3 * average_ns + took_ns) / 4,
        };
        self.commits.under_way = Some(UnderWay {
            covers: self.commits.running,
            end: Some(end),
            computed: end,
            tickets: Vec::new(),
        });
        self.begun_one();
        self.clock.switch_to(actor);
        Ok(())
    }

    const fn begun_one(&mut self) {
        self.commits.running += 1;
        self.commits.count += 1;
        (self.commits.since, self.commits.objects, self.commits.open_until) = (None, 0, 0);
    }

    /// Begins a commit that nobody waits for: the drives serve it beside other requests.
    fn begin_lazily(&mut self) -> Result<(), Failure> {
        let (now, actor) = (self.clock.now(), self.clock.actor());
        self.clock.switch_to(self.committer());
        self.clock.wait_until(now);
        self.clock.charge_cpu(self.setup.host.wake_ns);
        self.make_room()?;
        let before = self.written();
        let clock = self.clock.clone();
        clock.in_background(|| -> Result<(), Failure> {
            if self.store.orders_data() {
                let data = self.cache.take_new();
                self.write_data(&data)?;
                if self.data_unsynced && !self.store.shares_disk() && self.setup.syncs_homes {
                    self.disk.sync()?;
                }
                self.data_unsynced = false;
            }
            self.store.commit()
        })?;
        self.use_room()?;
        if self.has_made_room(before)? && self.setup.checkpoints != Checkpoints::Beside {
            let start = self.clock.now();
            for disk in self.all_disks() {
                disk.wait_for(disk.ticket());
            }
            self.stand_still(start);
        }
        let disks: Vec<_> = self.all_disks().cloned().collect();
        let tickets = disks.into_iter().map(|disk| (disk.ticket(), disk)).map(|(t, d)| (d, t));
        let tickets: Vec<_> = tickets.collect();
        let covers = self.commits.running;
        let computed = self.clock.now_of(Actor::Background);
        self.commits.under_way = Some(UnderWay { covers, end: None, computed, tickets });
        self.begun_one();
        self.clock.switch_to(actor);
        Ok(())
    }

    // The loop.

    /// What is due at the time of the current thread, beside its own work.
    fn look_around(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        if now < self.looked_at + self.scaled(100_000_000) {
            return Ok(());
        }
        self.looked_at = now;
        self.served_data();
        let old = self.scaled(OLD_NS);
        if !self.store.logs_data() && self.setup.writes_back {
            let due = self.cache.take_due(now, old, u64::MAX);
            self.send_data(&due)?;
        }
        if now >= self.metadata_written_at + old && self.setup.writes_back {
            self.metadata_written_at = now;
            self.write_back_metadata(now, old)?;
        }
        let is_old = |since: u64| now >= since + self.scaled(COMMIT_AFTER_NS);
        let has_journal = !matches!(self.store, Store::None { .. });
        if has_journal && self.commits.since.is_some_and(is_old) && self.has_ended() {
            self.begin_lazily()?;
        }
        Ok(())
    }

    fn write_back_metadata(&mut self, now: u64, old: u64) -> Result<(), Failure> {
        let clock = self.clock.clone();
        match &mut self.store {
            Store::None { dirty } => {
                let is_due = |since: &u64| now.saturating_sub(*since) >= old / 2;
                let due: Vec<u64> =
                    dirty.iter().filter(|(_, since)| is_due(since)).map(|one| *one.0).collect();
                for block in &due {
                    dirty.remove(block);
                }
                if self.setup.host.flushes_without_journal {
                    return clock.in_background(|| self.write_metadata(&due));
                }
                // A thread of its own, which takes its turn in the drive's cache as they do.
                let actor = self.clock.actor();
                self.clock.switch_to(self.committer());
                self.clock.wait_until(now);
                self.write_metadata(&due)?;
                self.clock.switch_to(actor);
                Ok(())
            }
            Store::Blocks { .. } => clock.in_background(|| self.store.write_back(&self.fs)),
            Store::Nvm { .. } => Ok(()),
        }
    }

    /// A crash, and the time at which another host begins to open what is left: the memory.
    pub fn crash(self) -> Result<(Clock, TimedDisk, Region), Failure> {
        // What the drive has taken, it has written by then.
        let idle = self.disk.drain();
        self.clock.switch_to(Actor::Host(0));
        self.clock.wait_until(idle);
        Ok((self.clock, self.disk, self.store.crash()?))
    }

    /// Runs a workload.
    pub fn run(&mut self, load: &mut impl Load) -> Result<Ran, Failure> {
        let shortest = self.begun + self.scaled(RUN_NS);
        let longest = self.begun + LONGEST_RUNS * self.scaled(RUN_NS);
        let mut samples: Vec<(u64, u64, u64)> = vec![(self.begun, 0, 0)];
        let mut operations = 0;
        loop {
            let times = (0..self.setup.threads).map(|host| self.clock.now_of(Actor::Host(host)));
            let (time, thread) = times.zip(0..).min().ok_or("there is no thread")?;
            self.clock.switch_to(Actor::Host(thread));
            self.current = thread;
            let last = samples.last().map_or(0, |(at, _, _)| *at);
            if time > last + self.scaled(RUN_NS) / 200 {
                samples.push((time, operations, self.bytes_written));
                let is_filled = self.store.filled_percent() >= 100 * FILLED_TIMES;
                let is_fixed = self.setup.operations.is_some() || self.setup.run_ns.is_some();
                if let Some(most) = self.setup.slots_taken
                    && self.store.taken_slots()? >= most
                {
                    break;
                }
                if !is_fixed && ((time >= shortest && is_filled) || time >= longest) {
                    break;
                }
            }
            let is_over = self.setup.operations.is_some_and(|most| operations >= most)
                || self.setup.run_ns.is_some_and(|run_ns| time >= self.begun + run_ns);
            if is_over {
                samples.push((time, operations, self.bytes_written));
                return Ok(self.ran(&samples));
            }
            self.look_around()?;
            if let Waiting::Served(ticket) = self.waiting[thread] {
                match self.disk.served_at(ticket) {
                    Some(_) => {
                        self.waiting[thread] = Waiting::No;
                        self.clock.charge(self.setup.sync_ns);
                    }
                    None => self.clock.charge(NAP_NS),
                }
                continue;
            }
            if let Waiting::Durable(wanted) = self.waiting[thread] {
                if self.has_ended() && self.commits.durable < wanted {
                    if time < self.commits.open_until {
                        self.clock.wait_until(self.commits.open_until);
                        continue;
                    }
                    self.begin_urgently()?;
                }
                if self.commits.durable >= wanted {
                    self.waiting[thread] = Waiting::No;
                } else {
                    let under_way = self.commits.under_way.as_ref();
                    match under_way.and_then(|under_way| under_way.end) {
                        Some(end) => self.clock.wait_until(end),
                        None => self.clock.charge(NAP_NS),
                    }
                }
                continue;
            }
            operations += load.step(thread, self)?;
        }
        Ok(self.ran(&samples))
    }

    /// The first quarter is not counted.
    fn ran(&self, samples: &[(u64, u64, u64)]) -> Ran {
        let (end, operations, bytes) = samples.last().copied().unwrap_or_default();
        let all_counts = self.setup.operations.is_some() || self.setup.run_ns.is_some();
        let skipped = if all_counts { 0 } else { (end - self.begun) / 4 };
        let quarter = self.begun + skipped;
        let begins = samples.iter().find(|(at, _, _)| *at >= quarter);
        let (from, before, bytes_before) = begins.copied().unwrap_or_default();
        let seconds = (end - from).max(1) as f64 / 1e9;
        let uses: Vec<_> = self.all_disks().map(TimedDisk::so_far).collect();
        let drive = uses[0];
        Ran {
            per_second: (operations - before) as f64 / seconds,
            operations,
            seconds: (end - self.begun) as f64 / 1e9,
            commits: self.commits.count,
            filled_percent: self.store.filled_percent(),
            drive_writes: drive.writes,
            drive_blocks: drive.bytes_written / BLOCK as u64,
            drive_syncs: drive.syncs,
            drive_reads: drive.reads,
            busy_percent: 100 * drive.busy_ns / (end - self.begun).max(1),
            waited_dirty_ms: self.waited_dirty / 1_000_000,
            stood_still_ms: self.stood_still / 1_000_000,
            bytes_per_second: (bytes - bytes_before) as f64 / seconds,
            memory: self.store.memory(),
            journal: self.store.says(),
        }
    }
}
