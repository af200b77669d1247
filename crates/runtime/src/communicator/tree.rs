//! The tree along which parts are added.
//!
//! The parts are the leaves, in their order. A node of level j covers 2^j of them that begin at a multiple of 2^j, fewer at the end;
//! its value is that of its left half plus that of its right half. Which rank holds which parts changes nothing: a rank brings the
//! values of the largest nodes that lie in its parts whole, and the rest of the tree is added by whoever has a piece of all of them.
//!
//! | 8 parts on 3 ranks | parts | nodes |
//! |---|---|---|
//! | rank 0 | 0 1 | 0-1 |
//! | rank 1 | 2 3 4 | 2-3, 4 |
//! | rank 2 | 5 6 7 | 5, 6-7 |
use crate::{
    DType, ErrorKind,
    op::{ReduceOp, tree_nodes},
};
use half::{bf16, f16};
use smallvec::SmallVec;
use std::ops::Range;

/// A reduction of so many parts, which so many ranks hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReductionTree {
    /// sum, maximum or minimum
    pub reduce: ReduceOp,
    /// of the elements
    pub dtype: DType,
    /// how many leaves there are
    pub parts: usize,
    /// how many ranks
    pub size: usize,
}
/// Nodes that a rank brings: the parts that each covers.
pub type TreeNodes = SmallVec<[Range<usize>; 8]>;

impl ReductionTree {
    /// A tree whose leaves are the ranks.
    pub fn of_ranks(reduce: ReduceOp, dtype: DType, size: usize) -> ReductionTree {
        ReductionTree { reduce, dtype, parts: size, size }
    }
    /// The nodes that a rank brings, in order: the largest that lie in its parts whole.
    pub fn nodes(&self, rank: usize) -> TreeNodes {
        tree_nodes(self.parts, rank, self.size).collect()
    }
    /// Adds the nodes of all ranks, which are given in order, each as many bytes as `sum` has.
    ///
    /// # Errors
    /// Nodes that are no whole tree; bytes that are no whole elements; a dtype that is not reduced.
    pub fn fold(&self, nodes: &[(Range<usize>, &[u8])], sum: &mut [u8]) -> Result<(), ErrorKind> {
        let is_whole = nodes.iter().try_fold(0, |at, (node, bytes)| (node.start == at && node.end > at && bytes.len() == sum.len()).then_some(node.end));
        if is_whole != Some(self.parts) || sum.len() % self.dtype.size() != 0 {
            return Err(ErrorKind::Internal(format!("{} nodes are no tree of {} parts", nodes.len(), self.parts)));
        }
        let add = adder(self.reduce, self.dtype)?;
        // In blocks that stay in the first cache.
        let (mut spare, mut from) = (Vec::new(), 0);
        while from < sum.len() {
            let block = from..(from + BLOCK).min(sum.len());
            fold_block(add, nodes, &block, 0..self.parts.next_power_of_two(), &mut sum[block.clone()], &mut spare);
            from = block.end;
        }
        Ok(())
    }
}
/// Bytes that are added along the whole tree before the next ones.
const BLOCK: usize = 8192;
/// Writes the value of a node of the tree, of the given nodes that lie in it: at least one, and the first begins where it does.
fn fold_block(add: Adder, nodes: &[(Range<usize>, &[u8])], block: &Range<usize>, node: Range<usize>, out: &mut [u8], spare: &mut Vec<Vec<u8>>) {
    match nodes {
        [] => {}
        [(_, bytes)] => out.copy_from_slice(&bytes[block.clone()]),
        [(_, a), (_, b)] => (add.both)(&a[block.clone()], &b[block.clone()], out),
        nodes => {
            let middle = (node.start + node.end) / 2;
            let (left, right) = nodes.split_at(nodes.partition_point(|(n, _)| n.end <= middle));
            fold_block(add, left, block, node.start..middle, out, spare);
            match right {
                [] => {}
                [(_, bytes)] => (add.onto)(out, &bytes[block.clone()]),
                right => {
                    let mut other = spare.pop().unwrap_or_else(|| vec![0; BLOCK]);
                    let there = &mut other[..out.len()];
                    fold_block(add, right, block, middle..node.end, there, spare);
                    (add.onto)(out, there);
                    spare.push(other);
                }
            }
        }
    }
}

/// How elements of a dtype are put together.
#[derive(Clone, Copy)]
struct Adder {
    both: fn(&[u8], &[u8], &mut [u8]),
    onto: fn(&mut [u8], &[u8]),
}
/// An element in memory, and what it is when two become one.
trait FoldedElement: Copy {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn sum(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}
macro_rules! reduced {
    ($($t:ty: $sum:expr, $max:expr, $min:expr;)*) => { $(
        impl FoldedElement for $t {
            const SIZE: usize = size_of::<$t>();
            #[inline(always)]
            fn read(bytes: &[u8]) -> $t {
                bytes.try_into().map_or(<$t>::from_ne_bytes(Default::default()), <$t>::from_ne_bytes)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            #[inline(always)]
            fn sum(self, other: $t) -> $t {
                let f: fn($t, $t) -> $t = $sum;
                f(self, other)
            }
            #[inline(always)]
            fn max(self, other: $t) -> $t {
                let f: fn($t, $t) -> $t = $max;
                f(self, other)
            }
            #[inline(always)]
            fn min(self, other: $t) -> $t {
                let f: fn($t, $t) -> $t = $min;
                f(self, other)
            }
        }
    )* };
}
/// NaN if either is.
macro_rules! float { ($compare:tt) => { |a, b| if a.is_nan() || a $compare b { a } else { b } } }
reduced! {
    f32: |a, b| a + b, float!(>), float!(<);
    f64: |a, b| a + b, float!(>), float!(<);
    // Added in f32 and rounded, at each node.
    bf16: |a, b| bf16::from_f32(a.to_f32() + b.to_f32()), float!(>), float!(<);
    f16: |a, b| f16::from_f32(a.to_f32() + b.to_f32()), float!(>), float!(<);
    i8: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    i16: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    i32: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    i64: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    u8: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    u16: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    u32: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
    u64: |a, b| a.wrapping_add(b), Ord::max, Ord::min;
}
#[inline(always)]
fn both<T: FoldedElement>(f: impl Fn(T, T) -> T, a: &[u8], b: &[u8], out: &mut [u8]) {
    for ((out, a), b) in out.chunks_exact_mut(T::SIZE).zip(a.chunks_exact(T::SIZE)).zip(b.chunks_exact(T::SIZE)) {
        f(T::read(a), T::read(b)).write(out);
    }
}
#[inline(always)]
fn onto<T: FoldedElement>(f: impl Fn(T, T) -> T, out: &mut [u8], b: &[u8]) {
    for (out, b) in out.chunks_exact_mut(T::SIZE).zip(b.chunks_exact(T::SIZE)) {
        f(T::read(out), T::read(b)).write(out);
    }
}
fn adder_of<T: FoldedElement>(reduce: ReduceOp) -> Option<Adder> {
    Some(match reduce {
        ReduceOp::Sum => Adder { both: |a, b, out| both(T::sum, a, b, out), onto: |out, b| onto(T::sum, out, b) },
        ReduceOp::Max => Adder { both: |a, b, out| both(T::max, a, b, out), onto: |out, b| onto(T::max, out, b) },
        ReduceOp::Min => Adder { both: |a, b, out| both(T::min, a, b, out), onto: |out, b| onto(T::min, out, b) },
        ReduceOp::Prod => return None,
    })
}
fn adder(reduce: ReduceOp, dtype: DType) -> Result<Adder, ErrorKind> {
    let found = match dtype {
        DType::F32 => adder_of::<f32>(reduce),
        DType::F64 => adder_of::<f64>(reduce),
        DType::BF16 => adder_of::<bf16>(reduce),
        DType::F16 => adder_of::<f16>(reduce),
        DType::I8 => adder_of::<i8>(reduce),
        DType::I16 => adder_of::<i16>(reduce),
        DType::I32 => adder_of::<i32>(reduce),
        DType::I64 => adder_of::<i64>(reduce),
        DType::U8 => adder_of::<u8>(reduce),
        DType::U16 => adder_of::<u16>(reduce),
        DType::U32 => adder_of::<u32>(reduce),
        DType::U64 => adder_of::<u64>(reduce),
        _ => None,
    };
    found.ok_or_else(|| ErrorKind::Dtype(format!("ranks do not reduce {dtype} by {}", reduce.word())))
}
