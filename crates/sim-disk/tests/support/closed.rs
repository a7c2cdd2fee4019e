//! The closed form's answer for a tape: every state that its crash points allow.

use sim_disk::{Cell, CrashPoint, CrashPoints, Mark, Rng, Rules, Tape};

use crate::support::program::{MARKS_SHIFT, Packed, States, blank, pack, pack_word};

/// Adds the states that a power loss at or after the position `first` may leave.
pub(crate) fn add_states(tape: &Tape, rules: Rules, first: usize, states: &mut States) {
    for point in CrashPoints::new(&blank(), tape, rules, first) {
        let marks = marks(&point);
        let durable = pack(&point.image(&vec![0; point.cells().len()]));
        let cells: Vec<Vec<(Packed, Packed)>> =
            point.cells().iter().map(|cell| options(cell)).collect();
        product(durable, &cells, &mut |state| {
            states.insert(state | marks);
        });
    }
}

/// Like `add_states`, by way of whole images, one for each choice: slow.
pub(crate) fn add_states_by_image(tape: &Tape, rules: Rules, states: &mut States) {
    for point in CrashPoints::new(&blank(), tape, rules, 0) {
        let choices = point.choices(u64::MAX, 0, &mut Rng::new(0));
        assert!(!choices.is_sample());
        let mut count = 0;
        for choice in choices {
            let image = point.image(&choice);
            assert_eq!(image.fingerprint(), point.fingerprint(&choice));
            states.insert(pack(&image) | marks(&point));
            count += 1;
        }
        assert_eq!(point.image_count(), count);
    }
}

pub(crate) fn states(tape: &Tape, rules: Rules) -> States {
    let mut states = States::default();
    add_states(tape, rules, 0, &mut states);
    states
}

fn marks(point: &CrashPoint) -> Packed {
    point.marks().iter().fold(0, |sum, mark| match mark {
        Mark::Returned(label) => sum | 1 << (MARKS_SHIFT as u64 + label),
        _ => sum,
    })
}

fn options(cell: &Cell) -> Vec<(Packed, Packed)> {
    let option = |option| {
        let parts = cell.places().iter().enumerate();
        parts.fold((0, 0), |(content, mask), (part, at)| {
            let (part_content, part_mask) = pack_word(*at, cell.part(option, part));
            (content | part_content, mask | part_mask)
        })
    };
    (0..cell.options()).map(option).collect()
}

pub(crate) fn product(
    state: Packed,
    cells: &[Vec<(Packed, Packed)>],
    each: &mut impl FnMut(Packed),
) {
    match cells.split_first() {
        None => each(state),
        Some((cell, others)) => {
            for (content, mask) in cell {
                product(state & !mask | content, others, each);
            }
        }
    }
}
