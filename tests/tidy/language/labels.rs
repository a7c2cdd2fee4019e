//! Labels of invariants (`S1`, `DR2`): each is defined once in the repository, wherever it is
//! cited.
//!
//! A definition is a block that begins with the label and a full stop, or a row of a table in a
//! Markdown file whose first cell begins with the label. Every other mention cites it.

use std::collections::{BTreeMap, BTreeSet};

use super::prose::{Block, plain};
use crate::source::Finding;

/// What looks like a label and is a word of the field.
const WORDS: [&str; 3] = ["L1", "L2", "L3"];

/// One or two capitals, one or two digits, and perhaps a small letter.
pub(crate) fn is_label(word: &str) -> bool {
    let capitals = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let behind = &word.as_bytes()[capitals..];
    let digits = behind.iter().take_while(|this| this.is_ascii_digit()).count();
    let rest = &behind[digits..];
    let is_shaped = (1..=2).contains(&capitals) && (1..=2).contains(&digits);
    is_shaped && rest.len() <= 1 && rest.iter().all(u8::is_ascii_lowercase)
}

/// The label that a block defines, if it defines one.
fn defined(block: &Block, is_markdown: bool) -> Option<&str> {
    let (first, _) = block.text.split_once(' ').unwrap_or((&block.text, ""));
    let label = match first.strip_suffix('.') {
        Some(label) => label,
        None if block.opens_row && is_markdown => first,
        None => return None,
    };
    is_label(label).then_some(label)
}

/// Labels that are defined twice, and those that are cited and nowhere defined.
pub(crate) fn astray(pages: &[(String, Vec<Block>)]) -> Vec<Finding> {
    let mut homes: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (path, blocks) in pages {
        let is_markdown = path.ends_with(".md");
        for block in blocks {
            let Some(label) = defined(block, is_markdown) else { continue };
            if let Some((home, line)) = homes.insert(label, (path, block.line)) {
                let what = format!("{label} is defined here and at {home}:{line}");
                found.push(Finding::new(path, block.line, what));
            }
        }
    }
    for (path, blocks) in pages {
        for block in blocks {
            let text = plain(&block.text);
            let words = text.split(|this: char| !this.is_alphanumeric() && this != '_');
            let cited: BTreeSet<&str> = words.filter(|word| is_label(word)).collect();
            for label in cited {
                if !homes.contains_key(label) && !WORDS.contains(&label) {
                    let what = format!("{label} is defined nowhere");
                    found.push(Finding::new(path, block.line, what));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::prose::of_markdown;
    use super::*;

    fn told(pages: &[(&str, &str)]) -> Vec<String> {
        let page = |(path, text): &(&str, &str)| (path.to_string(), of_markdown(text, 1));
        let pages: Vec<_> = pages.iter().map(page).collect();
        astray(&pages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_label_has_one_definition() {
        assert!(
            told(&[("a.rs", "S1. It holds.\nS2. So does it."), ("b.rs", "By S1, S2.")]).is_empty()
        );
        assert_eq!(told(&[("b.rs", "See `S9`, S1 and L2.")]), ["b.rs:1: S1 is defined nowhere"]);
        let twice = told(&[("a.rs", "S1. It holds."), ("b.md", "| S1 | other |")]);
        assert_eq!(twice, ["b.md:1: S1 is defined here and at a.rs:1"]);
        // A table in a source repeats what is defined elsewhere.
        assert!(told(&[("b.md", "| S1 | other |"), ("a.rs", "| S1 | again |")]).is_empty());
    }

    #[test]
    fn labels_have_a_shape() {
        for label in ["S1", "DR10", "H1b"] {
            assert!(is_label(label), "{label}");
        }
        for word in ["S", "s1", "AVX2", "S100", "S1x2", "1S", ""] {
            assert!(!is_label(word), "{word}");
        }
    }
}
