//! Rules about Rust sources.

use crate::source::{Finding, Source, arguments, inside_brackets, line_of, words};

/// More is worth a split.
pub(crate) const LINES_SOFT: usize = 400;
/// More is refused.
const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;

const CORE: &str = "crates/journal-core/src/";
const GROUND: &str = "crates/pmem-sys/";
/// Calls into C: of a program that is published nowhere and compares with libraries in it, and of
/// the VFS of SQLite, and the test that loads it as an extension.
const FOREIGN: [&str; 3] = [
    "benches/peers/src/ffi.rs",
    "integrations/sqlite/src/ffi/",
    "integrations/sqlite/tests/extension.rs",
];
const CALLS_FOREIGN: [&str; 2] = ["benches/peers/src/main.rs", "integrations/sqlite/src/lib.rs"];
const POLICIES: &str = "crates/policies/";

/// Where the core may call the ports themselves: they are defined and wrapped there.
const WRAPPED_IN: [&str; 3] = ["ports/block_device.rs", "order/ordered.rs", "ports/pmem.rs"];

/// What the ports call the steps of persistence, and how many arguments they take.
const PERSIST_METHODS: [(&str, usize); 8] = [
    ("fence", 0),
    ("flush", 2),
    ("store", 2),
    ("store_u64", 2),
    ("stream", 2),
    ("sync", 0),
    ("write", 2),
    ("write_vectored", 2),
];

pub(crate) fn unsafe_outside_pmem_sys(source: &Source) -> Vec<Finding> {
    if source.path.starts_with(GROUND) || FOREIGN.iter().any(|path| source.path.starts_with(path)) {
        return Vec::new();
    }
    let found = words(&source.code, "unsafe").into_iter();
    found.map(|at| source.finding(line_of(&source.code, at), "unsafe")).collect()
}

/// The crate roots of everything that is linked into somebody's program.
pub(crate) fn roots_that_allow_unsafe(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|root| {
        path.strip_suffix(root).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    });
    // What is forbidden cannot be allowed to one module.
    let level = if CALLS_FOREIGN.contains(&path) { "deny" } else { "forbid" };
    let forbids = ["", ", unsafe_op_in_unsafe_fn"]
        .iter()
        .any(|more| source.code.contains(&format!("#![{level}(unsafe_code{more})]")));
    if !is_root || forbids || path.starts_with(GROUND) {
        return Vec::new();
    }
    vec![source.finding(0, "does not forbid unsafe code")]
}

/// A call of an ordering type names its site first. A call of a port has none to name, and takes a
/// place by value where a method of the core's own may take something by reference.
pub(crate) fn raw_persist_calls(source: &Source) -> Vec<Finding> {
    let Some(file) = source.path.strip_prefix(CORE) else { return Vec::new() };
    if WRAPPED_IN.contains(&file) || file.ends_with("tests.rs") {
        return Vec::new();
    }
    let code = source.code_without_tests();
    let mut found = Vec::new();
    for (method, takes) in PERSIST_METHODS {
        for at in words(code, method) {
            let (before, open) = (&code[..at], at + method.len());
            let of_a_port = ["Pmem::", "Pmem>::", "BlockDevice::", "BlockDevice>::"];
            let by_path = of_a_port.iter().any(|port| before.ends_with(port));
            let by_dot = before.ends_with('.') && code[open..].starts_with('(');
            if by_path || (by_dot && is_raw(inside_brackets(code, open), takes)) {
                found.push(source.finding(line_of(code, at), format!("{method} without a site")));
            }
        }
    }
    found
}

fn is_raw(inside: &str, takes: usize) -> bool {
    let arguments = arguments(inside);
    let place = arguments.first().copied().unwrap_or_default();
    let has_site = place.to_ascii_lowercase().contains("site") || place.starts_with('&');
    let orders = ["Ordering::", "Relaxed", "Release", "SeqCst"];
    let is_atomic = orders.iter().any(|order| inside.contains(order));
    arguments.len() == takes && !has_site && !is_atomic
}

pub(crate) fn policies_that_persist(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(POLICIES) {
        return Vec::new();
    }
    let forbidden = ["BlockDevice", "Ordered", "OrderedDevice", "Pmem", "fence", "flush"];
    let found = forbidden.iter().flat_map(|word| {
        let found = words(&source.code, word).into_iter();
        found.map(|at| source.finding(line_of(&source.code, at), *word))
    });
    found.collect()
}

pub(crate) fn core_with_std(source: &Source) -> Vec<Finding> {
    let is_root = source.path.strip_prefix(CORE) == Some("lib.rs");
    if !is_root || source.code.contains("#![no_std]") {
        return Vec::new();
    }
    vec![source.finding(0, "links std")]
}

pub(crate) fn is_long(source: &Source) -> bool {
    source.line_count() > LINES_SOFT
}

pub(crate) fn too_long(source: &Source) -> Vec<Finding> {
    let lines = source.line_count();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    vec![source.finding(0, format!("{lines} lines, at most {LINES_MAX}"))]
}

/// A lesson is read from the first line to the last.
const LESSON_LINES_MAX: usize = 200;

/// Examples of the root package that are too long to be lessons, and those in several files.
pub(crate) fn long_lessons(source: &Source) -> Vec<Finding> {
    let Some(name) = source.path.strip_prefix("examples/") else { return Vec::new() };
    let lines = source.line_count();
    let is_long = lines > LESSON_LINES_MAX;
    let long = is_long.then(|| format!("{lines} lines, at most {LESSON_LINES_MAX}"));
    let parts = name.contains('/').then(|| "a lesson is one file".to_owned());
    long.into_iter().chain(parts).map(|what| source.finding(0, what)).collect()
}

/// Files that become a part of another crate as well: a crate shares code through a library.
pub(crate) fn borrowed_files(source: &Source) -> Vec<Finding> {
    let code = source.code.as_str();
    let attributes = code.match_indices("#[").map(|(at, _)| (at, inside_brackets(code, at + 1)));
    let paths = attributes.filter(|(_, inside)| {
        let inside = inside.trim_start();
        inside.strip_prefix("path").is_some_and(|rest| rest.trim_start().starts_with('='))
    });
    paths.map(|(at, _)| source.finding(line_of(code, at), "a module by its path")).collect()
}

pub(crate) fn wide_lines(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(1..);
    let wide = lines.filter(|(line, _)| line.chars().count() > COLUMNS_MAX);
    wide.map(|(line, number)| source.finding(number, format!("{} columns", line.len()))).collect()
}

pub(crate) fn not_ascii(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(1..).filter(|(line, _)| !line.is_ascii());
    lines.map(|(line, number)| source.finding(number, line)).collect()
}

pub(crate) fn stubs(source: &Source) -> Vec<Finding> {
    let code = source.code.as_str();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for stub in ["todo", "unimplemented"] {
        let macros = words(code, stub).into_iter();
        let macros = macros.filter(|at| code[at + stub.len()..].starts_with('!'));
        found.extend(macros.map(|at| (at, stub)));
    }
    for (at, _) in code.match_indices("#[") {
        let attribute = inside_brackets(code, at + 1).trim_start();
        let sets_tests_aside = attribute.starts_with("ignore") || attribute.starts_with("cfg_attr");
        // Miri lacks system calls; a test that it cannot run says which.
        let is_for_miri = attribute.starts_with("cfg_attr(miri, ignore = ");
        if sets_tests_aside && !is_for_miri && !words(attribute, "ignore").is_empty() {
            found.push((at, "an ignored test"));
        }
    }
    let mut found: Vec<Finding> =
        found.into_iter().map(|(at, what)| source.finding(line_of(code, at), what)).collect();
    for (line, number) in source.text.lines().zip(1..) {
        if line.trim_start().starts_with("//") && line.contains("```ignore") {
            found.push(source.finding(number, "an ignored example"));
        }
    }
    found
}

pub(crate) fn getters(source: &Source) -> Vec<Finding> {
    let found = source.code.match_indices("fn get_").map(|(at, _)| line_of(&source.code, at));
    found.map(|line| source.finding(line, "fn get_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&Source) -> Vec<Finding>;

    fn findings(rule: Rule, path: &str, text: &str) -> usize {
        rule(&Source::new(path, text)).len()
    }

    #[test]
    fn unsafe_is_found_as_code_only() {
        let rule: Rule = unsafe_outside_pmem_sys;
        assert_eq!(findings(rule, "src/a.rs", "fn f() { unsafe { g() } }"), 1);
        assert_eq!(findings(rule, "src/a.rs", "#[unsafe(no_mangle)] unsafe fn f() {}"), 2);
        assert_eq!(findings(rule, "crates/sim-disk/src/a.rs", "unsafe impl Send for A {}"), 1);
        assert_eq!(findings(rule, "crates/pmem-sys/src/a.rs", "unsafe { g() }"), 0);
        assert_eq!(findings(rule, FOREIGN[0], "unsafe { g() }"), 0);
        assert_eq!(findings(rule, "integrations/sqlite/src/ffi/vfs.rs", "unsafe { g() }"), 0);
        assert_eq!(findings(rule, "integrations/sqlite/src/mount.rs", "unsafe { g() }"), 1);
        assert_eq!(findings(rule, CALLS_FOREIGN[0], "unsafe { g() }"), 1);
        assert_eq!(findings(rule, "src/a.rs", "#![forbid(unsafe_code)] // unsafe \n\"unsafe\""), 0);
    }

    #[test]
    fn crate_roots_have_to_forbid_unsafe() {
        let rule: Rule = roots_that_allow_unsafe;
        assert_eq!(findings(rule, "src/lib.rs", "//! #![forbid(unsafe_code)]"), 1);
        assert_eq!(findings(rule, "crates/policies/x/src/lib.rs", ""), 1);
        assert_eq!(findings(rule, "src/lib.rs", "#![forbid(unsafe_code)]"), 0);
        assert_eq!(findings(rule, "src/a.rs", ""), 0);
        assert_eq!(findings(rule, "crates/pmem-sys/src/lib.rs", ""), 0);
        assert_eq!(findings(rule, CALLS_FOREIGN[0], ""), 1);
        assert_eq!(findings(rule, CALLS_FOREIGN[0], "#![deny(unsafe_code)]"), 0);
        assert_eq!(findings(rule, "fuzz/src/main.rs", "#![deny(unsafe_code)]"), 1);
    }

    #[test]
    fn persist_calls_of_the_core_name_their_site() {
        let rule: Rule = raw_persist_calls;
        let commit = "crates/journal-core/src/commit.rs";
        for raw in [
            "lane.fence()?;",
            "lane.flush(at, len);",
            "lane.stream(at, &bytes);",
            "lane.store_u64(at, count(site));",
            "device.write(first, &block)?;",
            "device.sync()?;",
            "Pmem::fence(&mut lane)?;",
            "<P as Pmem>::flush(lane, at, len);",
            "disks.iter_mut().try_for_each(BlockDevice::sync)?;",
        ] {
            assert_eq!(findings(rule, commit, raw), 1, "{raw}");
            assert_eq!(findings(rule, "crates/journal-core/src/order/ordered.rs", raw), 0, "{raw}");
            assert_eq!(findings(rule, "crates/sim-disk/src/a.rs", raw), 0, "{raw}");
            let test = format!("#[cfg(test)]\nmod tests {{ {raw} }}");
            assert_eq!(findings(rule, commit, &test), 0, "{raw}");
        }
        for ordered in [
            "lane.fence(site::COMMIT, in_flight)?;",
            "lane.fence(in_flight)?;",
            "superblocks.store(&superblock, kernels)?;",
            "lane.write(\n    site::BODY,\n    at, &bytes);",
            "disk.sync(self.site, unsynced)?;",
            "self.head.store(head, Ordering::Release);",
            "// lane.fence()",
            "fn fence() {}",
        ] {
            assert_eq!(findings(rule, commit, ordered), 0, "{ordered}");
        }
    }

    #[test]
    fn modules_by_their_paths_are_found() {
        let rule: Rule = borrowed_files;
        assert_eq!(findings(rule, "tests/a.rs", "#[path = \"../b.rs\"]\nmod b;"), 1);
        assert_eq!(findings(rule, "tests/a.rs", "#[ path= \"b.rs\" ]\nmod b;"), 1);
        assert_eq!(findings(rule, "tests/a.rs", "// #[path = \"b.rs\"]\n#[paths]\nmod b;"), 0);
    }

    #[test]
    fn lessons_are_short_and_in_one_file() {
        let rule: Rule = long_lessons;
        let lines = |count| "\n".repeat(count);
        assert_eq!(findings(rule, "examples/a.rs", &lines(LESSON_LINES_MAX)), 0);
        assert_eq!(findings(rule, "examples/a.rs", &lines(LESSON_LINES_MAX + 1)), 1);
        assert_eq!(findings(rule, "examples/a/main.rs", ""), 1);
        assert_eq!(findings(rule, "tools/lab/examples/a.rs", &lines(LESSON_LINES_MAX + 1)), 0);
    }

    #[test]
    fn policies_know_nothing_of_persistence() {
        let rule: Rule = policies_that_persist;
        let policy = "crates/policies/lcow/src/lib.rs";
        assert_eq!(findings(rule, policy, "use journal_core::Pmem; fn f() { p.fence() }"), 2);
        assert_eq!(findings(rule, policy, "/// no fence\nuse journal_core::Policy;"), 0);
        assert_eq!(findings(rule, "src/lib.rs", "p.fence()"), 0);
    }

    #[test]
    fn the_core_says_no_std() {
        let rule: Rule = core_with_std;
        assert_eq!(findings(rule, "crates/journal-core/src/lib.rs", "// #![no_std]"), 1);
        assert_eq!(findings(rule, "crates/journal-core/src/lib.rs", "#![no_std]"), 0);
        assert_eq!(findings(rule, "src/lib.rs", ""), 0);
    }

    #[test]
    fn lengths_widths_and_characters_are_counted() {
        assert_eq!(findings(too_long, "a.rs", &"a\n".repeat(LINES_MAX + 1)), 1);
        assert_eq!(findings(too_long, "a.rs", &"a\n".repeat(LINES_MAX)), 0);
        assert!(is_long(&Source::new("a.rs", &"a\n".repeat(LINES_SOFT + 1))));
        assert!(!is_long(&Source::new("a.rs", &"a\n".repeat(LINES_SOFT))));
        let lines = [COLUMNS_MAX, COLUMNS_MAX + 1].map(|columns| "a".repeat(columns)).join("\n");
        assert_eq!(wide_lines(&Source::new("a.rs", &lines)).len(), 1);
        assert_eq!(findings(not_ascii, "a.rs", "// plain\n// \u{2014}\n"), 1);
    }

    #[test]
    fn stubs_are_found() {
        let path = "a.rs";
        for stub in [
            "fn f() { todo!() }",
            "unimplemented!(\"later\")",
            "#[ignore]\nfn f() {}",
            "#[ignore = \"slow\"]",
            "#[cfg_attr(miri, ignore)]",
            "#[cfg_attr(unix, ignore = \"slow\")]",
            "//! ```ignore\n//! ```",
        ] {
            assert_eq!(findings(stubs, path, stub), 1, "{stub}");
        }
        for fine in [
            "// todo!",
            "let todo = 1; ignore(todo);",
            "#[must_use]",
            "todo_list!()",
            "#[cfg_attr(miri, ignore = \"Miri maps no files\")]",
        ] {
            assert_eq!(findings(stubs, path, fine), 0, "{fine}");
        }
    }

    #[test]
    fn getters_are_found() {
        assert_eq!(findings(getters, "a.rs", "pub const fn get_len() {}"), 1);
        assert_eq!(findings(getters, "a.rs", "fn get() {} // fn get_len"), 0);
    }
}
