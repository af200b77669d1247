//! Tables and comparisons as text: for a terminal, for one comment of a pull request, for spreadsheets and programs, and as
//! one page.
//!
//! Invariant: names and errors come from anywhere; no text of theirs is markup in what is written.
pub mod chart;
pub mod history;
pub mod html;
pub mod markdown;
pub mod plain;

use crate::{comparison::Comparison, merge::MergedTable};
/// How something is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// aligned text
    Terminal,
    /// a comment of a pull request
    Markdown,
    /// values separated by commas
    Csv,
    /// one JSON document
    Json,
    /// one page that needs no network
    Html,
}
/// A comparison as text.
pub fn comparison(c: &Comparison, format: Format) -> String {
    match format {
        Format::Terminal => plain::comparison(c),
        Format::Markdown => markdown::comparison(c),
        Format::Csv => plain::comparison_csv(c),
        Format::Json => serde_json::json!(c).to_string() + "\n",
        Format::Html => html::comparison(c),
    }
}
/// A table as text.
pub fn table(t: &MergedTable, format: Format) -> String {
    match format {
        Format::Terminal => plain::table(t),
        Format::Markdown => markdown::table(t),
        Format::Csv => plain::table_csv(t),
        Format::Json => serde_json::json!(t).to_string() + "\n",
        Format::Html => html::report(t),
    }
}

/// A time in the unit that suits it.
pub fn time(ns: f64) -> String {
    let (x, unit) = match ns {
        x if x < 1e3 => (x, "ns"),
        x if x < 1e6 => (x * 1e-3, "µs"),
        x if x < 1e9 => (x * 1e-6, "ms"),
        x => (x * 1e-9, "s"),
    };
    let digits = if x < 10.0 { 3 } else { usize::from(x < 100.0) + 1 };
    format!("{x:.digits$} {unit}")
}
/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
/// A ratio with its interval.
pub fn ratio(r: f64, interval: Option<[f64; 2]>) -> String {
    interval.map_or_else(|| format!("{r:.3}"), |[low, high]| format!("{r:.3} [{low:.3}, {high:.3}]"))
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
