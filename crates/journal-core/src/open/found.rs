//! Opening: scan, decide, make durable what was found, begin a new epoch.
//!
//! 1. [`Found::load`] accepts the newer superblock copy. [`Found::open_by`] does the rest, and
//!    begins by checking that policy and device suit the copy.
//! 2. Every lane is walked ([`crate::scan::walk`]): records that are whole
//!    ([`crate::scan::reader`]) are accepted.
//! 3. The end of each lane is looked up in the table ([`crate::scan::decide`]).
//! 4. The index is built from the accepted records, lanes merged by stamp. Torn slots may end lanes
//!    earlier. Each block found is suspect at home. The table is asked again. An error up to here
//!    leaves the medium untouched.
//! 5. What was accepted and is not known durable is flushed: the intent, slots and their entries,
//!    the superblock copy, records and tail words. One fence makes it durable, since a killed
//!    process may have stored it. Then torn slot entries are voided, and a believed intent goes
//!    home again.
//! 6. A superblock of a new epoch is written, twice. From then on the journal is live.
//!
//! **Crash** anywhere in it: the next open finds the same records. The open has written only voids
//! of torn entries, tail words, images of an intent, and the superblock. The images go home again,
//! and the superblock says of each lane just what this open has decided.

use core::marker::PhantomData;

use crate::common::Common;
use crate::format::geometry::{Geometry, Protocol};
use crate::format::identity::Identity;
use crate::format::record::RecordHeader;
use crate::home::Home;
use crate::home::shield::Shield;
use crate::index::{Index, Indexes};
use crate::open::torn_slots::AllSlots;
use crate::order::ordered::{Hook, InFlight, Ordered, OrderedDevice, Unsynced};
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::{Pmem, PmemRead as _, PmemSplit};
use crate::ports::policy::{Policy, PolicyId};
use crate::scan::error::OpenError;
use crate::scan::intent;
use crate::scan::lanes::{Scan, Scanned, Scanning, Unscanned};
use crate::scan::verdict::Recovery;
use crate::space::lane::{Lane, LaneMemory};
use crate::space::part::front_bytes_max;
use crate::space::ring::Ring;
use crate::space::slot_state::SlotState;
use crate::space::slots::Slots;
use crate::space::superblocks::{self, Superblock, Superblocks};
use crate::space::tail_word::TailWord;
use crate::units::{LINE_BYTES, LaneNumber, Offset, Sequence, Stamp};

crate::sites! {
    pub(crate) mod site {
        FOUND: Flush = "open.found";
        FOUND_FENCE: Fence = "open.found.fence";
        REPEAT: DiskWrite = "open.repeat";
        REPEAT_SYNC: DiskSync = "open.repeat.sync";
    }
}

/// A journal that was found in a span: its shape is known, and nothing has been written.
#[derive(Debug)]
pub struct Found<P, H> {
    pub(super) whole: Ordered<P, H>,
    hook: H,
    offsets: [Offset; 2],
    pub(super) superblock: Superblock,
    pub(super) geometry: Geometry,
    pub(super) identity: Identity,
    resizes: bool,
}

/// The memory that opening takes: exactly what [`Needs::of`](crate::owner::memory::Needs::of) says.
#[derive(Debug)]
pub struct OpenMemory<'m, P, H> {
    /// One for each lane.
    pub lanes: &'m mut [LaneMemory<P, H>],
    /// Holds a front.
    pub front: &'m mut [u8],
    /// Holds a block, or more.
    pub block: &'m mut [u8],
    /// One for each slot: those of the first lane, then those of the second one, and so on.
    pub slots: &'m mut [SlotState],
}

/// What an open journal consists of, beside its lanes and indexes.
#[derive(Debug)]
pub struct Opened<L, P, D, H, K> {
    /// What nothing changes.
    pub common: Common<L, K>,
    /// What writes home.
    pub home: Home<P, D, H>,
    /// What was found.
    pub recovery: Recovery,
}

impl<P: Pmem, H: Hook + Clone> Found<P, H> {
    /// Looks for a journal in a span.
    ///
    /// # Errors
    /// `Superblock`, `Geometry` or `Medium`.
    pub fn load(pmem: P, hook: H, kernels: &impl Kernels) -> Result<Self, OpenError> {
        let whole = Ordered::with_hook(pmem, hook.clone());
        let (offsets, superblock) = superblocks::load(&whole, kernels)?;
        let geometry = superblock.geometry()?;
        geometry.check_fits(whole.len()).map_err(OpenError::Geometry)?;
        let identity = Identity::of(&superblock.header, kernels);
        Ok(Self { whole, hook, offsets, superblock, geometry, identity, resizes: false })
    }

    /// Whether the open lets the store have the size of the device that it is given. The open
    /// refuses a smaller device if a frame that it has found, or a believed intent, names a block
    /// that the device lacks.
    ///
    /// A store with a disk-side log keeps its size: the log lies behind the last block. A store
    /// with slots can become larger only: what is left in a slot may name any block there was. A
    /// device that [may not resize](BlockDevice::may_resize) is refused.
    #[must_use]
    pub fn resizing(self, on: bool) -> Self {
        Self { resizes: on, ..self }
    }

    /// The shape of the journal.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The policy that it was formatted with.
    #[must_use]
    pub const fn policy(&self) -> PolicyId {
        PolicyId(self.superblock.header.policy.get())
    }

    /// Whether the journal is of this policy, and belongs to a device of this shape.
    ///
    /// # Errors
    /// `WrongPolicy`, `WrongDevice`.
    pub fn suits(&self, policy: &impl Policy, device: &impl BlockDevice) -> Result<(), OpenError> {
        check_partners(&self.superblock, &self.geometry, policy, device, self.resizes).map(drop)
    }

    /// Its lanes, to be scanned.
    #[must_use]
    pub const fn unscanned(&self) -> Unscanned<'_, P, H> {
        let Self { whole, superblock, geometry, identity, .. } = self;
        Unscanned { whole, superblock, geometry, identity, brand: PhantomData }
    }
}

impl<P: PmemSplit, H: Hook + Clone> Found<P, H> {
    /// Opens it. The indexes are empty, and hold all its frames afterwards.
    ///
    /// # Errors
    /// Any [`OpenError`]. All but `Medium` and `Device` leave the span untouched.
    pub fn open<D: BlockDevice, L: Policy, K: Kernels>(
        self,
        device: D,
        policy: L,
        kernels: K,
        memory: OpenMemory<'_, P, H>,
        indexes: &mut impl Indexes,
    ) -> Result<Opened<L, P, D, H, K>, OpenError> {
        self.open_by(device, policy, kernels, memory, indexes, |lanes, kernels, front| {
            lanes.scan(lanes.lanes(), kernels, front)
        })
    }

    /// Like [`open`](Self::open), with the lanes scanned as the caller likes: all of them, on one
    /// thread or more.
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
        memory: OpenMemory<'_, P, H>,
        indexes: &mut impl Indexes,
        scan: impl for<'u> FnOnce(&Unscanned<'u, P, H>, &K, &mut [u8]) -> Scanning<'u>,
    ) -> Result<Opened<L, P, D, H, K>, OpenError> {
        // 1. The superblock copy that `load` has accepted suits policy and device.
        let device_blocks = if self.hook.keeps(Rule::PartnersChecked) {
            check_partners(&self.superblock, &self.geometry, &policy, &device, self.resizes)?
        } else {
            self.superblock.header.device_blocks.get()
        };
        // 2. Every lane is walked.
        // An intent is not read where there is too little memory for its front.
        let (given, needed) = (memory.front.len(), front_bytes_max(&self.geometry));
        let Some(front) = memory.front.get_mut(..needed) else {
            return Err(OpenError::MemoryTooShort { slice: "front bytes", given, needed });
        };
        let Scan(scanned, _) = scan(&self.unscanned(), &kernels, front)?;
        let Self { whole, hook, offsets, mut superblock, geometry, identity, .. } = self;
        assert!(scanned.lanes().count() == usize::from(geometry.lanes), "all lanes were scanned");
        let (head, rest) = whole.into_inner().split_at(geometry.shield())?;
        let (area, rest) = rest.split_at(Offset(geometry.shield_bytes()))?;
        let (tails, rest) = rest.split_at(Offset(geometry.tails_bytes()))?;
        let mut shield = (geometry.shield_blocks > 0).then(|| {
            let area = Ring::new(Ordered::with_hook(area, hook.clone()));
            Shield::new(area, superblock.header.shield_floor.get())
        });
        let mut superblocks = Superblocks::new(Ordered::with_hook(head, hook.clone()), offsets);
        place_lanes(tails, rest, &hook, &superblock, &geometry, identity, memory.lanes)?;

        let mut opening = Opening {
            lanes: memory.lanes,
            states: memory.slots,
            scanned,
            geometry: &geometry,
            identity: &identity,
            kernels: &kernels,
            front,
        };
        // 3. The end of each lane is looked up in the table.
        let intent = opening.find_intent(shield.as_ref(), &superblock)?;
        opening.scanned.judge(&superblock, |rule| opening.keeps(rule))?;
        // 4. The index is built. Torn slots may end lanes earlier, so the table is asked again.
        opening.build(indexes, &superblock)?;
        opening.resolve(indexes)?;
        if opening.keeps(Rule::HomesMadeSure) {
            indexes.each(Index::suspect_homes);
        }
        let mut recovery = opening.scanned.judge(&superblock, |rule| opening.keeps(rule))?;
        if superblock.has_notes() {
            superblock.noted = opening.newest_note(superblock.noted)?;
            recovery.note = superblock.noted.map(|(_, note)| note);
        }
        let (by, seeds) = (opening.kernels, identity.seeds);
        opening.slots().check_torn_entries(by, seeds)?;
        let intent = opening.reload_intent(shield.as_ref(), &superblock, intent)?;
        let found_blocks = superblock.header.device_blocks.get();
        let is_shorter = device_blocks < found_blocks;
        let front = intent.as_ref().and_then(|(_, front)| opening.front.get(..*front));
        let in_intent = Shield::<P, H>::images(&geometry, front.unwrap_or_default())
            .any(|(block, ..)| block.raw() >= device_blocks);
        if is_shorter && (in_intent || names_from(indexes, device_blocks)) {
            let [found, given] = [found_blocks, device_blocks].map(|of| (geometry.block_size, of));
            return Err(OpenError::WrongDevice { found, given });
        }
        // 5. What was accepted is made durable, torn entries are voided, and a believed intent goes
        //    home again.
        let intent_in_flight = match (&mut shield, &intent) {
            (Some(shield), Some((header, _))) => Some(shield.flush_found(header)),
            _ => None,
        };
        let slots = opening.flush_slots(indexes);
        opening.make_durable(&mut superblocks, &superblock, [intent_in_flight, slots])?;
        opening.slots().void_torn(by, seeds)?;
        let mut device = OrderedDevice::with_hook(device, hook);
        if let (Some(shield), Some((header, front))) = (&mut shield, intent) {
            let front = opening.front.get(..front).unwrap_or_default();
            repeat_intent(shield, front, &geometry, &mut device, memory.block, indexes)?;
            shield.next_batch = header.sequence.get().saturating_add(1);
            superblock.header.shield_floor = shield.next_batch.into();
        }
        // 6. The superblock of a new epoch is written, twice. Where the store gets another size, a
        //    second one is, of a generation that no open after a crash would write. So a torn copy
        //    of it can never be made whole by what the next open writes over it.
        opening.slots().give_rest();
        opening.take_over(&mut superblock);
        let _ = superblocks.store(&superblock, &kernels)?;
        if device_blocks != found_blocks {
            superblock.header.generation = superblock.generation().raw().saturating_add(2).into();
            superblock.set_closed(false);
            superblock.header.device_blocks = device_blocks.into();
            let _ = superblocks.store(&superblock, &kernels)?;
        }
        let identity =
            Identity { epoch: superblock.epoch(), generation: superblock.generation(), ..identity };
        for lane in memory.lanes.iter_mut().filter_map(|lane| lane.0.as_mut()) {
            lane.identity = identity;
        }
        Ok(Opened {
            common: Common { policy, kernels, geometry, device_blocks, seeds: identity.seeds },
            home: Home { superblocks, superblock, shield, device, identity, attempt: 1 },
            recovery,
        })
    }
}

/// An open under way.
pub(crate) struct Opening<'a, P, H, K> {
    pub(super) lanes: &'a mut [LaneMemory<P, H>],
    pub(super) states: &'a mut [SlotState],
    pub(super) scanned: Scanned,
    pub(super) geometry: &'a Geometry,
    pub(super) identity: &'a Identity,
    pub(super) kernels: &'a K,
    pub(super) front: &'a mut [u8],
}

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        let mut lanes = self.lanes.iter().filter_map(|lane| lane.0.as_ref());
        lanes.next().is_none_or(|lane| lane.ring().keeps(rule))
    }

    pub(crate) fn slots(&mut self) -> AllSlots<'_, P, H> {
        AllSlots { lanes: self.lanes, states: self.states, geometry: self.geometry }
    }

    /// The intent of a batch that may not have reached home whole; its front is left in the
    /// scratch memory.
    fn find_intent(
        &mut self,
        shield: Option<&Shield<P, H>>,
        superblock: &Superblock,
    ) -> Result<Option<(RecordHeader, usize)>, OpenError> {
        let Some(shield) = shield else { return Ok(None) };
        let device_blocks = superblock.header.device_blocks.get();
        let (geometry, identity) = (self.geometry, self.identity);
        let (area, kernels) = (shield.area(), self.kernels);
        let loaded = intent::load(area, geometry, identity, device_blocks, kernels, self.front);
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

    /// Drops what names torn slots, and finds out which version holds which slot.
    fn resolve(&mut self, indexes: &mut impl Indexes) -> Result<(), OpenError> {
        if self.geometry.lane_slots_and_log() == 0 {
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
    fn make_durable(
        &mut self,
        superblocks: &mut Superblocks<P, H>,
        superblock: &Superblock,
        more: [Option<InFlight>; 2],
    ) -> Result<(), OpenError> {
        let accepted = superblocks.accepted();
        let pmem = superblocks.pmem_mut();
        let bytes = superblock.bytes();
        let mut found: InFlight = pmem.flush_found(site::FOUND, accepted, bytes);
        for more in more.into_iter().flatten() {
            found = found.and(more);
        }
        let lanes = self.lanes.iter_mut().filter_map(|lane| lane.0.as_mut());
        for (lane, walked) in lanes.zip(self.scanned.walked.iter().flatten()) {
            let len = walked.tail.saturating_sub(walked.found_from);
            if len > 0 {
                let flushed = lane.ring_mut().flush_found(site::FOUND, walked.found_from, len);
                found = found.and(flushed);
            }
            if let Some(word) = lane.tail_word_mut() {
                found = found.and(word.put_in_flight(superblock, walked.tail));
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
        superblock.header.epoch = epoch.raw().saturating_add(raise).into();
        superblock.header.generation = generation.raw().saturating_add(1).into();
        superblock.set_closed(false);
        let found = if self.keeps(Rule::StampFloor) { evidence.stamp } else { Stamp(0) };
        let stamp = found.max(superblock.stamp_floor());
        superblock.header.stamp_floor = stamp.raw().into();
        let lanes = self.lanes.iter_mut().filter_map(|lane| lane.0.as_mut());
        for ((lane, walked), mark) in
            lanes.zip(self.scanned.walked.iter().flatten()).zip(superblock.marks_mut())
        {
            let next: Sequence = walked.next_sequence;
            lane.tail = walked.tail;
            lane.flushed_to = walked.tail;
            lane.next_sequence = next;
            lane.durable_to = next;
            lane.last_stamp = stamp;
            mark.epoch_first = next.raw().into();
            mark.durable_to = next.raw().into();
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

/// Checks that policy and device suit a journal; returns how many blocks its store has from now on.
fn check_partners(
    superblock: &Superblock,
    geometry: &Geometry,
    policy: &impl Policy,
    device: &impl BlockDevice,
    resizes: bool,
) -> Result<u64, OpenError> {
    let (found, given) = (PolicyId(superblock.header.policy.get()), policy.id());
    if found != given {
        return Err(OpenError::WrongPolicy { found, given });
    }
    let of_store = superblock.header.device_blocks.get();
    let found = (geometry.block_size, of_store.saturating_add(geometry.log_blocks()));
    let given = (device.block_size(), device.block_count());
    if found == given {
        return Ok(of_store);
    }
    let is_larger = given.1 > found.1;
    let suits = given.0 == found.0 && geometry.log_blocks() == 0 && given.1 > 0;
    let may = resizes && device.may_resize();
    if may && suits && (is_larger || geometry.lane_slots == 0) {
        return Ok(given.1);
    }
    Err(OpenError::WrongDevice { found, given })
}

/// Whether a frame is of one of the blocks from `first` on.
fn names_from(indexes: &mut impl Indexes, first: u64) -> bool {
    let mut any = false;
    indexes.each(|index| {
        any |= index.all().any(|id| index.frame(id).block.raw() >= first);
    });
    any
}

/// Cuts the lanes out of what is left of the span.
fn place_lanes<P: PmemSplit, H: Hook + Clone>(
    tails: P,
    rest: P,
    hook: &H,
    superblock: &Superblock,
    geometry: &Geometry,
    identity: Identity,
    of_lanes: &mut [LaneMemory<P, H>],
) -> Result<(), OpenError> {
    let rings = geometry.lane_bytes.saturating_mul(geometry.lanes.into());
    let entries = geometry.entries_bytes().saturating_mul(geometry.lanes.into());
    let (rings, rest) = rest.split_at(Offset(rings))?;
    let (mut entries, mut data) = rest.split_at(Offset(entries))?;
    let (mut tails, mut rings) = (tails, rings);
    let marks = superblock.marks().iter().map(crate::space::superblocks::LaneStart::from);
    for ((number, start), of_lane) in (0..geometry.lanes).zip(marks).zip(of_lanes) {
        let (region, behind) = rings.split_at(Offset(geometry.lane_bytes))?;
        rings = behind;
        let (lane_entries, behind) = entries.split_at(Offset(geometry.entries_bytes()))?;
        entries = behind;
        let (slots, behind) = data.split_at(Offset(geometry.slots_bytes()))?;
        data = behind;
        let number = LaneNumber(number);
        let slots = (geometry.lane_slots_and_log() > 0).then(|| {
            let entries = Ordered::with_hook(lane_entries, hook.clone());
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
        *of_lane = LaneMemory(Some(lane.with(tail_word, slots)));
    }
    Ok(())
}
