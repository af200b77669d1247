//! Discrete Fourier transforms. Complex numbers are pairs (real, imaginary) along a last axis of 2.
use super::{Attr, Attrs, Composite};
use crate::{DType, ErrorKind, TensorType, Types};
use smallvec::smallvec;

/// From what to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FourierKind {
    /// `[.., n, 2]` to `[.., n, 2]`
    Complex,
    /// `[.., n]` to the first half of its transform, `[.., n / 2 + 1, 2]`; the other half is its mirror image, conjugated
    RealToHalf,
    /// `[.., n / 2 + 1, 2]`, the first half of something whose other half is its mirror image, conjugated, to `[.., n]`; the
    /// imaginary parts of the first point and, of an even n, of the last are not read
    HalfToReal,
}
impl FourierKind {
    /// All of them.
    pub const ALL: [FourierKind; 3] = [FourierKind::Complex, FourierKind::RealToHalf, FourierKind::HalfToReal];
    /// As it is written in a graph's text.
    pub fn name(self) -> &'static str {
        match self {
            FourierKind::Complex => "complex",
            FourierKind::RealToHalf => "real_to_half",
            FourierKind::HalfToReal => "half_to_real",
        }
    }
}
/// `y_k = scale sum_j x_j exp(-2 pi i j k / n)` along the last axis, with the other sign if `inverse`.
#[derive(Clone, Copy, Debug)]
pub struct Fourier {
    /// from what to what
    pub kind: FourierKind,
    /// how many points
    pub n: usize,
    /// with a positive exponent
    pub inverse: bool,
    /// a factor of the result
    pub scale: f64,
}

impl Composite for Fourier {
    fn name(&self) -> &'static str {
        "adamant.fourier"
    }
    fn attrs(&self) -> Attrs {
        smallvec![
            ("kind", Attr::Text(self.kind.name().into())),
            ("n", Attr::Int(self.n as i64)),
            ("inverse", Attr::Bool(self.inverse)),
            ("scale", Attr::Float(self.scale)),
        ]
    }
    fn infer(&self, inputs: &[TensorType]) -> Result<Types, ErrorKind> {
        let x = inputs[0];
        if !matches!(x.dtype, DType::F32 | DType::F64) {
            return Err(ErrorKind::Dtype(format!("transforms are made of f32 and f64, not of {}", x.dtype)));
        }
        let (n, half, rank) = (self.n, self.n / 2 + 1, x.shape.rank());
        let wanted: &[usize] = match self.kind {
            FourierKind::Complex => &[n, 2],
            FourierKind::RealToHalf => &[n],
            FourierKind::HalfToReal => &[half, 2],
        };
        if n == 0 || rank < wanted.len() || x.shape[rank - wanted.len()..] != *wanted {
            return Err(ErrorKind::Shape { shape: x.shape, expected: format!("last axes {wanted:?} for a transform of {n} points") });
        }
        let shape = match self.kind {
            FourierKind::Complex => x.shape,
            FourierKind::RealToHalf => x.shape.with(rank - 1, half).insert(rank, 2)?,
            FourierKind::HalfToReal => x.shape.without(rank - 1).with(rank - 2, n),
        };
        Ok(smallvec![TensorType { shape, ..x }])
    }
}
