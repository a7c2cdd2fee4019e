//! Curves over named steps, as SVG: the same text for the same figures.

use core::fmt::Write as _;

// The whole, and what is around the axes.
pub const WIDTH: f64 = 640.0;
pub const HEIGHT: f64 = 360.0;
pub const LEFT: f64 = 70.0;
pub const RIGHT: f64 = 170.0;
pub const TOP: f64 = 40.0;
pub const BOTTOM: f64 = 50.0;
/// How far apart points of one step are that nothing joins.
const APART: f64 = 8.0;
/// Names of such steps in a line at most.
const NAMES_A_LINE: usize = 6;
/// Ticks of a scale from zero at most.
const TICKS: f64 = 8.0;

const COLORS: [&str; 8] =
    ["#1b6ca8", "#c0392b", "#27865a", "#8e44ad", "#d68910", "#34495e", "#c71585", "#7f8c8d"];

/// How high a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By its logarithm: each tick is twice the one below. What is less than 1 stands with it.
    Doubling,
    /// As [`Doubling`](Self::Doubling), also below 1.
    Logarithm,
    /// As much higher as it is more. Ticks are whole numbers; the lowest is zero, unless a value is
    /// less.
    FromZero,
}

/// Some curves over the same steps.
pub struct Plot {
    pub title: &'static str,
    pub below: &'static str,
    pub scale: Scale,
    pub steps: Vec<String>,
    /// Whether the steps are those of a parameter, so that lines join the points.
    pub is_joined: bool,
    /// A curve has no point where its value is no number.
    pub curves: Vec<(String, Vec<f64>)>,
}

impl Plot {
    pub fn svg(&self) -> String {
        let (end, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let ticks = self.ticks();
        let y = |value: f64| bottom - (bottom - TOP) * self.scale.part(value, &ticks);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n",
            escaped(self.title)
        );
        let mut line = |text: String| {
            let _ = writeln!(svg, "{text}");
        };
        for value in &ticks {
            let (at, text) = (y(*value), LEFT - 6.0);
            line(format!(
                "<path d=\"M{LEFT} {at:.1}H{end}\" stroke=\"#ddd\"/><text x=\"{text}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                at + 4.0
            ));
        }
        for (step, name) in self.steps.iter().enumerate() {
            line(format!(
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x(step),
                // Names that would touch stand in two lines.
                match self.steps.len() > NAMES_A_LINE && !self.is_joined {
                    true => bottom + 13.0 + 12.0 * (step % 2) as f64,
                    false => bottom + 18.0,
                },
                escaped(name)
            ));
        }
        line(format!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + end) / 2.0,
            HEIGHT - 12.0,
            escaped(self.below)
        ));
        line(format!("<path d=\"M{LEFT} {TOP}V{bottom}H{end}\" stroke=\"#888\" fill=\"none\"/>"));
        for (index, (name, values)) in self.curves.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let points = values.iter().enumerate().filter(|(_, value)| value.is_finite());
            let beside = self.beside(index);
            let points = points.map(|(step, value)| (self.x(step) + beside, y(*value)));
            let points: Vec<_> = points.collect();
            line(curve(&points, color, self.is_joined));
            let at = TOP + 16.0 * index as f64;
            let (from, to) = (end + 14.0, end + 34.0);
            line(format!(
                "<path d=\"M{from} {at}H{to}\" stroke=\"{color}\" stroke-width=\"2\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                to + 6.0,
                at + 4.0,
                escaped(name)
            ));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self, step: usize) -> f64 {
        let width = WIDTH - LEFT - RIGHT;
        if self.is_joined {
            let last = self.steps.len().saturating_sub(1).max(1) as f64;
            return LEFT + width * step as f64 / last;
        }
        LEFT + width * (step as f64 + 0.5) / self.steps.len().max(1) as f64
    }

    /// How far beside its step a curve has its points, where nothing joins them: no point hides
    /// another.
    fn beside(&self, curve: usize) -> f64 {
        let middle = self.curves.len().saturating_sub(1) as f64 / 2.0;
        if self.is_joined { 0.0 } else { APART * (curve as f64 - middle) }
    }

    /// From at most the least value to at least the greatest.
    fn ticks(&self) -> Vec<f64> {
        let values = || {
            let all = self.curves.iter().flat_map(|(_, values)| values).copied();
            all.filter(|value| value.is_finite())
        };
        let most = values().fold(1.0, f64::max);
        match self.scale {
            Scale::Doubling | Scale::Logarithm => {
                let low = if self.scale == Scale::Doubling { 1.0 } else { f64::MIN_POSITIVE };
                let least = values().map(|value| value.max(low)).fold(most, f64::min);
                let low = least.log2().floor();
                let high = most.log2().ceil().max(low + 1.0);
                (low as i32..=high as i32).map(|power| 2_f64.powi(power)).collect()
            }
            Scale::FromZero => {
                let decade = 10_f64.powi((most / TICKS).log10().floor().max(0.0) as i32);
                let steps = [1.0, 2.0, 5.0, 10.0].map(|of_ten| of_ten * decade);
                let step = steps.into_iter().find(|step| most / step <= TICKS);
                let step = step.unwrap_or(most);
                let least = values().fold(0.0, f64::min);
                let (low, high) = ((least / step).floor() as i32, (most / step).ceil() as i32);
                (low..=high).map(|tick| f64::from(tick) * step).collect()
            }
        }
    }
}

impl Scale {
    /// How far a value is from the lowest tick to the highest.
    fn part(self, value: f64, ticks: &[f64]) -> f64 {
        let of = |value: f64| match self {
            Self::Doubling => value.max(1.0).log2(),
            Self::Logarithm => value.max(f64::MIN_POSITIVE).log2(),
            Self::FromZero => value,
        };
        let [low, high] = [ticks.first(), ticks.last()].map(|tick| tick.map_or(0.0, |at| of(*at)));
        (of(value) - low) / (high - low)
    }
}

/// Points, and a line through them where they are joined.
fn curve(points: &[(f64, f64)], color: &str, is_joined: bool) -> String {
    let mut svg = String::new();
    if is_joined {
        let line: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
    }
    for (x, y) in points {
        let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>");
    }
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
