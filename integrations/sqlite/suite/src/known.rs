//! Tests that are known to fail, each with its reason.

use std::error::Error;

/// One entry: a file, tests in it, and why they fail.
struct Entry {
    file: &'static str,
    /// A test's name; with `*` at its end, the names that begin so.
    test: &'static str,
    reason: &'static str,
}

/// All entries of `known.txt`.
pub(crate) struct Known(Vec<Entry>);

impl Known {
    pub(crate) fn read() -> Result<Self, Box<dyn Error>> {
        let lines = include_str!("../known.txt").lines().map(str::trim);
        let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
            let mut words = line.splitn(3, char::is_whitespace);
            let mut word = || words.next().map(str::trim).filter(|word| !word.is_empty());
            let all = (word(), word(), word());
            let (Some(file), Some(test), Some(reason)) = all else {
                return Err(format!("known.txt has no file, test and reason in: {line}"));
            };
            Ok(Entry { file, test, reason })
        });
        Ok(Self(entries.collect::<Result<_, _>>()?))
    }

    /// Why a test of a file fails, if that is known.
    pub(crate) fn reason(&self, file: &str, test: &str) -> Option<&'static str> {
        let is_it = |entry: &&Entry| {
            let named = entry
                .test
                .strip_suffix('*')
                .map_or(entry.test == test, |beginning| test.starts_with(beginning));
            entry.file == file && named
        };
        self.0.iter().find(is_it).map(|entry| entry.reason)
    }
}
