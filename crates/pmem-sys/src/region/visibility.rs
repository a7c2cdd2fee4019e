//! When bytes that one thread streamed are certain to be there for another.
//!
//! Streaming stores leave a processor in no order. Not even handing a region over through a release
//! store makes them visible first. Yet a region may be sent to another thread without a fence, and
//! its new owner may ask for `&[u8]`, which must not change under it.
//!
//! So a region remembers which thread streamed into it last and has not fenced since. When another
//! thread reads, one `membarrier` call makes every processor that runs this process drain first. In
//! the usual order (fence, then hand over) through the same region this costs one comparison.
//!
//! A crash does not come into it: this is about visibility, not durability.

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
pub(crate) use streams::Streamer;

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
mod streams {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use rustix::thread::{MembarrierCommand, membarrier};

    use crate::threads::thread_mark::this_thread;

    const NOBODY: usize = 0;
    /// Several threads, which no address is: a reader must drain.
    const SEVERAL: usize = usize::MAX;

    /// Which thread streamed into a region and has not fenced through it since.
    #[derive(Debug)]
    pub(crate) struct Streamer(AtomicUsize);

    impl Streamer {
        pub(crate) const fn new() -> Self {
            Self(AtomicUsize::new(NOBODY))
        }

        /// Remembers, for a part of the region, what is known of all of it.
        pub(crate) fn part(&self) -> Self {
            Self(AtomicUsize::new(self.0.load(Ordering::Relaxed)))
        }

        /// Notes that this thread streams.
        #[inline]
        pub(crate) fn mark(&mut self) {
            let me = this_thread();
            let streamer = self.0.get_mut();
            *streamer = if *streamer == NOBODY || *streamer == me { me } else { SEVERAL };
        }

        /// Notes that this thread fenced. That does not complete what another thread streamed.
        #[inline]
        pub(crate) fn clear(&mut self) {
            let streamer = self.0.get_mut();
            if *streamer == NOBODY || *streamer == this_thread() {
                *streamer = NOBODY;
            }
        }

        /// Returns once everything streamed is visible to this thread; `false` if the system
        /// cannot make it so.
        #[inline]
        pub(crate) fn make_visible(&self) -> bool {
            // Pairs with the store in `drain`: a thread that finds it done reads nothing from
            // before it.
            let streamer = self.0.load(Ordering::Acquire);
            streamer == NOBODY || streamer == this_thread() || self.drain()
        }

        #[cold]
        fn drain(&self) -> bool {
            // Registering twice is allowed, and this path is taken when a region changes hands in
            // the middle of a commit, which is to say hardly ever.
            let drained = membarrier(MembarrierCommand::RegisterPrivateExpedited)
                .and_then(|()| membarrier(MembarrierCommand::PrivateExpedited))
                .or_else(|_| membarrier(MembarrierCommand::Global))
                .is_ok();
            if drained {
                self.0.store(NOBODY, Ordering::Release);
            }
            drained
        }

        #[cfg(test)]
        pub(crate) fn is_visible(&self) -> bool {
            self.0.load(Ordering::Relaxed) == NOBODY
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable)))))]
pub(crate) use ordinary::Streamer;

#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable)))))]
mod ordinary {
    /// Nothing to remember: this build streams by ordinary stores.
    #[derive(Debug)]
    pub(crate) struct Streamer;

    impl Streamer {
        pub(crate) const fn new() -> Self {
            Self
        }

        pub(crate) fn part(&self) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn mark(&mut self) {}

        #[inline]
        pub(crate) fn clear(&mut self) {}

        #[inline]
        pub(crate) fn make_visible(&self) -> bool {
            true
        }
    }
}
