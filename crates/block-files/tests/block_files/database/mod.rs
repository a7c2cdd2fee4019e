//! redb on a file of a journal, by its public calls: programs of transactions against two maps,
//! with power cuts at any instant of the simulated memory and disk below the journal.

mod backend;
mod model;

use std::sync::Arc;

use block_files::BlockFiles;
use journal_core::{BlockSize, DeviceFacts};
use lab::erased::{any_options, of_world};
use nvm_journal::ports::NoHook;
use nvm_journal::{ByteDelta, FullBlock, Journal};
use proptest::prelude::*;
use redb::Database;
use sim_disk::{CrashPoints, DiskImage, Image, Model, Rng, World};

use self::backend::Backend;
use self::model::{Content, Transaction, check, transactions};

/// How the journal below logs.
#[derive(Clone, Copy, Debug)]
enum Policy {
    FullBlock,
    ByteDelta,
}

#[derive(Clone, Debug)]
enum Step {
    Transaction(Transaction),
    Checkpoint,
    Compact,
    Reopen,
    /// The power is cut at some instant since the last step of its kind; the seed says at which,
    /// and what of the media is kept.
    PowerCut(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => transactions().prop_map(Step::Transaction),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
        3 => any::<u64>().prop_map(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..20)
}

fn blank() -> Image {
    let size = BlockSize::DEFAULT;
    Image::blank(1 << 20).with_disk(DiskImage::blank(size, 1200, DeviceFacts::cautious()))
}

/// A database, from below.
struct Below {
    world: World,
    policy: Policy,
}

impl Below {
    fn database(&self, is_new: bool) -> (Arc<BlockFiles>, Database) {
        let options = match self.policy {
            Policy::FullBlock => any_options(FullBlock, NoHook),
            Policy::ByteDelta => any_options(ByteDelta::new(), NoHook).cache_bytes(1 << 20),
        };
        let ((nvm, disk), options) = (of_world(&self.world), options.lanes(1));
        let journal = match is_new {
            true => Journal::format(nvm, disk, &options).expect("a journal"),
            false => Journal::open(nvm, disk, &options).expect("a journal"),
        };
        let files = BlockFiles::open_or_format(Arc::new(journal)).expect("files");
        let file = match files.open_file("db") {
            Ok(file) => file,
            Err(_) => files.create("db").expect("a file"),
        };
        let mut builder = Database::builder();
        builder.set_cache_size(1 << 20);
        let database = builder.create_with_backend(Backend(file)).expect("a database");
        (Arc::new(files), database)
    }

    /// What a power cut leaves of what was done since event `from`, and after how many events it
    /// came.
    fn cut(&self, from: usize, seed: u64) -> (Image, usize) {
        let (tape, mut rng) = (self.world.tape(), Rng::new(seed));
        let first = from + rng.index(tape.len() + 1 - from);
        let mut points = CrashPoints::new(&self.world.start(), &tape, self.world.rules(), first);
        let point = points.next().expect("the end of a tape is a point");
        let choice: Vec<_> = point.cells().iter().map(|cell| rng.index(cell.options())).collect();
        (point.image(&choice), point.position())
    }
}

/// A state that the database was in, and when.
struct Past {
    content: Content,
    /// Events before its commit began.
    begun: usize,
    /// Events before it was promised; `None` if the commit promised nothing.
    promised: Option<usize>,
}

/// The states that a cut may leave: all from the last promised one to the last begun one.
fn possible(past: &[Past], position: usize) -> &[Past] {
    let is_promised = |past: &Past| past.promised.is_some_and(|at| at <= position);
    let first = past.iter().rposition(is_promised).unwrap_or(0);
    let last = past.iter().rposition(|past| past.begun <= position).unwrap_or(0);
    &past[first..=last.max(first)]
}

fn run(policy: Policy, steps: &[Step]) {
    let mut below = Below { world: World::boot(blank(), Model::Torn8), policy };
    // 1. The first states are durable before any cut: redb makes its file then.
    let (mut files, mut database) = below.database(true);
    let now = |below: &Below| below.world.tape().len();
    let start = |content: Content, below: &Below| {
        vec![Past { content, begun: 0, promised: Some(now(below)) }]
    };
    let mut past = start(Content::default(), &below);
    let made = now(&below);
    let mut is_first_world = true;
    for step in steps {
        let content = past.last().expect("one at least").content.clone();
        match step {
            Step::Transaction(transaction) => {
                let begun = now(&below);
                let mut new = content;
                if transaction.run(&database, &mut new) {
                    let promised = transaction.is_durable().then(|| now(&below));
                    past.push(Past { content: new, begun, promised });
                }
            }
            Step::Checkpoint => drop(files.checkpoint().expect("a checkpoint")),
            Step::Compact => {
                // It commits what was committed without a promise.
                database.compact().expect("a compaction");
                past.push(Past { content, begun: now(&below), promised: Some(now(&below)) });
            }
            Step::Reopen => {
                drop((files, database));
                (files, database) = below.database(false);
                past.push(Past { content, begun: now(&below), promised: Some(now(&below)) });
            }
            Step::PowerCut(seed) => {
                // Before the file was made, there is no database to be opened.
                let from = if is_first_world { made } else { 0 };
                let (image, position) = below.cut(from, *seed);
                drop((files, database));
                below.world = World::boot(image, Model::Torn8);
                (files, database) = below.database(false);
                is_first_world = false;
                let found = check(&mut database);
                let may_be = possible(&past, position);
                assert!(
                    may_be.iter().any(|past| past.content == found),
                    "after event {position}: {found:?} is none of {:?}",
                    may_be.iter().map(|past| &past.content).collect::<Vec<_>>()
                );
                past = start(found, &below);
                past[0].promised = Some(0);
                continue;
            }
        }
        assert_eq!(check(&mut database), past.last().expect("one at least").content);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn redb_is_as_its_model_through_power_cuts(steps in steps()) {
        run(Policy::FullBlock, &steps);
    }

    #[test]
    fn redb_is_as_its_model_where_changes_are_logged(steps in steps()) {
        run(Policy::ByteDelta, &steps);
    }
}

/// A backend that promises too much is found by the same programs.
#[test]
fn a_sync_that_does_nothing_is_found() {
    let lies = |seed| {
        backend::lie(true);
        // What fills a slot is durable without a sync. So the pages have to be written again.
        let inserts = (1..=12).map(|key| Step::Transaction(Transaction::insert(key)));
        let steps: Vec<_> = inserts.chain([Step::PowerCut(seed)]).collect();
        let found = std::panic::catch_unwind(|| run(Policy::ByteDelta, &steps)).is_err();
        backend::lie(false);
        found
    };
    assert!((0..200).any(lies), "no power cut shows it");
}
