//! Any bytes as the blocks of a store of files, as they are or with every checksum made right. An
//! open of them ends, soon, without a panic. It says what is wrong, or shows files that work.

#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use block_files::{BlockFiles, Error, OneFile};
use lab::plain_store::{BLOCK_BYTES, Plain, seal};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    sealed: bool,
    blocks: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    // Some free blocks are behind them.
    let blocks = input.blocks.len().div_ceil(BLOCK_BYTES) + 4;
    let mut content = input.blocks.to_vec();
    content.resize(blocks * BLOCK_BYTES, 0);
    if input.sealed {
        seal(&mut content);
    }
    let _one = OneFile::open(Arc::new(Plain::new(content.clone())));
    let store = Arc::new(Plain::new(content));
    let Ok(files) = BlockFiles::open(Arc::clone(&store) as Arc<_>) else { return };
    for (name, len) in files.list() {
        let file = files.open_file(&name).expect("it is listed");
        let mut bytes = [0; 700];
        for at in [0, 100, len.saturating_sub(100)] {
            let there = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX);
            assert_eq!(file.read_at(at, &mut bytes), Ok(there.min(700)));
        }
        match file.write_at(len.min(1000), &[7; 200]) {
            Ok(()) | Err(Error::NoRoom { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    // What it left can be opened, and shows the same.
    let again = BlockFiles::open(store).expect("it was written a moment ago");
    assert_eq!(again.list(), files.list());
    for (name, _) in files.list() {
        files.remove(&name).expect("it is there");
    }
    files.create("new").expect("room, since nothing else is there");
});
