//! One file that lies block for block at its own place on the disk.
//!
//! Block n of the file is block n of the store. The last block of the store says how long the file
//! is; it is no part of the file, and changes in the same transactions. The store's disk is a
//! [`Joined`](nvm_journal::Joined): the disk that the file is, and a small one behind it. After a
//! close, the first of the two is the file, once it is cut to the file's length.
//!
//! The state, in words of eight bytes: a magic, a check of the next four, the length, where the
//! zeroes begin, whether the file is closed, the number of the state's own block, three words for
//! the owner, and a check of these three. The last four are zero where no owner is known.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use std::sync::{PoisonError, RwLock};

use journal_core::check::crc64;
use nvm_journal::{BlockNumber, CheckpointReport, Durability, Operation, Stats, Totals};

use crate::error::{Damage, DamageKind, Error};
use crate::layout::format::LEN_MAX;
use crate::store::Store;

const MAGIC: [u8; 8] = *b"NVJFILE1";
const STATE_BYTES: usize = 48;
/// Behind the state: three words that say whose file it is, and their check. A block that is too
/// small has none, and an older store has zeroes: both mean that it is not known.
const OWNER_BYTES: usize = 32;
/// Blocks behind the end of a file that one transaction clears, before the file covers them.
const CLEARED_AT_ONCE: u64 = 32;

/// What the last block of the store says of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OneFileState {
    /// The length of the file in bytes.
    pub len: u64,
    /// Behind this byte everything is zero.
    pub zero_from: u64,
    /// Whether the file was closed: the disk holds all of it.
    pub is_closed: bool,
    /// Whose file it is, as the caller has said by [`set_owner`](OneFile::set_owner). Zeroes: it is
    /// not known.
    pub owner: [u64; 3],
}

/// Bytes of the file that a transaction writes.
#[derive(Clone, Copy, Debug)]
pub struct Write<'b> {
    /// Where they begin.
    pub at: u64,
    /// What they are.
    pub bytes: &'b [u8],
}

/// One file in a journal, at its own place on the disk.
///
/// Threads use it at once through `&OneFile`. Readers run beside each other; a change has the file
/// to itself until its commit returns.
#[derive(Debug)]
pub struct OneFile {
    store: Arc<dyn Store>,
    block_bytes: usize,
    /// Blocks that the file has room for. The next block has the state.
    blocks: u64,
    state: RwLock<OneFileState>,
}

/// Blocks and their new images.
type Images<'b> = Vec<(u64, Cow<'b, [u8]>)>;

/// Bytes that go into one block.
struct Piece<'b> {
    block: u64,
    at: usize,
    bytes: &'b [u8],
}

fn encoded(block: u64, block_bytes: usize, state: OneFileState) -> Vec<u8> {
    let mut image = vec![0; block_bytes];
    // The number of its own block says how large the store was.
    let words = [state.len, state.zero_from, u64::from(state.is_closed), block];
    let bytes = MAGIC.into_iter().chain([0; 8]).chain(words.into_iter().flat_map(u64::to_le_bytes));
    for (place, byte) in image.iter_mut().zip(bytes) {
        *place = byte;
    }
    let check = crc64(0, image.get(16..STATE_BYTES).unwrap_or_default());
    if let Some(place) = image.get_mut(8..16) {
        place.copy_from_slice(&check.to_le_bytes());
    }
    if state.owner != [0; 3] {
        let owner: Vec<u8> = state.owner.into_iter().flat_map(u64::to_le_bytes).collect();
        let check = crc64(block, &owner).to_le_bytes();
        let behind = image.get_mut(STATE_BYTES..).and_then(|rest| rest.get_mut(..OWNER_BYTES));
        for (place, byte) in behind.into_iter().flatten().zip(owner.into_iter().chain(check)) {
            *place = byte;
        }
    }
    image
}

/// Whose file it is.
fn owner_of(block: u64, image: &[u8]) -> Result<[u64; 3], Error> {
    let behind = image.get(STATE_BYTES..).and_then(|rest| rest.first_chunk::<OWNER_BYTES>());
    let Some(behind) = behind.filter(|behind| **behind != [0; OWNER_BYTES]) else {
        return Ok([0; 3]);
    };
    let mut words = behind.chunks_exact(8).map(|word| {
        let word = word.first_chunk::<8>().copied().unwrap_or_default();
        u64::from_le_bytes(word)
    });
    let owner = [(); 3].map(|()| words.next().unwrap_or_default());
    let check = crc64(block, behind.get(..OWNER_BYTES.saturating_sub(8)).unwrap_or_default());
    if words.next() != Some(check) {
        return Err(Error::Damaged(Damage::new(block, DamageKind::Check)));
    }
    Ok(owner)
}

fn decoded(block: u64, image: &[u8], most: u64) -> Result<OneFileState, Error> {
    let word = |at: usize| {
        let bytes = image.get(at..).and_then(|rest| rest.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    if !image.starts_with(&MAGIC) {
        return Err(Error::NotFormatted);
    }
    let damaged = |kind| Err(Error::Damaged(Damage::new(block, kind)));
    if crc64(0, image.get(16..STATE_BYTES).unwrap_or_default()) != word(8) {
        return damaged(DamageKind::Check);
    }
    let [found, given] = [word(40), block].map(|last| last.saturating_add(1));
    if found != given {
        return Err(Error::OtherSize { found, given });
    }
    let (len, zero_from, closed) = (word(16), word(24), word(32));
    if len > most || zero_from > most {
        return damaged(DamageKind::Length(len.max(zero_from)));
    }
    if closed > 1 {
        return damaged(DamageKind::Count(closed));
    }
    let owner = owner_of(block, image)?;
    Ok(OneFileState { len, zero_from, is_closed: closed == 1, owner })
}

impl OneFile {
    fn layout(store: &dyn Store) -> Result<(usize, u64, u64), Error> {
        let (block_bytes, blocks) = (store.block_size().bytes(), store.block_count());
        if block_bytes < STATE_BYTES || blocks < 2 {
            return Err(Error::StoreTooSmall { block_bytes, blocks });
        }
        let blocks = blocks.saturating_sub(1);
        Ok((block_bytes, blocks, blocks.saturating_mul(block_bytes as u64).min(LEN_MAX)))
    }

    /// Takes what is on the disk as a file of `len` bytes. Behind its end the disk is all zero.
    ///
    /// # Errors
    /// `StoreTooSmall`, `TooFar`, and the journal's.
    pub fn format(store: Arc<dyn Store>, len: u64) -> Result<Self, Error> {
        let (block_bytes, blocks, most) = Self::layout(&*store)?;
        if len > most {
            return Err(Error::TooFar { end: Some(len), most });
        }
        let state = OneFileState { len, zero_from: len, is_closed: false, owner: [0; 3] };
        let image = encoded(blocks, block_bytes, state);
        let operations = [Operation::write(BlockNumber(blocks), &image)];
        store.commit(&operations, Durability::Durable)?;
        Ok(Self { store, block_bytes, blocks, state: RwLock::new(state) })
    }

    /// Opens the file as the last transaction left it. A file that was [closed](Self::close)
    /// may have been in other hands since: it answers `Closed`, and [`format`](Self::format) takes
    /// it as it is now.
    ///
    /// # Errors
    /// `NotFormatted`, also where a store has another size than when it was formatted;
    /// `OtherSize`, `Damaged`, `StoreTooSmall`, and the journal's.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, Error> {
        let (block_bytes, blocks, most) = Self::layout(&*store)?;
        let mut image = vec![0; block_bytes];
        store.read_at(BlockNumber(blocks), 0, &mut image)?;
        let state = decoded(blocks, &image, most)?;
        Ok(Self { store, block_bytes, blocks, state: RwLock::new(state) })
    }

    fn now(&self) -> OneFileState {
        *self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the file.
    #[must_use]
    pub fn state(&self) -> OneFileState {
        self.now()
    }

    /// The length of the file.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.now().len
    }

    /// Whether the file has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest that the file can be.
    #[must_use]
    pub fn len_max(&self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes as u64).min(LEN_MAX)
    }

    /// The number of the block that has a byte, and where in it the byte is.
    fn place(&self, at: u64) -> (u64, usize) {
        // No block is empty.
        let block = self.block_bytes as u64;
        let (number, inside) = (at.checked_div(block), at.checked_rem(block));
        (number.unwrap_or_default(), inside.unwrap_or_default() as usize)
    }

    /// Reads bytes from `at` on; returns how many the file has there.
    ///
    /// # Errors
    /// The journal's.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Error> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Error::Closed);
        }
        let there = usize::try_from(state.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let there = there.min(into.len());
        let (mut into, mut at) = (into.get_mut(..there).unwrap_or_default(), at);
        while !into.is_empty() {
            let (number, inside) = self.place(at);
            let whole = into.len().checked_div(self.block_bytes).unwrap_or_default();
            let bytes = if inside == 0 && whole > 0 {
                whole.saturating_mul(self.block_bytes)
            } else {
                self.block_bytes.saturating_sub(inside).min(into.len())
            };
            let (now, rest) = into.split_at_mut_checked(bytes).unwrap_or_default();
            if now.len() >= self.block_bytes {
                self.store.read_run(BlockNumber(number), now)?;
            } else {
                self.store.read_at(BlockNumber(number), inside, now)?;
                self.clear_behind(state.zero_from, at, now);
            }
            (into, at) = (rest, at.saturating_add(bytes as u64));
        }
        Ok(there)
    }

    /// A disk that a file of bytes lies on may hold anything behind the file's last byte.
    fn clear_behind(&self, end: u64, at: u64, bytes: &mut [u8]) {
        let kept = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        bytes.get_mut(kept..).unwrap_or_default().fill(0);
    }

    /// Changes the file in one transaction: bytes first, and then its length, if one is given. The
    /// bytes may come in any order; where they overlap, the last ones stay.
    ///
    /// # Errors
    /// `TooFar`, `TooLarge`, and the journal's. Nothing has changed then.
    pub fn commit(
        &self,
        writes: &[Write<'_>],
        len: Option<u64>,
        durability: Durability,
    ) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Error::Closed);
        }
        let old = *state;
        let mut new = old;
        if len.is_none() {
            if let Some((operations, end)) = self.whole_blocks(writes) {
                new.len = new.len.max(end);
                new.zero_from = new.zero_from.max(end);
                if new.len == old.len || old.zero_from <= old.len {
                    self.submit(operations, old, new, durability)?;
                    *state = new;
                    return Ok(());
                }
                new = old;
            }
        }
        let mut parts = Vec::with_capacity(writes.len());
        for write in writes {
            let end = write.at.checked_add(write.bytes.len() as u64);
            let Some(end) = end.filter(|end| *end <= self.len_max()) else {
                return Err(Error::TooFar { end, most: self.len_max() });
            };
            if !write.bytes.is_empty() {
                new.len = new.len.max(end);
                new.zero_from = new.zero_from.max(end);
            }
            self.cut_up(*write, &mut parts);
        }
        parts.sort_by_key(|part| part.block);
        if let Some(len) = len {
            if len > self.len_max() {
                return Err(Error::TooFar { end: Some(len), most: self.len_max() });
            }
            new.len = len;
        }
        // 1. Bytes behind the old end that the file is to cover become zero.
        let mut clear = Vec::new();
        if new.len > old.len && old.zero_from > old.len {
            clear = self.clear(old, new.len, &parts)?;
        }
        // 2. The images of all blocks, and the length if it is another one.
        let images = self.images(old, &parts, &clear)?;
        let mut operations = Vec::with_capacity(images.len().saturating_add(1));
        operations.extend(
            images.iter().map(|(block, image)| Operation::write(BlockNumber(*block), image)),
        );
        self.submit(operations, old, new, durability)?;
        *state = new;
        Ok(())
    }

    /// The operations of writes that are whole blocks and ascend, and where the last one ends. It
    /// copies nothing. `None` if the writes are others, or reach too far.
    fn whole_blocks<'b>(&self, writes: &[Write<'b>]) -> Option<(Vec<Operation<'b>>, u64)> {
        let mut operations = Vec::with_capacity(writes.len().saturating_add(1));
        let mut end = 0;
        for write in writes {
            let (first, inside) = self.place(write.at);
            let blocks = write.bytes.chunks_exact(self.block_bytes);
            if inside > 0 || write.at < end || !blocks.remainder().is_empty() {
                return None;
            }
            operations.extend(
                (first..)
                    .zip(blocks)
                    .map(|(block, image)| Operation::write(BlockNumber(block), image)),
            );
            end = write.at.checked_add(write.bytes.len() as u64)?;
        }
        (end <= self.len_max()).then_some((operations, end))
    }

    /// Commits operations, and the state of the file if it changes.
    fn submit(
        &self,
        operations: Vec<Operation<'_>>,
        old: OneFileState,
        new: OneFileState,
        durability: Durability,
    ) -> Result<(), Error> {
        let changed = (new != old).then(|| encoded(self.blocks, self.block_bytes, new));
        if let Some(image) = &changed {
            // The image lives as long as this call, and so do the operations with it.
            let mut operations: Vec<Operation<'_>> = operations;
            operations.push(Operation::write(BlockNumber(self.blocks), image));
            self.store.commit(&operations, durability)?;
        } else if !operations.is_empty() {
            self.store.commit(&operations, durability)?;
        }
        Ok(())
    }

    fn cut_up<'b>(&self, write: Write<'b>, parts: &mut Vec<Piece<'b>>) {
        let Write { mut at, mut bytes } = write;
        while !bytes.is_empty() {
            let (block, inside) = self.place(at);
            let now = self.block_bytes.saturating_sub(inside).min(bytes.len());
            let (now, rest) = bytes.split_at_checked(now).unwrap_or_default();
            parts.push(Piece { block, at: inside, bytes: now });
            (at, bytes) = (at.saturating_add(now.len() as u64), rest);
        }
    }

    /// Blocks that may hold something behind the old end, that the new end covers, and that no part
    /// writes. If there are many, they are cleared in transactions of their own: what is behind the
    /// end of a file can change unseen. The last of them are left to the caller.
    fn clear(&self, old: OneFileState, len: u64, parts: &[Piece<'_>]) -> Result<Vec<u64>, Error> {
        let (first, _) = self.place(old.len);
        let end = len.min(old.zero_from).div_ceil(self.block_bytes as u64);
        let is_written = |block: &u64| parts.binary_search_by_key(block, |part| part.block).is_ok();
        let mut left = Vec::new();
        for block in (first..end).filter(|block| !is_written(block)) {
            left.push(block);
            if left.len() as u64 > CLEARED_AT_ONCE {
                let images = self.images(old, &[], &left)?;
                let images = images.iter();
                let operations: Vec<_> = images
                    .map(|(block, image)| Operation::write(BlockNumber(*block), image))
                    .collect();
                self.store.commit(&operations, Durability::Durable)?;
                left.clear();
            }
        }
        Ok(left)
    }

    /// The new images of the blocks that the parts write, and of those that are cleared.
    fn images<'b>(
        &self,
        old: OneFileState,
        parts: &[Piece<'b>],
        clear: &[u64],
    ) -> Result<Images<'b>, Error> {
        let mut images: Images<'b> = Vec::with_capacity(parts.len());
        for part in parts {
            let is_same = images.last().is_some_and(|(block, _)| *block == part.block);
            if part.bytes.len() == self.block_bytes {
                if is_same {
                    images.pop();
                }
                images.push((part.block, Cow::Borrowed(part.bytes)));
                continue;
            }
            if !is_same {
                images.push((part.block, Cow::Owned(self.old_image(old, part.block)?)));
            }
            if let Some((_, image)) = images.last_mut() {
                let end = part.at.saturating_add(part.bytes.len());
                let place = image.to_mut().get_mut(part.at..end);
                place.unwrap_or_default().copy_from_slice(part.bytes);
            }
        }
        if !clear.is_empty() {
            for block in clear {
                images.push((*block, Cow::Owned(self.old_image(old, *block)?)));
            }
            images.sort_by_key(|(block, _)| *block);
        }
        Ok(images)
    }

    /// What the file has in a block: zero behind its end.
    fn old_image(&self, old: OneFileState, block: u64) -> Result<Vec<u8>, Error> {
        let mut image = vec![0; self.block_bytes];
        let start = block.saturating_mul(self.block_bytes as u64);
        if start < old.len {
            self.store.read_at(BlockNumber(block), 0, &mut image)?;
            self.clear_behind(old.len, start, &mut image);
        }
        Ok(image)
    }

    /// Writes bytes; not durable yet.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.commit(&[Write { at, bytes }], None, Durability::Deferred)
    }

    /// Cuts the file or makes it longer, by zeroes; not durable yet.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn set_len(&self, len: u64) -> Result<(), Error> {
        self.commit(&[], Some(len), Durability::Deferred)
    }

    /// Makes every change durable.
    ///
    /// # Errors
    /// The journal's.
    pub fn sync(&self) -> Result<(), Error> {
        self.store.sync().map_err(Error::from)
    }

    /// Writes everything home. Other threads go on meanwhile.
    ///
    /// # Errors
    /// The journal's.
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        self.store.checkpoint().map_err(Error::from)
    }

    /// Takes the file as the disk has it now, `len` bytes long: another program has changed it
    /// while nothing of it was in the journal. For a disk that is used in turn: the caller has seen
    /// to it that a [`checkpoint`](Self::checkpoint) is behind the last change of its own, and that
    /// the disk's file was cut to its length.
    ///
    /// # Errors
    /// `Closed`, `TooFar`, and the journal's.
    pub fn take_as_it_is(&self, len: u64) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Error::Closed);
        }
        if len > self.len_max() {
            return Err(Error::TooFar { end: Some(len), most: self.len_max() });
        }
        let now = OneFileState { len, zero_from: len, ..*state };
        self.submit(Vec::new(), *state, now, Durability::Durable)?;
        *state = now;
        Ok(())
    }

    /// Says whose file it is, durably: three words of the caller's, which an open finds in the
    /// [state](OneFileState::owner). A block of less than 80 bytes has no room for them.
    ///
    /// # Errors
    /// `Closed`, and the journal's.
    pub fn set_owner(&self, owner: [u64; 3]) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Error::Closed);
        }
        let now = OneFileState { owner, ..*state };
        self.submit(Vec::new(), *state, now, Durability::Durable)?;
        *state = now;
        Ok(())
    }

    /// Ends the journal: the disk alone has everything. `cut` is told the length of the file when
    /// everything is home, and cuts the disk's file to it, durably. Later calls answer `Closed`.
    ///
    /// A crash before `cut` has returned leaves the journal as it was, with everything; one behind
    /// that may leave a closed file.
    ///
    /// # Errors
    /// `Closed`, `Unreadable`, `cut`'s, and the journal's.
    pub fn close(&self, cut: impl FnOnce(u64) -> Result<(), Error>) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(Error::Closed);
        }
        let unreadable = self.store.checkpoint()?.unreadable;
        if unreadable > 0 {
            return Err(Error::Unreadable { blocks: unreadable });
        }
        cut(state.len)?;
        let closed = OneFileState { zero_from: state.len, is_closed: true, ..*state };
        let image = encoded(self.blocks, self.block_bytes, closed);
        let operations = [Operation::write(BlockNumber(self.blocks), &image)];
        self.store.commit(&operations, Durability::Durable)?;
        *state = closed;
        self.store.close().map_err(Error::from)
    }

    /// What the journal has done so far.
    ///
    /// # Errors
    /// The journal's.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.store.stats().map_err(Error::from)
    }

    /// The counts that a program watches, cheap enough for a loop.
    ///
    /// # Errors
    /// The journal's.
    pub fn totals(&self) -> Result<Totals, Error> {
        self.store.totals().map_err(Error::from)
    }

    /// The journal below.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_store_of_another_size_is_told_from_damage() {
        let state = OneFileState { len: 70, zero_from: 90, is_closed: false, owner: [0; 3] };
        let image = encoded(9, 64, state);
        assert_eq!(decoded(9, &image, 9 * 64), Ok(state));
        let other = Err(Error::OtherSize { found: 10, given: 13 });
        assert_eq!(decoded(12, &image, 12 * 64), other);
        for bit in 0..STATE_BYTES * 8 {
            let mut image = image.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            let refused = decoded(9, &image, 9 * 64);
            let is_told = matches!(refused, Err(Error::Damaged(_) | Error::NotFormatted));
            assert!(is_told, "{bit}: {refused:?}");
        }
    }

    #[test]
    fn the_owner_of_a_file_is_told_from_damage() {
        let owner = [7, 8, u64::MAX];
        let state = OneFileState { len: 70, zero_from: 90, is_closed: false, owner };
        let image = encoded(9, 80, state);
        assert_eq!(decoded(9, &image, 9 * 80), Ok(state));
        for bit in STATE_BYTES * 8..80 * 8 {
            let mut image = image.clone();
            image[bit / 8] ^= 1 << (bit % 8);
            let damage = Damage::new(9, DamageKind::Check);
            assert_eq!(decoded(9, &image, 9 * 80), Err(Error::Damaged(damage)), "{bit}");
        }
        // An older store has zeroes there, and a small block has no room.
        let unknown = Ok(OneFileState { owner: [0; 3], ..state });
        let mut older = image;
        older[STATE_BYTES..].fill(0);
        assert_eq!(decoded(9, &older, 9 * 80), unknown);
        assert_eq!(decoded(9, &encoded(9, 64, state), 9 * 64), unknown);
    }
}
