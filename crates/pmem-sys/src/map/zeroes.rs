//! Ordinary memory that is zero at first, in many parts.
//!
//! Guarantees: all parts are of one piece of memory, which is freed with the last of them. Each
//! begins at a line.
//!
//! Where all of it is large it is a mapping, however small the parts are. Nothing of a mapping is
//! touched, and so takes a page of the machine, before it is used ([`Taken::AsUsed`]). An allocator
//! clears what it does not know to be new, and maps large pieces one by one. Where the memory is
//! small, clearing what was used before costs less than pages that are new. A crash does not come
//! into it: the memory dies with its process.
//!
//! Large pages are not asked for. With them a hundredth of the first calls of one thread waited for
//! less, but two threads took two and a half times as long. The index had 17 MB, on an AMD EPYC of
//! family 26. What one thread writes lies beside what the other one does, and a processor fetches
//! ahead further in a large page.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::Arc;

use journal_core::LINE_BYTES;
use memmap2::{MmapOptions, MmapRaw};
use zerocopy::FromZeros;

/// Some values in memory that was zero, of which others have the rest.
///
/// ```
/// use pmem_sys::{Taken, Zeroes};
///
/// let mut parts = Zeroes::<u32>::parts(3, 1000, Taken::AsUsed);
/// parts[1][999] = 7;
/// assert_eq!((parts[1][999], parts[2][0]), (7, 0));
/// ```
pub struct Zeroes<T> {
    first: NonNull<T>,
    len: usize,
    /// What `first` is in, if there is anything.
    _memory: Option<Arc<Memory>>,
    /// The part owns its values.
    _values: PhantomData<T>,
}

/// From how many bytes on memory is mapped.
const MAPPED_FROM_BYTES: usize = 512 << 10;

/// When memory takes pages of the machine: one takes half a microsecond to two, and in a virtual
/// machine that has given memory back ten and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Memory takes all pages before a thread uses one. So no thread waits for a page.
    AtOnce,
    /// Memory takes each page when a thread first uses it.
    AsUsed,
}

/// What parts are of.
enum Memory {
    Mapped(MmapRaw),
    Allocated(NonNull<u8>, Layout),
}

// SAFETY: an address; what is there belongs to the parts.
unsafe impl Send for Memory {}
// SAFETY: as above: nothing is done with a shared one but to read the address.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory for a layout. `None` where there is not as much.
    ///
    /// # Safety
    /// The layout has bytes.
    unsafe fn new(layout: Layout, taken: Taken) -> Option<Self> {
        if layout.size() >= MAPPED_FROM_BYTES {
            let mut options = MmapOptions::new();
            options.len(layout.size());
            if taken == Taken::AtOnce {
                options.populate();
            }
            return options.map_anon().ok().map(|map| Self::Mapped(map.into()));
        }
        if taken == Taken::AsUsed {
            // SAFETY: the layout has bytes: the caller's promise.
            let first = NonNull::new(unsafe { alloc_zeroed(layout) })?;
            return Some(Self::Allocated(first, layout));
        }
        // SAFETY: as above.
        let first = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: `layout.size()` bytes were allocated there, and are nobody else's.
        unsafe { first.write_bytes(0, layout.size()) };
        Some(Self::Allocated(first, layout))
    }

    fn first(&self) -> *mut u8 {
        match self {
            Self::Mapped(map) => map.as_mut_ptr(),
            Self::Allocated(first, _) => first.as_ptr(),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Allocated(first, layout) = *self {
            // SAFETY: allocated with this layout, and this is its only owner's end.
            unsafe { dealloc(first.as_ptr(), layout) };
        }
    }
}

// SAFETY: a part has its values for itself, as a vector has, and what it shares with others is only
// when the memory is freed, which is counted.
unsafe impl<T: Send> Send for Zeroes<T> {}
// SAFETY: as above; behind a shared part there are only shared values.
unsafe impl<T: Sync> Sync for Zeroes<T> {}

impl<T: FromZeros + Copy> Zeroes<T> {
    /// A part of no values.
    pub const EMPTY: Self =
        Self { first: NonNull::dangling(), len: 0, _memory: None, _values: PhantomData };

    /// Makes `count` parts of `len` values each.
    ///
    /// If the memory is not there, the call does not return, as with vectors.
    ///
    /// # Panics
    /// When the parts are more bytes than there are addresses.
    #[must_use]
    pub fn parts(count: usize, len: usize, taken: Taken) -> Vec<Self> {
        const { assert!(align_of::<T>() <= LINE_BYTES, "a part begins at a line") };
        // An odd number of lines. Otherwise parts that are used alike would push each other out of
        // caches that have a few places for all lines some power of two apart.
        let lines = len.checked_mul(size_of::<T>()).map(|bytes| bytes.div_ceil(LINE_BYTES));
        let part_bytes = lines.and_then(|lines| match lines {
            0 => Some(0),
            lines => (lines | 1).checked_mul(LINE_BYTES),
        });
        let sizes = part_bytes.and_then(|part| Some((part, part.checked_mul(count)?)));
        let layout = sizes.and_then(|(part_bytes, bytes)| {
            Some((part_bytes, Layout::from_size_align(bytes, LINE_BYTES).ok()?))
        });
        let Some((part_bytes, layout)) = layout else {
            panic!("{count} parts of {len} values are more than can be addressed")
        };
        if layout.size() == 0 {
            return (0..count).map(|_| Self { len, ..Self::EMPTY }).collect();
        }
        // SAFETY: it has bytes.
        let memory = unsafe { Memory::new(layout, taken) };
        let Some(memory) = memory else { handle_alloc_error(layout) };
        let memory = Arc::new(memory);
        let part = |at: usize| {
            let first = memory.first().wrapping_add(at * part_bytes).cast();
            let first = NonNull::new(first).expect("nothing is at zero");
            Self { first, len, _memory: Some(Arc::clone(&memory)), _values: PhantomData }
        };
        (0..count).map(part).collect()
    }
}

impl<T> Deref for Zeroes<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `first` is dangling and aligned where the values take no bytes. Else `len` of
        // them are inside the memory, which lives as long as this does. They are at a line and so
        // aligned; zeroes are values, and only values were written since. Nobody else has them.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Zeroes<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and this is borrowed alone.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for Zeroes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zeroes").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, FromZeros)]
    #[repr(align(64))]
    struct Wide(u8);

    #[test]
    fn parts_are_zero_at_lines_and_apart() {
        let mapped = if cfg!(miri) { 80 } else { MAPPED_FROM_BYTES / 3 / 4 };
        for (len, taken) in [(40, Taken::AtOnce), (mapped, Taken::AtOnce), (mapped, Taken::AsUsed)]
        {
            are_zero_at_lines_and_apart(len, taken);
        }
        let wide = Zeroes::<Wide>::parts(2, 3, Taken::AsUsed);
        assert!(wide.iter().flat_map(|part| part.iter()).all(|wide| wide.0 == 0));
    }

    fn are_zero_at_lines_and_apart(len: usize, taken: Taken) {
        let mut parts = Zeroes::<[u8; 3]>::parts(5, len, taken);
        assert!(parts.iter().all(|part| part.len() == len && **part == vec![[0; 3]; len]));
        assert!(parts.iter().all(|part| part.as_ptr().addr() % LINE_BYTES == 0));
        let apart = parts[1].as_ptr().addr() - parts[0].as_ptr().addr();
        assert_eq!(apart / LINE_BYTES % 2, 1, "not in the same places of a cache");
        for (number, part) in (1..).zip(&mut parts) {
            part.fill([number; 3]);
        }
        for (number, part) in (1..).zip(&parts) {
            assert_eq!(**part, vec![[number; 3]; len]);
        }
    }

    #[test]
    fn the_last_part_keeps_the_memory() {
        let mut parts = Zeroes::<u64>::parts(3, 600, Taken::AsUsed);
        let mut last = parts.pop().expect("there are three");
        drop(parts);
        last[599] = 1;
        let sum = std::thread::spawn(move || last.iter().sum::<u64>());
        assert_eq!(sum.join().expect("adds"), 1);
    }

    #[test]
    fn nothing_takes_nothing() {
        assert!(Zeroes::<u64>::parts(0, 5, Taken::AsUsed).is_empty());
        let parts = Zeroes::<u64>::parts(2, 0, Taken::AtOnce);
        assert!(parts.iter().all(|part| part.is_empty() && part._memory.is_none()));
        assert!(Zeroes::<u64>::EMPTY.is_empty());
    }

    #[test]
    #[should_panic(expected = "more than can be addressed")]
    fn what_cannot_be_addressed_is_refused() {
        let _ = Zeroes::<u64>::parts(usize::MAX / 64, 64, Taken::AsUsed);
    }
}
