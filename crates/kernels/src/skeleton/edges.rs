//! What a device does at the edges of arithmetic, which languages leave to the hardware: one kernel that asks it.
use crate::{
    Dialect,
    bindings::{Access, Bindings, Place},
    frame::per_element,
};
use adamant_ir::{DType, ErrorKind};

/// Pairs (expression of `x`, `y` and `z`; the bits that IEEE 754 gives).
const QUESTIONS: [(&str, [u32; 3], u32); 8] = [
    // A subnormal number, scaled by a power of two.
    ("x * y", [0x0000_0040, 0x4000_0000, 0], 0x0000_0080),
    ("x * y", [0x0000_0000, 0xbf80_0000, 0], 0x8000_0000),
    ("x - y", [0x7f80_0000, 0x7f80_0000, 0], 0x7fc0_0000),
    ("x + y", [0x7fc0_0000, 0x3f80_0000, 0], 0x7fc0_0000),
    ("x * y", [0x7f00_0000, 0x4080_0000, 0], 0x7f80_0000),
    // (1 + 2^-12)^2 - (1 + 2^-11): zero, unless the product keeps its last bit.
    ("x * y + z", [0x3f80_0800, 0x3f80_0800, 0xbf80_1000], 0x0000_0000),
    ("x / y", [0x3f80_0000, 0x4040_0000, 0], 0x3eaa_aaab),
    ("sqrt(x)", [0x4000_0000, 0, 0], 0x3fb5_04f3),
];
/// How many words answer.
pub const ANSWERS: usize = QUESTIONS.len();

/// The answers.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "a field's name says it")]
pub struct Edges {
    pub keeps_subnormals: bool,
    pub keeps_negative_zero: bool,
    pub keeps_nan: bool,
    pub keeps_infinity: bool,
    /// a product and a sum become one rounding
    pub contracts: bool,
    /// divisions and roots are rounded correctly
    pub divides_exactly: bool,
}
impl Edges {
    /// What the words say that the kernel wrote.
    pub fn of(answers: [u32; ANSWERS]) -> Edges {
        let is = |k: usize| {
            let (got, want) = (answers[k], QUESTIONS[k].2);
            got == want || (f32::from_bits(got).is_nan() && f32::from_bits(want).is_nan())
        };
        Edges {
            keeps_subnormals: is(0),
            keeps_negative_zero: is(1),
            keeps_nan: is(2) && is(3),
            keeps_infinity: is(4),
            contracts: !is(5),
            divides_exactly: is(6) && is(7),
        }
    }
    /// As facts of the device.
    pub fn details(&self) -> [(&'static str, String); 6] {
        let yes = |b: bool| if b { "yes" } else { "no" }.to_string();
        [
            ("keeps subnormals", yes(self.keeps_subnormals)),
            ("keeps -0", yes(self.keeps_negative_zero)),
            ("keeps NaN", yes(self.keeps_nan)),
            ("keeps infinities", yes(self.keeps_infinity)),
            ("contracts products into sums", yes(self.contracts)),
            ("divides exactly", yes(self.divides_exactly)),
        ]
    }
}
/// The kernel that asks, for one workgroup: its bindings, of which the only one is buffer 0, its parameters, its text.
///
/// # Errors
/// What the dialect lacks.
pub fn questions(dialect: &'static dyn Dialect) -> Result<(Bindings, Vec<u32>, String), ErrorKind> {
    let mut bindings = Bindings::new(dialect);
    let out = bindings.bind(Place::Buffer(0), Access::Write);
    let mut parameters = vec![1];
    let mut body = String::new();
    for (k, (text, inputs, _)) in QUESTIONS.iter().enumerate() {
        // Parameters, so that nothing is known when the kernel is compiled.
        let base = parameters.len();
        parameters.extend(inputs);
        let names: String = ["x", "y", "z"].iter().enumerate().map(|(n, name)| format!("let {name}: f32 = bitcast<f32>(p[{}u]); ", base + n)).collect();
        body += &format!("{{ {names}let at: u32 = {k}u; {} }}\n", bindings.store(out, DType::F32, "at", text));
    }
    let text = per_element(&bindings, "", &body)?;
    Ok((bindings, parameters, text))
}
