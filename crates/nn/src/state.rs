//! State dicts: the values of a model by path, out and in.
use crate::{Param, Role, Visit, walk::Visiting};
use adamant_core::{Error, ErrorKind, Origin, Result, Shape, Tensor};
use std::collections::{HashMap, HashSet};

#[derive(Default)]
struct Saved(Vec<(String, Param)>);
impl Visit for Saved {
    fn param(&mut self, path: &str, p: &Param) {
        if p.role() != Role::Transient {
            self.0.push((path.to_string(), p.clone()));
        }
    }
}
fn saved(model: &Visiting<'_>) -> Vec<(String, Param)> {
    let mut saved = Saved::default();
    model(&mut saved);
    saved.0
}

pub(crate) fn state_dict(model: &Visiting<'_>) -> Vec<(String, Tensor)> {
    saved(model).into_iter().map(|(name, p)| (name, p.detached())).collect()
}

/// How a state dict is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Is every name to be there, and no other?
    pub strict: bool,
    /// Values of another shape are passed over and reported; else they are an error, also where names need not agree.
    pub skip_mismatched: bool,
}
impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions { strict: true, skip_mismatched: false }
    }
}
/// What of a state dict and a model did not go together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// names of the model that the state dict lacks, in the model's order
    pub missing: Vec<String>,
    /// names of the state dict that the model lacks, in the dict's order
    pub unexpected: Vec<String>,
    /// values of another shape, which were passed over
    pub mismatched: Vec<ShapeDifference>,
}
impl LoadReport {
    /// Did all go together?
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.mismatched.is_empty()
    }
}
/// A value that has not its parameter's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeDifference {
    /// its name
    pub name: String,
    /// the shape in the model
    pub model: Shape,
    /// the shape in the state dict
    pub given: Shape,
    /// the first axis whose sizes differ; `None`: another number of axes
    pub axis: Option<usize>,
}
impl std::fmt::Display for ShapeDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ShapeDifference { name, model, given, axis } = self;
        write!(f, "`{name}` has shape {model} in the model and {given} in the state dict")?;
        match axis {
            Some(axis) => write!(f, " (axis {axis}: {} and {})", model[*axis], given[*axis]),
            None => Ok(()),
        }
    }
}
/// A state dict with other names: what the function makes of each, `None` leaves the entry out.
///
/// ```
/// # use adamant_core::Tensor;
/// # use adamant_nn::map_keys;
/// # adamant_core::Device::reference().make_current();
/// let saved = vec![("backbone.fc.weight".to_string(), Tensor::ones([1])), ("head.bias".to_string(), Tensor::ones([1]))];
/// let state = map_keys(&saved, |name| name.strip_prefix("backbone.").map(str::to_string));
/// assert_eq!(state.len(), 1);
/// assert_eq!(state[0].0, "fc.weight");
/// ```
pub fn map_keys(state: &[(String, Tensor)], mut name: impl FnMut(&str) -> Option<String>) -> Vec<(String, Tensor)> {
    state.iter().filter_map(|(old, value)| Some((name(old)?, value.clone()))).collect()
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(8).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
}
/// A name that is missing or unknown, with the nearest that is there.
fn names_differ(report: &LoadReport, own: &[(String, Param)], here: Origin) -> Error {
    let mut text = Vec::new();
    for (what, names) in [("missing", &report.missing), ("unknown", &report.unexpected)] {
        if !names.is_empty() {
            text.push(format!("{what}: {}", list(names)));
        }
    }
    let error = Error::at("load_state_dict", ErrorKind::Argument(text.join("; ")), here);
    let near = |u: &String| Some(format!("`{}` where you have `{u}`", nearest(u, own.iter().map(|(n, _)| n.as_str()))?));
    let guesses: Vec<String> = report.unexpected.iter().take(8).filter_map(near).collect();
    if guesses.is_empty() { error } else { error.hint(format!("the model has {}", guesses.join(", "))) }
}
fn shape_difference(name: &str, p: &Param, given: Shape) -> Option<ShapeDifference> {
    let model = p.meta().shape;
    // A lazy parameter's unknown axes are of size 0.
    let differ = |(a, b): (&usize, &usize)| a != b && !(p.is_uninitialized() && *a == 0);
    if model.rank() != given.rank() {
        return if p.is_uninitialized() && model.rank() == 1 && model[0] == 0 && given.rank() == 0 {
            None
        } else {
            Some(ShapeDifference { name: name.to_string(), model, given, axis: None })
        };
    }
    let axis = model.iter().zip(given.iter()).position(differ)?;
    Some(ShapeDifference { name: name.to_string(), model, given, axis: Some(axis) })
}
/// Values go into the model at once, or, after an error, not at all.
#[track_caller]
pub(crate) fn load(model: &Visiting<'_>, state: &[(String, Tensor)], options: LoadOptions) -> Result<LoadReport> {
    let here = Origin::here();
    let given: HashMap<&str, &Tensor> = state.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let own = saved(model);
    let known: HashSet<&str> = own.iter().map(|(n, _)| n.as_str()).collect();
    let mut report = LoadReport {
        missing: own.iter().map(|(n, _)| n).filter(|n| !given.contains_key(n.as_str())).cloned().collect(),
        unexpected: state.iter().map(|(n, _)| n).filter(|n| !known.contains(n.as_str())).cloned().collect(),
        mismatched: Vec::new(),
    };
    if options.strict && !(report.missing.is_empty() && report.unexpected.is_empty()) {
        return Err(names_differ(&report, &own, here));
    }
    let mut writes = Vec::with_capacity(own.len());
    for (name, p) in &own {
        let Some(value) = given.get(name.as_str()) else { continue };
        let (want, got) = (p.meta(), value.try_meta()?);
        match shape_difference(name, p, got.shape) {
            Some(difference) => report.mismatched.push(difference),
            None => writes.push((p, value.detach().cast(want.dtype).to(want.device).ok()?)),
        }
    }
    if !options.skip_mismatched && !report.mismatched.is_empty() {
        let text: Vec<String> = report.mismatched.iter().take(8).map(|m| m.to_string()).collect();
        let more = if report.mismatched.len() > 8 { format!("; and {} more", report.mismatched.len() - 8) } else { String::new() };
        return Err(Error::at("load_state_dict", ErrorKind::Argument(format!("{}{more}", text.join("; "))), here));
    }
    let (lazy, mut there): (Vec<_>, Vec<_>) = writes.iter().partition(|(p, _)| p.is_uninitialized());
    // A parameter may be set only to what a buffer allows (a mask), which is then the one that came with it.
    there.sort_by_key(|(p, _)| p.role() == Role::Trainable);
    adamant_core::step(|| there.iter().try_for_each(|(p, value)| p.set(value)))?;
    // Those have no value that a failure could tear.
    lazy.iter().try_for_each(|(p, value)| p.materialize(value))?;
    Ok(report)
}

/// The name that is spelt most like `word`, if one is close: at most a third of its letters away (Levenshtein, 1966).
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names.into_iter().map(|n| (distance(word, n), n)).min().filter(|(d, n)| *d <= word.len().max(n.len()).div_ceil(3)).map(|(_, n)| n)
}
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}
