//! Random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) of
//! (seed, stream, counter; index of the element). The same numbers on every backend, fused or not, for any
//! number of threads.
use crate::{Arg, Cell, DType, Device, Op, Origin, Result, Shape, Tensor, TensorType, shape::ToShape};
pub use adamant_ir::philox::*;

/// A generator: a cell that holds seed, stream and counter, so that it is saved, captured and recomputed like all state.
#[derive(Clone)]
pub struct Rng(Cell);
impl Rng {
    /// A generator on the current device.
    ///
    /// # Errors
    /// There is no device.
    #[track_caller]
    pub fn new(seed: u64) -> Result<Rng> {
        Rng::new_on(seed, 0, Device::current()?)
    }
    /// A generator of its own stream on a device: streams of one seed are independent.
    ///
    /// # Errors
    /// No memory.
    #[track_caller]
    pub fn new_on(seed: u64, stream: u32, device: Device) -> Result<Rng> {
        let key = Tensor::from_vec_on(vec![seed as u32, (seed >> 32) as u32, stream, 0], [4], device);
        Ok(Rng(Cell::new(&key, false)?))
    }
    /// Its state.
    pub fn cell(&self) -> &Cell {
        &self.0
    }
    /// The key of the next draw, `u32[4]`; the counter moves on.
    #[track_caller]
    pub fn key(&self) -> Tensor {
        let key = self.0.detached();
        let device = self.0.meta().device;
        let words = TensorType { shape: Shape::SCALAR.insert(0, 4).unwrap_or(Shape::SCALAR), dtype: DType::U32 };
        let step = Tensor::source(Op::Iota { axis: 0, ty: words }, Arg::None, device, Origin::here());
        let next = &key + &step.eq(3u32).cast(DType::U32);
        match self.0.set(&next) {
            Ok(()) => key,
            Err(e) => Tensor::failed(e),
        }
    }
    /// Uniform random bits, u32.
    #[track_caller]
    pub fn bits(&self, shape: impl ToShape) -> Tensor {
        match shape.to_shape() {
            Ok(shape) => Tensor::apply_at(Op::RandomBits { shape }, Arg::None, &[&self.key()], Origin::here()),
            Err(kind) => Tensor::fail("random", kind),
        }
    }
    /// Uniform in [0, 1): f32 (and 16-bit floats) of 24 bits, f64 of 53.
    #[track_caller]
    pub fn uniform(&self, shape: impl ToShape, dtype: DType) -> Tensor {
        if !dtype.is_float() {
            return Tensor::fail("uniform", crate::ErrorKind::Dtype(format!("uniform numbers are floats, not {dtype}")));
        }
        if dtype == DType::F64 {
            let Ok(shape) = shape.to_shape() else { return self.bits(shape) };
            let (high, low) = (self.bits(shape), self.bits(shape));
            let high = high.bitwise_right_shift(5u32).cast(DType::F64) * 67_108_864.0;
            return (high + low.bitwise_right_shift(6u32).cast(DType::F64)) * (1.0 / 9_007_199_254_740_992.0);
        }
        (self.bits(shape).bitwise_right_shift(8u32).cast(DType::F32) * (1.0 / 16_777_216.0)).cast(dtype)
    }
    /// Standard normal (Box and Muller, 1958).
    #[track_caller]
    pub fn normal(&self, shape: impl ToShape, dtype: DType) -> Tensor {
        let Ok(shape) = shape.to_shape() else { return self.bits(shape) };
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        // 1 - u is in (0, 1], so the logarithm is finite.
        let radius = ((self.uniform(shape, wide).neg() + 1.0).log() * -2.0).sqrt();
        (radius * (self.uniform(shape, wide) * std::f64::consts::TAU).cos()).cast(dtype)
    }
}
