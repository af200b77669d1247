//! AVX-512: tiles of 12 rows by 2 vectors, which leave 8 of the 32 registers for B and the elements of A.

use super::context::GemmContext;
use super::instances::{context, kernels};
use super::micro::{self, CHUNK, Segment};
use crate::simd::Float;
use crate::simd::avx512::{F32x16, F64x8};

kernels!("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");
context!(F32: f32, tiles of [1 2 3 4 5 6 7 8 9 10 11 12] rows by 2 of F32x16);
context!(F64: f64, tiles of [1 2 3 4 5 6 7 8 9 10 11 12] rows by 2 of F64x8);
