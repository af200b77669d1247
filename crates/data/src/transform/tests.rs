//! Transforms beside torchvision's answers, and what they draw for a record.
use super::{rand_augment::KINDS, *};
use crate::{DataLoader, Labelled, LoaderState, Rows};
use serde_json::Value;
use std::sync::Arc;

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}
fn image(v: &Value) -> Image {
    let s: Vec<usize> = numbers(&v["shape"]).into_iter().map(|d| d as usize).collect();
    Image::new(numbers(&v["pixels"]).into_iter().map(|p| p as f32).collect(), [s[0], s[1], s[2]]).unwrap()
}
/// The same by ours.
fn made(name: &str, a: &[f64], x: &Image) -> Result<Image> {
    let n = |k: usize| a[k] as usize;
    let by = |name: &str| if name.contains("bilinear") { Interpolate::Bilinear } else { Interpolate::Nearest };
    let affine = |center| Affine { angle: a[0], translate: (a[1], a[2]), scale: a[3], shear: (a[4], a[5]), center, interpolation: by(name), fill: None };
    if let Some(kind) = name.strip_prefix("rand_augment_") {
        let all = RandAugment::default();
        let (op, strongest, _) = KINDS.iter().find(|(op, ..)| format!("{op:?}") == kind).unwrap();
        return all.change(x, *op, a[0] * all.strength(strongest(x.height as f64, x.width as f64)));
    }
    match name {
        "center_crop" => Ok(x.center_crop(n(0), n(1))),
        "crop" => Ok(x.crop(a[0] as i64, a[1] as i64, n(2), n(3))),
        "hflip" => Ok(x.hflip()),
        "vflip" => Ok(x.vflip()),
        "pad_constant" => x.pad([1, 2, 3, 0], PadMode::Constant(0.5)),
        "pad_edge" => x.pad([1, 2, 3, 0], PadMode::Edge),
        "pad_reflect" => x.pad([1, 2, 3, 0], PadMode::Reflect),
        "pad_symmetric" => x.pad([1, 2, 3, 0], PadMode::Symmetric),
        "resize_bilinear" | "resize_nearest" => x.resize(n(0), n(1), by(name)),
        "rotate_nearest" | "rotate_bilinear" => x.rotate(a[0], by(name), None),
        "rotate_nearest_fill" | "rotate_bilinear_fill" => x.rotate(a[0], by(name), Some(0.5)),
        "affine_nearest" | "affine_bilinear" => x.affine(&affine(None)),
        "affine_corner" => x.affine(&Affine { shear: (11.3, 0.0), center: Some((0.0, 0.0)), ..Affine::default() }),
        "adjust_brightness" => x.adjust_brightness(a[0]),
        "adjust_contrast" => x.adjust_contrast(a[0]),
        "adjust_saturation" => x.adjust_saturation(a[0]),
        "adjust_sharpness" => x.adjust_sharpness(a[0]),
        "adjust_hue" => x.adjust_hue(a[0]),
        "adjust_gamma" => x.adjust_gamma(a[0], a[1]),
        "grayscale" => x.grayscale(n(0)),
        "invert" => Ok(x.invert()),
        "posterize" => x.posterize(n(0) as u32),
        "solarize" => Ok(x.solarize(a[0])),
        "autocontrast" => x.autocontrast(),
        "equalize" => Ok(x.equalize()),
        "erase" => x.erase(n(0), n(1), n(2), n(3), &[a[4] as f32]),
        "normalize" => x.normalize(&[a[0] as f32], &[a[1] as f32]),
        other => panic!("no transform {other}"),
    }
}
#[test]
fn a_transform_that_is_not_torchvisions() {
    let all: Value = serde_json::from_str(include_str!("../../tests/transforms.json")).unwrap();
    let cases = all["cases"].as_array().unwrap();
    assert!(cases.len() > 150);
    let mut wrong = Vec::new();
    for case in cases {
        let (name, args) = (case["name"].as_str().unwrap(), numbers(&case["args"]));
        let (got, want) = (made(name, &args, &image(&all["images"][case["image"].as_str().unwrap()])).unwrap(), image(case));
        assert_eq!(got.size(), want.size(), "{name} {args:?}");
        let worst = got.pixels.iter().zip(&want.pixels).map(|(g, w)| (g - w).abs()).fold(0.0, |worst, d| if d > worst || d.is_nan() { d } else { worst });
        if worst > 2e-6 || worst.is_nan() {
            wrong.push(format!("{name} {args:?} of {} is off by {worst:.2e}", case["image"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
/// An image whose pixels all differ.
fn numbered(size: [usize; 3]) -> Image {
    let n = size.iter().product::<usize>();
    Image::new((0..n).map(|k| (k + 1) as f32 / (n + 1) as f32).collect(), size).unwrap()
}
fn rng(index: usize) -> DrawRng {
    Draw { seed: 3, epoch: 1, index }.rng()
}
#[test]
fn a_draw_that_prefers_a_place_or_a_side() {
    // Every place of a crop as often as the others, every flip half of the time.
    let image = numbered([1, 4, 5]);
    let mut places = std::collections::BTreeMap::new();
    let mut flips = [0; 2];
    for k in 0..3000 {
        let cut = RandomCrop::new((3, 3)).apply(image.clone(), &mut rng(k)).unwrap();
        *places.entry(cut.pixels[0].to_bits()).or_insert(0) += 1;
        flips[0] += usize::from(RandomHorizontalFlip { p: 0.5 }.apply(image.clone(), &mut rng(k)).unwrap() != image);
        flips[1] += usize::from(RandomVerticalFlip { p: 0.2 }.apply(image.clone(), &mut rng(k)).unwrap() != image);
    }
    assert!(places.len() == 6 && places.values().all(|n| (400..600).contains(n)), "{places:?}");
    assert!((1350..1650).contains(&flips[0]) && (480..720).contains(&flips[1]), "{flips:?}");
    // With a border, a corner of it is a place like any other.
    let padded = RandomCrop { padding: [1; 4], ..RandomCrop::new((4, 5)) };
    let seen: std::collections::BTreeSet<Vec<u32>> =
        (0..500).map(|k| padded.apply(image.clone(), &mut rng(k)).unwrap().pixels.iter().map(|v| v.to_bits()).collect()).collect();
    assert_eq!(seen.len(), 9);
}
#[test]
fn a_drawn_area_aspect_or_factor_beyond_its_bounds() {
    let size = [3, 20, 30];
    // Erased parts are what they overwrite: their area and aspect.
    let erase = RandomErasing { p: 1.0, value: Some(vec![9.0]), ..RandomErasing::default() };
    let mut areas = Vec::new();
    for k in 0..400 {
        let erased = erase.apply(numbered(size), &mut rng(k)).unwrap();
        let gone = erased.plane(0).iter().filter(|v| **v == 9.0).count();
        areas.push(gone as f64 / 600.0);
        assert_eq!(gone * 3, erased.pixels.iter().filter(|v| **v == 9.0).count());
    }
    let mean = areas.iter().sum::<f64>() / 400.0;
    assert!(areas.iter().all(|a| *a == 0.0 || (0.01..0.36).contains(a)) && (0.13..0.22).contains(&mean), "{mean}");
    let noise = RandomErasing { p: 1.0, value: None, ..RandomErasing::default() }.apply(numbered(size), &mut rng(1)).unwrap();
    assert!(noise.pixels.iter().any(|v| *v < 0.0));
    // A resized crop of all of the image in its own aspect is the image.
    let whole = RandomResizedCrop { scale: (1.0, 1.0), ratio: (1.5, 1.5), ..RandomResizedCrop::new((20, 30)) };
    assert_eq!(whole.apply(numbered(size), &mut rng(1)).unwrap(), numbered(size));
    // Aspects that fit nowhere: the middle.
    let middle = RandomResizedCrop { scale: (1.0, 1.0), ratio: (0.5, 0.5), ..RandomResizedCrop::new((20, 10)) };
    assert_eq!(middle.apply(numbered(size), &mut rng(1)).unwrap(), numbered(size).crop(0, 10, 20, 10));
    // Rotations by none, maps of nothing.
    for k in 0..50 {
        let still = RandomAffine { scale: (1.0, 1.0), ..RandomAffine::new(0.0) };
        assert_eq!(still.apply(numbered(size), &mut rng(k)).unwrap(), numbered(size));
        assert_eq!(RandomRotation::new(0.0).apply(numbered(size), &mut rng(k)).unwrap(), numbered(size));
        let moved = RandomAffine { translate: (0.1, 0.0), ..RandomAffine::new(0.0) }.apply(numbered(size), &mut rng(k)).unwrap();
        assert!((-3..=3).any(|dx| moved == numbered(size).crop(0, dx, 20, 30)), "{k}");
        let bright = ColorJitter::new(0.5, 0.0, 0.0, 0.0).apply(numbered(size), &mut rng(k)).unwrap();
        let factor = bright.pixels[10] / numbered(size).pixels[10];
        assert!((0.5..=1.5).contains(&factor));
        assert_eq!(ColorJitter::new(0.0, 0.0, 0.0, 0.0).apply(numbered(size), &mut rng(k)).unwrap(), numbered(size));
        let grey = RandomGrayscale { p: 1.0 }.apply(numbered(size), &mut rng(k)).unwrap();
        assert!(grey.channels == 3 && grey.plane(0) == grey.plane(2));
        let all = RandAugment { num_ops: 3, ..RandAugment::default() }.apply(numbered(size), &mut rng(k)).unwrap();
        assert!(all.size() == size && all.pixels.iter().all(|v| (0.0..=1.0).contains(v)), "{k}");
    }
}
#[test]
fn options_that_make_no_sense_and_are_taken() {
    let size = [2, 4, 4];
    let refused: Vec<Box<dyn Transform>> = vec![
        Box::new(RandomHorizontalFlip { p: 1.5 }),
        Box::new(RandomApply { transform: CenterCrop { size: (1, 1) }, p: f64::NAN }),
        Box::new(RandomCrop::new((5, 4))),
        Box::new(Resize { size: (0, 4), interpolation: Interpolate::Nearest }),
        Box::new(Pad { padding: [4, 0, 0, 0], mode: PadMode::Reflect }),
        Box::new(Normalize { mean: vec![0.0; 3], std: vec![1.0; 2] }),
        Box::new(Normalize { mean: vec![0.0], std: vec![0.0] }),
        Box::new(Grayscale { channels: 1 }),
        Box::new(RandomAffine { scale: (0.0, 1.0), ..RandomAffine::new(1.0) }),
        Box::new(RandomRotation { degrees: (2.0, 1.0), ..RandomRotation::new(1.0) }),
        Box::new(RandomErasing { p: 1.0, value: Some(vec![1.0; 3]), scale: (0.1, 0.3), ..RandomErasing::default() }),
        Box::new(RandomResizedCrop { ratio: (0.0, 1.0), ..RandomResizedCrop::new((2, 2)) }),
        Box::new(ColorJitter { hue: Some((-0.6, 0.6)), ..ColorJitter::default() }),
        Box::new(RandAugment { magnitude: 31, ..RandAugment::default() }),
    ];
    for (k, transform) in refused.iter().enumerate() {
        assert!(transform.apply(numbered(size), &mut rng(k)).is_err(), "{k}");
    }
    assert!(Image::new(vec![0.0; 5], [1, 2, 3]).is_err());
}
fn set() -> Arc<Transformed<Labelled<Rows, Rows>, Compose>> {
    let pixels = Rows::new(numbered([24, 1, 36]).into_pixels(), [24, 1, 6, 6]).unwrap();
    let pairs = Labelled::new(pixels, Rows::classes((0..24).map(|k| k % 3).collect(), 3).unwrap()).unwrap();
    let all = Compose::new()
        .then(RandomCrop { padding: [1; 4], ..RandomCrop::new((6, 6)) })
        .then(RandomApply { transform: RandomRotation::new(30.0), p: 0.5 })
        .then(RandAugment::default())
        .then(RandomResizedCrop::new((5, 4)))
        .then(RandomErasing { value: None, ..RandomErasing::default() });
    Arc::new(Transformed::new(pairs, all, [1, 6, 6]).unwrap())
}
fn batches(workers: usize, size: usize, from: Option<LoaderState>) -> Vec<(LoaderState, Vec<u32>)> {
    adamant_core::Device::reference().scoped(|| {
        let mut loader = DataLoader::new(set()).batch_size(size).shuffle(2).workers(workers).build().unwrap();
        from.into_iter().for_each(|state| loader.restore(state).unwrap());
        let mut all = Vec::new();
        for _ in 0..2 {
            while let Some(batch) = loader.next_batch() {
                let x = batch.unwrap().0;
                assert_eq!(x.dims::<4>().unwrap()[1..], [1, 5, 4]);
                all.push((loader.state(), x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()));
            }
        }
        all
    })
}
#[test]
fn an_image_that_depends_on_workers_batches_or_where_one_began() {
    let whole = batches(0, 5, None);
    assert_eq!(whole, batches(3, 5, None));
    let pixels = |all: &[(LoaderState, Vec<u32>)]| all.iter().flat_map(|b| b.1.clone()).collect::<Vec<_>>();
    assert_eq!(pixels(&whole), pixels(&batches(2, 8, None)));
    for cut in [0, 3, 4] {
        assert_eq!(batches(2, 5, Some(whole[cut].0))[..9 - cut], whole[cut + 1..]);
    }
    // Each epoch draws otherwise, and what comes out is known before.
    let sorted = |part: &[(LoaderState, Vec<u32>)]| {
        let mut all: Vec<Vec<u32>> = pixels(part).chunks(20).map(<[u32]>::to_vec).collect();
        all.sort();
        all
    };
    assert_ne!(sorted(&whole[..5]), sorted(&whole[5..]));
    let set = set();
    assert_eq!(set.describe().inputs.unwrap().shape.to_string(), "[1, 5, 4]");
    let again = |k| set.collate(vec![set.read(k).unwrap()]).unwrap().0.to_vec::<f32>().unwrap();
    adamant_core::Device::reference().scoped(|| assert_eq!(again(3), again(3)));
    let pairs = || Labelled::new(Rows::new(vec![0f32; 12], [3, 4]).unwrap(), Rows::new(vec![0i64; 3], [3]).unwrap()).unwrap();
    assert!(Transformed::new(pairs(), CenterCrop { size: (1, 1) }, [1, 2, 3]).is_err());
    assert!(Transformed::new(pairs(), RandomCrop::new((5, 5)), [1, 2, 2]).is_err());
}
