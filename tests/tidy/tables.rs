//! One table, in two places: what the documentation includes, and what the README shows.

use crate::source::Finding;

/// A text without the targets and the brackets of its links.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let (said, behind) = link.split_once(']').unwrap_or((link, ""));
        plain.extend([before, said]);
        let target = behind.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(behind, |(_, behind)| behind);
    }
    plain + rest
}

/// Rows of a table that a document does not show one after the other, links apart.
pub(crate) fn not_shown(document: &str, table: &str, name: &str) -> Vec<Finding> {
    let shown: Vec<String> = document.lines().map(without_links).collect();
    let rows: Vec<String> = table.lines().map(without_links).collect();
    let start = rows.first().and_then(|first| shown.iter().position(|line| line == first));
    let Some(start) = start else {
        return vec![Finding::new(name, 0, "the table is not there")];
    };
    let is_row = |line: &&String| line.starts_with('|');
    let found = shown[start..].iter().take_while(is_row).collect::<Vec<_>>();
    let mut findings = Vec::new();
    for at in 0..rows.len().max(found.len()) {
        if rows.get(at) != found.get(at).copied() {
            let row = rows.get(at).map_or("no row", String::as_str);
            findings.push(Finding::new(name, start + at + 1, format!("is not: {row}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| a | b |\n|---|---|\n| [`c`], [d e] | f |\n";

    fn told(document: &str) -> Vec<String> {
        not_shown(document, TABLE, "R.md").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_make_no_difference() {
        let shown = "x [y](z)\n\n| a | b |\n|---|---|\n| `c`, [d e](g.md#h) | f |\n\nx\n";
        assert!(told(shown).is_empty());
    }

    #[test]
    fn another_row_is_found() {
        let other = "| a | b |\n|---|---|\n| `c`, d e | g |\n";
        assert_eq!(told(other), ["R.md:3: is not: | `c`, d e | f |"]);
        let more = "| a | b |\n|---|---|\n| `c`, d e | f |\n| g | h |\n";
        assert_eq!(told(more), ["R.md:4: is not: no row"]);
        assert_eq!(told("| a | b |\n|---|---|\n"), ["R.md:3: is not: | `c`, d e | f |"]);
        assert_eq!(told("none"), ["R.md:0: the table is not there"]);
    }
}
