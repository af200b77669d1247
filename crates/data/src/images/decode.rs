//! Pictures from the bytes of their files, by what they begin with: PNG, JPEG and BMP by crates that know one format each, and
//! PNM, which is a few numbers and then the samples. No colour management comes with them, which took as long to build as all
//! decoders. A picture that would be too large is refused before there is memory for it.
use super::{
    MAX_BYTES,
    picture::{Picture, PictureSamples},
    pnm,
};
use std::{fmt::Display, io::Cursor};
use zune_bmp::BmpDecoder;
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

/// Decodes a file's bytes.
///
/// # Errors
/// They are no picture of these formats, are damaged, or would be of more than [`MAX_BYTES`] bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, String> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => png(bytes),
        [0xff, 0xd8, 0xff, ..] => jpeg(bytes),
        [b'B', b'M', ..] => bmp(bytes),
        [b'P', b'1'..=b'6', ..] => pnm::decode(bytes),
        _ => Err("it begins like none of PNG, JPEG, PNM and BMP".into()),
    }
}
fn told(e: impl Display) -> String {
    e.to_string()
}
/// Samples of a picture of this size.
///
/// # Errors
/// It has none, or too many.
pub(super) fn samples(height: usize, width: usize, channels: usize, bytes_each: usize) -> Result<usize, String> {
    let count = height.checked_mul(width).and_then(|n| n.checked_mul(channels));
    let fits = |n: &usize| n.checked_mul(bytes_each).is_some_and(|bytes| bytes as u64 <= MAX_BYTES);
    match count.filter(fits) {
        Some(0) => Err(format!("{width} x {height} pixels are none")),
        Some(count) => Ok(count),
        None => Err(format!("{width} x {height} pixels are over the limit of {MAX_BYTES} bytes")),
    }
}

fn png(bytes: &[u8]) -> Result<Picture, String> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MAX_BYTES as usize });
    // Palettes and fewer bits become whole samples; 16 bits stay.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(told)?;
    let (color, depth) = reader.output_color_type();
    let channels = color.samples();
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let each = if depth == png::BitDepth::Sixteen { 2 } else { 1 };
    let mut out = vec![0; samples(height, width, channels, each)? * each];
    reader.next_frame(&mut out).map_err(told)?;
    let samples = match each {
        1 => PictureSamples::Bytes(out),
        _ => PictureSamples::Words(out.as_chunks().0.iter().map(|b| u16::from_be_bytes(*b)).collect()),
    };
    Ok(Picture { height, width, channels, samples })
}
/// Dimensions are checked here and not by the decoders.
fn options() -> DecoderOptions {
    DecoderOptions::default().set_strict_mode(false).set_max_width(usize::MAX).set_max_height(usize::MAX)
}
fn jpeg(bytes: &[u8]) -> Result<Picture, String> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options());
    decoder.decode_headers().map_err(told)?;
    let ((width, height), Some(color)) = (decoder.dimensions().unwrap_or((0, 0)), decoder.input_colorspace()) else {
        return Err("a JPEG without a colour space".into());
    };
    let (color, channels) = if color == ColorSpace::Luma { (color, 1) } else { (ColorSpace::RGB, 3) };
    let mut out = vec![0; samples(height, width, channels, 1)?];
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options().jpeg_set_out_colorspace(color));
    decoder.decode_into(&mut out).map_err(told)?;
    Ok(Picture { height, width, channels, samples: PictureSamples::Bytes(out) })
}
fn bmp(bytes: &[u8]) -> Result<Picture, String> {
    // It looks at what stands behind the headers, and there is less of it than it expects where one pixel is all.
    let padded = [bytes, &[0; 16]].concat();
    let mut decoder = BmpDecoder::new_with_options(ZCursor::new(&padded[..]), options());
    decoder.decode_headers().map_err(|e| format!("{e:?}"))?;
    let ((width, height), Some(color)) = (decoder.dimensions().unwrap_or((0, 0)), decoder.colorspace()) else {
        return Err("a BMP without a colour space".into());
    };
    let channels = color.num_components();
    let mut out = vec![0; samples(height, width, channels, 1)?];
    // The decoder takes what is missing for black.
    if bytes_of_rows(bytes, height, width).is_none_or(|end| end > bytes.len()) {
        return Err("it ends before its last row".into());
    }
    decoder.decode_into(&mut out).map_err(|e| format!("{e:?}"))?;
    Ok(Picture { height, width, channels, samples: PictureSamples::Bytes(out) })
}
/// Where the rows of a BMP end that are not compressed, as its headers say; of compressed ones, where they begin.
fn bytes_of_rows(bytes: &[u8], height: usize, width: usize) -> Option<usize> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let (first, is_old) = (word(10)?, word(14)? == 12);
    let bits = (word(if is_old { 24 } else { 28 })? & 0xffff).max(1);
    let is_packed = !is_old && matches!(word(30)?, 1 | 2);
    let line = bits.checked_mul(width)?.div_ceil(32) * 4;
    if is_packed { Some(first) } else { line.checked_mul(height)?.checked_add(first) }
}
