//! Programs whose loops were compiled ahead of time: an element's instructions follow one another in registers, where the
//! interpreter runs a loop for each, and a large result goes by non-temporal stores as it is made. `cargo xtask prefuse` writes
//! the table from the programs that optimizers, gradients of activations and layers really make; any other program is
//! interpreted, with the same bits.
//!
//! A program is known by its [`signature`]: its instructions without the values of its numbers. Must not know layouts.
mod table;
#[cfg(test)]
mod tests;

use crate::{
    isa::Isa,
    simd::{Arithmetic, Mask, has_vectors, lockstep::LoopStreams},
};
use adamant_runtime::{
    DType,
    expr::{Expr, Instr, Reg},
};
use std::{collections::HashMap, fmt::Write, sync::LazyLock};

/// Functions of a signature, by the names of core's scalar table. What is not here is interpreted.
const UNARY: &[&str] =
    &["neg", "abs", "square", "relu", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "erf"];
const BINARY: &[&str] = &["add", "sub", "mul", "div", "maximum", "minimum"];
const COMPARE: &[&str] = &["eq", "ne", "lt", "le", "gt", "ge"];
/// More would not be held in registers.
const MOST: usize = 40;

/// The program as text, one word for each instruction: `x` a loaded element, `c` a number that is the same for all, a
/// function with the places of what it takes. Behind `->` stand the places of the results. `None`: it is not one of f32
/// that a loop could be compiled for.
pub fn signature(expr: &Expr, results: &[Reg]) -> Option<String> {
    let mut text = String::new();
    let mut functions = 0;
    for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes) {
        let of = |r: &Reg| expr.dtypes[*r as usize];
        let word = match instr {
            Instr::Load(k) if dtype == DType::F32 => format!("x{k}"),
            Instr::Arg(_) | Instr::Const(_) if dtype == DType::F32 => "c".into(),
            Instr::Unary(f, x) if dtype == DType::F32 && of(x) == DType::F32 && UNARY.contains(&f.name()) => format!("{}({x})", f.name()),
            Instr::Binary(f, x, y) if of(x) == DType::F32 && of(y) == DType::F32 => match dtype {
                DType::F32 if BINARY.contains(&f.name()) => format!("{}({x},{y})", f.name()),
                DType::Bool if COMPARE.contains(&f.name()) => format!("{}({x},{y})", f.name()),
                _ => return None,
            },
            Instr::Select(c, x, y) if dtype == DType::F32 && of(c) == DType::Bool => format!("select({c},{x},{y})"),
            _ => return None,
        };
        functions += word.contains('(') as usize;
        let _ = write!(text, "{word} ");
    }
    let computed = |r: &Reg| !matches!(expr.instrs[*r as usize], Instr::Load(_) | Instr::Arg(_) | Instr::Const(_));
    let fits = (1..=MOST).contains(&functions) && results.iter().all(|r| expr.dtypes[*r as usize] == DType::F32 && computed(r));
    text += "->";
    results.iter().for_each(|r| {
        let _ = write!(text, " {r}");
    });
    fits.then_some(text)
}

/// A loop that was compiled ahead of time: it takes what the program loads, and its numbers, each in the order of their places.
pub(crate) type Loop = fn(Isa, &LoopStreams<'_>) -> bool;
/// The loop of a program, if there is one for this set.
pub(crate) fn find(expr: &Expr, results: &[Reg], isa: Isa) -> Option<Loop> {
    static TABLE: LazyLock<HashMap<&str, Loop>> = LazyLock::new(|| table::LOOPS.iter().copied().collect());
    if !has_vectors(isa) {
        return None;
    }
    TABLE.get(signature(expr, results)?.as_str()).copied()
}

/// Whether a program is so long that its loop has one copy of it, which then takes little longer and is compiled several times
/// faster: by the functions of the signature, of which some are many instructions each.
pub(super) const fn is_long(signature: &str) -> bool {
    const MANY: usize = 8;
    let text = signature.as_bytes();
    let (mut functions, mut at) = (0, 0);
    while at < text.len() {
        functions += match text[at] {
            b'(' => 1,
            // exp, log, tanh, erf, sigmoid, silu, gelu: no other word has `x` behind `e`, or these beginnings.
            b'e' if at + 1 < text.len() && matches!(text[at + 1], b'x' | b'r') => MANY,
            b'l' if at + 1 < text.len() && text[at + 1] == b'o' => MANY,
            b't' if at + 1 < text.len() && text[at + 1] == b'a' => MANY,
            b's' if at + 1 < text.len() && text[at + 1] == b'i' => MANY,
            b'g' if at + 2 < text.len() && text[at + 2] == b'l' => MANY,
            _ => 0,
        };
        at += 1;
    }
    functions >= MANY
}

/// Makes the table: for each signature the function of an element, in the words below.
macro_rules! loops {
    ($($(#[$from:meta])* $name:ident $signature:literal ($($x:ident)* | $($c:ident)*) -> $outputs:literal $body:block)*) => {
        /// Signatures and their loops.
        pub(super) const LOOPS: &[(&str, super::Loop)] = &[$(($signature, |isa, streams| $crate::simd::dispatch_vectors(isa, $name(streams)).unwrap_or(false))),*];
        $(
            $(#[$from])*
            struct $name<'a>(&'a $crate::simd::lockstep::LoopStreams<'a>);
            impl $crate::simd::SimdKernel for $name<'_> {
                type Output = bool;
                #[inline(always)]
                fn run<S: $crate::simd::Simd>(self) -> bool {
                    const LONG: bool = super::is_long($signature);
                    self.0.each::<S, _, _, $outputs, LONG>(
                        #[inline(always)]
                        |[$($x),*], [$($c),*]| $body,
                    )
                }
            }
        )*
    };
}
use loops;

/// The words of the table. Each is the interpreter's instruction: rounded once, the same for NaN.
#[allow(dead_code, reason = "the vocabulary is complete; the table uses parts of it")]
mod words {
    use super::{Arithmetic, Mask};
    use crate::math::elementary;

    macro_rules! words {
        ($($name:ident($($x:ident),*) = $value:expr;)*) => { $(
            #[inline(always)]
            pub fn $name<V: Arithmetic>($($x: V),*) -> V {
                $value
            }
        )* };
    }
    words! {
        add(x, y) = x.add(y);
        sub(x, y) = x.sub(y);
        mul(x, y) = x.mul(y);
        div(x, y) = x.div(y);
        maximum(x, y) = V::select(x.is_nan(), x, x.max(y));
        minimum(x, y) = V::select(x.is_nan(), x, x.min(y));
        neg(x) = x.neg();
        abs(x) = x.abs();
        square(x) = x.mul(x);
        relu(x) = V::select(x.le(V::constant(0.0)), V::constant(0.0), x);
        sqrt(x) = x.sqrt();
        rsqrt(x) = V::constant(1.0).div(x.sqrt());
        reciprocal(x) = V::constant(1.0).div(x);
        exp(x) = elementary::exp(x);
        expm1(x) = elementary::expm1(x);
        log(x) = elementary::log(x);
        log1p(x) = elementary::log1p(x);
        tanh(x) = elementary::tanh(x);
        sigmoid(x) = elementary::sigmoid(x);
        silu(x) = elementary::silu(x);
        gelu(x) = elementary::gelu(x);
        gelu_tanh(x) = elementary::gelu_tanh(x);
        erf(x) = elementary::erf(x);
    }
    macro_rules! comparisons {
        ($($name:ident($x:ident, $y:ident) = $value:expr;)*) => { $(
            #[inline(always)]
            pub fn $name<V: Arithmetic>($x: V, $y: V) -> V::Mask {
                $value
            }
        )* };
    }
    comparisons! {
        eq(x, y) = x.eq(y);
        ne(x, y) = x.eq(y).not();
        lt(x, y) = x.lt(y);
        le(x, y) = x.le(y);
        gt(x, y) = y.lt(x);
        ge(x, y) = y.le(x);
    }
    #[inline(always)]
    pub fn select<V: Arithmetic>(mask: V::Mask, yes: V, no: V) -> V {
        V::select(mask, yes, no)
    }
}
