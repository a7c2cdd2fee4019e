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
    policy: impl Policy + Clone + Send + Sync + 'static,
    hook: impl Hook + Clone + Send + Sync + 'static,
) -> Options<DynPolicy, DynHook> {
    Options::new().policy(DynPolicy::new(policy)).hook(DynHook::new(hook))
}

/// The memory and the first disk of a world.
pub fn of_world(world: &World) -> (DynPmem, DynDisk) {
    (DynPmem::new(world.pmem()), DynDisk::new(world.disk(0)))
}

#[cfg(test)]
mod tests {
    /// The names of the methods in a source, from a line on to the end of its block.
    fn methods<'s>(source: &'s str, from: &str) -> Vec<&'s str> {
        let (_, behind) = source.split_once(from).expect("the block is there");
        let (block, _) = behind.split_once("\n}\n").expect("the block ends");
        let named = block.lines().filter_map(|line| line.strip_prefix("    fn "));
        named.map(|line| line.split(['(', '<']).next().expect("a name")).collect()
    }

    /// A method that is not passed on has its default, whatever the policy or the hook says. Then a
    /// test tries something else than it seems to.
    #[test]
    fn every_method_is_passed_on() {
        macro_rules! core {
            ($file:literal) => {
                include_str!(concat!("../../../../crates/journal-core/src/", $file))
            };
        }
        let (disk, hook) = (include_str!("disk.rs"), include_str!("hook.rs"));
        let (memory, policy) = (include_str!("memory.rs"), include_str!("policy.rs"));
        let pairs = [
            (core!("ports/policy.rs"), "pub trait Policy {", policy, "impl Policy for DynPolicy {"),
            (core!("order/ordered.rs"), "pub trait Hook {", hook, "impl Hook for DynHook {"),
            (core!("order/ordered.rs"), "pub trait Hook {", hook, "'static> Steps for H {"),
            (core!("ports/pmem.rs"), "pub trait PmemRead {", memory, "PmemRead for DynPmem {"),
            (core!("ports/pmem.rs"), "pub trait PmemRead {", memory, "PmemRead for DynReader {"),
            (core!("ports/pmem.rs"), "pub trait Pmem: PmemRead {", memory, "Pmem for DynPmem {"),
            (
                core!("ports/block_device.rs"),
                "pub trait BlockDevice {",
                disk,
                "impl BlockDevice for DynDisk {",
            ),
        ];
        for (port, of_port, erased, of_erased) in pairs {
            let (port, passed_on) = (methods(port, of_port), methods(erased, of_erased));
            assert!(port.len() > 2, "{of_port}: {port:?}");
            let missing: Vec<_> = port.iter().filter(|name| !passed_on.contains(name)).collect();
            assert!(missing.is_empty(), "{of_erased} lacks {missing:?}");
        }
    }
}
