//! How weights of 16 bits take over an update that is computed in f32, without a copy of the weights in f32.
//!
//! The flow of one parameter's step, the same for every rule and every [`WeightUpdate`]:
//!
//! ```text
//! weight (16 bits) + what is kept beside it --widened--> f32 --the rule, gradient and slots in f32--> f32
//!        ^                      ^                                                                      |
//!        +----------------------+-------------------------narrowed-------------------------------------+
//! ```
//!
//! What is kept beside a weight lies in slots like any other: a step that is taken back or held back takes it along, a captured step
//! reads and writes it at each call, and a state dict carries it.
//!
//! Must not know any rule's formula.
use crate::slots::{ParameterState, Running};
use adamant_core::{Arg, DType, Device, Error, ErrorKind, Meta, Op, Origin, Result, Shape, Tensor, bf16, f16};
use adamant_nn::Param;
use std::collections::BTreeMap;

mod chosen;
mod rounding;
use rounding::{joined, low_bits, nearest, rounded_by, ties};

/// How weights of bf16 and f16 are updated. Parameters of f32 and f64 are updated as ever.
///
/// The rule's formula runs in f32: the weight is widened, with what is kept beside it, the gradient is cast, the slots are of f32
/// (or as [`Updater::slot_dtype`](crate::Updater::slot_dtype) says). The policies differ in the way back. Bytes are those for each
/// weight, beside its own two.
///
/// | policy | bytes | the weight | an update that is small beside the weight |
/// |---|---|---|---|
/// | `Nearest` | 0 | the new value rounded to nearest even | is lost |
/// | `Stochastic` | 0 | one of the two neighbours, by chance | is taken over on average |
/// | `Kahan` | 2 | the new value rounded to nearest even | waits in the compensation, of 16 bits |
/// | `Split` | 2 1/8 | an f32 master's, rounded to nearest even | is taken over as by f32 weights, to the bit |
///
/// ```
/// # use adamant_core::{DType, Grads, Tensor};
/// # use adamant_nn::Param;
/// # use adamant_optim::{Optimizer, Sgd, UpdateRule, WeightUpdate};
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::ones([1]).cast(DType::BF16))?;
/// let mut optimizer = Sgd::new(1e-4).over([weight.clone()]).weight_update(WeightUpdate::Split).ok()?;
/// let mut grads = Grads::default();
/// grads.set(&weight.cell(), weight.detached().full_like(-1.0));
/// // Each of them alone is nothing beside 1.
/// (0..1000).try_for_each(|_| optimizer.step(&grads))?;
/// assert_eq!(weight.detached().item::<f32>()?, 1.1015625);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: Zamirai, Zhang, Aberger and De Sa 2020, "Revisiting BFloat16 Training" (stochastic rounding and Kahan summation of weights).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightUpdate {
    /// Rounded to nearest, ties to even. Nothing is kept.
    Nearest,
    /// Rounded up or down with the probability that makes the mean right (Gupta et al. 2015, "Deep Learning with Limited Numerical
    /// Precision"). What is representable stays, as do NaN and infinities; beyond the largest finite number it is rounded to nearest.
    ///
    /// The bits are Philox's of a key of each parameter's own, slot `stochastic_rounding` (u32 `[4]`: seed, stream, count of
    /// steps): they follow from the seed and the parameter's place among those of the optimizer, the model's generator is not asked,
    /// and a state that is loaded goes on with its own bits, whatever the seed.
    Stochastic {
        /// what the bits follow from
        seed: u64,
    },
    /// What rounding added is taken off at the next step (Kahan 1965, "Further remarks on reducing truncation errors"): slot
    /// `kahan_compensation`, of the parameter's shape and dtype.
    ///
    /// It has the digits of a 16-bit float, no more, so it is rounded too: to either side by turns, along the golden ratio's multiples
    /// of the count of steps (Weyl 1916). To nearest, constant updates of a bf16 weight would go some percent too far, or fall short by that.
    Kahan,
    /// The bits of weights in f32 (bf16 only): the weight is the master rounded to nearest even, and what the master has beyond it is
    /// kept in slots `split_low_bits` (i16, of the parameter's shape) and `split_ties` (u8 `[⌈n / 8⌉]`, a bit for each of n weights).
    ///
    /// The slots hold the difference between the bits of the master and those of the weight. 16 bits alone do not do: both ties next
    /// to an even bf16 are rounded to it, so it has 2¹⁶ + 1 masters (an odd one has 2¹⁶ - 1), from -2¹⁵ to 2¹⁵ beyond it. -2¹⁵
    /// stands for both ends, and the bit tells which.
    Split,
}
pub(crate) const COMPENSATION: &str = "kahan_compensation";
pub(crate) const LOW_BITS: &str = "split_low_bits";
pub(crate) const TIES: &str = "split_ties";
pub(crate) const ROUNDING: &str = "stochastic_rounding";
/// The slots beside weights.
const BESIDE: [&str; 4] = [COMPENSATION, LOW_BITS, TIES, ROUNDING];
/// Streams of weights, apart from those of generators, which count from 0.
const FIRST_STREAM: u32 = 1 << 31;

impl WeightUpdate {
    /// Does it concern parameters of this dtype?
    pub(crate) fn concerns(dtype: DType) -> bool {
        matches!(dtype, DType::F16 | DType::BF16)
    }
    /// Why it is not for a parameter of this dtype.
    fn refuses(self, dtype: DType) -> Option<ErrorKind> {
        let text = "it is f16, and `WeightUpdate::Split` keeps the other half of an f32's bits beside bf16, which is the first half";
        (self == WeightUpdate::Split && dtype == DType::F16).then(|| ErrorKind::Dtype(text.into()))
    }
    /// The slots beside a weight of this shape and dtype, which it concerns.
    fn slots(self, meta: &Meta) -> Result<Vec<(&'static str, DType, Shape)>> {
        Ok(match self {
            WeightUpdate::Nearest => vec![],
            WeightUpdate::Stochastic { .. } => vec![(ROUNDING, DType::U32, of_length(4)?)],
            WeightUpdate::Kahan => vec![(COMPENSATION, meta.dtype, meta.shape)],
            WeightUpdate::Split => vec![(LOW_BITS, DType::I16, meta.shape), (TIES, DType::U8, of_length(meta.shape.elements().div_ceil(8))?)],
        })
    }
    /// The weight with what is kept beside it, f32. `place`: the parameter's, among those of the optimizer.
    #[track_caller]
    pub(crate) fn widened(self, p: &Param, place: u32, slots: &mut Running<'_>) -> Result<Tensor> {
        let (weight, meta) = (p.detached(), p.meta());
        if let Some(kind) = self.refuses(meta.dtype) {
            return Err(Error::new("step", kind));
        }
        let zeros = |dtype, shape: Shape| zeros_in_memory(dtype, shape, meta.device);
        match self {
            WeightUpdate::Nearest => weight.cast(DType::F32).ok(),
            WeightUpdate::Stochastic { seed } => {
                let key = vec![seed as u32, (seed >> 32) as u32, FIRST_STREAM | place, 0];
                slots.beside(ROUNDING, || Tensor::from_vec_on(key, [4], meta.device))?;
                weight.cast(DType::F32).ok()
            }
            WeightUpdate::Kahan => {
                let gained = slots.beside(COMPENSATION, || zeros(meta.dtype, meta.shape))?;
                (weight.cast(DType::F32) - gained.cast(DType::F32)).ok()
            }
            WeightUpdate::Split => {
                let low = slots.beside(LOW_BITS, || zeros(DType::I16, meta.shape))?;
                let bytes = of_length(meta.shape.elements().div_ceil(8))?;
                joined(&weight, &low, &slots.beside(TIES, || zeros(DType::U8, bytes))?)
            }
        }
    }
    /// Writes the weight, and what is kept beside it, from the new value in f32.
    #[track_caller]
    pub(crate) fn narrow(self, p: &Param, value: &Tensor, slots: &mut Running<'_>) -> Result<()> {
        let meta = p.meta();
        let dtype = value.dtype()?;
        if dtype != DType::F32 {
            return Err(
                Error::new("step", ErrorKind::DtypeMismatch { left: DType::F32, right: dtype }).hint("the formula gives the new weights in the dtype of `p`")
            );
        }
        let weight = value.cast(meta.dtype);
        match self {
            WeightUpdate::Nearest => p.set(&weight),
            WeightUpdate::Stochastic { .. } => {
                let key = slots.beside(ROUNDING, || Tensor::failed(Error::new("step", ErrorKind::Internal("a weight without a key".into()))))?;
                let draw = Tensor::apply(Op::RandomBits { shape: meta.shape }, Arg::None, &[&key]);
                slots.set(ROUNDING, &(&key + key.iota_like(0, DType::U32).eq(3u32).cast(DType::U32)))?;
                p.set(&rounded_by(value, &draw, meta.dtype))
            }
            WeightUpdate::Kahan => {
                let gained = weight.cast(DType::F32) - value;
                // A weight that left the finite numbers has nothing to wait for.
                let gained = gained.isfinite().where_(&gained, 0.0);
                slots.set(COMPENSATION, &rounded_by(&gained, &(slots.step()? * 0x9E37_79B9u32), meta.dtype))?;
                p.set(&weight)
            }
            WeightUpdate::Split => {
                let (low, above) = low_bits(value, &weight);
                slots.set(LOW_BITS, &low)?;
                slots.set(TIES, &ties(&above)?)?;
                p.set(&weight)
            }
        }
    }
    /// What is kept beside a weight that is made of a master: by name, on the weight's device.
    #[track_caller]
    fn beyond_weight(self, meta: &Meta, master: &[f32]) -> Result<Vec<(&'static str, Tensor)>> {
        Ok(match self {
            WeightUpdate::Nearest | WeightUpdate::Stochastic { .. } => vec![],
            WeightUpdate::Kahan => {
                let gained = master.iter().map(|&m| nearest(m, meta.dtype) - m).map(|g| if g.is_finite() { g } else { 0.0 });
                let gained = if meta.dtype == DType::F16 {
                    Tensor::from_vec_on(gained.map(f16::from_f32).collect(), meta.shape, meta.device)
                } else {
                    Tensor::from_vec_on(gained.map(bf16::from_f32).collect(), meta.shape, meta.device)
                };
                vec![(COMPENSATION, gained.ok()?)]
            }
            WeightUpdate::Split => {
                let beyond: Vec<i32> = master.iter().map(|&m| rounding::beyond(m)).collect();
                let mut bytes = vec![0u8; beyond.len().div_ceil(8)];
                beyond.iter().enumerate().filter(|(_, d)| **d == rounding::TIE).for_each(|(k, _)| bytes[k / 8] |= 1 << (k % 8));
                let ties = of_length(bytes.len())?;
                let low = Tensor::from_vec_on(beyond.into_iter().map(|d| d as i16).collect(), meta.shape, meta.device).ok()?;
                vec![(LOW_BITS, low), (TIES, Tensor::from_vec_on(bytes, ties, meta.device).ok()?)]
            }
        })
    }
    fn name(self) -> &'static str {
        match self {
            WeightUpdate::Nearest => "WeightUpdate::Nearest",
            WeightUpdate::Stochastic { .. } => "WeightUpdate::Stochastic",
            WeightUpdate::Kahan => "WeightUpdate::Kahan",
            WeightUpdate::Split => "WeightUpdate::Split",
        }
    }
}
#[track_caller]
fn of_length(n: usize) -> Result<Shape> {
    Shape::new(&[n]).map_err(|kind| Error::new("step", kind))
}
fn zeros_in_memory(dtype: DType, shape: Shape, device: Device) -> Tensor {
    let n = shape.elements();
    match dtype {
        DType::F16 => Tensor::from_vec_on(vec![f16::ZERO; n], shape, device),
        DType::BF16 => Tensor::from_vec_on(vec![bf16::ZERO; n], shape, device),
        DType::I16 => Tensor::from_vec_on(vec![0i16; n], shape, device),
        _ => Tensor::from_vec_on(vec![0u8; n], shape, device),
    }
}

/// What an optimizer was told of the dtypes of weights and slots.
#[derive(Default)]
pub(crate) struct StoredDtypes {
    pub weights: Option<WeightUpdate>,
    /// the dtype of the rules' slots, if it is not the formula's
    pub slots: Option<DType>,
    /// A parameter's number among those of the optimizer, by its id: it keeps it in another group.
    places: BTreeMap<usize, u32>,
    /// what it was told and does not do
    pub refused: Option<Error>,
}
impl StoredDtypes {
    /// The policy for a parameter of this dtype, if there is one.
    pub fn policy(&self, dtype: DType) -> Option<WeightUpdate> {
        self.weights.filter(|_| WeightUpdate::concerns(dtype))
    }
    /// The dtype in which the formula runs for a parameter of this dtype.
    pub fn formula(&self, dtype: DType) -> DType {
        if self.policy(dtype).is_some() { DType::F32 } else { dtype }
    }
    /// The dtype of a rule's slot that the formula sees in this dtype. `runs`: it is of the parameter's shape or a factor of that, no
    /// single number.
    pub fn slot(&self, seen: DType, runs: bool) -> DType {
        match self.slots {
            Some(dtype) if runs && matches!(seen, DType::F32 | DType::F16 | DType::BF16) => dtype,
            _ => seen,
        }
    }
    /// Numbers the parameters that have no number yet.
    pub fn number<'p>(&mut self, parameters: impl Iterator<Item = &'p Param>) {
        for p in parameters {
            let next = self.places.len() as u32;
            self.places.entry(p.id()).or_insert(next);
        }
    }
    pub fn place(&self, p: &Param) -> u32 {
        self.places.get(&p.id()).copied().unwrap_or(0)
    }
    /// Why a parameter cannot be updated as it was told.
    pub fn refuses(&self, dtype: DType) -> Option<ErrorKind> {
        self.policy(dtype).and_then(|policy| policy.refuses(dtype))
    }
    /// Is the state that was loaded for a parameter one of this policy's?
    #[track_caller]
    pub fn check(&self, p: &Param, state: &ParameterState) -> Result<()> {
        let (meta, path, here) = (p.meta(), p.path(), Origin::here());
        let policy = self.policy(meta.dtype);
        let own = policy.map_or("no `WeightUpdate` for it", WeightUpdate::name);
        let refused = |text: String| Err(Error::at("load_state_dict", ErrorKind::Argument(text), here));
        let needed = policy.map_or(Ok(Vec::new()), |policy| policy.slots(&meta))?;
        if let Some(other) = BESIDE.iter().find(|name| state.loaded(name).is_some() && needed.iter().all(|(n, ..)| n != *name)) {
            return refused(format!("`{path}.{other}` is of another policy: this optimizer has {own}"));
        }
        let is_due = state.has_stepped()? || needed.iter().any(|(name, ..)| state.loaded(name).is_some());
        for (name, dtype, shape) in needed {
            match state.loaded(name) {
                None if is_due => return refused(format!("there is no `{path}.{name}`, which {own} keeps: the state is of another policy")),
                Some(t) if t.dtype()? != dtype || t.shape()? != shape => {
                    return refused(format!("`{path}.{name}` is {} {}, and {own} keeps {dtype} {shape}", t.dtype()?, t.shape()?));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
