//! Named files in one journal: the directory in memory, its changes, and the calls.

pub(crate) mod block_files;
mod edit;
mod load;
mod state;
