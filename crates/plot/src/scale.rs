//! Axes: which values they hold, where a value stands, and the round values that are written at them.

/// How values are spread over an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// evenly
    Linear,
    /// by their logarithm
    Log,
}
/// An axis from `low` to `high`, drawn from `from` to `to`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlotAxis {
    /// the value at its start
    pub low: f64,
    /// the value at its end
    pub high: f64,
    /// where it starts and ends in the picture
    pub span: (f64, f64),
    scale: Scale,
    ticks: usize,
}
impl PlotAxis {
    /// An axis that holds finite values (positive ones, if logarithmic) with about `ticks` ticks. Without values it
    /// goes from 0 to 1, or 1 to 10.
    pub fn new(values: impl Iterator<Item = f64>, scale: Scale, span: (f64, f64), ticks: usize) -> PlotAxis {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
        let (low, high) = match scale {
            Scale::Linear if low > high => (0.0, 1.0),
            Scale::Log if low > high => (1.0, 10.0),
            Scale::Linear if low == high => (low - 0.5 * low.abs().max(1e-12), high + 0.5 * high.abs().max(1e-12)),
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            // A margin above and below, but nothing below zero where nothing is.
            Scale::Linear if span.1 < span.0 => {
                let margin = 0.04 * (high - low);
                (if low >= 0.0 { (low - margin).max(0.0) } else { low - margin }, high + margin)
            }
            Scale::Log if span.1 < span.0 => (low * 0.9, high * 1.1),
            _ => (low, high),
        };
        // A margin around the largest numbers ends with them.
        let low = low.clamp(if scale == Scale::Log { f64::from_bits(1) } else { f64::MIN }, f64::MAX);
        PlotAxis { low, high: high.clamp(low, f64::MAX), span, scale, ticks }
    }
    /// Where a value stands.
    pub fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0),
            Scale::Log => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        if part.is_finite() { self.span.0 + part * (self.span.1 - self.span.0) } else { self.span.0 }
    }
    /// The round values inside, with their texts.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => linear_ticks(self.low, self.high, self.ticks),
            Scale::Log => log_ticks(self.low, self.high, self.ticks),
        };
        values.into_iter().map(|v| (v, number(v))).collect()
    }
}
/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let rough = (high / about as f64 - low / about as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|&s| s >= rough).unwrap_or(10.0 * power);
    let first = (low / step).ceil();
    let count = ((high / step).floor() - first).clamp(0.0, 20.0) as usize;
    // A multiple of the step, so that no error adds up; 0 is 0 and not -0.
    (0..=count).map(|k| (first + k as f64) * step + 0.0).filter(|v| v.is_finite()).collect()
}
/// Powers of ten; where they are few, also 2 and 5 times them.
fn log_ticks(low: f64, high: f64, about: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let inside = |v: &f64| v.is_finite() && *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9);
    let of = |factors: &'static [f64]| -> Vec<f64> {
        // Written and read: 10^-4 as the nearest float, where a power computed may be its neighbour.
        let powers = (first..=last).flat_map(|p| factors.iter().map(move |f| format!("{f}e{p}").parse().unwrap_or(f64::NAN)));
        powers.filter(inside).collect()
    };
    let decades = of(&[1.0]);
    match decades.len() {
        0..=2 => {
            let finer = of(&[1.0, 2.0, 5.0]);
            if finer.len() < 2 { linear_ticks(low, high, about) } else { finer }
        }
        n => decades.into_iter().step_by(n.div_ceil(about + 1)).collect(),
    }
}

/// A number as axes and tables write it: at most four digits, thousands as k, M, G.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return format!("{value}");
    }
    let size = value.abs();
    let (scaled, unit) = match size {
        s if s >= 1e15 => return power(value),
        s if s >= 999.95e9 => (value / 1e12, "T"),
        s if s >= 999.95e6 => (value / 1e9, "G"),
        s if s >= 999.95e3 => (value / 1e6, "M"),
        s if s >= 9_999.5 => (value / 1e3, "k"),
        s if s != 0.0 && s < 9.9995e-4 => return power(value),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        s if s >= 999.95 => 0,
        s if s >= 99.995 => 1,
        s if s >= 9.9995 => 2,
        s if s >= 0.99995 => 3,
        _ => 4,
    };
    format!("{}{unit}", trimmed(&format!("{scaled:.digits$}")))
}
/// `1.5e-4`
fn power(value: f64) -> String {
    let text = format!("{value:.2e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{}e{exponent}", trimmed(mantissa)),
        None => text,
    }
}
/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
    if text == "-0" { "0" } else { text }
}
