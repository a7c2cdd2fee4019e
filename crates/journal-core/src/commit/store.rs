//! From a transaction's operations to the parts of its record: what the policy makes of them, what
//! that takes, and storing it.
//!
//! A transaction is *prepared* first, which changes nothing and says how large it is, and *stored*
//! when room for it is certain. A policy is a pure function, so both see the same.

use zerocopy::IntoBytes as _;

use crate::commit::batched::Batched;
use crate::commit::error::CommitError;
use crate::commit::operation::{Operation, Operations, image_of};
use crate::commit::patches::PiecesOf;
use crate::commit::prepared::{
    Alike, Content, Decided, Later, Of, Prepared, Scratch, Versions, discards_bytes,
};
use crate::common::Common;
use crate::format::front::{Extent, extent};
use crate::format::record::{FRAMES_PER_PART, Form};
use crate::format::slot_entry::{NAMED_SLOT_BYTES, NamedSlot};
use crate::index::frame::{FrameAt, Full};
use crate::order::ordered::{Hook, Ordered};
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Change, Class, Encoder, Placement, Policy, Update};
use crate::scan::reader::{IndexError, Reader};
use crate::space::lane::{Ends, FreeRoom, Goes, InLane, Lane, Names, OpenRecord};
use crate::space::part::{Encoded, FrameIn, Part, PartStore, WithImage, record_front};
use crate::space::slots::Rewrite;
use crate::units::BlockNumber;

/// Bytes of what a frame says of a slot, as a descriptor has it.
const NAMED_SLOT_LEN: u32 = NAMED_SLOT_BYTES as u32;

/// Puts what a frame says of a slot where the payload begins.
fn put_slot(payload: &mut [u8], named: &NamedSlot) {
    if let Some(to) = payload.get_mut(..NAMED_SLOT_BYTES) {
        to.copy_from_slice(named.as_bytes());
    }
}

/// Where a policy encodes one operation.
struct Room<'r> {
    room: &'r mut [u8],
    /// Whether the policy is lent the old image.
    is_lent: bool,
    alike: Alike,
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// Whether these operations can be one transaction of this journal.
    ///
    /// # Errors
    /// `Empty`, `OutOfDevice`, `NotAscending`, `WrongLength`, `BadRange`.
    #[inline(always)]
    pub fn validate(&self, operations: &[Operation<'_>]) -> Result<(), CommitError> {
        if operations.is_empty() {
            return Err(CommitError::Empty);
        }
        let mut last = None;
        for operation in operations {
            let block = operation.block();
            if !self.has(block) {
                return Err(CommitError::OutOfDevice { block });
            }
            if last.is_some_and(|last| last >= block) {
                return Err(CommitError::NotAscending { block });
            }
            last = Some(block);
            if let Operation::Update(Update { change, .. }) = operation {
                self.validate_change(block, change)?;
            }
        }
        Ok(())
    }

    fn validate_change(&self, block: BlockNumber, change: &Change<'_>) -> Result<(), CommitError> {
        let block_bytes = self.block_bytes();
        if let Some(image) = change.image().filter(|image| image.len() != block_bytes) {
            return Err(CommitError::WrongLength { block, bytes: image.len() });
        }
        let bad = change.first_bad_piece(block_bytes);
        bad.map_or(Ok(()), |range| Err(CommitError::BadRange { block, range }))
    }

    /// The image of an update that is logged as it is, whatever else is to be said of it.
    #[inline]
    fn sure_image<'a>(&self, update: &Update<'a>) -> Option<&'a [u8]> {
        let is_sure = update.old.is_none() && !update.change.is_nothing();
        update.change.image().filter(|_| is_sure && self.policy.logs_images())
    }

    /// The policy's answer, which is not asked where there is nothing to ask.
    #[inline(always)]
    pub(crate) fn placement(
        &self,
        update: &Update<'_>,
        old_check: Option<u64>,
        out: &mut Encoder<'_>,
        goes: Goes,
    ) -> Placement {
        if update.change.is_nothing() {
            return Placement::Unchanged;
        }
        let is_image = update.change.image().is_some();
        match goes {
            Goes::ToSlots if is_image => return Placement::Slot,
            Goes::ToLog if is_image => return Placement::DiskLog,
            Goes::IntoRecord if is_image => return Placement::Image,
            _ => {}
        }
        let placement = match self.sure_image(update) {
            Some(_) => Placement::Image,
            None => match old_check {
                Some(check) => self.policy.place_on(update, check, out),
                None => self.policy.place(update, out),
            },
        };
        let bypasses = goes == Goes::DataToLog && update.class == Class::Data && is_image;
        match placement {
            Placement::Encoded | Placement::Image if bypasses => Placement::DiskLog,
            placement => placement,
        }
    }

    /// What a transaction of these operations writes of each kind, where the policy counts that.
    pub(crate) fn alike(&self, operations: &(impl Operations + ?Sized)) -> Alike {
        let mut alike = Alike::UNKNOWN;
        if self.policy.counts_alike() {
            for at in 0..operations.count() {
                operations.with(at, |operation| alike.add(operation));
            }
        }
        alike
    }

    /// Whether what is meant for a slot, or for home where it cannot go, goes to the disk-side log:
    /// all data does, and there are no slots.
    pub(crate) fn logs_instead(&self, update: &Update<'_>, goes: Goes) -> bool {
        let is_data = update.class == Class::Data && update.change.image().is_some();
        goes == Goes::DataToLog && is_data && self.geometry.lane_slots == 0
    }

    /// Asks the policy for as many of the operations as fit into one part, from `first` on. Returns
    /// the first one that does not belong to it.
    fn place_chunk(
        &self,
        operations: &(impl Operations + ?Sized),
        first: usize,
        scratch: &mut Scratch<'_>,
        taken: &mut FreeRoom,
        free: FreeRoom,
        versions: &mut impl Versions,
    ) -> Result<usize, CommitError> {
        let block_bytes = self.block_bytes();
        let decided = &mut *scratch.decided;
        if decided.some_later {
            decided.later.fill(Later::Nothing);
            decided.some_later = false;
        }
        if first == 0 {
            decided.alike = self.alike(operations);
        }
        let alike = decided.alike;
        let (mut count, mut encoded, mut images, mut appends) =
            (0_usize, 0_usize, 0_usize, 0_usize);
        let mut next = first;
        let all = operations.count();
        for to in &mut decided.frames {
            // A policy always has a whole block of room: its choice must not depend on the update's
            // neighbours.
            let room = encoded..encoded.saturating_add(block_bytes);
            let Some(room) = scratch.encoded.get_mut(room) else { break };
            // An operation that leaves no frame takes no room.
            let placed = loop {
                if next >= all {
                    break None;
                }
                let at = next;
                next = next.saturating_add(1);
                let is_lent = operations.has_lent_old(at);
                let placed = operations.with(at, |operation| {
                    let room = Room { room: &mut *room, is_lent, alike };
                    let placed = self.place_one(operation, room, taken, free, versions)?;
                    Ok(placed.map(|placed| (operation.block(), placed)))
                })?;
                let Some((block, (form, len, later))) = placed else { continue };
                let operation = u32::try_from(at).map_err(|_| CommitError::TooManyFrames)?;
                break Some((FrameIn { block, len, form, operation }, later));
            };
            let Some((frame, later)) = placed else { break };
            *to = frame;
            match frame.form {
                Form::Image => images = images.saturating_add(1),
                Form::Home => appends = appends.saturating_add(1),
                _ => encoded = encoded.saturating_add(frame.len as usize),
            }
            if !matches!(later, Later::Nothing) {
                decided.some_later = true;
                if let Some(to) = decided.later.get_mut(count) {
                    *to = later;
                }
            }
            count = count.saturating_add(1);
        }
        (decided.count, decided.encoded, decided.images, decided.appends) =
            (count, encoded, images, appends);
        Ok(next)
    }

    /// Asks the policy for one operation: its frame's form, how many bytes the payload has, and
    /// what of it is known only later. What lies in the front is put into `room`. `None` when
    /// nothing changes.
    #[inline]
    fn place_one(
        &self,
        operation: &Operation<'_>,
        Room { room, is_lent, alike }: Room<'_>,
        taken: &mut FreeRoom,
        free: FreeRoom,
        versions: &mut impl Versions,
    ) -> Result<Option<(Form, u32, Later)>, CommitError> {
        let update = match operation {
            Operation::Discard(_) => return Ok(Some((Form::Discard, 0, Later::Nothing))),
            Operation::Active(_, active) if versions.is_own(active.slot()) => {
                put_slot(room, &active.named());
                return Ok(Some((Form::Slot, NAMED_SLOT_LEN, Later::Nothing)));
            }
            Operation::Active(block, _) => {
                let (block, placement) = (*block, Placement::Slot);
                return Err(CommitError::CannotPlace { block, placement });
            }
            Operation::Update(update) => update,
        };
        let image = update.change.image();
        let image_len = image.map_or(0, <[u8]>::len);
        let image_len = u32::try_from(image_len).unwrap_or(u32::MAX);
        let in_record = (Form::Image, image_len, Later::Nothing);
        // What the log has no block for goes into the record.
        let in_log = |taken: &mut FreeRoom| {
            let at = taken.log_blocks;
            if at >= free.log_blocks {
                return in_record;
            }
            taken.log_blocks = at.saturating_add(1);
            (Form::Log, NAMED_SLOT_LEN, Later::Logged(at))
        };
        let told;
        let update = match alike.of(update) {
            Some(alike) => {
                told = Update { alike, ..*update };
                &told
            }
            None => update,
        };
        let mut encoder = Encoder::new(room);
        let placement = if is_lent {
            versions.with_old(update.block, image.is_none(), |lent| {
                let (old, check) = (lent.map(|(old, _)| old), lent.and_then(|(_, check)| check));
                self.placement(&Update { old, ..*update }, check, &mut encoder, free.goes)
            })
        } else {
            self.placement(update, None, &mut encoder, free.goes)
        };
        let placed = match placement {
            Placement::Unchanged => return Ok(None),
            Placement::Encoded => {
                let len = u32::try_from(encoder.as_bytes().len()).unwrap_or(u32::MAX);
                (Form::Encoded, len, Later::Nothing)
            }
            Placement::Image if image.is_some() => in_record,
            Placement::Home if versions.may_go_home(update.block) => {
                (Form::Home, 0, Later::Nothing)
            }
            // What cannot go home goes to a slot. What no slot can take goes into the record, or to
            // the log where all data does.
            Placement::Slot | Placement::Home if image.is_some() => {
                let older = versions.older_slot(update.block);
                let is_new = older.is_none();
                if is_new && taken.slots >= free.slots {
                    if self.logs_instead(update, free.goes) { in_log(taken) } else { in_record }
                } else {
                    taken.slots = taken.slots.saturating_add(u32::from(is_new));
                    (Form::Slot, NAMED_SLOT_LEN, Later::Slot { older })
                }
            }
            Placement::DiskLog if image.is_some() => in_log(taken),
            placement => {
                let block = update.block;
                return Err(CommitError::CannotPlace { block, placement });
            }
        };
        Ok(Some(placed))
    }

    /// Computes what a transaction needs, given how many slots and log blocks are free.
    ///
    /// # Errors
    /// `CannotPlace`, `TooManyFrames`, or `Unchanged` when nothing is left to be logged.
    /// `TooManyFrames` also where another part would begin with an operation whose old image is
    /// lent.
    pub fn prepare(
        &self,
        operations: &(impl Operations + ?Sized),
        names: &Names,
        scratch: &mut Scratch<'_>,
        free: FreeRoom,
        versions: &mut impl Versions,
    ) -> Result<Prepared, CommitError> {
        let mut prepared = Prepared { goes: free.goes, ..Prepared::NOTHING };
        if matches!(free.goes, Goes::ByPolicy | Goes::IntoRecord) {
            if let Some(prepared) = self.prepared_images(operations, names) {
                return Ok(prepared);
            }
        }
        let pieces = self.pieces(operations);
        if let Some(of_pieces) = pieces.and_then(|pieces| self.prepared(&pieces, names)) {
            return Ok(Prepared { goes: free.goes, ..of_pieces });
        }
        let noted = u32::try_from(scratch.logged.len()).unwrap_or(u32::MAX);
        let free = FreeRoom { log_blocks: free.log_blocks.min(noted), ..free };
        let mut taken = FreeRoom::default();
        let mut next = 0;
        while next < operations.count() {
            // The caller prepares it anew without what is lent: that is not for several parts.
            if prepared.parts > 0 && operations.has_lent_old(next) {
                return Err(CommitError::TooManyFrames);
            }
            prepared.at_hand = next == 0;
            next = self.place_chunk(operations, next, scratch, &mut taken, free, versions)?;
            let Decided { count, encoded, images, appends, .. } = *scratch.decided;
            if count == 0 {
                continue;
            }
            let names = if prepared.parts == 0 { names.count() } else { 0 };
            let extent = extent(&self.geometry, names, count, encoded, images);
            let Some(Extent { total, .. }) = extent else { return Err(CommitError::TooManyFrames) };
            prepared.bytes = prepared.bytes.saturating_add(total);
            prepared.frames = prepared.frames.saturating_add(count);
            prepared.parts = prepared.parts.saturating_add(1);
            prepared.appends = prepared.appends.saturating_add(appends);
        }
        (prepared.new_slots, prepared.log_blocks) = (taken.slots, taken.log_blocks);
        if prepared.appends > 0 {
            let discards = discards_bytes(&self.geometry, prepared.appends);
            prepared.bytes = prepared.bytes.saturating_add(discards);
        }
        if prepared.frames == 0 { Err(CommitError::Unchanged) } else { Ok(prepared) }
    }

    /// What the transaction takes where nothing has to be asked or kept, since each operation is an
    /// image and logged as that. `None` where that is not so.
    #[inline(always)]
    #[must_use]
    pub fn prepared_images(
        &self,
        operations: &(impl Operations + ?Sized),
        names: &Names,
    ) -> Option<Prepared> {
        let count = operations.count();
        if count == 0 || !self.policy.logs_images() {
            return None;
        }
        if (0..count).any(|at| operations.image_alone(at).is_none()) {
            return None;
        }
        let mut prepared = Prepared { of: Of::Images, ..Prepared::NOTHING };
        let mut names = names.count();
        while prepared.frames < count {
            let of_part = count.saturating_sub(prepared.frames).min(FRAMES_PER_PART);
            let Extent { total, .. } = extent(&self.geometry, names, of_part, 0, of_part)?;
            prepared.bytes = prepared.bytes.saturating_add(total);
            prepared.frames = prepared.frames.saturating_add(of_part);
            prepared.parts = prepared.parts.saturating_add(1);
            names = 0;
        }
        Some(prepared)
    }

    /// Stores a prepared transaction, with the scratch memory as `prepare` has left it. The caller
    /// has seen to it that it fits, that the lane still has as many free slots, and that what goes
    /// home is there.
    ///
    /// Each part's frames are taken in before the next part is stored. Returns how many free slots
    /// were taken.
    pub fn store<P: Pmem, H: Hook, O: Operations + ?Sized>(
        &self,
        lane: &mut InLane<'_, P, H>,
        open: &mut OpenRecord,
        content: &Content<'_, O>,
        scratch: &mut Scratch<'_>,
        versions: &mut impl Versions,
    ) -> u32 {
        match content.prepared.of {
            Of::Any => {}
            Of::Images => {
                self.store_images(lane.lane, open, content, scratch.front, versions);
                return 0;
            }
            Of::Pieces => {
                let Content { operations, names, ends, .. } = *content;
                let pieces = self.pieces(operations);
                let Some(pieces) = &pieces else { unreachable!("policies are deterministic") };
                let content = PiecesOf { operations, pieces, names, ends };
                self.store_pieces(lane.lane, open, &content, scratch.front, versions);
                return 0;
            }
        }
        let Content { operations, names, prepared, ends } = *content;
        let (mut next, mut frames, mut parts) = (0, 0_usize, 0_usize);
        let free = FreeRoom {
            slots: prepared.new_slots,
            log_blocks: prepared.log_blocks,
            goes: prepared.goes,
        };
        let mut placed = FreeRoom::default();
        let mut taken = 0_u32;
        while frames < prepared.frames {
            if !prepared.at_hand {
                let behind =
                    self.place_chunk(operations, next, scratch, &mut placed, free, versions);
                assert!(behind.is_ok_and(|behind| behind > next), "policies are deterministic");
                next = behind.unwrap_or(next);
            }
            let count = scratch.decided.count;
            if count == 0 {
                // Nothing but unchanged updates.
                continue;
            }
            // C7: what is read from slots would wait for what streams.
            if scratch.decided.some_later {
                taken = taken.saturating_add(self.fill_in(lane, open, operations, scratch));
            }
            let lane = &mut *lane.lane;
            frames = frames.saturating_add(count);
            let decided = &*scratch.decided;
            let with_image = |frame: &FrameIn| match frame.form {
                Form::Image => (*frame, image_of(operations, frame)),
                _ => (*frame, &[][..]),
            };
            let part = Part {
                frame_count: count,
                frames: decided.frames.iter().take(count).map(with_image),
                encoded: Encoded::Whole(scratch.encoded.get(..decided.encoded).unwrap_or_default()),
                image_count: decided.images,
                names: if parts == 0 { names } else { &Names::NONE },
                last: ends == Ends::Record && frames == prepared.frames,
            };
            self.store_part_and_take_in(lane, open, &part, scratch.front, versions);
            parts = parts.saturating_add(1);
        }
        taken
    }

    /// Stores a transaction that consists of whole images.
    fn store_images<P: Pmem, H: Hook, O: Operations + ?Sized>(
        &self,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        content: &Content<'_, O>,
        front: &mut [u8],
        versions: &mut impl Versions,
    ) {
        let Content { operations, names, prepared, ends } = *content;
        let mut first = 0_usize;
        while first < prepared.frames {
            let behind = prepared.frames.min(first.saturating_add(FRAMES_PER_PART));
            let frame_count = behind.saturating_sub(first);
            let frame = |at| {
                let (block, image) = operations.image_alone(at).unwrap_or_default();
                let len = u32::try_from(image.len()).unwrap_or(u32::MAX);
                let operation = u32::try_from(at).unwrap_or(u32::MAX);
                (FrameIn { block, len, form: Form::Image, operation }, image)
            };
            let part = Part {
                frame_count,
                frames: (first..behind).map(frame),
                encoded: Encoded::Whole(&[]),
                image_count: frame_count,
                names: if first == 0 { names } else { &Names::NONE },
                last: ends == Ends::Record && behind == prepared.frames,
            };
            self.store_part_and_take_in(lane, open, &part, front, versions);
            first = behind;
        }
    }

    /// Stores one part, and lets `versions` take in its frames.
    #[inline]
    pub(crate) fn store_part_and_take_in<'a, P: Pmem, H: Hook>(
        &self,
        lane: &mut Lane<P, H>,
        open: &mut OpenRecord,
        part: &Part<'a, impl Iterator<Item = WithImage<'a>> + Clone>,
        front: &mut [u8],
        versions: &mut impl Versions,
    ) {
        let (geometry, takes_in_first) = (&self.geometry, versions.takes_in_first());
        let store = PartStore { geometry, front, takes_in_first };
        lane.store_part(
            open,
            part,
            &self.kernels,
            store,
            #[inline(always)]
            |frame| {
                let taken_in = versions.take_in(frame);
                assert!(taken_in.is_ok(), "room for all frames was reserved");
            },
        );
    }

    /// How many bytes a transaction that was just prepared will write to slots, as far as a look at
    /// some words of each tells.
    pub fn slot_bytes<P: Pmem, H: Hook, O: Operations + ?Sized>(
        &self,
        lane: &InLane<'_, P, H>,
        operations: &O,
        prepared: &Prepared,
        scratch: &Scratch<'_>,
    ) -> u64 {
        let new = u64::from(prepared.new_slots).saturating_mul(self.block_bytes() as u64);
        if prepared.parts != 1 || !prepared.at_hand {
            return new;
        }
        let Decided { frames, later, count, .. } = &*scratch.decided;
        let of_older = |(frame, later): (&FrameIn, &Later)| match (*later, lane.lane.slots()) {
            (Later::Slot { older: Some(slot) }, Some(slots)) => {
                let image = image_of(operations, frame);
                let rewrite = Rewrite { slot, image, policy: &self.policy };
                slots.bytes_to_rewrite(lane.states, &rewrite)
            }
            _ => 0,
        };
        let older = frames.iter().zip(later).take(*count).map(of_older);
        older.fold(new, u64::saturating_add)
    }

    /// Writes what goes to slots, and notes in the part's payloads where it is, and where in the
    /// disk-side log what is there.
    #[inline(never)]
    fn fill_in<P: Pmem, H: Hook, O: Operations + ?Sized>(
        &self,
        lane: &mut InLane<'_, P, H>,
        open: &mut OpenRecord,
        operations: &O,
        scratch: &mut Scratch<'_>,
    ) -> u32 {
        let mut taken = 0_u32;
        let Decided { frames, later, count, .. } = &*scratch.decided;
        let mut payload_at = 0_usize;
        for (frame, later) in frames.iter().zip(later).take(*count) {
            let at = payload_at;
            if frame.form != Form::Image {
                payload_at = payload_at.saturating_add(frame.len as usize);
            }
            let named = match *later {
                Later::Nothing => continue,
                Later::Logged(at) => {
                    let logged = scratch.logged.get(at as usize).copied();
                    logged.unwrap_or(Batched::EMPTY).named()
                }
                Later::Slot { older } => {
                    let image = image_of(operations, frame);
                    let Some(slots) = lane.lane.slots_mut() else { continue };
                    let states = &mut *lane.states;
                    let slot = match older {
                        Some(slot) => slot,
                        None => match slots.take(states) {
                            Some(slot) => {
                                taken = taken.saturating_add(1);
                                slot
                            }
                            None => unreachable!("as many are free as were when it was prepared"),
                        },
                    };
                    let written = match older {
                        Some(slot) => {
                            let rewrite = Rewrite { slot, image, policy: &self.policy };
                            slots.rewrite(states, rewrite, scratch.front, open.pace())
                        }
                        None => slots.write(states, slot, image, open.pace()),
                    };
                    if let Some(written) = written {
                        open.add(written);
                    }
                    let content = self.kernels.crc64(self.seeds.content(slot), image).into();
                    NamedSlot { content, slot: slot.raw().into(), reserved: 0.into() }
                }
            };
            put_slot(scratch.encoded.get_mut(at..).unwrap_or_default(), &named);
        }
        taken
    }

    /// Calls for each frame of each record in a lane that has a note, from the lane's head on.
    /// `front` holds a front.
    ///
    /// # Errors
    /// The medium's.
    pub fn each_noted<P: Pmem, H: Hook>(
        &self,
        lane: &Lane<P, H>,
        front: &mut [u8],
        mut call: impl FnMut(&FrameAt, [u64; 2]),
    ) -> Result<(), MediumError> {
        let mut reader = self.reader(lane, front);
        let mut at = lane.head;
        while at < lane.tail() {
            let (noted, next) = reader.note_at(at)?;
            let Some((_, note)) = noted else {
                at = next;
                continue;
            };
            let mut each = |frame: FrameAt| {
                call(&frame, note);
                Ok(())
            };
            at = reader.each_frame(at, &mut each).map_err(|error| match error {
                IndexError::Medium(error) => error,
                IndexError::Full => unreachable!("nothing is put anywhere"),
            })?;
        }
        Ok(())
    }

    pub(crate) fn reader<'r, P: Pmem, H: Hook>(
        &'r self,
        lane: &'r Lane<P, H>,
        front: &'r mut [u8],
    ) -> Reader<'r, Ordered<P, H>, K> {
        Reader {
            ring: lane.ring(),
            lane: lane.number(),
            geometry: &self.geometry,
            identity: &lane.identity,
            kernels: &self.kernels,
            scratch: record_front(front, &self.geometry),
            all: None,
            lap: 0,
        }
    }

    /// Calls with every frame of a record that was stored part by part.
    ///
    /// # Errors
    /// What the call answers, and the medium's where the record cannot be read back: its outcome is
    /// unknown then.
    pub(crate) fn read_frames<P: Pmem, H: Hook>(
        &self,
        lane: &Lane<P, H>,
        open: &OpenRecord,
        front: &mut [u8],
        mut call: impl FnMut(FrameAt) -> Result<(), Full>,
    ) -> Result<(), IndexError> {
        let mut reader = self.reader(lane, front);
        reader.each_frame(open.start, &mut call).map(drop)
    }
}
