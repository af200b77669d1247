//! Attention over codes, head by head, without a matrix of numbers: with few queries codes become floats in registers ([`words`]), with
//! many those of a chunk of tokens in a buffer. So the memory reads a quarter or an eighth of what floats would take, which
//! is what one query over many tokens waits for. Keys that a query does not see are not read.
//!
//! The sums are those of the body's products: in the order of k from zero, chunk by chunk. With few queries they are formed here, one
//! row after the other; with many the buffer holds a chunk, and the product of matrices forms them. The bits are the body's either
//! way. Float masks run as the body.
mod words;

use super::{
    attention::weights_of_row,
    known,
    rows::{StoredElement, update, widened},
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    gemm::{MatRef, NoEpilogue, gemm},
    isa::Isa,
    map::load,
    operand::{In, internal},
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, ErrorKind, Shape,
    composite::{
        packed::Packing,
        quantized_attention::{QuantizedAttention, RowCodes},
    },
    kernel::FaultWord,
};
use words::{WeightedWords, few_products};

pub(super) struct QuantizedAttentionKernel;

/// Queries of a task.
const QUERIES: usize = 64;
/// Queries for which rows are multiplied one by one.
const FEW_QUERIES: usize = 4;
/// The length of a chunk of a product's sums.
const CHUNK: usize = 256;

/// Keys or values of all heads.
struct CodedHeads<'a> {
    packing: Packing,
    tokens: usize,
    features: usize,
    bytes: &'a [u8],
    scale: &'a [u8],
    scale_dtype: DType,
    zero_point: Option<&'a [u8]>,
}
impl<'a> CodedHeads<'a> {
    fn new(packing: Packing, rows: &RowCodes<'_, In<'a>>, features: usize) -> Result<CodedHeads<'a>, ErrorKind> {
        let shape = rows.codes.shape;
        let heads = CodedHeads {
            packing,
            tokens: shape[shape.rank() - 2],
            features,
            bytes: rows.codes.dense_bytes()?,
            scale: rows.scale.dense_bytes()?,
            scale_dtype: rows.scale.dtype,
            zero_point: rows.zero_point.map(|z| z.dense_bytes()).transpose()?,
        };
        let all = shape[..shape.rank() - 1].iter().product::<usize>();
        let fits = heads.bytes.len() == all * packing.row_bytes(features)
            && heads.scale.len() == all * heads.scale_dtype.size()
            && heads.zero_point.is_none_or(|z| z.len() == all);
        if fits { Ok(heads) } else { Err(internal("codes of tokens that do not fit")) }
    }
    /// The first tokens of a head.
    fn head(&self, head: usize, count: usize) -> CodedTokens<'a> {
        let (first, length) = (head * self.tokens, self.packing.row_bytes(self.features));
        CodedTokens {
            packing: self.packing,
            features: self.features,
            bytes: &self.bytes[first * length..][..count * length],
            zero_point: self.zero_point.map(|z| &z[first..][..count]),
        }
    }
    /// The scales of these tokens.
    fn scales(&self, isa: Isa, head: usize, out: &mut [f32]) {
        let size = self.scale_dtype.size();
        load::decode(isa, self.scale_dtype, &self.scale[head * self.tokens * size..][..out.len() * size], out);
    }
}
/// Codes of some tokens of a head.
#[derive(Clone, Copy)]
struct CodedTokens<'a> {
    packing: Packing,
    features: usize,
    bytes: &'a [u8],
    zero_point: Option<&'a [u8]>,
}
impl<'a> CodedTokens<'a> {
    fn narrow(self, first: usize, count: usize) -> CodedTokens<'a> {
        let length = self.packing.row_bytes(self.features);
        CodedTokens { bytes: &self.bytes[first * length..][..count * length], zero_point: self.zero_point.map(|z| &z[first..][..count]), ..self }
    }
}
/// Turns codes, less the code of 0, into floats.
struct CenteredCodes<'a> {
    rows: CodedTokens<'a>,
    out: &'a mut [f32],
}
impl SimdKernel for CenteredCodes<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let CenteredCodes { rows: CodedTokens { packing, features, bytes, zero_point }, out } = self;
        if packing.bits == 8 && packing.symmetric {
            for (to, &code) in out.iter_mut().zip(bytes) {
                *to = f32::from(code as i8);
            }
            return;
        }
        let rows = out.chunks_exact_mut(features).zip(bytes.chunks_exact(packing.row_bytes(features)));
        for (row, (out, bytes)) in rows.enumerate() {
            let base = zero_point.map_or(packing.offset(), |zero| i32::from(zero[row]));
            if packing.bits == 8 {
                for (to, &code) in out.iter_mut().zip(bytes) {
                    *to = (i32::from(code) - base) as f32;
                }
                continue;
            }
            let (pairs, last) = out.as_chunks_mut::<2>();
            for (pair, &byte) in pairs.iter_mut().zip(bytes) {
                *pair = [(i32::from(byte & 15) - base) as f32, (i32::from(byte >> 4) - base) as f32];
            }
            if let ([last], Some(byte)) = (last, bytes.get(pairs.len())) {
                *last = (i32::from(byte & 15) - base) as f32;
            }
        }
    }
}
/// Turns a row of products into weights of codes.
struct WeightsOfCodes<'a> {
    row: &'a mut [f32],
    seen: usize,
    /// of each key: its scale times that of the scores
    keys: &'a [f32],
    /// scales of the values
    values: &'a [f32],
    /// which keys are seen: one for each, or one for all
    mask: Option<&'a [u8]>,
}
impl SimdKernel for WeightsOfCodes<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let WeightsOfCodes { row, seen, keys, values, mask } = self;
        let (row, hidden) = row.split_at_mut(seen);
        hidden.fill(0.0);
        update::<S, f32, 1>(
            row,
            [keys],
            #[inline(always)]
            |s, [factor]| s.mul(factor),
        );
        put_where_hidden(row, mask, f32::NEG_INFINITY);
        weights_of_row::<S, f32>(row, seen);
        update::<S, f32, 1>(
            row,
            [values],
            #[inline(always)]
            |p, [scale]| p.mul(scale),
        );
        put_where_hidden(row, mask, 0.0);
    }
}
#[inline(always)]
fn put_where_hidden(row: &mut [f32], mask: Option<&[u8]>, value: f32) {
    match mask {
        Some(&[0]) => row.fill(value),
        Some(&[_]) | None => {}
        Some(mask) => {
            for (to, &seen) in row.iter_mut().zip(mask) {
                *to = if seen == 0 { value } else { *to };
            }
        }
    }
}

/// A mask of bools that broadcasts to scores.
struct BoolMask<'a> {
    bytes: &'a [u8],
    /// its sizes in front of the keys' axis, aligned to those of the scores
    front: Vec<usize>,
    /// keys, or 1
    width: usize,
}
impl<'a> BoolMask<'a> {
    fn new(mask: &In<'a>, rank: usize) -> Result<BoolMask<'a>, ErrorKind> {
        let shape = mask.shape;
        let own = shape.rank().saturating_sub(1);
        let front = std::iter::repeat_n(1, (rank - 1).saturating_sub(own)).chain(shape[..own].iter().copied()).collect();
        Ok(BoolMask { bytes: mask.dense_bytes()?, front, width: shape.last().copied().unwrap_or(1) })
    }
    /// Of a row of the scores `[.., queries, keys]`, by its number.
    fn row(&self, scores: &Shape, mut row: usize) -> &'a [u8] {
        let (mut at, mut stride) = (0, self.width);
        for (&own, &size) in self.front.iter().zip(&scores[..self.front.len()]).rev() {
            if own > 1 {
                at += row % size * stride;
            }
            stride *= own;
            row /= size;
        }
        &self.bytes[at..at + self.width]
    }
}

/// What a task reads.
struct CodedAttention<'a> {
    isa: Isa,
    of: &'a QuantizedAttention,
    keys: CodedHeads<'a>,
    values: CodedHeads<'a>,
    /// how many query heads share a key head
    ratio: usize,
    /// of a head
    queries: usize,
    /// keys that are tokens
    tokens: i64,
    mask: Option<BoolMask<'a>>,
    shape: Shape,
}
impl CodedAttention<'_> {
    /// How many keys a query sees.
    fn seen(&self, query: usize) -> usize {
        let all = if self.of.causal { self.tokens - (self.queries - 1 - query) as i64 } else { self.tokens };
        all.clamp(0, self.keys.tokens as i64) as usize
    }
    /// The output of some queries of a head, `q` being their features in f32.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn run(&self, head: usize, first: usize, q: &[f32], out: &mut [f32]) -> Result<(), ErrorKind> {
        let (isa, e, ev) = (self.isa, self.keys.features, self.values.features);
        let count = q.len() / e;
        let (seen, shared) = (self.seen(first + count - 1), head / self.ratio);
        if seen == 0 || ev == 0 {
            out.fill(0.0);
            return Ok(());
        }
        let (mut scores, mut factors, mut scales) = (filled(0f32, count * seen)?, filled(0f32, seen)?, filled(0f32, seen)?);
        self.keys.scales(isa, shared, &mut factors);
        self.values.scales(isa, shared, &mut scales);
        let scale = self.of.scale as f32;
        factors.iter_mut().for_each(|factor| *factor *= scale);
        let (keys, values) = (self.keys.head(shared, seen), self.values.head(shared, seen));
        let few = count <= FEW_QUERIES;
        let mut tile = filled(0f32, if few { 0 } else { CHUNK.min(seen) * e.max(ev) })?;
        if few {
            few_products(isa, q, keys, &mut scores)?
        } else {
            self.many_products(q, keys, &mut tile, &mut scores)?
        }
        for (i, row) in scores.chunks_exact_mut(seen).enumerate() {
            let mask = self.mask.as_ref().map(|mask| mask.row(&self.shape, head * self.queries + first + i));
            let mask = mask.map(|mask| if mask.len() > 1 { &mask[..seen] } else { mask });
            dispatch(isa, WeightsOfCodes { row, seen: self.seen(first + i), keys: &factors, values: &scales, mask });
        }
        if few { self.few_sums(&scores, values, out) } else { self.many_sums(&scores, values, &mut tile, out) }
    }
    /// Codes of some tokens as floats.
    fn center<'t>(&self, rows: CodedTokens<'_>, first: usize, count: usize, tile: &'t mut [f32]) -> &'t [f32] {
        let tile = &mut tile[..count * rows.features];
        dispatch(self.isa, CenteredCodes { rows: rows.narrow(first, count), out: tile });
        tile
    }
    fn few_sums(&self, scores: &[f32], values: CodedTokens<'_>, out: &mut [f32]) -> Result<(), ErrorKind> {
        let ev = values.features;
        let seen = scores.len() * ev / out.len();
        let mut sums = filled(0f32, out.len())?;
        for first in (0..seen).step_by(CHUNK) {
            let n = CHUNK.min(seen - first);
            sums.fill(0.0);
            for (sums, scores) in sums.chunks_exact_mut(ev).zip(scores.chunks_exact(seen)) {
                dispatch(self.isa, WeightedWords { weights: &scores[first..first + n], rows: values.narrow(first, n), sums });
            }
            add_chunk(first == 0, &sums, out);
        }
        Ok(())
    }
    fn many_products(&self, q: &[f32], keys: CodedTokens<'_>, tile: &mut [f32], scores: &mut [f32]) -> Result<(), ErrorKind> {
        let e = keys.features;
        let count = q.len() / e;
        let seen = scores.len() / count;
        let mut part = filled(0f32, count * CHUNK.min(seen))?;
        for first in (0..seen).step_by(CHUNK) {
            let n = CHUNK.min(seen - first);
            let rows = MatRef::row_major(self.center(keys, first, n, tile), n, e).transposed();
            let part = &mut part[..count * n];
            gemm(Threads::alone(), self.isa, 1, count, n, e, MatRef::row_major(q, count, e), rows, part, &NoEpilogue)?;
            for (row, part) in scores.chunks_exact_mut(seen).zip(part.chunks_exact(n)) {
                row[first..first + n].copy_from_slice(part);
            }
        }
        Ok(())
    }
    fn many_sums(&self, scores: &[f32], values: CodedTokens<'_>, tile: &mut [f32], out: &mut [f32]) -> Result<(), ErrorKind> {
        let ev = values.features;
        let count = out.len() / ev;
        let seen = scores.len() / count;
        let mut sums = filled(0f32, out.len())?;
        for first in (0..seen).step_by(CHUNK) {
            let n = CHUNK.min(seen - first);
            let rows = MatRef::row_major(self.center(values, first, n, tile), n, ev);
            let weights = MatRef { data: scores, offset: first, row_stride: seen as isize, col_stride: 1, batch_stride: 0 };
            gemm(Threads::alone(), self.isa, 1, count, ev, n, weights, rows, &mut sums, &NoEpilogue)?;
            add_chunk(first == 0, &sums, out);
        }
        Ok(())
    }
}
/// The sums of a chunk join those before it.
fn add_chunk(first: bool, sums: &[f32], out: &mut [f32]) {
    if first {
        out.copy_from_slice(sums);
    } else {
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
    }
}

fn forward<M: StoredElement<Real = f32>>(of: &QuantizedAttention, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind> {
    let roles = of.roles(operands.inputs)?;
    let shape = roles.q.shape;
    let rank = shape.rank();
    if rank < 2 {
        return Err(internal("attention over other shapes"));
    }
    let (queries, e, ev) = (shape[rank - 2], shape[rank - 1], of.features);
    let (keys, values) = (CodedHeads::new(of.packing, &roles.keys, e)?, CodedHeads::new(of.packing, &roles.values, ev)?);
    let all = |shape: &Shape| shape[..rank - 2].iter().product::<usize>();
    let (heads, shared) = (all(&shape), all(&roles.keys.codes.shape));
    let tokens: &[i32] = roles.tokens.dense()?;
    let attention = CodedAttention {
        isa: runtime.isa,
        of,
        keys,
        values,
        ratio: heads.checked_div(shared).unwrap_or(1),
        queries,
        tokens: i64::from(*tokens.first().ok_or_else(|| internal("a number of tokens without a number"))?),
        mask: roles.mask.map(|mask| BoolMask::new(mask, rank)).transpose()?,
        shape,
    };
    let q: &[M] = roles.q.dense()?;
    let [out] = operands.outputs else { return Err(internal("attention with other outputs")) };
    let out: &mut [M] = out.dense()?;
    if heads * queries == 0 || out.is_empty() {
        return Ok(());
    }
    if e == 0 {
        return Err(internal("attention without features"));
    }
    // A task is some queries of a head.
    let parts = out.chunks_mut(queries * ev).enumerate().flat_map(|(head, out)| out.chunks_mut(QUERIES * ev).enumerate().map(move |(b, out)| (head, b, out)));
    runtime.threads.try_for_parts(parts, |_, (head, b, out)| {
        let (first, count) = (b * QUERIES, out.len() / ev);
        let (mut q_scratch, mut result) = (ScratchVec::default(), M::scratch_vec(out.len())?);
        let q = widened(runtime.isa, &q[(head * queries + first) * e..][..count * e], &mut q_scratch)?;
        let mut done = Ok(());
        M::write(runtime.isa, out, &mut result, |out| done = attention.run(head, first, q, out));
        done
    })
}
impl CpuKernel for QuantizedAttentionKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        let Some(of) = known::<QuantizedAttention>(composite) else { return false };
        let [inputs @ .., result] = dtypes else { return false };
        let Ok(roles) = of.roles(inputs) else { return false };
        matches!(result, DType::F32 | DType::F16 | DType::BF16)
            && roles.q == result
            && roles.mask.is_none_or(|mask| *mask == DType::Bool)
            && [roles.keys.scale, roles.values.scale].iter().all(|scale| matches!(scale, DType::F32 | DType::F16))
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let of = known::<QuantizedAttention>(composite).ok_or_else(|| internal("attention over codes of another make"))?;
        match operands.dtype(0)? {
            DType::F32 => forward::<f32>(of, operands, runtime),
            DType::F16 => forward::<adamant_runtime::f16>(of, operands, runtime),
            _ => forward::<adamant_runtime::bf16>(of, operands, runtime),
        }
    }
}
