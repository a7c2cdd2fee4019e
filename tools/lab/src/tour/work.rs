//! What the tour's threads do, and what has to be there afterwards.
//!
//! Everything is a pure function of a transaction's number, so a reader that knows how far a thread
//! came knows every byte of its blocks. The first block of each thread is written by all of its
//! transactions: it says how far it came.

use nvm_journal::{BlockNumber, Error, Journal};

pub const THREADS: u64 = 2;
pub const BLOCKS_PER_THREAD: u64 = 1024;
pub const DISK_BLOCKS: u64 = THREADS * BLOCKS_PER_THREAD;
pub const BLOCK: usize = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"nvm-tour");

/// Which transactions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// One block, several, a few tens; every fourth deferred.
    Everyday,
    /// Mostly a hundred blocks, most of them deferred: large records take long to store, so that a
    /// kill is likely to come in the middle of one.
    Large,
}

/// A thread's transaction of some run of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    pub run: u64,
    pub thread: u64,
    pub number: u64,
}

/// A transaction.
#[derive(Debug)]
pub struct Plan {
    pub durable: bool,
    /// Which block of the thread's, and whether it is written or discarded.
    pub steps: Vec<(u64, bool)>,
}

pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl Tag {
    pub fn plan(self, of: Mix) -> Plan {
        let mut random = mix(self.run) ^ mix(self.thread << 56 | self.number);
        let mut below = |limit: u64| {
            random = mix(random.wrapping_add(0x9E37_79B9_7F4A_7C15));
            random % limit
        };
        let (count, durable) = match of {
            Mix::Everyday => {
                let count = match below(10) {
                    0..5 => 0,
                    5..9 => 1 + below(8),
                    _ => 8 + below(32),
                };
                (count, below(4) > 0)
            }
            Mix::Large => (if below(8) == 0 { 1 } else { 80 + below(40) }, below(6) == 0),
        };
        let mut steps: Vec<_> =
            (0..count).map(|_| (1 + below(BLOCKS_PER_THREAD - 1), below(16) > 0)).collect();
        steps.push((0, true));
        Plan { durable, steps }
    }

    const fn place(self, block: u64) -> BlockNumber {
        BlockNumber(self.thread * BLOCKS_PER_THREAD + block)
    }

    /// What the transaction makes of a block: what it is, a pattern, and a checksum.
    pub fn fill(self, block: u64, image: &mut [u8]) {
        let seed = mix(mix(self.run) ^ mix(self.thread << 56 | self.number) ^ block);
        let words = [MAGIC, self.run, self.thread, self.number, block];
        let mut sum = 0;
        let mut pattern = seed;
        let count = image.len() / 8;
        for (at, bytes) in image.chunks_exact_mut(8).enumerate() {
            pattern = pattern.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ at as u64;
            let last = at + 1 == count;
            let word = if last { sum } else { *words.get(at).unwrap_or(&pattern) };
            sum = mix(sum ^ word);
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Which transaction wrote a block; `None` where its checksum is wrong, or nobody did.
    pub fn of(image: &[u8]) -> Option<Self> {
        let mut words = image.chunks_exact(8).map(|word| {
            let word: [u8; 8] = word.try_into().unwrap_or_default();
            u64::from_le_bytes(word)
        });
        if words.clone().next() != Some(MAGIC) {
            return None;
        }
        let last = words.clone().next_back()?;
        let count = image.len() / 8;
        let sum = words.clone().take(count - 1).fold(0, |sum, word| mix(sum ^ word));
        let (_, run, thread, number) = (words.next(), words.next()?, words.next()?, words.next()?);
        (sum == last).then_some(Self { run, thread, number })
    }

    /// Runs the transaction; returns whether it was acknowledged as durable.
    pub fn run(self, journal: &Journal, of: Mix) -> Result<bool, Error> {
        let Plan { durable, steps } = self.plan(of);
        let mut image = [0; BLOCK];
        let body = |tx: &mut nvm_journal::Transaction<'_>| {
            for (block, written) in &steps {
                if *written {
                    self.fill(*block, &mut image);
                    tx.write(self.place(*block), &image)?;
                } else {
                    tx.discard(self.place(*block))?;
                }
            }
            Ok::<_, Error>(())
        };
        if durable {
            journal.transact(body)?;
        } else {
            journal.transact_deferred(body)?;
        }
        Ok(durable)
    }
}

/// What a block has to hold.
#[derive(Clone, Copy, Debug)]
enum Version {
    Zeroes,
    /// It was discarded: anything.
    Anything,
    Of(Tag),
}

/// What one thread's blocks have to hold.
#[derive(Clone, Debug)]
pub struct Model {
    thread: u64,
    /// How far the thread came, over all runs.
    pub number: u64,
    versions: Vec<Version>,
}

impl Model {
    pub fn new(thread: u64) -> Self {
        Self { thread, number: 0, versions: vec![Version::Zeroes; BLOCKS_PER_THREAD as usize] }
    }

    /// Takes the transactions up to `number` for done, by this run.
    pub fn advance(&mut self, run: u64, of: Mix, number: u64) {
        while self.number < number {
            self.number += 1;
            let tag = Tag { run, thread: self.thread, number: self.number };
            for (block, written) in tag.plan(of).steps {
                let version = if written { Version::Of(tag) } else { Version::Anything };
                self.versions[block as usize] = version;
            }
        }
    }

    /// How far the thread came, by what its first block says.
    pub fn found<E>(
        &self,
        mut read: impl FnMut(BlockNumber, &mut [u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut image = [0; BLOCK];
        read(BlockNumber(self.thread * BLOCKS_PER_THREAD), &mut image)?;
        Ok(Tag::of(&image).map_or(0, |tag| tag.number))
    }

    /// Compares every byte; returns the blocks that do not hold what they have to.
    pub fn wrong<E>(
        &self,
        mut read: impl FnMut(BlockNumber, &mut [u8]) -> Result<(), E>,
    ) -> Result<Vec<BlockNumber>, E> {
        let (mut image, mut expected) = ([0; BLOCK], [0; BLOCK]);
        let mut wrong = Vec::new();
        for (block, version) in (0..).zip(&self.versions) {
            match version {
                Version::Zeroes => expected.fill(0),
                Version::Anything => continue,
                Version::Of(tag) => tag.fill(block, &mut expected),
            }
            let place = BlockNumber(self.thread * BLOCKS_PER_THREAD + block);
            read(place, &mut image)?;
            if image != expected {
                wrong.push(place);
            }
        }
        Ok(wrong)
    }
}
