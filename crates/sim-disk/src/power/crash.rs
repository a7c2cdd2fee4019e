//! Crash points of a tape, and the images that a power loss at each of them may leave.
//!
//! Between two persist points the set of possible images only grows. So it is enough to crash just
//! before each persist point, before everything the program told its caller, and at the end. With
//! durable caches, crashes come before everything and in the middle of it.

use std::collections::HashSet;
use std::sync::Arc;

use journal_core::units::WORD_BYTES;

use crate::media::image::{Image, Medium, fingerprint};
use crate::media::model::{Defect, Rules};
use crate::media::rng::Rng;
use crate::media::tape::{Event, FlushKind, Mark, Tape};
use crate::power::weather::{Domain, Piece, Version, Weather};

/// Options per cell beyond which a cell is sampled.
const CELL_OPTIONS_MAX: usize = 1 << 14;

/// Consecutive calls that a sample undoes together.
const UNDONE_TOGETHER_MAX: usize = 4;

/// A place whose content the crash decides, independently of all other cells.
#[derive(Clone, Debug)]
pub struct Cell {
    medium: Medium,
    /// The first byte of each part.
    places: Vec<u64>,
    part_bytes: usize,
    /// All parts' contents, one after the other; the first option is the durable content.
    options: Vec<Box<[u8]>>,
    /// Which option holds everything that was written.
    newest: usize,
    /// Which option holds everything but what the last call wrote.
    previous: usize,
    /// When it was last written, to order cells by.
    last_order: u64,
    /// Whether `options` is a sample.
    sampled: bool,
    /// What each option changes in the fingerprint of the durable image.
    deltas: Vec<u128>,
}

impl Cell {
    fn new(
        medium: Medium,
        places: Vec<u64>,
        part_bytes: usize,
        options: Vec<Vec<u8>>,
        previous: &[u8],
        last_order: u64,
    ) -> Self {
        let newest_content = options.last().cloned().unwrap_or_default();
        let mut known = HashSet::with_capacity(options.len());
        let distinct: Vec<Box<[u8]>> = options
            .into_iter()
            .filter(|option| known.insert(option.clone()))
            .map(Vec::into_boxed_slice)
            .collect();
        let newest = distinct.iter().position(|known| **known == *newest_content).unwrap_or(0);
        let previous = distinct.iter().position(|known| **known == *previous).unwrap_or(0);
        let sum = |content: &[u8]| {
            places
                .iter()
                .zip(content.chunks(part_bytes))
                .fold(0, |sum, (at, part)| sum ^ fingerprint(medium, *at, part))
        };
        let durable = distinct.first().map_or(0, |content| sum(content));
        let deltas = distinct.iter().map(|content| durable ^ sum(content)).collect();
        Self {
            medium,
            places,
            part_bytes,
            options: distinct,
            newest,
            previous,
            last_order,
            sampled: false,
            deltas,
        }
    }

    /// How many contents are possible.
    #[must_use]
    pub fn options(&self) -> usize {
        self.options.len()
    }

    /// Which medium.
    #[must_use]
    pub const fn medium(&self) -> Medium {
        self.medium
    }

    /// The first byte of each part that the cell decides about.
    #[must_use]
    pub fn places(&self) -> &[u64] {
        &self.places
    }

    /// The option that holds everything written.
    #[must_use]
    pub const fn newest(&self) -> usize {
        self.newest
    }

    /// Puts what an option holds of a range into it.
    fn overlay(&self, option: usize, start: u64, content: &mut [u8]) {
        let end = start + content.len() as u64;
        let is_outside = |at: &u64| *at >= end || *at + self.part_bytes as u64 <= start;
        if let [only] = &*self.places {
            // Most cells are one word: this is asked for every cell and every read.
            if is_outside(only) {
                return;
            }
        }
        for (part, at) in self.places.iter().enumerate() {
            let (from, to) = ((*at).max(start), (*at + self.part_bytes as u64).min(end));
            if from < to {
                let bytes = self.part(option, part);
                let (skip, len) = ((from - at) as usize, (to - from) as usize);
                let place = (from - start) as usize;
                content[place..place + len].copy_from_slice(&bytes[skip..skip + len]);
            }
        }
    }

    /// The content of one part in one option.
    #[must_use]
    pub fn part(&self, option: usize, part: usize) -> &[u8] {
        &self.options[option][part * self.part_bytes..(part + 1) * self.part_bytes]
    }
}

/// One instant at which the power may go.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    position: usize,
    marks: Vec<Mark>,
    durable: Arc<Image>,
    fingerprint: u128,
    cells: Vec<Cell>,
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
    pub fn cells(&self) -> &[Cell] {
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
        for (cell, option) in self.cells.iter().zip(choice) {
            if *option != 0 {
                for (part, at) in cell.places.iter().enumerate() {
                    image.patch(cell.medium, *at, cell.part(*option, part));
                }
            }
        }
        image
    }

    /// Whether that image holds a part of what a disk had under way, neither all of it nor nothing.
    pub(crate) fn leaves_a_disk_in_part(&self, choice: &[usize]) -> bool {
        let (mut all, mut nothing) = (true, true);
        for (cell, option) in self.cells.iter().zip(choice) {
            if matches!(cell.medium, Medium::Disk(_)) {
                all &= *option == cell.newest;
                nothing &= *option == 0;
            }
        }
        !all && !nothing
    }

    /// The fingerprint of that image, without making it.
    #[must_use]
    pub fn fingerprint(&self, choice: &[usize]) -> u128 {
        let deltas = self.cells.iter().zip(choice).map(|(cell, option)| cell.deltas[*option]);
        deltas.fold(self.fingerprint, |sum, delta| sum ^ delta)
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
        fingerprint(medium, start, &content)
    }

    /// All choices where there are at most `images_max`, else a declared sample.
    #[must_use]
    pub fn choices(&self, images_max: u64, random: u32, rng: &mut Rng) -> Choices {
        if self.image_count() <= u128::from(images_max) && !self.has_sampled_cells() {
            let limits = self.cells.iter().map(Cell::options).collect();
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
    /// Whether anything happened since the last crash point.
    changed: bool,
    /// Whether the next point is in the middle of the event at `position`.
    middle_next: bool,
    done: bool,
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
            changed: true,
            middle_next: false,
            done: false,
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
            | Event::DiskSyncFailed { .. } => true,
            Event::Mark(_) => !self.weather.rules().has(Defect::ReturnIsNoCrashPoint),
            // A defective simulator has persist points where a right one has none.
            Event::Flush { .. } => self.weather.rules().has(Defect::WeakFlushIsStrong),
            Event::Stream { .. } => self.weather.rules().has(Defect::StreamIsDurable),
            Event::Store { .. }
            | Event::OrderStores
            | Event::DiskWrite { .. }
            | Event::Fault(_) => false,
        }
    }

    fn point(&self, weather: &Weather) -> CrashPoint {
        CrashPoint {
            position: self.position,
            marks: self.tape.marks_before(self.position),
            durable: Arc::clone(weather.durable()),
            fingerprint: weather.fingerprint(),
            cells: cells(weather),
        }
    }
}

impl Iterator for CrashPoints<'_> {
    type Item = CrashPoint;

    fn next(&mut self) -> Option<CrashPoint> {
        loop {
            let Some(entry) = self.tape.entries().get(self.position) else {
                if self.done || (!self.changed && self.position > self.first) {
                    return None;
                }
                self.done = true;
                return Some(self.point(&self.weather));
            };
            if self.middle_next {
                self.middle_next = false;
                let middle = self.weather.with_store_under_way(entry.thread, &entry.event);
                let point = self.point(&middle);
                self.advance();
                return Some(point);
            }
            let due = self.changed && self.is_point(&entry.event);
            let point = due.then(|| self.point(&self.weather));
            self.changed &= !due;
            let stored = matches!(entry.event, Event::Store { .. });
            if stored && self.weather.caches_are_durable() {
                self.middle_next = true;
            } else {
                self.advance();
            }
            if point.is_some() {
                return point;
            }
        }
    }
}

/// What the crash decides about.
fn cells(weather: &Weather) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (_, domain) in weather.domains() {
        domain_cells(weather, domain, &mut cells);
    }
    if weather.rules().has(Defect::DiskKeepsOrder) {
        cells.extend(ordered_disk_cell(weather));
    } else {
        for (disk, at, versions) in weather.units() {
            cells.push(unit_cell(weather, disk, at, versions));
        }
    }
    cells.retain(|cell| cell.options.len() > 1);
    if weather.rules().has(Defect::OnlyOldestAndNewest) {
        cells.iter_mut().for_each(forget_the_middle);
    }
    cells.sort_by_key(|cell| cell.last_order);
    cells
}

fn forget_the_middle(cell: &mut Cell) {
    cell.deltas = vec![cell.deltas[0], cell.deltas[cell.newest]];
    cell.options = vec![cell.options[0].clone(), cell.options[cell.newest].clone()];
    (cell.newest, cell.previous) = (1, 0);
}

/// Words are tied together only where several groups order them; all others decide alone.
fn domain_cells(weather: &Weather, domain: &Domain, cells: &mut Vec<Cell>) {
    let atom = weather.atom_bytes();
    let mut tied: Vec<u64> = Vec::new();
    if domain.groups.len() > 1 {
        let pieces = domain.groups.iter().flat_map(|group| &group.pieces);
        tied = pieces.map(|piece| piece.at).collect();
        tied.sort_unstable();
        tied.dedup();
        cells.push(tied_cell(weather, domain, &tied));
    }
    let cached = domain.groups.iter().flat_map(|group| &group.pieces);
    let all = cached.chain(domain.streams.iter().map(|(_, piece)| piece));
    let mut free: Vec<&Piece> = all.filter(|piece| !tied.contains(&piece.at)).collect();
    free.sort_by_key(|piece| piece.at);
    for atom_pieces in free.chunk_by(|a, b| a.at / atom == b.at / atom) {
        let mut places: Vec<u64> = atom_pieces.iter().map(|piece| piece.at).collect();
        places.dedup();
        cells.push(free_cell(weather, places, &bundle(atom_pieces, atom)));
    }
}

/// Words of which every subset of the stores may be there. Listed by content, since the subsets of
/// many stores to one word are far more than their contents.
fn free_cell(weather: &Weather, places: Vec<u64>, bundles: &[Vec<&Piece>]) -> Cell {
    let mut options = vec![weather.content(&places, [])];
    let mut known: HashSet<Vec<u8>> = options.iter().cloned().collect();
    let mut newest = options[0].clone();
    let mut complete = true;
    let overlay = |content: &mut [u8], bundle: &[&Piece]| {
        for (at, word) in places.iter().zip(content.chunks_mut(WORD_BYTES)) {
            bundle.iter().filter(|piece| piece.at == *at).for_each(|piece| piece.overlay(word));
        }
    };
    for bundle in bundles {
        overlay(&mut newest, bundle);
        for index in 0..options.len() {
            let mut content = options[index].clone();
            overlay(&mut content, bundle);
            if options.len() < CELL_OPTIONS_MAX {
                if known.insert(content.clone()) {
                    options.push(content);
                }
            } else {
                complete &= known.contains(&content);
            }
        }
    }
    options.push(newest);
    let last_order = bundles.iter().flatten().map(|piece| piece.order).max().unwrap_or(0);
    let earlier = bundles.iter().flatten().copied().filter(|piece| piece.order < last_order);
    let previous = weather.content(&places, earlier);
    let mut cell = Cell::new(Medium::Pmem, places, WORD_BYTES, options, &previous, last_order);
    cell.sampled = !complete;
    cell
}

/// Pieces that persist as one: of one call, in one atom.
fn bundle<'a>(pieces: &[&'a Piece], atom: u64) -> Vec<Vec<&'a Piece>> {
    let mut sorted = pieces.to_vec();
    sorted.sort_by_key(|piece| (piece.order, piece.at));
    let same = |a: &&Piece, b: &&Piece| a.order == b.order && a.at / atom == b.at / atom;
    sorted.chunk_by(same).map(<[_]>::to_vec).collect()
}

/// `always` with every subset of `bundles`, from none to all.
fn subsets<'a>(bundles: &[Vec<&'a Piece>], always: &[&'a Piece]) -> Vec<Vec<&'a Piece>> {
    let bits = bundles.len().min(CELL_OPTIONS_MAX.ilog2() as usize);
    (0..1_usize << bits)
        .map(|subset| {
            let chosen = (0..bundles.len()).filter(|index| {
                // Beyond the enumerable ones, bundles follow the last bit.
                subset & (1 << (*index).min(bits.saturating_sub(1))) != 0
            });
            let chosen = chosen.flat_map(|index| bundles[index].iter().copied());
            always.iter().copied().chain(chosen).collect()
        })
        .collect()
}

/// The words of a line that several groups of stores order.
fn tied_cell(weather: &Weather, domain: &Domain, tied: &[u64]) -> Cell {
    let atom = weather.atom_bytes();
    let streams = domain.streams.iter().map(|(_, piece)| piece);
    let streams: Vec<&Piece> = streams.filter(|piece| tied.contains(&piece.at)).collect();
    let stream_sets = subsets(&bundle(&streams, atom), &[]);
    let mut sets: Vec<Vec<&Piece>> = Vec::new();
    let mut before: Vec<&Piece> = Vec::new();
    let mut complete = true;
    for group in &domain.groups {
        let pieces: Vec<&Piece> = group.pieces.iter().collect();
        let cached_sets = subsets(&bundle(&pieces, atom), &before);
        for cached in &cached_sets {
            for stream in &stream_sets {
                if sets.len() < CELL_OPTIONS_MAX {
                    sets.push(cached.iter().chain(stream).copied().collect());
                } else {
                    complete = false;
                }
            }
        }
        before.extend(pieces);
    }
    sets.push(before.iter().chain(&streams).copied().collect());
    let mut cell = pmem_cell(weather, tied.to_vec(), &sets);
    cell.sampled = !complete;
    cell
}

fn pmem_cell(weather: &Weather, places: Vec<u64>, sets: &[Vec<&Piece>]) -> Cell {
    let options =
        sets.iter().map(|pieces| weather.content(&places, pieces.iter().copied())).collect();
    let orders = sets.iter().flatten().map(|piece| piece.order);
    let last_order = orders.max().unwrap_or(0);
    let all = sets.last().into_iter().flatten().copied();
    let previous = weather.content(&places, all.filter(|piece| piece.order < last_order));
    Cell::new(Medium::Pmem, places, WORD_BYTES, options, &previous, last_order)
}

fn unit_cell(weather: &Weather, disk: u16, at: u64, versions: &[Version]) -> Cell {
    let medium = Medium::Disk(disk);
    let len = versions.first().map_or(0, |version| version.bytes.len());
    let mut options = vec![weather.durable().part(medium, at, len)];
    options.extend(weather.garbage(disk, at, len));
    options.extend(versions.iter().map(|version| version.bytes.to_vec()));
    let last_order = versions.last().map_or(0, |version| version.order);
    let previous = match versions {
        [.., before, _] => before.bytes.to_vec(),
        _ => options[0].clone(),
    };
    Cell::new(medium, vec![at], len, options, &previous, last_order)
}

/// Of a disk that (wrongly) keeps its writes in order: one cell of prefixes.
fn ordered_disk_cell(weather: &Weather) -> Option<Cell> {
    let (disk, _, versions) = weather.units().next()?;
    let len = versions.first()?.bytes.len();
    let places: Vec<u64> = weather.units().map(|(_, at, _)| at).collect();
    let mut writes: Vec<(u64, u64, &[u8])> = weather
        .units()
        .flat_map(|(_, at, versions)| versions.iter().map(move |v| (v.order, at, &*v.bytes)))
        .collect();
    writes.sort_by_key(|(order, at, _)| (*order, *at));
    let medium = Medium::Disk(disk);
    let mut content: Vec<u8> =
        places.iter().flat_map(|at| weather.durable().part(medium, *at, len)).collect();
    let mut options = vec![content.clone()];
    for (_, at, bytes) in &writes {
        let part = places.iter().position(|place| place == at)?;
        content[part * len..(part + 1) * len].copy_from_slice(bytes);
        options.push(content.clone());
    }
    let previous = options[options.len().saturating_sub(2)].clone();
    Some(Cell::new(medium, places, len, options, &previous, writes.last()?.0))
}
