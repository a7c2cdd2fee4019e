//! What threads may not see or do while another one is in the middle of something: each test stops
//! a thread at one step, lets others run, and explores every crash of what came of it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use journal_core::{BlockNumber, Overwrite};
use nvm_journal::{Error, Journal};
#[cfg(shuttle)]
use shuttle::thread;
use sim_disk::{Explorer, Fault, FaultKind, Image, Model, Mutator, Operation, Scenario, World};
#[cfg(not(shuttle))]
use std::thread;

use crate::pending;
use crate::probe::{Device, Logged, Probe};
use crate::program::{
    Front, Program, Tx, apply, at_once, call_of, covering, end, media, read_all, read_block,
};
use lab::oracle::{
    Change, End, cover_label, judge, judge_read, late, next_number, number_in, shown_label,
};

use Change::{Read, Touch, Write};
use End::{Deferred, Durable};

/// Longer than anything takes that is not waiting for something.
pub(crate) const A_WHILE: Duration = Duration::from_millis(30);

/// Runs a test, and says so when it never ends.
pub(crate) fn within<R: Send + 'static>(
    seconds: u64,
    test: impl FnOnce() -> R + Send + 'static,
) -> R {
    let (done, is_done) = channel();
    let thread = std::thread::spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    let waited = is_done.recv_timeout(Duration::from_secs(seconds));
    let hangs = waited == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
    assert!(!hangs, "somebody waits for ever");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A thread that was let in, and how it ended.
type Helper = JoinHandle<Result<(), String>>;

/// A journal with everything that a script needs to interfere.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) journal: Arc<Front>,
    pub(crate) probe: Probe,
    pub(crate) device: Device,
    helpers: Arc<Mutex<Vec<Helper>>>,
}

impl Stage {
    pub(crate) fn open(program: &Program, world: &World) -> Result<Self, Error> {
        let probe = Probe::new(program.mutator.clone());
        let device = Device::new(world.disk(0));
        let options = program.options(probe.clone());
        let (pmem, disk) = media(world, device.clone());
        let journal = Arc::new(Journal::open(pmem, disk, &options)?);
        Ok(Self { world: world.clone(), journal, probe, device, helpers: Arc::default() })
    }

    /// One transaction, from begin to end, as soon as it gets through.
    pub(crate) fn transact(
        &self,
        number: u64,
        changes: &[(usize, Change)],
        ends: End,
    ) -> Result<(), Error> {
        let tx = Tx::new(0, changes, ends);
        loop {
            let mut transaction = self.journal.begin()?;
            let mut changes = changes.iter();
            let result = changes.try_for_each(|(block, change)| {
                apply(&mut transaction, number, *block, *change).map(drop)
            });
            match result {
                Ok(()) => return end(&self.world, transaction, number, &tx),
                Err(Error::Conflict { .. }) => {
                    drop(transaction);
                    thread::yield_now();
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// One transaction of writes alone, ascending by block, in one call. The probe's watcher marks
    /// it, by [`pending::mark`].
    pub(crate) fn transact_at_once(&self, number: u64, tx: &Tx) -> Result<(), Error> {
        let label = call_of(number, tx).label();
        // A durable commit covers what was committed before it, and begins here.
        let covers = (tx.end == Durable).then_some(cover_label(number));
        covers.inspect(|covers| self.world.called(*covers));
        pending::expect(number, label);
        let result = at_once(&self.journal, number, tx);
        // Refused before it stored anything.
        let was_not_marked = pending::was_not_marked();
        result?;
        assert!(!was_not_marked, "what is committed is stored");
        self.world.returned(late(label));
        covers.inspect(|covers| self.world.returned(*covers));
        Ok(())
    }

    /// Lets another thread do something.
    pub(crate) fn help(&self, help: impl FnOnce(&Self) -> Result<(), String> + Send + 'static) {
        let stage = self.clone();
        let helper = std::thread::spawn(move || help(&stage));
        self.helpers.lock().expect("nobody panics").push(helper);
    }

    /// Lets another thread run a transaction.
    pub(crate) fn help_transact(
        &self,
        number: u64,
        changes: &'static [(usize, Change)],
        ends: End,
    ) {
        self.help(move |stage| {
            let result = stage.transact(number, changes, ends);
            result.map_err(|error| format!("helper: {error}"))
        });
    }

    /// Whether all helpers have ended; waits a while for them.
    pub(crate) fn have_helped(&self) -> bool {
        for _ in 0..30 {
            if self.helpers.lock().expect("nobody panics").iter().all(JoinHandle::is_finished) {
                return true;
            }
            std::thread::sleep(A_WHILE / 30);
        }
        false
    }

    /// Calls when a step with this name comes for the first time.
    pub(crate) fn at_first(
        &self,
        name: &'static str,
        call: impl Fn(&Self) + Send + Sync + 'static,
    ) {
        let (stage, was_there) = (self.clone(), AtomicBool::new(false));
        self.probe.watch(move |site| {
            pending::mark(&stage.world, site);
            if site.name == name && !was_there.swap(true, Ordering::AcqRel) {
                call(&stage);
            }
        });
    }

    /// Notes what a reader is shown now of a transaction that is not deferred.
    fn show(&self, block: usize) {
        // After a failure nobody is shown anything.
        let Ok(content) = read_block(&self.journal, block) else { return };
        if number_in(&content) > 0 {
            self.world.returned(shown_label(number_in(&content)));
        }
    }

    /// Ends the interference, and judges.
    fn end(self) -> Result<(), String> {
        let helpers = core::mem::take(&mut *self.helpers.lock().expect("nobody panics"));
        for helper in helpers {
            helper.join().map_err(|_| "a helper panicked")??;
        }
        self.probe.look_away();
        self.device.look_away();
        judge(&self.world, &read_all(&self.journal)?).map(drop)
    }
}

type Script = fn(&Stage) -> Result<(), Error>;

/// A scenario whose program is a script.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) program: Program,
    pub(crate) script: Script,
    /// Commits that had no fence of their own.
    pub(crate) grouped: Arc<AtomicU64>,
}

impl Scripted {
    pub(crate) fn new(lanes: u16, script: Script) -> Self {
        let program = Program::new(Logged::Halves, lanes, Vec::new());
        let program = Program { lane_bytes: 32 * 64, ..program };
        Self { program, script, grouped: Arc::default() }
    }

    /// Returns how many commits had no fence of their own.
    pub(crate) fn survives(self) -> u64 {
        within(60, move || {
            let explorer = Explorer::new(Model::Torn8)
                .with_images_per_point_max(1 << 8)
                .with_random_per_point(32)
                .with_kills();
            explorer.explore(&self).unwrap_or_else(|failure| panic!("{failure}"));
            self.grouped.load(Ordering::Relaxed)
        })
    }
}

impl Scenario for Scripted {
    fn start(&self) -> Image {
        self.program.start()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let stage = Stage::open(&self.program, world).map_err(|error| error.to_string())?;
        let result = (self.script)(&stage).map_err(|error| format!("script: {error}"));
        if let Ok(stats) = stage.journal.stats() {
            let grouped = stats.total().commits.saturating_sub(stats.total().fences);
            self.grouped.fetch_add(grouped, Ordering::Relaxed);
        }
        let ended = stage.end();
        result.and(ended)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        self.program.recover(world)
    }
}

#[test]
fn a_reader_is_not_shown_what_is_not_durable() {
    Scripted::new(2, |stage| {
        stage.transact(1, &[(0, Write)], Durable)?;
        stage.at_first("commit.fence", |stage| (0..2).for_each(|block| stage.show(block)));
        stage.transact(2, &[(0, Touch), (1, Write)], Durable)
    })
    .survives();
}

#[test]
fn a_block_is_its_transactions_own_until_that_is_durable() {
    Scripted::new(2, |stage| {
        stage.at_first("commit.fence", |stage| {
            stage.help_transact(2, &[(1, Write), (0, Read)], Durable);
            stage.have_helped();
        });
        stage.transact(1, &[(0, Write), (1, Write)], Durable)
    })
    .survives();
}

/// What a block has had is forgotten once it is written over, but not while a checkpoint may still
/// have to build content of it.
#[test]
fn a_checkpoint_finds_what_its_snapshot_has() {
    Scripted::new(1, |stage| {
        stage.transact(1, &[(0, Write)], Durable)?;
        stage.at_first("checkpoint.home", |stage| {
            for number in 2..=4 {
                stage.help_transact(number, &[(0, Write)], Durable);
                assert!(stage.have_helped(), "a commit does not wait for a checkpoint");
            }
            assert_eq!(stage.journal.stats().expect("goes on").frames, 4);
        });
        covering(&stage.world, || stage.journal.checkpoint().map(drop)).expect("writes home");
        for number in 5..=8 {
            stage.transact(number, &[(0, Write)], Durable)?;
        }
        // The newest, and the one before.
        assert_eq!(stage.journal.stats().expect("goes on").frames, 2);
        Ok(())
    })
    .survives();
}

/// The first one holds the lane until others are waiting for it; then all of them take their time.
fn group(stage: &Stage, ends: &'static [End]) -> Result<(), Error> {
    let (there, fronts) = (stage.clone(), AtomicU32::new(0));
    stage.probe.watch(move |site| {
        let is_front = site.name.ends_with(".front");
        if !is_front && site.name != "commit.fence" {
            return;
        }
        if is_front && fronts.fetch_add(1, Ordering::AcqRel) == 0 {
            for (number, ends) in (2..).zip(ends) {
                let changes = vec![(number as usize - 1, Touch)];
                there.help(move |stage| {
                    let result = stage.transact(number, &changes, *ends);
                    result.map_err(|error| format!("helper: {error}"))
                });
            }
            while next_number(&there.world.history()) < 2 + ends.len() as u64 {
                std::thread::yield_now();
            }
        }
        std::thread::sleep(A_WHILE / 3);
        there.show(0);
        for (block, _) in (1..).zip(ends).filter(|(_, ends)| **ends == Durable) {
            there.show(block);
        }
    });
    stage.transact(1, &[(0, Touch)], Durable)?;
    while !stage.have_helped() {}
    Ok(())
}

/// Two transactions, one of which makes both durable.
pub(crate) fn a_group() -> Scripted {
    Scripted::new(1, |stage| group(stage, &[Durable; 2]))
}

#[test]
fn a_follower_returns_when_the_leader_has_fenced() {
    // The machine may have kept one of the others from coming in time.
    let formed = (0..20).any(|_| a_group().survives() > 0);
    assert!(formed, "each had a fence of its own");
}

#[test]
fn a_deferred_commit_does_not_leave_a_group_behind() {
    let scripts: [Script; 2] =
        [|stage| group(stage, &[Durable, Deferred]), |stage| group(stage, &[Deferred, Durable])];
    for script in scripts {
        let formed = (0..20).any(|_| Scripted::new(1, script).survives() > 0);
        assert!(formed, "each had a fence of its own");
    }
}

#[test]
fn a_follower_is_told_when_the_leaders_fence_fails() {
    // Whether there was a group; the machine may have kept one of them from coming in time.
    let fails = || {
        let program = Program { lane_bytes: 32 * 64, ..Program::new(Logged::Halves, 1, vec![]) };
        let world = World::boot(program.start(), Model::Torn8);
        let stage = Stage::open(&program, &world).expect("opens");
        let second = world.operations().of(Operation::Fence) + 1;
        world.inject(Fault::on(Operation::Fence, second, FaultKind::Error));
        group(&stage, &[Durable; 2]).expect("the first one has a fence of its own");
        let total = stage.journal.stats().expect("counts").total();
        stage.probe.look_away();
        let helpers = core::mem::take(&mut *stage.helpers.lock().expect("nobody panics"));
        for helper in helpers {
            helper.join().expect("does not panic").expect_err("both are told");
        }
        total.commits > total.fences
    };
    let formed = within(30, move || (0..20).any(|_| fails()));
    assert!(formed, "each had a fence of its own");
}

/// Threads may come in any order: no reader sees a record that waits for its fence.
#[test]
fn a_deferred_commit_in_the_middle_of_a_group_does_not_show_it() {
    for _ in 0..10 {
        Scripted::new(1, |stage| group(stage, &[Durable, Deferred, Durable])).survives();
    }
}

#[test]
fn a_reader_does_not_see_a_block_half_written_home() {
    let scripted = Scripted::new(1, |stage| {
        stage.transact(1, &[(0, Write)], Durable)?;
        covering(&stage.world, || stage.journal.checkpoint().map(drop)).expect("writes home");
        stage.transact(2, &[(0, Touch)], Durable)?;
        let there = stage.clone();
        stage.device.watch(move |_| {
            there.help(|stage| {
                let content = read_block(&stage.journal, 0).map_err(|error| error.to_string())?;
                judge_read(&stage.world, 0, &content)
            });
            there.have_helped();
        });
        covering(&stage.world, || stage.journal.checkpoint().map(drop)).expect("writes home");
        stage.device.look_away();
        Ok(())
    });
    let program = Program { overwrite: Overwrite::MayLeaveGarbage, ..scripted.program.clone() };
    Scripted { program, ..scripted }.survives();
}

#[test]
fn a_reader_does_not_mix_what_was_home_with_what_is_in_the_lanes_since() {
    Scripted::new(1, |stage| {
        stage.transact(1, &[(0, Write)], Durable)?;
        covering(&stage.world, || stage.journal.checkpoint().map(drop)).expect("writes home");
        stage.transact(2, &[(0, Touch)], Durable)?;
        let (there, was_there) = (stage.clone(), AtomicBool::new(false));
        stage.device.watch_reads(move |_| {
            if was_there.swap(true, Ordering::AcqRel) {
                return;
            }
            there.help(|stage| {
                let result = stage.transact(3, &[(0, Write)], Durable);
                result.map_err(|error| error.to_string())?;
                covering(&stage.world, || stage.journal.checkpoint().map(drop))?;
                let result = stage.transact(4, &[(0, Touch)], Durable);
                result.map_err(|error| error.to_string())
            });
            assert!(there.have_helped(), "readers keep nobody waiting");
        });
        let content = read_block(&stage.journal, 0)?;
        judge_read(&stage.world, 0, &content).unwrap_or_else(|wrong| panic!("{wrong}"));
        stage.device.look_away();
        Ok(())
    })
    .survives();
}

#[test]
fn a_thread_with_very_many_transactions_is_told_that_it_waits_for_itself() {
    within(30, || {
        let program = Program::new(Logged::Whole, 1, Vec::new());
        let world = World::boot(program.start(), Model::Torn8);
        let stage = Stage::open(&program, &world).expect("opens");
        let begun: Result<Vec<_>, _> = (0..80).map(|_| stage.journal.begin()).collect();
        let mut begun = begun.expect("there is always another seat");
        let last = begun.last_mut().expect("80 of them");
        apply(last, 1, 0, Write).expect("is free");
        for transaction in begun.iter_mut().take(79) {
            let conflict = Error::Conflict { block: BlockNumber(0) };
            assert_eq!(apply(transaction, 2, 0, Write), Err(conflict));
        }
    });
}

/// Such a group for hunts, around a mutator.
pub(crate) fn a_group_around(mutator: &Mutator) -> Scripted {
    let scripted = a_group();
    let program = Program { mutator: mutator.clone(), ..scripted.program.clone() };
    Scripted { program, ..scripted }
}

/// One image, all of a transaction, waits for its lane, while its block is written in another lane
/// and that is deferred.
#[test]
fn an_image_alone_does_not_build_on_what_was_deferred_meanwhile() {
    let scripted = Scripted::new(2, |stage| {
        let _first = stage.journal.begin()?; // lane 0
        stage.at_first("commit.fence", |stage| {
            // Lane 1 is held by C, in its fence.
            stage.help(|stage| {
                let _other = stage.journal.begin().map_err(|e| e.to_string())?; // lane 0
                stage
                    .transact_at_once(2, &Tx::new(0, &[(0, Write)], Durable)) // lane 1: waits
                    .map_err(|e| e.to_string())
            });
            std::thread::sleep(A_WHILE);
            let its = stage.clone();
            std::thread::spawn(move || {
                its.transact_at_once(3, &Tx::new(0, &[(0, Write)], Deferred)).expect("B");
            })
            .join()
            .expect("B ends");
        });
        stage.transact_at_once(1, &Tx::new(0, &[(1, Write)], Durable))?;
        while !stage.have_helped() {}
        Ok(())
    });
    let program = Program::new(Logged::Whole, 2, Vec::new());
    let program = Program { lane_bytes: 32 * 64, ..program };
    Scripted { program, ..scripted }.survives();
}
