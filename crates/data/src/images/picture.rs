//! A decoded picture: samples by row, column and channel, resized and brought to grey or to colours. Must not know file
//! formats.
//!
//! Numbers are taken as they are, without colour management: resizing weighs them by a triangle, grey is their luminance as
//! Rec. 709 has it, alpha is left out.

/// Samples of 8 or of 16 bits.
#[derive(Clone, Debug)]
pub(super) enum PictureSamples {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}
/// As many rows as `height`, each of `width` pixels of as many samples as there are channels: grey, grey and alpha, red, green
/// and blue, or these and alpha.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub samples: PictureSamples,
}

/// What a sample is in f32, and back.
trait PictureSample: Copy {
    const MOST: f32;
    fn wide(self) -> f32;
    /// The nearest one.
    fn nearest(v: f32) -> Self;
    fn byte(self) -> u8;
}
impl PictureSample for u8 {
    const MOST: f32 = 255.0;
    fn wide(self) -> f32 {
        f32::from(self)
    }
    fn nearest(v: f32) -> u8 {
        v.clamp(0.0, Self::MOST).round() as u8
    }
    fn byte(self) -> u8 {
        self
    }
}
impl PictureSample for u16 {
    const MOST: f32 = 65535.0;
    fn wide(self) -> f32 {
        f32::from(self)
    }
    fn nearest(v: f32) -> u16 {
        v.clamp(0.0, Self::MOST).round() as u16
    }
    fn byte(self) -> u8 {
        ((u32::from(self) + 128) / 257) as u8
    }
}

/// The share of red, green and blue in the luminance: the row Y of Rec. 709's primaries under D65.
const LUMINANCE: [f32; 3] = [0.212_647_84, 0.715_179_2, 0.072_173_04];

impl Picture {
    /// The same in another size, neither of which is 0.
    pub fn resized(self, height: usize, width: usize) -> Picture {
        if (height, width) == (self.height, self.width) || self.height == 0 || self.width == 0 {
            return self;
        }
        let (from, to) = ((self.height, self.width, self.channels), (height, width));
        let samples = match self.samples {
            PictureSamples::Bytes(x) => PictureSamples::Bytes(resized(&x, from, to)),
            PictureSamples::Words(x) => PictureSamples::Words(resized(&x, from, to)),
        };
        Picture { height, width, samples, ..self }
    }
    /// Bytes by row, column and channel: grey if one is asked for, else red, green and blue.
    pub fn bytes(self, channels: usize) -> Vec<u8> {
        match self.samples {
            PictureSamples::Bytes(x) if self.channels == channels => x,
            PictureSamples::Bytes(x) => bytes(&x, self.channels, channels),
            PictureSamples::Words(x) => bytes(&x, self.channels, channels),
        }
    }
}
fn bytes<T: PictureSample>(x: &[T], from: usize, to: usize) -> Vec<u8> {
    let pixels = x.chunks_exact(from);
    match (from, to) {
        (1 | 2, 1) => pixels.map(|p| p[0].byte()).collect(),
        (1 | 2, _) => pixels.flat_map(|p| [p[0].byte(); 3]).collect(),
        (_, 1) => pixels.map(|p| u8::nearest(luminance(p) * u8::MOST)).collect(),
        _ => pixels.flat_map(|p| [p[0].byte(), p[1].byte(), p[2].byte()]).collect(),
    }
}
/// From 0 to 1.
fn luminance<T: PictureSample>(pixel: &[T]) -> f32 {
    pixel.iter().zip(LUMINANCE).fold(0.0, |sum, (v, share)| v.wide() * (1.0 / T::MOST) * share + sum)
}

/// The samples along an axis that an output is made of: the first, and their weights.
fn weights(from: usize, to: usize, at: usize) -> (usize, Vec<f32>) {
    let ratio = from as f32 / to as f32;
    // A picture that grows is interpolated; one that shrinks takes all that lies within.
    let reach = ratio.max(1.0);
    let centre = (at as f32 + 0.5) * ratio;
    let first = ((centre - reach).floor() as i64).clamp(0, from as i64 - 1);
    let end = ((centre + reach).ceil() as i64).clamp(first + 1, from as i64);
    let triangle = |k: i64| (1.0 - ((k as f32 - (centre - 0.5)) / reach).abs()).max(0.0);
    let mut weights: Vec<f32> = (first..end).map(triangle).collect();
    let sum = weights.iter().fold(0.0, |sum, w| sum + w);
    weights.iter_mut().for_each(|w| *w /= sum);
    (first as usize, weights)
}
/// Rows first, then columns, unrounded in between.
fn resized<T: PictureSample>(x: &[T], (height, width, channels): (usize, usize, usize), (to_height, to_width): (usize, usize)) -> Vec<T> {
    let line = width * channels;
    let mut rows = vec![0f32; to_height * line];
    for (at, row) in rows.chunks_exact_mut(line).enumerate() {
        let (first, weights) = weights(height, to_height, at);
        for (k, w) in weights.iter().enumerate() {
            row.iter_mut().zip(&x[(first + k) * line..][..line]).for_each(|(sum, v)| *sum += v.wide() * w);
        }
    }
    let columns: Vec<_> = (0..to_width).map(|at| weights(width, to_width, at)).collect();
    let mut out = Vec::with_capacity(to_height * to_width * channels);
    for row in rows.chunks_exact(line) {
        for (first, weights) in &columns {
            let pixels = &row[first * channels..];
            out.extend((0..channels).map(|c| T::nearest(weights.iter().enumerate().fold(0.0, |sum, (k, w)| sum + pixels[k * channels + c] * w))));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(height: usize, width: usize, channels: usize, bytes: &[u8]) -> Picture {
        Picture { height, width, channels, samples: PictureSamples::Bytes(bytes.to_vec()) }
    }
    #[test]
    fn a_picture_that_changes_where_nothing_is_asked_for() {
        let colours = picture(1, 2, 3, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(colours.clone().resized(1, 2).bytes(3), [1, 2, 3, 4, 5, 6]);
        // What is the same everywhere is so in any size.
        assert_eq!(picture(3, 5, 1, &[77; 15]).resized(7, 2).bytes(1), [77; 14]);
    }
    #[test]
    fn a_pixel_whose_neighbours_weigh_too_much() {
        // Twice as wide: each output takes three quarters of the nearer sample, and all of it at the ends.
        assert_eq!(picture(1, 2, 1, &[0, 100]).resized(1, 4).bytes(1), [0, 25, 75, 100]);
        // Half as high: the weights of four samples are 1, 3, 3 and 1, without those beyond the ends.
        assert_eq!(picture(4, 1, 1, &[0, 70, 140, 210]).resized(2, 1).bytes(1), [50, 160]);
    }
    #[test]
    fn grey_without_the_weight_of_its_colours_or_with_alpha() {
        let primaries = picture(1, 3, 4, &[255, 0, 0, 9, 0, 255, 0, 9, 0, 0, 255, 9]);
        assert_eq!(primaries.clone().bytes(1), [54, 182, 18]);
        assert_eq!(primaries.bytes(3), [255, 0, 0, 0, 255, 0, 0, 0, 255]);
        assert_eq!(picture(1, 2, 2, &[7, 0, 8, 255]).bytes(3), [7, 7, 7, 8, 8, 8]);
        let deep = Picture { height: 1, width: 3, channels: 1, samples: PictureSamples::Words(vec![0, 128, 65535]) };
        assert_eq!(deep.bytes(1), [0, 0, 255]);
    }
}
