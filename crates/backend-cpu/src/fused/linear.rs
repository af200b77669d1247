//! A dense layer: the bias is added while the part of the product it belongs to is still in cache.
use super::known;
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    gemm::{EpilogueProgram, GemmElement, MatRef},
    matmul::product,
    operand::internal,
};
use adamant_runtime::{Composite, DType, ErrorKind, composite::linear::Linear, kernel::FaultWord};

/// `x wᵀ + b`.
pub(super) struct Forward;

impl CpuKernel for Forward {
    /// A product in 16 bits with a bias is summed and added in 32, which is what its body does; without a bias the body is
    /// one product.
    fn supports(&self, composite: &dyn Composite, dtypes: &[DType]) -> bool {
        let [x, _, _, _] = dtypes else { return false };
        known::<Linear>(composite).is_some() && matches!(x, DType::F32 | DType::F64) && dtypes.iter().all(|d| d == x)
    }
    fn run(&self, _: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        match operands.inputs[0].dtype {
            DType::F32 => forward::<f32>(operands, runtime),
            DType::F64 => forward::<f64>(operands, runtime),
            other => Err(ErrorKind::Internal(format!("a dense layer of {other}"))),
        }
    }
}
fn forward<T: GemmElement + bytemuck::Pod>(operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind> {
    let ([x, w, bias], [out]) = (operands.inputs, &mut *operands.outputs) else { return Err(internal("a dense layer with other operands")) };
    if w.shape.rank() != 2 {
        return Err(internal("a dense layer without a matrix"));
    }
    let (n, k) = (w.shape[0], w.shape[1]);
    let (x, w, bias): (&[T], &[T], &[T]) = (x.dense()?, w.dense()?, bias.dense()?);
    let out: &mut [T] = out.dense()?;
    if out.is_empty() {
        return Ok(());
    }
    let m = out.len() / n;
    let a = MatRef { data: x, offset: 0, row_stride: k as isize, col_stride: 1, batch_stride: 0 };
    let b = MatRef { data: w, offset: 0, row_stride: 1, col_stride: k as isize, batch_stride: 0 };
    product(runtime, 1, [m, n, k], a, b, out, &EpilogueProgram { bias: Some(bias), activation: None })
}
