//! The kernel, and the first file system of the machine.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules that the machine loads, without those that they need.
const MODULES: [&str; 6] =
    ["crc32c_generic", "virtio_pci", "virtio_blk", "nfit", "nd_pmem", "ext4"];
/// What the first process and this program call.
const TOOLS: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("mkfs.ext4", "e2fsprogs"),
];
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Commands of busybox.
const COMMANDS: [&str; 9] =
    ["sh", "mount", "umount", "modprobe", "mkdir", "sed", "echo", "cat", "poweroff"];
/// How the compressed kernel in a boot image begins.
const XZ: [u8; 6] = [0xFD, b'7', b'z', b'X', b'Z', 0];

/// What the machine boots.
pub(crate) struct Image {
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
}

fn run(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.stdin(Stdio::null()).output().map_err(|why| format!("{name}: {why}"))?;
    if said.status.success() {
        return Ok(String::from_utf8_lossy(&said.stdout).into_owned());
    }
    let (out, why) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    Err(format!("{name} failed: {out}{why}").into())
}

/// Where a program is.
fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders.map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

/// Fetches and unpacks the package of the kernel; returns the folder of it.
fn fetched(work: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let root = work.join("kernel");
    if root.join("boot").is_dir() {
        return Ok(root);
    }
    println!("fetching the kernel's package");
    let script = r#"
        set -eu
        rm -rf fetched unpacked && mkdir fetched && cd fetched
        package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image\)/\1/p')
        apt-get -q download "$package"
        dpkg -x *.deb ../unpacked
        depmod -b ../unpacked "$(ls ../unpacked/lib/modules)"
        cd .. && rm -rf fetched && mv unpacked kernel
    "#;
    run(Command::new("sh").args(["-c", script]).current_dir(work))?;
    Ok(root)
}

/// The kernel as it is once it has unpacked itself: that boots in half the time.
fn unpacked(root: &Path, kernel: &Path) -> Result<(), Box<dyn Error>> {
    if kernel.is_file() {
        return Ok(());
    }
    let mut entries = fs::read_dir(root.join("boot"))?.filter_map(Result::ok);
    let boot = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"));
    let bytes = fs::read(boot.ok_or("no kernel in the package")?.path())?;
    let at = bytes.windows(XZ.len()).position(|window| window == XZ);
    let at = at.ok_or("the kernel is not compressed by xz")?;
    let (packed, new) = (kernel.with_extension("xz"), kernel.with_extension("new"));
    fs::write(&packed, &bytes[at..])?;
    // What lies behind the stream is not of it: `xz` calls it corrupt, and has unpacked all the
    // same.
    Command::new("xz")
        .args(["--decompress", "--stdout", "--quiet"])
        .stdin(File::open(&packed)?)
        .stdout(File::create(&new)?)
        .stderr(Stdio::null())
        .status()?;
    if !fs::read(&new)?.starts_with(b"\x7FELF") {
        return Err("the kernel did not unpack".into());
    }
    fs::rename(new, kernel)?;
    Ok(())
}

/// The writer, without shared libraries.
fn inside() -> Result<PathBuf, Box<dyn Error>> {
    println!("building the writer");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--quiet", "--bin", "inside", "--target", TARGET]);
    build.args(["--features", "inside", "--manifest-path", manifest]);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    build.env("LIBSQLITE3_FLAGS", "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE");
    run(&mut build)?;
    let own = std::env::current_exe()?;
    let release = own.parent().and_then(Path::parent).ok_or("no folder of programs")?;
    let here = release.join(TARGET).join("release/inside");
    let there = release.parent().map(|target| target.join(TARGET).join("release/inside"));
    let found = [Some(here), there].into_iter().flatten().find(|path| path.is_file());
    found.ok_or_else(|| "the writer was not built".into())
}

/// The modules of [`MODULES`] and all that they need, as paths in `lib/modules/VERSION`.
fn modules(folder: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let text = fs::read_to_string(folder.join("modules.dep"))?;
    let mut needed = BTreeSet::new();
    for module in MODULES {
        // In names of files, `-` and `_` are one.
        let is_it = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.split('.').next().unwrap_or(name).replace('-', "_") == module
        };
        let line = text.lines().filter_map(|line| line.split_once(':'));
        let found = line.into_iter().find(|(path, _)| is_it(path));
        let (path, needs) = found.ok_or(format!("no module {module}"))?;
        needed.insert(path.to_owned());
        needed.extend(needs.split_whitespace().map(str::to_owned));
    }
    Ok(needed)
}

fn copy(from: &Path, root: &Path, to: &str) -> Result<(), Box<dyn Error>> {
    let to = root.join(to.trim_start_matches('/'));
    fs::create_dir_all(to.parent().ok_or("no folder")?)?;
    fs::copy(from, &to).map_err(|why| format!("{}: {why}", from.display()))?;
    Ok(())
}

/// Packs the first file system of the machine.
fn packed(work: &Path, kernel: &Path, initrd: &Path) -> Result<(), Box<dyn Error>> {
    let root = work.join("root");
    drop(fs::remove_dir_all(&root));
    for folder in ["bin", "sbin", "dev", "proc", "sys"] {
        fs::create_dir_all(root.join(folder))?;
    }
    copy(&inside()?, &root, "bin/inside")?;
    let busybox = tool("busybox").ok_or("no busybox")?;
    for command in COMMANDS {
        copy(&busybox, &root, &format!("bin/{command}"))?;
    }
    let format = tool("mkfs.ext4").ok_or("no mkfs.ext4")?;
    copy(&format, &root, "sbin/mkfs.ext4")?;
    for word in run(Command::new("ldd").arg(&format))?.split_whitespace() {
        if word.starts_with('/') {
            copy(Path::new(word), &root, word)?;
        }
    }
    let of_kernel = kernel.join("lib/modules");
    let version = fs::read_dir(&of_kernel)?.next().ok_or("no modules")??.file_name();
    let own = format!("lib/modules/{}", version.to_string_lossy());
    for path in modules(&of_kernel.join(&version))? {
        copy(&of_kernel.join(&version).join(&path), &root, &format!("{own}/{path}"))?;
    }
    run(Command::new("depmod").arg("-b").arg(&root).arg(&version))?;
    fs::write(root.join("init"), include_str!("init.sh"))?;
    let script = "chmod +x init && find . | cpio --quiet -o -H newc";
    let mut pack = Command::new("sh");
    pack.args(["-c", script]).current_dir(&root).stdout(File::create(initrd)?);
    if pack.status()?.success() { Ok(()) } else { Err("cpio failed".into()) }
}

impl Image {
    pub(crate) fn of(work: &Path) -> Result<Self, Box<dyn Error>> {
        let missing = TOOLS.iter().filter(|(name, _)| tool(name).is_none());
        let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
        if !missing.is_empty() {
            return Err(format!("these packages are missing: {}", missing.join(" ")).into());
        }
        let root = fetched(work)?;
        let image = Self { kernel: work.join("vmlinux"), initrd: work.join("initrd.cpio") };
        unpacked(&root, &image.kernel)?;
        packed(work, &root, &image.initrd)?;
        Ok(image)
    }
}
