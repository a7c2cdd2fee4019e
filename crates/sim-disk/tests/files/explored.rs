//! Files under the explorer: two in one crash, smaller failures, and reads that tell images apart.

use std::collections::BTreeSet;

use journal_core::Pmem as _;
use journal_core::units::Offset;
use sim_disk::{
    CrashPoint, CrashPoints, Explorer, FileFacts, FileImage, Image, Mark, Model, Rng, Scenario,
    TornBy, Unwritten, World, generate,
};

use crate::states::{RIGHT, world_of};

/// How long the file may be, and four of its bytes.
pub(crate) fn lengths_and_tails(world: &World, at: u64) -> BTreeSet<(u64, [u8; 4])> {
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, world.rules(), tape.len());
    let images = points.flat_map(|point| {
        let choices = point.choices(1 << 16, 0, &mut Rng::new(0));
        choices.map(move |choice| point.image(&choice)).collect::<Vec<Image>>()
    });
    let seen = images.map(|image| {
        let (file, mut tail) = (image.file(0).expect("a file"), [0; 4]);
        file.read_at(at, &mut tail);
        (file.len(), tail)
    });
    seen.collect()
}

/// To pass over points is to take them and throw them away, whatever happens there: stores under
/// way in caches that are durable, and several pasts of files that were cut.
#[test]
fn points_passed_over_are_those_that_would_have_come() {
    for model in [Model::Torn8, Model::Eadr] {
        let file = Image::of_files(1, FileFacts::default()).file(0).expect("a file").clone();
        let world = World::boot(Image::blank(256).with_file(file), model);
        let (mut pmem, file) = (world.pmem(), world.file(0));
        for value in 1..4_u8 {
            pmem.store(Offset(u64::from(value) * 8), &[value; 8]);
            file.write_all_at(0, &[value; 3 * 4096]).expect("writes");
            file.set_len(4096).expect("cuts");
            pmem.flush(Offset(0), 64);
            pmem.fence().expect("fences");
            world.returned(value.into());
        }
        let (start, tape) = (world.start(), world.tape());
        let points = || CrashPoints::new(&start, &tape, world.rules(), 0);
        let told = |point: &CrashPoint| (point.position(), point.fingerprint(&newest(point)));
        let all: Vec<_> = points().map(|point| told(&point)).collect();
        assert!(all.windows(2).any(|two| two[0].0 == two[1].0), "some instants have several");
        assert_eq!(points().count(), all.len());
        for at in 0..=all.len() {
            let mut left = points();
            assert_eq!(left.nth(at).as_ref().map(told), all.get(at).copied());
            assert_eq!(left.next().as_ref().map(told), all.get(at + 1).copied());
            assert_eq!(left.count(), all.len().saturating_sub(at + 2));
        }
    }
}

fn newest(point: &CrashPoint) -> Vec<usize> {
    point.cells().iter().map(|cell| cell.newest()).collect()
}

/// A store of two files: values of a page each in one, and how many there are, in a log.
struct DataAndLog {
    syncs_data: bool,
    values: u8,
}

const DATA: u16 = 0;
const LOG: u16 = 1;
const VALUE: usize = 4096;

impl DataAndLog {
    fn put(&self, world: &World, value: u8) -> Result<(), sim_disk::FileError> {
        let (data, log) = (world.file(DATA), world.file(LOG));
        data.write_all_at(u64::from(value - 1) * VALUE as u64, &[value; VALUE])?;
        if self.syncs_data {
            data.sync()?;
        }
        log.write_all_at(log.len()?, &[value])?;
        log.sync()
    }
}

impl Scenario for DataAndLog {
    fn start(&self) -> Image {
        Image::of_files(2, FileFacts::default())
    }

    fn program(&self, world: &World) -> Result<(), String> {
        for value in 1..=self.values {
            self.put(world, value).map_err(|error| error.to_string())?;
            world.returned(u64::from(value));
        }
        Ok(())
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let error = |error: sim_disk::FileError| error.to_string();
        let log = world.file(LOG).len().map_err(error)?;
        let returned = world.history().iter().filter(|m| matches!(m, Mark::Returned(_))).count();
        if log < returned as u64 {
            return Err(format!("{returned} values returned, {log} in the log"));
        }
        // The last byte of the log may not have come.
        let mut logged = vec![0; usize::try_from(log).expect("a short log")];
        world.file(LOG).read_exact_at(0, &mut logged).map_err(error)?;
        let count = logged.iter().take_while(|value| **value != 0).count();
        for value in 1..=count {
            let mut content = [0; VALUE];
            let at = (value - 1) * VALUE;
            world.file(DATA).read_exact_at(at as u64, &mut content).map_err(error)?;
            if content != [value as u8; VALUE] {
                return Err(format!("value {value} is in the log alone"));
            }
        }
        world.recovered(count as u64);
        Ok(())
    }
}

#[test]
fn one_crash_hits_all_files() {
    let explorer = Explorer::new(RIGHT);
    let right = DataAndLog { syncs_data: true, values: 2 };
    let report = explorer.explore(&right).expect("it holds");
    // Before each sync: of the data 1 + 2 + 4 + .. + 256 images, and of the log 3.
    assert_eq!((report.points_sampled, report.outcomes), (0, 3), "{report}");
    assert!(report.images_distinct > 1000, "{report}");
    let wrong = DataAndLog { syncs_data: false, values: 2 };
    let failure = explorer.explore(&wrong).expect_err("the log is ahead of the data");
    assert!(failure.message.contains("end") || failure.message.contains("alone"), "{failure}");
}

#[test]
fn a_failure_is_shrunk_to_what_must_not_be_lost() {
    let wrong = DataAndLog { syncs_data: false, values: 1 };
    // A sample that loses half of everything.
    let explorer = Explorer::new(RIGHT).with_images_per_point_max(1).with_random_per_point(0);
    let lost = |explorer: &Explorer| {
        let text = explorer.explore(&wrong).expect_err("it fails").to_string();
        text.lines().filter(|line| line.contains(" lost ")).count()
    };
    assert_eq!(lost(&explorer.clone().with_shrinking()), 1);
    assert!(lost(&explorer) >= 1);
}

#[test]
fn reads_tell_images_apart_as_recovery_does() {
    for syncs_data in [true, false] {
        let store = DataAndLog { syncs_data, values: 2 };
        let explorer = Explorer::new(RIGHT).with_depth(1).with_kills();
        let plain = explorer.explore(&store).map_err(|failure| failure.message);
        let by_reads = explorer.clone().with_images_told_apart_by_reads().explore(&store);
        let by_reads = by_reads.map_err(|failure| failure.message);
        match (plain, by_reads) {
            (Ok(plain), Ok(by_reads)) => {
                assert_eq!(plain.outcomes, by_reads.outcomes);
                assert!(by_reads.recoveries < plain.recoveries && by_reads.images_alike > 0);
            }
            (plain, by_reads) => assert_eq!(plain.err(), by_reads.err()),
        }
    }
}

#[test]
fn points_in_recoveries_may_be_left_to_chance_and_those_of_the_program_are_not() {
    let store = DataAndLog { syncs_data: true, values: 2 };
    let deep = Explorer::new(RIGHT).with_depth(1).with_kills();
    let explore = |explorer: &Explorer| {
        explorer.explore(&store).unwrap_or_else(|failure| panic!("{failure}"))
    };
    let own = explore(&Explorer::new(RIGHT));
    let all = explore(&deep);
    let some = explore(&deep.clone().with_recoveries_one_in(8));
    let none = explore(&deep.clone().with_recoveries_one_in(u64::MAX));
    assert_eq!([own.points_left_out, all.points_left_out], [0, 0]);
    assert_eq!(none.points, own.points, "{none}");
    assert!(own.points < some.points && some.points < all.points / 4, "{own}\n{some}\n{all}");
    assert!(some.points_left_out > 4 * (some.points - own.points), "{some}");
    let wrong = DataAndLog { syncs_data: false, values: 2 };
    let failure = deep.with_recoveries_one_in(u64::MAX).explore(&wrong);
    failure.expect_err("the program's own points are tried");
}

#[test]
fn every_image_has_the_fingerprint_that_its_choice_says() {
    let checked = generate::check(1, 400, |source| {
        let torn_by = *source.pick(&[TornBy::Sector, TornBy::Byte, TornBy::Page]);
        let unwritten = *source.pick(&[Unwritten::Zeroes, Unwritten::Garbage]);
        let file = FileImage::with_content(FileFacts::new(torn_by, unwritten), &[3; 700]);
        let world = world_of(&[file.clone(), file], Model::Torn8);
        for _ in 0..6 {
            let file = world.file(source.below(2) as u16);
            let at = source.below(3) * 500 + source.below(30);
            let call = match source.below(4) {
                0 => file.write_all_at(at, &vec![5; 1 + source.index(900)]),
                1 => file.write_all_at(at, &[7; 3]),
                2 => file.set_len(at),
                _ => file.sync(),
            };
            call.map_err(|error| error.to_string())?;
        }
        let tape = world.tape();
        let mut newest = false;
        for point in CrashPoints::new(&world.start(), &tape, world.rules(), 0) {
            for choice in point.choices(64, 16, &mut Rng::new(1)) {
                let image = point.image(&choice);
                if point.fingerprint(&choice) != image.fingerprint() {
                    let cells = point.cells().iter().map(|c| (c.medium(), c.places()));
                    return Err(format!("{choice:?} of {:?}\n{tape}", cells.collect::<Vec<_>>()));
                }
                newest |= point.position() == tape.len() && image == world.visible();
            }
        }
        // All of it may have arrived.
        if !newest {
            return Err(format!("what the program sees is not among the images\n{tape}"));
        }
        Ok(())
    });
    checked.expect("equal fingerprints");
}
