//! Curves over named steps, as SVG.

use core::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

const COLORS: [&str; 8] =
    ["#1b6ca8", "#c0392b", "#27865a", "#8e44ad", "#d68910", "#34495e", "#c71585", "#7f8c8d"];

/// Some curves over the same steps, on a scale of powers of two.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) below: &'static str,
    pub(crate) steps: Vec<String>,
    pub(crate) curves: Vec<(String, Vec<f64>)>,
}

impl Plot {
    pub(crate) fn svg(&self) -> String {
        let values = || self.curves.iter().flat_map(|(_, values)| values).map(|at| at.max(1.0));
        let low = values().fold(f64::MAX, f64::min).log2().floor();
        let high = values().fold(1.0, f64::max).log2().ceil().max(low + 1.0);
        let last = self.steps.len().saturating_sub(1).max(1) as f64;
        let x = |step: usize| LEFT + (WIDTH - LEFT - RIGHT) * step as f64 / last;
        let y = |value: f64| {
            let part = (value.max(1.0).log2() - low) / (high - low);
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
            self.title
        );
        let mut line = |text: String| {
            let _ = writeln!(svg, "{text}");
        };
        for power in low as u32..=high as u32 {
            let (value, at) = (2_f64.powi(power as i32), y(2_f64.powi(power as i32)));
            let (end, text) = (WIDTH - RIGHT, LEFT - 6.0);
            line(format!(
                "<path d=\"M{LEFT} {at:.1}H{end}\" stroke=\"#ddd\"/><text x=\"{text}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                at + 4.0
            ));
        }
        for (step, name) in self.steps.iter().enumerate() {
            line(format!(
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
                x(step),
                HEIGHT - BOTTOM + 18.0
            ));
        }
        line(format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 12.0,
            self.below
        ));
        for (index, (name, values)) in self.curves.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let points: Vec<_> = values
                .iter()
                .enumerate()
                .map(|(step, value)| format!("{:.1},{:.1}", x(step), y(*value)))
                .collect();
            line(format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
                points.join(" ")
            ));
            let at = TOP + 16.0 * index as f64;
            let (from, to) = (WIDTH - RIGHT + 14.0, WIDTH - RIGHT + 34.0);
            line(format!(
                "<path d=\"M{from} {at}H{to}\" stroke=\"{color}\" stroke-width=\"2\"/>\
                 <text x=\"{}\" y=\"{}\">{name}</text>",
                to + 6.0,
                at + 4.0
            ));
        }
        svg.push_str("</svg>\n");
        svg
    }
}
