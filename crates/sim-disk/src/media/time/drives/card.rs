//! A memory card: cheap flash behind a controller that keeps a few units open.

use crate::media::time::drive::{Drive, Extent, QueueFacts, Service, transfer_ns};

/// The parameters of an SD or microSD card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CardModel {
    /// What the command of a write takes.
    pub command_ns: u64,
    /// How fast the card writes.
    pub write_bytes_per_second: u64,
    /// What a read takes, its transfer apart.
    pub read_ns: u64,
    /// How fast reads are transferred.
    pub read_bytes_per_second: u64,
    /// What a sync takes when all is written.
    pub sync_ns: u64,
    /// Bytes of an allocation unit.
    pub unit_bytes: u64,
    /// Units that the card keeps open.
    pub open_units: usize,
    /// What a write adds that begins behind the pointer of an open unit: at bytes already passed.
    pub behind_ns: u64,
    /// What a write adds that opens another unit and does not begin at the start of it. The card
    /// closes a unit, and copies what the write left out.
    pub closing_ns: u64,
}

impl CardModel {
    /// A card of class 10.
    ///
    /// - 10 MB/s written: the definition of class 10.
    /// - Reads at 20 MB/s, 0.7 ms before the first byte, 1 ms for a command, 2 ms for a sync:
    ///   assumptions. Cards of one class differ much in these.
    /// - Units of 4 MiB, 5 of them open: flash card surveys, which found units of 4 MiB and few of
    ///   them open.
    /// - 4 ms behind the pointer of an open unit, 10 ms to close one: an optimistic card. Most
    ///   cards of their years did far worse: see [`class_10_slow`](Self::class_10_slow).
    #[must_use]
    pub const fn class_10() -> Self {
        Self {
            command_ns: 1_000_000,
            write_bytes_per_second: 10_000_000,
            read_ns: 700_000,
            read_bytes_per_second: 20_000_000,
            sync_ns: 2_000_000,
            unit_bytes: 4 << 20,
            open_units: 5,
            behind_ns: 4_000_000,
            closing_ns: 10_000_000,
        }
    }

    /// A card of class 10 that takes 150 ms to close a unit.
    ///
    /// Source: cards with 0.01 MB/s and 400 ms for a scattered write are published. Figures with 40
    /// ms lie between the two: `CardModel { closing_ns: 40_000_000, ..CardModel::class_10() }`.
    #[must_use]
    pub const fn class_10_slow() -> Self {
        Self { closing_ns: 150_000_000, ..Self::class_10() }
    }
}

/// A memory card.
#[derive(Clone, Debug)]
pub struct Card {
    model: CardModel,
    head: u64,
    /// The open units, each with its pointer; the one written last is the last.
    open: Vec<(u64, u64)>,
}

impl Card {
    /// A card with no unit open.
    #[must_use]
    pub const fn new(model: CardModel) -> Self {
        Self { model, head: 0, open: Vec::new() }
    }

    /// Writes within one unit; returns what the card adds to the transfer.
    fn write_in_unit(&mut self, at: u64, end: u64) -> u64 {
        let unit = at / self.model.unit_bytes;
        let opened = self.open.iter().position(|(known, _)| *known == unit);
        let adds = match opened.map(|place| self.open.remove(place)) {
            Some((_, pointer)) if at < pointer => self.model.behind_ns,
            Some(_) => 0,
            None if at % self.model.unit_bytes == 0 => 0,
            None => self.model.closing_ns,
        };
        if self.open.len() >= self.model.open_units {
            self.open.remove(0);
        }
        self.open.push((unit, end));
        adds
    }
}

impl Drive for Card {
    fn queue_facts(&self) -> QueueFacts {
        QueueFacts {
            // A card has no cache to speak of: one write at a time.
            cache_requests: 1,
            cache_bytes: u64::MAX,
            ahead: 1,
            behind: 0,
            serves_oldest: false,
            taken_ns: 0,
            host_ns: 20_000,
        }
    }

    fn head(&self) -> u64 {
        self.head
    }

    fn reach_ns(&self, _: u64, _: Extent) -> u64 {
        self.model.command_ns
    }

    fn write(&mut self, now: u64, extent: Extent) -> Service {
        let mut takes = transfer_ns(extent.bytes, self.model.write_bytes_per_second);
        takes = takes.saturating_add(self.model.command_ns);
        let mut at = extent.at;
        while at < extent.end() {
            let end = (at / self.model.unit_bytes + 1) * self.model.unit_bytes;
            let end = end.min(extent.end());
            takes = takes.saturating_add(self.write_in_unit(at, end));
            at = end;
        }
        self.head = extent.end();
        let end = now.saturating_add(takes);
        Service { busy_until: end, done_at: end }
    }

    fn read(&mut self, now: u64, extent: Extent, _: u32) -> Service {
        let moves = transfer_ns(extent.bytes, self.model.read_bytes_per_second);
        let end = now.saturating_add(self.model.read_ns).saturating_add(moves);
        Service { busy_until: end, done_at: end }
    }

    fn sync_ns(&self) -> u64 {
        self.model.sync_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 4 << 20;

    #[test]
    fn units_are_open_or_not() {
        let model = CardModel::class_10();
        let mut card = Card::new(model);
        let mut adds = |at| {
            let extent = Extent { at, bytes: 4096 };
            card.write(0, extent).done_at - model.command_ns - transfer_ns(4096, 10_000_000)
        };
        assert_eq!(adds(0), 0, "a unit from its start");
        assert_eq!(adds(4096), 0, "at the pointer");
        assert_eq!(adds(1 << 20), 0, "before the pointer");
        assert_eq!(adds(4096), 4_000_000, "behind it");
        assert_eq!(adds(9 * UNIT + 4096), 10_000_000, "another unit");
        for unit in 1..5 {
            assert_eq!(adds(unit * UNIT), 0);
        }
        assert_eq!(adds(9 * UNIT + 8192), 0, "still open");
        assert_eq!(adds(1 << 21), 10_000_000, "closed meanwhile");
    }

    #[test]
    fn a_long_write_opens_unit_after_unit() {
        let model = CardModel::class_10();
        let took = Card::new(model).write(0, Extent { at: 0, bytes: 3 * UNIT }).done_at;
        assert_eq!(took, model.command_ns + transfer_ns(3 * UNIT, 10_000_000));
    }
}
