//! Loop nests: an index space in some order of its axes, with the strides of several operands, collapsed to as few
//! axes as the strides allow. Must not know dtypes.
use adamant_runtime::{MAX_RANK, Shape};
use smallvec::SmallVec;

/// Strides of one operand along a nest's axes.
pub(crate) type Strides = [isize; MAX_RANK];

/// An index space and how its operands step through it. Position `p` of the nest is row-major over `dims`.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    /// sizes, outermost first; at least one
    pub dims: SmallVec<[usize; MAX_RANK]>,
    /// for each operand, its strides
    pub strides: SmallVec<[Strides; 8]>,
}

impl Nest {
    /// The axes of `space` in the order `axes`, collapsed.
    pub fn new(space: &Shape, axes: impl Iterator<Item = usize>, operands: &[&Strides]) -> Nest {
        let mut nest = Nest { dims: SmallVec::new(), strides: SmallVec::from_elem([0; MAX_RANK], operands.len()) };
        for axis in axes {
            let d = space[axis];
            if d == 1 {
                continue;
            }
            let last = nest.dims.len();
            let joins = last > 0 && operands.iter().zip(&nest.strides).all(|(o, s)| s[last - 1] == o[axis] * d as isize);
            let at = if joins {
                nest.dims[last - 1] *= d;
                last - 1
            } else {
                nest.dims.push(d);
                last
            };
            for (o, s) in operands.iter().zip(nest.strides.iter_mut()) {
                s[at] = o[axis];
            }
        }
        if nest.dims.is_empty() {
            nest.dims.push(1);
        }
        nest
    }
    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }
    /// The size of the innermost axis.
    pub fn innermost(&self) -> usize {
        self.dims[self.dims.len() - 1]
    }
    /// The stride of operand k along it.
    pub fn innermost_stride(&self, k: usize) -> isize {
        self.strides[k][self.dims.len() - 1]
    }
    /// Does operand k lie densely in the nest's order?
    pub fn is_dense(&self, k: usize) -> bool {
        let mut step = 1;
        self.dims.iter().zip(&self.strides[k]).rev().all(|(&d, &s)| {
            let fits = s == step;
            step *= d as isize;
            fits
        })
    }
    /// Does operand k have one element for the whole nest?
    pub fn is_uniform(&self, k: usize) -> bool {
        self.strides[k][..self.dims.len()].iter().all(|&s| s == 0)
    }
    /// Where operand k, relative to its first element, is at position `at`.
    pub fn offset(&self, k: usize, at: usize) -> isize {
        offset(&self.dims, &self.strides[k], at)
    }
    /// Where operand k, whose first element is at `start`, is at the positions from `at` on.
    pub fn places(&self, k: usize, at: usize, start: isize, out: &mut [isize]) {
        let count = out.len();
        self.runs(k, at, count, |first, count, offset, stride| {
            for (j, out) in out[first..first + count].iter_mut().enumerate() {
                *out = start + offset + j as isize * stride;
            }
        });
    }
    /// Where operand k is at position `at`, if it lies side by side over the `n` positions from there on.
    pub fn run(&self, k: usize, at: usize, n: usize) -> Option<isize> {
        let last = self.dims.len() - 1;
        (self.strides[k][last] == 1 && at % self.dims[last] + n <= self.dims[last]).then(|| self.offset(k, at))
    }
    /// Cuts the positions `at .. at + n` of operand k into [`EvenLines`].
    pub fn lines(&self, k: usize, at: usize, n: usize, f: impl FnMut(EvenLines)) {
        lines(&self.dims, &self.strides[k], at, n, f);
    }
    /// Cuts the positions `at .. at + n` of operand k into runs of one stride: `f(first, count, offset, stride)`,
    /// `first` counted from `at`.
    pub fn runs(&self, k: usize, at: usize, n: usize, f: impl FnMut(usize, usize, isize, isize)) {
        runs(&self.dims, &self.strides[k], at, n, f);
    }
}

/// See [`Nest::offset`].
pub(crate) fn offset(dims: &[usize], strides: &[isize], mut at: usize) -> isize {
    let Some((_, inner)) = dims.split_first() else { return 0 };
    let mut offset = 0;
    // The outermost axis has what is left, which takes no division.
    for (&d, &s) in inner.iter().zip(&strides[1..]).rev() {
        offset += (at % d) as isize * s;
        at /= d;
    }
    offset + at as isize * strides[0]
}
/// See [`Nest::runs`].
pub(crate) fn runs(dims: &[usize], strides: &[isize], at: usize, n: usize, mut f: impl FnMut(usize, usize, isize, isize)) {
    let rank = dims.len();
    let mut index = [0usize; MAX_RANK];
    let (mut rest, mut offset) = (at, 0isize);
    for a in (0..rank).rev() {
        index[a] = rest % dims[a];
        rest /= dims[a];
        offset += index[a] as isize * strides[a];
    }
    let (inner, stride) = (dims[rank - 1], strides[rank - 1]);
    let mut done = 0;
    while done < n {
        let count = (inner - index[rank - 1]).min(n - done);
        f(done, count, offset, stride);
        done += count;
        // To the start of the next inner line.
        offset -= index[rank - 1] as isize * stride;
        index[rank - 1] = 0;
        let mut a = rank - 1;
        while a > 0 {
            a -= 1;
            index[a] += 1;
            offset += strides[a];
            if index[a] < dims[a] {
                break;
            }
            offset -= dims[a] as isize * strides[a];
            index[a] = 0;
        }
    }
}

/// Lines of equal length, one behind the other: `count` elements every `stride`, `lines` times every `step`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EvenLines {
    /// the first position, counted from where the cutting began
    pub first: usize,
    pub lines: usize,
    pub count: usize,
    /// where the first element is
    pub offset: isize,
    pub step: isize,
    pub stride: isize,
}
/// See [`Nest::lines`].
fn lines(dims: &[usize], strides: &[isize], at: usize, n: usize, mut f: impl FnMut(EvenLines)) {
    let [.., outer, inner] = *dims else {
        return runs(dims, strides, at, n, |first, count, offset, stride| f(EvenLines { first, lines: 1, count, offset, step: 0, stride }));
    };
    let last = dims.len() - 1;
    let (step, stride) = (strides[last - 1], strides[last]);
    let mut done = 0;
    while done < n {
        let place = at + done;
        let (column, row) = (place % inner, place / inner % outer);
        // To the end of a line, or whole lines to the end of the axis along which they follow each other.
        let whole = ((n - done) / inner).min(outer - row);
        let (lines, count) = if column == 0 && whole > 0 { (whole, inner) } else { (1, (inner - column).min(n - done)) };
        let offset = offset(&dims[..last - 1], strides, place / inner / outer) + row as isize * step + column as isize * stride;
        f(EvenLines { first: done, lines, count, offset, step, stride });
        done += lines * count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_operands_collapse_to_one_axis_and_a_broadcast_one_keeps_its_own() {
        let space = Shape::new(&[2, 3, 4]).unwrap();
        let dense = space.strides();
        assert_eq!(&Nest::new(&space, 0..3, &[&dense]).dims[..], [24]);
        let mut row = [0; MAX_RANK];
        row[2] = 1;
        let nest = Nest::new(&space, 0..3, &[&dense, &row]);
        assert_eq!(&nest.dims[..], [6, 4]);
        assert!(nest.is_dense(0) && !nest.is_dense(1));
        // A row that is read again for each line lies side by side as far as the line goes.
        assert_eq!([nest.run(1, 4, 4), nest.run(1, 9, 3), nest.run(1, 9, 4)], [Some(0), Some(1), None]);
    }
    #[test]
    fn runs_visit_what_offset_names() {
        let space = Shape::new(&[3, 4, 5]).unwrap();
        let strides = [7, -2, 3, 0, 0, 0, 0, 0];
        let nest = Nest::new(&space, [1, 0, 2].into_iter(), &[&strides]);
        for at in 0..60 {
            for n in [1, 4, 17, 60 - at] {
                let n = n.min(60 - at);
                let mut seen = vec![];
                nest.runs(0, at, n, |first, count, offset, stride| {
                    assert_eq!(first, seen.len());
                    seen.extend((0..count as isize).map(|k| offset + k * stride));
                });
                assert_eq!(seen, (at..at + n).map(|p| nest.offset(0, p)).collect::<Vec<_>>());
                let mut of_lines = vec![];
                nest.lines(0, at, n, |l| {
                    assert_eq!(l.first, of_lines.len());
                    of_lines.extend((0..l.lines as isize).flat_map(|i| (0..l.count as isize).map(move |j| l.offset + i * l.step + j * l.stride)));
                });
                assert_eq!(of_lines, seen);
                // Its elements are three apart, and never side by side.
                assert_eq!(nest.run(0, at, n), None);
            }
        }
    }
}
