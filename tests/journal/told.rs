//! Callers that are told when what they committed is durable, without a thread that waits.

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex};
use std::task::Wake;

use journal_core::{Hook, MediumError, MediumErrorKind, NoHook, Offset, Pmem, Site};
use lab::erased::{DynDisk, DynJournal, any_options};
use nvm_journal::{Committed, Error, FullBlock, Journal};

use crate::use_it::{Files, any_memory, block};

/// Fails its next fence.
#[derive(Clone, Debug, Default)]
struct Fails(Arc<AtomicBool>);

impl Hook for Fails {
    fn fence<P: Pmem>(&mut self, _site: Site, pmem: &mut P) -> Result<(), MediumError> {
        if self.0.load(Ordering::SeqCst) {
            return Err(MediumError::new(MediumErrorKind::FenceFailed { os: None }, Offset(0), 0));
        }
        pmem.fence()
    }
}

fn open(files: &Files, hook: impl Hook + Clone + Send + Sync + 'static) -> DynJournal {
    let options = any_options(FullBlock, hook).lanes(2).lane_bytes(64 << 10);
    Journal::format(any_memory(1 << 20), DynDisk::new(files.disk()), &options).expect("formats")
}

/// A deferred transaction that is short enough to stay so.
fn defer(journal: &DynJournal) -> Committed {
    let mut transaction = journal.begin().expect("begins");
    transaction.discard(block(3)).expect("fits");
    transaction.commit_deferred().expect("commits").expect("something is logged")
}

type News = Arc<Mutex<Vec<Result<(), Error>>>>;

fn watch(journal: &DynJournal, committed: &Committed) -> News {
    let news = News::default();
    let its = Arc::clone(&news);
    let tell = move |result| its.lock().expect("no panic").push(result);
    journal.when_durable(committed, tell).expect("goes on");
    news
}

fn heard(news: &News) -> Vec<Result<(), Error>> {
    news.lock().expect("no panic").clone()
}

#[test]
fn a_watcher_is_told_once_by_whatever_makes_its_record_durable() {
    let files = Files::new("told");
    let journal = open(&files, NoHook);
    let makes: [fn(&DynJournal); 4] = [
        |journal| journal.sync().expect("syncs"),
        |journal| journal.transact(|tx| tx.write_at(block(9), 0, b"now")).expect("commits"),
        |journal| {
            let _ = journal.checkpoint().expect("writes home");
        },
        |journal| {
            // In another lane, on top of what is deferred.
            let _first = journal.begin().expect("begins");
            journal.transact(|tx| tx.write_at(block(3), 0, b"on it")).expect("commits");
        },
    ];
    for make in makes {
        let committed = defer(&journal);
        let (one, other) = (watch(&journal, &committed), watch(&journal, &committed));
        assert!(heard(&one).is_empty() && !journal.is_durable(&committed));
        make(&journal);
        assert_eq!((heard(&one), heard(&other)), (vec![Ok(())], vec![Ok(())]));
        assert_eq!(heard(&watch(&journal, &committed)), [Ok(())], "at once");
        journal.sync().expect("syncs");
        assert_eq!(heard(&one).len(), 1);
    }
}

#[test]
fn a_watcher_is_told_of_a_failure_and_of_the_end() {
    let files = Files::new("told-failure");
    let fails = Fails::default();
    let journal = open(&files, fails.clone());
    let committed = defer(&journal);
    let news = watch(&journal, &committed);
    fails.0.store(true, Ordering::SeqCst);
    journal.sync().expect_err("the fence fails");
    assert_eq!(heard(&news), [Err(Error::Failed)]);
    let late = News::default();
    let its = Arc::clone(&late);
    let tell = move |result| its.lock().expect("no panic").push(result);
    assert_eq!(journal.when_durable(&committed, tell), Err(Error::Failed));
    assert_eq!(heard(&late), [Err(Error::Failed)]);

    let files = Files::new("told-end");
    let journal = open(&files, NoHook);
    let news = watch(&journal, &defer(&journal));
    drop(journal);
    assert_eq!(heard(&news), [Err(Error::Failed)], "nothing makes it durable any more");
}

/// Counts how often it was woken.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_future_is_ready_when_its_record_is_durable() {
    let files = Files::new("told-future");
    let journal = open(&files, NoHook);
    let committed = defer(&journal);
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(Arc::clone(&counts));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(journal.durable(&committed));
    assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
    journal.sync().expect("syncs");
    assert_eq!(counts.0.load(Ordering::SeqCst), 1);
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    // One that is dropped is forgotten, and one of the past is ready.
    drop(journal.durable(&defer(&journal)));
    journal.sync().expect("syncs");
    let mut past = pin!(journal.durable(&committed));
    assert_eq!(past.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    let mut left = pin!(journal.durable(&defer(&journal)));
    assert_eq!(left.as_mut().poll(&mut context), Poll::Pending);
    drop(journal);
    assert_eq!(left.as_mut().poll(&mut context), Poll::Ready(Err(Error::Failed)));
}

/// Threads commit and are told, beside others that sync: no news is lost.
#[test]
fn no_news_is_lost_beside_threads() {
    const EACH: usize = 2_000;
    let files = Files::new("told-threads");
    let journal = &open(&files, NoHook);
    let told = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let told = Arc::clone(&told);
            scope.spawn(move || {
                for round in 0..EACH {
                    let number = block(thread * 40 + round as u64 % 40);
                    let mut transaction = journal.begin().expect("begins");
                    transaction.discard(number).expect("fits");
                    let committed = transaction.commit_deferred().expect("commits");
                    let told = Arc::clone(&told);
                    let tell = move |result: Result<(), Error>| {
                        result.expect("goes on");
                        told.fetch_add(1, Ordering::SeqCst);
                    };
                    let committed = committed.expect("something is logged");
                    journal.when_durable(&committed, tell).expect("goes on");
                    if round % 7 == 0 {
                        journal.sync().expect("syncs");
                    }
                }
            });
        }
    });
    journal.sync().expect("syncs");
    assert_eq!(told.load(Ordering::SeqCst), 3 * EACH);
}
