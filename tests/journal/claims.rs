//! Transactions of all kinds that want the same few blocks.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, mpsc};

use nvm_journal::{Durability, Error, Journal, Operation, Options, Transaction};

use crate::use_it::{BLOCK, Files, block, memory};

/// Numbers that differ from round to round, the same ones each time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) % limit
    }
}

/// Blocks that everybody wants, and how many transactions each thread has.
#[derive(Clone, Copy)]
struct Crowd {
    threads: u64,
    blocks: u64,
    rounds: u64,
    /// Whether threads keep another transaction open meanwhile, with a block of its own.
    keeps_open: bool,
}

type Tx<'j> = Transaction<'j>;

/// Adds one to the counters of two of the blocks, as a transaction that may have to begin again.
fn add(tx: &mut Tx<'_>, numbers: [u64; 2]) -> Result<(), Error> {
    for number in numbers {
        let mut counter = [0; 8];
        tx.read_at(block(number), 0, &mut counter)?;
        let counter = u64::from_le_bytes(counter) + 1;
        tx.write_at(block(number), 0, &counter.to_le_bytes())?;
    }
    Ok(())
}

/// One transaction of any kind; returns how much it has added to the counters.
fn transact(journal: &Journal, dice: &mut Dice, crowd: Crowd) -> Result<u64, Error> {
    // Counters are in the first blocks; the second ones are written whole.
    let one = dice.below(crowd.blocks);
    let other = (one + 1 + dice.below(crowd.blocks - 1)) % crowd.blocks;
    let image = [dice.below(256) as u8; BLOCK];
    let whole = |number: u64| Operation::write(block(10 + number), &image);
    let both = [whole(one.min(other)), whole(one.max(other))];
    match dice.below(10) {
        0 | 1 => journal.commit(&[whole(one)], Durability::Durable).map(|_| 0),
        2 => journal.commit(&[whole(one)], Durability::Deferred).map(|_| 0),
        3 => journal.commit(&both, Durability::Durable).map(|_| 0),
        4 => journal.transact(|tx| add(tx, [one, other])).map(|()| 2),
        5 => journal.transact_deferred(|tx| add(tx, [one, other])).map(|()| 2),
        6 => journal.transact_gathered(|tx| add(tx, [one, other])).map(|()| 2),
        7 => journal
            .transact(|tx| {
                tx.write(block(10 + one), &image)?;
                add(tx, [other, one])?;
                tx.write(block(10 + other), &image)
            })
            .map(|()| 2),
        // Begun anew, and so younger, as often as it takes.
        8 => loop {
            let mut tx = journal.begin()?;
            match add(&mut tx, [one, other]).and_then(|()| tx.commit()) {
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(2),
            }
        },
        _ if dice.below(20) == 0 => journal.checkpoint().map(|_| 0),
        _ => journal.transact(|tx| tx.read(block(one), &mut [0; BLOCK])).map(|()| 0),
    }
}

/// Each thread has its transactions, and nobody is kept from his for ever: told if for a long time
/// nobody ends one.
fn everybody_gets_through(name: &str, options: &Options, crowd: Crowd) {
    let files = Files::new(name);
    let journal = Journal::format(memory(2 << 20), files.disk(), options).expect("formats");
    let journal = Arc::new(journal);
    let (done, ends) = mpsc::channel();
    let added = Arc::new(AtomicU64::new(0));
    for thread in 0..crowd.threads {
        let (journal, done) = (Arc::clone(&journal), done.clone());
        let added = Arc::clone(&added);
        std::thread::spawn(move || {
            let mut dice = Dice(thread << 32);
            let mut open = Vec::new();
            for round in 0..crowd.rounds {
                if crowd.keeps_open && round % 8 == 0 {
                    let mut tx = journal.begin().expect("begins");
                    tx.write(block(100 + thread), &[1; BLOCK]).expect("is its own");
                    open.push(tx);
                }
                if round % 8 == 5 {
                    open.clear();
                }
                let more = transact(&journal, &mut dice, crowd).expect("gets through");
                added.fetch_add(more, Ordering::Relaxed);
                done.send(()).expect("is waited for");
            }
        });
    }
    for _ in 0..crowd.threads * crowd.rounds {
        ends.recv_timeout(Duration::from_secs(60)).expect("nobody waits for ever");
    }
    let mut sum = 0;
    for number in 0..crowd.blocks {
        let mut content = [0; BLOCK];
        journal.read(block(number), &mut content).expect("reads");
        sum += u64::from_le_bytes(content[..8].try_into().expect("eight bytes"));
    }
    assert_eq!(sum, added.load(Ordering::Relaxed), "nothing is lost");
}

#[test]
fn everybody_gets_through_whatever_the_others_do() {
    let rounds = 300;
    let two = Options::new().lanes(2).lane_bytes(256 << 10);
    for (number, threads, blocks, keeps_open) in
        [(0, 3, 2, false), (1, 3, 3, true), (2, 4, 4, true), (3, 6, 5, false), (4, 6, 3, true)]
    {
        let crowd = Crowd { threads, blocks, rounds, keeps_open };
        let options = two.clone().background_checkpoint(number % 2 == 0);
        everybody_gets_through(&format!("crowd-{number}"), &options, crowd);
    }
    let one = Options::new().lanes(1).lane_bytes(256 << 10);
    let crowd = Crowd { threads: 5, blocks: 3, rounds, keeps_open: true };
    everybody_gets_through("crowd-one-lane", &one, crowd);
}
