//! The neighbour of a float. It depends on the dtype's grid and not only on the numbers, so it is no row of the scalar
//! table: it counts in the bits, which for one sign are in the order of the numbers.
use super::{
    Operand, OperandRef, Tensor,
    compose::{compose, refuse},
};
use crate::{Arg, DType, Op, promotion::alike};

impl Tensor {
    /// The next number of this dtype from each element toward `other`; `other` itself where they are equal, NaN if
    /// either is NaN. f16, bf16, f32 or f64. No gradient flows, as in PyTorch.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::from_vec(vec![1.0f32, 0.0], [2]);
    /// assert_eq!(x.nextafter(2.0).to_vec::<f32>()?, [1.0 + f32::EPSILON, f32::from_bits(1)]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn nextafter(&self, other: impl Operand) -> Tensor {
        let other = match other.operand() {
            OperandRef::Tensor(t) => t.detach(),
            OperandRef::Scalar(s) => self.full_like(s),
        };
        compose("nextafter", &[self, &other], || {
            let [x, other] = alike([&self.detach(), &other])?;
            let dtype = x.meta().dtype;
            let (stored, counted) = match dtype {
                DType::F16 | DType::BF16 => (DType::I16, DType::I32),
                DType::F32 => (DType::I32, DType::I32),
                DType::F64 => (DType::I64, DType::I64),
                _ => return refuse(format!("nextafter takes f16, bf16, f32 or f64, not {dtype}")),
            };
            let bits = |t: &Tensor, to: DType| Tensor::apply(Op::Bitcast(to), Arg::None, &[t]);
            // Away from zero is up in the bits, whichever the sign.
            let away = x.gt(0.0).eq(x.lt(&other));
            let from = bits(&x, stored).cast(counted);
            let moved = bits(&(&from + away.where_(&from.ones_like(), -1i64)).cast(stored), dtype);
            let smallest = bits(&x.full_like(0.0).cast(counted).ones_like().cast(stored), dtype).copysign(&other);
            let stepped = x.eq(0.0).where_(&smallest, &moved);
            let unmoved = x.eq(&other).where_(&other, &stepped);
            Ok(x.isnan().logical_or(&other.isnan()).where_(f64::NAN, &unmoved))
        })
    }
}
