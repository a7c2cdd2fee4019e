//! The suite as its users meet it: their policies and their stores, right ones and wrong ones.

#![forbid(unsafe_code)]

mod policies;
mod stores;
