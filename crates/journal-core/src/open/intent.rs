//! The intent that an open finds, and repeats.

use crate::format::geometry::Geometry;
use crate::format::record::RecordHeader;
use crate::home::shield::Shield;
use crate::index::Indexes;
use crate::open::opening::Opening;
use crate::order::ordered::{Hook, OrderedDevice, Unsynced};
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::PmemSplit;
use crate::scan::error::OpenError;
use crate::space::superblocks::Superblock;

crate::sites! {
    pub(crate) mod site {
        REPEAT: DiskWrite = "open.repeat";
        REPEAT_SYNC: DiskSync = "open.repeat.sync";
    }
}

impl<P: PmemSplit, H: Hook, K: Kernels> Opening<'_, P, H, K> {
    /// The intent of a batch that may not have reached home whole; its front is left in the
    /// scratch memory.
    pub(crate) fn find_intent(
        &mut self,
        shield: Option<&Shield<P, H>>,
        superblock: &Superblock,
    ) -> Result<Option<(RecordHeader, usize)>, OpenError> {
        let Some(shield) = shield else { return Ok(None) };
        let device_blocks = superblock.header.device_blocks.get();
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
    pub(crate) fn reload_intent(
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
}

/// Writes the images of an intent home again: a crash may have torn them there. But not over what
/// was appended there since, which is nowhere else.
pub(crate) fn repeat_intent<P: PmemSplit, D: BlockDevice, H: Hook>(
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
