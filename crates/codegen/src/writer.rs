//! A whole [`Expr`] as the statements of a function body: one variable per register, one rounding per instruction.
use crate::{Dialect, binary_text, preamble, preambles, translate, unary_text};
use adamant_ir::{
    DType, ErrorKind, Scalar,
    expr::{Expr, Instr},
};

/// The largest number of 64 bits, as WGSL writes it.
const I64_MAX: &str = "9223372036854775807li";

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
pub struct Program {
    /// definitions that go before the function
    pub preamble: String,
    /// statements that define the variable `r<k>` for each register k
    pub body: String,
}

/// The type of the variable that holds a value of a dtype: narrow floats in f32 and, in WGSL, narrow integers in 32
/// bits, at all times rounded or wrapped to the dtype.
///
/// # Errors
/// `Unsupported`: f64 in WGSL, and 64-bit integers in [`Dialect::Wgsl`].
pub fn type_name(dtype: DType, dialect: Dialect) -> Result<&'static str, ErrorKind> {
    let lacks = || dialect.lacks(dtype.name());
    let wgsl = match dtype {
        DType::Bool => "bool",
        DType::U8 | DType::U16 | DType::U32 => "u32",
        DType::I8 | DType::I16 | DType::I32 => "i32",
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => "f32",
        DType::I64 | DType::U64 if dialect != Dialect::Wgsl => dtype.name(),
        DType::F64 if dialect == Dialect::C => dtype.name(),
        _ => return Err(lacks()),
    };
    match dialect {
        Dialect::Wgsl | Dialect::WgslWide => Ok(wgsl),
        Dialect::C => translate::c_type(if dtype.is_float() || dtype == DType::Bool { wgsl } else { dtype.name() }).ok_or_else(lacks),
    }
}

/// Writes the program. Register k becomes the variable `r<k>`.
///
/// # Errors
/// `Unsupported`, naming the dtype or function that the dialect lacks.
pub fn write_expr(expr: &Expr, dialect: Dialect, sources: &Sources<'_>) -> Result<Program, ErrorKind> {
    let mut body = String::new();
    for (k, (instr, &dtype)) in expr.instrs.iter().zip(&expr.dtypes).enumerate() {
        let r = |reg: u16| format!("r{reg}");
        let of = |reg: u16| expr.dtypes.get(reg as usize).copied().ok_or_else(|| ErrorKind::Internal(format!("register {reg} is read before it is written")));
        let value = match *instr {
            Instr::Load(n) => (sources.load)(n),
            Instr::Arg(n) => (sources.arg)(n),
            Instr::Const(s) => constant(s, dtype, dialect)?,
            Instr::Index(axis) => convert(&(sources.index)(axis), DType::U32, dtype, dialect)?,
            Instr::Random(n) => {
                let key: Vec<String> = (0..4).map(|w| (sources.key)(n, w)).collect();
                format!("adm_random_bits({}, {}, {})", key.join(", "), sources.element[0], sources.element[1])
            }
            Instr::Unary(f, x) => fitted(unary_text(f, of(x)?, dialect, &r(x))?, dtype, dialect),
            Instr::Binary(f, x, y) => fitted(binary_text(f, of(x)?, dialect, &r(x), &r(y))?, dtype, dialect),
            Instr::Select(c, x, y) if dialect == Dialect::C => format!("{} ? {} : {}", r(c), r(x), r(y)),
            Instr::Select(c, x, y) => format!("select({}, {}, {})", r(y), r(x), r(c)),
            Instr::Cast(x) => convert(&r(x), of(x)?, dtype, dialect)?,
            Instr::Bitcast(x) => bitcast(&r(x), of(x)?, dtype, dialect)?,
        };
        let t = type_name(dtype, dialect)?;
        body.push_str(&match dialect {
            Dialect::C => format!("const {t} r{k} = {value};\n"),
            Dialect::Wgsl | Dialect::WgslWide => format!("let r{k}: {t} = {value};\n"),
        });
    }
    Ok(Program { preamble: preamble(&body, dialect), body })
}

/// A result rounded or wrapped to its dtype.
fn fitted(value: String, dtype: DType, dialect: Dialect) -> String {
    if let Some(round) = preambles::rounding(dtype) {
        return format!("{round}({value})");
    }
    match (dialect, dtype) {
        // What C computes in int, the variable's type narrows.
        (Dialect::C, _) => value,
        (_, DType::U8) => format!("({value}) & 0xffu"),
        (_, DType::U16) => format!("({value}) & 0xffffu"),
        (_, DType::I8) => format!("(({value}) << 24u) >> 24u"),
        (_, DType::I16) => format!("(({value}) << 16u) >> 16u"),
        _ => value,
    }
}
/// The value as another dtype: floats to integers truncate toward zero, integers wrap, floats round once.
fn convert(x: &str, from: DType, to: DType, dialect: Dialect) -> Result<String, ErrorKind> {
    let t = type_name(to, dialect)?;
    if from == to {
        return Ok(x.to_string());
    }
    Ok(match dialect {
        Dialect::C => {
            if to == DType::Bool {
                format!("{x} != 0")
            } else if let (Some(round), false) = (preambles::rounding(to), from.size() <= 2 || from == DType::F32) {
                format!("{round}(adm_odd((double){x}))")
            } else if to.is_float() {
                fitted(format!("({t}){x}"), to, dialect)
            } else if from.is_float() {
                format!("({t})adm_to_i64({x})")
            } else {
                format!("({t}){x}")
            }
        }
        Dialect::Wgsl | Dialect::WgslWide => {
            if to == DType::Bool {
                // Of a NaN naga's `!=` says that it is no different.
                format!(
                    "!({x} == {})",
                    if from.is_float() {
                        "0.0"
                    } else if from.size() == 8 {
                        if from.is_signed() { "0li" } else { "0lu" }
                    } else if from.is_signed() {
                        "0"
                    } else {
                        "0u"
                    }
                )
            } else if to.is_float() {
                // f32 holds no integer of more than 24 bits: rounded to odd, it may be rounded again.
                let narrow = preambles::rounding(to).is_some() && from.is_int() && from.size() >= 4;
                let value = if from.is_float() {
                    x.to_string()
                } else if narrow {
                    format!("adm_iodd_{}({x})", type_name(from, dialect)?)
                } else {
                    format!("f32({x})")
                };
                fitted(value, to, dialect)
            } else if from.is_float() && dialect == Dialect::WgslWide {
                // To the ends of the range of 64 bits, from where narrower integers wrap.
                let whole = format!("select(select(i64({x}), {I64_MAX}, {x} >= 9223372036854775808.0), 0li, adm_isnan({x}))");
                fitted(if to == DType::I64 { whole } else { format!("{t}({whole})") }, to, dialect)
            } else if from.is_float() {
                let whole = format!("select(i32({x}), 0, adm_isnan({x}))");
                match to {
                    DType::U32 => format!("select(u32({whole}), u32({x}), {x} >= 2147483648.0)"),
                    _ if t == "u32" => fitted(format!("u32({whole})"), to, dialect),
                    _ => fitted(whole, to, dialect),
                }
            } else if to == DType::I64 && !from.is_signed() && from != DType::Bool {
                // naga extends the sign of a u32 that becomes an i64.
                format!("i64(u64({x}))")
            } else if to == DType::U64 && from.is_signed() {
                // And does not extend that of an i32 that becomes a u64.
                format!("u64(i64({x}))")
            } else {
                fitted(format!("{t}({x})"), to, dialect)
            }
        }
    })
}
fn bitcast(x: &str, from: DType, to: DType, dialect: Dialect) -> Result<String, ErrorKind> {
    use DType::{F32, F64, I32, I64, U32, U64};
    let t = type_name(to, dialect)?;
    type_name(from, dialect)?;
    let whole = |d: DType| matches!(d, F32 | I32 | U32 | F64 | I64 | U64);
    if from == to {
        return Ok(x.to_string());
    }
    if from.is_int() && to.is_int() || from == DType::Bool && to.size() == 1 && !to.is_float() {
        return convert(x, from, to, dialect);
    }
    if let (Some(bits), true) = (bits_of(x, from), dialect != Dialect::C)
        && let Some(value) = of_bits(&bits, to)
    {
        return Ok(value);
    }
    if !whole(from) || !whole(to) {
        return Err(dialect.lacks(format!("the bits of {from} as {to} inside a fused kernel")));
    }
    Ok(match (dialect, to) {
        (Dialect::Wgsl | Dialect::WgslWide, _) => format!("bitcast<{t}>({x})"),
        (_, F32) => format!("adm_bits_f32({x})"),
        (_, F64) => format!("adm_bits_f64({x})"),
        (_, I32 | U32) => format!("({t})adm_bits_u32({x})"),
        _ => format!("({t})adm_bits_i64({x})"),
    })
}
/// The bits of a value of 16 bits, u32, in WGSL.
fn bits_of(x: &str, from: DType) -> Option<String> {
    Some(match from {
        DType::F16 => format!("adm_bits_of_f16({x})"),
        DType::BF16 => format!("adm_bits_of_bf16({x})"),
        DType::I16 => format!("(bitcast<u32>({x}) & 0xffffu)"),
        DType::U16 => x.to_string(),
        _ => return None,
    })
}
/// The value of 16 bits, u32, in WGSL.
fn of_bits(bits: &str, to: DType) -> Option<String> {
    Some(match to {
        DType::F16 => format!("adm_f16_of_bits({bits})"),
        DType::BF16 => format!("bitcast<f32>({bits} << 16u)"),
        DType::I16 => format!("(bitcast<i32>({bits} << 16u) >> 16u)"),
        DType::U16 => bits.to_string(),
        _ => return None,
    })
}
/// A constant of exactly the value.
fn constant(s: Scalar, dtype: DType, dialect: Dialect) -> Result<String, ErrorKind> {
    type_name(dtype, dialect)?;
    let c = dialect == Dialect::C;
    if dtype == DType::Bool {
        return Ok((s.to_f64() != 0.0).to_string());
    }
    if dtype.is_float() {
        let v = adamant_ir::reference::round_float(s.to_f64(), dtype);
        return Ok(match (v.is_nan(), v.is_infinite()) {
            (true, _) => "adm_nan()".into(),
            (_, true) if v < 0.0 => "-adm_inf()".into(),
            (_, true) => "adm_inf()".into(),
            _ if dtype == DType::F64 => format!("{v:e}").replace('e', if format!("{v:e}").contains('.') { "e" } else { ".0e" }),
            _ => format!("{v:e}f", v = v as f32),
        });
    }
    let v = adamant_ir::reference::wrap_int(s.to_i64(), dtype);
    Ok(match dtype {
        DType::U64 if !c => format!("{}lu", v as u64),
        DType::I64 if !c && v == i64::MIN => format!("(-{I64_MAX} - 1li)"),
        DType::I64 if !c => format!("{v}li"),
        DType::U64 => format!("{}u", v as u64),
        // The smallest numbers have no literal of their own type.
        DType::I64 if v == i64::MIN => "INT64_MIN".into(),
        DType::I64 => format!("INT64_C({v})"),
        DType::I32 if v == i32::MIN as i64 && c => "INT32_MIN".into(),
        _ if dtype.is_signed() => format!("{v}"),
        _ => format!("{v}u"),
    })
}
