//! Codes of samples as planes of quads, with the code of 0 around them.
use super::{super::quantized_linear::CodedRows, layout::PlaneLayout};
use crate::{
    gemm::bytes::micro::QUAD,
    simd::{Simd, SimdKernel},
};

/// The codes of samples: each sample is some rows of codes of equal length, which end with a channel.
pub(super) struct CodedSamples<'a> {
    pub rows: CodedRows<'a>,
    /// channels of a row
    pub block: usize,
}
impl CodedSamples<'_> {
    /// What the codes of a sample stand for.
    pub fn code(&self, sample: usize, channels: usize) -> super::RowCode {
        self.rows.rows[sample * channels / self.block]
    }
    fn channel(&self, sample: usize, channel: usize, layout: &PlaneLayout) -> &[u8] {
        let (area, at) = (layout.sizes.area(), sample * layout.sizes.channels + channel);
        &self.rows.bytes[at / self.block * self.rows.stride + at % self.block * area..][..area]
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
    /// a plane of each byte of a quad
    pub scratch: &'a mut [u8],
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
        let QuadPlanes { layout, samples, sample, group, quad, flip, scratch, planes } = self;
        let sizes = &layout.sizes;
        let around = samples.code(sample, sizes.channels).zero as u8;
        let places = layout.plane_places();
        let sources = layout.channels(quad).map(|of| of.map(|of| (samples.channel(sample, group * sizes.group_channels() + of.channel, layout), of)));
        let (planes, _) = planes.as_chunks_mut::<QUAD>();
        for (phase, plane) in planes.chunks_exact_mut(places).enumerate() {
            let from = layout.phase(phase);
            let mut own = scratch.chunks_exact_mut(places);
            let channels: [Option<&[u8]>; QUAD] = sources.map(|source| {
                let ((codes, of), own) = (source?, own.next()?);
                if layout.lies_ready() {
                    return Some(codes);
                }
                channel_plane(layout, [from[0], from[1], from[2] + of.column * sizes.dilation[2]], codes, around, own);
                Some(own)
            });
            // Where there is no channel the weight has zeros.
            let any = channels.into_iter().flatten().next().unwrap_or_default();
            interleave(channels.map(|of| of.unwrap_or(any)), u32::from_le_bytes([flip; QUAD]), plane);
        }
    }
}
/// What windows meet of a channel from an offset on, in steps of the stride.
#[inline(always)]
fn channel_plane(layout: &PlaneLayout, offset: [usize; 3], codes: &[u8], around: u8, to: &mut [u8]) {
    let sizes = &layout.sizes;
    let ([_, rows, columns], [_, high, wide], step) = (layout.plane, sizes.x, sizes.stride[2]);
    let met = |k: usize, at: usize| (at * sizes.stride[k] + offset[k]).checked_sub(sizes.padding[k]).filter(|at| *at < sizes.x[k]);
    // The first place whose column lies in x, that behind the last, and the first's column.
    let first = sizes.padding[2].saturating_sub(offset[2]).div_ceil(step).min(columns);
    let end = (wide + sizes.padding[2]).saturating_sub(offset[2]).div_ceil(step).clamp(first, columns);
    let column = (first * step + offset[2]).saturating_sub(sizes.padding[2]);
    for (line, to) in to.chunks_exact_mut(columns).enumerate() {
        let (Some(d), Some(y)) = (met(0, line / rows), met(1, line % rows)) else {
            to.fill(around);
            continue;
        };
        to[..first].fill(around);
        to[end..].fill(around);
        if first < end {
            let codes = &codes[(d * high + y) * wide..][column..wide];
            let to = &mut to[first..end];
            if step == 1 {
                to.copy_from_slice(&codes[..to.len()]);
            } else {
                to.iter_mut().zip(codes.iter().step_by(step)).for_each(|(to, &code)| *to = code);
            }
        }
    }
}
