//! What the machine does, one indivisible step at a time, and what each step has to wait for.

use sim_disk::FlushKind;

use crate::support::program::{Op, Packed, Range};

/// Which orders the machine keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// x86: each thread's stores in order; streams and weak flushes move.
    X86,
    /// As x86, but a thread's stores are in order only across its barriers.
    Arm,
    /// x86 where the program is a schedule: everything reaches the caches in its order, and only
    /// write-backs and the write combining buffers are free.
    Schedule,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A word leaves the store buffer.
    Write,
    /// A word leaves the write combining buffer.
    Drain,
    /// A weak flush executes.
    Hold,
    /// A strong flush leaves the store buffer.
    WriteBack,
    Fence,
    Exchange,
    /// A fence failed, or everyone was killed: weak flushes under way count for nothing.
    Forget {
        everyone: bool,
    },
    Mark(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) thread: usize,
    pub(crate) line: usize,
    /// Which bits are stored.
    pub(crate) mask: Packed,
    pub(crate) value: Packed,
    /// The operation it belongs to.
    op: usize,
    /// Steps that must be done before it, as bits.
    pub(crate) after: u32,
}

impl Step {
    const fn is_fence(&self) -> bool {
        matches!(self.kind, Kind::Fence | Kind::Exchange)
    }
}

pub(crate) fn steps(program: &[(usize, Op)], rule: Rule) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, (thread, op)) in program.iter().enumerate() {
        add_steps(&mut steps, index, *thread, *op, rule);
    }
    assert!(steps.len() < 32, "a program too long for the machine");
    for later in 0..steps.len() {
        for earlier in 0..later {
            if match rule {
                Rule::X86 | Rule::Arm => waits(&steps[earlier], &steps[later], program, rule),
                Rule::Schedule => waits_in_schedule(&steps, earlier, later),
            } {
                steps[later].after |= 1 << earlier;
            }
        }
    }
    steps
}

fn add_steps(steps: &mut Vec<Step>, op_index: usize, thread: usize, op: Op, rule: Rule) {
    let mut step = |kind, range: Option<Range>, line, value| {
        steps.push(Step {
            kind,
            thread,
            line: range.map_or(line, Range::line),
            mask: range.map_or(0, Range::mask),
            value: range.map_or(0, |range| range.filled(value)),
            op: op_index,
            after: 0,
        });
    };
    match op {
        Op::Store(range, value) => {
            range.words().for_each(|word| step(Kind::Write, Some(word), 0, value));
        }
        Op::Stream(range, value) => {
            range.words().for_each(|word| step(Kind::Drain, Some(word), 0, value));
        }
        Op::Flush(line, FlushKind::Weak) => step(Kind::Hold, None, line, 0),
        Op::Flush(line, FlushKind::Strong) => step(Kind::WriteBack, None, line, 0),
        Op::Fence => step(Kind::Fence, None, 0, 0),
        Op::FenceFailed => step(Kind::Forget { everyone: false }, None, 0, 0),
        // Only on x86 do later stores wait for the one that a locked operation makes.
        Op::Exchange(word, value) if rule == Rule::Arm => {
            step(Kind::Fence, None, 0, 0);
            step(Kind::Write, Some(Range::word(word)), 0, value);
        }
        Op::Exchange(word, value) => step(Kind::Exchange, Some(Range::word(word)), 0, value),
        Op::OrderStores => {}
        Op::Mark(label) => step(Kind::Mark(label), None, 0, 0),
        Op::Killed => step(Kind::Forget { everyone: true }, None, 0, 0),
    }
}

/// Whether a step waits for one that is earlier in the program.
fn waits(earlier: &Step, later: &Step, program: &[(usize, Op)], rule: Rule) -> bool {
    if earlier.thread != later.thread {
        return false;
    }
    if earlier.op == later.op {
        return earlier.is_fence();
    }
    if earlier.is_fence() || later.is_fence() {
        return true;
    }
    match (earlier.kind, later.kind) {
        (Kind::Mark(_), _) => true,
        // Neither has a place in the store buffer.
        (Kind::Drain | Kind::Hold, _) => false,
        // No write to memory may be reordered with a CLFLUSH: nothing that comes after a strong
        // flush is stored before it.
        (Kind::WriteBack, Kind::Drain) => true,
        (Kind::Write, Kind::Drain) => earlier.mask & later.mask != 0,
        (Kind::Write, Kind::Hold) => earlier.line == later.line,
        (_, Kind::Drain | Kind::Hold) => false,
        // Both are in the store buffer.
        (Kind::Write, Kind::Write) if rule == Rule::Arm => {
            let between = &program[earlier.op..later.op];
            between.iter().any(|(thread, op)| *thread == later.thread && *op == Op::OrderStores)
        }
        _ => true,
    }
}

fn waits_in_schedule(steps: &[Step], earlier: usize, later: usize) -> bool {
    let (first, second) = (&steps[earlier], &steps[later]);
    if first.op == second.op {
        return false;
    }
    if first.kind != Kind::Drain {
        return true;
    }
    let between = &steps[earlier + 1..later];
    let fails = |step: &Step| match step.kind {
        Kind::Forget { everyone } => everyone || step.thread == first.thread,
        _ => false,
    };
    let Some(failure) = between.iter().position(fails) else {
        return second.is_fence() && second.thread == first.thread;
    };
    // No fence of its thread waits for it any more. It has become part of the cache, so to say: a
    // later flush of the line takes it along.
    let since = &between[failure + 1..];
    match second.kind {
        Kind::WriteBack => second.line == first.line,
        Kind::Fence | Kind::Exchange => {
            let forgets = |step: &Step| match step.kind {
                Kind::Forget { everyone } => everyone || step.thread == second.thread,
                _ => false,
            };
            let last = since.iter().rposition(forgets).map_or(0, |last| last + 1);
            since[last..].iter().any(|step| {
                step.kind == Kind::Hold && step.thread == second.thread && step.line == first.line
            })
        }
        _ => false,
    }
}
