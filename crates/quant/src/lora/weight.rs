//! The adapted weight: `W + s B A` as a parametrization, and the same in two thin products where the layer itself runs.
//! Must not know which layers are adapted, nor files.
use crate::select::refusal;
use adamant_core::{
    Result, Tensor, functional,
    grad::{HookHandle, grad_enabled},
};
use adamant_nn::{Dropout, Module, Param, Site, init, parametrize::Parametrization};
use std::cell::RefCell;

/// How the two factors become a weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoraFactors {
    /// weight `[out, in]`: A is `[r, in]`, B `[out, r]`
    Rows,
    /// weight `[in, out]`: A is `[r, in]`, B `[out, r]`, and their product is transposed
    Columns,
    /// a table `[rows, width]`: A is `[r, rows]`, B `[width, r]`, transposed too; A starts as zeros and B is drawn
    Table,
    /// a kernel `[out, in, ..]`: A is `[r, in, ..]`, B `[out, r, 1, ..]`
    Kernel,
}
impl LoraFactors {
    /// The shapes of A and B for a weight's.
    pub fn shapes(self, weight: &[usize], r: usize) -> (Vec<usize>, Vec<usize>) {
        match self {
            LoraFactors::Rows => (vec![r, weight[1]], vec![weight[0], r]),
            LoraFactors::Columns | LoraFactors::Table => (vec![r, weight[0]], vec![weight[1], r]),
            LoraFactors::Kernel => {
                let (mut a, mut b) = (weight.to_vec(), vec![1; weight.len()]);
                a[0] = r;
                (b[0], b[1]) = (weight[0], r);
                (a, b)
            }
        }
    }
}

/// `W + s B A` (Hu et al. 2021): W is what the weight was and stays so, A and B are trained.
#[derive(Clone, Module)]
pub(crate) struct LoraWeight {
    /// its mode, which the model's `train` and `eval` set
    pub site: Site,
    #[module(rename = "lora_A")]
    pub a: Param,
    #[module(rename = "lora_B")]
    pub b: Param,
    pub dropout: Option<Dropout>,
    #[module(skip)]
    pub factors: LoraFactors,
    #[module(skip)]
    pub scale: f64,
}
impl LoraWeight {
    /// With a first B A of zeros. A and B are of f32 where the weight is of 16 bits, as PEFT's.
    #[track_caller]
    pub fn new(weight: &Param, factors: LoraFactors, r: usize, scale: f64, dropout: f64) -> Result<LoraWeight> {
        let meta = weight.meta();
        let dtype = if meta.dtype.size() < 4 { adamant_core::DType::F32 } else { meta.dtype };
        let (a, b) = factors.shapes(&meta.shape, r);
        let put = |t: Tensor| Param::new(&t.cast(dtype).to(meta.device));
        // kaiming_uniform(a = √5), the start of PyTorch's Linear and of PEFT's A; PEFT draws the B of a table standard normal.
        let bound = 1.0 / (a[1..].iter().product::<usize>().max(1) as f64).sqrt();
        let (a, b) = match factors {
            LoraFactors::Table => (init::uniform(a, 0.0, 0.0)?, init::normal(b, 0.0, 1.0)?),
            _ => (init::uniform(a, -bound, bound)?, init::uniform(b, 0.0, 0.0)?),
        };
        let dropout = if dropout > 0.0 { Some(Dropout::new(dropout)?) } else { None };
        Ok(LoraWeight { site: Site::new("LoRA"), a: put(a)?, b: put(b)?, dropout, factors, scale })
    }
    /// s B A in the weight's shape.
    #[track_caller]
    pub fn delta(&self, shape: &[usize]) -> Result<Tensor> {
        let (a, b) = (self.a.get(), self.b.get());
        let delta = match self.factors {
            LoraFactors::Rows => b.matmul(&a),
            LoraFactors::Columns | LoraFactors::Table => b.matmul(&a).transpose(0, 1),
            LoraFactors::Kernel => {
                let [out, r] = [b.shape()?[0], b.shape()?[1]];
                b.reshape([out, r]).matmul(a.reshape([r as isize, -1])).reshape(shape)
            }
        };
        (delta * self.scale).ok()
    }
    /// Has a layer whose weight this is add `s B A dropout(x)` to what it gives, instead of forming B A.
    #[track_caller]
    pub fn hook(&self, layer: &Site) -> Result<Vec<HookHandle>> {
        let (before, after) = (self.clone(), self.clone());
        let begin = layer.register_forward_pre_hook(move |_, _| {
            INSIDE.with_borrow_mut(|inside| {
                inside.retain(|call| call.0 != before.a.id());
                inside.push((before.a.id(), WeightRead::NotYet));
            });
            Ok(None)
        })?;
        let end = layer.register_forward_hook(move |_, inputs, outputs| {
            let read = INSIDE.with_borrow_mut(|inside| {
                let at = inside.iter().rposition(|call| call.0 == after.a.id())?;
                Some(inside.remove(at).1)
            });
            match (read, inputs, outputs) {
                (Some(WeightRead::Base), [x, ..], [y, ..]) => Ok(Some(vec![after.added(x, y)?])),
                _ => Ok(None),
            }
        })?;
        Ok(vec![begin, end])
    }
    #[track_caller]
    fn added(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (a, b) = (self.a.get(), self.b.get());
        let x = match &self.dropout {
            Some(dropout) => dropout.forward(x)?,
            None => x.clone(),
        };
        let thin = functional::linear(&x.cast(a.dtype()?), &a, None);
        (y + (functional::linear(&thin, &b, None) * self.scale).cast(y.dtype()?)).ok()
    }
}
impl Parametrization for LoraWeight {
    fn forward(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [weight] = originals else {
            return Err(refusal("lora", format!("it is added to one tensor, not to {}", originals.len())));
        };
        if reads_base(self.a.id()) {
            return Ok(weight.clone());
        }
        if self.dropout.is_some() && self.site.is_training() && grad_enabled() {
            return Err(refusal("lora", format!("`{}` is read in training outside of its layer's forward pass, where the dropout of the layer's input cannot be", self.a.path()))
                .hint("dropout needs the layer's hooks, which a deep copy does not have and a layer that reads another's weight does not run: use `dropout: 0.0`, or apply the adapters to the copy"));
        }
        let shape = weight.shape()?;
        (weight + self.delta(&shape)?.cast(weight.dtype()?)).ok()
    }
}

/// What a call of a layer has read of its weight so far.
#[derive(Clone, Copy, PartialEq)]
enum WeightRead {
    NotYet,
    Base,
}
thread_local! {
    /// The calls of adapted layers that this thread is in, by the id of A.
    static INSIDE: RefCell<Vec<(usize, WeightRead)>> = const { RefCell::new(Vec::new()) };
}
/// Does the layer's own call read here, which adds the rest at its end? It reads once.
fn reads_base(id: usize) -> bool {
    INSIDE.with_borrow_mut(|inside| match inside.iter_mut().rev().find(|call| call.0 == id) {
        Some(call) if call.1 == WeightRead::NotYet => {
            call.1 = WeightRead::Base;
            true
        }
        _ => false,
    })
}
