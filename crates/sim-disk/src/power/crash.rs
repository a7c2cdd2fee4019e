//! Crash points of a tape, and the images that a power loss at each of them may leave.
//!
//! Between two persist points the set of possible images only grows. So it is enough to crash just
//! before each persist point, before everything the program told its caller, and at the end. With
//! durable caches, crashes come before everything and in the middle of it.
//!
//! Where a file was cut and not synced, an instant is one crash point for each number of cuts that
//! may be durable, since they decide what else can be there.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use journal_core::units::WORD_BYTES;

use crate::media::image::{Image, Medium, fingerprint, fingerprint_of_file};
use crate::media::model::{Defect, Rules};
use crate::media::rng::Rng;
use crate::media::tape::{Event, FlushKind, Mark, Tape};
use crate::power::cell::{KnownCells, file_cell, finish};
use crate::power::weather::Weather;

pub use crate::power::cell::Cell;

/// Pasts of the files at one instant beyond which the pasts of one file are tried with the other
/// files as the program sees them.
const PASTS_MAX: usize = 64;

/// Consecutive calls that a sample undoes together.
const UNDONE_TOGETHER_MAX: usize = 4;

/// One instant at which the power may go.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    position: usize,
    marks: Vec<Mark>,
    durable: Arc<Image>,
    fingerprint: u128,
    cells: Vec<Arc<Cell>>,
    /// Which of the cells decide a file's length.
    lengths: Vec<usize>,
}

impl CrashPoint {
    /// How many events of the tape happened before.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// What the program had told its caller by then.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// What the crash decides about, in the order in which it was last written.
    #[must_use]
    pub fn cells(&self) -> &[Arc<Cell>] {
        &self.cells
    }

    /// How many images there are, saturating.
    #[must_use]
    pub fn image_count(&self) -> u128 {
        self.cells.iter().fold(1, |count: u128, cell| count.saturating_mul(cell.options() as u128))
    }

    /// Whether some cell has more options than are listed.
    #[must_use]
    pub fn has_sampled_cells(&self) -> bool {
        self.cells.iter().any(|cell| cell.sampled)
    }

    /// The image in which each cell holds the option that `choice` says.
    ///
    /// # Panics
    /// When `choice` does not name an option for each cell.
    #[must_use]
    pub fn image(&self, choice: &[usize]) -> Image {
        assert_eq!(choice.len(), self.cells.len(), "one option per cell");
        let mut image = Image::clone(&self.durable);
        // Nothing is laid behind the end of a file: lengths come first.
        for index in &self.lengths {
            let (cell, option) = (&self.cells[*index], choice[*index]);
            image.patch(cell.medium, 0, cell.part(option, 0));
        }
        for (cell, option) in self.cells.iter().zip(choice) {
            if *option != 0 && !cell.is_length() {
                for (part, at) in cell.places.iter().enumerate() {
                    image.patch(cell.medium, *at, cell.part(*option, part));
                }
            }
        }
        image
    }

    /// Whether that image holds a part of what disks and files had under way, neither all of it nor
    /// nothing.
    pub(crate) fn leaves_a_disk_in_part(&self, choice: &[usize]) -> bool {
        let (mut all, mut nothing) = (true, true);
        for (cell, option) in self.cells.iter().zip(choice) {
            if cell.medium != Medium::Pmem {
                all &= *option == cell.newest;
                nothing &= *option == 0;
            }
        }
        !all && !nothing
    }

    /// The fingerprint of that image, without making it.
    #[must_use]
    pub fn fingerprint(&self, choice: &[usize]) -> u128 {
        let cells = self.cells.iter().zip(choice);
        if self.lengths.is_empty() {
            let deltas = cells.map(|(cell, option)| cell.deltas[*option]);
            return deltas.fold(self.fingerprint, |sum, delta| sum ^ delta);
        }
        let ends = self.ends(choice);
        let deltas = cells.map(|(cell, option)| cell.delta_before(*option, ends.of(cell.medium)));
        deltas.fold(self.fingerprint, |sum, delta| sum ^ delta)
    }

    /// The lengths that a choice gives to files.
    fn ends(&self, choice: &[usize]) -> Ends {
        let ends = self.lengths.iter().map(|index| {
            let cell = &self.cells[*index];
            (cell.medium, cell.length(choice[*index]))
        });
        Ends(ends.collect())
    }

    /// Whether a choice leaves nothing of a cell, because the file ends before it.
    pub(crate) fn is_behind_the_end(&self, choice: &[usize], cell: &Cell) -> bool {
        let end = self.ends(choice).of(cell.medium);
        cell.places.iter().all(|at| *at >= end)
    }

    /// The fingerprint of a range of that image, without making it. The range need not begin or end
    /// with a word: whole words around it are taken.
    pub(crate) fn part_fingerprint(
        &self,
        choice: &[usize],
        medium: Medium,
        at: u64,
        len: usize,
    ) -> u128 {
        let word = WORD_BYTES as u64;
        let (start, end) = (at / word * word, (at + len as u64).next_multiple_of(word));
        let whole = usize::try_from(end - start).expect("a range of a medium");
        let mut content = self.durable.part(medium, start, whole);
        for (cell, option) in self.cells.iter().zip(choice) {
            if *option != 0 && cell.medium == medium {
                cell.overlay(*option, start, &mut content);
            }
        }
        let inside = self.ends(choice).of(medium).saturating_sub(start);
        let inside = usize::try_from(inside).unwrap_or(usize::MAX).min(whole);
        content[inside..].fill(0);
        fingerprint(medium, start, &content)
    }

    /// All choices where there are at most `images_max`, else a declared sample.
    #[must_use]
    pub fn choices(&self, images_max: u64, random: u32, rng: &mut Rng) -> Choices {
        if self.image_count() <= u128::from(images_max) && !self.has_sampled_cells() {
            let limits = self.cells.iter().map(|cell| cell.options()).collect();
            return Choices::All { limits, next: Some(vec![0; self.cells.len()]) };
        }
        Choices::Sample(self.sample(images_max, random, rng).into_iter())
    }

    /// Samples the images: nothing, everything, each cell alone, all but each, prefixes, suffixes,
    /// and random ones. Each few calls in turn are also undone, which leaves what the calls before
    /// them wrote.
    fn sample(&self, images_max: u64, random: u32, rng: &mut Rng) -> Vec<Vec<usize>> {
        let count = self.cells.len();
        let pick = |keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let cells = self.cells.iter().enumerate();
            cells.map(|(index, cell)| if keep(index) { cell.newest } else { 0 }).collect()
        };
        let mut sample = vec![pick(&|_| false), pick(&|_| true)];
        // A file that grew before its bytes came, and one file before the others.
        for length in &self.lengths {
            sample.push(pick(&|index| index == *length));
            sample.push(pick(&|index| index != *length));
        }
        for file in self.files_under_way() {
            sample.push(pick(&|index| self.cells[index].file() == Some(file)));
            sample.push(pick(&|index| self.cells[index].file() != Some(file)));
        }
        // Four patterns a cell; with more cells than the limit allows, every n-th.
        let room = usize::try_from(images_max / 4).unwrap_or(usize::MAX).max(1);
        let stride = count.div_ceil(room).max(1);
        let first = rng.index(stride);
        for chosen in (first..count).step_by(stride) {
            sample.push(pick(&|index| index == chosen));
            sample.push(pick(&|index| index != chosen));
            sample.push(pick(&|index| index < chosen));
            sample.push(pick(&|index| index > chosen));
        }
        let mut calls: Vec<u64> = self.cells.iter().map(|cell| cell.last_order).collect();
        calls.dedup();
        let windows = (1..=UNDONE_TOGETHER_MAX).flat_map(|length| calls.windows(length));
        for undone in windows.take(room.saturating_mul(4)) {
            let choice = self.cells.iter().map(|cell| {
                let is_undone = undone.contains(&cell.last_order);
                if is_undone { cell.previous } else { cell.newest }
            });
            sample.push(choice.collect());
        }
        for _ in 0..random {
            // Even odds for every option, and now and then a lopsided crash.
            let keep_of_8 = rng.below(8);
            let choice = self.cells.iter().map(|cell| {
                if rng.chance(keep_of_8, 8) { cell.newest } else { rng.index(cell.options()) }
            });
            sample.push(choice.collect());
        }
        sample
    }

    /// The files that something is decided about, if they are several.
    fn files_under_way(&self) -> Vec<u16> {
        let mut files: Vec<u16> = self.cells.iter().filter_map(|cell| cell.file()).collect();
        files.sort_unstable();
        files.dedup();
        if files.len() > 1 { files } else { Vec::new() }
    }
}

/// Where files end, by the medium of their lengths.
struct Ends(Vec<(Medium, u64)>);

impl Ends {
    /// The end of what is on a medium.
    fn of(&self, medium: Medium) -> u64 {
        let Medium::File(number) = medium else { return u64::MAX };
        let length = Medium::FileLength(number);
        let known = self.0.iter().find(|(medium, _)| *medium == length);
        known.map_or(u64::MAX, |(_, end)| *end)
    }
}

/// Choices of one crash point.
#[derive(Debug)]
pub enum Choices {
    /// Every one, counted up like an odometer.
    All {
        /// Options per cell.
        limits: Vec<usize>,
        /// The next choice.
        next: Option<Vec<usize>>,
    },
    /// A sample.
    Sample(std::vec::IntoIter<Vec<usize>>),
}

impl Choices {
    /// Whether this is only a sample.
    #[must_use]
    pub const fn is_sample(&self) -> bool {
        matches!(self, Self::Sample(_))
    }
}

impl Iterator for Choices {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        match self {
            Self::Sample(sample) => sample.next(),
            Self::All { limits, next } => {
                let current = next.take()?;
                let mut following = current.clone();
                for (digit, limit) in following.iter_mut().zip(limits) {
                    *digit += 1;
                    if *digit < *limit {
                        *next = Some(following);
                        break;
                    }
                    *digit = 0;
                }
                Some(current)
            }
        }
    }
}

/// Walks a tape from crash point to crash point.
#[derive(Debug)]
pub struct CrashPoints<'a> {
    tape: &'a Tape,
    weather: Weather,
    /// Events already applied.
    position: usize,
    /// Crash points before this position are passed over.
    first: usize,
    /// Points of the instant that was reached last: see the module about files that were cut.
    due: VecDeque<CrashPoint>,
    /// Whether anything happened since the last crash point.
    changed: bool,
    /// Whether the next point is in the middle of the event at `position`.
    middle_next: bool,
    done: bool,
    known: RefCell<KnownCells>,
}

impl<'a> CrashPoints<'a> {
    /// The crash points of `tape`, played from `start`, at or after the position `first`.
    #[must_use]
    pub fn new(start: &Image, tape: &'a Tape, rules: impl Into<Rules>, first: usize) -> Self {
        let mut points = Self {
            tape,
            weather: Weather::new(start, rules.into()),
            position: 0,
            first,
            due: VecDeque::new(),
            changed: true,
            middle_next: false,
            done: false,
            known: RefCell::default(),
        };
        while points.position < first.min(tape.len()) {
            points.advance();
        }
        points.changed = true;
        points
    }

    fn advance(&mut self) {
        let entry = &self.tape.entries()[self.position];
        self.weather.apply(entry.thread, &entry.event);
        self.position += 1;
        self.changed |= !matches!(
            entry.event,
            Event::Flush { kind: FlushKind::Weak, .. } | Event::OrderStores | Event::Fault(_)
        );
    }

    /// Whether the power has to be cut before the event at `position`.
    fn is_point(&self, event: &Event) -> bool {
        if self.weather.caches_are_durable() {
            return true;
        }
        match event {
            Event::Fence
            | Event::FenceFailed
            | Event::Exchange { .. }
            | Event::Flush { kind: FlushKind::Strong, .. }
            | Event::DiskSync { .. }
            | Event::DiskSyncFailed { .. }
            | Event::FileSync { .. }
            | Event::FileSyncFailed { .. }
            | Event::FileDropped { .. } => true,
            Event::Mark(_) => !self.weather.rules().has(Defect::ReturnIsNoCrashPoint),
            // A defective simulator has persist points where a right one has none.
            Event::Flush { .. } => self.weather.rules().has(Defect::WeakFlushIsStrong),
            Event::Stream { .. } => self.weather.rules().has(Defect::StreamIsDurable),
            Event::Store { .. }
            | Event::OrderStores
            | Event::DiskWrite { .. }
            | Event::FileWrite { .. }
            | Event::Fault(_) => false,
            Event::FileSetLen { .. } => self.weather.rules().has(Defect::FileLengthIsDurable),
        }
    }

    /// The points of this instant.
    fn points(&self, weather: &Weather) -> VecDeque<CrashPoint> {
        pasts(weather).iter().map(|past| self.point(weather, past)).collect()
    }

    fn point(&self, weather: &Weather, past: &[(u16, usize)]) -> CrashPoint {
        let mut durable = Arc::clone(weather.durable());
        let mut sum = weather.fingerprint();
        let mut cells = self.known.borrow_mut().cells(weather);
        let kept = |number| past.iter().find(|(file, _)| *file == number).map_or(0, |(_, n)| *n);
        for (number, pending) in weather.files() {
            let Some(file) = weather.durable().file(number) else { continue };
            let past = pending.past(number, file, weather.rules(), kept(number));
            if let Some(cut) = past.durable {
                sum ^= fingerprint_of_file(number, file) ^ fingerprint_of_file(number, &cut);
                if let Some(file) = Arc::make_mut(&mut durable).file_mut(number) {
                    *file = cut;
                }
            }
            cells.extend(past.cells.into_iter().map(file_cell).map(Arc::new));
        }
        finish(weather, &mut cells);
        let lengths = (0..cells.len()).filter(|index| cells[*index].is_length()).collect();
        let marks = self.tape.marks_before(self.position);
        CrashPoint { position: self.position, marks, durable, fingerprint: sum, cells, lengths }
    }
}

/// How many cuts of which file may be durable: every combination, if they are few.
fn pasts(weather: &Weather) -> Vec<Vec<(u16, usize)>> {
    let counts = weather.files().filter_map(|(number, pending)| {
        let cuts = pending.cuts(weather.durable().file(number)?);
        (cuts > 0).then_some((number, cuts))
    });
    let counts: Vec<(u16, usize)> = counts.collect();
    let combinations = counts.iter().fold(1, |all: usize, (_, cuts)| all.saturating_mul(cuts + 1));
    if combinations <= PASTS_MAX {
        let mut all: Vec<Vec<(u16, usize)>> = vec![Vec::new()];
        for (number, cuts) in counts {
            let with = |past: &Vec<_>, kept| [&past[..], &[(number, kept)]].concat();
            all = all.iter().flat_map(|past| (0..=cuts).map(|kept| with(past, kept))).collect();
        }
        return all;
    }
    let mut some = vec![counts.clone()];
    for (index, (_, cuts)) in counts.iter().enumerate() {
        for kept in (0..*cuts).step_by(cuts.div_ceil(PASTS_MAX)) {
            let mut past = counts.clone();
            past[index].1 = kept;
            some.push(past);
        }
    }
    some
}

impl CrashPoints<'_> {
    /// Goes on to the next instant, and calls with the weather there.
    fn at_next_instant<R>(&mut self, call: impl Fn(&Self, &Weather) -> R) -> Option<R> {
        loop {
            let Some(entry) = self.tape.entries().get(self.position) else {
                if self.done || (!self.changed && self.position > self.first) {
                    return None;
                }
                self.done = true;
                return Some(call(self, &self.weather));
            };
            if self.middle_next {
                self.middle_next = false;
                let middle = self.weather.with_store_under_way(entry.thread, &entry.event);
                let result = call(self, &middle);
                self.advance();
                return Some(result);
            }
            let is_due = self.changed && self.is_point(&entry.event);
            let result = is_due.then(|| call(self, &self.weather));
            self.changed &= !is_due;
            let stored = matches!(entry.event, Event::Store { .. });
            if stored && self.weather.caches_are_durable() {
                self.middle_next = true;
            } else {
                self.advance();
            }
            if result.is_some() {
                return result;
            }
        }
    }

    /// Passes over some points, and works out nothing of them. Returns how many there were.
    fn pass(&mut self, count: usize) -> usize {
        let mut passed = 0;
        while passed < count {
            if self.due.pop_front().is_some() {
                passed += 1;
                continue;
            }
            let left = count - passed;
            let reached = self.at_next_instant(|points, weather| {
                let here = pasts(weather).len();
                if here <= left { (here, VecDeque::new()) } else { (0, points.points(weather)) }
            });
            let Some((here, due)) = reached else { break };
            passed += here;
            self.due = due;
        }
        passed
    }
}

impl Iterator for CrashPoints<'_> {
    type Item = CrashPoint;

    fn next(&mut self) -> Option<CrashPoint> {
        loop {
            if let Some(point) = self.due.pop_front() {
                return Some(point);
            }
            self.due = self.at_next_instant(Self::points)?;
        }
    }

    fn nth(&mut self, index: usize) -> Option<CrashPoint> {
        if self.pass(index) < index { None } else { self.next() }
    }

    fn count(mut self) -> usize {
        self.pass(usize::MAX)
    }
}
