//! The bits of every kernel of a small training run do not depend on the number of threads.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{functional as f, *};

fn numbers(shape: &[usize], seed: u32) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n as u64).map(|k| (rng::element_bits([seed, 0, 0, 0], k) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect(), shape)
}
type Case = (&'static str, fn() -> Result<Vec<Tensor>>);
fn conv(n: usize, ci: usize, co: usize, size: usize) -> Result<Vec<Tensor>> {
    let (x, w, b) = (numbers(&[n, ci, size, size], 1).tracked(), numbers(&[co, ci, 3, 3], 2).tracked(), numbers(&[co], 3).tracked());
    let y = f::conv2d(&x, &w, Some(&b), &f::ConvOptions { padding: 1.into(), ..Default::default() });
    let g = y.backward_with(&numbers(&[n, co, size, size], 4))?;
    Ok([&x, &w, &b].iter().filter_map(|t| g.get(t).cloned()).chain([y]).collect())
}
fn linear(n: usize, i: usize, o: usize) -> Result<Vec<Tensor>> {
    let (x, w, b) = (numbers(&[n, i], 1).tracked(), numbers(&[o, i], 2).tracked(), numbers(&[o], 3).tracked());
    let y = f::linear(&x, &w, Some(&b));
    let g = y.backward_with(&numbers(&[n, o], 4))?;
    Ok([&x, &w, &b].iter().filter_map(|t| g.get(t).cloned()).chain([y]).collect())
}
const CASES: &[Case] = &[
    ("conv 1 to 32", || conv(64, 1, 32, 8)),
    ("conv 32 to 64", || conv(64, 32, 64, 8)),
    ("conv 32 to 64, a short batch", || conv(32, 32, 64, 8)),
    ("linear 1024 to 128", || linear(64, 1024, 128)),
    ("linear 128 to 10", || linear(64, 128, 10)),
    ("linear, a short batch", || linear(32, 1024, 128)),
    ("sum of all", || Ok(vec![numbers(&[300_001], 5).sum(..), numbers(&[301, 1003], 6).sum(..)])),
    ("sums over axes", || Ok(vec![numbers(&[513, 700], 6).sum(0), numbers(&[513, 700], 7).sum(1), numbers(&[64, 32, 8, 8], 8).sum([0, 2, 3])])),
    ("softmax and norm", || Ok(vec![numbers(&[700, 513], 9).softmax(-1), f::layer_norm(&numbers(&[700, 512], 10), [512], None, None, 1e-5)])),
    ("sums of chains", || {
        let (a, b) = (numbers(&[64, 64, 8, 8], 12), numbers(&[64, 64, 8, 8], 13));
        Ok(vec![
            (&a * &b).sum([0, 2, 3]),
            (a.relu() * 2.0f32).sum(0),
            (a.exp() * &b).sum([1, 3]),
            (&a - &b).square().sum(..),
            a.gt(0.0f32).where_(&b, 0.0f32).sum([0, 2, 3]),
        ])
    }),
    ("max pool and its gradient", || {
        let x = numbers(&[64, 64, 8, 8], 14).tracked();
        let (y, _) = f::max_pool2d(&x, &f::MaxPoolOptions::new(2));
        let g = y.backward_with(&numbers(&[64, 64, 4, 4], 15))?;
        Ok(vec![g.get(&x).cloned().unwrap_or_else(|| y.clone()), y])
    }),
    ("relu and pool between convolution and sum", || {
        let (x, b) = (numbers(&[64, 64, 8, 8], 14).tracked(), numbers(&[64, 1, 1], 16).tracked());
        let (y, _) = f::max_pool2d(&(&x + &b).relu(), &f::MaxPoolOptions::new(2));
        let g = y.backward_with(&numbers(&[64, 64, 4, 4], 15))?;
        Ok([&x, &b].iter().filter_map(|t| g.get(t).cloned()).collect())
    }),
    ("cross entropy", || {
        let x = numbers(&[64, 10], 17).tracked();
        let t = Tensor::from_vec((0..64).map(|k| k % 10).collect::<Vec<i64>>(), [64]);
        let loss = f::cross_entropy(&x, &t, &f::CrossEntropyOptions::default());
        let g = loss.backward()?;
        Ok(vec![g.get(&x).cloned().unwrap_or_else(|| loss.clone()), loss])
    }),
    ("dropout", || {
        let rng = Rng::new(3)?;
        let x = numbers(&[64, 4096], 18).tracked();
        let y = f::dropout(&x, 0.3, &rng);
        let g = y.backward_with(&numbers(&[64, 4096], 19))?;
        Ok(vec![g.get(&x).cloned().unwrap_or_else(|| y.clone()), y])
    }),
    ("map", || Ok(vec![(numbers(&[400_000], 11) * 3.0f32).exp().sqrt().tanh()])),
];
#[test]
fn one_two_four_and_eight_threads_give_the_same_bits() -> Result<()> {
    let mut wrong = Vec::new();
    let run = |threads: usize, case: &Case| -> Result<Vec<Vec<u32>>> {
        let device = Context::new(CpuBackend::builder().threads(threads))?.device();
        device.scoped(|| (case.1)()?.iter().map(|t| Ok(t.to_vec::<f32>()?.iter().map(|v| v.to_bits()).collect())).collect())
    };
    for case in CASES {
        let one = run(1, case)?;
        for threads in [2, 4, 8] {
            let many = run(threads, case)?;
            for (k, (a, b)) in one.iter().zip(&many).enumerate() {
                if a != b {
                    wrong.push(format!("{}: result {k} on {threads} threads", case.0));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[test]
fn an_element_that_is_lost_where_a_large_result_is_written_past_the_caches() -> Result<()> {
    // 36 MiB and a bit, in both kinds of lanes; several threads each write a part.
    const N: usize = 9 << 20 | 777;
    let expected: Vec<f32> = (0..N).map(|k| k as f32 * 0.5 + 1.0).collect();
    for threads in [1, 3] {
        Context::new(CpuBackend::builder().threads(threads))?.device().scoped(|| -> Result<()> {
            let x = Tensor::arange(0, N as i64, 1, DType::F32);
            x.materialize()?;
            let (sum, half) = (&x * 0.5f32 + 1.0f32, x.narrow(0, 1, N - 1) * 0.5f32);
            assert!(sum.to_vec::<f32>()? == expected, "{threads} threads");
            // A view of the input, and a reader in the same window.
            assert!((half.flip(0) + 1.0f32).flip(0).to_vec::<f32>()?[..] == expected[1..], "{threads} threads");
            let wide = x.cast(DType::I64) + 1i64;
            assert!(wide.to_vec::<i64>()?.iter().enumerate().all(|(k, &v)| v == k as i64 + 1), "{threads} threads");
            Ok(())
        })?;
    }
    Ok(())
}
