//! Pixels as a data URI of a PNG.
use super::files::Image;
use base64::{Engine, prelude::BASE64_STANDARD};

/// Larger images are made smaller: a page of 32 of them stays small.
const LARGEST: usize = 96;

/// The image, or why it cannot be shown.
pub fn data_uri(image: &Image) -> Result<String, String> {
    let &Image { width, height, channels, ref pixels } = image;
    let wanted = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
    if wanted != Some(pixels.len()) || pixels.is_empty() {
        return Err(format!("{} values are no image of {width} x {height} x {channels}", pixels.len()));
    }
    let colour = match channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        n => return Err(format!("an image of {n} channels cannot be shown")),
    };
    let (width, height, pixels) = smaller(width, height, channels, pixels);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|e| e.to_string())?;
    Ok(format!("data:image/png;base64,{}", BASE64_STANDARD.encode(file)))
}
/// Means of squares of pixels, so that no side is longer than [`LARGEST`].
fn smaller(width: usize, height: usize, channels: usize, pixels: &[u8]) -> (usize, usize, Vec<u8>) {
    let side = width.max(height).div_ceil(LARGEST);
    let (w, h) = (width.div_ceil(side), height.div_ceil(side));
    let mut out = Vec::with_capacity(w * h * channels);
    for y in 0..h {
        for x in 0..w {
            let (rows, columns) = (y * side..((y + 1) * side).min(height), x * side..((x + 1) * side).min(width));
            let count = rows.len() * columns.len();
            for c in 0..channels {
                let sum: usize =
                    rows.clone().flat_map(|r| columns.clone().map(move |k| (r * width + k) * channels + c)).map(|at| usize::from(pixels[at])).sum();
                out.push((sum / count) as u8);
            }
        }
    }
    (w, h, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_lies_about_its_size_or_is_too_large_for_the_page() {
        let image = |width, height, channels, n: usize| Image { width, height, channels, pixels: vec![7; n] };
        for wrong in [image(2, 2, 1, 3), image(usize::MAX, 2, 1, 4), image(0, 0, 1, 0), image(1, 1, 7, 7)] {
            assert!(data_uri(&wrong).is_err());
        }
        for (width, height, channels) in [(28, 28, 1), (3, 200, 3), (1000, 1000, 4), (97, 1, 2)] {
            let uri = data_uri(&image(width, height, channels, width * height * channels)).unwrap();
            assert!(uri.starts_with("data:image/png;base64,") && uri.len() < 6000, "{width} {height} {}", uri.len());
        }
        let (w, h, pixels) = smaller(97, 1, 1, &[vec![10; 96], vec![30; 1]].concat());
        assert_eq!((w, h, pixels[0], pixels[48]), (49, 1, 10, 30));
    }
}
