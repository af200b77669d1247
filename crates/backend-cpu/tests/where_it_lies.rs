//! Nothing is moved that need not be: attention takes and makes rows wherever they lie, with the bits that it has on dense operands,
//! and cotangents of slices are joined.
use adamant_backend_cpu::{
    Context, CpuBackend,
    trace::{Ran, trace},
};
use adamant_conformance::random::Random;
use adamant_core::{
    Arg, Cell, DType, Op, Origin, Result, Tensor,
    composite::{
        attention::{Attention, AttentionBackward},
        keyed,
    },
    flush,
    functional::{AttentionOptions, linear, scaled_dot_product_attention},
    rng::element_bits,
    schedule::take_stats,
};

fn numbers(shape: &[usize], seed: u32, dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n as u64).map(|k| (element_bits([seed, 0, 0, 0], k) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect::<Vec<_>>(), shape).cast(dtype)
}
/// How an operand lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lies {
    Dense,
    /// heads inside of rows
    HeadsInside,
    /// a part of longer rows
    Part,
    /// heads inside of rows, of a part of longer ones
    Packed,
    /// rows that begin anywhere: they are moved
    Askew,
    /// rows in reverse: they are moved
    Flipped,
}
const ALL: [Lies; 6] = [Lies::Dense, Lies::HeadsInside, Lies::Part, Lies::Packed, Lies::Askew, Lies::Flipped];
/// The same numbers, lying so.
fn laid(x: &Tensor, lies: Lies) -> Result<Tensor> {
    let last = x.shape()?[3];
    let swapped = |t: &Tensor| t.transpose(1, 2);
    Ok(match lies {
        Lies::Dense => reordered(x)?,
        Lies::HeadsInside => swapped(&reordered(&swapped(x))?),
        Lies::Part => reordered(&Tensor::cat(&[x, x, x], 3))?.narrow(3, last, last),
        Lies::Packed => swapped(&reordered(&Tensor::cat(&[swapped(x), swapped(x)], 3))?).narrow(3, last, last),
        Lies::Askew => reordered(&Tensor::cat(&[x.narrow(3, 0, 1), x.clone()], 3))?.narrow(3, 1, last),
        Lies::Flipped => reordered(&x.flip([2]))?.flip([2]),
    })
}
/// Memory in the order of the axes.
fn reordered(x: &Tensor) -> Result<Tensor> {
    let data = Tensor::from_vec(x.cast(DType::F64).to_vec::<f64>()?, x.shape()?).cast(x.dtype()?);
    flush()?;
    Ok(data)
}
fn bits(t: &Tensor) -> Result<Vec<u64>> {
    Ok(t.cast(DType::F64).to_vec::<f64>()?.iter().map(|v| v.to_bits()).collect())
}
fn apply(op: Op, inputs: &[Tensor]) -> Vec<Tensor> {
    Tensor::apply_many(op, Arg::None, &inputs.iter().collect::<Vec<_>>(), Origin::here()).into_iter().collect()
}
fn families(ran: &[Ran]) -> Vec<&str> {
    ran.iter().map(|r| r.kernel).collect()
}
#[test]
fn attention_has_the_same_bits_wherever_its_rows_lie() -> Result<()> {
    let mut random = Random::new(5);
    let mut in_place = 0;
    for threads in [1, 3] {
        Context::new(CpuBackend::builder().threads(threads))?.run(|| {
            for case in 0..40 {
                let dtype = *random.pick(&[DType::F32, DType::F64, DType::BF16, DType::F16]);
                let (batch, shared, ratio) = (random.between(1, 3), random.between(1, 3), random.between(1, 2));
                let (queries, keys) = (*random.pick(&[1, 5, 64, 70, 130]), *random.pick(&[1, 7, 65, 129]));
                let (features, values) = (8 * random.between(1, 3), 8 * random.between(1, 3));
                let heads = shared * ratio;
                let attention = Attention { scale: 0.37, causal: random.one_in(2), mask: false, dropout: 0.0 };
                let shapes =
                    [[batch, heads, queries, values], [batch, heads, queries, features], [batch, shared, keys, features], [batch, shared, keys, values]];
                let lies: Vec<Lies> = shapes.iter().map(|_| *random.pick(&ALL)).collect();
                let what = format!("case {case}, {threads} threads: {dtype} {shapes:?} {lies:?}");
                let operands: Vec<Tensor> = (0u32..).zip(&shapes).map(|(k, shape)| numbers(shape, 10 * case + k, dtype)).collect();
                let dense = operands.iter().map(|x| laid(x, Lies::Dense)).collect::<Result<Vec<_>>>()?;
                let elsewhere = operands.iter().zip(&lies).map(|(x, lies)| laid(x, *lies)).collect::<Result<Vec<_>>>()?;
                let run = |operands: &[Tensor], orders: bool| -> Vec<Tensor> {
                    let [g, q, k, v] = operands else { unreachable!() };
                    let forward = apply(Op::Composite(keyed(attention)), &[q.clone(), k.clone(), v.clone()]);
                    // What is read by rows of all heads is written so.
                    let by_rows = |t: &Tensor| {
                        let [b, h, n, e] = t.shape().unwrap().to_vec()[..] else { unreachable!() };
                        t.transpose(1, 2).reshape([b, n, h * e]).reshape([b, n, h, e]).transpose(1, 2)
                    };
                    let ordered = |t: &Tensor| if orders { by_rows(t) } else { t.clone() };
                    let out = ordered(&forward[0]);
                    let backward = apply(
                        Op::Composite(keyed(AttentionBackward { forward: attention, with_lse: false })),
                        &[g.clone(), q.clone(), k.clone(), v.clone(), forward[0].clone(), forward[1].clone()],
                    );
                    [out, forward[1].clone()].into_iter().chain(backward.iter().map(ordered)).collect()
                };
                let all_bits = |results: Vec<Tensor>| results.iter().map(bits).collect::<Result<Vec<_>>>();
                let want = all_bits(run(&dense, false))?;
                let (made, ran) = trace(|| {
                    let results = run(&elsewhere, true);
                    flush()?;
                    Ok::<_, adamant_core::Error>(results)
                });
                let ran: Vec<String> = families(&ran).into_iter().map(String::from).collect();
                let is_row = |l: &Lies| matches!(l, Lies::Dense | Lies::HeadsInside | Lies::Part | Lies::Packed);
                if lies.iter().all(is_row) {
                    assert_eq!(ran, ["adamant.attention", "adamant.attention_backward"], "{what}");
                    in_place += 1;
                }
                assert!(all_bits(made?)? == want, "{what}: other bits; {ran:?} ran");
            }
            Ok::<(), adamant_core::Error>(())
        })?;
    }
    assert!(in_place > 5, "{in_place} cases had no copy");
    Ok(())
}
#[test]
fn a_block_of_attention_copies_nothing() -> Result<()> {
    Context::new(CpuBackend::builder().threads(2))?.run(|| {
        let (batch, time, heads, each) = (2, 33, 3, 8);
        let width = heads * each;
        let x = numbers(&[batch, time, width], 1, DType::F32);
        let (into, from) = (numbers(&[3 * width, width], 2, DType::F32), numbers(&[width, width], 3, DType::F32));
        flush()?;
        let (y, ran) = trace(|| {
            let all = linear(&x, &into, None);
            let part = |k: usize| all.narrow(2, k * width, width).reshape([batch, time, heads, each]).transpose(1, 2);
            let y = scaled_dot_product_attention(&part(0), &part(1), &part(2), &AttentionOptions { is_causal: true, ..Default::default() });
            linear(&y.transpose(1, 2).reshape([batch, time, width]), &from, None).to_vec::<f32>()
        });
        assert!(y?.iter().all(|v| v.is_finite()));
        assert_eq!(families(&ran), ["matmul", "adamant.attention", "matmul"]);
        Ok(())
    })
}

#[test]
fn cotangents_of_slices_are_joined() -> Result<()> {
    let mut random = Random::new(29);
    Context::new(CpuBackend::builder().threads(1))?.run(|| {
        for case in 0..200 {
            let (rows, columns) = (random.between(1, 6), random.between(1, 6));
            let cell = Cell::new(&Tensor::from_vec(vec![1.0f32; rows * columns], [rows, columns]), true)?;
            // A node between, as slices of a parameter go to it one by one.
            let x = cell.get() * 1.0f32;
            let (mut loss, mut want) = (Tensor::scalar(0.0f32), vec![0.0f32; rows * columns]);
            for use_of in 0..random.between(1, 6) {
                let factor = (use_of + 1) as f32;
                let axis = random.below(2);
                let size = [rows, columns][axis];
                let (start, count) = if random.one_in(4) { (0, size) } else { (random.below(size), 0) };
                let count = if count == 0 { random.between(1, size - start) } else { count };
                let part = if random.one_in(5) { x.clone() } else { x.narrow(axis, start, count) };
                let is_whole = part.shape()? == x.shape()?;
                loss = loss + (part * factor).sum(..);
                for (n, want) in want.iter_mut().enumerate() {
                    let at = [n / columns, n % columns][axis];
                    *want += if is_whole || (start..start + count).contains(&at) { factor } else { 0.0 };
                }
            }
            let got = loss.backward()?.of(&cell).unwrap().to_vec::<f32>()?;
            assert_eq!(got, want, "case {case}: {rows}x{columns}");
        }
        // Of many steps each is copied once.
        let steps = 24;
        let cell = Cell::new(&Tensor::from_vec(vec![1.0f32; steps * 40], [steps, 40]), true)?;
        let x = cell.get() * 2.0f32;
        let loss = (0..steps).map(|t| x.select(0, t as i64).square().sum(..)).reduce(|a, b| a + b).unwrap();
        loss.item::<f32>()?;
        take_stats();
        let gradient = loss.backward()?;
        let (gradient, kernels) = (gradient.of(&cell).unwrap().to_vec::<f32>()?, take_stats().kernels);
        assert!(gradient.iter().all(|g| *g == 8.0), "{gradient:?}");
        assert!(kernels <= 2 * steps as u64 + 4, "{kernels} kernels for {steps} slices");
        Ok(())
    })
}
#[test]
fn an_order_is_given_only_to_what_nobody_has_seen() -> Result<()> {
    Context::new(CpuBackend::builder().threads(1))?.run(|| {
        // Rows of 8 elements may lie in another order, those of 6 are not aligned: one structure, and plans of both kinds in turn.
        for each in [8, 6, 8, 6] {
            let (batch, heads, time) = (2, 3, 5);
            let operands: Vec<Tensor> = (0..3).map(|k| numbers(&[batch, heads, time, each], k, DType::F32)).collect();
            flush()?;
            let attended = || scaled_dot_product_attention(&operands[0], &operands[1], &operands[2], &AttentionOptions::default());
            let together = |y: &Tensor| y.transpose(1, 2).reshape([batch, time, heads * each]);
            let alone = attended();
            flush()?;
            let (rows, weights) = (together(&alone).to_vec::<f32>()?, alone.softmax(-1).to_vec::<f32>()?);
            // A kernel of dense operands reads it first, or afterwards.
            for reads_first in [true, false] {
                let y = attended();
                let (softened, seen) = if reads_first {
                    let softened = y.softmax(-1);
                    (softened, together(&y))
                } else {
                    let seen = together(&y);
                    (y.softmax(-1), seen)
                };
                assert_eq!((seen.to_vec::<f32>()?, softened.to_vec::<f32>()?), (rows.clone(), weights.clone()), "{each} features, {reads_first}");
            }
        }
        Ok(())
    })
}
