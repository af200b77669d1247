//! What integer codes cost and save, layer by layer, as `adamant quant report` has measured it.
use super::{MAX_ROWS, name, short};
use crate::plot::scale::number;
use serde_json::Value;
use std::fmt::Write;

fn cell(of: &Value, told: impl Fn(f64) -> String) -> String {
    of.as_f64().map_or_else(|| "–".into(), told)
}
fn micro(seconds: f64) -> String {
    format!("{:.1}", 1e6 * seconds)
}
/// Bytes and microseconds of codes and of floats.
fn costs(bytes: &Value, seconds: &Value) -> String {
    let mut out = String::new();
    for way in ["codes", "floats"] {
        let _ = write!(out, "<td>{}</td>", cell(&bytes[way], |v| format!("{v:.0}")));
    }
    for way in ["codes", "floats"] {
        let _ = write!(out, "<td>{}</td>", cell(&seconds[way], micro));
    }
    out
}
/// The section.
pub fn codes(report: &Value) -> String {
    let Some(layers) = report["layers"].as_array().filter(|l| !l.is_empty()) else { return String::new() };
    let mut out = String::from(
        "<p class=\"hint\">Signal to noise of each layer's outputs for the inputs of the layer of floats, and of the row of its weights that lost most; the layer that \
         lost most first. Times with each layer waited for.</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Integer codes by layer\">\
         <table class=\"rows\"><thead><tr><th scope=\"col\">Layer</th><th scope=\"col\">Outputs, dB</th><th scope=\"col\">Worst row, dB</th><th scope=\"col\">Bytes</th>\
         <th scope=\"col\">Bytes of floats</th><th scope=\"col\">µs</th><th scope=\"col\">µs of floats</th><th scope=\"col\">What it is</th></tr></thead><tbody>",
    );
    let text = |of: &Value| name(&short(of.as_str().unwrap_or(""), 120));
    for layer in layers.iter().take(MAX_ROWS) {
        let ratio = |key: &str| cell(&layer[key], |v| format!("{v:.1}"));
        let (outputs, row) = (ratio("signal_to_noise_db"), ratio("worst_row_db"));
        let costs = costs(&layer["bytes"], &layer["seconds"]);
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{outputs}</td><td>{row}</td>{costs}<td>{}</td></tr>", text(&layer["path"]), text(&layer["what"]));
    }
    for (what, bytes, seconds) in [("The rest", "rest_bytes", "rest_seconds"), ("All", "bytes", "seconds")] {
        let _ = write!(out, "<tr><th scope=\"row\">{what}</th><td></td><td></td>{}<td></td></tr>", costs(&report[bytes], &report[seconds]));
    }
    out += "</tbody></table></div><div class=\"card\"><table class=\"facts\"><tbody>";
    for (what, key) in [("loss on the test part", "loss"), ("accuracy on the test part", "accuracy"), ("mean absolute error", "mae")] {
        let test = &report["test"];
        if test["codes"][key].is_number() {
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{what}</th><td>{}, floats {}</td></tr>",
                cell(&test["codes"][key], number),
                cell(&test["floats"][key], number)
            );
        }
    }
    for (what, key) in [("one row, undisturbed", "latency_one"), ("a batch, undisturbed", "latency_batch")] {
        let of = &report[key];
        let _ = write!(out, "<tr><th scope=\"row\">{what}</th><td>{} µs, floats {} µs</td></tr>", cell(&of["codes"], micro), cell(&of["floats"], micro));
    }
    out + "</tbody></table></div>"
}
