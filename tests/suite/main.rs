//! The suite as its users meet it: their policies and their stores, right ones and wrong ones.

#![forbid(unsafe_code)]

#[expect(dead_code, reason = "an example has a main function")]
#[path = "../../examples/custom_policy.rs"]
mod custom_policy;
#[expect(dead_code, reason = "an example has a main function")]
#[path = "../../examples/kv_store.rs"]
mod kv_store;
mod policies;
mod stores;
