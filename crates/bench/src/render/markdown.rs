//! One comment of a pull request. It begins with a mark by which the next run finds it and writes it anew.
use super::{percent, ratio, time};
use crate::{
    comparison::Comparison,
    gate::Decision,
    merge::MergedTable,
    render::plain::{cell, visible},
    verdict::{Compared, Verdict},
};
use std::fmt::Write;

/// By this line the comment is found again.
pub const MARK: &str = "<!-- adamant-bench -->";
/// A comment may have 65,536 characters; the rest is for what stands around the table.
const MOST: usize = 60_000;

/// Text without a meaning of its own.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A mention would notify somebody.
            '@' => out.push_str("&#64;"),
            '\n' | '\r' => out.push(' '),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
fn case_row(case: &Compared) -> String {
    let ns = |x: Option<f64>| x.map(time).unwrap_or_default();
    let of = case.ratio.map(|r| ratio(r, case.interval)).unwrap_or_default();
    let (visible, verdict) = (visible(case), escaped(&case.words()));
    format!("| {} | {} | {} | {of} | {visible} | {verdict} |\n", escaped(&case.workload), ns(case.a_ns), ns(case.b_ns))
}
const HEAD: &str = "| workload | A | B | B / A [95 %] | would see | verdict |\n|---|--:|--:|--:|--:|---|\n";

/// Rows as long as the comment has space; the others are counted.
fn rows(out: &mut String, rows: impl Iterator<Item = String>) {
    let mut left_out = 0;
    for row in rows {
        if out.len() + row.len() < MOST { out.push_str(&row) } else { left_out += 1 }
    }
    if left_out > 0 {
        let _ = writeln!(out, "\n{left_out} more rows are in the artifact.");
    }
}
/// Headline, what changed, the full table folded away, the command that does it again.
pub fn comparison(c: &Comparison) -> String {
    let mut out = format!("{MARK}\n### Benchmarks: {}\n\n", escaped(&c.headline()));
    let _ = writeln!(out, "A: {}, B: {}; {}; changes from {:.1} % count.\n", escaped(&c.a.name), escaped(&c.b.name), c.evidence.words(), c.threshold * 100.0);
    let sorted = c.sorted();
    let told: Vec<&&Compared> = sorted
        .iter()
        .filter(|k| !matches!(k.verdict, Some(Verdict::Same | Verdict::Noisy)) || k.gate.is_some_and(|g| g.decision != Decision::Passed))
        .collect();
    if !told.is_empty() {
        out.push_str(HEAD);
        rows(&mut out, told.into_iter().map(|k| case_row(k)));
        out.push('\n');
    }
    if !c.differences.is_empty() {
        let _ = writeln!(out, "<details><summary>The environments differ in {} facts</summary>\n\n| fact | A | B |\n|---|---|---|", c.differences.len());
        c.differences.iter().for_each(|(n, a, b)| out.push_str(&format!("| {} | {} | {} |\n", escaped(n), escaped(a), escaped(b))));
        out.push_str("\n</details>\n\n");
    }
    let _ = write!(out, "<details><summary>All {} cases</summary>\n\n{HEAD}", c.cases.len());
    rows(&mut out, sorted.iter().map(|k| case_row(k)));
    let _ = write!(out, "\n</details>\n\nAgain here:\n\n```sh\n{}\n```\n", c.command.replace("```", ""));
    out
}
/// The merged table.
pub fn table(t: &MergedTable) -> String {
    let mut out = format!("{MARK}\n### Benchmarks of {} columns\n\n", t.columns.len());
    out.push_str("Median ± half of its 95 % interval, throughput, share of the machine's own roofline; bold: the fastest.\n\n<details open><summary>");
    let _ = write!(out, "{} workloads</summary>\n\n| workload |", t.rows.len());
    t.columns.iter().for_each(|c| out.push_str(&format!(" {} |", escaped(&c.name))));
    out.push_str("\n|---|");
    t.columns.iter().for_each(|_| out.push_str("--:|"));
    out.push('\n');
    rows(
        &mut out,
        t.rows.iter().map(|row| {
            let cells = row.cells.iter().map(|c| match c {
                None => " |".into(),
                Some(c) if c.rank == Some(1) && t.columns.len() > 1 => format!(" **{}** |", escaped(&cell(c))),
                Some(c) => format!(" {} |", escaped(&cell(c))),
            });
            format!("| {} |{}\n", escaped(&row.workload), cells.collect::<String>())
        }),
    );
    out.push_str("\n</details>\n\n| machine | peak f32 | copy | commit | when |\n|---|--:|--:|---|---|\n");
    for c in &t.columns {
        let peak = c.ceilings.as_ref().and_then(|x| x.peak_gflops(c.isa.as_deref(), "f32")).map(|x| format!("{x:.0} GFLOP/s")).unwrap_or_default();
        let copy = c.ceilings.as_ref().map(|x| format!("{:.0} GB/s", x.gbps())).unwrap_or_default();
        let commit = c.commit.as_deref().unwrap_or_default();
        let _ = writeln!(out, "| {} | {peak} | {copy} | {} | {} |", escaped(&c.name), escaped(commit), escaped(&c.started));
    }
    out
}
/// How far from its roofline a column is, in the mean: for a headline.
pub fn mean_share(t: &MergedTable, column: usize) -> Option<String> {
    let shares: Vec<f64> = t.rows.iter().filter_map(|r| r.cells[column].as_ref()?.of_roofline).collect();
    (!shares.is_empty()).then(|| percent(crate::stats::geometric_mean(&shares)))
}
