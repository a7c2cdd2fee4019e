//! How a journal takes the steps of a program.

use core::fmt;

use journal_core::parts::Spilled;
use journal_core::policy::{Change, Policy};
use journal_core::units::LaneNumber;
use journal_core::{
    Active, BlockNumber, CheckpointReport, CommitError, Durability, MediumError, Operation,
};

use crate::media::tape::Mark;
use crate::media::world::World;
use crate::suite::program::images::{Edited, FIRST_WORD, Images, WordsAs};
use crate::suite::program::oracle::{BLOCK_BYTES, Edit, Edits, Label, SYNCED, edited, latest};
use crate::suite::program::program::{FIRST_CALL, Opened, Program};
use crate::suite::program::step::Step;

impl<P: Policy + Clone + fmt::Debug> Program<P> {
    /// Does one step, and marks in the world what it promised when.
    ///
    /// # Errors
    /// What the journal refused, or left out since it could not read it.
    ///
    /// # Panics
    /// When asked to reopen, which takes another journal.
    pub fn step<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        step: &Step,
    ) -> Result<(), String> {
        self.do_step(world, journal, step)?;
        match journal.unreadable().next() {
            Some(block) => Err(format!("{block} cannot be read, and was left out")),
            None => Ok(()),
        }
    }

    fn do_step<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        step: &Step,
    ) -> Result<(), String> {
        match step {
            Step::Commit(lane, edits, durability) => {
                self.commit(world, journal, *lane, edits, *durability)
            }
            Step::Stream(lane, parts, commits) => {
                self.stream(world, journal, *lane, parts, *commits)
            }
            Step::Sync => {
                journal.sync().map_err(|error| error.to_string())?;
                world.returned(SYNCED);
                Ok(())
            }
            Step::Checkpoint => {
                journal.checkpoint().map_err(|error| error.to_string())?;
                world.returned(SYNCED);
                Ok(())
            }
            Step::Batch => {
                let mut report = CheckpointReport::default();
                let result = journal.checkpoint_batch(journal_core::Scope::All, &mut report);
                result.map(drop).map_err(|error| error.to_string())
            }
            Step::LetHeadsPass => {
                let mut report = CheckpointReport::default();
                journal.let_heads_pass(&mut report).map_err(|error| error.to_string())
            }
            Step::Relog(lane, must_copy) => {
                let report = journal.relog(LaneNumber(lane % self.lanes));
                let report = report.map_err(|error| error.to_string())?;
                let copies = report.frames > 0 && report.freed_bytes > report.copied_bytes;
                if *must_copy && !copies {
                    return Err(format!("nothing was copied: {report:?}"));
                }
                Ok(())
            }
            Step::Active(lane, block, durability) => {
                self.activate(world, journal, *lane, *block, *durability)
            }
            Step::Spill(lane, block, commits) => {
                self.spill(world, journal, *lane, *block, *commits)
            }
            Step::Fold => journal.fold().map(drop).map_err(|error| error.to_string()),
            Step::Garbage => journal.collect_garbage().map(drop).map_err(|error| error.to_string()),
            Step::Rings => {
                journal.checkpoint_rings().map_err(|error| error.to_string())?;
                world.returned(SYNCED);
                Ok(())
            }
            Step::Evict => journal.evict().map(drop).map_err(|error| error.to_string()),
            Step::Clean => journal.clean_log().map(drop).map_err(|error| error.to_string()),
            Step::Move(lane) => {
                let moved = journal.move_to_log(LaneNumber(lane % self.lanes));
                moved.map(drop).map_err(|error| error.to_string())
            }
            Step::Reopen => unreachable!("handled by the caller"),
        }
    }

    /// The number of the next call of the journal's whole life.
    pub(in crate::suite) fn next_call(&self, world: &World) -> u64 {
        let calls = world.history();
        let called = calls.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64;
        called + if self.begin.is_some() { FIRST_CALL } else { 1 }
    }

    /// The images of a transaction. What a block holds that is not live is nobody's business: it
    /// counts as zeroes, and is not shown to the policy.
    pub(in crate::suite) fn images<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        edits: &[(usize, Edit)],
        number: u64,
    ) -> Result<Images, String> {
        let now = latest(&world.history(), &self.first_state());
        let habits = &self.habits;
        let words_as = if number % 2 == 0 { WordsAs::Patch } else { WordsAs::Range };
        let words_as = habits.takes_patches.then_some(words_as);
        let mut images = Images { words_as, goes_home: habits.appends_go_home, blocks: Vec::new() };
        for (block, edit) in edits {
            let mut old = [0; BLOCK_BYTES];
            let is_live = now[*block].is_some();
            if is_live {
                let read = journal.read(BlockNumber(*block as u64), &mut old);
                read.map_err(|error| error.to_string())?;
            }
            let new = edited(&old, number, *edit);
            images.blocks.push(Edited {
                block: *block,
                edit: *edit,
                old: is_live.then_some(old),
                new,
            });
        }
        Ok(images)
    }

    /// A streamed transaction over several lists of blocks, none of them twice.
    fn stream<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        parts: &[Edits],
        commits: bool,
    ) -> Result<(), String> {
        let label = Label { number: self.next_call(world), edits: parts.concat() };
        let mut images = Vec::new();
        for part in parts {
            images.push(self.images(world, journal, part, label.number)?);
        }
        // Two lines and an image for each block and one list of names, two lines to close.
        let bytes = 192 * label.edits.len() as u64 + 128;
        let lane = LaneNumber(lane % self.lanes);
        if let Err(CommitError::NoSpace { .. }) = journal.begin(lane, bytes).map(drop) {
            journal.checkpoint().map_err(|error| error.to_string())?;
        }
        let mut streamed = journal.begin(lane, bytes).map_err(|error| error.to_string())?;
        if commits {
            world.called(label.encode());
        }
        for part in &images {
            let patches = part.patches();
            streamed.write(&part.operations(&patches)).map_err(|error| error.to_string())?;
        }
        if !commits {
            streamed.abort();
            return Ok(());
        }
        streamed.commit().map_err(|error| error.to_string())?;
        world.returned(label.encode());
        Ok(())
    }

    /// Writes something to a slot, makes the new content of it, and commits that; another slot is
    /// written and given back.
    fn activate<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        block: usize,
        durability: Durability,
    ) -> Result<(), String> {
        let lane = LaneNumber(lane % self.lanes);
        let edits = vec![(block, Edit::Write)];
        let label = Label { number: self.next_call(world), edits: edits.clone() };
        let images = self.images(world, journal, &edits, label.number)?;
        let new = &images.blocks[0].new;
        let begun = edited(new, label.number + 1, Edit::WriteAt);
        let active = journal.with_active(lane, |lane, common| {
            let has_two = lane.lane.free_slots() > 1;
            let given_up = has_two.then(|| lane.activate(common, &[0xEE; BLOCK_BYTES])).flatten();
            let mut active = lane.activate(common, &begun);
            if let Some(active) = &mut active {
                let change = Change::Ranges { image: new, ranges: &FIRST_WORD };
                lane.update_active(common, active, &change);
            }
            if let Some(given_up) = given_up {
                lane.deactivate(given_up);
            }
            active
        });
        let Some(active) = active.flatten() else {
            return self.commit(world, journal, lane.raw(), &edits, durability);
        };
        self.commit_active(world, journal, lane, &label, &active, durability)
    }

    /// Spills something to a slot, and then what makes the new content of it. Commits that, or
    /// gives the slot back.
    fn spill<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        block: usize,
        commits: bool,
    ) -> Result<(), String> {
        let lane = LaneNumber(lane % self.lanes);
        let edits = vec![(block, Edit::Write)];
        let label = Label { number: self.next_call(world), edits: edits.clone() };
        let images = self.images(world, journal, &edits, label.number)?;
        let new = &images.blocks[0].new;
        let begun = edited(new, label.number + 1, Edit::WriteAt);
        let spilled = journal.with_active(lane, |lane, common| {
            let block = BlockNumber(block as u64);
            let mut active = None;
            for change in
                [Change::Image(&begun), Change::Ranges { image: new, ranges: &FIRST_WORD }]
            {
                let mut contents = [Spilled { block, active, change }];
                lane.spill(common, &mut contents)?;
                [Spilled { active, .. }] = contents;
            }
            if let (Some(active), false) = (&active, commits) {
                lane.deactivate(active.clone());
            }
            Ok::<_, MediumError>(active)
        });
        let spilled = spilled.transpose().map_err(|error| error.to_string())?;
        match (spilled.flatten(), commits) {
            (_, false) => Ok(()),
            (None, true) => self.commit(world, journal, lane.raw(), &edits, Durability::Durable),
            (Some(active), true) => {
                self.commit_active(world, journal, lane, &label, &active, Durability::Durable)
            }
        }
    }

    /// Commits what an active slot holds.
    fn commit_active<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: LaneNumber,
        label: &Label,
        active: &Active,
        durability: Durability,
    ) -> Result<(), String> {
        let block = label.edits[0].0;
        let operations = [Operation::Active(BlockNumber(block as u64), active)];
        world.called(label.encode());
        let mut result = journal.commit(lane, &operations, durability);
        if let Err(CommitError::NoSpace { .. }) = result {
            // What is active is in no record: a checkpoint leaves it where it is.
            journal.checkpoint().map_err(|error| error.to_string())?;
            result = journal.commit(lane, &operations, durability);
        }
        result.map_err(|error| error.to_string())?;
        if durability == Durability::Durable {
            world.returned(label.encode());
        }
        Ok(())
    }

    fn commit<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        edits: &[(usize, Edit)],
        durability: Durability,
    ) -> Result<(), String> {
        let lane = LaneNumber(lane % self.lanes);
        let label = Label { number: self.next_call(world), edits: edits.to_vec() };
        let images = self.images(world, journal, edits, label.number)?;
        let patches = images.patches();
        let operations = images.operations(&patches);
        world.called(label.encode());
        let mut result = journal.commit(lane, &operations, durability);
        if let Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) = result {
            journal.checkpoint().map_err(|error| error.to_string())?;
            result = journal.commit(lane, &operations, durability);
        }
        result.map_err(|error| error.to_string())?;
        if durability == Durability::Durable || self.promises_too_much {
            world.returned(label.encode());
        }
        Ok(())
    }
}
