//! Transactions under way, before anything of them is stored.

pub(crate) mod changed_ranges;
pub(crate) mod hint;
pub(crate) mod old_images;
pub(crate) mod pages;
pub(crate) mod patches;
pub(crate) mod seat;
pub(crate) mod staged;
pub(crate) mod work;
