//! Rules about manifests and documents.

use crate::manifest::{Kind, Package, unquoted};
use crate::source::Finding;

/// Which storey of the house a package lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// `journal-core`: imports no sibling.
    Core,
    /// `pmem-sys`: the ground.
    Ground,
    /// `sim-disk`: the weather.
    Weather,
    /// `block-journal`: another engine, to compare with.
    Baseline,
    /// `block-files`: files on the door.
    Files,
    /// `integrations`: other programs on files and on the door.
    Integration,
    /// `policies/codec`: what policies share.
    Codec,
    /// Every other policy.
    Policy,
    /// The root package.
    Front,
    /// `tools`, but for those that follow: what tests, benches and fuzz targets share.
    Lab,
    /// `tools/bench-kit` and `tools/firmware`: tools that import the core at most, so that anything
    /// may be tested with them.
    Kit,
    /// Fuzz targets and probes, which are outside the workspace and import what they look at.
    Visitor,
    /// What compares with copyleft codecs: outside the workspace, and nobody imports it.
    Oracle,
}

fn tier(folder: &str) -> Option<Tier> {
    Some(match folder {
        "" => Tier::Front,
        "crates/journal-core" => Tier::Core,
        "crates/pmem-sys" => Tier::Ground,
        "crates/sim-disk" => Tier::Weather,
        "crates/block-journal" => Tier::Baseline,
        "crates/block-files" => Tier::Files,
        "integrations/sqlite/extension"
        | "integrations/sqlite/guest"
        | "integrations/sqlite/suite" => Tier::Visitor,
        _ if folder.starts_with("integrations/") => Tier::Integration,
        "crates/policies/codec" => Tier::Codec,
        _ if folder.starts_with("crates/policies/") => Tier::Policy,
        _ if folder.starts_with("crates/") => return None,
        "tools/bench-kit" | "tools/firmware" => Tier::Kit,
        _ if folder.starts_with("tools/") => Tier::Lab,
        _ if folder.starts_with("oracles/") => Tier::Oracle,
        _ => Tier::Visitor,
    })
}

fn may_import(from: Tier, to: Tier, kind: Kind) -> bool {
    match (from, to) {
        // Not even a visitor: who links an oracle is under its licence.
        (_, Tier::Oracle) => false,
        (Tier::Oracle, to) => matches!(to, Tier::Codec | Tier::Core | Tier::Kit),
        (Tier::Visitor, _) => true,
        (Tier::Lab, to) => to != Tier::Visitor,
        // Tools and the weather are for tests: a user's program carries no simulator.
        (Tier::Front, Tier::Lab | Tier::Weather) => kind == Kind::Dev,
        (Tier::Front | Tier::Codec | Tier::Policy, Tier::Kit) => kind == Kind::Dev,
        // A baseline is tried as stores of others are, and no engine is built on it.
        (Tier::Baseline, Tier::Weather) => kind == Kind::Dev,
        (Tier::Baseline, to) => to == Tier::Core,
        // What stands on the door is in nobody's way: tests of the door do not need it.
        (Tier::Files | Tier::Integration, Tier::Weather | Tier::Kit | Tier::Lab) => {
            kind == Kind::Dev
        }
        (Tier::Files, to) => matches!(to, Tier::Core | Tier::Front),
        (Tier::Integration, to) => matches!(to, Tier::Core | Tier::Files | Tier::Front),
        (Tier::Front, to) => !matches!(
            to,
            Tier::Baseline | Tier::Files | Tier::Front | Tier::Integration | Tier::Visitor
        ),
        (Tier::Policy, Tier::Codec) => true,
        (Tier::Ground | Tier::Weather | Tier::Codec | Tier::Policy | Tier::Kit, to) => {
            to == Tier::Core
        }
        (Tier::Core, _) => false,
    }
}

/// The packages that `package` names, by their own names.
fn imports<'a>(package: &'a Package, all: &'a [Package]) -> Vec<(Kind, String)> {
    let workspace = all.iter().find(|package| package.folder.is_empty());
    let named = package.manifest.dependencies().into_iter().map(|dependency| {
        let shared = workspace.and_then(|root| root.manifest.shared_package(&dependency.key));
        let own = dependency.package.or_else(|| shared.map(str::to_owned));
        (dependency.kind, own.unwrap_or(dependency.key))
    });
    named.collect()
}

/// ARCHITECTURE.md draws them.
pub(crate) fn arrows(packages: &[Package]) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in packages {
        let Some(from) = tier(&package.folder) else {
            found.push(Finding::new(&package.path(), 0, "lives in no known tier"));
            continue;
        };
        for (kind, name) in imports(package, packages) {
            let Some(target) = packages.iter().find(|target| target.name() == name) else {
                continue;
            };
            let allowed = tier(&target.folder).is_some_and(|to| may_import(from, to, kind));
            if !allowed {
                let what = format!("imports {} ({kind:?})", target.folder);
                found.push(Finding::new(&package.path(), 0, what));
            }
        }
    }
    found
}

/// The core links these and nothing else.
pub(crate) fn foundations(packages: &[Package]) -> Vec<Finding> {
    let allowed = ["crossbeam-utils", "serde", "zerocopy"];
    let core = packages.iter().filter(|package| tier(&package.folder) == Some(Tier::Core));
    let mut found = Vec::new();
    for core in core {
        for (kind, name) in imports(core, packages) {
            if kind != Kind::Dev && !allowed.contains(&name.as_str()) {
                found.push(Finding::new(&core.path(), 0, format!("links {name}")));
            }
        }
    }
    found
}

/// What published packages share is stated once.
pub(crate) fn own_facts(package: &Package) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut miss = |what: &str| found.push(Finding::new(&package.path(), 0, what));
    if package.is_published() {
        for fact in ["version", "edition", "rust-version", "license"] {
            if !package.manifest.inherits(&format!("package.{fact}")) {
                miss(&format!("states its own {fact}"));
            }
        }
        if package.manifest.value("package.description").is_none() {
            miss("has no description");
        }
        if package.manifest.value("package.documentation").is_none() {
            miss("does not say where its documentation is");
        }
        if package.manifest.value("package.metadata.docs.rs.all-features") != Some("true") {
            miss("has documentation of some features only");
        }
        if !package.manifest.inherits("lints") {
            miss("has its own lints");
        }
    }
    found
}

/// Tools of the project stay at home.
pub(crate) fn published_by_mistake(package: &Package) -> Vec<Finding> {
    let is_at_home =
        matches!(tier(&package.folder), Some(Tier::Visitor | Tier::Oracle | Tier::Lab | Tier::Kit));
    if !is_at_home || !package.is_published() {
        return Vec::new();
    }
    vec![Finding::new(&package.path(), 0, "lacks `publish = false`")]
}

/// Codecs that only oracles may link, and no two of them together, since their licences differ.
const COPYLEFT: [&str; 2] = ["lzo1x", "minilzo-rs"];

/// Codecs and licences that nobody here may have, but for oracles, which then say so.
pub(crate) fn copyleft(package: &Package) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut miss = |what: String| found.push(Finding::new(&package.path(), 0, what));
    let names = package.manifest.dependencies().into_iter();
    let names = names.map(|dependency| dependency.package.unwrap_or(dependency.key));
    let linked: Vec<_> = names.filter(|name| COPYLEFT.contains(&name.as_str())).collect();
    let licences = ["package.license", "workspace.package.license"]
        .map(|path| package.manifest.value(path).map(unquoted));
    if tier(&package.folder) == Some(Tier::Oracle) {
        if linked.len() != 1 {
            miss(format!("links {} copyleft codecs", linked.len()));
        }
        if !licences[0].is_some_and(|licence| licence.starts_with("GPL-")) {
            miss("does not say that it is under the GPL".to_owned());
        }
        return found;
    }
    linked.iter().for_each(|name| miss(format!("{name} is under the GPL")));
    let others = licences.into_iter().flatten().filter(|licence| *licence != "MIT OR Apache-2.0");
    if package.is_published() {
        others.for_each(|_| miss("another licence than MIT OR Apache-2.0".to_owned()));
    }
    found
}

/// What the packages of a lock file reach, by whatever way.
pub(crate) fn locked_copyleft(path: &str, lock: &str) -> Vec<Finding> {
    let name_of = |line: &str| line.strip_prefix("name = ").map(|name| unquoted(name).to_owned());
    let lines = lock.lines().zip(1..);
    let names = lines.filter_map(|(line, number)| Some((name_of(line)?, number)));
    let found = names.filter(|(name, _)| COPYLEFT.contains(&name.as_str()));
    found.map(|(name, number)| Finding::new(path, number, name)).collect()
}

pub(crate) fn core_defaults(package: &Package) -> Vec<Finding> {
    let is_core = tier(&package.folder) == Some(Tier::Core);
    if !is_core || package.manifest.value("features.default") == Some("[]") {
        return Vec::new();
    }
    vec![Finding::new(&package.path(), 0, "lacks `default = []`")]
}

/// A package outside the workspace is neither tested nor linted with it.
pub(crate) fn not_members(packages: &[Package]) -> Vec<Finding> {
    let Some(root) = packages.iter().find(|package| package.folder.is_empty()) else {
        return vec![Finding::new("Cargo.toml", 0, "there is no root package")];
    };
    let members = root.manifest.array("workspace.members");
    // A tool may be left out, if the manifest says so.
    let excluded = root.manifest.array("workspace.exclude");
    let is_left_out =
        |folder: &str| folder.starts_with("tools/") && excluded.iter().any(|out| out == folder);
    let is_member = |folder: &str| {
        members.iter().any(|member| match member.strip_suffix("/*") {
            Some(parent) => folder.rsplit_once('/').is_some_and(|(above, _)| above == parent),
            None => member == folder,
        })
    };
    let is_ours = |folder: &str| ["crates/", "tools/"].iter().any(|row| folder.starts_with(row));
    let ours = packages.iter().filter(|package| is_ours(&package.folder));
    let strangers =
        ours.filter(|package| !is_member(&package.folder) && !is_left_out(&package.folder));
    strangers.map(|package| Finding::new(&package.path(), 0, "is no member")).collect()
}

/// Commands that name a bench, an example or a test which does not exist.
pub(crate) fn missing_targets(readme: &str, files: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, number) in readme.lines().zip(1..) {
        let words: Vec<&str> = line.split([' ', '`']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let folder = match pair[0] {
                "--bench" => "benches",
                "--bin" => "src/bin",
                "--example" => "examples",
                "--test" => "tests",
                _ => continue,
            };
            let name = pair[1];
            let ends = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
            if !files.iter().any(|file| ends.iter().any(|end| file.ends_with(end))) {
                found.push(Finding::new("README.md", number, format!("no {folder}/{name}")));
            }
        }
    }
    found
}

/// Links into the repository that lead nowhere.
pub(crate) fn broken_links(document: &str, files: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, number) in document.lines().zip(1..) {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', '#']).next().unwrap_or_default();
            let target = target.trim_end_matches('/');
            let below = format!("{target}/");
            let exists = |file: &String| file == target || file.starts_with(&below);
            if !target.is_empty() && !target.contains("://") && !files.iter().any(exists) {
                found.push(Finding::new("README.md", number, format!("no {target}")));
            }
        }
    }
    found
}

/// A user that updates wants to know first whether old media can still be read.
pub(crate) fn releases_without_format(changelog: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let lines: Vec<&str> = changelog.lines().collect();
    for (index, heading) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("## [")) {
        let section = lines[index + 1..].iter().take_while(|line| !line.starts_with("## "));
        if !section.into_iter().any(|line| line.starts_with("On-media format:")) {
            found.push(Finding::new("CHANGELOG.md", index + 1, *heading));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    fn package(folder: &str, text: &str) -> Package {
        Package::new(folder, Manifest::parse(text))
    }

    /// A house with one package more than its root and its core.
    fn house(folder: &str, text: &str) -> Vec<Package> {
        let shared = "[workspace]\nmembers = [\"crates/journal-core\", \"crates/policies/*\"]\n\
            exclude = [\"tools/out\", \"crates/out\"]\n[workspace.dependencies]\n\
            core = { package = \"n-core\", path = \"crates/journal-core\" }\n\
            [package]\nname = \"n\"";
        vec![
            package("", shared),
            package("crates/journal-core", "[package]\nname = \"n-core\""),
            package("crates/sim-disk", "[package]\nname = \"n-sim\""),
            package("crates/policies/codec", "[package]\nname = \"n-codec\""),
            package("crates/policies/lcow", "[package]\nname = \"n-lcow\""),
            package(folder, text),
        ]
    }

    fn against(folder: &str, text: &str) -> usize {
        arrows(&house(folder, text)).len()
    }

    #[test]
    fn arrows_against_the_house_are_found() {
        let core = "[dependencies]\ncore.workspace = true";
        let sim = "[dependencies]\nn-sim = \"1\"";
        let sim_for_tests = "[target.'cfg(unix)'.dev-dependencies.sim]\npackage = \"n-sim\"";
        let codec = "[build-dependencies]\nn-codec = { path = \"../codec\" }";
        let sibling = "[dependencies]\nx = { package = \"n-lcow\", version = \"1\" }";

        assert_eq!(against("crates/pmem-sys", core), 0);
        assert_eq!(against("crates/pmem-sys", sim), 1);
        assert_eq!(against("crates/pmem-sys", sim_for_tests), 1);
        assert_eq!(against("crates/pmem-sys", codec), 1);
        assert_eq!(against("crates/policies/full-block", core), 0);
        assert_eq!(against("crates/policies/full-block", codec), 0);
        assert_eq!(against("crates/policies/full-block", sibling), 1);
        assert_eq!(against("crates/policies/full-block", sim_for_tests), 1);
        assert_eq!(against("crates/block-journal", core), 0);
        assert_eq!(against("crates/block-journal", sim), 1);
        assert_eq!(against("crates/block-journal", sim_for_tests), 0);
        assert_eq!(against("crates/block-journal", sibling), 1);
        assert_eq!(against("crates/journal-core", sibling), 1);
        assert_eq!(against("crates/attic", ""), 1);
        assert_eq!(against("fuzz", sim), 0);
        assert_eq!(against("oracles/x", sim), 1);
        assert_eq!(against("oracles/x", codec), 0);
        assert_eq!(against("oracles/x", core), 0);
        assert_eq!(against("tools/lab", sim), 0);
        assert_eq!(against("tools/lab", sibling), 0);
        assert_eq!(against("tools/bench-kit", core), 0);
        assert_eq!(against("tools/bench-kit", codec), 1);
        for (folder, tools, tests_alone) in [
            ("crates/policies/full-block", "tools/bench-kit", true),
            ("crates/policies/full-block", "tools/lab", false),
            ("crates/sim-disk", "tools/lab", false),
            ("oracles/x", "tools/lab", false),
        ] {
            let tool = || package(tools, "[package]\nname = \"tool\"");
            let found = |kind: &str| {
                let mut packages = house(folder, &format!("[{kind}]\ntool = \"1\""));
                packages.push(tool());
                arrows(&packages).len()
            };
            assert_eq!(found("dependencies"), 1, "{folder}");
            assert_eq!(found("dev-dependencies"), usize::from(!tests_alone), "{folder}");
        }
        let oracle = || package("oracles/x", "[package]\nname = \"oracle\"");
        for folder in ["fuzz", "oracles/y", "crates/policies/full-block"] {
            let text = "[dev-dependencies]\noracle = { path = \"../oracles/x\" }";
            let mut packages = house(folder, text);
            packages.push(oracle());
            assert_eq!(arrows(&packages).len(), 1, "{folder}");
        }
        assert_eq!(against("", sim), 1);
        assert_eq!(against("", sim_for_tests), 0);
        assert_eq!(against("", sibling), 0);
    }

    #[test]
    fn the_core_links_foundations_only() {
        let linked = |text| foundations(&house("crates/journal-core", text)).len();
        assert_eq!(linked("[dependencies]\nlibc = \"1\"\nzerocopy = \"1\""), 1);
        assert_eq!(linked("[dependencies]\nserde = { version = \"1\", optional = true }"), 0);
        assert_eq!(linked("[dev-dependencies]\nproptest = \"1\""), 0);
    }

    const COMPLETE: &str = "[package]\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\ndescription = \"d\"\n\
        documentation = \"d\"\n[package.metadata.docs.rs]\nall-features = true\n\
        [lints]\nworkspace = true\n[features]\ndefault = []\n";

    #[test]
    fn manifests_that_stray_are_found() {
        let core = |text: &str| package("crates/journal-core", text);
        assert_eq!(own_facts(&core(COMPLETE)), []);
        let shared = ["version.w", "edition.w", "rust-version.w", "license.w"];
        let own = ["description", "documentation", "all-features"];
        for fact in shared.into_iter().chain(own) {
            let without = COMPLETE.replace(&format!("\n{fact}"), "\nx");
            assert_eq!(own_facts(&core(&without)).len(), 1, "{fact}");
        }
        assert_eq!(own_facts(&core(&COMPLETE.replace("workspace = true\n[f", "[f"))).len(), 1);
        assert_eq!(own_facts(&package("fuzz", "[package]\npublish = false")), []);

        assert_eq!(published_by_mistake(&package("fuzz", "[package]")).len(), 1);
        assert_eq!(published_by_mistake(&package("oracles/x", "[package]")).len(), 1);
        assert_eq!(published_by_mistake(&package("tools/lab", "[package]")).len(), 1);
        assert_eq!(published_by_mistake(&package("fuzz", "[package]\npublish = false")), []);
        assert_eq!(published_by_mistake(&core("[package]")), []);

        assert_eq!(core_defaults(&core(COMPLETE)), []);
        let on_unasked = COMPLETE.replace("default = []", "default = [\"std\"]");
        assert_eq!(core_defaults(&core(&on_unasked)).len(), 1);

        assert_eq!(copyleft(&core("[dev-dependencies]\nminilzo-rs = \"1\"")).len(), 1);
        assert_eq!(copyleft(&core("[package]\nlicense = \"GPL-3.0\"")).len(), 1);
        assert_eq!(copyleft(&core(COMPLETE)), []);
        let fuzz = "[package]\npublish = false\n[dependencies.x]\npackage = \"lzo1x\"";
        assert_eq!(copyleft(&package("fuzz", fuzz)).len(), 1);
        let oracle = "[package]\nlicense = \"GPL-2.0-only\"\n[dependencies]\nlzo1x = \"1\"\n";
        let found = |text: &str| copyleft(&package("oracles/x", text)).len();
        assert_eq!(found(oracle), 0);
        assert_eq!(found(&oracle.replace("GPL-2.0-only", "MIT")), 1);
        assert_eq!(found(&oracle.replace("lzo1x", "lz4_flex")), 1);
        assert_eq!(found(&format!("{oracle}minilzo-rs = \"1\"\n")), 1);

        let lock = "[[package]]\nname = \"lzo1x\"\n[[package]]\nname = \"lzo\"\n";
        assert_eq!(locked_copyleft("Cargo.lock", lock).len(), 1);

        assert_eq!(not_members(&house("crates/pmem-sys", "")).len(), 2);
        assert_eq!(not_members(&house("crates/policies/new", "")).len(), 1);
        assert_eq!(not_members(&house("tools/lab", "")).len(), 2);
        assert_eq!(not_members(&house("tools/out", "")).len(), 1);
        assert_eq!(not_members(&house("crates/out", "")).len(), 2);
    }

    #[test]
    fn documents_that_stray_are_found() {
        let files = ["benches/a.rs", "tests/b/main.rs", "docs/c.md"].map(str::to_owned);
        let good = "`cargo bench --bench a`, `--test b`, [c](docs/c.md#d), [d](docs/), [e](#e)";
        assert_eq!(missing_targets(good, &files), []);
        assert_eq!(broken_links(good, &files), []);
        assert_eq!(missing_targets("cargo run --example a\n`--bench b`", &files).len(), 2);
        assert_eq!(broken_links("[x](docs/x.md), [y](doc), [z](https://z)", &files).len(), 2);

        let dated = "# C\n## [Unreleased]\nOn-media format: none\n## [0.1.0]\n### Added\n";
        assert_eq!(releases_without_format(dated).len(), 1);
        assert_eq!(releases_without_format(&dated.replace("### Added", "On-media format: 1")), []);
    }
}
