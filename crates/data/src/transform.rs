//! What is done to images before a model sees them: geometry, colours and their random forms, by torchvision's definitions
//! (`torchvision.transforms.v2` on float tensors). A transform draws from the generator that it is given and from nothing else; in a
//! data set that is the record's own ([`Draw::rng`]), so an image does not depend on workers, batches or where a run was interrupted.
use crate::{BadRecord, Dataset, Description, Draw, DrawRng, Facts, Place, wrong};
use adamant_core::{DType, Result, Shape, Tensor};

mod colour;
mod geometry;
mod rand_augment;
mod random;
pub use geometry::{Affine, Interpolate, PadMode};
pub use rand_augment::RandAugment;
pub use random::{
    CenterCrop, ColorJitter, Grayscale, Normalize, Pad, RandomAffine, RandomCrop, RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomResizedCrop,
    RandomRotation, RandomVerticalFlip, Resize,
};

/// An image in host memory: planes of `[channels, height, width]`, f32. Colours are from 0 to 1 where a transform says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    channels: usize,
    height: usize,
    width: usize,
    pixels: Vec<f32>,
}
impl Image {
    /// Of pixels by channel, row, column.
    ///
    /// # Errors
    /// Not `channels * height * width` pixels.
    #[track_caller]
    pub fn new(pixels: Vec<f32>, [channels, height, width]: [usize; 3]) -> Result<Image> {
        if channels.checked_mul(height).and_then(|n| n.checked_mul(width)) != Some(pixels.len()) {
            return Err(wrong("image", format!("{} pixels are no image of [{channels}, {height}, {width}]", pixels.len())));
        }
        Ok(Image { channels, height, width, pixels })
    }
    /// Of a tensor `[channels, height, width]`, whose dtype becomes f32.
    ///
    /// # Errors
    /// Another number of axes; the tensor's own error.
    #[track_caller]
    pub fn of(tensor: &Tensor) -> Result<Image> {
        let shape = tensor.shape()?;
        if shape.rank() != 3 {
            return Err(wrong("image", format!("a tensor of shape {shape} is no image [channels, height, width]")));
        }
        Image::new(tensor.to_vec_as::<f32>()?, [shape[0], shape[1], shape[2]])
    }
    /// As a tensor `f32[channels, height, width]` on the current device.
    pub fn tensor(&self) -> Tensor {
        Tensor::from_slice(&self.pixels, self.size())
    }
    /// (channels, height, width)
    pub fn size(&self) -> [usize; 3] {
        [self.channels, self.height, self.width]
    }
    /// The pixels by channel, row, column.
    pub fn pixels(&self) -> &[f32] {
        &self.pixels
    }
    /// The pixels by channel, row, column.
    pub fn into_pixels(self) -> Vec<f32> {
        self.pixels
    }
    fn plane(&self, channel: usize) -> &[f32] {
        let each = self.height * self.width;
        &self.pixels[channel * each..(channel + 1) * each]
    }
    /// The same with other pixels, of which there are as many.
    fn with(&self, pixels: Vec<f32>) -> Image {
        Image { channels: self.channels, height: self.height, width: self.width, pixels }
    }
    fn map(&self, f: impl Fn(f32) -> f32) -> Image {
        self.with(self.pixels.iter().map(|v| f(*v)).collect())
    }
}

/// What is done to an image. Any function of an image and a generator is one.
///
/// ```
/// use adamant_data::{CenterCrop, Compose, Draw, DrawRng, Image, RandomHorizontalFlip, Transform};
///
/// let brighter = |image: Image, rng: &mut DrawRng| image.adjust_brightness(rng.range(1.0, 1.5));
/// let all = Compose::new().then(CenterCrop { size: (2, 2) }).then(RandomHorizontalFlip { p: 0.5 }).then(brighter);
/// let image = Image::new(vec![0.5; 16], [1, 4, 4])?;
/// let draw = Draw { seed: 1, epoch: 0, index: 3 };
/// let once = all.apply(image.clone(), &mut draw.rng())?;
/// assert_eq!(once.size(), [1, 2, 2]);
/// assert_eq!(once, all.apply(image, &mut draw.rng())?);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub trait Transform: Send + Sync {
    /// The changed image.
    ///
    /// # Errors
    /// Options that make no sense, or an image that it is not for.
    #[track_caller]
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image>;
}
impl<F: Fn(Image, &mut DrawRng) -> Result<Image> + Send + Sync> Transform for F {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        self(image, rng)
    }
}
impl Transform for Box<dyn Transform> {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        (**self).apply(image, rng)
    }
}
/// Transforms one after the other.
#[derive(Default)]
pub struct Compose(Vec<Box<dyn Transform>>);
impl Compose {
    /// None yet: the image as it is.
    pub fn new() -> Compose {
        Compose::default()
    }
    /// And then this one.
    #[must_use]
    pub fn then(mut self, transform: impl Transform + 'static) -> Compose {
        self.0.push(Box::new(transform));
        self
    }
}
impl Transform for Compose {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        self.0.iter().try_fold(image, |image, transform| transform.apply(image, rng))
    }
}
/// A transform that is done with a probability.
#[derive(Clone, Debug)]
pub struct RandomApply<T> {
    /// what is done
    pub transform: T,
    /// how likely
    pub p: f64,
}
impl<T: Transform> Transform for RandomApply<T> {
    fn apply(&self, image: Image, rng: &mut DrawRng) -> Result<Image> {
        if rng.chance(probability(self.p)?) { self.transform.apply(image, rng) } else { Ok(image) }
    }
}
#[track_caller]
fn probability(p: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(wrong("transform", format!("a probability is from 0 to 1, not {p}"))) }
}

/// Pairs of images and targets whose images go through a transform, in the workers. A loader's reading draws from its own place; one
/// without ([`Dataset::read`]) draws what it would with seed 0 in epoch 0.
///
/// ```
/// use adamant_data::{DataLoader, Labelled, Normalize, RandomCrop, Rows, Transformed, Compose};
/// use std::sync::Arc;
/// # adamant_core::Device::reference().make_current();
///
/// let images = Rows::new(vec![0.5f32; 2 * 3 * 8 * 8], [2, 3, 8, 8])?;
/// let pairs = Labelled::new(images, Rows::classes(vec![0, 1], 2)?)?;
/// let transform = Compose::new()
///     .then(RandomCrop { padding: [1; 4], ..RandomCrop::new((6, 6)) })
///     .then(Normalize { mean: vec![0.5; 3], std: vec![0.25; 3] });
/// let set = Arc::new(Transformed::new(pairs, transform, [3, 8, 8])?);
/// let (x, _) = DataLoader::new(set).batch_size(2).shuffle(1).build()?.next_batch().transpose()?.unwrap();
/// assert_eq!(x.dims::<4>()?, [2, 3, 6, 6]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Transformed<D, T> {
    whole: D,
    transform: T,
    size: [usize; 3],
    /// what comes out
    becomes: [usize; 3],
}
impl<D: Dataset<Batch = (Tensor, Tensor)>, T: Transform> Transformed<D, T> {
    /// Images of `[channels, height, width]`. The transform is tried once, on an image of zeros: so options that make no sense are told
    /// here, and the size of what comes out is known.
    ///
    /// # Errors
    /// The inputs have another number of elements; those of the transform.
    #[track_caller]
    pub fn new(whole: D, transform: T, size: [usize; 3]) -> Result<Transformed<D, T>> {
        let elements = size.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
        if let Some(facts) = whole.describe().inputs
            && elements != Some(facts.shape.elements())
        {
            return Err(wrong("transform", format!("inputs {} are no images of {size:?} (channels, height, width)", facts.shape)));
        }
        let zeros = Image::new(vec![0.0; elements.unwrap_or(0)], size)?;
        let becomes = transform.apply(zeros, &mut Draw { seed: 0, epoch: 0, index: 0 }.rng())?.size();
        Ok(Transformed { whole, transform, size, becomes })
    }
}
impl<D: Dataset<Batch = (Tensor, Tensor)>, T: Transform> Dataset for Transformed<D, T> {
    type Record = (D::Record, Draw);
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.whole.len()
    }
    fn read(&self, index: usize) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.whole.read(index)?, Draw { seed: 0, epoch: 0, index }))
    }
    fn read_at(&self, index: usize, draw: &Draw) -> std::result::Result<Self::Record, BadRecord> {
        Ok((self.whole.read_at(index, draw)?, *draw))
    }
    fn collate(&self, records: Vec<Self::Record>) -> Result<(Tensor, Tensor)> {
        let (records, draws): (Vec<D::Record>, Vec<Draw>) = records.into_iter().unzip();
        let (x, y) = self.whole.collate(records)?;
        let meta = x.try_meta()?;
        let values = x.to_vec_as::<f32>()?;
        let each = self.size.iter().product::<usize>();
        if each == 0 || values.len() != each * draws.len() {
            return Err(wrong("transform", format!("a batch of shape {} is not {} images of {:?}", meta.shape, draws.len(), self.size)));
        }
        let mut all = Vec::with_capacity(draws.len() * self.becomes.iter().product::<usize>());
        for (pixels, draw) in values.chunks(each).zip(&draws) {
            let image = self.transform.apply(Image::new(pixels.to_vec(), self.size)?, &mut draw.rng())?;
            if image.size() != self.becomes {
                let text = format!("record {} became an image of {:?} and others of {:?}; end with a crop or a resize", draw.index, image.size(), self.becomes);
                return Err(wrong("transform", text));
            }
            all.extend(image.into_pixels());
        }
        let [channels, height, width] = self.becomes;
        let dtype = if meta.dtype.is_float() { meta.dtype } else { DType::F32 };
        Ok((Tensor::from_vec_on(all, [draws.len(), channels, height, width], meta.device).cast(dtype), y))
    }
    fn locate(&self, index: usize) -> Place {
        self.whole.locate(index)
    }
    fn describe(&self) -> Description {
        let inner = self.whole.describe();
        let dtype = inner.inputs.map(|facts| facts.dtype).filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
        let inputs = Shape::new(&self.becomes).ok().map(|shape| Facts { shape, dtype });
        Description { inputs, ..inner }
    }
}

#[cfg(test)]
mod tests;
