//! A turning disk: an arm, a rotation, and tracks one behind the other.

use crate::media::time::drive::{Drive, Extent, QueueFacts, Service};

/// The parameters of a turning disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HddModel {
    /// One turn of the disk.
    pub revolution_ns: u64,
    /// Bytes of a track. All tracks are equal.
    pub track_bytes: u64,
    /// How far the start of each track lies behind the start of the one before. While the disk
    /// turns that far, the arm moves on by one track.
    pub skew_bytes: u64,
    /// What a move of the arm takes at least.
    pub seek_ns: u64,
    /// What a move takes more, times the square root of the number of tracks.
    pub seek_root_ns: u64,
    /// What each request takes that does not follow the last one without a pause.
    pub command_ns: u64,
    /// Bytes that the disk reads ahead of the last read.
    pub read_ahead_bytes: u64,
    /// Writes that its cache takes.
    pub cache_requests: usize,
    /// Bytes that its cache takes.
    pub cache_bytes: u64,
}

impl HddModel {
    /// A disk of 7200 revolutions a minute and 1 TB, as desktops had around 2015.
    ///
    /// - Revolution 8.33 ms, which is an average latency of 4.16 ms: manuals of the WD Blue and of
    ///   HGST.
    /// - 305 blocks of 4 KiB a track: 150 MB/s, as fast as a WD Blue of 1 TB.
    /// - Skew of 12 blocks, which is 0.33 ms: the bare seek to the next track takes 0.3 ms.
    /// - A seek over d tracks takes 1.0 + 0.0145 sqrt(d) ms. A third of the disk then takes 8.5 ms;
    ///   the manuals state 8.2 ms for writes. The constant is the bare seek, and the time that the
    ///   head needs to settle for a write.
    /// - 0.1 ms for the command.
    /// - A cache of 64 MB: the same manuals. It keeps 512 writes: how many is not published.
    /// - Reads ahead 2 MiB: an estimate.
    #[must_use]
    pub const fn rpm_7200() -> Self {
        Self {
            revolution_ns: 8_333_333,
            track_bytes: 305 * 4096,
            skew_bytes: 12 * 4096,
            seek_ns: 1_000_000,
            seek_root_ns: 14_500,
            command_ns: 100_000,
            read_ahead_bytes: 2 << 20,
            cache_requests: 512,
            cache_bytes: 64 << 20,
        }
    }

    /// How long the disk turns while some bytes pass the head.
    fn turn_ns(&self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * u128::from(self.revolution_ns);
        u64::try_from(nanos / u128::from(self.track_bytes.max(1))).unwrap_or(u64::MAX)
    }

    const fn track(&self, at: u64) -> u64 {
        at / self.track_bytes
    }

    /// How far the disk has turned, from the start of a revolution, when a byte is at the head.
    fn angle_ns(&self, at: u64) -> u64 {
        let skewed = u128::from(at % self.track_bytes)
            + u128::from(self.track(at)) * u128::from(self.skew_bytes);
        self.turn_ns((skewed % u128::from(self.track_bytes)) as u64)
    }

    /// How long the arm takes over some tracks.
    fn seek_over_ns(&self, tracks: u64) -> u64 {
        if tracks == 0 {
            return 0;
        }
        let root = (u128::from(self.seek_root_ns).pow(2) * u128::from(tracks)).isqrt();
        self.seek_ns.saturating_add(u64::try_from(root).unwrap_or(u64::MAX))
    }

    /// How long the bytes take once the first one is at the head.
    fn transfer_ns(&self, extent: Extent) -> u64 {
        let last = extent.end().saturating_sub(1).max(extent.at);
        let changes = self.track(last) - self.track(extent.at);
        let changing = self.turn_ns(self.skew_bytes).saturating_mul(changes);
        self.turn_ns(extent.bytes).saturating_add(changing)
    }
}

/// A turning disk.
#[derive(Clone, Debug)]
pub struct Hdd {
    model: HddModel,
    /// Where the last service ended, and when.
    head: u64,
    ended_at: u64,
    /// Whether the last service was a read, which the disk goes on from.
    reads_ahead: bool,
}

impl Hdd {
    /// A disk whose head is at its first byte.
    #[must_use]
    pub const fn new(model: HddModel) -> Self {
        Self { model, head: 0, ended_at: 0, reads_ahead: false }
    }

    /// The track on which the last service ended.
    const fn head_track(&self) -> u64 {
        self.model.track(self.head.saturating_sub(1))
    }

    /// How long it takes until the first byte is at the head.
    fn position_ns(&self, now: u64, at: u64) -> u64 {
        if at == self.head && now == self.ended_at {
            // The disk goes on. At the end of a track it turns on by the skew.
            let changes = self.model.track(at) - self.head_track();
            return self.model.turn_ns(self.model.skew_bytes).saturating_mul(changes.min(1));
        }
        let tracks = self.model.track(at).abs_diff(self.head_track());
        let moves = self.model.command_ns.saturating_add(self.model.seek_over_ns(tracks));
        let turn = self.model.revolution_ns.max(1);
        let angle = now.saturating_add(moves) % turn;
        let waits = (self.model.angle_ns(at) + turn - angle) % turn;
        moves.saturating_add(waits)
    }

    fn end(&mut self, extent: Extent, ended_at: u64, reads_ahead: bool) -> Service {
        (self.head, self.ended_at, self.reads_ahead) = (extent.end(), ended_at, reads_ahead);
        Service { busy_until: ended_at, done_at: ended_at }
    }

    /// When the disk has read an extent already that follows the last read, if it has.
    fn read_ahead(&self, now: u64, extent: Extent) -> Option<u64> {
        let filled_at = self.ended_at + self.model.turn_ns(self.model.read_ahead_bytes);
        let follows = self.reads_ahead && extent.at == self.head && now <= filled_at;
        let read_at = self.ended_at.saturating_add(self.model.transfer_ns(extent));
        follows.then(|| read_at.max(now + self.model.command_ns))
    }
}

impl Drive for Hdd {
    fn queue_facts(&self) -> QueueFacts {
        QueueFacts {
            cache_requests: self.model.cache_requests,
            cache_bytes: self.model.cache_bytes,
            ahead: 4,
            behind: 2,
            serves_oldest: true,
            // A command on the bus, and 4 KiB at the 600 MB/s of SATA.
            taken_ns: 10_000,
            host_ns: 20_000,
        }
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn reach_ns(&self, now: u64, to: Extent) -> u64 {
        self.position_ns(now, to.at)
    }

    fn write(&mut self, now: u64, extent: Extent) -> Service {
        let position = self.position_ns(now, extent.at);
        let ended_at = now.saturating_add(position).saturating_add(self.model.transfer_ns(extent));
        self.end(extent, ended_at, false)
    }

    fn read(&mut self, now: u64, extent: Extent, outstanding: u32) -> Service {
        let ended_at = self.read_ahead(now, extent).unwrap_or_else(|| {
            // The disk chooses the order: the more reads wait, the shorter are its ways.
            let position = self.position_ns(now, extent.at) * 64 / shortens_by(outstanding);
            now.saturating_add(position).saturating_add(self.model.transfer_ns(extent))
        });
        self.end(extent, ended_at, true)
    }

    fn sync_ns(&self) -> u64 {
        0
    }
}

/// 64 times 1 + 0.25 log2(n), to a sixteenth of the logarithm.
fn shortens_by(outstanding: u32) -> u64 {
    let outstanding = u128::from(outstanding.clamp(1, 255));
    64 + u64::from(outstanding.pow(16).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn block(number: u64) -> Extent {
        Extent { at: number * BLOCK, bytes: BLOCK }
    }

    #[test]
    fn seeks_are_those_of_the_manuals() {
        let model = HddModel::rpm_7200();
        assert_eq!(model.seek_over_ns(0), 0);
        assert_eq!(model.seek_over_ns(1), 1_014_500);
        // A third of the 800,000 tracks of 1 TB.
        let third = model.seek_over_ns(800_000 / 3);
        assert!((8_400_000..8_600_000).contains(&third), "{third}");
        assert_eq!(model.turn_ns(model.track_bytes), model.revolution_ns);
    }

    #[test]
    fn what_follows_without_a_pause_costs_no_turn() {
        let mut disk = Hdd::new(HddModel::rpm_7200());
        let first = disk.write(0, block(0)).done_at;
        let second = disk.write(first, block(1)).done_at;
        assert!(second - first < 28_000, "{}", second - first);
        // And with one, nearly a whole one.
        let third = disk.write(second + 20_000, block(2)).done_at;
        assert!((8_300_000..8_400_000).contains(&(third - second)), "{}", third - second);
    }

    #[test]
    fn a_track_is_changed_within_the_skew() {
        let model = HddModel::rpm_7200();
        let mut disk = Hdd::new(model);
        let start = disk.write(0, block(0)).done_at;
        let rest = Extent { at: BLOCK, bytes: 305 * BLOCK };
        let took = disk.write(start, rest).done_at - start;
        assert_eq!(took, model.revolution_ns + model.turn_ns(model.skew_bytes));
        let mut disk = Hdd::new(model);
        let start = disk.write(0, Extent { at: 0, bytes: 305 * BLOCK }).done_at;
        let took = disk.write(start, block(305)).done_at - start;
        assert_eq!(took, model.turn_ns(BLOCK) + model.turn_ns(model.skew_bytes));
    }

    #[test]
    fn a_read_behind_the_last_one_was_read_ahead() {
        let mut disk = Hdd::new(HddModel::rpm_7200());
        let first = disk.read(0, block(1_000), 1).done_at;
        let second = disk.read(first + 20_000, block(1_001), 1).done_at;
        assert_eq!(second - first, 120_000);
        let late = disk.read(second + 50_000_000, block(1_002), 1).done_at;
        assert!(late - second - 50_000_000 > 120_000);
    }

    #[test]
    fn outstanding_reads_shorten_the_way() {
        assert_eq!([1, 2, 4, 16, 32].map(shortens_by), [64, 80, 96, 128, 144]);
        assert_eq!(shortens_by(3), 64 + 25);
        assert_eq!(shortens_by(0), 64);
    }
}
