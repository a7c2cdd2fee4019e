//! How threads meet: a lock whose release is a plain store, and the fence that makes it possible.

pub(crate) mod far_fence;
pub(crate) mod store_lock;
pub(crate) mod thread_mark;
