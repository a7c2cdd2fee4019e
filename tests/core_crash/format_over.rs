//! A journal that is formatted over another one survives every crash.

use journal_core::policy::Policy as _;
use journal_core::{Protocol, Rule};
use lab::core_crash::format_over::{FormatOver, KINDS, Shape, shapes};
use sim_disk::{Explorer, Model, Mutator};

fn explorer() -> Explorer {
    Explorer::new(Model::Torn8).with_images_per_point_max(24)
}

#[test]
fn a_format_leaves_the_old_journal_none_or_the_new_one() {
    let (mut pairs, mut images) = (0, 0);
    for old in shapes() {
        for new in shapes() {
            let scenario = FormatOver::new(Mutator::new(), old, new);
            let report = explorer().explore(&scenario);
            let report = report.unwrap_or_else(|failure| panic!("{scenario:?}: {failure}"));
            (pairs, images) = (pairs + 1, images + report.images);
        }
    }
    assert!(pairs == 441 && images > 20_000, "{pairs} pairs, {images} images");
}

/// Of each policy there is a pair that does not survive a format which does not void first.
#[test]
fn the_old_journal_is_void_before_anything_changes() {
    let mutator = Mutator::without(&[Rule::VoidedFirst]);
    for kind in KINDS {
        let is_of = |shape: &Shape| shape.kind == kind && shape.protocol == Protocol::OneFence;
        let olds: Vec<Shape> = shapes().into_iter().filter(is_of).collect();
        let fails = olds.iter().any(|old| {
            let over = |new| FormatOver::new(mutator.clone(), *old, new);
            shapes().into_iter().any(|new| explorer().explore(&over(new)).is_err())
        });
        // A journal without slots has nothing that a format changes before its superblock.
        assert!(fails || !kind.wants_slots(), "{kind:?}: nothing notices");
    }
}
