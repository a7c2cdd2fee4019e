//! Nothing in virtual time knows a real one.

use std::path::Path;
use std::{env, fs};

/// Words that read a real clock or draw what differs from run to run.
const FORBIDDEN: [&str; 6] =
    ["Instant", "SystemTime", "thread::sleep", "RandomState", "HashMap", "HashSet"];

fn knows_real_time(source: &str) -> Option<&'static str> {
    FORBIDDEN.into_iter().find(|word| source.contains(word))
}

/// Looks at all sources below a folder; returns how many there are.
fn look(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("a folder");
    let looked = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return look(&path);
        }
        let source = fs::read_to_string(&path).expect("a source");
        assert_eq!(knows_real_time(&source), None, "{}", path.display());
        1
    });
    looked.sum()
}

#[test]
fn no_source_reads_a_real_clock() {
    assert_eq!(knows_real_time("let now = Instant::now();"), Some("Instant"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/media/time");
    assert!(look(&folder) > 10, "the sources were found");
}
