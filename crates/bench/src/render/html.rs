//! One page: the table, the roofline of each column, time per element over sizes, growth of memory, the environments.
//! Everything is in the file; without a script it reads the same, with one it can be searched and sorted.
use super::{
    chart::{Chart, ChartSeries, Point},
    percent, plain, ratio, time,
};
use crate::{
    comparison::Comparison,
    merge::{MergedCell, MergedColumn, MergedTable},
    render::markdown::mean_share,
    workload::Group,
};
use std::{collections::BTreeSet, fmt::Write};

const STYLE: &str = include_str!("page.css");
const THEME: &str = include_str!("theme.js");
const SCRIPT: &str = include_str!("page.js");
/// Nothing is loaded from anywhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// Text that is no markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
/// A whole page: its body, and its script beside the one that every page has.
pub(super) fn page(title: &str, body: &str, script: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><main><header><h1>{title}</h1><button id=\"theme\" type=\"button\">Light or dark</button></header>\n{body}</main>\
         <script>{THEME}</script><script>{script}</script></body></html>\n"
    )
}
/// The page of a merged table.
pub fn report(t: &MergedTable) -> String {
    let mut body = String::from("<section><h2>At a glance</h2><ul class=\"cards\">");
    for (k, c) in t.columns.iter().enumerate() {
        let share = mean_share(t, k).map_or_else(|| "no ceilings".into(), |s| format!("{s} of its roofline in the mean"));
        let ceilings = c.ceilings.as_ref().map(|x| {
            let peak = x.peak_gflops(c.isa.as_deref(), "f32").map(|p| format!("{p:.0} GFLOP/s f32, ")).unwrap_or_default();
            format!("{peak}{:.0} GB/s", x.gbps())
        });
        let commit = c.commit.as_deref().map(|g| format!("<br>commit {}", escaped(g))).unwrap_or_default();
        let _ = write!(
            body,
            "<li><span class=\"key c{}\"></span><b>{}</b><br>{share}<br>{}{commit}<br>{}</li>",
            k % super::chart::COLOURS,
            escaped(&c.name),
            ceilings.unwrap_or_default(),
            escaped(&c.started)
        );
    }
    body.push_str("</ul></section>\n");
    body.push_str(&table("Workloads", t, Group::Main));
    for (k, column) in t.columns.iter().enumerate() {
        body.push_str(&roofline(t, k, column).figure());
    }
    body.push_str(&sizes(t));
    body.push_str(&memory(t));
    body.push_str(&table("Sizes", t, Group::Sizes));
    body.push_str(&environments(t));
    page("Benchmarks", &body, SCRIPT)
}
fn table(title: &str, t: &MergedTable, group: Group) -> String {
    let rows: Vec<_> = t.rows.iter().filter(|r| r.group == group).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<section><h2>{title}</h2><label class=\"search\">Show <input type=\"search\" placeholder=\"gemm\"></label><div class=\"wide\"><table><thead><tr><th scope=\"col\">workload</th>"
    );
    t.columns.iter().for_each(|c| out.push_str(&format!("<th scope=\"col\">{}</th>", escaped(&c.name))));
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(&row.workload));
        row.cells.iter().for_each(|c| out.push_str(&cell(c.as_ref())));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}
fn cell(c: Option<&MergedCell>) -> String {
    let Some(c) = c else { return "<td class=\"none\">not measured</td>".into() };
    let Some(ns) = c.median_ns else {
        return format!("<td class=\"{}\">{}</td>", if c.unsupported { "none" } else { "failed" }, escaped(&plain::cell(c)));
    };
    let spread = c.ci95_ns.map(|[low, high]| format!(" <small>± {:.1} %</small>", (high - low) / 2.0 / ns * 100.0)).unwrap_or_default();
    let rate = c.throughput.zip(c.unit).map(|(x, unit)| format!("<br><small>{x:.1} {unit}</small>")).unwrap_or_default();
    let share =
        c.of_roofline.map(|s| format!("<br><meter min=\"0\" max=\"1\" value=\"{:.3}\"></meter> <small>{}</small>", s.min(1.0), percent(s))).unwrap_or_default();
    let class = if c.rank == Some(1) { " class=\"first\"" } else { "" };
    format!("<td{class} data-ns=\"{ns}\">{}{spread}{rate}{share}</td>", time(ns))
}
/// Throughput in operations against operations per byte, below the roofline.
pub(super) fn roofline(t: &MergedTable, k: usize, column: &MergedColumn) -> Chart {
    let points = t.rows.iter().filter_map(|row| {
        let c = row.cells[k].as_ref()?;
        let (x, intensity) = (c.throughput?, c.intensity?);
        let y = match c.unit? {
            "GFLOP/s" => x,
            "GB/s" => x * intensity,
            _ => return None,
        };
        let share = c.of_roofline.map(|s| format!(", {} of the roofline", percent(s))).unwrap_or_default();
        Some(Point { x: intensity, y, text: format!("{}: {y:.2} GFLOP/s at {intensity:.2} per byte{share}", row.workload) })
    });
    let points: Vec<Point> = points.collect();
    let mut series = Vec::new();
    if let (Some(c), false) = (&column.ceilings, points.is_empty()) {
        let peak = c.peak_gflops(column.isa.as_deref(), "f32").unwrap_or(f64::NAN);
        let least = points.iter().map(|p| p.x).fold(peak / c.gbps(), f64::min) / 2.0;
        let most = points.iter().map(|p| p.x).fold(peak / c.gbps(), f64::max) * 2.0;
        let corner = [(least, least * c.gbps()), (peak / c.gbps(), peak), (most, peak)];
        let corner = corner.map(|(x, y)| Point { x, y, text: String::new() });
        series.push(ChartSeries { name: "the machine's roofline".into(), points: corner.into(), joined: true, ceiling: true, colour: k });
    }
    series.push(ChartSeries { name: column.name.clone(), points, joined: false, ceiling: false, colour: k });
    Chart { title: format!("Roofline: {}", column.name), x: "operations for each byte of traffic".into(), y: "GFLOP/s".into(), series }
}
/// Time per element of each family, one chart for each.
fn sizes(t: &MergedTable) -> String {
    let families: BTreeSet<&str> = t.rows.iter().filter(|r| r.elements.is_some()).map(|r| r.family()).collect();
    let charts: String = families
        .into_iter()
        .map(|family| {
            let of = |k: usize| {
                let rows = t.rows.iter().filter(|r| r.family() == family);
                let mut points: Vec<Point> = rows
                    .filter_map(|r| {
                        let (n, ns) = (r.elements? as f64, r.cells[k].as_ref()?.median_ns?);
                        Some(Point { x: n, y: ns / n, text: format!("{n} elements: {:.4} ns each, {}", ns / n, time(ns)) })
                    })
                    .collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                points
            };
            let series =
                t.columns.iter().enumerate().map(|(k, c)| ChartSeries { name: c.name.clone(), points: of(k), joined: true, ceiling: false, colour: k });
            let series = series.filter(|s| !s.points.is_empty()).collect();
            Chart { title: format!("Time per element: {family}"), x: "elements".into(), y: "ns per element".into(), series }.figure()
        })
        .collect();
    if charts.is_empty() { charts } else { format!("<section><h2>Time per element over sizes</h2><div class=\"charts\">{charts}</div></section>\n") }
}
fn memory(t: &MergedTable) -> String {
    let rows: Vec<_> = t.rows.iter().filter(|r| r.cells.iter().flatten().any(|c| c.peak_growth_bytes.is_some())).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section><h2>Growth of memory</h2><p>The most that the process held over its level before the first call; and from the third call on, how many plans were found again.</p><div class=\"wide\"><table><thead><tr><th scope=\"col\">workload</th>",
    );
    t.columns.iter().for_each(|c| out.push_str(&format!("<th scope=\"col\">{}</th>", escaped(&c.name))));
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escaped(&row.workload));
        for c in &row.cells {
            let bytes = c.as_ref().and_then(|c| c.peak_growth_bytes);
            let hits = c.as_ref().and_then(|c| c.plan_hits).map(|h| format!("<br><small>{:.1} % of plans found again</small>", h * 100.0)).unwrap_or_default();
            out.push_str(&bytes.map_or_else(|| "<td class=\"none\">not measured</td>".into(), |b| format!("<td>{:.1} MB{hits}</td>", b as f64 * 1e-6)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></section>\n");
    out
}
fn environments(t: &MergedTable) -> String {
    let mut out = String::from("<section><h2>Environments</h2>");
    for c in &t.columns {
        let _ = write!(out, "<details><summary>{}</summary><dl>", escaped(&c.name));
        c.facts.iter().for_each(|(k, v)| out.push_str(&format!("<dt>{}</dt><dd>{}</dd>", escaped(k), escaped(v))));
        if let Some(x) = &c.ceilings {
            x.gflops.iter().for_each(|(k, v)| out.push_str(&format!("<dt>peak {}</dt><dd>{v:.1} GFLOP/s</dd>", escaped(k))));
            let _ = write!(
                out,
                "<dt>copy</dt><dd>{:.1} GB/s</dd><dt>triad</dt><dd>{:.1} GB/s</dd><dt>hand-over of threads</dt><dd>{:.0} ns</dd>",
                x.copy_gbps, x.triad_gbps, x.handover_ns
            );
        }
        out.push_str("</dl></details>");
    }
    out.push_str("</section>\n");
    out
}
/// The page of a comparison.
pub fn comparison(c: &Comparison) -> String {
    let mut body =
        format!("<section><h2>{}</h2><p>A: {}<br>B: {}<br>{}</p>", escaped(&c.headline()), escaped(&c.a.name), escaped(&c.b.name), c.evidence.words());
    body.push_str("<label class=\"search\">Show <input type=\"search\" placeholder=\"slower\"></label><div class=\"wide\"><table><thead><tr>");
    ["workload", "A", "B", "B / A [95 %]", "p (Holm)", "would see", "verdict", "processes"]
        .iter()
        .for_each(|h| body.push_str(&format!("<th scope=\"col\">{h}</th>")));
    body.push_str("</tr></thead><tbody>\n");
    for case in c.sorted() {
        let ns = |x: Option<f64>| x.map(|x| format!("<td data-ns=\"{x}\">{}</td>", time(x))).unwrap_or_else(|| "<td></td>".into());
        let verdict = case.verdict.map_or("failed", |v| v.word());
        let said = escaped(&case.words());
        let of = case.ratio.map(|r| format!("<td data-ns=\"{r}\">{}</td>", ratio(r, case.interval))).unwrap_or_else(|| "<td></td>".into());
        let p = case.adjusted_p.map(|p| format!("{p:.1e}")).unwrap_or_default();
        let (visible, processes) = (plain::visible(case), case.processes);
        let _ = writeln!(
            body,
            "<tr class=\"{verdict}\"><th scope=\"row\">{}</th>{}{}{of}<td>{p}</td><td>{visible}</td><td>{said}</td><td>{processes}</td></tr>",
            escaped(&case.workload),
            ns(case.a_ns),
            ns(case.b_ns)
        );
    }
    let _ = write!(body, "</tbody></table></div></section><section><h2>Again here</h2><pre>{}</pre>", escaped(&c.command));
    if !c.differences.is_empty() {
        body.push_str("<h2>What differs</h2><dl>");
        c.differences.iter().for_each(|(n, a, b)| body.push_str(&format!("<dt>{}</dt><dd>{} | {}</dd>", escaped(n), escaped(a), escaped(b))));
        body.push_str("</dl>");
    }
    body.push_str("</section>\n");
    page("Comparison", &body, SCRIPT)
}
