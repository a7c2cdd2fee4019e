//! The ports that others implement: memory, device, policy, and the kernels that compute checks.

pub mod block_device;
pub(crate) mod change;
pub mod error;
pub mod kernels;
pub mod pmem;
pub mod policy;
pub(crate) mod stitched;
