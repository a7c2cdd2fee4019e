//! Files of a world: what their calls do, and what a crash may leave of them.

mod calls;
mod explored;
mod machine;
mod promises;
mod states;
