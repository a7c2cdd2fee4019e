//! Opening: scan, decide, make durable what was found, begin a new epoch.
//!
//! 1. The newer superblock copy is accepted.
//! 2. Every lane is walked ([`crate::scan`]); the end of each is looked up in the table
//!    ([`crate::decide`]). An error leaves the medium untouched.
//! 3. The index is built from the accepted records, lanes merged by stamp.
//! 4. What was accepted and is not known durable, the superblock copy first of all, tail words with
//!    it, is flushed, and one fence makes it durable: a killed process may have stored it.
//! 5. A superblock of a new epoch is written, twice. From then on the journal is live.
//!
//! **Crash** anywhere in it: the next open finds the same records, because nothing was written but
//! voids of torn entries, tail words, images of an intent, which go home again, and the superblock,
//! which says of each lane just what this open has decided.

use core::marker::PhantomData;

mod frames;

use crate::block_device::BlockDevice;
use crate::check::Kernels;
use crate::common::Common;
use crate::errors::OpenError;
use crate::geometry::{Geometry, GeometryError, Protocol};
use crate::home::{Home, OwnLanes};
use crate::hook::{Hook, Rule};
use crate::identity::Identity;
use crate::index::{Index, Indexes, Lent};
use crate::journal::Journal;
use crate::lane::Lane;
use crate::memory::{JournalMemory, LaneSlot, Needs};
use crate::order::{InFlight, Ordered, OrderedDevice, Unsynced};
use crate::place::Places;
use crate::pmem::{Pmem, PmemRead as _, PmemSplit};
use crate::policy::{Policy, PolicyId};
use crate::record::RecordHeader;
use crate::resolve::AllSlots;
use crate::ring::Ring;
use crate::shield::Shield;
use crate::slot::{self, SlotState, Slots};
use crate::superblock::{self, Superblock, Superblocks, load, superblock_bytes};
use crate::tail::TailWord;
use crate::units::{LINE_BYTES, LaneNumber, Offset, Sequence, Stamp};
use crate::unscanned::{Scan, Scanning, Unscanned};
use crate::verdict::Scanned;

crate::sites! {
    pub(crate) mod site {
        FOUND: Flush = "open.found";
        FOUND_FENCE: Fence = "open.found.fence";
        REPEAT: DiskWrite = "open.repeat";
        REPEAT_SYNC: DiskSync = "open.repeat.sync";
    }
}

/// What an open found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Whole records that count.
    pub records: u64,
    /// Of them, those stored since the open before: acknowledged or not, they were whole.
    pub found: u64,
    /// Lanes that ended with a torn or missing record.
    pub tails: u16,
    /// Lanes that ended with a record which an earlier open had shown absent.
    pub voids: u16,
    /// Of the lanes that ended with a torn record, those whose record was whole, but not the slots
    /// that it names.
    pub torn_slots: u16,
    /// Lanes in which later records of the same epoch lie behind the end.
    pub lanes_with_records_behind: u16,
}

/// Formats a span: an empty journal of this geometry, for a store of so many blocks. Where the
/// geometry has a disk-side log, the device has that many blocks more.
///
/// 1. Whatever journal is there is made void, durably.
/// 2. The new one is built, and its second superblock copy.
/// 3. The first copy makes it count.
///
/// Until it has returned, a crash leaves the journal that was there before, no journal at all
/// ([`SuperblockError::Unfinished`](crate::SuperblockError::Unfinished)), or the new one. Unless the
/// new one is there, format again.
///
/// `id` must be new (random): it keeps records of an earlier journal in the same span from being
/// believed.
///
/// # Errors
/// `Geometry`, with the span untouched, or `Medium`.
pub fn format<P: Pmem, H: Hook>(
    pmem: P,
    hook: H,
    kernels: &impl Kernels,
    geometry: &Geometry,
    id: [u8; 16],
    policy: &impl Policy,
    device_blocks: u64,
) -> Result<(), OpenError> {
    check_fits(geometry, pmem.len())?;
    let empty = Superblock::new(geometry, id, policy.id(), device_blocks);
    let mut whole = Ordered::with_hook(pmem, hook);
    let mut in_flight = Some(superblock::void_all(&mut whole)?);
    if let Some(voided) = slot::void_all(&mut whole, geometry) {
        InFlight::join(&mut in_flight, voided);
    }
    let places = [geometry.second_superblock(), Offset(0)];
    let _ = Superblocks::new(whole, places).store_behind(in_flight, &empty, kernels)?;
    Ok(())
}

pub(crate) fn check_fits(geometry: &Geometry, available: u64) -> Result<(), OpenError> {
    geometry.check().map_err(OpenError::Geometry)?;
    let needed = geometry.span_bytes().ok_or(OpenError::Geometry(GeometryError::Overflow))?;
    if needed > available {
        return Err(OpenError::Geometry(GeometryError::SpanTooSmall { needed, available }));
    }
    Ok(())
}

impl<'m, P, D, L, H, K> Journal<'m, P, D, L, H, K>
where
    P: PmemSplit,
    D: BlockDevice,
    L: Policy,
    H: Hook + Clone,
    K: Kernels,
{
    /// Opens the journal in `pmem`, whatever state a crash left it in.
    ///
    /// # Errors
    /// Any [`OpenError`]. All but `Medium` and `Device` leave the span untouched.
    pub fn open(
        pmem: P,
        device: D,
        policy: L,
        hook: H,
        kernels: K,
        memory: JournalMemory<'m, P, H>,
    ) -> Result<Self, OpenError> {
        let found = Found::load(pmem, hook, &kernels)?;
        if let Some(slice) = memory.too_short(found.geometry()) {
            return Err(OpenError::MemoryTooShort { slice });
        }
        // What is written must not depend on how much memory there is: the next open may have less.
        let needs = Needs::of(found.geometry(), 1);
        let lanes = memory.lanes.get_mut(..needs.lanes).unwrap_or_default();
        let states = memory.slots.get_mut(..needs.slots).unwrap_or_default();
        let front = memory.front.get_mut(..needs.front_bytes).unwrap_or_default();
        let encoded = memory.encoded.get_mut(..needs.encoded_bytes).unwrap_or_default();
        let mut index = Index::new(Lent { entries: memory.entries, nodes: memory.nodes });
        let room = Room {
            lanes: &mut *lanes,
            front: &mut *front,
            block: memory.blocks,
            slots: &mut *states,
        };
        let opened = found.open(device, policy, kernels, room, &mut index)?;
        let Opened { common, home, recovery } = opened;
        Ok(Self {
            common,
            lanes: OwnLanes { lanes, states },
            index,
            home,
            batch: memory.batch,
            front,
            encoded,
            blocks: memory.blocks,
            places: Places::EMPTY,
            recovery,
            failed: false,
        })
    }
}

/// A journal that was found in a span: its shape is known, and nothing has been written.
#[derive(Debug)]
pub struct Found<P, H> {
    whole: Ordered<P, H>,
    hook: H,
    places: [Offset; 2],
    superblock: Superblock,
    geometry: Geometry,
    identity: Identity,
}

/// The memory that opening takes: exactly what [`Needs::of`] says.
#[derive(Debug)]
pub struct Room<'m, P, H> {
    /// One for each lane.
    pub lanes: &'m mut [LaneSlot<P, H>],
    /// Holds a front.
    pub front: &'m mut [u8],
    /// Holds a block, or more.
    pub block: &'m mut [u8],
    /// One for each slot: those of the first lane, then those of the second one, and so on.
    pub slots: &'m mut [SlotState],
}

/// What an open journal consists of, beside its lanes and indexes.
#[derive(Debug)]
pub struct Opened<P, D, L, H, K> {
    /// What nothing changes.
    pub common: Common<L, K>,
    /// What writes home.
    pub home: Home<P, D, H>,
    /// What was found.
    pub recovery: Recovery,
}

impl<P: PmemSplit, H: Hook + Clone> Found<P, H> {
    /// Looks for a journal in a span.
    ///
    /// # Errors
    /// `Superblock`, `Geometry` or `Medium`.
    pub fn load(pmem: P, hook: H, kernels: &impl Kernels) -> Result<Self, OpenError> {
        let whole = Ordered::with_hook(pmem, hook.clone());
        let (places, superblock) = load(&whole, kernels)?;
        let geometry = superblock.geometry()?;
        check_fits(&geometry, whole.len())?;
        let identity = Identity::of(&superblock, kernels);
        Ok(Self { whole, hook, places, superblock, geometry, identity })
    }

    /// The shape of the journal.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The policy that it was formatted with.
    #[must_use]
    pub const fn policy(&self) -> PolicyId {
        PolicyId(self.superblock.head.policy.get())
    }

    /// Its lanes, to be scanned.
    #[must_use]
    pub const fn unscanned(&self) -> Unscanned<'_, P, H> {
        let Self { whole, superblock, geometry, identity, .. } = self;
        Unscanned { whole, superblock, geometry, identity, brand: PhantomData }
    }

    /// Opens it. The indexes are empty, and hold all its frames afterwards.
    ///
    /// # Errors
    /// Any [`OpenError`]. All but `Medium` and `Device` leave the span untouched.
    pub fn open<D: BlockDevice, L: Policy, K: Kernels>(
        self,
        device: D,
        policy: L,
        kernels: K,
        room: Room<'_, P, H>,
        indexes: &mut impl Indexes,
    ) -> Result<Opened<P, D, L, H, K>, OpenError> {
        self.open_by(device, policy, kernels, room, indexes, |lanes, kernels, front| {
            lanes.scan(lanes.lanes(), kernels, front)
        })
    }

    /// The same, with the lanes scanned as the caller likes: all of them, on one thread or more.
    ///
    /// # Errors
    /// Any [`OpenError`], those of the scan among them. All but `Medium` and `Device` leave the
    /// span untouched.
    ///
    /// # Panics
    /// A lane was left out.
    pub fn open_by<D: BlockDevice, L: Policy, K: Kernels>(
        self,
        device: D,
        policy: L,
        kernels: K,
        room: Room<'_, P, H>,
        indexes: &mut impl Indexes,
        scan: impl for<'u> FnOnce(&Unscanned<'u, P, H>, &K, &mut [u8]) -> Scanning<'u>,
    ) -> Result<Opened<P, D, L, H, K>, OpenError> {
        if self.hook.keeps(Rule::PartnersChecked) {
            check_partners(&self.superblock, &self.geometry, &policy, &device)?;
        }
        let Scan(scanned, _) = scan(&self.unscanned(), &kernels, room.front)?;
        let Self { whole, hook, places, mut superblock, geometry, identity } = self;
        assert!(scanned.lanes().count() == usize::from(geometry.lanes), "all lanes were scanned");
        let (head, rest) = whole.into_inner().split_at(geometry.shield())?;
        let (area, rest) = rest.split_at(Offset(geometry.shield_bytes()))?;
        let (tails, rest) = rest.split_at(Offset(geometry.tails_bytes()))?;
        let mut shield = (geometry.shield_blocks > 0).then(|| {
            let area = Ring::new(Ordered::with_hook(area, hook.clone()));
            Shield::new(area, superblock.head.shield_floor.get())
        });
        let mut superblocks = Superblocks::new(Ordered::with_hook(head, hook.clone()), places);
        place_lanes(tails, rest, &hook, &superblock, &geometry, identity, room.lanes)?;

        let mut opening = Opening {
            lanes: room.lanes,
            states: room.slots,
            scanned,
            geometry: &geometry,
            identity: &identity,
            kernels: &kernels,
            front: room.front,
        };
        let intent = opening.find_intent(shield.as_ref(), &superblock)?;
        opening.scanned.judge(&superblock, |rule| opening.keeps(rule))?;
        opening.build(indexes, &superblock)?;
        opening.resolve(indexes)?;
        if opening.keeps(Rule::HomesMadeSure) {
            indexes.each(Index::suspect_homes);
        }
        let recovery = opening.scanned.judge(&superblock, |rule| opening.keeps(rule))?;
        let (by, seeds) = (opening.kernels, identity.seeds);
        opening.slots().check_torn_entries(by, seeds)?;
        let intent = opening.reload_intent(shield.as_ref(), &superblock, intent)?;
        let found = match (&mut shield, &intent) {
            (Some(shield), Some((header, _))) => Some(shield.flush_found(header)),
            _ => None,
        };
        let slots = opening.flush_slots(indexes);
        opening.settle(&mut superblocks, &superblock, [found, slots])?;
        opening.slots().void_torn(by, seeds)?;
        let mut device = OrderedDevice::with_hook(device, hook);
        if let (Some(shield), Some((header, front))) = (&mut shield, intent) {
            let front = opening.front.get(..front).unwrap_or_default();
            repeat_intent(shield, front, &geometry, &mut device, room.block, indexes)?;
            shield.next_batch = header.sequence.get().saturating_add(1);
            superblock.head.shield_floor = shield.next_batch.into();
        }
        opening.slots().give_rest();
        opening.take_over(&mut superblock);
        let _ = superblocks.store(&superblock, &kernels)?;
        let identity =
            Identity { epoch: superblock.epoch(), generation: superblock.generation(), ..identity };
        for lane in room.lanes.iter_mut().filter_map(|slot| slot.0.as_mut()) {
            lane.identity = identity;
        }
        let device_blocks = superblock.head.device_blocks.get();
        Ok(Opened {
            common: Common { policy, kernels, geometry, device_blocks, seeds: identity.seeds },
            home: Home { superblocks, superblock, shield, device, identity, attempt: 1 },
            recovery,
        })
    }
}

fn check_partners(
    superblock: &Superblock,
    geometry: &Geometry,
    policy: &impl Policy,
    device: &impl BlockDevice,
) -> Result<(), OpenError> {
    let (found, given) = (PolicyId(superblock.head.policy.get()), policy.id());
    if found != given {
        return Err(OpenError::WrongPolicy { found, given });
    }
    let blocks = superblock.head.device_blocks.get().saturating_add(geometry.log_blocks());
    let found = (geometry.block_size, blocks);
    let given = (device.block_size(), device.block_count());
    if found != given {
        return Err(OpenError::WrongDevice { found, given });
    }
    Ok(())
}

/// Cuts the lanes out of what is left of the span.
fn place_lanes<P: PmemSplit, H: Hook + Clone>(
    tails: P,
    rest: P,
    hook: &H,
    superblock: &Superblock,
    geometry: &Geometry,
    identity: Identity,
    slots: &mut [LaneSlot<P, H>],
) -> Result<(), OpenError> {
    let rings = geometry.lane_bytes.saturating_mul(geometry.lanes.into());
    let entries = geometry.entries_bytes().saturating_mul(geometry.lanes.into());
    let (rings, rest) = rest.split_at(Offset(rings))?;
    let (mut entries, mut data) = rest.split_at(Offset(entries))?;
    let (mut tails, mut rings) = (tails, rings);
    let notes = superblock.notes().iter().map(crate::superblock::LaneStart::from);
    for ((number, start), slot) in (0..geometry.lanes).zip(notes).zip(slots) {
        let (region, behind) = rings.split_at(Offset(geometry.lane_bytes))?;
        rings = behind;
        let (of_lane, behind) = entries.split_at(Offset(geometry.entries_bytes()))?;
        entries = behind;
        let (slots, behind) = data.split_at(Offset(geometry.slots_bytes()))?;
        data = behind;
        let number = LaneNumber(number);
        let slots = (geometry.lane_places() > 0).then(|| {
            let entries = Ordered::with_hook(of_lane, hook.clone());
            Slots::new(entries, Ordered::with_hook(slots, hook.clone()), number, geometry)
        });
        let mut tail_word = None;
        if geometry.protocol == Protocol::TailPointer {
            let (line, behind) = tails.split_at(Offset(LINE_BYTES as u64))?;
            tails = behind;
            tail_word = Some(TailWord::new(
                Ordered::with_hook(line, hook.clone()),
                identity.seeds.tail_word(number),
            ));
        }
        let ring = Ring::new(Ordered::with_hook(region, hook.clone()));
        let (head, sequence) = (start.head, start.head_sequence);
        let stamp = superblock.stamp_floor();
        let lane = Lane::new(ring, identity, number, head, sequence, stamp);
        *slot = LaneSlot(Some(lane.with(tail_word, slots)));
    }
    Ok(())
}

/// An open under way.
struct Opening<'a, P, H, K> {
    lanes: &'a mut [LaneSlot<P, H>],
    states: &'a mut [SlotState],
    scanned: Scanned,
    geometry: &'a Geometry,
    identity: &'a Identity,
    kernels: &'a K,
    front: &'a mut [u8],
}

/// Reads a lane with what an opening has.
macro_rules! reader {
    ($opening:expr, $lane:expr) => {
        Reader {
            ring: $lane.ring(),
            lane: $lane.number,
            geometry: $opening.geometry,
            identity: $opening.identity,
            kernels: $opening.kernels,
            scratch: &mut *$opening.front,
            all: None,
            lap: 0,
        }
    };
}

use reader;

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    #[inline]
    fn keeps(&self, rule: Rule) -> bool {
        let mut lanes = self.lanes.iter().filter_map(|slot| slot.0.as_ref());
        lanes.next().is_none_or(|lane| lane.ring().keeps(rule))
    }

    /// The intent of a batch that may not have reached home whole; its front is left in the
    /// scratch memory.
    fn find_intent(
        &mut self,
        shield: Option<&Shield<P, H>>,
        superblock: &Superblock,
    ) -> Result<Option<(RecordHeader, usize)>, OpenError> {
        let Some(shield) = shield else { return Ok(None) };
        let device_blocks = superblock.head.device_blocks.get();
        let (geometry, identity) = (self.geometry, self.identity);
        let loaded = shield.load(geometry, identity, device_blocks, self.kernels, self.front);
        let loaded = loaded.map_err(|error| error.of_whole(geometry.shield()))?;
        let Some((header, front)) = loaded else { return Ok(None) };
        let epochs = self.keeps(Rule::OlderEpochVoid);
        let keeps = |rule| rule != Rule::OlderEpochVoid || epochs;
        let believed = self.scanned.take_intent(&header, superblock, keeps);
        Ok(believed.then_some((header, front)))
    }

    /// The front of an intent that is believed, in the scratch memory again.
    fn reload_intent(
        &mut self,
        shield: Option<&Shield<P, H>>,
        superblock: &Superblock,
        intent: Option<(RecordHeader, usize)>,
    ) -> Result<Option<(RecordHeader, usize)>, OpenError> {
        if intent.is_none() || !self.keeps(Rule::IntentReloaded) {
            return Ok(intent);
        }
        self.find_intent(shield, superblock)
    }

    fn slots(&mut self) -> AllSlots<'_, P, H> {
        AllSlots { lanes: self.lanes, states: self.states, geometry: self.geometry }
    }

    /// Drops what names torn slots, and finds out who holds which.
    fn resolve(&mut self, indexes: &mut impl Indexes) -> Result<(), OpenError> {
        if self.geometry.lane_places() == 0 {
            return Ok(());
        }
        let Self { lanes, states, geometry, scanned, kernels, identity, .. } = self;
        let mut slots = AllSlots { lanes, states, geometry };
        slots.resolve(indexes, scanned, *kernels, identity.seeds)?;
        slots.find_holders(indexes);
        Ok(())
    }

    fn flush_slots(&mut self, indexes: &mut impl Indexes) -> Option<InFlight> {
        let Self { lanes, states, geometry, scanned, .. } = self;
        let mut slots = AllSlots { lanes, states, geometry };
        slots.flush_found(indexes, scanned)
    }

    /// Makes durable what was accepted and may be only visible.
    fn settle(
        &mut self,
        superblocks: &mut Superblocks<P, H>,
        superblock: &Superblock,
        more: [Option<InFlight>; 2],
    ) -> Result<(), OpenError> {
        let accepted = superblocks.accepted();
        let pmem = superblocks.pmem_mut();
        let bytes = superblock_bytes(self.geometry.lanes);
        let mut found: InFlight = pmem.flush_found(site::FOUND, accepted, bytes);
        for more in more.into_iter().flatten() {
            found = found.and(more);
        }
        let lanes = self.lanes.iter_mut().filter_map(|slot| slot.0.as_mut());
        for (lane, walked) in lanes.zip(self.scanned.walked.iter().flatten()) {
            let len = walked.tail.saturating_sub(walked.found_from);
            if len > 0 {
                let flushed = lane.ring_mut().flush_found(site::FOUND, walked.found_from, len);
                found = found.and(flushed);
            }
            if let Some(word) = lane.tail_word_mut() {
                found = found.and(word.settle(superblock, walked.tail));
            }
        }
        let _ = superblocks.pmem_mut().fence(site::FOUND_FENCE, found)?;
        Ok(())
    }

    /// Begins a new epoch in memory.
    fn take_over(&mut self, superblock: &mut Superblock) {
        let evidence = &self.scanned.evidence;
        let epoch = evidence.epoch.max(superblock.epoch());
        let generation = evidence.generation.max(superblock.generation());
        let raise = u64::from(self.keeps(Rule::EpochRaised));
        superblock.head.epoch = epoch.raw().saturating_add(raise).into();
        superblock.head.generation = generation.raw().saturating_add(1).into();
        superblock.set_closed(false);
        let found = if self.keeps(Rule::StampFloor) { evidence.stamp } else { Stamp(0) };
        let stamp = found.max(superblock.stamp_floor());
        superblock.head.stamp_floor = stamp.raw().into();
        let lanes = self.lanes.iter_mut().filter_map(|slot| slot.0.as_mut());
        for ((lane, walked), note) in
            lanes.zip(self.scanned.walked.iter().flatten()).zip(superblock.notes_mut())
        {
            let next: Sequence = walked.next_sequence;
            lane.tail = walked.tail;
            lane.flushed_to = walked.tail;
            lane.next_sequence = next;
            lane.durable_to = next;
            lane.last_stamp = stamp;
            note.epoch_first = next.raw().into();
            note.durable_to = next.raw().into();
        }
    }
}

/// Writes the images of an intent home again: a crash may have torn them there. But not over what
/// was appended there since, which is nowhere else.
fn repeat_intent<P: PmemSplit, D: BlockDevice, H: Hook>(
    shield: &Shield<P, H>,
    front: &[u8],
    geometry: &Geometry,
    device: &mut OrderedDevice<D, H>,
    blocks: &mut [u8],
    indexes: &mut impl Indexes,
) -> Result<(), OpenError> {
    let image = blocks.get_mut(..geometry.block_size.bytes()).unwrap_or_default();
    let mut unsynced: Option<Unsynced> = None;
    for (block, stamp, at) in Shield::<P, H>::images(geometry, front) {
        let appended = indexes.of(block, |index| index.was_appended_home(block, stamp));
        if appended && device.keeps(Rule::AppendsNotRepeated) {
            continue;
        }
        shield.read(at, image).map_err(|error| error.of_whole(geometry.shield()))?;
        let written = device.write(site::REPEAT, block, &[image]).map_err(OpenError::Device)?;
        unsynced = Some(match unsynced {
            Some(before) => before.and(written),
            None => written,
        });
    }
    if let Some(unsynced) = unsynced {
        let _ = device.sync(site::REPEAT_SYNC, unsynced).map_err(OpenError::Device)?;
    }
    Ok(())
}
