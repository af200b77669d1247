//! The parts of a model that a user means by globs over their paths. Must not know what is done to them.
use adamant_core::{Error, ErrorKind, Result};
use adamant_nn::{Param, Site, Visit, Walk, glob_matches, nearest};

/// Does a pattern mean a path? One without wildcards also means every path that ends with it behind a dot, as a name in PEFT's
/// `target_modules`.
pub(crate) fn means(pattern: &str, path: &str) -> bool {
    glob_matches(pattern, path) || (!is_glob(pattern) && path.strip_suffix(pattern).is_some_and(|rest| rest.ends_with('.')))
}
pub(crate) fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}
/// A pattern that means nothing, with the path that is spelt most like it.
#[track_caller]
pub(crate) fn nothing_means<'a>(op: &'static str, what: &str, pattern: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Error {
    let error = Error::new(op, ErrorKind::Argument(format!("there is no {what} `{pattern}` in the model")));
    // Patterns without wildcards may name the end of a path, so ends are compared too.
    let ends = known.clone().into_iter().map(|path| path.rsplit_once('.').map_or(path, |(_, end)| end));
    match nearest(pattern, known.clone().into_iter().chain(ends)) {
        Some(near) => error.hint(format!("the nearest one is `{near}`")),
        None => {
            let some: Vec<String> = known.into_iter().take(4).map(|path| format!("`{path}`")).collect();
            if some.is_empty() { error.hint("the model has none") } else { error.hint(format!("there are {}, ..", some.join(", "))) }
        }
    }
}
/// A parameter or buffer at one of its places.
pub(crate) struct PlacedParam {
    pub path: String,
    pub param: Param,
    pub is_computed: bool,
}
/// Every parameter and buffer at every place it has; of one that is computed, itself and what it is computed from.
pub(crate) fn placed_params(model: &(impl Walk + ?Sized)) -> Vec<PlacedParam> {
    #[derive(Default)]
    struct PlacedParams {
        all: Vec<PlacedParam>,
        /// the place of the last parameter that holds codes, which are met under its name behind it
        packed: Option<String>,
    }
    impl Visit for PlacedParams {
        fn param(&mut self, path: &str, param: &Param) {
            if self.packed.as_deref() != Some(path) {
                self.all.push(PlacedParam { path: path.into(), param: param.clone(), is_computed: false });
            }
        }
        fn packed(&mut self, path: &str, param: &Param) {
            self.param(path, param);
            self.packed = Some(path.into());
        }
        fn parametrized(&mut self, path: &str, param: &Param) {
            self.all.push(PlacedParam { path: path.into(), param: param.clone(), is_computed: true });
        }
    }
    let mut placed = PlacedParams::default();
    model.visit(&mut placed);
    placed.all
}
/// One parameter as a model of its own that has it at its path, so that what is done to it keeps its name.
pub(crate) struct AtPath<'a>(pub &'a str, pub &'a Param);
impl Walk for AtPath<'_> {
    fn walk(&self, walker: &mut adamant_nn::Walker<'_>) {
        walker.child(self.0, self.1);
    }
}
/// The path of a part of a module.
pub(crate) fn joined(module: &str, name: &str) -> String {
    if module.is_empty() { name.into() } else { format!("{module}.{name}") }
}
/// The name of something that there is not, with those that there are.
#[track_caller]
pub(crate) fn unknown(what: &'static str, name: &str, known: &[&str]) -> Error {
    let error = Error::new("quantize", ErrorKind::Argument(format!("there is no {what} `{name}`")));
    match nearest(name, known.iter().copied()) {
        Some(near) => error.hint(format!("the nearest one is `{near}`")),
        None => error.hint(format!("there are {}", known.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "))),
    }
}
#[track_caller]
pub(crate) fn refusal(op: &'static str, text: String) -> Error {
    Error::new(op, ErrorKind::Argument(text))
}
#[track_caller]
pub(crate) fn check(op: &'static str, holds: bool, text: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(refusal(op, text())) }
}
/// Runs a function while a model evaluates; then, also after an error, each layer has the mode that it had.
pub(crate) fn evaluating<R>(model: &(impl Walk + ?Sized), f: impl FnOnce() -> R) -> R {
    #[derive(Default)]
    struct Training(Vec<Site>);
    impl Visit for Training {
        fn site(&mut self, _: &str, site: &Site) {
            self.0.extend(site.is_training().then(|| site.clone()));
        }
        fn container(&mut self, path: &str, site: &Site) {
            self.site(path, site);
        }
    }
    impl Drop for Training {
        fn drop(&mut self) {
            self.0.iter().for_each(|site| site.set_training(true));
        }
    }
    let mut training = Training::default();
    model.visit(&mut training);
    training.0.iter().for_each(|site| site.set_training(false));
    f()
}
