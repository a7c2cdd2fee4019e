//! Makes the seeds that fuzzing begins with: for each target a handful of inputs that do what it is
//! about, with payloads, streams and deltas that this project's own code has made.
//!
//! ```sh
//! cargo run --manifest-path fuzz/Cargo.toml --example seeds
//! cargo run --manifest-path fuzz/Cargo.toml --example seeds -- --check
//! ```
//!
//! The first writes `fuzz/seeds`, the second says whether what is there is what it would write.
//!
//! A target reads its input by `arbitrary`: fixed lengths from the front, how many bytes a slice
//! has from the back, a byte before each element of a list. That is no format to rely on: in
//! another version of that crate seeds are inputs like any other, and are to be made anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs, io};

use adaptive::{Adaptive, Medium, Wish};
use arbitrary::{Arbitrary, Unstructured};
use block_files::BlockFiles;
use byte_delta::ByteDelta;
use compressed_delta::CompressedDelta;
use journal_core::policy::{Change, Encoder, Patch, Placement, Policy, Update};
use journal_core::{BlockSize, PortableKernels};
use lab::core_crash::lives;
use lab::plain_store::{BLOCK_BYTES, Plain};
use lab::second_reader::layout::BOOK;
use lab::second_reader::tiny;
use lab::trace::writer::TraceWriter;
use lab::trace::{class, flag, tag};
use lcow::Lcow;
use object_log::{ObjectLog, Settings};
use policy_codec::bitmap::{self, Unit};
use policy_codec::{Changed, lzo, moves, runs};
use sim_disk::generate::Source;
use two_level::TwoLevel;

/// Seeds by target and name.
type Seeds = BTreeMap<(&'static str, &'static str), Vec<u8>>;

/// An input, as `arbitrary` reads it.
#[derive(Default)]
struct Input {
    front: Vec<u8>,
    /// Where in the front each slice begins, and how many bytes it has.
    slices: Vec<(usize, usize)>,
}

impl Input {
    fn u8(mut self, value: u8) -> Self {
        self.front.push(value);
        self
    }

    fn bool(self, value: bool) -> Self {
        self.u8(value.into())
    }

    fn u16(mut self, value: u16) -> Self {
        self.front.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.front.extend(value.to_le_bytes());
        self
    }

    /// One of the `count` variants of an enumeration.
    fn variant(mut self, index: u64, count: u64) -> Self {
        let value = (index << 32).div_ceil(count) as u32;
        self.front.extend(value.to_le_bytes());
        self
    }

    /// A slice that is not the last field.
    fn slice(mut self, bytes: &[u8]) -> Self {
        self.slices.push((self.front.len(), bytes.len()));
        self.rest(bytes)
    }

    /// A slice that is the last field.
    fn rest(mut self, bytes: &[u8]) -> Self {
        self.front.extend(bytes);
        self
    }

    fn list<T>(self, items: &[T], put: impl Fn(Self, &T) -> Self) -> Self {
        items.iter().fold(self, |input, item| put(input.bool(true), item)).bool(false)
    }

    fn bytes(self) -> Vec<u8> {
        let Self { front, slices } = self;
        // How long a length is depends on how much is left, and that on the lengths.
        let mut widths = vec![1; slices.len()];
        loop {
            let total = front.len() + widths.iter().sum::<usize>();
            let mut taken = 0;
            let needed = slices.iter().zip(&widths).map(|((at, _), width)| {
                let left = total - at - taken;
                taken += width;
                if left <= 256 { 1 } else { 2 }
            });
            let needed: Vec<_> = needed.collect();
            if needed == widths {
                break;
            }
            widths = needed;
        }
        let mut bytes = front;
        for ((_, len), width) in slices.iter().zip(widths).rev() {
            bytes.extend(&(*len as u16).to_be_bytes()[2 - width..]);
        }
        bytes
    }
}

/// What the targets' inputs are made of.
#[derive(Arbitrary, Debug, PartialEq)]
struct Probe<'a> {
    first: u16,
    slice: &'a [u8],
    list: Vec<(u16, u8)>,
    pick: Pick<'a>,
    rest: &'a [u8],
}

#[derive(Arbitrary, Debug, PartialEq)]
enum Pick<'a> {
    Nothing,
    Number { value: u64 },
    Slice(&'a [u8]),
}

/// Inputs are read as they were meant.
fn try_it() {
    for len in [0, 1, 100, 250, 300, 600] {
        let (slice, other) = (vec![3; len], vec![4; len / 2]);
        let input = Input::default().u16(7).slice(&slice);
        let input = input.list(&[(1, 2), (3, 4)], |input, (at, by)| input.u16(*at).u8(*by));
        let bytes = input.variant(2, 3).slice(&other).rest(b"rest").bytes();
        let read = Probe::arbitrary_take_rest(Unstructured::new(&bytes)).expect("can be read");
        let (list, pick) = (vec![(1, 2), (3, 4)], Pick::Slice(&other));
        assert_eq!(read, Probe { first: 7, slice: &slice, list, pick, rest: b"rest" });
        let bytes = Input::default().u16(7).slice(b"").bool(false).variant(1, 3).u64(9).bytes();
        let read = Probe::arbitrary_take_rest(Unstructured::new(&bytes)).expect("can be read");
        assert_eq!(read.pick, Pick::Number { value: 9 });
    }
}

/// What a policy logs of an update.
fn placed(policy: &impl Policy, old: &[u8], new: &[u8]) -> Vec<u8> {
    logged(policy, old, Change::Image(new))
}

fn logged(policy: &impl Policy, old: &[u8], change: Change<'_>) -> Vec<u8> {
    let mut update = Update::new(journal_core::BlockNumber(3), change);
    update.old = Some(old);
    let mut room = vec![0; old.len()];
    let mut out = Encoder::new(&mut room);
    assert_eq!(policy.place(&update, &mut out), Placement::Encoded, "changes little");
    out.as_bytes().to_vec()
}

fn apply(seeds: &mut Seeds) {
    const WRITES: [(u16, u8, u8); 2] = [(5, 3, 9), (200, 8, 1)];
    // As the target makes it.
    let old: Vec<u8> = (0..256).map(|at| (at / 64) as u8).collect();
    let mut new = old.clone();
    for (at, len, byte) in WRITES {
        new[usize::from(at)..][..len.into()].fill(byte);
    }
    let seed = |policy: &dyn Fn(Input) -> Input, ranges: bool, payload: &[u8]| {
        let input = policy(Input::default().u8(2)).u16(16);
        let input = input.list(&WRITES, |input, (at, len, byte)| input.u16(*at).u8(*len).u8(*byte));
        input.bool(true).bool(ranges).bool(false).bool(false).rest(payload).bytes()
    };
    // Without the check of the image before it, which the target puts in.
    let cut = |payload: &[u8]| [&payload[..1], &payload[5..]].concat();
    let mut put = |name, bytes| drop(seeds.insert(("apply", name), bytes));
    put("full-block", seed(&|input| input.variant(0, 7), false, b"nothing"));
    let policy = ObjectLog::with(Settings::new().object_bytes(16).whole_at(200));
    let payload = placed(&policy.expect("settings that can be"), &old, &new);
    put("object-log", seed(&|input| input.variant(1, 7).u16(16).u8(200), true, &payload));
    for (moves, name, whole) in [
        (false, "compressed-delta", "compressed-delta-of-any"),
        (true, "compressed-delta-moves", "compressed-delta-moves-of-any"),
    ] {
        let settings = compressed_delta::Settings::new().moves(moves);
        let payload = placed(&CompressedDelta::with(settings), &old, &new);
        let which = |input: Input| input.variant(2, 7).bool(moves);
        put(whole, seed(&which, false, &payload));
        put(name, seed(&which, false, &cut(&payload)));
    }
    let policy = TwoLevel::with(two_level::Settings::new().few_units(200));
    // One of its sub-blocks.
    let half = [&new[..128], &old[128..]].concat();
    let payload = placed(&policy, &old, &half);
    put("two-level", seed(&|input| input.variant(3, 7).u8(200), true, &payload));
    for (for_wear, name) in [(false, "adaptive-speed"), (true, "adaptive-wear")] {
        let wish = if for_wear { Wish::Wear } else { Wish::Speed };
        let settings = adaptive::Settings::new().wish(wish).medium(Medium::PCM);
        let payload = placed(&Adaptive::with(settings), &old, &new);
        put(name, seed(&|input| input.variant(4, 7).bool(for_wear), false, &payload));
    }
    // They take no more than patches into the record, as runs.
    let patches = WRITES
        .map(|(at, len, _)| Patch { at: at.into(), bytes: &new[usize::from(at)..][..len.into()] });
    let payload = logged(&ByteDelta::new(), &old, Change::Patches(&patches));
    put("byte-delta", seed(&|input| input.variant(5, 7).bool(true), true, &payload));
    let payload = logged(&Lcow::new(), &old, Change::Patches(&patches));
    put("lcow", seed(&|input| input.variant(6, 7), false, &payload));
}

fn bitmap(seeds: &mut Seeds) {
    const WRITES: [(u16, u8); 3] = [(3, 7), (70, 7), (71, 8)];
    let old: Vec<u8> = (0..48).collect();
    let whole = old.repeat(3);
    let mut new = whole.clone();
    for (at, byte) in WRITES {
        new[usize::from(at)] = byte;
    }
    let changed = Changed::between(&PortableKernels, &whole, &new).expect("of one length");
    let unit = Unit::new(16).expect("a power of two");
    let mut bits = vec![0; bitmap::bound(&changed, unit)];
    let len = bitmap::encode(&changed, unit, &new, &mut bits).expect("the bound");
    bits.truncate(len);
    let mut run = vec![0; runs::bound(&changed)];
    let len = runs::encode(&changed, Some(&whole), &new, &mut run).expect("the bound");
    run.truncate(len);
    let seed = |marks: &[(u16, u8)], payload: &[u8]| {
        let pairs = |input: Input, pairs: &[(u16, u8)]| {
            input.list(pairs, |input, (at, byte)| input.u16(*at).u8(*byte))
        };
        let input = Input::default().u8(1).slice(&old).u8(2);
        pairs(pairs(input, &WRITES), marks).rest(payload).bytes()
    };
    seeds.insert(("bitmap", "units"), seed(&[], &bits));
    seeds.insert(("bitmap", "runs"), seed(&[(100, 9)], &run));
    seeds.insert(("bitmap", "nothing"), seed(&[], b""));
}

fn encoder(seeds: &mut Seeds) {
    let put = |input: Input, bytes: &[u8]| input.bool(true).variant(0, 3).slice(bytes);
    let with = |input: Input, count, says| input.bool(true).variant(1, 3).u8(count).u8(says);
    let clear = |input: Input| input.bool(true).variant(2, 3);
    let all = put(with(put(Input::default().u8(40), b"bytes"), 9, 9), b"more");
    seeds.insert(("encoder", "fits"), all.bytes());
    let full = put(clear(put(put(Input::default().u8(8), b"12345"), b"6789")), b"12345678");
    seeds.insert(("encoder", "full"), full.bytes());
    seeds
        .insert(("encoder", "refused"), with(with(Input::default().u8(16), 3, 250), 2, 17).bytes());
}

/// Bytes that repeat, with changes.
fn text() -> Vec<u8> {
    let lines = (0..12_u8).map(|line| [b"a line of text, ".to_vec(), vec![line; 3]].concat());
    lines.flatten().collect()
}

fn lzo(seeds: &mut Seeds) {
    let text = text();
    let mut stream = vec![0; lzo::bound(text.len())];
    let len = lzo::encode(&text, &mut lzo::LzoTable::new(), &mut stream).expect("the bound");
    let of = |stream: &[u8], room: usize| {
        Input::default().variant(0, 2).slice(stream).u16(room as u16).bytes()
    };
    seeds.insert(("lzo", "stream"), of(&stream[..len], text.len()));
    seeds.insert(("lzo", "stream-cut"), of(&stream[..len / 2], text.len()));
    let bytes =
        |bytes: &[u8], again| Input::default().variant(1, 2).slice(bytes).u8(again).u16(20).bytes();
    seeds.insert(("lzo", "text"), bytes(&text, 0));
    seeds.insert(("lzo", "zeroes"), bytes(&[0; 16], 39));
}

fn moves(seeds: &mut Seeds) {
    let old = text();
    let mut new = old.clone();
    drop(new.splice(20..20, *b"inserted"));
    new.truncate(old.len());
    let mut delta = vec![0; moves::bound(new.len())];
    let table = &mut moves::MovesTable::new();
    let len = moves::encode(&old, &new, table, &mut delta).expect("the bound");
    let of = |delta: &[u8]| Input::default().variant(0, 2).slice(delta).slice(&old).u8(0).bytes();
    seeds.insert(("moves", "delta"), of(&delta[..len]));
    seeds.insert(("moves", "delta-cut"), of(&delta[..len / 2]));
    let edits = |again, edit: &dyn Fn(Input) -> Input| {
        let input = Input::default().variant(1, 2).slice(&old).u8(again);
        edit(input).bool(false).u16(30).bytes()
    };
    let insert = |input: Input| input.bool(true).variant(1, 4).u16(20).slice(b"inserted");
    seeds.insert(("moves", "insert"), edits(0, &insert));
    let remove = |input: Input| input.bool(true).variant(2, 4).u16(40).u8(19);
    seeds.insert(("moves", "remove"), edits(3, &remove));
    let shift = |input: Input| input.bool(true).variant(3, 4).u16(0).u16(100).u8(57);
    let write = |input: Input| input.bool(true).variant(0, 4).u16(9).slice(b"written");
    seeds.insert(("moves", "move-and-write"), edits(1, &|input| write(shift(input))));
}

fn crash_images(seeds: &mut Seeds) {
    // The model, where to begin, a seed, and what the disks are like.
    let begin = |model| Input::default().u8(model).u8(0).u64(1).u8(1).u8(10);
    let step = |input: Input, thread, kind| input.bool(true).bool(thread).variant(kind, 10);
    let store = |input, at| step(input, false, 0).u8(at).u8(24).u8(at);
    let stream = |input, at| step(input, false, 1).u8(at).u8(64).u8(at);
    let flush = |input, line| step(input, false, 2).u8(line).bool(true);
    let fence = |input, fails| step(input, false, 3).bool(fails);
    let write = |input, block| step(input, false, 6).bool(false).u8(block).u8(1).u8(block);
    let sync = |input, fails| step(input, false, 7).bool(false).bool(fails);
    let kill = |input| step(input, false, 9);
    let mut put = |name, input: Input| drop(seeds.insert(("crash_images", name), input.bytes()));
    put("committed", fence(flush(store(store(begin(0), 0), 60), 0), false));
    put("streamed", fence(stream(stream(begin(1), 0), 64), false));
    put("torn-write", sync(write(write(begin(0), 0), 1), false));
    put("failed-sync", write(sync(write(begin(1), 2), true), 2));
    put("killed", fence(flush(kill(store(begin(2), 8)), 0), false));
    let exchange = step(store(begin(3), 0), true, 4).u8(0).u64(7);
    put("two-threads", fence(step(exchange, true, 2).u8(0).bool(false), true));
}

fn medium(seeds: &mut Seeds) {
    let end = |input: Input, sealed, poisoned: &[u8], longer_by: u8| {
        let input = input.bool(false).variant(sealed, 3);
        input.list(poisoned, |input, line| input.u8(*line)).u8(longer_by).bytes()
    };
    let number = |sample, target, value| {
        Input::default().u8(sample).bool(true).variant(0, 4).u16(target).u64(value)
    };
    let mut put = |name, bytes| drop(seeds.insert(("medium", name), bytes));
    put("as-it-is", end(Input::default().u8(0), 0, &[], 0));
    put("another-number", end(number(1, 3, 0), 1, &[], 0));
    put("a-number-that-is-wrong", end(number(2, 9, u64::MAX), 0, &[], 0));
    let step = Input::default().u8(3).bool(true).variant(1, 4).u16(5).u8(1);
    put("one-more", end(step, 1, &[], 0));
    let bytes = Input::default().u8(4).bool(true).variant(2, 4).u16(600).slice(&[0xFF; 24]);
    put("bytes", end(bytes, 0, &[], 0));
    let bytes = Input::default().u8(4).bool(true).variant(2, 4).u16(900).slice(&[0x21; 8]);
    put("bytes-with-every-check-right", end(bytes, 2, &[], 0));
    let line = Input::default().u8(5).bool(true).variant(3, 4).u8(12).u8(13);
    put("a-line-of-another", end(line, 0, &[], 0));
    // A folded block is gone with its entry, and the others are of another journal.
    let name = BOOK.head.fields.iter().position(|field| field.name == "journal_id");
    let line = Input::default().u8(13).bool(true).variant(3, 4).u8(44).u8(43);
    let renamed = line.bool(true).variant(0, 4).u16(name.expect("a field") as u16).u64(7);
    put("another-name-with-every-check-right", end(renamed, 2, &[], 0));
    put("poisoned-and-short", end(Input::default().u8(6), 0, &[9], 0xFF));
}

fn pmem_lines(seeds: &mut Seeds) {
    let input = |at: u64, len: u64, from_top, unit| {
        Input::default().u64(at).u64(len).bool(from_top).u8(unit).bytes()
    };
    seeds.insert(("pmem_lines", "a-line"), input(64, 64, false, 6));
    seeds.insert(("pmem_lines", "over-an-edge"), input(60, 8, false, 12));
    seeds.insert(("pmem_lines", "nothing"), input(100, 0, false, 6));
    seeds.insert(("pmem_lines", "at-the-top"), input(10, 100, true, 3));
}

fn span(seeds: &mut Seeds) {
    const NAMES: [&str; 4] = ["records", "shield-and-tail-word", "slots", "log"];
    for (number, (name, span)) in (0..).zip(NAMES.into_iter().zip(tiny::spans())) {
        let input = |sealed| Input::default().u8(number).bool(sealed);
        seeds.insert(("span", name), input(false).rest(&span).bytes());
        if number == 0 {
            // A number that only its checks let pass.
            let mut span = span;
            span[96] ^= 1;
            seeds.insert(("span", "another-floor"), input(true).rest(&span).bytes());
        }
    }
}

fn files(seeds: &mut Seeds) {
    let store = Arc::new(Plain::new(vec![0; 7 * BLOCK_BYTES]));
    let files = BlockFiles::format(Arc::clone(&store) as Arc<_>).expect("blocks enough");
    let (a, b) = (files.create("a").expect("room"), files.create("b").expect("room"));
    a.write_at(200, b"bytes").expect("room");
    b.write_at(0, b"more").expect("room");
    let bytes = store.bytes();
    let input = |sealed| Input::default().bool(sealed);
    seeds.insert(("files", "two-files"), input(false).rest(&bytes).bytes());
    // The first file's head names the second one as its next node: only its checksum lets it pass.
    let mut forged = bytes.clone();
    forged[2 * BLOCK_BYTES + 24] = 3;
    seeds.insert(("files", "a-node-of-another"), input(true).rest(&forged).bytes());
    files.remove("a").expect("it is there");
    seeds.insert(("files", "removed"), input(true).rest(&store.bytes()).bytes());
}

fn lives(seeds: &mut Seeds) {
    const NAMES: [&str; lives::KINDS.len()] = [
        "full-block",
        "words",
        "object-log",
        "byte-delta",
        "lcow",
        "words-logged",
        "compressed-delta",
        "two-level",
        "adaptive",
        "mixed",
    ];
    for (kind, name) in (0..).zip(NAMES) {
        // Lives of that policy, as a test makes them: the first choice says which it is.
        let lived = (1..).map(|seed| {
            let mut source = Source::random(seed);
            lives::long_life(&mut source).expect("the test holds");
            source.into_choices()
        });
        let choices = lived.into_iter().find(|choices| choices.first() == Some(&kind));
        let bytes = choices.expect("of all there are some").into_iter();
        let bytes = bytes.map(|choice| u8::try_from(choice).unwrap_or(u8::MAX)).collect();
        seeds.insert(("lives", name), bytes);
    }
}

fn traces(seeds: &mut Seeds) {
    let images = [1, 2].map(|byte| [byte; 64]);
    let mut writer = TraceWriter::new("seed", BlockSize::MIN, 9);
    writer.base(1, Some(&images[0]));
    writer.base(4, None);
    writer.begin(3);
    writer.write(4, class::FILE_DATA, flag::NEW | flag::NEW_IN_TRACE, &images[0]);
    writer.write(1, class::INODES, 0, &images[1]);
    writer.commit(3);
    writer.begin(9);
    writer.write(1, class::INODES, flag::SAME, &images[1]);
    writer.commit(9);
    let open = writer.content.clone();
    writer.end();
    let content = |ended, bytes: &[u8]| Input::default().variant(1, 2).bool(ended).rest(bytes);
    let mut put = |name, input: Input| drop(seeds.insert(("trace", name), input.bytes()));
    put("content", content(false, &writer.content));
    put("content-that-is-ended", content(true, &open));
    put("a-transaction-in-another", content(true, &[&open[..], &[tag::BEGIN; 18]].concat()));
    let file = writer.into_file();
    put("file", Input::default().variant(0, 2).rest(&file));
    put("file-cut", Input::default().variant(0, 2).rest(&file[..file.len() / 2]));
}

fn main() -> io::Result<ExitCode> {
    try_it();
    let mut seeds = Seeds::new();
    let decoders = [apply, bitmap, encoder, lzo, moves, traces];
    let media = [crash_images, files, lives, medium, pmem_lines, span];
    decoders.into_iter().chain(media).for_each(|make| make(&mut seeds));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let path = |(target, name): &(&str, &str)| folder.join(target).join(name);
    if env::args().any(|argument| argument == "--check") {
        let as_made = |key, bytes: &Vec<u8>| fs::read(path(key)).is_ok_and(|is| is == *bytes);
        let wrong = seeds.iter().filter(|(key, bytes)| !as_made(key, bytes));
        let wrong: Vec<_> = wrong.map(|(key, _)| path(key)).collect();
        wrong.iter().for_each(|path| eprintln!("{} is not what would be made", path.display()));
        return Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    for (key, bytes) in &seeds {
        fs::create_dir_all(folder.join(key.0))?;
        fs::write(path(key), bytes)?;
    }
    let bytes: usize = seeds.values().map(Vec::len).sum();
    println!("{} seeds, {bytes} bytes, in {}", seeds.len(), folder.display());
    Ok(ExitCode::SUCCESS)
}
