//! A solid state drive: no arm, but scattered writes cost it more than those in order.

use crate::media::time::drive::{Drive, Extent, QueueFacts, Service, transfer_ns};

/// The parameters of a solid state drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SsdModel {
    /// What a read takes, its transfer apart.
    pub read_ns: u64,
    /// How soon behind a read the drive can begin another one.
    pub read_apart_ns: u64,
    /// How fast reads are transferred.
    pub read_bytes_per_second: u64,
    /// How fast the drive writes for longer than its cache lasts.
    pub write_bytes_per_second: u64,
    /// What a write adds that is not next to the last one.
    pub scattered_ns: u64,
    /// What a sync takes when all is written.
    pub sync_ns: u64,
    /// How the queue treats the drive.
    pub queue: QueueFacts,
}

/// Most drives look neither for the shortest way nor back: there is none.
const QUEUE: QueueFacts = QueueFacts {
    cache_requests: 512,
    // Nothing is published of it.
    cache_bytes: u64::MAX,
    ahead: 1,
    behind: 0,
    serves_oldest: false,
    taken_ns: 25_000,
    host_ns: 20_000,
};

impl SsdModel {
    /// A consumer's drive on SATA, as of around 2015.
    ///
    /// - A read takes 100 us; reads can follow each other by 11 us, which is 90,000 a second; 520
    ///   MB/s: datasheets, which give 520 to 540 MB/s.
    /// - A write is taken in 25 us. The drive writes 150 MB/s for long. Datasheets give 520 MB/s,
    ///   which is the speed of a cache of single-level cells. This rate was chosen with figure 8 of
    ///   the HasFS paper in view, so that figure is weak evidence for anything.
    /// - 62 us more for a scattered write: so that tables 1 and 2 of the HasFS paper come out.
    /// - A sync takes 1.5 ms: 1.6 to 5.6 ms are published for consumer drives, the write included.
    /// - A cache of 512 writes: an assumption.
    #[must_use]
    pub const fn sata() -> Self {
        Self {
            read_ns: 100_000,
            read_apart_ns: 11_000,
            read_bytes_per_second: 520_000_000,
            write_bytes_per_second: 150_000_000,
            scattered_ns: 62_000,
            sync_ns: 1_500_000,
            queue: QUEUE,
        }
    }

    /// A consumer's drive on NVMe, as of today.
    ///
    /// - 17,000 reads and 54,000 writes of 4 KiB a second, one at a time; 500,000 and 480,000, many
    ///   at a time; 3500 MB/s read and 3000 MB/s written: Samsung's specification of the SSD 980 of
    ///   1 TB. A host needs 5 us of each request (an estimate), which leaves 54 us of a read and 13
    ///   us of a write. Of many, 2 us are between reads, and a scattered write adds 1 us to its
    ///   transfer.
    /// - A sync takes 0.9 ms: published measurements of a Samsung 990 Pro with writes of 16 KiB.
    /// - 1024 writes in its cache: an assumption.
    #[must_use]
    pub const fn nvme() -> Self {
        Self {
            read_ns: 53_000,
            read_apart_ns: 2_000,
            read_bytes_per_second: 3_500_000_000,
            write_bytes_per_second: 3_000_000_000,
            scattered_ns: 1_000,
            sync_ns: 900_000,
            queue: QueueFacts { cache_requests: 1024, taken_ns: 13_000, host_ns: 5_000, ..QUEUE },
        }
    }

    /// A data centre's drive on NVMe, whose cache has capacitors: a sync has nothing to wait for.
    ///
    /// - A sync takes 12 us: published measurements of drives with power loss protection give 12 to
    ///   58 us for a sync of 16 KiB.
    /// - All else as [`nvme`](Self::nvme): an assumption.
    #[must_use]
    pub const fn nvme_protected() -> Self {
        Self { sync_ns: 12_000, ..Self::nvme() }
    }
}

/// A solid state drive.
#[derive(Clone, Debug)]
pub struct Ssd {
    model: SsdModel,
    head: u64,
}

impl Ssd {
    /// A drive that has written nothing yet.
    #[must_use]
    pub const fn new(model: SsdModel) -> Self {
        Self { model, head: 0 }
    }
}

impl Drive for Ssd {
    fn queue_facts(&self) -> QueueFacts {
        self.model.queue
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn reach_ns(&self, _: u64, to: Extent) -> u64 {
        if to.at == self.head { 0 } else { self.model.scattered_ns }
    }

    fn write(&mut self, now: u64, extent: Extent) -> Service {
        let moves = transfer_ns(extent.bytes, self.model.write_bytes_per_second);
        let end = now.saturating_add(self.reach_ns(now, extent)).saturating_add(moves);
        self.head = extent.end();
        Service { busy_until: end, done_at: end }
    }

    fn read(&mut self, now: u64, extent: Extent, _: u32) -> Service {
        // The latencies of several reads overlap, and their transfers do not.
        let moves = transfer_ns(extent.bytes, self.model.read_bytes_per_second);
        Service {
            busy_until: now.saturating_add(moves.max(self.model.read_apart_ns)),
            done_at: now.saturating_add(self.model.read_ns).saturating_add(moves),
        }
    }

    fn sync_ns(&self) -> u64 {
        self.model.sync_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_overlap_except_for_what_they_are_apart() {
        let mut drive = Ssd::new(SsdModel::sata());
        let service = drive.read(0, Extent { at: 0, bytes: 4096 }, 1);
        assert_eq!(service, Service { busy_until: 11_000, done_at: 107_877 });
        let long = drive.read(0, Extent { at: 0, bytes: 1 << 20 }, 1);
        assert_eq!(long.done_at - long.busy_until, 100_000);
    }

    #[test]
    fn writes_in_order_cost_their_transfer_alone() {
        let mut drive = Ssd::new(SsdModel::sata());
        let first = drive.write(0, Extent { at: 0, bytes: 4096 }).done_at;
        assert_eq!(first, 27_307);
        assert_eq!(
            drive.write(first, Extent { at: 8192, bytes: 4096 }).done_at,
            2 * first + 62_000
        );
    }
}
