//! Which transaction has a block: in its word, beside the table, and where others claim it.

use super::*;

const BLOCK: BlockNumber = BlockNumber(7);

/// Two blocks that have one word. The table must have one line.
const OTHER: BlockNumber = BlockNumber(7 + 8 * RUN_BLOCKS);

#[test]
fn a_block_has_one_holder_which_may_ask_again() {
    let (locks, mut claims) = (BlockLocks::new(1, 3), Claims::default());
    let word = locks.stripe(BLOCK);
    assert_eq!(locks.try_lock(&mut claims, BLOCK, Age(2)), Ok(LockedAt::Word(word)));
    assert_eq!(locks.try_lock(&mut claims, BLOCK, Age(2)), Ok(LockedAt::Before));
    assert_eq!(locks.try_lock(&mut claims, BLOCK, Age(1)), Err(Age(2)));
    assert_eq!(locks.holder_of(BLOCK), Some(Age(2)));
    locks.unlock(word);
    assert_eq!(locks.holder_of(BLOCK), None);
    assert_eq!(locks.try_lock(&mut claims, BLOCK, Age(1)), Ok(LockedAt::Word(word)));
}

#[test]
fn two_blocks_of_one_word_are_locked_each_by_itself() {
    let (locks, mut claims) = (BlockLocks::new(1, 1), Claims::default());
    let word = locks.stripe(BLOCK);
    assert_eq!(locks.stripe(OTHER), word);
    // By two transactions, and by one.
    for ages in [(1, 2), (2, 1), (3, 3)] {
        let (one, other) = (Age(ages.0), Age(ages.1));
        assert_eq!(locks.try_lock(&mut claims, BLOCK, one), Ok(LockedAt::Word(word)));
        assert_eq!(locks.try_lock(&mut claims, OTHER, other), Ok(LockedAt::Beside));
        assert_eq!(locks.try_lock(&mut claims, OTHER, other), Ok(LockedAt::Before));
        assert_eq!((locks.holder_of(BLOCK), locks.holder_of(OTHER)), (Some(one), Some(other)));
        for block in [BLOCK, OTHER] {
            let holder = locks.holder_of(block).expect("has one");
            assert_eq!(locks.try_lock(&mut claims, block, Age(9)), Err(holder));
            let taken = locks.of_run(block).try_lock(&claims, block, Age(9));
            assert_eq!(taken, None, "by its word");
        }
        locks.unlock(word);
        assert_eq!((locks.holder_of(BLOCK), locks.holder_of(OTHER)), (None, Some(other)));
        // The word is free, and the block is not.
        assert_eq!(locks.of_run(OTHER).try_lock(&claims, OTHER, Age(9)), None);
        assert_eq!(locks.try_lock(&mut claims, OTHER, Age(9)), Err(other));
        assert_eq!(locks.try_lock(&mut claims, BLOCK, one), Ok(LockedAt::Word(word)));
        locks.unlock_beside(&mut claims, OTHER);
        assert_eq!((locks.holder_of(BLOCK), locks.holder_of(OTHER)), (Some(one), None));
        assert!(claims.0.is_none(), "nothing is unusual any more");
        locks.unlock(word);
        // Now the line passes to the other run.
        assert_eq!(locks.of_run(OTHER).try_lock(&claims, OTHER, other), Some(true));
        assert_eq!((locks.holder_of(BLOCK), locks.holder_of(OTHER)), (None, Some(other)));
        locks.of_run(OTHER).unlock(OTHER, other);
    }
}

/// A block of another run does not take the line of a run of which any block is locked.
#[test]
fn a_line_belongs_to_its_run_until_all_its_words_are_free() {
    let (locks, mut claims) = (BlockLocks::new(1, 1), Claims::default());
    let last = BlockNumber(RUN_BLOCKS - 1);
    let others: Vec<_> = (0..RUN_BLOCKS).map(|at| BlockNumber(RUN_BLOCKS + at)).collect();
    let word = locks.stripe(last);
    assert_eq!(locks.try_lock(&mut claims, last, Age(1)), Ok(LockedAt::Word(word)));
    for other in &others {
        assert_eq!(locks.try_lock(&mut claims, *other, Age(2)), Ok(LockedAt::Beside));
    }
    let beside = BlockNumber(0);
    assert_eq!(
        locks.try_lock(&mut claims, beside, Age(3)),
        Ok(LockedAt::Word(locks.stripe(beside)))
    );
    locks.unlock(word);
    assert_eq!(locks.try_lock(&mut claims, others[0], Age(4)), Err(Age(2)));
    others.iter().for_each(|other| locks.unlock_beside(&mut claims, *other));
    assert_eq!(locks.try_lock(&mut claims, others[0], Age(4)), Ok(LockedAt::Beside));
    assert_eq!(locks.holder_of(beside), Some(Age(3)));
}

#[test]
fn what_is_claimed_is_kept_from_every_younger_transaction() {
    let (locks, mut claims) = (BlockLocks::new(1, 2), Claims::default());
    for (block, first) in [(BLOCK, None), (OTHER, Some(BLOCK))] {
        // The second time the block is one that is locked beside the table.
        let first = first.map(|first| locks.try_lock(&mut claims, first, Age(1)));
        assert!(first.is_none_or(|taken| taken.is_ok()));
        for age in [6, 4, 5] {
            claims.add(block, Age(age));
        }
        let other = BlockNumber(block.raw() - 1);
        let ask = |claims: &mut Claims, block, age| {
            let asked = locks.try_lock(claims, block, Age(age));
            match asked {
                Ok(LockedAt::Word(word)) => locks.unlock(word),
                Ok(LockedAt::Beside) => locks.unlock_beside(claims, block),
                _ => {}
            }
            asked.map(drop)
        };
        assert_eq!(ask(&mut claims, block, 7), Err(Age(4)), "the oldest is first");
        assert_eq!(locks.of_run(block).try_lock(&claims, block, Age(7)), None);
        assert_eq!(ask(&mut claims, block, 5), Err(Age(4)), "claimants have an order too");
        assert_eq!(ask(&mut claims, block, 4), Ok(()));
        assert_eq!(ask(&mut claims, block, 3), Ok(()), "an older one does not wait for it");
        assert_eq!(ask(&mut claims, other, 7), Ok(()), "of the line, and not claimed");
        claims.withdraw(other, Age(4));
        claims.withdraw(block, Age(4));
        assert_eq!(ask(&mut claims, block, 7), Err(Age(5)));
        claims.withdraw(block, Age(6));
        claims.withdraw(block, Age(5));
        assert_eq!(ask(&mut claims, block, 7), Ok(()));
        assert!(claims.0.is_none());
    }
}

#[test]
fn the_youngest_that_waited_is_known_also_when_ages_come_round() {
    let locks = BlockLocks::new(1, 1);
    let behind = |age| {
        locks.note_waits(Age(age));
        locks.age_behind().0
    };
    assert_eq!([behind(7), behind(5), behind(9)], [7, 7, 9]);
    let nearly = u64::MAX / 2;
    assert_eq!([behind(nearly), behind(u64::MAX - 1), behind(3)], [nearly, u64::MAX - 1, 3]);
    assert_eq!([behind(u64::MAX), behind(4)], [3, 4]);
}

#[test]
fn a_holder_keeps_its_block_whoever_claims_it() {
    let (locks, mut claims) = (BlockLocks::new(1, 1), Claims::default());
    assert_eq!(locks.try_lock(&mut claims, BLOCK, Age(9)), Ok(LockedAt::Word(locks.stripe(BLOCK))));
    assert_eq!(locks.try_lock(&mut claims, OTHER, Age(9)), Ok(LockedAt::Beside));
    for block in [BLOCK, OTHER] {
        claims.add(block, Age(3));
        assert_eq!(locks.try_lock(&mut claims, block, Age(9)), Ok(LockedAt::Before));
        assert_eq!(locks.try_lock(&mut claims, block, Age(3)), Err(Age(9)));
    }
}

#[test]
fn every_block_has_a_stripe_and_all_of_a_stripe_one_share() {
    for (shares, stripes) in [(1, 1), (4, 2), (64, 64)] {
        let locks = BlockLocks::new(shares, stripes);
        for block in (0..10_000).chain([u64::MAX]).map(BlockNumber) {
            let (stripe, each) = (locks.stripe(block).0 as usize, stripes.max(WORDS));
            assert!(stripe < shares * each);
            assert_eq!(stripe / each, share_of(block, shares));
            // A run is in one line.
            let first = BlockNumber(block.raw() - block.raw() % RUN_BLOCKS);
            assert_eq!(stripe / WORDS, locks.stripe(first).0 as usize / WORDS);
            assert_eq!(stripe % WORDS, (block.raw() % RUN_BLOCKS) as usize);
        }
    }
}
