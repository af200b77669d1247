//! What convolutions and windows share: the elements under a window that slides, each in a place of its own (im2col), and the
//! way back, which is a window that slides over elements set apart.
use crate::{
    Arg, DType, Op, Result, Scalar, Tensor,
    op::{PadSpec, window_size},
};
use smallvec::SmallVec;

/// How a window slides along one axis.
#[derive(Clone, Copy)]
pub(super) struct Slide {
    pub size: usize,
    pub stride: usize,
    pub dilation: usize,
    /// elements added before and after; negative: left out
    pub padding: (isize, isize),
}
/// The slides of a spec, one per spatial axis.
pub(super) fn slides(size: &[usize], stride: &[usize], dilation: &[usize], padding: &[(usize, usize)]) -> Vec<Slide> {
    // What is out of range is refused where it is used, as too large.
    let signed = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
    let slide = |k: usize| Slide { size: size[k], stride: stride[k], dilation: dilation[k], padding: (signed(padding[k].0), signed(padding[k].1)) };
    (0..size.len()).map(slide).collect()
}
/// The zero of a dtype.
pub(super) fn zero(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(false),
        d if d.is_float() => Scalar::Float(0.0),
        _ => Scalar::Int(0),
    }
}
/// Surrounds the last axes with a number.
///
/// # Errors
/// A shape larger than memory can be.
pub(super) fn pad(x: &Tensor, last: &[(isize, isize)], value: Scalar) -> Result<Tensor> {
    if last.iter().all(|w| *w == (0, 0)) {
        return Ok(x.clone());
    }
    let mut widths: SmallVec<[(isize, isize); 8]> = SmallVec::from_elem((0, 0), x.rank().saturating_sub(last.len()));
    widths.extend_from_slice(last);
    Tensor::apply(Op::Pad(Box::new(PadSpec { widths })), Arg::Scalar(value), &[x]).ok()
}
/// `[lead.., in0, in1, ..]` → `[lead.., k0, out0, k1, out1, ..]`: the element of place k of the window at each of its stops.
/// One axis after the other, so a window of 3 by 3 takes 6 copies and not 9.
///
/// # Errors
/// As [`pad`].
pub(super) fn columns(x: &Tensor, lead: usize, slides: &[Slide], outside: Scalar) -> Result<Tensor> {
    let widths: Vec<_> = slides.iter().map(|s| s.padding).collect();
    let mut x = pad(x, &widths, outside)?;
    for (d, s) in slides.iter().enumerate() {
        let axis = lead + 2 * d;
        let stops = window_size(x.meta().shape[axis], s.size, s.stride, (0, 0), s.dilation).unwrap_or(0);
        let place = |k: usize| {
            let from = k * s.dilation;
            x.slice(axis, from, from + stops.saturating_sub(1) * s.stride + stops.min(1), s.stride).unsqueeze(axis)
        };
        x = Tensor::cat(&(0..s.size).map(place).collect::<Vec<_>>(), axis).ok()?;
    }
    Ok(x)
}
/// The transpose of a slide as a slide: the input's elements are set `stride` apart, with zeros between, and a window of step
/// one slides over them. Gives the elements set apart and the slides that lead to axes of the sizes `open`.
///
/// # Errors
/// As [`pad`].
pub(super) fn transposed(y: &Tensor, slides: &[Slide], open: &[usize]) -> Result<(Tensor, Vec<Slide>)> {
    let lead = y.rank().saturating_sub(slides.len());
    let (mut apart, mut back) = (y.clone(), Vec::new());
    for (d, s) in slides.iter().enumerate() {
        let mut sizes = apart.meta().shape.to_vec();
        // One stop alone needs no distance, only space for what the padding leaves out: the stride may be longer than all there is.
        let each = if sizes[lead + d] == 1 { 1 + s.padding.0 as usize } else { s.stride };
        sizes[lead + d] = sizes[lead + d].saturating_mul(each);
        let length = sizes[lead + d] as isize;
        if each > 1 {
            let mut after = vec![(0, 0); slides.len() - d];
            after[0] = (0, each as isize - 1);
            apart = pad(&apart.unsqueeze(lead + d + 1), &after, zero(y.meta().dtype))?.reshape(sizes);
        }
        let padding = ((s.size as isize - 1) * s.dilation as isize - s.padding.0, open[d] as isize - length + s.padding.0);
        back.push(Slide { stride: 1, padding, ..*s });
    }
    Ok((apart, back))
}
