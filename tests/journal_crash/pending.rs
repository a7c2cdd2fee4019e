//! The call that a thread is about to make. It is marked when the thread stores the first of its
//! record, and so has all its blocks. The thread may store other records before: that of the
//! running transaction, and those that make room.

use core::cell::Cell;

use journal_core::{Rule, Site};
use lab::oracle::{Block, late, number_in};
#[cfg(shuttle)]
use shuttle::thread_local;
use sim_disk::World;

#[derive(Clone, Copy)]
struct Pending {
    number: u64,
    label: u64,
    /// Whether the policy was shown a content of it.
    is_placed: bool,
    /// Whether the policy was shown another content, for the record that is begun next.
    is_another_placed: bool,
    /// Whether the record that was begun last is its own.
    is_begun: bool,
}

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "the explorer's macro knows no const")]
    static PENDING: Cell<Option<Pending>> = Cell::new(None);
}

fn set(pending: Option<Pending>) {
    PENDING.with(|cell| cell.set(pending));
}

/// This thread is about to make a call of this number.
pub(crate) fn expect(number: u64, label: u64) {
    let (is_placed, is_another_placed, is_begun) = (false, false, false);
    let label = late(label);
    set(Some(Pending { number, label, is_placed, is_another_placed, is_begun }));
}

/// The policy is shown a content.
pub(crate) fn placed(content: &[u8]) {
    with_number(content, |pending, number| {
        pending.is_another_placed = number != pending.number;
        pending.is_placed |= number == pending.number;
    });
}

/// A rule is asked for: the journal asks for one when it begins a record.
pub(crate) fn asked(rule: Rule) {
    if rule != Rule::StampAbove {
        return;
    }
    if let Some(pending) = PENDING.with(Cell::get) {
        let is_begun = pending.is_placed && !pending.is_another_placed;
        set(Some(Pending { is_begun, is_another_placed: false, ..pending }));
    }
}

/// Something is stored.
pub(crate) fn stored(site: Site, bytes: &[u8]) {
    if matches!(site.name, "commit.image" | "deferred.image") {
        with_number(bytes, |pending, number| pending.is_begun = number == pending.number);
    }
}

/// A step comes.
pub(crate) fn mark(world: &World, site: Site) {
    let is_of_record =
        matches!(site.name, "commit.image" | "commit.front" | "deferred.image" | "deferred.front");
    if let Some(pending) =
        PENDING.with(Cell::get).filter(|pending| is_of_record && pending.is_begun)
    {
        set(None);
        world.called(pending.label);
    }
}

/// The call has returned; whether it was never marked.
pub(crate) fn was_not_marked() -> bool {
    PENDING.with(Cell::take).is_some()
}

fn with_number(content: &[u8], see: impl FnOnce(&mut Pending, u64)) {
    let Ok(content) = <&Block>::try_from(content) else { return };
    if let Some(mut pending) = PENDING.with(Cell::get) {
        see(&mut pending, number_in(content));
        set(Some(pending));
    }
}
