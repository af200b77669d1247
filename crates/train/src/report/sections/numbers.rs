//! What the report says of predicted numbers: how far each target is from the truth, in pictures and a table, and the records
//! that are furthest from it.
use super::{MAX_EXAMPLES, name, optional, short};
use crate::{
    plot::escape,
    report::{
        curves,
        files::{Input, ReadEvaluation, ReadWorst},
    },
};
use std::fmt::Write;

/// The most targets that are drawn, and that are written.
const MAX_TARGETS: (usize, usize) = (4, 200);
/// The most columns of a record that stand beside its prediction.
const MAX_COLUMNS: usize = 16;

/// Figures of each target, its predictions against the truth, and its errors.
pub fn predictions(evaluation: &ReadEvaluation) -> String {
    let Some(targets) = evaluation.targets.as_ref().filter(|t| !t.is_empty()) else { return String::new() };
    let mut out = String::from("<div class=\"plots\">");
    for (k, target) in targets.iter().take(MAX_TARGETS.0).enumerate() {
        for (j, plot) in curves::of_target(target).into_iter().flatten().enumerate() {
            let _ = write!(out, "<figure><figcaption>{}</figcaption>{}</figure>", escape(&plot.title), plot.svg(&format!("plot-target-{k}-{j}")));
        }
    }
    out += "</div><p class=\"hint\">Numbers are in the data's units. R² is the share of the truth's variance that is explained.</p>\
            <div class=\"card\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures by target\"><table class=\"rows\"><thead><tr>\
            <th scope=\"col\">Target</th><th scope=\"col\">MAE</th><th scope=\"col\">RMSE</th><th scope=\"col\">R²</th></tr></thead><tbody>";
    for target in targets.iter().take(MAX_TARGETS.1) {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            name(&short(target.name.as_deref().unwrap_or("?"), 60)),
            optional(target.mae),
            optional(target.rmse),
            optional(target.r2)
        );
    }
    out += "</tbody></table></div>";
    if targets.len() > MAX_TARGETS.0 {
        let _ = write!(out, "<p class=\"hint\">The first {} of {} targets are drawn.</p>", MAX_TARGETS.0, targets.len());
    }
    out + "</div>"
}
/// The records that are furthest from the truth, a row for each of their targets.
pub fn worst(records: &[ReadWorst]) -> String {
    let has_names = records.iter().flat_map(|w| w.numbers.iter().flatten()).any(|g| g.target.as_ref().is_some_and(|t| t != "0"));
    let columns: Vec<&str> = records.iter().find_map(|w| w.inputs.as_ref()).into_iter().flatten().take(MAX_COLUMNS).map(called).collect();
    let mut out = String::from(
        "<p class=\"hint\">Rows of the test part that are furthest from the truth, in the data's units.</p><div class=\"card\">\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Worst examples\"><table class=\"rows\"><thead><tr><th scope=\"col\">Row</th>",
    );
    if has_names {
        out += "<th scope=\"col\">Target</th>";
    }
    out += "<th scope=\"col\">True</th><th scope=\"col\">Predicted</th><th scope=\"col\">Error</th>";
    for column in &columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", name(&short(column, 30)));
    }
    out += "</tr></thead><tbody>";
    for w in records.iter().take(MAX_EXAMPLES) {
        let row = w.index.map_or_else(|| "?".to_string(), |k| k.to_string());
        for guess in w.numbers.iter().flatten() {
            let _ = write!(out, "<tr><th scope=\"row\">{row}</th>");
            if has_names {
                let _ = write!(out, "<td>{}</td>", name(&short(guess.target.as_deref().unwrap_or("?"), 40)));
            }
            let _ = write!(out, "<td>{}</td><td>{}</td><td class=\"off\">{}</td>", optional(guess.truth), optional(guess.prediction), optional(guess.error));
            for k in 0..columns.len() {
                let _ = write!(out, "<td>{}</td>", optional(w.inputs.as_ref().and_then(|i| i.get(k)).and_then(|i| i.value)));
            }
            out += "</tr>";
        }
    }
    out += "</tbody></table></div></div>";
    out
}
fn called(input: &Input) -> &str {
    input.name.as_deref().unwrap_or("?")
}
/// The numbers of one record, folded away below it.
pub fn inputs(inputs: &[Input]) -> String {
    let mut out = String::from("<details class=\"inputs\"><summary>Inputs</summary><table><tbody>");
    for input in inputs {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", name(&short(called(input), 40)), optional(input.value));
    }
    out + "</tbody></table></details>"
}
