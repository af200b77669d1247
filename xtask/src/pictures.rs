//! Pictures of red, green and blue as files, for readers to be tried with. Must not know who reads them.
use std::{error::Error, fs, path::Path};

/// Writes a file of the format that its name ends in: png, jpg or jpeg, bmp, ppm.
///
/// # Errors
/// Another ending, other than three bytes for each pixel, or what the file system says.
pub fn write(file: &Path, width: u16, height: u16, bytes: &[u8]) -> Result<(), Box<dyn Error>> {
    if bytes.len() != 3 * usize::from(width) * usize::from(height) {
        return Err("a picture has three bytes for each pixel".into());
    }
    match file.extension().and_then(|e| e.to_str()) {
        Some("png") => {
            let mut encoder = png::Encoder::new(fs::File::create(file)?, width.into(), height.into());
            encoder.set_color(png::ColorType::Rgb);
            Ok(encoder.write_header()?.write_image_data(bytes)?)
        }
        Some("jpg" | "jpeg") => Ok(jpeg_encoder::Encoder::new_file(file, 75)?.encode(bytes, width, height, jpeg_encoder::ColorType::Rgb)?),
        Some("bmp") => Ok(fs::write(file, bmp(width, height, bytes))?),
        Some("ppm") => Ok(fs::write(file, [format!("P6\n{width} {height}\n255\n").as_bytes(), bytes].concat())?),
        _ => Err(format!("{}: no format to write", file.display()).into()),
    }
}
/// A file header, an info header of 40 bytes, and rows from the lowest on, padded to words: blue, green, red.
fn bmp(width: u16, height: u16, bytes: &[u8]) -> Vec<u8> {
    let (width, height) = (u32::from(width), u32::from(height));
    let line = (3 * width).next_multiple_of(4);
    let size = 54 + line * height;
    let mut out = b"BM".to_vec();
    let words = [size, 0, 54, 40, width, height, 1 | 24 << 16, 0, line * height, 2835, 2835, 0, 0];
    words.iter().for_each(|w| out.extend(w.to_le_bytes()));
    for row in bytes.chunks_exact(3 * width as usize).rev() {
        let end = out.len() + line as usize;
        out.extend(row.as_chunks().0.iter().flat_map(|&[r, g, b]: &[u8; 3]| [b, g, r]));
        out.resize(end, 0);
    }
    out
}
