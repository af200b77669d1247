//! What pixels become, whatever place they have. Colours are from 0 to 1; what would leave that range is cut off.
use super::Image;
use crate::wrong;
use adamant_core::Result;

impl Image {
    /// 1 or 3 channels, as colours have.
    #[track_caller]
    fn coloured(&self, op: &'static str) -> Result<()> {
        if self.channels == 1 || self.channels == 3 {
            Ok(())
        } else {
            Err(wrong(op, format!("an image of {} channels is neither grey nor coloured", self.channels)))
        }
    }
    #[track_caller]
    fn factor(&self, op: &'static str, factor: f64) -> Result<f32> {
        self.coloured(op)?;
        if factor.is_finite() && factor >= 0.0 { Ok(factor as f32) } else { Err(wrong(op, format!("the factor is {factor}, it must be a number from 0 on"))) }
    }
    /// The grey of each pixel (ITU-R 601-2).
    fn grey(&self) -> Vec<f32> {
        if self.channels == 1 {
            return self.pixels.clone();
        }
        let (r, g, b) = (self.plane(0), self.plane(1), self.plane(2));
        r.iter().zip(g).zip(b).map(|((r, g), b)| r * 0.2989 + g * 0.587 + b * 0.114).collect()
    }
    /// `ratio` of this and the rest of the other.
    fn blended(&self, other: impl Fn(usize) -> f32, ratio: f32) -> Image {
        let rest = (1.0 - f64::from(ratio)) as f32;
        self.with(self.pixels.iter().enumerate().map(|(k, v)| (v * ratio + other(k) * rest).clamp(0.0, 1.0)).collect())
    }
    /// Grey, in 1 channel or in 3 alike ones.
    ///
    /// # Errors
    /// Other numbers of channels.
    #[track_caller]
    pub fn grayscale(&self, channels: usize) -> Result<Image> {
        self.coloured("grayscale")?;
        if channels != 1 && channels != 3 {
            return Err(wrong("grayscale", format!("grey has 1 channel or 3 alike ones, not {channels}")));
        }
        Ok(Image { channels, height: self.height, width: self.width, pixels: self.grey().repeat(channels) })
    }
    /// `(pixel - mean) / std` of each channel.
    ///
    /// # Errors
    /// Not one mean and deviation for each channel (or one for all), or a deviation of 0.
    #[track_caller]
    pub fn normalize(&self, mean: &[f32], std: &[f32]) -> Result<Image> {
        let fits = |v: &[f32]| v.len() == 1 || v.len() == self.channels;
        if !fits(mean) || !fits(std) || std.contains(&0.0) {
            return Err(wrong("normalize", format!("{mean:?} and {std:?} are no means and deviations of {} channels", self.channels)));
        }
        let each = (self.height * self.width).max(1);
        let of = |v: &[f32], k: usize| v[(k / each).min(v.len() - 1)];
        Ok(self.with(self.pixels.iter().enumerate().map(|(k, v)| (v - of(mean, k)) / of(std, k)).collect()))
    }
    /// Times a factor: 0 is black.
    ///
    /// # Errors
    /// A factor that is negative or no number; neither 1 nor 3 channels.
    #[track_caller]
    pub fn adjust_brightness(&self, factor: f64) -> Result<Image> {
        let factor = self.factor("adjust_brightness", factor)?;
        Ok(self.map(|v| (v * factor).clamp(0.0, 1.0)))
    }
    /// Away from the image's mean grey: 0 is that grey.
    ///
    /// # Errors
    /// As [`Image::adjust_brightness`].
    #[track_caller]
    pub fn adjust_contrast(&self, factor: f64) -> Result<Image> {
        let factor = self.factor("adjust_contrast", factor)?;
        let grey = self.grey();
        let mean = (grey.iter().map(|v| f64::from(*v)).sum::<f64>() / grey.len().max(1) as f64) as f32;
        Ok(self.blended(|_| mean, factor))
    }
    /// Away from each pixel's grey: 0 is a grey image.
    ///
    /// # Errors
    /// As [`Image::adjust_brightness`].
    #[track_caller]
    pub fn adjust_saturation(&self, factor: f64) -> Result<Image> {
        let factor = self.factor("adjust_saturation", factor)?;
        if self.channels == 1 {
            return Ok(self.clone());
        }
        let grey = self.grey();
        Ok(self.blended(|k| grey[k % grey.len()], factor))
    }
    /// The hue moved by a part of the circle, from -0.5 to 0.5.
    ///
    /// # Errors
    /// A part beyond that; neither 1 nor 3 channels.
    #[track_caller]
    pub fn adjust_hue(&self, part: f64) -> Result<Image> {
        self.coloured("adjust_hue")?;
        if !(-0.5..=0.5).contains(&part) {
            return Err(wrong("adjust_hue", format!("the hue turns by -0.5 to 0.5 of the circle, not by {part}")));
        }
        if self.channels == 1 {
            return Ok(self.clone());
        }
        let each = self.height * self.width;
        let mut pixels = vec![0.0; self.pixels.len()];
        for k in 0..each {
            let [h, s, v] = hsv([self.pixels[k], self.pixels[each + k], self.pixels[2 * each + k]]);
            for (c, value) in rgb([(h + part as f32).rem_euclid(1.0), s, v]).into_iter().enumerate() {
                pixels[c * each + k] = value;
            }
        }
        Ok(self.with(pixels))
    }
    /// Away from a blurred image: 0 is blurred, 1 as it is. Images of two rows or columns stay.
    ///
    /// # Errors
    /// As [`Image::adjust_brightness`].
    #[track_caller]
    pub fn adjust_sharpness(&self, factor: f64) -> Result<Image> {
        let factor = self.factor("adjust_sharpness", factor)?;
        if self.height <= 2 || self.width <= 2 {
            return Ok(self.clone());
        }
        let (edge, middle, rest) = (1.0f32 / 13.0, 5.0f32 / 13.0, 1.0 - factor);
        let each = self.height * self.width;
        let mut sharp = self.clone();
        for c in 0..self.channels {
            let plane = self.plane(c);
            for y in 1..self.height - 1 {
                for x in 1..self.width - 1 {
                    let at = |dy: usize, dx: usize| plane[(y + dy - 1) * self.width + x + dx - 1] * if (dy, dx) == (1, 1) { middle } else { edge };
                    let blurred: f32 = (0..9).map(|k| at(k / 3, k % 3)).sum();
                    let v = plane[y * self.width + x];
                    sharp.pixels[c * each + y * self.width + x] = v + (blurred - v) * rest;
                }
            }
        }
        Ok(sharp.map(|v| v.clamp(0.0, 1.0)))
    }
    /// `gain * pixel ^ gamma`.
    ///
    /// # Errors
    /// A gamma or gain that is negative or no number.
    #[track_caller]
    pub fn adjust_gamma(&self, gamma: f64, gain: f64) -> Result<Image> {
        if !(gamma.is_finite() && gamma >= 0.0 && gain.is_finite() && gain >= 0.0) {
            return Err(wrong("adjust_gamma", format!("gamma {gamma} and gain {gain} must be numbers from 0 on")));
        }
        Ok(self.map(|v| if gain == 1.0 { v.powf(gamma as f32) } else { (v.powf(gamma as f32) * gain as f32).clamp(0.0, 1.0) }))
    }
    /// 1 less each pixel.
    #[must_use]
    pub fn invert(&self) -> Image {
        self.map(|v| 1.0 - v)
    }
    /// In steps of 2^bits: the lower end of each.
    ///
    /// # Errors
    /// More than 8 bits.
    #[track_caller]
    pub fn posterize(&self, bits: u32) -> Result<Image> {
        if bits > 8 {
            return Err(wrong("posterize", format!("a colour has 8 bits, not {bits}")));
        }
        let levels = (1u32 << bits) as f32;
        Ok(self.map(|v| (v * levels).floor().clamp(0.0, levels - 1.0) * (1.0 / levels)))
    }
    /// Inverted from a threshold on.
    #[must_use]
    pub fn solarize(&self, threshold: f64) -> Image {
        self.map(|v| if v >= threshold as f32 { 1.0 - v } else { v })
    }
    /// Each channel from its darkest to its brightest pixel stretched to 0 to 1.
    ///
    /// # Errors
    /// Neither 1 nor 3 channels.
    #[track_caller]
    pub fn autocontrast(&self) -> Result<Image> {
        self.coloured("autocontrast")?;
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for c in 0..self.channels {
            let plane = self.plane(c);
            let (low, high) = plane.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
            let (low, scale) = if low == high { (0.0, 1.0) } else { (low, high - low) };
            pixels.extend(plane.iter().map(|v| ((v - low) / scale).clamp(0.0, 1.0)));
        }
        Ok(self.with(pixels))
    }
    /// Each channel in 256 steps that are about as frequent (as PIL has it).
    #[must_use]
    pub fn equalize(&self) -> Image {
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for c in 0..self.channels {
            // To bytes as PyTorch converts them: so that each takes as large a part of 0 to 1.
            let bytes: Vec<usize> = self.plane(c).iter().map(|v| (v * (255.0 + 1.0 - 1e-3)) as u8 as usize).collect();
            let mut counts = [0usize; 256];
            bytes.iter().for_each(|b| counts[*b] += 1);
            let brightest = counts.iter().rposition(|n| *n > 0).unwrap_or(0);
            let step = (bytes.len() - counts[brightest]) / 255;
            let mut below = 0;
            let table: Vec<usize> = counts
                .iter()
                .enumerate()
                .map(|(k, n)| {
                    let level = if step == 0 {
                        k
                    } else if k == 0 {
                        0
                    } else {
                        ((below + step / 2) / step).min(255)
                    };
                    below += n;
                    level
                })
                .collect();
            pixels.extend(bytes.iter().map(|b| table[*b] as f32 / 255.0));
        }
        self.with(pixels)
    }
}
/// Hue, saturation and value of red, green and blue, in PIL's way.
fn hsv([r, g, b]: [f32; 3]) -> [f32; 3] {
    let (low, high) = (r.min(g).min(b), r.max(g).max(b));
    if low == high {
        return [0.0, 0.0, high];
    }
    let range = high - low;
    let [rc, gc, bc] = [r, g, b].map(|v| (high - v) / range);
    let h = if high == r {
        bc - gc
    } else if high == g {
        rc + 2.0 - bc
    } else {
        gc + 4.0 - rc
    };
    [(h * (1.0 / 6.0) + 1.0) % 1.0, range / high, high]
}
fn rgb([h, s, v]: [f32; 3]) -> [f32; 3] {
    let turn = h * 6.0;
    let sector = turn.floor();
    let f = turn - sector;
    let q = ((1.0 - s * f) * v).clamp(0.0, 1.0);
    let t = ((s * f + (1.0 - s)) * v).clamp(0.0, 1.0);
    let p = ((1.0 - s) * v).clamp(0.0, 1.0);
    match (sector as i32).rem_euclid(6) {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    }
}
