//! As much JSON as the laboratory writes and reads, so that no package is needed for it.
//!
//! What is read was written by somebody else: a text that is no JSON, or nests deeper than any of
//! these files, is refused, and never panics.

use core::fmt;

/// A value. Numbers are counts: no fractions, nothing negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// How deep a text may nest.
const DEPTH_MAX: usize = 8;

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn object<const N: usize>(fields: [(&str, Self); N]) -> Self {
        Self::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The value of a field, where this is an object that has it once.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Object(fields) = self else { return None };
        let mut found = fields.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }

    /// Reads one value that takes the whole text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let value = reader.value(0)?;
        reader.skip();
        reader.rest.is_empty().then_some(value)
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    /// Passes over `token`, if it comes next.
    fn takes(&mut self, token: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH_MAX {
            return None;
        }
        for (word, value) in
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.takes(word) {
                return Some(value);
            }
        }
        if self.takes("[") {
            return self.items("]", |reader| reader.value(depth + 1)).map(Json::List);
        }
        if self.takes("{") {
            let field = |reader: &mut Self| {
                let name = reader.string()?;
                reader.takes(":").then(|| reader.value(depth + 1))?.map(|value| (name, value))
            };
            return self.items("}", field).map(Json::Object);
        }
        if self.rest.starts_with('"') {
            return self.string().map(Json::Text);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = &self.rest[end..];
        Some(Json::Number(number))
    }

    fn items<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::new();
        if self.takes(close) {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.takes(close) {
                return Some(items);
            }
            if !self.takes(",") {
                return None;
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        if !self.takes("\"") {
            return None;
        }
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, this)) = chars.next() {
            match this {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    same @ ('"' | '\\' | '/') => same,
                    // Nobody here writes the others.
                    _ => return None,
                }),
                control if control.is_control() => return None,
                other => text.push(other),
            }
        }
        None
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(text) => quoted(f, text),
            Self::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "[\n" } else { ",\n" })?;
                }
                f.write_str(if items.is_empty() { "[]" } else { "\n]" })
            }
            Self::Object(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    quoted(f, name)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for this in text.chars() {
        match this {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            control if control.is_control() => write!(f, "\\u{:04x}", u32::from(control))?,
            other => write!(f, "{other}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let fields = [
            ("nothing", Json::Null),
            ("yes", Json::Bool(true)),
            ("count", Json::Number(u64::MAX)),
            ("words", Json::text("a \"b\" \\ c\n\td")),
            ("none", Json::List(Vec::new())),
            ("list", Json::List(vec![Json::Number(1), Json::object([("x", Json::Bool(false))])])),
        ];
        let value = Json::object(fields);
        assert_eq!(Json::parse(&format!(" {value}\n")), Some(value));
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\": }",
            "{\"a\": 1",
            "{\"a\": 1,}",
            "{\"a\": 1} {",
            "[1 2]",
            "-1",
            "1.5",
            "18446744073709551616",
            "\"open",
            "\"\\u0041\"",
            "yes",
        ] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
        assert_eq!(Json::parse(&"[".repeat(100_000)), None);
        let twice = Json::parse("{\"a\": 1, \"a\": 2}").expect("an object");
        assert_eq!(twice.field("a"), None, "which one counts is open");
    }
}
