//! Snapshots that are open while threads write, and every crash of that: what they show is one
//! committed state, and stays so.

use lab::erased::{AnyMachine, DynPolicy};
use lab::oracle::{BLOCK_BYTES, BLOCKS, Block, judge_snapshot};
use nvm_journal::{BlockNumber, Snapshot};

use super::*;

/// How often a snapshot is read again, each time behind further transactions.
const AGAIN: u64 = 6;

type Seen<'j> = Snapshot<'j, DynPolicy, AnyMachine>;

/// All that a snapshot shows, unless an upkeep has ended it.
fn all_of(snapshot: &Seen<'_>) -> Result<Option<[Block; BLOCKS]>, String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in (0..).zip(&mut blocks) {
        match snapshot.read(BlockNumber(number), block) {
            Ok(()) => {}
            Err(Error::SnapshotTooOld) => return Ok(None),
            Err(error) => return Err(format!("a snapshot reads: {error}")),
        }
    }
    Ok(Some(blocks))
}

impl Workload {
    /// Has one snapshot after the other open as long as others write, the first one at once.
    pub(super) fn looker(&self, stage: &Stage, numbers: &Numbers) -> Result<(), String> {
        let mut next = Some(0);
        while let Some(mut ended) = next {
            let asked = stage.world.history().len();
            let snapshot = stage.journal.snapshot().map_err(|error| error.to_string())?;
            let history = stage.world.history();
            let Some(found) = all_of(&snapshot)? else {
                next = numbers.wait_for_more(ended);
                continue;
            };
            judge_snapshot(&history, asked, &found)?;
            for number in found.iter().map(number_in).filter(|number| numbers.is_durable(*number)) {
                stage.world.returned(shown_label(number));
            }
            self.acted(|acts| acts.seen += 1);
            for _ in 0..AGAIN {
                next = numbers.wait_for_more(ended);
                let Some(now) = next else { break };
                ended = now;
                let Some(again) = all_of(&snapshot)? else { break };
                if again != found {
                    return Err(format!("a snapshot shows {again:x?} behind {found:x?}"));
                }
                self.acted(|acts| acts.seen_again += 1);
            }
        }
        Ok(())
    }
}

/// Writers of their own blocks and of few shared ones, in lanes that have room for all of it.
pub(super) fn beside_writers(logs: Logged, lanes: u16) -> Workload {
    let mut workload = Workload::of(logs, lanes, 3);
    workload.program.overwrite = Overwrite::MayLeaveGarbage;
    workload.program.lane_bytes = 64 * 64;
    Workload { shared: 2, snapshots: true, rounds: 6, ..workload }
}

/// Transactions that read what others write, through a lane that is ahead and two that lag behind.
pub(super) fn readers() -> Workload {
    let workload = beside_writers(Logged::Whole, 3);
    Workload { shared: 0, looks: true, threads: 4, ahead: 12, ..workload }
}

#[test]
fn snapshots_are_one_state_and_survive_sampled_crashes() {
    for (logs, lanes) in [
        (Logged::Halves, 1),
        (Logged::Halves, 2),
        (Logged::Versions, 2),
        (Logged::Cached, 1),
        (Logged::Compressed, 2),
    ] {
        let workload = Workload { deferred: 1, gathered: 1, ..beside_writers(logs, lanes) };
        let (report, acts) = workload.survives_with_acts(5);
        assert!(acts.seen > 0 && acts.seen_again > 0, "{logs:?}: {acts:?}");
        assert!(report.images > 1_000, "{report}");
    }
}

/// In lanes that are emptied again and again: an upkeep ends snapshots, and they say so.
#[test]
fn snapshots_that_an_upkeep_ends_survive_sampled_crashes() {
    for logs in [Logged::Halves, Logged::Cached] {
        let mut workload = beside_writers(logs, 2);
        workload.program.lane_bytes = 16 * 64;
        let workload = Workload { deferred: 1, ticks: true, ..workload };
        let (report, acts) = workload.survives_with_acts(8);
        assert!(acts.seen > 0 && acts.snapshots_ended > 0, "{logs:?}: {acts:?}");
        assert!(report.images > 1_000, "{report}");
    }
}

/// No crash comes into it: a snapshot shows it at once.
#[test]
fn a_snapshot_beside_threads_needs_its_rules() {
    let whole = |lanes| beside_writers(Logged::Whole, lanes);
    let behind = Workload { shared: 0, ahead: 12, ..whole(2) };
    assert!(behind.goes_wrong_without(Rule::SnapshotsStamped), "what comes later is seen");
    assert!(whole(2).goes_wrong_without(Rule::SnapshotsKept), "what is seen is forgotten");
    let mut emptied = Workload { ticks: true, ..whole(2) };
    emptied.program.checkpoint_after = Some(Duration::from_secs(3));
    assert!(emptied.goes_wrong_without(Rule::SnapshotsEnd), "what is seen goes home");
    assert!(readers().goes_wrong_without(Rule::SnapshotsAtOnce), "what was read is not seen");
}
