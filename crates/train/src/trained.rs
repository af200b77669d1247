//! A model that a run has trained: found in its folder, built again from its description, filled with its weights.
use crate::{
    Document, Failure, Objective, checkpoint,
    dataset::{self, Inputs, Parts},
    evaluate, folder, model, recipe, session,
    storage::Disk,
};
use adamant_amp::Autocast;
use adamant_core::{Device, Tensor, no_grad, rng::philox};
use adamant_data::{Columns, Dataset, Description, Target, Vocabulary};
use adamant_formats::safetensors::SafeTensors;
use adamant_nn::{CacheStorage, KeyValueCache, Module, Sequential, Walk};
use adamant_quant::prune;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

const TASK: &str = "task.json";
/// The magnitudes that fp8 remembers, beside the final weights.
pub(crate) const SCALES: &str = "fp8.safetensors";
/// What has left a pruned model, beside its weights.
pub(crate) const PRUNING: &str = "pruning.json";
/// Bytes of it: each character of a vocabulary stands in it.
const MOST_TASK: u64 = 64 << 20;

/// What a model is for, as far as its answers need names: `task.json` of the run folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Task {
    /// one class for each input
    Classes {
        /// their names
        classes: Vec<String>,
    },
    /// the token after each token
    NextToken {
        /// the characters that are tokens, in order; none where each byte is one
        characters: Option<String>,
        /// the longest sequence that the model has learned from
        context: usize,
    },
    /// numbers
    Numbers,
}
impl Task {
    /// Of data.
    pub fn of(description: &Description, vocabulary: Option<&Vocabulary>) -> Task {
        match (&description.targets, vocabulary) {
            (Some(Target::Classes { count, names }), _) => {
                Task::Classes { classes: if names.len() == *count { names.clone() } else { (0..*count).map(|k| k.to_string()).collect() } }
            }
            (Some(Target::NextToken { .. }), Some(vocabulary)) => Task::NextToken {
                characters: (!vocabulary.is_bytes()).then(|| vocabulary.text()),
                context: description.inputs.as_ref().map_or(1, |f| f.shape.elements()),
            },
            _ => Task::Numbers,
        }
    }
    /// Writes it into a run folder.
    ///
    /// # Errors
    /// `Storage`.
    pub fn write(&self, run: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).map_err(|e| Failure::Run(e.to_string()))?;
        folder::write(&run.join(TASK), text.as_bytes())
    }
    fn read(run: &Path) -> Result<Task, Failure> {
        let path = run.join(TASK);
        let text = adamant_formats::regular::read_text(&path, MOST_TASK).map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
        serde_json::from_str(&text).map_err(|e| Failure::Input(format!("{}: {}", path.display(), adamant_formats::shown_reason(e.to_string()))))
    }
}

/// A trained model.
pub struct Trained {
    /// the description of its run
    pub document: Document,
    /// the model, in evaluation mode
    pub model: Sequential,
    /// what it is for
    pub task: Task,
    /// the file its weights are from
    pub weights: PathBuf,
    /// what became of the columns of its table, if it learned from one
    pub columns: Option<Arc<Columns>>,
    /// the region of mixed precision that it was trained in, without the layers that fell back; none in f32
    pub region: Option<Autocast>,
    device: Device,
}
impl Trained {
    /// The model of a run: its final weights, or those of the newest checkpoint if it has not ended.
    ///
    /// # Errors
    /// `Input`: there is no run, it has no weights yet, or they are of another model.
    pub fn open(run: &Path) -> Result<Trained, Failure> {
        let device = Device::current()?;
        let document = Document::read(&run.join("config.toml"))?;
        let root = document.root()?;
        let model = model::model(root.need("model", root.section("model")?)?)?;
        if let Some(shapes) = shapes(run)? {
            let path = run.join(PRUNING);
            prune::shrink_to(&model, &shapes).map_err(|e| Failure::Input(format!("{}: {}", path.display(), e.kind())))?;
        }
        let last = run.join("weights.safetensors");
        let read = |path: &Path| -> Result<Vec<(String, Tensor)>, Failure> {
            let file = SafeTensors::open(path)?;
            Ok(file.names().into_iter().map(|n| Ok((n.clone(), file.tensor(&n, device)?))).collect::<Result<Vec<_>, adamant_core::Error>>()?)
        };
        let (weights, state, fallen, scales) = if last.exists() {
            let scales = Some(run.join(SCALES)).filter(|path| path.exists()).map(|path| read(&path)).transpose()?.unwrap_or_default();
            let state = match adamant_quant::is_quantized(&last)? {
                true => None,
                false if run.join(PRUNING).exists() => Some(prune::load_sparse(&last)?),
                false => Some(read(&last)?),
            };
            (last, state, fallen_at_the_end(run), scales)
        } else {
            let found = checkpoint::latest(&Disk, &run.join("checkpoints"))?
                .ok_or_else(|| Failure::Input(format!("{}: no weights and no checkpoint yet", run.display())))?;
            let fallen = session::fallen(&found.snapshot, &recipe::precision(&root)?);
            let part = |name: &str| found.snapshot.tensors.get(name).cloned().unwrap_or_default();
            if let Some(training) = recipe::quantize(&root, 1)? {
                training.prepare(&root, &model)?;
            }
            // Ranks that wrote it together have written several.
            let file = Some(found.folder.join("model.safetensors")).filter(|file| file.exists());
            (file.unwrap_or_else(|| found.folder.clone()), Some(part("model")), fallen, part(session::FP8))
        };
        let loaded = match &state {
            Some(state) => model.load_state_dict(state),
            None => adamant_quant::load_quantized(&model, &weights),
        };
        loaded.map_err(|e| Failure::Input(format!("{}: {}", weights.display(), e.kind())))?;
        model.eval();
        let region = recipe::precision(&root)?.region()?.map(|region| region.without(fallen));
        if let Some(region) = &region {
            region.load_fp8_state_dict(&scales)?;
        }
        drop(root);
        Ok(Trained { task: Task::read(run)?, columns: dataset::kept_columns(run)?, region, document, model, weights, device })
    }
    /// The outputs for a batch of inputs, without a graph; numbers in their own units.
    ///
    /// # Errors
    /// Inputs of another shape or dtype than the model takes.
    pub fn answer(&self, x: &Tensor) -> Result<Tensor, Failure> {
        self.answer_by(x, |x| self.model.forward(x))
    }
    fn answer_by(&self, x: &Tensor, forward: impl FnOnce(&Tensor) -> adamant_core::Result<Tensor>) -> Result<Tensor, Failure> {
        no_grad(|| {
            let outputs = evaluate::answer_by(self.region.as_ref(), || forward(&x.to(self.device)))?.ok()?;
            Ok(match self.columns.as_ref().and_then(|c| c.target_scale()) {
                Some(scale) => scale.restore(&outputs)?,
                None => outputs,
            })
        })
    }
    /// The parts of the run's data, and what was learned from them. Paths are relative to `folder`.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn data(&self, folder: &Path) -> Result<(Objective, Parts), Failure> {
        let root = self.document.root()?;
        let seed = root.size("seed")?.unwrap_or(0) as u64;
        let parts = Parts::with(root.need("data", root.section("data")?)?, folder, seed, self.columns.as_deref())?;
        Ok((Objective::of(&root, matches!(parts.train.describe().targets, Some(Target::Values(_))))?, parts))
    }
    /// Inputs from a file, prepared as those of the run's data were.
    ///
    /// # Errors
    /// A file that cannot be read or is of another kind than the run's data.
    pub fn inputs(&self, path: &Path) -> Result<Inputs, Failure> {
        let root = self.document.root()?;
        Inputs::of(&root.need("data", root.section("data")?)?, path, self.columns.as_ref())
    }
}

/// The shapes of the parameters that became smaller, if the folder is of a pruned model.
pub(crate) fn shapes(run: &Path) -> Result<Option<BTreeMap<String, Vec<usize>>>, Failure> {
    #[derive(Deserialize)]
    struct Pruning {
        shapes: BTreeMap<String, Vec<usize>>,
    }
    let path = run.join(PRUNING);
    if !path.exists() {
        return Ok(None);
    }
    let wrong = |text: String| Failure::Input(format!("{}: {}", path.display(), adamant_formats::shown_reason(text)));
    let text = adamant_formats::regular::read_text(&path, MOST_TASK).map_err(|e| wrong(e.to_string()))?;
    let read: Pruning = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    Ok(Some(read.shapes))
}
/// The layers that fell back to f32 in a run that has ended, as its result tells; a run folder without one has none.
fn fallen_at_the_end(run: &Path) -> Vec<String> {
    let result = adamant_formats::regular::read_text(&run.join("result.json"), MOST_TASK).ok();
    let result: Option<serde_json::Value> = result.and_then(|text| serde_json::from_str(&text).ok());
    let layers = result.as_ref().and_then(|r| r["precision"]["fallbacks"].as_array());
    layers.into_iter().flatten().filter_map(|layer| layer.as_str().map(str::to_string)).collect()
}

/// How text is drawn from a language model.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// divides the logits: 0 takes the most likely token, 1 draws as the model says
    pub temperature: f64,
    /// draws among so many of the most likely tokens only; 0: among all
    pub top_k: usize,
    /// where draws come from
    pub seed: u64,
    /// keeps what is known of tokens so, and computes new ones alone; none: all of them each time
    pub cache: Option<CacheStorage>,
}
impl Trained {
    /// Goes on from a prompt, token by token. Text is handed to `each` as soon as its characters are whole. A cache serves as long as
    /// all tokens fit the context; behind that, where the window moves and with it each token's position, it is filled anew for each.
    ///
    /// # Errors
    /// A model that is no language model, or a prompt with a character that it has never seen.
    pub fn generate(&self, prompt: &str, count: usize, sampling: &Sampling, each: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let Task::NextToken { characters, context } = &self.task else {
            return Err(Failure::Usage("this run's model answers inputs; only a language model generates".into()));
        };
        if !(sampling.temperature >= 0.0 && sampling.temperature.is_finite()) {
            return Err(Failure::Usage(format!("a temperature is a number from 0 on, not {}", sampling.temperature)));
        }
        let vocabulary = characters.as_deref().map_or_else(Vocabulary::bytes, Vocabulary::characters);
        let mut known = vocabulary.encode(prompt).map_err(|e| Failure::Usage(format!("the prompt: {}", e.kind())))?;
        if known.is_empty() {
            // Something to begin with: the end of a line, where there is one.
            known.push(vocabulary.encode("\n").ok().and_then(|t| t.first().copied()).unwrap_or(0));
        }
        let mut decoder = vocabulary.decoder();
        let mut cache = sampling.cache.map(KeyValueCache::with);
        for k in 0..count {
            let seen = &known[known.len().saturating_sub(*context)..];
            let ids = |tokens: &[u32]| tokens.iter().map(|t| i64::from(*t)).collect::<Vec<i64>>();
            let (logits, last) = if let Some(cache) = &mut cache {
                if known.len() > *context {
                    *cache = KeyValueCache::with(cache.storage());
                }
                let new = &seen[cache.len()..];
                (self.answer_by(&Tensor::from_vec(ids(new), [1, new.len()]), |x| cache.forward(&self.model, x))?, new.len() - 1)
            } else {
                // The model looks back only: what stands behind is never seen, and one shape runs one plan.
                let mut window = ids(seen);
                window.resize(*context, 0);
                (self.answer(&Tensor::from_vec(window, [1, *context]))?, seen.len() - 1)
            };
            let last = logits.narrow(1, last, 1).reshape([-1]).to_vec_as::<f64>()?;
            let token = draw(&last, sampling, k as u64) as u32;
            known.push(token);
            each(&decoder.push(token));
        }
        each(&decoder.finish());
        Ok(())
    }
}
/// A token by its logits: the inverse of the distribution function at one uniform draw of the place.
fn draw(logits: &[f64], s: &Sampling, place: u64) -> usize {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    if s.temperature == 0.0 {
        return order.first().copied().unwrap_or(0);
    }
    let among = if s.top_k == 0 { order.len() } else { s.top_k.min(order.len()) };
    let top = order.first().map_or(0.0, |k| logits[*k]);
    let weights: Vec<f64> = order[..among].iter().map(|k| ((logits[*k] - top) / s.temperature).exp()).collect();
    let bits = philox([s.seed as u32, (s.seed >> 32) as u32], [place as u32, (place >> 32) as u32, 0, 0x5341_4d50]);
    let uniform = ((u64::from(bits[0]) << 32 | u64::from(bits[1])) >> 11) as f64 / (1u64 << 53) as f64;
    let mut left = uniform * weights.iter().sum::<f64>();
    for (k, w) in order.iter().zip(&weights) {
        left -= w;
        if left < 0.0 {
            return *k;
        }
    }
    order.first().copied().unwrap_or(0)
}
