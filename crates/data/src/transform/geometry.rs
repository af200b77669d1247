//! Where pixels go: crops, flips, borders, sizes, and affine maps. In f32, in the order of torchvision's operations.
use super::Image;
use crate::wrong;
use adamant_core::Result;

/// How a pixel between others is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolate {
    /// the nearest pixel
    #[default]
    Nearest,
    /// between the four around it; where an image becomes smaller, over all that fall into a pixel (antialiased)
    Bilinear,
}
/// What stands in the border around an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// one value
    Constant(f32),
    /// the outermost pixel
    Edge,
    /// the image mirrored at its outermost pixel, which is not repeated
    Reflect,
    /// the image mirrored, its outermost pixel repeated
    Symmetric,
}
/// An affine map about a centre: rotated, scaled, sheared, moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// degrees, clockwise
    pub angle: f64,
    /// pixels to the right and down
    pub translate: (f64, f64),
    /// how much larger
    pub scale: f64,
    /// degrees along x and along y
    pub shear: (f64, f64),
    /// (x, y) from the top left corner (`None`: the middle)
    pub center: Option<(f64, f64)>,
    /// how pixels are found
    pub interpolation: Interpolate,
    /// what stands outside of the image (`None`: zeros, into which a bilinear edge fades)
    pub fill: Option<f32>,
}
impl Default for Affine {
    /// Nothing moves.
    fn default() -> Affine {
        Affine { angle: 0.0, translate: (0.0, 0.0), scale: 1.0, shear: (0.0, 0.0), center: None, interpolation: Interpolate::Nearest, fill: None }
    }
}
/// The source place of each place along an axis with a border of `before`, `None` in a constant border.
fn bordered(len: usize, before: usize, after: usize, mode: PadMode) -> Vec<Option<usize>> {
    let n = len as i64;
    (0..(before + len + after) as i64)
        .map(|k| {
            let at = k - before as i64;
            if (0..n).contains(&at) {
                return Some(at as usize);
            }
            match mode {
                PadMode::Constant(_) => None,
                PadMode::Edge => Some(at.clamp(0, n - 1) as usize),
                PadMode::Reflect => Some(if at < 0 { -at } else { 2 * (n - 1) - at } as usize),
                PadMode::Symmetric => Some(if at < 0 { -at - 1 } else { 2 * n - 1 - at } as usize),
            }
        })
        .collect()
}
/// For each place of a new axis, where its source begins and the weights from there on: a triangle as wide as a new pixel, at least as
/// an old one (`_upsample_bilinear2d_aa` of PyTorch).
fn triangle(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f64 / to as f64;
    let (support, inverse) = (scale.max(1.0), 1.0 / scale.max(1.0));
    (0..to)
        .map(|i| {
            let center = scale * (i as f64 + 0.5);
            let start = (center - support + 0.5).max(0.0) as usize;
            let end = ((center + support + 0.5) as usize).min(from);
            let weight = |j: usize| (1.0 - ((j as f64 - center + 0.5) * inverse).abs()).max(0.0);
            let sum: f64 = (start..end).map(weight).sum();
            (start, (start..end).map(|j| if sum == 0.0 { 0.0 } else { (weight(j) / sum) as f32 }).collect())
        })
        .collect()
}
/// The inverse of the map, in pixels from the middle: `[x, y] <- m [x, y, 1]` (torchvision's `_get_inverse_affine_matrix`).
fn inverse(map: &Affine, (cx, cy): (f64, f64)) -> [f64; 6] {
    let (rot, sx, sy) = (map.angle.to_radians(), map.shear.0.to_radians(), map.shear.1.to_radians());
    let (x, y) = (cx + map.translate.0, cy + map.translate.1);
    let a = (rot - sy).cos() / sy.cos();
    let b = -(a * sx.tan() + rot.sin());
    let c = (rot - sy).sin() / sy.cos();
    let d = rot.cos() - c * sx.tan();
    let [p, q, r, s] = [d / map.scale, -b / map.scale, -c / map.scale, a / map.scale];
    [p, q, cx - p * x - q * y, r, s, cy - r * x - s * y]
}
impl Image {
    /// The part from (top, left) on, `[channels, height, width]`; what lies outside is 0.
    #[must_use]
    pub fn crop(&self, top: i64, left: i64, height: usize, width: usize) -> Image {
        let mut pixels = Vec::with_capacity(self.channels * height * width);
        for c in 0..self.channels {
            let plane = self.plane(c);
            for y in (0..height as i64).map(|y| y.saturating_add(top)) {
                for x in (0..width as i64).map(|x| x.saturating_add(left)) {
                    let inside = (0..self.height as i64).contains(&y) && (0..self.width as i64).contains(&x);
                    pixels.push(if inside { plane[y as usize * self.width + x as usize] } else { 0.0 });
                }
            }
        }
        Image { channels: self.channels, height, width, pixels }
    }
    /// The middle; an image that is smaller gets a border of zeros.
    #[must_use]
    pub fn center_crop(&self, height: usize, width: usize) -> Image {
        // A border first, whose smaller half is in front, then a crop whose place is rounded to even.
        let place = |have: usize, want: usize| {
            if want > have {
                return -((want - have) as i64 / 2);
            }
            let twice = have - want;
            (twice / 2 + usize::from(twice % 2 == 1 && (twice / 2) % 2 == 1)) as i64
        };
        self.crop(place(self.height, height), place(self.width, width), height, width)
    }
    /// Left and right exchanged.
    #[must_use]
    pub fn hflip(&self) -> Image {
        self.with(self.pixels.chunks(self.width.max(1)).flat_map(|row| row.iter().rev().copied()).collect())
    }
    /// Top and bottom exchanged.
    #[must_use]
    pub fn vflip(&self) -> Image {
        let rows = |c: usize| self.plane(c).chunks(self.width.max(1)).rev().flatten().copied();
        self.with((0..self.channels).flat_map(rows).collect())
    }
    /// With a border of so many pixels at the left, top, right and bottom.
    ///
    /// # Errors
    /// A border to be mirrored that is wider than what there is to mirror, or one around nothing.
    #[track_caller]
    pub fn pad(&self, [left, top, right, bottom]: [usize; 4], mode: PadMode) -> Result<Image> {
        let most = |len: usize| match mode {
            PadMode::Constant(_) => usize::MAX,
            PadMode::Edge => {
                if len == 0 {
                    0
                } else {
                    usize::MAX
                }
            }
            PadMode::Reflect => len.saturating_sub(1),
            PadMode::Symmetric => len,
        };
        if left.max(right) > most(self.width) || top.max(bottom) > most(self.height) {
            let text = format!(
                "a border of {:?} (left, top, right, bottom) cannot be made by {mode:?} of {} x {} pixels",
                [left, top, right, bottom],
                self.height,
                self.width
            );
            return Err(wrong("pad", text));
        }
        let (rows, columns) = (bordered(self.height, top, bottom, mode), bordered(self.width, left, right, mode));
        let fill = if let PadMode::Constant(v) = mode { v } else { 0.0 };
        let mut pixels = Vec::with_capacity(self.channels * rows.len() * columns.len());
        for c in 0..self.channels {
            let plane = self.plane(c);
            for row in &rows {
                pixels.extend(columns.iter().map(|column| row.zip(*column).map_or(fill, |(y, x)| plane[y * self.width + x])));
            }
        }
        Ok(Image { channels: self.channels, height: rows.len(), width: columns.len(), pixels })
    }
    /// In another size.
    ///
    /// # Errors
    /// A size of 0, or an image without pixels.
    #[track_caller]
    pub fn resize(&self, height: usize, width: usize, interpolation: Interpolate) -> Result<Image> {
        if height == 0 || width == 0 || self.height == 0 || self.width == 0 {
            return Err(wrong("resize", format!("{} x {} pixels cannot become {height} x {width}", self.height, self.width)));
        }
        if (height, width) == (self.height, self.width) {
            return Ok(self.clone());
        }
        let mut pixels = Vec::with_capacity(self.channels * height * width);
        if interpolation == Interpolate::Nearest {
            let place = |k: usize, from: usize, to: usize| ((k as f32 * (from as f32 / to as f32)) as usize).min(from - 1);
            for c in 0..self.channels {
                let plane = self.plane(c);
                for y in 0..height {
                    let row = place(y, self.height, height) * self.width;
                    pixels.extend((0..width).map(|x| plane[row + place(x, self.width, width)]));
                }
            }
            return Ok(Image { channels: self.channels, height, width, pixels });
        }
        let (across, down) = (triangle(self.width, width), triangle(self.height, height));
        for c in 0..self.channels {
            let rows = self.plane(c).chunks(self.width);
            let narrow: Vec<f32> = rows.flat_map(|row| across.iter().map(|(start, w)| w.iter().zip(&row[*start..]).map(|(w, v)| w * v).sum::<f32>())).collect();
            for (start, w) in &down {
                pixels.extend((0..width).map(|x| w.iter().enumerate().map(|(k, w)| w * narrow[(start + k) * width + x]).sum::<f32>()));
            }
        }
        Ok(Image { channels: self.channels, height, width, pixels })
    }
    /// Rotated by degrees against the clock about its middle, in its own size; right angles of a square and half turns are exact.
    ///
    /// # Errors
    /// An angle that is no number.
    #[track_caller]
    pub fn rotate(&self, angle: f64, interpolation: Interpolate, fill: Option<f32>) -> Result<Image> {
        let turns = angle.rem_euclid(360.0);
        let is_square = self.height == self.width;
        if turns == 0.0 {
            return Ok(self.clone());
        } else if turns == 180.0 {
            return Ok(self.hflip().vflip());
        } else if is_square && (turns == 90.0 || turns == 270.0) {
            let n = self.width;
            let of = |c: usize| (0..n * n).map(move |k| (c, k / n, k % n));
            let rotated = |(c, y, x): (usize, usize, usize)| self.plane(c)[if turns == 90.0 { x * n + (n - 1 - y) } else { (n - 1 - x) * n + y }];
            return Ok(self.with((0..self.channels).flat_map(of).map(rotated).collect()));
        }
        self.affine(&Affine { angle: -turns, interpolation, fill, ..Affine::default() })
    }
    /// Through an affine map, in its own size.
    ///
    /// # Errors
    /// A number of the map that is none; a scale that is not above 0.
    #[track_caller]
    pub fn affine(&self, map: &Affine) -> Result<Image> {
        let numbers = [map.angle, map.translate.0, map.translate.1, map.scale, map.shear.0, map.shear.1];
        if numbers.iter().any(|v| !v.is_finite()) || map.scale <= 0.0 {
            return Err(wrong("affine", format!("numbers have to be finite and the scale above 0: {map:?}")));
        }
        let (w, h) = (self.width as f64, self.height as f64);
        let center = map.center.map_or((0.0, 0.0), |(x, y)| (x - w * 0.5, y - h * 0.5));
        let m = inverse(map, center);
        // Of a grid from -1 to 1, as PyTorch's sampling has it, in its dtype.
        let of = |k: usize, half: f64| m[k] as f32 / (0.5 * half) as f32;
        let (along_x, along_y) = ([of(0, w), of(1, w), of(2, w)], [of(3, h), of(4, h), of(5, h)]);
        let source = |row: [f32; 3], x: f32, y: f32, n: usize| ((x * row[0] + y * row[1] + row[2] + 1.0) * n as f32 - 1.0) / 2.0;
        let mut pixels = vec![0.0; self.pixels.len()];
        let each = self.height * self.width;
        for k in 0..each {
            let (y, x) = ((k / self.width) as f32 - (self.height as f32 - 1.0) * 0.5, (k % self.width) as f32 - (self.width as f32 - 1.0) * 0.5);
            let (sx, sy) = (source(along_x, x, y, self.width), source(along_y, x, y, self.height));
            for c in 0..self.channels {
                pixels[c * each + k] = self.sampled(c, sx, sy, map.interpolation, map.fill);
            }
        }
        Ok(self.with(pixels))
    }
    /// What stands at a place between pixels.
    fn sampled(&self, channel: usize, x: f32, y: f32, interpolation: Interpolate, fill: Option<f32>) -> f32 {
        let plane = self.plane(channel);
        let at = |x: f32, y: f32| {
            let inside = x >= 0.0 && y >= 0.0 && x < self.width as f32 && y < self.height as f32;
            inside.then(|| plane[y as usize * self.width + x as usize])
        };
        if interpolation == Interpolate::Nearest {
            return at(x.round_ties_even(), y.round_ties_even()).unwrap_or(fill.unwrap_or(0.0));
        }
        let (left, top) = (x.floor(), y.floor());
        let (dx, dy) = (x - left, y - top);
        let corners =
            [(left, top, (1.0 - dx) * (1.0 - dy)), (left + 1.0, top, dx * (1.0 - dy)), (left, top + 1.0, (1.0 - dx) * dy), (left + 1.0, top + 1.0, dx * dy)];
        let (mut sum, mut inside) = (0.0, 0.0);
        for (cx, cy, weight) in corners {
            if let Some(v) = at(cx, cy) {
                sum += v * weight;
                inside += weight;
            }
        }
        match fill {
            Some(fill) => (sum - fill) * inside + fill,
            None => sum,
        }
    }
    /// With a rectangle overwritten, each channel by its value; one value is for all.
    ///
    /// # Errors
    /// Neither one value nor one for each channel.
    #[track_caller]
    pub fn erase(&self, top: usize, left: usize, height: usize, width: usize, value: &[f32]) -> Result<Image> {
        if value.len() != 1 && value.len() != self.channels {
            return Err(wrong("erase", format!("{} values are for {} channels", value.len(), self.channels)));
        }
        let mut erased = self.clone();
        let each = self.height * self.width;
        for c in 0..self.channels {
            for y in top..(top.saturating_add(height)).min(self.height) {
                for x in left..(left.saturating_add(width)).min(self.width) {
                    erased.pixels[c * each + y * self.width + x] = value[c.min(value.len() - 1)];
                }
            }
        }
        Ok(erased)
    }
}
