//! A Rust source, as text and as code: the same lines with comments and literals blanked out.

use core::fmt;

/// What a rule found, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// Counted from one; zero for the file as a whole.
    line: usize,
    what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    /// `text` with blanks for comments and for what is inside string and character literals.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: code_of(text) }
    }

    pub(crate) fn line_count(&self) -> usize {
        self.text.lines().count()
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding::new(&self.path, line, what)
    }

    /// The code before the tests, which by custom come last.
    pub(crate) fn code_without_tests(&self) -> &str {
        before_tests(&self.code)
    }

    /// All code outside of modules of tests, wherever they are.
    pub(crate) fn code_around_tests(&self) -> String {
        let (mut around, mut rest) = (String::new(), &self.code[..]);
        loop {
            let before = before_tests(rest);
            around.push_str(before);
            rest = &rest[before.len()..];
            let Some(at) = rest.find(['{', ';']) else { return around };
            let is_here = rest[at..].starts_with('{');
            let inside = if is_here { inside_brackets(rest, at).len() + 1 } else { 0 };
            rest = rest.get(at + inside + 1..).unwrap_or_default();
        }
    }
}

/// What stands before the first module of tests.
fn before_tests(code: &str) -> &str {
    let marker = "#[cfg(test)]\n";
    for (at, _) in code.match_indices(marker) {
        let mut after = code[at + marker.len()..].lines();
        let item = after.find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|item| item.starts_with("mod ")) {
            return &code[..at];
        }
    }
    // Under whatever condition.
    code.find("\nmod tests {").map_or(code, |at| &code[..at])
}

const fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The positions of `word` in `code`, where it is not part of a longer one.
pub(crate) fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    let alone = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + word.len());
        !before.is_some_and(|byte| in_word(*byte)) && !after.is_some_and(|byte| in_word(*byte))
    };
    code.match_indices(word).map(|(at, _)| at).filter(|at| alone(*at)).collect()
}

/// The line of a position, counted from one.
pub(crate) fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// What stands between the bracket at `open` and its partner.
pub(crate) fn inside_brackets(code: &str, open: usize) -> &str {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return &code[open + 1..at];
        }
    }
    &code[open + 1..]
}

/// The arguments of a call, from what stands between its brackets.
pub(crate) fn arguments(inside: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let at_commas = |this: char| {
        match this {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        this == ',' && depth == 0
    };
    inside.split(at_commas).map(str::trim).filter(|argument| !argument.is_empty()).collect()
}

/// Blanks out comments and the inside of literals; every line stays a line.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = code.bytes().next_back();
        let starts_word = !before.is_some_and(|byte| in_word(byte) && byte != b'b' && byte != b'c');
        // How long it is, and how much of it stays visible at both ends.
        let hidden = match first {
            '/' if rest.starts_with("//") => Some((rest.find('\n').unwrap_or(rest.len()), 0)),
            '/' if rest.starts_with("/*") => Some((comment_length(rest), 0)),
            '"' => Some((string_length(rest), 1)),
            '\'' => character_length(rest).map(|length| (length, 1)),
            'r' if starts_word => raw_string_length(rest).map(|length| (length, 1)),
            _ => None,
        };
        let Some((length, edge)) = hidden else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let end = (length - edge).max(edge);
        code.push_str(&rest[..edge]);
        code.extend(rest[edge..end].chars().map(|this| if this == '\n' { '\n' } else { ' ' }));
        code.push_str(&rest[end..length]);
        rest = &rest[length..];
    }
    code
}

/// Block comments nest.
fn comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text.as_bytes()[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> Option<usize> {
    let hashes = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(1 + hashes + 1 + length)
}

/// `None` for a lifetime or a label.
fn character_length(text: &str) -> Option<usize> {
    let first = text[1..].chars().next()?;
    if first == '\\' {
        // The character after the backslash may be a quote itself.
        return text.get(3..)?.find('\'').map(|at| 3 + at + 1);
    }
    let end = 1 + first.len_utf8();
    text[end..].starts_with('\'').then_some(end + 1)
}

#[test]
fn comments_and_literals_are_not_code() {
    let kept = |text: &str| code_of(text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(kept("a // unsafe\nb"), "a b");
    assert_eq!(kept("a /* unsafe /* nested */ unsafe */ b"), "a b");
    assert_eq!(kept(r#"f("unsafe \" unsafe", b"unsafe") g"#), r#"f(" ", b" ") g"#);
    assert_eq!(kept(r##"f(r#"unsafe " unsafe"#, r"\") g"##), "f(r #, r \") g");
    assert_eq!(kept("fn f<'a>(x: &'a str) -> char { '\"' } unsafe"), {
        "fn f<'a>(x: &'a str) -> char { ' ' } unsafe"
    });
    assert_eq!(kept(r"['\'', '\\', '\u{41}', b'x'] unsafe"), "[' ', ' ', ' ', b' '] unsafe");
    assert_eq!(kept("let r#type = for_r; 'outer: loop {} unsafe"), {
        "let r#type = for_r; 'outer: loop {} unsafe"
    });
    for text in ["a\n/* b\n c */\n\"d\n e\"\nf // g\n", "r\"\n\"\n'"] {
        assert_eq!(code_of(text).matches('\n').count(), text.matches('\n').count());
        assert_eq!(code_of(text).len(), text.len());
    }
}

#[test]
fn words_are_whole_words() {
    assert_eq!(words("unsafe_code unsafe(x) munsafe", "unsafe"), [12]);
    assert_eq!(line_of("a\nb\nc", 4), 3);
    assert_eq!(inside_brackets("f(a, (b), c) d", 1), "a, (b), c");
    assert_eq!(arguments("g(a, b), c,\n"), ["g(a, b)", "c"]);
    assert_eq!(arguments(" "), [""; 0]);
}

#[test]
fn tests_come_last_and_are_told_apart() {
    let before = "a\n#[cfg(test)]\nuse b;\n";
    let tests = "#[cfg(test)]\n#[c]\nmod tests { d {} }";
    let source = Source::new("x.rs", &format!("{before}{tests}\ne\n{tests}f"));
    assert_eq!(source.code_without_tests(), before);
    assert_eq!(source.code_around_tests(), format!("{before}\ne\nf"));
    let elsewhere = Source::new("x.rs", "a\n#[cfg(test)]\nmod tests;\nb");
    assert_eq!(elsewhere.code_around_tests(), "a\n\nb");
}
