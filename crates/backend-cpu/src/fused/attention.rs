//! Attention head by head: scores, softmax and the product with the values stay in cache, and what a causal mask hides
//! is not computed. Masks and dropout run as the body. Every product is cut as that of whole matrices, so the bits are
//! the body's: a hidden weight is zero, and zeros change no sum.
use super::{
    known,
    matrices::{InMatrices, OutRows, Plane, fill_zeros},
    one_float_or_wide,
    rows::{StoredElement, Summed, max, sum, update},
};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    element::with_float,
    gemm::{GemmElement, MatRef, NoEpilogue, gemm},
    isa::Isa,
    map::loops::Real,
    math::elementary::{exp, log},
    operand::{In, internal},
    reduce::tree::{ReducedElement, Sum, block},
    scratch::{ScratchVec, filled},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::attention::{Attention, AttentionBackward},
    kernel::FaultWord,
};

/// Attention.
pub(super) struct AttentionForwardKernel;
/// Its backward.
pub(super) struct AttentionBackwardKernel;

/// Queries whose scores are formed at a time.
const QUERIES: usize = 64;
/// The length of a chunk of a product's sums: a sum may begin later only at a multiple of it.
const CHUNK: usize = 256;

/// Sizes of the heads, and how products are made.
struct Heads {
    /// all query heads, and how many share a key head
    count: usize,
    ratio: usize,
    queries: usize,
    keys: usize,
    /// features of queries and keys, and of values
    features: usize,
    values: usize,
    causal: bool,
    scale: f64,
    isa: Isa,
    alone: &'static Threads,
}
impl Heads {
    fn new(attention: &Attention, [q, k, v]: [&In<'_>; 3], isa: Isa) -> Result<Heads, ErrorKind> {
        let rank = q.shape.rank();
        if rank < 2 || k.shape.rank() != rank || v.shape.rank() != rank {
            return Err(internal("attention over other shapes"));
        }
        let heads = |i: &In<'_>| i.shape[..rank - 2].iter().product::<usize>();
        let (count, shared) = (heads(q), heads(k));
        Ok(Heads {
            count,
            ratio: count.checked_div(shared).unwrap_or(1),
            queries: q.shape[rank - 2],
            keys: k.shape[rank - 2],
            features: q.shape[rank - 1],
            values: v.shape[rank - 1],
            causal: attention.causal,
            scale: attention.scale,
            isa,
            alone: Threads::alone(),
        })
    }
    /// How many keys the queries before `end` see.
    fn seen(&self, end: usize) -> usize {
        if self.causal { self.keys.min(end) } else { self.keys }
    }
    /// The first query whose share a sum over queries for the keys from `key` on needs.
    fn since(&self, key: usize) -> usize {
        match (self.causal, self.queries <= CHUNK) {
            (false, _) => 0,
            (true, true) => key.min(self.queries),
            (true, false) => (key / CHUNK * CHUNK).min(self.queries),
        }
    }
    fn product<T: GemmElement>(&self, m: usize, n: usize, k: usize, a: MatRef<'_, T>, b: MatRef<'_, T>, c: &mut [T]) -> Result<(), ErrorKind> {
        gemm(self.alone, self.isa, 1, m, n, k, a, b, c, &NoEpilogue)
    }
}

/// Turns rows of products into weights: scale, softmax over what is seen, zeros over what is not.
struct AttentionWeights<'a, T> {
    rows: &'a mut [T],
    columns: usize,
    /// how many keys the first row sees; each further one sees one more, if `causal`
    seen: usize,
    causal: bool,
    scale: T,
    /// gets the logarithm of each row's sum
    lse: &'a mut [T],
}
impl<T: Summed> SimdKernel for AttentionWeights<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut largest = [T::ZERO; QUERIES];
        for (i, (row, lse)) in self.rows.chunks_exact_mut(self.columns).zip(&mut *self.lse).enumerate() {
            let seen = if self.causal { self.seen + i } else { self.seen }.min(self.columns);
            let scale = T::V::<S>::splat(self.scale);
            update::<S, T, 0>(
                &mut row[..seen],
                [],
                #[inline(always)]
                |s, []| s.mul(scale),
            );
            (largest[i % QUERIES], *lse) = weights_of_row::<S, T>(row, seen);
        }
        let count = self.lse.len().min(QUERIES);
        update::<S, T, 1>(
            &mut self.lse[..count],
            [&largest[..count]],
            #[inline(always)]
            |total, [most]| most.add(log(total)),
        );
    }
}
/// The largest of a row's scaled scores and the sum of its exponentials; the row becomes weights.
#[inline(always)]
pub(super) fn weights_of_row<S: Simd, T: Summed>(row: &mut [T], seen: usize) -> (T, T) {
    let (row, hidden) = row.split_at_mut(seen);
    hidden.fill(T::ZERO);
    let splat = T::V::<S>::splat;
    let mut most = max::<S, T>(row);
    if most == T::LOWEST {
        most = T::ZERO;
    }
    let largest = splat(most);
    update::<S, T, 0>(
        row,
        [],
        #[inline(always)]
        |s, []| exp(s.sub(largest)),
    );
    let total = T::nearest(sum::<S, T, 1>(
        [row],
        #[inline(always)]
        |[e]| e,
    ));
    let divisor = splat(if total == T::ZERO { T::ONE } else { total });
    update::<S, T, 0>(
        row,
        [],
        #[inline(always)]
        |e, []| e.div(divisor),
    );
    (most, total)
}
/// Turns a row of products into weights once more, and a row of the weights' cotangents into those of the scores, scaled.
struct Scores<'a, T> {
    p: &'a mut [T],
    dp: &'a mut [T],
    g: &'a [T],
    out: &'a [T],
    seen: usize,
    scale: T,
    lse: T,
    lse_cotangent: Option<T>,
    /// the output was rounded to 16 bits: its product with g would not cancel dp
    rounded: bool,
}
impl<T: Summed> SimdKernel for Scores<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (p, hidden) = self.p.split_at_mut(self.seen);
        hidden.fill(T::ZERO);
        let (dp, hidden) = self.dp.split_at_mut(self.seen);
        hidden.fill(T::ZERO);
        let splat = T::V::<S>::splat;
        let scale = splat(self.scale);
        // A row without weights: e^(s - inf) is zero.
        let lse = splat(if self.lse == T::LOWEST { T::HIGHEST } else { self.lse });
        update::<S, T, 0>(
            p,
            [],
            #[inline(always)]
            |s, []| exp(s.mul(scale).sub(lse)),
        );
        let pair = if self.rounded { [&*p, &*dp] } else { [self.g, self.out] };
        let mut delta = T::nearest(sum::<S, T, 2>(
            pair,
            #[inline(always)]
            |[a, b]| a.mul(b),
        ));
        if let Some(more) = self.lse_cotangent {
            delta = delta - more;
        }
        let delta = splat(delta);
        update::<S, T, 1>(
            dp,
            [p],
            #[inline(always)]
            |dp, [p]| p.mul(dp.sub(delta)).mul(scale),
        );
    }
}

fn forward<M: StoredElement>(attention: &Attention, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind>
where
    M::Real: GemmElement,
{
    let [q, k, v] = operands.inputs else { return Err(internal("attention with other operands")) };
    let h = Heads::new(attention, [q, k, v], runtime.isa)?;
    let (isa, scale) = (runtime.isa, M::Real::nearest(attention.scale));
    let [q, k, v] = [InMatrices::<M>::new(q)?, InMatrices::new(k)?, InMatrices::new(v)?];
    let [out, lse] = operands.outputs else { return Err(internal("attention with other outputs")) };
    let lse: &mut [M::Real] = lse.dense()?;
    if h.keys == 0 || lse.is_empty() {
        lse.fill(M::Real::LOWEST);
        return fill_zeros::<M>(out);
    }
    // A task is some queries of a head; values may have no features.
    let mut outs = OutRows::<M>::parts(out, QUERIES)?.into_iter();
    let parts = lse.chunks_mut(h.queries).enumerate().flat_map(|(head, lse)| lse.chunks_mut(QUERIES).enumerate().map(move |(b, lse)| (head, b, lse)));
    let parts = parts.map(|(head, b, lse)| (head, b, outs.next(), lse));
    runtime.threads.try_for_parts(parts, |_, (head, b, out, lse)| {
        let mut out = out.ok_or_else(|| internal("attention with another output"))?;
        let (first, count) = (b * QUERIES, lse.len());
        let seen = h.seen(first + count);
        let shared = head / h.ratio;
        let mut scratch = <[ScratchVec<M::Real>; 3]>::default();
        let [q_scratch, k_scratch, v_scratch] = &mut scratch;
        let q = q.plane(isa, head, first, count, q_scratch)?;
        let k = k.plane(isa, shared, 0, seen, k_scratch)?;
        let v = v.plane(isa, shared, 0, seen, v_scratch)?;
        let mut scores = filled(M::Real::ZERO, count * seen)?;
        h.product(count, seen, h.features, q.matrix(), k.transposed(), &mut scores)?;
        dispatch(isa, AttentionWeights { rows: &mut scores, columns: seen, seen: h.seen(first + 1), causal: h.causal, scale, lse });
        let p = Plane::new(&scores, seen);
        out.write(isa, 0, count, h.values, |out| h.product(count, h.values, seen, p.matrix(), v.matrix(), out))
    })
}

fn backward<M: StoredElement>(backward: &AttentionBackward, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind>
where
    M::Real: GemmElement,
{
    let [g, q, k, v, out, lse, rest @ ..] = operands.inputs else { return Err(internal("the backward of attention with other operands")) };
    let h = Heads::new(&backward.forward, [q, k, v], runtime.isa)?;
    let (isa, scale) = (runtime.isa, M::Real::nearest(h.scale));
    let rounded = operands.inputs[1].dtype != lse.dtype;
    let [g, q, k, v, out] = [InMatrices::<M>::new(g)?, InMatrices::new(q)?, InMatrices::new(k)?, InMatrices::new(v)?, InMatrices::new(out)?];
    let lse: &[M::Real] = lse.dense()?;
    let lse_cotangent: Option<&[M::Real]> = rest.first().filter(|_| backward.with_lse).map(|i| i.dense()).transpose()?;
    let [dq, dk, dv] = operands.outputs else { return Err(internal("the backward of attention with other outputs")) };
    if h.keys * h.queries * h.count * h.features == 0 {
        return [dq, dk, dv].into_iter().try_for_each(fill_zeros::<M>);
    }
    // A task is a key head with the query heads that share it.
    let (queries, keys, e, ev) = (h.queries, h.keys, h.features, h.values);
    let mut dq = OutRows::<M>::parts(dq, queries)?.into_iter();
    let (dk, dv) = (OutRows::<M>::parts(dk, keys)?, OutRows::<M>::parts(dv, keys)?);
    let parts = dk.into_iter().zip(dv).map(|(dk, dv)| (dq.by_ref().take(h.ratio).collect::<Vec<_>>(), dk, dv));
    runtime.threads.try_for_parts(parts, |shared, (dq, mut dk, mut dv)| {
        let mut terms = filled(M::Real::ZERO, h.ratio)?;
        let [mut k_scratch, mut v_scratch] = <[ScratchVec<M::Real>; 2]>::default();
        let k = k.plane(isa, shared, 0, keys, &mut k_scratch)?;
        let v = v.plane(isa, shared, 0, keys, &mut v_scratch)?;
        // [queries, keys]: weights, and the scores' cotangents.
        let (mut p, mut ds) = (filled(M::Real::ZERO, queries * keys)?, filled(M::Real::ZERO, queries * keys)?);
        let mut products = filled(M::Real::ZERO, QUERIES * keys)?;
        let (mut dks, mut dvs) = (filled(M::Real::ZERO, h.ratio * keys * e)?, filled(M::Real::ZERO, h.ratio * keys * ev)?);
        for (r, mut dq) in dq.into_iter().enumerate() {
            let head = shared * h.ratio + r;
            let mut scratch = <[ScratchVec<M::Real>; 3]>::default();
            let [q_scratch, g_scratch, out_scratch] = &mut scratch;
            let q = q.plane(isa, head, 0, queries, q_scratch)?;
            let g = g.plane(isa, head, 0, queries, g_scratch)?;
            let out = out.plane(isa, head, 0, queries, out_scratch)?;
            for first in (0..queries).step_by(QUERIES) {
                let count = QUERIES.min(queries - first);
                let seen = h.seen(first + count);
                let mut fill = |into: &mut [M::Real], a: MatRef<'_, M::Real>, b: MatRef<'_, M::Real>, depth: usize| -> Result<(), ErrorKind> {
                    let products = &mut products[..count * seen];
                    h.product(count, seen, depth, a, b, products)?;
                    for (row, products) in into[first * keys..].chunks_mut(keys).zip(products.chunks_exact(seen)) {
                        row[..seen].copy_from_slice(products);
                    }
                    Ok(())
                };
                fill(&mut p, q.since(first).matrix(), k.transposed(), e)?;
                fill(&mut ds, g.since(first).matrix(), v.transposed(), ev)?;
                let rows = p[first * keys..].chunks_exact_mut(keys).zip(ds[first * keys..].chunks_exact_mut(keys));
                for (i, (p, dp)) in rows.enumerate().take(count) {
                    let row = head * queries + first + i;
                    let (g, out) = if ev == 0 { (&[][..], &[][..]) } else { (g.row(first + i), out.row(first + i)) };
                    let lse_cotangent = lse_cotangent.map(|l| l[row]);
                    dispatch(isa, Scores { p, dp, g, out, seen: h.seen(first + i + 1), scale, lse: lse[row], lse_cotangent, rounded });
                }
                let ds = Plane::new(&ds, keys).since(first);
                dq.write(isa, first, count, e, |dq| h.product(count, e, seen, ds.matrix(), k.matrix(), dq))?;
            }
            let (dks, dvs) = (&mut dks[r * keys * e..][..keys * e], &mut dvs[r * keys * ev..][..keys * ev]);
            for first in (0..keys).step_by(QUERIES) {
                let count = QUERIES.min(keys - first);
                let since = h.since(first);
                if since == queries {
                    // Keys that no query sees.
                    continue;
                }
                let depth = queries - since;
                let transposed = |data| MatRef { data, offset: since * keys + first, row_stride: 1, col_stride: keys as isize, batch_stride: 0 };
                h.product(count, e, depth, transposed(&ds), q.since(since).matrix(), &mut dks[first * e..(first + count) * e])?;
                h.product(count, ev, depth, transposed(&p), g.since(since).matrix(), &mut dvs[first * ev..(first + count) * ev])?;
            }
        }
        for (out, each, columns) in [(&mut dk, &dks, e), (&mut dv, &dvs, ev)] {
            out.write(isa, 0, keys, columns, |to| {
                add_heads(each, &mut terms, to);
                Ok(())
            })?;
        }
        Ok(())
    })
}
/// The sums over heads that share a key head, by the tree; `terms` has a place for each.
fn add_heads<T: Summed>(each: &[T], terms: &mut [T], out: &mut [T]) {
    if terms.len() == 1 {
        out.copy_from_slice(each);
        return;
    }
    let n = out.len();
    for (j, out) in out.iter_mut().enumerate() {
        for (r, term) in terms.iter_mut().enumerate() {
            *term = each[r * n + j];
        }
        *out = T::nearest(terms.chunks(crate::reduce::tree::BLOCK).fold(0.0, |total, b| total + block::<T, Sum>(b).widen()));
    }
}

fn plain(attention: &Attention, dtypes: &[DType]) -> bool {
    !attention.mask && attention.dropout == 0.0 && one_float_or_wide(dtypes)
}
impl CpuKernel for AttentionForwardKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        known::<Attention>(composite).is_some_and(|a| plain(a, dtypes))
    }
    fn takes_rows(&self) -> bool {
        true
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let attention = known::<Attention>(composite).ok_or_else(|| internal("attention of another make"))?;
        with_float!(operands.inputs[0].dtype, M => forward::<M>(attention, operands, runtime))
    }
}
impl CpuKernel for AttentionBackwardKernel {
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        known::<AttentionBackward>(composite).is_some_and(|a| plain(&a.forward, dtypes))
    }
    fn takes_rows(&self) -> bool {
        true
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let attention = known::<AttentionBackward>(composite).ok_or_else(|| internal("the backward of attention of another make"))?;
        with_float!(operands.inputs[0].dtype, M => backward::<M>(attention, operands, runtime))
    }
}
