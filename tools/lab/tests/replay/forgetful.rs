//! A policy that finds every update to change nothing.

use journal_core::policy::{ApplyError, Encoder, Placement, Update};
use journal_core::{Policy, PolicyId};

use lab::erased::DynPolicy;
use lab::replay::policies::{ALL, Known};

#[derive(Clone)]
struct Forgetful;

impl Policy for Forgetful {
    fn id(&self) -> PolicyId {
        PolicyId(1000)
    }

    fn place(&self, _update: &Update<'_>, _out: &mut Encoder<'_>) -> Placement {
        Placement::Unchanged
    }

    fn apply(&self, _payload: &[u8], _block: &mut [u8]) -> Result<(), ApplyError> {
        Err(ApplyError::Malformed { at: 0 })
    }
}

pub(crate) const FORGETFUL: Known =
    Known { name: "forgetful", policy: || DynPolicy::new(Forgetful), ..ALL[0] };
