//! Unknown versions and features: refused or kept, and never a byte changed that is not understood.

use journal_core::superblock::{
    DISK_LOG, FORMAT_VERSION, NOTES, SLOTS, SuperblockError, TAIL_POINTER,
};
use journal_core::{OpenError, PmemRead as _};
use sim_disk::{Image, Model, World};

use lab::second_reader::layout::BOOK;
use lab::second_reader::reader::{Refusal, crc64};
use lab::second_reader::{Act, Kind, Shape, What, contents};

fn shape() -> Shape {
    Shape::new(Kind::Words, 2)
}

fn image() -> Image {
    shape().made_by(&[Act::Commit(0, vec![(1, What::Fill(7))])]).0
}

/// Puts a number into a field of both copies of the superblock and makes their checks right.
fn put(image: &mut Image, copies: &[usize], name: &str, value: u64) {
    let field = BOOK.head.field(name);
    let len = BOOK.head.len() + 2 * BOOK.mark.len();
    for at in copies {
        let copy = &mut image.pmem_mut()[*at..at + len + 8];
        copy[field.at..field.at + field.len].copy_from_slice(&value.to_le_bytes()[..field.len]);
        let check = crc64(0, &copy[..len]);
        copy[len..].copy_from_slice(&check.to_le_bytes());
    }
}

const BOTH: [usize; 2] = [0, 256];

/// What opening says, and whether it left everything alone.
fn refused(image: Image) -> (OpenError, bool) {
    let before = image.clone();
    let world = World::boot(image, Model::Torn8);
    let error = shape().with(&world, |_| ()).expect_err("is refused");
    let silent = world.tape().is_empty();
    (error, world.visible() == before && silent)
}

#[test]
fn unknown_incompatible_features_are_refused() {
    for bit in (0..64).filter(|bit| (TAIL_POINTER | SLOTS | DISK_LOG | NOTES) & 1 << bit == 0) {
        let mut image = image();
        put(&mut image, &BOTH, "incompatible", 1 << bit);
        let unknown = 1 << bit;
        assert_eq!(shape().read_by_the_book(&image).unwrap_err(), Refusal::Features(unknown));
        let error = OpenError::Superblock(SuperblockError::Features { unknown });
        assert_eq!(refused(image), (error, true));
    }
}

#[test]
fn other_versions_are_refused() {
    for found in [0, FORMAT_VERSION + 1, 1 << 24, u32::MAX] {
        for copies in [&BOTH[..], &BOTH[..1], &BOTH[1..]] {
            let mut image = image();
            put(&mut image, copies, "version", found.into());
            assert_eq!(shape().read_by_the_book(&image).unwrap_err(), Refusal::Version(found));
            let error = OpenError::Superblock(SuperblockError::Version { found });
            assert_eq!(refused(image), (error, true));
        }
    }
}

#[test]
fn compatible_features_and_reserved_bytes_are_kept() {
    for (name, value) in [("compatible", u64::MAX), ("compatible", 1), ("reserved", 0xA5A5)] {
        let mut image = image();
        put(&mut image, &BOTH, name, value);
        let world = World::boot(image, Model::Torn8);
        let acts = [Act::Commit(1, vec![(1, What::Fill(9))]), Act::Checkpoint, Act::Reopen];
        shape().drive(&world, &acts, &mut lab::second_reader::Truth::default());
        shape()
            .with(&world, |journal| {
                let found = contents(journal);
                let expected = lab::second_reader::counting(9);
                assert_eq!(found[1], lab::second_reader::reader::Content::Is(expected));
            })
            .expect("opens");
        let pmem = world.pmem();
        let mut head = vec![0; BOOK.head.len()];
        for at in BOTH {
            pmem.read_into(journal_core::Offset(at as u64), &mut head).expect("reads");
            assert_eq!(BOOK.head.number(&head, name), value, "{name}");
            assert!(BOOK.head.number(&head, "generation") > 3, "was written again");
        }
    }
}
