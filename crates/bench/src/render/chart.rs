//! Charts with logarithmic axes as SVG text: points with names, lines, ceilings. Colours are CSS variables of the page;
//! each point carries its text, so that a pointer or a screen reader finds it without a script.
use super::html::escaped;
use std::fmt::Write;

/// Width and height, in the picture's own units.
const SIZE: (f64, f64) = (720.0, 400.0);
/// Left, right, top and bottom of the area of the data.
const AREA: (f64, f64, f64, f64) = (70.0, 700.0, 20.0, 350.0);
/// How many colours there are.
pub const COLOURS: usize = 6;

/// A point and what it is.
#[derive(Clone, Debug)]
pub struct Point {
    /// to the right
    pub x: f64,
    /// upwards
    pub y: f64,
    /// what a pointer over it shows
    pub text: String,
}
/// Points of one colour.
#[derive(Clone, Debug)]
pub struct ChartSeries {
    /// what the legend calls it
    pub name: String,
    /// its points
    pub points: Vec<Point>,
    /// joined by a line
    pub joined: bool,
    /// a ceiling: a broken line without points
    pub ceiling: bool,
    /// which colour, from 0
    pub colour: usize,
}
/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// for screen readers
    pub title: String,
    /// of the x axis
    pub x: String,
    /// of the y axis
    pub y: String,
    /// what is drawn
    pub series: Vec<ChartSeries>,
}
/// From the least to the largest power of ten around the values; nothing if there are none.
fn decades(values: impl Iterator<Item = f64>) -> Option<(i32, i32)> {
    let (low, high) = values.filter(|v| *v > 0.0 && v.is_finite()).fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let (low, high) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    if low > high { None } else { Some((low, high.max(low + 1))) }
}
fn tick(exponent: i32) -> String {
    match exponent {
        -2..=3 => format!("{}", 10f64.powi(exponent)),
        e => format!("10<tspan dy=\"-5\" font-size=\"8\">{e}</tspan>"),
    }
}
impl Chart {
    /// As SVG; nothing if there is no point.
    pub fn svg(&self) -> Option<String> {
        let all = || self.series.iter().flat_map(|s| &s.points);
        let ((x0, x1), (y0, y1)) = (decades(all().map(|p| p.x))?, decades(all().map(|p| p.y))?);
        let (left, right, top, bottom) = AREA;
        let at_x = |x: f64| left + (x.log10() - x0 as f64) / (x1 - x0) as f64 * (right - left);
        let at_y = |y: f64| bottom - (y.log10() - y0 as f64) / (y1 - y0) as f64 * (bottom - top);
        let mut out =
            format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\"><title>{}</title>", SIZE.0, SIZE.1, escaped(&self.title));
        for e in x0..=x1 {
            let x = at_x(10f64.powi(e));
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {top}V{bottom}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                tick(e)
            );
        }
        for e in y0..=y1 {
            let y = at_y(10f64.powi(e));
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 3.0,
                tick(e)
            );
        }
        let (cx, cy) = ((left + right) / 2.0, (top + bottom) / 2.0);
        let _ = write!(out, "<text x=\"{cx}\" y=\"{}\" text-anchor=\"middle\">{}</text>", SIZE.1 - 12.0, escaped(&self.x));
        let _ = write!(out, "<text transform=\"translate(16 {cy}) rotate(-90)\" text-anchor=\"middle\">{}</text>", escaped(&self.y));
        for series in &self.series {
            let colour = format!("c{}", series.colour % COLOURS);
            let shown: Vec<&Point> = series.points.iter().filter(|p| p.x > 0.0 && p.y > 0.0 && p.x.is_finite() && p.y.is_finite()).collect();
            if series.joined || series.ceiling {
                let path: String =
                    shown.iter().enumerate().map(|(k, p)| format!("{}{:.1} {:.1}", if k == 0 { 'M' } else { 'L' }, at_x(p.x), at_y(p.y))).collect();
                let class = if series.ceiling { "line ceiling" } else { "line" };
                let _ = write!(out, "<path class=\"{class} {colour}\" d=\"{path}\"><title>{}</title></path>", escaped(&series.name));
            }
            if !series.ceiling {
                for p in shown {
                    let _ = write!(
                        out,
                        "<circle class=\"dot {colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}</title></circle>",
                        at_x(p.x),
                        at_y(p.y),
                        escaped(&p.text)
                    );
                }
            }
        }
        out.push_str("</svg>");
        Some(out)
    }
    /// The chart with its legend, or nothing.
    pub fn figure(&self) -> String {
        let Some(svg) = self.svg() else { return String::new() };
        let mut legend: Vec<String> = Vec::new();
        for s in self.series.iter().filter(|s| !s.ceiling) {
            let item = format!("<li><span class=\"key c{}\"></span>{}</li>", s.colour % COLOURS, escaped(&s.name));
            if !legend.contains(&item) {
                legend.push(item);
            }
        }
        format!("<figure tabindex=\"0\"><figcaption>{}</figcaption>{svg}<ul class=\"legend\">{}</ul></figure>\n", escaped(&self.title), legend.concat())
    }
}
