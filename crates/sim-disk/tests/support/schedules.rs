//! All schedules of a program: the orders in which its operations may reach the coherent memory.
//!
//! A schedule is a tape, and the closed form answers for a tape; the states that a program can
//! leave are those of all its schedules together. The rules are those of a tape, where the position
//! of a stream is the moment at which it would be visible, and that of a weak flush the moment at
//! which it executes.

use sim_disk::{FlushKind, Rules, Tape};

use crate::support::closed::add_states;
use crate::support::program::{Op, Program, Range, States, tape};

/// The states of all schedules, and how many schedules there are.
pub(crate) fn states(program: &Program, rules: Rules) -> (States, u64) {
    let mut states = States::default();
    let mut schedules = 0;
    let mut last = Tape::new();
    each_schedule(program, &mut |schedule| {
        let tape = tape(schedule);
        // Crash points where the last schedule was still the same have been dealt with.
        let events = tape.entries().iter().zip(last.entries());
        let same = events.take_while(|(event, last)| event == last).count();
        add_states(&tape, rules, if schedules == 0 { 0 } else { same }, &mut states);
        last = tape;
        schedules += 1;
    });
    (states, schedules)
}

/// An operation on at most one word.
#[derive(Clone, Copy)]
struct Unit {
    thread: usize,
    /// Which call it is part of.
    call: usize,
    op: Op,
}

fn each_schedule(program: &Program, each: &mut impl FnMut(&Program)) {
    let mut units = Vec::new();
    for (call, (thread, op)) in program.iter().enumerate() {
        let mut unit = |op| units.push(Unit { thread: *thread, call, op });
        match *op {
            // Words of one call have no order.
            Op::Store(range, value) => range.words().for_each(|word| unit(Op::Store(word, value))),
            Op::Stream(range, value) => {
                range.words().for_each(|word| unit(Op::Stream(word, value)));
            }
            op => unit(op),
        }
    }
    let before: Vec<u32> = (0..units.len())
        .map(|later| {
            let earlier = (0..later).filter(|earlier| ordered(&units[*earlier], &units[later]));
            earlier.fold(0, |bits, earlier| bits | 1 << earlier)
        })
        .collect();
    extend(&units, &before, 0, &mut Vec::new(), each);
}

fn extend(
    units: &[Unit],
    before: &[u32],
    done: u32,
    schedule: &mut Program,
    each: &mut impl FnMut(&Program),
) {
    if schedule.len() == units.len() {
        return each(schedule);
    }
    for (index, unit) in units.iter().enumerate() {
        if done & 1 << index == 0 && before[index] & !done == 0 {
            schedule.push((unit.thread, unit.op));
            extend(units, before, done | 1 << index, schedule, each);
            schedule.pop();
        }
    }
}

/// Whether two operations keep their order in every schedule.
fn ordered(earlier: &Unit, later: &Unit) -> bool {
    if earlier.thread != later.thread || earlier.call == later.call {
        return false;
    }
    let share = |a: Range, b: Range| a.mask() & b.mask() != 0;
    match (earlier.op, later.op) {
        (Op::Fence | Op::Exchange(..), _) | (_, Op::Fence | Op::Exchange(..)) => true,
        (Op::Store(a, _) | Op::Stream(a, _), Op::Stream(b, _))
        | (Op::Stream(a, _), Op::Store(b, _)) => share(a, b),
        (Op::Store(range, _), Op::Flush(line, FlushKind::Weak)) => range.line() == line,
        (_, Op::Flush(_, FlushKind::Weak)) | (Op::Flush(_, FlushKind::Weak), _) => false,
        (Op::Flush(_, FlushKind::Strong), Op::Stream(..)) => true,
        (Op::Stream(..), _) | (_, Op::Stream(..)) => false,
        _ => true,
    }
}
