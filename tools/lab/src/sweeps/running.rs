//! Many small updates, gathered into running transactions that commit when their `TxnInfo` is full:
//! how many commits and bytes that takes, by its size.

use std::error::Error;
use std::fmt::Write as _;

use journal_core::NoHook;
use nvm_journal::{BlockNumber, Region};
use object_log::{ObjectLog, Settings};

use crate::erased::{DynDisk, DynJournal, DynPmem, any_options};
use crate::plot::{Plot, Scale};
use crate::sweeps::parts::{BLOCK, Kept, Numbers, Sweep};

const UPDATES: u64 = 40_000;
/// Blocks that are updated: one half of the updates falls on a sixteenth of them.
const TOUCHED: u64 = 2_000;
const OBJECT: usize = 256;

pub fn measure() -> Result<Sweep, Box<dyn Error>> {
    let mut page = format!(
        "\n## Running transactions, by the bytes of their `TxnInfo`\n\n`object-log`: {UPDATES} \
         updates of an object of {OBJECT} bytes each, over {TOUCHED} blocks of 4 KiB, one half\n\
         of them on a sixteenth of the blocks; all of them gathered.\n\n| `TxnInfo` | commits | \
         bytes of the records | bytes an update |\n|---|---|---|---|\n"
    );
    let sizes = (8..=17).map(|power| 1_u32 << power);
    let (mut steps, mut commits, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for size in sizes {
        let policy = ObjectLog::with(Settings::new().txn_info_bytes(size))?;
        let options = any_options(policy, NoHook).lanes(1).lane_bytes(64 << 20);
        let (pmem, disk) = (Region::anonymous(128 << 20)?, DynDisk::new(Kept::new()));
        let journal = DynJournal::format(DynPmem::new(pmem), disk, &options)?;
        let mut numbers = Numbers::new(3);
        for turn in 0..UPDATES {
            let end = if numbers.below(2) == 0 { TOUCHED / 16 } else { TOUCHED };
            let block = BlockNumber(numbers.below(end));
            let at = numbers.below((BLOCK / OBJECT) as u64) as usize * OBJECT;
            let object = [turn as u8; OBJECT];
            journal.transact_gathered(|tx| tx.write_at(block, at, &object))?;
        }
        journal.sync()?;
        let total = journal.stats()?.total();
        let each = total.bytes as f64 / UPDATES as f64;
        let name = if size < 1024 { format!("{size} B") } else { format!("{} KiB", size >> 10) };
        writeln!(page, "| {name} | {} | {} | {each:.1} |", total.commits, total.bytes)?;
        steps.push(name);
        commits.push(total.commits as f64);
        bytes.push(each);
    }
    let curves = vec![("commits".to_owned(), commits), ("bytes an update".to_owned(), bytes)];
    let plot = Plot {
        title: "Commits, and bytes an update",
        below: "bytes of the TxnInfo",
        scale: Scale::Doubling,
        is_joined: true,
        steps,
        curves,
    };
    Ok(Sweep { page, plots: vec![("txn-info.svg", plot)] })
}
