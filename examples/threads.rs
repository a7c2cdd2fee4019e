//! Threads that commit at once: money moves between accounts, and none is lost or made.
//!
//! `cargo run --release --example threads`
//!
//! A transaction locks the blocks that it touches. Where two threads want the same blocks, the
//! younger one starts again, which `transact` does by itself. Then the process drops the journal
//! without closing it, as a crash would, and the next open finds every transfer that was durable.

#![allow(clippy::print_stdout, reason = "an example talks to its reader")]
#![allow(clippy::std_instead_of_core, reason = "a program with std, as most are")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use nvm_journal::{BlockNumber, BlockSize, FileDisk, Journal, MapOptions, Options};

const THREADS: u64 = 4;
const TRANSFERS: u64 = 2_000;
const ACCOUNTS: u64 = 64;
/// What each account begins with.
const EACH: u64 = 1_000;
/// The tenth transfer of a thread, and each tenth after it, is durable. The others are deferred.
const DURABLE_EVERY: u64 = 10;

/// Moves money, if the account has it. Both blocks change or none does.
fn transfer(
    journal: &Journal,
    [from, to]: [BlockNumber; 2],
    amount: u64,
    durable: bool,
) -> Result<(), nvm_journal::Error> {
    let body = |tx: &mut nvm_journal::Transaction<'_>| {
        let mut balances = [0; 2];
        for (balance, account) in balances.iter_mut().zip([from, to]) {
            let mut bytes = [0; 8];
            tx.read_at(account, 0, &mut bytes)?;
            *balance = u64::from_le_bytes(bytes);
        }
        if balances[0] < amount {
            return Ok(());
        }
        tx.write_at(from, 0, &(balances[0] - amount).to_le_bytes())?;
        tx.write_at(to, 0, &(balances[1] + amount).to_le_bytes())
    };
    if durable { journal.transact(body) } else { journal.transact_deferred(body) }
}

/// Numbers without a pattern, the same in every run.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// One thread's transfers.
fn transfers(journal: &Journal, thread: u64) -> Result<(), nvm_journal::Error> {
    let mut below = numbers(thread);
    for number in 1..=TRANSFERS {
        let from = below(ACCOUNTS);
        let to = (from + 1 + below(ACCOUNTS - 1)) % ACCOUNTS;
        let durable = number % DURABLE_EVERY == 0;
        transfer(journal, [BlockNumber(from), BlockNumber(to)], 1 + below(100), durable)?;
    }
    Ok(())
}

/// The money in all accounts.
fn total(journal: &Journal) -> Result<u64, nvm_journal::Error> {
    let mut total = 0;
    let mut block = [0; BlockSize::DEFAULT.bytes()];
    for account in 0..ACCOUNTS {
        journal.read(BlockNumber(account), &mut block)?;
        let (balance, _) = block.split_first_chunk().expect("a block is longer than a number");
        total += u64::from_le_bytes(*balance);
    }
    Ok(total)
}

fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let (nvm, disk) = (folder.join("nvm"), folder.join("disk"));
    let journal = Journal::format(
        MapOptions::new().create(&nvm, 8 << 20)?,
        FileDisk::create(&disk, BlockSize::DEFAULT, ACCOUNTS)?,
        &Options::new(),
    )?;
    journal.transact(|tx| {
        (0..ACCOUNTS)
            .try_for_each(|account| tx.write_at(BlockNumber(account), 0, &EACH.to_le_bytes()))
    })?;

    let begin = Instant::now();
    std::thread::scope(|scope| {
        let work = |thread| {
            let journal = &journal;
            scope.spawn(move || transfers(journal, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(work).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let took = begin.elapsed();
    // Deferred transfers were visible at once; from here on no crash takes them back, either.
    journal.sync()?;
    let stats = journal.stats()?;
    println!("{} transfers by {THREADS} threads in {took:.1?}", THREADS * TRANSFERS);
    println!("{} fences made them durable", stats.total().fences);
    println!("total: {} of {}", total(&journal)?, ACCOUNTS * EACH);
    drop(journal); // To the files, this is a crash of the process.

    let nvm = MapOptions::new().open(&nvm)?;
    let disk = FileDisk::open(&disk, BlockSize::DEFAULT)?;
    let journal = Journal::open(nvm, disk, &Options::new())?;
    let found = total(&journal)?;
    println!("total after the crash: {found}");
    journal.close()?;
    if found == ACCOUNTS * EACH { Ok(()) } else { Err("money was lost or made".into()) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("nvm-journal-threads-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let result = run(&folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

#[test]
fn no_money_is_lost_or_made() {
    main().expect("every transfer is whole");
}
