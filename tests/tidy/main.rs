//! The rules of the house, held against the sources as they lie here.
//!
//! A rule is a pure function from a text to its findings (`rules.rs` for Rust sources, `shelf.rs`
//! and `tables.rs` for manifests and documents). Each is shown a violation first, so that none of
//! them can be true by looking at nothing. ARCHITECTURE.md says why the rules are what they are.

#![forbid(unsafe_code)]

mod language;
mod manifest;
mod rules;
mod shelf;
mod source;
mod storeys;
mod tables;

use core::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use manifest::{Manifest, Package};
use source::{Finding, Source};
use storeys::House;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the repository that is kept, in a stable order.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(folder).expect("a readable folder");
        let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry")).collect();
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            let name = entry.file_name();
            let kind = entry.file_type().expect("a type");
            let built = name == "target" || name == "corpus" || name == "artifacts";
            if kind.is_dir() && !built && name != ".git" {
                walk(&entry.path(), files);
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    let mut files = Vec::new();
    walk(root(), &mut files);
    files
}

/// A path as the rules know it: from the root, with `/`.
fn name_of(path: &Path) -> String {
    let parts = path.strip_prefix(root()).expect("below the root").components();
    let parts: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

fn sources() -> Vec<Source> {
    let files = files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    files.map(|path| Source::new(&name_of(&path), &read(&path))).collect()
}

fn packages() -> Vec<Package> {
    let files = files().into_iter().filter(|path| path.ends_with("Cargo.toml"));
    files
        .map(|path| {
            let folder = name_of(path.parent().expect("a folder"));
            Package::new(&folder, Manifest::parse(&read(&path)))
        })
        .collect()
}

/// Each crate's folders, from the ground up, and what each may import.
const HOUSES: [House; 16] = [
    House {
        sources: "src/",
        storeys: &[
            ("threads", &[]),
            ("disk", &[]),
            ("options", &[]),
            ("staging", &["threads"]),
            ("shared", &["staging", "threads", "error", "machine", "stats"]),
            ("engine", &["shared", "staging", "threads", "error", "machine", "options", "trace"]),
        ],
    },
    House {
        sources: "crates/journal-core/src/",
        storeys: &[
            ("ports", &["units"]),
            ("order", &["ports", "units"]),
            ("format", &["ports", "units"]),
            ("index", &["format", "units"]),
            ("space", &["format", "index", "order", "ports", "units"]),
            ("scan", &["format", "index", "order", "ports", "space", "units"]),
            ("commit", &["common", "format", "index", "order", "ports", "scan", "space", "units"]),
            (
                "home",
                &[
                    "commit", "common", "format", "index", "order", "ports", "scan", "space",
                    "units",
                ],
            ),
            (
                "reclaim",
                &[
                    "commit", "common", "format", "home", "index", "order", "ports", "scan",
                    "space", "units",
                ],
            ),
            (
                "open",
                &[
                    "commit", "common", "format", "home", "index", "order", "ports", "scan",
                    "space", "units",
                ],
            ),
            (
                "owner",
                &[
                    "commit", "common", "format", "home", "index", "open", "order", "ports",
                    "reclaim", "scan", "space", "units",
                ],
            ),
        ],
    },
    House {
        sources: "crates/sim-disk/src/",
        storeys: &[("media", &[]), ("power", &["media"]), ("suite", &["media", "power"])],
    },
    House {
        sources: "crates/pmem-sys/src/",
        storeys: &[
            ("explored", &[]),
            ("threads", &["explored"]),
            ("processor", &[]),
            ("map", &["lines", "processor"]),
            ("region", &["lines", "map", "processor", "threads"]),
        ],
    },
    House { sources: "crates/policies/adaptive/src/", storeys: &[] },
    House { sources: "crates/policies/byte-delta/src/", storeys: &[] },
    House {
        sources: "crates/policies/codec/src/",
        storeys: &[
            ("compare", &["bytes", "unit"]),
            ("lzo", &["bytes", "error"]),
            ("moves", &["bytes", "compare", "error", "scratch"]),
        ],
    },
    House { sources: "crates/policies/compressed-delta/src/", storeys: &[] },
    House { sources: "crates/policies/full-block/src/", storeys: &[] },
    House { sources: "crates/policies/lcow/src/", storeys: &[] },
    House { sources: "crates/policies/object-log/src/", storeys: &[] },
    House { sources: "crates/policies/two-level/src/", storeys: &[] },
    House {
        sources: "crates/block-journal/src/",
        storeys: &[
            ("devices", &[]),
            ("medium", &["config", "error"]),
            ("engine", &["medium", "config", "error", "hook", "stats", "transaction"]),
        ],
    },
    House {
        sources: "crates/block-files/src/",
        storeys: &[("layout", &["error"]), ("files", &["layout", "error", "store"])],
    },
    House {
        sources: "integrations/sqlite/src/",
        storeys: &[
            ("database", &["error", "files"]),
            ("mount", &["database", "error", "files"]),
            ("ffi", &["database", "error", "files", "mount"]),
        ],
    },
    House {
        sources: "tools/lab/src/",
        storeys: &[
            ("bench", &[]),
            ("trace", &[]),
            ("bounds", &["trace"]),
            ("replay", &["bounds", "erased", "trace", "whole_slots"]),
            ("core_crash", &["second_reader"]),
            ("known_bugs", &["core_crash"]),
            ("engines", &[]),
            ("papers", &["engines", "erased", "plot", "trace"]),
            ("gates", &[]),
            ("figures", &["bounds", "engines", "erased", "papers", "replay", "trace"]),
            (
                "crash_lab",
                &[
                    "core_crash",
                    "erased",
                    "gates",
                    "known_bugs",
                    "oracle",
                    "progress",
                    "test_disks",
                ],
            ),
            ("second_reader", &[]),
            ("erased", &[]),
            ("sweeps", &["erased", "plot", "replay", "trace", "whole_slots"]),
            ("tour", &["erased", "progress"]),
            ("toy_log", &[]),
            ("bin", &[]),
        ],
    },
];

fn hold(rule: &str, findings: &[Finding]) {
    let mut list = String::new();
    for finding in findings {
        writeln!(list, "  {finding}").expect("room in memory");
    }
    assert!(findings.is_empty(), "{rule}:\n{list}");
}

fn hold_in_sources(rule: fn(&Source) -> Vec<Finding>, says: &str) {
    let sources = sources();
    assert!(sources.len() > 10, "the sources were found");
    hold(says, &sources.iter().flat_map(rule).collect::<Vec<_>>());
}

#[test]
fn unsafe_lives_in_pmem_sys() {
    hold_in_sources(rules::unsafe_outside_pmem_sys, "`unsafe` outside crates/pmem-sys");
    hold_in_sources(rules::roots_that_allow_unsafe, "crate roots without #![forbid(unsafe_code)]");
}

#[test]
fn everything_that_persists_goes_through_the_ordering_types() {
    hold_in_sources(rules::raw_persist_calls, "calls of a raw port inside the core");
    hold_in_sources(rules::policies_that_persist, "policies that know of persistence");
}

#[test]
fn the_core_has_no_std() {
    hold_in_sources(rules::core_with_std, "the core's root without #![no_std]");
}

#[test]
fn sources_are_plain_and_short() {
    let mut long: Vec<_> = sources().into_iter().filter(rules::is_long).collect();
    long.sort_by_key(|source| core::cmp::Reverse(source.line_count()));
    let mut list = String::new();
    for source in long {
        writeln!(list, "  {:4} lines  {}", source.line_count(), source.path).expect("room");
    }
    if !list.is_empty() {
        // Past the harness on purpose: it would swallow the list of a test that passes.
        let says = format!("files over {} lines, worth a split:\n{list}", rules::LINES_SOFT);
        std::io::stderr().write_all(says.as_bytes()).expect("a standard error");
    }

    hold_in_sources(rules::too_long, "files over the limit");
    hold_in_sources(rules::long_lessons, "examples that are no lessons");
    hold_in_sources(rules::wide_lines, "lines over 100 columns");
    hold_in_sources(rules::not_ascii, "characters outside ASCII");
}

#[test]
fn crates_share_code_through_libraries() {
    hold_in_sources(rules::borrowed_files, "files that belong to several crates");
}

#[test]
fn nothing_is_left_undone() {
    hold_in_sources(rules::stubs, "stubs and ignored tests");
}

#[test]
fn names_follow_the_custom() {
    hold_in_sources(rules::getters, "functions named get_");
}

#[test]
fn arrows_point_down() {
    let packages = packages();
    assert!(packages.len() > 4, "the packages were found");
    hold("imports against the arrows", &shelf::arrows(&packages));
    hold("foundations of the core", &shelf::foundations(&packages));
}

#[test]
fn storeys_rest_on_those_below() {
    let sources = sources();
    for house in &HOUSES {
        hold("folders without a storey", &storeys::unlisted(&sources, house));
        hold("imports of a storey above", &storeys::upward(&sources, house));
        hold("files that import each other", &storeys::circles(&sources, house));
        hold("folders with too many files", &storeys::crowded(&sources, house));
    }
}

#[test]
fn manifests_agree() {
    let packages = packages();
    let each = |rule: fn(&Package) -> Vec<Finding>| -> Vec<Finding> {
        packages.iter().flat_map(rule).collect()
    };
    hold("facts that the workspace states", &each(shelf::own_facts));
    hold("packages that might be published by mistake", &each(shelf::published_by_mistake));
    hold("copyleft in what is published", &each(shelf::copyleft));
    hold("features of the core that are on unasked", &each(shelf::core_defaults));
    hold("members that are not in the workspace", &shelf::not_members(&packages));
}

#[test]
fn copyleft_is_reached_from_oracles_alone() {
    let mut locks = Vec::new();
    for path in files().into_iter().filter(|path| path.ends_with("Cargo.lock")) {
        let (name, lock) = (name_of(&path), read(&path));
        let found = shelf::locked_copyleft(&name, &lock);
        if name.starts_with("oracles/") {
            assert_eq!(found.len(), 1, "{name} is of a licence of its own");
        } else {
            hold("copyleft that is reached", &found);
        }
        locks.push(name);
    }
    assert!(locks.iter().any(|name| name == "Cargo.lock") && locks.len() > 3, "{locks:?}");
}

#[test]
fn published_packages_carry_their_licences() {
    for package in packages().iter().filter(|package| package.is_published()) {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let copy = read(&root().join(&package.folder).join(licence));
            assert_eq!(copy, read(&root().join(licence)), "{}/{licence}", package.folder);
        }
    }
}

#[test]
fn documents_tell_the_truth() {
    let names: Vec<String> = files().iter().map(|path| name_of(path)).collect();
    let readme = read(&root().join("README.md"));
    hold("targets that the README names", &shelf::missing_targets(&readme, &names));
    hold("relative links of the README", &shelf::broken_links(&readme, &names));
    let durability = read(&root().join("src/durability.md"));
    hold("what is durable when", &tables::not_shown(&readme, &durability, "README.md"));
    let changelog = read(&root().join("CHANGELOG.md"));
    hold("releases without their format", &shelf::releases_without_format(&changelog));
}
