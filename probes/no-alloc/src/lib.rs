//! A program with no std, no allocator and no operating system that uses the whole journal.
//!
//! It is built as a static library, which is the last step of a build that has no `main`: the
//! compiler refuses it as soon as anything below asks for an allocator. `check` builds it, builds
//! it again in two ways that have to be noticed, and looks at what ended up in the library.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "keeps-names")]
mod names;

use core::hint::black_box;

use firmware::program::{self, Failure};

fn run() -> Result<u64, Failure> {
    #[cfg(not(feature = "keeps-names"))]
    let hook = journal_core::NoHook;
    #[cfg(feature = "keeps-names")]
    let hook = names::KeepsNames;
    black_box(program::run(&hook))
}

/// Keeps `run` in the library without an exported symbol, which would need an unsafe attribute.
#[used]
static RUN: fn() -> Result<u64, Failure> = run;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// What the probe has to notice: an allocation, with nobody there to serve it.
#[cfg(feature = "needs-an-allocator")]
mod allocates {
    extern crate alloc;

    fn allocate() -> usize {
        core::hint::black_box(alloc::boxed::Box::new([1_u8; 64])).len()
    }

    #[used]
    static ALLOCATE: fn() -> usize = allocate;
}
