//! Random bits. Of a stack: where all examples share the key, each draws from its own part of one long draw; where each has
//! a key, it draws what it would have drawn alone. The latter is Philox in tensor code, the same bits as the primitive's
//! (Salmon et al., SC 2011), of a key that has a place for each example.
pub(super) use super::no_flow::{gradient, reads, tangent};
use super::{Batching, ExampleAxis, MaybeBatched, Stacks, reshape};
use crate::{Arg, DType, Error, ErrorKind, Op, Origin, Result, Scalar, Shape, Tensor, TensorType};
use smallvec::smallvec;

pub(super) fn batched(shape: &Shape, batch: &Batching<'_>) -> Result<Stacks> {
    Ok(smallvec![bits(batch.axis, &batch.lanes[0], *shape)?])
}

/// The bits of `shape` for each example, if examples draw their own or have their own keys.
fn bits(batch: &ExampleAxis, key: &MaybeBatched, shape: Shape) -> Result<Tensor> {
    let stack = batch.stack(shape)?;
    let elements = shape.elements();
    if (batch.first + batch.size).checked_mul(elements.max(1)).is_none_or(|n| n > u32::MAX as usize) {
        return Err(Error::new("vmap", ErrorKind::Argument(format!("{} examples of {shape} are more random numbers than can be counted", batch.size))));
    }
    if !key.batched && batch.first == 0 {
        return Ok(Tensor::apply(Op::RandomBits { shape: stack }, Arg::None, &[&key.tensor]));
    }
    let device = key.tensor.meta().device;
    let count = |n: usize| -> Result<Tensor> {
        let ty = TensorType { shape: Shape::new(&[n]).map_err(|k| Error::new("vmap", k))?, dtype: DType::U32 };
        Ok(Tensor::source(Op::Iota { axis: 0, ty }, Arg::None, device, Origin::here()))
    };
    // The words of the key, [1] or [examples, 1], and the places in the draw, [examples, elements].
    let word = |k: usize| key.tensor.narrow(-1, k, 1);
    let words = [word(0), word(1), word(2), word(3)];
    let at = if key.batched {
        count(elements)?.reshape([1, elements])
    } else {
        count(batch.size * elements)? + number((batch.first * elements) as u32, &key.tensor)
    };
    let at =
        reshape(&at.expand([if key.batched { batch.size } else { 1 }, if key.batched { elements } else { batch.size * elements }]), &[batch.size, elements])?;
    Ok(philox(&words, &at)?.reshape(stack))
}
/// The element at each place of a draw.
fn philox(words: &[Tensor; 4], at: &Tensor) -> Result<Tensor> {
    let zero = at.zeros_like();
    let whole = |t: &Tensor| t + &zero;
    let mut counter = [at.bitwise_right_shift(2u32), zero.clone(), whole(&words[2]), whole(&words[3])];
    let mut key = [words[0].clone(), words[1].clone()];
    for round in 0..10 {
        if round > 0 {
            key = [&key[0] + number(0x9E37_79B9, at), &key[1] + number(0xBB67_AE85, at)];
        }
        let [c0, c1, c2, c3] = &counter;
        let (high0, low0) = product(0xD251_1F53, c0);
        let (high1, low1) = product(0xCD9E_8D57, c2);
        counter = [high1.bitwise_xor(c1).bitwise_xor(&key[0]), low1, high0.bitwise_xor(c3).bitwise_xor(&key[1]), low0];
    }
    let which = at.bitwise_and(3u32);
    let [w0, w1, w2, w3] = &counter;
    which.eq(0u32).where_(w0, which.eq(1u32).where_(w1, which.eq(2u32).where_(w2, w3))).ok()
}
/// The high and the low word of a product of 32-bit words, without wider ones.
fn product(by: u32, x: &Tensor) -> (Tensor, Tensor) {
    let (by_low, by_high) = (number(by & 0xffff, x), number(by >> 16, x));
    let (low, high) = (x.bitwise_and(0xffffu32), x.bitwise_right_shift(16u32));
    let (ll, lh, hl, hh) = (&low * &by_low, &low * &by_high, &high * &by_low, &high * &by_high);
    let half = |t: &Tensor| t.bitwise_right_shift(16u32);
    let middle = half(&ll) + lh.bitwise_and(0xffffu32) + hl.bitwise_and(0xffffu32);
    (hh + half(&lh) + half(&hl) + half(&middle), x * number(by, x))
}
/// A number in each place of a stack.
fn number(value: u32, like: &Tensor) -> Tensor {
    Tensor::full_on((), Scalar::Int(value.into()), DType::U32, like.meta().device)
}
