//! A policy, a hook, a memory and a disk behind one type each, so that tests which need many of
//! them compile the engine once.
//!
//! The compiler makes a copy of the engine for each policy and each machine that a crate names, and
//! each copy takes it seconds. A test that needs a policy or a hook of its own therefore gives it
//! to [`DynPolicy`] or [`DynHook`]: their calls go through one more pointer, and otherwise they are
//! the calls of what they hold. Tests of static types, as users name them, name those types.

use journal_core::{Hook, Policy};
use nvm_journal::Options;
use sim_disk::World;

mod disk;
mod hook;
mod memory;
mod policy;

pub use disk::DynDisk;
pub use hook::DynHook;
pub use memory::{DynPmem, DynReader};
pub use policy::DynPolicy;

/// The machine of any memory, any disk and any hook.
pub type AnyMachine = nvm_journal::On<DynPmem, DynDisk, DynHook>;

/// A journal under any policy, on any machine.
pub type DynJournal = nvm_journal::Journal<DynPolicy, AnyMachine>;

/// Options of such a journal: with this policy and this hook.
pub fn any_options(
    policy: impl Policy + Send + Sync + 'static,
    hook: impl Hook + Clone + Send + Sync + 'static,
) -> Options<DynPolicy, DynHook> {
    Options::new().policy(DynPolicy::new(policy)).hook(DynHook::new(hook))
}

/// The memory and the first disk of a world.
pub fn of_world(world: &World) -> (DynPmem, DynDisk) {
    (DynPmem::new(world.pmem()), DynDisk::new(world.disk(0)))
}
