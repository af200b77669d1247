//! AVX2: tiles of 6 rows by 2 vectors, which leave 4 of the 16 registers for B and an element of A.

use super::context::GemmContext;
use super::instances::{context, kernels};
use super::micro::{self, CHUNK, Segment};
use crate::simd::Float;
use crate::simd::avx2::{F32x8, F64x4};

kernels!("avx2,fma,f16c");
context!(F32: f32, tiles of [1 2 3 4 5 6] rows by 2 of F32x8);
context!(F64: f64, tiles of [1 2 3 4 5 6] rows by 2 of F64x4);
