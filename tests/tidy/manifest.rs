//! As much of a `Cargo.toml` as the rules ask for, without a dependency that reads it.

/// What a manifest says, one value per full path (`package.name`, `dependencies.x.path`).
pub(crate) struct Manifest {
    entries: Vec<(Vec<String>, String)>,
}

/// When a dependency is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

/// One dependency as its manifest names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    /// The package's own name, where the manifest renames it.
    pub(crate) package: Option<String>,
}

/// A manifest and where it lies.
pub(crate) struct Package {
    /// From the root of the repository; empty for the root package.
    pub(crate) folder: String,
    pub(crate) manifest: Manifest,
}

impl Package {
    pub(crate) fn new(folder: &str, manifest: Manifest) -> Self {
        Self { folder: folder.to_owned(), manifest }
    }

    pub(crate) fn name(&self) -> &str {
        self.manifest.value("package.name").map_or("", unquoted)
    }

    pub(crate) fn is_published(&self) -> bool {
        self.manifest.value("package.publish") != Some("false")
    }

    pub(crate) fn path(&self) -> String {
        let below = if self.folder.is_empty() { "" } else { "/" };
        format!("{}{below}Cargo.toml", self.folder)
    }
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Self {
        let mut entries = Vec::new();
        let mut table: Vec<String> = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = without_comment(line).trim().to_owned();
            if let Some(header) = line.strip_prefix('[') {
                table = split(header.trim_matches(['[', ']']), '.');
                continue;
            }
            let Some(equals) = outside_quotes(&line, '=') else { continue };
            let (key, value) = line.split_at(equals);
            let mut value = value[1..].trim().to_owned();
            while depth(&value) > 0 {
                let Some(more) = lines.next() else { break };
                value.push_str(without_comment(more).trim());
            }
            let path: Vec<String> = table.iter().cloned().chain(split(key, '.')).collect();
            flatten(path, &value, &mut entries);
        }
        Self { entries }
    }

    /// The value at a path that has no dots but those between its parts.
    pub(crate) fn value(&self, path: &str) -> Option<&str> {
        let is_it = |known: &[String]| known.iter().map(String::as_str).eq(path.split('.'));
        self.entries.iter().find(|(known, _)| is_it(known)).map(|(_, value)| value.as_str())
    }

    /// The strings of an array.
    pub(crate) fn array(&self, path: &str) -> Vec<String> {
        let value = self.value(path).unwrap_or_default();
        let items = split(value.trim_matches(['[', ']']), ',').into_iter();
        items.map(|item| unquoted(&item).to_owned()).filter(|item| !item.is_empty()).collect()
    }

    /// What a path says of what the workspace shares: true for `x.workspace = true`.
    pub(crate) fn inherits(&self, path: &str) -> bool {
        self.value(&format!("{path}.workspace")) == Some("true")
    }

    /// The dependencies, those of single targets too.
    pub(crate) fn dependencies(&self) -> Vec<Dependency> {
        let mut found: Vec<Dependency> = Vec::new();
        for (path, value) in &self.entries {
            let table = match path.first().map(String::as_str) {
                Some("target") => path.get(2..).unwrap_or_default(),
                _ => path,
            };
            let [table, key, rest @ ..] = table else { continue };
            let kind = match table.as_str() {
                "dependencies" => Kind::Normal,
                "build-dependencies" => Kind::Build,
                "dev-dependencies" => Kind::Dev,
                _ => continue,
            };
            let package = rest.iter().eq(["package"]).then(|| unquoted(value).to_owned());
            let same = |known: &&mut Dependency| known.kind == kind && known.key == *key;
            match found.iter_mut().find(same) {
                Some(known) => known.package = known.package.take().or(package),
                None => found.push(Dependency { kind, key: key.clone(), package }),
            }
        }
        found
    }

    /// The package that the workspace means by a key.
    pub(crate) fn shared_package(&self, key: &str) -> Option<&str> {
        self.value(&format!("workspace.dependencies.{key}.package")).map(unquoted)
    }
}

pub(crate) fn unquoted(value: &str) -> &str {
    value.trim().trim_matches(['"', '\''])
}

/// Inline tables become paths like any other.
fn flatten(path: Vec<String>, value: &str, entries: &mut Vec<(Vec<String>, String)>) {
    let Some(inside) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        entries.push((path, value.to_owned()));
        return;
    };
    for pair in split(inside, ',') {
        if let Some(equals) = outside_quotes(&pair, '=') {
            let key = split(&pair[..equals], '.');
            let path = path.iter().cloned().chain(key).collect();
            flatten(path, pair[equals + 1..].trim(), entries);
        }
    }
}

fn outside_quotes(text: &str, wanted: char) -> Option<usize> {
    let mut quote = None;
    for (at, this) in text.char_indices() {
        match quote {
            Some(open) if open == this => quote = None,
            Some(_) => {}
            None if this == wanted => return Some(at),
            None if this == '"' || this == '\'' => quote = Some(this),
            None => {}
        }
    }
    None
}

fn without_comment(line: &str) -> &str {
    outside_quotes(line, '#').map_or(line, |at| &line[..at])
}

/// Brackets that are still open.
fn depth(value: &str) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    for this in value.chars() {
        match (quote, this) {
            (Some(open), _) if open == this => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(this),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    depth
}

/// Splits outside quotes and brackets; the parts lose their quotes only where they are names.
fn split(text: &str, separator: char) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    for this in text.chars() {
        let open = depth(&part) > 0 || in_quotes(&part);
        if this == separator && !open {
            parts.push(core::mem::take(&mut part));
        } else {
            part.push(this);
        }
    }
    parts.push(part);
    let named = separator == '.';
    let clean = |part: String| if named { unquoted(&part).into() } else { part.trim().into() };
    parts.into_iter().map(clean).filter(|part: &String| !part.is_empty()).collect()
}

fn in_quotes(text: &str) -> bool {
    let mut quote = None;
    for this in text.chars() {
        match quote {
            Some(open) if open == this => quote = None,
            None if this == '"' || this == '\'' => quote = Some(this),
            _ => {}
        }
    }
    quote.is_some()
}

#[test]
fn manifests_are_read_in_all_their_spellings() {
    let manifest = Manifest::parse(
        r#"
[package]
name = "a" # not "b"
edition.workspace = true
keywords = ["x",
    "y, z", # one with a comma
]

[dependencies]
plain = "1"
shared.workspace = true
renamed = { package = "real-name", path = "../x", features = ["a", "b"] }

[dependencies.long]
version = "1"
package = "long-name"

[target.'cfg(target_os = "linux")'.dev-dependencies]
native = { version = "1" }
"#,
    );
    assert_eq!(manifest.value("package.name").map(unquoted), Some("a"));
    assert!(manifest.inherits("package.edition"));
    assert!(!manifest.inherits("package.name"));
    assert_eq!(manifest.array("package.keywords"), ["x", "y, z"]);
    let dependency = |kind, key: &str, package: Option<&str>| Dependency {
        kind,
        key: key.to_owned(),
        package: package.map(str::to_owned),
    };
    assert_eq!(
        manifest.dependencies(),
        [
            dependency(Kind::Normal, "plain", None),
            dependency(Kind::Normal, "shared", None),
            dependency(Kind::Normal, "renamed", Some("real-name")),
            dependency(Kind::Normal, "long", Some("long-name")),
            dependency(Kind::Dev, "native", None),
        ]
    );
}
