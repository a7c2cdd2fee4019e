//! Which thread this is, by a number that no other living thread has.

std::thread_local! {
    static MARK: u8 = const { 0 };
}

/// An address of this thread's own: not zero, and no other living thread's. A thread that comes
/// behind one that has ended may have the same address. By then the ended thread has left through
/// the kernel, which has made visible whatever it did.
#[inline]
pub(crate) fn this_thread() -> usize {
    MARK.with(|mark| core::ptr::from_ref(mark).addr())
}
