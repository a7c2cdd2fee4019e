//! What a crash decides: a place, and the contents that it may hold.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use journal_core::units::WORD_BYTES;

use crate::media::image::{Medium, fingerprint};
use crate::media::model::Defect;
use crate::power::files::FileCell;
use crate::power::weather::{Domain, Piece, Version, Weather};

/// Options per cell beyond which a cell is sampled.
const CELL_OPTIONS_MAX: usize = 1 << 14;

/// Up to this many options are looked through one by one. A table finds one of more.
const LOOKED_THROUGH: usize = 16;

/// A place whose content the crash decides, independently of all other cells.
#[derive(Clone, Debug)]
pub struct Cell {
    pub(super) medium: Medium,
    /// The first byte of each part.
    pub(super) places: Vec<u64>,
    part_bytes: usize,
    /// All parts' contents, one after the other; the first option is the durable content.
    pub(super) options: Vec<Box<[u8]>>,
    /// Which option holds everything that was written.
    pub(super) newest: usize,
    /// Which option holds everything but what the last call wrote.
    pub(super) previous: usize,
    /// When it was last written, to order cells by.
    pub(super) last_order: u64,
    /// Whether `options` is a sample.
    pub(super) sampled: bool,
    /// What each option changes in the fingerprint of the durable image.
    pub(super) deltas: Vec<u128>,
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
        let sum = |content: &[u8]| {
            places
                .iter()
                .zip(content.chunks(part_bytes))
                .fold(0, |sum, (at, part)| sum ^ fingerprint(medium, *at, part))
        };
        let newest = options.last().map_or(0, |newest| sum(newest));
        // Most cells have two.
        let is_few = options.len() <= LOOKED_THROUGH;
        let mut known = HashSet::new();
        let mut sums: Vec<u128> = Vec::with_capacity(options.len());
        let mut distinct: Vec<Box<[u8]>> = Vec::with_capacity(options.len());
        for option in options {
            let sum = sum(&option);
            let is_new = if is_few { !sums.contains(&sum) } else { known.insert(sum) };
            if is_new {
                sums.push(sum);
                distinct.push(option.into_boxed_slice());
            }
        }
        let place = |sum: u128| sums.iter().position(|known| *known == sum).unwrap_or(0);
        let (newest, previous) = (place(newest), place(sum(previous)));
        let durable = sums.first().copied().unwrap_or(0);
        let deltas = sums.iter().map(|sum| durable ^ sum).collect();
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
    pub(super) fn overlay(&self, option: usize, start: u64, content: &mut [u8]) {
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

    /// Whether it decides a file's length.
    pub(super) fn is_length(&self) -> bool {
        matches!(self.medium, Medium::FileLength(_))
    }

    /// The length that an option of such a cell gives.
    pub(super) fn length(&self, option: usize) -> u64 {
        let word = self.part(option, 0).first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes(word)
    }

    /// The file that it decides about.
    pub(super) const fn file(&self) -> Option<u16> {
        match self.medium {
            Medium::File(number) | Medium::FileLength(number) => Some(number),
            _ => None,
        }
    }

    /// What an option changes in the fingerprint of the durable image, if nothing exists from `end`
    /// on. The durable image has nothing there.
    pub(super) fn delta_before(&self, option: usize, end: u64) -> u128 {
        if self.places.iter().all(|at| at + self.part_bytes as u64 <= end) {
            return self.deltas[option];
        }
        let share = |option: usize| {
            self.places.iter().enumerate().fold(0, |sum, (part, at)| {
                let mut content = self.part(option, part).to_vec();
                let inside = usize::try_from(end.saturating_sub(*at)).unwrap_or(usize::MAX);
                content[inside.min(self.part_bytes)..].fill(0);
                sum ^ fingerprint(self.medium, *at, &content)
            })
        };
        share(0) ^ share(option)
    }

    /// The content of one part in one option.
    #[must_use]
    pub fn part(&self, option: usize, part: usize) -> &[u8] {
        &self.options[option][part * self.part_bytes..(part + 1) * self.part_bytes]
    }
}

/// Cells of ranges of the memory as they were at the last point. Most stay as they are from one
/// point to the next, and some have thousands of options.
#[derive(Debug, Default)]
pub(super) struct KnownCells {
    /// By the range: what its cells come of, and the cells.
    of_domains: HashMap<u64, (Sources, Vec<Arc<Cell>>)>,
}

/// All that the cells of a range come of.
#[derive(Debug, Default, PartialEq)]
struct Sources {
    /// When, where and which bytes; groups and streams are apart.
    pieces: Vec<(u64, u64, u8)>,
    durable: Vec<u8>,
}

impl Sources {
    fn of(weather: &Weather, domain: &Domain) -> Self {
        const END: (u64, u64, u8) = (u64::MAX, 0, 0);
        let of = |piece: &Piece| (piece.order, piece.at, piece.mask);
        let mut pieces = Vec::new();
        for group in &domain.groups {
            pieces.extend(group.pieces.iter().map(of));
            pieces.push(END);
        }
        pieces.extend(domain.streams.iter().map(|(_, piece)| of(piece)));
        let places: Vec<u64> = pieces.iter().map(|(_, at, _)| *at).collect();
        Self { durable: weather.content(&places, []), pieces }
    }
}

impl KnownCells {
    /// What the crash decides about memory and disks.
    pub(super) fn cells(&mut self, weather: &Weather) -> Vec<Arc<Cell>> {
        let mut cells = Vec::new();
        for (at, domain) in weather.domains() {
            let sources = Sources::of(weather, domain);
            let (known, of_domain) = self.of_domains.entry(at).or_default();
            if *known != sources {
                *known = sources;
                *of_domain = domain_cells(weather, domain);
            }
            cells.extend(of_domain.iter().cloned());
        }
        if weather.rules().has(Defect::DiskKeepsOrder) {
            cells.extend(ordered_disk_cell(weather).map(Arc::new));
        } else {
            for (disk, at, versions) in weather.units() {
                cells.push(Arc::new(unit_cell(weather, disk, at, versions)));
            }
        }
        cells
    }
}

/// Leaves out what is decided, and orders the rest.
pub(super) fn finish(weather: &Weather, cells: &mut Vec<Arc<Cell>>) {
    cells.retain(|cell| cell.options.len() > 1);
    if weather.rules().has(Defect::OnlyOldestAndNewest) {
        cells.iter_mut().for_each(|cell| forget_the_middle(Arc::make_mut(cell)));
    }
    cells.sort_by_key(|cell| cell.last_order);
}

fn forget_the_middle(cell: &mut Cell) {
    cell.deltas = vec![cell.deltas[0], cell.deltas[cell.newest]];
    cell.options = vec![cell.options[0].clone(), cell.options[cell.newest].clone()];
    (cell.newest, cell.previous) = (1, 0);
}

/// Words are tied together only where several groups order them; all others decide alone.
fn domain_cells(weather: &Weather, domain: &Domain) -> Vec<Arc<Cell>> {
    let (atom, mut cells) = (weather.atom_bytes(), Vec::new());
    let mut tied: Vec<u64> = Vec::new();
    if domain.groups.len() > 1 {
        let pieces = domain.groups.iter().flat_map(|group| &group.pieces);
        tied = pieces.map(|piece| piece.at).collect();
        tied.sort_unstable();
        tied.dedup();
        cells.push(Arc::new(tied_cell(weather, domain, &tied)));
    }
    let cached = domain.groups.iter().flat_map(|group| &group.pieces);
    let all = cached.chain(domain.streams.iter().map(|(_, piece)| piece));
    let mut free: Vec<&Piece> = all.filter(|piece| !tied.contains(&piece.at)).collect();
    free.sort_by_key(|piece| piece.at);
    for atom_pieces in free.chunk_by(|a, b| a.at / atom == b.at / atom) {
        let mut places: Vec<u64> = atom_pieces.iter().map(|piece| piece.at).collect();
        places.dedup();
        cells.push(Arc::new(free_cell(weather, places, &bundle(atom_pieces, atom))));
    }
    cells
}

/// Distinct contents of some words. They are listed by content, since the subsets of many stores to
/// one word are far more than their contents.
struct Contents {
    options: Vec<Vec<u8>>,
    /// All options, where they are many.
    known: HashSet<Vec<u8>>,
    /// Whether none had to be left out.
    complete: bool,
}

impl Contents {
    fn of(first: Vec<u8>) -> Self {
        Self { options: vec![first], known: HashSet::new(), complete: true }
    }

    fn has(&mut self, content: &[u8]) -> bool {
        if self.options.len() <= LOOKED_THROUGH {
            return self.options.iter().any(|option| option == content);
        }
        let Self { options, known, .. } = self;
        known.extend(options.iter().skip(known.len()).cloned());
        known.contains(content)
    }

    fn add(&mut self, content: Vec<u8>) {
        if self.has(&content) {
            return;
        }
        let has_room = self.options.len() < CELL_OPTIONS_MAX;
        self.complete &= has_room;
        if has_room {
            self.options.push(content);
        }
    }

    /// Adds each content with this bundle on top.
    fn add_with(&mut self, places: &[u64], bundle: &[&Piece]) {
        for index in 0..self.options.len() {
            let mut content = self.options[index].clone();
            overlay(places, &mut content, bundle);
            self.add(content);
        }
    }

    /// Puts this bundle on top of each content.
    fn put(&mut self, places: &[u64], bundle: &[&Piece]) {
        let complete = self.complete;
        let mut options = core::mem::take(&mut self.options).into_iter().map(|mut content| {
            overlay(places, &mut content, bundle);
            content
        });
        *self = Self { complete, ..Self::of(options.next().unwrap_or_default()) };
        options.for_each(|content| self.add(content));
    }
}

fn overlay(places: &[u64], content: &mut [u8], bundle: &[&Piece]) {
    for (at, word) in places.iter().zip(content.chunks_mut(WORD_BYTES)) {
        bundle.iter().filter(|piece| piece.at == *at).for_each(|piece| piece.overlay(word));
    }
}

/// Words of which every subset of the stores may be there.
fn free_cell(weather: &Weather, places: Vec<u64>, bundles: &[Vec<&Piece>]) -> Cell {
    let mut contents = Contents::of(weather.content(&places, []));
    bundles.iter().for_each(|bundle| contents.add_with(&places, bundle));
    pmem_cell(weather, places, contents, bundles.iter().flatten().copied())
}

/// Pieces that persist as one: of one call, in one atom. By the time of the call.
fn bundle<'a>(pieces: &[&'a Piece], atom: u64) -> Vec<Vec<&'a Piece>> {
    let mut sorted = pieces.to_vec();
    sorted.sort_by_key(|piece| (piece.order, piece.at));
    let same = |a: &&Piece, b: &&Piece| a.order == b.order && a.at / atom == b.at / atom;
    sorted.chunk_by(same).map(<[_]>::to_vec).collect()
}

/// The words of a line that several groups of stores order. All stores of the groups before one are
/// there, and any of that group; beside them any of the streams.
fn tied_cell(weather: &Weather, domain: &Domain, tied: &[u64]) -> Cell {
    let atom = weather.atom_bytes();
    let streams = domain.streams.iter().map(|(_, piece)| piece);
    let streams: Vec<&Piece> = streams.filter(|piece| tied.contains(&piece.at)).collect();
    let durable = weather.content(tied, []);
    let mut all = Contents::of(durable.clone());
    let mut before: Vec<&Piece> = Vec::new();
    for group in &domain.groups {
        let pieces: Vec<&Piece> = group.pieces.iter().collect();
        let certain = bundle(&before, atom).into_iter().map(|bundle| (true, bundle));
        let open = [&pieces, &streams].into_iter().flat_map(|pieces| bundle(pieces, atom));
        let mut bundles: Vec<_> = certain.chain(open.map(|bundle| (false, bundle))).collect();
        bundles.sort_by_key(|(_, bundle)| bundle.first().map(|piece| piece.order));
        let mut contents = Contents::of(durable.clone());
        for (is_certain, bundle) in &bundles {
            match is_certain {
                true => contents.put(tied, bundle),
                false => contents.add_with(tied, bundle),
            }
        }
        let complete = contents.complete;
        contents.options.into_iter().for_each(|content| all.add(content));
        all.complete &= complete;
        before.extend(pieces);
    }
    pmem_cell(weather, tied.to_vec(), all, before.into_iter().chain(streams))
}

/// A cell of words that may have these contents, the newest of which has all of `pieces`.
fn pmem_cell<'a>(
    weather: &Weather,
    places: Vec<u64>,
    contents: Contents,
    pieces: impl Iterator<Item = &'a Piece> + Clone,
) -> Cell {
    let last_order = pieces.clone().map(|piece| piece.order).max().unwrap_or(0);
    let earlier = pieces.clone().filter(|piece| piece.order < last_order);
    let previous = weather.content(&places, earlier);
    let Contents { mut options, complete, .. } = contents;
    options.push(weather.content(&places, pieces));
    let mut cell = Cell::new(Medium::Pmem, places, WORD_BYTES, options, &previous, last_order);
    cell.sampled = !complete;
    cell
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

pub(super) fn file_cell(cell: FileCell) -> Cell {
    let FileCell { medium, at, contents, previous, last_order, is_sample } = cell;
    let len = contents.first().map_or(0, Vec::len);
    let mut cell = Cell::new(medium, vec![at], len, contents, &previous, last_order);
    cell.sampled = is_sample;
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::image::Image;
    use crate::media::model::{Model, Rules};
    use crate::media::tape::{Event, Thread};

    fn options_of(cells: &[Arc<Cell>]) -> Vec<Vec<Box<[u8]>>> {
        cells.iter().map(|cell| cell.options.clone()).collect()
    }

    /// Between two points half a word may become durable, while the other half is as undecided as
    /// it was.
    #[test]
    fn known_cells_are_of_what_is_durable_now() {
        let mut weather = Weather::new(&Image::blank(64), Rules::from(Model::X86Line));
        let mut known = KnownCells::default();
        let half = |byte| [byte; WORD_BYTES / 2].into();
        weather.apply(Thread(0), &Event::Store { at: 0, bytes: half(1) });
        let before = options_of(&known.cells(&weather));
        weather.apply(Thread(1), &Event::Stream { at: 4, bytes: half(2) });
        weather.apply(Thread(1), &Event::Fence);
        let now = options_of(&known.cells(&weather));
        assert_eq!(now, options_of(&KnownCells::default().cells(&weather)));
        assert_ne!(now, before);
    }

    /// Where some contents have to be left out, a sample is of all the others.
    #[test]
    fn a_cell_with_too_many_contents_has_as_many_as_it_may() {
        let mut weather = Weather::new(&Image::blank(64), Rules::from(Model::Arm));
        let mut store = |at, bytes: &[u8]| {
            weather.apply(Thread(0), &Event::Store { at, bytes: bytes.into() });
            if at == 15 {
                weather.apply(Thread(0), &Event::OrderStores);
            }
        };
        (0..16).for_each(|at| store(at, &[1]));
        store(16, &[2; WORD_BYTES]);
        let cells = KnownCells::default().cells(&weather);
        let [cell] = &cells[..] else { panic!("one cell: {cells:?}") };
        assert!(cell.sampled && cell.options() >= CELL_OPTIONS_MAX, "{}", cell.options());
    }
}
