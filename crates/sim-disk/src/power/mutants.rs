//! Mutants: deliberate bugs in the order of persistence, made and taken back at run time.
//!
//! The code under test sends its ordered calls through a [`Mutator`] (a [`Hook`]). The mutator
//! keeps the table of sites that were reached, and can make one site misbehave in one way. [`hunt`]
//! does that for every declared site and every way that applies, and wants some scenario to fail
//! each time. A mutant that survives means that a test is missing. So does a site that no scenario
//! reaches, or one that no mutant touches.

use core::{fmt, mem};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal_core::units::{BlockNumber, LINE_BYTES, Offset};
use journal_core::{BlockDevice, DeviceError, Hook, MediumError, Pmem, Rule, Site, SiteKind};

use crate::media::world::{Calling, calling};
use crate::power::explore::{Explorer, Scenario};
use crate::power::report::Failure;

/// A way to get a persist site wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mutation {
    /// Stored lines are not flushed (streamed ones are merely stored).
    DropFlush,
    /// The last line of a range is not flushed.
    ShortenRange,
    /// The call happens after the persist point that should follow it.
    SwapAcross,
    /// The fence is left out.
    DropFence,
    /// The fence is only one to the compiler.
    WeakenFence,
    /// The disk is not synced.
    DropSync,
    /// Nothing is stored.
    DropStore,
}

impl Mutation {
    /// All mutations.
    pub const ALL: [Self; 7] = [
        Self::DropFlush,
        Self::ShortenRange,
        Self::SwapAcross,
        Self::DropFence,
        Self::WeakenFence,
        Self::DropSync,
        Self::DropStore,
    ];

    /// Whether a site of this kind can be got wrong in this way.
    #[must_use]
    pub const fn applies_to(self, kind: SiteKind) -> bool {
        match self {
            Self::DropFlush | Self::ShortenRange => {
                matches!(kind, SiteKind::Flush | SiteKind::Stream | SiteKind::Write)
            }
            Self::SwapAcross => !matches!(kind, SiteKind::Fence | SiteKind::DiskSync),
            Self::DropFence | Self::WeakenFence => matches!(kind, SiteKind::Fence),
            Self::DropSync => matches!(kind, SiteKind::DiskSync),
            Self::DropStore => matches!(kind, SiteKind::Store),
        }
    }
}

/// A site got wrong in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mutant {
    /// Where.
    pub site: Site,
    /// How.
    pub mutation: Mutation,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.mutation, self.site.name)
    }
}

#[derive(Debug, Default)]
struct Table {
    reached: BTreeMap<Site, u64>,
    /// Sites at which some call had a range that [`Mutation::ShortenRange`] changes.
    shortened: BTreeSet<Site>,
    active: Option<Mutant>,
    broken: Vec<Rule>,
    fired: u64,
}

/// The hook that counts sites and makes one of them misbehave. Clones share one table.
#[derive(Clone, Debug, Default)]
pub struct Mutator {
    table: Arc<Mutex<Table>>,
}

impl Mutator {
    /// A mutator that only counts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A mutator that makes one site misbehave.
    #[must_use]
    pub fn with(mutant: Mutant) -> Self {
        let mutator = Self::new();
        mutator.lock().active = Some(mutant);
        mutator
    }

    /// A mutator that makes the protocol break these rules.
    #[must_use]
    pub fn without(rules: &[Rule]) -> Self {
        let mutator = Self::new();
        mutator.lock().broken = rules.to_vec();
        mutator
    }

    /// Which sites were reached, and how often.
    #[must_use]
    pub fn reached(&self) -> BTreeMap<Site, u64> {
        self.lock().reached.clone()
    }

    /// How often the active mutant changed a call.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.lock().fired
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `site` is reached; says how to get it wrong, if it is to be.
    fn visit(&self, site: Site) -> Option<Mutation> {
        let mut table = self.lock();
        *table.reached.entry(site).or_default() += 1;
        table.active.filter(|mutant| mutant.site == site).map(|mutant| mutant.mutation)
    }

    /// Like [`visit`](Self::visit), of a call with a range. Also says what is left of the range
    /// when it is shortened, if it can be.
    fn visit_range(&self, site: Site, at: Offset, len: usize) -> (Option<Mutation>, Option<usize>) {
        let (mutation, shorter) = (self.visit(site), without_last_line(at, len));
        if shorter.is_some() {
            self.lock().shortened.insert(site);
        }
        (mutation, shorter)
    }

    /// What the calls since the last such question had in common with those that a mutant changes.
    fn take_reach(&self) -> WithinReach {
        let mut table = self.lock();
        let (sites, shortened) = (mem::take(&mut table.reached), mem::take(&mut table.shortened));
        WithinReach { sites, shortened }
    }

    fn fire(&self) {
        self.lock().fired += 1;
    }

    /// A store, which may be left out.
    fn pass_store(&self, site: Site, store: impl FnOnce()) {
        let mutation = self.visit(site);
        if mutation == Some(Mutation::DropStore) {
            return self.fire();
        }
        self.call_or_late(site, mutation, store);
    }

    /// A call that can only be got wrong by its place in the order.
    fn pass<R>(&self, site: Site, call: impl FnOnce() -> R) -> R {
        let mutation = self.visit(site);
        self.call_or_late(site, mutation, call)
    }

    fn call_or_late<R>(
        &self,
        site: Site,
        mutation: Option<Mutation>,
        call: impl FnOnce() -> R,
    ) -> R {
        let late = mutation == Some(Mutation::SwapAcross);
        if late {
            self.fire();
        }
        calling(Calling { site: Some(site.name), late, weak: false }, call)
    }
}

/// All of a range but its last line, where it has more than one.
fn without_last_line(at: Offset, len: usize) -> Option<usize> {
    let line = LINE_BYTES as u64;
    let last_line = (at.raw() + len.checked_sub(1)? as u64) / line * line;
    usize::try_from(last_line.checked_sub(at.raw())?).ok().filter(|shorter| *shorter > 0)
}

impl Hook for Mutator {
    fn keeps(&self, rule: Rule) -> bool {
        !self.lock().broken.contains(&rule)
    }

    fn store<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.pass_store(site, || pmem.store(at, bytes));
    }

    fn store_u64<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, value: u64) {
        self.pass_store(site, || pmem.store_u64(at, value));
    }

    fn flush<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, len: usize) {
        let mut flush = |len, late| {
            calling(Calling { site: Some(site.name), late, weak: false }, || pmem.flush(at, len));
        };
        match self.visit_range(site, at, len) {
            (Some(Mutation::DropFlush), _) => self.fire(),
            (Some(Mutation::SwapAcross), _) => {
                self.fire();
                flush(len, true);
            }
            (Some(Mutation::ShortenRange), Some(shorter)) => {
                self.fire();
                flush(shorter, false);
            }
            _ => flush(len, false),
        }
    }

    fn stream<P: Pmem>(&mut self, site: Site, pmem: &mut P, at: Offset, bytes: &[u8]) {
        self.put(site, pmem, at, bytes, |pmem, at, bytes| pmem.stream(at, bytes));
    }

    fn stitches(&self) -> bool {
        true
    }

    fn write_piece<P: Pmem>(
        &mut self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        whole_bytes: u64,
    ) {
        self.put(site, pmem, at, bytes, |pmem, at, bytes| {
            journal_core::NoHook.write_piece(site, pmem, at, bytes, whole_bytes);
        });
    }

    fn fence<P: Pmem>(&mut self, site: Site, pmem: &mut P) -> Result<(), MediumError> {
        let mutation = self.visit(site);
        let weak = mutation == Some(Mutation::WeakenFence);
        if weak || mutation == Some(Mutation::DropFence) {
            self.fire();
        }
        if mutation == Some(Mutation::DropFence) {
            return Ok(());
        }
        calling(Calling { site: Some(site.name), late: false, weak }, || pmem.fence())
    }

    fn disk_write<D: BlockDevice>(
        &mut self,
        site: Site,
        device: &mut D,
        first: BlockNumber,
        from: &[&[u8]],
    ) -> Result<(), DeviceError> {
        self.pass(site, || device.write_vectored(first, from))
    }

    fn disk_sync<D: BlockDevice>(&mut self, site: Site, device: &mut D) -> Result<(), DeviceError> {
        if self.visit(site) == Some(Mutation::DropSync) {
            self.fire();
            return Ok(());
        }
        calling(Calling { site: Some(site.name), ..Calling::default() }, || device.sync())
    }
}

impl Mutator {
    /// A call that stores and puts in flight at once.
    fn put<P: Pmem>(
        &self,
        site: Site,
        pmem: &mut P,
        at: Offset,
        bytes: &[u8],
        put: impl FnOnce(&mut P, Offset, &[u8]),
    ) {
        let (mutation, shorter) = self.visit_range(site, at, bytes.len());
        let late = mutation == Some(Mutation::SwapAcross);
        let shorter = match mutation {
            Some(Mutation::DropFlush) => Some(0),
            Some(Mutation::ShortenRange) => shorter,
            _ => None,
        };
        if late || shorter.is_some() {
            self.fire();
        }
        calling(Calling { site: Some(site.name), late, weak: false }, || match shorter {
            None => put(pmem, at, bytes),
            Some(shorter) => {
                pmem.store(at, bytes);
                pmem.flush(at, shorter);
            }
        });
    }
}

/// A mutant that no test can notice, with the reason why it changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Equivalent {
    /// The mutant.
    pub mutant: Mutant,
    /// Why every crash state it adds is harmless.
    pub proof: &'static str,
}

/// What became of one mutant.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// A scenario failed, as it should; its message.
    Killed(String),
    /// It is listed as equivalent, and indeed no scenario noticed it.
    Equivalent(&'static str),
    /// No scenario noticed it: a test is missing.
    Survived,
    /// No call at the site could be changed in this way (a range of one line cannot be shortened).
    NeverFired,
}

/// What a [`hunt`] found.
#[derive(Clone, Debug, Default)]
pub struct Bag {
    /// Sites that were declared and never reached.
    pub unreached: Vec<Site>,
    /// Sites that were reached and never declared.
    pub undeclared: Vec<Site>,
    /// Sites that no mutant changed anything at.
    pub untouched: Vec<Site>,
    /// Every mutant's fate.
    pub verdicts: Vec<(Mutant, Verdict)>,
    /// Mutants listed as equivalent that were killed all the same, or that do not exist.
    pub stale_equivalents: Vec<Mutant>,
}

impl Bag {
    /// Whether every site was reached and touched, and every mutant killed or proven equivalent.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unreached.is_empty()
            && self.undeclared.is_empty()
            && self.untouched.is_empty()
            && self.stale_equivalents.is_empty()
            && self.survivors().next().is_none()
    }

    /// Mutants that no scenario noticed.
    pub fn survivors(&self) -> impl Iterator<Item = Mutant> + '_ {
        let survived = |(_, verdict): &&(Mutant, Verdict)| matches!(verdict, Verdict::Survived);
        self.verdicts.iter().filter(survived).map(|(mutant, _)| *mutant)
    }

    /// How many mutants were killed.
    #[must_use]
    pub fn killed(&self) -> usize {
        let killed = |(_, verdict): &&(Mutant, Verdict)| matches!(verdict, Verdict::Killed(_));
        self.verdicts.iter().filter(killed).count()
    }
}

impl fmt::Display for Bag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sites: Vec<Site> = self.verdicts.iter().map(|(mutant, _)| mutant.site).collect();
        sites.dedup();
        write!(f, "{:<28}", "site")?;
        for mutation in Mutation::ALL {
            write!(f, " {:<12}", format!("{mutation:?}"))?;
        }
        writeln!(f)?;
        for site in sites {
            write!(f, "{:<28}", site.name)?;
            for mutation in Mutation::ALL {
                let verdict = self.verdicts.iter().find(|(m, _)| *m == Mutant { site, mutation });
                let word = match verdict {
                    None => "-",
                    Some((_, Verdict::Killed(_))) => "killed",
                    Some((_, Verdict::Equivalent(_))) => "equivalent",
                    Some((_, Verdict::Survived)) => "SURVIVED",
                    Some((_, Verdict::NeverFired)) => ".",
                };
                write!(f, " {word:<12}")?;
            }
            writeln!(f)?;
        }
        for (what, sites) in [
            ("declared, never reached", &self.unreached),
            ("reached, never declared", &self.undeclared),
            ("touched by no mutant", &self.untouched),
        ] {
            for site in sites {
                writeln!(f, "{what}: {}", site.name)?;
            }
        }
        for mutant in &self.stale_equivalents {
            writeln!(f, "listed as equivalent and is not: {mutant}")?;
        }
        Ok(())
    }
}

/// Scenarios, and how to explore them.
#[allow(missing_debug_implementations, reason = "a function has nothing to show")]
pub struct Group<'a> {
    explorer: Explorer,
    scenarios: &'a dyn Fn(&Mutator) -> Vec<Box<dyn Scenario>>,
}

impl<'a> Group<'a> {
    /// `scenarios` makes the scenarios anew around a mutator; all their ordered calls go through
    /// it.
    #[must_use]
    pub fn new(
        explorer: Explorer,
        scenarios: &'a dyn Fn(&Mutator) -> Vec<Box<dyn Scenario>>,
    ) -> Self {
        Self { explorer, scenarios }
    }

    /// Explores each scenario without a mutant, and says what is within the reach of one.
    fn reach(&self) -> Result<Vec<WithinReach>, Box<Failure>> {
        let counting = Mutator::new();
        let mut reached = Vec::new();
        for scenario in (self.scenarios)(&counting) {
            self.explorer.explore(&*scenario)?;
            reached.push(counting.take_reach());
        }
        Ok(reached)
    }

    /// Explores the scenarios that a mutant changes.
    fn explore(&self, mutant: Mutant, within: &[WithinReach]) -> Result<u64, Box<Failure>> {
        let mutator = Mutator::with(mutant);
        for (scenario, within) in (self.scenarios)(&mutator).into_iter().zip(within) {
            if within.has(mutant) {
                self.explorer.explore(&*scenario)?;
            }
        }
        Ok(mutator.fired())
    }
}

/// What a scenario does that mutants change.
struct WithinReach {
    sites: BTreeMap<Site, u64>,
    shortened: BTreeSet<Site>,
}

impl WithinReach {
    /// Whether a mutant changes any call. One that changes none leaves everything as it was when
    /// the scenarios were explored without mutants.
    fn has(&self, mutant: Mutant) -> bool {
        match mutant.mutation {
            Mutation::ShortenRange => self.shortened.contains(&mutant.site),
            _ => self.sites.contains_key(&mutant.site),
        }
    }
}

/// Makes every declared site misbehave in every way that applies, and explores one group after the
/// other until some scenario notices.
///
/// # Errors
/// A scenario that fails without any mutant, readably.
pub fn hunt(
    groups: &[Group<'_>],
    sites: &[&[Site]],
    equivalents: &[Equivalent],
) -> Result<Bag, Box<Failure>> {
    let declared: Vec<Site> = sites.iter().flat_map(|sites| sites.iter().copied()).collect();
    let reached_by: Vec<_> = groups.iter().map(Group::reach).collect::<Result<_, _>>()?;
    let reached: BTreeSet<Site> =
        reached_by.iter().flatten().flat_map(|reach| reach.sites.keys().copied()).collect();
    let mut bag = Bag {
        unreached: declared.iter().copied().filter(|site| !reached.contains(site)).collect(),
        undeclared: reached.iter().copied().filter(|site| !declared.contains(site)).collect(),
        ..Bag::default()
    };
    for site in declared {
        let ways = Mutation::ALL.into_iter().filter(|way| way.applies_to(site.kind));
        let mut touched = false;
        for mutation in ways {
            let mutant = Mutant { site, mutation };
            let listed = equivalents.iter().find(|equivalent| equivalent.mutant == mutant);
            let verdict = match (verdict(groups.iter().zip(&reached_by), mutant), listed) {
                (Verdict::Survived, Some(listed)) => Verdict::Equivalent(listed.proof),
                (verdict, Some(_)) => {
                    bag.stale_equivalents.push(mutant);
                    verdict
                }
                (verdict, None) => verdict,
            };
            touched |= !matches!(verdict, Verdict::NeverFired);
            bag.verdicts.push((mutant, verdict));
        }
        if !touched {
            bag.untouched.push(site);
        }
    }
    let exists = |mutant: &Mutant| bag.verdicts.iter().any(|(known, _)| known == mutant);
    let unknown = equivalents.iter().map(|listed| listed.mutant).filter(|mutant| !exists(mutant));
    let unknown: Vec<Mutant> = unknown.collect();
    bag.stale_equivalents.extend(unknown);
    Ok(bag)
}

fn verdict<'g>(
    groups: impl Iterator<Item = (&'g Group<'g>, &'g Vec<WithinReach>)>,
    mutant: Mutant,
) -> Verdict {
    let mut fired = 0;
    for (group, within) in groups {
        match group.explore(mutant, within) {
            Ok(times) => fired += times,
            Err(failure) => return Verdict::Killed(failure.message),
        }
    }
    if fired == 0 { Verdict::NeverFired } else { Verdict::Survived }
}
