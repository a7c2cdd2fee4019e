//! How much each parameter of the media moves the headline figures: halved, and doubled.

use std::fmt::Write as _;

use sim_disk::time::{CardModel, HddModel, MemoryModel, SsdModel};

use crate::engines::Failure;
use crate::papers::figures::overwrite::{self, Difference};
use crate::papers::figures::{fgm, hasfs, njs};
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
    let mut page = String::from(
        "| figure | parameter | halved | as it is | doubled | k |\n|---|---|---|---|---|---|\n",
    );
    let mut add = |figure: &str, scale: u64, varied: &[Varied<'_>]| -> Result<(), Failure> {
        for (name, run) in varied {
            let [halved, kept, doubled] = [Change::Halved, Change::Kept, Change::Doubled].map(run);
            let _ = writeln!(
                page,
                "| {figure} | {name} | {:.2} x | {:.2} x | {:.2} x | {scale} |",
                halved?, kept?, doubled?
            );
        }
        Ok(())
    };
    let hdd = HddModel::rpm_7200();
    let turn = |change: Change| HddModel { revolution_ns: change.of(hdd.revolution_ns), ..hdd };
    let seek = |change: Change| HddModel { seek_ns: change.of(hdd.seek_ns), ..hdd };
    let farther = |change: Change| HddModel { seek_root_ns: change.of(hdd.seek_root_ns), ..hdd };
    let cache = |change: Change| {
        let cache_requests = change.of(hdd.cache_requests as u64) as usize;
        let cache_bytes = change.of(hdd.cache_bytes);
        HddModel { cache_requests, cache_bytes, ..hdd }
    };
    let line = |memory: MemoryModel, change: Change| {
        let MemoryModel { call_ns, unit_ns, .. } = memory;
        MemoryModel { call_ns: change.of(call_ns), unit_ns: change.of(unit_ns), ..memory }
    };
    // 1. HasFS on a disk.
    let of_hasfs =
        |host: Host, medium, memory| hasfs::random_against_none(host, medium, memory, scale);
    let on_hdd = |model| of_hasfs(Host::HASFS, Medium::Hdd(model), MemoryModel::hasfs());
    add(
        "HasFS 7 random / none",
        scale,
        &[
            ("one turn of the disk", &|change| on_hdd(turn(change))),
            ("the shortest seek", &|change| on_hdd(seek(change))),
            ("what distance adds to a seek", &|change| on_hdd(farther(change))),
            ("the drive's cache", &|change| on_hdd(cache(change))),
            ("a line of NVM", &|change| {
                of_hasfs(Host::HASFS, Medium::HDD, line(MemoryModel::hasfs(), change))
            }),
            ("the host's time for a page", &|change| {
                let host = Host { page_ns: change.of(Host::HASFS.page_ns), ..Host::HASFS };
                of_hasfs(host, Medium::HDD, MemoryModel::hasfs())
            }),
            ("more, for a page that goes to a slot", &|change| {
                let slot_page_ns = change.of(Host::HASFS.slot_page_ns);
                of_hasfs(Host { slot_page_ns, ..Host::HASFS }, Medium::HDD, MemoryModel::hasfs())
            }),
        ],
    )?;
    // 2. HasFS on an SSD.
    let ssd = SsdModel::sata();
    let on_ssd = |model| of_hasfs(Host::HASFS, Medium::Ssd(model), MemoryModel::hasfs());
    add(
        "HasFS 8 random / none",
        scale,
        &[
            ("what a scattered write adds", &|change| {
                on_ssd(SsdModel { scattered_ns: change.of(ssd.scattered_ns), ..ssd })
            }),
            ("bytes written a second", &|change| {
                let write_bytes_per_second = change.of(ssd.write_bytes_per_second);
                on_ssd(SsdModel { write_bytes_per_second, ..ssd })
            }),
            ("a sync", &|change| on_ssd(SsdModel { sync_ns: change.of(ssd.sync_ns), ..ssd })),
        ],
    )?;
    // 3. FGM against a second disk.
    for (figure, work) in [
        ("FGM 9a varmail / second disk", fgm::FgmWork::Varmail),
        ("FGM 11a writefsync / second disk", fgm::FgmWork::WriteFsync(1, 32)),
        ("FGM 12a postmark / second disk", fgm::FgmWork::Postmark(500)),
    ] {
        let on_hdd = |model| fgm::against_disk(work, Medium::Hdd(model), MemoryModel::fgm(), finer);
        add(
            figure,
            finer,
            &[
                ("one turn of the disk", &|change| on_hdd(turn(change))),
                ("the shortest seek", &|change| on_hdd(seek(change))),
                ("the drive's cache", &|change| on_hdd(cache(change))),
                ("a line of NVM", &|change| {
                    fgm::against_disk(work, Medium::HDD, line(MemoryModel::fgm(), change), finer)
                }),
            ],
        )?;
    }
    // 4. NJS against a RAM disk.
    let of_njs = |host, medium, memory| njs::random_against_data_mode(host, medium, memory, finer);
    let on_hdd = |model| of_njs(Host::NJS, Medium::Hdd(model), MemoryModel::njs());
    add(
        "NJS 8a random / data mode",
        finer,
        &[
            ("one turn of the disk", &|change| on_hdd(turn(change))),
            ("the shortest seek", &|change| on_hdd(seek(change))),
            ("what distance adds to a seek", &|change| on_hdd(farther(change))),
            ("the drive's cache", &|change| on_hdd(cache(change))),
            ("a call of the NVM", &|change| {
                of_njs(Host::NJS, Medium::HDD, line(MemoryModel::njs(), change))
            }),
            ("the host's time for a page", &|change| {
                let host = Host { page_ns: change.of(Host::NJS.page_ns), ..Host::NJS };
                of_njs(host, Medium::HDD, MemoryModel::njs())
            }),
        ],
    )?;
    // 5. Deltas on a card.
    let card = CardModel::class_10();
    // A commit of 1 MiB has to fit into the memory.
    let scale = scale.min(8);
    let on_card = |card: CardModel| -> Result<f64, Failure> {
        let blocks = (256 << 8) / scale;
        let base = overwrite::by_block_journal(Difference::Tenth, blocks, card, scale)?;
        let setting = overwrite::setting(card, scale);
        let ours = overwrite::by_journal(Difference::Tenth, blocks, setting)?;
        Ok(base.seconds() / ours.seconds())
    };
    add(
        "delta, 256 MB, 10 % / data mode",
        scale,
        &[
            ("a command of the card", &|change| {
                on_card(CardModel { command_ns: change.of(card.command_ns), ..card })
            }),
            ("bytes written a second", &|change| {
                let write_bytes_per_second = change.of(card.write_bytes_per_second);
                on_card(CardModel { write_bytes_per_second, ..card })
            }),
            ("a sync", &|change| on_card(CardModel { sync_ns: change.of(card.sync_ns), ..card })),
            ("bytes of a unit", &|change| {
                on_card(CardModel { unit_bytes: change.of(card.unit_bytes), ..card })
            }),
            ("units that are open", &|change| {
                let open_units = change.of(card.open_units as u64) as usize;
                on_card(CardModel { open_units, ..card })
            }),
            ("a write behind the pointer", &|change| {
                on_card(CardModel { behind_ns: change.of(card.behind_ns), ..card })
            }),
            ("closing a unit", &|change| {
                on_card(CardModel { closing_ns: change.of(card.closing_ns), ..card })
            }),
        ],
    )?;
    Ok(page)
}
