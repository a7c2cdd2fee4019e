//! Tests that are known to fail, each with its reason.

use std::error::Error;

/// One entry: a file, tests in it, and why they fail.
struct Entry {
    file: &'static str,
    /// A test's name. None stands for several: another test that fails would not be told.
    test: &'static str,
    reason: &'static str,
}

/// All entries of `known.txt`.
pub(crate) struct Known(Vec<Entry>);

impl Known {
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let lines = include_str!("../known.txt").lines().map(str::trim);
        let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
            let words = line.split_once(char::is_whitespace).and_then(|(file, rest)| {
                let (test, reason) = rest.trim_start().split_once(char::is_whitespace)?;
                Some((file, test, reason.trim_start()))
            });
            let Some((file, test, reason)) = words else {
                return Err(format!("known.txt has no file, test and reason in: {line}"));
            };
            Ok(Entry { file, test, reason })
        });
        Ok(Self(entries.collect::<Result<_, _>>()?))
    }

    /// Why a test of a file fails, if that is known.
    pub(crate) fn reason(&self, file: &str, test: &str) -> Option<&'static str> {
        let is_it = |entry: &&Entry| entry.file == file && entry.test == test;
        self.0.iter().find(is_it).map(|entry| entry.reason)
    }
}
