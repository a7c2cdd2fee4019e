//! The storeys of the crates: which folder may import which, and that no files import each other
//! in a circle.
//!
//! A file *imports* another one of its crate when its code, tests apart, names a path into that
//! module: from `crate`, `self` or `super` on, or from the name of a module that it declares.
//! `mod` declarations are no imports, so a folder's `mod.rs` may list its files. Nor may a file
//! name what the crate's root shows, because the root takes that from anywhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Finding, Source, arguments, inside_brackets, words};

/// A folder of a crate, and the folders that it may import.
type Storey = (&'static str, &'static [&'static str]);

/// A crate's sources, and its folders from the ground up. Files beside the folders may import all.
pub(crate) struct House {
    pub(crate) sources: &'static str,
    pub(crate) storeys: &'static [Storey],
}

/// More files than this in one folder hide each other.
const FILES_MAX: usize = 12;

/// One file of a crate.
struct File<'a> {
    source: &'a Source,
    /// Its module path in the crate.
    module: Vec<String>,
}

/// The files of a crate, and what each of them imports, by their places in the list.
struct Graph<'a> {
    files: Vec<File<'a>>,
    imports: Vec<BTreeSet<usize>>,
    /// Paths of each file that lead to no other file, but to the crate's root.
    of_root: Vec<Vec<String>>,
}

/// The module that a file is, by its path below the sources; none for a crate's root and for tests.
fn module_of(below: &str) -> Option<Vec<String>> {
    let path = below.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let module: Vec<String> = path.split('/').map(str::to_owned).collect();
    let is_root = path == "lib" || path == "main" || path.starts_with("bin/");
    (!is_of_tests(&module) && !is_root).then_some(module)
}

/// Whether a module has tests alone, or what threads are made of when they are explored.
fn is_of_tests(module: &[String]) -> bool {
    module.last().is_some_and(|last| last == "tests") || module.iter().any(|at| at == "explored")
}

/// Every path that code names from one of these children on, split at `::`.
fn paths_of_children(code: &str, children: &[&str]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut uses = Vec::new();
    for at in words(code, "use") {
        let statement = code[at..].split(';').next().unwrap_or_default();
        // `use<'a>` says what a type captures.
        if statement["use".len()..].starts_with(char::is_whitespace) {
            uses.push(at..at + statement.len());
            tree(&statement["use".len()..], &[], &mut found);
        }
    }
    found.retain(|path| path.first().is_some_and(|first| children.contains(&&first[..])));
    for child in children {
        for at in words(code, child) {
            let (before, behind) = (code[..at].trim_end(), code[at + child.len()..].trim_start());
            // `a.child::<T>()` calls a method.
            let is_inner = before.ends_with("::") || before.ends_with('.');
            let leads_on = behind
                .strip_prefix("::")
                .is_some_and(|behind| !behind.trim_start().starts_with('<'));
            if leads_on && !is_inner && !uses.iter().any(|used| used.contains(&at)) {
                tree(&code[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Every path that code names from `crate`, `self` or `super` on, split at `::`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate", "super", "self"] {
        for at in words(code, start) {
            // `$crate` in a macro is the root of what others see.
            let is_inner = code[..at].trim_end().ends_with("::") || code[..at].ends_with('$');
            // `pub(crate)`, `pub(in crate::suite)`.
            let opened = code[..at].rfind(['(', ';', '{', '}']).map_or("", |open| &code[..open]);
            let says_who_sees =
                words(opened, "pub").last().is_some_and(|word| word + 3 == opened.len());
            if !is_inner && !says_who_sees {
                tree(&code[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Reads a path, or the tree of paths of a `use`.
fn tree(code: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = before.to_vec();
    let mut rest = code.trim_start();
    loop {
        if rest.starts_with('{') {
            for branch in arguments(inside_brackets(rest, 0)) {
                tree(branch, &path, found);
            }
            return;
        }
        let is_in_name = |this: char| this.is_ascii_alphanumeric() || this == '_';
        let name: String = rest.chars().take_while(|this| is_in_name(*this)).collect();
        if name.is_empty() {
            break;
        }
        rest = &rest[name.len()..];
        path.push(name);
        let Some(behind) = rest.trim_start().strip_prefix("::") else { break };
        rest = behind.trim_start();
    }
    // A macro that the crate exports lies in the root, wherever its text is.
    if !rest.starts_with('!') {
        found.push(path);
    }
}

impl<'a> Graph<'a> {
    fn of(sources: &'a [Source], folder: &str) -> Self {
        let file = |source: &'a Source| {
            let module = module_of(source.path.strip_prefix(folder)?)?;
            Some(File { source, module })
        };
        let files: Vec<File<'a>> = sources.iter().filter_map(file).collect();
        let named: BTreeMap<&[String], usize> =
            files.iter().enumerate().map(|(at, file)| (&file.module[..], at)).collect();
        let (mut imports, mut of_root) = (Vec::new(), Vec::new());
        for (at, file) in files.iter().enumerate() {
            let code = &file.source.code_around_tests();
            let children = files.iter().filter_map(|other| {
                let (name, parent) = other.module.split_last()?;
                (parent == file.module).then_some(&name[..])
            });
            let children: Vec<&str> = children.collect();
            let below = paths_of_children(code, &children);
            let below = below.into_iter().map(|path| [&file.module[..], &path].concat());
            let above = paths(code).into_iter();
            let above = above.filter_map(|path| absolute(&file.module, path));
            let (mut targets, mut unknown) = (BTreeSet::new(), Vec::new());
            for path in below.chain(above) {
                let found = (1..=path.len()).rev().find_map(|len| named.get(&path[..len]));
                match found {
                    Some(target) if *target == at => {}
                    Some(target) => drop(targets.insert(*target)),
                    None if path.is_empty() || is_of_tests(&path) => {}
                    None => unknown.push(path.join("::")),
                }
            }
            imports.push(targets);
            of_root.push(unknown);
        }
        Self { files, imports, of_root }
    }

    fn name(&self, at: usize) -> &str {
        &self.files[at].source.path
    }

    /// The folder that a file lies in, if it lies in one; a folder's `mod.rs` does.
    fn folder(&self, at: usize, house: &House) -> Option<&'static str> {
        let first = self.files[at].module.first()?;
        house.storeys.iter().map(|(folder, _)| *folder).find(|folder| folder == first)
    }

    /// The files that can be reached from one.
    fn reached(&self, from: usize) -> BTreeSet<usize> {
        let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(at) = left.pop() {
            left.extend(self.imports[at].iter().filter(|next| reached.insert(**next)));
        }
        reached
    }
}

/// A path from the crate's root.
fn absolute(module: &[String], path: Vec<String>) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let base = &module[..module.len().checked_sub(supers)?];
            Some([base, &path[supers..]].concat())
        }
        _ => Some([module, &path[1..]].concat()),
    }
}

/// Folders of a crate that its table lacks. What they import would be held against nothing.
pub(crate) fn unlisted(sources: &[Source], house: &House) -> Vec<Finding> {
    let folder = |source: &Source| {
        let (folder, _) = source.path.strip_prefix(house.sources)?.split_once('/')?;
        Some(folder.to_owned())
    };
    let folders: BTreeSet<String> = sources.iter().filter_map(folder).collect();
    let is_unlisted = |folder: &&String| house.storeys.iter().all(|(name, _)| name != folder);
    let finding = |folder: &String| {
        Finding::new(&format!("{}{folder}", house.sources), 0, "is in no table of storeys")
    };
    folders.iter().filter(is_unlisted).map(finding).collect()
}

/// Imports of a folder that the table does not allow, and files outside of all folders that a
/// folder imports.
pub(crate) fn upward(sources: &[Source], house: &House) -> Vec<Finding> {
    let graph = Graph::of(sources, house.sources);
    let mut found = Vec::new();
    for (at, paths) in graph.of_root.iter().enumerate() {
        let finding = |path| Finding::new(graph.name(at), 0, format!("names the root's {path}"));
        found.extend(paths.iter().map(finding));
    }
    for (at, imports) in graph.imports.iter().enumerate() {
        let Some(folder) = graph.folder(at, house) else { continue };
        let allowed = house.storeys.iter().find(|(name, _)| *name == folder);
        let allowed = allowed.map_or(&[][..], |(_, allowed)| allowed);
        for target in imports {
            let other = graph.folder(*target, house);
            let is_allowed = other == Some(folder)
                || other.is_some_and(|other| allowed.contains(&other))
                || allowed.contains(&graph.files[*target].module[0].as_str());
            if !is_allowed {
                let target = graph.name(*target);
                found.push(Finding::new(graph.name(at), 0, format!("imports {target}")));
            }
        }
    }
    found
}

/// Files that import each other in a circle: each with the next one that leads back to it.
pub(crate) fn circles(sources: &[Source], house: &House) -> Vec<Finding> {
    let graph = Graph::of(sources, house.sources);
    let reached: Vec<_> = (0..graph.files.len()).map(|at| graph.reached(at)).collect();
    let mut found = Vec::new();
    for (at, imports) in graph.imports.iter().enumerate() {
        for target in imports.iter().filter(|target| reached[**target].contains(&at)) {
            let target = graph.name(*target);
            let what = format!("imports {target}, which leads back here");
            found.push(Finding::new(graph.name(at), 0, what));
        }
    }
    found
}

/// Folders with too many files, those below them apart.
pub(crate) fn crowded(sources: &[Source], house: &House) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.starts_with(house.sources)) {
        let (folder, _) = source.path.rsplit_once('/').unwrap_or_default();
        *folders.entry(folder).or_default() += 1;
    }
    let crowded = folders.into_iter().filter(|(_, files)| *files > FILES_MAX);
    let finding =
        |(folder, files)| Finding::new(folder, 0, format!("{files} files, at most {FILES_MAX}"));
    crowded.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House =
        House { sources: "src/", storeys: &[("ground", &[]), ("roof", &["ground"])] };

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(path, text)| Source::new(path, text)).collect()
    }

    #[test]
    fn an_arrow_up_is_found_with_both_names() {
        let files = [
            ("src/ground/stone.rs", "use crate::roof::tile::Tile;"),
            ("src/roof/tile.rs", "pub(crate) struct Tile;"),
        ];
        let found = upward(&sources(&files), &HOUSE);
        assert_eq!(found[0].to_string(), "src/ground/stone.rs:0: imports src/roof/tile.rs");
        assert_eq!(found.len(), 1);
        let down = [
            ("src/ground/stone.rs", "pub struct Stone; // crate::roof::tile"),
            ("src/roof/tile.rs", "use crate::{ground::{stone, stone::Stone}};"),
            ("src/roof/mod.rs", "mod tile;"),
        ];
        assert!(upward(&sources(&down), &HOUSE).is_empty());
        assert!(circles(&sources(&down), &HOUSE).is_empty());
    }

    #[test]
    fn a_folder_that_the_table_lacks_is_found() {
        let files = [
            ("src/ground/stone.rs", ""),
            ("src/roof/tiles/tile.rs", ""),
            ("src/lib.rs", ""),
            ("other/cellar/wine.rs", ""),
        ];
        assert!(unlisted(&sources(&files), &HOUSE).is_empty());
        let files = [("src/cellar/wine.rs", ""), ("src/cellar/mod.rs", "")];
        let found = unlisted(&sources(&files), &HOUSE);
        assert_eq!(found[0].to_string(), "src/cellar:0: is in no table of storeys");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn a_circle_is_found_with_both_names() {
        for path in
            ["use super::b::B;", "use crate::ground::{b::B};", "type B = crate::ground::b::B;"]
        {
            let files = [("src/ground/a.rs", path), ("src/ground/b.rs", "use super::a::A;")];
            let found = circles(&sources(&files), &HOUSE);
            let told: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert!(told[0].contains("a.rs") && told[0].contains("b.rs"), "{told:?}");
            assert_eq!(told.len(), 2, "{path}");
        }
        let tests = "struct A;\n#[cfg(test)]\nmod tests { use super::b::B; }";
        let files = [("src/ground/a.rs", tests), ("src/ground/b.rs", "use super::a::A;")];
        assert!(circles(&sources(&files), &HOUSE).is_empty());
    }

    #[test]
    fn a_circle_through_a_child_is_found_with_both_names() {
        let of_parent = [
            "mod b; use b::B;",
            "mod b; pub use self::b::B;",
            "mod b; use {b::B as C};",
            "mod b; fn f() { b::f() }",
            "mod b; type B = b :: B;",
        ];
        for parent in of_parent {
            for child in ["use super::A;", "use super::*;", "fn f() { super::A; }"] {
                let files = [("src/ground/mod.rs", parent), ("src/ground/b.rs", child)];
                let found = circles(&sources(&files), &HOUSE);
                let told: Vec<String> = found.iter().map(ToString::to_string).collect();
                assert_eq!(told.len(), 2, "{parent} {child}");
                assert!(told[0].contains("mod.rs") && told[0].contains("b.rs"), "{told:?}");
            }
        }
        let no_import = [
            "mod b; fn f() { x.b::<u8>(); a::b::c(); let b = 0; }",
            "mod b; use crate::ground::a::{b::B}; fn f() -> impl T + use<'_> { b }",
        ];
        for parent in no_import {
            let a = "pub mod b { pub struct B; }";
            let child = "use super::A;";
            let files =
                [("src/ground/mod.rs", parent), ("src/ground/b.rs", child), ("src/ground/a.rs", a)];
            assert!(circles(&sources(&files), &HOUSE).is_empty(), "{parent}");
        }
    }

    #[test]
    fn what_the_root_shows_is_found() {
        let found = |path| {
            let files = [("src/ground/a.rs", path), ("src/roof/tile.rs", "pub struct Tile;")];
            let found = upward(&sources(&files), &HOUSE);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found("use crate::Tile;"), ["src/ground/a.rs:0: names the root's Tile"]);
        assert!(found("crate::tiles! { } macro_rules! a { () => { $crate::Tile } }").is_empty());
    }

    #[test]
    fn who_may_see_an_item_is_no_import() {
        let files = [
            ("src/ground/a.rs", "pub(in crate::ground) struct A; pub(crate) struct B;"),
            ("src/ground/mod.rs", "mod a; pub(crate) use a::A;"),
        ];
        assert!(circles(&sources(&files), &HOUSE).is_empty());
    }

    #[test]
    fn a_crowd_is_counted() {
        let names: Vec<String> = (0..=FILES_MAX).map(|at| format!("src/ground/{at}.rs")).collect();
        let of = |count| -> Vec<Source> {
            names.iter().take(count).map(|name| Source::new(name, "")).collect()
        };
        assert!(crowded(&of(FILES_MAX), &HOUSE).is_empty());
        assert_eq!(crowded(&of(FILES_MAX + 1), &HOUSE).len(), 1);
    }
}
