//! What memories cost: parameters, and where each comes from.

use journal_core::LINE_BYTES;

/// What the calls of a memory cost, in nanoseconds.
///
/// A flush and a stream cost [`call_ns`](Self::call_ns) once, and [`unit_ns`](Self::unit_ns) for
/// each unit that they touch. A store costs nothing: it goes to the processor's cache. A read costs
/// [`read_unit_ns`](Self::read_unit_ns) a unit while reads are charged, and otherwise nothing.
///
/// ```
/// use sim_disk::time::MemoryModel;
///
/// let faster = MemoryModel { unit_ns: 150, ..MemoryModel::hasfs() };
/// assert_eq!(faster.persist_ns(60, 10), 2 * 150); // The bytes lie in two lines.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryModel {
    /// Latency of a call that persists, whatever its length.
    pub call_ns: u64,
    /// Bytes of a unit: a cache line, or what the medium programs at a time.
    pub unit_bytes: u64,
    /// What each unit adds that such a call touches.
    pub unit_ns: u64,
    /// What a fence costs.
    pub fence_ns: u64,
    /// What a unit costs that is read in recovery.
    pub read_unit_ns: u64,
}

/// A DRAM read of a line that a prefetcher sees coming: 64 bytes at 12.8 GB/s, one channel of
/// DDR3-1600.
const DRAM_READ_NS: u64 = 5;

impl MemoryModel {
    const fn lines(call_ns: u64, unit_ns: u64, fence_ns: u64) -> Self {
        let unit_bytes = LINE_BYTES as u64;
        Self { call_ns, unit_bytes, unit_ns, fence_ns, read_unit_ns: DRAM_READ_NS }
    }

    /// The NVM that NJS was evaluated on, first reading: 300 ns once a call, and 1 GB/s.
    ///
    /// Source: the NJS paper, which gives both numbers. It does not say whether the latency is paid
    /// once a call or once a line.
    #[must_use]
    pub const fn njs() -> Self {
        Self::lines(300, 64, 0)
    }

    /// The NVM that NJS was evaluated on, second reading: 300 ns for each line.
    ///
    /// Source: the NJS paper, as for [`njs`](Self::njs). A line takes 64 ns at 1 GB/s, which the
    /// latency hides.
    #[must_use]
    pub const fn njs_per_line() -> Self {
        Self::lines(0, 300, 0)
    }

    /// The NVM that HasFS was evaluated on: 200 ns a line, no limit on bandwidth.
    ///
    /// Source: the HasFS paper, and HiNFS, which it cites.
    #[must_use]
    pub const fn hasfs() -> Self {
        Self::lines(0, 200, 0)
    }

    /// The NVDIMM that FGM was evaluated on: 100 ns a line, and 200 ns a fence.
    ///
    /// Source: the FGM paper, which has an NVDIMM at the speed of DRAM and flushes by `clflush`.
    /// One `clflush` waits for the one before it, so each line pays a latency of DRAM.
    #[must_use]
    pub const fn fgm() -> Self {
        Self::lines(0, 100, 200)
    }

    /// The PRAM of two-level logging: 15 us for each unit of 128 bytes, or 9 MB/s.
    ///
    /// Source: the first parts of 512 Mb, which program 128 bytes at a time. Reads: an estimate,
    /// 100 ns for a random access and 25 ns for each further word of 16 bytes.
    #[must_use]
    pub const fn two_level() -> Self {
        let (unit_bytes, unit_ns) = (128, 15_000);
        Self { call_ns: 0, unit_bytes, unit_ns, fence_ns: 0, read_unit_ns: 275 }
    }

    /// The PRAM of two-level logging, pessimistic: 60 us for each unit.
    ///
    /// Source: none that names this number; it is [`two_level`](Self::two_level), four times
    /// slower.
    #[must_use]
    pub const fn two_level_slow() -> Self {
        Self { unit_ns: 60_000, ..Self::two_level() }
    }

    /// The NVRAM of delta journaling: DRAM, 5 ns a line and 200 ns a fence.
    ///
    /// Source: the delta journaling paper emulates its NVRAM by DRAM.
    #[must_use]
    pub const fn delta_journaling() -> Self {
        Self::lines(0, 5, 200)
    }

    /// An NVDIMM-N of DDR4-2133: 4 ns a line, and 100 ns a fence.
    ///
    /// Source: Crucial gives 17 GB/s for its first module of 8 GB (2016). The fence is an estimate:
    /// it waits for the last line, for one latency of DRAM.
    #[must_use]
    pub const fn nvdimm_n() -> Self {
        Self::lines(0, 4, 100)
    }

    /// Non-volatile CXL memory: 2 ns a line, and 200 ns a fence.
    ///
    /// Source: the white paper of SMART Modular on NV-CMM (CXL on eight lanes of PCIe 5.0)
    /// gives 32 GB/s, and a round trip of about 200 ns. A fence waits for one round trip. So does a
    /// read that nothing sees coming; in recovery, four are under way at a time.
    #[must_use]
    pub const fn cxl() -> Self {
        Self { read_unit_ns: 50, ..Self::lines(0, 2, 200) }
    }

    /// PRAM of 20 nm: 3.2 us for each unit of 128 bytes.
    ///
    /// Source: "A 20nm 1.8V 8Gb PRAM with 40MB/s program bandwidth", ISSCC 2012. Reads as for
    /// [`two_level`](Self::two_level).
    #[must_use]
    pub const fn pram() -> Self {
        Self { unit_ns: 3_200, ..Self::two_level() }
    }

    /// FRAM on a serial bus: 1 us a call, and 12.8 us a line.
    ///
    /// Source: the Cypress FM25V10 datasheet. Its bus has one bit at 40 MHz, and bytes are written
    /// at bus speed without a delay. A call sends an enabling command, a command and an address of
    /// 24 bits.
    #[must_use]
    pub const fn fram() -> Self {
        Self { read_unit_ns: 12_800, ..Self::lines(1_000, 12_800, 0) }
    }

    /// STT-MRAM on a bus of eight bits: 50 ns a call, and 160 ns a line.
    ///
    /// Source: Everspin gives 400 MB/s for its EMxxLX parts on the octal xSPI bus. That writes
    /// reach it is an assumption, and 50 ns for a command and an address is an estimate.
    #[must_use]
    pub const fn stt_mram() -> Self {
        Self { read_unit_ns: 160, ..Self::lines(50, 160, 0) }
    }

    /// All memories by name.
    #[must_use]
    pub const fn named() -> [(&'static str, Self); 12] {
        [
            ("njs", Self::njs()),
            ("njs-per-line", Self::njs_per_line()),
            ("hasfs", Self::hasfs()),
            ("fgm", Self::fgm()),
            ("two-level", Self::two_level()),
            ("two-level-slow", Self::two_level_slow()),
            ("delta-journaling", Self::delta_journaling()),
            ("nvdimm-n", Self::nvdimm_n()),
            ("cxl", Self::cxl()),
            ("pram", Self::pram()),
            ("fram", Self::fram()),
            ("stt-mram", Self::stt_mram()),
        ]
    }

    /// How many units some bytes touch.
    #[must_use]
    pub const fn units(&self, at: u64, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        at.saturating_add(bytes).div_ceil(self.unit_bytes) - at / self.unit_bytes
    }

    /// What a flush or a stream of some bytes costs; nothing without bytes.
    #[must_use]
    pub const fn persist_ns(&self, at: u64, bytes: u64) -> u64 {
        match self.units(at, bytes) {
            0 => 0,
            units => self.call_ns.saturating_add(units.saturating_mul(self.unit_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_where_bytes_touch_them() {
        let model = MemoryModel::hasfs();
        let touched = [(0, 0), (63, 1), (63, 2), (0, 64), (0, 65), (32, 4096)];
        assert_eq!(touched.map(|(at, bytes)| model.units(at, bytes)), [0, 1, 2, 1, 2, 65]);
    }

    #[test]
    fn pages_take_what_the_papers_say() {
        let page = |model: MemoryModel| model.persist_ns(0, 4096);
        assert_eq!(page(MemoryModel::hasfs()), 12_800);
        assert_eq!(page(MemoryModel::njs()), 300 + 4_096);
        assert_eq!(page(MemoryModel::njs_per_line()), 64 * 300);
        assert_eq!(page(MemoryModel::fgm()), 6_400);
        assert_eq!(page(MemoryModel::two_level()), 32 * 15_000);
        // 40 MB/s.
        assert_eq!(page(MemoryModel::pram()), 102_400);
    }

    #[test]
    fn names_are_unique() {
        let mut names = MemoryModel::named().map(|(name, _)| name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
