//! Scanning the lanes of a journal that is being opened or examined: all of them by one thread, or
//! some of them by each of several.

use core::marker::PhantomData;

use crate::format::geometry::{Geometry, Protocol};
use crate::format::identity::Identity;
use crate::format::tail_word::decode;
use crate::order::ordered::{Hook, Ordered};
use crate::order::source::{Source, SpanView};
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::scan::error::OpenError;
use crate::scan::reader::Reader;
use crate::scan::walk::{Evidence, Walked};
use crate::space::part::record_front_bytes_max;
use crate::space::ring::RingOf;
use crate::space::superblocks::{LaneStart, Superblock};
use crate::space::tail_word;
use crate::space::tail_word::{LaneEnd, is_unopened};
use crate::units::{LANES_MAX, LINE_BYTES, LaneNumber, Offset, Sequence};

/// A journal that was found in a span, and whose lanes nobody has scanned yet.
///
/// Scanning takes nearly all of the time of an open after a crash. No lane's scan depends on
/// another's, and nothing is written: threads may share this.
#[derive(Debug)]
pub struct Unscanned<'a, P, H> {
    pub(crate) whole: &'a Ordered<P, H>,
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: &'a Geometry,
    pub(crate) identity: &'a Identity,
    pub(crate) brand: Brand<'a>,
}

/// Neither longer nor shorter: what is scanned of one journal opens no other.
pub(crate) type Brand<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// What scanning some lanes, or all, has found.
///
/// It opens the journal that was scanned, at that time:
///
/// ```compile_fail
/// use journal_core::parts::{Found, Indexes, OpenMemory, Scan};
/// use journal_core::{BlockDevice, Hook, Kernels, PmemSplit, Policy};
///
/// fn open<P: PmemSplit, H: Hook + Clone>(
///     found: Found<P, H>,
///     of_another: Scan<'_>,
///     (device, policy, kernels): (impl BlockDevice, impl Policy, impl Kernels),
///     (memory, indexes): (OpenMemory<'_, P, H>, &mut impl Indexes),
/// ) {
///     let _ = found.open_by(device, policy, kernels, memory, indexes, |_, _, _| Ok(of_another));
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a journal opens by the scans of all its lanes"]
pub struct Scan<'a>(pub(crate) Scanned, pub(crate) Brand<'a>);

/// How scanning ends.
pub type Scanning<'a> = Result<Scan<'a>, OpenError>;

impl Scan<'_> {
    /// Joins two scans: the result has the lanes of each.
    pub fn and(mut self, more: Self) -> Self {
        self.0.join(&more.0);
        self
    }
}

impl<'a, P: Pmem, H: Hook> Unscanned<'a, P, H> {
    /// The shape of the journal.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        self.geometry
    }

    /// Every lane.
    pub fn lanes(&self) -> impl Iterator<Item = LaneNumber> + use<P, H> {
        (0..self.geometry.lanes).map(LaneNumber)
    }

    /// Scans some of the lanes, in their order. `front` is as long as
    /// [`Needs::front_bytes`](crate::Needs::front_bytes) says; its content does not matter.
    ///
    /// # Errors
    /// `Medium`; `MemoryTooShort`.
    ///
    /// # Panics
    /// There is no such lane.
    pub fn scan(
        &self,
        lanes: impl IntoIterator<Item = LaneNumber>,
        kernels: &impl Kernels,
        front: &mut [u8],
    ) -> Scanning<'a> {
        let Self { whole, superblock, geometry, identity, brand } = *self;
        // Which records are whole must not depend on how much memory there is.
        let (given, needed) = (front.len(), record_front_bytes_max(geometry));
        let Some(front) = front.get_mut(..needed) else {
            return Err(OpenError::MemoryTooShort { slice: "front bytes", given, needed });
        };
        let lanes = lanes.into_iter().inspect(|lane| {
            assert!(lane.raw() < geometry.lanes, "there is no {lane}");
        });
        let whole = SpanView::of(whole);
        let scanned = scan_lanes(&whole, superblock, geometry, identity, lanes, kernels, front)?;
        Ok(Scan(scanned, brand))
    }
}

/// Scans some lanes of a journal.
pub(crate) fn scan_lanes(
    whole: &SpanView<'_, impl Source>,
    superblock: &Superblock,
    geometry: &Geometry,
    identity: &Identity,
    lanes: impl IntoIterator<Item = LaneNumber>,
    kernels: &impl Kernels,
    scratch: &mut [u8],
) -> Result<Scanned, OpenError> {
    let device_blocks = superblock.header.device_blocks.get();
    let mut scanned = Scanned::of(superblock, geometry);
    for lane in lanes {
        let word_at =
            Offset(geometry.tails().raw().saturating_add(tail_word::offset_of(lane.raw())));
        let tail_word = match geometry.protocol {
            Protocol::OneFence => None,
            Protocol::TailPointer => {
                Some(tail_word::read(&whole.part(word_at, LINE_BYTES as u64))?)
            }
        };
        let ring = RingOf::new(whole.part(geometry.lane(lane), geometry.lane_bytes));
        let scratch = &mut *scratch;
        let mut reader =
            Reader { ring: &ring, lane, geometry, identity, kernels, scratch, all: None, lap: 0 };
        scanned.walk_lane(&mut reader, tail_word, device_blocks)?;
    }
    Ok(scanned)
}

/// Lanes that were walked, and what their headers prove.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    /// No tail word was ever written: they all stand at the heads.
    is_unopened: bool,
    /// Nothing behind a tail word counts, and all before it is durable.
    has_tail_words: bool,
    starts: [LaneStart; LANES_MAX as usize],
    pub(crate) walked: [Option<Walked>; LANES_MAX as usize],
    pub(crate) evidence: Evidence,
    /// The number of the intent that is believed, or the superblock's floor.
    pub(super) batch: u64,
}

impl Scanned {
    /// Nothing walked yet.
    pub(crate) fn of(superblock: &Superblock, geometry: &Geometry) -> Self {
        let mut starts = [LaneStart::from(&Default::default()); LANES_MAX as usize];
        for (start, mark) in starts.iter_mut().zip(superblock.marks()) {
            *start = LaneStart { is_closed: superblock.is_closed(), ..LaneStart::from(mark) };
        }
        let (epoch, generation) = (superblock.epoch(), superblock.generation());
        Self {
            is_unopened: is_unopened(superblock),
            has_tail_words: geometry.protocol == Protocol::TailPointer,
            starts,
            walked: [None; LANES_MAX as usize],
            evidence: Evidence::new(epoch, generation, superblock.stamp_floor()),
            batch: superblock.header.shield_floor.get(),
        }
    }

    /// Walks a lane, up to its tail word if it has one.
    pub(crate) fn walk_lane(
        &mut self,
        reader: &mut Reader<'_, impl Source, impl Kernels>,
        tail_word: Option<u64>,
        device_blocks: u64,
    ) -> Result<(), MediumError> {
        let number = usize::from(reader.lane.raw());
        let lane = self.starts.get(number).zip(self.walked.get_mut(number));
        if let Some((start, walked)) = lane {
            let seed = reader.identity.seeds.tail_word(reader.lane);
            let lane_end = match tail_word {
                None => LaneEnd::Open,
                Some(_) if self.is_unopened => LaneEnd::At(start.head),
                Some(word) => decode(seed, word, start.head, reader.ring.bytes())
                    .map_or(LaneEnd::Rotten, LaneEnd::At),
            };
            let evidence = &mut self.evidence;
            *walked = Some(reader.walk(start, lane_end, device_blocks, evidence)?);
        }
        Ok(())
    }

    /// Takes in what else was walked.
    pub(crate) fn join(&mut self, more: &Self) {
        for (walked, more) in self.walked.iter_mut().zip(more.walked) {
            *walked = more.or(*walked);
        }
        self.evidence.join(&more.evidence);
    }

    /// Whether an earlier open has made a record durable.
    pub(crate) fn is_below_mark(&self, lane: LaneNumber, sequence: Sequence) -> bool {
        let start = self.starts.get(usize::from(lane.raw()));
        start.is_some_and(|start| sequence < start.epoch_first)
    }

    /// Whether a record of a lane, which was accepted, is known durable by anything.
    pub(crate) fn is_known_durable(&self, lane: LaneNumber, sequence: Sequence) -> bool {
        let number = usize::from(lane.raw());
        let proven = self.evidence.durable_to.get(number).is_some_and(|to| sequence < *to);
        self.is_below_mark(lane, sequence) || proven || self.has_tail_words
    }

    /// Ends a lane before a record that was accepted: a slot that it names is torn.
    pub(crate) fn end_before(&mut self, lane: LaneNumber, sequence: Sequence, record: u64) {
        let number = usize::from(lane.raw());
        let Some(Some(walked)) = self.walked.get_mut(number) else { return };
        let dropped = walked.next_sequence.raw().saturating_sub(sequence.raw());
        walked.records = walked.records.saturating_sub(dropped);
        (walked.tail, walked.next_sequence) = (record, sequence);
        (walked.torn_slot, walked.void_behind) = (true, false);
        walked.is_below_tail_word |= self.has_tail_words;
    }

    /// The lanes walked, each with where its walk began.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&LaneStart, &Walked)> + '_ {
        let lanes = self.starts.iter().zip(&self.walked);
        lanes.filter_map(|(start, walked)| Some((start, walked.as_ref()?)))
    }
}
