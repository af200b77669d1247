//! What can be timed: a name, what one call moves or computes, and a function that builds it.
//!
//! A [`Workload`] is a recipe. Building it gives a [`Prepared`]: inputs in memory, the call that is timed, and the check
//! that compares outputs of that same call with plain arithmetic in f64. Whoever measures runs the check first; a wrong
//! result has no time.
use crate::record::WorkUnit;
use adamant::{DType, Error, ErrorKind, Tensor, no_grad};
use linkme::distributed_slice;
use std::{fmt, hint::black_box};

/// The workloads that [`workload!`](crate::workload!) registered, of all crates in the program.
#[distributed_slice]
pub static REGISTERED: [fn() -> Workload];

/// One call of what is timed: it evaluates its results and drops them.
pub type Call = Box<dyn FnMut() -> Result<(), Error>>;
/// One more call, whose output is compared: the worst error, as a share of what is allowed.
pub type Verify = Box<dyn FnMut() -> Checked<f64>>;
/// What may be wrong, or fail.
pub type Checked<T> = Result<T, Problem>;

/// Something to time, under the name that all implementations give it.
pub struct Workload {
    /// the name: `gemm_f32_1024`, or `family/elements` for one size of many
    pub name: String,
    /// which run measures it
    pub group: Group,
    /// what one call moves or computes
    pub rate: Option<Rate>,
    /// elements of the largest operand, where time is plotted over sizes
    pub elements: Option<u64>,
    /// measure the growth of memory too, in a process of its own
    pub memory: bool,
    /// of the operands
    pub dtype: &'static str,
    /// operations for each byte of the least possible traffic, for the roofline
    pub intensity: Option<f64>,
    build: Build<Scale>,
    /// the same in another precision, where there is such a form
    in_precision: Option<Build<(Scale, DType)>>,
    /// the same with a watch over its numbers
    watched: Option<Build<(Scale, WatchKind)>>,
}
type Build<A> = Box<dyn Fn(A) -> Checked<Prepared>>;
impl Workload {
    /// A workload of the main group.
    pub fn new<P: Into<Prepared>>(name: impl Into<String>, rate: impl Into<Option<Rate>>, build: impl Fn(Scale) -> Checked<P> + 'static) -> Workload {
        let (name, build) = (name.into(), Box::new(move |scale| build(scale).map(Into::into)));
        Workload {
            name,
            group: Group::Main,
            rate: rate.into(),
            elements: None,
            memory: false,
            dtype: "f32",
            intensity: None,
            build,
            in_precision: None,
            watched: None,
        }
    }
    /// One size of a family, in the group of sizes.
    pub fn sized(self, elements: u64) -> Workload {
        Workload { group: Group::Sizes, elements: Some(elements), ..self }
    }
    /// A member of another group.
    pub fn in_group(self, group: Group) -> Workload {
        Workload { group, ..self }
    }
    /// Operands of another dtype than `f32`.
    pub fn of_dtype(self, dtype: &'static str) -> Workload {
        Workload { dtype, ..self }
    }
    /// So many operations for each byte.
    pub fn with_intensity(self, intensity: f64) -> Workload {
        Workload { intensity: Some(intensity), ..self }
    }
    /// Its memory is measured too.
    pub fn with_memory(self) -> Workload {
        Workload { memory: true, ..self }
    }
    /// Its form in another precision: of matrices, operands of that dtype; of networks, a region of
    /// [`Autocast`](https://docs.rs/adamant/latest/adamant/amp/struct.Autocast.html), which f32 switches off. What comes out is shown
    /// ([`Prepared::showing`]), so that it can be compared with that of f32.
    pub fn with_precision<P: Into<Prepared>>(self, build: impl Fn(Scale, DType) -> Checked<P> + 'static) -> Workload {
        Workload { in_precision: Some(Box::new(move |(scale, dtype)| build(scale, dtype).map(Into::into))), ..self }
    }
    /// Its form with a watch over its numbers ([`NanHandler`](https://docs.rs/adamant/latest/adamant/stability/struct.NanHandler.html)),
    /// which gives the same bits.
    pub fn with_watch<P: Into<Prepared>>(self, build: impl Fn(Scale, WatchKind) -> Checked<P> + 'static) -> Workload {
        Workload { watched: Some(Box::new(move |(scale, kind)| build(scale, kind).map(Into::into))), ..self }
    }
    /// Has it a form in other precisions?
    pub fn has_precisions(&self) -> bool {
        self.in_precision.is_some()
    }
    /// Inputs in memory, nothing called yet.
    ///
    /// # Errors
    /// An op failed, or something is missing.
    pub fn build(&self, scale: Scale) -> Checked<Prepared> {
        (self.build)(scale)
    }
    /// The same in another form. What has none is not run in the plain one.
    ///
    /// ```
    /// use adamant::{DType, Tensor};
    /// use adamant_bench::{Checked, Prepared, Scale, Workload};
    /// let sum = |dtype| -> Checked<Prepared> {
    ///     let x = Tensor::ones([2]).cast(dtype);
    ///     Ok(Prepared::output(move || &x + &x, |_| Ok(0.0)))
    /// };
    /// let plain = Workload::new("sum", None, move |_| sum(DType::F32));
    /// assert!(plain.build_in(Scale::SMALL, DType::BF16).is_err_and(|problem| problem.is_unsupported()));
    /// assert!(plain.with_precision(move |_, dtype| sum(dtype)).build_in(Scale::SMALL, DType::BF16).is_ok());
    /// ```
    ///
    /// # Errors
    /// As [`Workload::build`]; it has no such form, which is a part that is not there.
    pub fn build_in(&self, scale: Scale, form: impl Into<WorkloadForm>) -> Checked<Prepared> {
        match (form.into(), &self.in_precision, &self.watched) {
            (WorkloadForm::Plain, ..) => self.build(scale),
            (WorkloadForm::Precision(dtype), Some(build), _) => build((scale, dtype)),
            (WorkloadForm::Precision(DType::F32), None, _) if self.dtype == "f32" => self.build(scale),
            (WorkloadForm::Precision(dtype), None, _) => Err(Problem::Absent(format!("{} has no form in {dtype}", self.name))),
            (WorkloadForm::Watched(kind), _, Some(build)) => build((scale, kind)),
            (WorkloadForm::Watched(_), _, None) => Err(Problem::Absent(format!("{} has no form with a watch over its numbers", self.name))),
        }
    }
}
/// In which form a workload runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WorkloadForm {
    /// as it is
    #[default]
    Plain,
    /// in a precision ([`Workload::with_precision`])
    Precision(DType),
    /// with a watch over its numbers ([`Workload::with_watch`])
    Watched(WatchKind),
}
/// What a watch looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchKind {
    /// what each step comes to
    #[default]
    Watch,
    /// the same, and statistics of all layers and parameters: a run that looks in each tenth step has a tenth of what they cost
    Layers,
    /// what each op of each step gives
    Full,
}
impl WatchKind {
    /// All of them.
    pub const ALL: [WatchKind; 3] = [WatchKind::Watch, WatchKind::Layers, WatchKind::Full];
    /// The name on command lines.
    pub fn name(self) -> &'static str {
        match self {
            WatchKind::Watch => "watch",
            WatchKind::Layers => "layers",
            WatchKind::Full => "full",
        }
    }
}
impl WorkloadForm {
    /// The precision, where one was chosen.
    pub fn precision(self) -> Option<DType> {
        if let WorkloadForm::Precision(dtype) = self { Some(dtype) } else { None }
    }
}
impl From<DType> for WorkloadForm {
    fn from(dtype: DType) -> WorkloadForm {
        WorkloadForm::Precision(dtype)
    }
}
/// Which run measures a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "suite", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// what other implementations are measured with, and users' own
    Main,
    /// families over five decades of size
    Sizes,
    /// what only an accelerator is measured with
    Large,
    /// what the tool judges itself with
    Selftest,
}
/// Units of one call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// floating-point (or integer) operations
    Flop(f64),
    /// bytes of the least possible traffic
    Bytes(f64),
    /// tokens
    Tokens(f64),
}
impl Rate {
    /// The unit, and so many of it.
    pub fn parts(self) -> (WorkUnit, f64) {
        match self {
            Rate::Flop(n) => (WorkUnit::Flop, n),
            Rate::Bytes(n) => (WorkUnit::Bytes, n),
            Rate::Tokens(n) => (WorkUnit::Tokens, n),
        }
    }
}

/// The shapes of the document, or small ones that only show that the program is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    small: bool,
}
impl Scale {
    /// The small one.
    pub const SMALL: Scale = Scale { small: true };
    /// The shapes of the document.
    pub const FULL: Scale = Scale { small: false };
    /// A size at this scale.
    pub fn of(self, full: usize, small: usize) -> usize {
        if self.small { small } else { full }
    }
    /// A size that is never larger than `most` at the small scale.
    pub fn at_most(self, full: usize, most: usize) -> usize {
        if self.small { full.min(most) } else { full }
    }
    /// Is it the small one?
    pub fn is_small(self) -> bool {
        self.small
    }
}

/// A workload whose inputs are in memory.
pub struct Prepared {
    /// what is timed
    pub call: Call,
    /// compares the output of one call
    pub verify: Option<Verify>,
    /// the check may be run after the samples too, because calls leave no trace
    pub verify_again: bool,
    /// the output of one more call, to be compared with what other programs give
    pub output: Option<Box<dyn FnMut() -> Checked<Vec<f64>>>>,
}
impl Prepared {
    /// The call, and the check of one call's output: run before the samples and after them.
    pub fn checked(call: impl FnMut() -> Result<(), Error> + 'static, verify: impl FnMut() -> Checked<f64> + 'static) -> Prepared {
        Prepared { call: Box::new(call), verify: Some(Box::new(verify)), verify_again: true, output: None }
    }
    /// A function of tensors outside the tape, whose result is evaluated and dropped; `check` sees the result of the same
    /// function.
    pub fn output(f: impl Fn() -> Tensor + Clone + 'static, check: impl Fn(&Tensor) -> Checked<f64> + 'static) -> Prepared {
        let (checked, read) = (f.clone(), f.clone());
        let output = move || Ok(no_grad(&read).to_vec_as::<f64>()?);
        let call = move || no_grad(|| black_box(f()).materialize());
        Prepared { output: Some(Box::new(output)), ..Prepared::checked(call, move || check(&no_grad(&checked))) }
    }
    /// The same for a call that changes state, as a training step does: checked before the samples only.
    pub fn checked_once(call: impl FnMut() -> Result<(), Error> + 'static, verify: impl FnMut() -> Checked<f64> + 'static) -> Prepared {
        Prepared { verify_again: false, ..Prepared::checked(call, verify) }
    }
    /// With what one more call gives, to be compared with other programs.
    pub fn showing<T: Into<f64>>(self, mut output: impl FnMut() -> Checked<Vec<T>> + 'static) -> Prepared {
        let output = move || Ok(output()?.into_iter().map(Into::into).collect());
        Prepared { output: Some(Box::new(output)), ..self }
    }
    /// This many calls as one, so that a share of them can be added.
    pub fn repeated(self, times: usize) -> Prepared {
        let mut call = self.call;
        Prepared { call: Box::new(move || (0..times).try_for_each(|_| call())), ..self }
    }
}
impl From<Call> for Prepared {
    /// A call without a check: the record says so.
    fn from(call: Call) -> Prepared {
        Prepared { call, verify: None, verify_again: false, output: None }
    }
}

/// Why there is no time.
#[derive(Debug)]
pub enum Problem {
    /// an op failed
    Failed(Error),
    /// the result is wrong
    Wrong(String),
    /// the workload has no form of the kind that was asked for
    Absent(String),
}
impl Problem {
    /// A part that the workload needs is not there.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Problem::Failed(e) => matches!(e.kind(), ErrorKind::Unsupported { .. }),
            Problem::Wrong(_) => false,
            Problem::Absent(_) => true,
        }
    }
}
impl From<Error> for Problem {
    fn from(e: Error) -> Problem {
        Problem::Failed(e)
    }
}
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Failed(e) => e.fmt(f),
            Problem::Wrong(text) => write!(f, "wrong result: {text}"),
            Problem::Absent(text) => f.write_str(text),
        }
    }
}
/// Fails with a text if the condition does not hold.
///
/// # Errors
/// [`Problem::Wrong`] with the text.
pub fn ensure(right: bool, text: impl FnOnce() -> String) -> Checked<()> {
    if right { Ok(()) } else { Err(Problem::Wrong(text())) }
}

/// Registers a workload, to be measured by the program it is linked into ([`bench_main!`](crate::bench_main)).
///
/// The name is a Rust identifier and the workload's name; then optionally what one call does (`flop`, `bytes` or
/// `tokens`), and the function that builds it at a [`Scale`].
///
/// ```
/// use adamant::Tensor;
/// use adamant_bench::{Checked, Prepared, Scale, check, inputs, workload};
///
/// workload!(double_1k, bytes = 8192.0, |scale: Scale| -> Checked<Prepared> {
///     let n = scale.of(1024, 16);
///     let (host, x) = (inputs::uniform(n, 1), inputs::tensor(&[n], 1));
///     let double = move || &x * 2.0;
///     let again = double.clone();
///     Ok(Prepared::checked(move || double().materialize(), move || check(&again(), 1, check::F32, |i| {
///         let exact = 2.0 * host[i] as f64;
///         (exact, exact.abs())
///     })))
/// });
/// let workload = adamant_bench::registered().into_iter().find(|w| w.name == "double_1k").unwrap();
/// let mut prepared = workload.build(Scale::SMALL).unwrap();
/// (prepared.call)().unwrap();
/// assert!((prepared.verify.unwrap())().unwrap() <= 1.0);
/// ```
#[macro_export]
macro_rules! workload {
    ($name:ident, $build:expr) => { $crate::workload!(@ $name, None, $build); };
    ($name:ident, flop = $x:expr, $build:expr) => { $crate::workload!(@ $name, Some($crate::Rate::Flop($x)), $build); };
    ($name:ident, bytes = $x:expr, $build:expr) => { $crate::workload!(@ $name, Some($crate::Rate::Bytes($x)), $build); };
    ($name:ident, tokens = $x:expr, $build:expr) => { $crate::workload!(@ $name, Some($crate::Rate::Tokens($x)), $build); };
    (@ $name:ident, $rate:expr, $build:expr) => {
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::REGISTERED)]
            #[linkme(crate = $crate::linkme)]
            static WORKLOAD: fn() -> $crate::Workload = || $crate::Workload::new(stringify!($name), $rate, $build);
        };
    };
}
