//! Which policy suits media that can be bought: the same work under each policy on three pairs of
//! memory and disk.

use std::fmt::Write as _;

use journal_core::policy::Policy as _;
use nvm_journal::AnyPolicy;
use sim_disk::time::{CardModel, Clock, MemoryModel, SsdModel};

use crate::engines::Failure;
use crate::papers::files::case::{InNvm, Kept, Machine, Medium};
use crate::papers::files::fs::Directories;
use crate::papers::files::loads::{self, Loop};
use crate::papers::files::world::Checkpoints;
use crate::papers::host::Host;
use crate::papers::policy::HostPolicy;

pub const TEXT: &str = "\
Varmail (16 threads, files of 16 KB, an fsync after each append), with all data through \
the journal of 128 MB. Operations a second; the fastest is bold.\n";

const PAIRS: [(&str, MemoryModel, Medium); 3] = [
    ("NVDIMM-N and NVMe", MemoryModel::nvdimm_n(), Medium::Ssd(SsdModel::nvme())),
    ("CXL memory and NVMe", MemoryModel::cxl(), Medium::Ssd(SsdModel::nvme())),
    ("FRAM and SD card", MemoryModel::fram(), Medium::Card(CardModel::class_10())),
];

/// The policies; each has a function, so that a machine can be copied.
const POLICIES: [fn(&Clock) -> HostPolicy; 7] = [
    |clock| HostPolicy::new(AnyPolicy::ALL[0], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[1], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[2], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[3], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[4], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[5], clock),
    |clock| HostPolicy::new(AnyPolicy::ALL[6], clock),
];

/// The table.
///
/// # Errors
/// Those of the journals.
pub fn table(scale: u64) -> Result<String, Failure> {
    let mut page = String::from("| memory and disk |");
    for policy in AnyPolicy::ALL {
        let _ = write!(page, " {} |", policy.name());
    }
    let _ = write!(page, " k |\n|---|{}---|\n", "---|".repeat(POLICIES.len()));
    for (name, memory, medium) in PAIRS {
        let mut all = Vec::new();
        for policy in POLICIES {
            let kept = Kept::Nvm(InNvm {
                policy,
                memory,
                bytes: 128 << 20,
                logs_data: true,
                checkpoints: Checkpoints::Own,
                objects_max: None,
                caller_flushes: false,
                slot_share: None,
                transaction_blocks: 1 << 12,
            });
            let machine = Machine {
                host: Host::NJS,
                medium,
                threads: 16,
                files: 100_000,
                file_blocks: (4, 4),
                average_blocks: 6,
                directories: Directories::One,
                cache_bytes: 6 << 30,
                memory_bytes: 8 << 30,
                run_ns: Some(120_000_000_000),
                ..Machine::USUAL
            };
            let (steps, count) = (loads::varmail::<4>(), loads::VARMAIL_OPERATIONS);
            let ran = machine.run(kept, scale, |world| Loop::new(steps, count, 16, 0, world))?;
            all.push(ran.per_second);
        }
        let best = all.iter().copied().fold(0.0, f64::max);
        let _ = write!(page, "| {name} |");
        for value in all {
            let mark = if value >= best { "**" } else { "" };
            let _ = write!(page, " {mark}{value:.0}{mark} |");
        }
        let _ = writeln!(page, " {scale} |");
    }
    // A policy asks nothing of the clock here but its name.
    debug_assert_eq!(POLICIES[0](&Clock::new()).id(), AnyPolicy::ALL[0].id());
    Ok(page)
}
