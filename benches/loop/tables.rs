//! The tables: by the way, by the working set, by threads, checkpoints, and everything together.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use journal_core::policy::Policy;
use journal_core::{BlockDevice as _, BlockNumber, BlockSize, Offset, Pmem as _, PmemRead as _};
use lab::bench::latency::{Times, print_heading};
use lab::bench::media::{self, BLOCK, MemoryDisk};
use lab::bench::work::{leaked, together};
use lab::bench::{Asked, Table};
use nvm_journal::{AnyPolicy, FullBlock, ObjectLog, Options};

use crate::limit::Limit;
use crate::user::{self, Case, Door, NVM_BYTES, User, Way};

/// Blocks of the working set, unless a table says otherwise.
const SET: u64 = 1024;
/// Room is made for this number of commits at once.
const AT_ONCE: u64 = 256;
/// The bytes of a journal that is to be a quarter of what is logged are at least and at most these.
const LEAST_BYTES: u64 = 16 << 20;
const MOST_BYTES: u64 = 1 << 30;
/// Blocks of the largest working set.
const LARGE_SET: u64 = 1 << 16;

/// Whether the limit of a policy streams whole blocks.
fn logs_blocks(policy: &str) -> bool {
    matches!(policy, "full-block" | "lcow")
}

type Limits = &'static RefCell<Limit>;

fn limits(set: u64) -> Limits {
    leaked(RefCell::new(Limit::new(set)))
}

/// Adds the limit of a case, and returns its name.
fn limit_row(
    table: &mut Table<'_>,
    limits: Limits,
    set: u64,
    (case, way): (Case, Way),
    whole: bool,
) -> String {
    let of = if whole || case.has_images() { "blocks" } else { "patches" };
    let deferred = if way == Way::Deferred { ", deferred" } else { "" };
    let name = format!("limit, {of}{deferred}");
    let mut user = User::new(0, set);
    table.row(name.clone(), &name, 1, None, move |count| {
        limits.borrow_mut().batch(&mut user, case, way, whole, count)
    });
    table.out_of_contest();
    name
}

fn row<L>(
    table: &mut Table<'_>,
    name: String,
    limit: &str,
    journal: &'static Door<L>,
    set: u64,
    (case, way): (Case, Way),
) where
    L: Policy + Clone + Send + Sync + 'static,
{
    let mut user = User::new(0, set);
    table.row(name, limit, 1, None, move |count| user::batch(journal, &mut user, case, way, count));
}

/// Each case in each way, under each policy.
pub(crate) fn ways(asked: Asked) {
    let limits = limits(SET);
    let full: &Door<FullBlock> = leaked(user::open(FullBlock, NVM_BYTES, SET, 4 * SET));
    let object: &Door<ObjectLog> = leaked(user::open(ObjectLog::new(), NVM_BYTES, SET, 4 * SET));
    let others =
        AnyPolicy::ALL.iter().filter(|policy| asked != Asked::Try || policy.name() == "lcow");
    let any: Vec<(_, &Door<AnyPolicy>)> = others
        .map(|policy| (policy.name(), &*leaked(user::open(*policy, NVM_BYTES, SET, 4 * SET))))
        .collect();
    for case in Case::ALL {
        let mut table = Table::new(format!("{}: {SET} blocks, uniform, cached", case.name()));
        let mut names = Vec::new();
        for whole in [false, true] {
            for way in [Way::Begin, Way::Deferred] {
                if whole || !case.has_images() {
                    names.push((
                        whole,
                        way,
                        limit_row(&mut table, limits, SET, (case, way), whole),
                    ));
                }
            }
        }
        let limit_of = |policy: &str, way: Way| {
            let whole = case.has_images() || logs_blocks(policy);
            let way = if way == Way::Deferred { way } else { Way::Begin };
            let found = names.iter().find(|(is_whole, of, _)| *is_whole == whole && *of == way);
            found.map(|(.., name)| name.clone()).unwrap_or_default()
        };
        for way in Way::ALL {
            let what = (case, way);
            // Patches alone do not make the image that this policy logs.
            if case.has_images() || way != Way::OneCall {
                let limit = limit_of("full-block", way);
                row(&mut table, format!("full-block, {}", way.name()), &limit, full, SET, what);
            }
            if case != Case::ReadAndThreePatches || way != Way::OneCall {
                let limit = limit_of("object-log", way);
                row(&mut table, format!("object-log, {}", way.name()), &limit, object, SET, what);
            }
        }
        for (name, journal) in &any {
            let what = (case, Way::Begin);
            let limit = limit_of(name, Way::Begin);
            row(&mut table, format!("AnyPolicy {name}, begin, commit"), &limit, journal, SET, what);
        }
        table.print(asked.effort());
    }
}

/// By the size of the working set, without a cache and with one of four times the set.
pub(crate) fn sets(asked: Asked) {
    let sets = asked.of(&[64][..], &[64, LARGE_SET][..], &[64, SET, LARGE_SET][..]);
    for &set in sets {
        let limits = limits(set);
        let full = [0, 4].map(|times| &*leaked(user::open(FullBlock, NVM_BYTES, set, times * set)));
        let object =
            [0, 4].map(|times| &*leaked(user::open(ObjectLog::new(), NVM_BYTES, set, times * set)));
        for case in [Case::Patch, Case::ThreePatches, Case::Image] {
            let mut table = Table::new(format!("{}: {set} blocks, begin, commit", case.name()));
            let what = (case, Way::Begin);
            let of_blocks = limit_row(&mut table, limits, set, what, true);
            let of_patches = match case.has_images() {
                true => of_blocks.clone(),
                false => limit_row(&mut table, limits, set, what, false),
            };
            for (nth, cache) in ["no cache", "cache 4 x"].into_iter().enumerate() {
                let name = format!("full-block, {cache}");
                row(&mut table, name, &of_blocks, full[nth], set, what);
                let name = format!("object-log, {cache}");
                row(&mut table, name, &of_patches, object[nth], set, what);
            }
            table.print(asked.effort());
        }
    }
}

/// One thread and two, with blocks of their own.
pub(crate) fn threads(asked: Asked) {
    let object: &Door<ObjectLog> =
        leaked(user::open(ObjectLog::new(), NVM_BYTES, 2 * SET, 8 * SET));
    for case in [Case::Patch, Case::ThreePatches, Case::Image] {
        let mut table = Table::new(format!("{}: threads, transact, object-log", case.name()));
        for threads in [1, 2] {
            let users: Vec<_> = (0..threads)
                .map(|thread| std::sync::Mutex::new(User::new(thread * SET, SET)))
                .collect();
            table.row(format!("{threads} threads"), "1 threads", threads, None, move |count| {
                user::make_room(object, case, count * threads);
                together(threads, count, |thread, turn| {
                    let mut user = users[thread as usize].lock().expect("no thread panics");
                    let update = user.draw(case);
                    user::commit(object, case, Way::Transact, &update, turn);
                })
            });
        }
        table.print(asked.effort());
    }
}

/// Nanoseconds a block, and the quickest of some tries.
fn each(tries: u64, blocks: u64, mut run: impl FnMut() -> Duration) -> f64 {
    let best = (0..tries).map(|_| run()).min().unwrap_or_default();
    best.as_nanos() as f64 / blocks as f64
}

/// What a checkpoint takes for each block that it writes home, beside a copy of the block out of
/// memory and a call of the device.
pub(crate) fn checkpoints(asked: Asked) {
    println!("## checkpoints: ns for each block that goes home to a disk in memory");
    println!("{:<44} {:>9} {:>9} {:>9}", "every second block is dirty", "floor", "ns", "to floor");
    let tries = asked.of(1, 3, 7);
    let counts = asked.of(&[1024_u64][..], &[4096][..], &[4096, LARGE_SET][..]);
    for &blocks in counts {
        for (name, patches) in [("full-block, images", 0), ("object-log, 8 patches each", 8)] {
            let nvm_bytes = (blocks * 2 * BLOCK as u64).max(NVM_BYTES);
            let floor = floor(tries, blocks);
            let (set, policy) = (2 * blocks, ObjectLog::new());
            let nanos = if patches == 0 {
                let journal = user::open_with_lanes(FullBlock, nvm_bytes, set, 0, 1);
                checkpoint(&journal, tries, blocks, 0)
            } else {
                let journal = user::open_with_lanes(policy, nvm_bytes, set, 0, 1);
                checkpoint(&journal, tries, blocks, patches)
            };
            let name = format!("{blocks} blocks, {name}");
            println!("{name:<44} {floor:>9.0} {nanos:>9.0} {:>9.2}", nanos / floor);
        }
    }
    println!();
}

/// Copies as many blocks out of memory to which they were streamed, as those of a journal are, and
/// writes each to a disk like the journal's: all of its blocks were written before, so that those
/// which are written now lie apart.
fn floor(tries: u64, blocks: u64) -> f64 {
    let mut page = vec![7; BLOCK];
    let mut disk = MemoryDisk::new(BlockSize::DEFAULT, 4 * blocks);
    for block in 0..disk.block_count() {
        disk.write(BlockNumber(block), &page).expect("writes");
    }
    let mut memory = media::warm(blocks * BLOCK as u64);
    let mut write = || {
        for block in 0..blocks {
            memory.stream(Offset(block * BLOCK as u64), &page);
        }
        memory.fence().expect("is memory");
        let start = Instant::now();
        for block in 0..blocks {
            memory.read_into(Offset(block * BLOCK as u64), &mut page).expect("reads");
            disk.write(BlockNumber(2 * block), &page).expect("writes");
        }
        start.elapsed()
    };
    write();
    each(tries, blocks, write)
}

fn checkpoint<L>(journal: &Door<L>, tries: u64, blocks: u64, patches: u64) -> f64
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let image = vec![9_u8; BLOCK];
    let write_home = || {
        for turn in 0..patches.max(1) {
            for block in (0..2 * blocks).step_by(2).map(BlockNumber) {
                let write = |tx: &mut nvm_journal::Transaction<'_, L, _>| match patches {
                    0 => tx.write(block, &image),
                    _ => tx.write_at(block, turn as usize * 256, &image[..64]),
                };
                journal.transact(write).expect("there is room");
            }
        }
        assert_eq!(journal.stats().expect("counts").blocks as u64, blocks, "all are dirty");
        let start = Instant::now();
        journal.checkpoint().expect("writes home");
        start.elapsed()
    };
    write_home();
    each(tries, blocks, write_home)
}

/// The loop with all that belongs to it: the journal is a quarter of what is logged, and a commit
/// makes room if nothing else has.
pub(crate) fn sustained(asked: Asked) {
    print_heading("sustained: the journal is a quarter of what is logged (mean to that with room)");
    for set in asked.of(&[64][..], &[SET][..], &[SET, LARGE_SET][..]).iter().copied() {
        let disk = user::disk_of(set);
        for case in [Case::Patch, Case::Image] {
            sustain(
                "full-block",
                &user::options(FullBlock, set, 4 * set),
                &disk,
                (set, case),
                asked,
            );
            let options = user::options(ObjectLog::new(), set, 4 * set);
            sustain("object-log", &options, &disk, (set, case), asked);
            if case == Case::Patch {
                let options = options.whole_after(64);
                sustain("object-log, whole after 64", &options, &disk, (set, case), asked);
            }
        }
    }
    println!();
}

/// Prints how long commits take where they make room themselves, and where a thread does.
fn sustain<L>(
    name: &str,
    options: &Options<L>,
    disk: &MemoryDisk,
    (set, case): (u64, Case),
    asked: Asked,
) where
    L: Policy + Clone + Send + Sync + 'static,
{
    let for_at_most = Duration::from_millis(asked.of(20, 400, 2000));
    let open = |options, nvm_bytes| user::open_on(options, nvm_bytes, disk.clone());
    // How much is logged meanwhile, as far as a look says that writes nothing home.
    let look = open(options.clone(), NVM_BYTES);
    let times = times_of(&look, set, case, for_at_most / 8, true);
    let (with_room, logged) = (times.mean(), look.stats().expect("counts").record_bytes * 8);
    drop(look);
    let nvm_bytes = (logged / 4).clamp(LEAST_BYTES, MOST_BYTES);
    for by in ["the commits", "a thread"] {
        let options = options.clone().background_checkpoint(by == "a thread");
        let times = times_of(&open(options, nvm_bytes), set, case, for_at_most, false);
        let name = format!("{name}, {}, {set}, by {by}", case.name());
        times.print(&format!("{name}, {:.0} ({:.2})", times.mean(), times.mean() / with_room));
    }
}

/// How long commits take. Room is made before them, untimed, or not.
fn times_of<L>(
    journal: &Door<L>,
    set: u64,
    case: Case,
    for_at_most: Duration,
    has_room: bool,
) -> Times
where
    L: Policy + Clone + Send + Sync + 'static,
{
    let (mut user, mut times) = (User::new(0, set), Times::new());
    let (begun, mut turn) = (Instant::now(), 0);
    while begun.elapsed() < for_at_most {
        if has_room && turn % AT_ONCE == 0 {
            user::make_room(journal, case, AT_ONCE);
        }
        let update = user.draw(case);
        let start = Instant::now();
        user::commit(journal, case, Way::Begin, &update, turn);
        times.note(start.elapsed());
        turn += 1;
    }
    times
}
