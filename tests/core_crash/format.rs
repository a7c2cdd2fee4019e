//! A journal that is formatted anew survives every crash.

use lab::core_crash::format::{Reformat, rot_the_new_copy};
use sim_disk::{Explorer, Model, Mutator};

#[test]
fn a_new_journal_takes_the_place_of_an_old_one_for_good() {
    let scenario = Reformat { mutator: Mutator::new() };
    for explorer in [
        Explorer::new(Model::Torn8).with_images_per_point_max(1 << 10),
        Explorer::new(Model::Torn8).with_damage(rot_the_new_copy),
    ] {
        let report = explorer.explore(&scenario).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.images > 100, "{report}");
    }
}
