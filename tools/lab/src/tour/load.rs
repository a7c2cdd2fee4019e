//! The first stop: transactions from two threads, and what they cost.

use core::error::Error;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use journal_core::BlockDevice as _;
use nvm_journal::{Journal, LaneStats, Options};

use super::show::{bytes, percentiles};
use super::stop::{Place, Verdict};
use super::work::{BLOCK, Mix, Model, Tag};
use crate::progress::Progress;

/// The first run of the program on these files.
const RUN: u64 = 1;

/// What one thread has done, and how long it took.
#[derive(Default)]
struct Done {
    number: u64,
    durable: Vec<Duration>,
    deferred: Vec<Duration>,
}

pub fn load(
    place: &Place,
    models: &mut [Model],
    time: Duration,
) -> Result<Verdict, Box<dyn Error>> {
    let nvm = place.create_nvm()?;
    println!("   nvm   {} ({})", place.nvm.display(), nvm.map_facts().reason);
    println!("   disk  {}", place.disk.display());
    let journal = Journal::format(nvm, place.create_disk()?, &Options::new())?;
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = std::thread::scope(|scope| {
        let (journal, stop, commits) = (&journal, &stop, &commits);
        let work = |thread| move || transactions(journal, thread, stop, commits);
        let threads: Vec<_> = (0..models.len() as u64).map(|it| scope.spawn(work(it))).collect();
        let progress = Progress::new("transactions");
        let start = Instant::now();
        while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
            let note = format!("{} committed", commits.load(Ordering::Relaxed));
            progress.show_with(start.elapsed().as_secs_f64() / time.as_secs_f64(), note);
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        drop(progress);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    journal.checkpoint()?;
    let stats = journal.stats()?;
    let LaneStats { commits, fences, frames, bytes: nvm_bytes, .. } = stats.total();
    let home = stats.checkpointed;
    println!(
        "   {commits} transactions changed {frames} blocks; {fences} fences made them durable"
    );
    println!("   nvm   {} of records in {} lines", bytes(nvm_bytes), nvm_bytes / 64);
    println!(
        "   disk  {} in {} writes and {} syncs, by {} checkpoints",
        bytes(home.blocks * BLOCK as u64),
        home.writes,
        home.batches,
        stats.checkpoints
    );
    let (mut durable, mut deferred) = (Vec::new(), Vec::new());
    for (model, thread) in models.iter_mut().zip(&done) {
        durable.extend(&thread.durable);
        deferred.extend(&thread.deferred);
        model.advance(RUN, Mix::Everyday, thread.number);
    }
    println!("   from begin until durable   {}", percentiles(&mut durable));
    println!("   from begin until deferred  {}", percentiles(&mut deferred));
    journal.close()?;
    // Behind a close the disk alone holds everything.
    let mut disk = place.open_disk()?;
    let mut verdict = Verdict { acknowledged: commits, ..Verdict::default() };
    for model in models {
        verdict.wrong_blocks += model.wrong(|block, into| disk.read(block, into))?.len() as u64;
    }
    println!("   closed; on the disk itself {} blocks are wrong", verdict.wrong_blocks);
    Ok(verdict)
}

/// One thread's transactions, until it is stopped.
fn transactions(
    journal: &Journal,
    thread: u64,
    stop: &AtomicBool,
    commits: &AtomicU64,
) -> Result<Done, nvm_journal::Error> {
    let mut done = Done::default();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let number = done.number + 1;
        let ran = Tag { run: RUN, thread, number }.run(journal, Mix::Everyday);
        // Nobody waits for a time that is over.
        let durable = ran.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        let times = if durable { &mut done.durable } else { &mut done.deferred };
        times.push(start.elapsed());
        done.number = number;
        commits.fetch_add(1, Ordering::Relaxed);
    }
    Ok(done)
}
