//! The buffers of a launch, and the text that reads and writes elements in them. Every buffer is an array of words,
//! bound whole from its beginning, because offsets of bindings are aligned coarser than tensors begin. Operands in one
//! buffer share its binding: a kernel may update in place.
use adamant_codegen::{Dialect, preamble};
use adamant_runtime::DType;
use smallvec::SmallVec;

/// What a kernel does with a buffer; each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Access {
    /// it reads it
    Read,
    /// it writes whole words, each from one invocation
    Write,
    /// several invocations write parts of one word
    Atomic,
}
/// Where a binding's memory is.
#[derive(Clone, PartialEq)]
pub(crate) enum Place {
    /// a tensor's buffer
    Buffer(wgpu::Buffer),
    /// memory between two launches of one step
    Scratch,
    /// where bad data is reported
    Faults,
}
/// The bindings of a launch; number k is the variable `b<k>`.
#[derive(Clone, Default)]
pub(crate) struct Bindings {
    pub places: SmallVec<[Place; 8]>,
    pub access: SmallVec<[Access; 8]>,
}
impl Bindings {
    /// The number of a place's binding.
    pub fn bind(&mut self, place: Place, access: Access) -> usize {
        if let Some(k) = self.places.iter().position(|p| *p == place) {
            self.access[k] = self.access[k].max(access);
            return k;
        }
        self.places.push(place);
        self.access.push(access);
        self.places.len() - 1
    }
    /// A word of a binding.
    pub fn word(&self, binding: usize, index: &str) -> String {
        if self.access[binding] == Access::Atomic { format!("atomicLoad(&b{binding}[{index}])") } else { format!("b{binding}[{index}]") }
    }
    /// The bits of the element at `at`, a variable: `u32`, or `vec2<u32>` of 8 bytes.
    pub fn bits(&self, binding: usize, size: usize, at: &str) -> String {
        match size {
            1 => format!("(({} >> (({at} & 3u) << 3u)) & 0xffu)", self.word(binding, &format!("{at} >> 2u"))),
            2 => format!("(({} >> (({at} & 1u) << 4u)) & 0xffffu)", self.word(binding, &format!("{at} >> 1u"))),
            4 => self.word(binding, at),
            _ => format!("vec2<u32>({}, {})", self.word(binding, &format!("2u * {at}")), self.word(binding, &format!("2u * {at} + 1u"))),
        }
    }
    /// The element at `at`, a variable, of its register's type.
    pub fn load(&self, binding: usize, dtype: DType, at: &str) -> String {
        value_of(dtype, &self.bits(binding, dtype.size(), at))
    }
    /// A statement that writes a word.
    pub fn set_word(&self, binding: usize, index: &str, value: &str) -> String {
        if self.access[binding] == Access::Atomic { format!("atomicStore(&b{binding}[{index}], {value});") } else { format!("b{binding}[{index}] = {value};") }
    }
    /// Statements that write the bits of the element at `at`, a variable. Parts of a word need a binding with `Atomic`
    /// access: an invocation changes its own bits only, so the order of invocations does not matter.
    pub fn set_bits(&self, binding: usize, size: usize, at: &str, bits: &str) -> String {
        match size {
            1 | 2 => {
                let (word, shift, mask) = if size == 1 {
                    (format!("{at} >> 2u"), format!("(({at} & 3u) << 3u)"), "0xffu")
                } else {
                    (format!("{at} >> 1u"), format!("(({at} & 1u) << 4u)"), "0xffffu")
                };
                format!("{{ let bits_: u32 = {bits}; atomicAnd(&b{binding}[{word}], ~({mask} << {shift})); atomicOr(&b{binding}[{word}], bits_ << {shift}); }}")
            }
            4 => self.set_word(binding, at, bits),
            _ => format!(
                "{{ let bits_: vec2<u32> = {bits}; {} {} }}",
                self.set_word(binding, &format!("2u * {at}"), "bits_.x"),
                self.set_word(binding, &format!("2u * {at} + 1u"), "bits_.y")
            ),
        }
    }
    /// Statements that write the element at `at`, a variable, from a value of its register's type.
    pub fn store(&self, binding: usize, dtype: DType, at: &str, value: &str) -> String {
        self.set_bits(binding, dtype.size(), at, &bits_of(dtype, value))
    }
    /// The access that single elements of a size need to be written.
    pub fn to_store(size: usize) -> Access {
        if size < 4 { Access::Atomic } else { Access::Write }
    }
    /// A whole module: the bindings, what the functions call, and the functions.
    pub fn module(&self, dialect: Dialect, functions: &str) -> String {
        let mut text = String::from("@group(0) @binding(0) var<storage, read> p: array<u32>;\n");
        for (k, access) in self.access.iter().enumerate() {
            let (mode, of) = match access {
                Access::Read => ("read", "u32"),
                Access::Write => ("read_write", "u32"),
                Access::Atomic => ("read_write", "atomic<u32>"),
            };
            text += &format!("@group(0) @binding({}) var<storage, {mode}> b{k}: array<{of}>;\n", k + 1);
        }
        text += &preamble(functions, dialect);
        for helper in include_str!("kernels/storage.wgsl").split("\nfn ").skip(1) {
            let name = helper.split('(').next().unwrap_or_default();
            if functions.contains(name) {
                text += &format!("fn {helper}\n");
            }
        }
        text + functions
    }
}
/// The value of an element's bits.
pub(crate) fn value_of(dtype: DType, bits: &str) -> String {
    match dtype {
        DType::Bool => format!("({bits} != 0u)"),
        DType::U8 | DType::U16 | DType::U32 => bits.to_string(),
        DType::I8 => format!("(bitcast<i32>({bits} << 24u) >> 24u)"),
        DType::I16 => format!("(bitcast<i32>({bits} << 16u) >> 16u)"),
        DType::I32 => format!("bitcast<i32>({bits})"),
        DType::F32 => format!("bitcast<f32>({bits})"),
        DType::F16 => format!("adm_f16_of_bits({bits})"),
        DType::BF16 => format!("bitcast<f32>({bits} << 16u)"),
        DType::F8E4M3 => format!("f8_e4m3_from_bits({bits})"),
        DType::F8E5M2 => format!("adm_f16_of_bits({bits} << 8u)"),
        DType::I64 => format!("i64_from_bits({bits})"),
        // f64 has no register: programs that read it are refused before.
        _ => format!("u64_from_bits({bits})"),
    }
}
/// The bits of a value, zero beside it in its word.
pub(crate) fn bits_of(dtype: DType, value: &str) -> String {
    match dtype {
        DType::Bool => format!("select(0u, 1u, {value})"),
        DType::U32 => value.to_string(),
        DType::U8 => format!("(({value}) & 0xffu)"),
        DType::U16 => format!("(({value}) & 0xffffu)"),
        DType::I8 => format!("(bitcast<u32>({value}) & 0xffu)"),
        DType::I16 => format!("(bitcast<u32>({value}) & 0xffffu)"),
        DType::I32 | DType::F32 => format!("bitcast<u32>({value})"),
        DType::F16 => format!("adm_bits_of_f16({value})"),
        DType::BF16 => format!("adm_bits_of_bf16({value})"),
        DType::F8E4M3 => format!("f8_e4m3_to_bits({value})"),
        DType::F8E5M2 => format!("f8_e5m2_to_bits({value})"),
        DType::I64 => format!("i64_to_bits({value})"),
        _ => format!("u64_to_bits({value})"),
    }
}
