//! Regions in which functions run in the precision that suits them, as PyTorch's `autocast`: an
//! [`Interceptor`], which sees what the user applies, composites whole. Gradients follow from the casts: that of an f32 weight is f32.
//!
//! A function is known by the name that the user called; its ops are cast by its class. In a *low* function all floats of its ops
//! become the region's dtype; in one of *f32* they become f32, and casts inside that would round them are left out, so that the result
//! is f32 also of functions that widen 16 bits themselves and round at their end. f64, integers and casts of the user's own are
//! left alone.
use crate::{
    classes::{PrecisionClass, PrecisionTable},
    fp8::{Fp8Recipe, Fp8Scales},
    overflow,
};
use adamant_core::{
    Arg, DType, Error, ErrorKind, Op, Outputs, Result, Tensor, TensorType,
    composite::InTensors,
    intercept::{self, Interceptor, cast_once, casting_once},
    scope,
};
use adamant_nn::glob_matches;
use smallvec::SmallVec;
use std::{
    cell::Cell,
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// A region of mixed precision.
///
/// ```
/// use adamant_amp::Autocast;
/// use adamant_core::{DType, Tensor};
/// use adamant_nn::{Linear, Module, Walk};
///
/// # adamant_core::Device::reference().make_current();
/// let model = Linear::new(4, 3)?;
/// let x = Tensor::ones([2, 4]);
/// let (logits, loss) = Autocast::new(DType::F16)?.run(|| {
///     let logits = model.forward(&x)?;
///     let loss = logits.square().mean(..);
///     Ok::<_, adamant_core::Error>((logits, loss))
/// })?;
/// assert_eq!((logits.dtype()?, loss.dtype()?), (DType::F16, DType::F32));
/// let grads = loss.backward()?;
/// assert_eq!(grads.of(&model.weight.cell()).unwrap().dtype()?, DType::F32);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// The walk back is not cast: each op's gradient has the dtypes that the op had. A region belongs to its thread, and travels with an
/// [`Ambient`](adamant_core::Ambient); what [`checkpoint`](adamant_core::grad::checkpoint()) computes again, it computes in it;
/// [`compile`](adamant_core::compile()) captures anew in another region. The innermost one counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Autocast {
    dtype: DType,
    enabled: bool,
    table: PrecisionTable,
    keep: Vec<String>,
    /// paths of layers, and names of functions outside of any, that left the range of f16
    in_f32: BTreeSet<String>,
    /// products of operands in 8 bits
    fp8: Option<Fp8Scales>,
}
impl Autocast {
    /// A region of f16 or bf16.
    ///
    /// # Errors
    /// Another dtype.
    #[track_caller]
    pub fn new(dtype: DType) -> Result<Autocast> {
        if !matches!(dtype, DType::F16 | DType::BF16) {
            let text = format!("a region is of f16 or bf16, not {dtype}");
            return Err(Error::new("autocast", ErrorKind::Dtype(text)).hint("what runs in f32 needs no region"));
        }
        Ok(Autocast::of(dtype))
    }
    /// A region of bf16 whose dense layers (`linear`) and matrix products (`matmul`) have operands of 8 bits: E4M3, and E5M2 for gradients. They are
    /// really rounded, and multiplied in f32: these are the numbers of hardware that has such products, without its speed.
    ///
    /// With [`DelayedScaling`](crate::DelayedScaling) the region remembers magnitudes: keep it, and give its clones to all steps.
    ///
    /// ```
    /// use adamant_amp::{Autocast, CurrentScaling};
    /// use adamant_core::{DType, Tensor};
    /// # adamant_core::Device::reference().make_current();
    /// let x = Tensor::from_vec(vec![1.0f32, 1.1, 1.2, 448.0], [2, 2]);
    /// let y = Autocast::fp8(CurrentScaling::default())?.run(|| x.matmul(Tensor::eye(2)));
    /// // Three bits behind the leading one.
    /// assert_eq!(y.to_vec_as::<f32>()?, [1.0, 1.125, 1.25, 448.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A history of no steps, or a margin of more than 64 powers of two.
    #[track_caller]
    pub fn fp8(recipe: impl Into<Fp8Recipe>) -> Result<Autocast> {
        Ok(Autocast { fp8: Some(Fp8Scales::new(recipe.into())?), ..Autocast::of(DType::BF16) })
    }
    /// The recipe of its products in 8 bits, if it has such.
    pub fn fp8_recipe(&self) -> Option<Fp8Recipe> {
        self.fp8.as_ref().map(Fp8Scales::recipe)
    }
    /// The magnitudes that delayed scaling remembers, by name, each f32\[amax_history_len\]: what a run needs beside its weights to go on with the same
    /// bits. Nothing in other regions.
    pub fn fp8_state_dict(&self) -> Vec<(String, Tensor)> {
        self.fp8.as_ref().map(Fp8Scales::state_dict).unwrap_or_default()
    }
    /// Takes over what [`Autocast::fp8_state_dict`] gave; clones of the region see it.
    ///
    /// # Errors
    /// A name that is no history's, another dtype or length, a region without such. Then nothing has changed.
    #[track_caller]
    pub fn load_fp8_state_dict(&self, state: &[(String, Tensor)]) -> Result<()> {
        match &self.fp8 {
            Some(fp8) => fp8.load_state_dict(state),
            None if state.is_empty() => Ok(()),
            None => Err(Error::new("load_state_dict", ErrorKind::Argument("a region without fp8 remembers no magnitudes".into()))),
        }
    }
    /// A region of a dtype that is known to be one.
    pub(crate) fn of(dtype: DType) -> Autocast {
        Autocast { dtype, enabled: true, table: PrecisionTable::default(), keep: Vec::new(), in_f32: BTreeSet::new(), fp8: None }
    }
    /// Off, it is as if there were no region, also inside of another one.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Autocast {
        self.enabled = enabled;
        self
    }
    /// The classes of functions.
    #[must_use]
    pub fn table(mut self, table: PrecisionTable) -> Autocast {
        self.table = table;
        self
    }
    /// What runs in f32 whatever its class: patterns (`*` any characters, `?` one) of layers' paths, and of names of functions. A layer
    /// stands for all layers inside of it, and `head.*` means the layer `head` too.
    ///
    /// ```
    /// use adamant_amp::Autocast;
    /// use adamant_core::{DType, Tensor};
    /// # adamant_core::Device::reference().make_current();
    /// let region = Autocast::new(DType::BF16)?.keep(["head.*", "matmul"]);
    /// let x = Tensor::ones([2, 2]);
    /// assert_eq!(region.run(|| x.matmul(&x)).dtype()?, DType::F32);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[must_use]
    pub fn keep<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Autocast {
        self.keep = patterns.into_iter().map(Into::into).collect();
        self
    }
    /// Layers that run in f32, by their whole paths: none inside of them, no patterns.
    #[must_use]
    pub fn without<S: Into<String>>(mut self, layers: impl IntoIterator<Item = S>) -> Autocast {
        self.in_f32.extend(layers.into_iter().map(Into::into));
        self
    }
    /// The first pattern of [`Autocast::keep`] that means none of these layers and no function.
    pub fn stray<'a>(&'a self, layers: &[&str]) -> Option<&'a str> {
        let meets = |pattern: &str| layers.iter().any(|path| is_within(pattern, path)) || self.table.rows().any(|(name, _)| glob_matches(pattern, name));
        self.keep.iter().map(String::as_str).find(|pattern| !meets(pattern))
    }
    /// Is it on?
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }
    /// The dtype of what is low.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Runs `f` in the region. What a parameter holds is cast once in it, for all layers and calls that it is used in; to keep that cast for
    /// several regions, put [`casting_once`] around them, as [`GradScaler::attempt`](crate::GradScaler::attempt) does.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        casting_once(|| intercept::with(Arc::new(self.clone()), f))
    }
    /// The class of an op that stands in the function `called`, or alone.
    fn class(&self, op: &Op, called: Option<&str>) -> PrecisionClass {
        let own = own_name(op);
        if !self.keep.is_empty() || !self.in_f32.is_empty() {
            let (path, name) = (scope::path(scope::current()), called.unwrap_or(own));
            let is_kept = |pattern: &String| glob_matches(pattern, name) || (!path.is_empty() && is_within(pattern, &path));
            if self.keep.iter().any(is_kept) || self.in_f32.contains(place(&path, name)) {
                return PrecisionClass::F32;
            }
        }
        let own_class = || {
            let unknown = if matches!(op, Op::Composite(_)) { PrecisionClass::Parts } else { PrecisionClass::Widest };
            self.table.class(own).unwrap_or(if own == op.name() { unknown } else { PrecisionClass::Wide })
        };
        match called.and_then(|name| self.table.class(name)) {
            None | Some(PrecisionClass::Parts) => own_class(),
            Some(class) => class,
        }
    }
}
fn own_name(op: &Op) -> &str {
    match op {
        Op::Composite(c) => c.name().strip_prefix("adamant.").unwrap_or(c.name()),
        op => op.name(),
    }
}
/// Is a layer the one that a pattern means, or inside of it?
fn is_within(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| glob_matches(pattern, &path[..end])) || glob_matches(pattern, &format!("{path}."))
}
/// Where an op stands: its layer, or outside of any the function.
fn place<'a>(path: &'a str, name: &'a str) -> &'a str {
    if path.is_empty() { name } else { path }
}
/// Functions that can leave the range of f16 with what is in it, beside those that are low.
const GROWING: [&str; 8] = ["add", "sub", "mul", "div", "addcmul", "addcdiv", "square", "lerp"];
/// Runs `f` with products in bf16 ([`Autocast`] has the options).
pub fn autocast<R>(f: impl FnOnce() -> R) -> R {
    Autocast::of(DType::BF16).run(f)
}

thread_local! {
    /// Has an inner region decided about the op that is on its way down?
    static DECIDED: Cell<bool> = const { Cell::new(false) };
}
/// For the way of one op.
struct Decided(bool);
impl Decided {
    fn new(decided: bool) -> Decided {
        Decided(DECIDED.replace(decided))
    }
}
impl Drop for Decided {
    fn drop(&mut self) {
        DECIDED.set(self.0);
    }
}
type Next<'a> = &'a dyn Fn(Op, Arg, &[&Tensor]) -> Outputs;

/// Is it one of the three floats that a region moves between?
fn is_moved(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}
/// The op with its floats in a dtype. In f32 a cast of the function's own to 16 bits is left out.
fn cast_to(dtype: DType, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
    let moved = |t: &Tensor| t.dtype().is_ok_and(|d| is_moved(d) && d != dtype);
    if let (Op::Cast(to), [x]) = (&op, inputs)
        && is_moved(*to)
        && x.dtype().is_ok_and(is_moved)
    {
        // In what runs in f32 nothing is rounded on its way; where the dtypes of two sides meet, they meet in any case.
        return if dtype == DType::F32 { smallvec::smallvec![x.cast(dtype)] } else { next(op, arg, inputs) };
    }
    if !inputs.iter().any(|t| moved(t)) {
        return next(op, arg, inputs);
    }
    let cast: SmallVec<[Tensor; 4]> = inputs.iter().map(|t| if moved(t) { cast_once(t, dtype) } else { (*t).clone() }).collect();
    next(op, arg, &cast.iter().collect::<SmallVec<[&Tensor; 4]>>())
}

/// An op that refuses activations of 16 bits beside weights of f32 computes in f32, and its results have the dtypes that they would have
/// if all that it was given were as the first: statistics beside them stay f32.
fn wide(op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
    let mut floats = inputs.iter().filter_map(|t| t.dtype().ok()).filter(|d| is_moved(*d));
    let Some(first) = floats.next().filter(|first| floats.any(|d| d != *first)) else { return next(op, arg, inputs) };
    let types: Result<SmallVec<[TensorType; 4]>> = inputs.iter().map(|t| t.try_meta().map(|m| m.ty())).collect();
    let Ok(types) = types else { return next(op, arg, inputs) };
    if op.infer(&types).is_ok() {
        return next(op, arg, inputs);
    }
    let alike: SmallVec<[TensorType; 4]> = types.iter().map(|ty| if is_moved(ty.dtype) { TensorType { dtype: first, ..*ty } } else { *ty }).collect();
    let Ok(told) = op.infer(&alike) else { return next(op, arg, inputs) };
    let outputs = cast_to(DType::F32, op, arg, inputs, next);
    outputs.into_iter().zip(told.iter()).map(|(t, ty)| if t.dtype().is_ok_and(|d| d != ty.dtype) { t.cast(ty.dtype) } else { t }).collect()
}

impl Interceptor for Autocast {
    fn intercept(&self, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        if DECIDED.get() || inputs.is_empty() {
            return next(op, arg, inputs);
        }
        let _decided = Decided::new(true);
        if !self.enabled {
            return next(op, arg, inputs);
        }
        let called = scope::inherited().and_then(|origin| scope::called_name(origin.called));
        // A cast that the user wrote.
        if matches!(op, Op::Cast(_)) && called.is_none_or(|name| name == "cast") {
            return next(op, arg, inputs);
        }
        let class = self.class(&op, called);
        let name = called.unwrap_or_else(|| own_name(&op));
        if self.dtype == DType::F16 && (class == PrecisionClass::Low || GROWING.contains(&name)) && overflow::is_watched() {
            let layer = place(&scope::path(scope::current()), name).to_string();
            let outputs = self.run_as(class, op, arg, inputs, next);
            if outputs.iter().any(|t| t.dtype().is_ok_and(|d| d == DType::F16)) {
                overflow::note(&layer, inputs, &outputs);
            }
            return outputs;
        }
        self.run_as(class, op, arg, inputs, next)
    }
    fn key(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        Some(hasher.finish())
    }
    fn casts(&self) -> bool {
        self.enabled
    }
}
impl Autocast {
    /// The op as its class has it.
    fn run_as(&self, class: PrecisionClass, op: Op, arg: Arg, inputs: &[&Tensor], next: Next<'_>) -> Outputs {
        match class {
            PrecisionClass::Low => match &self.fp8 {
                Some(fp8) if is_fp8(&op, inputs) => match in_fp8(fp8, self.dtype, &op, inputs) {
                    Ok(y) => smallvec::smallvec![y],
                    Err(e) => smallvec::smallvec![Tensor::failed(e)],
                },
                _ => cast_to(self.dtype, op, arg, inputs, next),
            },
            PrecisionClass::F32 => cast_to(DType::F32, op, arg, inputs, next),
            PrecisionClass::Wide | PrecisionClass::Widest => wide(op, arg, inputs, next),
            PrecisionClass::Refused if inputs.iter().any(|t| t.dtype().is_ok_and(is_moved)) => smallvec::smallvec![Tensor::failed(refusal())],
            PrecisionClass::Refused => next(op, arg, inputs),
            PrecisionClass::Parts => match &op {
                // One with a gradient of its own stays whole.
                Op::Composite(c) if c.saves().is_none() && !c.is_host() => {
                    let _open = Decided::new(false);
                    let inputs: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
                    match intercept::again(|| c.body(&inputs)) {
                        Ok(outputs) => outputs.into(),
                        Err(e) => smallvec::smallvec![Tensor::failed(e)],
                    }
                }
                _ => next(op, arg, inputs),
            },
        }
    }
}
/// Is it a product that fp8 is for: of a dense layer, or of matrices?
fn is_fp8(op: &Op, inputs: &[&Tensor]) -> bool {
    let is_product = || match op {
        Op::Composite(_) => own_name(op) == "linear",
        Op::Matmul => scope::inherited().and_then(|origin| scope::called_name(origin.called)).is_none_or(|name| FP8.contains(&name)),
        _ => false,
    };
    is_product() && inputs.iter().all(|t| t.dtype().is_ok_and(is_moved))
}
/// The functions that are products of two matrices and nothing else.
const FP8: [&str; 5] = ["matmul", "mm", "bmm", "mv", "linear"];
/// A product of operands in 8 bits; a dense layer's is one of rows.
fn in_fp8(fp8: &Fp8Scales, dtype: DType, op: &Op, inputs: &[&Tensor]) -> Result<Tensor> {
    let low: SmallVec<[Tensor; 3]> = inputs.iter().map(|t| cast_once(t, dtype)).collect();
    let path = scope::path(scope::current());
    let place = place(&path, own_name(op));
    match (op, &low[..]) {
        (Op::Composite(_), [x, w, bias @ ..]) => {
            // What makes no sense is told as it is without fp8.
            let types: Result<SmallVec<[TensorType; 4]>> = inputs.iter().map(|t| t.try_meta().map(|m| TensorType { dtype, ..m.ty() })).collect();
            let made = op.infer(&types?).map_err(|kind| Error::new("linear", kind))?;
            let features = x.shape()?[x.rank() - 1];
            let y = fp8.product(place, &x.reshape([-1, features as isize]), w, bias.first(), true)?;
            y.reshape(made[0].shape).ok()
        }
        (_, [a, b]) => fp8.product(place, a, b, None, false),
        _ => Err(Error::new("fp8", ErrorKind::Internal(format!("{} as a product", op.name())))),
    }
}
fn refusal() -> Error {
    let text = "probabilities of 16 bits are 0 or 1 where their logarithms matter, so it is refused inside of autocast".into();
    Error::new("binary_cross_entropy", ErrorKind::Argument(text))
        .hint("take `binary_cross_entropy_with_logits`, which is safe, or switch autocast off around it and cast to f32")
}
