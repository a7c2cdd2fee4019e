//! How much each parameter of the media moves the headline figures: halved, and doubled.

use std::fmt::Write as _;

use sim_disk::time::{CardModel, HddModel, MemoryModel, SsdModel};

use crate::engines::Failure;
use crate::papers::figures::overwrite::{self, Difference, HomeRule};
use crate::papers::figures::{fgm, hasfs, njs, small};
use crate::papers::files::case::Medium;
use crate::papers::host::Host;

/// A parameter, and the figure with it.
type Varied<'a> = (&'static str, &'a dyn Fn(Change) -> Result<f64, Failure>);

/// What is done to a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    Halved,
    Kept,
    Doubled,
}

impl Change {
    const fn of(self, value: u64) -> u64 {
        match self {
            Self::Halved => value / 2,
            Self::Kept => value,
            Self::Doubled => value * 2,
        }
    }
}

/// The table. All of HasFS is at `scale`, what needs a larger ring at `finer`.
///
/// # Errors
/// Those of the journals.
pub fn table(scale: u64, finer: u64) -> Result<String, Failure> {
    let mut table = Table(String::from(
        "| figure | parameter | halved | as it is | doubled | k |\n|---|---|---|---|---|---|\n",
    ));
    table.hasfs_random(scale)?;
    table.hasfs_fileserver(scale)?;
    table.fgm(finer)?;
    table.njs_random(finer)?;
    table.njs_workloads(finer)?;
    table.two_level()?;
    // A commit of 1 MiB has to fit into the memory.
    table.delta(scale.min(overwrite::SCALE_MAX))?;
    Ok(table.0)
}

const HDD: HddModel = HddModel::rpm_7200();

const fn turn(change: Change) -> HddModel {
    HddModel { revolution_ns: change.of(HDD.revolution_ns), ..HDD }
}

const fn seek(change: Change) -> HddModel {
    HddModel { seek_ns: change.of(HDD.seek_ns), ..HDD }
}

const fn farther(change: Change) -> HddModel {
    HddModel { seek_root_ns: change.of(HDD.seek_root_ns), ..HDD }
}

const fn cache(change: Change) -> HddModel {
    let cache_requests = change.of(HDD.cache_requests as u64) as usize;
    HddModel { cache_requests, cache_bytes: change.of(HDD.cache_bytes), ..HDD }
}

const SSD: SsdModel = SsdModel::sata();

const fn scattered(change: Change) -> SsdModel {
    SsdModel { scattered_ns: change.of(SSD.scattered_ns), ..SSD }
}

const fn ssd_rate(change: Change) -> SsdModel {
    SsdModel { write_bytes_per_second: change.of(SSD.write_bytes_per_second), ..SSD }
}

const fn ssd_sync(change: Change) -> SsdModel {
    SsdModel { sync_ns: change.of(SSD.sync_ns), ..SSD }
}

const CARD: CardModel = CardModel::class_10();

const fn command(change: Change) -> CardModel {
    CardModel { command_ns: change.of(CARD.command_ns), ..CARD }
}

const fn card_rate(change: Change) -> CardModel {
    CardModel { write_bytes_per_second: change.of(CARD.write_bytes_per_second), ..CARD }
}

const fn card_sync(change: Change) -> CardModel {
    CardModel { sync_ns: change.of(CARD.sync_ns), ..CARD }
}

const fn unit_bytes(change: Change) -> CardModel {
    CardModel { unit_bytes: change.of(CARD.unit_bytes), ..CARD }
}

const fn open_units(change: Change) -> CardModel {
    CardModel { open_units: change.of(CARD.open_units as u64) as usize, ..CARD }
}

const fn behind(change: Change) -> CardModel {
    CardModel { behind_ns: change.of(CARD.behind_ns), ..CARD }
}

const fn closing(change: Change) -> CardModel {
    CardModel { closing_ns: change.of(CARD.closing_ns), ..CARD }
}

const fn line(memory: MemoryModel, change: Change) -> MemoryModel {
    let MemoryModel { call_ns, unit_ns, .. } = memory;
    MemoryModel { call_ns: change.of(call_ns), unit_ns: change.of(unit_ns), ..memory }
}

/// The table as it grows.
struct Table(String);

impl Table {
    fn add(&mut self, figure: &str, scale: u64, varied: &[Varied<'_>]) -> Result<(), Failure> {
        // Any of them will do: nothing is changed.
        let Some((_, any)) = varied.first() else { return Ok(()) };
        let kept = any(Change::Kept)?;
        for (name, run) in varied {
            let (halved, doubled) = (run(Change::Halved)?, run(Change::Doubled)?);
            let _ = writeln!(
                self.0,
                "| {figure} | {name} | {halved:.2} x | {kept:.2} x | {doubled:.2} x | {scale} |"
            );
        }
        Ok(())
    }

    fn hasfs_random(&mut self, scale: u64) -> Result<(), Failure> {
        let memory = MemoryModel::hasfs();
        let of_host = |host| hasfs::random_against_none(host, Medium::HDD, memory, scale);
        let on = |medium| hasfs::random_against_none(Host::HASFS, medium, memory, scale);
        let on_hdd = |model| on(Medium::Hdd(model));
        self.add(
            "HasFS 7 random / none",
            scale,
            &[
                ("one turn of the disk", &|change| on_hdd(turn(change))),
                ("the shortest seek", &|change| on_hdd(seek(change))),
                ("what distance adds to a seek", &|change| on_hdd(farther(change))),
                ("the drive's cache", &|change| on_hdd(cache(change))),
                ("a line of NVM", &|change| {
                    let memory = line(memory, change);
                    hasfs::random_against_none(Host::HASFS, Medium::HDD, memory, scale)
                }),
                ("the host's time for a page", &|change| {
                    of_host(Host { page_ns: change.of(Host::HASFS.page_ns), ..Host::HASFS })
                }),
                ("more, for a page that goes to a slot", &|change| {
                    let slot_page_ns = change.of(Host::HASFS.slot_page_ns);
                    of_host(Host { slot_page_ns, ..Host::HASFS })
                }),
            ],
        )?;
        let on_ssd = |model| on(Medium::Ssd(model));
        self.add(
            "HasFS 8 random / none",
            scale,
            &[
                ("what a scattered write adds", &|change| on_ssd(scattered(change))),
                ("bytes written a second", &|change| on_ssd(ssd_rate(change))),
                ("a sync", &|change| on_ssd(ssd_sync(change))),
            ],
        )
    }

    fn hasfs_fileserver(&mut self, scale: u64) -> Result<(), Failure> {
        let memory = MemoryModel::hasfs();
        let on = |medium, memory| hasfs::fileserver_against_data(medium, memory, scale);
        let on_hdd = |model| on(Medium::Hdd(model), memory);
        self.add(
            "HasFS 11 fileserver / data",
            scale,
            &[
                ("one turn of the disk", &|change| on_hdd(turn(change))),
                ("the shortest seek", &|change| on_hdd(seek(change))),
                ("the drive's cache", &|change| on_hdd(cache(change))),
                ("a line of NVM", &|change| on(Medium::HDD, line(memory, change))),
            ],
        )?;
        let on_ssd = |model| on(Medium::Ssd(model), memory);
        self.add(
            "HasFS 12 fileserver / data",
            scale,
            &[
                ("what a scattered write adds", &|change| on_ssd(scattered(change))),
                ("bytes written a second", &|change| on_ssd(ssd_rate(change))),
                ("a sync", &|change| on_ssd(ssd_sync(change))),
                ("a line of NVM", &|change| on(Medium::SSD, line(memory, change))),
            ],
        )
    }

    /// FGM against a second disk.
    fn fgm(&mut self, scale: u64) -> Result<(), Failure> {
        let memory = MemoryModel::fgm();
        for (figure, work) in [
            ("FGM 9a varmail / second disk", fgm::FgmWork::Varmail),
            ("FGM 10a fileserver / second disk", fgm::FgmWork::Fileserver),
            ("FGM 11a writefsync / second disk", fgm::FgmWork::WriteFsync(1, 32)),
            ("FGM 12a postmark / second disk", fgm::FgmWork::Postmark(500)),
        ] {
            let on = |medium, memory| fgm::against_disk(work, medium, memory, scale);
            let on_hdd = |model| on(Medium::Hdd(model), memory);
            self.add(
                figure,
                scale,
                &[
                    ("one turn of the disk", &|change| on_hdd(turn(change))),
                    ("the shortest seek", &|change| on_hdd(seek(change))),
                    ("the drive's cache", &|change| on_hdd(cache(change))),
                    ("a line of NVM", &|change| on(Medium::HDD, line(memory, change))),
                ],
            )?;
        }
        Ok(())
    }

    /// NJS against a RAM disk.
    fn njs_random(&mut self, scale: u64) -> Result<(), Failure> {
        let memory = MemoryModel::njs();
        let of = |host, medium, memory| njs::random_against_data_mode(host, medium, memory, scale);
        let on_hdd = |model| of(Host::NJS, Medium::Hdd(model), memory);
        self.add(
            "NJS 8a random / data mode",
            scale,
            &[
                ("one turn of the disk", &|change| on_hdd(turn(change))),
                ("the shortest seek", &|change| on_hdd(seek(change))),
                ("what distance adds to a seek", &|change| on_hdd(farther(change))),
                ("the drive's cache", &|change| on_hdd(cache(change))),
                ("a call of the NVM", &|change| of(Host::NJS, Medium::HDD, line(memory, change))),
                ("the host's time for a page", &|change| {
                    let host = Host { page_ns: change.of(Host::NJS.page_ns), ..Host::NJS };
                    of(host, Medium::HDD, memory)
                }),
            ],
        )
    }

    fn njs_workloads(&mut self, scale: u64) -> Result<(), Failure> {
        let memory = MemoryModel::njs();
        for (figure, work) in [
            ("NJS 8b postmark / data mode", njs::Work::Postmark),
            ("NJS 8b fileserver / data mode", njs::Work::Fileserver),
            ("NJS 8b varmail / data mode", njs::Work::Varmail),
        ] {
            let on = |medium, memory| njs::against_data_mode(work, medium, memory, scale);
            let on_hdd = |model| on(Medium::Hdd(model), memory);
            self.add(
                figure,
                scale,
                &[
                    ("one turn of the disk", &|change| on_hdd(turn(change))),
                    ("the shortest seek", &|change| on_hdd(seek(change))),
                    ("the drive's cache", &|change| on_hdd(cache(change))),
                    ("a call of the NVM", &|change| on(Medium::HDD, line(memory, change))),
                ],
            )?;
        }
        let delayed = |model| njs::delayed_against_oldest_first(Medium::Hdd(model), scale);
        self.add(
            "NJS 10 varmail / oldest first",
            scale,
            &[
                ("one turn of the disk", &|change| delayed(turn(change))),
                ("the shortest seek", &|change| delayed(seek(change))),
                ("the drive's cache", &|change| delayed(cache(change))),
            ],
        )
    }

    fn two_level(&mut self) -> Result<(), Failure> {
        let mobibench = small::Mobibench::new();
        let memory = MemoryModel::two_level();
        let on = |card| mobibench.against_log(card, memory);
        self.add(
            "two-level, the generator of mobibench / log-structured",
            1,
            &[
                ("a command of the card", &|change| on(command(change))),
                ("bytes written a second", &|change| on(card_rate(change))),
                ("a sync", &|change| on(card_sync(change))),
                ("bytes of a unit", &|change| on(unit_bytes(change))),
                ("units that are open", &|change| on(open_units(change))),
                ("a write behind the pointer", &|change| on(behind(change))),
                ("closing a unit", &|change| on(closing(change))),
                ("128 bytes of PRAM", &|change| mobibench.against_log(CARD, line(memory, change))),
            ],
        )
    }

    fn delta(&mut self, scale: u64) -> Result<(), Failure> {
        let on = |card: CardModel| -> Result<f64, Failure> {
            let blocks = (256 << 8) / scale;
            let base = overwrite::by_block_journal(Difference::Tenth, blocks, card, scale)?;
            let setting = overwrite::setting(card, scale);
            let ours = overwrite::by_journal(Difference::Tenth, blocks, setting, HomeRule::USUAL)?;
            Ok(base.seconds() / ours.seconds())
        };
        self.add(
            "delta, 256 MB, 10 % / data mode",
            scale,
            &[
                ("a command of the card", &|change| on(command(change))),
                ("bytes written a second", &|change| on(card_rate(change))),
                ("a sync", &|change| on(card_sync(change))),
                ("bytes of a unit", &|change| on(unit_bytes(change))),
                ("units that are open", &|change| on(open_units(change))),
                ("a write behind the pointer", &|change| on(behind(change))),
                ("closing a unit", &|change| on(closing(change))),
            ],
        )
    }
}
