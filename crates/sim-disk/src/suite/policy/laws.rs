//! What a policy has to keep as a pair of pure functions, tried with random images and changes.
//!
//! The laws are those of [`journal_core::policy`]. Every case has a seed of its own, so that one
//! can be looked at again alone. What cannot be told from outside is not tried: a call that never
//! returns is not cut off.

use core::fmt;
use core::num::NonZeroU32;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use journal_core::BlockNumber;
use journal_core::policy::{
    ApplyError, Change, Class, Encoder, Kind, Patch, Placement, Policy, Span, Update,
};

use crate::media::rng::{Rng, mix};

/// A law that a policy breaks, with the case that shows it.
#[derive(Clone, Debug)]
pub struct BrokenLaw {
    /// The law.
    pub law: &'static str,
    /// What shows it, line by line.
    pub case: Vec<String>,
    /// Of this case alone.
    pub seed: u64,
}

impl core::error::Error for BrokenLaw {}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the policy breaks a law: {}", self.law)?;
        for line in &self.case {
            writeln!(f, "  {line}")?;
        }
        write!(f, "  to see this case again: suite::laws_of_case(&policy, {:#x})", self.seed)
    }
}

/// How often what was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Changes that the policy placed.
    pub changes: u64,
    /// Placed changes that the policy encoded.
    pub encoded: u64,
    /// Payloads that it may not have made.
    pub foreign: u64,
    /// Payloads applied to images that had them.
    pub repeated: u64,
}

/// Sizes of blocks, smaller ones more often.
const SIZES: [usize; 6] = [64, 64, 128, 256, 512, 4096];
/// Updates of one block, one after the other.
const CHAIN: usize = 6;
/// Payloads made up, for each case.
const FOREIGN: usize = 16;
/// Bytes around a block that nobody may touch.
const MARGIN: usize = 64;
const UNTOUCHED: u8 = 0xC9;

/// Tries `cases` cases.
pub(in crate::suite) fn laws(
    policy: &impl Policy,
    seed: u64,
    cases: u64,
) -> Result<Tried, Box<BrokenLaw>> {
    let mut tried = Tried::default();
    for case in 0..cases {
        try_case(policy, mix(seed ^ mix(case)), &mut tried)?;
    }
    Ok(tried)
}

/// Tries one case: a block that is updated a few times, and payloads that nobody has made for it.
///
/// # Errors
/// The first law that does not hold.
pub fn laws_of_case(policy: &impl Policy, seed: u64) -> Result<Tried, Box<BrokenLaw>> {
    let mut tried = Tried::default();
    try_case(policy, seed, &mut tried)?;
    Ok(tried)
}

fn try_case(policy: &impl Policy, seed: u64, tried: &mut Tried) -> Result<(), Box<BrokenLaw>> {
    let mut case = Case { policy, rng: Rng::new(seed), tried };
    case.all().map_err(|(law, case)| Box::new(BrokenLaw { law, case, seed }))
}

type Broken = (&'static str, Vec<String>);

struct Case<'a, P> {
    policy: &'a P,
    rng: Rng,
    tried: &'a mut Tried,
}

/// An update, owned.
struct Asked {
    old: Vec<u8>,
    new: Vec<u8>,
    spans: Vec<Span>,
    shape: Shape,
    shows_old: bool,
    kind: Kind,
    class: Class,
    object_bytes: Option<NonZeroU32>,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Image,
    Ranges,
    Patches,
}

/// What a policy said to an update.
#[derive(PartialEq, Eq)]
struct Said {
    placement: Placement,
    payload: Vec<u8>,
    /// What it says of a patch that is alone, and the patch.
    prefixed: Option<Vec<u8>>,
    objects: u32,
}

impl Asked {
    /// Asks, with the room for the payload filled with `fill` before.
    fn of(&self, policy: &impl Policy, fill: u8) -> Said {
        // Copies, so that no answer can hang on where they lie.
        let (old, new) = (self.old.clone(), self.new.clone());
        let patches: Vec<Patch<'_>> =
            self.spans.iter().map(|span| Patch { at: span.at, bytes: part(&new, *span) }).collect();
        let change = match self.shape {
            Shape::Image => Change::Image(&new),
            Shape::Ranges => Change::Ranges { image: &new, ranges: &self.spans },
            Shape::Patches => Change::Patches(&patches),
        };
        let mut update = Update::new(BlockNumber(7), change);
        update.old = self.shows_old.then_some(&old[..]);
        (update.kind, update.class) = (self.kind, self.class);
        update.object_bytes = self.object_bytes;
        let mut room = vec![fill; new.len()];
        let mut out = Encoder::new(&mut room);
        let placement = policy.place(&update, &mut out);
        let payload = if placement == Placement::Encoded { out.as_bytes() } else { &[] };
        let mut prefixed = None;
        if matches!(self.shape, Shape::Patches) && !patches.is_empty() {
            let pieces = patches.iter().enumerate().map(|(at, patch)| {
                let prefix = policy.prefix_of(&patches, at)?;
                Some([&prefix.word().to_le_bytes()[..prefix.bytes()], patch.bytes].concat())
            });
            prefixed = pieces.collect::<Option<Vec<_>>>().map(|pieces| pieces.concat());
        }
        let objects = policy.objects_in(&update);
        Said { placement, payload: payload.to_vec(), prefixed, objects }
    }

    fn describe(&self) -> Vec<String> {
        let spans: Vec<String> =
            self.spans.iter().map(|span| format!("{}..{}", span.at, span.end())).collect();
        let old = if self.shows_old { "shown to place" } else { "not shown to place" };
        vec![
            format!(
                "the change: {:?} of a block of {} bytes, {:?} of {:?}, objects {:?}",
                self.shape,
                self.new.len(),
                self.kind,
                self.class,
                self.object_bytes
            ),
            format!("bytes that change: {}", spans.join(", ")),
            format!("the old image ({old}): {}", hex(&self.old)),
            format!("the new image: {}", hex(&self.new)),
        ]
    }
}

fn part(image: &[u8], span: Span) -> &[u8] {
    &image[span.at as usize..span.at as usize + span.len as usize]
}

/// The whole of what is short, and the beginning of what is not.
fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let digits: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN { format!("{digits}.. ({} bytes)", bytes.len()) } else { digits }
}

/// Where two images differ first, and what is there.
fn difference(expected: &[u8], found: &[u8]) -> Vec<String> {
    let at = expected.iter().zip(found).position(|(expected, found)| expected != found);
    let at = at.unwrap_or(0);
    let around = |image: &[u8]| hex(&image[at..(at + 16).min(image.len())]);
    vec![
        format!("they differ first at byte {at}"),
        format!("expected there: {}", around(expected)),
        format!("found there:    {}", around(found)),
    ]
}

impl<P: Policy> Case<'_, P> {
    fn all(&mut self) -> Result<(), Broken> {
        let size = SIZES[self.rng.index(SIZES.len())];
        let mut images = vec![self.image(size)];
        // Payloads since the last whole image, which is the first of `images`.
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        for _ in 0..CHAIN {
            let asked = self.asked(images.last().map_or(&[], |image| image));
            self.foreign(&payloads, size)?;
            let said = self.place(&asked)?;
            self.rewrite(&asked)?;
            let new = asked.new.clone();
            match said.placement {
                Placement::Encoded => payloads.push(said.payload),
                // As if it had been logged: what comes after it builds on it.
                _ => (images, payloads) = (Vec::new(), Vec::new()),
            }
            images.push(new);
        }
        self.repeat(&images, &payloads)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.next_u64() as u8).collect()
    }

    fn image(&mut self, size: usize) -> Vec<u8> {
        match self.rng.below(3) {
            0 => vec![0; size],
            1 => vec![self.rng.next_u64() as u8; size],
            _ => self.bytes(size),
        }
    }

    /// Nothing, a few bytes here and there, whole words, or all of it.
    fn spans(&mut self, size: usize) -> Vec<Span> {
        let unit = [1, 1, 8, 16, 64][self.rng.index(5)];
        let count = [0, 1, 1, 2, 3, 8][self.rng.index(6)];
        if self.rng.chance(1, 8) {
            return vec![Span { at: 0, len: size as u32 }];
        }
        let mut edges: Vec<usize> =
            (0..2 * count).map(|_| self.rng.index(size / unit + 1) * unit).collect();
        edges.sort_unstable();
        let pairs = edges.chunks_exact(2).filter(|pair| pair[0] < pair[1]);
        pairs.map(|pair| Span { at: pair[0] as u32, len: (pair[1] - pair[0]) as u32 }).collect()
    }

    fn asked(&mut self, old: &[u8]) -> Asked {
        let (old, mut new) = (old.to_vec(), old.to_vec());
        let mut spans = self.spans(old.len());
        for span in &spans {
            let content = self.bytes(span.len as usize);
            new[span.at as usize..][..content.len()].copy_from_slice(&content);
        }
        let mut shape = [Shape::Image, Shape::Ranges, Shape::Patches][self.rng.index(3)];
        let kind = if self.rng.chance(1, 8) { Kind::Append } else { Kind::Overwrite };
        if spans.is_empty() || kind == Kind::Append {
            // An update that says itself that nothing changes is not asked about, and of what is
            // not live no part is written.
            shape = Shape::Image;
            spans = vec![Span { at: 0, len: old.len() as u32 }];
        }
        let object_bytes = NonZeroU32::new([0, 0, 8, 16, 24, 64, 5_000][self.rng.index(7)]);
        let class = if self.rng.chance(1, 4) { Class::Metadata } else { Class::Data };
        let shows_old = kind == Kind::Overwrite && self.rng.chance(3, 4);
        Asked { old, new, spans, shape, shows_old, kind, class, object_bytes }
    }

    /// One answer of `place`, and what it has to keep.
    fn place(&mut self, asked: &Asked) -> Result<Said, Broken> {
        self.tried.changes += 1;
        let with = |more: &[String]| [asked.describe(), more.to_vec()].concat();
        let said = guarded(|| asked.of(self.policy, 0))
            .map_err(|panic| ("place returns, whatever it is asked", with(&[panic])))?;
        let again = guarded(|| asked.of(self.policy, 0x5A))
            .map_err(|panic| ("place returns, whatever it is asked", with(&[panic])))?;
        if said != again {
            let more = [
                format!("first it said {:?} {}", said.placement, hex(&said.payload)),
                format!("and then {:?} {}", again.placement, hex(&again.payload)),
            ];
            return Err(("place depends on nothing but its arguments", with(&more)));
        }
        // What fits no block is not asked for.
        let fits = |prefixed: &&Vec<u8>| prefixed.len() <= asked.new.len();
        if let Some(prefixed) = said.prefixed.as_ref().filter(fits) {
            if said.placement != Placement::Encoded || said.payload != *prefixed {
                let more = [
                    format!("place said {:?} {}", said.placement, hex(&said.payload)),
                    format!("prefix_of, with the patches: {}", hex(prefixed)),
                ];
                return Err(("what prefix_of says is what place encodes", with(&more)));
            }
        }
        match said.placement {
            Placement::Encoded => {}
            Placement::Unchanged if asked.old != asked.new => {
                let more = difference(&asked.new, &asked.old);
                return Err(("what place calls unchanged has not changed", with(&more)));
            }
            Placement::Home if asked.kind == Kind::Overwrite => {
                return Err(("only appends go home before their record", with(&[])));
            }
            _ => return Ok(said),
        }
        self.tried.encoded += 1;
        let payload = format!("place encoded it as: {}", hex(&said.payload));
        let law = "apply(old, what place encoded for old -> new) is new";
        let applied = self
            .apply(&said.payload, &asked.old)
            .map_err(|(law, more)| (law, with(&[vec![payload.clone()], more].concat())))?;
        match applied {
            Ok(block) if block == asked.new => Ok(said),
            Ok(block) => {
                let more = [vec![payload], difference(&asked.new, &block)].concat();
                Err((law, with(&more)))
            }
            Err(error) => Err((law, with(&[payload, format!("apply refused it: {error}")]))),
        }
    }

    /// Applies a payload to a copy of `base` twice; the block that it gives.
    fn apply(&self, payload: &[u8], base: &[u8]) -> Result<Result<Vec<u8>, ApplyError>, Broken> {
        let mut results = Vec::new();
        let case = |more: String| {
            let payload = format!("the payload: {}", hex(payload));
            vec![payload, format!("the block ({} bytes): {}", base.len(), hex(base)), more]
        };
        for _ in 0..2 {
            let mut room = vec![UNTOUCHED; MARGIN + base.len() + MARGIN];
            room[MARGIN..MARGIN + base.len()].copy_from_slice(base);
            let payload = payload.to_vec();
            let block = &mut room[MARGIN..MARGIN + base.len()];
            let result = guarded(|| self.policy.apply(&payload, block))
                .map_err(|panic| ("apply returns, whatever it is given", case(panic)))?;
            let (before, after) = (&room[..MARGIN], &room[MARGIN + base.len()..]);
            if before.iter().chain(after).any(|byte| *byte != UNTOUCHED) {
                return Err(("apply writes nothing outside the block", case(String::new())));
            }
            results.push(result.map(|()| room[MARGIN..MARGIN + base.len()].to_vec()));
        }
        if results[0] != results[1] {
            let more = format!("once it gave {:02x?}, and then {:02x?}", results[0], results[1]);
            return Err(("apply depends on nothing but its arguments", case(more)));
        }
        Ok(results.swap_remove(0))
    }

    /// Payloads out of nowhere, and those of this block harmed, applied to blocks of any content.
    fn foreign(&mut self, payloads: &[Vec<u8>], size: usize) -> Result<(), Broken> {
        for _ in 0..FOREIGN {
            let len = self.rng.index(40);
            let mut payload = self.bytes(len);
            if let Some(made) = payloads.last().filter(|_| self.rng.chance(3, 4)) {
                payload.clone_from(made);
                for _ in 0..=self.rng.index(3) {
                    self.harm(&mut payload);
                }
            }
            let base = self.image(size);
            self.tried.foreign += 1;
            // Whatever it says is right, as long as it says something.
            let _any = self.apply(&payload, &base)?;
        }
        Ok(())
    }

    fn harm(&mut self, payload: &mut Vec<u8>) {
        let at = self.rng.index(payload.len() + 1);
        match self.rng.below(5) {
            0 => payload.truncate(at),
            1 => payload.insert(at, self.rng.next_u64() as u8),
            2 => payload.extend_from_within(at..),
            // Counts and places at their ends.
            3 => payload.iter_mut().skip(at).take(2).for_each(|byte| *byte = 0xFF),
            _ => {
                let bit = self.rng.below(8);
                if let Some(byte) = payload.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }

    /// Law 4: payloads from any one on, applied to any image that is not older.
    fn repeat(&mut self, images: &[Vec<u8>], payloads: &[Vec<u8>]) -> Result<(), Broken> {
        let Some(last) = images.last() else { return Ok(()) };
        for from in 0..payloads.len() {
            for (begin, image) in images.iter().enumerate().skip(from) {
                let mut block = image.clone();
                for payload in &payloads[from..] {
                    self.tried.repeated += 1;
                    // An error here is a wrong image too.
                    block = self.apply(payload, &block)?.unwrap_or_default();
                }
                if block != *last {
                    let mut case = vec![format!(
                        "a block went through {} images, v0 to v{}; the payloads from v{from} on, \
                         applied to v{begin}, do not give the last one",
                        images.len(),
                        images.len() - 1
                    )];
                    let of = |name, all: &[Vec<u8>]| -> Vec<String> {
                        let lines = all.iter().enumerate();
                        lines.map(|(at, bytes)| format!("{name}{at}: {}", hex(bytes))).collect()
                    };
                    case.extend(of("v", images));
                    case.extend(of("payload from v", payloads));
                    case.extend(difference(last, &block));
                    return Err(("payloads may meet an image that already has them", case));
                }
            }
        }
        Ok(())
    }

    /// A slot that holds the old image becomes the new one.
    fn rewrite(&self, asked: &Asked) -> Result<(), Broken> {
        let law = "rewrite_slot makes the newer image of the older one, in ascending ranges";
        let mut slot = asked.old.clone();
        let (mut end, mut is_good) = (0, true);
        let mut rewrite = |patch: Patch<'_>| {
            let at = patch.at as usize;
            is_good &= at >= end && at + patch.bytes.len() <= slot.len();
            end = at + patch.bytes.len();
            if is_good {
                slot[at..end].copy_from_slice(patch.bytes);
            }
        };
        let done = guarded(|| self.policy.rewrite_slot(&asked.old, &asked.new, &mut rewrite));
        done.map_err(|panic| (law, [asked.describe(), vec![panic]].concat()))?;
        if is_good && slot == asked.new {
            return Ok(());
        }
        Err((law, [asked.describe(), difference(&asked.new, &slot)].concat()))
    }
}

/// Runs the policy's code; a panic is a finding.
fn guarded<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("it panicked: {}", text.unwrap_or_else(|| "with no message".to_owned()))
    })
}
