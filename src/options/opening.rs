//! Settings of a single open or close.

use super::Options;

impl<L, H> Options<L, H> {
    /// Open: whether the store takes the size of the disk that it is opened with. Off by default:
    /// a disk of another size is refused.
    ///
    /// **Larger.** Make the disk larger, and open with this option. What the new blocks hold is
    /// what the disk holds there.
    ///
    /// **Smaller.** Discard the blocks that are to go, [close](crate::Journal::close) the journal,
    /// cut the disk, and open with this option. While the lanes speak of a block that would not be
    /// there, the open is refused with `WrongDevice`, and nothing has changed: open it once more
    /// with the disk as it was.
    ///
    /// **Crash**: the size changes with the superblock of the open. A crash before that leaves the
    /// old size, which takes the same open again; a crash after it the new one.
    ///
    /// **What lies on the journal** has to follow. Files of `nvm-journal-block-files` and databases
    /// keep the size that their store had. In a store of another size they answer an error and are
    /// not formatted over: open the store with the disk as it was. A [`Joined`](crate::Joined) disk
    /// keeps its size, because blocks of the second disk would get other numbers. It is refused
    /// with `WrongDevice`.
    ///
    /// A journal with a disk-side log keeps its size, because the log lies behind the last block.
    /// One with slots can become larger only. A [growing](crate::FileDiskOptions::growing) disk
    /// needs none of this: the store is as large as the disk may become from the start.
    ///
    /// ```
    /// use nvm_journal::{BlockNumber, BlockSize, FileDisk, Journal, MapOptions, Options};
    ///
    /// # let folder = std::env::temp_dir().join(format!("resizes-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let (nvm, path) = (folder.join("nvm"), folder.join("disk"));
    /// let region = MapOptions::new().create(&nvm, 1 << 20)?;
    /// let disk = FileDisk::create(&path, BlockSize::DEFAULT, 100)?;
    /// Journal::format(region, disk, &Options::new())?.close()?;
    ///
    /// std::fs::File::options().write(true).open(&path)?.set_len(200 * 4096)?;
    /// let region = MapOptions::new().open(&nvm)?;
    /// let disk = FileDisk::open(&path, BlockSize::DEFAULT)?;
    /// let journal = Journal::open(region, disk, &Options::new().resizes(true))?;
    /// journal.transact(|transaction| transaction.write(BlockNumber(199), &[7; 4096]))?;
    /// # drop(journal);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn resizes(mut self, on: bool) -> Self {
        self.settings.resizes = on;
        self
    }

    /// Open: whether everything that recovery finds is written home before open returns. Off by
    /// default: opening is fast, and the journal stays as it is.
    #[must_use]
    pub const fn drain_on_open(mut self, on: bool) -> Self {
        self.settings.drain_on_open = on;
        self
    }

    /// Whether [`Journal::close`](crate::Journal::close) leaves the blocks in the lanes instead of
    /// writing them home. Off by default.
    #[must_use]
    pub const fn keep_on_close(mut self, on: bool) -> Self {
        self.settings.keep_on_close = on;
        self
    }
}
