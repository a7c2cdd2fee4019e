//! Asking those who know: `e2fsck` and `sqlite3`, where they are installed.
//!
//! A state is written into a file of a temporary folder, which goes with the value.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::replay::crash::Witness;
use crate::trace::{Header, State};

/// The tool that is asked about a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    E2fsck,
    Sqlite3,
}

impl Tool {
    /// The one that knows what the trace is of; `None` where nobody does.
    pub fn of(header: &Header) -> Option<Self> {
        let starts = |prefix| header.name.starts_with(prefix);
        if starts("ext4-") {
            Some(Self::E2fsck)
        } else if starts("sqlite-") {
            Some(Self::Sqlite3)
        } else {
            None
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::E2fsck => "e2fsck",
            Self::Sqlite3 => "sqlite3",
        }
    }

    /// Administrators' tools are not in everybody's path.
    fn program(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let mut programs = folders.map(|folder| folder.join(self.name()));
        programs.find(|program| program.is_file())
    }
}

/// How many there were in this process.
static ASKERS: AtomicU64 = AtomicU64::new(0);

/// Asks one of them, in a folder of its own.
pub struct Asker {
    tool: Tool,
    program: PathBuf,
    folder: PathBuf,
    /// Why a state could not be shown.
    pub failed: Option<io::Error>,
}

impl Asker {
    /// `None` where the tool is not installed.
    pub fn new(tool: Tool) -> io::Result<Option<Self>> {
        let Some(program) = tool.program() else { return Ok(None) };
        let number = ASKERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("nvm-journal-replay-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        Ok(Some(Self { tool, program, folder, failed: None }))
    }

    fn run<A: AsRef<OsStr>>(&self, words: &[A]) -> io::Result<(Option<i32>, Vec<u8>)> {
        let output = Command::new(&self.program).args(words).output()?;
        Ok((output.status.code(), output.stdout))
    }

    fn accepts(&self, header: &Header, state: &State) -> io::Result<bool> {
        let image = self.folder.join("image");
        let path: &OsStr = image.as_ref();
        let blocks = match self.tool {
            Tool::E2fsck => header.device_blocks,
            // Pages behind those that the first one counts are no part of the database.
            Tool::Sqlite3 => state.get(&0).map_or(0, |first| {
                let count = first.get(28..32).and_then(|bytes| bytes.try_into().ok());
                count.map_or(0, u32::from_be_bytes).into()
            }),
        };
        write_image(&image, header, blocks, state)?;
        let accepted = match self.tool {
            // First what a mount would do, which may say that it corrected something.
            Tool::E2fsck => {
                let (mounted, _) = self.run(&[OsStr::new("-p"), path])?;
                let (checked, _) = self.run(&[OsStr::new("-fn"), path])?;
                matches!(mounted, Some(0 | 1)) && checked == Some(0)
            }
            Tool::Sqlite3 => {
                let (code, said) = self.run(&[path, OsStr::new("PRAGMA integrity_check")])?;
                code == Some(0) && said.trim_ascii() == b"ok"
            }
        };
        for left in fs::read_dir(&self.folder)? {
            fs::remove_file(left?.path())?;
        }
        Ok(accepted)
    }
}

/// Writes the first blocks of a state; holes where there are none.
fn write_image(path: &Path, header: &Header, blocks: u64, state: &State) -> io::Result<()> {
    let bytes = header.block_size.bytes() as u64;
    let mut file = File::create(path)?;
    file.set_len(blocks * bytes)?;
    for (block, image) in state.range(..blocks) {
        if image.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(block * bytes))?;
            file.write_all(image)?;
        }
    }
    Ok(())
}

impl Witness for Asker {
    fn sees(&mut self, header: &Header, state: &State) -> bool {
        match self.accepts(header, state) {
            Ok(accepted) => accepted,
            Err(error) => {
                self.failed = Some(error);
                false
            }
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Nobody, who finds everything fine.
pub struct Nobody;

impl Witness for Nobody {
    fn sees(&mut self, _header: &Header, _state: &State) -> bool {
        true
    }
}
