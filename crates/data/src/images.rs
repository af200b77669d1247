//! Images in folders: each sub-folder is a class, in the order of their names. An image is decoded when it is read, so a
//! damaged one is one bad record and not the end of a run.
mod decode;
mod picture;
mod pnm;

use crate::{BadRecord, Dataset, Description, Facts, Place, Scale, Target, dataset::row_of, file_error, wrong};
use adamant_core::{DType, Result, Shape, Tensor};
use picture::Picture;
use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

/// What a file's name must end in to be taken for an image.
const ENDINGS: &[&str] = &["png", "jpg", "jpeg", "pgm", "ppm", "pbm", "pnm", "bmp"];
/// Bytes of an image file, and of what it decodes to, beyond which it is a bad record: 256 MiB.
pub const MAX_BYTES: u64 = 256 << 20;

/// What becomes of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageOptions {
    /// 1 for grey, 3 for red, green and blue
    pub channels: usize,
    /// (height, width) that images are resized to; without it, those of the first image, and others are bad records
    pub size: Option<(usize, usize)>,
    /// how bytes become f32
    pub scale: Scale,
}
impl Default for ImageOptions {
    /// Colours from 0 to 1, as large as they are.
    fn default() -> ImageOptions {
        ImageOptions { channels: 3, size: None, scale: Scale { divide: 255.0, ..Scale::default() } }
    }
}

/// Images and their classes: inputs `f32[batch, channels, height, width]`, targets `i64[batch]`.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    /// the file and its class, by class and name
    files: Vec<(PathBuf, usize)>,
    options: ImageOptions,
    size: (usize, usize),
    bytes: Vec<f32>,
}
impl ImageFolder {
    /// Lists a folder. Images (PNG, JPEG, PNM and BMP, by their names) may lie deeper inside a class's folder; links to
    /// folders are not followed.
    ///
    /// # Errors
    /// `File`: a folder that cannot be read, no classes or images in it; without a size in the options, a first image
    /// that cannot be read. Channels other than 1 and 3.
    #[track_caller]
    pub fn open(folder: impl AsRef<Path>, options: ImageOptions) -> Result<ImageFolder> {
        let _call = adamant_core::scope::call("image_folder");
        let folder = folder.as_ref();
        check(&options)?;
        let (classes, files) = list(folder).map_err(|reason| file_error("image_folder", folder, reason))?;
        let Some((first, _)) = files.first() else {
            return Err(file_error("image_folder", folder, format!("no images ({}) in sub-folders of it", ENDINGS.join(", "))));
        };
        let size = match options.size {
            Some(size) => size,
            None => {
                let image = decode(first).map_err(|reason| file_error("image_folder", first, reason))?;
                (image.height, image.width)
            }
        };
        let bytes = (0..=255).map(|v| options.scale.apply(v as f32)).collect();
        Ok(ImageFolder { classes, files, options, size, bytes })
    }
    /// The classes' names, sorted; a class is its place among them.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
    /// The file and the class of each record.
    pub fn files(&self) -> &[(PathBuf, usize)] {
        &self.files
    }
}
fn list(folder: &Path) -> std::result::Result<(Vec<String>, Vec<(PathBuf, usize)>), String> {
    let (mut classes, mut files) = (Vec::new(), Vec::new());
    for (path, is_folder) in entries(folder)? {
        if is_folder {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            collect(&path, classes.len(), &mut files)?;
            classes.push(name);
        }
    }
    Ok((classes, files))
}
/// The entries of a folder, sorted by name, and whether each is itself a folder.
fn entries(folder: &Path) -> std::result::Result<Vec<(PathBuf, bool)>, String> {
    let entry = |e: std::io::Result<fs::DirEntry>| e.and_then(|e| Ok((e.path(), e.file_type()?.is_dir())));
    let mut found =
        fs::read_dir(folder).and_then(|all| all.map(entry).collect::<std::io::Result<Vec<_>>>()).map_err(|e| format!("{}: {e}", folder.display()))?;
    found.sort();
    Ok(found)
}
fn collect(folder: &Path, class: usize, files: &mut Vec<(PathBuf, usize)>) -> std::result::Result<(), String> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let found = entries(&folder)?;
        files.extend(found.iter().filter(|(path, is_folder)| !is_folder && is_image(path)).map(|(path, _)| (path.clone(), class)));
        folders.extend(found.into_iter().rev().filter(|(_, is_folder)| *is_folder).map(|(path, _)| path));
    }
    Ok(())
}
fn decode(path: &Path) -> std::result::Result<Picture, String> {
    let file = adamant_formats::regular::open(path).map_err(|e| e.to_string())?;
    let size = file.metadata().map_err(|e| e.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("{size} bytes are over the limit of {MAX_BYTES}"));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    decode::decode(&bytes)
}
/// Is a file an image that can be read, by its name?
pub fn is_image(path: impl AsRef<Path>) -> bool {
    path.as_ref().extension().is_some_and(|e| ENDINGS.iter().any(|known| e.eq_ignore_ascii_case(known)))
}
/// One image as a batch `f32[1, channels, height, width]`, prepared as an [`ImageFolder`] would.
///
/// # Errors
/// `File`: it cannot be read. Channels other than 1 and 3, a size of 0.
#[track_caller]
pub fn read_image(path: impl AsRef<Path>, options: &ImageOptions) -> Result<Tensor> {
    let _call = adamant_core::scope::call("read_image");
    let path = path.as_ref();
    check(options)?;
    let image = decode(path).map_err(|reason| file_error("read_image", path, reason))?;
    let (height, width) = options.size.unwrap_or((image.height, image.width));
    let channels = options.channels;
    let bytes = image.resized(height, width).bytes(channels);
    let planes = (0..channels).flat_map(|c| bytes.iter().skip(c).step_by(channels));
    Tensor::from_vec(planes.map(|v| options.scale.apply(f32::from(*v))).collect::<Vec<_>>(), [1, channels, height, width]).ok()
}
#[track_caller]
fn check(options: &ImageOptions) -> Result<()> {
    if ![1, 3].contains(&options.channels) || options.size.is_some_and(|(h, w)| h == 0 || w == 0) {
        return Err(wrong("image", format!("{} channels and size {:?}: 1 or 3 channels, and at least one pixel", options.channels, options.size)));
    }
    Ok(())
}
/// A decoded image: bytes by row, column, channel.
#[derive(Debug)]
pub struct DecodedImage {
    bytes: Vec<u8>,
    class: usize,
}
impl Dataset for ImageFolder {
    type Record = DecodedImage;
    type Batch = (Tensor, Tensor);
    fn len(&self) -> usize {
        self.files.len()
    }
    fn read(&self, index: usize) -> std::result::Result<DecodedImage, BadRecord> {
        let (path, class) = &self.files[row_of(self, index)?];
        let bad = |reason: String| BadRecord::new(self.locate(index), reason);
        let image = decode(path).map_err(bad)?;
        let (height, width) = self.size;
        let size = (image.height, image.width);
        if size != self.size && self.options.size.is_none() {
            return Err(bad(format!("it has {} x {} pixels, and the first one {height} x {width}; give a size to resize to", size.0, size.1)));
        }
        Ok(DecodedImage { bytes: image.resized(height, width).bytes(self.options.channels), class: *class })
    }
    fn collate(&self, records: Vec<DecodedImage>) -> Result<(Tensor, Tensor)> {
        let ((height, width), channels) = (self.size, self.options.channels);
        let mut pixels = Vec::with_capacity(records.len() * channels * height * width);
        for record in &records {
            for channel in 0..channels {
                pixels.extend(record.bytes.iter().skip(channel).step_by(channels).map(|b| self.bytes[usize::from(*b)]));
            }
        }
        let classes: Vec<i64> = records.iter().map(|r| r.class as i64).collect();
        let count = records.len();
        Ok((Tensor::from_vec(pixels, [count, channels, height, width]).ok()?, Tensor::from_vec(classes, [count]).ok()?))
    }
    fn locate(&self, index: usize) -> Place {
        let file = self.files.get(index).map_or_else(|| "<none>".into(), |(path, _)| path.clone());
        Place { file, index, offset: 0 }
    }
    fn describe(&self) -> Description {
        let shape = Shape::new(&[self.options.channels, self.size.0, self.size.1]).ok();
        Description {
            inputs: shape.map(|shape| Facts { shape, dtype: DType::F32 }),
            targets: Some(Target::Classes { count: self.classes.len(), names: self.classes.clone() }),
            target_scale: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant_core::Device;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("b_dog/2.ppm", b"P6 2 1 255\n\x01\x02\x03\x04\x05\x06");
        write("b_dog/10.pgm", b"P5 2 1 255\n\x00\xff");
        write("b_dog/deep/x.ppm", b"P6 4 2 255\n0123456789ab0123456789ab");
        write("a_cat/bad.png", b"\x89PNG\r\n\x1a\n and no more");
        write("a_cat/notes.txt", b"not an image");
        write("README", b"neither");
        let png = fs::File::create(folder.path().join("a_cat/red.png")).unwrap();
        let mut encoder = png::Encoder::new(png, 2, 1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().unwrap().write_image_data(&[255, 0, 51, 255, 0, 51]).unwrap();
        let jpeg = jpeg_encoder::Encoder::new_file(folder.path().join("a_cat/red.jpeg"), 90).unwrap();
        jpeg.encode(&[255, 0, 51, 255, 0, 51], 2, 1, jpeg_encoder::ColorType::Rgb).unwrap();
        folder
    }
    #[test]
    fn an_image_of_the_wrong_class_size_or_colour() {
        Device::reference().make_current();
        let folder = folder();
        let set = ImageFolder::open(folder.path(), ImageOptions { size: Some((1, 2)), ..ImageOptions::default() }).unwrap();
        let names: Vec<_> = set.files().iter().map(|(p, c)| (p.file_name().unwrap().to_str().unwrap(), *c)).collect();
        assert_eq!(names, [("bad.png", 0), ("red.jpeg", 0), ("red.png", 0), ("10.pgm", 1), ("2.ppm", 1), ("x.ppm", 1)]);
        let (x, y) = set.collate([2, 4, 3].map(|k| set.read(k).unwrap()).into()).unwrap();
        assert_eq!((x.dims::<4>().unwrap(), y.to_vec::<i64>().unwrap()), ([3, 3, 1, 2], vec![0, 1, 1]));
        let bytes: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|v| v * 255.0).collect();
        assert_eq!(bytes, [255., 255., 0., 0., 51., 51., 1., 4., 2., 5., 3., 6., 0., 255., 0., 255., 0., 255.]);
        let resized = set.collate(vec![set.read(5).unwrap()]).unwrap().0;
        assert_eq!(resized.dims::<4>().unwrap(), [1, 3, 1, 2]);
        let grey = ImageFolder::open(folder.path(), ImageOptions { channels: 1, ..set.options }).unwrap();
        assert_eq!(grey.collate(vec![grey.read(3).unwrap()]).unwrap().0.to_vec::<f32>().unwrap(), [0.0, 1.0]);
        assert_eq!(set.describe().targets, Some(Target::Classes { count: 2, names: vec!["a_cat".into(), "b_dog".into()] }));
    }
    #[test]
    fn a_damaged_image_that_stops_the_run_or_is_taken() {
        let folder = folder();
        let set = ImageFolder::open(folder.path(), ImageOptions { size: Some((1, 2)), ..ImageOptions::default() }).unwrap();
        let bad = set.read(0).unwrap_err();
        assert!(bad.place.file.ends_with("a_cat/bad.png") && bad.place.index == 0, "{bad}");
        assert!(set.read(6).is_err());
        let error = ImageFolder::open(folder.path(), ImageOptions::default()).unwrap_err().to_string();
        assert!(error.contains("bad.png"), "{error}");
        fs::remove_file(folder.path().join("a_cat/bad.png")).unwrap();
        let set = ImageFolder::open(folder.path(), ImageOptions::default()).unwrap();
        let bad = set.read(4).unwrap_err().to_string();
        assert!(bad.contains("2 x 4 pixels, and the first one 1 x 2"), "{bad}");
        // A BMP of 2 x 2 whose second row is missing: 54 bytes of headers, then two pixels and two bytes of padding for each row.
        let mut bmp = [&b"BM"[..], &[0; 52], &[9; 8]].concat();
        for (at, value) in [(10, 54), (14, 40), (18, 2), (22, 2), (26, 1), (28, 24)] {
            bmp[at] = value;
        }
        for (rows, is_whole) in [(1, false), (2, true)] {
            fs::write(folder.path().join("b_dog/2.ppm"), [&bmp[..], &[9; 8].repeat(rows - 1)].concat()).unwrap();
            let read = decode(&folder.path().join("b_dog/2.ppm"));
            assert_eq!(read.is_ok(), is_whole, "{:?}", read.err());
        }
        // One pixel, blue before red.
        (bmp[18], bmp[22]) = (1, 1);
        fs::write(folder.path().join("b_dog/2.ppm"), [&bmp[..54], &[3, 2, 1, 0]].concat()).unwrap();
        assert_eq!(decode(&folder.path().join("b_dog/2.ppm")).unwrap().bytes(3), [1, 2, 3]);
        for size in [(4_000_000_000u32, 4_000_000_000u32), (60_000, 60_000)] {
            fs::write(folder.path().join("b_dog/2.ppm"), format!("P6 {} {} 255\n", size.0, size.1)).unwrap();
            assert!(set.read(3).is_err());
        }
    }
    #[test]
    fn a_folder_without_images_that_is_a_data_set() {
        let folder = tempfile::tempdir().unwrap();
        for options in
            [ImageOptions::default(), ImageOptions { channels: 2, ..ImageOptions::default() }, ImageOptions { size: Some((0, 1)), ..ImageOptions::default() }]
        {
            assert!(ImageFolder::open(folder.path(), options).is_err());
        }
        assert!(ImageFolder::open(folder.path().join("none"), ImageOptions::default()).unwrap_err().to_string().contains("none"));
    }
}
