//! Fourier transforms by Stockham's algorithm (Cochran et al., 1967). Sixteen transforms go abreast, one in each lane; a long one
//! is a matrix whose columns and rows are (Bailey, 1990). Real numbers are transformed as half as many complex ones.
mod plan;
mod run;

use super::{known, rows::Summed};
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    isa::Isa,
    operand::internal,
    scratch::{KeptElement, ScratchVec, filled},
    threads::Threads,
};
use adamant_runtime::{
    Composite, DType, ErrorKind,
    composite::fourier::{Fourier, FourierKind},
    kernel::FaultWord,
};
use parking_lot::Mutex;
use plan::Plan;
use run::StageEnds;
use std::sync::Arc;

/// What is transformed.
pub(super) trait FourierElement: Summed + KeptElement + bytemuck::Pod + Send + Sync {
    fn plans(of: &FourierKernel) -> &Plans<Self>;
}
impl FourierElement for f32 {
    fn plans(of: &FourierKernel) -> &Plans<f32> {
        &of.single
    }
}
impl FourierElement for f64 {
    fn plans(of: &FourierKernel) -> &Plans<f64> {
        &of.double
    }
}
/// What transforms of one length take.
pub(super) struct Ready<T: FourierElement> {
    plan: Plan<T>,
    /// of real rows: `exp(-2 pi i k / n)` up to half of n, in pairs
    roots: ScratchVec<T>,
}
/// Which one: of n points, of many rows or few, of real numbers as half as many complex ones.
type Which = (usize, bool, bool);
/// What was made, used last in front.
type Plans<T> = Mutex<Vec<(Which, Arc<Ready<T>>)>>;
/// How many are kept, of up to so many points.
const KEPT: usize = 16;
const POINTS: usize = 1 << 20;

#[derive(Default)]
pub(super) struct FourierKernel {
    single: Plans<f32>,
    double: Plans<f64>,
}
impl FourierKernel {
    fn ready<T: FourierElement>(&self, n: usize, rows: usize, real: bool) -> Result<Arc<Ready<T>>, ErrorKind> {
        let (plans, which) = (T::plans(self), (n, rows >= plan::ABREAST, real));
        let mut kept = plans.lock();
        if let Some(at) = kept.iter().position(|(key, _)| *key == which) {
            kept[..=at].rotate_right(1);
            return Ok(kept[0].1.clone());
        }
        drop(kept);
        let ready = Arc::new(if real {
            Ready { plan: Plan::new(n / 2, which.1)?, roots: plan::half_turn(n)? }
        } else {
            Ready { plan: Plan::new(n, which.1)?, roots: ScratchVec::default() }
        });
        if n <= POINTS {
            let mut kept = plans.lock();
            kept.truncate(KEPT - 1);
            kept.insert(0, (which, ready.clone()));
        }
        Ok(ready)
    }
}
impl CpuKernel for FourierKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        dtypes.iter().all(|d| *d == DType::F32) || dtypes.iter().all(|d| *d == DType::F64)
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let fourier = known::<Fourier>(composite).ok_or_else(|| internal("a transform of another make"))?;
        if operands.inputs.first().ok_or_else(|| internal("a transform of nothing"))?.dtype == DType::F64 {
            self.transform::<f64>(fourier, operands.input(0)?, operands.output(0)?, runtime)
        } else {
            self.transform::<f32>(fourier, operands.input(0)?, operands.output(0)?, runtime)
        }
    }
}
/// RowPass of one width into rows of another, each by a transform of pairs.
struct RealRows<'a, T: FourierElement> {
    isa: Isa,
    plan: &'a Plan<T>,
    inverse: bool,
    scale: T,
    /// elements of a row of the input, of the transform, of the output
    widths: [usize; 3],
}
impl<T: FourierElement> RealRows<'_, T> {
    fn run(
        &self,
        threads: &Threads,
        x: &[T],
        out: &mut [T],
        before: impl Fn(&[T], &mut [T]) + Sync,
        after: impl Fn(&[T], &mut [T]) + Sync,
    ) -> Result<(), ErrorKind> {
        let [from, width, to] = self.widths;
        let rows = out.len() / to;
        let some = (16 * 1024 / width).max(1).min(rows.div_ceil(threads.count())).next_multiple_of(plan::ABREAST).min(rows);
        let inside = if rows < threads.count() { threads } else { Threads::alone() };
        let part = |x: &[T], out: &mut [T]| -> Result<(), ErrorKind> {
            let rows = out.len() / to;
            let (mut first, mut second) = (filled(T::ZERO, rows * width)?, filled(T::ZERO, rows * width)?);
            x.chunks_exact(from).zip(first.chunks_exact_mut(width)).for_each(|(x, first)| before(x, first));
            run::rows(self.isa, inside, self.plan, self.inverse, self.scale, &first, &mut second)?;
            second.chunks_exact(width).zip(out.chunks_exact_mut(to)).for_each(|(second, out)| after(second, out));
            Ok(())
        };
        if rows < threads.count() {
            return part(x, out);
        }
        threads.try_for_parts(x.chunks(some * from).zip(out.chunks_mut(some * to)), |_, (x, out)| part(x, out))
    }
}
impl FourierKernel {
    fn transform<T: FourierElement>(&self, fourier: &Fourier, x: &[T], out: &mut [T], runtime: &Runtime) -> Result<(), ErrorKind> {
        let Fourier { n, inverse, scale, .. } = *fourier;
        if out.is_empty() || n == 0 {
            return Ok(());
        }
        let (isa, threads, scale) = (runtime.isa, &runtime.threads, T::nearest(scale));
        let half = n / 2;
        // Complex numbers of the half of a real row, which has one more.
        let width = 2 * (half + 1);
        match fourier.kind {
            FourierKind::Complex => {
                let ready = self.ready::<T>(n, out.len() / (2 * n), false)?;
                run::rows(isa, threads, &ready.plan, inverse, scale, x, out)
            }
            FourierKind::RealToHalf if n % 2 == 0 => {
                let ready = self.ready::<T>(n, x.len() / n, true)?;
                if run::real_rows(isa, threads, &ready.plan, StageEnds::ToHalf(&ready.roots), inverse, scale, x, out)? {
                    return Ok(());
                }
                let rows = RealRows { isa, plan: &ready.plan, inverse, scale, widths: [n, n, width] };
                rows.run(threads, x, out, |x, z| z.copy_from_slice(x), |z, out| unpacked(z, &ready.roots, inverse, out))
            }
            FourierKind::RealToHalf => {
                let ready = self.ready::<T>(n, x.len() / n, false)?;
                let rows = RealRows { isa, plan: &ready.plan, inverse, scale, widths: [n, 2 * n, width] };
                let before = |x: &[T], z: &mut [T]| z.chunks_exact_mut(2).zip(x).for_each(|(z, &x)| (z[0], z[1]) = (x, T::ZERO));
                rows.run(threads, x, out, before, |z, out| out.copy_from_slice(&z[..width]))
            }
            FourierKind::HalfToReal if n % 2 == 0 => {
                let ready = self.ready::<T>(n, out.len() / n, true)?;
                if run::real_rows(isa, threads, &ready.plan, StageEnds::FromHalf(&ready.roots), inverse, scale, x, out)? {
                    return Ok(());
                }
                let rows = RealRows { isa, plan: &ready.plan, inverse, scale, widths: [width, n, n] };
                rows.run(threads, x, out, |x, z| packed(x, &ready.roots, inverse, z), |z, out| out.copy_from_slice(z))
            }
            FourierKind::HalfToReal => {
                let ready = self.ready::<T>(n, out.len() / n, false)?;
                let rows = RealRows { isa, plan: &ready.plan, inverse, scale, widths: [width, 2 * n, n] };
                let before = |x: &[T], z: &mut [T]| {
                    // The other half is the mirror image, conjugated; the imaginary part of the first point is not read.
                    (z[0], z[1]) = (x[0], T::ZERO);
                    for k in 1..=half {
                        (z[2 * k], z[2 * k + 1]) = (x[2 * k], x[2 * k + 1]);
                        (z[2 * (n - k)], z[2 * (n - k) + 1]) = (x[2 * k], -x[2 * k + 1]);
                    }
                };
                rows.run(threads, x, out, before, |z, out| out.iter_mut().zip(z.chunks_exact(2)).for_each(|(o, z)| *o = z[0]))
            }
        }
    }
}
/// The first half of a real row's transform from that of its elements in pairs: even elements' and odd elements' transforms are
/// taken out of it and put together.
fn unpacked<T: FourierElement>(z: &[T], roots: &[T], inverse: bool, out: &mut [T]) {
    let half = z.len() / 2;
    let share = T::nearest(0.5);
    for k in 0..=half {
        let (a, b) = (2 * (k % half), 2 * ((half - k) % half));
        let (even, odd) = ([(z[a] + z[b]) * share, (z[a + 1] - z[b + 1]) * share], [(z[a + 1] + z[b + 1]) * share, (z[b] - z[a]) * share]);
        let (c, s) = (roots[2 * k], if inverse { -roots[2 * k + 1] } else { roots[2 * k + 1] });
        out[2 * k] = even[0] + (odd[0] * c - odd[1] * s);
        out[2 * k + 1] = even[1] + (odd[0] * s + odd[1] * c);
    }
}
/// The other way round: half a transform as that of a row's elements in pairs. The imaginary parts of the first point and the middle
/// one are not read.
fn packed<T: FourierElement>(x: &[T], roots: &[T], inverse: bool, z: &mut [T]) {
    let half = z.len() / 2;
    let imaginary = |k: usize| if k == 0 || k == half { T::ZERO } else { x[2 * k + 1] };
    for k in 0..half {
        let (a, b) = (k, half - k);
        let (sum, difference) = ([x[2 * a] + x[2 * b], imaginary(a) - imaginary(b)], [x[2 * a] - x[2 * b], imaginary(a) + imaginary(b)]);
        // Times i and the conjugate root.
        let (c, s) = (roots[2 * k], if inverse { -roots[2 * k + 1] } else { roots[2 * k + 1] });
        let rotated = [difference[0] * c - difference[1] * s, difference[0] * s + difference[1] * c];
        z[2 * k] = sum[0] - rotated[1];
        z[2 * k + 1] = sum[1] + rotated[0];
    }
}
