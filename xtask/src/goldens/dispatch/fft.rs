//! Fourier transforms.
use crate::goldens::call::OpCall;
use adamant::{DType, Error, Tensor, tensor::FftNorm};

/// The outputs, if the op is one of these.
pub fn dispatch(case: &OpCall) -> Option<Result<Vec<Tensor>, Error>> {
    apply(case).transpose()
}
fn apply(case: &OpCall) -> Result<Option<Vec<Tensor>>, Error> {
    let x = || case.tensor(0);
    let norm = match case.text_or("norm", "backward")? {
        "ortho" => FftNorm::Ortho,
        "forward" => FftNorm::Forward,
        _ => FftNorm::Backward,
    };
    let n = match case.maybe_int("n")? {
        Some(_) => Some(case.size("n")?),
        None => None,
    };
    Ok(Some(vec![match case.op() {
        "rfft_real" => x()?.rfft(n, case.axis_or("dim", -1)?, norm),
        "fft_abs" => as_complex(x()?)?.fft(n, case.axis_or("dim", -1)?, norm).complex_abs(),
        "irfft_of_rfft" => x()?.rfft(None, -1, norm).irfft(n, -1, norm),
        "rfft2_real" => x()?.rfft2(norm),
        "stft_real" => x()?.stft(case.size("n_fft")?, case.size("hop_length")?, case.tensor(1)?, case.bool_or("center", true)?, norm),
        _ => return Ok(None),
    }]))
}
/// Real numbers with imaginary parts of zero.
fn as_complex(x: &Tensor) -> Result<Tensor, Error> {
    let x = if x.dtype()?.is_float() { x.clone() } else { x.cast(DType::F32) };
    Ok(Tensor::stack(&[&x, &x.zeros_like()], -1))
}
