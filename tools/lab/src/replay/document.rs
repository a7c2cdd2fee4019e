//! The page of results.

use core::fmt::Write as _;

use crate::replay::papers::papers;
use crate::replay::run::Room;
use crate::replay::table::{Section, grouped};

const PREFACE: &str = "\
What each policy makes of real sequences of block updates: SQLite's pages, and what ext4 (Linux
6.18) commits to its journal. One owner commits each transaction of a trace with one fence, into
one lane; the figures are counted from what goes out to the media, not measured, so that they are
the same on every machine. Nothing here is a time.

- *NVM bytes* are what commits write: records and slots. A record consists of *payload* (images and
  encoded changes), *headers* (record, names, frames, checks) and *padding* to the ends of lines.
  *Slot bytes* are versions in slots: *whole* ones, and what was *rewritten* of older ones.
- The *bound* is what the policy's idea of a change comes to, computed from the images of the trace
  without asking the policy. It *holds* where the NVM bytes are at most a tenth above it, with 24
  bytes a frame and 128 bytes a record besides. Memory is written in *lines* of 64 bytes: whether
  64 bytes for each line that is flushed are within that too is said, and not asked for. *Bound in
  lines* are those of them that cannot be left out.
- The bound of byte-delta is, for a block of which two versions lie in NVM, the 8-byte words that
  differ from the one before the newest; the block otherwise; nothing for what goes home.
- The bound of two-level is, for a block, 4 bytes and 128 for each sub-block that changes; for data
  of which more than half of them do, nothing but a block of the log. That of compressed-delta is
  the smallest of byte runs, bitmap with words, and compressed XOR, where less than a quarter of the
  bits differ or more than three; a block of the log otherwise. That of *adaptive, wear* is the
  smallest of byte runs, compressed XOR, and copies from the old image (*moves*). How short a
  compressed XOR or a delta of moves can be, the coders say, called with the images alone. No
  policy may write more blocks to the log than its bound has.
- *image*, *encoded*, *slot*, *home*, *log*, *unchanged*: the share of updates that was logged as a
  whole image, as something shorter, as a version in a slot, as an append that was synced at home
  before the record, as a block of the disk-side log; or not logged because the block holds that
  already.
- *runs* to *moves* count the forms of deltas, and *mean bytes* are theirs without the 9 bytes that
  say which images they lead between.
- *updates* in front of *byte runs* are those that change something, appends left out; behind it
  stands, for each coder, the mean of what it makes of them, headers apart and at most the block,
  and what was *logged*.
- *byte-delta* sends appends home, *all in slots* logs them as well (the paper's all-journal).
  *Whole slots* are the same without the idea: each version is written whole.
- A policy makes room when so much of its lane or of its slots is in use as it says, three quarters
  where it says nothing, and everything goes home when the trace has ended. Without slots a lane is
  *reclaimed* by copying, and written home when that is not enough. With slots, rings are *folded*,
  older versions *collected* when that is not enough, and then everything goes home in a
  *checkpoint*. lcow writes home only what rings hold, and *evicts* from slots by batches.
- Where a policy has the disk-side log, folding and collecting come first too; then segments of the
  log are *cleaned*, if it is the log that is short, and then what the ring would have to keep goes
  home in a *ring checkpoint*. *block journal* is what one on the disk would write: the images, a
  descriptor for each 254 of them and a commit for each transaction. What goes home is not in it.
- The disk is one that may tear an overwrite. *At the end* says how much of what went to the disk
  did so when the trace had ended; *appended* what did before its record.
- *upkeep* is everything else that is written to NVM: superblocks, copies within the lane, and
  images that shield a block while it is overwritten; *entries* of slots, written and *voided*,
  stand beside it. Fences are those of all three.
- *us* are no measurement either, but one figure for all the counts: what they take on a medium and
  a disk that the model says (`tools/lab/src/replay/times.rs`). A line takes 3 ns and a fence 165 ns
  where persistent memory is as fast as DRAM, which was measured; 100 ns and 500 ns on PCM, which is
  chosen. So is the disk: 20 us for a write, 2 us for each block of it, 100 us for a sync. Coding
  takes what the adaptive policy's model says. *alone* is without the disk. *best* is the best of
  the policies that are fixed, those in whole slots left out. *Keeps up* says whether the adaptive
  policy for that medium takes at most 5 % longer than it.
- Crashes are simulated: a few transactions of the trace in short lanes with few slots, a power loss
  somewhere in the last of them or behind it, and every block of the trace compared. *Kept* and
  *lost* is the transaction that was under way. The last table says *before* what the power went.
";

/// The document.
pub fn document(sections: &[Section], command: &str, room: &Room) -> String {
    let mut text = format!("# Results\n\nMade by\n\n```sh\n{command}\n```\n\n{PREFACE}");
    let Room { lane_bytes, slot_share, log_blocks, segment_blocks } = *room;
    let lane_bytes = grouped(lane_bytes);
    writeln!(text, "- The lane has {lane_bytes} bytes. Where a policy needs slots, they and their")
        .expect("room in memory");
    writeln!(text, "  entries are {slot_share}/256 of that, and the ring the rest. The disk-side")
        .expect("room in memory");
    writeln!(text, "  log has {log_blocks} blocks in segments of {segment_blocks}, of which the")
        .expect("room in memory");
    writeln!(text, "  lane has the entries.\n").expect("room in memory");
    text += "## Beside the papers\n\n";
    text += &papers(sections);
    for section in sections {
        text += "\n";
        text += &section.markdown();
    }
    text
}
