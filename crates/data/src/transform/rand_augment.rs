//! RandAugment: some of fourteen transforms in a row, all of one strength.
use super::{Affine, Image, Interpolate, Transform};
use crate::{DrawRng, wrong};
use adamant_core::Result;

/// `num_ops` transforms that are drawn, each at the strength `magnitude` of `num_magnitude_bins` (Cubuk et al. 2020), as
/// `torchvision.transforms.v2.RandAugment`. For colours from 0 to 1 in 1 or 3 channels, so before a [`Normalize`](super::Normalize).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandAugment {
    /// how many transforms in a row
    pub num_ops: usize,
    /// how strong they are, from 0
    pub magnitude: usize,
    /// how many strengths there are
    pub num_magnitude_bins: usize,
    /// how pixels are found
    pub interpolation: Interpolate,
    /// what stands outside of the image (`None`: zeros)
    pub fill: Option<f32>,
}
impl Default for RandAugment {
    /// torchvision's: two transforms at strength 9 of 31.
    fn default() -> RandAugment {
        RandAugment { num_ops: 2, magnitude: 9, num_magnitude_bins: 31, interpolation: Interpolate::Nearest, fill: None }
    }
}
/// What may be done, its strongest by the image's size (height, width), and whether either direction is as likely.
type Kind = (AugmentOp, fn(f64, f64) -> f64, bool);
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum AugmentOp {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
}
pub(super) const KINDS: [Kind; 14] = [
    (AugmentOp::Identity, |_, _| 0.0, false),
    (AugmentOp::ShearX, |_, _| 0.3, true),
    (AugmentOp::ShearY, |_, _| 0.3, true),
    (AugmentOp::TranslateX, |_, w| 150.0 / 331.0 * w, true),
    (AugmentOp::TranslateY, |h, _| 150.0 / 331.0 * h, true),
    (AugmentOp::Rotate, |_, _| 30.0, true),
    (AugmentOp::Brightness, |_, _| 0.9, true),
    (AugmentOp::Color, |_, _| 0.9, true),
    (AugmentOp::Contrast, |_, _| 0.9, true),
    (AugmentOp::Sharpness, |_, _| 0.9, true),
    // Fewer bits and a lower threshold are stronger.
    (AugmentOp::Posterize, |_, _| 4.0, false),
    (AugmentOp::Solarize, |_, _| 1.0, false),
    (AugmentOp::AutoContrast, |_, _| 0.0, false),
    (AugmentOp::Equalize, |_, _| 0.0, false),
];
impl RandAugment {
    /// One of the transforms at a strength.
    pub(super) fn change(&self, image: &Image, op: AugmentOp, strength: f64) -> Result<Image> {
        let moved = |by: Affine| image.affine(&Affine { interpolation: self.interpolation, fill: self.fill, ..by });
        let corner = Some((0.0, 0.0));
        match op {
            AugmentOp::Identity => Ok(image.clone()),
            AugmentOp::ShearX => moved(Affine { shear: (strength.atan().to_degrees(), 0.0), center: corner, ..Affine::default() }),
            AugmentOp::ShearY => moved(Affine { shear: (0.0, strength.atan().to_degrees()), center: corner, ..Affine::default() }),
            AugmentOp::TranslateX => moved(Affine { translate: (strength.trunc(), 0.0), ..Affine::default() }),
            AugmentOp::TranslateY => moved(Affine { translate: (0.0, strength.trunc()), ..Affine::default() }),
            AugmentOp::Rotate => image.rotate(strength, self.interpolation, self.fill),
            AugmentOp::Brightness => image.adjust_brightness(1.0 + strength),
            AugmentOp::Color => image.adjust_saturation(1.0 + strength),
            AugmentOp::Contrast => image.adjust_contrast(1.0 + strength),
            AugmentOp::Sharpness => image.adjust_sharpness(1.0 + strength),
            AugmentOp::Posterize => image.posterize((8.0 - strength).round_ties_even() as u32),
            AugmentOp::Solarize => Ok(image.solarize(1.0 - strength)),
            AugmentOp::AutoContrast => image.autocontrast(),
            AugmentOp::Equalize => Ok(image.equalize()),
        }
    }
    /// The strength of a transform, before its direction is drawn.
    pub(super) fn strength(&self, strongest: f64) -> f64 {
        strongest * self.magnitude as f64 / (self.num_magnitude_bins.max(2) - 1) as f64
    }
}
impl Transform for RandAugment {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        if self.magnitude >= self.num_magnitude_bins {
            return Err(wrong("rand_augment", format!("there is no strength {} of {}", self.magnitude, self.num_magnitude_bins)));
        }
        let mut image = image;
        for _ in 0..self.num_ops {
            let (op, strongest, is_signed) = KINDS[rng.below(KINDS.len())];
            let strength = self.strength(strongest(image.height as f64, image.width as f64));
            let strength = if is_signed && rng.chance(0.5) { -strength } else { strength };
            image = self.change(&image, op, strength)?;
        }
        Ok(image)
    }
}
