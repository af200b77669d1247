//! Quantization to integer grids, and the clipping of gradients by their norm.
use crate::{
    DType, ErrorKind, Tensor,
    composite::{
        quantize::FakeQuantize,
        wide::{floats, wide},
    },
    shape::Axis,
    tensor::compose::{compose, refuse},
};

/// Values rounded to the grid `scale · (step - zero_point)`, steps between `quant_min` and `quant_max`. The gradient
/// is that of the identity where the step fits, 0 elsewhere.
#[track_caller]
pub fn fake_quantize_per_tensor(x: &Tensor, scale: f64, zero_point: i64, quant_min: i64, quant_max: i64) -> Tensor {
    compose("fake_quantize_per_tensor", &[x], || {
        let m = floats(&x.meta())?;
        if zero_point < quant_min || zero_point > quant_max {
            return refuse(format!("zero_point {zero_point} lies outside {quant_min}..={quant_max}"));
        }
        let number = |v: f64| Tensor::full_on((), v, wide(m.dtype), m.device);
        Ok(Tensor::composite1(FakeQuantize { quant_min, quant_max, axis: None }, &[x, &number(scale), &number(zero_point as f64)]))
    })
}
/// As [`fake_quantize_per_tensor`] with a scale and a zero point for each index of an axis.
#[track_caller]
pub fn fake_quantize_per_channel(x: &Tensor, scale: &Tensor, zero_point: &Tensor, axis: impl Axis, quant_min: i64, quant_max: i64) -> Tensor {
    let axis = axis.to_axis();
    compose("fake_quantize_per_channel", &[x, scale, zero_point], || {
        let m = floats(&x.meta())?;
        let axis = m.shape.axis(axis)?;
        Ok(Tensor::composite1(FakeQuantize { quant_min, quant_max, axis: Some(axis) }, &[x, &scale.cast(wide(m.dtype)), &zero_point.cast(wide(m.dtype))]))
    })
}
/// The steps themselves, `round(x / scale) + zero_point` bounded to the range of an 8-bit integer dtype.
#[track_caller]
pub fn quantize(x: &Tensor, scale: f64, zero_point: i64, dtype: DType) -> Tensor {
    compose("quantize", &[x], || {
        floats(&x.meta())?;
        let (low, high) = match dtype {
            DType::I8 => (-128.0, 127.0),
            DType::U8 => (0.0, 255.0),
            _ => return Err(ErrorKind::Dtype(format!("values are quantized to i8 or u8, not {dtype}")).into()),
        };
        let inverse = if x.meta().dtype == DType::F64 { 1.0 / scale } else { (1.0 / scale as f32) as f64 };
        Ok(((x.widened() * inverse).round() + zero_point as f64).maximum(low).minimum(high).cast(dtype))
    })
}
/// Values of steps: `(steps - zero_point) · scale`, in f32.
#[track_caller]
pub fn dequantize(steps: &Tensor, scale: f64, zero_point: i64) -> Tensor {
    compose("dequantize", &[steps], || Ok((steps.cast(DType::F32) - zero_point as f64) * scale))
}

/// The gradients times `max_norm / (norm + 1e-6)` where that is below 1, norm being the norm of all of them together,
/// which is returned too. No data is read.
#[track_caller]
pub fn clip_grad_norm(gradients: &[&Tensor], max_norm: f64, norm_type: f64) -> (Vec<Tensor>, Tensor) {
    let total = compose("clip_grad_norm", gradients, || {
        let Some(first) = gradients.first() else { return Ok(Tensor::full((), 0.0, DType::F32)) };
        for gradient in gradients {
            floats(&gradient.meta())?;
        }
        let wide = wide(floats(&first.meta())?.dtype);
        let norms: Vec<Tensor> = gradients.iter().map(|g| g.cast(wide).vector_norm(norm_type, ..)).collect();
        Ok(Tensor::stack(&norms, 0).vector_norm(norm_type, ..))
    });
    let factor = (max_norm / (&total + 1e-6)).minimum(1.0);
    let clipped =
        gradients.iter().map(|g| if total.error().is_some() { total.clone() } else { (g.cast(total.meta().dtype) * &factor).cast(g.meta().dtype) }).collect();
    (clipped, total)
}
