//! Codes that a weight could have, and what they stand for. A scale is the dtype's that is stored before any code is found by it.
use crate::scheme::{InputScheme, LayerScheme};
use adamant_core::{
    DType, Error, ErrorKind, Result, Tensor,
    composite::packed::{CodeLevels, Packing, matrix},
    functional::PackedWeight,
};

/// Narrower ranges that are tried, as in AWQ's program: down to half, in steps of a twentieth.
pub(crate) const CLIPS: [f64; 10] = [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5];

/// The grid of numbers that codes of each group stand for: scales in f32 whose values the stored dtype holds, and zero points,
/// `[rows, groups]`.
pub(crate) struct CodeGrid {
    pub scale: Tensor,
    /// in f32
    pub zero_point: Option<Tensor>,
}
impl CodeGrid {
    /// The one that spans a weight `[rows, columns]` of floats.
    #[track_caller]
    pub fn spanning(weight: &Tensor, packing: Packing, scales: DType) -> Result<CodeGrid> {
        // Its codes are not looked at, and so never computed.
        let spanning = PackedWeight::round(weight, packing)?;
        let stored = |t: &Tensor| if scales == DType::F32 { t.clone() } else { t.cast(scales).cast(DType::F32) };
        Ok(CodeGrid { scale: stored(spanning.scale()), zero_point: spanning.zero_point().map(|z| z.cast(DType::F32)) })
    }
    /// The nearest codes of numbers `[rows, groups, columns of a group]`, as floats.
    #[track_caller]
    pub fn codes(&self, numbers: &Tensor, packing: Packing) -> Tensor {
        let (low, high) = packing.range();
        let steps = (numbers / self.scale.unsqueeze(2)).round();
        let steps = match &self.zero_point {
            Some(zero_point) => steps + zero_point.unsqueeze(2),
            None => steps,
        };
        steps.maximum(f64::from(low)).minimum(f64::from(high))
    }
    /// What codes stand for.
    #[track_caller]
    pub fn numbers(&self, codes: &Tensor) -> Tensor {
        match &self.zero_point {
            Some(zero_point) => (codes - zero_point.unsqueeze(2)) * self.scale.unsqueeze(2),
            None => codes * self.scale.unsqueeze(2),
        }
    }
}

/// Codes of a matrix `[rows, columns]`, and the numbers they stand for.
#[derive(Clone)]
pub(crate) struct Candidate {
    /// integers in f32
    pub codes: Tensor,
    /// f32
    pub numbers: Tensor,
    /// f32 `[rows, groups]`
    pub scale: Tensor,
    /// integers in f32 `[rows, groups]`
    pub zero_point: Option<Tensor>,
}
impl Candidate {
    /// Each number of a matrix of floats to the nearest code of a grid.
    #[track_caller]
    pub fn nearest(weight: &Tensor, grid: CodeGrid, packing: Packing) -> Result<Candidate> {
        let [rows, columns] = weight.dims()?;
        let groups = packing.groups(columns);
        let codes = grid.codes(&weight.cast(DType::F32).reshape([rows, groups, columns / groups]), packing);
        let numbers = grid.numbers(&codes);
        let flat = |t: &Tensor| t.reshape([rows, columns]);
        Ok(Candidate { codes: flat(&codes), numbers: flat(&numbers), scale: grid.scale, zero_point: grid.zero_point })
    }
    /// Each number of a matrix of floats to the nearest code of the grid that spans it.
    #[track_caller]
    pub fn rounded(weight: &Tensor, scheme: &LayerScheme) -> Result<Candidate> {
        Candidate::nearest(weight, CodeGrid::spanning(weight, scheme.packing, scheme.scales)?, scheme.packing)
    }
    /// The rows of another one where a bool for each row `[rows]` is true.
    #[track_caller]
    pub fn with_rows(&self, others: &Candidate, taken: &Tensor) -> Candidate {
        let taken = taken.unsqueeze(1);
        let mixed = |own: &Tensor, other: &Tensor| taken.where_(other, own);
        let zero_point = self.zero_point.as_ref().zip(others.zero_point.as_ref()).map(|(own, other)| mixed(own, other));
        Candidate {
            codes: mixed(&self.codes, &others.codes),
            numbers: mixed(&self.numbers, &others.numbers),
            scale: mixed(&self.scale, &others.scale),
            zero_point,
        }
    }
    /// Matrices one below the other.
    #[track_caller]
    pub fn stacked(parts: &[Candidate]) -> Candidate {
        let all = |of: fn(&Candidate) -> &Tensor| Tensor::cat(&parts.iter().map(of).collect::<Vec<_>>(), 0);
        let zero_points: Vec<&Tensor> = parts.iter().filter_map(|p| p.zero_point.as_ref()).collect();
        Candidate {
            codes: all(|p| &p.codes),
            numbers: all(|p| &p.numbers),
            scale: all(|p| &p.scale),
            zero_point: if zero_points.is_empty() { None } else { Some(Tensor::cat(&zero_points, 0)) },
        }
    }
    /// As a weight of a shape, with scales of a dtype.
    ///
    /// # Errors
    /// A scale that the dtype does not hold.
    #[track_caller]
    pub fn packed(&self, scheme: &LayerScheme, shape: &[usize]) -> Result<PackedWeight> {
        check_scales(&self.scale, scheme.scales)?;
        let zero_point = self.zero_point.as_ref().map(|z| z.cast(DType::U8));
        PackedWeight::of_codes(scheme.packing, shape, &self.codes.cast(DType::I32), &self.scale.cast(scheme.scales), zero_point.as_ref())
    }
}
/// Scales of a dtype narrower than f32 are looked at: one that has become 0 or infinite stands for nothing.
#[track_caller]
fn check_scales(scale: &Tensor, dtype: DType) -> Result<()> {
    if dtype == DType::F32 {
        return Ok(());
    }
    let [_, groups] = scale.dims()?;
    match scale.to_vec::<f32>()?.iter().enumerate().find(|(_, s)| **s == 0.0 || s.is_infinite()) {
        None => Ok(()),
        Some((at, stored)) => {
            let (row, group) = (at / groups.max(1), at % groups.max(1));
            let text = format!("the scale of row {row}, group {group}, is one that {dtype} does not hold: it would be stored as {stored}");
            Err(Error::new("packed weight", ErrorKind::Argument(text)).hint("take scales of f32 (`LayerScheme::scales`) for this layer"))
        }
    }
}
/// Each number of a weight to the nearest code.
///
/// # Errors
/// Those of [`PackedWeight::round`]; a scale that its dtype does not hold.
#[track_caller]
pub(crate) fn rounded(weight: &Tensor, scheme: &LayerScheme) -> Result<PackedWeight> {
    if scheme.scales == DType::F32 {
        return PackedWeight::round(weight, scheme.packing);
    }
    // What it refuses of the weight's shape and dtype.
    PackedWeight::round(weight, scheme.packing)?;
    let shape = weight.try_meta()?.shape;
    let (rows, columns) = matrix(&shape);
    Candidate::rounded(&weight.detach().reshape([rows, columns]), scheme)?.packed(scheme, &shape)
}
/// Each number of a weight to the nearest level of NF4.
///
/// # Errors
/// A scheme of other bits, with zero points, or whose inputs become codes; as [`rounded`].
#[track_caller]
pub(crate) fn normal_floats(weight: &Tensor, scheme: &LayerScheme) -> Result<PackedWeight> {
    const HINT: &str = "take `QuantizationConfig::named(\"nf4\")`, and change its group and scales alone";
    CodeLevels::NormalFloat.check(&scheme.packing).map_err(|kind| Error::new("packed weight", kind).hint(HINT))?;
    if scheme.input != InputScheme::Float {
        return Err(Error::new("packed weight", ErrorKind::Argument("codes of NF4 are multiplied as numbers, so inputs do not become codes".into())).hint(HINT));
    }
    let weight = PackedWeight::round_normal_float(weight, scheme.packing.group, scheme.scales)?;
    check_scales(&weight.scale().cast(DType::F32), scheme.scales)?;
    Ok(weight)
}
