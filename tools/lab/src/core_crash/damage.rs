//! Harm that comes on top of a power loss: rot, lost writes, a superblock of the past.
//!
//! Each function waits until a number of calls were made, or have returned, since only then the
//! journal can know that something is missing.

use journal_core::check::crc64;
use sim_disk::suite::{ID, SUPERBLOCK_UNIT};
use sim_disk::{Image, Mark, Medium};

use crate::second_reader::parts::{record_seed, small_check};

/// Where lane 0 begins in a journal without a shield.
const LANE: usize = 2 * SUPERBLOCK_UNIT as usize;

/// Bytes of a record of one image.
const RECORD: usize = 192;

fn called(history: &[Mark]) -> usize {
    history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count()
}

fn returned(history: &[Mark]) -> usize {
    history.iter().filter(|mark| matches!(mark, Mark::Returned(_))).count()
}

/// Turns a bit of the first record of lane 0 once `RETURNED` calls have returned.
pub fn rot_first_record<const RETURNED: usize>(image: &mut Image, history: &[Mark]) {
    if returned(history) == RETURNED {
        image.flip_bit(Medium::Pmem, LANE as u64 + 128 + 3, 0);
    }
}

/// Turns a bit of the last slot of all, which is taken first, once `RETURNED` calls have returned.
pub fn rot_last_slot<const RETURNED: usize>(image: &mut Image, history: &[Mark]) {
    if returned(history) == RETURNED {
        let last = image.pmem().len() as u64 - 64;
        image.flip_bit(Medium::Pmem, last + 3, 0);
    }
}

/// Like `rot_first_record`, once the superblock of a second open is durable: its epoch is 2.
pub fn rot_noted_record<const RETURNED: usize>(image: &mut Image, history: &[Mark]) {
    let epoch_at = |copy: usize| image.pmem()[copy * SUPERBLOCK_UNIT as usize + 88];
    if epoch_at(0) == 2 && epoch_at(1) == 2 {
        rot_first_record::<RETURNED>(image, history);
    }
}

/// Makes of the first record of lane 0 one of the epoch before, whole: as if its write had been
/// lost and a record that an open had shown absent were still in its place.
pub fn stale_first_record<const RETURNED: usize>(image: &mut Image, history: &[Mark]) {
    if returned(history) != RETURNED {
        return;
    }
    let record = &mut image.pmem_mut()[LANE..LANE + RECORD];
    record[32] -= 1;
    let check = small_check(&ID, &record[..64]);
    record[..4].copy_from_slice(&check.to_le_bytes()[..4]);
    let (front, content) = record.split_at_mut(128);
    let check = crc64(crc64(record_seed(&ID), content), &front[..120]);
    front[120..].copy_from_slice(&check.to_le_bytes());
}

/// Puts the superblock of a journal with one lane back to before the last head advance, in both
/// copies, with right checks.
pub fn lose_the_newest_superblock(image: &mut Image, history: &[Mark]) {
    if returned(history) < 6 {
        return;
    }
    for copy in [0, SUPERBLOCK_UNIT as usize] {
        let superblock = &mut image.pmem_mut()[copy..copy + 128 + 32 + 8];
        // Generation 1 and the heads of an empty journal.
        superblock[80..88].copy_from_slice(&1_u64.to_le_bytes());
        superblock[128..136].copy_from_slice(&0_u64.to_le_bytes());
        for field in [136, 144, 152] {
            superblock[field..field + 8].copy_from_slice(&1_u64.to_le_bytes());
        }
        let check = crc64(0, &superblock[..160]);
        superblock[160..].copy_from_slice(&check.to_le_bytes());
    }
}

/// Rot in the first superblock copy, once the freed space is in use: the second one has to do.
pub fn rot_the_first_copy(image: &mut Image, history: &[Mark]) {
    if called(history) == 2 {
        image.flip_bit(Medium::Pmem, 100, 1);
    }
}

/// Rot in the second superblock copy, likewise.
pub fn rot_the_second_copy(image: &mut Image, history: &[Mark]) {
    if called(history) == 2 {
        image.flip_bit(Medium::Pmem, SUPERBLOCK_UNIT + 100, 1);
    }
}
