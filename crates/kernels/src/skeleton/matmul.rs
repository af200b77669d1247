//! Matmul: batched matrix products of any strides.
use crate::{
    bindings::{Access, Bindings},
    launcher::{Array, Key, Launcher, Work, misshapen},
    nest::{AxisGroup, Strides},
    skeleton::{
        epilogue::BoundEpilogue,
        product::{self, OWN, ProductEnds, ProductForm, ProductSizes, UnitFactor, UnitFactors, accumulator},
    },
};
use adamant_ir::{DType, ErrorKind, product::Product};

/// Records a Matmul step.
///
/// # Errors
/// Other operands than the kernel has; a text that cannot be compiled.
pub(crate) fn record(launcher: &mut dyn Launcher, work: &Work<'_>) -> Result<(), ErrorKind> {
    let ([a, b], [out]) = (work.inputs, work.outputs) else { return Err(misshapen("matmul")) };
    // Two 16-bit results that share a word are one invocation's, unless a word reaches over the end of a row.
    let may_pair = out.dtype.size() == 2 && launcher.target().dialect.packs();
    if may_pair {
        launcher.warm_up(&mut |other| [true, false].into_iter().try_for_each(|paired| launch(other, [a, b, out], paired, None)))?;
    }
    launch(launcher, [a, b, out], may_pair && out.offset % 2 == 0 && out.shape[out.shape.rank() - 1] % 2 == 0, None)
}
/// Records a product with an epilogue.
///
/// # Errors
/// As [`record`].
pub(crate) fn with_epilogue(launcher: &mut dyn Launcher, work: &Work<'_>, product: &Product) -> Result<(), ErrorKind> {
    let ([a, b, others @ ..], [out]) = (work.inputs, work.outputs) else { return Err(misshapen("matmul")) };
    launch(launcher, [a, b, out], false, Some((product, Work { inputs: others, ..*work })))
}
/// One launch, of pairs of results or with an epilogue or of neither.
fn launch(launcher: &mut dyn Launcher, [a, b, out]: [&Array; 3], paired: bool, behind: Option<(&Product, Work<'_>)>) -> Result<(), ErrorKind> {
    let rank = a.shape.rank();
    let (row, column) = (rank - 2, rank - 1);
    let batch: Vec<usize> = (0..row).collect();
    let sizes = ProductSizes { batch: batch.iter().map(|&x| a.shape[x]).product(), rows: a.shape[row], columns: b.shape[column], depth: a.shape[column] };
    // The product's own shape: the result may be a reshape of it.
    let shape = a.shape.with(column, b.shape[column]);
    let summed = behind.as_ref().map_or(out.dtype, |(product, _)| product.dtype);
    let mut bindings = Bindings::new(launcher.target().dialect);
    let left = bindings.bind(a.place(), Access::Read);
    let right = bindings.bind(b.place(), Access::Read);
    let target = bindings.bind(out.place(), if paired { Access::Write } else { Bindings::to_store(out.dtype.size()) });
    // The factors' steps along the two axes of a matrix are parameters of their own; batches are the nest's.
    let batched = |strides: &Strides| {
        let mut s = *strides;
        s[row] = 0;
        s[column] = 0;
        s
    };
    let mut nest = launcher.nest(
        0,
        &bindings,
        &shape,
        [&batch, &[]],
        &[(a.offset, batched(&a.strides)), (b.offset, batched(&b.strides)), (out.offset, batched(&shape.strides()))],
    )?;
    let mut epilogue = behind.as_ref().map(|(product, work)| BoundEpilogue::new(launcher, &mut bindings, product, work)).transpose()?;
    let mut parameters = vec![0; OWN];
    parameters.extend([a.strides[row], a.strides[column], b.strides[row], b.strides[column]].map(|s| s as u32));
    nest.place(&mut parameters);
    let offset_at = parameters.len();
    if let (Some(epilogue), Some((_, work))) = (&mut epilogue, &behind) {
        parameters.push(out.offset as u32);
        epilogue.place(&mut bindings, &mut parameters, work);
    }
    let mut key = Key::new();
    key.extend([a.dtype as u8, b.dtype as u8, out.dtype as u8, left as u8, right as u8, target as u8]);
    nest.describe(&mut key);
    if let Some(epilogue) = &epilogue {
        epilogue.describe(&mut key);
    }
    let along = [a.strides[column].abs() <= a.strides[row].abs(), b.strides[column].abs() <= b.strides[row].abs()];
    let matrices = for_matrices(launcher, [a, b], [left, right], along, &sizes);
    let form = ProductForm { paired, along, matrices };
    product::record(launcher, bindings, parameters, key, sizes, summed, form, |bindings| {
        let acc = accumulator(summed);
        let t = acc.name();
        let factor = |name: &str, arguments: &str, operand: usize, binding: usize, dtype: DType, steps: usize, by: [&str; 2]| {
            format!(
                "fn {name}({arguments}) -> {t} {{
{}let at: u32 = {} + {} * p[{}u] + {} * p[{}u];
return {t}({});
}}
",
                nest.coordinates(AxisGroup::Outer, "batch"),
                nest.at(operand, "batch"),
                by[0],
                OWN + steps,
                by[1],
                OWN + steps + 1,
                bindings.load(binding, dtype, "at")
            )
        };
        let mut factors = factor("left", "batch: u32, row: u32, k: u32", 0, left, a.dtype, 0, ["row", "k"])
            + &factor("right", "batch: u32, k: u32, column: u32", 1, right, b.dtype, 2, ["k", "column"]);
        // Where a batch's matrix begins, for copies that are no elements.
        for (k, name) in ["left", "right"].into_iter().enumerate().filter(|(k, _)| matrices.is_some_and(|m| m.sides[*k].across.is_some())) {
            factors += &format!("fn {name}_base(batch: u32) -> u32 {{\n{}return {};\n}}\n", nest.coordinates(AxisGroup::Outer, "batch"), nest.at(k, "batch"));
        }
        if let Some(epilogue) = &epilogue {
            let store = bindings.store(target, out.dtype, "place", "value");
            let value = epilogue.finished("total", "number");
            let store = format!("let place: u32 = p[{offset_at}u] + number;\nlet value: {} = {value};\n{store}", accumulator(out.dtype).name());
            return Ok(ProductEnds { factors, behind: epilogue.function(bindings)?, store, gathers: [None, None] });
        }
        // The result is dense: its batches lie one after the other.
        let place = format!("{} + row * {} + column", nest.at(2, "batch"), "columns");
        let narrow = narrowed(out.dtype, "total");
        let store = if paired {
            let both = format!("{} | ({} << 16u)", bindings.bits_of(out.dtype, &narrow), bindings.bits_of(out.dtype, &narrowed(out.dtype, "next")));
            bindings.set_word(target, "place >> 1u", &both)
        } else {
            bindings.store(target, out.dtype, "place", &narrow)
        };
        let store = format!("let columns: u32 = p[1u];\n{}let place: u32 = {place};\n{store}", nest.coordinates(AxisGroup::Outer, "batch"),);
        Ok(ProductEnds { factors, behind: String::new(), store, gathers: [None, None] })
    })
}
/// The factors for the matrix unit, where the device has one and it is of use: of 16 bits, and more than a few rows and columns.
fn for_matrices(launcher: &dyn Launcher, arrays: [&Array; 2], bindings: [usize; 2], along: [bool; 2], sizes: &ProductSizes) -> Option<UnitFactors> {
    let dtype = arrays[0].dtype;
    let is_fit = launcher.target().matrices && matches!(dtype, DType::F16 | DType::BF16) && arrays[1].dtype == dtype;
    if !is_fit || sizes.rows.min(sizes.columns) < FEW || sizes.depth < FEW {
        return None;
    }
    let side = |k: usize| {
        let (array, rank) = (arrays[k], arrays[k].shape.rank());
        let (row, column) = (rank - 2, rank - 1);
        // The left factor lies along K where it lies along its columns, the right one where it does not.
        let (inner, outer) = if along[k] { (column, row) } else { (row, column) };
        let in_pieces = |steps: isize| steps > 0 && steps % OF_PIECE == 0;
        let batched = (0..row).all(|x| array.shape[x] == 1 || array.strides[x] == 0 || in_pieces(array.strides[x]));
        let is_copied = array.strides[inner] == 1 && in_pieces(array.strides[outer]) && array.offset as isize % OF_PIECE == 0 && batched;
        let step = OWN + 2 * k + usize::from(outer == column);
        let whole = is_copied && array.shape[inner].is_multiple_of(OF_PIECE as usize);
        UnitFactor { binding: bindings[k], across: is_copied.then_some(step), whole, along_depth: (k == 0) == along[k] }
    };
    Some(UnitFactors { dtype, sides: [side(0), side(1)] })
}
/// Rows, columns or a depth of which the matrix unit would be mostly idle.
pub(crate) const FEW: usize = 16;
/// Elements of 16 bits in a piece of 16 bytes.
pub(crate) const OF_PIECE: isize = 8;
/// A sum as a register of the dtype, rounded once.
pub(crate) fn narrowed(dtype: DType, total: &str) -> String {
    match dtype {
        DType::F16 => format!("adm_round_f16({total})"),
        DType::BF16 => format!("adm_round_bf16({total})"),
        _ => total.to_string(),
    }
}
