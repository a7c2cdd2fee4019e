//! A file in the system's cache in the place of persistent memory. Beside it, the same bytes are
//! written to a file the usual way.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use journal_core::{Offset, Pmem as _, PmemRead as _};
use nvm_journal::{FullBlock, Journal, MapOptions, Options};

use crate::{BLOCKS, NOWHERE};
use lab::bench::media::{BLOCK, Folder};
use lab::bench::work::{Front, INDEX_FRAMES, commit_at_once, image, make_room, record_bytes};
use lab::bench::{Effort, Table, timed};

const FILE_BYTES: u64 = 64 << 20;

/// Measures and prints. The files are removed afterwards.
pub(crate) fn on_disk(images: &[u8], effort: Effort) {
    let folder = Folder::new("commit-bench");
    let path = folder.path();
    let mut region = MapOptions::new().create(path.join("nvm"), FILE_BYTES).expect("a file");
    println!("file: {} ({} bytes), {:?}", path.display(), region.len(), region.map_facts().reason);
    // First, all of the two files goes to the disk. From then on the file system has to write only
    // data.
    for at in (0..FILE_BYTES).step_by(BLOCK) {
        region.store(Offset(at), &[1; BLOCK]);
    }
    region.flush(Offset(0), FILE_BYTES as usize);
    region.fence().expect("syncs");
    let options = Options::<FullBlock>::new().lanes(1).index_frames(INDEX_FRAMES);
    let journal: Front = Journal::format(region, NOWHERE, &options).expect("formats");
    let file = File::options().read(true).write(true).create_new(true).open(path.join("plain"));
    let file = file.expect("a file");
    for at in (0..FILE_BYTES).step_by(BLOCK) {
        file.write_all_at(&[1; BLOCK], at).expect("writes");
    }
    file.sync_all().expect("syncs");
    let one = || commit_at_once(&journal, images, 0);
    let record = images[..record_bytes(&journal, one)].to_vec();
    let mut table = Table::new("4 KiB durable in a plain file");
    let versus = "pwrite, fdatasync";
    table.row(versus, versus, 1, None, |count| {
        timed(count, |turn| {
            let at = turn * BLOCK as u64 % FILE_BYTES;
            file.write_all_at(image(images, turn), at).expect("writes");
            file.sync_data().expect("syncs");
        })
    });
    table.row("pwrite of its record, fdatasync", versus, 1, None, |count| {
        timed(count, |turn| {
            let at = turn * record.len() as u64 % (FILE_BYTES - record.len() as u64);
            file.write_all_at(&record, at).expect("writes");
            file.sync_data().expect("syncs");
        })
    });
    table.row("front door, in one call", versus, 1, None, |count| {
        make_room(&journal, count, 1);
        timed(count, |turn| commit_at_once(&journal, images, turn % BLOCKS))
    });
    table.print(effort);
}
