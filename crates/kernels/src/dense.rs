//! Kernels whose outputs are dense and whose elements do not depend on each other: where elements share words, an
//! invocation computes as many as share a word of its narrowest output, and writes whole words that no other touches.
use crate::{
    bindings::{Access, Bindings, Place},
    frame::KernelFrame,
    launcher::{Array, Key},
};
use adamant_ir::{DType, ErrorKind};

/// A dense output.
pub(crate) struct Output {
    pub binding: usize,
    pub dtype: DType,
    offset: usize,
    /// Is it written in whole words?
    is_packed: bool,
}
impl Output {
    fn elements_of_a_word(&self) -> u32 {
        4 / self.dtype.size() as u32
    }
}
/// The outputs of a launch, and how many elements an invocation computes.
pub(crate) struct Dense {
    outputs: Vec<Output>,
    elements: u64,
    each: u32,
    /// where its parameters begin
    base: usize,
}
/// The place of the report. Parameters of dense outputs come first where a kernel reports: the number of elements, the
/// place of the report, the outputs' offsets.
pub(crate) const REPORT: &str = "p[1u]";

impl Dense {
    /// Binds the outputs. One that begins inside a word is written element by element.
    pub fn new(bindings: &mut Bindings, outputs: &[(Array, Place)]) -> Dense {
        let elements = outputs.first().map_or(0, |o| o.0.shape.elements() as u64);
        let mut dense = Dense { outputs: Vec::new(), elements, each: 1, base: 0 };
        for (o, place) in outputs {
            let is_packed = bindings.dialect.packs() && o.dtype.size() < 4 && o.offset * o.dtype.size() % 4 == 0;
            let mut output = Output { binding: 0, dtype: o.dtype, offset: o.offset, is_packed };
            let access = if is_packed { Access::Write } else { Bindings::to_store(o.dtype.size()) };
            output.binding = bindings.bind(*place, access);
            if is_packed {
                dense.each = dense.each.max(output.elements_of_a_word());
            }
            dense.outputs.push(output);
        }
        dense
    }
    /// How many invocations there are.
    pub fn units(&self) -> u64 {
        self.elements.div_ceil(self.each as u64)
    }
    /// How many elements an invocation computes.
    pub fn each(&self) -> u32 {
        self.each
    }
    /// Appends its structure to a key.
    pub fn describe(&self, key: &mut Key) {
        for o in &self.outputs {
            key.extend([o.binding as u8, o.dtype as u8, o.is_packed as u8]);
        }
    }
    /// Appends its parameters.
    pub fn place(&mut self, parameters: &mut Vec<u32>, report: u32) {
        self.base = parameters.len();
        parameters.extend([self.elements as u32, report]);
        parameters.extend(self.outputs.iter().map(|o| if o.is_packed { o.offset / o.elements_of_a_word() as usize } else { o.offset } as u32));
    }
    /// The whole text. As [`Dense::unit`].
    ///
    /// # Errors
    /// As [`KernelFrame::text`].
    pub fn text(&self, bindings: &Bindings, functions: &str, body: &str, bits: &[String]) -> Result<String, ErrorKind> {
        let unit = self.unit(bindings, body, bits);
        KernelFrame::alone(bindings, functions, format!("    let unit: u32 = (group.y * groups.x + group.x) * 256u + lane;\n{unit}")).text()
    }
    /// What invocation `unit` does. `body`: statements that compute element `i`; `bits[k]`: what goes to output k.
    pub fn unit(&self, bindings: &Bindings, body: &str, bits: &[String]) -> String {
        let each = self.each;
        let (mut before, mut inside, mut after) = (String::new(), String::new(), String::new());
        for (k, (o, bits)) in self.outputs.iter().zip(bits).enumerate() {
            let offset = format!("p[{}u]", self.base + 2 + k);
            if !o.is_packed {
                inside += &format!("let out{k}: u32 = {offset} + i;\n{}\n", bindings.set_bits(o.binding, o.dtype.size(), &format!("out{k}"), bits));
                continue;
            }
            let (of_word, width) = (o.elements_of_a_word(), 32 / o.elements_of_a_word());
            let words = each / of_word;
            before += &format!("var w{k}: array<u32, {words}>;\n");
            inside += &format!("w{k}[e / {of_word}u] |= ({bits}) << ((e % {of_word}u) * {width}u);\n");
            // The last word may hold what lies behind the output.
            after += &format!(
                "for (var w: u32 = 0u; w < {words}u; w++) {{
    let held: u32 = min(count - min(count, w * {of_word}u), {of_word}u);
    let at: u32 = {offset} + unit * {words}u + w;
    if (held == {of_word}u) {{ {} }} else if (held > 0u) {{
        let mask: u32 = (1u << (held * {width}u)) - 1u;
        {}
    }}
}}
",
                bindings.set_word(o.binding, "at", &format!("w{k}[w]")),
                bindings.set_word(o.binding, "at", &format!("({} & ~mask) | (w{k}[w] & mask)", bindings.word(o.binding, "at"))),
            );
        }
        let elements = if each == 1 {
            format!("let i: u32 = unit;\n{body}{inside}")
        } else {
            format!("for (var e: u32 = 0u; e < count; e++) {{\nlet i: u32 = first + e;\n{body}{inside}}}\n")
        };
        let total = format!("p[{}u]", self.base);
        format!(
            "let first: u32 = unit * {each}u;
    if (first >= {total}) {{ return; }}
    let count: u32 = min({each}u, {total} - first);
    {before}{elements}{after}"
        )
    }
}
