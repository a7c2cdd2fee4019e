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
}

impl Bell {
    pub(crate) fn new(commits_work: bool) -> Self {
        Self { thread: OnceLock::new(), asked: AtomicBool::new(false), commits_work }
    }

    /// Whether a commit is to work at its end.
    #[inline(always)]
    pub(crate) fn asks_commits(&self) -> bool {
        self.commits_work && self.asked.load(Ordering::Relaxed)
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

    /// Asks for work: the thread, or the next commit where commits work.
    pub(crate) fn ask(&self) {
        if self.commits_work {
            // A hint: each commit reads it, so it is stored when it changes, and no oftener.
            if !self.asked.load(Ordering::Relaxed) {
                self.asked.store(true, Ordering::Relaxed);
            }
        } else if self.has_thread() {
            // Releases the reason, because the counters themselves are changed by relaxed steps.
            if !self.asked.swap(true, Ordering::Release) {
                self.wake();
            }
        }
    }

    /// Makes the thread look around, if there is one.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Whether it was asked, for the thread or the commit that works: if so, it looks for the
    /// reason.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod explored;
