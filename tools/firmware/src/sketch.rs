//! The smallest policy that encodes anything: one patch, as position and bytes. Metadata goes to
//! slots, and appends home.

use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Kind, Placement, Policy, PolicyId, Update,
};

/// The policy; it has no settings.
#[derive(Clone, Copy, Debug)]
pub struct Sketch;

impl Policy for Sketch {
    fn id(&self) -> PolicyId {
        PolicyId(0xFFFF_0001)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let Change::Patches([patch]) = update.change else {
            return match (update.class, update.kind) {
                (Class::Metadata, _) => Placement::Slot,
                (_, Kind::Append) => Placement::Home,
                _ => Placement::Image,
            };
        };
        let encoded = out.put(&patch.at.to_le_bytes()).and_then(|()| out.put(patch.bytes));
        encoded.map_or(Placement::Image, |()| Placement::Encoded)
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let (at, bytes) =
            payload.split_first_chunk().ok_or(ApplyError::Malformed { at: payload.len() })?;
        let at = usize::try_from(u32::from_le_bytes(*at)).unwrap_or(usize::MAX);
        let target = block.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
        target.ok_or(ApplyError::OutOfBlock { at: 4 })?.copy_from_slice(bytes);
        Ok(())
    }
}
