//! What bounds an update: the bytes of the user, streamed with one fence, and a look-up for each
//! block.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Duration;

use journal_core::Pmem as _;
use lab::bench::media::{BLOCK, warm};
use lab::bench::timed;
use nvm_journal::Region;

use crate::user::{
    Case, DEFERRED, NVM_BYTES, PATCH_BYTES, Random, User, WARM_UP, Way, random_place,
};

/// Memory, and a table of the blocks.
pub(crate) struct Limit {
    region: Region,
    table: HashMap<u64, u64>,
    random: Random,
}

impl Limit {
    pub(crate) fn new(set: u64) -> Self {
        let table = (0..2 * set).map(|block| (block, block)).collect();
        Self { region: warm(NVM_BYTES), table, random: Random::new(99) }
    }

    /// The time of `count` updates; of whole blocks where the policy logs those.
    pub(crate) fn batch(
        &mut self,
        user: &mut User,
        case: Case,
        way: Way,
        logs_blocks: bool,
        count: u64,
    ) -> Duration {
        let mut one = |turn| {
            let update = user.draw(case);
            for (block, image) in update.images() {
                black_box(self.table.get(&block.raw()));
                let whole = logs_blocks || case.has_images();
                let bytes = &image[..if whole { BLOCK } else { PATCH_BYTES }];
                let at = random_place(&mut self.random, NVM_BYTES, bytes.len() as u64);
                self.region.stream(at, bytes);
            }
            if way != Way::Deferred || turn % DEFERRED == DEFERRED - 1 {
                self.region.fence().expect("it does not fail");
            }
        };
        (0..WARM_UP).for_each(&mut one);
        timed(count, one)
    }
}
