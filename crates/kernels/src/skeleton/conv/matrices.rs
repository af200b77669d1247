//! Convolutions of 16-bit floats as products on the tiles of the matrix unit, with no patches in memory: the factor that a window
//! reads is gathered as the tile is filled. Slices of the depth change nothing in which rows or columns a thread fills, so it holds
//! where those begin (`gathers.cuh`), and carries its place in the depth on. What is left of an element is a sum, and a bit that says
//! whether it is outside, or a bound for each axis. Nothing divides there, and what divides before is multiplied.
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
    dialect::guarded,
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
/// their sizes for each axis; then what divides by the places of the kernel and of what is numbered, and by the sizes of each but
/// of their first axis.
const STEP: usize = OWN;
const INS: usize = OWN + 1;
const OUTS: usize = OWN + 2;
const GROUPS: usize = OWN + 3;
const OFFSETS: usize = OWN + 4;
const PLACES: usize = OWN + 7;

/// A convolution as a product: its tensors x, w, y, of which one is its result.
pub(super) struct GatheredConv<'c> {
    spec: &'c ConvSpec,
    tensors: [&'c Array; 3],
    sizes: ProductSizes,
}
impl<'c> GatheredConv<'c> {
    /// Is it one for the matrix unit: of 16 bits, and more than a few rows, columns and terms?
    pub fn of(launcher: &dyn Launcher, spec: &'c ConvSpec, tensors: [&'c Array; 3]) -> Option<GatheredConv<'c>> {
        let [x, w, y] = tensors;
        let places = |o: &Array| o.shape[2..].iter().product::<usize>();
        let (images, ins, outs) = (x.shape[0], w.shape[1], w.shape[0] / spec.groups);
        let (rows, columns, depth) = match spec.role {
            ConvRole::Forward => (outs, images * places(y), ins * places(w)),
            ConvRole::InputGrad => (ins, images * places(x), outs * places(w)),
            ConvRole::WeightGrad => (outs, ins * places(w), images * places(y)),
        };
        let product = GatheredConv { spec, tensors, sizes: ProductSizes { batch: spec.groups, rows, columns, depth } };
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
        let GatheredConv { spec, tensors, sizes } = *self;
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
        for shape in [W, self.numbered()].map(|t| tensors[t].shape) {
            parameters.extend(divider(shape[2..].iter().product()));
            shape[3..].iter().for_each(|&size| parameters.extend(divider(size)));
        }
        let mut epilogue = behind.as_ref().map(|(product, work)| BoundEpilogue::new(launcher, &mut bindings, product, work)).transpose()?;
        let mut key = Key::from_slice(&[0xFA, tensors[left].dtype as u8, out.dtype as u8, bound[0] as u8, bound[1] as u8, target as u8]);
        if let (Some(epilogue), Some((_, work))) = (&mut epilogue, &behind) {
            epilogue.place(&mut bindings, &mut parameters, work);
            epilogue.describe(&mut key);
        }
        let copies_runs = self.copies_runs();
        key.extend([u8::from(self.is_few()), u8::from(copies_runs)]);
        // The weight's rows lie one after another along the depth.
        let is_copied = spec.role == ConvRole::Forward && sizes.depth.is_multiple_of(OF_PIECE as usize) && w.offset.is_multiple_of(OF_PIECE as usize);
        let by_places = spec.role != ConvRole::WeightGrad;
        let sides = [
            UnitFactor { binding: bound[0], across: is_copied.then_some(STEP), whole: true, along_depth: true },
            UnitFactor { binding: bound[1], across: None, whole: false, along_depth: !by_places },
        ];
        let form = ProductForm { paired: false, along: [true, by_places], matrices: Some(UnitFactors { dtype: tensors[left].dtype, sides }) };
        product::record(launcher, bindings, parameters, key, sizes, summed, form, |bindings| {
            let mut factors = bindings.dialect.verbatim(guarded("adm_gathers", include_str!("matrices/gathers.cuh")) + "\n");
            if is_copied {
                factors += &format!("fn left_base(batch: u32) -> u32 {{\nreturn p[{}u] + batch * p[{OUTS}u] * p[{STEP}u];\n}}\n", OFFSETS + W);
            }
            let gathers = self.gathers(is_copied);
            let place = self.result(bindings) + &format!("let place: u32 = p[{}u] + of_result;\n", OFFSETS + self.ends()[2]);
            if let Some(epilogue) = &epilogue {
                let store = bindings.store(target, out.dtype, "place", "value");
                let value = epilogue.finished("total", "of_result");
                let store = format!("{place}let value: {} = {value};\n{store}", accumulator(out.dtype).name());
                return Ok(ProductEnds { factors, behind: epilogue.function(bindings)?, store, gathers });
            }
            let store = place + &bindings.store(target, out.dtype, "place", &narrowed(out.dtype, "total"));
            Ok(ProductEnds { factors, behind: String::new(), store, gathers })
        })
    }
    /// Has the kernel so few places on each axis that a word has a bit for each of all axes, and one besides?
    fn is_few(&self) -> bool {
        let sizes = &self.tensors[W].shape[2..];
        sizes.iter().all(|&size| size <= 31 / sizes.len())
    }
    /// Are the rows of y's cotangent whole pieces of 16 bytes?
    fn copies_runs(&self) -> bool {
        let y = self.tensors[Y];
        let in_pieces = |n: usize| n.is_multiple_of(OF_PIECE as usize);
        self.spec.role == ConvRole::WeightGrad && in_pieces(y.shape[2..].iter().product()) && in_pieces(y.offset)
    }
    fn size(tensor: usize, axis: usize) -> String {
        format!("p[{}u]", PLACES + 3 * axis + tensor)
    }
    fn plane(&self, tensor: usize) -> String {
        let sizes: Vec<String> = (0..self.spec.spatial()).map(|a| GatheredConv::size(tensor, a)).collect();
        format!("({})", sizes.join(" * "))
    }
    /// The tensor whose places are one of the two numbers; the kernel's are the other.
    fn numbered(&self) -> usize {
        if self.spec.role == ConvRole::InputGrad { X } else { Y }
    }
    /// A number divided by the places of the kernel (W) or of what is numbered, or by the size of an axis of them.
    fn quotient(&self, bindings: &Bindings, number: &str, tensor: usize, axis: Option<usize>) -> String {
        let axes = self.spec.spatial();
        let at = PLACES + 3 * axes + 2 * (axis.unwrap_or(0) + if tensor == W { 0 } else { axes });
        bindings.dialect.verbatim(format!("(uint32_t)((uint64_t){number} * p[{at}] >> p[{}])", at + 1))
    }
    /// Where a result lies in its tensor, from its beginning.
    fn result(&self, bindings: &Bindings) -> String {
        let numbered = self.numbered();
        let (channels, plane) = (if numbered == Y { OUTS } else { INS }, self.plane(numbered));
        if self.spec.role == ConvRole::WeightGrad {
            return format!("let of_result: u32 = (batch * p[{OUTS}u] + row) * p[1u] + column;\n");
        }
        let image = self.quotient(bindings, "column", numbered, None);
        format!(
            "let image: u32 = {image};
let of_result: u32 = ((image * p[{GROUPS}u] + batch) * p[{channels}u] + row) * {plane} + column - image * {plane};
"
        )
    }
    /// What gathers the factors, and where the weight begins that is copied.
    fn gathers(&self, is_copied: bool) -> [Option<String>; 2] {
        let ConvSpec { role, stride, dilation, padding, .. } = self.spec;
        let three = |of: &dyn Fn(usize) -> usize| (0..3).map(|a| if a < stride.len() { of(a) } else { 0 }.to_string()).collect::<Vec<_>>().join(", ");
        let geometry = format!("adm_geometry<{}, {}, {}, {}>", stride.len(), three(&|a| stride[a]), three(&|a| dilation[a]), three(&|a| padding[a].0));
        let left = match role {
            ConvRole::Forward if is_copied => None,
            role => Some(format!("adm_gather_runs<{geometry}, {STEP}, {}, {}", *role as u8, self.copies_runs())),
        };
        let right = match role {
            ConvRole::WeightGrad => format!("adm_gather_window<{geometry}, {STEP}"),
            role => format!("adm_gather_columns<{geometry}, {STEP}, {}, {}", *role == ConvRole::InputGrad, self.is_few()),
        };
        [left, Some(right)]
    }
}
/// By which factor, and by how many bits then, a number below 2^31 is divided (Granlund and Montgomery, "Division by invariant
/// integers using multiplication", 1994).
fn divider(by: usize) -> [u32; 2] {
    let by = by.max(1) as u64;
    let shift = 31 + by.next_power_of_two().trailing_zeros();
    [(1u64 << shift).div_ceil(by) as u32, shift]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotient_is_off_by_one() {
        for by in (1..2000).chain([4095, 4096, 4097, 65_535, 1_000_003, (1 << 30) - 1, 1 << 30, (1 << 31) - 1]) {
            let [factor, shift] = divider(by as usize);
            let near = |n: u64| [n.saturating_sub(1), n, n + 1];
            for x in [0, 1, by / 2, by, 2 * by, 977 * by, (1 << 31) / by * by].into_iter().flat_map(near).filter(|x| *x < 1 << 31) {
                assert_eq!((x * u64::from(factor)) >> shift, x / by, "{x} / {by}");
            }
        }
    }
}
