//! The verbs of the front door: commit, read, gather, make room, write home.
//!
//! # What a commit costs
//!
//! The medium's own time is that of streaming the lines and of one fence. The rest is what a
//! processor does meanwhile, by this model. Code that obeys a rule cites it (`C4`), here, in the
//! core and in `pmem-sys`. `benches/counts` counts stores, so no change breaks a rule unnoticed.
//!
//! C1. Nothing loads wider than it was stored. Until the last fence is complete, no store has
//!     reached the cache, and a load gets what was stored only if it is no wider than the store. A
//!     wider one waits for the fence: 13 to 19 of 205 ns, where a front was copied together and
//!     loaded by lines. A lock guard returned through memory and copied by a wide load cost 40 ns.
//!     What `begin` and `commit` return, copied so, cost 40 of 430 ns. It comes in registers now.
//!     A masked load counts with all that it reaches over. What a function that is not inlined gets
//!     by reference lies in memory, so the rest of a hot path does not work with it.
//! C2. A commit makes few stores of its own. Each one queues behind those that stream. When the
//!     queue is full, at 64 to some 115 stores, the processor stands still. So few structures go by
//!     memory, no table is cleared, and rare cases are functions of their own: a call on the hot
//!     path spills six registers or more. Calls instead of one inlined function made a commit of
//!     64 bytes take 242 ns instead of 227.
//! C3. No locked instruction stands between the first line that a commit streams and its return.
//!     One waits for the fence before it and for everything that streams. What is given back is
//!     given back by plain release stores.
//! C4. Locks are taken before anything streams, and few of them: the lane, and each share once. A
//!     block is locked under its share's lock. Bytes of a lane are reserved some dozens of
//!     kilobytes at a time, for the lane's holder.
//! C5. A thread that takes a lock again and again takes it without an exchange
//!     ([`pmem_sys::StoreLock::favouring`]). The thread that wants it back pays for the fence, in
//!     every processor at once. That takes microseconds, so favour is given the later the more
//!     often it was withdrawn. No order that others rely on is weaker: they rely on what a lock
//!     acquires and releases.
//! C6. What others look at in each commit is not in the line that is written in each commit. Beside
//!     how far a lane is durable, the flag for deferred records cost its line in each commit: two
//!     threads with their own blocks and lanes were 1.4 times as fast as one, and are 1.8 times.
//! C7. Whatever need not come first is done while images stream: the memory takes 170 ns for a
//!     block. Before the first image comes only what can fail or sets the front's size. The index
//!     takes each frame in after its image, unless taking its share costs an exchange.
//! C8. What is known goes out before what is not. The check is in a front's last line, so all lines
//!     before it stream while it is computed. One fence completes them in whatever order they
//!     arrive.
//! C9. A lookup's lines are asked for early, because streaming takes the index out of the near
//!     caches, and a fetch waits behind all that streams. Entries stay where they are while the
//!     journal is open, so their addresses are known without the share's lock.
//! C10. A front is put together, checked and streamed in registers where the processor has wide
//!     ones ([`journal_core::Stitched`]). What was just stored is loaded word by word (C1), and the
//!     payload comes from where the caller has it. The medium computes the check, or each line
//!     would be put together twice.

pub(crate) mod commit;
pub(crate) mod commit_short;
pub(crate) mod gather;
pub(crate) mod lent;
pub(crate) mod read;
pub(crate) mod reserve;
pub(crate) mod room_in_turn;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod tell_durable;
pub(crate) mod upkeep;
pub(crate) mod versions;
