//! What this machine can do at most, by kernels that share nothing with the framework's: chains of multiply-adds in
//! registers, copy and triad over arrays larger than the caches (McCalpin's STREAM), and the hand-over between threads.
//!
//! Times are the best of several: a ceiling is what was reached when nothing disturbed. Vectors are those of plain Rust
//! (`scalar`), AVX2, AVX-512 and NEON (crate `pulp`, which finds out at run time what the processor has). There is none for
//! 16-bit and 8-bit numbers, because their instructions cannot be had without unsafe code; what has no ceiling has no share
//! of one.
use super::Ceilings;
use crate::machine::largest_cache;
use pulp::{Simd, WithSimd};
use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::{Barrier, mpsc},
    time::Instant,
};

impl Ceilings {
    /// Measures them, in about a second.
    pub fn measure(threads: usize) -> Ceilings {
        let threads = threads.max(1);
        let (copy_gbps, triad_gbps) = memory(threads);
        Ceilings { threads, gflops: multiply_adds(threads), copy_gbps, triad_gbps, handover_ns: hand_over() }
    }
}

/// How often each timing is taken at once.
const ROUNDS: usize = 5;
/// So often in a row the best must not get better by more than [`BETTER`] before it counts; and so often at most.
const STABLE: usize = 3;
const MOST: usize = 24;
const BETTER: f64 = 0.01;
/// Multiply-adds in each chain of a timing.
const STEPS: usize = 400_000;
/// Accumulators: more than latency times throughput of any of today's units, and no more than there are registers.
const CHAINS: usize = 12;

/// Seconds of the fastest round of as many as it takes: on a busy machine few rounds are left alone.
fn fastest(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let (mut best, mut stable) = (f64::INFINITY, 0);
    for _ in 0..MOST {
        let now = fastest_of_some(threads, &work);
        stable = if now < best * (1.0 - BETTER) { 0 } else { stable + 1 };
        best = best.min(now);
        if stable == STABLE {
            break;
        }
    }
    best
}
/// Seconds of the fastest of [`ROUNDS`], of work that all threads begin together.
fn fastest_of_some(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let all = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|t| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    (0..ROUNDS)
                        .map(|_| {
                            barrier.wait();
                            let start = Instant::now();
                            work(t);
                            start.elapsed().as_secs_f64()
                        })
                        .collect::<Vec<f64>>()
                })
            })
            .collect();
        running.into_iter().filter_map(|r| r.join().ok()).collect::<Vec<_>>()
    });
    // A round takes as long as its slowest thread.
    (0..ROUNDS).map(|r| all.iter().map(|times| times[r]).fold(0.0, f64::max)).fold(f64::INFINITY, f64::min)
}

/// Multiply-adds of vectors in each of [`CHAINS`] chains, so often; the sum of all, and how many numbers a vector has.
struct Chains<T> {
    steps: usize,
    factor: T,
    term: T,
}
macro_rules! chains {
    ($t:ty, $splat:ident, $multiply_add:ident, $sum:ident, $lanes:ident) => {
        impl WithSimd for Chains<$t> {
            type Output = ($t, usize);
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> ($t, usize) {
                let (factor, term) = (simd.$splat(self.factor), simd.$splat(self.term));
                let mut chains = [simd.$splat(1.0); CHAINS];
                for _ in 0..self.steps {
                    for x in &mut chains {
                        *x = simd.$multiply_add(*x, factor, term);
                    }
                }
                (chains.into_iter().map(|x| simd.$sum(x)).sum(), S::$lanes)
            }
        }
    };
}
chains!(f32, splat_f32s, mul_add_e_f32s, reduce_sum_f32s, F32_LANES);
chains!(f64, splat_f64s, mul_add_e_f64s, reduce_sum_f64s, F64_LANES);

/// One vector of the least that a target's processors have.
type Plain = [f32; 4];
/// Chains of plain vectors: few enough for the registers of that processor.
const PLAIN_CHAINS: usize = 8;
/// The same chains in plain Rust: a product and a sum, no fused multiply-add. Each chain is a variable of its own, or the
/// compiler would keep them in memory.
fn plain_chains(steps: usize, factor: f32, term: f32) -> f32 {
    let (f, t) = ([factor; 4], [term; 4]);
    let next = |x: Plain| -> Plain { [x[0] * f[0] + t[0], x[1] * f[1] + t[1], x[2] * f[2] + t[2], x[3] * f[3] + t[3]] };
    let [mut a, mut b, mut c, mut d, mut e, mut g, mut h, mut k] = [[1.0f32; 4]; PLAIN_CHAINS];
    for _ in 0..steps {
        (a, b, c, d) = (next(a), next(b), next(c), next(d));
        (e, g, h, k) = (next(e), next(g), next(h), next(k));
    }
    [a, b, c, d, e, g, h, k].iter().flatten().sum()
}
/// Peaks under `set/dtype`.
fn multiply_adds(threads: usize) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let seconds = fastest(threads, |_| {
        black_box(plain_chains(STEPS, black_box(0.999), black_box(1e-3)));
    });
    found.insert("scalar/f32".into(), (2 * size_of::<Plain>() / size_of::<f32>() * PLAIN_CHAINS * STEPS * threads) as f64 / seconds * 1e-9);
    #[cfg(target_arch = "x86_64")]
    {
        peaks_of("avx2", pulp::x86::V3::try_new(), threads, &mut found);
        peaks_of("avx512", pulp::x86::V4::try_new(), threads, &mut found);
    }
    #[cfg(target_arch = "aarch64")]
    peaks_of("neon", pulp::aarch64::Neon::try_new(), threads, &mut found);
    found
}
/// Both dtypes in a set, if the processor has it. The factors come from outside, so that nothing is known beforehand.
fn peaks_of<S: Simd>(name: &str, set: Option<S>, threads: usize, found: &mut BTreeMap<String, f64>) {
    let Some(set) = set else { return };
    let singles = || black_box(set.vectorize(Chains::<f32> { steps: STEPS, factor: black_box(0.999), term: black_box(1e-3) })).1;
    let doubles = || black_box(set.vectorize(Chains::<f64> { steps: STEPS, factor: black_box(0.999), term: black_box(1e-3) })).1;
    let mut measured = |dtype: &str, work: &(dyn Fn() -> usize + Sync)| {
        let lanes = work();
        let seconds = fastest(threads, |_| {
            work();
        });
        found.insert(format!("{name}/{dtype}"), (2 * lanes * CHAINS * STEPS * threads) as f64 / seconds * 1e-9);
    };
    measured("f32", &singles);
    measured("f64", &doubles);
}

/// Copy and triad, in 10⁹ bytes in a second: two and three arrays' worth of traffic.
fn memory(threads: usize) -> (f64, f64) {
    // What the last round left in the caches must be a small share of it.
    let bytes = largest_cache().unwrap_or(0).saturating_mul(8).clamp(256 << 20, 1 << 30) as usize;
    let each = bytes / size_of::<f32>() / threads;
    type Arrays = [Vec<f32>; 3];
    let arrays: Vec<std::sync::Mutex<Arrays>> = (0..threads).map(|_| std::sync::Mutex::new([vec![0.0; each], vec![1.0; each], vec![2.0; each]])).collect();
    let with = |t: usize, work: fn(&mut Arrays)| {
        if let Ok(mut mine) = arrays[t].lock() {
            work(&mut mine);
            black_box(&mut *mine);
        }
    };
    let copy = fastest(threads, |t| with(t, |[a, b, _]| a.copy_from_slice(b)));
    let triad = fastest(threads, |t| {
        with(t, |[a, b, c]| {
            for ((a, b), c) in a.iter_mut().zip(b.iter()).zip(c.iter()) {
                *a = b + 0.5 * c;
            }
        })
    });
    let traffic = (each * threads * size_of::<f32>()) as f64 * 1e-9;
    (2.0 * traffic / copy, 3.0 * traffic / triad)
}

/// 10⁹ bytes in a second of so many threads that read arrays larger than the caches once, and do nothing else with them.
pub fn read_gbps(threads: usize) -> f64 {
    let threads = threads.max(1);
    // What the last round left in the caches must be a small share of it.
    let bytes = largest_cache().unwrap_or(0).saturating_mul(8).clamp(256 << 20, 1 << 30) as usize;
    // Zeros that nobody has written are one page for all addresses, which stays in the nearest cache.
    let arrays: Vec<Vec<u64>> = (1..=threads).map(|t| vec![t as u64; bytes / size_of::<u64>() / threads]).collect();
    let seconds = fastest(threads, |t| {
        // Sixteen sums, so that none waits for another.
        let mut sums = [0u64; 16];
        for words in arrays[t].chunks_exact(16) {
            sums.iter_mut().zip(words).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
        }
        black_box(sums);
    });
    (bytes / threads * threads) as f64 / seconds * 1e-9
}
/// Nanoseconds from one thread to another: half of a way there and back, where both sleep while they wait.
fn hand_over() -> f64 {
    const TRIPS: usize = 2000;
    let ((there, arrives), (back, returns)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || arrives.iter().try_for_each(|()| back.send(())));
        let mut times: Vec<f64> = (0..TRIPS)
            .map_while(|_| {
                let start = Instant::now();
                there.send(()).ok()?;
                returns.recv().ok()?;
                Some(start.elapsed().as_secs_f64() * 1e9)
            })
            .collect();
        drop(there);
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).map_or(0.0, |t| t / 2.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_that_is_nothing_or_of_another_set() {
        let c = Ceilings {
            threads: 1,
            gflops: [("avx2/f32".to_string(), 100.0), ("avx512/f32".to_string(), 200.0), ("avx2/f64".to_string(), 50.0)].into(),
            copy_gbps: 10.0,
            triad_gbps: 12.0,
            handover_ns: 1.0,
        };
        assert_eq!(
            [c.peak_gflops(Some("avx2"), "f32"), c.peak_gflops(None, "f32"), c.peak_gflops(Some("neon"), "f64")],
            [Some(100.0), Some(200.0), Some(50.0)]
        );
        assert_eq!((c.peak_gflops(Some("avx512"), "bf16"), c.gbps()), (None, 12.0));
        assert!(hand_over() > 0.0);
    }
    #[test]
    fn chains_that_compute_something_else() {
        // 1 becomes 2 by x / 2 + 1, in every lane of every chain.
        let (sum, lanes) = pulp::Arch::new().dispatch(Chains::<f32> { steps: 100, factor: 0.5, term: 1.0 });
        assert!((sum - 2.0 * (lanes * CHAINS) as f32).abs() < 1e-3, "{sum}");
        assert!((plain_chains(100, 0.5, 1.0) - 2.0 * (4 * PLAIN_CHAINS) as f32).abs() < 1e-3);
    }
    #[test]
    fn a_round_that_the_machine_disturbed_is_taken_for_the_ceiling() {
        let call = std::sync::atomic::AtomicUsize::new(0);
        // All rounds but every seventh are slow.
        let seconds = fastest(1, |_| {
            let k = call.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(if k % 7 == 6 { 1 } else { 12 }));
        });
        assert!(seconds < 0.009, "{seconds}");
    }
}
