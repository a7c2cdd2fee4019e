//! The ports of a simulated world: what they check, whom a fence serves, what a kill leaves.

use journal_core::units::BlockSize;
use journal_core::{
    BlockDevice as _, BlockNumber, DeviceErrorKind, DeviceFacts, Hook as _, MediumErrorKind,
    Offset, Overwrite, Pmem as _, PmemRead as _, PmemShare as _, PmemSplit as _,
};
use sim_disk::{
    CrashPoints, DiskImage, Explorer, Fault, FaultKind, Image, Mark, Medium, Model, Mutant,
    Mutation, Mutator, Operation, Rng, Rules, Scenario, World,
};

journal_core::sites! {
    mod site {
        HEADER: Store = "world.header";
        HOME: DiskWrite = "world.home";
        FENCE: Fence = "world.fence";
        SYNC: DiskSync = "world.sync";
    }
}

fn disk() -> DiskImage {
    let size = BlockSize::new(64).expect("a block size");
    DiskImage::blank(size, 4, DeviceFacts::new(32, Overwrite::OldOrNew))
}

/// Every content of the first byte of each of the first lines that a power loss now may leave.
fn first_bytes(world: &World, lines: usize) -> Vec<Vec<u8>> {
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, world.rules(), tape.len());
    let mut found = Vec::new();
    for point in points {
        for choice in point.choices(1 << 12, 0, &mut Rng::new(0)) {
            let image = point.image(&choice);
            found.push((0..lines).map(|line| image.pmem()[line * 64]).collect());
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn a_fence_serves_its_own_thread_through_any_region() {
    let world = World::boot(Image::blank(256), Model::Torn8);
    let (mut a, mut b) = world.pmem().split_at(Offset(64)).expect("a line boundary");
    // Flushed and streamed by this thread, through two regions, fenced through one.
    a.store(Offset(0), &[1]);
    a.flush(Offset(0), 1);
    b.stream(Offset(0), &[2]);
    a.fence().expect("fences");
    assert_eq!(first_bytes(&world, 2), [[1, 2]]);

    // Flushed here, fenced by another thread: proves nothing.
    a.store(Offset(0), &[3]);
    a.flush(Offset(0), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| b.fence().expect("fences"));
    });
    assert_eq!(first_bytes(&world, 2), [[1, 2], [3, 2]]);

    // Stored here, flushed and fenced by another thread: durable.
    std::thread::scope(|scope| {
        let (a, b) = (&mut a, &mut b);
        scope.spawn(|| {
            a.flush(Offset(0), 1);
            b.fence().expect("fences");
        });
    });
    assert_eq!(first_bytes(&world, 2), [[3, 2]]);
}

#[test]
fn a_strong_flush_needs_no_fence() {
    let world = World::boot(Image::blank(64), Rules::new(Model::X86Line).with_strong_flush());
    let mut pmem = world.pmem();
    pmem.store_u64(Offset(0), 9);
    assert_eq!(first_bytes(&world, 1), [[0], [9]]);
    pmem.flush(Offset(0), 8);
    assert_eq!(first_bytes(&world, 1), [[9]]);
}

#[test]
fn regions_are_exclusive_and_readers_are_not() {
    let world = World::boot(Image::blank(256), Model::Torn8);
    let whole = world.pmem();
    let reader = whole.reader();
    let (mut left, right) = whole.split_at(Offset(128)).expect("a line boundary");
    assert_eq!((left.len(), right.len()), (128, 128));
    left.store(Offset(100), b"seen at once");
    let mut seen = [0; 12];
    reader.read_into(Offset(100), &mut seen).expect("reads");
    assert_eq!(&seen, b"seen at once");
    assert!(left.bytes(Offset(120), 8).is_ok());
    let outside = left.bytes(Offset(121), 8).expect_err("leaves the region");
    assert_eq!((outside.kind, outside.at), (MediumErrorKind::OutOfRange, Offset(121)));
    assert!(reader.read_into(Offset(u64::MAX), &mut seen).is_err());
    assert!(right.split_at(Offset(32)).is_err(), "regions are made of whole lines");
}

#[test]
#[should_panic(expected = "the span is taken")]
fn two_handles_to_the_span_are_refused() {
    let world = World::boot(Image::blank(64), Model::Torn8);
    let _first = world.pmem();
    let _second = world.pmem();
}

#[test]
#[should_panic(expected = "leave a region of 64 bytes")]
fn a_store_outside_is_a_bug_of_the_caller() {
    let world = World::boot(Image::blank(64), Model::Torn8);
    world.pmem().store(Offset(60), &[0; 5]);
}

#[test]
fn a_failed_fence_sticks() {
    let world = World::boot(Image::blank(64), Model::Torn8);
    world.inject(Fault::on(Operation::Fence, 1, FaultKind::Error));
    let mut pmem = world.pmem();
    pmem.store(Offset(0), &[1]);
    pmem.flush(Offset(0), 1);
    pmem.fence().expect("the first fence is good");
    pmem.store(Offset(0), &[2]);
    pmem.flush(Offset(0), 1);
    let failed = pmem.fence().expect_err("the second is not");
    assert!(matches!(failed.kind, MediumErrorKind::FenceFailed { .. }));
    assert_eq!(pmem.fence().expect_err("nor any later one").kind, MediumErrorKind::Stuck);
    assert_eq!(pmem.bytes(Offset(0), 1).expect_err("reads too").kind, MediumErrorKind::Stuck);
    assert_eq!(first_bytes(&world, 1), [[1], [2]], "the outcome is unknown");
}

#[test]
fn poison_and_latent_errors_last_until_healed() {
    let mut image = Image::blank(128).with_disk(disk());
    image.poison(70);
    image.disk_mut(0).spoil(BlockNumber(2));
    let world = World::boot(image, Model::Torn8);
    let pmem = world.pmem();
    assert!(pmem.bytes(Offset(0), 64).is_ok());
    for (at, len) in [(64, 1), (127, 1), (60, 8)] {
        let error = pmem.bytes(Offset(at), len).expect_err("poisoned");
        assert_eq!((error.kind, error.at), (MediumErrorKind::Poisoned, Offset(at)));
    }
    let mut disk = world.disk(0);
    let error = disk.read(BlockNumber(0), &mut [0; 256]).expect_err("block 2 is bad");
    assert_eq!(error.block, BlockNumber(2));
    disk.write(BlockNumber(2), &[5; 64]).expect("rewriting heals a sector");
    disk.read(BlockNumber(2), &mut [0; 64]).expect("healed");
}

#[test]
fn disks_refuse_what_does_not_fit() {
    let world = World::boot(Image::blank(64).with_disk(disk()), Model::Torn8);
    let mut disk = world.disk(0);
    let kind = |result: Result<(), journal_core::DeviceError>| result.expect_err("refused").kind;
    assert_eq!(kind(disk.write(BlockNumber(3), &[0; 128])), DeviceErrorKind::OutOfRange);
    assert_eq!(kind(disk.write(BlockNumber(0), &[0; 63])), DeviceErrorKind::WrongLength);
    assert_eq!(kind(disk.read(BlockNumber(4), &mut [0; 64])), DeviceErrorKind::OutOfRange);
    assert!(world.tape().is_empty(), "nothing happened");
    disk.write_vectored(BlockNumber(1), &[&[1; 64], &[2; 128]]).expect("three blocks");
    assert_eq!(world.visible().disk(0).block(BlockNumber(3)), [2; 64]);
}

#[test]
fn lying_disks_lie_as_told() {
    let boot = || World::boot(Image::blank(64).with_disk(disk()), Model::Torn8);
    let written = |fault| {
        let world = boot();
        world.inject(fault);
        let result = world.disk(0).write(BlockNumber(3), &[7; 64]);
        let visible = world.visible();
        let hit: Vec<u64> =
            (0..4).filter(|block| visible.disk(0).block(BlockNumber(*block))[0] == 7).collect();
        (result.is_ok(), hit)
    };
    let on = |kind| Fault::on(Operation::DiskWrite, 0, kind);
    assert_eq!(written(on(FaultKind::Lost)), (true, vec![]));
    assert_eq!(written(on(FaultKind::Misdirected { blocks: 2 })), (true, vec![1]));
    assert_eq!(written(on(FaultKind::Error)), (false, vec![3]), "torn, and reported");
    assert_eq!(written(Fault::on(Operation::DiskWrite, 1, FaultKind::Lost)), (true, vec![3]));

    let world = boot();
    world.inject(Fault::on(Operation::DiskRead, 0, FaultKind::Stale));
    let (mut disk, mut read) = (world.disk(0), [9; 64]);
    disk.write(BlockNumber(0), &[1; 64]).expect("writes");
    disk.read(BlockNumber(0), &mut read).expect("reads");
    assert_eq!(read, [0; 64], "what was there at power on");
    disk.read(BlockNumber(0), &mut read).expect("reads");
    assert_eq!(read, [1; 64]);
}

#[test]
fn a_kill_keeps_what_is_visible_and_makes_nothing_durable() {
    let world = World::boot(Image::blank(128).with_disk(disk()), Model::Torn8);
    let mut pmem = world.pmem();
    pmem.store(Offset(0), &[1]);
    pmem.flush(Offset(0), 1);
    pmem.stream(Offset(64), &[2]);
    world.disk(0).write(BlockNumber(0), &[3; 64]).expect("writes");
    let tape = world.tape();
    let next =
        World::killed(&world.start(), world.rules(), &tape, tape.len(), vec![Mark::PowerLost]);
    assert_eq!(next.history(), [Mark::PowerLost, Mark::Killed]);
    let visible = next.visible();
    assert_eq!((visible.pmem()[0], visible.pmem()[64]), (1, 2));
    assert_eq!(visible.disk(0).block(BlockNumber(0)), [3; 64]);
    let all = [[0, 0], [0, 2], [1, 0], [1, 2]];
    assert_eq!(first_bytes(&next, 2), all);

    // A fence of the next process completes nothing that the killed one flushed or streamed.
    let mut pmem = next.pmem();
    pmem.fence().expect("fences");
    assert_eq!(first_bytes(&next, 2), all);
    // A flush of what it found does.
    pmem.flush(Offset(0), 128);
    pmem.fence().expect("fences");
    assert_eq!(first_bytes(&next, 2), [[1, 2]]);
}

#[test]
fn rot_turns_one_bit() {
    let mut image = Image::blank(64).with_disk(disk());
    image.flip_bit(Medium::Pmem, 5, 3);
    image.flip_bit(Medium::Disk(0), 64, 0);
    assert_eq!(image.pmem()[5], 8);
    assert_eq!(image.disk(0).block(BlockNumber(1))[0], 1);
}

#[test]
fn counts_are_exact() {
    let world = World::boot(Image::blank(512).with_disk(disk()), Model::Torn8);
    let mut pmem = world.pmem();
    pmem.store(Offset(60), &[1; 8]);
    pmem.flush(Offset(60), 8);
    pmem.stream(Offset(130), &[1; 64]);
    pmem.flush(Offset(0), 0);
    pmem.fence().expect("fences");
    world.disk(0).write(BlockNumber(0), &[1; 128]).expect("writes");
    world.disk(0).sync().expect("syncs");
    let counts = world.tape().counts();
    assert_eq!((counts.stores, counts.stored_bytes, counts.flushed_lines), (1, 8, 2));
    assert_eq!((counts.streams, counts.streamed_bytes, counts.streamed_lines), (1, 64, 2));
    assert_eq!((counts.fences, counts.lines()), (1, 4));
    assert_eq!((counts.disk_writes, counts.disk_bytes, counts.disk_syncs), (2, 128, 1));
}

/// Every content of the first byte of block 0 that a power loss now may leave.
fn first_of_disk(world: &World) -> Vec<u8> {
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, world.rules(), tape.len());
    let mut found = Vec::new();
    for point in points {
        for choice in point.choices(1 << 12, 0, &mut Rng::new(0)) {
            found.push(point.image(&choice).disk(0).block(BlockNumber(0))[0]);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Writes a block of two units, and syncs it.
struct OneWrite;

impl Scenario for OneWrite {
    fn start(&self) -> Image {
        Image::blank(64).with_disk(disk())
    }

    fn program(&self, world: &World) -> Result<(), String> {
        world.disk(0).write(BlockNumber(0), &[7; 64]).map_err(|error| error.to_string())?;
        world.disk(0).sync().map_err(|error| error.to_string())
    }

    fn recover(&self, _: &World) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn images_of_a_disk_in_part_and_of_samples_are_counted() {
    let explore = |explorer: Explorer| explorer.explore(&OneWrite).expect("nothing can be wrong");
    // Before the sync both units, either or none; after it both.
    let report = explore(Explorer::new(Model::Torn8));
    assert_eq!((report.images, report.images_disk_in_part, report.images_sampled), (5, 2, 0));
    let few = Explorer::new(Model::Torn8).with_images_per_point_max(3).with_random_per_point(0);
    let report = explore(few);
    assert_eq!(report.points_sampled, 1);
    assert!(report.images_sampled >= 3, "{report}");
    assert_eq!(report.images, report.images_sampled + 1, "after the sync there is one image");
}

/// What is swapped crosses the persist point of its own medium, not any that comes by before.
#[test]
fn a_swapped_call_crosses_the_persist_point_of_its_medium() {
    let swapping = |site| Mutator::with(Mutant { site, mutation: Mutation::SwapAcross });

    let world = World::boot(Image::blank(64).with_disk(disk()), Model::Torn8);
    let (mut pmem, mut home, mut hook) = (world.pmem(), world.disk(0), swapping(site::HOME));
    hook.disk_write(site::HOME, &mut home, BlockNumber(0), &[&[7; 64]]).expect("writes");
    hook.fence(site::FENCE, &mut pmem).expect("fences");
    hook.disk_sync(site::SYNC, &mut home).expect("syncs");
    assert_eq!(first_of_disk(&world), [0, 7], "the sync came before the write");

    let world = World::boot(Image::blank(64).with_disk(disk()), Model::Torn8);
    let (mut pmem, mut home, mut hook) = (world.pmem(), world.disk(0), swapping(site::HEADER));
    hook.store(site::HEADER, &mut pmem, Offset(0), &[7]);
    hook.disk_sync(site::SYNC, &mut home).expect("syncs");
    pmem.flush(Offset(0), 1);
    hook.fence(site::FENCE, &mut pmem).expect("fences");
    assert_eq!(first_bytes(&world, 1), [[0], [7]], "the flush came before the store");
}

/// A mutant that makes its program panic inside a call must not bend what comes after it.
#[test]
fn a_panic_inside_a_swapped_call_ends_the_swap() {
    let world = World::boot(Image::blank(64), Model::Torn8);
    let mut pmem = world.pmem();
    let mut hook = Mutator::with(Mutant { site: site::HEADER, mutation: Mutation::SwapAcross });
    let outside = core::panic::AssertUnwindSafe(|| {
        hook.store(site::HEADER, &mut pmem, Offset(64), &[1]);
    });
    assert!(std::panic::catch_unwind(outside).is_err());
    pmem.store(Offset(0), &[1]);
    pmem.flush(Offset(0), 1);
    hook.fence(site::FENCE, &mut pmem).expect("fences");
    assert_eq!(first_bytes(&world, 1), [[1]]);
}

/// Gives up at a failed sync; the next process syncs again and believes what it reads.
struct Forgiving;

impl Scenario for Forgiving {
    fn start(&self) -> Image {
        Image::blank(64).with_disk(disk())
    }

    fn program(&self, world: &World) -> Result<(), String> {
        world.inject(Fault::on(Operation::DiskSync, 0, FaultKind::Error));
        let mut disk = world.disk(0);
        disk.write(BlockNumber(0), &[1; 64]).map_err(|error| error.to_string())?;
        disk.sync().map_err(|_| ()).expect_err("the sync fails");
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let (mut disk, mut block) = (world.disk(0), [0; 64]);
        disk.read(BlockNumber(0), &mut block).map_err(|error| error.to_string())?;
        let promised = world.history().contains(&Mark::Returned(1));
        if promised && block != [1; 64] {
            return Err("what was synced is gone".to_owned());
        }
        if block == [1; 64] && !promised {
            disk.sync().map_err(|error| error.to_string())?;
            world.returned(1);
        }
        Ok(())
    }
}

/// A failed sync changes nothing that can be seen and yet what a later sync is worth: the process
/// is killed behind it too, even where the program ends there.
#[test]
fn a_kill_right_after_a_failed_sync_is_explored() {
    let failure = Explorer::new(Model::Torn8).with_kills().explore(&Forgiving);
    let failure = failure.expect_err("a later sync does not cover the lost write").to_string();
    assert!(failure.contains("what was synced is gone"), "{failure}");
    assert!(failure.contains("KILLED after event 2"), "{failure}");
}

/// Repairs the second word from what it knows, and counts how often it found nothing to repair
/// although an earlier recovery had not finished.
#[derive(Default)]
struct Repairing {
    repaired_before: core::cell::Cell<u32>,
}

impl Scenario for Repairing {
    fn start(&self) -> Image {
        Image::blank(128)
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let mut pmem = world.pmem();
        pmem.store_u64(Offset(0), 1);
        pmem.flush(Offset(0), 8);
        pmem.fence().map_err(|error| error.to_string())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let mut pmem = world.pmem();
        let rotten = pmem.bytes(Offset(64), 1).map_err(|error| error.to_string())? != [0];
        if rotten {
            pmem.store_u64(Offset(64), 0);
            pmem.flush(Offset(64), 8);
            pmem.fence().map_err(|error| error.to_string())?;
        } else if world.history() == [Mark::PowerLost] {
            self.repaired_before.set(self.repaired_before.get() + 1);
        }
        world.recovered(1);
        Ok(())
    }
}

/// A crash inside the recovery of a harmed image may leave what the harm was done to: that is not
/// the image that was booted with the harm.
#[test]
fn a_harmed_image_is_not_taken_for_the_one_it_was_made_of() {
    let program = Repairing::default();
    let explorer = Explorer::new(Model::Torn8).with_depth(1);
    let explorer = explorer.with_damage(|image, _| image.pmem_mut()[64] = 0xFF);
    explorer.explore(&program).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(program.repaired_before.get(), 2, "with the first word lost and kept");
}
