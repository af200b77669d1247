//! An analysis as a person reads it: a table of layers that fits its terminal, the pass as a whole, the bottlenecks, the memory.
use super::{Analysis, LayerAnalysis};
use crate::{
    plot::scale::number,
    summary::{Style, fitted, folded, name_of, shape_of, size},
};
use std::{fmt, time::Duration};

/// The columns, and when each is left out: those with the highest number first.
const COLUMNS: [(&str, usize); 9] =
    [("Layer", 0), ("Output", 4), ("Parameters", 3), ("FLOPs", 5), ("Moved", 6), ("FLOP/B", 7), ("Time", 1), ("Share", 8), ("Bound", 2)];
/// So many bottlenecks are told in words.
const WORST: usize = 5;
/// So much of what is alive at the peak.
const LARGEST: usize = 5;

impl Analysis {
    /// A table of the layers and below it the pass, the bottlenecks and the memory, no line of which is wider than the style says.
    pub fn table(&self, style: Style) -> String {
        let none = if style.ascii { "-" } else { "–" };
        let all = self.timing.as_ref().map_or(Duration::ZERO, |t| self.layer_time() + t.between).as_secs_f64().max(1e-12);
        let cells: Vec<Vec<String>> = self.layers.iter().map(|layer| cells(layer, all, none).into()).collect();
        let mut text = fitted(&COLUMNS, &cells, style);
        for line in self.lines() {
            text.push('\n');
            text += &folded(&line, style.width.unwrap_or(usize::MAX));
        }
        if style.ascii { text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect() } else { text }
    }
    fn lines(&self) -> Vec<String> {
        let (s, t) = (&self.summary, &self.summary.totals);
        let mut lines = vec![format!(
            "input {:?}, output {:?}; {} parameters, {} FLOPs, {} multiply-adds, {} moved without fusion",
            s.input,
            s.output,
            s.parameters,
            number(t.flops as f64),
            number(t.multiply_adds as f64),
            size(t.bytes_moved)
        )];
        if let (Some(timing), Some(excess)) = (&self.timing, self.excess()) {
            lines.push(format!(
                "forward {} (the fastest of {} passes); layers {} and {} between their kernels, together {:+.1} %",
                shown(timing.forward),
                timing.passes,
                shown(self.layer_time()),
                shown(timing.between),
                100.0 * excess
            ));
        }
        if let Some(roof) = &self.roof {
            lines.push(format!(
                "the device: {:.1} GFLOP/s, {:.1} GB/s, ridge {:.1} FLOP/B, {} a launch",
                roof.gflops,
                roof.gbytes,
                roof.ridge(),
                shown(roof.launch)
            ));
        }
        for (k, b) in self.find_bottlenecks().iter().take(WORST).enumerate() {
            let help = b.suggestion.as_ref().map_or_else(String::new, |s| format!("; {s}"));
            lines.push(format!("{}. {} ({}), {:.1} %: {}{help}", k + 1, crate::failure::shown(&b.layer), b.kind, 100.0 * b.share, b.reason));
        }
        for (name, peak) in [("inference", &self.memory.inference), ("training", &self.memory.training)] {
            lines.push(format!("memory, {name}: {peak}"));
            let alive: Vec<String> = peak
                .alive
                .iter()
                .take(LARGEST)
                .map(|a| format!("{} {} {}", crate::failure::shown(&a.layer), format!("{:?}", a.holds).to_lowercase(), size(a.bytes)))
                .collect();
            let more = peak.alive.len().saturating_sub(LARGEST);
            lines.push(format!("  alive then: {}{}", alive.join(", "), if more > 0 { format!(", and {more} more") } else { String::new() }));
        }
        lines
    }
}
impl fmt::Display for Analysis {
    /// The table in its full width.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(Style::default()))
    }
}
fn cells(layer: &LayerAnalysis, all: f64, none: &str) -> [String; 9] {
    let (row, figures) = (&layer.row, &layer.row.figures);
    let or_none = |is_none: bool, text: String| if is_none { none.into() } else { text };
    let times = layer.times.filter(|t| t.kernels > 0);
    let time = times.map(|t| t.time);
    [
        name_of(row),
        shape_of(&row.output, none),
        or_none(row.parameters == 0, row.parameters.to_string()),
        or_none(figures.flops == 0, number(figures.flops as f64)),
        or_none(figures.bytes_moved == 0, size(figures.bytes_moved)),
        or_none(figures.flops == 0, format!("{:.1}", layer.intensity)),
        time.map_or_else(|| none.into(), shown),
        time.map_or_else(|| none.into(), |t| format!("{:.1} %", 100.0 * t.as_secs_f64() / all)),
        or_none(times.is_none(), layer.bound.name().into()),
    ]
}
/// A time in a unit that suits it.
fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", 1e3 * s),
        s => format!("{:.1} us", 1e6 * s),
    }
}
