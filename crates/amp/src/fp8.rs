//! Training with products in 8 bits: operands in E4M3, gradients in E5M2 (Micikevicius et al., "FP8 Formats for Deep Learning", 2022), each
//! multiplied by a scale that brings its largest magnitude to the format's largest number. Where the scales come from is the recipe.
//!
//! Data flow, with delayed scaling: a *site* is a layer's product (its path, and the shape of its weight). For each of its two operands and its
//! gradient a cell holds the largest magnitudes of the steps before. A use reads the scales from them, and writes this use's
//! magnitudes for the next; the gradient's are written by a hook. So nothing is waited for, a captured step is the same, and a step that
//! is suppressed leaves them as they were.
mod product;

use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, grad};
use parking_lot::Mutex;
use product::{Fp8Product, ScaleSource, amax, scale_of};
use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// What a delayed scale follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AmaxAlgorithm {
    /// the largest of the history
    #[default]
    Max,
    /// the step before
    MostRecent,
}
/// Scales from the magnitudes of earlier steps: nothing has to be known of a tensor before it is rounded. What is larger than ever before
/// is cut to the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DelayedScaling {
    /// so many powers of two are left above the largest magnitude (0)
    pub margin: i32,
    /// how many steps are remembered (1024)
    pub amax_history_len: usize,
    /// what of the history counts
    pub amax_compute_algo: AmaxAlgorithm,
}
impl Default for DelayedScaling {
    fn default() -> DelayedScaling {
        DelayedScaling { margin: 0, amax_history_len: 1024, amax_compute_algo: AmaxAlgorithm::Max }
    }
}
/// Scales from the tensor's own largest magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct CurrentScaling {
    /// so many powers of two are left above the largest magnitude (0)
    pub margin: i32,
}
/// A scale for each 32 elements along the axis that is summed over, powers of two (the Open Compute Project's formats for microscaling).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BlockScaling;

/// How tensors are scaled before they are rounded to 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8Recipe {
    /// by earlier steps
    Delayed(DelayedScaling),
    /// by themselves
    Current(CurrentScaling),
    /// by 32 elements each
    Block(BlockScaling),
}
impl Default for Fp8Recipe {
    fn default() -> Fp8Recipe {
        Fp8Recipe::Delayed(DelayedScaling::default())
    }
}
impl From<DelayedScaling> for Fp8Recipe {
    fn from(recipe: DelayedScaling) -> Fp8Recipe {
        Fp8Recipe::Delayed(recipe)
    }
}
impl From<CurrentScaling> for Fp8Recipe {
    fn from(recipe: CurrentScaling) -> Fp8Recipe {
        Fp8Recipe::Current(recipe)
    }
}
impl From<BlockScaling> for Fp8Recipe {
    fn from(recipe: BlockScaling) -> Fp8Recipe {
        Fp8Recipe::Block(recipe)
    }
}
/// Powers of two between the smallest and the largest scale that f32 has.
const MOST_MARGIN: i32 = 64;
impl Fp8Recipe {
    /// # Errors
    /// A history of no steps; a margin of more than 64 powers of two.
    #[track_caller]
    pub(crate) fn check(&self) -> Result<()> {
        let (margin, length) = match self {
            Fp8Recipe::Delayed(d) => (d.margin, d.amax_history_len),
            Fp8Recipe::Current(c) => (c.margin, 1),
            Fp8Recipe::Block(_) => (0, 1),
        };
        let text = if length == 0 {
            "amax_history_len is 0, it must be at least 1".into()
        } else if margin.unsigned_abs() > MOST_MARGIN as u32 {
            format!("margin is {margin}, it must be from -{MOST_MARGIN} to {MOST_MARGIN}")
        } else {
            return Ok(());
        };
        Err(Error::new("fp8", ErrorKind::Argument(text)))
    }
}

/// What a site remembers: the magnitudes of its operands and of its gradient, the last step's first.
type Histories = [Cell; 3];
/// Their names in a state.
const OPERANDS: [&str; 3] = ["input", "weight", "gradient"];
/// The scales of a region's products in 8 bits. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Fp8Scales(Arc<Fp8Sites>);
struct Fp8Sites {
    recipe: Fp8Recipe,
    /// tells it from all others
    number: u64,
    sites: Mutex<BTreeMap<String, Histories>>,
}
impl PartialEq for Fp8Scales {
    fn eq(&self, other: &Fp8Scales) -> bool {
        self.0.number == other.0.number
    }
}
impl Eq for Fp8Scales {}
impl Hash for Fp8Scales {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}
impl std::fmt::Debug for Fp8Scales {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.recipe.fmt(f)
    }
}
impl Fp8Scales {
    #[track_caller]
    pub fn new(recipe: Fp8Recipe) -> Result<Fp8Scales> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        recipe.check()?;
        Ok(Fp8Scales(Arc::new(Fp8Sites { recipe, number: NEXT.fetch_add(1, Relaxed), sites: Mutex::default() })))
    }
    pub fn recipe(&self) -> Fp8Recipe {
        self.0.recipe
    }
    /// `a b` at a site, which a path or a name tells from others; `a bᵀ + bias` of a dense layer (`transposed`). All in one 16-bit dtype.
    pub fn product(&self, place: &str, a: &Tensor, b: &Tensor, bias: Option<&Tensor>, transposed: bool) -> Result<Tensor> {
        let apply = |scales, given: &[Tensor]| {
            let inputs: Vec<&Tensor> = [a, b].into_iter().chain(bias).chain(given).collect();
            Tensor::composite1(Fp8Product { scales, bias: bias.is_some(), transposed }, &inputs)
        };
        let delayed = match self.0.recipe {
            Fp8Recipe::Current(CurrentScaling { margin }) => return Ok(apply(ScaleSource::Current { margin }, &[])),
            Fp8Recipe::Block(_) => return Ok(apply(ScaleSource::Blocks, &[])),
            Fp8Recipe::Delayed(delayed) => delayed,
        };
        let (meta, shape) = (a.try_meta()?, b.shape()?);
        let columns: Vec<String> = shape[shape.rank().saturating_sub(2)..].iter().map(ToString::to_string).collect();
        let histories = self.histories(&format!("{place}.{}", columns.join("x")), delayed.amax_history_len, meta.device)?;
        let formats = [DType::F8E4M3, DType::F8E4M3, DType::F8E5M2];
        let scales: Vec<Tensor> = histories.iter().zip(formats).map(|(h, dtype)| scale_of(&seen(&h.detached(), delayed), dtype, delayed.margin)).collect();
        let y = apply(ScaleSource::Given, &scales);
        // What is only answered teaches nothing.
        if grad::is_for_backward() {
            remember(&histories[0], a)?;
            remember(&histories[1], b)?;
        }
        if y.is_tracked() {
            let gradient = histories[2].clone();
            // An error of the write is the gradient's.
            y.register_hook(move |g| remember(&gradient, g).err().map(Tensor::failed))?;
        }
        Ok(y)
    }
    fn histories(&self, site: &str, length: usize, device: Device) -> Result<Histories> {
        if let Some(known) = self.0.sites.lock().get(site) {
            return Ok(known.clone());
        }
        let new = || Cell::new(&Tensor::from_vec_on(vec![0f32; length], [length], device), false);
        let made = [new()?, new()?, new()?];
        Ok(self.0.sites.lock().entry(site.to_string()).or_insert(made).clone())
    }
    /// The histories of all sites, by name.
    pub fn state_dict(&self) -> Vec<(String, Tensor)> {
        let sites = self.0.sites.lock();
        sites.iter().flat_map(|(site, all)| OPERANDS.iter().zip(all).map(move |(operand, cell)| (format!("{site}.{operand}"), cell.detached()))).collect()
    }
    /// Takes over what [`Fp8Scales::state_dict`] gave, in the place of all that is remembered.
    #[track_caller]
    pub fn load_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        let refused = |text: String| Error::new("load_state_dict", ErrorKind::Argument(text));
        let length = if let Fp8Recipe::Delayed(d) = self.0.recipe { d.amax_history_len } else { 0 };
        let mut loaded: BTreeMap<String, [Option<Tensor>; 3]> = BTreeMap::new();
        for (name, history) in state {
            let place = name.rsplit_once('.').and_then(|(site, operand)| Some((site, OPERANDS.iter().position(|o| *o == operand)?)));
            let Some((site, operand)) = place else { return Err(refused(format!("`{name}` is no history of a product in fp8"))) };
            let meta = history.try_meta()?;
            if meta.dtype != DType::F32 || meta.shape[..] != [length] {
                return Err(refused(format!("`{name}` is {}{}, and the recipe remembers f32[{length}]", meta.dtype, meta.shape)));
            }
            loaded.entry(site.to_string()).or_default()[operand] = Some(history.clone());
        }
        let mut sites = BTreeMap::new();
        for (site, histories) in loaded {
            let [Some(a), Some(b), Some(g)] = histories else { return Err(refused(format!("`{site}` lacks a history"))) };
            sites.insert(site, (a, b, g));
        }
        let mut own = self.0.sites.lock();
        own.retain(|site, _| sites.contains_key(site));
        for (site, (a, b, g)) in sites {
            match own.get(&site) {
                Some(cells) => cells.iter().zip([&a, &b, &g]).try_for_each(|(cell, history)| cell.set(&history.to(cell.meta().device)))?,
                None => drop(own.insert(site, [Cell::new(&a, false)?, Cell::new(&b, false)?, Cell::new(&g, false)?])),
            }
        }
        Ok(())
    }
}
/// What a history says.
fn seen(history: &Tensor, recipe: DelayedScaling) -> Tensor {
    match recipe.amax_compute_algo {
        AmaxAlgorithm::Max => history.amax(..),
        AmaxAlgorithm::MostRecent => history.narrow(0, 0, 1).reshape(()),
    }
}
/// Puts a tensor's largest magnitude in front of a history, if it is finite.
fn remember(history: &Cell, x: &Tensor) -> Result<()> {
    let before = history.detached();
    let length = history.meta().shape.elements();
    let largest = amax(&x.detach()).reshape([1]);
    let after = if length == 1 { largest.clone() } else { Tensor::cat(&[&largest, &before.narrow(0, 0, length - 1)], 0) };
    history.set(&largest.isfinite().where_(after, before))
}
