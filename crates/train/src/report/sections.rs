//! What stands below the curves: the table of epochs, the confusion matrix and the figures of each class (or how far numbers
//! are from the truth), the worst examples, gradients by layer, checkpoints, the environment. A section without data is an empty text.
mod codes;
mod numbers;

use super::{
    files::{ReadEvaluation, ReadRun, ReadWorst},
    image, model,
};
use crate::plot::{escape, scale::number};
use serde_json::Value;
use std::fmt::Write;

/// The most rows of a table of epochs or checkpoints.
const MAX_ROWS: usize = 200;
/// A picture of more boxes is folded away.
const MAX_BOXES: usize = 12;
/// The largest heat map of gradients: parameters and epochs.
const MAX_HEAT: (usize, usize) = (80, 40);
/// The largest confusion matrix.
const MAX_CLASSES: usize = 64;
/// The most examples, and the longest text of one in characters.
const MAX_EXAMPLES: usize = 32;
const LONGEST_TEXT: usize = 1000;

/// (id, title, body) of each section.
pub fn all(run: &ReadRun) -> Vec<(&'static str, &'static str, String)> {
    let evaluation = run.evaluation.as_ref();
    vec![
        ("architecture", "Architecture", picture(run) + &model::architecture(run.config.as_deref(), &run.weights)),
        ("features", "Features", model::features(&run.weights)),
        ("predictions", "Predictions", evaluation.map(numbers::predictions).unwrap_or_default()),
        ("confusion", "Confusion matrix", evaluation.map(confusion).unwrap_or_default()),
        ("classes", "Figures by class", evaluation.map(by_class).unwrap_or_default()),
        ("worst", "Worst examples", evaluation.map(worst).unwrap_or_default()),
        ("codes", "Integer codes", run.codes.as_ref().map(codes::codes).unwrap_or_default()),
        ("gradients", "Gradients by layer", gradients(run)),
        ("precision", "Mixed precision", precision(run)),
        ("checkpoints", "Checkpoints", checkpoints(run)),
        ("environment", "Environment", environment(run)),
    ]
}
/// The model's layers as boxes, folded away where they are many.
fn picture(run: &ReadRun) -> String {
    let Some(picture) = run.architecture.as_ref().filter(|p| p.nodes.len() > 2) else { return String::new() };
    let open = if picture.nodes.len() <= MAX_BOXES { " open" } else { "" };
    format!(
        "<details{open}><summary>Picture</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Picture of the architecture\">{}</div></details>",
        picture.svg("architecture-picture")
    )
}
pub fn name(text: &str) -> String {
    format!("<bdi>{}</bdi>", escape(text))
}
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_string() } else { text.chars().take(most.saturating_sub(1)).chain(['…']).collect() }
}
fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), number)
}
/// At most `most` of the positions 0..n, evenly, the last among them.
fn thinned(n: usize, most: usize) -> Vec<usize> {
    if n <= most { (0..n).collect() } else { (0..most).map(|k| (k + 1) * n / most - 1).collect() }
}

/// The numbers of each epoch, folded away below the curves.
pub fn epochs(run: &ReadRun) -> String {
    if run.epochs.is_empty() {
        return String::new();
    }
    let has_valid = run.epochs.iter().any(|e| e.valid.is_some());
    let is_numbers = run.epochs.iter().any(|e| e.valid.as_ref().is_some_and(|v| v.mae.is_some()));
    let mut out = String::from(
        "<details><summary>Numbers by epoch</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers by epoch\">\
         <table class=\"rows\"><thead><tr><th scope=\"col\">Epoch</th><th scope=\"col\">Step</th><th scope=\"col\">Train loss</th>",
    );
    if has_valid {
        out += "<th scope=\"col\">Validation loss</th>";
        out += if is_numbers {
            "<th scope=\"col\">Validation MAE</th><th scope=\"col\">Validation R²</th>"
        } else {
            "<th scope=\"col\">Validation accuracy</th>"
        };
    }
    out += "<th scope=\"col\">Learning rate</th></tr></thead><tbody>";
    for k in thinned(run.epochs.len(), MAX_ROWS) {
        let e = &run.epochs[k];
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>", e.epoch, e.step, optional(e.loss));
        if has_valid {
            let valid = e.valid.as_ref();
            let accuracy = || valid.and_then(|v| v.accuracy).map_or_else(|| "–".into(), |a| format!("{:.2} %", 100.0 * a));
            let _ = write!(out, "<td>{}</td>", optional(valid.and_then(|v| v.loss)));
            if is_numbers {
                let _ = write!(out, "<td>{}</td><td>{}</td>", optional(valid.and_then(|v| v.mae)), optional(valid.and_then(|v| v.r2)));
            } else {
                let _ = write!(out, "<td>{}</td>", accuracy());
            }
        }
        let _ = write!(out, "<td>{}</td></tr>", optional(e.lr));
    }
    out + "</tbody></table></div></details>"
}

fn confusion(evaluation: &ReadEvaluation) -> String {
    let Some(counts) = evaluation.confusion.as_ref().filter(|c| !c.is_empty()) else { return String::new() };
    let n = counts.len();
    if n > MAX_CLASSES || counts.iter().any(|row| row.len() != n) {
        return format!("<p>The confusion matrix in evaluation.json is not square or has more than {MAX_CLASSES} classes; it is not shown.</p>");
    }
    let class = |k: usize| evaluation.classes.as_ref().and_then(|c| c.get(k)).cloned().unwrap_or_else(|| k.to_string());
    let of_truth = |t: usize| counts[t].iter().sum::<u64>();
    let of_answer = |a: usize| counts.iter().map(|row| row[a]).sum::<u64>();
    let share = |part: u64, whole: u64| if whole == 0 { "–".into() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) };
    let most_wrong = (0..n).flat_map(|t| (0..n).filter(move |&a| a != t).map(move |a| counts[t][a])).max().unwrap_or(0);
    let mut out = String::from(
        "<p class=\"hint\">Rows: truth. Columns: answer. Recall and precision in percent.</p><div class=\"split\"><div class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"><table class=\"confusion\">\
         <thead><tr><td class=\"share\"></td>",
    );
    for a in 0..n {
        let _ = write!(out, "<th scope=\"col\" title=\"{}\">{}</th>", escape(&short(&class(a), 60)), name(&short(&class(a), 12)));
    }
    out += "<th scope=\"col\">Recall</th></tr></thead><tbody>";
    for t in 0..n {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", name(&short(&class(t), 24)));
        for (a, &count) in counts[t].iter().enumerate() {
            // Right answers by their share of the class, wrong ones by the largest of them: rare errors stay visible.
            let part = if a == t { count as f64 / of_truth(t).max(1) as f64 } else { count as f64 / most_wrong.max(1) as f64 };
            let shade = if count == 0 { 0.0 } else { 12.0 + if a == t { 78.0 } else { 68.0 } * part };
            let classes =
                format!("{}{}{}", if a == t { "ok" } else { "wrong" }, if count == 0 { " zero" } else { "" }, if shade > 70.0 { " strong" } else { "" });
            let _ = write!(out, "<td class=\"{classes}\" style=\"--v:{shade:.0}%\">{count}</td>");
        }
        let _ = write!(out, "<td class=\"share\">{}</td></tr>", share(counts[t][t], of_truth(t)));
    }
    out += "</tbody><tfoot><tr><th scope=\"row\">Precision</th>";
    for a in 0..n {
        let _ = write!(out, "<td class=\"share\">{}</td>", share(counts[a][a], of_answer(a)));
    }
    out += "<td class=\"share\"></td></tr></tfoot></table></div></div>";
    let mut pairs: Vec<(u64, usize, usize)> =
        (0..n).flat_map(|t| (0..n).map(move |a| (counts[t][a], t, a))).filter(|&(count, t, a)| t != a && count > 0).collect();
    pairs.sort_by_key(|&(count, t, a)| (std::cmp::Reverse(count), t, a));
    out += "<div class=\"card\"><h3 style=\"margin-top:0\">Most frequent mistakes</h3><ul class=\"pairs\">";
    for (count, t, a) in pairs.iter().take(8) {
        let _ = write!(out, "<li><span>{} taken for {}</span><span>{count}</span></li>", name(&short(&class(*t), 30)), name(&short(&class(*a), 30)));
    }
    if pairs.is_empty() {
        out += "<li>None: every answer was right.</li>";
    }
    out + "</ul></div></div>"
}

/// Precision, recall and F1 of each class, and their means.
fn by_class(evaluation: &ReadEvaluation) -> String {
    let Some(classes) = evaluation.by_class.as_ref().filter(|c| !c.is_empty()) else { return String::new() };
    let mut out = String::from(
        "<div class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures by class\"><table class=\"rows\"><thead><tr>\
         <th scope=\"col\">Class</th><th scope=\"col\">Precision</th><th scope=\"col\">Recall</th><th scope=\"col\">F1</th><th scope=\"col\">Rows</th></tr></thead><tbody>",
    );
    let share = |v: Option<f64>| v.map_or_else(|| "–".into(), |v| format!("{v:.3}"));
    let mut row = |called: String, c: &super::files::ReadByClass| {
        let support = c.support.map_or_else(String::new, |n| n.to_string());
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{called}</th><td>{}</td><td>{}</td><td>{}</td><td>{support}</td></tr>",
            share(c.precision),
            share(c.recall),
            share(c.f1)
        );
    };
    classes.iter().take(MAX_ROWS).for_each(|c| row(name(&short(c.class.as_deref().unwrap_or("?"), 40)), c));
    if let Some(mean) = &evaluation.mean {
        row("Mean of the classes (macro)".into(), mean);
    }
    out += "</tbody></table></div>";
    if let Some((k, share)) = evaluation.top_k.as_ref().and_then(|t| Some((t.k?, t.accuracy?))) {
        let _ = write!(out, "<p class=\"hint\">The truth is among the {k} likeliest answers for {:.2}\u{a0}% of the rows.</p>", 100.0 * share);
    }
    if classes.len() > MAX_ROWS {
        let _ = write!(out, "<p class=\"hint\">The first {MAX_ROWS} of {} classes; evaluation.json has all.</p>", classes.len());
    }
    out + "</div>"
}

fn worst(evaluation: &ReadEvaluation) -> String {
    if evaluation.worst.is_empty() {
        return String::new();
    }
    if evaluation.worst.iter().any(|w| w.numbers.is_some()) {
        return numbers::worst(&evaluation.worst);
    }
    let texts = evaluation.worst.iter().any(|w| w.text.is_some());
    let hint = if evaluation.worst.iter().any(|w| w.target.is_some()) {
        "Rows of the test part: wrong answers first, then right ones of which the model was least sure."
    } else {
        "Rows of the test part with the largest loss."
    };
    let mut out = format!("<p class=\"hint\">{hint}</p><ul class=\"examples{}\">", if texts { " texts" } else { "" });
    for example in evaluation.worst.iter().take(MAX_EXAMPLES) {
        one_example(&mut out, example);
    }
    out + "</ul>"
}
fn one_example(out: &mut String, w: &ReadWorst) {
    let unknown = || "?".to_string();
    let (target, answer) = (w.target.clone().unwrap_or_else(unknown), w.answer.clone().unwrap_or_else(unknown));
    let row = w.index.map_or_else(unknown, |k| k.to_string());
    *out += "<li>";
    match w.image.as_ref().map(image::data_uri) {
        Some(Ok(uri)) => {
            let _ = write!(out, "<img src=\"{uri}\" alt=\"Row {row}, truth {}, answer {}\">", escape(&short(&target, 60)), escape(&short(&answer, 60)));
        }
        Some(Err(why)) => {
            let _ = write!(out, "<p class=\"detail\">No image: {}</p>", escape(&why));
        }
        None => {}
    }
    if let Some(text) = &w.text {
        let _ = write!(out, "<pre dir=\"auto\" tabindex=\"0\" aria-label=\"Text of row {row}\">{}</pre>", escape(&short(text, LONGEST_TEXT)));
    }
    let (target_name, answer_name) = (name(&short(&target, 80)), name(&short(&answer, 80)));
    let _ = match (&w.target, &w.answer) {
        // A sequence has many answers, and no single one to show.
        (None, None) => Ok(()),
        (Some(t), Some(a)) if t == a => write!(out, "<p class=\"verdict\"><span class=\"truth\">{target_name}</span> <span class=\"right\">right</span></p>"),
        _ => write!(out, "<p class=\"verdict\"><span class=\"truth\">{target_name}</span> → <span class=\"answer\">{answer_name}</span></p>"),
    };
    let _ = write!(out, "<p class=\"detail\">loss {}", optional(w.loss));
    if let Some(p) = w.probability {
        let _ = write!(out, "<br>the truth was given {}\u{a0}%", number(100.0 * p));
    }
    let _ = write!(out, "<br>row {row}</p>");
    if let Some(inputs) = w.inputs.as_ref().filter(|i| !i.is_empty()) {
        *out += &numbers::inputs(inputs);
    }
    *out += "</li>";
}

fn gradients(run: &ReadRun) -> String {
    let all: Vec<&super::files::ReadEpoch> = run.epochs.iter().filter(|e| !e.grad_norms.0.is_empty()).collect();
    let Some(first) = all.first() else { return String::new() };
    let epochs: Vec<&super::files::ReadEpoch> = thinned(all.len(), MAX_HEAT.1).into_iter().map(|k| all[k]).collect();
    let names: Vec<&String> = first.grad_norms.0.iter().map(|(name, _)| name).collect();
    let norm = |e: &super::files::ReadEpoch, name: &String| e.grad_norms.0.iter().find(|(n, _)| n == name).and_then(|(_, norm)| *norm);
    let values = || epochs.iter().flat_map(|e| e.grad_norms.0.iter().filter_map(|(_, n)| *n)).filter(|n| n.is_finite() && *n > 0.0);
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let mut out = String::from(
        "<div class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Gradient norms by layer and epoch\"><table class=\"heat\">\
         <thead><tr><th scope=\"col\">Parameter</th>",
    );
    // A column is narrow: every fifth epoch is written, and every one in its cells.
    for (k, e) in epochs.iter().enumerate() {
        let written = if epochs.len() <= 20 || (k + 1) % 5 == 0 || k == 0 { e.epoch.to_string() } else { String::new() };
        let _ = write!(out, "<th scope=\"col\">{written}</th>");
    }
    out += "<th scope=\"col\"></th></tr></thead><tbody>";
    for parameter in names.iter().take(MAX_HEAT.0) {
        let _ = write!(out, "<tr><th scope=\"row\" title=\"{}\">{}</th>", escape(&short(parameter, 100)), name(&short(parameter, 40)));
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for e in &epochs {
            match norm(e, parameter).filter(|n| n.is_finite()) {
                Some(value) => {
                    (least, most) = (least.min(value), most.max(value));
                    let part = if value <= 0.0 {
                        0.0
                    } else if high > low {
                        6.0 + 94.0 * (value / low).ln() / (high / low).ln()
                    } else {
                        50.0
                    };
                    let _ = write!(out, "<td style=\"--v:{part:.0}%\" title=\"epoch {}: {}\"></td>", e.epoch, number(value));
                }
                None => {
                    let _ = write!(out, "<td class=\"none\" title=\"epoch {}: not finite\"></td>", e.epoch);
                }
            }
        }
        let range = if least > most { "never finite".into() } else { format!("{} to {}", number(least), number(most)) };
        let _ = write!(out, "<td class=\"range\">{range}</td></tr>");
    }
    out += "</tbody></table></div>";
    if high >= low {
        let _ = write!(out, "<p class=\"scale\">{}<span></span>{} norm of the gradient, logarithmic</p>", number(low), number(high));
    }
    if names.len() > MAX_HEAT.0 {
        let _ = write!(out, "<p class=\"hint\">The first {} of {} parameters; metrics.jsonl has all.</p>", MAX_HEAT.0, names.len());
    }
    out + "</div>"
}

fn checkpoints(run: &ReadRun) -> String {
    if run.checkpoints.is_empty() && run.resumes.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"card\">");
    let total = |seconds: &dyn Fn(&super::files::Checkpoint) -> Option<f64>| {
        let told: Vec<f64> = run.checkpoints.iter().filter_map(seconds).collect();
        (!told.is_empty()).then(|| number(told.iter().sum()))
    };
    let _ = write!(out, "<p>{} written", count(run.checkpoints.len(), "checkpoint"));
    if let Some(stall) = total(&|c| c.stall_seconds) {
        let _ = write!(out, "; training waited {stall} s for them in all");
    }
    if let Some(writing) = total(&|c| c.write_seconds) {
        let _ = write!(out, "; writing in the background took {writing} s");
    }
    out += ".</p>";
    if !run.resumes.is_empty() {
        let steps: Vec<String> = run.resumes.iter().take(50).map(u64::to_string).collect();
        let more = if run.resumes.len() > 50 { " and later ones" } else { "" };
        let _ = write!(out, "<p style=\"margin:0\">Resumed {} from step {}{more}.</p>", count(run.resumes.len(), "time"), steps.join(", "));
    }
    out + "</div>"
}
fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What mixed precision did in the run, as its last line tells.
fn precision(run: &ReadRun) -> String {
    let Some(told) = run.steps.iter().rev().find_map(|s| s.precision.as_ref()) else { return String::new() };
    let count = |n: Option<u64>| n.map(|n| n.to_string());
    let facts = [
        ("products in", told.mode.clone()),
        ("scale of the loss at the end", told.scale.map(number)),
        ("least scale", told.scale_least.map(number)),
        ("largest scale", told.scale_most.map(number)),
        ("steps applied", count(told.applied)),
        ("steps suppressed", count(told.skipped)),
    ];
    let mut out = String::from("<div class=\"card\"><table class=\"facts\"><tbody>");
    for (fact, value) in facts.into_iter().filter_map(|(fact, value)| Some((fact, value?))) {
        let _ = write!(out, "<tr><th scope=\"row\">{fact}</th><td>{}</td></tr>", name(&short(&value, 60)));
    }
    for (layer, steps) in told.overflows.iter().take(MAX_ROWS) {
        let what = if told.fallbacks.contains(layer) { "runs in f32" } else { "stays in 16 bits" };
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>left the range of f16 in {steps} steps; {what}</td></tr>", name(&short(layer, 60)));
    }
    out + "</tbody></table></div>"
}
fn environment(run: &ReadRun) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().map(|w| w.as_str().map_or_else(|| w.to_string(), str::to_string)).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let told: Vec<_> = run.environment.iter().filter(|(_, value)| !value.is_null()).take(100).collect();
    if told.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"card\"><table class=\"facts\"><tbody>");
    for (key, value) in told {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", name(&key.replace('_', " ")), name(&short(&text(value), 2000)));
    }
    out + "</tbody></table></div>"
}
