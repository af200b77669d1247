//! What devices ask of who records work for them: to run it before they wait, and to be timed. By the latter a device is chosen
//! for a size: element-wise ops, a sum and a product, from recording to the number that is read.
use crate::{Device, Result, Tensor};
use adamant_runtime::{RECORDERS, Recorder};
use std::time::{Duration, Instant};

/// How often a device is timed; the fastest counts.
const TIMES: usize = 5;

#[linkme::distributed_slice(RECORDERS)]
static WINDOWS: Recorder = Recorder { flush: crate::flush, time_of };

fn time_of(device: Device, elements: usize) -> Result<Duration> {
    let side = elements.isqrt().clamp(1, 256);
    device.scoped(|| {
        let (x, square) = (Tensor::from_vec(vec![0.5f32; elements], [elements]), Tensor::from_vec(vec![0.5f32; side * side], [side, side]));
        let mut least = Duration::MAX;
        // Once more than counts: the first time plans and compiles.
        for k in 0..=TIMES {
            let begin = Instant::now();
            let sum = (&x * 1.5 + 0.25).tanh().sum(..) + square.matmul(&square).sum(..);
            sum.item::<f32>()?;
            if k > 0 {
                least = least.min(begin.elapsed());
            }
        }
        Ok(least)
    })
}
