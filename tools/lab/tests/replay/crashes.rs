//! Crashes of the sample, by a journal that keeps its order and by some that do not.

use std::collections::BTreeSet;

use journal_core::{Rule, SITES};
use sim_disk::{Mutant, Mutation, Mutator};

use crate::figures::{LONG, figures};
use crate::forgetful::FORGETFUL;
use lab::replay::count::Records;
use lab::replay::crash::{CrashError, CrashReport, Plan, Violation, Witness, Wrong, crashes};
use lab::replay::policies::{ALL, Known};
use lab::trace::SAMPLE;
use lab::trace::{Header, State, Trace};

const TRANSACTIONS: u64 = 30;
const CRASHES: u64 = 50;

/// Counts the states it is shown, and can dislike one.
#[derive(Default)]
struct Eyes {
    seen: u64,
    dislikes: Option<u64>,
}

impl Witness for Eyes {
    fn sees(&mut self, header: &Header, state: &State) -> bool {
        assert_eq!((header.name.as_str(), state.len()), ("sample", 34));
        self.seen += 1;
        self.dislikes != Some(self.seen)
    }
}

fn crash(
    known: &Known,
    seed: u64,
    mutator: &Mutator,
    eyes: &mut Eyes,
) -> Result<CrashReport, Violation> {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    let plan = Plan { crashes: CRASHES, seed, shown: 5 };
    let report = crashes(&mut trace, TRANSACTIONS, known, &plan, mutator, eyes, |_| {});
    report.map_err(|error| match error {
        CrashError::Violation(violation) => violation,
        CrashError::Trace(error) => panic!("{error}"),
    })
}

#[test]
fn every_crash_leaves_an_allowed_state() {
    let mut places = BTreeSet::new();
    for known in ALL {
        let mut eyes = Eyes::default();
        let report = crash(known, 1, &Mutator::new(), &mut eyes);
        let report = report.unwrap_or_else(|error| panic!("{}: {error}", known.name));
        assert_eq!((report.crashes, report.shown, eyes.seen), (CRASHES, 5, 5));
        assert_eq!(report.places.values().sum::<u64>(), CRASHES);
        // Somewhere in everything, with both outcomes.
        for place in ["commit", "checkpoint", "superblock", "between"] {
            assert!(report.places.contains_key(place), "{}: {report:?}", known.name);
        }
        let least = report.kept.min(report.lost).min(report.nested).min(report.went_on);
        assert!(least >= 3, "{}: {report:?}", known.name);
        let folds = report.places.contains_key("fold") || report.places.contains_key("void");
        assert!(known.has_slots() || known.has_log() || !folds, "{}: {report:?}", known.name);
        places.extend(report.places.into_keys());
    }
    for place in ["append", "fold", "void", "log"] {
        assert!(places.contains(place), "{places:?}");
    }
}

/// Whether some of `times` times 50 crashes is not survived.
fn is_noticed(known: &Known, times: u64, mutator: impl Fn() -> Mutator) -> bool {
    (1..=times).any(|seed| crash(known, seed, &mutator(), &mut Eyes::default()).is_err())
}

/// How often deferred records are flushed in as many crashes.
fn flushes_of_deferred(known: &Known, times: u64) -> u64 {
    let flushes = |seed| {
        let mutator = Mutator::new();
        let _ = crash(known, seed, &mutator, &mut Eyes::default());
        let reached = mutator.reached();
        let of_site = reached.iter().filter(|(site, _)| site.name == "deferred.flush");
        of_site.map(|(_, times)| *times).sum::<u64>()
    };
    (1..=times).map(flushes).sum()
}

#[test]
fn a_journal_that_gets_its_order_wrong_is_noticed() {
    let wrong = [
        ("commit.fence", Mutation::DropFence),
        ("commit.fence", Mutation::WeakenFence),
        ("commit.front", Mutation::DropFlush),
        ("commit.image", Mutation::ShortenRange),
        ("deferred.flush", Mutation::DropFlush),
        ("checkpoint.sync", Mutation::DropSync),
    ];
    for known in ALL {
        // Deltas may leave no image to be lost, but where a log is full.
        let Records { images, slots, .. } = figures(known.name, &LONG).placed;
        let has_images = |site: &str| site != "commit.image" || images + slots > 0;
        for (name, mutation) in wrong.into_iter().filter(|(name, _)| has_images(name)) {
            let site = SITES.iter().copied().flatten().find(|site| site.name == name);
            let mutant = Mutant { site: *site.expect("a site"), mutation };
            // At the door a deferred record that stores more than a kilobyte is made durable at
            // once. With slots few are left to flush, and where all blocks are logged hardly any.
            let is_deferred = name == "deferred.flush";
            let times = if is_deferred && known.has_slots() { 40 } else { 12 };
            let is_noticed = is_noticed(known, times, || Mutator::with(mutant));
            let is_rare = || is_deferred && flushes_of_deferred(known, times) < times;
            assert!(is_noticed || is_rare(), "{}: {mutant}", known.name);
        }
        // A record that names slots alone is a line or two. The checks of its slots refuse most of
        // what may be missing there, but not another block's number.
        let times = if known.name.starts_with("byte-delta") { 40 } else { 12 };
        let is_noticed = is_noticed(known, times, || Mutator::without(&[Rule::RecordCheck]));
        assert!(is_noticed, "{}: records count whatever their check says", known.name);
    }
}

#[test]
fn a_crash_can_be_had_again() {
    let site = SITES.iter().copied().flatten().find(|site| site.name == "commit.fence");
    let mutant = Mutant { site: *site.expect("a site"), mutation: Mutation::DropFence };
    let violation = || crash(&ALL[0], 1, &Mutator::with(mutant), &mut Eyes::default());
    let first = violation().expect_err("a fence is missing");
    assert_eq!(violation(), Err(first));
}

#[test]
fn who_is_shown_a_state_may_refuse_it() {
    let mut eyes = Eyes { seen: 0, dislikes: Some(3) };
    let violation = crash(&ALL[0], 1, &Mutator::new(), &mut eyes).expect_err("disliked");
    assert_eq!((violation.wrong, eyes.seen), (Wrong::Refused, 3));
}

#[test]
fn a_policy_that_logs_nothing_is_found_out() {
    let wrong = |seed| {
        let violation = crash(&FORGETFUL, seed, &Mutator::new(), &mut Eyes::default());
        violation.expect_err("nothing is there").wrong
    };
    let wrongs: Vec<Wrong> = (1..=20).map(wrong).collect();
    // By a reader, or where the power went before anything was acknowledged, by the disk.
    assert!(wrongs.iter().any(|wrong| matches!(wrong, Wrong::NotAllowed { .. })), "{wrongs:?}");
    assert!(wrongs.iter().any(|wrong| matches!(wrong, Wrong::NotHome { .. })), "{wrongs:?}");
}

/// What is wrong with a journal: a site in a way, or a rule.
#[derive(Clone, Copy, Debug)]
enum Bug {
    At(&'static str, Mutation),
    Without(Rule),
}

impl Bug {
    fn mutator(self) -> Mutator {
        match self {
            Self::At(name, mutation) => {
                let site = SITES.iter().copied().flatten().find(|site| site.name == name);
                Mutator::with(Mutant { site: *site.expect("a site"), mutation })
            }
            Self::Without(rule) => Mutator::without(&[rule]),
        }
    }
}

#[test]
fn slots_that_are_got_wrong_are_noticed() {
    use Bug::{At, Without};
    use Mutation::{DropFence, DropFlush, DropSync, ShortenRange, SwapAcross};
    let versions = [
        At("slot.image", DropFlush),
        At("slot.image", ShortenRange),
        At("slot.image", SwapAcross),
        At("slot.rewrite", SwapAcross),
        At("slot.rewrite.flush", DropFlush),
        At("slot.rewrite.flush", ShortenRange),
        At("slot.deferred.flush", DropFlush),
        At("slot.entry", DropFlush),
        At("slot.entry", SwapAcross),
        At("slot.entry.fence", DropFence),
        At("slot.void", SwapAcross),
        At("slot.void.flush", DropFlush),
        At("slot.void.fence", DropFence),
        At("append.write", SwapAcross),
        At("append.sync", DropSync),
        Without(Rule::SlotCheck),
        Without(Rule::VoidsFenced),
    ];
    let cache = [
        At("slot.image", DropFlush),
        At("slot.image", ShortenRange),
        At("slot.deferred.flush", DropFlush),
        At("slot.entry", DropFlush),
        At("slot.void", SwapAcross),
        At("slot.void.flush", DropFlush),
    ];
    // A block of the log is written again when all of its segment is free, which is too late for so
    // few transactions to find a void out that is missing.
    let log = [
        At("log.write", SwapAcross),
        At("log.sync", DropSync),
        At("slot.entry", DropFlush),
        At("checkpoint.sync", DropSync),
    ];
    let logs = [("compressed-delta", &log[..]), ("two-level", &log)];
    for (name, bugs) in [("byte-delta", &versions[..]), ("lcow", &cache)].into_iter().chain(logs) {
        let known = ALL.iter().find(|known| known.name == name).expect("a policy");
        for bug in bugs {
            let survives = |seed| crash(known, seed, &bug.mutator(), &mut Eyes::default()).is_ok();
            assert!(!(1..=8).all(survives), "{name}: {bug:?}");
        }
    }
}
