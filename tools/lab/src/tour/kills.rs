//! The second stop: processes that are killed while they commit.
//!
//! The tour starts itself again as a child, which says after each transaction that it was
//! acknowledged. A killed process leaves what it stored in the page cache, but nobody knows how far
//! it had come. So a record that the kill interrupted is one whose images are there and whose end
//! is not: they lie behind the last whole record of their lane.

use core::error::Error;
use core::time::Duration;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use journal_core::{EXAMINE_BYTES_MAX, PmemRead as _, examine};
use nvm_journal::{Journal, Options, Region};
use pmem_sys::NativeKernels;

use super::show::percentiles;
use super::stop::{Place, Verdict};
use super::work::{BLOCK, Mix, Model, THREADS, Tag, mix};
use crate::progress::Progress;

/// Where too few kills have hit a record, they go on for this multiple of the time given.
const PATIENCE: u32 = 3;
const SIGKILL: i32 = 9;
const OPEN_TIME_MAX: Duration = Duration::from_secs(60);
const COMMIT_TIME_MAX: Duration = Duration::from_millis(200);

/// What a child has said of one thread.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// Its last transaction that was acknowledged as durable, and with it all before.
    acknowledged: u64,
    /// Its last transaction that returned.
    returned: u64,
}

pub fn kills(
    place: &Place,
    models: &mut [Model],
    wanted: u64,
    time: Duration,
) -> Result<Verdict, Box<dyn Error>> {
    let start = Instant::now();
    let progress = Progress::new("kills");
    let (mut verdict, mut recoveries) = (Verdict::default(), Vec::new());
    let mut random = u64::from(std::process::id());
    let is_over = |verdict: &Verdict| {
        let times = if verdict.unfinished < wanted { PATIENCE } else { 1 };
        verdict.kills > 0 && start.elapsed() > time * times
    };
    while !is_over(&verdict) {
        let note = format!("{}, {} hit a record", verdict.kills, verdict.unfinished);
        progress.show_with(start.elapsed().as_secs_f64() / time.as_secs_f64(), note);
        let run = 2 + verdict.kills;
        random = mix(random + 1);
        let before: Vec<u64> = models.iter().map(|model| model.number).collect();
        let delay = Duration::from_micros(1000 + random % 40_000);
        let heard = one_child(place, run, &before, delay, Duration::from_micros(random % 500))?;
        verdict.kills += 1;

        let nvm = place.open_nvm()?;
        let remains = remains(&nvm, run)?;
        let opening = Instant::now();
        let journal = Journal::open(nvm, place.open_disk()?, &Options::new())?;
        recoveries.push(opening.elapsed());
        let mut interrupted = false;
        for (thread, model) in (0..).zip(&mut *models) {
            let Heard { acknowledged, returned } = heard[thread as usize];
            let found = model.found(|block, into| journal.read(block, into))?;
            let base = model.number;
            verdict.acknowledged += acknowledged.saturating_sub(base);
            verdict.lost += acknowledged.max(base).saturating_sub(found);
            // One more than it has said may be there: it was killed before it could say so.
            verdict.invented += found.saturating_sub(returned.max(base) + 1);
            verdict.found += found.saturating_sub(acknowledged.max(base));
            model.advance(run, Mix::Large, found);
            verdict.wrong_blocks +=
                model.wrong(|block, into| journal.read(block, into))?.len() as u64;
            interrupted |= remains.iter().any(|tag| tag.thread == thread && tag.number > found);
        }
        verdict.unfinished += u64::from(interrupted);
        if verdict.is_bad() {
            break;
        }
    }
    drop(progress);
    let Verdict { kills, unfinished, acknowledged, found, .. } = verdict;
    println!("   {kills} processes killed, {unfinished} of them in the middle of storing a record");
    println!("   {acknowledged} transactions were acknowledged as durable, {} lost", verdict.lost);
    println!("   {found} more were found whole, and kept");
    println!(
        "   {unfinished} were found unfinished, and dropped; {} blocks are wrong",
        verdict.wrong_blocks
    );
    println!("   an open with its recovery took {}", percentiles(&mut recoveries));
    if unfinished < wanted {
        println!(
            "   (Fewer than {wanted} kills hit a record in the time given: --seconds gives more.)"
        );
    }
    Ok(verdict)
}

/// Starts a child, listens, and kills it: some time after it has opened the journal, and a little
/// after it has said that a commit was deferred, since it is then more likely to store than to wait
/// for the disk. Returns what it has said.
fn one_child(
    place: &Place,
    run: u64,
    before: &[u64],
    after_open: Duration,
    after_commit: Duration,
) -> Result<Vec<Heard>, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--child").arg(&place.folder).arg(run.to_string());
    command.args(before.iter().map(u64::to_string));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("the child has no output")?;
    let (sender, said) = channel();
    let listener = std::thread::spawn(move || listen(output, &sender));
    let opened = said.recv_timeout(OPEN_TIME_MAX);
    if opened.is_ok() {
        std::thread::sleep(after_open);
        while said.try_recv().is_ok() {}
        let _ = said.recv_timeout(COMMIT_TIME_MAX);
        std::thread::sleep(after_commit);
    }
    child.kill()?;
    let status = child.wait()?;
    let heard = listener.join().map_err(|_| "the listener panicked")?;
    if opened.is_err() || status.signal() != Some(SIGKILL) {
        return Err(format!("the child ended by itself: {status}").into());
    }
    Ok(heard)
}

/// Takes down what a child says, until it says no more, and passes on that it has opened the
/// journal or deferred a commit. A last line without an end was not said.
fn listen(output: ChildStdout, said: &Sender<()>) -> Vec<Heard> {
    let mut heard = vec![Heard::default(); THREADS as usize];
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [what, thread, number] = words[..] {
            let thread = thread.parse().unwrap_or(usize::MAX);
            if let (Some(heard), Ok(number)) = (heard.get_mut(thread), number.parse()) {
                heard.returned = number;
                if what == "durable" {
                    heard.acknowledged = number;
                }
            }
        }
        if !line.starts_with("durable") {
            // Nobody listens any more once the kill is under way.
            let _ = said.send(());
        }
        line.clear();
    }
    heard
}

/// Transactions of a run that images lie of in the free space of some lane.
fn remains(nvm: &Region, run: u64) -> Result<BTreeSet<Tag>, Box<dyn Error>> {
    let found = examine(nvm, &NativeKernels::detect(), &mut vec![0; EXAMINE_BYTES_MAX])?;
    let geometry = found.geometry;
    let lanes_at = geometry.shield().raw() + geometry.shield_bytes();
    let mut remains = BTreeSet::new();
    let mut ring = vec![0; geometry.lane_bytes as usize];
    for (lane, number) in found.lanes().iter().zip(0..) {
        let at = journal_core::Offset(lanes_at + number * geometry.lane_bytes);
        nvm.read_into(at, &mut ring)?;
        let mut image = [0; BLOCK];
        // An image begins on a line and may go round the ring's end.
        let end = (lane.head + geometry.lane_bytes).saturating_sub(BLOCK as u64);
        for position in (lane.tail..=end).step_by(64) {
            let start = (position % geometry.lane_bytes) as usize;
            if !ring[start..].starts_with(b"nvm-tour") {
                continue;
            }
            let to_end = (ring.len() - start).min(BLOCK);
            image[..to_end].copy_from_slice(&ring[start..][..to_end]);
            image[to_end..].copy_from_slice(&ring[..BLOCK - to_end]);
            remains.extend(Tag::of(&image).filter(|tag| tag.run == run));
        }
    }
    Ok(remains)
}

/// The child: commits until it is killed.
pub fn child(place: &Place, run: u64, before: &[u64]) -> Result<(), Box<dyn Error>> {
    let journal = Journal::open(place.open_nvm()?, place.open_disk()?, &Options::new())?;
    writeln!(std::io::stdout(), "open")?;
    std::thread::scope(|scope| {
        let commit = |thread: u64, mut number: u64, journal: &Journal| -> Result<(), String> {
            loop {
                number += 1;
                let ran = Tag { run, thread, number }.run(journal, Mix::Large);
                let durable = ran.map_err(|error| error.to_string())?;
                let what = if durable { "durable" } else { "deferred" };
                // One write: what is said is said whole.
                let said = format!("{what} {thread} {number}\n");
                let mut output = std::io::stdout().lock();
                let said = output.write_all(said.as_bytes()).and_then(|()| output.flush());
                said.map_err(|error| error.to_string())?;
            }
        };
        let journal = &journal;
        for (thread, number) in (0..).zip(before) {
            scope.spawn(move || {
                if let Err(error) = commit(thread, *number, journal) {
                    eprintln!("child: {error}");
                    std::process::exit(1);
                }
            });
        }
    });
    Ok(())
}
