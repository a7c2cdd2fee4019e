//! Seats: what one transaction at a time works with.
//!
//! A seat has the buffers, a device handle and the favourite lane of the transaction that sits
//! there. Each thread has seats of its own, as many as the transactions that it has had open at the
//! same time. A transaction takes the first seat that is free, because its memory is warm and its
//! lane is the thread's own.
//!
//! Sitting down takes no lock, so it can be done while the last commit's fence still goes on. When
//! a thread has ended, another one takes over its seats.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use journal_core::units::LaneNumber;
use journal_core::{BlockDevice, Geometry};

use crate::staging::old_images::Olds;
use crate::staging::staged::Staged;
use crate::staging::work::Work;
use crate::threads::block_locks::Age;
use crate::threads::seat_numbers::{CLOCK_MAX, NUMBER_BITS, SeatNumbers, number_in};
use crate::threads::sync::{AtomicUsize, Mutex, MutexGuard, OfEachThread, Ordering};

/// A thread that has had more transactions open than this does not keep the memory of all of them.
const KEPT_SEATS: usize = 8;

/// What one transaction works with.
#[derive(Debug)]
pub(crate) struct Seat<D> {
    /// No other seat of the journal has this number. Numbers start at 1, so that no age is zero.
    number: u64,
    /// Which of the thread's seats it is.
    at: usize,
    /// Transactions begun here. The count may wrap around: ages are of one seat each, and are
    /// compared while their transactions live.
    clock: u64,
    /// The lane of its durable transactions.
    pub(crate) favourite: LaneNumber,
    device: D,
    pub(crate) staged: Staged,
    pub(crate) work: Work,
}

/// What a read of a block needs.
pub(crate) struct Reading<'s, D> {
    pub(crate) device: &'s mut D,
    /// Where a payload is copied to be applied.
    pub(crate) payload: &'s mut [u8],
}

impl<D> Reading<'_, D> {
    /// What another read needs, before this one.
    pub(crate) fn again(&mut self) -> Reading<'_, D> {
        Reading { device: self.device, payload: self.payload }
    }
}

impl<D> Seat<D> {
    fn new((at, number): (usize, u64), lane: LaneNumber, device: D, geometry: &Geometry) -> Self {
        Self {
            number,
            at,
            clock: 0,
            favourite: lane,
            device,
            staged: Staged::new(geometry.block_size.bytes()),
            work: Work::new(lane, geometry),
        }
    }

    /// Lends what a read needs.
    pub(crate) fn for_reading(&mut self) -> Reading<'_, D> {
        Reading { device: &mut self.device, payload: &mut self.work.encoded }
    }

    /// Lends what a read needs, and where the image is kept as old.
    pub(crate) fn for_reading_olds(&mut self) -> (Reading<'_, D>, &mut Olds) {
        let reading = Reading { device: &mut self.device, payload: &mut self.work.encoded };
        (reading, &mut self.staged.olds)
    }

    /// Lends what a read needs, and a page that no image is in.
    pub(crate) fn for_reading_spare(&mut self) -> (Reading<'_, D>, &mut [u8]) {
        let reading = Reading { device: &mut self.device, payload: &mut self.work.encoded };
        (reading, self.staged.spare())
    }

    /// The age of a transaction that begins now, which is above `behind`. No other age is like it
    /// at that time.
    #[inline]
    pub(crate) fn next_age(&mut self, behind: Age) -> Age {
        self.clock = (self.clock.max(behind.0 >> NUMBER_BITS) + 1) & CLOCK_MAX;
        self.age()
    }

    /// The age of the transaction that began last.
    #[inline]
    pub(crate) const fn age(&self) -> Age {
        Age(self.clock << NUMBER_BITS | self.number)
    }

    /// An age above those of all transactions, for one that waits for no block: all others may wait
    /// for it.
    pub(crate) const fn last_age(&self) -> Age {
        Age(CLOCK_MAX << NUMBER_BITS | self.number)
    }
}

/// A seat, as long as a transaction sits there. A function returns it in two registers (C1).
#[derive(Debug)]
pub(crate) struct Seated<'s, D: Send> {
    /// `Some`, until the seat is given back.
    seat: Option<Box<Seat<D>>>,
    seats: &'s Seats<D>,
    /// The value stays in its thread.
    _stays: PhantomData<MutexGuard<'s, ()>>,
}

impl<D: Send> Deref for Seated<'_, D> {
    type Target = Seat<D>;

    #[inline]
    fn deref(&self) -> &Seat<D> {
        self.seat.as_ref().expect("nobody has left yet")
    }
}

impl<D: Send> DerefMut for Seated<'_, D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Seat<D> {
        self.seat.as_mut().expect("nobody has left yet")
    }
}

impl<D: Send> Seated<'_, D> {
    /// Gives the seat back, in fewer steps than dropping it takes.
    #[inline(always)]
    pub(crate) fn leave(mut self) {
        if self.at < KEPT_SEATS {
            let (at, number, seat) = (self.at, self.number, self.seat.take());
            self.seats.own.with(
                #[inline(always)]
                |own| own.give_back(at, number, seat),
            );
            core::mem::forget(self);
        }
    }
}

impl<D: Send> Drop for Seated<'_, D> {
    /// By what it holds, and not by its address, so that the caller can keep it in registers (C1).
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            self.seats.take_back(seat);
        }
    }
}

/// The seats of one thread.
struct OwnSeats<D> {
    /// The first seat, while no transaction sits there. One store takes it, and one gives it back.
    first: Cell<Option<Box<Seat<D>>>>,
    first_number: Cell<u64>,
    /// All seats. Here the first one counts as taken as long as it lies in `first`.
    all: RefCell<Vec<OwnSeat<D>>>,
}

impl<D> fmt::Debug for OwnSeats<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnSeats").finish_non_exhaustive()
    }
}

struct OwnSeat<D> {
    number: u64,
    is_taken: bool,
    /// `None` while a transaction sits there, and until it is made.
    seat: Option<Box<Seat<D>>>,
}

/// A seat that was free.
struct Taken<D> {
    at: usize,
    number: u64,
    /// `None` if it has yet to be made.
    seat: Option<Box<Seat<D>>>,
}

impl<D> Default for OwnSeats<D> {
    fn default() -> Self {
        let (first, first_number) = (Cell::new(None), Cell::new(0));
        Self { first, first_number, all: RefCell::new(Vec::new()) }
    }
}

impl<D> OwnSeats<D> {
    /// Takes the first seat that is free, and does not lie in `first`.
    fn take(&self) -> Option<Taken<D>> {
        let mut all = self.all.borrow_mut();
        let at = all.iter().position(|own| !own.is_taken)?;
        let own = &mut all[at];
        own.is_taken = true;
        Some(Taken { at, number: own.number, seat: own.seat.take() })
    }

    /// Adds a seat, which is taken; returns which it is.
    fn add(&self, number: u64) -> usize {
        let mut all = self.all.borrow_mut();
        if all.is_empty() {
            self.first_number.set(number);
        }
        all.push(OwnSeat { number, is_taken: true, seat: None });
        all.len() - 1
    }

    /// Whether the first seat lies in `first`.
    fn has_first(&self) -> bool {
        let first = self.first.take();
        let has = first.is_some();
        self.first.set(first);
        has
    }

    /// How many of the seats have a transaction on them.
    fn taken(&self) -> usize {
        let taken = self.all.borrow().iter().filter(|seat| seat.is_taken).count();
        taken - usize::from(self.has_first())
    }

    #[inline(always)]
    fn give_back(&self, at: usize, number: u64, seat: Option<Box<Seat<D>>>) {
        // A thread that ends may have lost its own seats before it gives all of them back.
        if at == 0 && seat.is_some() && self.first_number.get() == number {
            // No other seat was put there.
            if let Some(other) = self.first.replace(seat) {
                drop(other);
            }
        } else {
            self.give_back_another(at, number, seat);
        }
    }

    #[inline(never)]
    fn give_back_another(&self, at: usize, number: u64, seat: Option<Box<Seat<D>>>) {
        let mut all = self.all.borrow_mut();
        if let Some(own) = all.get_mut(at).filter(|own| own.number == number) {
            own.is_taken = false;
            own.seat = seat;
        }
    }
}

/// All seats of a journal.
#[derive(Debug)]
pub(crate) struct Seats<D: Send> {
    own: OfEachThread<OwnSeats<D>>,
    /// The number of seats, of all threads.
    count: AtomicUsize,
    /// Counted up with every new seat, so that each has another favourite lane than the one before.
    next_lane: AtomicUsize,
    device: Mutex<D>,
    geometry: Geometry,
}

impl<D: Send> Seats<D> {
    #[inline(never)]
    fn take_back(&self, seat: Box<Seat<D>>) {
        let (at, number) = (seat.at, seat.number);
        // A thread that panics leaves nothing that any thread uses again.
        let seat = Some(seat).filter(|_| at < KEPT_SEATS && !std::thread::panicking());
        self.own.with(|own| own.give_back(at, number, seat));
    }
}

impl<D: BlockDevice + Clone + Send> Seats<D> {
    pub(crate) fn new(device: D, geometry: Geometry) -> Self {
        Self {
            own: OfEachThread::default(),
            count: AtomicUsize::new(0),
            next_lane: AtomicUsize::new(0),
            device: Mutex::new(device),
            geometry,
        }
    }

    /// Takes a seat of this thread's own.
    #[inline(always)]
    pub(crate) fn sit(&self) -> Seated<'_, D> {
        let first = self.own.with(
            #[inline(always)]
            |own| own.first.take(),
        );
        let seat = first.unwrap_or_else(|| self.sit_elsewhere());
        Seated { seat: Some(seat), seats: self, _stays: PhantomData }
    }

    /// Takes a seat where the first one is not at hand.
    #[inline(never)]
    fn sit_elsewhere(&self) -> Box<Seat<D>> {
        match self.own.with(OwnSeats::take) {
            Some(Taken { seat: Some(seat), .. }) => seat,
            Some(Taken { at, number, seat: None }) => self.make(at, number),
            None => self.add(),
        }
    }

    #[cold]
    fn add(&self) -> Box<Seat<D>> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) as u64 + 1;
        assert!(number >> NUMBER_BITS == 0, "no memory holds the seats that there are before it");
        // What it is made of may panic, and then it is none of the thread's seats.
        let mut seat = self.make(0, number);
        seat.at = self.own.with(|own| own.add(number));
        seat
    }

    #[cold]
    fn make(&self, at: usize, number: u64) -> Box<Seat<D>> {
        Box::new(Seat::new((at, number), self.another_lane(), self.handle(), &self.geometry))
    }

    /// Another handle of the device.
    #[cold]
    pub(crate) fn handle(&self) -> D {
        self.device.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The next lane, for a seat whose own is busy.
    pub(crate) fn another_lane(&self) -> LaneNumber {
        let count = usize::from(self.geometry.lanes);
        LaneNumber((self.next_lane.fetch_add(1, Ordering::Relaxed) % count) as u16)
    }

    /// Whether this thread has another transaction open beside the one that asks.
    pub(crate) fn has_several(&self) -> bool {
        self.own.with(|own| own.taken() > 1)
    }

    /// Whether the transaction of this age is this thread's own, so that waiting for it would never
    /// end.
    pub(crate) fn is_own(&self, age: Age) -> bool {
        let number = number_in(age);
        self.own.with(|own| own.all.borrow().iter().any(|seat| seat.number == number))
    }

    /// The numbers of this thread's seats.
    pub(crate) fn own_numbers(&self) -> SeatNumbers {
        self.own.with(|own| SeatNumbers::of(own.all.borrow().iter().map(|seat| seat.number)))
    }
}

#[cfg(all(test, loom))]
mod explored;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use journal_core::{BlockSize, Protocol};

    use journal_core::units::Stamp;

    use super::*;
    use crate::machine::tests::TinyDisk;

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
    fn seats_are_taken_in_their_order() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        let [first, second, third] = [seats.sit(), seats.sit(), seats.sit()];
        let numbers = [first.number, second.number, third.number];
        assert_eq!(numbers, [1, 2, 3]);
        drop((third, first));
        let [first, third] = [seats.sit(), seats.sit()];
        assert_eq!([first.number, second.number, third.number], numbers);
    }

    #[test]
    fn there_is_always_another_seat_and_all_ages_differ() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        let mut seated: Vec<_> = (0..100).map(|_| seats.sit()).collect();
        let mut ages: Vec<_> = seated.iter_mut().map(|seat| seat.next_age(Age(0))).collect();
        ages.extend(seated.iter_mut().map(|seat| seat.next_age(Age(0))));
        ages.sort_unstable();
        assert!(ages.windows(2).all(|pair| pair[0] < pair[1]), "each there once");
        assert!(ages.iter().all(|age| age.0 != 0));
        assert!(ages.iter().all(|age| seats.is_own(*age)), "all of them are this thread's");
        let others = std::thread::scope(|scope| {
            let look = scope.spawn(|| ages.iter().filter(|age| seats.is_own(**age)).count());
            look.join().expect("looks")
        });
        assert_eq!(others, 0, "none of them is another's");
        let kept = || {
            seats.own.with(|own| {
                let kept = own.all.borrow().iter().filter(|own| own.seat.is_some()).count();
                kept + usize::from(own.has_first())
            })
        };
        drop(seated);
        assert_eq!(kept(), KEPT_SEATS);
        let seated: Vec<_> = (0..100).map(|_| seats.sit()).collect();
        assert_eq!(kept(), 0);
        seated.into_iter().for_each(Seated::leave);
        assert_eq!(kept(), KEPT_SEATS, "whichever way they are given back");
        let numbers: Vec<_> = (0..100).map(|_| seats.sit()).map(|seat| seat.number).collect();
        assert!(numbers.iter().all(|number| *number == 1), "it is the first again");
    }

    #[test]
    fn an_age_is_of_its_seat_when_the_clock_comes_round() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        let mut seat = seats.sit();
        seat.clock = CLOCK_MAX - 1;
        let ages = [(); 3].map(|()| seat.next_age(Age(0)));
        assert!(ages.iter().all(|age| age.0 != 0 && seats.is_own(*age)));
        assert!(ages[0] != ages[1] && ages[1] != ages[2]);
    }

    #[test]
    fn an_age_is_above_the_one_that_it_is_to_be_behind() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        let [mut first, mut second] = [seats.sit(), seats.sit()];
        for _ in 0..10 {
            first.next_age(Age(0));
        }
        let waits = first.next_age(Age(0));
        let before = second.next_age(Age(0));
        let behind = [second.next_age(waits), first.next_age(waits)];
        assert!(before < waits && behind.iter().all(|age| *age > waits));
        // The clocks wrap around together.
        let behind = [first.next_age(Age(u64::MAX)), second.next_age(Age(u64::MAX))];
        assert!(behind.iter().all(|age| *age < waits) && behind[0] != behind[1]);
    }

    #[test]
    fn nobody_uses_again_what_was_left_by_a_panic() {
        let seats = Seats::new(TinyDisk::new(4), GEOMETRY);
        std::thread::scope(|scope| {
            let panics = || {
                let mut seat = seats.sit();
                seat.work.overwritten = Stamp(7);
                std::panic::resume_unwind(Box::new("on purpose"));
            };
            scope.spawn(panics).join().expect_err("panics");
            // It may be where the one before was, which has ended.
            let next = || {
                let seat = seats.sit();
                seat.work.overwritten
            };
            assert_eq!(scope.spawn(next).join().expect("sits"), Stamp(0));
        });
    }
}
