//! Where we answer otherwise than PyTorch on purpose, each with a name and a reason.
//!
//! A line says for which functions and which calls it holds, as narrowly as its reason does: what it takes in is not looked
//! at any more. A difference that is a mistake of ours is mended and has no line.
use super::{
    Answered, ProgramArg, ProgramCall, ProgramItem,
    replay::{Outcome, ProgramDifference, ResolvedArg, tensors, tolerance},
};
use crate::data::upload;
use adamant_core::{DType, Device, HostArray};

mod lines;
pub use lines::LINES;

/// A call that compares unequal.
pub struct Case<'a> {
    /// the call
    pub call: &'a ProgramCall,
    /// its arguments
    pub args: &'a [ResolvedArg],
    /// how it differs
    pub difference: ProgramDifference,
    /// what it gave here
    pub outcome: &'a Outcome,
    /// what it gave there
    pub answered: &'a Answered,
    /// what each wrong number is here and there; none, where a dtype, a shape or a refusal differs
    pub wrong: Vec<(f64, f64)>,
}
impl Case<'_> {
    /// The function's name without its namespace.
    pub fn short(&self) -> &str {
        self.call.name.rsplit("::").next().unwrap_or_default()
    }
    fn tensors(&self) -> Vec<&HostArray> {
        tensors(self.args)
    }
    /// Is there an operand of such a dtype?
    fn any(&self, what: impl Fn(DType) -> bool) -> bool {
        self.tensors().iter().any(|a| what(a.dtype))
    }
    fn any_int(&self) -> bool {
        self.any(|d| !d.is_float())
    }
    fn any_bool(&self) -> bool {
        self.any(|d| d == DType::Bool)
    }
    /// Are the operands of several dtypes?
    fn mixed(&self) -> bool {
        self.tensors().windows(2).any(|w| w[0].dtype != w[1].dtype)
    }
    /// Is there an operand without elements?
    fn empty(&self) -> bool {
        self.tensors().iter().any(|a| a.is_empty())
    }
    /// Is there an operand without axes?
    fn scalar(&self) -> bool {
        self.tensors().iter().any(|a| a.shape.rank() == 0)
    }
    /// Is there a NaN, an infinity, or a number whose square leaves the dtype's range, or as an integer that of exact floats?
    fn extreme(&self) -> bool {
        self.tensors().iter().any(|a| {
            let limit = if a.dtype.is_float() { a.dtype.largest().unwrap_or(f64::MAX).sqrt() / 4.0 } else { 1e7 };
            (0..a.len()).map(|k| a.scalar(k).to_f64()).any(|v| !v.is_finite() || v.abs() >= limit)
        })
    }
    fn zero(&self) -> bool {
        self.tensors().iter().any(|a| (0..a.len()).any(|k| a.scalar(k).to_f64() == 0.0))
    }
    fn not_a_number(&self) -> bool {
        self.tensors().iter().filter(|a| a.dtype.is_float()).any(|a| (0..a.len()).any(|k| a.float(k).is_nan()))
    }
    /// Has an operand two equal elements, or do two operands agree in one?
    fn tied(&self) -> bool {
        let mut all: Vec<f64> = self.tensors().iter().flat_map(|a| (0..a.len()).map(|k| a.scalar(k).to_f64())).collect();
        all.sort_by(f64::total_cmp);
        all.windows(2).any(|w| w[0] == w[1])
    }
    /// Does PyTorch's refusal say one of these?
    fn said(&self, words: &[&str]) -> bool {
        matches!(self.answered, Answered::Refused(why) if words.iter().any(|w| why.contains(w)))
    }
    /// Does our refusal say one of these?
    fn says(&self, words: &[&str]) -> bool {
        matches!(self.outcome, Outcome::Refused(_, why) if words.iter().any(|w| why.contains(w)))
    }
    /// Is our refusal of this kind?
    fn refused_as(&self, word: &str) -> bool {
        matches!(self.outcome, Outcome::Refused(kind, _) if *kind == word)
    }
    fn here(&self) -> bool {
        self.difference == ProgramDifference::RefusedHere
    }
    fn there(&self) -> bool {
        self.difference == ProgramDifference::RefusedThere
    }
    /// Is such a dtype among the arguments?
    fn asked_for(&self, what: impl Fn(DType) -> bool) -> bool {
        self.call.args.iter().any(|a| matches!(a, ProgramArg::Dtype(name) if name.parse().is_ok_and(&what)))
    }
    /// Is an operand a float that no integer is near: NaN, an infinity, or beyond all of the result's dtype?
    fn out_of_range(&self) -> bool {
        let Outcome::Given(given) = self.outcome else { return false };
        let range = given.first().and_then(|a| a.dtype.int_range());
        let beyond = |v: f64| range.is_some_and(|(low, high)| !v.is_finite() || v < low as f64 || v > high as f64);
        self.tensors().first().is_some_and(|a| a.dtype.is_float() && (0..a.len()).any(|k| beyond(a.float(k))))
    }
    /// Is a Rust number among the arguments?
    fn number(&self) -> bool {
        self.call.args.iter().any(|a| matches!(a, ProgramArg::Flag(_) | ProgramArg::Int(_) | ProgramArg::Real(_)))
    }
    fn flag(&self) -> bool {
        self.call.args.iter().any(|a| matches!(a, ProgramArg::Flag(_)))
    }
    fn indexed_by_tensors(&self) -> bool {
        self.call.args.iter().any(|a| matches!(a, ProgramArg::Index(items) if items.iter().any(|i| matches!(i, ProgramItem::Value(_)))))
    }
    fn is(&self, difference: ProgramDifference) -> bool {
        self.difference == difference
    }
    fn computed(&self) -> bool {
        matches!(self.difference, ProgramDifference::Values | ProgramDifference::Gradient)
    }
    /// Is each wrong number no finite one, here or there?
    fn infinite(&self) -> bool {
        self.computed() && !self.wrong.is_empty() && self.wrong.iter().all(|(here, there)| !here.is_finite() || !there.is_finite())
    }
    /// Is each wrong number no finite one, or no farther than a rounding of the largest products of the operands' elements?
    fn cancelled(&self) -> bool {
        let finite = self.tensors().into_iter().flat_map(|a| (0..a.len()).map(|k| a.scalar(k).to_f64().abs())).filter(|v| v.is_finite());
        let largest = finite.fold(1.0, f64::max);
        let rounding = self.tensors().iter().map(|a| tolerance(if a.dtype.is_float() { a.dtype } else { DType::F32 }).0).fold(0.0, f64::max);
        let near = |(here, there): &(f64, f64)| !here.is_finite() || !there.is_finite() || (here - there).abs() <= rounding * largest * largest;
        self.computed() && !self.wrong.is_empty() && self.wrong.iter().all(near)
    }
    /// The roundings of the narrowest float among the operands: half the distance from 1 to the next number.
    fn unit(&self) -> f64 {
        let of = |d: DType| match d {
            DType::F64 => f64::EPSILON,
            DType::F16 => 2f64.powi(-10),
            DType::BF16 => 2f64.powi(-7),
            _ => f64::from(f32::EPSILON),
        };
        self.tensors().iter().map(|a| of(a.dtype) / 2.0).fold(0.0, f64::max)
    }
    /// Is each wrong number no farther than a few roundings of the sum of all sizes?
    fn rounded(&self) -> bool {
        let sizes = self.tensors().into_iter().flat_map(|a| (0..a.len()).map(|k| a.scalar(k).to_f64().abs()));
        let sum: f64 = sizes.filter(|v| v.is_finite()).sum();
        let near = |(here, there): &(f64, f64)| (here - there).abs() <= 4.0 * self.unit() * sum;
        !self.wrong.is_empty() && self.wrong.iter().all(near)
    }
    /// Is each wrong number no farther than a few roundings of one over the smallest element?
    fn rounded_quotients(&self) -> bool {
        let sizes = self.tensors().into_iter().flat_map(|a| (0..a.len()).map(|k| a.scalar(k).to_f64().abs()));
        let least = sizes.filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        !self.wrong.is_empty() && self.wrong.iter().all(|(here, there)| (here - there).abs() <= 16.0 * self.unit() / least)
    }
    /// Are all wrong numbers no larger than the root of a few roundings of the largest element?
    fn roots_of_roundings(&self) -> bool {
        let largest = self.tensors().into_iter().flat_map(|a| (0..a.len()).map(|k| a.scalar(k).to_f64().abs())).fold(0.0, f64::max);
        let root = (16.0 * self.unit() * largest).sqrt();
        !self.wrong.is_empty() && self.wrong.iter().all(|(here, there)| here.abs() <= root && there.abs() <= root)
    }
    /// The singular values of each matrix of the first operand, in f64; none, where there is no matrix.
    fn singular_values(&self) -> Vec<Vec<f64>> {
        let Some(&a) = self.tensors().first() else { return Vec::new() };
        let count = a.shape.iter().rev().take(2).copied().min().unwrap_or(0);
        let values = Device::reference().scoped(|| upload(a, Device::reference()).cast(DType::F64).svdvals().to_vec::<f64>());
        values.map_or_else(|_| Vec::new(), |all| all.chunks(count.max(1)).map(<[f64]>::to_vec).collect())
    }
    /// Has a matrix of the first operand a singular value that is a rounding of its largest one?
    fn without_rank(&self) -> bool {
        self.singular_values().iter().any(|v| v[v.len() - 1] <= 64.0 * self.unit() * v[0])
    }
    /// Is the symmetric part of a matrix of the first operand one without an inverse?
    fn symmetric_without_rank(&self) -> bool {
        let Some(&a) = self.tensors().first().filter(|a| a.shape.rank() >= 2) else { return false };
        let values = Device::reference().scoped(|| {
            let x = upload(a, Device::reference());
            // The sum of bools is one.
            let sum = (&x + x.transpose(-2, -1)).cast(DType::F64) * 0.5;
            sum.svdvals().to_vec::<f64>()
        });
        let n = a.shape.last().copied().unwrap_or(1).max(1);
        values.is_ok_and(|all| all.chunks(n).any(|v| v[v.len() - 1] <= 64.0 * self.unit() * v[0]))
    }
    /// Is each wrong number the other's negative?
    fn opposite(&self) -> bool {
        !self.wrong.is_empty() && self.wrong.iter().all(|(here, there)| *here == -there)
    }
    /// Has one two that differ by a rounding of its largest?
    fn equal_singular_values(&self) -> bool {
        self.singular_values().iter().any(|v| v.windows(2).any(|w| w[0] - w[1] <= 64.0 * self.unit() * v[0]))
    }
    /// Are two neighbours of the first result equal but for a rounding of the largest?
    fn equal_results(&self) -> bool {
        let Outcome::Given(given) = self.outcome else { return false };
        let Some(values) = given.first().filter(|a| a.dtype.is_float() && !a.is_empty()) else { return false };
        let all: Vec<f64> = (0..values.len()).map(|k| values.float(k)).collect();
        let rows = all.chunks(values.shape.last().copied().unwrap_or(1));
        rows.into_iter().any(|row| {
            let largest = row.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            row.windows(2).any(|w| (w[0] - w[1]).abs() <= 64.0 * self.unit() * largest)
        })
    }
    /// Is no wrong number of PyTorch's an element of the first operand?
    fn foreign(&self) -> bool {
        let Some(&a) = self.tensors().first() else { return false };
        !self.wrong.is_empty() && self.wrong.iter().all(|(_, there)| (0..a.len()).all(|k| a.scalar(k).to_f64() != *there))
    }
    /// Is each wrong number no finite one, here or there, or the number of a step?
    fn failed(&self) -> bool {
        let step = |v: f64| v.fract() == 0.0 && (0.0..100.0).contains(&v);
        let lost = |&(here, there): &(f64, f64)| !here.is_finite() || !there.is_finite() || (step(here) && step(there));
        self.computed() && self.wrong.iter().any(|(here, there)| !here.is_finite() || !there.is_finite()) && self.wrong.iter().all(lost)
    }
    /// Is there a number below the normal ones that is not 0?
    fn denormal(&self) -> bool {
        self.tensors().iter().filter(|a| a.dtype.is_float()).any(|a| {
            let least = if a.dtype == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
            (0..a.len()).map(|k| a.float(k).abs()).any(|v| v > 0.0 && v < least)
        })
    }
    /// Is each wrong number as near as the narrowest float among the operands is exact?
    fn nearly(&self) -> bool {
        let dtypes: Vec<DType> = self.tensors().iter().map(|a| if a.dtype.is_float() { a.dtype } else { DType::F32 }).collect();
        self.nearly_as(&dtypes)
    }
    /// Is each wrong number as near as the narrowest of these floats is exact?
    fn nearly_as(&self, dtypes: &[DType]) -> bool {
        let exact = dtypes.iter().map(|&d| tolerance(d)).fold((0.0f64, 0.0f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        self.computed() && !self.wrong.is_empty() && self.wrong.iter().all(|(here, there)| (here - there).abs() <= 10.0 * (exact.0 * there.abs() + exact.1))
    }
}
/// A line of the table.
pub struct NamedDifference {
    /// its name, by which it is counted
    pub name: &'static str,
    /// why we differ
    pub reason: &'static str,
    /// the functions it holds for; empty: all
    pub functions: &'static str,
    /// does it hold for this call?
    pub holds: fn(&Case<'_>) -> bool,
}
/// The name of the first line that holds.
pub fn name(case: &Case<'_>) -> Option<&'static str> {
    LINES.iter().find(|line| (line.functions.is_empty() || line.functions.split(' ').any(|f| f == case.short())) && (line.holds)(case)).map(|line| line.name)
}
