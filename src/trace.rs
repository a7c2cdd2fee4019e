//! Events of the feature `tracing`: an open, checkpoints, a failure and a close. Nothing here is
//! called for a record.

use journal_core::{CheckpointReport, PolicyId, Recovery};

use crate::error::Error;
use crate::options::Plan;

/// A journal is open, and this is what its recovery found.
pub(crate) fn opened(policy: PolicyId, plan: &Plan, recovery: &Recovery) {
    #[cfg(feature = "tracing")]
    tracing::info!(
        policy = policy.0,
        records = recovery.records,
        found = recovery.found,
        tails = recovery.tails,
        voids = recovery.voids,
        torn_slots = recovery.torn_slots,
        lanes_with_records_behind = recovery.lanes_with_records_behind,
        lanes = plan.geometry.lanes,
        nvm_bytes = plan.nvm_bytes,
        "journal opened"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = (policy, plan, recovery);
}

/// A journal was not opened.
pub(crate) fn refused(error: Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(%error, "journal not opened");
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}

/// A checkpoint begins.
pub(crate) fn checkpoint_begins() {
    #[cfg(feature = "tracing")]
    tracing::debug!("checkpoint begins");
}

/// A checkpoint, or a step of an upkeep, has ended.
pub(crate) fn checkpointed(report: &CheckpointReport) {
    #[cfg(feature = "tracing")]
    tracing::info!(
        blocks = report.blocks,
        writes = report.writes,
        batches = report.batches,
        shielded = report.shielded,
        freed_bytes = report.freed_bytes,
        freed_slots = report.freed_slots,
        unreadable = report.unreadable,
        "checkpoint"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = report;
}

/// A journal is closed.
pub(crate) fn closed(is_home: bool) {
    #[cfg(feature = "tracing")]
    tracing::info!(is_home, "journal closed");
    #[cfg(not(feature = "tracing"))]
    let _ = is_home;
}

#[cfg(all(test, feature = "tracing", not(any(loom, shuttle))))]
mod tests {
    use core::fmt;
    use std::sync::{Arc, Mutex};

    use journal_core::{BlockNumber, BlockSize};
    use pmem_sys::Region;
    use sim_disk::Mutator;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber, subscriber};

    use crate::machine::tests::{TinyDisk, TinyMachine};
    use crate::{AnyPolicy, FullBlock, Journal, Options};

    /// Keeps the message of each event.
    #[derive(Clone, Default)]
    struct Messages(Arc<Mutex<Vec<String>>>);

    impl Messages {
        fn of(call: impl FnOnce()) -> Vec<String> {
            let messages = Self::default();
            subscriber::with_default(messages.clone(), call);
            let heard = messages.0.lock().expect("nobody panics with it");
            heard.clone()
        }
    }

    impl Visit for Messages {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().expect("nobody panics with it").push(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Messages {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    fn options() -> Options<AnyPolicy, Mutator> {
        Options::new().policy(AnyPolicy::from(FullBlock)).hook(Mutator::new())
    }

    fn journal(disk: TinyDisk) -> Journal<AnyPolicy, TinyMachine> {
        let nvm = Region::anonymous(1 << 20).expect("memory");
        Journal::format(nvm, disk, &options()).expect("room for a journal")
    }

    fn disk() -> TinyDisk {
        TinyDisk::of(BlockSize::DEFAULT, 64)
    }

    #[test]
    fn a_life_is_told_and_no_record_is() {
        let messages = Messages::of(|| {
            let journal = journal(disk());
            for number in 0..20 {
                let image = [number as u8; 4096];
                let write =
                    |tx: &mut crate::Transaction<'_, _, _>| tx.write(BlockNumber(number), &image);
                journal.transact(write).expect("room for a record");
            }
            journal.checkpoint().expect("a disk that writes");
            journal.close().expect("a disk that writes");
        });
        let checkpoint = ["checkpoint begins", "checkpoint"];
        let expected = [&["journal opened"], &checkpoint[..], &checkpoint, &["journal closed"]];
        assert_eq!(messages, expected.concat());
    }

    #[test]
    fn a_failure_is_told_once() {
        let messages = Messages::of(|| {
            let journal = journal(disk().refusing());
            let image = [1; 4096];
            journal.transact(|tx| tx.write(BlockNumber(1), &image)).expect("room for a record");
            journal.checkpoint().expect_err("the disk refuses");
            journal.checkpoint().expect_err("it has failed");
        });
        let expected = ["journal opened", "checkpoint begins", "journal failed"];
        assert_eq!(messages, expected);
    }

    #[test]
    fn a_refused_open_is_told() {
        let messages = Messages::of(|| {
            let nvm = Region::anonymous(1 << 20).expect("memory");
            let opened: Result<Journal<AnyPolicy, TinyMachine>, _> =
                Journal::open(nvm, disk(), &options());
            opened.expect_err("no journal");
        });
        assert_eq!(messages, ["journal not opened"]);
    }
}
