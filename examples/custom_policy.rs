//! A policy of one's own, and the one call that tries it against every law and many crashes.
//!
//! `cargo run --release --example custom_policy` passes; with `-- --broken` its `apply` forgets the
//! last byte, and the suite says so.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example reports")]

use std::process::ExitCode;

use nvm_journal::policy::{ApplyError, Encoder, Placement, Policy, PolicyId, Update};
use sim_disk::suite::{Budget, PolicyFailure, Summary, check_policy};

/// Logs a block from the first byte that changes to the last one.
#[derive(Clone, Debug)]
struct OneSpan {
    forgets: usize,
}

impl Policy for OneSpan {
    fn id(&self) -> PolicyId {
        PolicyId(1_000)
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        let (Some(new), Some(old)) = (update.change.image(), update.old) else {
            return Placement::Image;
        };
        let differs = |at: &usize| new.get(*at) != old.get(*at);
        let Some(first) = (0..new.len()).find(differs) else { return Placement::Unchanged };
        let last = (first..new.len()).rfind(differs).unwrap_or(first);
        let at = (first as u32).to_le_bytes();
        let put = out.put(&at).and_then(|()| out.put(&new[first..=last]));
        if put.is_ok() { Placement::Encoded } else { Placement::Image }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        let malformed = ApplyError::Malformed { at: payload.len() };
        let (at, bytes) = payload.split_first_chunk().ok_or(malformed)?;
        let bytes = &bytes[..bytes.len().saturating_sub(self.forgets)];
        let rest = block.get_mut(u32::from_le_bytes(*at) as usize..).unwrap_or_default();
        let place = rest.get_mut(..bytes.len()).ok_or(ApplyError::OutOfBlock { at: 0 })?;
        place.copy_from_slice(bytes);
        Ok(())
    }
}

fn check(broken: bool, budget: &Budget) -> Result<Summary, Box<PolicyFailure>> {
    check_policy(&OneSpan { forgets: usize::from(broken) }, budget)
}

fn main() -> ExitCode {
    let broken = std::env::args().any(|argument| argument == "--broken");
    let result = check(broken, &Budget::new());
    let (exit, text) = match &result {
        Ok(summary) => (ExitCode::SUCCESS, summary.to_string()),
        Err(failure) => (ExitCode::FAILURE, failure.to_string()),
    };
    println!("{text}");
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_and_its_broken_form_does_not() {
        let budget = Budget::new().images(2).programs_one_in(4).longer(20, 10);
        let summary = check(false, &budget).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(summary.tried.repeated > 1_000 && summary.programs[0] > 500, "{summary}");
        let failure = check(true, &budget).expect_err("it forgets a byte");
        let text = failure.to_string();
        assert!(
            text.starts_with("the policy breaks a law: apply(old, what place encoded"),
            "{text}"
        );
        assert!(
            text.contains("they differ first at byte") && text.contains("laws_of_case"),
            "{text}"
        );
        // With no law tried, a crash shows it as well.
        let failure = check(true, &budget.cases(0)).expect_err("it forgets a byte");
        let PolicyFailure::Crash { .. } = *failure else { panic!("{failure}") };
        let text = failure.to_string();
        for told in
            ["the program, on one lane", "  1. ", "found: block 0", "may be: block 0", "seed 1"]
        {
            assert!(text.contains(told), "{told}: {text}");
        }
    }
}
