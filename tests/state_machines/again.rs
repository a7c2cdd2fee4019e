//! A case comes to the same end each time: byte by byte on the media, mark by mark in what was
//! promised.

use sim_disk::Mutator;

use crate::lives::run;
use crate::policies::{default, for_each_policy, tiny};
use crate::run::cases;
use crate::{door, large, owner};

fn comes_to_the_same(name: &str) {
    let owned = |(shape, lives): &(owner::Shape, Vec<_>)| {
        run(&owner::Owner::new(tiny(name), shape, Mutator::new()), lives)
    };
    let fronted = |(shape, lives): &(door::Shape, Vec<_>)| {
        run(&door::Front::new(tiny(name), shape, Mutator::new()), lives)
    };
    let owned = || cases(&owner::case(), 8).iter().map(owned).collect::<Vec<_>>();
    let fronted = || cases(&door::case(), 8).iter().map(fronted).collect::<Vec<_>>();
    let (first, second) = (owned(), fronted());
    assert!(first == owned() && second == fronted(), "another end");
    // Cases differ in what they come to, or this says nothing.
    assert!(first.windows(2).any(|two| two[0] != two[1]));
    assert!(second.windows(2).any(|two| two[0] != two[1]));
    let long = || cases(&large::case(30, 2), 1).iter().map(large_one(name)).collect::<Vec<_>>();
    assert!(long() == long(), "another end of a long one");
}

fn large_one(name: &str) -> impl Fn(&large::Case) -> Result<large::Ended, String> {
    move |case| large::run(default(name), Mutator::new(), case)
}

for_each_policy!(comes_to_the_same);
