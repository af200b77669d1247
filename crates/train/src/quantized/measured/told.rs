//! A report of codes as JSON and as a table.
use super::{BothWays, CodesReport, MeasuredLayer};
use crate::{
    Evaluation,
    folder::{number, text_of},
};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::{Value, json};
use std::fmt;

fn both<T: Copy + Into<Value>>(of: &BothWays<T>) -> Value {
    json!({ "codes": of.codes.into(), "floats": of.floats.into() })
}
fn layer(of: &MeasuredLayer) -> Value {
    json!({
        "path": of.path,
        "layer": of.kind,
        "what": of.what,
        "codes": of.has_codes,
        "signal_to_noise_db": of.signal_to_noise.map(number),
        "worst_row_db": of.worst_row.map(number),
        "bytes": both(&of.bytes),
        "seconds": of.seconds.as_ref().map(both),
    })
}
impl CodesReport {
    /// All of it. A ratio that is infinite, where nothing was lost, is null.
    pub fn to_json(&self) -> Value {
        let latency = |k: usize| both(&self.latency.map(|l| l[k]));
        json!({
            "folder": text_of(&self.folder),
            "layers": self.layers.iter().map(layer).collect::<Vec<_>>(),
            "bytes": both(&self.bytes),
            "rest_bytes": both(&self.bytes_of_rest()),
            "batch": self.batch,
            "seconds": both(&self.seconds),
            "rest_seconds": both(&self.rest),
            "latency_one": latency(0),
            "latency_batch": latency(1),
            "test": { "codes": self.test.codes.to_json(), "floats": self.test.floats.to_json() },
        })
    }
}
fn decibels(of: Option<f64>) -> String {
    of.map_or_else(|| "-".into(), |v| if v == f64::INFINITY { "exact".into() } else { format!("{v:.1} dB") })
}
/// Microseconds of codes and of floats, and the one in the other.
fn times(of: BothWays<f64>) -> [String; 3] {
    let micro = |seconds: f64| format!("{:.1}", 1e6 * seconds);
    [micro(of.codes), micro(of.floats), format!("{:.2}", of.codes / of.floats.max(1e-12))]
}
fn row(name: &str, kind: &str, noise: [String; 2], bytes: BothWays<u64>, seconds: Option<BothWays<f64>>, what: &str) -> [String; 10] {
    let [outputs, worst_row] = noise;
    let [codes, floats, ratio] = seconds.map_or_else(|| ["-".to_string(), "-".into(), "-".into()], times);
    [name.into(), kind.into(), outputs, worst_row, bytes.codes.to_string(), bytes.floats.to_string(), codes, floats, ratio, what.into()]
}
impl fmt::Display for CodesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(["layer", "kind", "outputs", "worst row", "bytes", "of floats", "us", "of floats", "ratio", "what it is"]);
        for l in &self.layers {
            table.add_row(row(&l.path, l.kind, [decibels(l.signal_to_noise), decibels(l.worst_row)], l.bytes, l.seconds, &l.what));
        }
        table.add_row(row("the rest", "", Default::default(), self.bytes_of_rest(), Some(self.rest), "names and schemes; between layers"));
        table.add_row(row("all", "", Default::default(), self.bytes, Some(self.seconds), "the file; a run that waits for each layer"));
        for column in 2..9 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(f, "{}", table.trim_fmt())?;
        let figures = |of: &Evaluation| {
            let all: String = of.figures().into_iter().filter_map(|(name, v)| Some(format!(", {name} {:.4}", v?))).collect();
            format!("loss {:.4}{all}", of.loss)
        };
        writeln!(f, "test: codes {}; floats {}", figures(&self.test.codes), figures(&self.test.floats))?;
        for (k, rows) in [1, self.batch].into_iter().enumerate() {
            let [codes, floats, ratio] = times(self.latency.map(|l| l[k]));
            writeln!(f, "undisturbed, {rows} rows at once: {codes} us, floats {floats} us, ratio {ratio}")?;
        }
        let ratio = self.bytes.floats as f64 / self.bytes.codes.max(1) as f64;
        write!(f, "file: {} bytes, floats {}, {ratio:.2} times smaller", self.bytes.codes, self.bytes.floats)
    }
}
