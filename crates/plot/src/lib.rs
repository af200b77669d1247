//! Line plots as SVG text.
//!
//! A [`Plot`] holds series of points and marks on the x axis; [`Plot::svg`] draws it: axes with round ticks
//! ([`scale`]), at most [`MAX_POINTS`] points of a series ([`downsample`]), a legend, a title and a description for
//! screen readers. Colours are CSS variables of the page ([`LIGHT`], [`DARK`]); [`Plot::document`] is the same
//! picture as a file of its own, which brings its colours, light and dark.
//!
//! Invariant: equal plots give equal text, and no text of the user's is markup in it.
//!
//! Architecture invariant: nothing of Adamant is known here.
#![forbid(unsafe_code)]

use std::fmt::Write;

pub mod downsample;
pub mod scale;

use downsample::largest_triangles;
use scale::{PlotAxis, Scale};

/// The most points of a series that are drawn.
pub const MAX_POINTS: usize = 500;
/// The most marks of a kind that are drawn.
const MAX_MARKS: usize = 200;
/// Width and height, in the picture's own units.
const SIZE: (f64, f64) = (560.0, 300.0);
/// Left, right, top and bottom of the area of the data.
const AREA: (f64, f64, f64, f64) = (60.0, 540.0, 40.0, 256.0);
/// How many colours there are.
const COLOURS: usize = 6;

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stroke {
    /// a line
    #[default]
    Solid,
    /// a broken line, with a dot at each point where there are few
    Dashed,
    /// a pale, thin line behind the others: raw values whose smoothed form is a series too
    Faint,
    /// a dot at each point and no line: values that do not follow each other
    Dots,
}
/// Points of one colour, by rising x.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// what the legend calls it
    pub name: String,
    /// (x, y); points that are not finite are left out and counted in the description
    pub points: Vec<(f64, f64)>,
    /// how it is drawn
    pub stroke: Stroke,
    /// which colour, from 0; a raw series and its smoothed form share one
    pub colour: usize,
}
/// Something that happened at an x.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mark {
    /// where
    pub x: f64,
    /// what
    pub kind: MarkKind,
}
/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MarkKind {
    /// a checkpoint was written: a small triangle below the data
    Checkpoint,
    /// the run went on after an interruption: a line through the data
    Resume,
}
/// A line plot.
///
/// ```
/// use adamant_plot::{Plot, Series, Stroke};
/// let points = (1..=100).map(|k| (k as f64, 1.0 / k as f64)).collect();
/// let plot = Plot {
///     title: "Loss".into(),
///     x_label: "step".into(),
///     y_label: "cross entropy".into(),
///     series: vec![Series { name: "train".into(), points, stroke: Stroke::Solid, colour: 0 }],
///     ..Plot::default()
/// };
/// assert!(plot.document().starts_with("<svg"));
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plot {
    /// the heading
    pub title: String,
    /// what the x axis counts
    pub x_label: String,
    /// what the y axis measures
    pub y_label: String,
    /// is the y axis logarithmic? Values that are not positive are then left out and counted in the description
    pub log: bool,
    /// the lines, drawn in order
    pub series: Vec<Series>,
    /// what happened
    pub marks: Vec<Mark>,
}

impl Plot {
    /// The picture for a page that defines the colours. `id` is its name in the page: letters, digits and `-`.
    pub fn svg(&self, id: &str) -> String {
        self.draw(id, "")
    }
    /// The picture as a file of its own.
    pub fn document(&self) -> String {
        self.draw("plot", &format!("<style>:root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}{SHAPES_CSS}</style>"))
    }
    /// Can anything be drawn?
    pub fn is_empty(&self) -> bool {
        !self.series.iter().any(|s| s.points.iter().any(|p| self.can_draw(p)))
    }
    fn can_draw(&self, &(x, y): &(f64, f64)) -> bool {
        x.is_finite() && y.is_finite() && (!self.log || y > 0.0)
    }
    /// The points that can be drawn.
    fn drawable(&self, series: &Series) -> Vec<(f64, f64)> {
        series.points.iter().copied().filter(|p| self.can_draw(p)).collect()
    }
    /// The scales that hold all points.
    pub fn axes(&self) -> (PlotAxis, PlotAxis) {
        let all = || self.series.iter().flat_map(|s| s.points.iter().filter(|p| self.can_draw(p)));
        let (left, right, top, bottom) = AREA;
        let x = PlotAxis::new(all().map(|p| p.0), Scale::Linear, (left, right), 6);
        let y = PlotAxis::new(all().map(|p| p.1), if self.log { Scale::Log } else { Scale::Linear }, (bottom, top), 5);
        (x, y)
    }
    /// What a screen reader says of it.
    pub fn description(&self) -> String {
        let mut text = format!("Line plot of {} against {}", self.y_label, self.x_label);
        text += if self.log { ", logarithmic." } else { "." };
        for s in self.series.iter().filter(|s| s.stroke != Stroke::Faint) {
            let points = self.drawable(s);
            let Some((first, last)) = points.first().zip(points.last()) else {
                let _ = write!(text, " {}: nothing to draw.", s.name);
                continue;
            };
            let (lowest, highest) = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), p| (lo.min(p.1), hi.max(p.1)));
            let _ = write!(
                text,
                " {}: {} points, from {} at {} {} to {} at {}; lowest {}, highest {}.",
                s.name,
                points.len(),
                scale::number(first.1),
                self.x_label,
                scale::number(first.0),
                scale::number(last.1),
                scale::number(last.0),
                scale::number(lowest),
                scale::number(highest)
            );
            if points.len() < s.points.len() {
                let _ = write!(text, " {} points cannot be drawn.", s.points.len() - points.len());
            }
        }
        let resumes = self.marks.iter().filter(|m| m.kind == MarkKind::Resume).count();
        if resumes > 0 {
            let _ = write!(text, " Resumed {resumes} times.");
        }
        text
    }

    fn draw(&self, id: &str, style: &str) -> String {
        let (left, right, top, bottom) = AREA;
        let (x, y) = self.axes();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\"><title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>{style}",
            SIZE.0,
            SIZE.1,
            escape(&self.title),
            escape(&self.description())
        );
        let _ = write!(out, "<rect class=\"ground\" width=\"{}\" height=\"{}\"/>", SIZE.0, SIZE.1);
        for (k, (value, label)) in y.ticks().into_iter().enumerate() {
            let at = y.place(value);
            let _ = write!(out, "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/>");
            let _ = write!(out, "<text class=\"tick y{}\" x=\"{}\" y=\"{:.1}\">{label}</text>", alternate(k), left - 8.0, at + 4.0);
        }
        for (k, (value, label)) in x.ticks().into_iter().enumerate() {
            let at = x.place(value);
            let _ = write!(out, "<path class=\"axis\" d=\"M{at:.1} {bottom}v4\"/>");
            let _ = write!(out, "<text class=\"tick x{}\" x=\"{at:.1}\" y=\"{}\">{label}</text>", alternate(k), bottom + 18.0);
        }
        let _ = write!(out, "<path class=\"axis\" d=\"M{left} {bottom}H{right}\"/>");
        let _ = write!(out, "<text class=\"label x\" x=\"{}\" y=\"{}\">{}</text>", (left + right) / 2.0, SIZE.1 - 6.0, escape(&self.x_label));
        let _ = write!(out, "<text class=\"label y\" x=\"{}\" y=\"22\">{}</text>", 8.0, escape(&self.y_label));
        self.draw_marks(&mut out, &x);
        for s in &self.series {
            let points = largest_triangles(&self.drawable(s), MAX_POINTS);
            draw_line(&mut out, s, &points.iter().map(|&(px, py)| (x.place(px), y.place(py))).collect::<Vec<_>>());
        }
        self.draw_legend(&mut out);
        if self.is_empty() {
            let _ = write!(out, "<text class=\"label x\" x=\"{}\" y=\"{}\">no data</text>", (left + right) / 2.0, (top + bottom) / 2.0);
        }
        out += "</svg>";
        out
    }
    fn draw_marks(&self, out: &mut String, x: &PlotAxis) {
        let (left, right, top, bottom) = AREA;
        for kind in [MarkKind::Checkpoint, MarkKind::Resume] {
            let places: Vec<f64> = self.marks.iter().filter(|m| m.kind == kind && m.x.is_finite()).map(|m| x.place(m.x)).collect();
            // Evenly thinned out where there are too many to tell apart.
            let every = places.len().div_ceil(MAX_MARKS).max(1);
            for at in places.iter().step_by(every).filter(|&&at| (left - 0.5..=right + 0.5).contains(&at)) {
                let _ = match kind {
                    MarkKind::Resume => write!(out, "<path class=\"resume\" d=\"M{at:.1} {top}V{bottom}\"><title>resumed</title></path>"),
                    MarkKind::Checkpoint => write!(out, "<path class=\"checkpoint\" d=\"M{at:.1} {bottom}l-3 -6h6z\"><title>checkpoint</title></path>"),
                };
            }
        }
    }
    fn draw_legend(&self, out: &mut String) {
        let shown: Vec<&Series> = self.series.iter().filter(|s| s.stroke != Stroke::Faint).collect();
        if shown.len() < 2 {
            return;
        }
        let _ = write!(out, "<text class=\"label legend\" x=\"{}\" y=\"22\">", AREA.1);
        for (k, s) in shown.iter().enumerate() {
            let name: String = if s.name.chars().count() > 22 { s.name.chars().take(21).chain(['…']).collect() } else { s.name.clone() };
            // Signs that look like the lines, so that they grow with the letters.
            let sign = match s.stroke {
                Stroke::Dashed => "╍╍",
                Stroke::Dots => "●",
                Stroke::Solid | Stroke::Faint => "━━",
            };
            let gap = if k > 0 { "\u{a0}\u{a0}\u{a0}" } else { "" };
            let _ = write!(out, "{gap}<tspan class=\"sign series-{}\">{sign}</tspan>\u{a0}{}", s.colour % COLOURS + 1, escape(&name));
        }
        *out += "</text>";
    }
}
/// Every second tick gives way where a page is narrow.
fn alternate(k: usize) -> &'static str {
    if k % 2 == 1 { " alternate" } else { "" }
}
fn classes(s: &Series) -> String {
    let stroke = match s.stroke {
        Stroke::Solid => "solid",
        Stroke::Dashed => "dashed",
        Stroke::Faint => "faint",
        Stroke::Dots => "dots",
    };
    format!("line {stroke} series-{}", s.colour % COLOURS + 1)
}
fn draw_line(out: &mut String, s: &Series, places: &[(f64, f64)]) {
    if let [(x, y)] = places {
        let _ = write!(out, "<circle class=\"dot series-{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>", s.colour % COLOURS + 1);
        return;
    }
    if s.stroke == Stroke::Dots {
        for (x, y) in places {
            let _ = write!(out, "<circle class=\"dot many series-{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>", s.colour % COLOURS + 1);
        }
        return;
    }
    let mut d = String::new();
    for (k, (x, y)) in places.iter().enumerate() {
        let _ = write!(d, "{}{x:.1} {y:.1}", if k == 0 { 'M' } else { 'L' });
    }
    let _ = write!(out, "<path class=\"{}\" d=\"{d}\"/>", classes(s));
    if s.stroke == Stroke::Dashed && places.len() <= 40 {
        for (x, y) in places {
            let _ = write!(out, "<circle class=\"dot series-{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>", s.colour % COLOURS + 1);
        }
    }
}

/// An exponential moving average over about `span` points, without the pull towards zero at its start (Kingma and Ba,
/// 2015, section 3). Values that are not finite are passed over.
pub fn smooth(points: &[(f64, f64)], span: f64) -> Vec<(f64, f64)> {
    let keep = (1.0 - 2.0 / (span.max(1.0) + 1.0)).clamp(0.0, 1.0);
    let (mut sum, mut weight) = (0.0, 0.0);
    let finite = points.iter().filter(|p| p.1.is_finite());
    finite
        .map(|&(x, y)| {
            (sum, weight) = (keep * sum + (1.0 - keep) * y, keep * weight + (1.0 - keep));
            (x, sum / weight)
        })
        .collect()
}

/// Text as it may stand in HTML and SVG, also inside quotes. Control characters, which XML does not allow, and those
/// that turn the direction of text around (Boucher and Anderson, "Trojan Source", 2021) become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(c),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The colours: those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind people tell apart, a little
/// darker where they are thin on white.
pub const LIGHT: &str = "\
--page:#f4f6f9;--ground:#fff;--ink:#1b2330;--quiet:#566172;--grid:#e4e8ee;--axis:#8d99a8;--series-1:#0072b2;--series-2:#c85400;\
--series-3:#007f5c;--series-4:#ad4a85;--series-5:#966000;--series-6:#33749f;--alert:#b3261e";
/// On dark ground, lighter colours of the same hues.
pub const DARK: &str = "\
--page:#0d1117;--ground:#161b22;--ink:#e6ebf2;--quiet:#9aa7b5;--grid:#2a323d;--axis:#667587;--series-1:#58b4f0;--series-2:#ff9357;\
--series-3:#3fcf9f;--series-4:#eba3cf;--series-5:#f2bd53;--series-6:#9ccdf0;--alert:#ff8a80";
/// How the shapes of a plot use the colours.
pub const SHAPES_CSS: &str = "\
.plot{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
.plot .ground{fill:var(--ground)}.plot .grid{stroke:var(--grid);fill:none}.plot .axis{stroke:var(--axis);fill:none}\
.plot text{fill:var(--quiet)}.plot .tick.x,.plot .label.x{text-anchor:middle}.plot .tick.y,.plot .legend{text-anchor:end}\
.plot .tick{font-variant-numeric:tabular-nums}.plot .legend{fill:var(--ink)}\
.plot .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.plot .dashed{stroke-dasharray:7 5}\
.plot .faint{stroke-width:1;opacity:.28}.plot .resume{stroke:var(--alert);stroke-width:1.5;stroke-dasharray:2 4;fill:none}\
.plot .checkpoint{fill:var(--axis)}.plot .dot{stroke:none}.plot .dot.many{opacity:.55}\
.plot .line.series-1{stroke:var(--series-1)}.plot .line.series-2{stroke:var(--series-2)}.plot .line.series-3{stroke:var(--series-3)}\
.plot .line.series-4{stroke:var(--series-4)}.plot .line.series-5{stroke:var(--series-5)}.plot .line.series-6{stroke:var(--series-6)}\
.plot .dot.series-1,.plot .sign.series-1{fill:var(--series-1)}.plot .dot.series-2,.plot .sign.series-2{fill:var(--series-2)}.plot .dot.series-3,.plot .sign.series-3{fill:var(--series-3)}\
.plot .dot.series-4,.plot .sign.series-4{fill:var(--series-4)}.plot .dot.series-5,.plot .sign.series-5{fill:var(--series-5)}.plot .dot.series-6,.plot .sign.series-6{fill:var(--series-6)}";

#[cfg(test)]
mod tests;
