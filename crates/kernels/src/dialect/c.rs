//! C99. A kernel is a function that runs a launch by itself: loops over its workgroups and their invocations, one after
//! the other. Where invocations wait for each other each of them is left and taken up again (`c/resumed.rs`).
//!
//! Integers wrap: compile with `-fwrapv`, and with `-ffp-contract=off` for the promised bits. Texts may stand one behind
//! the other in one file: what two of them need is guarded, and a kernel is named after what it does.
mod entry;
mod resumed;
mod translate;

pub use entry::entry_of;
pub use translate::to_c;
pub(super) use {
    entry::{named, stored},
    translate::{KernelModule, threaded},
};

use super::{Atomic, Dialect, Subgroup, bits_of_float, float_of_bits};
use crate::{bindings::Access, frame::KernelFrame, preambles::rounding};
use adamant_ir::{DType, ErrorKind};

/// C99 with `<tgmath.h>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct C;

/// A definition that may stand in a file more than once.
pub(crate) fn guarded(name: &str, code: &str) -> String {
    format!("#ifndef ADM_HAS_{name}\n#define ADM_HAS_{name}\n{code}\n#endif")
}

impl Dialect for C {
    fn name(&self) -> &'static str {
        "C"
    }
    fn register(&self, dtype: DType) -> Result<&'static str, ErrorKind> {
        let held = if dtype.is_float() && dtype.size() < 4 { DType::F32 } else { dtype };
        translate::c_type(held.name()).ok_or_else(|| self.lacks(dtype.name().into()))
    }
    fn row<'r>(&self, _: &'r str, c: &'r str) -> &'r str {
        c
    }
    fn integer(&self, dtype: DType) -> Result<&'static str, ErrorKind> {
        Ok(dtype.name())
    }
    fn of_bool(&self, x: &str) -> String {
        format!("((int32_t)({x}))")
    }
    fn helper(&self, text: &str) -> String {
        let code = to_c(text, true);
        match text.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
            Some(name) => guarded(name, &code),
            None => code,
        }
    }
    fn has_helper(&self, name: &str) -> bool {
        translate::is_native(name)
    }
    fn prelude(&self) -> &'static str {
        include_str!("c/prelude.h")
    }
    fn source(&self, text: &str) -> String {
        to_c(text, true)
    }
    fn verbatim(&self, text: String) -> String {
        format!("{}{text}{}", crate::notation::BEGIN, crate::notation::END)
    }
    fn define(&self, register: &str, name: &str, value: &str) -> String {
        format!("const {register} {name} = {value};\n")
    }
    fn select(&self, condition: &str, then: &str, otherwise: &str) -> String {
        format!("{condition} ? {then} : {otherwise}")
    }
    fn fitted(&self, value: String, dtype: DType) -> String {
        // What C computes in int, the variable's type narrows.
        rounding(dtype).map_or(value.clone(), |round| format!("{round}({value})"))
    }
    fn convert(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind> {
        let t = self.register(to)?;
        Ok(if from == to {
            x.to_string()
        } else if to == DType::Bool {
            format!("{x} != 0")
        } else if let (Some(round), false) = (rounding(to), from.size() <= 2 || from == DType::F32) {
            format!("{round}(adm_odd((double){x}))")
        } else if to.is_float() {
            self.fitted(format!("({t}){x}"), to)
        } else if from.is_float() {
            format!("({t})adm_to_i64({x})")
        } else {
            format!("({t}){x}")
        })
    }
    fn bitcast(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind> {
        use DType::{BF16, F16, F32, F64, I16, I32, I64, U16, U32, U64};
        let t = self.register(to)?;
        let bits = match from {
            F16 => Some(format!("adm_bits_of_f16({x})")),
            BF16 => Some(format!("adm_bits_of_bf16({x})")),
            I16 | U16 => Some(format!("(uint32_t)(uint16_t){x}")),
            _ => None,
        };
        if let Some(bits) = bits {
            return match to {
                F16 => Ok(format!("adm_f16_of_bits({bits})")),
                BF16 => Ok(format!("adm_bits_f32(({bits}) << 16)")),
                I16 | U16 => Ok(format!("({t})({bits})")),
                _ => Err(self.lacks(format!("the bits of {from} as {to} inside a fused kernel"))),
            };
        }
        let whole = |d: DType| matches!(d, F32 | I32 | U32 | F64 | I64 | U64);
        if !whole(from) || !whole(to) {
            return Err(self.lacks(format!("the bits of {from} as {to} inside a fused kernel")));
        }
        Ok(match to {
            F32 => format!("adm_bits_f32({x})"),
            F64 => format!("adm_bits_f64({x})"),
            I32 | U32 => format!("({t})adm_bits_u32({x})"),
            _ => format!("({t})adm_bits_i64({x})"),
        })
    }
    fn integer_literal(&self, value: i64, dtype: DType) -> String {
        match dtype {
            DType::U64 => format!("{}u", value as u64),
            // The smallest numbers have no literal of their own type.
            DType::I64 if value == i64::MIN => "INT64_MIN".into(),
            DType::I64 => format!("INT64_C({value})"),
            DType::I32 if value == i64::from(i32::MIN) => "INT32_MIN".into(),
            _ if dtype.is_signed() => format!("{value}"),
            _ => format!("{value}u"),
        }
    }
    fn packs(&self) -> bool {
        false
    }
    fn word(&self, binding: usize, _: Access, index: &str) -> String {
        format!("adm_get_4(b{binding}, {index})")
    }
    fn set_word(&self, binding: usize, _: Access, index: &str, value: &str) -> String {
        format!("adm_set_4(b{binding}, {index}, {value});")
    }
    fn bits(&self, binding: usize, _: Access, size: usize, at: &str) -> String {
        format!("adm_get_{size}(b{binding}, {at})")
    }
    fn set_bits(&self, binding: usize, _: Access, size: usize, at: &str, bits: &str) -> String {
        format!("adm_set_{size}(b{binding}, {at}, {bits});")
    }
    fn value_of(&self, dtype: DType, bits: &str) -> String {
        float_of_bits(dtype, bits).unwrap_or_else(|| match dtype {
            DType::Bool => format!("({bits} != 0u)"),
            DType::U8 | DType::U16 | DType::U32 => bits.to_string(),
            DType::I8 | DType::I16 | DType::I32 => format!("{}({bits})", dtype.name()),
            DType::F64 => format!("adm_f64_of_bits({bits})"),
            DType::I64 => format!("i64(adm_pair({bits}))"),
            _ => format!("adm_pair({bits})"),
        })
    }
    fn bits_of(&self, dtype: DType, value: &str) -> String {
        bits_of_float(dtype, value).unwrap_or_else(|| match dtype {
            DType::Bool => format!("select(0u, 1u, {value})"),
            DType::F64 => format!("adm_bits_of_f64({value})"),
            DType::I64 | DType::U64 => format!("adm_unpair(u64({value}))"),
            // What is too wide the memory cuts off.
            _ => format!("u32({value})"),
        })
    }
    fn barrier(&self) -> &'static str {
        "adm_barrier();"
    }
    fn subgroup(&self, what: Subgroup<'_>, dtype: DType, value: &str) -> String {
        let t = dtype.name();
        match what {
            Subgroup::Sum => format!("adm_subgroup_sum_{t}({value})"),
            Subgroup::Max => format!("adm_subgroup_most_{t}({value})"),
            Subgroup::Broadcast(from) => format!("adm_subgroup_of_{t}({value}, {from}u)"),
            Subgroup::Shuffle(from) => format!("adm_subgroup_of_{t}({value}, {from})"),
        }
    }
    fn atomic(&self, what: Atomic, binding: usize, index: &str, value: &str) -> String {
        let name = match what {
            Atomic::Min => "adm_atomic_min",
            Atomic::And => "adm_atomic_and",
            Atomic::Or => "adm_atomic_or",
        };
        format!("{name}(b{binding}, {index}, {value});")
    }
    fn render(&self, frame: &KernelFrame<'_>) -> Result<String, ErrorKind> {
        entry::render(frame).map_err(|what| self.lacks(what))
    }
}
