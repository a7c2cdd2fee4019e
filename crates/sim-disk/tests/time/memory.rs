//! A timed memory passes all on, and charges what its model says.

use journal_core::{
    BlockDevice, BlockNumber, BlockSize, Offset, Pmem, PmemRead, PmemShare, PmemSplit,
};
use sim_disk::time::{Clock, Hdd, HddModel, MemoryModel, MemoryUse, TimedDisk, TimedPmem};
use sim_disk::{Image, Model, World};

#[test]
fn calls_are_passed_on_and_charged() {
    let clock = Clock::new();
    let model = MemoryModel { call_ns: 1_000, fence_ns: 10, ..MemoryModel::hasfs() };
    let world = World::boot(Image::blank(4096), Model::Torn8);
    let inner = world.pmem();
    let facts = inner.facts();
    let mut pmem = TimedPmem::new(inner, &clock, model);
    assert_eq!((pmem.len(), pmem.facts()), (4096, facts));
    pmem.store(Offset(60), &[1; 8]);
    pmem.store_u64(Offset(0), 7);
    assert_eq!(clock.now(), 0, "stores stay in the cache");
    pmem.flush(Offset(60), 8);
    assert_eq!(clock.now(), 1_000 + 2 * 200);
    pmem.flush(Offset(60), 0);
    pmem.stream(Offset(1_024), &[2; 640]);
    assert_eq!(clock.now(), 1_400 + 1_000 + 10 * 200);
    pmem.fence().expect("a memory");
    let so_far = MemoryUse { calls: 2, units: 12, fences: 1, read_units: 0, nanos: clock.now() };
    assert_eq!(pmem.meter().so_far(), so_far);
    assert_eq!(clock.now(), 4_410);

    let meter = pmem.meter();
    let reader = pmem.reader();
    let (first, mut second) = pmem.split_at(Offset(1_024)).expect("a line");
    assert_eq!(first.bytes(Offset(60), 2).expect("there"), [1, 1]);
    let mut into = [0; 64];
    reader.read_into(Offset(1_024), &mut into).expect("there");
    assert_eq!((into, clock.now()), ([2; 64], 4_410), "reads are free");
    meter.charge_reads(true);
    reader.read_into(Offset(1_030), &mut into).expect("there");
    assert_eq!(first.bytes(Offset(0), 64).expect("there").len(), 64);
    assert_eq!(meter.so_far().read_units, 3);
    assert_eq!(clock.now(), 4_410 + 3 * model.read_unit_ns);
    second.fence().expect("a memory");
    assert_eq!(meter.so_far().fences, 2, "one count for both parts");
}

#[test]
fn a_disk_takes_the_memory_of_what_is_written() {
    let clock = Clock::new();
    let hdd = Hdd::new(HddModel::rpm_7200());
    let mut disk = TimedDisk::new(&clock, hdd, BlockSize::DEFAULT, 1 << 21);
    let parts = [[1; 4096], [0; 4096], [3; 4096]];
    let buffers: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
    disk.write_vectored(BlockNumber(1 << 20), &buffers).expect("blocks");
    disk.sync().expect("a disk");
    assert_eq!((disk.blocks_in_memory(), disk.so_far().writes, disk.so_far().services), (2, 1, 2));
    let mut into = [9; 4 * 4096];
    disk.read(BlockNumber((1 << 20) - 1), &mut into).expect("blocks");
    assert_eq!(into[4096..], parts.concat());
    assert_eq!(into[..4096], [0; 4096]);
    disk.write(BlockNumber(0), &[0; 4096]).expect("a block");
    assert!(disk.write(BlockNumber(1 << 21), &[0; 4096]).is_err());
    assert!(disk.write_vectored(BlockNumber(0), &[&[0; 4096], &[0; 7]]).is_err());
    assert!(disk.read(BlockNumber(0), &mut [0; 7]).is_err());
    assert_eq!(disk.blocks_in_memory(), 2);
}
