//! Images that are never twice the same: flips, crops and rotations, each drawn from (seed, epoch, record), so that they do not
//! depend on workers, on batches, or on where a run was interrupted.
use crate::{BadRecord, Dataset, Description, Draw, Place, wrong};
use adamant_core::{Result, Tensor};

/// What is done to images, as far as it is drawn. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Augment {
    /// the probability that left and right are exchanged
    pub horizontal_flip: f64,
    /// the probability that top and bottom are
    pub vertical_flip: f64,
    /// pixels of zeros around the image, out of which one of its size is cut
    pub crop: usize,
    /// degrees by which it is rotated at most, either way, about its middle; the nearest pixel counts, and outside is zero
    pub rotate: f64,
}
/// Numbers of a draw, by what they are for.
const HORIZONTAL: u32 = 0;
const VERTICAL: u32 = 1;
const DOWN: u32 = 2;
const RIGHT: u32 = 3;
const ANGLE: u32 = 4;

impl Augment {
    /// Changes one image of `[channels, height, width]` in place.
    fn apply(&self, image: &mut [f32], [channels, height, width]: [usize; 3], draw: &Draw) {
        let mut source = vec![0f32; height * width];
        let offset = |k| (draw.uniform(k) * (2 * self.crop + 1) as f64) as i64 - self.crop as i64;
        let (down, right) = (offset(DOWN), offset(RIGHT));
        let flips = (draw.uniform(VERTICAL) < self.vertical_flip, draw.uniform(HORIZONTAL) < self.horizontal_flip);
        let (sin, cos) = ((2.0 * draw.uniform(ANGLE) - 1.0) * self.rotate).to_radians().sin_cos();
        let middle = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
        for plane in image.chunks_mut((height * width).max(1)).take(channels) {
            source.copy_from_slice(plane);
            for (k, pixel) in plane.iter_mut().enumerate() {
                // Where the pixel comes from: each change backwards, the last one first.
                let (y, x) = ((k / width) as f64 - middle.0, (k % width) as f64 - middle.1);
                let (y, x) = ((cos * y - sin * x + middle.0).round() as i64 + down, (sin * y + cos * x + middle.1).round() as i64 + right);
                let y = if flips.0 { height as i64 - 1 - y } else { y };
                let x = if flips.1 { width as i64 - 1 - x } else { x };
                let inside = (0..height as i64).contains(&y) && (0..width as i64).contains(&x);
                *pixel = if inside { source[y as usize * width + x as usize] } else { 0.0 };
            }
        }
    }
}
/// Pairs of images and targets whose images are changed when a loader reads them; [`Dataset::read`] gives them as they are.
///
/// ```
/// use adamant_data::{Augment, Augmented, DataLoader, Dataset, Labelled, Rows};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// let images = Rows::new((0..2 * 9).map(|v| v as f32).collect::<Vec<_>>(), [2, 1, 3, 3])?;
/// let pairs = Labelled::new(images, Rows::classes(vec![0, 1], 2)?)?;
/// let flipped = Arc::new(Augmented::new(pairs, Augment { horizontal_flip: 1.0, ..Augment::default() }, [1, 3, 3])?);
/// let (x, _) = DataLoader::new(flipped).build()?.next_batch().transpose()?.unwrap();
/// assert_eq!(x.to_vec::<f32>()?, [2.0, 1.0, 0.0, 5.0, 4.0, 3.0, 8.0, 7.0, 6.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Augmented<D> {
    whole: D,
    augment: Augment,
    size: [usize; 3],
}
impl<D: Dataset<Batch = (Tensor, Tensor)>> Augmented<D> {
    /// Images of `[channels, height, width]`.
    ///
    /// # Errors
    /// The inputs have another number of elements; probabilities outside 0 to 1.
    #[track_caller]
    pub fn new(whole: D, augment: Augment, size: [usize; 3]) -> Result<Augmented<D>> {
        let elements = size.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
        if let Some(facts) = whole.describe().inputs
            && elements != Some(facts.shape.elements())
        {
            return Err(wrong("augment", format!("inputs {} are no images of {size:?} (channels, height, width)", facts.shape)));
        }
        for (name, p) in [("horizontal_flip", augment.horizontal_flip), ("vertical_flip", augment.vertical_flip)] {
            if !(0.0..=1.0).contains(&p) {
                return Err(wrong("augment", format!("{name} is a probability from 0 to 1, not {p}")));
            }
        }
        if !augment.rotate.is_finite() {
            return Err(wrong("augment", format!("an image cannot be rotated by {} degrees", augment.rotate)));
        }
        Ok(Augmented { whole, augment, size })
    }
}
impl<D: Dataset<Batch = (Tensor, Tensor)>> Dataset for Augmented<D> {
    type Record = (D::Record, Option<Draw>);
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.whole.len()
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.whole.read(index)?, None))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.whole.read_at(index, draw)?, Some(*draw)))
    }
    fn collate(&self, records: Vec<Self::Record>) -> Result<(Tensor, Tensor)> {
        let (records, draws): (Vec<D::Record>, Vec<Option<Draw>>) = records.into_iter().unzip();
        let (x, y) = self.whole.collate(records)?;
        if draws.iter().all(Option::is_none) {
            return Ok((x, y));
        }
        let meta = x.try_meta()?;
        let mut values = x.to_vec_as::<f32>()?;
        let each = self.size.iter().product::<usize>();
        if each == 0 || values.len() != each * draws.len() {
            return Err(wrong("augment", format!("a batch of shape {} is not {} images of {:?}", meta.shape, draws.len(), self.size)));
        }
        for (image, draw) in values.chunks_mut(each).zip(&draws) {
            draw.iter().for_each(|draw| self.augment.apply(image, self.size, draw));
        }
        Ok((Tensor::from_vec_on(values, meta.shape, meta.device).cast(meta.dtype), y))
    }
    fn locate(&self, index: usize) -> Place {
        self.whole.locate(index)
    }
    fn describe(&self) -> Description {
        self.whole.describe()
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataLoader, Labelled, LoaderState, Rows};
    use std::sync::Arc;

    fn images(augment: Augment) -> Arc<Augmented<Labelled<Rows, Rows>>> {
        let pixels = Rows::new((0..24 * 16).map(|v| v as f32 + 1.0).collect::<Vec<_>>(), [24, 1, 4, 4]).unwrap();
        let pairs = Labelled::new(pixels, Rows::classes((0..24).map(|k| k % 3).collect(), 3).unwrap()).unwrap();
        Arc::new(Augmented::new(pairs, augment, [1, 4, 4]).unwrap())
    }
    const ALL: Augment = Augment { horizontal_flip: 0.5, vertical_flip: 0.5, crop: 1, rotate: 20.0 };
    /// The batches of two epochs from a position, as numbers.
    fn batches(workers: usize, from: Option<LoaderState>) -> Vec<Vec<f32>> {
        adamant_core::Device::reference().scoped(|| {
            let mut loader = DataLoader::new(images(ALL)).batch_size(5).shuffle(2).workers(workers).build().unwrap();
            from.into_iter().for_each(|state| loader.restore(state).unwrap());
            let mut all = Vec::new();
            for _ in 0..2 {
                while let Some(batch) = loader.next_batch() {
                    all.push(batch.unwrap().0.to_vec().unwrap());
                }
            }
            all
        })
    }
    #[test]
    fn images_that_depend_on_workers_or_on_where_one_began() {
        let whole = batches(0, None);
        assert_eq!(whole, batches(3, None));
        let state = adamant_core::Device::reference().scoped(|| {
            let mut loader = DataLoader::new(images(ALL)).batch_size(5).shuffle(2).build().unwrap();
            (0..3).for_each(|_| drop(loader.next_batch()));
            loader.state()
        });
        assert_eq!(batches(2, Some(state))[..6], whole[3..9]);
        // The other epoch has other images.
        let pixels = |epoch: &[Vec<f32>]| {
            let mut all: Vec<Vec<u32>> = epoch.iter().flat_map(|b| b.chunks(16).map(|i| i.iter().map(|v| v.to_bits()).collect())).collect();
            all.sort();
            all
        };
        assert_ne!(pixels(&whole[..5]), pixels(&whole[5..]));
    }
    #[test]
    fn a_change_that_is_another_one() {
        let draw = Draw { seed: 1, epoch: 0, index: 0 };
        let one = |augment: Augment| {
            let mut image: Vec<f32> = (0..9).map(|v| v as f32).collect();
            augment.apply(&mut image, [1, 3, 3], &draw);
            image
        };
        assert_eq!(one(Augment::default()), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(one(Augment { vertical_flip: 1.0, ..Augment::default() }), [6.0, 7.0, 8.0, 3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
        // A turn of at most 45 degrees keeps the middle; a crop keeps order and fills with zeros.
        assert_eq!(one(Augment { rotate: 45.0, ..Augment::default() })[4], 4.0);
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..200 {
            let mut image: Vec<f32> = (0..9).map(|v| v as f32 + 1.0).collect();
            Augment { crop: 1, ..Augment::default() }.apply(&mut image, [1, 3, 3], &Draw { index, ..draw });
            seen.insert(image.iter().map(|v| *v as u8).collect::<Vec<_>>());
        }
        assert_eq!(seen.len(), 9, "{seen:?}");
        assert!(Augmented::new(images(ALL), ALL, [1, 4, 5]).is_err() && Augmented::new(images(ALL), Augment { rotate: f64::NAN, ..ALL }, [1, 4, 4]).is_err());
    }
}
