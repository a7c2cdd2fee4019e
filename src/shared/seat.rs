//! Seats: what one transaction at a time works with.
//!
//! A seat has the buffers, a device handle and the favourite lane of whoever sits there. Threads
//! come back to the same seat, so that its memory is warm and its lane their own. When all seats
//! are taken, a new one is made for one transaction.

use core::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crossbeam_utils::CachePadded;
use journal_core::parts::{Names, Places, Scratch};
use journal_core::units::{LaneNumber, SlotNumber, Stamp};
use journal_core::{Batched, BlockDevice, BlockNumber, Geometry, Needs};
use pmem_sys::{StoreLock, StoreLockGuard};

use super::block_locks::{Age, Stripe};
use super::staged::Staged;
use super::versions::Answer;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, this_thread};

/// Threads that find a seat without an allocation.
const SEATS: usize = if cfg!(any(loom, shuttle)) { 4 } else { 64 };

/// The number of every seat that is made for one transaction.
const EXTRA: u64 = SEATS as u64;
const NUMBER_BITS: u32 = EXTRA.ilog2() + 1;

/// What one transaction works with.
#[derive(Debug)]
pub(crate) struct Seat<D> {
    number: u64,
    /// Transactions begun here.
    clock: u64,
    /// The lane of its transactions, as long as they are durable.
    pub(crate) favourite: LaneNumber,
    device: D,
    pub(crate) staged: Staged,
    pub(crate) work: Work,
    /// Room for a block, when nobody has taken it.
    room: Vec<u8>,
    /// Whether the last commit here was deferred.
    pub(crate) defers: bool,
}

/// What a transaction holds, and where it is prepared.
#[derive(Debug)]
pub(crate) struct Work {
    front: Vec<u8>,
    encoded: Vec<u8>,
    places: Box<Places>,
    /// The lane of the transaction under way.
    pub(crate) lane: LaneNumber,
    pub(crate) held: Vec<Stripe>,
    pub(crate) names: Names,
    /// At or above the stamps of everything that is overwritten.
    pub(crate) overwritten: Stamp,
    /// Bytes of the lane that are reserved.
    pub(crate) reserved_bytes: u64,
    /// Slots of the lane that are reserved.
    pub(crate) reserved_slots: u32,
    /// Blocks of the disk-side log that it has reserved and not taken yet.
    pub(crate) reserved_log: u32,
    /// Whether it has touched a block that was gathered and not committed.
    pub(crate) on_gathered: bool,
    /// Whether the lane has no room, and will have none: the next transaction takes another.
    pub(crate) leaves_lane: bool,
    answers: Vec<Answer>,
    /// What the transaction has written to the disk-side log; room for one of each operation.
    logged: Vec<Batched>,
}

impl Work {
    pub(crate) fn new(lane: LaneNumber, geometry: &Geometry) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            front: vec![0; needs.front_bytes],
            encoded: vec![0; needs.encoded_bytes],
            places: Box::new(Places::EMPTY),
            lane,
            held: Vec::new(),
            names: Names::NONE,
            overwritten: Stamp(0),
            reserved_bytes: 0,
            reserved_slots: 0,
            reserved_log: 0,
            logged: Vec::new(),
            on_gathered: false,
            leaves_lane: false,
            answers: Vec::new(),
        }
    }

    /// The records to name, the memory to prepare in, and what is known of versions.
    pub(crate) fn for_preparing(&mut self) -> (&Names, Scratch<'_>, &mut Vec<Answer>) {
        let scratch = Scratch {
            front: &mut self.front,
            encoded: &mut self.encoded,
            places: &mut self.places,
            logged: &mut self.logged,
        };
        (&self.names, scratch, &mut self.answers)
    }

    /// Slots of older versions that are held.
    pub(crate) fn held_slots(&self) -> impl Iterator<Item = (BlockNumber, SlotNumber)> + '_ {
        self.answers.iter().filter_map(Answer::held)
    }

    /// Sees to it that there is room for what so many operations write to the disk-side log.
    pub(crate) fn make_room_to_log(&mut self, operations: usize) {
        if self.logged.len() < operations {
            self.logged.resize(operations, Batched::EMPTY);
        }
    }

    /// Holds nothing any more.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.names.clear();
        self.overwritten = Stamp(0);
        self.reserved_bytes = 0;
        self.on_gathered = false;
        self.answers.clear();
    }
}

impl<D> Seat<D> {
    fn new(number: u64, lane: LaneNumber, device: D, geometry: &Geometry) -> Self {
        Self {
            number,
            clock: 0,
            favourite: lane,
            device,
            staged: Staged::new(geometry.block_size.bytes()),
            work: Work::new(lane, geometry),
            room: Vec::new(),
            defers: false,
        }
    }

    /// The device, and where a payload is copied to be applied.
    pub(crate) fn for_reading(&mut self) -> (&mut D, &mut [u8]) {
        (&mut self.device, &mut self.work.encoded)
    }

    /// Room for so many bytes of any content, which is kept once it is given back.
    pub(crate) fn take_room(&mut self, bytes: usize) -> Vec<u8> {
        let mut room = core::mem::take(&mut self.room);
        room.resize(bytes, 0);
        room
    }

    pub(crate) fn give_room_back(&mut self, room: Vec<u8>) {
        self.room = room;
    }

    /// The age of a transaction that begins now: of all ages at a time it is the only one like it.
    pub(crate) fn next_age(&mut self, seats: &Seats<D>) -> Age {
        match self.number {
            EXTRA => self.clock = seats.extra.begin(self.clock),
            _ => self.clock += 1,
        }
        Age(self.clock << NUMBER_BITS | self.number)
    }
}

/// A seat, as long as somebody sits there.
#[derive(Debug)]
pub(crate) enum Seated<'s, D> {
    Kept(StoreLockGuard<'s, Option<Box<Seat<D>>>>),
    Extra(Box<ExtraSeat<'s, D>>),
}

/// A seat that is made for one transaction.
#[derive(Debug)]
pub(crate) struct ExtraSeat<'s, D> {
    seat: Seat<D>,
    extra: &'s Extra,
}

impl<D> Drop for ExtraSeat<'_, D> {
    fn drop(&mut self) {
        self.extra.end(self.seat.clock);
    }
}

/// The transactions without a kept seat.
#[derive(Debug)]
struct Extra {
    /// The clock of the next one.
    clock: AtomicU64,
    /// The clocks of those under way, and their threads.
    threads: Mutex<Vec<(u64, usize)>>,
}

impl Extra {
    fn new() -> Self {
        Self { clock: AtomicU64::new(1), threads: Mutex::new(Vec::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, usize)>> {
        // Nothing in here panics half-way.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction of this thread begins where the one of this clock was; returns its own.
    fn begin(&self, before: u64) -> u64 {
        let clock = self.clock.fetch_add(1, Ordering::Relaxed);
        self.end(before);
        self.lock().push((clock, this_thread()));
        clock
    }

    fn end(&self, clock: u64) {
        self.lock().retain(|(known, _)| *known != clock);
    }

    /// Whether the transaction of this clock is this thread's own.
    fn is_own(&self, clock: u64) -> bool {
        self.lock().contains(&(clock, this_thread()))
    }
}

impl<D> Deref for Seated<'_, D> {
    type Target = Seat<D>;

    #[inline]
    fn deref(&self) -> &Seat<D> {
        match self {
            Self::Kept(guard) => guard.as_ref().expect("a seat is made before it is taken"),
            Self::Extra(extra) => &extra.seat,
        }
    }
}

impl<D> DerefMut for Seated<'_, D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Seat<D> {
        match self {
            Self::Kept(guard) => guard.as_mut().expect("a seat is made before it is taken"),
            Self::Extra(extra) => &mut extra.seat,
        }
    }
}

/// Where a seat is kept, once it is made.
type Place<D> = StoreLock<Option<Box<Seat<D>>>>;

/// All seats of a journal.
#[derive(Debug)]
pub(crate) struct Seats<D> {
    seats: Box<[CachePadded<Place<D>>]>,
    /// The thread that sat down last at each.
    threads: Box<[CachePadded<AtomicUsize>]>,
    /// Counted up with every new seat: each has another favourite lane than the one before.
    next_lane: AtomicUsize,
    extra: Extra,
    device: Mutex<D>,
    geometry: Geometry,
}

impl<D: BlockDevice + Clone> Seats<D> {
    pub(crate) fn new(device: D, geometry: Geometry) -> Self {
        Self {
            seats: (0..SEATS).map(|_| CachePadded::new(StoreLock::new(None))).collect(),
            threads: (0..SEATS).map(|_| CachePadded::new(AtomicUsize::new(0))).collect(),
            next_lane: AtomicUsize::new(0),
            extra: Extra::new(),
            device: Mutex::new(device),
            geometry,
        }
    }

    /// Takes a seat: the one this thread had before, if it is free.
    #[inline]
    pub(crate) fn sit(&self) -> Seated<'_, D> {
        let thread = this_thread();
        let first = (thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - 6)) % SEATS;
        for number in (first..SEATS).chain(0..first) {
            // A seat whose last user panicked is not used again.
            let Ok(Some(mut guard)) = self.seats[number].try_lock() else { continue };
            if guard.is_none() {
                *guard = Some(Box::new(self.make(number as u64)));
            }
            self.threads[number].store(thread, Ordering::Relaxed);
            return Seated::Kept(guard);
        }
        Seated::Extra(Box::new(ExtraSeat { seat: self.make(EXTRA), extra: &self.extra }))
    }

    #[cold]
    fn make(&self, number: u64) -> Seat<D> {
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Seat::new(number, self.another_lane(), device, &self.geometry)
    }

    /// The next lane, for a seat whose own is busy.
    pub(crate) fn another_lane(&self) -> LaneNumber {
        let count = usize::from(self.geometry.lanes);
        LaneNumber((self.next_lane.fetch_add(1, Ordering::Relaxed) % count) as u16)
    }

    /// Whether the transaction of this age is this thread's own, so that waiting for it would be
    /// for ever. Who has found the age on a block finds who sat down before that.
    pub(crate) fn is_own(&self, age: Age) -> bool {
        let number = age.0 & ((1 << NUMBER_BITS) - 1);
        match self.threads.get(number as usize) {
            Some(thread) => thread.load(Ordering::Relaxed) == this_thread(),
            None => self.extra.is_own(age.0 >> NUMBER_BITS),
        }
    }
}

#[cfg(all(test, loom))]
mod explored;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use journal_core::{BlockSize, Protocol};

    use super::*;
    use crate::file_disk::tests::TinyDisk;

    const GEOMETRY: Geometry = Geometry {
        block_size: BlockSize::MIN,
        lanes: 3,
        lane_bytes: 1 << 12,
        shield_blocks: 0,
        unit_bytes: 4096,
        protocol: Protocol::OneFence,
        lane_slots: 0,
        lane_log_blocks: 0,
        segment_blocks: 0,
    };

    #[test]
    fn a_thread_finds_its_seat_again_and_every_seat_has_its_lane() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        let number = seats.sit().number;
        assert_eq!(seats.sit().number, number);
        let lanes = std::thread::scope(|scope| {
            let sit = || seats.sit().favourite;
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(sit)).collect();
            threads.into_iter().map(|thread| thread.join().expect("sits")).collect::<Vec<_>>()
        });
        assert!(lanes.iter().all(|lane| lane.raw() < 3));
    }

    #[test]
    fn there_is_always_another_seat_and_all_ages_differ() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        let mut seated: Vec<_> = (0..SEATS + 10).map(|_| seats.sit()).collect();
        let mut ages: Vec<_> = seated.iter_mut().map(|seat| seat.next_age(&seats)).collect();
        ages.extend(seated.iter_mut().map(|seat| seat.next_age(&seats)));
        ages.sort_unstable();
        assert!(ages.windows(2).all(|pair| pair[0] < pair[1]), "each there once");
        assert!(ages.iter().all(|age| age.0 != 0));
        let newest: Vec<_> = seated.iter_mut().map(|seat| seat.next_age(&seats)).collect();
        let is_own = |age: &Age| seats.is_own(*age);
        assert!(newest.iter().all(is_own), "all of them are this thread's");
        let others = std::thread::scope(|scope| {
            let look = scope.spawn(|| newest.iter().filter(|age| is_own(age)).count());
            look.join().expect("looks")
        });
        assert_eq!(others, 0, "none of them is another's");
        drop(seated);
        assert!(seats.extra.lock().is_empty(), "they are over");
    }
}
