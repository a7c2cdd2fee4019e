//! The kernel's facts about persistent memory: whether caches survive a power loss there, how often
//! that promise failed, and how long a device is that has no file system.
//!
//! Guarantees: caches are said to survive only where the kernel says `cpu_cache` of the very region
//! that the file's device lies on. Whatever cannot be read or is not understood means that they do
//! not, which costs flushes and loses nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// The file below a region's directory that names its power-fail domain.
const ATTRIBUTE: &str = "persistence_domain";
/// The file below a region's directory that names the first of its modules.
const MAPPING: &str = "mapping0";

/// Which device, and where sysfs is mounted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device<'r> {
    pub(crate) root: &'r Path,
    /// `block`: the device of a file system. `char`: one that is mapped itself.
    pub(crate) kind: &'static str,
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl Device<'_> {
    /// Its directory.
    fn directory(&self) -> Option<PathBuf> {
        let Self { root, kind, major, minor } = self;
        let link = root.join("dev").join(kind).join(format!("{major}:{minor}"));
        fs::canonicalize(link).ok()
    }

    /// Partition, device, namespace, region: an attribute belongs to the nearest that has it.
    fn nearest(&self, attribute: &str) -> Option<(PathBuf, String)> {
        let directory = self.directory()?;
        let root = fs::canonicalize(self.root).ok()?;
        let above = directory.ancestors().take_while(|directory| *directory != root);
        let mut found = above.filter_map(|directory| {
            let text = fs::read_to_string(directory.join(attribute)).ok()?;
            Some((directory.to_path_buf(), text))
        });
        found.next()
    }

    /// Whether stores survive a power loss once they are visible.
    pub(crate) fn caches_survive(&self) -> bool {
        self.nearest(ATTRIBUTE).is_some_and(|(_, domain)| domain.trim() == "cpu_cache")
    }

    /// How often the modules of the region have lost power before they had saved what was on its
    /// way to them. `None` if the kernel does not count that.
    pub(crate) fn dirty_shutdowns(&self) -> Option<u64> {
        let (region, _) = self.nearest(MAPPING)?;
        let mut sum = None::<u64>;
        for at in 0_usize.. {
            let Ok(mapping) = fs::read_to_string(region.join(format!("mapping{at}"))) else {
                break;
            };
            // A module, and where in it the region lies: `nmem0,0,16777216,0`.
            let module = mapping.split(',').next().unwrap_or_default().trim();
            let counter = region.parent()?.join(module).join("nfit/dirty_shutdown");
            let count = fs::read_to_string(counter).ok()?.trim().parse::<u64>().ok()?;
            sum = Some(sum.unwrap_or(0).saturating_add(count));
        }
        sum
    }

    /// How many bytes a device has that is persistent memory without a file system. `None` if it is
    /// another device.
    pub(crate) fn dax_bytes(&self) -> Option<u64> {
        let directory = self.directory()?;
        let subsystem = fs::canonicalize(directory.join("subsystem")).ok()?;
        if subsystem.file_name()? != "dax" {
            return None;
        }
        fs::read_to_string(directory.join("size")).ok()?.trim().parse().ok()
    }
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
        let device = |minor| Device { root: &root, kind: "block", major: 259, minor };
        assert!(device(0).caches_survive());
        assert!(!device(1).caches_survive());
        assert!(!device(2).caches_survive());
        // Nothing counts the shutdowns of these.
        assert_eq!(device(0).dirty_shutdowns(), None);
        // The first region has two modules.
        let write = |path: &str, text: &str| {
            let path = root.join("devices").join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        write("region0/mapping0", "nmem0,0,16777216,0\n");
        write("region0/mapping1", "nmem3,0,16777216,1\n");
        write("nmem0/nfit/dirty_shutdown", "2\n");
        assert_eq!(device(0).dirty_shutdowns(), None, "one module does not count");
        write("nmem3/nfit/dirty_shutdown", "5\n");
        assert_eq!(device(0).dirty_shutdowns(), Some(7));
        assert_eq!(device(1).dirty_shutdowns(), None);
        drop(fs::remove_dir_all(root));
    }

    #[test]
    fn a_dax_device_says_its_length_and_others_say_nothing() {
        let root = std::env::temp_dir().join(format!("pmem-sys-dax-{}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        for (number, subsystem) in [("252:0", "dax"), ("1:5", "mem")] {
            let device = root.join("devices").join(number);
            fs::create_dir_all(&device).expect("a directory");
            fs::create_dir_all(root.join("class").join(subsystem)).expect("a directory");
            fs::create_dir_all(root.join("dev/char")).expect("a directory");
            fs::write(device.join("size"), "2097152\n").expect("a file");
            let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).expect("a link");
            link(&root.join("class").join(subsystem), &device.join("subsystem"));
            link(&device, &root.join("dev/char").join(number));
        }
        let of = |major, minor| Device { root: &root, kind: "char", major, minor }.dax_bytes();
        assert_eq!((of(252, 0), of(1, 5), of(1, 9)), (Some(2 << 20), None, None));
        drop(fs::remove_dir_all(root));
    }
}
