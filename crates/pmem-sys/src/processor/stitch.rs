//! Lines that are put together in registers, where the processor has wide ones.

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
mod x86_64;

#[cfg(all(target_arch = "x86_64", not(any(miri, portable))))]
pub(crate) use x86_64::Stitcher;

#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable)))))]
pub(crate) use elsewhere::Stitcher;

/// A build without wide registers: there are no such lines.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable)))))]
mod elsewhere {
    use journal_core::{Seeds, Stitched};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Stitcher {}

    impl Stitcher {
        pub(crate) const fn detect() -> Option<Self> {
            None
        }

        pub(crate) const fn can(_: &Stitched<'_>) -> bool {
            false
        }

        /// # Safety
        /// There is no value to call it with.
        pub(crate) unsafe fn stream(self, _: *mut u8, _: &Stitched<'_>, _: Seeds) -> u64 {
            match self {}
        }
    }
}
