//! What `check_store` says of a store: a word with one thing wrong.

use journal_core::{Offset, Pmem};
use sim_disk::suite::{Promise, Store, StoreBudget, View, check_store};
use sim_disk::{Image, SimPmem, World};

/// A word of persistent memory that can be set.
struct Word(Flaw);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// It promises before the fence.
    EarlyPromise,
    /// It forgets what it was told last, without any crash.
    Forgets,
    /// It makes nothing of an error of the fence.
    DeafToErrors,
    /// An open does not make durable what a killed process has left in view.
    Unsettled,
    /// An open that is interrupted may leave more than it found.
    Grows,
    /// An open that finds something does nothing from then on, and promises all the same.
    Stuck,
}

#[derive(Clone, Copy, Debug)]
enum Set {
    Now(u64),
    Later(u64),
}

const WORD: Offset = Offset(0);
const MARK: Offset = Offset(64);

fn put(pmem: &mut SimPmem, at: Offset, word: u64, fence: bool) -> Result<(), String> {
    pmem.store_u64(at, word);
    pmem.flush(at, 8);
    if fence { pmem.fence().map_err(|error| error.to_string()) } else { Ok(()) }
}

fn word(pmem: &SimPmem, at: Offset) -> Result<u64, String> {
    let bytes = pmem.bytes(at, 8).map_err(|error| error.to_string())?;
    Ok(u64::from_le_bytes(*bytes.first_chunk().expect("eight")))
}

impl Store for Word {
    type Operation = Set;
    /// And whether it takes anything.
    type Open = (SimPmem, bool);

    fn media(&self) -> Image {
        Image::blank(128)
    }

    fn format(&self, _world: &World) -> Result<(), String> {
        Ok(())
    }

    fn open(&self, world: &World) -> Result<Self::Open, String> {
        let mut pmem = world.pmem();
        let (found, marked) = (word(&pmem, WORD)?, word(&pmem, MARK)?);
        if self.0 == Flaw::Grows && found != 0 && marked == 0 {
            put(&mut pmem, MARK, 1, true)?;
        } else if self.0 == Flaw::Grows && found != 0 {
            put(&mut pmem, WORD, 99, true)?;
        }
        if self.0 != Flaw::Unsettled {
            pmem.flush(WORD, 8);
            pmem.fence().map_err(|error| error.to_string())?;
        }
        Ok((pmem, self.0 != Flaw::Stuck || found == 0))
    }

    fn apply(&self, (pmem, takes): &mut Self::Open, set: &Set) -> Result<Promise, String> {
        let (value, later) = match *set {
            Set::Now(value) => (value, false),
            Set::Later(value) => (value, true),
        };
        if !*takes || (self.0 == Flaw::Forgets && word(pmem, WORD)? == 1) {
            return Ok(Promise::Durable);
        }
        let result = put(pmem, WORD, value, !later && self.0 != Flaw::EarlyPromise);
        if self.0 != Flaw::DeafToErrors {
            result?;
        }
        Ok(if later { Promise::Later } else { Promise::Durable })
    }

    fn read(&self, (pmem, _): &mut Self::Open) -> Result<View, String> {
        let value = word(pmem, WORD)?;
        Ok((value != 0).then(|| ("word".to_owned(), value.to_string())).into_iter().collect())
    }

    fn operations(&self) -> Vec<Set> {
        vec![Set::Now(1), Set::Later(2)]
    }

    fn model(&self, view: &mut View, set: &Set) {
        let (Set::Now(value) | Set::Later(value)) = set;
        view.insert("word".into(), value.to_string());
    }
}

#[test]
fn each_way_of_failing_is_tried() {
    let says = |flaw| check_store(&Word(flaw), &StoreBudget::new()).map_err(|f| f.to_string());
    let summary = says(Flaw::None).expect("nothing is wrong with it");
    assert_eq!((summary.programs, summary.faults_left_out), (2 * (2 + 4 + 50), 0), "{summary}");
    let broken = |flaw, told: &[&str]| {
        let text = says(flaw).expect_err("is wrong");
        for told in told {
            assert!(text.contains(told), "{flaw:?}: {told}\n\n{text}");
        }
    };
    let promised = "operation 1, Now(1) had promised to be durable";
    let lost = "key \"word\": expected \"1\", found nothing";
    broken(Flaw::EarlyPromise, &[promised, lost]);
    broken(Flaw::Forgets, &["without a crash", "after operation 2, Later(2)", "expected \"2\""]);
    broken(Flaw::DeafToErrors, &[promised, lost, "of its calls, Fence number 1 fails"]);
    broken(Flaw::Unsettled, &["the process is killed after event", "then the power is lost"]);
    broken(Flaw::Stuck, &["after a recovery, Now(1):", "expected \"1\", found \"2\""]);
    broken(Flaw::Grows, &["expected \"1\", found \"99\""]);
    // Without a kill: the first recovery was interrupted, or went on and was crashed.
    let text = says(Flaw::Grows).expect_err("is wrong");
    let told = text.split("all of it").next().unwrap_or_default();
    assert!(
        told.matches("then the power is lost").count() == 2 && !told.contains("kill"),
        "{told}"
    );
}

/// A store that cannot even be made says so.
#[test]
fn a_store_that_does_not_begin_empty_is_refused() {
    struct Full;
    impl Store for Full {
        type Operation = ();
        type Open = ();
        fn media(&self) -> Image {
            Image::blank(64)
        }
        fn format(&self, _world: &World) -> Result<(), String> {
            Ok(())
        }
        fn open(&self, _world: &World) -> Result<(), String> {
            Ok(())
        }
        fn apply(&self, (): &mut (), (): &()) -> Result<Promise, String> {
            Ok(Promise::Durable)
        }
        fn read(&self, (): &mut ()) -> Result<View, String> {
            Ok(View::from([("always".into(), "there".into())]))
        }
        fn operations(&self) -> Vec<()> {
            Vec::new()
        }
        fn model(&self, _view: &mut View, (): &()) {}
    }
    let failure = check_store(&Full, &StoreBudget::new()).expect_err("it is not empty");
    assert!(failure.to_string().starts_with("a new store shows {\"always\""), "{failure}");
}
