//! Settings of what is kept for readers: in ordinary memory, and in slots.

use super::Options;

impl<L, H> Options<L, H> {
    /// Open: bytes of blocks' contents that are kept in ordinary memory. A reader that finds a
    /// block there need not look into persistent memory, nor at the disk. Blocks that are logged
    /// stay longest.
    ///
    /// By default 16 MiB for a policy that [looks at old images][old], which reads each block that
    /// it writes. Likewise for one that looks at those [that are kept][kept], and none for others.
    /// [`commit`](crate::Journal::commit) then copies its images once more; a transaction hands
    /// over the memory that they are in.
    /// With room for less than 4,096 blocks, the index is cut into fewer parts that threads can use
    /// at once. Each part then still has room for neighbours.
    ///
    /// It is also worth it for other policies that log less than whole blocks, where
    /// [`Transaction::write_at`](crate::Transaction::write_at) changes the same blocks again and
    /// again. Under most of them that call reads the block first, through all that is logged of it
    /// since it was last home.
    ///
    /// [old]: crate::policy::Policy::wants_old
    /// [kept]: crate::policy::Policy::wants_cached_old
    #[must_use]
    pub const fn cache_bytes(mut self, bytes: usize) -> Self {
        self.settings.cache_bytes = Some(bytes);
        self
    }

    /// Open: how many slots may hold what was read from the disk, so that the next read finds it
    /// in persistent memory. None by default.
    ///
    /// A block enters when it is read by itself and nothing is logged of it. Those that are not
    /// read again leave first. Such slots are taken only of those that are free beyond the
    /// [threshold](Self::thresholds) where room is made, and a commit that finds no other slot gets
    /// one of them. A crash drops their content. Each of them costs a copy to persistent memory,
    /// with the lane in hand.
    #[must_use]
    pub const fn clean_slots(mut self, slots: u32) -> Self {
        self.settings.clean_slots = slots;
        self
    }

    /// Open: whether each block that is logged stays in ordinary memory until it is home. Then a
    /// read is served from there, or by the disk, and never reads persistent memory. Off by
    /// default.
    ///
    /// The size of the [cache](Self::cache_bytes) bounds what is logged. When it is full of logged
    /// blocks, blocks are written home, as if the lanes were full. Opening writes home what it
    /// finds, as [`drain_on_open`](Self::drain_on_open) does. Blocks in slots count as logged too.
    /// A transaction that changes more blocks than fit is refused.
    ///
    /// **With a [disk-side log](Self::disk_log)**, and a policy that keeps blocks there, a block is
    /// pinned only while persistent memory has its newest content. When the cache is full of such
    /// blocks, those used longest ago move to new places in the log, and nothing of them is needed
    /// in persistent memory afterwards. Reads of them go to the log. Opening moves what it finds
    /// there. Only the cleaner of the log writes home. Where the log has no room, and the cleaner
    /// makes none, blocks go home as without a log. [`Stats::moved`](crate::Stats::moved) counts
    /// the blocks. The transaction that needs room makes it, in steps of
    /// [`longest_stop`](Self::longest_stop): neither ticks nor a thread do so ahead of need.
    ///
    /// A patch is built on the block's content at once, so that the block can be read. A reader
    /// that comes in the middle of a commit of its block waits for the commit.
    ///
    /// Persistent memory is still read by checkpoints, by moves, by snapshots, and for blocks that
    /// could not be written home. A running transaction that [spills](Self::buffer_bytes) is read
    /// there too, and what it has spilled once more behind its record. A reader that has waited
    /// some milliseconds for a commit waits no longer, and reads there.
    #[must_use]
    pub const fn pins_logged(mut self, on: bool) -> Self {
        self.settings.pins_logged = on;
        self
    }
}
