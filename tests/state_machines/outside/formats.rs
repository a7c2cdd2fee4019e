//! Journals over journals: which of them may be there, and what a process does with each.

use core::sync::atomic::Ordering;

use journal_core::{BlockNumber, OpenError};
use lab::erased::{DynDisk, DynPmem};
use nvm_journal::Error;
use sim_disk::Mark;
use sim_disk::suite::Habits;

use super::acts::{Settings, Shape};
use super::process::{Store, Wrong};
use super::{Journal, Outside, count, policy};
use lab::oracle::{BLOCK_BYTES, sync_label};

/// In the id of a format's label, beside the number of its policy.
const FORMATS: u64 = 1 << 21;
const POLICY_AT: u32 = 22;
/// Counts formats.
const COUNT_MAX: u64 = 1 << 16;

/// What is on the media.
enum Found {
    Journal(Journal),
    /// No journal.
    Nothing,
}

/// The journals that there may be, by their policies, and whether there may be none.
fn may_be(outside: &Outside, history: &[Mark]) -> (Vec<usize>, bool) {
    let (mut policies, mut is_open) = (vec![outside.case.shape.policy], false);
    for mark in history {
        match mark {
            Mark::Called(label) if format_of(*label).is_some() => {
                policies.extend(format_of(*label));
                is_open = true;
            }
            Mark::Returned(label) if format_of(*label).is_some() => {
                policies = format_of(*label).into_iter().collect();
                is_open = false;
            }
            _ => {}
        }
    }
    policies.reverse();
    (policies, is_open)
}

/// The policy of a format, if that is what a label is of.
fn format_of(label: u64) -> Option<usize> {
    let id = label >> 32;
    let is_format = label == sync_label(id) && id & FORMATS != 0;
    is_format.then_some((id >> POLICY_AT & 7) as usize)
}

impl Store<'_> {
    /// Opens what is there.
    fn open(&self, settings: &Settings) -> Result<Found, Wrong> {
        let (policies, may_be_none) = may_be(self.outside, &self.world.history());
        for number in policies {
            let policy = policy(number);
            let options = self.outside.options(self.hook.clone(), policy, settings);
            let pmem = DynPmem::new(self.world.pmem().with_stitches(settings.streams));
            match Journal::open(pmem, DynDisk::new(self.world.disk(0)), &options) {
                Ok(journal) => {
                    let takes_patches = Habits::of(&policy).takes_patches;
                    self.takes_patches.store(takes_patches, Ordering::Relaxed);
                    if may_be_none {
                        count(&self.outside.reach.cut_short);
                    }
                    return Ok(Found::Journal(journal));
                }
                Err(Error::Open(OpenError::WrongPolicy { .. })) => {}
                Err(error) if may_be_none && error.is_no_journal() => {
                    count(&self.outside.reach.no_journal);
                    return Ok(Found::Nothing);
                }
                Err(error) => return Err(Wrong::Told(format!("open: {error}"))),
            }
        }
        Err(Wrong::Told("another journal is there than there can be".into()))
    }

    /// Opens what is there, and judges it. Where a format was cut short, all is at home; then it is
    /// formatted once more.
    pub(super) fn enter(&self, settings: &Settings) -> Result<Journal, Wrong> {
        if let Found::Journal(journal) = self.open(settings)? {
            self.recover(&journal)?;
            return Ok(journal);
        }
        let image = self.world.visible();
        let home = |block| {
            let mut content = [0; BLOCK_BYTES];
            content.copy_from_slice(&image.disk(0).block(BlockNumber(block as u64)));
            content
        };
        self.recovered(&core::array::from_fn(home))?;
        self.format(&self.outside.case.shape)?;
        match self.open(settings)? {
            Found::Journal(journal) => {
                self.recover(&journal)?;
                Ok(journal)
            }
            Found::Nothing => Err(Wrong::Told("there is none after a format".into())),
        }
    }

    /// Formats over what is there, all of which is home.
    pub(super) fn format(&self, shape: &Shape) -> Result<(), Wrong> {
        let count = self.world.history().len() as u64 % COUNT_MAX;
        let id = FORMATS | (shape.policy as u64) << POLICY_AT | count;
        let pmem = self.world.pmem();
        self.covering(id, || self.outside.format(pmem, &self.outside.mutator, shape))
    }

    pub(super) fn close(&self, journal: Journal) -> Result<(), Wrong> {
        self.covers(|| journal.close())
    }
}
