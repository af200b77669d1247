//! How two partial results are combined: for reductions, scans and scatters. Sums of 16-bit floats run in f32 and round
//! once, those of integers in i64, those of f64 in f64.
use crate::{
    bindings::Bindings,
    frame::{GROUP, KernelFrame, Numbering, SharedArray},
    nest::{AxisGroup, Nest},
};
use adamant_ir::{DType, ErrorKind, op::ReduceOp};

/// A way to combine, with the dtype that it runs in.
#[derive(Clone, Copy)]
pub(crate) struct Combine {
    pub op: ReduceOp,
    /// F32, F64, I32, U32, I64 or U64
    pub dtype: DType,
}
impl Combine {
    /// For values of a dtype.
    pub fn new(op: ReduceOp, of: DType) -> Combine {
        let whole = matches!(op, ReduceOp::Sum | ReduceOp::Prod);
        let dtype = match of {
            DType::F64 => DType::F64,
            d if d.is_float() => DType::F32,
            DType::I64 => DType::I64,
            DType::U64 => DType::U64,
            _ if whole => DType::I64,
            d if d.is_signed() => DType::I32,
            _ => DType::U32,
        };
        Combine { op, dtype }
    }
    /// The type's name.
    pub fn type_name(self) -> &'static str {
        self.dtype.name()
    }
    /// Of nothing.
    pub fn identity(self) -> &'static str {
        match (self.op, self.dtype) {
            (ReduceOp::Sum, DType::F32 | DType::F64) => "0.0",
            (ReduceOp::Prod, DType::F32 | DType::F64) => "1.0",
            (ReduceOp::Max, DType::F32 | DType::F64) => "-adm_inf()",
            (ReduceOp::Min, DType::F32 | DType::F64) => "adm_inf()",
            (ReduceOp::Sum, DType::I64) => "0li",
            (ReduceOp::Prod, DType::I64) => "1li",
            (ReduceOp::Max, DType::I64) => "(-9223372036854775807li - 1li)",
            (ReduceOp::Min, DType::I64) => "9223372036854775807li",
            (ReduceOp::Sum, DType::I32) => "0i",
            (ReduceOp::Prod, DType::I32) => "1i",
            (ReduceOp::Max, DType::I32) => "(-2147483647i - 1i)",
            (ReduceOp::Min, DType::I32) => "2147483647i",
            (ReduceOp::Sum | ReduceOp::Max, DType::U64) => "0lu",
            (ReduceOp::Prod, DType::U64) => "1lu",
            (ReduceOp::Min, DType::U64) => "0xfffffffffffffffflu",
            (ReduceOp::Prod, _) => "1u",
            (ReduceOp::Min, _) => "0xffffffffu",
            _ => "0u",
        }
    }
    /// Of two.
    pub fn of(self, a: &str, b: &str) -> String {
        match (self.op, self.dtype) {
            (ReduceOp::Sum, _) => format!("({a} + {b})"),
            (ReduceOp::Prod, _) => format!("({a} * {b})"),
            (ReduceOp::Max, DType::F32) => format!("adm_max({a}, {b})"),
            (ReduceOp::Min, DType::F32) => format!("adm_min({a}, {b})"),
            (ReduceOp::Max, DType::F64) => format!("adm_max_f64({a}, {b})"),
            (ReduceOp::Min, DType::F64) => format!("adm_min_f64({a}, {b})"),
            (ReduceOp::Max, _) => format!("adm_imax_{}({a}, {b})", self.type_name()),
            (ReduceOp::Min, _) => format!("adm_imin_{}({a}, {b})", self.type_name()),
        }
    }
    /// A register of a dtype as one of this.
    pub fn widen(self, from: DType, value: &str) -> String {
        match from {
            DType::Bool if self.dtype == DType::I64 => format!("select(0li, 1li, {value})"),
            DType::Bool => format!("select(0u, 1u, {value})"),
            // naga extends the sign of a u32 that becomes an i64.
            DType::U8 | DType::U16 | DType::U32 if self.dtype == DType::I64 => format!("i64(u64({value}))"),
            _ if self.dtype == DType::I64 => format!("i64({value})"),
            _ => value.to_string(),
        }
    }
    /// The function `value(o, r)`: element r of line o of a bound operand, which is the first of the nest.
    pub fn element(self, bindings: &Bindings, nest: &Nest, source: usize, dtype: DType) -> String {
        format!(
            "fn value(o: u32, r: u32) -> {} {{\n{}{}let a0: u32 = {};\nreturn {};\n}}\n",
            self.type_name(),
            nest.coordinates(AxisGroup::Outer, "o"),
            nest.coordinates(AxisGroup::Inner, "r"),
            nest.at(0, "o"),
            self.widen(dtype, &bindings.load(source, dtype, "a0")),
        )
    }
    /// A result as a register of a dtype, rounded once.
    pub fn narrow(self, to: DType, value: &str) -> String {
        match to {
            DType::F16 => format!("adm_round_f16({value})"),
            DType::BF16 => format!("adm_round_bf16({value})"),
            DType::Bool => format!("({value} != {})", if self.dtype == DType::I64 { "0li" } else { "0u" }),
            DType::U8 | DType::U16 | DType::U32 if self.dtype != DType::U32 => format!("u32({value})"),
            DType::I8 | DType::I16 | DType::I32 if self.dtype != DType::I32 => format!("i32({value})"),
            _ => value.to_string(),
        }
    }
    /// The entry point where so many neighbours as `lanes` says share each of `all` totals, which begin with `from`: `own` takes
    /// into `total` of `i` what is the invocation's, a tree joins them, and `store` stores the total. `before` declares what both
    /// of these know.
    ///
    /// # Errors
    /// As [`KernelFrame::text`].
    pub fn shared_totals(
        self,
        bindings: &Bindings,
        functions: &str,
        [all, lanes]: [&str; 2],
        from: &str,
        [before, own, store]: [&str; 3],
    ) -> Result<String, ErrorKind> {
        let (t, barrier) = (self.type_name(), bindings.dialect.barrier());
        let body = format!(
            "    let lanes: u32 = {lanes};
    let i: u32 = (group.y * groups.x + group.x) * (256u / lanes) + lane / lanes;
    let own_lane: u32 = lane % lanes;
    let live: bool = i < {all};
    var total: {t} = {from};
{before}    if (live) {{
{own}    }}
    if (lanes > 1u) {{
        partial[lane] = total;
        {barrier}
        for (var half: u32 = lanes / 2u; half > 0u; half >>= 1u) {{
            if (own_lane < half) {{ partial[lane] = {}; }}
            {barrier}
        }}
        total = partial[lane];
    }}
    if (live && own_lane == 0u) {{
{store}    }}
",
            self.of("partial[lane]", "partial[lane + half]")
        );
        let shared = vec![SharedArray { name: "partial", of: t, length: GROUP as usize }];
        KernelFrame { bindings, lanes: GROUP as usize, numbered: Numbering::InWorkgroup, shared, functions, blocks: None, body }.text()
    }
}
