//! Aligned text for a terminal, and values separated by commas.
use super::{percent, ratio, time};
use crate::{
    comparison::Comparison,
    merge::{MergedCell, MergedTable},
    verdict::Compared,
};
use comfy_table::{Table as Grid, presets::NOTHING};

fn grid(header: Vec<String>) -> Grid {
    let mut grid = Grid::new();
    grid.load_style(NOTHING).set_header(header);
    grid
}
fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}
/// The verdicts, regressions first.
pub fn comparison(c: &Comparison) -> String {
    let mut grid = grid(strings(["workload", "A", "B", "B / A [95 %]", "p (Holm)", "would see", "verdict", "processes", "pairs"]));
    for case in c.sorted() {
        let ns = |x: Option<f64>| x.map(time).unwrap_or_default();
        let p = case.adjusted_p.map(|p| format!("{p:.1e}")).unwrap_or_default();
        let of = case.ratio.map(|r| ratio(r, case.interval)).unwrap_or_default();
        let there = |text: String| if case.verdict.is_some() { text } else { String::new() };
        let (processes, pairs) = (there(case.processes.to_string()), there(format!("{}/{}", case.quiet, case.samples)));
        grid.add_row(vec![case.workload.clone(), ns(case.a_ns), ns(case.b_ns), of, p, visible(case), case.words(), processes, pairs]);
    }
    format!("A: {}\nB: {}\n{}\n{grid}\n{}\n", c.a.name, c.b.name, c.evidence.words(), c.headline())
}
/// The smallest change that would have been seen.
pub(super) fn visible(case: &Compared) -> String {
    match case.smallest_visible {
        Some(v) => format!("{:.1} %", v * 100.0),
        None if case.verdict.is_some() => "none".into(),
        None => String::new(),
    }
}
/// One row for each case.
pub fn comparison_csv(c: &Comparison) -> String {
    let header = [
        "workload",
        "a",
        "b",
        "a_ns",
        "b_ns",
        "ratio",
        "low",
        "high",
        "p",
        "adjusted_p",
        "mann_whitney",
        "samples",
        "quiet",
        "processes",
        "smallest_visible",
        "verdict",
        "gate",
        "error",
    ];
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    let rows = c.cases.iter().map(|case| {
        let [low, high] = case.interval.map_or([None, None], |i| i.map(Some));
        let mut row = vec![case.workload.clone(), c.a.name.clone(), c.b.name.clone()];
        row.extend([case.a_ns, case.b_ns, case.ratio, low, high, case.p, case.adjusted_p, case.mann_whitney].map(number));
        row.extend([case.samples, case.quiet, case.processes].map(|n| n.to_string()));
        row.push(number(case.smallest_visible));
        let gate = case.gate.map(|g| g.decision.words().into());
        row.extend([case.verdict.map(|v| v.word().into()), gate, case.error.clone()].map(Option::unwrap_or_default));
        row
    });
    csv_text(&header, rows)
}
/// Median, half of its interval, throughput, share of the roofline.
pub fn cell(cell: &MergedCell) -> String {
    let Some(ns) = cell.median_ns else {
        let why = cell.error.as_deref().unwrap_or("no samples");
        return if cell.unsupported { format!("n/a: {why}") } else { why.into() };
    };
    let spread = cell.ci95_ns.map(|[low, high]| format!(" ± {:.1} %", (high - low) / 2.0 / ns * 100.0)).unwrap_or_default();
    let rate = cell.throughput.zip(cell.unit).map(|(x, unit)| format!(", {x:.1} {unit}")).unwrap_or_default();
    let share = cell.of_roofline.map(|s| format!(", {}", percent(s))).unwrap_or_default();
    format!("{}{spread}{rate}{share}", time(ns))
}
/// The merged table.
pub fn table(t: &MergedTable) -> String {
    let mut grid = grid([vec!["workload".to_string()], t.columns.iter().map(|c| c.name.clone()).collect()].concat());
    for row in &t.rows {
        let cells = row.cells.iter().map(|c| c.as_ref().map(|c| format!("{}{}", if c.rank == Some(1) { "* " } else { "  " }, cell(c))).unwrap_or_default());
        grid.add_row([row.workload.clone()].into_iter().chain(cells));
    }
    format!("{grid}\n* the fastest of its row; % of the machine's own roofline\n")
}
/// One row for each cell.
pub fn table_csv(t: &MergedTable) -> String {
    let header =
        ["workload", "group", "elements", "column", "median_ns", "low_ns", "high_ns", "throughput", "unit", "of_roofline", "peak_growth_bytes", "error"];
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    let rows = t.rows.iter().flat_map(|row| {
        row.cells.iter().zip(&t.columns).filter_map(move |(cell, column)| {
            let c = cell.as_ref()?;
            let [low, high] = c.ci95_ns.map_or([None, None], |i| i.map(Some));
            let group = format!("{:?}", row.group).to_lowercase();
            let mut out = vec![row.workload.clone(), group, row.elements.map(|n| n.to_string()).unwrap_or_default(), column.name.clone()];
            out.extend([c.median_ns, low, high, c.throughput].map(number));
            out.push(c.unit.unwrap_or_default().into());
            out.push(number(c.of_roofline));
            out.push(c.peak_growth_bytes.map(|b| b.to_string()).unwrap_or_default());
            out.push(c.error.clone().unwrap_or_default());
            Some(out)
        })
    });
    csv_text(&header, rows)
}
/// Spreadsheets run what begins with these; a space before makes it text.
fn as_text(field: String) -> String {
    let runs = field.starts_with(['=', '+', '@', '\t', '\r']) || (field.starts_with('-') && field.parse::<f64>().is_err());
    if runs { format!(" {field}") } else { field }
}
pub(super) fn csv_text(header: &[&str], mut rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // A vector takes all that is written, and every row is as long as the header.
    let written = writer.write_record(header).and_then(|()| rows.try_for_each(|row| writer.write_record(row.into_iter().map(as_text))));
    debug_assert!(written.is_ok(), "{written:?}");
    writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
