//! The suite's programs over ports of which one may be defective, and with calls that fail.

use journal_core::Buffers;
use journal_core::policy::{Change, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, CheckpointReport, Durability, Journal, JournalError, MediumErrorKind, NoHook, On,
    OpenError, Operation as Asked, Scope,
};
use sim_disk::suite::oracle::{
    BLOCK_BYTES, BLOCKS, EMPTY, Found, Label, SYNCED, digest, edited, judge, latest,
};
use sim_disk::suite::{Edit, ID, Step};
use sim_disk::{DiskImage, Fault, FaultKind, Image, Mark, Model, Operation, Scenario, World};

use crate::core_crash::program::{Kind, Program};
use crate::known_bugs::ports::{Defect, PortDisk, PortHook, PortKernels, PortPmem};

/// A program, what is wrong with the ports that it runs on, and what fails.
#[derive(Clone)]
pub struct Planted {
    /// Its mutator says which rules are not kept.
    pub program: Program,
    pub defect: Option<Defect>,
    /// The call of the program that fails.
    pub fails: Option<(Operation, u64)>,
    /// Whether the program goes on with its steps when one was refused.
    pub goes_on: bool,
    /// The read of an open after a crash that fails once; the open is tried again.
    pub read_fails: Option<u64>,
    /// Whether the device has become a block shorter when the journal is opened after a crash,
    /// which has to refuse it.
    pub disk_shrinks: bool,
    /// Whether an open after a crash may refuse the superblock: the media were harmed.
    pub may_refuse: bool,
}

type Opened<'m> = Journal<'m, Kind, On<PortPmem, PortDisk, PortHook, PortKernels>>;

type Memory = Buffers<PortPmem, PortHook>;

impl Planted {
    /// The program on ports of which nothing is wrong.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            defect: None,
            fails: None,
            goes_on: false,
            read_fails: None,
            disk_shrinks: false,
            may_refuse: false,
        }
    }

    fn memory(&self) -> Memory {
        Buffers::new(&self.program.geometry(), 64, self.program.batch)
    }

    fn open<'m>(
        &self,
        world: &World,
        memory: &'m mut Memory,
        lacks: u64,
    ) -> Result<Opened<'m>, OpenError> {
        let geometry = self.program.geometry();
        let lane = |number: u16| geometry.lane(LaneNumber(number)).raw();
        let lanes = (lane(0), lane(0) + geometry.lane_bytes, lane(geometry.lanes));
        let pmem = PortPmem::new(world, self.defect, lanes);
        let opens = pmem.span().opens.clone();
        let disk = PortDisk { inner: world.disk(0), defect: self.defect, lacks };
        let hook = PortHook { inner: self.program.mutator.clone(), defect: self.defect, calls: 0 };
        let (kind, kernels) = (self.program.policy, PortKernels(self.defect));
        let opened = Journal::open(pmem, disk, kind, hook, kernels, memory.borrow());
        opens.set(false);
        opened
    }

    /// Runs steps; each reopen begins anew.
    fn run(&self, world: &World, steps: &[Step]) -> Result<(), String> {
        for life in steps.split(|step| *step == Step::Reopen) {
            let mut memory = self.memory();
            let opened = self.open(world, &mut memory, 0);
            let mut journal = match opened {
                Err(_) if self.fails.is_some() => return Ok(()),
                opened => opened.map_err(|error| format!("open: {error}"))?,
            };
            for step in life {
                match step_of(world, &mut journal, step) {
                    Err(_) if self.goes_on => {}
                    // What was acknowledged before stays so, and nothing comes after it.
                    Err(_) if self.fails.is_some() => return Ok(()),
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Opens what a crash has left, if it may be refused once.
    fn reopen<'m>(
        &self,
        world: &World,
        memory: &'m mut Memory,
    ) -> Result<Option<Opened<'m>>, String> {
        if let Some(index) = self.read_fails {
            world.inject(Fault::on(Operation::MemoryRead, index, FaultKind::Error));
            // It may lie behind what the first ones read.
            for _ in 0..4 {
                match self.open(world, &mut self.memory(), 0) {
                    Err(OpenError::Medium(error)) if error.kind == MediumErrorKind::Transient => {}
                    Err(OpenError::Superblock(_)) => {}
                    // It did no harm, or was taken for something else.
                    Ok(mut journal) => judged(world, &mut journal)?,
                    Err(error) => return Err(format!("open: {error}")),
                }
            }
        }
        if self.disk_shrinks {
            return match self.open(world, memory, 1) {
                Err(OpenError::WrongDevice { .. }) => Ok(None),
                Err(error) => Err(format!("open: {error}")),
                Ok(_) => Err("a device that is too short is taken".into()),
            };
        }
        match self.open(world, memory, 0) {
            Err(OpenError::Superblock(_)) if self.may_refuse => Ok(None),
            opened => opened.map(Some).map_err(|error| format!("open: {error}")),
        }
    }
}

fn read_all(journal: &mut Opened<'_>) -> Result<Found, JournalError> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in (0..).zip(&mut blocks) {
        journal.read(BlockNumber(number), block)?;
    }
    Ok(blocks)
}

fn judged(world: &World, journal: &mut Opened<'_>) -> Result<(), String> {
    let found = match read_all(journal) {
        Ok(found) => found,
        // The fault that was injected lay behind the open.
        Err(JournalError::Medium(error)) if error.kind == MediumErrorKind::Transient => {
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    judge(&world.history(), &found, EMPTY)
}

fn step_of(world: &World, journal: &mut Opened<'_>, step: &Step) -> Result<(), String> {
    match step {
        Step::Commit(lane, edits, durability) => commit(world, journal, *lane, edits, *durability),
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
            let batch = journal.checkpoint_batch(Scope::All, &mut CheckpointReport::default());
            batch.map(drop).map_err(|error| error.to_string())
        }
        Step::LetHeadsPass => {
            let passed = journal.let_heads_pass(&mut CheckpointReport::default());
            passed.map_err(|error| error.to_string())
        }
        other => Err(format!("these programs do not {other}")),
    }
}

fn commit(
    world: &World,
    journal: &mut Opened<'_>,
    lane: u16,
    edits: &[(usize, Edit)],
    durability: Durability,
) -> Result<(), String> {
    let history = world.history();
    let calls = history.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64;
    let label = Label { number: calls + 1, edits: edits.to_vec() };
    // Reads may not be had, where something has failed.
    let old = latest(&history, &EMPTY).map(|cell| cell.expect("these programs do not discard"));
    let new: Vec<_> =
        edits.iter().map(|(block, edit)| edited(&old[*block], label.number, *edit)).collect();
    let operations: Vec<Asked<'_>> = edits
        .iter()
        .zip(&new)
        .map(|((block, _), new)| {
            let mut update = Update::new(BlockNumber(*block as u64), Change::Image(new));
            update.old = Some(&old[*block]);
            Asked::Update(update)
        })
        .collect();
    world.called(label.encode());
    let committed = journal.commit(LaneNumber(lane), &operations, durability);
    committed.map_err(|error| error.to_string())?;
    if durability == Durability::Durable {
        world.returned(label.encode());
    }
    Ok(())
}

impl Scenario for Planted {
    fn name(&self) -> String {
        format!("{:?}, {}", self.defect, self.program.name())
    }

    fn start(&self) -> Image {
        let empty = self.program.start();
        let world = World::boot(empty.clone(), Model::Torn8);
        let (geometry, kernels) = (self.program.geometry(), PortKernels(self.defect));
        let (kind, blocks) = (self.program.policy, BLOCKS as u64);
        journal_core::format(world.pmem(), NoHook, &kernels, &geometry, ID, &kind, blocks)
            .expect("formats");
        let disk: DiskImage = empty.disk(0).clone();
        Image::from_pmem(world.visible().pmem().to_vec()).with_disk(disk)
    }

    fn program(&self, world: &World) -> Result<(), String> {
        if let Some((operation, index)) = self.fails {
            world.inject(Fault::on(operation, index, FaultKind::Error));
        }
        self.run(world, &self.program.steps)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let mut memory = self.memory();
        let Some(mut journal) = self.reopen(world, &mut memory)? else { return Ok(()) };
        let found = read_all(&mut journal).map_err(|error| error.to_string())?;
        judge(&world.history(), &found, EMPTY)?;
        world.recovered(digest(&found));
        for step in &self.program.steps_after {
            step_of(world, &mut journal, step)?;
        }
        Ok(())
    }
}
