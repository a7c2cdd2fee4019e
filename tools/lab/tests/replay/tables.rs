//! The pages and the JSON that are made of figures.

use crate::figures::{LONG, figures};
use lab::replay::crash::CrashReport;
use lab::replay::document::pages;
use lab::replay::policies::{ALL, Known};
use lab::replay::table::{Row, Section};

/// The sample under the name of a trace that papers are compared by.
fn section() -> Section {
    let row = |known: &'static Known| {
        let places = [("commit", 3), ("fold", 4)].into();
        let crashes = CrashReport { crashes: 7, kept: 5, places, ..CrashReport::default() };
        Row { known, figures: figures(known.name, &LONG), crashes }
    };
    let rows = ALL.iter().map(row).collect();
    Section { trace: "ext4-postmark".to_owned(), rows }
}

fn page(name: &str, sections: &[Section]) -> String {
    let pages = pages(sections, &[], "the command", &LONG);
    let page = pages.into_iter().find(|(known, _)| known == name);
    page.expect("a page of this name").1
}

#[test]
fn a_trace_has_a_page_with_every_policy_in_short_lines() {
    let text = page("results/ext4-postmark.md", &[section()]);
    let long = text.lines().find(|line| line.len() > 100);
    assert_eq!(long, None);
    assert!(text.starts_with("# ext4-postmark\n\n"), "{text}");
    for known in ALL {
        // In each of the tables.
        let begin = format!("\n| {} | ", known.name);
        assert!(text.matches(&begin).count() >= 9, "{}\n{text}", known.name);
    }
    // How the memory wears.
    assert!(text.contains("| ring lines | most | slot lines | most |"), "{text}");
    // As they were crashed, and before what.
    assert!(text.contains("\n| lcow | 7 | 5 | 0 | 0 | 0 |\n"), "{text}");
    assert!(text.contains("\n| lcow | 3 | 4 |\n"), "{text}");
}

#[test]
fn the_page_of_columns_says_how_large_all_is() {
    let text = page("results/README.md", &[section()]);
    assert!(text.contains("- The journal has 1 048 576 bytes of persistent memory."), "{text}");
    assert!(text.contains("  disk-side log has 64 blocks in segments of 8."), "{text}");
}

#[test]
fn the_first_page_is_short_and_has_every_policy() {
    let text = page("RESULTS.md", &[section()]);
    assert!(text.contains("\nthe command\n") && text.lines().count() < 270, "{text}");
    assert!(text.contains("| [ext4-postmark](results/ext4-postmark.md) | PostMark, "), "{text}");
    for known in ALL {
        let begin = format!("\n| {} | ", known.name);
        assert_eq!(text.matches(&begin).count(), 4, "{}\n{text}", known.name);
    }
    let crashes = 7 * ALL.len();
    assert!(text.contains(&format!(" {} | {crashes} |\n", ALL.len())), "{text}");
}

#[test]
fn papers_are_compared_with_the_pair_they_compare() {
    let text = page("RESULTS.md", &[section()]);
    // 20 616 bytes against 54 400; 114 and 288 lines against 114 and 736; 29 952 against 55 872.
    let pair = ": byte-delta against byte-delta, whole slots | ext4-postmark | -41.7 % |";
    for (what, ours) in [("", "-62.1 %"), (" in whole lines", "-52.7 %")] {
        let row = format!("| journal bytes{what}, Fig. 9b{pair} {ours} | as in the paper |\n");
        assert!(text.contains(&row), "{row}\n{text}");
    }
    let short = "| ext4-postmark | about -90 % | -42.0 % | 48.0 points short |\n";
    assert!(text.contains(short), "{text}");
    let nobody = page("RESULTS.md", &[]);
    assert!(nobody.contains("None of the policies"), "{nobody}");
}

#[test]
fn json_says_what_the_tables_do() {
    let json = section().json();
    assert_eq!(json["trace"], "ext4-postmark");
    let policies = json["policies"].as_array().expect("a list");
    assert_eq!(policies.len(), ALL.len());
    let byte_delta = policies.iter().find(|row| row["policy"] == "byte-delta");
    let byte_delta = byte_delta.expect("a policy");
    let figures =
        [("nvm_bytes", 20_616), ("slot_lines", 288), ("slots_rewritten", 70), ("home", 8)];
    for (name, number) in figures {
        assert_eq!(byte_delta[name], number, "{name}: {byte_delta}");
    }
}
