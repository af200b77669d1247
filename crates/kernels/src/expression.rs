//! A whole [`Expr`] as the statements of a function body: one variable per register, one rounding per instruction.
use crate::{Dialect, binary_text, preamble, unary_text};
use adamant_ir::{
    DType, ErrorKind, Scalar,
    expr::{Expr, Instr},
    reference::{round_float, wrap_int},
};

/// How a kernel names what its program reads.
pub struct Sources<'a> {
    /// input k's element at this position, of its register's type
    pub load: &'a dyn Fn(u16) -> String,
    /// argument k, of its register's type
    pub arg: &'a dyn Fn(u16) -> String,
    /// the coordinate along an axis, u32
    pub index: &'a dyn Fn(u8) -> String,
    /// word w of the key that input k holds, u32
    pub key: &'a dyn Fn(u16, usize) -> String,
    /// the row-major index of the element, its low and high half, u32
    pub element: [&'a str; 2],
}
/// An expression's text.
pub struct ExprText {
    /// definitions that go before the function
    pub preamble: String,
    /// statements that define the variable `r<k>` for each register k
    pub body: String,
}

/// Writes the program, in the dialect itself. Register k becomes the variable `r<k>`.
///
/// # Errors
/// `Unsupported`, naming the dtype or function that the dialect lacks.
pub fn write_expr(expr: &Expr, dialect: &dyn Dialect, sources: &Sources<'_>) -> Result<ExprText, ErrorKind> {
    let mut body = String::new();
    for (k, (instr, &dtype)) in expr.instrs.iter().zip(&expr.dtypes).enumerate() {
        let r = |reg: u16| format!("r{reg}");
        let of = |reg: u16| expr.dtypes.get(reg as usize).copied().ok_or_else(|| ErrorKind::Internal(format!("register {reg} is read before it is written")));
        let value = match *instr {
            Instr::Load(n) => dialect.source(&(sources.load)(n)),
            Instr::Arg(n) => dialect.source(&(sources.arg)(n)),
            Instr::Const(s) => constant(s, dtype, dialect)?,
            Instr::Index(axis) => dialect.convert(&dialect.source(&(sources.index)(axis)), DType::U32, dtype)?,
            Instr::Random(n) => {
                let key: Vec<String> = (0..4).map(|w| dialect.source(&(sources.key)(n, w))).collect();
                format!("adm_random_bits({}, {}, {})", key.join(", "), sources.element[0], sources.element[1])
            }
            Instr::Unary(f, x) => dialect.fitted(unary_text(f, of(x)?, dialect, &r(x))?, dtype),
            Instr::Binary(f, x, y) => dialect.fitted(binary_text(f, of(x)?, dialect, &r(x), &r(y))?, dtype),
            Instr::Select(c, x, y) => dialect.select(&r(c), &r(x), &r(y)),
            Instr::Cast(x) => dialect.convert(&r(x), of(x)?, dtype)?,
            Instr::Bitcast(x) => bitcast(&r(x), of(x)?, dtype, dialect)?,
        };
        body.push_str(&dialect.define(dialect.register(dtype)?, &r(k as u16), &value));
    }
    Ok(ExprText { preamble: preamble(&body, dialect), body })
}
fn bitcast(x: &str, from: DType, to: DType, dialect: &dyn Dialect) -> Result<String, ErrorKind> {
    dialect.register(to)?;
    dialect.register(from)?;
    if from == to {
        return Ok(x.to_string());
    }
    if from.is_int() && to.is_int() || from == DType::Bool && to.size() == 1 && !to.is_float() {
        return dialect.convert(x, from, to);
    }
    dialect.bitcast(x, from, to)
}
/// A constant of exactly the value.
fn constant(s: Scalar, dtype: DType, dialect: &dyn Dialect) -> Result<String, ErrorKind> {
    dialect.register(dtype)?;
    if dtype == DType::Bool {
        return Ok((s.to_f64() != 0.0).to_string());
    }
    if dtype.is_float() {
        let v = round_float(s.to_f64(), dtype);
        return Ok(match (v.is_nan(), v.is_infinite()) {
            (true, _) => "adm_nan()".into(),
            (_, true) if v < 0.0 => "-adm_inf()".into(),
            (_, true) => "adm_inf()".into(),
            _ if dtype == DType::F64 => format!("{v:e}").replace('e', if format!("{v:e}").contains('.') { "e" } else { ".0e" }),
            _ => format!("{v:e}f", v = v as f32),
        });
    }
    Ok(dialect.integer_literal(wrap_int(s.to_i64(), dtype), dtype))
}
