//! Codes of samples as planes of quads, with the code of 0 around them.
use super::{
    super::quantized_linear::CodedRows,
    layout::{PlaneLayout, QuadChannel},
};
use crate::{
    gemm::bytes::micro::QUAD,
    simd::{Simd, SimdKernel},
};

/// The codes of samples, each as one row or, where all have one scale, as a row for each channel.
pub(super) struct CodedSamples<'a> {
    pub rows: CodedRows<'a>,
    pub by_channel: bool,
}
impl CodedSamples<'_> {
    /// What the codes of a sample stand for.
    pub fn code(&self, sample: usize, channels: usize) -> super::RowCode {
        self.rows.rows[if self.by_channel { sample * channels } else { sample }]
    }
    fn channel(&self, sample: usize, channel: usize, layout: &PlaneLayout) -> &[u8] {
        let (area, stride) = (layout.sizes.area(), self.rows.stride);
        let from = if self.by_channel { (sample * layout.sizes.channels + channel) * stride } else { sample * stride + channel * area };
        &self.rows.bytes[from..][..area]
    }
}
/// Fills the planes of one quad of a group's channels.
pub(super) struct QuadPlanes<'a> {
    pub layout: &'a PlaneLayout,
    pub samples: &'a CodedSamples<'a>,
    pub sample: usize,
    pub group: usize,
    pub quad: usize,
    pub flip: u8,
    /// of all phases
    pub planes: &'a mut [u8],
}
/// Four bytes side by side for each place.
#[inline(always)]
pub(super) fn interleave(from: [&[u8]; QUAD], flip: u32, to: &mut [[u8; QUAD]]) {
    let [a, b, c, d] = from;
    for ((((to, &a), &b), &c), &d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *to = ((u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16 | u32::from(d) << 24) ^ flip).to_le_bytes();
    }
}
impl SimdKernel for QuadPlanes<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let QuadPlanes { layout, samples, sample, group, quad, flip, planes } = self;
        let sizes = &layout.sizes;
        let code = samples.code(sample, sizes.channels);
        let (channels, flips) = (layout.channels(quad), u32::from_le_bytes([flip; QUAD]));
        let sources: [Option<(&[u8], QuadChannel)>; QUAD] =
            channels.map(|of| of.map(|of| (samples.channel(sample, group * sizes.group_channels() + of.channel, layout), of)));
        let around = [code.zero as u8 ^ flip; QUAD];
        let [depth, rows, columns] = layout.plane;
        let (step, [_, high, wide]) = (sizes.stride[2], sizes.x);
        let (planes, _) = planes.as_chunks_mut::<QUAD>();
        for (phase, plane) in planes.chunks_exact_mut(layout.plane_places()).enumerate() {
            let from = layout.phase(phase);
            // Where an axis of x is met by a place of the plane.
            let met = |k: usize, at: usize| (at * sizes.stride[k] + from[k]).checked_sub(sizes.padding[k]).filter(|at| *at < sizes.x[k]);
            for (line, to) in plane.chunks_exact_mut(columns).enumerate().take(depth * rows) {
                let (Some(d), Some(y)) = (met(0, line / rows), met(1, line % rows)) else {
                    to.fill(around);
                    continue;
                };
                let start = (d * high + y) * wide;
                // The first place whose column lies in x, that behind the last, and the first's column.
                let inside = |column: usize| {
                    let offset = from[2] + column * sizes.dilation[2];
                    let first = sizes.padding[2].saturating_sub(offset).div_ceil(step).min(columns);
                    let end = (wide + sizes.padding[2]).saturating_sub(offset).div_ceil(step).clamp(first, columns);
                    (first, end, (first * step + offset).saturating_sub(sizes.padding[2]))
                };
                if let ([Some((a, _)), Some((b, _)), Some((c, _)), Some((d, _))], false) = (sources, layout.folded) {
                    let (first, end, column) = inside(0);
                    to[..first].fill(around);
                    to[end..].fill(around);
                    let to = &mut to[first..end];
                    if to.is_empty() {
                        continue;
                    }
                    let from = [a, b, c, d].map(|source| &source[start + column..start + wide]);
                    if step == 1 {
                        interleave(from, flips, to);
                    } else {
                        let [a, b, c, d] = from.map(|source| source.iter().step_by(step));
                        for ((((to, &a), &b), &c), &d) in to.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                            *to = [a, b, c, d].map(|code| code ^ flip);
                        }
                    }
                    continue;
                }
                to.fill(around);
                for (j, (source, of)) in sources.iter().enumerate().filter_map(|(j, source)| source.map(|source| (j, source))) {
                    let (first, end, column) = inside(of.column);
                    if first < end {
                        let codes = source[start + column..start + wide].iter().step_by(step);
                        to[first..end].iter_mut().zip(codes).for_each(|(to, &code)| to[j] = code ^ flip);
                    }
                }
            }
        }
    }
}
