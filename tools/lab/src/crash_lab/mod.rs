//! The crash laboratory: what it runs (`work`, `harm`), how much of it (`sizes`), and what it
//! reports (`table`).

pub mod harm;
pub mod harmed;
pub mod sizes;
pub mod table;
pub mod work;
