//! What the kernel says of the memory under a file system: do its power-fail domain's caches count?
//!
//! Guarantees: `true` only where the kernel says `cpu_cache` of the very region that the file's
//! device lies on. Whatever cannot be read or is not understood means `false`, which costs flushes
//! and loses nothing.

use std::fs;
use std::path::Path;

/// The file below a region's directory that names its power-fail domain.
const ATTRIBUTE: &str = "persistence_domain";

/// Whether stores on block device `major:minor` survive a power loss once they are visible. `root`
/// is where sysfs is mounted.
pub(crate) fn caches_survive(root: &Path, major: u32, minor: u32) -> bool {
    let device = root.join("dev/block").join(format!("{major}:{minor}"));
    let Ok(device) = fs::canonicalize(device) else { return false };
    // Partition, device, namespace, region: the attribute belongs to the nearest that has it.
    device
        .ancestors()
        .take_while(|directory| *directory != root)
        .find_map(|directory| fs::read_to_string(directory.join(ATTRIBUTE)).ok())
        .is_some_and(|domain| domain.trim() == "cpu_cache")
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A tree like the kernel's: two regions, the first with a partitioned device.
    #[test]
    fn the_region_under_the_device_decides() {
        let root = std::env::temp_dir().join(format!("pmem-sys-sysfs-{}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        let make = |region: &str, domain: &str, device: &str| {
            let block = root.join("devices").join(region).join("namespace/block").join(device);
            fs::create_dir_all(&block).expect("a directory");
            let attribute = root.join("devices").join(region).join(ATTRIBUTE);
            fs::write(attribute, domain).expect("a file");
            block
        };
        fs::create_dir_all(root.join("dev/block")).expect("a directory");
        let link = |number: &str, to: &Path| {
            std::os::unix::fs::symlink(to, root.join("dev/block").join(number)).expect("a link");
        };
        link("259:0", &make("region0", "cpu_cache\n", "pmem0/pmem0p1"));
        link("259:1", &make("region1", "memory_controller\n", "pmem1"));
        let root = fs::canonicalize(&root).expect("it was just made");
        assert!(caches_survive(&root, 259, 0));
        assert!(!caches_survive(&root, 259, 1));
        assert!(!caches_survive(&root, 259, 2));
        drop(fs::remove_dir_all(root));
    }
}
