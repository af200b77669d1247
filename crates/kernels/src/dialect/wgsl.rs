//! WGSL, which is the notation itself. It has neither f64 nor types of 8 and 16 bits: such integers are held in registers
//! of 32 bits, and elements in memory are cut out of words.
use super::{Atomic, Dialect, Subgroup, bits_of_float, float_of_bits};
use crate::{
    bindings::Access,
    frame::{KernelFrame, Numbering},
    preambles::{preamble, rounding},
};
use adamant_ir::{DType, ErrorKind};

/// The largest number of 64 bits.
const I64_MAX: &str = "9223372036854775807li";
/// How elements are stored that have no word of their own type.
const STORAGE: &str = include_str!("../storage.wgsl");

/// WebGPU's shading language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wgsl {
    /// with naga's 64-bit integers, for adapters that have them
    pub wide: bool,
}
impl Wgsl {
    /// Without 64-bit integers.
    pub const PLAIN: &'static Wgsl = &Wgsl { wide: false };
    /// With them.
    pub const WIDE: &'static Wgsl = &Wgsl { wide: true };
}
impl Dialect for Wgsl {
    fn name(&self) -> &'static str {
        "WGSL"
    }
    fn register(&self, dtype: DType) -> Result<&'static str, ErrorKind> {
        Ok(match dtype {
            DType::Bool => "bool",
            DType::U8 | DType::U16 | DType::U32 => "u32",
            DType::I8 | DType::I16 | DType::I32 => "i32",
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => "f32",
            DType::I64 | DType::U64 if self.wide => dtype.name(),
            _ => return Err(self.lacks(dtype.name().into())),
        })
    }
    fn row<'r>(&self, wgsl: &'r str, _: &'r str) -> &'r str {
        wgsl
    }
    fn integer(&self, dtype: DType) -> Result<&'static str, ErrorKind> {
        self.register(dtype)
    }
    fn of_bool(&self, x: &str) -> String {
        format!("i32({x})")
    }
    fn helper(&self, text: &str) -> String {
        text.to_string()
    }
    fn has_helper(&self, _: &str) -> bool {
        false
    }
    fn prelude(&self) -> &'static str {
        ""
    }
    fn source(&self, text: &str) -> String {
        text.to_string()
    }
    fn verbatim(&self, text: String) -> String {
        text
    }
    fn define(&self, register: &str, name: &str, value: &str) -> String {
        format!("let {name}: {register} = {value};\n")
    }
    fn select(&self, condition: &str, then: &str, otherwise: &str) -> String {
        format!("select({otherwise}, {then}, {condition})")
    }
    fn fitted(&self, value: String, dtype: DType) -> String {
        match dtype {
            DType::U8 => format!("({value}) & 0xffu"),
            DType::U16 => format!("({value}) & 0xffffu"),
            DType::I8 => format!("(({value}) << 24u) >> 24u"),
            DType::I16 => format!("(({value}) << 16u) >> 16u"),
            _ => rounding(dtype).map_or(value.clone(), |round| format!("{round}({value})")),
        }
    }
    fn convert(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind> {
        let t = self.register(to)?;
        if from == to {
            return Ok(x.to_string());
        }
        Ok(if to == DType::Bool {
            let zero = match (from.is_float(), from.size() == 8, from.is_signed()) {
                (true, ..) => "0.0",
                (_, true, true) => "0li",
                (_, true, false) => "0lu",
                (_, false, true) => "0",
                (_, false, false) => "0u",
            };
            // Of a NaN naga's `!=` says that it is no different.
            format!("!({x} == {zero})")
        } else if to.is_float() {
            // f32 holds no integer of more than 24 bits: rounded to odd, it may be rounded again.
            let narrow = rounding(to).is_some() && from.is_int() && from.size() >= 4;
            let value = if from.is_float() {
                x.to_string()
            } else if narrow {
                format!("adm_iodd_{}({x})", self.register(from)?)
            } else {
                format!("f32({x})")
            };
            self.fitted(value, to)
        } else if from.is_float() && self.wide {
            // To the ends of the range of 64 bits, from where narrower integers wrap.
            let whole = format!("select(select(i64({x}), {I64_MAX}, {x} >= 9223372036854775808.0), 0li, adm_isnan({x}))");
            self.fitted(if to == DType::I64 { whole } else { format!("{t}({whole})") }, to)
        } else if from.is_float() {
            let whole = format!("select(i32({x}), 0, adm_isnan({x}))");
            match to {
                DType::U32 => format!("select(u32({whole}), u32({x}), {x} >= 2147483648.0)"),
                _ if t == "u32" => self.fitted(format!("u32({whole})"), to),
                _ => self.fitted(whole, to),
            }
        } else if to == DType::I64 && !from.is_signed() && from != DType::Bool {
            // naga extends the sign of a u32 that becomes an i64.
            format!("i64(u64({x}))")
        } else if to == DType::U64 && from.is_signed() {
            // And does not extend that of an i32 that becomes a u64.
            format!("u64(i64({x}))")
        } else {
            self.fitted(format!("{t}({x})"), to)
        })
    }
    fn bitcast(&self, x: &str, from: DType, to: DType) -> Result<String, ErrorKind> {
        use DType::{F32, I32, I64, U32, U64};
        let t = self.register(to)?;
        if let Some(value) = bits_of_16(x, from).and_then(|bits| of_bits_of_16(&bits, to)) {
            return Ok(value);
        }
        let whole = |d: DType| matches!(d, F32 | I32 | U32 | I64 | U64);
        if !whole(from) || !whole(to) {
            return Err(self.lacks(format!("the bits of {from} as {to} inside a fused kernel")));
        }
        Ok(format!("bitcast<{t}>({x})"))
    }
    fn integer_literal(&self, value: i64, dtype: DType) -> String {
        match dtype {
            DType::U64 => format!("{}lu", value as u64),
            // The smallest number has no literal of its own type.
            DType::I64 if value == i64::MIN => format!("(-{I64_MAX} - 1li)"),
            DType::I64 => format!("{value}li"),
            _ if dtype.is_signed() => format!("{value}"),
            _ => format!("{value}u"),
        }
    }
    fn packs(&self) -> bool {
        true
    }
    fn word(&self, binding: usize, access: Access, index: &str) -> String {
        if access == Access::Atomic { format!("atomicLoad(&b{binding}[{index}])") } else { format!("b{binding}[{index}]") }
    }
    fn set_word(&self, binding: usize, access: Access, index: &str, value: &str) -> String {
        if access == Access::Atomic { format!("atomicStore(&b{binding}[{index}], {value});") } else { format!("b{binding}[{index}] = {value};") }
    }
    fn bits(&self, binding: usize, access: Access, size: usize, at: &str) -> String {
        let word = |index: &str| self.word(binding, access, index);
        match size {
            1 => format!("(({} >> (({at} & 3u) << 3u)) & 0xffu)", word(&format!("{at} >> 2u"))),
            2 => format!("(({} >> (({at} & 1u) << 4u)) & 0xffffu)", word(&format!("{at} >> 1u"))),
            4 => word(at),
            _ => format!("vec2<u32>({}, {})", word(&format!("2u * {at}")), word(&format!("2u * {at} + 1u"))),
        }
    }
    fn set_bits(&self, binding: usize, access: Access, size: usize, at: &str, bits: &str) -> String {
        let set = |index: &str, value: &str| self.set_word(binding, access, index, value);
        match size {
            1 | 2 => {
                let (word, shift, mask) = if size == 1 {
                    (format!("{at} >> 2u"), format!("(({at} & 3u) << 3u)"), "0xffu")
                } else {
                    (format!("{at} >> 1u"), format!("(({at} & 1u) << 4u)"), "0xffffu")
                };
                let off = self.atomic(Atomic::And, binding, &word, &format!("~({mask} << {shift})"));
                let on = self.atomic(Atomic::Or, binding, &word, &format!("bits_ << {shift}"));
                format!("{{ let bits_: u32 = {bits}; {off} {on} }}")
            }
            4 => set(at, bits),
            _ => format!("{{ let bits_: vec2<u32> = {bits}; {} {} }}", set(&format!("2u * {at}"), "bits_.x"), set(&format!("2u * {at} + 1u"), "bits_.y")),
        }
    }
    fn value_of(&self, dtype: DType, bits: &str) -> String {
        float_of_bits(dtype, bits).unwrap_or_else(|| match dtype {
            DType::Bool => format!("({bits} != 0u)"),
            DType::U8 | DType::U16 | DType::U32 => bits.to_string(),
            DType::I8 => format!("(bitcast<i32>({bits} << 24u) >> 24u)"),
            DType::I16 => format!("(bitcast<i32>({bits} << 16u) >> 16u)"),
            DType::I32 => format!("bitcast<i32>({bits})"),
            DType::I64 => format!("i64_from_bits({bits})"),
            // f64 has no register: programs that read it are refused before.
            _ => format!("u64_from_bits({bits})"),
        })
    }
    fn bits_of(&self, dtype: DType, value: &str) -> String {
        bits_of_float(dtype, value).unwrap_or_else(|| match dtype {
            DType::Bool => format!("select(0u, 1u, {value})"),
            DType::U32 => value.to_string(),
            DType::U8 => format!("(({value}) & 0xffu)"),
            DType::U16 => format!("(({value}) & 0xffffu)"),
            DType::I8 => format!("(bitcast<u32>({value}) & 0xffu)"),
            DType::I16 => format!("(bitcast<u32>({value}) & 0xffffu)"),
            DType::I32 => format!("bitcast<u32>({value})"),
            DType::I64 => format!("i64_to_bits({value})"),
            _ => format!("u64_to_bits({value})"),
        })
    }
    fn barrier(&self) -> &'static str {
        "workgroupBarrier();"
    }
    fn subgroup(&self, what: Subgroup<'_>, _: DType, value: &str) -> String {
        match what {
            Subgroup::Sum => format!("subgroupAdd({value})"),
            Subgroup::Max => format!("subgroupMax({value})"),
            Subgroup::Broadcast(from) => format!("subgroupBroadcast({value}, {from}u)"),
            Subgroup::Shuffle(from) => format!("subgroupShuffle({value}, {from})"),
        }
    }
    fn atomic(&self, what: Atomic, binding: usize, index: &str, value: &str) -> String {
        let name = match what {
            Atomic::Min => "atomicMin",
            Atomic::And => "atomicAnd",
            Atomic::Or => "atomicOr",
        };
        format!("{name}(&b{binding}[{index}], {value});")
    }
    fn render(&self, frame: &KernelFrame<'_>) -> Result<String, ErrorKind> {
        let shared: String = frame.shared.iter().map(|s| format!("var<workgroup> {}: array<{}, {}>;\n", s.name, s.of, s.length)).collect();
        let numbers = match frame.numbered {
            Numbering::InWorkgroup => "@builtin(local_invocation_index) lane: u32",
            Numbering::InSubgroup(_) => "@builtin(subgroup_id) own: u32, @builtin(subgroup_invocation_id) lane: u32",
        };
        let functions = format!(
            "{}{shared}@compute @workgroup_size({})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, {numbers}) {{
{}}}
",
            frame.functions, frame.lanes, frame.body
        );
        let mut text = String::from("@group(0) @binding(0) var<storage, read> p: array<u32>;\n");
        for (k, access) in frame.bindings.access.iter().enumerate() {
            let (mode, of) = match access {
                Access::Read => ("read", "u32"),
                Access::Write => ("read_write", "u32"),
                Access::Atomic => ("read_write", "atomic<u32>"),
            };
            text += &format!("@group(0) @binding({}) var<storage, {mode}> b{k}: array<{of}>;\n", k + 1);
        }
        text += &preamble(&functions, self);
        for helper in STORAGE.split("\nfn ").skip(1) {
            let name = helper.split('(').next().unwrap_or_default();
            if functions.contains(name) {
                text += &format!("fn {helper}\n");
            }
        }
        Ok(text + &functions)
    }
}
/// The bits of a value of 16 bits, u32.
fn bits_of_16(x: &str, from: DType) -> Option<String> {
    Some(match from {
        DType::F16 | DType::BF16 => return bits_of_float(from, x),
        DType::I16 => format!("(bitcast<u32>({x}) & 0xffffu)"),
        DType::U16 => x.to_string(),
        _ => return None,
    })
}
/// The value of 16 bits, u32.
fn of_bits_of_16(bits: &str, to: DType) -> Option<String> {
    Some(match to {
        DType::F16 | DType::BF16 => return float_of_bits(to, bits),
        DType::I16 => format!("(bitcast<i32>({bits} << 16u) >> 16u)"),
        DType::U16 => bits.to_string(),
        _ => return None,
    })
}
