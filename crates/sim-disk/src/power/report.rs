//! What an exploration found: counts when all went well, a readable trace when not.

use core::fmt;
use core::ops::AddAssign;

use crate::media::image::Medium;
use crate::media::model::Rules;
use crate::media::tape::{Entry, Event, Mark, Tape};
use crate::power::cell::Cell;
use crate::power::crash::CrashPoint;

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Programs run.
    pub programs: u64,
    /// Instants at which the power was cut.
    pub points: u64,
    /// Instants with too many images to try all.
    pub points_sampled: u64,
    /// Instants in recoveries, and behind kills, that were not taken: see
    /// [`Explorer::with_recoveries_one_in`](crate::Explorer::with_recoveries_one_in).
    pub points_left_out: u64,
    /// Images tried.
    pub images: u64,
    /// Images not met before, with their history.
    pub images_distinct: u64,
    /// Images not recovered, since recovery could not have told them from another one.
    pub images_alike: u64,
    /// Images tried at sampled instants.
    pub images_sampled: u64,
    /// Images that hold a part of what disks and files had under way, neither all of it nor
    /// nothing. Some units are written and others not, or one is torn.
    pub images_disk_in_part: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Recoveries that were crashed in turn.
    pub nested: u64,
    /// Instants at which the process was killed.
    pub kills: u64,
    /// Distinct logical states that recovery found; summed over programs.
    pub outcomes: u64,
}

impl AddAssign for Report {
    fn add_assign(&mut self, more: Self) {
        self.programs += more.programs;
        self.points += more.points;
        self.points_sampled += more.points_sampled;
        self.points_left_out += more.points_left_out;
        self.images += more.images;
        self.images_distinct += more.images_distinct;
        self.images_alike += more.images_alike;
        self.images_sampled += more.images_sampled;
        self.images_disk_in_part += more.images_disk_in_part;
        self.recoveries += more.recoveries;
        self.nested += more.nested;
        self.kills += more.kills;
        self.outcomes += more.outcomes;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} programs, {} crash points ({} sampled), {} images ({} distinct, {} alike, \
             {} sampled, {} with a disk in part), {} recoveries ({} crashed in turn), {} kills, \
             {} outcomes",
            self.programs,
            self.points,
            self.points_sampled,
            self.images,
            self.images_distinct,
            self.images_alike,
            self.images_sampled,
            self.images_disk_in_part,
            self.recoveries,
            self.nested,
            self.kills,
            self.outcomes
        )?;
        match self.points_left_out {
            0 => Ok(()),
            left_out => write!(f, "; {left_out} points in recoveries left out"),
        }
    }
}

/// One crash on the way to a failure.
#[derive(Clone, Debug)]
pub struct CrashStep {
    tape: Tape,
    position: usize,
    /// What the crash made of each cell; `None` for a kill.
    fates: Option<Vec<Fate>>,
}

#[derive(Clone, Debug)]
struct Fate {
    medium: Medium,
    at: u64,
    content: Vec<u8>,
    kept: &'static str,
}

impl CrashStep {
    pub(crate) fn power_loss(tape: &Tape, point: &CrashPoint, choice: &[usize]) -> Self {
        let cells = point.cells().iter().zip(choice);
        let cells = cells.filter(|(cell, _)| !point.is_behind_the_end(choice, cell));
        let fates = cells.flat_map(|(cell, option)| fates(cell, *option));
        Self {
            tape: tape.prefix(point.position()),
            position: point.position(),
            fates: Some(fates.collect()),
        }
    }

    /// How many places came through, wholly or in part, and how many did not.
    fn kept_and_lost(&self) -> (usize, usize) {
        let fates = self.fates.iter().flatten();
        let lost = fates.clone().filter(|fate| fate.kept == "lost").count();
        (fates.count() - lost, lost)
    }

    pub(crate) fn kill(tape: &Tape, position: usize) -> Self {
        Self { tape: tape.prefix(position), position, fates: None }
    }
}

fn fates(cell: &Cell, option: usize) -> impl Iterator<Item = Fate> + '_ {
    let kept = match option {
        0 => "lost",
        _ if option == cell.newest() => "kept",
        _ => "kept in part",
    };
    cell.places().iter().enumerate().map(move |(part, at)| Fate {
        medium: cell.medium(),
        at: *at,
        content: cell.part(option, part).to_vec(),
        kept,
    })
}

/// A crash that the scenario did not survive.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub message: String,
    /// Which scenario.
    pub scenario: String,
    /// The rules it was explored under.
    pub rules: Option<Rules>,
    /// The explorer's seed.
    pub seed: u64,
    /// The crashes that led there, the first one last.
    steps: Vec<CrashStep>,
    /// The life in which it was noticed.
    last: Tape,
}

impl Failure {
    pub(crate) fn new(message: String) -> Box<Self> {
        Box::new(Self {
            message,
            scenario: String::new(),
            rules: None,
            seed: 0,
            steps: Vec::new(),
            last: Tape::new(),
        })
    }

    pub(crate) fn in_program(message: String, tape: &Tape) -> Box<Self> {
        let mut failure = Self::new(format!("the program failed without a crash: {message}"));
        failure.last = tape.clone();
        failure
    }

    pub(crate) fn in_recovery(message: String, tape: &Tape) -> Box<Self> {
        let mut failure = Self::new(message);
        failure.last = tape.clone();
        failure
    }

    pub(crate) fn with_step(mut self: Box<Self>, step: CrashStep) -> Box<Self> {
        self.steps.push(step);
        self
    }
}

impl Failure {
    /// The crashes that led there, the first one first: what happened, and where.
    pub fn crashes(&self) -> impl Iterator<Item = String> + '_ {
        self.steps.iter().rev().map(|step| {
            let last = step.tape.entries().len().checked_sub(1);
            let last = last.map(|last| format!("event {last}, {}", step.tape.entries()[last]));
            let last = last.unwrap_or_else(|| "nothing".to_owned());
            let (kept, lost) = step.kept_and_lost();
            match step.fates {
                None => format!("the process is killed after {last}"),
                Some(_) => format!(
                    "the power is lost after {last}: of what was not durable, {kept} places are \
                     kept and {lost} lost"
                ),
            }
        })
    }
}

impl core::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        writeln!(f, "scenario: {}", self.scenario)?;
        if let Some(rules) = self.rules {
            write!(f, "model: {}", rules.model())?;
            if let Some(defect) = rules.defect {
                write!(f, " (simulator defect: {defect:?})")?;
            }
            writeln!(f, ", seed {}", self.seed)?;
        }
        for (life, step) in (1..).zip(self.steps.iter().rev()) {
            writeln!(f, "life {life}:")?;
            write!(f, "{}", step.tape)?;
            match &step.fates {
                None => writeln!(f, "  -- KILLED after event {} --", step.position - 1)?,
                Some(fates) => {
                    writeln!(f, "  -- POWER LOST before event {} --", step.position)?;
                    for fate in fates {
                        write!(f, "       {} {:<12} ", place(fate.medium, fate.at), fate.kept)?;
                        match fate.medium {
                            Medium::FileLength(_) => {
                                let word = fate.content.first_chunk().copied();
                                write!(f, "{}", u64::from_le_bytes(word.unwrap_or_default()))?;
                            }
                            _ => hex(f, &fate.content)?,
                        }
                        writeln!(f)?;
                    }
                }
            }
        }
        writeln!(f, "last life:")?;
        write!(f, "{}", self.last)
    }
}

fn place(medium: Medium, at: u64) -> String {
    match medium {
        Medium::Pmem => format!("+{at}"),
        Medium::Disk(disk) => format!("disk {disk} +{at}"),
        Medium::File(file) => format!("file {file} +{at}"),
        Medium::FileLength(file) => format!("file {file} length"),
    }
}

/// The first bytes, and how many there are where that is more.
fn hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    const SHOWN: usize = 16;
    for byte in bytes.iter().take(SHOWN) {
        write!(f, "{byte:02x}")?;
    }
    if bytes.len() > SHOWN { write!(f, ".. ({} B)", bytes.len()) } else { Ok(()) }
}

impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, entry) in self.entries().iter().enumerate() {
            writeln!(f, "{position:>5}  {entry}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{} {}", self.thread.0, self.event)?;
        self.site.map_or(Ok(()), |site| write!(f, "  [{site}]"))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = |name: &str, medium, at, bytes: &[u8]| {
            write!(f, "{name:<7} {} ", place(medium, at))?;
            hex(f, bytes)
        };
        match self {
            Self::Store { at, bytes: content } => bytes("store", Medium::Pmem, *at, content),
            Self::Stream { at, bytes: content } => bytes("stream", Medium::Pmem, *at, content),
            Self::DiskWrite { disk, at, bytes: content } => {
                bytes("write", Medium::Disk(*disk), *at, content)
            }
            Self::Exchange { at, value } => bytes("xchg", Medium::Pmem, *at, &value.to_le_bytes()),
            Self::Flush { line, kind } => write!(f, "flush   +{line} ({kind:?})"),
            Self::Fence => f.write_str("fence"),
            Self::FenceFailed => f.write_str("fence FAILED"),
            Self::OrderStores => f.write_str("barrier"),
            Self::DiskSync { disk } => write!(f, "sync    disk {disk}"),
            Self::DiskSyncFailed { disk } => write!(f, "sync    disk {disk} FAILED"),
            Self::FileWrite { file, at, bytes: content } => {
                bytes("write", Medium::File(*file), *at, content)
            }
            Self::FileSetLen { file, len } => write!(f, "set_len file {file} to {len}"),
            Self::FileSync { file } => write!(f, "sync    file {file}"),
            Self::FileSyncFailed { file } => write!(f, "sync    file {file} FAILED"),
            Self::FileDropped { file } => write!(f, "sync    file {file} FAILED, pages dropped"),
            Self::Fault(what) => write!(f, "fault:  {what}"),
            Self::Mark(mark) => match mark {
                Mark::Called(label) => write!(f, "> call {label}"),
                Mark::Returned(label) => write!(f, "< call {label} returned"),
                Mark::Recovered(digest) => write!(f, "recovered, state {digest:#x}"),
                Mark::PowerLost => f.write_str("power lost"),
                Mark::Killed => f.write_str("killed"),
            },
        }
    }
}
