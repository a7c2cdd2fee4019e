//! Plain English: what of it can be counted, over Markdown and comments.

pub(crate) mod labels;
pub(crate) mod prose;
mod type_names;

use self::prose::{Block, Sentence, of_markdown, of_source, sentences};
use crate::source::{Finding, Source};
use crate::{files, hold, name_of, read, root, sources};

/// A sentence of more words has to be read twice.
const WORDS_MAX: usize = 35;
/// Lines of one of [`PAGES`].
const LINES_OF_A_PAGE: usize = 250;
/// Words a sentence, on average, in ARCHITECTURE.md.
const WORDS_MEAN: usize = 18;
/// Actors without a name in the whole repository.
const NAMELESS_MAX: usize = 9;

/// Words behind which `who` has no noun that it belongs to.
const BEFORE_NAMELESS: [&str; 14] =
    ["and", "as", "at", "but", "by", "for", "from", "of", "on", "or", "so", "than", "to", "with"];

/// How a doc comment never begins: it stands alone.
const OPENINGS: [&str; 5] = ["The same", "They", "As many", "Both", "None"];

/// Words with one meaning: what is not said, and what is said instead. A lane has a head, and a
/// record's part a front. The log is on the disk, and all of it is the journal.
const OTHERWISE: [(&str, &str); 11] = [
    ("log offset", "lane offset"),
    ("head of a part", "front of a part"),
    ("head of a record", "front of a part"),
    ("heads of parts", "fronts of parts"),
    ("heads of records", "fronts of records"),
    ("fronts of lanes", "heads of lanes"),
    ("front of a lane", "head of a lane"),
    ("front of the lane", "head of the lane"),
    ("share of a lane", "fraction of a lane"),
    ("share of the slots", "fraction of the slots"),
    ("frame of the index", "node of the index"),
];

/// Pages that still have longer sentences, and how many. The numbers may only fall.
const LONGER: [(&str, usize); 0] = [];

/// Pages that are read from their top to their end.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "docs/PERFORMANCE.md"];

/// Every page and every source, with its text.
fn pages() -> Vec<(String, Vec<Block>)> {
    let markdown =
        files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "md"));
    let markdown = markdown.map(|path| (name_of(&path), of_markdown(&read(&path), 1)));
    let mut pages: Vec<_> = markdown.collect();
    pages.extend(sources().iter().map(|source| (source.path.clone(), of_source(source))));
    pages
}

/// `who` without a noun that it belongs to, and `whoever`.
fn nameless(path: &str, blocks: &[Block]) -> Vec<Finding> {
    let mut found = Vec::new();
    for sentence in blocks.iter().flat_map(sentences) {
        let mut before = String::new();
        for word in sentence.text.split_whitespace() {
            let bare = word.trim_matches(|this: char| !this.is_alphanumeric()).to_lowercase();
            let opens = before.is_empty() && !sentence.text.ends_with('?');
            let is_who = ["who", "whom", "whose"].contains(&bare.as_str());
            let has_none = bare == "who" && BEFORE_NAMELESS.contains(&before.as_str());
            let is_nameless = has_none || (is_who && opens);
            if is_nameless || ["whoever", "whomever", "whosever"].contains(&bare.as_str()) {
                found.push(Finding::new(path, sentence.line, sentence.text.clone()));
            }
            before = bare;
        }
    }
    found
}

/// Numbers without a name.
fn so_many(path: &str, blocks: &[Block]) -> Vec<Finding> {
    let says = |sentence: &Sentence| sentence.text.to_lowercase().contains("so many");
    let finding = |sentence: Sentence| Finding::new(path, sentence.line, sentence.text);
    blocks.iter().flat_map(sentences).filter(says).map(finding).collect()
}

/// Words in a meaning that is another word's.
fn otherwise(path: &str, blocks: &[Block]) -> Vec<Finding> {
    let mut found = Vec::new();
    for sentence in blocks.iter().flat_map(sentences) {
        let said = sentence.text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        for (not, but) in OTHERWISE.iter().filter(|(not, _)| said.contains(not)) {
            found.push(Finding::new(path, sentence.line, format!("{not}: say {but}")));
        }
    }
    found
}

/// Doc comments that lean on what stands before them.
fn leaning(path: &str, blocks: &[Block]) -> Vec<Finding> {
    let leans = |block: &&Block| {
        let opening = OPENINGS.iter().filter_map(|opening| block.text.strip_prefix(opening));
        let mut behind = opening.map(|rest| rest.chars().next());
        block.opens_doc && behind.any(|next| next.is_none_or(|next| !next.is_alphanumeric()))
    };
    let finding = |block: &Block| Finding::new(path, block.line, block.text.clone());
    blocks.iter().filter(leans).map(finding).collect()
}

/// Sentences of more than [`WORDS_MAX`] words.
fn too_long(path: &str, blocks: &[Block]) -> Vec<Finding> {
    let long = blocks.iter().flat_map(sentences).filter(|sentence| sentence.words() > WORDS_MAX);
    long.map(|sentence| {
        let what = format!("{} words: {}", sentence.words(), sentence.text);
        Finding::new(path, sentence.line, what)
    })
    .collect()
}

/// Whether a page has more than [`LINES_OF_A_PAGE`].
fn over(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    let what = format!("{lines} lines, at most {LINES_OF_A_PAGE}");
    (lines > LINES_OF_A_PAGE).then(|| Finding::new(path, 0, what))
}

/// The words of all sentences of a page, and how many sentences they make. Cells and headings that
/// are no sentences do not count.
fn mean(blocks: &[Block]) -> (usize, usize) {
    let sentences = blocks.iter().flat_map(sentences);
    let whole = sentences.filter(|sentence| sentence.text.ends_with(['.', '?', '!', ':']));
    whole.fold((0, 0), |(words, count), sentence| (words + sentence.words(), count + 1))
}

/// Files that a page names and that are not there.
fn missing_files(path: &str, blocks: &[Block], names: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    for block in blocks {
        for code in block.text.split('`').skip(1).step_by(2) {
            let is_file =
                [".rs", ".md"].iter().any(|end| code.ends_with(end)) && code.contains('/');
            let is_plain =
                code.chars().all(|this| this.is_ascii_alphanumeric() || "/._-".contains(this));
            let is_there = |name: &String| {
                name.strip_suffix(code).is_some_and(|root| root.is_empty() || root.ends_with('/'))
            };
            if is_file && is_plain && !names.iter().any(is_there) {
                found.push(Finding::new(path, block.line, format!("{code} is not there")));
            }
        }
    }
    found
}

fn all(rule: fn(&str, &[Block]) -> Vec<Finding>) -> Vec<Finding> {
    let pages = pages();
    assert!(pages.len() > 100, "pages and sources were found");
    pages.iter().flat_map(|(path, blocks)| rule(path, blocks)).collect()
}

#[test]
fn actors_have_names() {
    let found = all(nameless);
    if found.len() > NAMELESS_MAX {
        hold("`who` without a noun, and `whoever`", &found);
    }
}

#[test]
fn numbers_have_names() {
    hold("so many", &all(so_many));
}

#[test]
fn words_have_one_meaning() {
    hold("words in another meaning", &all(otherwise));
}

#[test]
fn comments_stand_alone() {
    hold("doc comments that lean on what stands before them", &all(leaning));
}

#[test]
fn sentences_are_short() {
    let (mut all, mut fewer) = (Vec::new(), Vec::new());
    for (path, blocks) in pages().into_iter().filter(|(path, _)| path.ends_with(".md")) {
        let found = too_long(&path, &blocks);
        let known = LONGER.iter().find(|(page, _)| *page == path).map_or(0, |(_, known)| *known);
        if found.len() < known {
            fewer.push(Finding::new(&path, 0, format!("{} and not {known}", found.len())));
        } else if found.len() > known {
            all.extend(found);
        }
    }
    hold(&format!("sentences over {WORDS_MAX} words"), &all);
    hold("pages with fewer long sentences than are listed", &fewer);
}

#[test]
fn pages_are_short() {
    let (words, count) = mean(&of_markdown(&read(&root().join("ARCHITECTURE.md")), 1));
    assert!(count > 100, "ARCHITECTURE.md has sentences");
    assert!(words <= WORDS_MEAN * count, "{words} words in {count} sentences");
    for page in PAGES {
        hold("pages that are too long", over(page, &read(&root().join(page))).as_slice());
    }
}

#[test]
fn labels_have_one_home() {
    hold("labels of invariants", &labels::astray(&pages()));
}

#[test]
fn types_have_names_of_their_own() {
    let sources = sources();
    hold("types of one name", &type_names::shared(&sources));
    let hiding = sources.iter().flat_map(type_names::of_prelude).collect::<Vec<_>>();
    hold("types that hide a name of the prelude", &hiding);
}

#[test]
fn documents_name_files_that_exist() {
    let names: Vec<String> = files().iter().map(|path| name_of(path)).collect();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/RULES.md", "crates/policies/README.md"]
    {
        let blocks = of_markdown(&read(&root().join(page)), 1);
        hold("files that a page names", &missing_files(page, &blocks, &names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&str, &[Block]) -> Vec<Finding>, text: &str) -> usize {
        rule("x.rs", &of_source(&Source::new("x.rs", text))).len()
    }

    #[test]
    fn an_actor_without_a_name_is_found() {
        for text in ["// Who waits.", "// It is for who waits.", "// It asks whoever\n// waits."] {
            assert_eq!(found(nameless, text), 1, "{text}");
        }
        for text in ["// Who waits?", "// A thread who waits.", "// It says who waits.", "// `who`"]
        {
            assert_eq!(found(nameless, text), 0, "{text}");
        }
    }

    #[test]
    fn a_number_without_a_name_is_found() {
        assert_eq!(found(so_many, "/// Takes so\n/// many bytes."), 1);
        assert_eq!(found(so_many, "let x = \"so many\";"), 0);
    }

    #[test]
    fn a_word_in_another_meaning_is_found() {
        for (not, but) in OTHERWISE {
            assert_eq!(found(otherwise, &format!("/// It is a {not}.")), 1, "{not}");
            assert_eq!(found(otherwise, &format!("/// It is a {but}.")), 0, "{but}");
        }
        assert_eq!(found(otherwise, "/// A Log\n/// offset."), 1);
    }

    #[test]
    fn a_doc_comment_that_leans_is_found() {
        for opening in OPENINGS {
            assert_eq!(
                found(leaning, &format!("/// {opening} of it.\nfn f() {{}}")),
                1,
                "{opening}"
            );
            assert_eq!(found(leaning, &format!("// {opening} of it.")), 0, "{opening}");
            assert_eq!(found(leaning, &format!("/// It. {opening} of it.")), 0, "{opening}");
        }
        assert_eq!(found(leaning, "/// Theyre."), 0);
    }

    #[test]
    fn a_long_sentence_is_found() {
        let words = |count: usize| format!("{}.", vec!["word"; count].join(" "));
        let blocks = |text: &str| too_long("x.md", &of_markdown(text, 1)).len();
        assert_eq!(blocks(&words(WORDS_MAX)), 0);
        assert_eq!(blocks(&words(WORDS_MAX + 1)), 1);
        assert_eq!(blocks(&format!("- {}\n- {}", words(WORDS_MAX), words(WORDS_MAX))), 0);
        assert_eq!(blocks(&format!("| a | {} |", words(WORDS_MAX + 1))), 1);
    }

    #[test]
    fn a_long_page_is_found() {
        assert!(over("x.md", &"a\n".repeat(LINES_OF_A_PAGE)).is_none());
        assert!(over("x.md", &"a\n".repeat(LINES_OF_A_PAGE + 1)).is_some());
    }

    #[test]
    fn a_mean_counts_sentences_alone() {
        let text = "# A heading\n\nOne two three. Four.\n\n| a cell | Five six. |";
        assert_eq!(mean(&of_markdown(text, 1)), (6, 3));
    }

    #[test]
    fn a_file_that_is_not_there_is_found() {
        let names = ["src/a/b.rs".to_owned()];
        let missing = |text: &str| missing_files("x.md", &of_markdown(text, 1), &names).len();
        assert_eq!(missing("`a/b.rs`, `src/a/b.rs`, `b.rs`, `a/*.rs`"), 0);
        assert_eq!(missing("`a/c.rs` and `ya/b.rs`"), 2);
    }
}
