//! What calls came to: a line for each, the distribution of ratios, a table by function, the worst with what says them again.
use super::measured::MeasuredCall;
use adamant_bench::{render::time, stats::median};
use std::collections::{BTreeMap, BTreeSet};

/// So many of the worst are named.
const WORST: usize = 30;

/// One call in a line.
pub fn line(m: &MeasuredCall) -> String {
    let what = format!("{:<34} {:<44}", m.name, shortened(&m.function, 44));
    match (m.ours_ns, m.torch_ns, m.ratio, m.interval) {
        (Some(ours), Some(torch), Some(ratio), Some([low, high])) => {
            let compiled = m.compile_ns.map(|ns| format!(" compiled {}", time(ns))).unwrap_or_default();
            let quick = if m.disturbed { " of the quickest" } else { "" };
            format!("{what} {:>10} torch {:>10}{compiled}  {ratio:.2} [{low:.2}, {high:.2}]{quick}", time(ours), time(torch))
        }
        _ => format!("{what} {}: {}", if m.differs { "DIFFERS" } else { "not timed" }, m.error.as_deref().unwrap_or("nothing was measured")),
    }
}
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.into() } else { text.chars().take(most - 1).chain(['…']).collect() }
}
/// A quantile by position.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = ((sorted.len().max(1) - 1) as f64 * q).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
/// The median ratio, the worst, and how many, by function; chains are one row.
fn by_function(all: &[MeasuredCall]) -> Vec<(String, f64, f64, usize)> {
    let mut by: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for m in all {
        let name = if m.steps > 1 { "(chains)".to_string() } else { m.function.clone() };
        by.entry(name).or_default().extend(m.ratio);
    }
    let row = |(name, ratios): (String, Vec<f64>)| {
        let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (!ratios.is_empty()).then(|| (name, median(&ratios), most, ratios.len()))
    };
    let mut rows: Vec<_> = by.into_iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    rows
}
/// All of it.
pub fn print(all: &[MeasuredCall], page: bool) {
    let mut ratios: Vec<f64> = all.iter().filter_map(|m| m.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let rows = by_function(all);
    println!("\nby function: median ratio, worst, cases");
    for (name, middle, most, n) in &rows {
        println!("  {middle:>8.2} {most:>8.2} {n:>4}  {name}");
    }
    let mut worst: Vec<&MeasuredCall> = all.iter().filter(|m| m.ratio.is_some()).collect();
    worst.sort_by(|a, b| b.ratio.unwrap_or(0.0).total_cmp(&a.ratio.unwrap_or(0.0)));
    println!("\nthe worst:");
    for m in worst.iter().take(WORST) {
        println!("{}\n    {}\n    {}", line(m), m.text, again(m));
    }
    let differing: Vec<&MeasuredCall> = all.iter().filter(|m| m.differs).collect();
    if !differing.is_empty() {
        println!("\nvalues that differ, none of them timed:");
    }
    for m in &differing {
        println!("{}\n    {}\n    {}", line(m), m.text, again(m));
    }
    let timed: BTreeSet<&str> = all.iter().filter(|m| m.ratio.is_some() && m.steps == 1).map(|m| m.function.as_str()).collect();
    let mut without: BTreeMap<&str, &str> = BTreeMap::new();
    for m in all.iter().filter(|m| m.steps == 1 && !timed.contains(m.function.as_str())) {
        without.insert(&m.function, m.error.as_deref().unwrap_or("nothing was measured"));
    }
    if !without.is_empty() {
        println!("\nfunctions without a time, and why:");
        without.iter().for_each(|(function, why)| println!("  {function}: {why}"));
    }
    let refused = all.iter().filter(|m| m.error.is_some() && !m.differs).count();
    println!("\n{}", sentence(&ratios, differing.len(), refused));
    if page {
        println!("\n{}", markdown(&rows, &ratios, all));
    }
}
fn again(m: &MeasuredCall) -> String {
    let isa = m.isa.as_ref().map(|i| format!(" --isa {i}")).unwrap_or_default();
    let which = if m.name.contains(':') { format!("--case {}", m.name) } else { format!("--calls ordinary --only {}", m.name) };
    format!("cargo xtask bench peers {which} --threads {}{isa} --python PYTHON", m.threads)
}
fn sentence(sorted: &[f64], differ: usize, refused: usize) -> String {
    format!(
        "{} timed: ratio median {:.2}, 90 % {:.2}, worst {:.2}; {} below 1; {differ} differ, {refused} not timed for another reason",
        sorted.len(),
        quantile(sorted, 0.5),
        quantile(sorted, 0.9),
        quantile(sorted, 1.0),
        sorted.iter().filter(|r| **r < 1.0).count(),
    )
}
/// A section of docs/performance.md.
fn markdown(rows: &[(String, f64, f64, usize)], sorted: &[f64], all: &[MeasuredCall]) -> String {
    let first = all.first();
    let how = first.map(|m| format!("{} threads{}", m.threads, m.isa.as_ref().map(|i| format!(", {i}")).unwrap_or_default())).unwrap_or_default();
    let differ = all.iter().filter(|m| m.differs).count();
    let refused = all.iter().filter(|m| m.error.is_some() && !m.differs).count();
    let mut text =
        format!("## Calls against PyTorch, {how}\n\n{}.\n\n| function | median | worst | cases |\n|---|---|---|---|\n", sentence(sorted, differ, refused));
    for (name, middle, most, n) in rows {
        text.push_str(&format!("| `{name}` | {middle:.2} | {most:.2} | {n} |\n"));
    }
    text
}
