//! Functions of the scalar table as expressions.
use crate::{Dialect, notation, preambles, wide};
use adamant_ir::{
    DType, ErrorKind,
    scalar::{Binary, Class, Unary},
};

/// What the table says of a function, without its gradient.
struct Texts {
    name: &'static str,
    class: Class,
    float: &'static str,
    int: Option<&'static str>,
}
/// A unary function of `x` as an expression, for a value of `dtype` in a variable of its register's type. The caller rounds
/// and wraps the result; [`write_expr`](crate::write_expr) does.
///
/// # Errors
/// `Unsupported`, naming the dtype or function that the dialect lacks.
pub fn unary_text(f: Unary, dtype: DType, dialect: &dyn Dialect, x: &str) -> Result<String, ErrorKind> {
    let row = f.row();
    let float = dialect.row(row.wgsl, row.c);
    Texts { name: row.name, class: row.class, float, int: row.int_text }.render(dtype, dialect, &[("x", x)])
}
/// A binary function of `x` and `y` as an expression. As [`unary_text`].
///
/// # Errors
/// As [`unary_text`].
pub fn binary_text(f: Binary, dtype: DType, dialect: &dyn Dialect, x: &str, y: &str) -> Result<String, ErrorKind> {
    let row = f.row();
    let float = dialect.row(row.wgsl, row.c);
    Texts { name: row.name, class: row.class, float, int: row.int_text }.render(dtype, dialect, &[("x", x), ("y", y)])
}
impl Texts {
    fn render(self, dtype: DType, dialect: &dyn Dialect, operands: &[(&str, &str)]) -> Result<String, ErrorKind> {
        dialect.register(dtype)?;
        if dtype.is_float() {
            if dtype == DType::F64 {
                return wide::text(self.name, self.float, operands).ok_or_else(|| dialect.lacks(format!("{} of f64", self.name)));
            }
            if dialect.is_by_f64(self.name) {
                let wide: Vec<(&str, String)> = operands.iter().map(|(name, of)| (*name, format!("(double)({of})"))).collect();
                let wide: Vec<(&str, &str)> = wide.iter().map(|(name, of)| (*name, of.as_str())).collect();
                let value = wide::text(self.name, self.float, &wide).ok_or_else(|| dialect.lacks(format!("{} of f64", self.name)))?;
                // What is narrower than f32 is rounded once more.
                return Ok(if dtype == DType::F32 { format!("(float)({value})") } else { format!("adm_odd({value})") });
            }
            return Ok(notation::substitute(self.float, operands));
        }
        let text = self.int.unwrap_or(self.float);
        if dtype == DType::Bool {
            // Arithmetic of truth values is that of 0 and 1, and what is not 0 is true.
            let wide: Vec<(&str, String)> = operands.iter().map(|(name, of)| (*name, dialect.of_bool(of))).collect();
            let wide: Vec<(&str, &str)> = wide.iter().map(|(name, of)| (*name, of.as_str())).collect();
            let value = int_text(text, "i32", dialect, &wide);
            return Ok(if self.class == Class::ToBool { value } else { format!("({value}) != 0") });
        }
        Ok(int_text(text, dialect.integer(dtype)?, dialect, operands))
    }
}
fn int_text(text: &str, t: &str, dialect: &dyn Dialect, operands: &[(&str, &str)]) -> String {
    notation::substitute(&dialect.helper(&preambles::instance(text, t)), operands)
}
