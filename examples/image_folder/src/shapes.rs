//! The images: five shapes, askew, at any place and in noise, as PNG files in one folder for each class.
use adamant::data::{Draw, DrawRng};
use std::{fs, io, path::Path};

/// The classes, in the order of their folders.
pub const CLASSES: [&str; 5] = ["bars", "cross", "ring", "square", "triangle"];
/// Pixels along each side.
pub const SIDE: usize = 24;

/// Is the point on the line of the shape? The whole of it lies within -1 to 1.
fn on_the_line(class: usize, x: f64, y: f64) -> bool {
    const HALF: f64 = 0.17;
    match CLASSES[class] {
        "bars" => (x.abs() - 0.45).abs() < HALF && y.abs() < 0.8,
        "cross" => x.abs().min(y.abs()) < HALF && x.abs().max(y.abs()) < 0.85,
        "ring" => ((x * x + y * y).sqrt() - 0.7).abs() < HALF,
        "square" => (x.abs().max(y.abs()) - 0.65).abs() < HALF,
        // Of the distances to the three sides the largest counts.
        _ => ((0.866 * x.abs() - 0.5 * y).max(y) - 0.4).abs() < HALF,
    }
}
fn pixels(class: usize, rng: &mut DrawRng) -> Vec<u8> {
    let (angle, size) = (rng.range(-0.6, 0.6), rng.range(0.45, 0.7));
    let (left, top) = (rng.range(-0.3, 0.3), rng.range(-0.3, 0.3));
    let (ink, paper) = (rng.range(130.0, 220.0), rng.range(30.0, 90.0));
    let at = |k: usize| (2 * k + 1) as f64 / SIDE as f64 - 1.0;
    let mut all = Vec::with_capacity(SIDE * SIDE);
    for row in 0..SIDE {
        for column in 0..SIDE {
            let (x, y) = ((at(column) - left) / size, (at(row) - top) / size);
            let (x, y) = (angle.cos() * x + angle.sin() * y, angle.cos() * y - angle.sin() * x);
            let value = if on_the_line(class, x, y) { ink } else { paper };
            all.push((value + 25.0 * rng.normal()) as u8);
        }
    }
    all
}
/// Writes `each` images of every class into `folder/CLASS/NUMBER.png`.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, seed: u64, each: usize) -> io::Result<()> {
    for (class, name) in CLASSES.iter().enumerate() {
        fs::create_dir_all(folder.join(name))?;
        for k in 0..each {
            let image = pixels(class, &mut Draw { seed, epoch: 0, index: class * each + k }.rng());
            let mut png = png::Encoder::new(fs::File::create(folder.join(name).join(format!("{k:04}.png")))?, SIDE as u32, SIDE as u32);
            png.set_color(png::ColorType::Grayscale);
            png.set_depth(png::BitDepth::Eight);
            png.write_header()?.write_image_data(&image)?;
        }
    }
    Ok(())
}
