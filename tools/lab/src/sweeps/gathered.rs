//! Real traces, gathered into running transactions: how often each commits, whether its list of
//! objects was full or its time had come, and how many bytes that takes, by the size of the list.
//!
//! No trace has a clock, so each transaction is given the same time.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use journal_core::NoHook;
use journal_core::policy::{Class, Kind};
use nvm_journal::policy::Pacing;
use nvm_journal::{BlockNumber, GatherStats, Hint, Region};
use object_log::{ObjectLog, Settings};

use crate::erased::{DynDisk, DynJournal, DynPmem, any_options};
use crate::replay::media::PlainDisk;
use crate::trace::{Trace, Write};

/// What a transaction of a trace takes.
const EACH: Duration = Duration::from_millis(10);
/// When a running transaction commits, if its list does not fill before.
const TIMER: Duration = Duration::from_secs(5);
/// Bytes of an object, where the trace does not say.
const OBJECT: usize = 256;
/// Powers of two: 256 bytes to 128 KiB.
const SIZES: core::ops::RangeInclusive<u32> = 8..=17;

/// What a trace came to with one size of the list.
struct Came {
    gathered: GatherStats,
    bytes: u64,
}

/// Measures all traces of a folder.
///
/// # Errors
/// What is wrong with one of them.
pub fn measure(folder: &Path) -> Result<String, Box<dyn Error>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.to_string_lossy().ends_with(".btrc.zst"));
    files.sort();
    let mut page = format!(
        "\n## Real traces, gathered, by the bytes of the `TxnInfo`\n\n`object-log`: each \
         transaction of a trace is gathered, with the objects that it changes. A running\n\
         transaction commits when its list is full, or after {} seconds. A trace has no clock, so \
         each of its\ntransactions is given {} ms. In brackets: the share of commits by the \
         timer.\n\n| trace |",
        TIMER.as_secs(),
        EACH.as_millis(),
    );
    for power in SIZES {
        write!(page, " {} |", name_of(1 << power))?;
    }
    writeln!(page, "\n|---|{}", "--:|".repeat(SIZES.count()))?;
    let mut bytes = String::new();
    for path in &files {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let name = file.trim_end_matches(".btrc.zst");
        write!(page, "| {name}: commits |")?;
        write!(bytes, "| {name}: KiB of records |")?;
        for power in SIZES {
            let mut trace = Trace::open(File::open(path)?)?;
            let Came { gathered, bytes: stored } = gather(&mut trace, 1 << power)?;
            let by_timer = 100 * gathered.by_timer / gathered.commits.max(1);
            write!(page, " {} ({by_timer} %) |", gathered.commits)?;
            write!(bytes, " {} |", stored >> 10)?;
        }
        page.push('\n');
        bytes.push('\n');
    }
    page.push_str(&bytes);
    Ok(page)
}

fn name_of(bytes: u32) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes >> 10) }
}

/// Gathers the transactions of a trace.
fn gather(trace: &mut Trace<File>, txn_info_bytes: u32) -> Result<Came, Box<dyn Error>> {
    let (block_size, blocks) = (trace.header().block_size, trace.header().device_blocks);
    let policy = ObjectLog::with(Settings::new().txn_info_bytes(txn_info_bytes))?;
    let objects = journal_core::Policy::pacing(&policy).objects_max;
    let options = any_options(policy, NoHook)
        .lanes(1)
        .lane_bytes(64 << 20)
        .buffer_bytes(64 << 20)
        .pacing(Pacing::new(Some(TIMER), objects, None));
    let disk = DynDisk::new(PlainDisk::new(block_size, blocks, trace.state()));
    let nvm = DynPmem::new(Region::anonymous(128 << 20)?);
    let journal = DynJournal::format(nvm, disk, &options)?;
    let mut now = TIMER;
    journal.tick(now)?;
    while trace.advance()? {
        let (writes, state) = (&trace.transaction().writes, trace.state());
        journal.transact_gathered(|tx| {
            for write in writes {
                let block = BlockNumber(write.block);
                let hint = hint_of(write);
                if write.is_new() {
                    tx.write_with(block, hint, &write.image)?;
                    continue;
                }
                let object = usize::from(write.object_bytes).max(OBJECT);
                let both = write.image.chunks(object).zip(state[&write.block].chunks(object));
                for (number, (new, old)) in both.enumerate() {
                    if new != old {
                        tx.write_at_with(block, hint, number * object, new)?;
                    }
                }
            }
            Ok::<_, nvm_journal::Error>(())
        })?;
        now += EACH;
        journal.tick(now)?;
    }
    journal.sync()?;
    let stats = journal.stats()?;
    Ok(Came { gathered: stats.gathered, bytes: stats.total().bytes })
}

fn hint_of(write: &Write) -> Hint {
    Hint {
        class: if write.is_data() { Class::Data } else { Class::Metadata },
        kind: if write.is_new() { Kind::Append } else { Kind::Overwrite },
        object_bytes: core::num::NonZeroU32::new(write.object_bytes.into()),
    }
}
