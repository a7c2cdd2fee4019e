//! What the sample costs, to the byte.

use crate::SAMPLE;
use crate::bound::Cost;
use crate::count::{Account, Records, Written};
use crate::forgetful::FORGETFUL;
use crate::media::DiskCounts;
use crate::policies::{ALL, Known};
use crate::run::{Figures, Made, ReplayError, Room, replay};
use crate::trace::Trace;

/// A lane that holds all of the sample.
const LONG: Room = Room { lane_bytes: 1 << 20, slot_share: 192 };
/// One that the sample goes round several times. Of slots it has 22.
const SHORT: Room = Room { lane_bytes: 16 << 10, slot_share: 192 };
/// One without room for slots.
const RING: Room = Room { lane_bytes: 8 << 10, slot_share: 192 };

fn known(name: &str) -> &'static Known {
    ALL.iter().find(|known| known.name == name).expect("a policy")
}

fn try_figures(known: &Known, room: &Room) -> Result<Figures, ReplayError> {
    let mut trace = Trace::open(SAMPLE).expect("a trace");
    replay(&mut trace, known, room, |_| {})
}

fn figures(name: &str, room: &Room) -> Figures {
    try_figures(known(name), room).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn print_everything() {
    for known in ALL {
        for room in [LONG, SHORT, RING] {
            let f = try_figures(known, &room);
            println!("{} {room:?}\n{f:#?}", known.name);
        }
    }
}

