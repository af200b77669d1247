//! The page of a history: for each line a chart with the band of its intervals and its change points, and the same numbers
//! as a table; the runs; the roofline of the newest records.
//!
//! The numbers stand in the page once, in the tables, so that it stays small and reads without a script; with one, a
//! pointer or the arrow keys show the run at a point, a filter stands in the address, and the tables are saved as CSV or
//! JSON.
use super::{
    html::{self, escaped},
    time,
};
use crate::{
    history::{History, HistoryLine, HistoryRun},
    merge::MergedTable,
};
use std::fmt::Write;

const SCRIPT: &str = include_str!("history.js");
/// Width and height of a chart, and the left, right, top and bottom of its data.
const SIZE: (f64, f64) = (720.0, 220.0);
const AREA: (f64, f64, f64, f64) = (70.0, 700.0, 18.0, 180.0);
/// Parts of the y axis, about.
const PARTS: f64 = 4.0;

/// Nanoseconds of the unit of a line, and its name.
fn unit(ns: f64) -> (f64, &'static str) {
    [(1e9, "s"), (1e6, "ms"), (1e3, "µs")].into_iter().find(|u| ns >= u.0).unwrap_or((1.0, "ns"))
}
/// Five significant digits.
fn digits(x: f64) -> String {
    let before = if x >= 1.0 { x.log10().floor() as usize + 1 } else { 1 };
    format!("{x:.*}", 5usize.saturating_sub(before).max(1))
}
/// The page.
pub fn page(h: &History, newest: &MergedTable) -> String {
    let changed = h.lines.iter().filter(|l| !l.changes.is_empty()).count();
    let mut body = format!(
        "<section><h2>At a glance</h2><p>{} runs, {} lines, {changed} of them with changes.</p>\
         <form class=\"filter\" hidden><label>Show <input type=\"search\" name=\"show\" placeholder=\"gemm avx2\"></label>\
         <label>Who and where <select name=\"column\"><option value=\"\">all</option>{}</select></label>\
         <label><input type=\"checkbox\" name=\"changed\"> only what changed</label>\
         <button type=\"button\" id=\"csv\">Save as CSV</button><button type=\"button\" id=\"json\">Save as JSON</button></form>\
         <output id=\"count\"></output></section>\n",
        h.runs.len(),
        h.lines.len(),
        columns(h).iter().map(|c| format!("<option>{}</option>", escaped(c))).collect::<String>()
    );
    body.push_str(&changes(h));
    body.push_str("<section><h2>Lines</h2>");
    h.lines.iter().enumerate().for_each(|(k, line)| body.push_str(&figure(h, line, k)));
    body.push_str("</section>\n<section><h2>Rooflines of the newest records</h2><div class=\"charts\">");
    newest.columns.iter().enumerate().for_each(|(k, column)| body.push_str(&html::roofline(newest, k, column).figure()));
    body.push_str("</div></section>\n");
    body.push_str(&runs(&h.runs));
    html::page("History of benchmarks", &body, SCRIPT)
}
fn columns(h: &History) -> Vec<&str> {
    let mut all: Vec<&str> = h.lines.iter().map(|l| l.column.as_str()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
fn commit(run: &HistoryRun) -> String {
    let tags: String = run.tags.iter().map(|t| format!(" {t}")).collect();
    format!("{}{tags}", run.commit.as_deref().unwrap_or("no commit"))
}
fn percent(factor: f64) -> String {
    format!("{:+.1} %", (factor - 1.0) * 100.0)
}
/// All change points as text, the newest first.
fn changes(h: &History) -> String {
    let mut all: Vec<_> = h.lines.iter().enumerate().flat_map(|(k, l)| l.changes.iter().map(move |c| (l.points[c.at].run, k, l, c))).collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then(b.3.factor.total_cmp(&a.3.factor)));
    if all.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section><h2>Changes</h2><div class=\"wide\"><table class=\"changes\"><thead><tr><th scope=\"col\">workload</th><th scope=\"col\">who and where</th><th scope=\"col\">time</th><th scope=\"col\">first run</th><th scope=\"col\">commit</th></tr></thead><tbody>\n",
    );
    for (run, k, line, c) in all {
        let class = if c.factor > 1.0 { "slower" } else { "faster" };
        let r = &h.runs[run];
        let _ = writeln!(
            out,
            "<tr data-column=\"{0}\"><th scope=\"row\"><a href=\"#line{k}\">{1}</a></th><td>{0}</td><td class=\"{class}\">{2}</td><td>{3}, {4}</td><td>{5}</td></tr>",
            escaped(&line.column),
            escaped(&line.workload),
            percent(c.factor),
            run + 1,
            escaped(&r.started),
            escaped(&commit(r))
        );
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}
/// A line: its chart, and its numbers folded away.
fn figure(h: &History, line: &HistoryLine, k: usize) -> String {
    let timed: Vec<_> = line.timed().collect();
    let last = timed.last().map_or("no time".to_string(), |t| time(t.1));
    let (scale, name) = unit(timed.iter().map(|t| t.1).fold(f64::INFINITY, f64::min));
    let mut out = format!(
        "<figure class=\"case\" id=\"line{k}\" tabindex=\"0\" data-column=\"{0}\"{1}><figcaption>{2} <small>{0}</small> {last}</figcaption>",
        escaped(&line.column),
        if line.changes.is_empty() { "" } else { " data-changed" },
        escaped(&line.workload),
    );
    out.push_str(&chart(h, line, scale, name));
    let _ = write!(
        out,
        "<output></output><details><summary>Numbers</summary><table><thead><tr><th>run<th>{name}<th>low<th>high</tr></thead><tbody data-scale=\"{scale}\">"
    );
    for p in &line.points {
        let _ = match (p.median_ns, p.ci95_ns) {
            (Some(m), Some([low, high])) => {
                write!(out, "<tr><td>{}<td>{}<td>{}<td>{}", p.run + 1, digits(m / scale), digits(low / scale), digits(high / scale))
            }
            _ => write!(out, "<tr><td>{}<td colspan=3 class=failed>{}", p.run + 1, escaped(p.error.as_deref().unwrap_or("no samples"))),
        };
    }
    out.push_str("</table></details></figure>\n");
    out
}
/// A step of 1, 2 or 5 times a power of ten that parts the range into about [`PARTS`].
fn step(range: f64) -> f64 {
    let power = 10f64.powf((range / PARTS).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|k| k * power).find(|s| range / s <= PARTS + 0.5).unwrap_or(10.0 * power)
}
/// Runs to the right, evenly; time upwards, from a little below the least to a little above the most.
fn chart(h: &History, line: &HistoryLine, scale: f64, name: &str) -> String {
    let timed: Vec<_> = line.timed().collect();
    let (Some(first), Some(last)) = (timed.first(), timed.last()) else { return String::new() };
    let low = timed.iter().map(|t| t.2[0].min(t.1)).fold(f64::INFINITY, f64::min) / scale;
    let high = timed.iter().map(|t| t.2[1].max(t.1)).fold(0.0, f64::max) / scale;
    // What hardly moves is not drawn as if it did.
    let margin = ((high - low) * 0.08).max(high * 0.02);
    let (low, high) = ((low - margin).max(0.0), high + margin);
    let (left, right, top, bottom) = AREA;
    let many = line.points.len().max(2) - 1;
    let at_x = |k: usize| left + (right - left) * if line.points.len() == 1 { 0.5 } else { k as f64 / many as f64 };
    let at_y = |ns: f64| bottom - (ns / scale - low) / (high - low) * (bottom - top);
    let started = |k: usize| h.runs[line.points[k].run].started.get(..10).unwrap_or_default();
    let title = format!("{}, {}: {} runs from {} to {}", line.workload, line.column, timed.len(), started(first.0), started(last.0));
    let mut out = format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" data-runs=\"{}\"><title>{}</title>", SIZE.0, SIZE.1, line.points.len(), escaped(&title));
    let apart = step(high - low);
    let mut y = (low / apart).ceil() * apart;
    while y <= high {
        let (at, places) = (at_y(y * scale), (-apart.log10().floor()).max(0.0) as usize);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{y:.places$}</text>",
            left - 6.0,
            at + 3.0
        );
        y += apart;
    }
    let _ = write!(out, "<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">{name}</text>", (top + bottom) / 2.0);
    let _ = write!(out, "<text x=\"{left}\" y=\"{}\">{}</text>", SIZE.1 - 6.0, started(first.0));
    if timed.len() > 1 {
        let _ = write!(out, "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>", SIZE.1 - 6.0, started(last.0));
    }
    let upper = timed.iter().map(|t| (at_x(t.0), at_y(t.2[1])));
    let lower = timed.iter().rev().map(|t| (at_x(t.0), at_y(t.2[0])));
    let points = |all: &mut dyn Iterator<Item = (f64, f64)>| all.map(|(x, y)| format!("{x:.0} {y:.1}")).collect::<Vec<_>>().join("L");
    let _ = write!(out, "<path class=\"band c0\" d=\"M{}Z\"/>", points(&mut upper.chain(lower)));
    let _ = write!(out, "<path class=\"line c0\" d=\"M{}\"/>", points(&mut timed.iter().map(|t| (at_x(t.0), at_y(t.1)))));
    let dots: String = timed.iter().map(|t| format!("M{:.0} {:.1}h0", at_x(t.0), at_y(t.1))).collect();
    let _ = write!(out, "<path class=\"dots c0\" d=\"{dots}\"/>");
    for c in &line.changes {
        let x = (at_x(c.at) + at_x(c.at.saturating_sub(1))) / 2.0;
        let run = &h.runs[line.points[c.at].run];
        let class = if c.factor > 1.0 { "slower" } else { "faster" };
        let _ = write!(
            out,
            "<g class=\"change {class}\"><title>{0} from {1} on</title><path d=\"M{x:.1} {top}V{bottom}\"/><text x=\"{x:.1}\" y=\"{2}\" text-anchor=\"middle\">{0}</text></g>",
            percent(c.factor),
            escaped(&commit(run)),
            top - 6.0
        );
    }
    for (k, point) in line.points.iter().enumerate() {
        let run = &h.runs[point.run];
        if !run.tags.is_empty() {
            let x = at_x(k);
            let _ = write!(
                out,
                "<path class=\"tag\" d=\"M{x:.1} {bottom}v6\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 17.0,
                escaped(&run.tags.join(" "))
            );
        }
    }
    out.push_str("<path class=\"cursor\" d=\"\"/></svg>");
    out
}
fn runs(runs: &[HistoryRun]) -> String {
    let mut out = String::from(
        "<section><h2>Runs</h2><div class=\"wide\"><table id=\"runs\"><thead><tr><th scope=\"col\">run</th><th scope=\"col\">when</th><th scope=\"col\">commit</th><th scope=\"col\">where</th><th scope=\"col\">command</th><th scope=\"col\">load</th><th scope=\"col\">what is otherwise than before</th></tr></thead><tbody>\n",
    );
    for (k, r) in runs.iter().enumerate() {
        let changed: Vec<String> = r.changed.iter().map(|(name, before, now)| format!("{name}: {before} → {now}")).collect();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td></tr>",
            k + 1,
            escaped(&r.started),
            escaped(&commit(r)),
            escaped(&r.column),
            escaped(&r.command),
            r.load,
            escaped(&changed.join("; "))
        );
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}
/// One row for each point, for spreadsheets.
pub fn csv(h: &History) -> String {
    let header = ["workload", "column", "run", "started", "commit", "median_ns", "low_ns", "high_ns", "change", "error"];
    let number = |x: Option<f64>| x.map(|x| x.to_string()).unwrap_or_default();
    let rows = h.lines.iter().flat_map(|line| {
        line.points.iter().enumerate().map(move |(k, p)| {
            let run = &h.runs[p.run];
            let mut row =
                vec![line.workload.clone(), line.column.clone(), (p.run + 1).to_string(), run.started.clone(), run.commit.clone().unwrap_or_default()];
            let [low, high] = p.ci95_ns.map_or([None, None], |i| i.map(Some));
            row.extend([p.median_ns, low, high, line.changes.iter().find(|c| c.at == k).map(|c| c.factor)].map(number));
            row.push(p.error.clone().unwrap_or_default());
            row
        })
    });
    super::plain::csv_text(&header, rows)
}
