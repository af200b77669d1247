//! Convolutions of 16-bit floats as products on the tiles of the matrix unit, by no patches in memory: the factor that a window
//! reads is gathered element by element as the tile is filled, the kernel's own place in it following from two numbers.
//!
//! | role | left | right |
//! |---|---|---|
//! | forward | the weight, in whole pieces where its rows are some | x, by kernel places and output places |
//! | input gradient | the weight | y's cotangent, by kernel places and input places |
//! | weight gradient | y's cotangent | x, by output places and kernel places |
//!
//! Groups of channels are the batches of the product. A long depth is split as any product's is.
use super::{W, X, Y};
use crate::{
    bindings::{Access, Bindings},
    launcher::{Array, Key, Launcher, Work},
    skeleton::{
        epilogue::BoundEpilogue,
        matmul::{FEW, OF_PIECE, narrowed},
        product::{self, OWN, ProductEnds, ProductForm, ProductSizes, UnitFactor, UnitFactors, accumulator},
    },
};
use adamant_ir::{
    DType, ErrorKind,
    op::{ConvRole, ConvSpec},
    product::Product,
};

/// Behind the product's own: the step of the left factor's rows, channels of a group in and out, groups, offsets of x, w, y, and
/// their sizes for each axis.
const STEP: usize = OWN;
const INS: usize = OWN + 1;
const OUTS: usize = OWN + 2;
const GROUPS: usize = OWN + 3;
const OFFSETS: usize = OWN + 4;
const PLACES: usize = OWN + 7;

/// A convolution as a product: its tensors x, w, y, of which one is its result.
pub(super) struct ConvProduct<'c> {
    spec: &'c ConvSpec,
    tensors: [&'c Array; 3],
    sizes: ProductSizes,
}
impl<'c> ConvProduct<'c> {
    /// Is it one for the matrix unit: of 16 bits, and more than a few rows, columns and terms?
    pub fn of(launcher: &dyn Launcher, spec: &'c ConvSpec, tensors: [&'c Array; 3]) -> Option<ConvProduct<'c>> {
        let [x, w, y] = tensors;
        let places = |o: &Array| o.shape[2..].iter().product::<usize>();
        let (images, ins, outs) = (x.shape[0], w.shape[1], w.shape[0] / spec.groups);
        let (rows, columns, depth) = match spec.role {
            ConvRole::Forward => (outs, images * places(y), ins * places(w)),
            ConvRole::InputGrad => (ins, images * places(x), outs * places(w)),
            ConvRole::WeightGrad => (outs, ins * places(w), images * places(y)),
        };
        let product = ConvProduct { spec, tensors, sizes: ProductSizes { batch: spec.groups, rows, columns, depth } };
        let [left, right, _] = product.ends().map(|t| tensors[t].dtype);
        let is_fit = launcher.target().matrices && matches!(left, DType::F16 | DType::BF16) && left == right;
        (is_fit && rows.min(columns).min(depth) >= FEW).then_some(product)
    }
    /// The operands, left and right, and the result, as tensors are numbered.
    fn ends(&self) -> [usize; 3] {
        match self.spec.role {
            ConvRole::Forward => [W, X, Y],
            ConvRole::InputGrad => [W, Y, X],
            ConvRole::WeightGrad => [Y, X, W],
        }
    }
    /// Records the launches.
    ///
    /// # Errors
    /// A text that cannot be compiled; more scratch than there is.
    pub fn record(&self, launcher: &mut dyn Launcher, out: &Array, behind: Option<(&Product, Work<'_>)>) -> Result<(), ErrorKind> {
        let ConvProduct { spec, tensors, sizes } = *self;
        let [x, w, y] = tensors;
        let [left, right, _] = self.ends();
        let summed = behind.as_ref().map_or(out.dtype, |(product, _)| product.dtype);
        let mut bindings = Bindings::new(launcher.target().dialect);
        let bound = [left, right].map(|t| bindings.bind(tensors[t].place(), Access::Read));
        let target = bindings.bind(out.place(), Bindings::to_store(out.dtype.size()));
        let mut parameters = vec![0; OWN];
        parameters.extend([sizes.depth, w.shape[1], w.shape[0] / spec.groups, spec.groups, x.offset, w.offset, y.offset].map(|v| v as u32));
        for a in 2..x.shape.rank() {
            parameters.extend([x.shape[a] as u32, w.shape[a] as u32, y.shape[a] as u32]);
        }
        let mut epilogue = behind.as_ref().map(|(product, work)| BoundEpilogue::new(launcher, &mut bindings, product, work)).transpose()?;
        let mut key = Key::from_slice(&[0xFA, tensors[left].dtype as u8, out.dtype as u8, bound[0] as u8, bound[1] as u8, target as u8]);
        if let (Some(epilogue), Some((_, work))) = (&mut epilogue, &behind) {
            epilogue.place(&mut parameters, work);
            epilogue.describe(&mut key);
        }
        // The weight's rows lie one after another along the depth.
        let is_copied = spec.role == ConvRole::Forward && sizes.depth.is_multiple_of(OF_PIECE as usize) && w.offset.is_multiple_of(OF_PIECE as usize);
        let by_places = spec.role != ConvRole::WeightGrad;
        let sides = [
            UnitFactor { binding: bound[0], across: is_copied.then_some(STEP), along_depth: true },
            UnitFactor { binding: bound[1], across: None, along_depth: !by_places },
        ];
        let form = ProductForm { paired: false, along: [true, by_places], matrices: Some(UnitFactors { dtype: tensors[left].dtype, sides }) };
        product::record(launcher, bindings, parameters, key, sizes, summed, form, |bindings| {
            let factors = self.left(bindings, bound[0], is_copied) + &self.right(bindings, bound[1]);
            let place = format!("let of_result: u32 = {};\nlet place: u32 = p[{}u] + of_result;\n", self.result(), OFFSETS + self.ends()[2]);
            if let Some(epilogue) = &epilogue {
                let store = bindings.store(target, out.dtype, "place", "value");
                let value = epilogue.finished("total", "of_result");
                let store = format!("{place}let value: {} = {value};\n{store}", accumulator(out.dtype).name());
                return Ok(ProductEnds { factors, behind: epilogue.function(bindings)?, store });
            }
            let store = place + &bindings.store(target, out.dtype, "place", &narrowed(out.dtype, "total"));
            Ok(ProductEnds { factors, behind: String::new(), store })
        })
    }
    fn size(tensor: usize, axis: usize) -> String {
        format!("p[{}u]", PLACES + 3 * axis + tensor)
    }
    fn plane(&self, tensor: usize) -> String {
        let sizes: Vec<String> = (0..self.spec.spatial()).map(|a| ConvProduct::size(tensor, a)).collect();
        format!("({})", sizes.join(" * "))
    }
    /// Where a result lies in its tensor.
    fn result(&self) -> String {
        match self.spec.role {
            ConvRole::WeightGrad => format!("(batch * p[{OUTS}u] + row) * p[1u] + column"),
            role => {
                let (channels, plane) = if role == ConvRole::Forward { (OUTS, self.plane(Y)) } else { (INS, self.plane(X)) };
                format!("((column / {plane} * p[{GROUPS}u] + batch) * p[{channels}u] + row) * {plane} + column % {plane}")
            }
        }
    }
    fn left(&self, bindings: &Bindings, binding: usize, is_copied: bool) -> String {
        let (of_w, of_y) = (self.plane(W), self.plane(Y));
        let at = match self.spec.role {
            ConvRole::Forward => format!("p[{}u] + (batch * p[{OUTS}u] + row) * p[{STEP}u] + k", OFFSETS + W),
            ConvRole::InputGrad => format!("p[{}u] + ((batch * p[{OUTS}u] + k / {of_w}) * p[{INS}u] + row) * {of_w} + k % {of_w}", OFFSETS + W),
            ConvRole::WeightGrad => format!("p[{}u] + ((k / {of_y} * p[{GROUPS}u] + batch) * p[{OUTS}u] + row) * {of_y} + k % {of_y}", OFFSETS + Y),
        };
        let base = if is_copied {
            format!("fn left_base(batch: u32) -> u32 {{\nreturn p[{}u] + batch * p[{OUTS}u] * p[{STEP}u];\n}}\n", OFFSETS + W)
        } else {
            String::new()
        };
        let load = bindings.load(binding, self.tensors[self.ends()[0]].dtype, "at");
        base + &format!("fn left(batch: u32, row: u32, k: u32) -> f32 {{\nlet at: u32 = {at};\nreturn {load};\n}}\n")
    }
    /// What a window reads, from the number of a channel and its place in the kernel, and that of an image and its place.
    fn right(&self, bindings: &Bindings, binding: usize) -> String {
        let ConvSpec { role, stride, dilation, padding, .. } = self.spec;
        let (kernel, places) = if *role == ConvRole::WeightGrad { ("column", "k") } else { ("k", "column") };
        let (numbered, read, channels) = if *role == ConvRole::InputGrad { (X, Y, OUTS) } else { (Y, X, INS) };
        let (of_w, of_places) = (self.plane(W), self.plane(numbered));
        let axes = self.spec.spatial();
        let digits = |name: &str, tensor: usize| -> String {
            let digit = |a: usize| format!("let {name}{a}: u32 = {name} % {size};\n{name} = {name} / {size};\n", size = ConvProduct::size(tensor, a));
            (0..axes).rev().map(digit).collect()
        };
        let mut text = format!("var v: u32 = {kernel} % {of_w};\n{}var c: u32 = {places} % {of_places};\n{}", digits("v", W), digits("c", numbered));
        let (mut inside, mut flat) = (Vec::new(), String::from("0u"));
        for a in 0..axes {
            let (stride, dilation, before) = (stride[a], dilation[a], padding[a].0);
            // What lies before the beginning wraps to a large number.
            text += &if *role == ConvRole::InputGrad {
                inside.push(format!("t{a} < 0x80000000u && t{a} % {stride}u == 0u"));
                format!("let t{a}: u32 = c{a} + {before}u - v{a} * {dilation}u;\nlet in{a}: u32 = t{a} / {stride}u;\n")
            } else {
                format!("let in{a}: u32 = c{a} * {stride}u + v{a} * {dilation}u - {before}u;\n")
            };
            inside.push(format!("in{a} < {}", ConvProduct::size(read, a)));
            flat = format!("({flat}) * {} + in{a}", ConvProduct::size(read, a));
        }
        format!(
            "fn right(batch: u32, k: u32, column: u32) -> f32 {{
{text}if (!({inside})) {{ return 0.0; }}
let at: u32 = p[{offset}u] + (({places} / {of_places} * p[{GROUPS}u] + batch) * p[{channels}u] + {kernel} / {of_w}) * {plane} + {flat};
return {load};
}}
",
            inside = inside.join(" && "),
            offset = OFFSETS + read,
            plane = self.plane(read),
            load = bindings.load(binding, self.tensors[self.ends()[1]].dtype, "at"),
        )
    }
}
