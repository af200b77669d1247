//! Writes functions of the scalar table, and whole kernel expressions, as text in C-like languages.
//!
//! Key decision: a helper function (erf, digamma, the integer powers) is written once, in the part of WGSL that
//! translates to C word by word. WGSL takes it as it is; C takes the translation, and the functions of `<math.h>`
//! where it has them. So what a C compiler can test on any machine is the arithmetic that runs on a GPU.
//!
//! Architecture invariant: this crate knows no GPU interface and no buffers; kernels' entry points, bindings and
//! index arithmetic belong to the backends.
#![forbid(unsafe_code)]

mod preambles;
mod translate;
mod writer;

pub use preambles::preamble;
pub use translate::wgsl_to_c;
pub use writer::{Program, Sources, type_name, write_expr};

use adamant_ir::{
    DType, ErrorKind,
    scalar::{Binary, Class, Unary},
};

/// A language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// C99 with `<tgmath.h>`. Integers wrap: compile with `-fwrapv`, and with `-ffp-contract=off` for the promised bits.
    C,
    /// WebGPU's shading language, which has neither f64 nor 64-bit integers.
    Wgsl,
    /// The same with naga's 64-bit integers, for adapters that have them.
    WgslWide,
}
impl Dialect {
    fn name(self) -> &'static str {
        match self {
            Dialect::C => "C",
            Dialect::Wgsl | Dialect::WgslWide => "WGSL",
        }
    }
    fn lacks(self, what: impl Into<String>) -> ErrorKind {
        ErrorKind::Unsupported { backend: self.name().into(), what: what.into() }
    }
}

/// What the table says of a function, without its gradient.
struct Texts {
    name: &'static str,
    class: Class,
    float: &'static str,
    int: Option<&'static str>,
}
/// A unary function of `x` as an expression, for a value of `dtype` that [`type_name`] of it holds. The caller rounds
/// and wraps the result; [`write_expr`] does.
///
/// # Errors
/// `Unsupported`, naming the dtype or function that the dialect lacks.
pub fn unary_text(f: Unary, dtype: DType, dialect: Dialect, x: &str) -> Result<String, ErrorKind> {
    let row = f.row();
    let float = if dialect == Dialect::C { row.c } else { row.wgsl };
    Texts { name: row.name, class: row.class, float, int: row.int_text }.render(dtype, dialect, &[("x", x)])
}
/// A binary function of `x` and `y` as an expression. As [`unary_text`].
///
/// # Errors
/// As [`unary_text`].
pub fn binary_text(f: Binary, dtype: DType, dialect: Dialect, x: &str, y: &str) -> Result<String, ErrorKind> {
    let row = f.row();
    let float = if dialect == Dialect::C { row.c } else { row.wgsl };
    Texts { name: row.name, class: row.class, float, int: row.int_text }.render(dtype, dialect, &[("x", x), ("y", y)])
}
impl Texts {
    fn render(self, dtype: DType, dialect: Dialect, operands: &[(&str, &str)]) -> Result<String, ErrorKind> {
        let register = type_name(dtype, dialect)?;
        if dtype.is_float() {
            if dtype == DType::F64 && self.float.contains("adm_") {
                return Err(dialect.lacks(format!("{} of f64", self.name)));
            }
            return Ok(translate::substitute(self.float, operands));
        }
        let text = self.int.unwrap_or(self.float);
        if dtype == DType::Bool {
            // Arithmetic of truth values is that of 0 and 1, and what is not 0 is true.
            let wide: Vec<(&str, String)> =
                operands.iter().map(|(name, of)| (*name, if dialect == Dialect::C { format!("((int32_t)({of}))") } else { format!("i32({of})") })).collect();
            let wide: Vec<(&str, &str)> = wide.iter().map(|(name, of)| (*name, of.as_str())).collect();
            let value = int_text(text, "i32", dialect, &wide);
            return Ok(if self.class == Class::ToBool { value } else { format!("({value}) != 0") });
        }
        let t = if dialect == Dialect::C { dtype.name() } else { register };
        Ok(int_text(text, t, dialect, operands))
    }
}
fn int_text(text: &str, t: &str, dialect: Dialect, operands: &[(&str, &str)]) -> String {
    let text = preambles::instance(text, t);
    translate::substitute(&if dialect == Dialect::C { wgsl_to_c(&text, true) } else { text }, operands)
}
