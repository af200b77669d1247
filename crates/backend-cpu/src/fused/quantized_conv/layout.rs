//! How the codes of a sample lie while windows move over them. Channels of a group come in quads, which a plane holds for each place. A
//! window that moves by more than one place meets every so many rows and columns: those it can meet at one place have planes of their
//! own, the phases, in which it moves by one. So the quads of adjacent windows are adjacent, whatever the stride.
//!
//! Where a group has few channels, or a window reaches far beyond what it makes, the columns of a window count as channels.
use crate::{
    gemm::bytes::{micro::QUAD, windows::WindowSteps},
    scratch::few,
};
use adamant_runtime::{ErrorKind, Shape, op::ConvSpec};
use smallvec::SmallVec;

/// The sizes of a convolution over three axes, of which the first may be of size 1.
#[derive(Clone, Copy)]
pub(super) struct ConvSizes {
    pub channels: usize,
    pub made_channels: usize,
    pub groups: usize,
    pub x: [usize; 3],
    pub kernel: [usize; 3],
    pub made: [usize; 3],
    pub stride: [usize; 3],
    pub dilation: [usize; 3],
    /// before each axis
    pub padding: [usize; 3],
}
impl ConvSizes {
    pub fn new(conv: &ConvSpec, x: &Shape, weight: &Shape, made: &Shape) -> ConvSizes {
        let missing = 3 - conv.spatial();
        let three = |of: &dyn Fn(usize) -> usize, none: usize| std::array::from_fn(|k| if k < missing { none } else { of(k - missing) });
        ConvSizes {
            channels: x[1],
            made_channels: weight[0],
            groups: conv.groups,
            x: three(&|k| x[2 + k], 1),
            kernel: three(&|k| weight[2 + k], 1),
            made: three(&|k| made[2 + k], 1),
            stride: three(&|k| conv.stride[k], 1),
            dilation: three(&|k| conv.dilation[k], 1),
            padding: three(&|k| conv.padding[k].0, 0),
        }
    }
    pub fn places(&self) -> usize {
        self.made.iter().product()
    }
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }
    /// Elements of a channel of x.
    pub fn area(&self) -> usize {
        self.x.iter().product()
    }
    pub fn group_channels(&self) -> usize {
        self.channels / self.groups
    }
    pub fn group_made(&self) -> usize {
        self.made_channels / self.groups
    }
    /// Elements of a window of one group.
    pub fn window(&self) -> usize {
        self.group_channels() * self.taps()
    }
}

/// What one byte of a quad is.
#[derive(Clone, Copy)]
pub(super) struct QuadChannel {
    /// of a group
    pub channel: usize,
    /// of a window, where columns count as channels
    pub column: usize,
}
/// Adjacent places of planes that are results, and where those begin.
pub(super) struct PlaceRun {
    pub place: usize,
    pub length: usize,
    pub to: usize,
}
pub(super) struct PlaneLayout {
    pub sizes: ConvSizes,
    /// Do the columns of a window count as channels?
    pub folded: bool,
    /// the taps of a window that are steps
    taps: [usize; 3],
    /// of each axis: the offsets of the phases
    phases: [SmallVec<[usize; 4]>; 3],
    /// places of a plane
    pub plane: [usize; 3],
    pub steps: WindowSteps,
}
impl PlaneLayout {
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(sizes: ConvSizes) -> Result<PlaneLayout, ErrorKind> {
        let reach = |k: usize| (sizes.kernel[k] - 1) * sizes.dilation[k] / sizes.stride[k];
        let columns = sizes.kernel[2];
        let folded = columns > 1 && (sizes.group_channels() < QUAD || reach(2) > sizes.made[2]);
        let mut taps = sizes.kernel;
        if folded {
            taps[2] = 1;
        }
        let mut plane: [usize; 3] = std::array::from_fn(|k| sizes.made[k] + reach(k));
        if folded {
            plane[2] = sizes.made[2];
        }
        let phases = std::array::from_fn(|k| {
            let mut all: SmallVec<[usize; 4]> = (0..taps[k]).map(|tap| tap * sizes.dilation[k] % sizes.stride[k]).collect();
            all.sort_unstable();
            all.dedup();
            all
        });
        let mut layout = PlaneLayout { sizes, folded, taps, phases, plane, steps: WindowSteps::new(Vec::new()) };
        let mut offsets = crate::scratch::list(layout.quads() * layout.step_taps())?;
        for quad in 0..layout.quads() {
            for at in (0..layout.step_taps()).map(|tap| layout.tap(tap)) {
                let (mut phase, mut place) = (0, 0);
                for k in 0..3 {
                    let from = at[k] * sizes.dilation[k];
                    let own = layout.phases[k].iter().position(|p| *p == from % sizes.stride[k]).unwrap_or(0);
                    phase = phase * layout.phases[k].len() + own;
                    place = place * plane[k] + from / sizes.stride[k];
                }
                offsets.push(((quad * layout.phases() + phase) * layout.plane_places() + place) * QUAD);
            }
        }
        layout.steps = WindowSteps::new(offsets);
        Ok(layout)
    }
    /// Channels of a group, columns of a window among them where these count as such.
    fn step_channels(&self) -> usize {
        self.sizes.group_channels() * if self.folded { self.sizes.kernel[2] } else { 1 }
    }
    /// Quads of a place, over all channels of a group.
    pub fn quads(&self) -> usize {
        self.step_channels().div_ceil(QUAD)
    }
    /// Taps of a window that each have a step for every quad.
    pub fn step_taps(&self) -> usize {
        self.taps.iter().product()
    }
    fn tap(&self, tap: usize) -> [usize; 3] {
        let [_, rows, columns] = self.taps;
        [tap / (rows * columns), tap / columns % rows, tap % columns]
    }
    pub fn phases(&self) -> usize {
        self.phases.iter().map(SmallVec::len).product()
    }
    /// The offsets of a phase.
    pub fn phase(&self, phase: usize) -> [usize; 3] {
        let [_, rows, columns] = [0, 1, 2].map(|k| self.phases[k].len());
        [self.phases[0][phase / (rows * columns)], self.phases[1][phase / columns % rows], self.phases[2][phase % columns]]
    }
    pub fn plane_places(&self) -> usize {
        self.plane.iter().product()
    }
    /// Is the plane of a channel what the channel is?
    pub fn lies_ready(&self) -> bool {
        let sizes = &self.sizes;
        !self.folded && sizes.stride == [1; 3] && sizes.padding == [0; 3] && self.plane == sizes.x
    }
    /// Bytes of the planes of a group.
    pub fn group_bytes(&self) -> usize {
        self.quads() * self.phases() * self.plane_places() * QUAD
    }
    /// Places of a plane from the first to the last where a window is, some of which are none.
    pub fn places(&self) -> usize {
        let ([depth, rows, columns], [_, high, wide]) = (self.sizes.made, self.plane);
        ((depth - 1) * high + rows - 1) * wide + columns
    }
    /// What the bytes of a quad are; `None`: nothing.
    pub fn channels(&self, quad: usize) -> [Option<QuadChannel>; QUAD] {
        let columns = if self.folded { self.sizes.kernel[2] } else { 1 };
        std::array::from_fn(|j| {
            let at = quad * QUAD + j;
            (at < self.step_channels()).then(|| QuadChannel { channel: at / columns, column: at % columns })
        })
    }
    /// The results among some places.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn runs(&self, places: std::ops::Range<usize>) -> Result<SmallVec<[PlaceRun; 16]>, ErrorKind> {
        let ([depth, rows, columns], [_, high, wide]) = (self.sizes.made, self.plane);
        let lines = places.start / wide..places.end.div_ceil(wide);
        let mut runs = few(lines.len())?;
        for line in lines {
            let (d, y) = (line / high, line % high);
            let (from, to) = (places.start.max(line * wide), places.end.min(line * wide + columns));
            if d < depth && y < rows && from < to {
                runs.push(PlaceRun { place: from - places.start, length: to - from, to: (d * rows + y) * columns + from - line * wide });
            }
        }
        Ok(runs)
    }
}
