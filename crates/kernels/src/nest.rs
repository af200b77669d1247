//! Index arithmetic: the axes of a space in two groups, neighbours merged where all operands step through them as one,
//! and the text that turns an element's number into places. Sizes, steps and offsets are parameters; only how many axes
//! are left and which operands are dense is structure.
use crate::launcher::Key;
use adamant_ir::{MAX_RANK, Shape};
use smallvec::SmallVec;

/// The steps of an operand along each axis of the space, in elements.
pub type Strides = [isize; MAX_RANK];

/// How an operand's places follow from an element's number.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
enum OperandWalk {
    /// all elements are one
    Still,
    /// in order without gaps
    Dense,
    /// by coordinates
    Strided,
}
/// What of a nest stands in a text, with the axes of the space that it was made for.
#[derive(Clone, PartialEq, Debug)]
pub struct Form {
    /// the axes of the space, a bit each, that are one axis of the nest
    merged: SmallVec<[u8; MAX_RANK]>,
    outer: usize,
    walks: SmallVec<[OperandWalk; 8]>,
}
impl Form {
    /// How many operands walk as they do in another form.
    pub fn likeness(&self, other: &Form) -> usize {
        self.walks.iter().zip(&other.walks).filter(|(a, b)| a == b).count()
    }
}
/// The axes of a launch, the outer group before the inner one.
pub struct Nest {
    sizes: SmallVec<[u32; MAX_RANK]>,
    /// the axes of the space, a bit each, in each of them
    merged: SmallVec<[u8; MAX_RANK]>,
    outer: usize,
    /// for each operand: its offset, then its step along each axis
    steps: Vec<SmallVec<[u32; 1 + MAX_RANK]>>,
    walks: SmallVec<[OperandWalk; 8]>,
    /// where its parameters begin
    base: usize,
}
/// Which group of axes.
#[derive(Clone, Copy, PartialEq)]
pub enum AxisGroup {
    /// the axes of the lines
    Outer,
    /// the axes along them
    Inner,
}

impl Nest {
    /// The nest of operands (offset and strides) over the space's axes in the order of the two groups.
    pub fn new(space: &Shape, outer: &[usize], inner: &[usize], operands: &[(usize, Strides)]) -> Nest {
        let mut nest = Nest::empty(operands);
        for (group, axes) in [outer, inner].into_iter().enumerate() {
            let first = nest.sizes.len();
            for &a in axes.iter().filter(|&&a| space[a] != 1) {
                let size = space[a] as u32;
                let merges = nest.sizes.len() > first
                    && operands.iter().zip(&nest.steps).all(|((_, strides), steps)| steps.last().copied() == Some((strides[a] as u32).wrapping_mul(size)));
                if let (true, Some(last), Some(merged)) = (merges, nest.sizes.last_mut(), nest.merged.last_mut()) {
                    *last = last.wrapping_mul(size);
                    *merged |= 1 << a;
                } else {
                    nest.sizes.push(size);
                    nest.merged.push(1 << a);
                    nest.steps.iter_mut().for_each(|s| s.push(0));
                }
                for ((_, strides), steps) in operands.iter().zip(&mut nest.steps) {
                    if let Some(last) = steps.last_mut() {
                        *last = strides[a] as u32;
                    }
                }
            }
            if group == 0 {
                nest.outer = nest.sizes.len();
            }
        }
        nest.walks = (0..operands.len())
            .map(|k| {
                if nest.walks_as(k, OperandWalk::Still) {
                    OperandWalk::Still
                } else if nest.walks_as(k, OperandWalk::Dense) {
                    OperandWalk::Dense
                } else {
                    OperandWalk::Strided
                }
            })
            .collect();
        nest
    }
    /// The nest of that form, if the operands' steps allow it: axes of one element are never stepped along.
    pub fn of(form: &Form, space: &Shape, axes: [&[usize]; 2], operands: &[(usize, Strides)]) -> Option<Nest> {
        let mut nest = Nest::empty(operands);
        nest.outer = form.outer;
        for (k, &merged) in form.merged.iter().enumerate() {
            let (mut size, mut last, mut own) = (1u32, None, 0u8);
            for &a in axes[usize::from(k >= form.outer)].iter().filter(|&&a| merged >> a & 1 == 1) {
                own |= 1 << a;
                if space[a] == 1 {
                    continue;
                }
                let extent = space[a] as u32;
                if last.is_some_and(|l: usize| operands.iter().any(|(_, s)| s[l] as u32 != (s[a] as u32).wrapping_mul(extent))) {
                    return None;
                }
                (size, last) = (size.wrapping_mul(extent), Some(a));
            }
            if own != merged {
                return None;
            }
            nest.sizes.push(size);
            for ((_, strides), steps) in operands.iter().zip(&mut nest.steps) {
                steps.push(last.map_or(0, |a| strides[a] as u32));
            }
        }
        let covered = form.merged.iter().fold(0, |all, m| all | m);
        let covers = axes.into_iter().flatten().all(|&a| space[a] == 1 || covered >> a & 1 == 1);
        let walks = form.walks.len() == operands.len() && form.walks.iter().enumerate().all(|(k, w)| nest.walks_as(k, *w));
        nest.merged = form.merged.clone();
        nest.walks = form.walks.clone();
        (covers && walks).then_some(nest)
    }
    fn empty(operands: &[(usize, Strides)]) -> Nest {
        // As two's complement: negative steps wrap around to the right places.
        let steps = operands.iter().map(|(offset, _)| SmallVec::from_slice(&[*offset as u32])).collect();
        Nest { sizes: SmallVec::new(), merged: SmallVec::new(), outer: 0, steps, walks: SmallVec::new(), base: 0 }
    }
    /// Do an operand's places follow in this way?
    fn walks_as(&self, operand: usize, walk: OperandWalk) -> bool {
        let mut steps = self.sizes.iter().zip(&self.steps[operand][1..]).rev().filter(|(size, _)| **size != 1);
        match walk {
            OperandWalk::Still => steps.all(|(_, &step)| step == 0),
            OperandWalk::Dense => {
                let mut dense = 1u32;
                self.outer == self.sizes.len()
                    && steps.all(|(&size, &step)| {
                        let is_dense = step == dense;
                        dense = dense.wrapping_mul(size);
                        is_dense
                    })
            }
            OperandWalk::Strided => true,
        }
    }
    /// Do the operand's elements lie in order without gaps?
    pub fn is_dense(&self, operand: usize) -> bool {
        self.walks[operand] == OperandWalk::Dense
    }
    /// What of it stands in a text.
    pub fn form(&self) -> Form {
        Form { merged: self.merged.clone(), outer: self.outer, walks: self.walks.clone() }
    }
    /// Appends its structure to a key.
    pub fn describe(&self, key: &mut Key) {
        key.extend([self.outer as u8, self.sizes.len() as u8]);
        key.extend(self.walks.iter().map(|w| *w as u8));
    }
    /// Appends its parameters, which its text then reads from there.
    pub fn place(&mut self, parameters: &mut Vec<u32>) {
        self.base = parameters.len();
        parameters.extend_from_slice(&self.sizes);
        self.steps.iter().for_each(|s| parameters.extend_from_slice(s));
    }
    fn size(&self, axis: usize) -> String {
        format!("p[{}u]", self.base + axis)
    }
    fn step(&self, operand: usize, k: usize) -> String {
        format!("p[{}u]", self.base + self.sizes.len() + operand * (self.sizes.len() + 1) + k)
    }
    /// Statements that define the coordinates `c<axis>` of a group from an element's number in it.
    pub fn coordinates(&self, group: AxisGroup, number: &str) -> String {
        let (first, end) = if group == AxisGroup::Outer { (0, self.outer) } else { (self.outer, self.sizes.len()) };
        if !self.walks.contains(&OperandWalk::Strided) {
            return String::new();
        }
        let mut text = String::new();
        let mut rest = number.to_string();
        for axis in (first..end).rev() {
            if axis == first {
                text += &format!("let c{axis}: u32 = {rest};\n");
            } else {
                text += &format!("let c{axis}: u32 = {rest} % {0}; let q{axis}: u32 = {rest} / {0};\n", self.size(axis));
                rest = format!("q{axis}");
            }
        }
        text
    }
    /// The place of an operand's element, from the coordinates; `number` is the element's number where there is one group.
    pub fn at(&self, operand: usize, number: &str) -> String {
        let offset = self.step(operand, 0);
        match self.walks[operand] {
            OperandWalk::Still => offset,
            OperandWalk::Dense => format!("{offset} + {number}"),
            OperandWalk::Strided => (0..self.sizes.len()).fold(offset, |sum, axis| format!("{sum} + c{axis} * {}", self.step(operand, 1 + axis))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nest(shape: &[usize], operands: &[&[isize]]) -> Nest {
        let of = |s: &[isize]| {
            let mut strides = [0; MAX_RANK];
            strides[..s.len()].copy_from_slice(s);
            (0, strides)
        };
        let axes: Vec<usize> = (0..shape.len()).collect();
        Nest::new(&Shape::new(shape).unwrap(), &axes, &[], &operands.iter().map(|s| of(s)).collect::<Vec<_>>())
    }
    #[test]
    fn axes_merge_where_all_operands_step_through_them_as_one() {
        for (shape, operands, sizes, walks) in [
            (&[2, 3, 4][..], &[&[12isize, 4, 1][..], &[12, 4, 1]][..], &[24u32][..], &[OperandWalk::Dense, OperandWalk::Dense][..]),
            (&[2, 3, 4], &[&[12, 4, 1], &[0, 0, 1]], &[6, 4], &[OperandWalk::Dense, OperandWalk::Strided]),
            (&[2, 1, 4], &[&[4, 9, 1], &[0, 0, 0]], &[8], &[OperandWalk::Dense, OperandWalk::Still]),
            (&[3, 4], &[&[1, 3]], &[3, 4], &[OperandWalk::Strided]),
            (&[4], &[&[-1]], &[4], &[OperandWalk::Strided]),
            (&[1, 1], &[&[5, 7]], &[], &[OperandWalk::Still]),
        ] {
            let n = nest(shape, operands);
            assert_eq!((&n.sizes[..], &n.walks[..]), (sizes, walks), "{shape:?}");
        }
    }
}
