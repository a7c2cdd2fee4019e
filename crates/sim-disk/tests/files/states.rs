//! The states that a crash may leave, listed.

use std::collections::BTreeSet;

use sim_disk::{CrashPoints, FileImage, Image, Model, Rng, Rules, World};

/// The content of each file.
pub(crate) type State = Vec<Vec<u8>>;

/// A world with these files.
pub(crate) fn world_of(files: &[FileImage], rules: impl Into<Rules>) -> World {
    let image = files.iter().cloned().fold(Image::blank(0), Image::with_file);
    World::boot(image, rules)
}

pub(crate) fn content(file: &FileImage) -> Vec<u8> {
    let mut content = vec![0; usize::try_from(file.len()).expect("a short file")];
    assert_eq!(file.read_at(0, &mut content), content.len());
    content
}

/// All that the files may hold after a power loss now.
pub(crate) fn states(world: &World) -> BTreeSet<State> {
    every_state(world).expect("few states")
}

/// As [`states`], unless the states are so numerous that the simulator takes a sample.
pub(crate) fn every_state(world: &World) -> Option<BTreeSet<State>> {
    let tape = world.tape();
    let mut found = BTreeSet::new();
    for point in CrashPoints::new(&world.start(), &tape, world.rules(), tape.len()) {
        let choices = point.choices(1 << 20, 0, &mut Rng::new(0));
        if choices.is_sample() {
            return None;
        }
        for choice in choices {
            let image = point.image(&choice);
            assert_eq!(point.fingerprint(&choice), image.fingerprint());
            found.insert((0..).map_while(|file| image.file(file)).map(content).collect());
        }
    }
    Some(found)
}

/// As [`states`], of the first file alone, as text.
pub(crate) fn texts(world: &World) -> BTreeSet<String> {
    let text = |state: &State| {
        let shown = |byte: &u8| if *byte == 0 { '.' } else { char::from(*byte) };
        state[0].iter().map(shown).collect()
    };
    states(world).iter().map(text).collect()
}

/// The rules of the simulator as it is: memory has none of the files' business.
pub(crate) const RIGHT: Rules = Rules::new(Model::X86Line);
