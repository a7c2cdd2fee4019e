//! The papers' time figures at a coarse scale, in bands twice as wide; and that nothing in them
//! reads a real clock.

use std::fs;
use std::path::Path;

use lab::papers::merge::{Part, parts};
use lab::papers::page;
use lab::papers::row::{PrintedRow, Row, Verdict};

const SCALE: u64 = 64;

fn lines(rows: &[Row]) -> String {
    rows.iter().map(Row::line).collect()
}

#[test]
fn what_must_be_in_its_band_is_and_each_run_is_the_same() {
    let rows = page::quick_rows(SCALE).expect("the journals go on");
    let is_out = |row: &&Row| row.is_must() && row.verdict() == Verdict::Out;
    let out: Vec<Row> = rows.iter().filter(is_out).cloned().collect();
    assert!(out.is_empty(), "out of their bands:\n{}{}", Row::HEAD, lines(&out));
    assert!(rows.iter().filter(|row| row.is_must()).count() >= 12, "there is something to hold");

    let again = page::quick_rows(SCALE).expect("the journals go on");
    assert_eq!(lines(&rows), lines(&again), "the same seed gives the same bytes");
}

#[test]
fn each_row_that_is_out_has_a_cause_in_the_text_above_it() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(docs.join("PAPERS.md")).expect("the page");
    let mut out = 0;
    for Part { title, lines } in parts(&text) {
        let above: Vec<_> = lines.iter().take_while(|line| !line.starts_with('|')).collect();
        for row in lines.iter().filter_map(|line| PrintedRow::parse(line)) {
            if row.verdict == Verdict::Out.text() {
                let figure = row.figure.trim_start_matches("gate: ");
                let is_explained = above.iter().any(|line| line.contains(figure));
                assert!(is_explained, "{title}: {figure}, {}", row.compared);
                out += 1;
            }
        }
    }
    assert!(out > 0, "a page without such a row would be news");
}

/// The sources below a folder.
fn sources(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else {
            let text = fs::read_to_string(&path).expect("a source");
            into.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn nothing_reads_a_real_clock_or_starts_a_thread() {
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/papers"), &mut all);
    assert!(all.len() > 10, "the sources were found");
    for (file, text) in &all {
        for word in ["Instant", "SystemTime", "thread::spawn", "background_checkpoint"] {
            assert!(!text.contains(word), "{file} has {word}");
        }
    }
}

#[test]
fn the_page_has_no_number_and_no_point_that_its_rows_do_not_have() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = fs::read_to_string(docs.join("PAPERS.md")).expect("the page");
    let (finished, plots) = page::finished(&text);
    assert_eq!(finished, text, "its text is that of its rows");
    assert!(plots.len() > 15, "all plots are made");
    for (file, plot) in &plots {
        let there = fs::read_to_string(docs.join("plots").join(file)).expect("a plot");
        assert_eq!(there, plot.svg(), "{file}");
    }
    let files = fs::read_dir(docs.join("plots")).expect("a folder").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let of_papers = names.filter(|name| name.starts_with("papers-")).count();
    assert_eq!(of_papers, plots.len(), "each plot has its file, and each file its plot");
}
