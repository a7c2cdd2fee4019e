//! One type, one name: no two types inside a crate share one, and none has one of the prelude.

use std::collections::BTreeMap;

use crate::source::{Finding, Source, line_of, words};

/// The crate that a source belongs to, by its folder of sources.
fn crate_of(path: &str) -> Option<&str> {
    let at = if path.starts_with("src/") { 0 } else { path.find("/src/")? + 1 };
    let (root, below) = path.split_at(at);
    let is_test = |part: &str| part == "explored" || part == "tests";
    let parts = below.strip_suffix(".rs")?.split('/');
    let root = if root == LABORATORY { laboratory(path) } else { root };
    (!parts.into_iter().any(is_test)).then(|| root.trim_end_matches('/'))
}

/// Several programs in one crate: each of them may have a word for itself.
const LABORATORY: &str = "tools/lab/";

/// The folder of the laboratory that a source lies in, or the source itself.
fn laboratory(path: &str) -> &str {
    let below = path.strip_prefix("tools/lab/src/").unwrap_or(path);
    let start = path.len() - below.len();
    let ends = below.find('/').filter(|_| !below.starts_with("bin/"));
    &path[..ends.map_or(path.len(), |end| start + end)]
}

/// Names that every source has without an import: of types, traits and variants.
const PRELUDE: [&str; 38] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Into",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
];

/// The types that a source defines outside of functions and tests, with their lines.
fn types(source: &Source) -> Vec<(&str, usize)> {
    let code = source.code_without_tests();
    let mut found = Vec::new();
    for keyword in ["enum", "struct", "trait", "type", "union"] {
        for at in words(code, keyword) {
            let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
            let before = code[line..at].trim();
            let is_item = before.is_empty() || before.starts_with("pub") || before == "unsafe";
            let name = code[at + keyword.len()..].trim_start();
            let length = name.bytes().take_while(|this| this.is_ascii_alphanumeric()).count();
            let is_top = !code[line..].starts_with(' ');
            if is_item && is_top && name.starts_with(|first: char| first.is_ascii_uppercase()) {
                found.push((&name[..length], line_of(code, at)));
            }
        }
    }
    found
}

/// Types that hide a name of the prelude.
pub(crate) fn of_prelude(source: &Source) -> Vec<Finding> {
    let hides = |(name, _): &(&str, usize)| PRELUDE.contains(name);
    let finding = |(name, line)| source.finding(line, format!("{name} is a name of the prelude"));
    let types = crate_of(&source.path).map(|_| types(source)).unwrap_or_default();
    types.into_iter().filter(hides).map(finding).collect()
}

/// Types of one name inside a crate.
pub(crate) fn shared(sources: &[Source]) -> Vec<Finding> {
    let mut known: BTreeMap<(&str, &str), Vec<(&Source, usize)>> = BTreeMap::new();
    for source in sources {
        let Some(root) = crate_of(&source.path) else { continue };
        for (name, line) in types(source) {
            known.entry((root, name)).or_default().push((source, line));
        }
    }
    let mut found = Vec::new();
    for ((_, name), places) in known.iter().filter(|(_, places)| places.len() > 1) {
        let others = places.iter().map(|(source, line)| format!("{}:{line}", source.path));
        let others = others.collect::<Vec<_>>().join(", ");
        let (source, line) = places[0];
        found.push(source.finding(line, format!("{name} is several types: {others}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source::new(path, text);
        let sources: Vec<Source> = files.iter().map(source).collect();
        shared(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_shared_by_two_types_is_found() {
        let a = ("crates/x/src/a.rs", "pub(crate) struct View;");
        let b = ("crates/x/src/b/c.rs", "\n/// A view.\nenum View<'a> { A(&'a u8) }");
        let both = "crates/x/src/a.rs:1: View is several types: \
                    crates/x/src/a.rs:1, crates/x/src/b/c.rs:3";
        assert_eq!(told(&[a, b]), [both]);
    }

    #[test]
    fn a_type_that_hides_a_name_of_the_prelude_is_found() {
        for name in PRELUDE {
            for keyword in ["enum", "pub(crate) struct", "pub trait", "type"] {
                let source = Source::new("src/a.rs", &format!("\n{keyword} {name}<T> {{}}"));
                let told: Vec<_> = of_prelude(&source).iter().map(ToString::to_string).collect();
                assert_eq!(told, [format!("src/a.rs:2: {name} is a name of the prelude")]);
            }
        }
        let longer =
            "struct CopyOf;\nimpl Copy for CopyOf {}\nimpl T for A {\n    type Err = B;\n}";
        assert!(of_prelude(&Source::new("src/a.rs", longer)).is_empty());
    }

    #[test]
    fn other_crates_tests_and_uses_share_nothing() {
        let files = [
            ("crates/x/src/a.rs", "struct View;\nfn f(view: View) {}\n// struct View"),
            ("src/a.rs", "struct View;"),
            ("crates/x/src/a/tests.rs", "struct View;"),
            ("crates/x/tests/b.rs", "struct View;"),
            ("crates/x/src/d.rs", "#[cfg(test)]\nmod tests {\nstruct View;\n}"),
        ];
        assert!(told(&files).is_empty());
    }
}
