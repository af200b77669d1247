//! What is to be computed: the manifest, where one JSON object a line is one case, and beside it the schedules and the
//! initialisers. Only names and arguments are read here, no answer.
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::Path};

/// One case, as its line says.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Case {
    /// its name, of which an op, a number and a dtype are parts
    pub id: String,
    /// torch's name of the op
    #[serde(alias = "init")]
    pub op: String,
    /// the family
    #[serde(default)]
    pub group: String,
    /// the file of this folder that holds its tensors
    #[serde(default)]
    pub file: String,
    /// keyword arguments
    #[serde(default)]
    pub args: Map<String, Value>,
    /// tensors by name; null is an optional one left out
    #[serde(default)]
    pub inputs: Vec<Option<String>>,
    /// the view of each stored tensor that the op gets
    #[serde(default)]
    pub views: Vec<Option<ViewOf>>,
    /// positions of float inputs without a gradient
    #[serde(default)]
    pub nograd: Vec<usize>,
    /// results
    #[serde(default)]
    pub outputs: Vec<Option<String>>,
    /// cotangents of the outputs
    #[serde(default)]
    pub gout: Vec<Option<String>>,
    /// gradients of the stored inputs
    #[serde(default)]
    pub grads: Vec<Option<String>>,
    /// cotangents of the gradients
    #[serde(default)]
    pub v: Vec<Option<String>>,
    /// gradients of the gradients
    #[serde(default)]
    pub grads2: Vec<Option<String>>,
    /// torch refuses the call
    #[serde(default)]
    pub raises: bool,
    /// tolerances
    #[serde(default)]
    pub rtol: f64,
    /// see `rtol`
    #[serde(default)]
    pub atol: f64,
    /// tolerances of gradients; ten times as much for `grads2`
    #[serde(default)]
    pub grad_rtol: f64,
    /// see `grad_rtol`
    #[serde(default)]
    pub grad_atol: f64,
    /// modules: train or eval
    #[serde(default)]
    pub mode: String,
    /// modules: keyword arguments of forward
    #[serde(default)]
    pub call: Map<String, Value>,
    /// modules: the state dict
    #[serde(default)]
    pub state: BTreeMap<String, String>,
    /// modules: gradients of parameters
    #[serde(default)]
    pub param_grads: BTreeMap<String, Option<String>>,
    /// modules: buffers after one forward
    #[serde(default)]
    pub buffers_after: BTreeMap<String, String>,
    /// optimizers: how many steps
    #[serde(default)]
    pub steps: usize,
    /// optimizers: the gradients of all steps on axis 0
    #[serde(default)]
    pub step_grads: Vec<Option<String>>,
    /// schedules: the rate before the first step
    #[serde(default)]
    pub base_lr: f64,
    /// schedules: the measure after each step, for those that watch one
    #[serde(default)]
    pub metric: Vec<f64>,
    /// initialisers: the shape of the weight
    #[serde(default)]
    pub shape: Vec<usize>,
}
/// The group of the cases of schedulers.json.
pub const SCHEDULES: &str = "schedulers";
/// The group of the cases of init.json.
pub const INITIALISERS: &str = "init";

/// A view of a stored tensor.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewOf {
    /// axis k of the view is axis `p[k]`
    Permute(Vec<isize>),
    /// start, stop and step of each axis as in Python, none negative; null for the default
    Slice(Vec<[Option<isize>; 3]>),
}

impl Case {
    /// Every name whose tensor is an answer: never opened before the comparison.
    pub fn answers(&self) -> impl Iterator<Item = (AnswerKind, &str)> {
        fn of(what: AnswerKind, names: &[Option<String>]) -> impl Iterator<Item = (AnswerKind, &str)> {
            names.iter().flatten().map(move |n| (what, n.as_str()))
        }
        of(AnswerKind::Output, &self.outputs)
            .chain(self.buffers_after.values().map(|n| (AnswerKind::Buffer, n.as_str())))
            .chain(of(AnswerKind::Gradient, &self.grads))
            .chain(self.param_grads.values().flatten().map(|n| (AnswerKind::Gradient, n.as_str())))
            .chain(of(AnswerKind::SecondGradient, &self.grads2))
    }
    /// Relative and absolute tolerance.
    pub fn tolerance(&self, what: AnswerKind) -> (f64, f64) {
        match what {
            AnswerKind::Output | AnswerKind::Buffer => (self.rtol, self.atol),
            AnswerKind::Gradient => (self.grad_rtol, self.grad_atol),
            AnswerKind::SecondGradient => (self.grad_rtol * 10.0, self.grad_atol * 10.0),
        }
    }
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// a result
    Output,
    /// a running statistic after the forward
    Buffer,
    /// a gradient
    Gradient,
    /// a gradient of gradients
    SecondGradient,
}
impl std::fmt::Display for AnswerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AnswerKind::Output => "output",
            AnswerKind::Buffer => "buffer",
            AnswerKind::Gradient => "gradient",
            AnswerKind::SecondGradient => "second gradient",
        })
    }
}

/// The cases of a folder: the manifest's in its order, then the schedules, then the initialisers, where there are any.
pub fn read(dir: &Path) -> Result<Vec<Case>, String> {
    let path = dir.join("manifest.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut cases: Vec<Case> =
        lines.map(|(k, line)| serde_json::from_str(line).map_err(|e| format!("{}:{}: {e}", path.display(), k + 1))).collect::<Result<_, _>>()?;
    // OUT gets a file of the same name, and nothing outside it.
    if let Some(case) = cases.iter().find(|c| Path::new(&c.file).file_name() != Some(c.file.as_ref())) {
        return Err(format!("{}: the file `{}` of case {} is no file name", path.display(), case.file, case.id));
    }
    for group in [SCHEDULES, INITIALISERS] {
        let more: Vec<Case> = read_list(dir, group)?;
        cases.extend(more.into_iter().map(|case| Case { group: group.into(), ..case }));
    }
    Ok(cases)
}
/// The objects of DIR/`group`.json; none if there is no such file.
pub fn read_list<T: DeserializeOwned>(dir: &Path, group: &str) -> Result<Vec<T>, String> {
    let path = dir.join(format!("{group}.json"));
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(format!("{}: {e}", path.display())),
    }
}
