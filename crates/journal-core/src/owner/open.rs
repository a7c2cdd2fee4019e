//! Opening the journal of one owner.

use crate::commit::prepared::Decided;
use crate::index::{Index, LentMemory};
use crate::open::found::{Found, OpenMemory, Opened};
use crate::order::ordered::Hook;
use crate::owner::journal::Journal;
use crate::owner::lanes::OwnLanes;
use crate::owner::machine::On;
use crate::owner::memory::{JournalMemory, Needs};
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::PmemSplit;
use crate::ports::policy::Policy;
use crate::scan::error::OpenError;

impl<'m, L, P, D, H, K> Journal<'m, L, On<P, D, H, K>>
where
    L: Policy,
    P: PmemSplit,
    D: BlockDevice,
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
        if let Some(error) = memory.too_short(found.geometry()) {
            return Err(error);
        }
        // What is written must not depend on how much memory there is: the next open may have less.
        let needs = Needs::of(found.geometry(), 1);
        let lanes = memory.lanes.get_mut(..needs.lanes).unwrap_or_default();
        let states = memory.slots.get_mut(..needs.slots).unwrap_or_default();
        let front = memory.front.get_mut(..needs.front_bytes).unwrap_or_default();
        let encoded = memory.encoded.get_mut(..needs.encoded_bytes).unwrap_or_default();
        let mut index = Index::new(LentMemory { entries: memory.entries, nodes: memory.nodes });
        let to_open = OpenMemory {
            lanes: &mut *lanes,
            front: &mut *front,
            block: memory.blocks,
            slots: &mut *states,
        };
        let opened = found.open(device, policy, kernels, to_open, &mut index)?;
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
            decided: Decided::EMPTY,
            recovery,
            failed: false,
        })
    }
}
