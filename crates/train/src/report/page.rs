//! The page: head, headline figures, curves, and the sections below them.
use super::{curves::Curves, files::ReadRun, sections};
use crate::plot::{self, DARK, LIGHT, Plot, SHAPES_CSS, Series, Stroke, downsample::largest_triangles, escape, scale};
use serde_json::{Value, json};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// The longest configuration that is shown, in bytes.
const LONGEST_CONFIG: usize = 64 << 10;

/// The whole page. `folder` is the run's name where the run does not tell one.
pub fn html(run: &ReadRun, curves: &Curves, folder: &str) -> String {
    let name = said(run, "config").unwrap_or_else(|| folder.to_string());
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{} · training report</title>\
         <link rel=\"icon\" href=\"data:,\"><style>:root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root:not([data-theme=light]){{{DARK}}}}}\
         :root[data-theme=dark]{{{DARK}}}{SHAPES_CSS}{STYLE}</style></head><body>",
        escape(&name)
    );
    let drawn = [
        ("loss", &curves.loss),
        ("accuracy", &curves.metric),
        ("lr", &curves.lr),
        ("grad-norm", &curves.grad_norm),
        ("throughput", &curves.throughput),
        ("memory", &curves.memory),
        ("scale", &curves.scale),
    ];
    // One accuracy alone stands among the headline figures and is no curve.
    let is_curve = |id: &str, plot: &Plot| !plot.is_empty() && (id != "accuracy" || plot.series.iter().map(|s| s.points.len()).sum::<usize>() > 1);
    let drawn: Vec<(&str, &Plot)> = drawn.into_iter().filter(|(id, plot)| is_curve(id, plot)).collect();
    let below: Vec<(&str, &str, String)> = sections::all(run).into_iter().filter(|(.., body)| !body.is_empty()).collect();
    out += "<a class=\"skip\" href=\"#main\">Skip to the results</a>";
    header(&mut out, run, &name);
    out += "<main id=\"main\">";
    notes(&mut out, run);
    headline(&mut out, run);
    if !drawn.is_empty() {
        out += "<section aria-labelledby=\"curves\"><h2 id=\"curves\">Curves</h2><div class=\"plots\">";
        for (id, plot) in &drawn {
            let _ = write!(
                out,
                "<figure tabindex=\"0\" data-plot=\"{id}\" aria-describedby=\"keys\"><figcaption>{}</figcaption>{}<output aria-live=\"polite\"></output></figure>",
                escape(&plot.title),
                plot.svg(&format!("plot-{id}"))
            );
        }
        out += "</div><p class=\"hint\" id=\"keys\">Point at a curve, or focus it and use the arrow keys, to read its values.";
        if !run.checkpoints.is_empty() {
            out += " <span class=\"key checkpoint\"></span> checkpoint";
        }
        if !run.resumes.is_empty() {
            out += " <span class=\"key resume\"></span> resumed after an interruption";
        }
        out += "</p>";
        out += &sections::epochs(run);
        out += "</section>";
    }
    for (id, title, body) in &below {
        let _ = write!(out, "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{title}</h2>{body}</section>");
    }
    if let Some(config) = &run.config {
        let shown = &config[..config.floor_char_boundary(LONGEST_CONFIG)];
        let cut = if shown.len() < config.len() { "\n[the rest is in config.toml]" } else { "" };
        let _ = write!(
            out,
            "<section aria-labelledby=\"config\"><h2 id=\"config\">Configuration</h2><pre tabindex=\"0\" aria-labelledby=\"config\"><bdi>{}{cut}</bdi></pre></section>",
            escape(shown)
        );
    }
    let data: serde_json::Map<String, Value> = drawn.iter().map(|(id, plot)| (id.to_string(), readings(plot))).collect();
    let _ = writeln!(
        out,
        "</main><footer>Made from the files of the run folder by Adamant {}. Everything is inside this page.</footer>\
         <script type=\"application/json\" id=\"data\">{}</script><script>{SCRIPT}</script></body></html>",
        env!("CARGO_PKG_VERSION"),
        // No `<` inside: nothing can end the script.
        Value::from(data).to_string().replace('<', "\\u003c")
    );
    out
}

/// What the environment says, as text.
fn said(run: &ReadRun, key: &str) -> Option<String> {
    match run.environment.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
fn header(out: &mut String, run: &ReadRun, name: &str) {
    let state = match (&run.test, &run.evaluation) {
        (None, None) => "<span class=\"state open\">not finished</span>",
        _ => "<span class=\"state done\">finished</span>",
    };
    let _ = write!(out, "<header><div><p class=\"kicker\">Training report</p><h1><bdi>{}</bdi> {state}</h1><p class=\"sub\">", escape(name));
    let mut parts = Vec::new();
    if let Some(started) = said(run, "started") {
        let readable = started.replace('T', " ").replace('Z', " UTC");
        parts.push(format!("<time datetime=\"{}\">{}</time>", escape(&started), escape(&readable)));
    }
    if let Some(Value::Array(words)) = run.environment.get("command") {
        let command: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        parts.push(format!("<code><bdi>{}</bdi></code>", escape(&command.join(" "))));
    }
    *out += &parts.join(" · ");
    *out += "</p></div><button type=\"button\" id=\"theme\" hidden>Dark</button></header>";
}
fn notes(out: &mut String, run: &ReadRun) {
    if run.notes.is_empty() {
        return;
    }
    *out += "<aside aria-label=\"What is missing\"><strong>Not everything of this run is there.</strong><ul>";
    for note in &run.notes {
        let _ = write!(out, "<li>{}</li>", escape(note));
    }
    *out += "</ul></aside>";
}

/// The figures that one looks for first.
fn headline(out: &mut String, run: &ReadRun) {
    let evaluation = run.evaluation.as_ref();
    let test = run.test.as_ref();
    let accuracy = test.and_then(|t| t.accuracy).or_else(|| evaluation.and_then(|e| e.accuracy));
    let loss = test.and_then(|t| t.loss).or_else(|| evaluation.and_then(|e| e.loss));
    let rows = test.and_then(|t| t.rows).or_else(|| evaluation.and_then(|e| e.rows));
    let of_rows = rows.map_or_else(String::new, |n| format!("on {} rows, read once", grouped(n)));
    let valid = run.epochs.iter().rev().find_map(|e| e.valid.as_ref());
    let mut figures: Vec<(&str, String, String)> = Vec::new();
    let mae = test.and_then(|t| t.mae);
    if let Some(r2) = test.and_then(|t| t.r2) {
        figures.push(("Test R²", scale::number(r2), of_rows.clone()));
    }
    if let Some(mae) = mae {
        figures.push(("Test MAE", scale::number(mae), "mean absolute error, in the data's units".into()));
    }
    if let Some(rmse) = test.and_then(|t| t.rmse) {
        figures.push(("Test RMSE", scale::number(rmse), "root of the mean squared error".into()));
    }
    if let (None, Some(mae)) = (mae, valid.and_then(|v| v.mae)) {
        figures.push(("Validation MAE", scale::number(mae), "after the last epoch".into()));
    }
    match (accuracy, valid.and_then(|v| v.accuracy)) {
        (Some(a), _) => figures.push(("Test accuracy", percent(a), of_rows.clone())),
        (None, Some(a)) => figures.push(("Validation accuracy", percent(a), "after the last epoch".into())),
        _ => {}
    }
    match (loss, valid.and_then(|v| v.loss), run.steps.iter().rev().find_map(|s| s.loss)) {
        (Some(l), ..) => figures.push(("Test loss", scale::number(l), if accuracy.is_none() && mae.is_none() { of_rows } else { String::new() })),
        (_, Some(l), _) => figures.push(("Validation loss", scale::number(l), "after the last epoch".into())),
        (.., Some(l)) => figures.push(("Training loss", scale::number(l), "of the last step".into())),
        _ => {}
    }
    let mut rates: Vec<f64> = run.timing.iter().filter_map(|t| t.rows_per_second).filter(|r| r.is_finite()).collect();
    rates.sort_by(f64::total_cmp);
    if let Some(median) = rates.get(rates.len() / 2) {
        figures.push(("Throughput", format!("{}<small> rows/s</small>", scale::number(*median)), "median over the run".into()));
    }
    if let Some(seconds) = training_seconds(run) {
        let steps = run.steps.last().map(|s| s.step).max(run.epochs.last().map(|e| e.step));
        figures.push(("Training time", duration(seconds), steps.map_or_else(String::new, |n| format!("{} steps", grouped(n)))));
    }
    if let Some(n) = run.environment.get("parameters").and_then(Value::as_f64) {
        figures.push(("Parameters", scale::number(n), if n >= 1000.0 { grouped(n as u64) } else { String::new() }));
    }
    if let Some(device) = said(run, "device") {
        let detail = [said(run, "cpu"), said(run, "isa"), said(run, "threads").map(|n| format!("{n} threads"))];
        let detail: Vec<String> = detail.into_iter().flatten().collect();
        figures.push(("Device", format!("<bdi>{}</bdi>", escape(&device)), detail.join(", ")));
    }
    if figures.is_empty() {
        return;
    }
    *out += "<section aria-label=\"Headline figures\"><dl class=\"figures\">";
    for (name, value, detail) in figures {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd><dd class=\"detail\"><bdi>{}</bdi></dd></div>", escape(&detail));
    }
    *out += "</dl></section>";
}
/// Seconds of training. A resumed run may count from its start: where the count falls, another part begins.
fn training_seconds(run: &ReadRun) -> Option<f64> {
    let (mut total, mut last) = (0.0, None::<f64>);
    for seconds in run.timing.iter().filter_map(|t| t.seconds).filter(|s| s.is_finite()) {
        if let Some(before) = last.filter(|&before| seconds < before) {
            total += before;
        }
        last = Some(seconds);
    }
    last.map(|seconds| total + seconds)
}
/// 139,658
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (k, digit) in digits.chars().enumerate() {
        if k > 0 && (digits.len() - k) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.2}<small> %</small>", 100.0 * share)
}
fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{seconds:.1}<small> s</small>"),
        60..3600 => format!("{}<small> min</small> {:02}<small> s</small>", whole / 60, whole % 60),
        _ => format!("{}<small> h</small> {:02}<small> min</small>", whole / 3600, whole / 60 % 60),
    }
}

/// What the script needs to read values off a plot: the axes, and the points that are drawn.
fn readings(plot: &Plot) -> Value {
    let (x, y) = plot.axes();
    let visible = |s: &&Series| s.stroke != Stroke::Faint;
    let drawable = |s: &Series| s.points.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite() && (!plot.log || p.1 > 0.0)).collect::<Vec<_>>();
    let series: Vec<Value> = plot
        .series
        .iter()
        .filter(visible)
        .map(|s| {
            let points = largest_triangles(&drawable(s), plot::MAX_POINTS);
            // As many digits as one reads.
            let short = |v: f64| format!("{v:.4e}").parse::<f64>().unwrap_or(v);
            json!({ "name": s.name, "colour": s.colour % 6 + 1, "x": points.iter().map(|p| p.0).collect::<Vec<_>>(), "y": points.iter().map(|p| short(p.1)).collect::<Vec<_>>() })
        })
        .collect();
    let axis = |axis: scale::PlotAxis| json!([axis.low, axis.high, axis.span.0, axis.span.1]);
    json!({ "x": axis(x), "y": axis(y), "log": plot.log, "label": plot.x_label, "series": series })
}
