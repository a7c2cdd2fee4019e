//! The weather.
