//! What ranks bring, and what must come of it: worked out here, by recursion over the parts, and by nothing that is tested.
#![allow(dead_code, reason = "each test uses its part")]
use adamant_runtime::{
    DType, Shape, TensorType, bf16,
    communicator::{CollectiveCall, Communicator, ReductionTree},
    f16,
    op::{CollectiveKind, RankUse, ReduceOp},
};

/// Numbers that follow from where they are.
pub fn drawn(seed: u64, k: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(k).wrapping_add(0x1234_5678_9abc_def1);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
pub fn drawn_bytes(seed: u64, n: usize) -> Vec<u8> {
    (0..n).map(|k| drawn(seed, k as u64) as u8).collect()
}

/// An element as the test knows it.
pub trait Number: Copy + 'static {
    const DTYPE: DType;
    fn drawn(seed: u64) -> Self;
    fn put(self, out: &mut Vec<u8>);
    fn with(self, other: Self, by: ReduceOp) -> Self;
}
macro_rules! ints { ($($t:ty: $dtype:ident),*) => { $(
    impl Number for $t {
        const DTYPE: DType = DType::$dtype;
        fn drawn(seed: u64) -> $t { seed as $t }
        fn put(self, out: &mut Vec<u8>) { out.extend_from_slice(&self.to_ne_bytes()); }
        fn with(self, other: $t, by: ReduceOp) -> $t {
            match by { ReduceOp::Sum => self.wrapping_add(other), ReduceOp::Max => self.max(other), _ => self.min(other) }
        }
    }
)* } }
ints!(i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64);
macro_rules! floats { ($($t:ty: $dtype:ident, $of:expr, $add:expr);*) => { $(
    impl Number for $t {
        const DTYPE: DType = DType::$dtype;
        // Of many magnitudes, so that no order of additions is like another.
        fn drawn(seed: u64) -> $t { $of(((seed >> 40) as f64 / (1 << 23) as f64 - 1.0) * f64::from(1u32 << (seed % 12))) }
        fn put(self, out: &mut Vec<u8>) { out.extend_from_slice(&self.to_ne_bytes()); }
        fn with(self, other: $t, by: ReduceOp) -> $t {
            match by { ReduceOp::Sum => $add(self, other), ReduceOp::Max => if self > other { self } else { other }, _ => if self < other { self } else { other } }
        }
    }
)* } }
floats!(
    f32: F32, |x: f64| x as f32, |a: f32, b: f32| a + b;
    f64: F64, |x: f64| x, |a: f64, b: f64| a + b;
    bf16: BF16, |x: f64| bf16::from_f64(x), |a: bf16, b: bf16| bf16::from_f32(a.to_f32() + b.to_f32());
    f16: F16, |x: f64| f16::from_f64(x), |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32())
);

/// One reduction: what each part is, and what nodes of the tree over them are worth.
#[derive(Clone, Copy)]
pub struct Reduction {
    pub seed: u64,
    pub by: ReduceOp,
    pub elements: usize,
    pub parts: usize,
}
impl Reduction {
    /// The node of so many parts (a power of two, some of which may be beyond the end) from one on, at one element.
    fn node<T: Number>(&self, from: usize, width: usize, k: usize) -> T {
        if width == 1 {
            return T::drawn(drawn(self.seed ^ (from as u64) << 40, k as u64));
        }
        let half = width / 2;
        let left = self.node::<T>(from, half, k);
        if from + half >= self.parts { left } else { left.with(self.node(from + half, half, k), self.by) }
    }
    pub fn node_bytes<T: Number>(&self, node: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..self.elements).for_each(|k| self.node::<T>(node.start, node.len().next_power_of_two(), k).put(&mut bytes));
        bytes
    }
    pub fn all<T: Number>(&self) -> Vec<u8> {
        self.node_bytes::<T>(0..self.parts)
    }
    pub fn tree<T: Number>(&self, size: usize) -> ReductionTree {
        ReductionTree { reduce: self.by, dtype: T::DTYPE, parts: self.parts, size }
    }
    pub fn own<T: Number>(&self, rank: usize, size: usize) -> Vec<u8> {
        self.tree::<T>(size).nodes(rank).into_iter().flat_map(|node| self.node_bytes::<T>(node)).collect()
    }
    pub fn kind(&self) -> CollectiveKind {
        CollectiveKind::AllReduce { reduce: self.by, parts: self.parts as u32, used: RankUse::Alike }
    }
}
pub fn vector(dtype: DType, n: usize) -> TensorType {
    TensorType { shape: Shape::new(&[n]).unwrap(), dtype }
}
pub fn call(on: &dyn Communicator, kind: CollectiveKind, dtype: DType, n: usize) -> CollectiveCall {
    CollectiveCall::next(on, kind, vector(dtype, n), None)
}
pub const GATHER: CollectiveKind = CollectiveKind::AllGather { used: RankUse::Alike };
pub const SUM: CollectiveKind = CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike };
