//! What an adapter does at the edges of arithmetic, found by asking it: WGSL leaves these to the hardware.
use crate::{
    bindings::{Access, Bindings, Place},
    copy::per_element,
    gpu::Gpu,
    launch::{Recorder, Shared},
    memory::Staging,
};
use adamant_runtime::{DType, ErrorKind};

/// The answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edges {
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

/// Asks the adapter.
///
/// # Errors
/// A lost device; an adapter that cannot compile a kernel.
pub(crate) fn probe(gpu: &Gpu) -> Result<Edges, ErrorKind> {
    let answers = gpu.buffer(64, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC)?;
    let mut bindings = Bindings::default();
    let out = bindings.bind(Place::Buffer(answers.clone()), Access::Write);
    let mut parameters = vec![1];
    let mut body = String::new();
    for (k, (text, inputs, _)) in QUESTIONS.iter().enumerate() {
        // Parameters, so that nothing is known when the kernel is compiled.
        let base = parameters.len();
        parameters.extend(inputs);
        let names: String = ["x", "y", "z"].iter().enumerate().map(|(n, name)| format!("let {name}: f32 = bitcast<f32>(p[{}u]); ", base + n)).collect();
        body += &format!("{{ {names}let at: u32 = {k}u; {} }}\n", bindings.store(out, DType::F32, "at", text));
    }
    let pipeline = gpu.compiled(bindings.module(gpu.dialect(), &per_element(&body)), &bindings.access)?;
    let mut recorder = Recorder::new(gpu);
    recorder.launch(pipeline, &bindings, &parameters, 1);
    let staging = Staging::default();
    recorder.run(&Shared::default(), &staging)?;
    let mut bytes = [0u8; 4 * QUESTIONS.len()];
    staging.read(gpu, &answers, 0, &mut bytes)?;
    let is = |k: usize| {
        let got = u32::from_le_bytes([bytes[4 * k], bytes[4 * k + 1], bytes[4 * k + 2], bytes[4 * k + 3]]);
        let want = QUESTIONS[k].2;
        got == want || (f32::from_bits(got).is_nan() && f32::from_bits(want).is_nan())
    };
    Ok(Edges {
        keeps_subnormals: is(0),
        keeps_negative_zero: is(1),
        keeps_nan: is(2) && is(3),
        keeps_infinity: is(4),
        contracts: !is(5),
        divides_exactly: is(6) && is(7),
    })
}
