//! What an audit says where the medium, or the memory that a journal works in, was damaged on
//! purpose: each fault of a slot is found, and none where nothing was damaged.

use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::units::{LaneNumber, SlotNumber};
use journal_core::{
    AuditError, BlockNumber, Durability, Hook, Journal, MediumErrorKind, Offset, On, Operation,
    Pmem, PortableKernels, Rule, Site, SlotFault, SlotState,
};
use sim_disk::{Fault, FaultKind, Image, Model, Operation as Call, SimDisk, SimPmem, World};

use crate::slots::twice_in_one_record;
use lab::second_reader::versions::entry_check;
use lab::second_reader::{Block, Kind, Shape, counting};

const LANE: LaneNumber = LaneNumber(0);

/// Slots in one lane. They are taken from the last one on.
const SLOTS: Shape = Shape { lane_slots: 4, ..Shape::new(Kind::Delta, 1) };
/// Blocks of the disk-side log there, in two segments. They are taken from the first one on.
const LOG: Shape = Shape { lane_log_blocks: 4, ..Shape::new(Kind::Logged, 1) };

/// What goes wrong on the way to the medium, or in an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// An entry is not written.
    EntryLost,
    /// A bit of it is another one.
    EntryTorn,
    /// The number that begins here in it is one more, and its check is right.
    EntryOther(usize),
    /// An entry is not voided.
    VoidLost,
    /// Nor is it whole.
    VoidTorn,
    /// An open gives back slots that are named.
    HoldersNotFound,
}

impl Hook for Wrong {
    fn keeps(&self, rule: Rule) -> bool {
        *self != Self::HoldersNotFound || rule != Rule::HoldersFound
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        match self {
            Self::VoidLost if site.name == "slot.void" => {}
            Self::VoidTorn if site.name == "slot.void" => pmem.store_u64(at, 1),
            _ => pmem.store_u64(at, value),
        }
    }

    fn write<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        if site.name == "slot.entry" {
            match self {
                Self::EntryLost => return,
                Self::EntryTorn => bytes[24] ^= 1,
                Self::EntryOther(from) => {
                    bytes[*from] += 1;
                    let check = entry_check(&SLOTS.id, at.raw() / 32, &bytes);
                    bytes[24..].copy_from_slice(&check.to_le_bytes());
                }
                _ => {}
            }
        }
        self.write_piece(site, pmem, at, &bytes, bytes.len() as u64);
    }
}

type Audited<'m> = Journal<'m, Kind, On<SimPmem, SimDisk, Wrong>>;

/// Opens a journal, lets something go wrong in it, and does something with it.
fn with<R>(
    shape: &Shape,
    image: Image,
    wrong: Wrong,
    work: impl FnOnce(&World, &mut Audited<'_>) -> R,
) -> R {
    let world = World::boot(image, Model::Torn8);
    let mut buffers = Buffers::new(&shape.geometry(), 32, 4);
    let (pmem, disk, kind) = (world.pmem(), world.disk(0), shape.kind);
    let opened = Journal::open(pmem, disk, kind, wrong, PortableKernels, buffers.borrow());
    work(&world, &mut opened.expect("opens"))
}

fn commit(journal: &mut Audited<'_>, block: u64, content: &Block) {
    let update = Update::new(BlockNumber(block), Change::Image(content));
    let committed = journal.commit(LANE, &[Operation::Update(update)], Durability::Durable);
    committed.expect("commits");
}

/// Changes what is known of slots.
fn damage(journal: &mut Audited<'_>, change: impl FnOnce(&mut [SlotState])) {
    journal.with_active(LANE, |lane, _| change(lane.states)).expect("a lane");
}

fn fault(slot: u32, fault: SlotFault) -> Result<(), AuditError> {
    Err(AuditError::Slot { slot: SlotNumber(slot), fault })
}

/// What an audit says of the entry of a block that was folded.
fn of_a_fold(shape: &Shape, wrong: Wrong) -> Result<(), AuditError> {
    with(shape, shape.format(), wrong, |_, journal| {
        commit(journal, 2, &counting(1));
        assert_eq!(journal.audit(), Ok(()), "before it is folded");
        journal.fold().expect("folds");
        journal.audit()
    })
}

#[test]
fn an_entry_that_a_version_counts_on_is_whole_and_speaks_of_it() {
    for (shape, slot) in [(SLOTS, 3), (LOG, 0)] {
        assert_eq!(of_a_fold(&shape, Wrong::Nothing), Ok(()));
        let others = [0, 8, 16].map(Wrong::EntryOther);
        for wrong in [Wrong::EntryLost, Wrong::EntryTorn].into_iter().chain(others) {
            let said = of_a_fold(&shape, wrong);
            assert_eq!(said, fault(slot, SlotFault::WrongEntry), "{wrong:?}");
        }
    }
}

/// What an audit says when the slot of a folded version was given back, and when it was taken for
/// another block.
fn of_a_void(shape: &Shape, wrong: Wrong) -> [Result<(), AuditError>; 2] {
    with(shape, shape.format(), wrong, |_, journal| {
        commit(journal, 2, &counting(1));
        journal.fold().expect("folds");
        commit(journal, 2, &counting(2));
        assert_eq!(journal.audit(), Ok(()), "before it is given back");
        assert_eq!(journal.collect_garbage().expect("collects garbage").freed_slots, 1);
        let given_back = journal.audit();
        commit(journal, 3, &counting(3));
        [given_back, journal.audit()]
    })
}

#[test]
fn a_free_slot_has_no_entry_and_nobody_has_one_that_it_does_not_know_of() {
    assert_eq!(of_a_void(&SLOTS, Wrong::Nothing), [Ok(()), Ok(())]);
    assert_eq!(of_a_void(&LOG, Wrong::Nothing), [Ok(()), Ok(())]);
    for wrong in [Wrong::VoidLost, Wrong::VoidTorn] {
        let free = fault(3, SlotFault::FreeWithEntry);
        let taken = fault(3, SlotFault::UnknownEntry);
        assert_eq!(of_a_void(&SLOTS, wrong), [free, taken], "{wrong:?}");
        // There another one is taken: the segment is not free yet.
        let free = fault(0, SlotFault::FreeWithEntry);
        assert_eq!(of_a_void(&LOG, wrong), [free, free], "{wrong:?}");
    }
}

#[test]
fn a_slot_that_a_version_has_is_not_free() {
    for (shape, slot) in [(SLOTS, 3), (LOG, 0)] {
        let image = with(&shape, shape.format(), Wrong::Nothing, |world, journal| {
            commit(journal, 2, &counting(1));
            damage(journal, |states| states[slot as usize] = states[slot as usize ^ 1]);
            assert_eq!(journal.audit(), fault(slot, SlotFault::FreeAndHeld));
            world.visible()
        });
        for wrong in [Wrong::Nothing, Wrong::HoldersNotFound] {
            let said = with(&shape, image.clone(), wrong, |_, journal| journal.audit());
            let right = wrong == Wrong::Nothing;
            let expected = if right { Ok(()) } else { fault(slot, SlotFault::FreeAndHeld) };
            assert_eq!(said, expected, "{wrong:?}");
        }
    }
}

/// A transaction takes the same content in for two blocks; a record on a medium that lies has a
/// block twice, in one slot.
#[test]
fn no_two_versions_have_a_slot() {
    for blocks in [1, 2] {
        let said = with(&SLOTS, SLOTS.format(), Wrong::Nothing, |_, journal| {
            let active = journal.with_active(LANE, |lane, common| {
                lane.activate(common, &counting(1)).expect("a slot is free")
            });
            let active = active.expect("a lane");
            let operations = [2, 3].map(|block| Operation::Active(BlockNumber(block), &active));
            journal.commit(LANE, &operations[..blocks], Durability::Durable).expect("commits");
            journal.audit()
        });
        assert_eq!(said, if blocks == 1 { Ok(()) } else { fault(3, SlotFault::HeldTwice) });
    }
    for (slots, expected) in [([0, 1], Ok(())), ([1, 1], fault(1, SlotFault::HeldTwice))] {
        let sample = twice_in_one_record(slots, None);
        let said = with(&sample.shape, sample.image, Wrong::Nothing, |_, journal| journal.audit());
        assert_eq!(said, expected, "{slots:?}");
    }
}

/// What was taken and is given up, or never was, is found; and free again after an open.
#[test]
fn a_slot_that_nobody_has_is_free() {
    let image = with(&SLOTS, SLOTS.format(), Wrong::Nothing, |world, journal| {
        let taken = journal.with_active(LANE, |lane, common| {
            lane.activate(common, &counting(1)).expect("a slot is free").slot()
        });
        assert_eq!(taken, Some(SlotNumber(3)));
        assert_eq!(journal.audit(), fault(3, SlotFault::Lost));
        damage(journal, |states| states[0] = SlotState::EMPTY);
        assert_eq!(journal.audit(), fault(0, SlotFault::Lost), "the first one that is wrong");
        world.visible()
    });
    assert_eq!(with(&SLOTS, image, Wrong::Nothing, |_, journal| journal.audit()), Ok(()));
    with(&LOG, LOG.format(), Wrong::Nothing, |_, journal| {
        let taken = journal.with_active(LANE, |lane, _| lane.take_log_block());
        assert_eq!(taken, Some(Some(SlotNumber(0))));
        assert_eq!(journal.audit(), fault(0, SlotFault::Lost));
    });
}

/// Each of these leaves it said of every slot whether it is free.
#[test]
fn a_list_of_free_slots_has_all_of_them_once() {
    let wrong = |shape: &Shape, change: fn(&mut [SlotState], &[SlotState])| {
        with(shape, shape.format(), Wrong::Nothing, |_, journal| {
            let mut before = Vec::new();
            damage(journal, |states| before = states.to_vec());
            commit(journal, 2, &counting(1));
            damage(journal, |states| change(states, &before));
            journal.audit()
        })
    };
    let as_it_was = |_: &mut [SlotState], _: &[SlotState]| {};
    assert_eq!((wrong(&SLOTS, as_it_was), wrong(&LOG, as_it_was)), (Ok(()), Ok(())));
    // The list is that of 2, 1 and 0. One is left out; it has no end.
    let left_out = wrong(&SLOTS, |states, _| states[2] = states[1]);
    let endless = wrong(&SLOTS, |states, _| states[0] = states[1]);
    // The first segment is open, the second one is the list. The first is not as full as it says;
    // the list has no end.
    let miscounted = wrong(&LOG, |states, _| states[0] = SlotState::EMPTY);
    let endless_log = wrong(&LOG, |states, before| states[2] = before[0]);
    for said in [left_out, endless, miscounted, endless_log] {
        assert_eq!(said, fault(3, SlotFault::WrongList));
    }
    // Nothing else is wrong than that the list, which has all of them, does not end there.
    let said = with(&SLOTS, SLOTS.format(), Wrong::Nothing, |_, journal| {
        damage(journal, |states| states[0] = states[1]);
        journal.audit()
    });
    assert_eq!(said, fault(3, SlotFault::WrongList));
    let said = left_out.expect_err("is wrong").to_string();
    assert_eq!(said, "slot 3: WrongList");
}

#[test]
fn an_entry_that_cannot_be_read_is_an_error_of_the_medium() {
    with(&SLOTS, SLOTS.format(), Wrong::Nothing, |world, journal| {
        let reads = world.operations().of(Call::MemoryRead);
        world.inject(Fault::on(Call::MemoryRead, reads, FaultKind::Error));
        let said = journal.audit().expect_err("an entry cannot be read");
        let is_transient = matches!(
            said, AuditError::Medium(error) if error.kind == MediumErrorKind::Transient);
        assert!(is_transient, "{said}");
        assert_eq!(journal.audit(), Ok(()));
    });
}
