//! The tables as one picture: a group of bars for each workload.

use core::fmt::Write as _;

use serde_json::Value;

const LEFT: f64 = 300.0;
const WIDTH: f64 = 980.0;
const ROW: f64 = 15.0;
const GROUP: f64 = 44.0;

fn color(engine: &str) -> &'static str {
    if engine.contains("(loses)") {
        "#cbd5e0"
    } else if engine.starts_with("nvm-journal") {
        "#2b6cb0"
    } else {
        "#718096"
    }
}

/// A bar for the median of each engine, on a logarithmic scale from 0.1 us on.
pub(crate) fn svg(tables: &[Value]) -> String {
    let engines = |table: &Value| table["engines"].as_array().cloned().unwrap_or_default();
    let median = |row: &Value| row["p50_us"].as_f64().unwrap_or(0.1).max(0.1);
    let most = tables.iter().flat_map(engines).map(|row| median(&row)).fold(1.0, f64::max);
    let decades = (most / 0.1).log10().ceil();
    let x = |us: f64| LEFT + (us / 0.1).log10() / decades * (WIDTH - LEFT - 70.0);
    let height: f64 =
        tables.iter().map(|table| GROUP + ROW * engines(table).len() as f64).sum::<f64>() + 20.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut line = |text: core::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = out.write_fmt(text);
        out.push('\n');
    };
    for decade in 0..=decades as i32 {
        let (at, us) = (x(0.1 * 10_f64.powi(decade)), 0.1 * 10_f64.powi(decade));
        line(format_args!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"18\" y2=\"{height}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{at:.1}\" y=\"13\" text-anchor=\"middle\">{us} us</text>"
        ));
    }
    let mut y = 18.0;
    for table in tables {
        let workload = table["workload"].as_str().unwrap_or_default();
        y += GROUP;
        line(format_args!(
            "<text x=\"8\" y=\"{:.1}\" font-size=\"13\" font-weight=\"bold\">{workload}: median \
             of a commit</text>",
            y - 12.0
        ));
        for row in engines(table) {
            let engine = row["engine"].as_str().unwrap_or_default();
            let us = median(&row);
            let (end, middle) = (x(us), y + ROW - 4.0);
            line(format_args!(
                "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{engine}</text>\
                 <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{middle:.1}\">{us:.1}</text>",
                LEFT - 6.0,
                y + 2.0,
                (end - LEFT).max(1.0),
                ROW - 3.0,
                color(engine),
                end + 4.0
            ));
            y += ROW;
        }
    }
    out.push_str("</svg>\n");
    out
}
