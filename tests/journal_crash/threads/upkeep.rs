//! Room that is made beside threads that write, and every crash of that: by ticks and by commits
//! that cross a threshold, by the timer, and by copies.

use nvm_journal::policy::Thresholds;

use super::*;
use crate::program::Step;

impl Workload {
    /// Ticks as long as others write, a second later each time.
    pub(super) fn ticker(&self, stage: &Stage, numbers: &Numbers) -> Result<(), String> {
        let (mut ended, mut seconds) = (0, 1);
        let tick = |seconds| {
            let ticked = stage.journal.tick(Duration::from_secs(seconds));
            ticked.map_err(|error| format!("tick {seconds}: {error}"))
        };
        tick(seconds)?;
        while let Some(now) = numbers.wait_for_more(ended) {
            (ended, seconds) = (now, seconds + 1);
            tick(seconds)?;
        }
        Ok(())
    }
}

/// Lanes that have room for all that is written, so that nobody but ticks or commits makes room.
/// After a crash one more tick comes.
fn roomy(logs: Logged, lanes: u16) -> Workload {
    let mut workload = Workload::of(logs, lanes, 3);
    workload.program.overwrite = Overwrite::MayLeaveGarbage;
    workload.program.lane_bytes = 128 * 64;
    workload.program.lane_slots = if logs == Logged::Cached { 48 } else { 0 };
    workload.program.steps_after = vec![Step::Tick];
    Workload { shared: 2, deferred: 1, rounds: 6, ..workload }
}

/// Ticks alone make room: where a lane is a sixteenth full.
pub(super) fn by_ticks(logs: Logged, lanes: u16) -> Workload {
    let mut workload = roomy(logs, lanes);
    workload.program.thresholds = Some(Thresholds::new(16, 16));
    Workload { ticks: true, ..workload }
}

/// The timer of ticks alone does, every other second.
pub(super) fn by_the_timer(logs: Logged, lanes: u16) -> Workload {
    let mut workload = roomy(logs, lanes);
    workload.program.thresholds = Some(Thresholds::new(255, 255));
    workload.program.checkpoint_after = Some(Duration::from_secs(2));
    Workload { ticks: true, ..workload }
}

/// Commits alone do, where a lane is a sixteenth full.
pub(super) fn by_commits(logs: Logged, lanes: u16) -> Workload {
    let mut workload = roomy(logs, lanes);
    workload.program.thresholds = Some(Thresholds::new(16, 16));
    workload.program.in_commits = true;
    workload
}

/// Room is made by copies, at ticks or in commits: blocks that rest keep heads back.
pub(super) fn by_copies(logs: Logged, in_commits: bool) -> Workload {
    let mut workload = Workload::of(logs, 1, 3);
    workload.program.lane_bytes = 40 * 64;
    workload.program.lane_slots = if logs == Logged::Cached { 12 } else { 0 };
    workload.program.thresholds = Some(Thresholds::new(64, 255));
    workload.program.relogs = true;
    workload.program.in_commits = in_commits;
    workload.program.steps_after = vec![Step::Tick];
    Workload { shared: 0, rests: true, ticks: !in_commits, rounds: 8, ..workload }
}

#[test]
fn thresholds_at_ticks_beside_threads_survive_sampled_crashes() {
    for (logs, lanes) in [(Logged::Halves, 1), (Logged::Halves, 2), (Logged::Whole, 2)] {
        let (report, acts) = by_ticks(logs, lanes).survives_with_acts(6);
        assert!(acts.written_home > 0 && acts.stops == 0, "{logs:?}: {acts:?}");
        assert!(report.images > 1_000, "{report}");
    }
}

#[test]
fn the_timer_of_checkpoints_beside_threads_survives_sampled_crashes() {
    for (logs, lanes) in [(Logged::Halves, 1), (Logged::Halves, 2), (Logged::Cached, 2)] {
        let (report, acts) = by_the_timer(logs, lanes).survives_with_acts(6);
        assert!(acts.checkpoints > 0 && acts.stops == 0, "{logs:?}: {acts:?}");
        assert!(report.images > 1_000, "{report}");
    }
}

#[test]
fn thresholds_in_commits_of_threads_survive_sampled_crashes() {
    for (logs, lanes) in [(Logged::Halves, 1), (Logged::Halves, 2), (Logged::Cached, 2)] {
        let (report, acts) = by_commits(logs, lanes).survives_with_acts(6);
        let others = acts.stops - acts.stops_in_commits;
        assert!(acts.stops_in_commits > 0 && others == 0, "{logs:?}: {acts:?}");
        assert!(report.images > 1_000, "{report}");
    }
}

#[test]
fn copies_beside_threads_survive_sampled_crashes() {
    for logs in [Logged::Halves, Logged::Whole] {
        for in_commits in [false, true] {
            let (report, acts) = by_copies(logs, in_commits).survives_with_acts(5);
            assert!(acts.copied > 0, "{logs:?}, in commits: {in_commits}: {acts:?}");
            assert!(report.images > 1_000, "{report}");
        }
    }
}

/// Nobody else writes home, or moves a head.
#[test]
fn room_made_beside_threads_needs_its_rules() {
    type Way = (&'static str, fn(Logged, u16) -> Workload, Rule);
    let ways: [Way; 3] = [
        ("ticks", by_ticks, Rule::CutKeepsNeeded),
        ("the timer", by_the_timer, Rule::CutKeepsNeeded),
        // A step lets heads pass what it has looked at, and no more.
        ("commits", by_commits, Rule::StepPassesSeen),
    ];
    for (way, workload, passes) in ways {
        for rule in [Rule::DurableGoesHome, Rule::ShieldFirst, passes] {
            let workload = Workload { deferred: 2, ..workload(Logged::Halves, 2) };
            assert!(workload.notices(rule), "{way}: {rule:?} is off, and nothing notices");
        }
    }
    for in_commits in [false, true] {
        let workload = by_copies(Logged::Halves, in_commits);
        assert!(workload.notices(Rule::CopyIsNewest), "what is copied is not looked at");
    }
}
