//! Random programs (regions in regions, switched off inside, without gradients, captured, computed again, on another thread) against the
//! same program with its casts written out, whose rules are written here a second time.
#![allow(clippy::unwrap_used)]

use adamant_amp::Autocast;
use adamant_backend_cpu as _;
use adamant_conformance::random::Random;
use adamant_core::{Ambient, DType, Result, Tensor, compile, functional, grad, no_grad};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
enum Call {
    Product,
    Affine,
    Softmax,
    Normalized,
    Exp,
    Square,
    Sum,
    Length,
    Add,
    Mul,
    Joined,
}
const CALLS: [Call; 11] =
    [Call::Product, Call::Affine, Call::Softmax, Call::Normalized, Call::Exp, Call::Square, Call::Sum, Call::Length, Call::Add, Call::Mul, Call::Joined];
/// What the functions around it run in: `None` outside of every region, or in one that is off.
type Mode = Option<DType>;
#[derive(Debug)]
enum Statement {
    /// a function of two values before it, by how far they lie back
    Call(Call, usize, usize),
    Region(Mode, Vec<Statement>),
    NoGrad(Vec<Statement>),
}
fn drawn(random: &mut Random, length: usize, depth: usize) -> Vec<Statement> {
    let mut all = Vec::new();
    for _ in 0..length {
        all.push(match random.below(8) {
            0 | 1 if depth < 3 => Statement::Region(*random.pick(&[None, Some(DType::F16), Some(DType::BF16)]), drawn(random, 3, depth + 1)),
            2 if depth < 3 && random.one_in(3) => Statement::NoGrad(drawn(random, 2, depth + 1)),
            _ => Statement::Call(*random.pick(&CALLS), random.below(6), random.below(6)),
        });
    }
    all
}
fn applied(call: Call, a: &Tensor, b: &Tensor) -> Tensor {
    match call {
        Call::Product => a.matmul(b),
        Call::Affine => functional::linear(a, b, None),
        Call::Softmax => a.softmax(-1),
        Call::Normalized => functional::layer_norm(a, 1, Some(&b.select(0, 0)), None, 1e-5),
        Call::Exp => a.exp(),
        Call::Square => a.pow(2.0),
        Call::Sum => b * a.sum_keepdim(-1),
        Call::Length => b * a.vector_norm_keepdim(2.0, -1),
        Call::Add => a + b,
        Call::Mul => a * b,
        Call::Joined => Tensor::cat(&[a, b], 0).narrow(0, 2, 4),
    }
}
/// The rules, in casts.
fn written_out(call: Call, a: &Tensor, b: &Tensor, mode: Mode) -> Tensor {
    let Some(low) = mode else { return applied(call, a, b) };
    let wide = a.cast(DType::F32);
    match call {
        Call::Product | Call::Affine => applied(call, &a.cast(low), &b.cast(low)),
        Call::Exp | Call::Square => applied(call, &wide, b),
        Call::Sum => b * wide.sum_keepdim(-1),
        Call::Length => b * wide.vector_norm_keepdim(2.0, -1),
        Call::Normalized => {
            let dtype = a.dtype().unwrap();
            if b.dtype().unwrap() == dtype { applied(call, a, b) } else { applied(call, &wide, &b.cast(DType::F32)).cast(dtype) }
        }
        Call::Softmax | Call::Add | Call::Mul | Call::Joined => applied(call, a, b),
    }
}
/// Runs statements; values are bounded, so that none becomes infinite.
fn run(statements: &[Statement], values: &mut Vec<Tensor>, mode: Mode, is_written_out: bool) {
    for statement in statements {
        match statement {
            Statement::Call(call, a, b) => {
                let at = |back: usize| values[values.len() - 1 - back % values.len()].clone();
                let (a, b) = (at(*a), at(*b));
                let mut y = if is_written_out { written_out(*call, &a, &b, mode) } else { applied(*call, &a, &b) };
                // Outside of every region nobody brings two dtypes of a layer together.
                if y.error().is_some() {
                    y = a;
                }
                values.push(y.tanh());
            }
            Statement::Region(inner, body) => {
                if is_written_out {
                    run(body, values, *inner, true);
                } else {
                    in_region(*inner, || run(body, values, *inner, false));
                }
            }
            Statement::NoGrad(body) => no_grad(|| run(body, values, mode, is_written_out)),
        }
    }
}
fn in_region<R>(mode: Mode, f: impl FnOnce() -> R) -> R {
    match mode {
        Some(dtype) => Autocast::new(dtype).unwrap().run(f),
        None => Autocast::new(DType::F16).unwrap().enabled(false).run(f),
    }
}
fn last(program: &[Statement], inputs: &[Tensor], mode: Mode, is_written_out: bool) -> Tensor {
    let mut values = inputs.to_vec();
    run(program, &mut values, mode, is_written_out);
    values.last().unwrap().clone()
}
/// dtype, bits of the value, bits of the gradients
type Seen = (DType, Vec<u64>, Vec<Option<Vec<u64>>>);
fn bits(t: &Tensor) -> Vec<u64> {
    t.to_vec_as::<f64>().unwrap().into_iter().map(f64::to_bits).collect()
}
fn seen(y: &Tensor, inputs: &[Tensor]) -> Seen {
    let grads = y.cast(DType::F32).sum(..).backward();
    let gradients = inputs.iter().map(|x| grads.as_ref().ok().and_then(|g| g.get(x).map(bits))).collect();
    (y.dtype().unwrap(), bits(y), gradients)
}

#[test]
fn programs_have_the_bits_of_their_casts_written_out() {
    let (mut low, mut tracked) = (0, 0);
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let program = Arc::new(drawn(&mut random, 6, 0));
        let inputs: Vec<Tensor> =
            (0..3).map(|_| Tensor::from_vec((0..16).map(|_| (random.unit() * 2.0 - 1.0) as f32).collect::<Vec<_>>(), [4, 4]).tracked()).collect();
        let all: Vec<&Tensor> = inputs.iter().collect();
        let compiled = compile(|x: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![last(&program, x, None, false)]) });
        for mode in [Some(DType::F16), None, Some(DType::BF16), Some(DType::F16)] {
            let wanted = seen(&last(&program, &inputs, mode, true), &inputs);
            let eager = in_region(mode, || last(&program, &inputs, mode, false));
            assert_eq!(seen(&eager, &inputs), wanted, "seed {seed}, {mode:?}: {program:?}");
            let captured = in_region(mode, || no_grad(|| compiled.call(&all)).unwrap()[0].clone());
            assert_eq!(bits(&captured), wanted.1, "seed {seed}, {mode:?}, captured: {program:?}");
            let again = in_region(mode, || {
                let program = program.clone();
                grad::checkpoint(&all, move |x| Ok(last(&program, x, None, false))).unwrap()
            });
            assert_eq!(seen(&again, &inputs), wanted, "seed {seed}, {mode:?}, checkpointed: {program:?}");
            let elsewhere = in_region(mode, || {
                let (ambient, program, plain) = (Ambient::current(), program.clone(), inputs.iter().map(Tensor::detach).collect::<Vec<_>>());
                let thread = std::thread::spawn(move || {
                    let _around = ambient.enter();
                    bits(&last(&program, &plain, None, false))
                });
                thread.join().unwrap()
            });
            assert_eq!(elsewhere, wanted.1, "seed {seed}, {mode:?}, on another thread: {program:?}");
            low += usize::from(wanted.0 != DType::F32);
            tracked += usize::from(wanted.2.iter().any(Option::is_some));
        }
    }
    // They are about something.
    assert!(low > 200 && tracked > 1000, "{low} {tracked}");
}
/// The planted fault: programs whose rules are those of other regions have other bits.
#[test]
fn another_region_has_other_bits() {
    let mut other = 0;
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let program = drawn(&mut random, 6, 3);
        let inputs: Vec<Tensor> = (0..3).map(|_| Tensor::from_vec((0..16).map(|_| random.unit() as f32).collect::<Vec<_>>(), [4, 4])).collect();
        let wanted = last(&program, &inputs, Some(DType::BF16), true);
        other += usize::from(bits(&in_region(Some(DType::F16), || last(&program, &inputs, Some(DType::F16), false))) != bits(&wanted));
    }
    assert!(other > 10, "{other}");
}
