//! What a person reads: the text of Markdown files and of comments, cut into sentences.
//!
//! A [`Block`] is a paragraph, an item of a list, a heading or one cell of a table. Fenced code and
//! link definitions are no prose. A span of code counts as one word, and a link as its text.

use crate::source::Source;

/// A piece of text that no sentence leaves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Where it begins, counted from one.
    pub(crate) line: usize,
    /// Its lines.
    pub(crate) text: String,
    /// Whether a doc comment (`//!` or `///`) begins with it.
    pub(crate) opens_doc: bool,
    /// Whether it is a row's first cell.
    pub(crate) opens_row: bool,
}

/// One sentence, and the line that it begins in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Sentence {
    /// How many words it has. What has neither a letter nor a digit is none.
    pub(crate) fn words(&self) -> usize {
        let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
        self.text.split_whitespace().filter(is_word).count()
    }
}

/// The blocks of a Markdown text whose first line has the given number.
pub(crate) fn of_markdown(text: &str, first: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut fence, mut open): (Option<&str>, bool) = (None, false);
    for (line, text) in (first..).zip(text.lines()) {
        let text = text.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        if let Some(mark) = mark.filter(|mark| fence.is_none_or(|open| open == *mark)) {
            fence = if fence.is_some() { None } else { Some(mark) };
            open = false;
            continue;
        }
        if fence.is_some() || text.is_empty() || is_link_definition(text) {
            open = false;
            continue;
        }
        if let Some(row) = text.strip_prefix('|') {
            open = false;
            let cells = cells(row.strip_suffix('|').unwrap_or(row));
            let is_rule = cells.iter().all(|cell| cell.chars().all(|this| "-: ".contains(this)));
            for (at, cell) in cells.iter().enumerate().filter(|_| !is_rule) {
                let (text, opens_row) = (cell.trim().to_owned(), at == 0);
                blocks.push(Block { line, text, opens_doc: false, opens_row });
            }
            continue;
        }
        let (text, begins) = without_bullet(text);
        let is_heading = text.starts_with('#');
        match blocks.last_mut().filter(|_| open && !begins && !is_heading) {
            Some(block) => {
                block.text.push('\n');
                block.text.push_str(text);
            }
            None => {
                let text = text.trim_start_matches('#').trim_start().to_owned();
                blocks.push(Block { line, text, opens_doc: false, opens_row: false });
            }
        }
        open = !is_heading;
    }
    blocks
}

/// The blocks of a source's comments. Lines of one kind, one below the other, are one Markdown
/// text; a comment behind code is one of its own.
pub(crate) fn of_source(source: &Source) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut comment: Option<(usize, &str, String)> = None;
    let mut end = |comment: &mut Option<(usize, &str, String)>| {
        let Some((first, mark, text)) = comment.take() else { return };
        let at = blocks.len();
        blocks.extend(of_markdown(&text, first));
        if let Some(block) = blocks.get_mut(at).filter(|_| mark != "//") {
            block.opens_doc = true;
        }
    };
    for (line, (text, code)) in (1..).zip(source.text.lines().zip(source.code.lines())) {
        let Some(at) = comment_at(text, code) else {
            end(&mut comment);
            continue;
        };
        let mark = ["//!", "///", "//"].into_iter().find(|mark| text[at..].starts_with(mark));
        let mark = mark.expect("a comment");
        let said = &text[at + mark.len()..];
        let is_alone = code.trim().is_empty();
        match &mut comment {
            Some((_, known, text)) if *known == mark && is_alone => {
                text.push('\n');
                text.push_str(said);
            }
            _ => {
                end(&mut comment);
                comment = Some((line, mark, said.to_owned()));
            }
        }
        if !is_alone {
            end(&mut comment);
        }
    }
    end(&mut comment);
    blocks
}

/// Where the comment of a line begins: at the first `//` behind which there is no code.
fn comment_at(text: &str, code: &str) -> Option<usize> {
    let code_ends = code.trim_end().len();
    text.match_indices("//").map(|(at, _)| at).find(|at| *at >= code_ends)
}

/// The sentences of a block.
pub(crate) fn sentences(block: &Block) -> Vec<Sentence> {
    let text = plain(&block.text);
    let lines = (block.line..).zip(text.lines());
    let words: Vec<(usize, &str)> = lines
        .flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)))
        .collect();
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, (_, word)) in words.iter().enumerate() {
        let next = words.get(at + 1);
        if next.is_none_or(|(_, next)| ends(word) && begins(next)) {
            let text = words[from..=at].iter().map(|(_, word)| *word).collect::<Vec<_>>();
            sentences.push(Sentence { line: words[from].0, text: text.join(" ") });
            from = at + 1;
        }
    }
    sentences
}

/// Spans of code become one word each, links their texts, and marks of emphasis nothing.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut is_code = false;
    for (at, piece) in text.split('`').enumerate() {
        if at > 0 {
            is_code = !is_code;
        }
        if is_code {
            plain.push_str("Code");
            plain.extend(piece.chars().filter(|this| *this == '\n'));
        } else {
            plain.push_str(piece);
        }
    }
    while let Some(at) = plain.find("](") {
        let length = plain[at..].find(')').map_or(plain.len() - at, |end| end + 1);
        plain.replace_range(at..at + length, "");
    }
    plain.retain(|this| !"*[]_".contains(this));
    plain
}

fn ends(word: &str) -> bool {
    let word = word.trim_end_matches([')', '"', '\'']);
    word.ends_with(['.', '!', '?']) && !["e.g.", "i.e.", "cf."].contains(&word)
}

fn begins(word: &str) -> bool {
    let first = word.trim_start_matches(['(', '"', '\'']).chars().next();
    first.is_some_and(|first| first.is_uppercase() || first.is_ascii_digit())
}

/// A row's cells; a bar inside of code, or behind a backslash, divides none.
fn cells(row: &str) -> Vec<&str> {
    let (mut is_code, mut is_escaped) = (false, false);
    row.split(|this| {
        let divides = this == '|' && !is_code && !is_escaped;
        is_code ^= this == '`';
        is_escaped = this == '\\';
        divides
    })
    .collect()
}

fn is_link_definition(text: &str) -> bool {
    text.starts_with('[') && text.contains("]: ")
}

/// A line without its bullet, its number or its quotation mark, and whether a block begins with it.
/// Labels (`S1. `) begin one too.
fn without_bullet(text: &str) -> (&str, bool) {
    for bullet in ["- ", "* ", "> "] {
        if let Some(text) = text.strip_prefix(bullet) {
            return (text.trim_start(), true);
        }
    }
    let number = text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(item) = text[number..].strip_prefix(". ").filter(|_| number > 0) {
        return (item.trim_start(), true);
    }
    let label = text.split(' ').next().and_then(|word| word.strip_suffix('.'));
    (text, label.is_some_and(super::labels::is_label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(blocks: &[Block]) -> Vec<(usize, &str)> {
        blocks.iter().map(|block| (block.line, block.text.as_str())).collect()
    }

    #[test]
    fn tables_fences_and_lists_are_told_apart() {
        let text = "# A head\nOne\ntwo.\n\n```sh\nno prose\n```\n| a | `b|c` |\n\
                    |---|:-:|\n| d | e |\n\
                    - item\n  goes on\n1. number\nS1. label\nmore\n[x]: there\nlast";
        let known = [
            (1, "A head"),
            (2, "One\ntwo."),
            (8, "a"),
            (8, "`b|c`"),
            (10, "d"),
            (10, "e"),
            (11, "item\ngoes on"),
            (13, "number"),
            (14, "S1. label\nmore"),
            (17, "last"),
        ];
        assert_eq!(texts(&of_markdown(text, 1)), known);
    }

    #[test]
    fn comments_are_found_and_strings_are_none() {
        let text =
            "//! Head.\n//! More.\n\nlet x = \"// no\"; // yes\n/// Doc.\n// Plain.\nfn f() {}";
        let blocks = of_source(&Source::new("x.rs", text));
        let known = [(1, "Head.\nMore."), (4, "yes"), (5, "Doc."), (6, "Plain.")];
        assert_eq!(texts(&blocks), known);
        let docs: Vec<bool> = blocks.iter().map(|block| block.opens_doc).collect();
        assert_eq!(docs, [true, false, true, false]);
    }

    #[test]
    fn sentences_end_where_the_next_one_begins() {
        let text = "One `a.b c` (of 2.5 i.e.\nfew). Two [three four](a.md \"b\") is it? 7 more.";
        let block = of_markdown(text, 3).remove(0);
        let sentences = sentences(&block);
        let known = ["One Code (of 2.5 i.e. few).", "Two three four is it?", "7 more."];
        assert_eq!(sentences.iter().map(|this| this.text.as_str()).collect::<Vec<_>>(), known);
        assert_eq!(sentences.iter().map(Sentence::words).collect::<Vec<_>>(), [6, 5, 2]);
        assert_eq!(sentences.iter().map(|this| this.line).collect::<Vec<_>>(), [3, 4, 4]);
    }
}
