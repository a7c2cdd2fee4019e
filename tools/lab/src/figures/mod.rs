//! The papers' figures of the updates themselves: how much of what a block journal takes had
//! changed, and how many transactions commit. They are counted on real traces, as
//! `docs/FIGURES.md`.
//!
//! | file | what |
//! |---|---|
//! | `inodes` | FGM, Fig. 2b to 2d: clean inodes in inode blocks |
//! | `distances` | delta journaling, Fig. 1: how far updates differ, and the mean delta |
//! | `sub_blocks` | two-level logging: partially updated blocks, and what they waste |
//! | `gathered` | FGM, Fig. 14: commits by the size of the `TxnInfo` |
//! | `ext4`, `pace` | when the transactions of a trace end |
//! | `page` | the page |

pub mod distances;
pub mod ext4;
pub mod gathered;
pub mod inodes;
pub mod pace;
pub mod page;
pub mod sub_blocks;

use std::io::Read;

use crate::engines::Failure;
use crate::figures::distances::Distances;
use crate::figures::gathered::{By, Commits, Plan, Step, Steps, Unit, What, gather};
use crate::figures::inodes::InodeBlocks;
use crate::figures::pace::{Ends, Pace};
use crate::figures::sub_blocks::PartialWrites;
use crate::trace::{Trace, class};

/// Bytes of a `TxnInfo`, as the paper varies them.
pub const TXN_INFO_BYTES: [u32; 6] = [256, 1 << 10, 4 << 10, 8 << 10, 32 << 10, 128 << 10];

/// How much longer each transaction takes on clocks that are slower than the disk's.
pub const SLOWER: [u64; 2] = [4, 16];

/// What a trace's updates are.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub name: String,
    pub inodes: InodeBlocks,
    pub distances: Distances,
    /// All blocks, and those of file data and of databases.
    pub writes: PartialWrites,
    pub data: PartialWrites,
    /// Where the trace is what ext4 commits in ordered mode.
    pub gathered: Option<Gathered>,
}

/// What a trace's transactions are when they are gathered.
#[derive(Clone, Debug)]
pub struct Gathered {
    pub transactions: u64,
    pub objects: u64,
    pub inodes: u64,
    pub allocated: u64,
    pub ends: Ends,
    /// By [`TXN_INFO_BYTES`], on the clock of the disk: inodes one by one, all metadata one by one,
    /// and all metadata by whole transactions.
    pub commits: [[Commits; 3]; TXN_INFO_BYTES.len()],
    /// Inodes one by one by the trace's own times, with the smallest and the largest `TxnInfo`.
    pub by_own_times: [Commits; 2],
    /// Likewise on slower clocks.
    pub slower: [[Commits; 2]; SLOWER.len()],
}

/// Counts all updates of a trace, and gathers its transactions.
///
/// # Errors
/// What is wrong with the trace, and errors of the journal.
pub fn counted<R: Read>(trace: &mut Trace<R>) -> Result<Counted, Failure> {
    let (header, begin) = (trace.header().clone(), trace.state().clone());
    let mut counted = Counted { name: header.name.clone(), ..Counted::default() };
    let mut pace = Pace::of(&header, &begin);
    let mut steps = Vec::new();
    while trace.advance()? {
        let (writes, state) = (&trace.transaction().writes, trace.state());
        for write in writes {
            let old = &state[&write.block];
            if write.class == class::INODES {
                counted.inodes.add(old, &write.image);
            }
            if !write.is_new() {
                counted.distances.add(old, &write.image);
            }
            counted.writes.add(old, &write.image, write.is_new());
            if write.is_data() {
                counted.data.add(old, &write.image, write.is_new());
            }
        }
        // FGM is of metadata: where a trace has data, a disk in ordered mode would not.
        if counted.data.blocks > 0 {
            pace = None;
        }
        if let Some(pace) = &mut pace {
            let ends = pace.end_of(writes, state)?;
            steps.push(Step::of(writes, state, ends));
        }
    }
    if let Some(pace) = pace {
        let steps = Steps { header, begin, steps, end: trace.state().clone() };
        counted.gathered = Some(gathered(&steps, pace.allocated)?);
    }
    Ok(counted)
}

fn gathered(steps: &Steps, allocated: u64) -> Result<Gathered, Failure> {
    let mut commits = [[Commits::default(); 3]; TXN_INFO_BYTES.len()];
    let ways = [
        (What::Inodes, Unit::Object),
        (What::Metadata, Unit::Object),
        (What::Metadata, Unit::Transaction),
    ];
    for (txn_info_bytes, row) in TXN_INFO_BYTES.into_iter().zip(&mut commits) {
        for ((what, unit), found) in ways.into_iter().zip(row) {
            *found = gather(steps, Plan { txn_info_bytes, what, unit, by: By::Disk { times: 1 } })?;
        }
    }
    let inodes_by = |by: By| -> Result<[Commits; 2], Failure> {
        let (what, unit) = ways[0];
        let of = |txn_info_bytes| gather(steps, Plan { txn_info_bytes, what, unit, by });
        Ok([of(TXN_INFO_BYTES[0])?, of(TXN_INFO_BYTES[TXN_INFO_BYTES.len() - 1])?])
    };
    let mut slower = [[Commits::default(); 2]; SLOWER.len()];
    for (times, found) in SLOWER.into_iter().zip(&mut slower) {
        *found = inodes_by(By::Disk { times })?;
    }
    Ok(Gathered {
        transactions: steps.steps.len() as u64,
        objects: steps.objects(),
        inodes: steps.inodes(),
        allocated,
        ends: steps.ends(),
        commits,
        by_own_times: inodes_by(By::OwnTimes)?,
        slower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SAMPLE;

    #[test]
    fn the_sample_is_counted_and_not_gathered() {
        let mut trace = Trace::open(SAMPLE).expect("a trace");
        let Counted { name, inodes, distances, writes, data, gathered } =
            counted(&mut trace).expect("a trace");
        assert_eq!((name.as_str(), gathered.is_none()), ("sample", true));
        // As `tests/replay` has them.
        assert_eq!((writes.blocks, distances.updates, distances.unchanged), (123, 115, 23));
        assert_eq!(distances.bytes[2], 104);
        assert!(inodes.blocks() > 10 && inodes.inodes() == 2 * inodes.blocks());
        assert!(0 < data.blocks && data.blocks < writes.blocks && data.partial < data.blocks);
    }
}
