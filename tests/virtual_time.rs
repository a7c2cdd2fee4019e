//! The journal's own code in virtual time: what it costs is what its media were asked for.

#![forbid(unsafe_code)]

use journal_core::NoHook;
use lab::erased::{DynDisk, DynJournal, DynPmem, any_options};
use nvm_journal::{BlockNumber, BlockSize, FullBlock, Region};
use sim_disk::time::{
    Actor, Clock, DriveUse, Embargo, Hdd, HddModel, MemoryMeter, MemoryModel, MemoryUse, TimedDisk,
    TimedPmem,
};
use sim_disk::{Image, Model, Rng, World};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1 << 20;
const SPAN: usize = 8 << 20;

/// A store with its media.
struct Timed {
    clock: Clock,
    meter: MemoryMeter,
    disk: TimedDisk,
    journal: DynJournal,
    rng: Rng,
}

impl Timed {
    fn new(seed: u64) -> Self {
        let clock = Clock::new();
        let region = Region::anonymous(SPAN as u64).expect("there is memory");
        let pmem = TimedPmem::new(region, &clock, MemoryModel::fgm());
        let meter = pmem.meter();
        let hdd = Hdd::new(HddModel::rpm_7200());
        let disk = TimedDisk::new(&clock, hdd, BlockSize::DEFAULT, BLOCKS);
        let options = any_options(FullBlock, NoHook).lanes(1);
        let media = (DynPmem::new(pmem), DynDisk::new(disk.clone()));
        let journal = DynJournal::format(media.0, media.1, &options).expect("a journal");
        Self { clock, meter, disk, journal, rng: Rng::new(seed) }
    }

    /// Commits transactions of two blocks; returns when each was durable.
    fn commit(&mut self, count: usize) -> Vec<u64> {
        let mut times = Vec::new();
        for _ in 0..count {
            let blocks = [(); 2].map(|()| BlockNumber(self.rng.below(BLOCKS)));
            let image = [self.rng.below(256) as u8; BLOCK];
            let written = self
                .journal
                .transact(|tx| blocks.iter().try_for_each(|block| tx.write(*block, &image)));
            written.expect("there is room");
            times.push(self.clock.now());
        }
        times
    }
}

/// What a run comes to: each commit, the checkpoint's end, and the sums of both media.
type Table = (Vec<u64>, u64, u64, MemoryUse, DriveUse);

fn run(seed: u64) -> Table {
    let mut timed = Timed::new(seed);
    // 1. Commits cost what the memory was asked for, and nothing else.
    let formatted_at = timed.clock.now();
    assert_eq!(formatted_at, timed.meter.so_far().nanos);
    let mut times = timed.commit(300);
    let memory = timed.meter.so_far();
    assert_eq!(timed.clock.now(), memory.nanos);
    assert_eq!(timed.disk.so_far(), DriveUse::default());
    let model = timed.meter.model();
    let each = (timed.clock.now() - formatted_at) / 300;
    let images = 2 * model.persist_ns(0, BLOCK as u64);
    // A record has a front of a few lines beside its images, and one fence.
    assert!((images..images + 20 * model.unit_ns).contains(&each), "{each} ns a commit");

    // 2. A checkpoint in the background has its effects at once, and costs the host no time.
    let before = timed.clock.now();
    let report = timed.clock.in_background(|| timed.journal.checkpoint()).expect("it goes home");
    assert_eq!((timed.clock.now(), timed.clock.actor()), (before, Actor::Host(0)));
    let charged = timed.meter.so_far().nanos - memory.nanos;
    assert!(charged > 0, "the superblock moved");
    assert_eq!(timed.clock.now_of(Actor::Background), before + charged);
    let asked = timed.disk.so_far();
    let wanted = asked.reads + asked.writes + asked.syncs;
    assert!((590..=600).contains(&report.blocks), "{report:?}");
    assert_eq!((asked.background, asked.served, timed.disk.unserved()), (wanted, 0, wanted));
    let ticket = timed.disk.ticket();
    let free_before = SPAN as u64 - 300 * 2 * BLOCK as u64;
    let mut embargo = Embargo::new(timed.disk.clone(), ticket, free_before);

    // 3. Commits go on in what was free before, and then wait for the disk.
    while embargo.try_use_space(2 * BLOCK as u64) {
        assert!(embargo.holds(), "a sweep takes longer than these commits");
        times.extend(timed.commit(1));
        let memory = timed.meter.so_far().nanos;
        let hosts = timed.clock.now();
        assert_eq!(hosts, memory - charged, "nobody waits for the disk");
    }
    embargo.use_space(2 * BLOCK as u64);
    let home_at = timed.disk.served_at(ticket).expect("it was waited for");
    let asked = timed.disk.so_far();
    assert_eq!((timed.disk.unserved(), asked.served), (0, wanted));
    assert_eq!(asked.bytes_written, report.blocks * BLOCK as u64);
    // The drive had nothing to do but this, without a pause.
    assert!(home_at >= before + asked.busy_ns, "{home_at}");
    assert!(home_at <= before + charged + asked.busy_ns, "{home_at}");
    let each = asked.busy_ns / report.blocks;
    assert!((1_500_000..6_000_000).contains(&each), "{each} ns a block");
    times.extend(timed.commit(50));

    // 4. A checkpoint in the foreground waits.
    let before = (timed.clock.now(), timed.disk.so_far(), timed.meter.so_far());
    timed.journal.checkpoint().expect("it goes home");
    let (passed, drive, memory) =
        (timed.clock.now() - before.0, timed.disk.so_far(), timed.meter.so_far());
    let busy = drive.busy_ns - before.1.busy_ns;
    let charged = memory.nanos - before.2.nanos;
    let requests = drive.writes + drive.syncs - before.1.writes - before.1.syncs;
    assert!(busy > 0 && passed >= busy, "{passed} and {busy}");
    // Beside the drive: the memory, and what the host needs for each request.
    assert!(passed <= busy + charged + requests * 30_000, "{passed} and {busy}");
    (times, home_at, timed.clock.now(), memory, drive)
}

#[test]
fn a_run_costs_what_its_media_were_asked_for() {
    let [one, other] = [run(1), run(1)];
    assert_eq!(one, other, "no run differs from another");
    assert_ne!(one.2, run(2).2);
}

#[test]
fn an_open_is_charged_for_what_it_reads() {
    let clock = Clock::new();
    let world = World::boot(Image::blank(1 << 20), Model::Torn8);
    let pmem = || TimedPmem::new(world.pmem(), &clock, MemoryModel::cxl());
    let hdd = Hdd::new(HddModel::rpm_7200());
    let disk = TimedDisk::new(&clock, hdd, BlockSize::DEFAULT, BLOCKS);
    let options = any_options(FullBlock, NoHook).lanes(1);
    let media = (DynPmem::new(pmem()), DynDisk::new(disk.clone()));
    let journal = DynJournal::format(media.0, media.1, &options).expect("a journal");
    journal.transact(|tx| tx.write(BlockNumber(7), &[9; BLOCK])).expect("there is room");
    drop(journal);

    let pmem = pmem();
    let (meter, before) = (pmem.meter(), clock.now());
    meter.charge_reads(true);
    let journal = DynJournal::open(DynPmem::new(pmem), DynDisk::new(disk), &options);
    let journal = journal.expect("the journal");
    meter.charge_reads(false);
    let opened = meter.so_far();
    assert_eq!(clock.now() - before, opened.nanos);
    assert!(opened.read_units > 64, "{opened:?}");
    let mut image = [0; BLOCK];
    journal.read(BlockNumber(7), &mut image).expect("the block");
    assert_eq!(image, [9; BLOCK]);
    assert_eq!(meter.so_far(), opened);
}
