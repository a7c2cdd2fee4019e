//! A journal that was closed says so, and the next open looks for nothing behind its records except
//! one right there. Every other open looks through the whole lane.

use sim_disk::{CrashPoints, Image, Mark, Model, Rng, World};

use lab::second_reader::forge::{RingMut, seal_copy};
use lab::second_reader::layout::BOOK;
use lab::second_reader::reader::{Content, Refusal, lanes_at, mark_of_close, small_check};
use lab::second_reader::{
    Act, BLOCK_BYTES, Kind, Memory, Shape, Truth, What, contents, counting, refusal,
};

const LINE: u64 = 64;

fn shape() -> Shape {
    Shape::new(Kind::Words, 2)
}

/// A journal with a record in lane 0, closed or left as it is.
fn image(closes: bool) -> Image {
    let world = World::boot(shape().format(), Model::Torn8);
    shape().drive(&world, &[fill(7)], &mut Truth::default());
    if closes {
        close(&world);
    }
    world.visible()
}

fn fill(first: u8) -> Act {
    Act::Commit(0, vec![(1, What::Fill(first))])
}

fn close(world: &World) {
    let mut memory = Memory::new(&shape().geometry());
    let journal = memory.open(world.pmem(), world.disk(0), shape().kind).expect("opens");
    journal.close().expect("closes");
}

fn superblock_field(image: &Image, name: &str) -> u64 {
    BOOK.head.number(image.pmem(), name)
}

fn is_closed(image: &Image) -> bool {
    superblock_field(image, "closed") == mark_of_close(superblock_field(image, "generation"))
}

/// Where lane 0 ends, by its superblock and what the record takes.
fn end_of_lane(image: &Image) -> u64 {
    let found = shape().read_by_the_book(image).expect("is whole");
    found.lanes[0].records.last().expect("a record").end()
}

/// Puts the header of a record of a later epoch into lane 0.
fn put_later_header(image: &mut Image, at: u64) {
    let span = image.pmem_mut();
    let start = lanes_at(span) as usize;
    let id: Vec<u8> = span[BOOK.head.field("journal_id").at..][..16].to_vec();
    let epoch = BOOK.head.number(span, "epoch");
    let mut header = span[start..start + LINE as usize].to_vec();
    for (name, value) in [("position", at), ("epoch", epoch + 1), ("names", 0), ("check", 0)] {
        let field = BOOK.header.field(name);
        header[field.at..][..field.len].copy_from_slice(&value.to_le_bytes()[..field.len]);
    }
    let check = small_check(&id, &header);
    let mut ring = RingMut { span, start, bytes: shape().lane_bytes as usize };
    ring.write(at, &header);
    ring.put(at, BOOK.header.field("check"), check);
}

/// What both readers make of an image.
fn opened(image: &Image) -> Result<Vec<Content>, Refusal> {
    let by_the_book = shape().read_by_the_book(image);
    let world = World::boot(image.clone(), Model::Torn8);
    let found = shape().with(&world, contents);
    match (found, by_the_book) {
        (Ok(found), Ok(_)) => Ok(found),
        (Err(error), Err(refused)) => {
            assert_eq!(refusal(&error).as_ref(), Some(&refused), "{error}");
            Err(refused)
        }
        (found, by_the_book) => panic!("{:?}, {:?}", found.map(drop), by_the_book.map(drop)),
    }
}

#[test]
fn a_close_says_so_in_both_copies_and_an_open_takes_it_back() {
    let formatted = shape().format();
    assert!(is_closed(&formatted));
    let image_left = image(false);
    assert!(!is_closed(&image_left));
    let closed = image(true);
    assert!(is_closed(&closed));
    let unit = superblock_field(&closed, "unit_bytes") as usize;
    assert_eq!(closed.pmem()[..unit], closed.pmem()[unit..2 * unit]);

    for acts in [vec![], vec![fill(8)], vec![fill(8), Act::Checkpoint]] {
        let world = World::boot(closed.clone(), Model::Torn8);
        shape().drive(&world, &acts, &mut Truth::default());
        assert!(!is_closed(&world.visible()), "{acts:?}");
        close(&world);
        assert!(is_closed(&world.visible()), "{acts:?}");
    }
}

#[test]
fn behind_a_closed_lane_only_the_next_place_is_looked_at() {
    let content = Content::Is(counting(7));
    for closes in [true, false] {
        let image = image(closes);
        let end = end_of_lane(&image);
        assert_eq!(opened(&image).expect("is whole")[1], content);
        for lines in 0..(shape().lane_bytes - end) / LINE {
            let mut harmed = image.clone();
            put_later_header(&mut harmed, end + LINE * lines);
            let found = opened(&harmed);
            if closes && lines > 0 {
                assert_eq!(found.expect("not looked at")[1], content, "{lines} lines behind");
            } else {
                assert_eq!(found, Err(Refusal::SuperblockLost), "{lines} lines behind");
            }
        }
    }
}

#[test]
fn a_lane_that_was_opened_again_is_looked_through() {
    let world = World::boot(image(true), Model::Torn8);
    shape().drive(&world, &[fill(8)], &mut Truth::default());
    let image = world.visible();
    let end = end_of_lane(&image);
    for lines in 0..4 {
        let mut harmed = image.clone();
        put_later_header(&mut harmed, end + LINE * lines);
        assert_eq!(opened(&harmed), Err(Refusal::SuperblockLost), "{lines} lines behind");
    }
}

/// Puts a number into a field of both copies of the superblock.
fn put(image: &mut Image, name: &str, value: u64) {
    let unit = superblock_field(image, "unit_bytes") as usize;
    let field = BOOK.head.field(name);
    for at in [0, unit] {
        let place = &mut image.pmem_mut()[at + field.at..][..field.len];
        place.copy_from_slice(&value.to_le_bytes()[..field.len]);
        seal_copy(image.pmem_mut(), at);
    }
}

#[test]
fn who_does_not_know_the_field_and_keeps_it_opens_the_journal_again() {
    let mut image = image(true);
    let generation = superblock_field(&image, "generation");
    put(&mut image, "generation", generation + 1);
    assert!(!is_closed(&image));
    let end = end_of_lane(&image);
    put_later_header(&mut image, end + LINE);
    assert_eq!(opened(&image), Err(Refusal::SuperblockLost));
}

#[test]
fn a_number_of_long_ago_says_nothing() {
    let mut image = image(true);
    let generation = superblock_field(&image, "generation");
    put(&mut image, "closed", mark_of_close(generation + 1));
    let world = World::boot(image, Model::Torn8);
    shape().drive(&world, &[], &mut Truth::default());
    let image = world.visible();
    assert_eq!(superblock_field(&image, "generation"), generation + 1);
    assert!(!is_closed(&image));
}

#[test]
fn a_mark_of_zero_is_not_taken_for_a_close() {
    let mut image = image(true);
    let generation = mark_of_close(0);
    put(&mut image, "generation", generation - 1);
    let world = World::boot(image, Model::Torn8);
    shape().drive(&world, &[], &mut Truth::default());
    let mut image = world.visible();
    assert_eq!(superblock_field(&image, "generation"), generation);
    assert!(!is_closed(&image));
    let end = end_of_lane(&image);
    put_later_header(&mut image, end + LINE);
    assert_eq!(opened(&image), Err(Refusal::SuperblockLost));
}

/// A deferred record, a close, an open and another deferred record, with a power loss at every
/// point: both readers open whatever is left and show the same, and what the close has returned on
/// stays.
#[test]
fn a_power_loss_around_a_close_leaves_what_it_has_promised() {
    let (start, closed) = (shape().format(), 1);
    let world = World::boot(start.clone(), Model::Torn8);
    let defer = |first| Act::Defer(0, vec![(1, What::Fill(first))]);
    let mut memory = Memory::new(&shape().geometry());
    let mut journal = memory.open(world.pmem(), world.disk(0), shape().kind).expect("opens");
    Truth::default().act(&mut journal, &defer(7));
    journal.close().expect("closes");
    drop(memory);
    world.returned(closed);
    shape().drive(&world, &[defer(8)], &mut Truth::default());

    let (tape, mut rng, mut images) = (world.tape(), Rng::new(1), 0);
    for point in CrashPoints::new(&start, &tape, Model::Torn8, 0) {
        let has_closed = point.marks().contains(&Mark::Returned(closed));
        for choice in point.choices(1 << 8, 64, &mut rng) {
            let found = opened(&point.image(&choice)).expect("no crash is rot");
            let mut may_be = vec![counting(7), counting(8)];
            if !has_closed {
                may_be.push([0; BLOCK_BYTES]);
            }
            assert!(may_be.iter().any(|block| found[1] == Content::Is(*block)), "{has_closed}");
            images += 1;
        }
    }
    assert!(images > 100, "{images} images");
}
