//! Kernels whose outputs are dense and whose elements do not depend on each other: where elements share words, an
//! invocation computes as many as share a word of its narrowest output, and writes whole words that no other touches.
use crate::{
    Dialect,
    bindings::{Access, Bindings, Place},
    frame::KernelFrame,
    launcher::{Array, Key},
    nest::Nest,
    preambles::preamble,
    program::Program,
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
    /// Statements that write element `i` of output number `k` by itself.
    fn set_at(&self, bindings: &Bindings, k: usize, offset: &str, bits: &str) -> String {
        format!("let out{k}: u32 = {offset} + i;\n{}\n", bindings.set_bits(self.binding, self.dtype.size(), &format!("out{k}"), bits))
    }
    fn elements_of_a_word(&self) -> u32 {
        4 / self.dtype.size() as u32
    }
}
/// Which inputs an invocation has taken with their neighbours, into the arrays `taken<k>`.
pub(crate) struct TakenInputs<'t> {
    pub inputs: &'t [bool],
}
impl TakenInputs<'static> {
    /// Each element is loaded by itself.
    pub const NOTHING: TakenInputs<'static> = TakenInputs { inputs: &[] };
}
/// What one invocation does at once: so many elements, of the outputs and of those inputs that lie as they do.
struct WideUnit {
    each: u32,
    inputs: Vec<bool>,
}
/// The most elements of all operands that an invocation holds.
const HELD: usize = 64;
/// The outputs of a launch, and how many elements an invocation computes.
pub(crate) struct Dense {
    outputs: Vec<Output>,
    elements: u64,
    each: u32,
    wide: Option<WideUnit>,
    /// where its parameters begin
    base: usize,
}
/// Whether elements are computed one after the other in registers. Where they call long functions they go round: what is held
/// across a call of which there are many is spilled, and the compiler takes as many times as long.
fn unrolled(dialect: &dyn Dialect, body: &str) -> &'static str {
    let is_long = preamble(body, dialect).lines().any(|line| line.starts_with("ADM_ALONE "));
    if is_long { "#pragma unroll 1\n" } else { "#pragma unroll\n" }
}
/// The place of the report. Parameters of dense outputs come first where a kernel reports: the number of elements, the
/// place of the report, the outputs' offsets.
pub(crate) const REPORT: &str = "p[1u]";

impl Dense {
    /// Binds the outputs. One that begins inside a word is written element by element.
    pub fn new(bindings: &mut Bindings, outputs: &[(Array, Place)]) -> Dense {
        let elements = outputs.first().map_or(0, |o| o.0.shape.elements() as u64);
        let mut dense = Dense { outputs: Vec::new(), elements, each: 1, wide: None, base: 0 };
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
    /// Lets an invocation take and put elements side by side in pieces of 16 bytes, where the dialect has them and the
    /// outputs begin at one; so do those inputs that begin at one.
    pub fn widen(&mut self, dialect: &dyn Dialect, inputs: &[Array], nest: &Nest) {
        let sizes = inputs.iter().enumerate().filter(|(k, _)| nest.is_dense(*k)).map(|(_, i)| i.dtype.size());
        let sizes: Vec<usize> = sizes.chain(self.outputs.iter().map(|o| o.dtype.size())).collect();
        let (Some(&least), Some(&most)) = (sizes.iter().min(), sizes.iter().max()) else { return };
        let mut each = dialect.widest() / least;
        while each > dialect.widest() / most && each * sizes.len() > HELD {
            each /= 2;
        }
        if each < 2 || !self.outputs.iter().all(|o| o.offset % each == 0) {
            return;
        }
        let inputs = inputs.iter().enumerate().map(|(k, i)| nest.is_dense(k) && i.offset % each == 0).collect();
        self.wide = Some(WideUnit { each: each as u32, inputs });
    }
    /// How many invocations there are.
    pub fn units(&self) -> u64 {
        self.elements.div_ceil(self.wide.as_ref().map_or(self.each, |w| w.each) as u64)
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
        if let Some(wide) = &self.wide {
            key.push(wide.each as u8);
            key.extend(wide.inputs.iter().map(|i| u8::from(*i)));
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
    /// What invocation `unit` does, at once for elements that lie side by side, where it may. `body`: statements that compute
    /// element `i` from what has been taken.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn unit_of(
        &self,
        bindings: &Bindings,
        program: &Program<'_>,
        nest: &Nest,
        body: &dyn Fn(&TakenInputs<'_>) -> Result<String, ErrorKind>,
        bits: &[String],
    ) -> Result<String, ErrorKind> {
        let one = body(&TakenInputs::NOTHING)?;
        let Some(wide) = &self.wide else { return Ok(self.unit(bindings, &one, bits)) };
        let each = wide.each;
        let (mut takes, mut makes, mut puts, mut singles) = (String::new(), String::new(), String::new(), String::new());
        let array = |name: &str, k: usize, size: usize| format!("{} {name}{k}[{each}];\n", if size == 8 { "adm_vec2_u32" } else { "uint32_t" });
        for (k, &(binding, dtype)) in program.inputs().iter().enumerate().filter(|(k, _)| wide.inputs[*k]) {
            takes += &array("taken", k, dtype.size());
            // Of integers that are cut only the low halves are wanted.
            let is_cut = dtype == DType::I64 && self.outputs.iter().any(|o| o.dtype.size() < dtype.size());
            let whole = if is_cut { ", adm_whole()" } else { "" };
            takes += &format!("adm_take_{}<{each}>(b{binding}, {}, taken{k}{whole});\n", dtype.size(), nest.at(k, "first"));
        }
        for (k, (o, bits)) in self.outputs.iter().zip(bits).enumerate() {
            let (offset, size) = (format!("p[{}u]", self.base + 2 + k), o.dtype.size());
            takes += &array("made", k, size);
            makes += &format!("made{k}[e] = {bits};\n");
            puts += &format!("adm_put_{size}<{each}>(b{}, {offset} + first, made{k});\n", o.binding);
            singles += &o.set_at(bindings, k, &offset, bits);
        }
        let total = format!("p[{}u]", self.base);
        let verbatim = |text: String| bindings.dialect.verbatim(text);
        Ok(format!(
            "let first: u32 = unit * {each}u;
if (first >= {total}) {{ return; }}
let count: u32 = min({each}u, {total} - first);
if (count == {each}u) {{
{}for (var e: u32 = 0u; e < {each}u; e++) {{
let i: u32 = first + e;
{}{makes}}}
{}}} else {{
for (var e: u32 = 0u; e < count; e++) {{
let i: u32 = first + e;
{one}{singles}}}
}}
",
            verbatim(takes + unrolled(bindings.dialect, &one)),
            body(&TakenInputs { inputs: &wide.inputs })?,
            verbatim(puts),
        ))
    }
    /// What invocation `unit` does. `body`: statements that compute element `i`; `bits[k]`: what goes to output k.
    pub fn unit(&self, bindings: &Bindings, body: &str, bits: &[String]) -> String {
        let each = self.each;
        let (mut before, mut inside, mut after) = (String::new(), String::new(), String::new());
        for (k, (o, bits)) in self.outputs.iter().zip(bits).enumerate() {
            let offset = format!("p[{}u]", self.base + 2 + k);
            if !o.is_packed {
                inside += &o.set_at(bindings, k, &offset, bits);
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
