//! State dicts: the values of a model by path, out and in.
use crate::{Param, Role, Visit, walk::Visiting};
use adamant_core::{Error, ErrorKind, Origin, Result, Tensor};
use std::collections::HashMap;

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

#[track_caller]
pub(crate) fn load_state_dict(model: &Visiting<'_>, state: &[(String, Tensor)]) -> Result<()> {
    let here = Origin::here();
    let refuse = |kind| Error::at("load_state_dict", kind, here);
    let given: HashMap<&str, &Tensor> = state.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let own = saved(model);
    let missing: Vec<&str> = own.iter().map(|(n, _)| n.as_str()).filter(|n| !given.contains_key(n)).collect();
    let unknown: Vec<&str> = state.iter().map(|(n, _)| n.as_str()).filter(|n| !own.iter().any(|(o, _)| o == n)).collect();
    if !missing.is_empty() || !unknown.is_empty() {
        let list = |names: &[&str]| {
            let shown = names.iter().take(8).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
            if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
        };
        let mut text = Vec::new();
        if !missing.is_empty() {
            text.push(format!("missing: {}", list(&missing)));
        }
        if !unknown.is_empty() {
            text.push(format!("unknown: {}", list(&unknown)));
        }
        let error = refuse(ErrorKind::Argument(text.join("; ")));
        let guesses: Vec<String> =
            unknown.iter().take(8).filter_map(|u| Some(format!("`{}` where you have `{u}`", nearest(u, own.iter().map(|(n, _)| n.as_str()))?))).collect();
        return Err(if guesses.is_empty() { error } else { error.hint(format!("the model has {}", guesses.join(", "))) });
    }
    let mut writes = Vec::with_capacity(own.len());
    for (name, p) in own {
        let Some(value) = given.get(name.as_str()) else { continue };
        let (want, got) = (p.meta(), value.try_meta()?);
        if want.shape != got.shape {
            return Err(refuse(ErrorKind::Argument(format!("`{name}` has shape {} in the model and {} in the state dict", want.shape, got.shape))));
        }
        writes.push((p, value.detach().cast(want.dtype).to(want.device).ok()?));
    }
    adamant_core::step(|| writes.iter().try_for_each(|(p, value)| p.set(value)))
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
