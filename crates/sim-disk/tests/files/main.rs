//! Files of a world: what their calls do, and what a crash may leave of them.

mod calls;
mod explored;
mod promises;
mod states;
