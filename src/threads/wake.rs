//! Asking the thread in the background to work, or the commit that finds the reason.
//!
//! WK1. A request is heard: the thread looks again after it, and sees the reason.
//! WK2. The thread is woken once, however many threads ask before it looks.

use std::sync::OnceLock;

use crate::threads::sync::thread::Thread;
use crate::threads::sync::{AtomicBool, Ordering};

/// The checkpointing thread, if there is one, and whether it was asked to work.
#[derive(Debug)]
pub(crate) struct Bell {
    thread: OnceLock<Thread>,
    asked: AtomicBool,
    /// Whether a commit works that finds a reason, where there is no thread.
    commits_work: bool,
    /// Whether the next commit is to do something at its end. A hint.
    for_commits: AtomicBool,
    /// Whether the list of the oldest frames is still to be made. Commits make it, before one of
    /// them finds no room. A hint.
    wants_list: AtomicBool,
}

impl Bell {
    pub(crate) fn new(commits_work: bool) -> Self {
        Self {
            thread: OnceLock::new(),
            asked: AtomicBool::new(false),
            commits_work,
            for_commits: AtomicBool::new(false),
            wants_list: AtomicBool::new(false),
        }
    }

    /// Whether a commit is to work at its end.
    #[inline(always)]
    pub(crate) fn asks_commits(&self) -> bool {
        self.for_commits.load(Ordering::Relaxed)
    }

    /// Whether a commit was to work, for that commit: others need not.
    pub(crate) fn asked_commits(&self) -> bool {
        self.for_commits.swap(false, Ordering::Relaxed)
    }

    /// Asks the next commit to work at its end.
    pub(crate) fn ask_commits(&self) {
        // It is read by each commit, and seldom changes.
        if !self.for_commits.load(Ordering::Relaxed) {
            self.for_commits.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the list of the oldest frames is still to be made.
    pub(crate) fn wants_list(&self) -> bool {
        self.wants_list.load(Ordering::Relaxed)
    }

    /// Says whether it is.
    pub(crate) fn set_wants_list(&self, wants_list: bool) {
        self.wants_list.store(wants_list, Ordering::Relaxed);
    }

    /// Makes `thread` the one that is asked from now on.
    pub(crate) fn belongs_to(&self, thread: &Thread) {
        // Set once, when the journal is opened.
        let _ = self.thread.set(thread.clone());
    }

    /// Whether there is a thread to ask.
    #[inline]
    pub(crate) fn has_thread(&self) -> bool {
        self.thread.get().is_some()
    }

    /// Asks for work: the thread, or commits where they work. Where neither does, the next commits
    /// make the list, if that is still to be made.
    pub(crate) fn ask(&self) {
        // Releases the reason, because the counters themselves are changed by relaxed steps.
        if self.commits_work {
            self.asked.store(true, Ordering::Relaxed);
            self.ask_commits();
        } else if self.has_thread() {
            if !self.asked.swap(true, Ordering::Release) {
                self.wake();
            }
        } else if self.wants_list() {
            self.ask_commits();
        }
    }

    /// Makes the thread look around, if there is one.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whether the thread was asked, for the thread itself: if so, it looks for the reason.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod explored;
