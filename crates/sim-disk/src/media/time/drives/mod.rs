//! Drives by name: a turning disk, solid state drives, and memory cards.

pub(crate) mod card;
pub(crate) mod hdd;
pub(crate) mod ssd;

use crate::media::time::drive::Drive;

/// All drives by name.
#[must_use]
pub fn named_drives() -> [(&'static str, Box<dyn Drive>); 6] {
    [
        ("hdd", Box::new(hdd::Hdd::new(hdd::HddModel::rpm_7200()))),
        ("ssd-sata", Box::new(ssd::Ssd::new(ssd::SsdModel::sata()))),
        ("ssd-nvme", Box::new(ssd::Ssd::new(ssd::SsdModel::nvme()))),
        ("ssd-nvme-protected", Box::new(ssd::Ssd::new(ssd::SsdModel::nvme_protected()))),
        ("card", Box::new(card::Card::new(card::CardModel::class_10()))),
        ("card-slow", Box::new(card::Card::new(card::CardModel::class_10_slow()))),
    ]
}
