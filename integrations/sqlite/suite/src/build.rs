//! The suite's sources, and the programs that are built of them.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What has to be defined: commits go through the VFS, and SQLite registers it at its start.
const OPTIONS: &str = "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE -DSQLITE_EXTRA_INIT=nvj_init";
const PROGRAMS: [&str; 4] = ["testfixture", "speedtest1", "kvtest", "threadtest3"];

/// The programs, and where they came from.
pub(crate) struct Built {
    /// The folder of the programs.
    pub(crate) programs: PathBuf,
    /// The folder of the suite's scripts.
    pub(crate) tests: PathBuf,
    /// A folder that `nobody` may write to.
    pub(crate) scratch: PathBuf,
}

/// Runs a command; its output goes to a file.
fn logged(command: &mut Command, log: &Path) -> Result<(), Box<dyn Error>> {
    let file = fs::File::create(log)?;
    command.stdout(file.try_clone()?).stderr(file).stdin(Stdio::null());
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.status().map_err(|error| format!("{name}: {error}"))?;
    if done.success() { Ok(()) } else { Err(format!("{name} failed: {}", log.display()).into()) }
}

/// The folder of the unpacked source package, if there is one.
fn unpacked(work: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(work).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_source = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("sqlite3-") && path.join("test/atomic.test").is_file()
    };
    paths.into_iter().find(is_source)
}

/// Fetches the source package by a list of sources of its own: the machine's have none of sources.
fn fetch(work: &Path) -> Result<PathBuf, Box<dyn Error>> {
    if let Some(source) = unpacked(work) {
        return Ok(source);
    }
    println!("fetching the source package of sqlite3");
    let script = r#"
        set -eu
        mkdir -p lists/partial
        . /etc/os-release
        mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
            grep -m1 '/debian$')
        keys=/usr/share/keyrings/debian-archive-keyring.gpg
        echo "deb-src [signed-by=$keys] $mirror $VERSION_CODENAME main" > src.list
        own="-o Dir::Etc::sourcelist=$PWD/src.list -o Dir::Etc::sourceparts=/dev/null"
        own="$own -o Dir::State::lists=$PWD/lists"
        apt-get $own -q update
        apt-get $own -q source --download-only sqlite3
        tar xf sqlite3_*.orig.tar.xz
    "#;
    let log = work.join("fetch.log");
    logged(Command::new("sh").args(["-c", script]).current_dir(work), &log)?;
    unpacked(work).ok_or_else(|| format!("no suite came: {}", log.display()).into())
}

/// The library that has the VFS.
fn library() -> Result<PathBuf, Box<dyn Error>> {
    println!("building the VFS");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let build = ["build", "--release", "--lib", "--quiet", "--manifest-path", manifest];
    if !Command::new(cargo).args(build).status()?.success() {
        return Err("the VFS does not build".into());
    }
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or("no folder of programs")?;
    Ok(folder.join("libnvm_journal_sqlite_suite.a"))
}

/// A SQLite that cannot commit through a VFS is refused, and the VFS says how to build it.
fn refuses(programs: &Path, library: &Path) -> Result<(), Box<dyn Error>> {
    let path = programs.join("refuses");
    let source = "int sqlite3_initialize(void); int main(void) { return sqlite3_initialize(); }";
    fs::write(programs.join("refuses.c"), source)?;
    if !path.is_file() {
        let mut compile = Command::new("gcc");
        compile.args(["-O0", "-DSQLITE_EXTRA_INIT=nvj_init", "-o", "refuses", "refuses.c"]);
        compile.arg("sqlite3.c").arg(library).args(["-lz", "-lpthread", "-ldl", "-lm"]);
        compile.current_dir(programs);
        logged(&mut compile, &programs.join("refuses.log"))?;
    }
    let said = Command::new(path).output()?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    if said.status.success() || !text.contains("-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE") {
        return Err(format!("a SQLite without atomic batches is not refused: {text}").into());
    }
    println!("a SQLite without atomic batches is refused: {}", text.trim());
    Ok(())
}

impl Built {
    pub(crate) fn of(work: &Path) -> Result<Self, Box<dyn Error>> {
        let source = fetch(work)?;
        let library = library()?;
        let programs = work.join("build");
        fs::create_dir_all(&programs)?;
        if !programs.join("Makefile").is_file() {
            println!("configuring SQLite");
            let mut configure = Command::new(source.join("configure"));
            configure.arg("--disable-shared").current_dir(&programs);
            logged(&mut configure, &programs.join("configure.log"))?;
            // As it is configured, the suite makes no file durable.
            let makefile = fs::read_to_string(programs.join("Makefile"))?;
            let syncs = makefile.replace("-DSQLITE_NO_SYNC=1", "");
            fs::write(programs.join("Makefile"), syncs)?;
        }
        let newest = fs::metadata(&library)?.modified()?;
        for program in PROGRAMS {
            let path = programs.join(program);
            let is_old = |path| fs::metadata(path).and_then(|found| found.modified()).ok();
            if is_old(&path).is_some_and(|made| made > newest) {
                continue;
            }
            println!("building {program}");
            let _none = fs::remove_file(&path);
            let libraries = format!("TLIBS={} -lz -lpthread -ldl -lm", library.display());
            let mut make = Command::new("make");
            make.arg(program).arg(format!("OPTS={OPTIONS}")).arg(libraries);
            make.current_dir(&programs);
            logged(&mut make, &programs.join(format!("{program}.log")))?;
        }
        refuses(&programs, &library)?;
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let scratch = root.join("nvm-journal-sqlite-suite-files");
        Ok(Self { programs, tests: source.join("test"), scratch })
    }
}
