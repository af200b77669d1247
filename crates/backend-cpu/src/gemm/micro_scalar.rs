//! Plain Rust: tiles of 4 by 4 numbers, the twin that the other sets are compared with.

use super::context::GemmContext;
use super::instances::{context, kernels};
use super::micro::{self, CHUNK, Segment};
use crate::simd::Float;

kernels!();
context!(F32: f32, tiles of [1 2 3 4] rows by 4 of f32);
context!(F64: f64, tiles of [1 2 3 4] rows by 4 of f64);
