//! Transforms with options, most of them drawn anew for each image. Names, defaults and distributions are torchvision's.
use super::{Affine, Image, Interpolate, PadMode, Transform, probability};
use crate::{DrawRng, wrong};
use adamant_core::Result;

/// The middle, in a size (height, width); an image that is smaller gets a border of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CenterCrop {
    /// (height, width)
    pub size: (usize, usize),
}
impl Transform for CenterCrop {
    fn apply(&self, image: Image, _: &mut DrawRng) -> Result<Image> {
        Ok(image.center_crop(self.size.0, self.size.1))
    }
}
/// Another size (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// (height, width)
    pub size: (usize, usize),
    /// how pixels are found; torchvision's default is bilinear
    pub interpolation: Interpolate,
}
impl Transform for Resize {
    fn apply(&self, image: Image, _: &mut DrawRng) -> Result<Image> {
        image.resize(self.size.0, self.size.1, self.interpolation)
    }
}
/// A border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pad {
    /// pixels at the left, top, right and bottom
    pub padding: [usize; 4],
    /// what stands there
    pub mode: PadMode,
}
impl Transform for Pad {
    fn apply(&self, image: Image, _: &mut DrawRng) -> Result<Image> {
        image.pad(self.padding, self.mode)
    }
}
/// `(pixel - mean) / std` of each channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalize {
    /// one for each channel, or one for all
    pub mean: Vec<f32>,
    /// one for each channel, or one for all
    pub std: Vec<f32>,
}
impl Transform for Normalize {
    fn apply(&self, image: Image, _: &mut DrawRng) -> Result<Image> {
        image.normalize(&self.mean, &self.std)
    }
}
/// Grey, in 1 channel or in 3 alike ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grayscale {
    /// 1 or 3
    pub channels: usize,
}
impl Transform for Grayscale {
    fn apply(&self, image: Image, _: &mut DrawRng) -> Result<Image> {
        image.grayscale(self.channels)
    }
}
/// Grey with a probability, in as many channels as before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomGrayscale {
    /// how likely; torchvision's default is 0.1
    pub p: f64,
}
impl Transform for RandomGrayscale {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        let channels = image.channels;
        if rng.chance(probability(self.p)?) { image.grayscale(channels) } else { Ok(image) }
    }
}
/// Left and right exchanged with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomHorizontalFlip {
    /// how likely; torchvision's default is 0.5
    pub p: f64,
}
impl Transform for RandomHorizontalFlip {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        Ok(if rng.chance(probability(self.p)?) { image.hflip() } else { image })
    }
}
/// Top and bottom exchanged with a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomVerticalFlip {
    /// how likely; torchvision's default is 0.5
    pub p: f64,
}
impl Transform for RandomVerticalFlip {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        Ok(if rng.chance(probability(self.p)?) { image.vflip() } else { image })
    }
}
/// A part of a size at a place that is drawn, from the image with a border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomCrop {
    /// (height, width)
    pub size: (usize, usize),
    /// border at the left, top, right and bottom
    pub padding: [usize; 4],
    /// Does an image that is smaller get what is missing on both sides, rather than being an error?
    pub pad_if_needed: bool,
    /// what stands in the border
    pub mode: PadMode,
}
impl RandomCrop {
    /// Without a border.
    pub fn new(size: (usize, usize)) -> RandomCrop {
        RandomCrop { size, padding: [0; 4], pad_if_needed: false, mode: PadMode::Constant(0.0) }
    }
}
impl Transform for RandomCrop {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        let ((height, width), [mut left, mut top, mut right, mut bottom]) = (self.size, self.padding);
        if self.pad_if_needed {
            let more = |have: usize, want: usize| want.saturating_sub(have);
            let (down, across) = (more(image.height + top + bottom, height), more(image.width + left + right, width));
            (left, top, right, bottom) = (left + across, top + down, right + across, bottom + down);
        }
        let image = image.pad([left, top, right, bottom], self.mode)?;
        if image.height < height || image.width < width {
            return Err(wrong(
                "random_crop",
                format!("{height} x {width} pixels cannot be cut out of {} x {}; `pad_if_needed` adds what is missing", image.height, image.width),
            ));
        }
        let (y, x) = (rng.below(image.height - height + 1), rng.below(image.width - width + 1));
        Ok(image.crop(y as i64, x as i64, height, width))
    }
}
/// A rectangle whose area is a part of another one's, and that has an aspect (width / height or the other way round); none if it does not
/// fit in ten trials.
fn rectangle(rng: &mut DrawRng, area: f64, scale: (f64, f64), ratio: (f64, f64), fits: impl Fn(usize, usize) -> bool) -> Option<(usize, usize)> {
    (0..10).find_map(|_| {
        let target = area * rng.range(scale.0, scale.1);
        let aspect = rng.range(ratio.0.ln(), ratio.1.ln()).exp();
        let (long, short) = ((target * aspect).sqrt().round_ties_even() as usize, (target / aspect).sqrt().round_ties_even() as usize);
        fits(long, short).then_some((long, short))
    })
}
#[track_caller]
fn ordered(op: &'static str, name: &str, (low, high): (f64, f64), (least, most): (f64, f64)) -> Result<()> {
    if least <= low && low <= high && high <= most {
        Ok(())
    } else {
        Err(wrong(op, format!("{name} is from {low} to {high}; it must be growing and within {least} to {most}")))
    }
}
/// A part of the image of drawn area and aspect, resized (Szegedy et al. 2015).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomResizedCrop {
    /// (height, width) of what comes out
    pub size: (usize, usize),
    /// bounds of the part of the image's area
    pub scale: (f64, f64),
    /// bounds of width / height
    pub ratio: (f64, f64),
    /// how pixels are found
    pub interpolation: Interpolate,
}
impl RandomResizedCrop {
    /// torchvision's defaults: 8 % to all of the area, aspects of 3/4 to 4/3, bilinear.
    pub fn new(size: (usize, usize)) -> RandomResizedCrop {
        RandomResizedCrop { size, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0), interpolation: Interpolate::Bilinear }
    }
}
impl Transform for RandomResizedCrop {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        ordered("random_resized_crop", "scale", self.scale, (0.0, f64::MAX))?;
        ordered("random_resized_crop", "ratio", self.ratio, (f64::MIN_POSITIVE, f64::MAX))?;
        let (h, w) = (image.height, image.width);
        let fits = |width: usize, height: usize| (1..=w).contains(&width) && (1..=h).contains(&height);
        let part = match rectangle(rng, (h * w) as f64, self.scale, self.ratio, fits) {
            Some((width, height)) => image.crop(rng.below(h - height + 1) as i64, rng.below(w - width + 1) as i64, height, width),
            None => {
                // The middle, as much of it as the aspects allow.
                let aspect = w as f64 / h.max(1) as f64;
                let (height, width) = if aspect < self.ratio.0 {
                    (((w as f64 / self.ratio.0).round_ties_even() as usize).min(h), w)
                } else if aspect > self.ratio.1 {
                    (h, ((h as f64 * self.ratio.1).round_ties_even() as usize).min(w))
                } else {
                    (h, w)
                };
                image.crop(((h - height) / 2) as i64, ((w - width) / 2) as i64, height, width)
            }
        };
        part.resize(self.size.0, self.size.1, self.interpolation)
    }
}
/// Rotated by degrees that are drawn, about the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomRotation {
    /// bounds of the angle, against the clock
    pub degrees: (f64, f64),
    /// how pixels are found
    pub interpolation: Interpolate,
    /// what stands outside of the image (`None`: zeros)
    pub fill: Option<f32>,
}
impl RandomRotation {
    /// torchvision's defaults: by so many degrees either way, the nearest pixel, zeros outside.
    pub fn new(degrees: f64) -> RandomRotation {
        RandomRotation { degrees: (-degrees, degrees), interpolation: Interpolate::Nearest, fill: None }
    }
}
impl Transform for RandomRotation {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        ordered("random_rotation", "degrees", self.degrees, (f64::MIN, f64::MAX))?;
        image.rotate(rng.range(self.degrees.0, self.degrees.1), self.interpolation, self.fill)
    }
}
/// Through an affine map that is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomAffine {
    /// bounds of the angle, clockwise
    pub degrees: (f64, f64),
    /// how far it moves at most either way, in parts of width and height
    pub translate: (f64, f64),
    /// bounds of the scale
    pub scale: (f64, f64),
    /// bounds of the degrees along x
    pub shear_x: (f64, f64),
    /// bounds of the degrees along y
    pub shear_y: (f64, f64),
    /// how pixels are found
    pub interpolation: Interpolate,
    /// what stands outside of the image (`None`: zeros)
    pub fill: Option<f32>,
}
impl RandomAffine {
    /// Rotated by so many degrees either way, and nothing else.
    pub fn new(degrees: f64) -> RandomAffine {
        let (none, interpolation) = ((0.0, 0.0), Interpolate::Nearest);
        RandomAffine { degrees: (-degrees, degrees), translate: none, scale: (1.0, 1.0), shear_x: none, shear_y: none, interpolation, fill: None }
    }
}
impl Transform for RandomAffine {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        let most = (f64::MIN, f64::MAX);
        for (name, bounds, within) in [
            ("degrees", self.degrees, most),
            ("scale", self.scale, (f64::MIN_POSITIVE, f64::MAX)),
            ("shear_x", self.shear_x, most),
            ("shear_y", self.shear_y, most),
        ] {
            ordered("random_affine", name, bounds, within)?;
        }
        for part in [self.translate.0, self.translate.1] {
            if !(0.0..=1.0).contains(&part) {
                return Err(wrong("random_affine", format!("an image moves by 0 to 1 of its size, not by {part}")));
            }
        }
        let angle = rng.range(self.degrees.0, self.degrees.1);
        let mut moved = |part: f64, len: usize| (rng.range(-1.0, 1.0) * part * len as f64).round_ties_even();
        let translate = (moved(self.translate.0, image.width), moved(self.translate.1, image.height));
        let scale = rng.range(self.scale.0, self.scale.1);
        let shear = (rng.range(self.shear_x.0, self.shear_x.1), rng.range(self.shear_y.0, self.shear_y.1));
        image.affine(&Affine { angle, translate, scale, shear, center: None, interpolation: self.interpolation, fill: self.fill })
    }
}
/// Brightness, contrast, saturation and hue, each by a factor that is drawn, in an order that is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColorJitter {
    /// bounds of the factor (`None`: as it is)
    pub brightness: Option<(f64, f64)>,
    /// bounds of the factor
    pub contrast: Option<(f64, f64)>,
    /// bounds of the factor
    pub saturation: Option<(f64, f64)>,
    /// bounds of the part of the circle, within -0.5 to 0.5
    pub hue: Option<(f64, f64)>,
}
impl ColorJitter {
    /// As torchvision's numbers: factors from `1 - b` (at least 0) to `1 + b`, and hues from `-hue` to `hue`; 0 leaves as it is.
    pub fn new(brightness: f64, contrast: f64, saturation: f64, hue: f64) -> ColorJitter {
        let around = |v: f64| (v != 0.0).then(|| ((1.0 - v).max(0.0), 1.0 + v));
        ColorJitter { brightness: around(brightness), contrast: around(contrast), saturation: around(saturation), hue: (hue != 0.0).then_some((-hue, hue)) }
    }
}
impl Transform for ColorJitter {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        type Adjust = fn(&Image, f64) -> Result<Image>;
        let all: [(&str, Option<(f64, f64)>, (f64, f64), Adjust); 4] = [
            ("brightness", self.brightness, (0.0, f64::MAX), |i, f| i.adjust_brightness(f)),
            ("contrast", self.contrast, (0.0, f64::MAX), |i, f| i.adjust_contrast(f)),
            ("saturation", self.saturation, (0.0, f64::MAX), |i, f| i.adjust_saturation(f)),
            ("hue", self.hue, (-0.5, 0.5), |i, f| i.adjust_hue(f)),
        ];
        let mut order = [0, 1, 2, 3];
        rng.shuffle(&mut order);
        // Drawn whatever is done, so that one option does not change what another draws.
        let factors: Vec<f64> = (0..4).map(|_| rng.uniform()).collect();
        let mut image = image;
        for k in order {
            let (name, bounds, within, adjust) = all[k];
            if let Some((low, high)) = bounds {
                ordered("color_jitter", name, (low, high), within)?;
                image = adjust(&image, low + (high - low) * factors[k])?;
            }
        }
        Ok(image)
    }
}
/// A rectangle of drawn area and aspect overwritten, with a probability (Zhong et al. 2020).
#[derive(Clone, Debug, PartialEq)]
pub struct RandomErasing {
    /// how likely
    pub p: f64,
    /// bounds of the part of the image's area
    pub scale: (f64, f64),
    /// bounds of height / width
    pub ratio: (f64, f64),
    /// one value for all channels, or one for each (`None`: normal noise)
    pub value: Option<Vec<f32>>,
}
impl Default for RandomErasing {
    /// torchvision's: half of the images, 2 % to 33 % of the area, aspects of 0.3 to 3.3, zeros.
    fn default() -> RandomErasing {
        RandomErasing { p: 0.5, scale: (0.02, 0.33), ratio: (0.3, 3.3), value: Some(vec![0.0]) }
    }
}
impl Transform for RandomErasing {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        ordered("random_erasing", "scale", self.scale, (0.0, 1.0))?;
        ordered("random_erasing", "ratio", self.ratio, (f64::MIN_POSITIVE, f64::MAX))?;
        if !rng.chance(probability(self.p)?) {
            return Ok(image);
        }
        let (h, w) = (image.height, image.width);
        let Some((height, width)) = rectangle(rng, (h * w) as f64, self.scale, self.ratio, |height, width| height < h && width < w) else { return Ok(image) };
        let (top, left) = (rng.below(h - height + 1), rng.below(w - width + 1));
        if let Some(value) = &self.value {
            return image.erase(top, left, height, width, value);
        }
        let mut noisy = image;
        for c in 0..noisy.channels {
            for y in top..top + height {
                for x in left..left + width {
                    noisy.pixels[(c * h + y) * w + x] = rng.normal() as f32;
                }
            }
        }
        Ok(noisy)
    }
}
