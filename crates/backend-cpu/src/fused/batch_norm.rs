//! Batch normalisation: a channel's elements of all samples are brought together, stay in cache, and go back to their
//! places.
use super::rows::{StoredElement, Summed, all, map, store_all, sum, sums};
use crate::{
    device::{KernelOperands, Runtime},
    isa::Isa,
    map::load,
    map::loops::Real,
    operand::internal,
    reduce::tree::ReducedElement,
    scratch::{KeptElement, ScratchParts, few, filled, parts, scratch_vec},
    simd::{Arithmetic, Float, Simd, SimdKernel, dispatch},
};
use adamant_runtime::{ErrorKind, Shape, composite::norm::Norm};
use smallvec::SmallVec;

/// `[samples, channels, inner]`.
#[derive(Clone, Copy)]
struct ChannelSizes {
    samples: usize,
    channels: usize,
    inner: usize,
}
impl ChannelSizes {
    fn of(shape: &Shape) -> Result<ChannelSizes, ErrorKind> {
        match &shape[..] {
            [samples, channels, inner @ ..] => Ok(ChannelSizes { samples: *samples, channels: *channels, inner: inner.iter().product() }),
            _ => Err(internal("a batch norm without channels")),
        }
    }
    fn elements(&self) -> usize {
        self.samples * self.inner
    }
    /// A channel's elements, in order.
    fn channel<M: Copy>(&self, x: &[M], c: usize, into: &mut Vec<M>) {
        into.clear();
        for n in 0..self.samples {
            let first = (n * self.channels + c) * self.inner;
            into.extend_from_slice(&x[first..first + self.inner]);
        }
    }
    /// Cuts an output into tasks of neighbouring channels: for each the first channel, its part of every sample, and of
    /// `shares`, which has an element for each channel.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn tasks<'a, M: KeptElement, T>(
        &self,
        threads: usize,
        out: &'a mut [M],
        shares: &'a mut [T],
    ) -> Result<SmallVec<[ChannelTask<'a, M, T>; MOST_TASKS]>, ErrorKind> {
        let group =
            if threads == 1 || self.channels * self.elements() < 1 << 15 { self.channels } else { self.channels.div_ceil((threads * 4).min(MOST_TASKS)) }
                .max(1);
        let mut tasks = few::<ChannelTask<'a, M, T>, MOST_TASKS>(shares.len().div_ceil(group))?;
        for (k, shares) in shares.chunks_mut(group).enumerate() {
            tasks.push(ChannelTask { first: k * group, pieces: parts(self.samples)?, shares });
        }
        for sample in out.chunks_mut((self.channels * self.inner).max(1)) {
            for (task, piece) in tasks.iter_mut().zip(sample.chunks_mut(group * self.inner)) {
                task.pieces.push(piece);
            }
        }
        Ok(tasks)
    }
}

/// A list of so many takes no memory.
const MOST_TASKS: usize = 64;
/// Neighbouring channels.
struct ChannelTask<'a, M: KeptElement, T> {
    first: usize,
    /// what they are of each sample
    pieces: ScratchParts<'a, M>,
    /// what each has besides
    shares: &'a mut [T],
}

/// The statistics of a channel: mean and biased variance.
struct ChannelStatistics<'a, T>(&'a [T]);
impl<T: Summed> SimdKernel for ChannelStatistics<'_, T> {
    type Output = (T, T);
    #[inline(always)]
    fn run<S: Simd>(self) -> (T, T) {
        let count = T::nearest(self.0.len() as f64);
        let mean = T::nearest(sum::<S, T, 1>(
            [self.0],
            #[inline(always)]
            |[x]| x,
        )) / count;
        let m = T::V::<S>::splat(mean);
        let squares = sum::<S, T, 1>(
            [self.0],
            #[inline(always)]
            |[x]| {
                let c = x.sub(m);
                c.mul(c)
            },
        );
        (mean, T::nearest(squares) / count)
    }
}
/// 1 / √(variance + eps).
struct InverseDeviation<T>(T, T);
impl<T: Summed> SimdKernel for InverseDeviation<T> {
    type Output = T;
    #[inline(always)]
    fn run<S: Simd>(self) -> T {
        let mut out = [T::ZERO];
        map::<S, T, 1>(
            &mut out,
            [&[self.0 + self.1]],
            #[inline(always)]
            |[v]| v.sqrt(),
        );
        T::ONE / out[0]
    }
}
/// The normalised elements of a channel go to their places: piece by piece, `at` in each.
struct Normalise<'a, 'o, M: StoredElement> {
    x: &'a [M::Real],
    mean: M::Real,
    rstd: M::Real,
    weight: Option<M::Real>,
    bias: Option<M::Real>,
    isa: Isa,
    inner: usize,
    at: usize,
    pieces: &'a mut [&'o mut [M]],
    scratch: &'a mut [M::Real],
}
impl<M: StoredElement> SimdKernel for Normalise<'_, '_, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let splat = <M::Real as Real>::V::<S>::splat;
        let (m, r) = (splat(self.mean), splat(self.rstd));
        let (w, b) = (splat(self.weight.unwrap_or(M::Real::ONE)), splat(self.bias.unwrap_or(M::Real::ZERO)));
        for (x, piece) in self.x.chunks_exact(self.inner).zip(self.pieces) {
            M::write(
                self.isa,
                &mut piece[self.at..self.at + self.inner],
                self.scratch,
                #[inline(always)]
                |out| match (self.weight, self.bias) {
                    (None, None) => map::<S, _, 1>(
                        out,
                        [x],
                        #[inline(always)]
                        |[x]| x.sub(m).mul(r),
                    ),
                    (Some(_), None) => map::<S, _, 1>(
                        out,
                        [x],
                        #[inline(always)]
                        |[x]| x.sub(m).mul(r).mul(w),
                    ),
                    (None, Some(_)) => map::<S, _, 1>(
                        out,
                        [x],
                        #[inline(always)]
                        |[x]| x.sub(m).mul(r).add(b),
                    ),
                    (Some(_), Some(_)) => map::<S, _, 1>(
                        out,
                        [x],
                        #[inline(always)]
                        |[x]| x.sub(m).mul(r).mul(w).add(b),
                    ),
                },
            );
        }
    }
}
/// The norm of a batch.
///
/// # Errors
/// `OutOfMemory`; other operands.
pub(super) fn forward<M: StoredElement>(norm: &Norm, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind>
where
    M::Real: load::Decode,
{
    let inputs = operands.inputs;
    let sizes = ChannelSizes::of(&inputs[0].shape)?;
    let mut params = inputs[1..].iter().map(|i| all::<M::Real>(runtime.isa, i));
    let weight = if norm.weight { params.next().transpose()? } else { None };
    let bias = if norm.bias { params.next().transpose()? } else { None };
    let x: &[M] = inputs[0].dense()?;
    let [y, mean, variance] = operands.outputs else { return Err(internal("a batch norm with other outputs")) };
    let (mean, variance): (&mut [M::Real], &mut [M::Real]) = (mean.dense()?, variance.dense()?);
    let (isa, eps) = (runtime.isa, M::Real::nearest(norm.eps));
    if sizes.elements() == 0 {
        mean.fill(M::Real::nearest(f64::NAN));
        variance.fill(M::Real::nearest(f64::NAN));
        return Ok(());
    }
    let mut rest = variance;
    // They stay this thread's, which keeps the memory of their lists.
    let mut tasks = sizes.tasks(runtime.threads.count(), y.dense::<M>()?, mean)?;
    let parts = tasks.iter_mut().map(|task| {
        let (variances, after) = std::mem::take(&mut rest).split_at_mut(task.shares.len());
        rest = after;
        (task, variances)
    });
    runtime.threads.try_for_parts(parts, |_, (ChannelTask { first, pieces, shares: means }, variances)| {
        let (mut stage, mut scratch, mut result) = (scratch_vec(sizes.elements())?, M::scratch_vec(sizes.elements())?, M::scratch_vec(sizes.inner)?);
        for (k, (mean, variance)) in means.iter_mut().zip(variances).enumerate() {
            let c = *first + k;
            sizes.channel(x, c, &mut stage);
            let x = M::read(isa, &stage, &mut scratch);
            (*mean, *variance) = dispatch(isa, ChannelStatistics(x));
            let rstd = dispatch(Isa::Scalar, InverseDeviation(*variance, eps));
            let (weight, bias) = (weight.as_ref().map(|w| w[c]), bias.as_ref().map(|b| b[c]));
            let (inner, pieces) = (sizes.inner, &mut pieces[..]);
            dispatch(isa, Normalise { x, mean: *mean, rstd, weight, bias, isa, inner, at: k * inner, pieces, scratch: &mut result });
        }
        Ok(())
    })
}

/// The sums of a channel's backward: of g·w·hat, g·w, g·hat and g.
struct BackwardSums<'a, T> {
    g: &'a [T],
    x: &'a [T],
    mean: T,
    rstd: T,
    weight: T,
}
impl<T: Summed> SimdKernel for BackwardSums<'_, T> {
    type Output = [T; 4];
    #[inline(always)]
    fn run<S: Simd>(self) -> [T; 4] {
        let splat = T::V::<S>::splat;
        let (m, r, w) = (splat(self.mean), splat(self.rstd), splat(self.weight));
        sums::<S, T, 2, 4>(
            [self.g, self.x],
            #[inline(always)]
            |[g, x]| {
                let (hat, weighted) = (x.sub(m).mul(r), g.mul(w));
                [weighted.mul(hat), weighted, g.mul(hat), g]
            },
        )
    }
}
struct BatchNormGradient<'a, 'o, M: StoredElement> {
    g: &'a [M::Real],
    x: &'a [M::Real],
    mean: M::Real,
    rstd: M::Real,
    weight: M::Real,
    along: M::Real,
    shift: M::Real,
    isa: Isa,
    inner: usize,
    at: usize,
    pieces: &'a mut [&'o mut [M]],
    scratch: &'a mut [M::Real],
}
impl<M: StoredElement> SimdKernel for BatchNormGradient<'_, '_, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let splat = <M::Real as Real>::V::<S>::splat;
        let (m, r, w) = (splat(self.mean), splat(self.rstd), splat(self.weight));
        let (a, s) = (splat(self.along), splat(self.shift));
        for ((g, x), piece) in self.g.chunks_exact(self.inner).zip(self.x.chunks_exact(self.inner)).zip(self.pieces) {
            M::write(
                self.isa,
                &mut piece[self.at..self.at + self.inner],
                self.scratch,
                #[inline(always)]
                |out| {
                    map::<S, _, 2>(
                        out,
                        [g, x],
                        #[inline(always)]
                        |[g, x]| g.mul(w).sub(x.sub(m).mul(r).mul(a)).sub(s).mul(r),
                    );
                },
            );
        }
    }
}

/// Its backward.
///
/// # Errors
/// `OutOfMemory`; other operands.
pub(super) fn backward<M: StoredElement>(norm: &Norm, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind>
where
    M::Real: load::Decode,
{
    let inputs = operands.inputs;
    let sizes = ChannelSizes::of(&inputs[1].shape)?;
    let weight = if norm.weight { Some(all::<M::Real>(runtime.isa, &inputs[2])?) } else { None };
    let (g, x): (&[M], &[M]) = (inputs[0].dense()?, inputs[1].dense()?);
    let [mean, variance] = &inputs[2 + norm.weight as usize..] else { return Err(internal("a batch norm with other statistics")) };
    let (mean, variance): (&[M::Real], &[M::Real]) = (mean.dense()?, variance.dense()?);
    let Some((dx, params)) = operands.outputs.split_first_mut() else { return Err(internal("the backward of a norm without outputs")) };
    let (isa, eps, count) = (runtime.isa, M::Real::nearest(norm.eps), M::Real::nearest(sizes.elements() as f64));
    // Sums for weight and bias, side by side.
    let mut shares = filled(M::Real::ZERO, 2 * sizes.channels)?;
    let (shares, _) = shares.as_chunks_mut::<2>();
    if sizes.elements() > 0 {
        let mut tasks = sizes.tasks(runtime.threads.count(), dx.dense::<M>()?, shares)?;
        runtime.threads.try_for_parts(&mut tasks, |_, ChannelTask { first, pieces, shares }| -> Result<(), ErrorKind> {
            let elements = sizes.elements();
            let (mut g_stage, mut x_stage) = (scratch_vec(elements)?, scratch_vec(elements)?);
            let (mut g_scratch, mut x_scratch, mut result) = (M::scratch_vec(elements)?, M::scratch_vec(elements)?, M::scratch_vec(sizes.inner)?);
            for (k, share) in shares.iter_mut().enumerate() {
                let c = *first + k;
                sizes.channel(g, c, &mut g_stage);
                sizes.channel(x, c, &mut x_stage);
                let (g, x) = (M::read(isa, &g_stage, &mut g_scratch), M::read(isa, &x_stage, &mut x_scratch));
                let (mean, rstd) = (mean[c], dispatch(Isa::Scalar, InverseDeviation(variance[c], eps)));
                // A missing weight is a factor of one, which changes no bit.
                let weight = weight.as_ref().map_or(M::Real::ONE, |w| w[c]);
                let [along, shift, for_weight, for_bias] = dispatch(isa, BackwardSums { g, x, mean, rstd, weight });
                *share = [for_weight, for_bias];
                let (along, shift) = (along / count, shift / count);
                let (inner, pieces) = (sizes.inner, &mut pieces[..]);
                dispatch(isa, BatchNormGradient { g, x, mean, rstd, weight, along, shift, isa, inner, at: k * inner, pieces, scratch: &mut result });
            }
            Ok(())
        })?;
    }
    let mut params = params.iter_mut();
    for (k, wanted) in [norm.weight, norm.bias].into_iter().enumerate() {
        if wanted {
            let out = params.next().ok_or_else(|| internal("the backward of a norm with fewer outputs"))?;
            store_all(isa, shares.iter().map(|s| s[k]), out)?;
        }
    }
    Ok(())
}
