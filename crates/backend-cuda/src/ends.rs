//! What comes behind the sums of a matrix product, as far as cuBLASLt has it: read from the program of the product's end, and
//! from nothing else. `activation(± sums + addends)` is one launch of the library's, which rounds once; op by op each step
//! rounds. Addends are at most two, of which one may be a number for each column (the library's bias) and one a matrix that lies as
//! the result (its C); how they lie is no part of the program, and `products` looks at it.
//!
//! | end | the library's |
//! |---|---|
//! | `-x` | factor -1 |
//! | `x + bias`, `x + matrix` | `BIAS`; C with factor 1 |
//! | `relu` of any of these | `RELU`, `RELU_BIAS` |
//! | `gelu_tanh` of any of these | `GELU`, `GELU_BIAS` |
//!
//! The library's GELU is the one by tanh: `gelu` by erf is another function of the table and never becomes it. Its backward epilogues
//! are none of these: DRELU wants a mask of bits, BGRAD writes a sum over rows beside the result, and a product's end has
//! neither.
//!
//! Must not know: sizes, addresses, the library.
use crate::{blaslt::LtActivation, paths::FastPath};
use adamant_runtime::{
    DType,
    expr::Instr,
    product::{Product, Sums},
    scalar::{Binary, Unary},
};
use smallvec::{SmallVec, smallvec};

/// `activation(± sums + addends)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LtEnding {
    /// sums are taken with the other sign
    pub negated: bool,
    /// which inputs of the end's program are added; 0 is the sums
    pub addends: SmallVec<[u16; 2]>,
    pub activation: LtActivation,
}
/// A bias and a matrix.
const ADDENDS: usize = 2;

/// What comes behind the sums, if the library has it.
pub(crate) fn read(product: &Product) -> Option<LtEnding> {
    let (dtype, end) = (product.dtype, &product.epilogue);
    let is_plain = product.sums == Sums::Matmul && !product.accumulate && product.prologue.iter().all(|p| p.is_identity() && p.dtype() == dtype);
    let is_of_one_dtype = end.expr.dtypes.iter().all(|d| *d == dtype);
    // Of f64 the library has no GELU, and our kernels no end to fall back on.
    if !is_plain || !is_of_one_dtype || !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return None;
    }
    let at = |register: u16| end.expr.instrs.get(register as usize).copied();
    let (activation, value) = match at(end.value)? {
        Instr::Unary(Unary::Relu, x) => (LtActivation::Relu, x),
        Instr::Unary(Unary::GeluTanh, x) => (LtActivation::GeluTanh, x),
        _ => (LtActivation::None, end.value),
    };
    let mut read = LtEnding { negated: false, addends: SmallVec::new(), activation };
    let (mut todo, mut sums): (SmallVec<[u16; 4]>, usize) = (smallvec![value], 0);
    while let Some(register) = todo.pop() {
        match at(register)? {
            Instr::Binary(Binary::Add, x, y) => todo.extend([y, x]),
            Instr::Load(0) => sums += 1,
            Instr::Unary(Unary::Neg, x) if at(x) == Some(Instr::Load(0)) => {
                sums += 1;
                read.negated = true;
            }
            Instr::Load(input) if !read.addends.contains(&input) => read.addends.push(input),
            _ => return None,
        }
        if sums > 1 || read.addends.len() > ADDENDS {
            return None;
        }
    }
    let is_something = read.negated || !read.addends.is_empty() || activation != LtActivation::None;
    (sums == 1 && is_something).then_some(read)
}
impl LtEnding {
    /// The fast paths that it takes.
    pub fn paths(&self, dtype: DType) -> impl Iterator<Item = FastPath> {
        let added = (!self.addends.is_empty()).then_some(FastPath::BiasEpilogue);
        let activation = match self.activation {
            LtActivation::None => None,
            LtActivation::Relu => Some(FastPath::ReluEpilogue),
            LtActivation::GeluTanh if dtype == DType::F32 => Some(FastPath::WideGeluEpilogue),
            LtActivation::GeluTanh => Some(FastPath::GeluEpilogue),
        };
        added.into_iter().chain(activation)
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use adamant_runtime::{
        expr::{Expr, Reg},
        product::End,
    };

    fn product(dtype: DType, write: impl FnOnce(&mut Expr, Reg) -> Reg) -> Product {
        let mut expr = Expr::default();
        let x = expr.push(Instr::Load(0), dtype);
        let value = write(&mut expr, x);
        Product {
            sums: Sums::Matmul,
            acc: Product::accumulator(dtype),
            dtype,
            prologue: [End::identity(dtype), End::identity(dtype)],
            epilogue: End { expr, value },
            accumulate: false,
        }
    }
    type Write = fn(&mut Expr, Reg) -> Reg;
    const T: DType = DType::BF16;
    fn load(e: &mut Expr, k: u16) -> Reg {
        e.push(Instr::Load(k), T)
    }
    fn add(e: &mut Expr, x: Reg, y: Reg) -> Reg {
        e.push(Instr::Binary(Binary::Add, x, y), T)
    }
    fn unary(e: &mut Expr, f: Unary, x: Reg) -> Reg {
        e.push(Instr::Unary(f, x), T)
    }
    fn more(e: &mut Expr, x: Reg, k: u16) -> Reg {
        let b = load(e, k);
        add(e, x, b)
    }
    fn before(e: &mut Expr, k: u16, x: Reg) -> Reg {
        let b = load(e, k);
        add(e, b, x)
    }
    fn all_more(e: &mut Expr, x: Reg, loads: &[u16]) -> Reg {
        loads.iter().fold(x, |sum, k| more(e, sum, *k))
    }
    fn behind_bias(e: &mut Expr, f: Unary, x: Reg) -> Reg {
        let sum = more(e, x, 1);
        unary(e, f, sum)
    }
    fn less(e: &mut Expr, x: Reg, k: u16) -> Reg {
        let b = load(e, k);
        e.push(Instr::Binary(Binary::Sub, x, b), T)
    }
    fn sum_of(e: &mut Expr, terms: [Instr; 2]) -> Reg {
        let [x, y] = terms.map(|term| e.push(term, T));
        add(e, x, y)
    }
    /// Of what `f` gives, what `then` gives.
    fn then(e: &mut Expr, f: Unary, x: Reg, then: Write) -> Reg {
        let y = unary(e, f, x);
        then(e, y)
    }
    #[test]
    fn what_the_library_has_is_read_from_the_program_and_nothing_else_is() {
        use LtActivation::{GeluTanh, None as Plain, Relu};
        let cases: [(&str, Write, Option<(bool, &[u16], LtActivation)>); 19] = [
            ("x", |_, x| x, None),
            ("-x", |e, x| unary(e, Unary::Neg, x), Some((true, &[], Plain))),
            ("x + b", |e, x| more(e, x, 1), Some((false, &[1], Plain))),
            ("b + x", |e, x| before(e, 1, x), Some((false, &[1], Plain))),
            ("b + -x", |e, x| then(e, Unary::Neg, x, |e, n| before(e, 1, n)), Some((true, &[1], Plain))),
            ("x + b + c", |e, x| all_more(e, x, &[1, 2]), Some((false, &[1, 2], Plain))),
            ("relu(x)", |e, x| unary(e, Unary::Relu, x), Some((false, &[], Relu))),
            ("relu(x + b)", |e, x| behind_bias(e, Unary::Relu, x), Some((false, &[1], Relu))),
            ("gelu_tanh(x + b)", |e, x| behind_bias(e, Unary::GeluTanh, x), Some((false, &[1], GeluTanh))),
            ("gelu(x)", |e, x| unary(e, Unary::Gelu, x), None),
            ("gelu(x + b)", |e, x| behind_bias(e, Unary::Gelu, x), None),
            ("relu(x) + b", |e, x| then(e, Unary::Relu, x, |e, r| more(e, r, 1)), None),
            ("gelu_tanh(relu(x))", |e, x| then(e, Unary::Relu, x, |e, r| unary(e, Unary::GeluTanh, r)), None),
            ("x + x", |e, x| add(e, x, x), None),
            ("x + b + b", |e, x| all_more(e, x, &[1, 1]), None),
            ("b + c", |e, _| sum_of(e, [Instr::Load(1), Instr::Load(2)]), None),
            ("x - b", |e, x| less(e, x, 1), None),
            ("x + 1", |e, _| sum_of(e, [Instr::Load(0), Instr::Arg(0)]), None),
            ("x + b + c + d", |e, x| all_more(e, x, &[1, 2, 3]), None),
        ];
        for (name, write, expected) in cases {
            let ending = read(&product(T, write));
            let expected = expected.map(|(negated, addends, activation)| LtEnding { negated, addends: addends.into(), activation });
            assert_eq!(ending, expected, "{name}");
        }
    }
    #[test]
    fn ends_of_other_dtypes_and_operands_with_programs_are_not_the_librarys() {
        let relu = |dtype: DType| product(dtype, |e, x| e.push(Instr::Unary(Unary::Relu, x), dtype));
        for dtype in DType::COMPUTE {
            let is_had = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
            assert_eq!(read(&relu(dtype)).is_some(), is_had, "{dtype}");
        }
        // A bias of f32 that is rounded first, a result that is converted.
        assert_eq!(
            read(&product(T, |e, x| {
                let b = e.push(Instr::Load(1), DType::F32);
                let b = e.push(Instr::Cast(b), T);
                add(e, x, b)
            })),
            None
        );
        assert_eq!(read(&product(T, |e, x| e.push(Instr::Cast(x), DType::F32))), None);
        let mut widened = relu(DType::F32);
        widened.prologue[1].expr.dtypes[0] = DType::BF16;
        assert_eq!(read(&widened), None);
        assert_eq!(read(&Product { accumulate: true, ..relu(T) }), None);
    }
}
