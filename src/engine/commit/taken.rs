//! The lone operation of a transaction that has locked its block: it is stored as
//! [`commit_short`](crate::engine::commit_short) stores one, without being prepared. So it is too
//! where the policy is lent its old image.

use journal_core::parts::{Alone, Several, Sole};
use journal_core::policy::Policy;
use journal_core::{Committed, Durability, Operation};

use crate::engine::commit::{RecordTo, Recorded, is_left_unfenced};
use crate::engine::read::Keeps;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::staging::staged::ready::Ready;
use crate::staging::work::Work;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Commits the only operation of a transaction that has its block, and has reserved what it
    /// takes. Where what is logged depends on more than the operation, it returns no record, stores
    /// no error, and has changed nothing.
    #[inline]
    pub(super) fn commit_taken(
        &self,
        work: &mut Work,
        operation: &Operation<'_>,
        keeps: Keeps,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        if !self.is_taken_alone(work) {
            return None;
        }
        if Several::may_be(operation) {
            return self.commit_taken_as::<Several<'_>>(work, operation, keeps, durability, error);
        }
        self.commit_taken_as::<Sole<'_>>(work, operation, keeps, durability, error)
    }

    /// Like `commit_taken`, where the old image of the only operation is lent to the policy. Where
    /// it returns no record and stores no error, the caller asks the policy anew.
    #[inline]
    pub(crate) fn commit_lent(
        &self,
        work: &mut Work,
        operations: &Ready<'_>,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        let operation = operations.lent_operation()?;
        let Operation::Update(update) = operation else { return None };
        if !self.is_taken_alone(work) {
            return None;
        }
        let (_, encoded) = work.for_one();
        let with_check = update.change.image().is_none();
        let sole = self.with_kept_and_check(update.block, with_check, |kept| {
            self.common.sole_on(update, kept?, encoded)
        })?;
        self.commit_encoded(work, sole, operation, self.keeps_staged(), durability, error)
    }

    /// What is kept of a staged transaction behind its record. Readers of what is pinned wait no
    /// longer when its blocks come free, so copies of its images are kept before.
    #[inline]
    pub(super) const fn keeps_staged(&self) -> Keeps {
        if self.pins { Keeps::All } else { Keeps::Patches }
    }

    /// Whether the lone operation of a transaction can be stored here.
    #[inline]
    fn is_taken_alone(&self, work: &Work) -> bool {
        // Where it touches what was gathered, or gives a block up, its record may name several
        // others. These ways have room for one name, and for no note.
        let names_several = work.names.count() > 1 || work.names.note().is_some();
        let is_usual = !(work.bypasses || work.on_gathered || names_several);
        is_usual && !self.common.policy.counts_alike()
    }

    #[inline]
    fn commit_taken_as<'o, A: Alone<'o, L, M::Kernels>>(
        &self,
        work: &mut Work,
        operation: &Operation<'o>,
        keeps: Keeps,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        let (_, encoded) = work.for_one();
        let alone = A::of(&self.common, operation, encoded)?;
        self.commit_encoded(work, alone, operation, keeps, durability, error)
    }

    /// Commits an operation that is encoded, if enough bytes are reserved.
    #[inline]
    fn commit_encoded<'o, A: Alone<'o, L, M::Kernels>>(
        &self,
        work: &mut Work,
        mut alone: A,
        operation: &Operation<'o>,
        keeps: Keeps,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        let most = self.common.sole_bytes_max(alone.sole());
        if most > work.reserved_bytes {
            return None;
        }
        alone.sole_mut().name(&work.names);
        let store = || self.store_taken(work, alone, (most, durability));
        let result = self.fail_on_panic(store).map(Some);
        self.give_back_after(work, core::slice::from_ref(operation), keeps, &result);
        Recorded::of(result, error)
    }

    /// Stores the record of an operation that is encoded, and makes it durable if that is asked
    /// for.
    #[inline(always)]
    fn store_taken<'o, A: Alone<'o, L, M::Kernels>>(
        &self,
        work: &mut Work,
        alone: A,
        (most, durability): (u64, Durability),
    ) -> Result<Committed, Error> {
        let (lane, overwritten) = (work.lane, work.overwritten);
        self.check_not_failed()?;
        self.make_deferred_durable(Some(lane))?;
        let cell = self.lane(lane);
        let mut state = cell.turn.take_to_commit().map_err(|_| self.poisoned())?;
        self.check_not_failed()?;
        self.put_in_hand(&mut state, work, most);
        let takes_in_first = work.takes_in_first;
        if is_left_unfenced(durability, most) {
            work.defers = true;
        }
        // `encoded` still holds what `A::of` has encoded.
        let (front, encoded) = work.for_one();
        let to = RecordTo { lane, overwritten, durability, bytes: most, is_noted: false };
        let mut record = self.begin_record(&state, cell, to);
        let open = &mut record.open;
        // As in `Lane::store_part`: no lock takes an exchange once something streams.
        let foretold =
            takes_in_first.then(|| self.common.sole_frame(alone.sole(), &state.lane, open));
        foretold.into_iter().for_each(|frame| self.take_in(frame));
        let frame = alone.store(&self.common, &mut state.lane, open, front, encoded);
        debug_assert!(
            foretold.is_none_or(|foretold| foretold.payload == frame.payload),
            "it lies where it was told"
        );
        if !takes_in_first {
            self.take_in(frame);
        }
        self.end_record(state, record, cell, 1)
    }
}
