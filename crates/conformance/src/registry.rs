//! The registry of public functions: what each is called with, on which dtypes, how often it can be differentiated, and
//! which wrong calls give which kind of error. Everything else (devices, layouts, modes) follows from it by rule.
//!
//! A public function that is missing here fails a test. The rows of the scalar tables need no entry: [`entries`] adds them.
use crate::{
    data::{Spread, draw},
    random::Random,
};
use adamant_core::{
    DType, HostArray, Result, Shape, Tensor,
    op::Side,
    scalar::{Binary, Class, Unary},
};

mod edges;
mod functional;
mod tensor;

/// Floats of every width.
pub const FLOAT: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::BF16];
/// Floats in which linear algebra runs.
pub const WIDE: &[DType] = &[DType::F32, DType::F64];
/// The float that layers of codes compute in.
pub const SINGLE: &[DType] = &[DType::F32];
/// Numbers.
pub const NUMBER: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8, DType::I8, DType::U32];
/// Everything.
pub const ANY: &[DType] = &DType::COMPUTE;
/// Integers.
pub const INTEGER: &[DType] = &[DType::I64, DType::I32, DType::U8, DType::I8, DType::U32];

/// One input of a sample.
#[derive(Clone, Debug)]
pub struct SampleInput {
    /// its shape
    pub shape: Vec<usize>,
    /// its elements
    pub elements: Elements,
    /// its dtype, if it is not that of the sample
    pub dtype: Option<DType>,
    /// is a gradient asked for (where the dtype has one)?
    pub differentiable: bool,
}
/// What an input's elements are.
#[derive(Clone, Debug)]
pub enum Elements {
    /// drawn
    Drawn(Spread),
    /// these
    Given(Vec<f64>),
    /// a symmetric positive definite matrix (per batch)
    Definite,
}
/// Numbers in [-2, 2].
pub fn v(shape: &[usize]) -> SampleInput {
    SampleInput { shape: shape.to_vec(), elements: Elements::Drawn(Spread::Within(-2.0, 2.0)), dtype: None, differentiable: true }
}
/// Numbers in a range.
pub fn within(shape: &[usize], low: f64, high: f64) -> SampleInput {
    SampleInput { elements: Elements::Drawn(Spread::Within(low, high)), ..v(shape) }
}
/// Numbers in [0.5, 2].
pub fn p(shape: &[usize]) -> SampleInput {
    within(shape, 0.5, 2.0)
}
/// Numbers with many ties.
pub fn ties(shape: &[usize]) -> SampleInput {
    SampleInput { elements: Elements::Drawn(Spread::Coarse), differentiable: false, ..v(shape) }
}
/// Given numbers.
pub fn given(shape: &[usize], values: &[f64]) -> SampleInput {
    SampleInput { elements: Elements::Given(values.to_vec()), ..v(shape) }
}
/// A symmetric positive definite matrix.
pub fn definite(shape: &[usize]) -> SampleInput {
    SampleInput { elements: Elements::Definite, ..v(shape) }
}
/// i64 indices below `n`, repeated ones among them.
pub fn index(shape: &[usize], n: usize) -> SampleInput {
    SampleInput { elements: Elements::Drawn(Spread::Below(n)), dtype: Some(DType::I64), differentiable: false, ..v(shape) }
}
/// Given i64 numbers.
pub fn whole(shape: &[usize], values: &[f64]) -> SampleInput {
    SampleInput { dtype: Some(DType::I64), differentiable: false, ..given(shape, values) }
}
/// true and false.
pub fn mask(shape: &[usize]) -> SampleInput {
    SampleInput { dtype: Some(DType::Bool), ..ties(shape) }
}
/// The input without a gradient.
pub fn fixed(input: SampleInput) -> SampleInput {
    SampleInput { differentiable: false, ..input }
}
impl SampleInput {
    /// The input's elements in a sample of `dtype`.
    pub fn draw(&self, dtype: DType, random: &mut Random) -> HostArray {
        let dtype = self.dtype.unwrap_or(dtype);
        let shape = Shape::new(&self.shape).unwrap_or(Shape::SCALAR);
        match &self.elements {
            Elements::Drawn(spread) => draw(shape, dtype, *spread, random),
            Elements::Given(values) if dtype.is_float() => HostArray::floats(shape, dtype, values.iter().copied()),
            Elements::Given(values) => HostArray::ints(shape, dtype, values.iter().map(|&v| v as i64)),
            Elements::Definite => {
                let n = shape.last().copied().unwrap_or(1);
                let mut out = Vec::with_capacity(shape.elements());
                for _ in 0..shape.elements() / (n * n).max(1) {
                    let a: Vec<f64> = (0..n * n).map(|_| random.unit() - 0.5).collect();
                    for i in 0..n {
                        for j in 0..n {
                            let product: f64 = (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum();
                            // Distinct eigenvalues: their gradients divide by the differences.
                            out.push(product + if i == j { 1.0 + 0.5 * i as f64 } else { 0.0 });
                        }
                    }
                }
                HostArray::floats(shape, dtype, out)
            }
        }
    }
}
/// Calls the function.
pub type Call = fn(&[Tensor]) -> Vec<Tensor>;

/// What scalar rows are called with.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// an entry's own closure
    Call(Call),
    /// a row of the unary table
    Unary(Unary),
    /// a row of the binary table
    Binary(Binary),
    /// a row of the binary table with a number on one side
    Number(Binary, Side, f64),
}
impl Function {
    /// Calls it.
    pub fn call(self, x: &[Tensor]) -> Vec<Tensor> {
        match self {
            Function::Call(f) => f(x),
            Function::Unary(f) => vec![x[0].unary(f)],
            Function::Binary(f) => vec![x[0].binary(f, &x[1])],
            Function::Number(f, Side::Right, number) => vec![x[0].binary(f, number)],
            Function::Number(f, Side::Left, number) => vec![x[0].binary_reversed(f, number)],
        }
    }
}
/// A call that is refused.
#[derive(Clone, Copy, Debug)]
pub struct WrongCall {
    /// the kind of its error
    pub kind: &'static str,
    /// the call
    pub call: Call,
    /// its text
    pub text: &'static str,
}
/// One sample of one public function. A function may have several.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `Tensor::name` or `functional::name`
    pub name: String,
    /// how often it can be differentiated: 0, 1 or 2
    pub order: u8,
    /// dtypes of its inputs
    pub dtypes: Vec<DType>,
    /// its inputs
    pub inputs: Vec<SampleInput>,
    /// the call
    pub function: Function,
    /// the call as it stands in the registry; of a row of the scalar tables nothing
    pub text: &'static str,
    /// wrong calls with the same inputs (drawn as f32 where the function takes it), and the kind of their error
    pub errors: Vec<WrongCall>,
    /// the narrowest dtype that an f64 passes through on its way
    pub through: DType,
}

/// What a function may return, as a list.
pub trait Outputs {
    /// The list.
    fn outputs(self) -> Vec<Tensor>;
}
impl Outputs for Tensor {
    fn outputs(self) -> Vec<Tensor> {
        vec![self]
    }
}
impl Outputs for (Tensor, Tensor) {
    fn outputs(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}
impl Outputs for (Tensor, Tensor, Tensor) {
    fn outputs(self) -> Vec<Tensor> {
        vec![self.0, self.1, self.2]
    }
}
impl Outputs for Vec<Tensor> {
    fn outputs(self) -> Vec<Tensor> {
        self
    }
}
impl<T: Outputs> Outputs for Result<T> {
    fn outputs(self) -> Vec<Tensor> {
        self.map_or_else(|e| vec![Tensor::failed(e)], Outputs::outputs)
    }
}

/// `"Tensor::name" order DTYPES [inputs] |x| call; "kind" => wrong call, ..`
macro_rules! samples {
    ($($name:literal $order:literal $dtypes:ident [$($input:expr),* $(,)?] |$x:ident| $call:expr $(; $kind:literal => $wrong:expr)*),* $(,)?) => {
        vec![$($crate::registry::Entry {
            name: $name.into(),
            order: $order,
            dtypes: $dtypes.to_vec(),
            inputs: vec![$($input),*],
            function: $crate::registry::Function::Call(|$x| $crate::registry::Outputs::outputs($call)),
            text: stringify!($call),
            errors: vec![$($crate::registry::WrongCall {
                kind: $kind,
                call: |$x: &[Tensor]| $crate::registry::Outputs::outputs($wrong),
                text: stringify!($wrong),
            }),*],
            through: adamant_core::DType::F64,
        }),*]
    };
}
use samples;

/// Operands of binary rows by which nothing can be differentiated, as in PyTorch: asking for it is a typed error.
pub const NO_GRADIENT: &[(&str, usize)] = &[("igamma", 0), ("igammac", 0), ("zeta", 0)];

/// Every sample of every public function, those of the scalar tables included.
pub fn entries() -> Vec<Entry> {
    let mut all = tensor::samples();
    all.extend(functional::samples());
    all.extend(edges::samples());
    // Functions of floats take integers too, as f32.
    for &f in Unary::ALL {
        let row = f.row();
        let order = if row.differentiable { 2 } else { 0 };
        for shape in [&[2, 3][..], &[], &[0, 2]] {
            // Away from the ends of the domain, where differences would leave it.
            let (low, high) = row.domain;
            let margin = (high - low) * 0.05;
            let inputs = vec![within(shape, low + margin, high - margin)];
            all.push(Entry {
                name: format!("Tensor::{}", row.name),
                order,
                // Flipping the bit of a bool is its negation.
                dtypes: DType::COMPUTE
                    .into_iter()
                    .filter(|&d| row.class == Class::Float || f.infer(d).is_ok() || (f == Unary::BitNot && d == DType::Bool))
                    .collect(),
                inputs,
                function: Function::Unary(f),
                text: "",
                errors: Vec::new(),
                through: DType::F64,
            });
        }
    }
    for &f in Binary::ALL {
        let row = f.row();
        let order = if row.differentiable { 2 } else { 0 };
        let ((a, b), (c, d)) = row.domain;
        for (left, right) in [(&[2, 3][..], &[2, 3][..]), (&[2, 1], &[3]), (&[], &[2]), (&[0], &[1])] {
            let shrink = |low: f64, high: f64| (low + (high - low) * 0.05, high - (high - low) * 0.05);
            let ((a, b), (c, d)) = (shrink(a, b), shrink(c, d));
            // A whole divisor is not zero.
            let (c, d) = if matches!(row.name, "floor_divide" | "remainder" | "fmod" | "div_trunc") { (1.0, d.max(3.0)) } else { (c, d) };
            all.push(Entry {
                name: format!("Tensor::{}", row.name),
                order,
                dtypes: DType::COMPUTE.into_iter().filter(|&d| row.class == Class::Float || f.infer(d).is_ok()).collect(),
                inputs: [within(left, a, b), within(right, c, d)]
                    .into_iter()
                    .enumerate()
                    .map(|(k, input)| if NO_GRADIENT.contains(&(row.name, k)) { fixed(input) } else { input })
                    .collect(),
                function: Function::Binary(f),
                text: "",
                errors: Vec::new(),
                through: DType::F64,
            });
        }
        // A third of the way through the domain of the side that is a number: a fraction, so floats only.
        let third = |(low, high): (f64, f64)| low + (high - low) / 3.0;
        for (operand, side, tensor, number) in [(0, Side::Right, row.domain.0, third(row.domain.1)), (1, Side::Left, row.domain.1, third(row.domain.0))] {
            let input = within(&[2, 3], tensor.0 + (tensor.1 - tensor.0) * 0.05, tensor.1 - (tensor.1 - tensor.0) * 0.05);
            all.push(Entry {
                name: format!("Tensor::{}", row.name),
                order,
                dtypes: FLOAT.iter().copied().filter(|&d| f.infer(d).is_ok()).collect(),
                inputs: vec![if NO_GRADIENT.contains(&(row.name, operand)) { fixed(input) } else { input }],
                function: Function::Number(f, side, number),
                text: "",
                errors: Vec::new(),
                through: DType::F64,
            });
        }
    }
    all.retain(|entry| !entry.dtypes.is_empty());
    all
}

/// Public functions that need no entry, with the reason.
pub const EXCLUDED: &[(&str, &str)] = &[
    ("failed error ok try_meta shape dims numel size nbytes dtype device rank is_tracked tracked detach value_address", "accessors of a handle: no op"),
    ("float double half bfloat16 long int short char byte bool type_as", "`cast`, which has an entry, by other names"),
    ("apply apply_many apply_many_on unary binary binary_reversed", "dispatch, through which every entry goes"),
    ("shape_only", "a shape without a value: to read it is an error, and every entry reads"),
    ("from_vec from_vec_on from_slice from_iter scalar from_nested from_literal from_literal_as", "adopt host data; every entry's inputs are made by them"),
    ("from_ndarray to_ndarray into_ndarray", "adopt and read host data in the arrays of another crate (feature `ndarray`)"),
    ("float_power", "`pow` of f64, which a device may not have; compared with PyTorch beside it"),
    ("full_on zeros_on ones_on eye_on arange_on", "the forms with a device of functions that have an entry"),
    (
        "materialize read_later to_vec to_vec_as into_vec to_bytes item to_array to_rows equal allclose is_finite_all find_non_finite",
        "reads: every entry is read",
    ),
    ("backward backward_keep backward_graph backward_with", "what the gradient mode is made of"),
    ("register_hook retain_grad", "of the walk back, not of the value: tested beside the modules' hooks"),
    ("composite composite1 on_host", "applies composites, whose public functions have entries"),
    ("to", "moves between devices; fuzzed as a primitive of its own"),
    ("pin_memory is_pinned", "of where elements of the host lie, not of their values; tested beside the backend that pins"),
    (
        "rand randn rand_dtype randn_dtype rand_like randn_like randint_like bernoulli multinomial poisson normal svd_lowrank pca_lowrank randint randperm gumbel_softmax dropout alpha_dropout feature_dropout feature_alpha_dropout",
        "draws from an Rng cell: tested by their bits and moments beside the generator",
    ),
    ("empty", "promises nothing about its elements"),
];

/// Primitives and composites that no entry differentiates, with the reason. (Rows of the scalar tables say so themselves.)
pub const WITHOUT_RULE: &[(&str, &str)] = &[
    ("const, iota, randombits", "nothing flows into them"),
    ("bitcast, argreduce(max), argreduce(min)", "they give bits and indices"),
    ("stopgrad", "it stops gradients"),
    ("adamant.all_finite", "it gives true or false"),
    ("transfer, collective", "tested by the fuzzer, whose graphs have several devices and ranks"),
    (
        "adamant.cross_entropy_with_backward",
        "takes the place of a loss and its gradient in a plan, which no tape sees; compared with both by a backend that claims it",
    ),
    ("adamant.ldl, adamant.reflections", "their factors have no gradient, as in PyTorch: asking for it is an error"),
    ("adamant.lu_order", "it gives an order"),
    ("adamant.search_sorted, adamant.true_places", "it gives places"),
    ("adamant.poisson", "it gives counts"),
    ("adamant.cofactors", "the gradient of adamant.det, differentiated by its second order"),
    ("adamant.dropout", "draws from an Rng cell: its gradient is tested beside it with the mask it drew"),
    ("adamant.dequantize", "codes are no numbers that could be moved a little"),
    ("adamant.quantized_linear", "its input counts as not rounded, which is a convention; core/tests/quantized.rs has it"),
    ("adamant.quantized_conv", "as adamant.quantized_linear"),
    ("adamant.quantized_attention", "it computes in f32, too short for differences; core/tests/token_codes.rs has attention over the codes' numbers"),
    ("adamant.fake_quantize", "its gradient is a convention: straight through inside the range"),
];
