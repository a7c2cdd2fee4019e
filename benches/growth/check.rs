//! Whether a viewer can show a plot: its tags close, its points lie where its axes are, and names
//! have space beside them.

use lab::plot::{BOTTOM, HEIGHT, LEFT, Plot, RIGHT, Scale, TOP, WIDTH};

/// Escapes that a text may have.
const ESCAPES: [&str; 3] = ["&amp;", "&lt;", "&gt;"];

/// The most characters of a curve's name, in a wide font.
const NAME_MAX: usize = 21;

/// Compares a plot with the figures that it was drawn from.
pub(crate) fn hold(plot: &Plot, svg: &str) {
    if let Err(wrong) = tags_close(svg).and_then(|()| points_are_inside(plot, svg)) {
        panic!("{}: {wrong}", plot.title);
    }
    for (name, _) in &plot.curves {
        assert!(name.len() <= NAME_MAX, "{}: {name} is too long", plot.title);
    }
}

/// Draws fixed figures, then breaks the plot. The check has to notice.
pub(crate) fn try_out() {
    let scales = [(Scale::FromZero, [0.0, 50.0, 100.0]), (Scale::Doubling, [1.0, 2.0, 4.0])];
    for (scale, [low, middle, high]) in scales {
        let plot = Plot {
            title: "fixed figures, < & >",
            below: "steps",
            scale,
            steps: ["one", "two", "three"].map(str::to_owned).to_vec(),
            is_joined: true,
            curves: vec![
                ("up".to_owned(), vec![low, middle, high]),
                ("down".to_owned(), vec![high, middle, low]),
            ],
        };
        let svg = plot.svg();
        hold(&plot, &svg);
        assert_eq!(svg, plot.svg(), "the same figures, the same text");
        for points in ["70.0,310.0 270.0,175.0 470.0,40.0", "70.0,40.0 270.0,175.0 470.0,310.0"] {
            assert!(svg.contains(&format!("points=\"{points}\"")), "{points} in {svg}");
        }
        let broken = [("</svg>", ""), ("</text>", "</txt>"), ("&lt;", "<"), ("&amp;", "&")];
        for (from, to) in broken {
            tags_close(&svg.replacen(from, to, 1)).expect_err(to);
        }
        let outside = [(",175.0", ",311.0"), (" 470.0,", " 471.0,"), (",175.0", ",NaN")];
        let missing = [("<circle ", "<rect "), ("<polyline ", "<path "), (" 270.0,175.0", "")];
        for (from, to) in outside.into_iter().chain(missing) {
            points_are_inside(&plot, &svg.replacen(from, to, 1)).expect_err(to);
        }
    }
}

/// Every tag is closed, the last one first. No text has the characters of tags.
fn tags_close(svg: &str) -> Result<(), String> {
    let mut open = Vec::new();
    let (before, tags) = svg.split_once('<').ok_or("no tag")?;
    if !before.is_empty() {
        return Err(format!("{before} before the first tag"));
    }
    for part in tags.split('<') {
        let (tag, text) = part.split_once('>').ok_or_else(|| format!("<{part} has no end"))?;
        let plain = ESCAPES.iter().fold(text.to_owned(), |text, escape| text.replace(escape, ""));
        if plain.contains(['&', '>']) || tag.contains('&') || tag.matches('"').count() % 2 > 0 {
            return Err(format!("<{part} is no tag and text"));
        }
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).ok_or("a tag of nothing")?;
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return Err(format!("<{tag}> closes another"));
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        if open.is_empty() != (part.trim_end() == "/svg>") {
            return Err(format!("<{tag}> is not the last"));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} are open")) }
}

/// Each curve has a point for every step, marked, and between the axes.
fn points_are_inside(plot: &Plot, svg: &str) -> Result<(), String> {
    let lines: Vec<&str> = svg.split("<polyline points=\"").skip(1).collect();
    if lines.len() != plot.curves.len() {
        return Err(format!("{} curves", lines.len()));
    }
    for line in lines {
        let (points, rest) = line.split_once('"').ok_or("points without an end")?;
        let mut count = 0;
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').ok_or("a point of one number")?;
            let [x, y] = [x, y].map(|at| at.parse().unwrap_or(f64::NAN));
            let is_inside = (LEFT..=WIDTH - RIGHT).contains(&x);
            if !is_inside || !(TOP..=HEIGHT - BOTTOM).contains(&y) {
                return Err(format!("a point at {point}"));
            }
            count += 1;
        }
        let (marks, _) = rest.split_once('\n').ok_or("a line without an end")?;
        let marked = marks.matches("<circle ").count();
        if count != plot.steps.len() || marked != count {
            return Err(format!("{count} points, {marked} of them marked"));
        }
    }
    Ok(())
}
