//! The crash laboratory: what it runs (`work`, `harm`, `door`), how much of it (`sizes`), and its
//! report (`table`).

pub mod door;
pub mod harm;
pub mod harmed;
pub mod sizes;
pub mod table;
pub mod work;
