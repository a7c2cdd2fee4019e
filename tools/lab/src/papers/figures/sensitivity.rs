//! How much each parameter of the media moves the headline figures: halved, and doubled.

use std::fmt::Write as _;

use sim_disk::time::{CardModel, HddModel, MemoryModel, SsdModel};

use crate::engines::Failure;
use crate::papers::figures::overwrite::{self, Difference};
use crate::papers::figures::{fgm, hasfs};
use crate::papers::files::case::Medium;

pub const TEXT: &str = "\
Each parameter halved and doubled, all others as they are. Times faster than the baseline.\n";

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

/// The table.
///
/// # Errors
/// Those of the journals.
pub fn table(scale: u64, scale_of_fgm: u64) -> Result<String, Failure> {
    let mut page = String::from(
        "| figure | parameter | halved | as it is | doubled |\n|---|---|---|---|---|\n",
    );
    let mut add = |figure: &str, varied: &[Varied<'_>]| -> Result<(), Failure> {
        for (name, run) in varied {
            let [halved, kept, doubled] = [Change::Halved, Change::Kept, Change::Doubled].map(run);
            let _ = writeln!(
                page,
                "| {figure} | {name} | {:.2} x | {:.2} x | {:.2} x |",
                halved?, kept?, doubled?
            );
        }
        Ok(())
    };
    // 1. HasFS on a disk.
    let hdd = HddModel::rpm_7200();
    let on_hdd =
        |model| hasfs::random_against_none(Medium::Hdd(model), MemoryModel::hasfs(), scale);
    add(
        "HasFS 7 random / none",
        &[
            ("one turn of the disk", &|change| {
                on_hdd(HddModel { revolution_ns: change.of(hdd.revolution_ns), ..hdd })
            }),
            ("the shortest seek", &|change| {
                on_hdd(HddModel { seek_ns: change.of(hdd.seek_ns), ..hdd })
            }),
            ("the drive's cache", &|change| {
                let cache_requests = change.of(hdd.cache_requests as u64) as usize;
                let cache_bytes = change.of(hdd.cache_bytes);
                on_hdd(HddModel { cache_requests, cache_bytes, ..hdd })
            }),
            ("a line of NVM", &|change| {
                let memory = MemoryModel::hasfs();
                let memory = MemoryModel { unit_ns: change.of(memory.unit_ns), ..memory };
                hasfs::random_against_none(Medium::HDD, memory, scale)
            }),
        ],
    )?;
    // 2. HasFS on an SSD.
    let ssd = SsdModel::sata();
    let on_ssd =
        |model| hasfs::random_against_none(Medium::Ssd(model), MemoryModel::hasfs(), scale);
    add(
        "HasFS 8 random / none",
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
    add(
        "FGM 12a postmark / second disk",
        &[
            ("one turn of the disk", &|change| {
                let model = HddModel { revolution_ns: change.of(hdd.revolution_ns), ..hdd };
                fgm::postmark_against_disk(Medium::Hdd(model), MemoryModel::fgm(), scale_of_fgm)
            }),
            ("a line of NVM", &|change| {
                let memory = MemoryModel::fgm();
                let memory = MemoryModel { unit_ns: change.of(memory.unit_ns), ..memory };
                fgm::postmark_against_disk(Medium::HDD, memory, scale_of_fgm)
            }),
        ],
    )?;
    // 4. Deltas on a card.
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
        &[
            ("a command of the card", &|change| {
                on_card(CardModel { command_ns: change.of(card.command_ns), ..card })
            }),
            ("bytes written a second", &|change| {
                let write_bytes_per_second = change.of(card.write_bytes_per_second);
                on_card(CardModel { write_bytes_per_second, ..card })
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
