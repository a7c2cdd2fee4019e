//! What `check_policy` says of policies: of this project's own, and of wrong ones.

use core::sync::atomic::{AtomicU64, Ordering};

use byte_delta::ByteDelta;
use full_block::FullBlock;
use journal_core::policy::{
    ApplyError, Encoder, Patch, Placement, Policy, PolicyId, Prefix, Update,
};
use lab::erased::DynPolicy;
use lcow::Lcow;
use object_log::{ObjectLog, Settings};
use sim_disk::suite::{Budget, PolicyFailure, Summary, check_policy};

fn holds(policy: impl Policy + Clone + Send + Sync + 'static) -> Summary {
    // One copy of the engine for all of them; `Wrong` has its own.
    let policy = &DynPolicy::new(policy);
    let budget = Budget::new().images(2).programs_one_in(2).longer(100, 50);
    let summary = check_policy(policy, &budget).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(summary.report.images > 100_000 && summary.report.kills > 5_000, "{summary}");
    assert_eq!(summary.programs[1..], [300, 150], "{summary}");
    assert!(summary.tail_words > 600, "{summary}");
    summary
}

#[test]
fn whole_blocks_hold() {
    let summary = holds(FullBlock);
    assert_eq!(summary.tried.encoded, 0, "it encodes nothing");
}

#[test]
fn objects_hold() {
    let policy = ObjectLog::with(Settings::new().object_bytes(16)).expect("settings that can be");
    assert!(holds(policy).tried.repeated > 1_000);
}

#[test]
fn versions_in_slots_hold() {
    assert!(holds(ByteDelta::new()).tried.encoded > 1_000);
}

#[test]
fn content_that_lives_in_slots_holds() {
    assert!(holds(Lcow::new()).tried.encoded > 1_000);
}

/// Words that differ, in a form that one thing is wrong with.
#[derive(Clone, Debug)]
struct Wrong(Fault);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Payloads are differences: applied twice, they give something else.
    Difference,
    /// What is odd is trusted.
    Panics,
    /// What changes in the second half of a block is taken for nothing.
    Overlooks,
    /// Everything goes home.
    Home,
    /// The encoded form says how often it was asked.
    Counts,
    /// Every other payload is refused.
    Moody,
    /// Slots keep their last word.
    Slots,
    /// A patch alone is said to be encoded, and is not.
    Prefix,
}

static ASKED: AtomicU64 = AtomicU64::new(0);

impl Policy for Wrong {
    fn id(&self) -> PolicyId {
        PolicyId(1_001)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let (Some(new), Some(old)) = (update.change.image(), update.old) else {
            let homeless = self.0 != Fault::Home || update.change.image().is_none();
            return if homeless { Placement::Image } else { Placement::Home };
        };
        let words = (0_u16..).zip(new.chunks(8).zip(old.chunks(8)));
        let mut changed = words.filter(|(_, (new, old))| new != old).peekable();
        let seen = if self.0 == Fault::Overlooks { new.len() / 16 } else { new.len() / 8 };
        if changed.peek().is_none_or(|(index, _)| usize::from(*index) >= seen) {
            return Placement::Unchanged;
        }
        for (index, (new, old)) in changed {
            let mut word: Vec<u8> = new.to_vec();
            if self.0 == Fault::Difference {
                word.iter_mut().zip(old).for_each(|(new, old)| *new ^= old);
            }
            let high = if self.0 == Fault::Counts {
                (ASKED.fetch_add(1, Ordering::Relaxed) as u16 % 2) << 15
            } else {
                0
            };
            let put = out.put(&(index | high).to_le_bytes()).and_then(|()| out.put(&word));
            if put.is_err() {
                return Placement::Image;
            }
        }
        Placement::Encoded
    }

    fn prefix_of(&self, patches: &[Patch<'_>], at: usize) -> Option<Prefix> {
        let patch = patches.get(at)?;
        (self.0 == Fault::Prefix).then(|| Prefix::new(patch.at.into(), 2))
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        if self.0 == Fault::Panics {
            assert_eq!(payload.len() % 10, 0, "whole words");
        }
        if self.0 == Fault::Moody && ASKED.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            return Err(ApplyError::WrongBase);
        }
        for word in payload.chunks_exact(10) {
            let index = usize::from(u16::from_le_bytes([word[0], word[1]]) & 0x7FFF);
            let place = block.get_mut(index * 8..index * 8 + 8);
            let place = place.ok_or(ApplyError::OutOfBlock { at: 0 })?;
            if self.0 == Fault::Difference {
                place.iter_mut().zip(&word[2..]).for_each(|(old, new)| *old ^= new);
            } else {
                place.copy_from_slice(&word[2..]);
            }
        }
        Ok(())
    }

    fn rewrite_slot(&self, _older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        let kept = if self.0 == Fault::Slots { 8 } else { 0 };
        rewrite(Patch { at: 0, bytes: &newer[..newer.len() - kept] });
    }
}

#[test]
fn each_law_is_tried() {
    let law = |fault| {
        let budget = Budget::new().cases(500).images(1).programs_one_in(4).longer(0, 0);
        match check_policy(&Wrong(fault), &budget) {
            Ok(summary) => Ok(summary),
            Err(failure) => match *failure {
                PolicyFailure::Law(broken) => Err(broken.law),
                other => panic!("{fault:?}: {other}"),
            },
        }
    };
    assert!(law(Fault::None).is_ok());
    let broken = |fault, begins: &str| {
        let law = law(fault).expect_err("is wrong");
        assert!(law.starts_with(begins), "{fault:?}: {law}");
    };
    broken(Fault::Difference, "payloads may meet an image that already has them");
    broken(Fault::Panics, "apply returns");
    broken(Fault::Overlooks, "what place calls unchanged");
    broken(Fault::Home, "only appends go home");
    broken(Fault::Counts, "place depends on nothing but its arguments");
    broken(Fault::Moody, "apply depends on nothing but its arguments");
    broken(Fault::Slots, "rewrite_slot");
    broken(Fault::Prefix, "what prefix_of says");
}

#[test]
fn a_case_comes_back_by_its_seed() {
    let policy = Wrong(Fault::Difference);
    let failure = check_policy(&policy, &Budget::new().seed(9)).expect_err("is wrong");
    let PolicyFailure::Law(broken) = *failure else { panic!("{failure}") };
    let again = sim_disk::suite::laws_of_case(&policy, broken.seed).expect_err("is as wrong");
    assert_eq!((again.law, again.case), (broken.law, broken.case));
}
