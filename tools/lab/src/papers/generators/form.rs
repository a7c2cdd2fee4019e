//! What a trace looks like, in figures that do not hang on a policy: a generator beside the real
//! trace.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;

use crate::trace::{Trace, TraceError};

/// Bytes of a part of a block: what two-level logging logs of it.
const PART_BYTES: usize = 128;

/// The form of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TraceForm {
    pub commits: u64,
    pub writes: u64,
    /// Of all writes those to new blocks, in a hundred.
    pub new_percent: f64,
    /// Of all writes those that leave a part of an older image as it was, in a hundred.
    pub partial_percent: f64,
    /// Of these parts of a block those that a write to an older image changes, in a hundred.
    pub changed_percent: f64,
    /// Blocks that were written at all.
    pub distinct: u64,
}

impl TraceForm {
    /// That of a trace's first commits.
    ///
    /// # Errors
    /// Those of the trace.
    pub fn of<R: Read>(trace: &mut Trace<R>, commits: u64) -> Result<Self, TraceError> {
        let (mut form, mut distinct) = (Self::default(), BTreeSet::new());
        let [mut new, mut partial, mut changed, mut parts] = [0_u64; 4];
        while form.commits < commits && trace.advance()? {
            form.commits += 1;
            for write in &trace.transaction().writes {
                form.writes += 1;
                distinct.insert(write.block);
                if write.is_new() {
                    new += 1;
                    continue;
                }
                let old = &trace.state()[&write.block];
                let both = || old.chunks(PART_BYTES).zip(write.image.chunks(PART_BYTES));
                let differ = both().filter(|(old, new)| old != new).count();
                partial += u64::from(differ < both().count());
                changed += differ as u64;
                parts += both().count() as u64;
            }
        }
        let share = |some: u64, all: u64| 100.0 * some as f64 / all.max(1) as f64;
        Ok(Self {
            new_percent: share(new, form.writes),
            partial_percent: share(partial, form.writes),
            changed_percent: share(changed, parts),
            distinct: distinct.len() as u64,
            ..form
        })
    }

    pub fn blocks_a_commit(&self) -> f64 {
        self.writes as f64 / self.commits.max(1) as f64
    }

    /// Each figure by its name, and how far a generator may be from the real trace: down to a part
    /// of it, and up to as many times.
    const fn figures(&self) -> [(&'static str, f64, f64); 6] {
        [
            ("commits", self.commits as f64, 1.1),
            ("blocks a commit", self.writes as f64 / self.commits as f64, 1.2),
            ("of them new, in a hundred", self.new_percent, 1.2),
            ("changed in part, in a hundred", self.partial_percent, 1.2),
            ("their parts that change, in a hundred", self.changed_percent, 1.5),
            ("different blocks", self.distinct as f64, 1.3),
        ]
    }

    /// Figures in which a generator is farther from the real trace than it may be.
    pub fn strays(&self, real: &Self) -> Vec<String> {
        let both = self.figures().into_iter().zip(real.figures());
        let out = both.filter(|((_, ours, times), (_, real, _))| {
            !(real / times..=real * times).contains(ours)
        });
        out.map(|((name, ours, _), (_, real, _))| format!("{name}: {ours:.1}, not {real:.1}"))
            .collect()
    }

    /// A generator beside the real trace, as a table.
    pub fn table(&self, real: &Self) -> String {
        let mut table = String::from(
            "\nThe generator beside the real trace:\n\n\
             | what | the trace | the generator | at most this far apart |\n|---|---|---|---|\n",
        );
        for ((name, ours, times), (_, real, _)) in self.figures().into_iter().zip(real.figures()) {
            let text = |value: f64| match value.fract() {
                0.0 => format!("{value}"),
                _ => format!("{value:.1}"),
            };
            let _ = writeln!(table, "| {name} | {} | {} | {times} x |", text(real), text(ours));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::generators::{mobibench, tpcc};

    /// What [`TraceForm::of`] says of the real traces, which are not in the repository.
    const REAL_MOBIBENCH: TraceForm = TraceForm {
        commits: 4_705,
        writes: 20_720,
        new_percent: 27.3,
        partial_percent: 72.7,
        changed_percent: 5.6,
        distinct: 2_568,
    };
    const REAL_TPCC: TraceForm = TraceForm {
        commits: 1_219,
        writes: 18_342,
        new_percent: 40.9,
        partial_percent: 57.5,
        changed_percent: 18.7,
        distinct: 3_398,
    };

    fn form_of(trace: &[u8], commits: u64) -> TraceForm {
        let mut trace = Trace::open(trace).expect("a trace");
        TraceForm::of(&mut trace, commits).expect("goes on to its end")
    }

    #[test]
    fn generators_have_the_form_of_the_real_traces() {
        let ours = form_of(&mobibench::trace(1, mobibench::OF_EACH_KIND), u64::MAX);
        assert_eq!(ours.strays(&REAL_MOBIBENCH), [""; 0]);
        // It is no trace of TPC-C: the bands tell the two apart.
        assert!(ours.strays(&REAL_TPCC).len() >= 4);
        let ours = form_of(&tpcc::trace(1, 1, tpcc::WRITING), u64::MAX);
        assert_eq!(ours.strays(&REAL_TPCC), [""; 0]);
        assert!(ours.strays(&REAL_MOBIBENCH).len() >= 4);
    }

    #[test]
    fn the_part_of_a_real_trace_that_is_here_has_that_form() {
        let file = include_bytes!("../../../traces/ext4-tpcc-datajournal.300.btrc.zst");
        let real = form_of(file, u64::MAX);
        let ours = form_of(&tpcc::trace(2, 1, tpcc::WRITING), real.commits);
        // It begins with other transactions than the whole has.
        let near = |ours: f64, real: f64| (real / 1.5..real * 1.5).contains(&ours);
        assert!(near(ours.blocks_a_commit(), real.blocks_a_commit()), "{ours:?}, {real:?}");
        assert!(near(ours.partial_percent, real.partial_percent), "{ours:?}, {real:?}");
        assert!(near(ours.changed_percent, real.changed_percent), "{ours:?}, {real:?}");
    }

    #[test]
    fn a_seed_makes_the_same_trace_each_time() {
        assert_eq!(mobibench::trace(3, 20), mobibench::trace(3, 20));
        assert_ne!(mobibench::trace(3, 20), mobibench::trace(4, 20));
        assert_eq!(tpcc::trace(3, 1, 10), tpcc::trace(3, 1, 10));
        assert_ne!(tpcc::trace(3, 1, 10), tpcc::trace(4, 1, 10));
        let of = |warehouses| form_of(&tpcc::trace(5, warehouses, 60), u64::MAX);
        let (one, three) = (of(1), of(3));
        assert!(three.distinct > one.distinct, "more warehouses, more pages: {one:?}, {three:?}");
    }
}
