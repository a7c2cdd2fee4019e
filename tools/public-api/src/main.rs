//! The public API of the published crates as text, in `docs/api`: what a change adds to it or takes
//! from it is then seen in the change.
//!
//! ```sh
//! cargo run --manifest-path tools/public-api/Cargo.toml             # writes the text
//! cargo run --manifest-path tools/public-api/Cargo.toml -- --check  # compares it
//! ```
//!
//! It also counts the named items of the root crate: modules, types, traits, functions, constants
//! and macros that a path leads to, and no methods. There are to be fewer than [`ITEMS_MAX`].
//!
//! It needs a nightly compiler, since rustdoc writes JSON only there.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use public_api::PublicApi;

/// The crates whose text is kept: the package, and its folder.
const CRATES: [(&str, &str); 3] = [
    ("nvm-journal", "."),
    ("nvm-journal-core", "crates/journal-core"),
    ("nvm-journal-pmem-sys", "crates/pmem-sys"),
];

/// The root crate names fewer items than this.
const ITEMS_MAX: usize = 80;

/// Lines of a difference that are shown.
const SHOWN_MAX: usize = 40;

/// What a line of the text can be, if it is an item of its own.
const KINDS: [&str; 10] =
    ["mod", "struct", "enum", "union", "trait", "type", "fn", "const", "static", "use"];

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("public-api: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything is as it should be.
fn run() -> Result<bool, Box<dyn Error>> {
    let checks = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [option] if option == "--check" => true,
        _ => return Err("the only option is --check".into()),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut holds = true;
    for (package, folder) in CRATES {
        let text = text_of(&api_of(package, &root.join(folder).join("Cargo.toml"))?);
        if folder == "." {
            holds &= is_small(&text);
        }
        let kept = root.join("docs/api").join(format!("{package}.txt"));
        if checks {
            holds &= is_kept(&kept, &text)?;
        } else {
            fs::create_dir_all(root.join("docs/api"))?;
            fs::write(&kept, text)?;
            println!("wrote {}", kept.display());
        }
    }
    Ok(holds)
}

fn api_of(package: &str, manifest: &Path) -> Result<PublicApi, Box<dyn Error>> {
    let json = rustdoc_json::Builder::default()
        .toolchain("nightly")
        .manifest_path(manifest)
        .target_dir(target_dir())
        .package(package)
        .all_features(true)
        .quiet(true)
        .build()?;
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(api)
}

/// Apart from where others build: another compiler would only make them build again.
fn target_dir() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("target")).join("rustdoc-json")
}

/// An item a line.
fn text_of(api: &PublicApi) -> String {
    api.items().map(|item| format!("{item}\n")).collect()
}

/// What an item is and its path, for a line that says both. Attributes stand before `pub`.
fn kind_and_path(line: &str) -> Option<(&str, &str)> {
    let (_, declared) = line.split_once("pub ")?;
    let qualifiers = ["unsafe", "async", "extern", "\"C\""];
    let mut words = declared.split(' ').skip_while(|word| {
        // `const` begins a constant, and qualifies a function.
        qualifiers.contains(word) || *word == "const" && declared.contains("const fn ")
    });
    let kind = words.next().filter(|word| KINDS.contains(word))?;
    let word = words.next()?;
    let end = word.find(['<', '(', ';', '=', '!']).unwrap_or(word.len());
    Some((kind, word[..end].trim_end_matches(':')))
}

/// The paths that modules of a crate name, each once; the root module is none of them.
fn named_items(text: &str) -> BTreeSet<&str> {
    let items: Vec<_> = text.lines().filter_map(kind_and_path).collect();
    let modules = items.iter().filter(|(kind, _)| *kind == "mod");
    let modules: BTreeSet<_> = modules.map(|(_, path)| *path).collect();
    let is_in_module =
        |path: &str| path.rsplit_once("::").is_some_and(|(parent, _)| modules.contains(parent));
    items.into_iter().map(|(_, path)| path).filter(|path| is_in_module(path)).collect()
}

fn is_small(text: &str) -> bool {
    let count = named_items(text).len();
    println!("the root crate names {count} items; there are to be fewer than {ITEMS_MAX}");
    count < ITEMS_MAX
}

/// Whether the text is the one that is kept; if not, shows where they differ.
fn is_kept(path: &Path, text: &str) -> Result<bool, Box<dyn Error>> {
    let kept = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (before, after): (HashSet<_>, HashSet<_>) =
        (kept.lines().collect(), text.lines().collect());
    if kept == text {
        println!("{} holds", path.display());
        return Ok(true);
    }
    println!("{} is not what the sources say. Run this without --check:", path.display());
    let gone = kept.lines().filter(|line| !after.contains(line)).map(|line| ('-', line));
    let new = text.lines().filter(|line| !before.contains(line)).map(|line| ('+', line));
    for (sign, line) in gone.chain(new).take(SHOWN_MAX) {
        println!("  {sign} {line}");
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_modules_are_counted_and_methods_are_not() {
        let text = "pub mod root\n\
            pub mod root::below\n\
            pub use root::below::Other\n\
            #[non_exhaustive] pub enum root::Kind\n\
            pub root::Kind::First\n\
            pub root::Kind::Second(u8)\n\
            impl root::Kind\n\
            pub const root::Kind::ALL: &[Self]\n\
            pub const fn root::Kind::is_first(&self) -> bool\n\
            impl core::clone::Clone for root::Kind\n\
            pub fn root::Kind::clone(&self) -> root::Kind\n\
            pub struct root::Wrapper<T = u8>\n\
            pub root::Wrapper::field: T\n\
            #[repr(C, align(8))] pub union root::Either\n\
            pub unsafe trait root::Port: core::marker::Send\n\
            pub type root::Port::Reader: core::clone::Clone\n\
            pub const root::LIMIT: usize\n\
            pub const fn root::limit<T>(t: T) -> usize\n\
            pub type root::Alias<T> = root::Wrapper<T>\n";
        let expected = [
            "root::Alias",
            "root::Either",
            "root::Kind",
            "root::LIMIT",
            "root::Port",
            "root::Wrapper",
            "root::below",
            "root::below::Other",
            "root::limit",
        ];
        assert_eq!(named_items(text), BTreeSet::from(expected));
    }
}
