//! Files against a machine that loses power: a program runs call by call, and the machine decides
//! at each call what of it reaches the disk. Both have to come to the same states.

use std::collections::BTreeSet;

use sim_disk::generate::{self, Source};
use sim_disk::{FileFacts, FileImage, SimFile, TornBy, Unwritten};

use crate::states::{RIGHT, State, every_state, world_of};

/// No program of this test writes behind it.
const LEN_MAX: usize = 6;

#[derive(Clone, Debug)]
enum Call {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Sync,
}

impl Call {
    fn any(source: &mut Source, number: u8) -> Self {
        match source.below(8) {
            0..=3 => {
                let at = source.index(LEN_MAX);
                let len = 1 + source.index((LEN_MAX - at).min(3));
                Self::Write(at, (0..len as u8).map(|byte| 10 * number + byte + 1).collect())
            }
            4..=6 => Self::SetLen(source.index(LEN_MAX + 1)),
            _ => Self::Sync,
        }
    }

    fn run(&self, file: &SimFile) -> Result<(), String> {
        let done = match self {
            Self::Write(at, bytes) => file.write_all_at(*at as u64, bytes),
            Self::SetLen(len) => file.set_len(*len as u64),
            Self::Sync => file.sync(),
        };
        done.map_err(|error| error.to_string())
    }
}

/// What lies on the disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Disk {
    /// What is in the file's blocks; what lies behind the length is there, and out of sight.
    bytes: [u8; LEN_MAX],
    len: usize,
    /// Whether a cut has not reached the disk: then no later length has either.
    waits: bool,
}

/// A file with every disk that may lie under it.
struct Machine {
    visible: Vec<u8>,
    disks: BTreeSet<Disk>,
}

/// All subsets of the places that a new content changes.
fn arrivals(disk: &Disk, at: usize, content: &[u8]) -> Vec<Disk> {
    let mut all = vec![disk.clone()];
    for (place, byte) in (at..).zip(content) {
        for index in 0..all.len() {
            let mut more = all[index].clone();
            more.bytes[place] = *byte;
            all.push(more);
        }
    }
    all
}

impl Machine {
    fn new(content: &[u8]) -> Self {
        let mut machine = Self { visible: content.to_vec(), disks: BTreeSet::new() };
        machine.sync();
        machine
    }

    fn sync(&mut self) {
        let mut bytes = [0; LEN_MAX];
        bytes[..self.visible.len()].copy_from_slice(&self.visible);
        self.disks = BTreeSet::from([Disk { bytes, len: self.visible.len(), waits: false }]);
    }

    fn run(&mut self, call: &Call) {
        let before = self.visible.len();
        match call {
            Call::Sync => self.sync(),
            Call::Write(at, content) => {
                let end = at + content.len();
                self.visible.resize(before.max(end), 0);
                self.visible[*at..end].copy_from_slice(content);
                self.each(|disk| {
                    // A file grows to any byte of the write, and before or after it comes.
                    let longer = (before.max(*at) + 1..=end).filter(|_| !disk.waits);
                    let lens = longer.map(|len| len.max(disk.len)).chain([disk.len]);
                    let arrived = arrivals(disk, *at, content);
                    lens.flat_map(|len| with_len(&arrived, len)).collect()
                });
            }
            Call::SetLen(len) if *len < before => {
                self.visible.truncate(*len);
                self.each(|disk| {
                    let waiting = Disk { waits: true, ..disk.clone() };
                    // A page that is cut off as a whole is not zeroed.
                    let tail = if *len == 0 { 0 } else { LEN_MAX - len };
                    let mut all = arrivals(&waiting, *len, &[0; LEN_MAX][..tail]);
                    if !disk.waits {
                        let mut cut = Disk { len: *len, ..disk.clone() };
                        cut.bytes[*len..].fill(0);
                        all.push(cut);
                    }
                    all
                });
            }
            Call::SetLen(len) => {
                self.visible.resize(*len, 0);
                self.each(|disk| {
                    let longer = if disk.waits { disk.len } else { disk.len.max(*len) };
                    with_len(core::slice::from_ref(disk), longer).chain([disk.clone()]).collect()
                });
            }
        }
    }

    fn each(&mut self, mut step: impl FnMut(&Disk) -> Vec<Disk>) {
        self.disks = self.disks.iter().flat_map(&mut step).collect();
    }

    fn states(&self) -> BTreeSet<State> {
        self.disks.iter().map(|disk| vec![disk.bytes[..disk.len].to_vec()]).collect()
    }
}

fn with_len(disks: &[Disk], len: usize) -> impl Iterator<Item = Disk> {
    disks.iter().map(move |disk| Disk { len, ..disk.clone() })
}

#[test]
fn the_closed_form_and_a_machine_come_to_the_same_states() {
    let compared = core::cell::Cell::new(0);
    let checked = generate::check(1, 3_000, |source| {
        let content = vec![1; source.index(LEN_MAX)];
        let facts = FileFacts::new(TornBy::Byte, Unwritten::Zeroes);
        let world = world_of(&[FileImage::with_content(facts, &content)], RIGHT);
        let mut machine = Machine::new(&content);
        let mut program = Vec::new();
        for number in 1..=1 + source.below(4) as u8 {
            let call = Call::any(source, number);
            call.run(&world.file(0))?;
            machine.run(&call);
            program.push(call);
        }
        let Some(found) = every_state(&world) else { return Ok(()) };
        compared.set(compared.get() + 1);
        let expected = machine.states();
        if found == expected {
            return Ok(());
        }
        let more: Vec<_> = found.difference(&expected).take(3).collect();
        let less: Vec<_> = expected.difference(&found).take(3).collect();
        Err(format!("{content:?}, {program:?}: too many {more:?}, missing {less:?}"))
    });
    checked.unwrap_or_else(|found| panic!("{found}"));
    assert!(compared.get() > 2_500, "{} compared", compared.get());
}
