//! Journals with tail words: what lies below a word counts, and what does not is void.

use full_block::FullBlock;
use journal_core::Buffers;
use journal_core::Durability::Durable;
use journal_core::check::crc64;
use journal_core::superblock::FORMAT_VERSION;
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, EXAMINE_BYTES_MAX, OpenError, PortableKernels, Protocol, Row, Rule, examine,
};
use sim_disk::mutants::{Mutant, Mutation};
use sim_disk::suite::{Edit, SUPERBLOCK_UNIT, Step};
use sim_disk::{Explorer, Image, Mark, Medium, Model, Mutator, Scenario, World};

use lab::core_crash::program::{Kind, Program};

/// Where the tail word of the only lane lies, and where the lane begins behind it.
const WORD: usize = 2 * SUPERBLOCK_UNIT as usize;
const LANE: usize = WORD + 64;
/// Bytes of a record of one block.
const RECORD: u64 = 192;

fn write(block: usize) -> Step {
    Step::Commit(0, vec![(block, Edit::Write)], Durable)
}

fn program(steps: Vec<Step>) -> Program {
    let program = Program::new(Kind::FullBlock, 1, steps);
    Program { protocol: Protocol::TailPointer, ..program }
}

/// The media after a program that nothing interrupted.
fn media(program: &Program) -> Image {
    let world = World::boot(program.start(), Model::Torn8);
    program.program(&world).expect("runs");
    world.visible()
}

fn word(image: &Image) -> u64 {
    let word = image.pmem()[WORD..WORD + 8].first_chunk().expect("a word");
    u64::from_le_bytes(*word)
}

/// The tail word of a lane that ends at a lane offset, as FORMAT.md says it.
fn word_of(image: &Image, lane: u64, to: u64) -> u64 {
    let id = &image.pmem()[32..48];
    let kind = [id, &FORMAT_VERSION.to_le_bytes(), &4_u32.to_le_bytes()].concat();
    let check = crc64(crc64(0, &kind) ^ lane, &to.to_le_bytes());
    ((to / 64) % (1 << 40)) | (check << 40)
}

fn put_word(image: &mut Image, word: u64) {
    image.pmem_mut()[WORD..WORD + 8].copy_from_slice(&word.to_le_bytes());
}

/// What an open finds, which an examination has to find as well: the records, or the row.
fn verdict_of(program: &Program, image: &Image) -> Result<u64, Row> {
    let world = &World::boot(image.clone(), Model::Torn8);
    let mut scratch = vec![0; EXAMINE_BYTES_MAX];
    let examined = examine(&world.pmem(), &PortableKernels, &mut scratch).expect("examines");
    let mut buffers = Buffers::new(&program.geometry(), 64, 2);
    let opened = program.open(world, FullBlock, buffers.borrow());
    assert_eq!(
        examined.verdict,
        opened.as_ref().map(|journal| *journal.recovery()).map_err(|e| *e)
    );
    match opened {
        Ok(journal) => Ok(journal.recovery().records),
        Err(OpenError::Rot { lane, row, .. }) => {
            assert_eq!((lane, examined.lanes()[0].row), (LaneNumber(0), row));
            Err(row)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_whole_record_behind_the_word_is_dropped() {
    let program = program(vec![write(0), write(1)]);
    let mut image = media(&program);
    let both = word_of(&image, 0, 2 * RECORD);
    assert_eq!((word(&image), verdict_of(&program, &image)), (both, Ok(2)));
    // As a power loss between the two fences of the second commit leaves it.
    let first = word_of(&image, 0, RECORD);
    put_word(&mut image, first);
    let world = World::boot(image, Model::Torn8);
    let mut buffers = Buffers::new(&program.geometry(), 64, 2);
    let mut journal = program.open(&world, FullBlock, buffers.borrow()).expect("opens");
    assert_eq!((journal.recovery().records, journal.recovery().tails), (1, 1));
    let mut content = [[0; 64]; 2];
    for (number, content) in (0..).zip(&mut content) {
        journal.read(BlockNumber(number), content).expect("reads");
    }
    assert!(content[0] != [0; 64] && content[1] == [0; 64]);
}

#[test]
fn rot_below_the_word_is_an_error_even_in_the_last_record() {
    for byte in 0..RECORD as usize {
        let baseline = program(vec![write(0)]);
        let mut image = media(&baseline);
        image.pmem_mut()[LANE + byte] ^= 4;
        assert_eq!(verdict_of(&baseline, &image), Err(Row::RottenBelowEvidence), "{byte}");
    }
    // Without words that is a torn tail, which nothing tells from a commit that was cut off.
    let default = Program { protocol: Protocol::OneFence, ..program(vec![write(0)]) };
    let mut image = media(&default);
    image.pmem_mut()[WORD + 3] ^= 4;
    assert_eq!(verdict_of(&default, &image), Ok(0));
}

#[test]
fn a_word_that_has_rotted_is_an_error() {
    let program = program(vec![write(0), write(1), Step::Checkpoint, write(2), write(3)]);
    let image = media(&program);
    let (head, end) = (2 * RECORD, 4 * RECORD);
    let right = word_of(&image, 0, end);
    assert_eq!((word(&image), verdict_of(&program, &image)), (right, Ok(2)));
    let with_word = |word| {
        let mut image = image.clone();
        put_word(&mut image, word);
        verdict_of(&program, &image)
    };
    let with = |to| with_word(word_of(&image, 0, to));
    let too_far = head + program.lane_bytes + 64;
    for word in [0, head - 64, end - 1, end + 8, too_far, u64::MAX, 1 << 63] {
        assert_eq!(with(word), Err(Row::RottenTailWord), "{word}");
    }
    for bit in 0..64 {
        assert_eq!(with_word(right ^ 1 << bit), Err(Row::RottenTailWord), "bit {bit}");
    }
    // What is right in another lane, or as a plain offset.
    for word in [word_of(&image, 1, end), end] {
        assert_eq!(with_word(word), Err(Row::RottenTailWord), "{word}");
    }
    // In the middle of a record, behind the last one, and below what the last record's watermark
    // says.
    for word in [end - 64, end + 64, too_far - 64, head + 64, head] {
        assert_eq!(with(word), Err(Row::RottenBelowEvidence), "{word}");
    }
    // Nothing tells that from a crash between two fences.
    assert_eq!(with(end - RECORD), Ok(1));
}

#[test]
fn behind_the_word_nothing_needs_to_be_readable() {
    let program = program(vec![write(0)]);
    let mut image = media(&program);
    image.poison(LANE as u64 + RECORD);
    assert_eq!(verdict_of(&program, &image), Ok(1));
}

/// Rot in the only record once it was acknowledged.
fn rot_the_record(image: &mut Image, history: &[Mark]) {
    if history.iter().any(|mark| matches!(mark, Mark::Returned(_))) {
        image.flip_bit(Medium::Pmem, LANE as u64 + 131, 0);
    }
}

#[test]
fn a_word_proves_the_last_record_durable() {
    let program = Program { may_report_rot: true, ..program(vec![write(0)]) };
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(32)
        .with_damage(rot_the_record);
    explorer.explore(&program).unwrap_or_else(|failure| panic!("{failure}"));
    let mutator = Mutator::without(&[Rule::TailWords]);
    assert!(explorer.explore(&Program { mutator, ..program }).is_err(), "nothing notices");
}

/// A process stores a word and is killed; the next open builds on it; then the power goes.
#[test]
fn a_word_that_a_killed_process_left_is_durable_before_it_counts() {
    let program = Program { steps_after: vec![write(1)], ..program(vec![write(0)]) };
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(32)
        .with_kills()
        .with_depth(1);
    explorer.explore(&program).unwrap_or_else(|failure| panic!("{failure}"));
    let mut sites = journal_core::SITES.iter().copied().flatten();
    let site = *sites.find(|site| site.name == "tail.found").expect("a site");
    let mutator = Mutator::with(Mutant { site, mutation: Mutation::DropFlush });
    assert!(explorer.explore(&Program { mutator, ..program }).is_err(), "nothing notices");
}

/// The word goes on with a copy, before the heads pass what it copies.
#[test]
fn a_copy_lies_below_the_word() {
    let steps = vec![write(0), write(1), write(1), Step::Relog(0, true)];
    let program = Program { steps_after: vec![write(0)], ..program(steps) };
    let explorer = Explorer::new(Model::Torn8)
        .with_images_per_point_max(1 << 8)
        .with_random_per_point(32)
        .with_kills();
    explorer.explore(&program).unwrap_or_else(|failure| panic!("{failure}"));
}
