//! The closed form: which content a power loss may leave, as a state advanced event by event.
//!
//! What is certainly durable is folded into one image. Everything else is kept as *pieces* (at most
//! a word each) that a crash may or may not have made durable:
//!
//! - cached pieces lie in *domains* (a line, or a word under `torn8`), as a sequence of groups. A
//!   crash keeps all groups before some point, any part of the group there, nothing behind it;
//! - streamed pieces are kept or lost each by itself;
//! - disk writes are kept per atomic unit: the durable content or any version written since;
//! - files have a closed form of their own, in `files.rs`.
//!
//! Whatever is kept, the later piece of two on the same bytes wins. A flush remembers how far a
//! domain had come; the fence of the same thread folds that much.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal_core::Overwrite;
use journal_core::units::{LINE_BYTES, WORD_BYTES};

use crate::media::image::{Image, Medium, fingerprint};
use crate::media::model::{Defect, Model, Rules};
use crate::media::rng::mix;
use crate::media::tape::{Event, FlushKind, Mark, Thread};
use crate::power::files::PendingFile;

/// Part of a word, stored and not certainly durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// When it was stored.
    pub(crate) order: u64,
    /// The word's place.
    pub(crate) at: u64,
    /// Which of its bytes.
    pub(crate) mask: u8,
    /// The values of these bytes.
    pub(crate) value: [u8; WORD_BYTES],
}

impl Piece {
    pub(crate) fn overlay(&self, word: &mut [u8]) {
        for (index, byte) in word.iter_mut().enumerate() {
            if self.mask & (1 << index) != 0 {
                *byte = self.value[index];
            }
        }
    }
}

/// Pieces that become durable in no order among themselves, and all of them before the next group.
#[derive(Clone, Debug)]
pub(crate) struct PieceGroup {
    /// When its first piece was stored.
    started: u64,
    pub(crate) pieces: Vec<Piece>,
}

/// The thread whose fence completes a streamed piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Thread(Thread),
    /// Nobody's any more: since then it is as if it lay in a cache, and takes a flush.
    Nobody {
        since: u64,
    },
}

/// A range whose cached stores become durable in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domain {
    pub(crate) groups: Vec<PieceGroup>,
    /// Streamed pieces with whose fence completes them.
    pub(crate) streams: Vec<(Owner, Piece)>,
}

impl Domain {
    fn is_durable(&self) -> bool {
        self.groups.is_empty() && self.streams.is_empty()
    }

    /// Drops bytes of older pieces that a durable piece has overwritten.
    fn cover(&mut self, durable: &Piece) {
        let hide = |piece: &mut Piece| {
            if piece.at == durable.at && piece.order < durable.order {
                piece.mask &= !durable.mask;
            }
            piece.mask != 0
        };
        for group in &mut self.groups {
            group.pieces.retain_mut(hide);
        }
        self.groups.retain(|group| !group.pieces.is_empty());
        self.streams.retain_mut(|(_, piece)| hide(piece));
    }
}

/// A version of a disk unit that is not certainly durable.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) order: u64,
    pub(crate) bytes: Box<[u8]>,
    /// Whether a failed sync has hit it: then no later sync covers it.
    orphan: bool,
}

#[derive(Clone, Debug, Default)]
struct ThreadState {
    /// Domains flushed and not yet fenced, with the last store covered.
    flushed: Vec<(u64, u64)>,
    /// When the thread last ordered its stores.
    barrier: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    rules: Rules,
    durable: Arc<Image>,
    fingerprint: u128,
    domains: BTreeMap<u64, Domain>,
    units: BTreeMap<(u16, u64), Vec<Version>>,
    files: BTreeMap<u16, PendingFile>,
    threads: BTreeMap<Thread, ThreadState>,
    clock: u64,
}

impl Weather {
    pub(crate) fn new(start: &Image, rules: Rules) -> Self {
        Self {
            rules,
            fingerprint: start.fingerprint(),
            durable: Arc::new(start.clone()),
            domains: BTreeMap::new(),
            units: BTreeMap::new(),
            files: BTreeMap::new(),
            threads: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) const fn rules(&self) -> Rules {
        self.rules
    }

    pub(crate) const fn durable(&self) -> &Arc<Image> {
        &self.durable
    }

    /// The fingerprint of the durable image.
    pub(crate) const fn fingerprint(&self) -> u128 {
        self.fingerprint
    }

    pub(crate) fn domains(&self) -> impl Iterator<Item = (u64, &Domain)> {
        self.domains.iter().map(|(at, domain)| (*at, domain))
    }

    /// Disk, place on it, pending versions.
    pub(crate) fn units(&self) -> impl Iterator<Item = (u16, u64, &[Version])> {
        self.units.iter().map(|((disk, at), versions)| (*disk, *at, versions.as_slice()))
    }

    /// The files with calls that are not certainly durable.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u16, &PendingFile)> {
        self.files.iter().map(|(number, file)| (*number, file))
    }

    /// What a unit that is hit in the middle of an overwrite may hold instead.
    pub(crate) fn garbage(&self, disk: u16, at: u64, len: usize) -> Option<Vec<u8>> {
        let leaves_garbage =
            self.durable.disk(disk).facts().overwrite == Overwrite::MayLeaveGarbage;
        leaves_garbage.then(|| {
            let words = (at..).step_by(WORD_BYTES).take(len / WORD_BYTES);
            words.flat_map(|at| mix(!at).to_le_bytes()).collect()
        })
    }

    pub(crate) fn unit_bytes(&self, disk: u16) -> usize {
        if self.rules.has(Defect::DiskWritesAreAtomic) {
            return self.durable.disk(disk).block_size().bytes();
        }
        self.durable.disk(disk).unit_bytes()
    }

    /// Bytes that persist as one.
    pub(crate) fn atom_bytes(&self) -> u64 {
        match self.rules.defect {
            Some(Defect::SixteenBytesAtomic) => 16,
            Some(Defect::CallsAreAtomic) => LINE_BYTES as u64,
            _ => WORD_BYTES as u64,
        }
    }

    fn domain_bytes(&self) -> u64 {
        let by_word = self.rules.model == Model::Torn8 || self.rules.has(Defect::NoOrderInsideLine);
        if by_word { self.atom_bytes() } else { LINE_BYTES as u64 }
    }

    /// Whether every store is durable as soon as it is visible.
    pub(crate) fn caches_are_durable(&self) -> bool {
        self.rules.model == Model::Eadr && !self.rules.has(Defect::CachesAreLost)
    }

    /// Advances by one event.
    pub(crate) fn apply(&mut self, thread: Thread, event: &Event) {
        self.clock += 1;
        match event {
            Event::Store { at, bytes } => {
                self.store(thread, *at, bytes);
                if self.caches_are_durable() {
                    self.complete_everything_cached();
                }
            }
            Event::Stream { at, bytes } => self.stream(thread, *at, bytes),
            Event::Flush { line, kind } => self.flush(thread, *line, *kind),
            Event::Fence => self.fence(thread),
            Event::FenceFailed => {
                self.thread(thread).flushed.clear();
                self.abandon_streams(|owner| owner == thread);
            }
            Event::Exchange { at, value } => {
                if !self.rules.has(Defect::ExchangeIsNoFence) {
                    self.fence(thread);
                }
                self.clock += 1;
                self.store(thread, *at, &value.to_le_bytes());
                if self.caches_are_durable() {
                    self.complete_everything_cached();
                }
            }
            Event::OrderStores => {
                if !self.rules.has(Defect::BarrierOrdersNothing) {
                    self.thread(thread).barrier = self.clock;
                }
            }
            Event::DiskWrite { disk, at, bytes } => self.disk_write(*disk, *at, bytes),
            Event::DiskSync { disk } => self.disk_sync(*disk),
            Event::DiskSyncFailed { disk } => {
                if !self.rules.has(Defect::FailedSyncIsForgiven) {
                    for ((of, _), versions) in &mut self.units {
                        if of == disk {
                            versions.iter_mut().for_each(|version| version.orphan = true);
                        }
                    }
                }
            }
            Event::FileWrite { file, at, bytes } => {
                let order = self.clock;
                self.files.entry(*file).or_default().write(order, *at, bytes);
            }
            Event::FileSetLen { file, len } => {
                let order = self.clock;
                self.files.entry(*file).or_default().set_len(order, *len);
                if self.rules.has(Defect::FileLengthIsDurable) {
                    self.file_sync(*file);
                }
            }
            Event::FileSync { file } => {
                let all = self.rules.has(Defect::FileSyncCoversAllFiles);
                let files = self.files.keys().copied().filter(|known| all || known == file);
                for file in files.collect::<Vec<u16>>() {
                    self.file_sync(file);
                }
            }
            Event::FileSyncFailed { file } => {
                let forgiven = self.rules.has(Defect::FailedFileSyncIsForgiven);
                if let Some(file) = self.files.get_mut(file).filter(|_| !forgiven) {
                    file.abandon();
                }
            }
            Event::FileDropped { file } => {
                if let Some(file) = self.files.get_mut(file) {
                    file.drop_writes();
                }
            }
            Event::Mark(Mark::Killed) => self.kill(),
            Event::Mark(_) | Event::Fault(_) => {}
        }
    }

    fn thread(&mut self, thread: Thread) -> &mut ThreadState {
        self.threads.entry(thread).or_default()
    }

    fn pieces(&self, at: u64, bytes: &[u8]) -> Vec<Piece> {
        let word_bytes = WORD_BYTES as u64;
        let mut pieces: Vec<Piece> = Vec::with_capacity(bytes.len() / WORD_BYTES + 2);
        for (place, byte) in (at..).zip(bytes) {
            let word = place / word_bytes * word_bytes;
            let index = (place - word) as usize;
            if pieces.last().is_none_or(|piece| piece.at != word) {
                let order = self.clock;
                pieces.push(Piece { order, at: word, mask: 0, value: [0; WORD_BYTES] });
            }
            if let Some(piece) = pieces.last_mut() {
                piece.mask |= 1 << index;
                piece.value[index] = *byte;
            }
        }
        pieces
    }

    fn store(&mut self, thread: Thread, at: u64, bytes: &[u8]) {
        let clock = self.clock;
        let domain_bytes = self.domain_bytes();
        let barrier = self.thread(thread).barrier;
        // Stores of several calls share a group where the model lets them be reordered.
        let shares = self.rules.model == Model::Arm && !self.rules.has(Defect::StoresNeedNoBarrier);
        for piece in self.pieces(at, bytes) {
            let domain = self.domains.entry(piece.at / domain_bytes * domain_bytes).or_default();
            match domain.groups.last_mut() {
                Some(group) if group.started == clock || (shares && barrier < group.started) => {
                    group.pieces.push(piece);
                }
                _ => domain.groups.push(PieceGroup { started: clock, pieces: vec![piece] }),
            }
        }
    }

    fn stream(&mut self, thread: Thread, at: u64, bytes: &[u8]) {
        let domain_bytes = self.domain_bytes();
        for piece in self.pieces(at, bytes) {
            let place = piece.at / domain_bytes * domain_bytes;
            if self.rules.has(Defect::StreamIsDurable) {
                self.fold(place, piece);
            } else {
                self.domains.entry(place).or_default().streams.push((Owner::Thread(thread), piece));
            }
        }
    }

    fn flush(&mut self, thread: Thread, line: u64, kind: FlushKind) {
        let strong = match kind {
            FlushKind::Strong => !self.rules.has(Defect::StrongFlushIsWeak),
            FlushKind::Weak => self.rules.has(Defect::WeakFlushIsStrong),
        };
        let domains = self.domains.range(line..line + LINE_BYTES as u64);
        let touched: Vec<u64> = domains.map(|(at, _)| *at).collect();
        let covered = self.clock;
        for at in touched {
            if strong {
                self.complete(at, covered);
            } else {
                self.thread(thread).flushed.push((at, covered));
            }
        }
    }

    fn fence(&mut self, thread: Thread) {
        let all = self.rules.has(Defect::FenceCompletesAllThreads);
        let clock = self.clock;
        self.thread(thread).barrier = clock;
        let threads: Vec<Thread> =
            if all { self.threads.keys().copied().collect() } else { vec![thread] };
        for thread in &threads {
            for (at, covered) in core::mem::take(&mut self.thread(*thread).flushed) {
                let later = self.rules.has(Defect::FlushCoversLaterStores);
                self.complete(at, if later { clock } else { covered });
            }
        }
        if !self.rules.has(Defect::FenceForgetsStreams) {
            let is_mine = |owner| matches!(owner, Owner::Thread(of) if all || of == thread);
            self.complete_streams(is_mine, None);
        }
        if self.rules.has(Defect::DirtyLinesAreLost) {
            self.domains.values_mut().for_each(|domain| domain.groups.clear());
            self.drop_durable();
        }
    }

    /// Folds the cached pieces of a domain stored up to `covered`, and the streamed ones that were
    /// nobody's by then.
    fn complete(&mut self, at: u64, covered: u64) {
        self.complete_cached(at, covered);
        let is_covered = |owner| matches!(owner, Owner::Nobody { since } if since <= covered);
        self.complete_streams(is_covered, Some(at));
    }

    fn complete_cached(&mut self, at: u64, covered: u64) {
        if let Some(domain) = self.domains.get_mut(&at) {
            let mut certain = Vec::new();
            for group in &mut domain.groups {
                group.pieces.retain(|piece| {
                    let keep = piece.order > covered;
                    if !keep {
                        certain.push(*piece);
                    }
                    keep
                });
            }
            domain.groups.retain(|group| !group.pieces.is_empty());
            for piece in certain {
                self.fold(at, piece);
            }
        }
    }

    /// With durable caches. Not so for streamed pieces, not even for those that are nobody's: a
    /// fence that failed has not made them durable.
    fn complete_everything_cached(&mut self) {
        let domains: Vec<u64> = self.domains.keys().copied().collect();
        for at in domains {
            self.complete_cached(at, self.clock);
        }
        self.drop_durable();
    }

    /// Folds the streamed pieces that `which` says, in one domain or in all.
    fn complete_streams(&mut self, which: impl Fn(Owner) -> bool, only: Option<u64>) {
        let mut certain = Vec::new();
        let range = only.map_or(0..=u64::MAX, |at| at..=at);
        for (at, domain) in self.domains.range_mut(range) {
            domain.streams.retain(|(owner, piece)| {
                let keep = !which(*owner);
                if !keep {
                    certain.push((*at, *piece));
                }
                keep
            });
        }
        for (at, piece) in certain {
            self.fold(at, piece);
        }
        match only {
            // A flush of many lines comes by here once for each of them.
            Some(at) => {
                if self.domains.get(&at).is_some_and(Domain::is_durable) {
                    self.domains.remove(&at);
                }
            }
            None => self.drop_durable(),
        }
    }

    fn drop_durable(&mut self) {
        self.domains.retain(|_, domain| !domain.is_durable());
    }

    /// Makes a piece that was taken out of `domain` part of the durable image.
    fn fold(&mut self, domain: u64, piece: Piece) {
        let mut word = self.durable.part(Medium::Pmem, piece.at, WORD_BYTES);
        self.fingerprint ^= fingerprint(Medium::Pmem, piece.at, &word);
        piece.overlay(&mut word);
        self.fingerprint ^= fingerprint(Medium::Pmem, piece.at, &word);
        Arc::make_mut(&mut self.durable).patch(Medium::Pmem, piece.at, &word);
        if let Some(domain) = self.domains.get_mut(&domain) {
            domain.cover(&piece);
        }
    }

    fn disk_write(&mut self, disk: u16, at: u64, bytes: &[u8]) {
        let unit = self.unit_bytes(disk);
        for (part, at) in bytes.chunks(unit).zip((at..).step_by(unit)) {
            let version = Version { order: self.clock, bytes: part.into(), orphan: false };
            self.units.entry((disk, at)).or_default().push(version);
        }
    }

    fn disk_sync(&mut self, disk: u16) {
        if self.rules.has(Defect::SyncIsNoOp) {
            return;
        }
        let mut certain = Vec::new();
        for ((of, at), versions) in &mut self.units {
            let last = versions.iter().rposition(|version| !version.orphan);
            if let Some(last) = last.filter(|_| *of == disk) {
                certain.extend(versions.drain(..=last).next_back().map(|v| (*at, v.bytes)));
            }
        }
        self.units.retain(|_, versions| !versions.is_empty());
        for (at, bytes) in certain {
            self.fold_unit(disk, at, &bytes);
        }
    }

    fn file_sync(&mut self, number: u16) {
        if self.rules.has(Defect::FileSyncIsNoOp) {
            return;
        }
        let Some(pending) = self.files.get_mut(&number) else { return };
        if let Some(durable) = Arc::make_mut(&mut self.durable).file_mut(number) {
            self.fingerprint ^= pending.sync(number, durable);
        }
        self.files.retain(|_, pending| !pending.is_durable());
    }

    fn fold_unit(&mut self, disk: u16, at: u64, bytes: &[u8]) {
        let medium = Medium::Disk(disk);
        let old = self.durable.part(medium, at, bytes.len());
        self.fingerprint ^= fingerprint(medium, at, &old) ^ fingerprint(medium, at, bytes);
        Arc::make_mut(&mut self.durable).patch(medium, at, bytes);
    }

    /// No fence of its thread completes what was streamed.
    fn abandon_streams(&mut self, whose: impl Fn(Thread) -> bool) {
        let since = self.clock;
        for (owner, _) in self.domains.values_mut().flat_map(|domain| &mut domain.streams) {
            if matches!(owner, Owner::Thread(thread) if whose(*thread)) {
                *owner = Owner::Nobody { since };
            }
        }
    }

    /// A killed process fences nothing any more.
    fn kill(&mut self) {
        self.threads.clear();
        self.abandon_streams(|_| true);
        if self.rules.has(Defect::KillLosesCaches) {
            self.domains.clear();
            self.files.clear();
        }
        if self.rules.has(Defect::KillIsAFence) {
            let domains: Vec<u64> = self.domains.keys().copied().collect();
            for at in domains {
                self.complete(at, self.clock);
            }
        }
    }

    /// The content of the words at `places` with `pieces` on top of what is durable.
    pub(crate) fn content<'a>(
        &self,
        places: &[u64],
        pieces: impl IntoIterator<Item = &'a Piece>,
    ) -> Vec<u8> {
        let mut sorted: Vec<&Piece> = pieces.into_iter().collect();
        sorted.sort_by_key(|piece| piece.order);
        let mut content = Vec::with_capacity(places.len() * WORD_BYTES);
        for at in places {
            let mut word = self.durable.part(Medium::Pmem, *at, WORD_BYTES);
            for piece in sorted.iter().filter(|piece| piece.at == *at) {
                piece.overlay(&mut word);
            }
            content.extend(word);
        }
        content
    }

    /// Stores without letting a durable cache swallow the store: for a crash in the middle of it.
    pub(crate) fn with_store_under_way(&self, thread: Thread, event: &Event) -> Self {
        let mut middle = self.clone();
        middle.clock += 1;
        if let Event::Store { at, bytes } = event {
            middle.store(thread, *at, bytes);
        }
        middle
    }
}
