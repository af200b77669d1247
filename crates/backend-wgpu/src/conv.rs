//! Conv: all three roles as implicit matrix products. The factors are read through the geometry of the convolution, so
//! no patches are laid out in memory.
//!
//! | role | rows | columns | depth |
//! |---|---|---|---|
//! | forward | output channels | images x output places | input channels x kernel places |
//! | input gradient | input channels | images x input places | output channels x kernel places |
//! | weight gradient | output channels | input channels x kernel places | images x output places |
//!
//! Groups of channels are the batches.
use crate::{
    bindings::{Access, Bindings, Place},
    device::misshapen,
    launch::{Recorder, buffer},
    matmul::narrowed,
    pipeline::Key,
    product::{self, Ends, Form, OWN, Sizes},
};
use adamant_core::{
    DType, ErrorKind, Shape,
    kernel::{Operand, Step},
    op::{ConvRole, ConvSpec},
};

/// The geometry's parameters, by name and axis, behind the product's own.
struct Geometry {
    axes: usize,
}
impl Geometry {
    fn new(spec: &ConvSpec, x: &Shape, w: &Shape, y: &Shape, offsets: [usize; 3]) -> (Geometry, Vec<u32>) {
        let axes = spec.stride.len();
        let mut words = vec![0; OWN];
        words.extend([w[1], w[0] / spec.groups, x[1], y[1]].map(|v| v as u32));
        words.extend(offsets.map(|o| o as u32));
        for a in 0..axes {
            words.extend([x[2 + a], w[2 + a], y[2 + a], spec.stride[a], spec.dilation[a], spec.padding[a].0].map(|v| v as u32));
        }
        (Geometry { axes }, words)
    }
    /// Input and output channels of a group, then of all groups.
    fn channels(&self, k: usize) -> String {
        format!("p[{}u]", OWN + k)
    }
    fn offset(&self, tensor: usize) -> String {
        format!("p[{}u]", OWN + 4 + tensor)
    }
    /// Per axis: sizes of x, w and y, then stride, dilation and padding.
    fn of(&self, axis: usize, what: usize) -> String {
        format!("p[{}u]", OWN + 7 + axis * 6 + what)
    }
    /// Statements that cut `number` into places along the axes of a tensor, named `name<axis>`; what is left is `name_rest`.
    fn cut(&self, number: &str, name: &str, tensor: usize) -> String {
        let mut text = format!("var {name}_rest: u32 = {number};\n");
        for a in (0..self.axes).rev() {
            text += &format!("let {name}{a}: u32 = {name}_rest % {0}; {name}_rest = {name}_rest / {0};\n", self.of(a, tensor));
        }
        text
    }
    /// The element of a tensor (0 x, 1 w, 2 y) at (major, minor, places).
    fn at(&self, tensor: usize, major: &str, minor: &str, minors: &str, name: &str) -> String {
        let start = format!("({major}) * {minors} + {minor}");
        let inside = (0..self.axes).fold(start, |at, a| format!("({at}) * {} + {name}{a}", self.of(a, tensor)));
        format!("{} + {inside}", self.offset(tensor))
    }
    /// Statements that define `in<axis>`, the place in x that meets output place `o<axis>` and kernel place `k<axis>`, and
    /// the condition that it is inside; what lies before the beginning wraps to a large number.
    fn input_place(&self) -> (String, String) {
        let mut text = String::new();
        let mut inside = Vec::new();
        for a in 0..self.axes {
            text += &format!("let in{a}: u32 = o{a} * {} + k{a} * {} - {};\n", self.of(a, 3), self.of(a, 4), self.of(a, 5));
            inside.push(format!("in{a} < {}", self.of(a, 0)));
        }
        (text, joined(&inside))
    }
    /// The same from input place `in<axis>` to output place `o<axis>`.
    fn output_place(&self) -> (String, String) {
        let mut text = String::new();
        let mut inside = Vec::new();
        for a in 0..self.axes {
            text += &format!("let t{a}: u32 = in{a} + {} - k{a} * {};\nlet o{a}: u32 = t{a} / {};\n", self.of(a, 5), self.of(a, 4), self.of(a, 3));
            inside.push(format!("t{a} < 0x80000000u && t{a} % {} == 0u && o{a} < {}", self.of(a, 3), self.of(a, 2)));
        }
        (text, joined(&inside))
    }
}
fn joined(conditions: &[String]) -> String {
    if conditions.is_empty() { "true".into() } else { conditions.join(" && ") }
}

/// Records a Conv step.
///
/// # Errors
/// Operands without memory; a text that cannot be compiled.
pub(crate) fn record<'a>(recorder: &mut Recorder<'a>, step: &Step<'a>, spec: &ConvSpec) -> Result<(), ErrorKind> {
    let ([first, second], [out]) = (step.inputs, step.outputs) else { return Err(misshapen("conv")) };
    // The three tensors of the bilinear form, in the order of `Geometry::at`.
    let (x, w, y): (&Operand<'_>, &Operand<'_>, &Operand<'_>) = match spec.role {
        ConvRole::Forward => (first, second, out),
        ConvRole::InputGrad => (out, second, first),
        ConvRole::WeightGrad => (first, out, second),
    };
    let (geometry, parameters) = Geometry::new(spec, &x.shape, &w.shape, &y.shape, [x.offset, w.offset, y.offset]);
    let places = |s: &Shape| s[2..].iter().product::<usize>();
    let (ci, co) = (w.shape[1], w.shape[0] / spec.groups);
    let sizes = match spec.role {
        ConvRole::Forward => Sizes { batch: spec.groups, rows: co, columns: y.shape[0] * places(&y.shape), depth: ci * places(&w.shape) },
        ConvRole::InputGrad => Sizes { batch: spec.groups, rows: ci, columns: x.shape[0] * places(&x.shape), depth: co * places(&w.shape) },
        ConvRole::WeightGrad => Sizes { batch: spec.groups, rows: co, columns: ci * places(&w.shape), depth: y.shape[0] * places(&y.shape) },
    };
    let mut bindings = Bindings::default();
    let left = bindings.bind(Place::Buffer(buffer(first)?), Access::Read);
    let right = bindings.bind(Place::Buffer(buffer(second)?), Access::Read);
    let target = bindings.bind(Place::Buffer(buffer(out)?), Bindings::to_store(out.dtype.size()));
    let mut key = Key::new();
    key.extend([first.dtype as u8, out.dtype as u8, left as u8, right as u8, target as u8]);
    let form = Form { along: [spec.role != ConvRole::InputGrad, true], paired: false };
    product::record(recorder, step, bindings, parameters, key, sizes, out.dtype, form, |bindings| {
        Ok(ends(spec.role, &geometry, bindings, [left, right, target], out.dtype))
    })
}
/// The factors and the result of a role.
fn ends(role: ConvRole, g: &Geometry, bindings: &Bindings, [first, second, target]: [usize; 3], dtype: DType) -> Ends {
    let (ci, co, all_in, all_out) = (g.channels(0), g.channels(1), g.channels(2), g.channels(3));
    let load = |binding: usize| bindings.load(binding, dtype, "at");
    let store = |place: String| format!("{place}{}", bindings.store(target, dtype, "place", &narrowed(dtype, "total")));
    let function = |signature: &str, body: String| format!("fn {signature} -> f32 {{\n{body}}}\n");
    let guarded = |places: String, inside: String, at: String, binding: usize| {
        format!("{places}if (!({inside})) {{ return 0.0; }}\nlet at: u32 = {at};\nreturn {};\n", load(binding))
    };
    // Of an output or input channel, the number among all channels.
    let of_output = |channel: &str| format!("batch * {co} + {channel}");
    let of_input = |channel: &str| format!("batch * {ci} + {channel}");
    match role {
        ConvRole::Forward => {
            let weight = format!("{}let at: u32 = {};\nreturn {};\n", g.cut("k", "k", 1), g.at(1, &of_output("row"), "k_rest", &ci, "k"), load(second));
            let (place, inside) = g.input_place();
            let input = guarded(g.cut("k", "k", 1) + &g.cut("column", "o", 2) + &place, inside, g.at(0, "o_rest", &of_input("k_rest"), &all_in, "in"), first);
            let result = g.cut("column", "o", 2) + &format!("let place: u32 = {};\n", g.at(2, "o_rest", &of_output("row"), &all_out, "o"));
            Ends {
                factors: function("left(batch: u32, row: u32, k: u32)", weight) + &function("right(batch: u32, k: u32, column: u32)", input),
                store: store(result),
            }
        }
        ConvRole::InputGrad => {
            let weight = format!("{}let at: u32 = {};\nreturn {};\n", g.cut("k", "k", 1), g.at(1, &of_output("k_rest"), "row", &ci, "k"), load(second));
            let (place, inside) = g.output_place();
            let output =
                guarded(g.cut("k", "k", 1) + &g.cut("column", "in", 0) + &place, inside, g.at(2, "in_rest", &of_output("k_rest"), &all_out, "o"), first);
            let result = g.cut("column", "in", 0) + &format!("let place: u32 = {};\n", g.at(0, "in_rest", &of_input("row"), &all_in, "in"));
            Ends {
                factors: function("left(batch: u32, row: u32, k: u32)", weight) + &function("right(batch: u32, k: u32, column: u32)", output),
                store: store(result),
            }
        }
        ConvRole::WeightGrad => {
            let output = format!("{}let at: u32 = {};\nreturn {};\n", g.cut("k", "o", 2), g.at(2, "o_rest", &of_output("row"), &all_out, "o"), load(second));
            let (place, inside) = g.input_place();
            let input = guarded(g.cut("k", "o", 2) + &g.cut("column", "k", 1) + &place, inside, g.at(0, "o_rest", &of_input("k_rest"), &all_in, "in"), first);
            let result = g.cut("column", "k", 1) + &format!("let place: u32 = {};\n", g.at(1, &of_output("row"), "k_rest", &ci, "k"));
            Ends {
                factors: function("left(batch: u32, row: u32, k: u32)", output) + &function("right(batch: u32, k: u32, column: u32)", input),
                store: store(result),
            }
        }
    }
}
