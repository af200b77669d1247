//! Padding, folding, resampling, sampling by grids, activations and quantization.
mod numeric;
use adamant_core::{functional::*, *};
use numeric::{check, tensor};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn word(t: Tensor) -> &'static str {
    t.materialize().map_or_else(|e| e.kind().word(), |()| "fine")
}
fn row(v: &[f32]) -> Tensor {
    Tensor::from_vec(v.to_vec(), [1, 1, v.len()])
}

#[test]
fn padding_by_hand() -> Result<()> {
    on_reference(|| {
        let x = row(&[1.0, 2.0, 3.0]);
        let table: &[(PadMode, [isize; 2], &[f32])] = &[
            (PadMode::Constant(9.0f32.into()), [1, 2], &[9.0, 1.0, 2.0, 3.0, 9.0, 9.0]),
            (PadMode::Constant(9.0f32.into()), [-1, 1], &[2.0, 3.0, 9.0]),
            (PadMode::Reflect, [2, 1], &[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]),
            (PadMode::Replicate, [4, 1], &[1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0]),
            (PadMode::Circular, [1, 3], &[3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
            (PadMode::Replicate, [-1, 1], &[2.0, 3.0, 3.0]),
        ];
        for (mode, widths, want) in table {
            assert_eq!(pad(&x, widths, *mode).to_vec::<f32>()?, *want, "{mode:?} {widths:?}");
        }
        assert_eq!(word(pad(&x, &[3, 0], PadMode::Reflect)), "argument");
        assert_eq!(word(pad(&x, &[4, 0], PadMode::Circular)), "argument");
        assert_eq!(word(pad(&x, &[1, 1, 1], PadMode::default())), "argument");
        assert_eq!(word(pad(&x, &[1, 1, 1, 1, 1, 1], PadMode::Reflect)), "shape");
        for mode in [PadMode::Reflect, PadMode::Replicate, PadMode::Circular, PadMode::default()] {
            check("pad", &[tensor(&[1, 3, 4], 1)], |x| pad(&x[0], &[2, 1, 1, 2], mode))?;
        }
        Ok(())
    })
}
#[test]
fn fold_adds_what_unfold_spread() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[2, 2, 4, 5], 1);
        let o = UnfoldOptions { stride: 2.into(), padding: 1.into(), dilation: [1, 2].into(), ..UnfoldOptions::new([2, 3]) };
        let columns = unfold(&x, &o);
        assert_eq!(columns.dims::<3>()?, [2, 12, 6]);
        // <unfold(x), c> = <x, fold(c)>: each is the other's transpose.
        let c = tensor(&[2, 12, 6], 2);
        let (left, right) = ((&columns * &c).sum(..).item::<f64>()?, (&x * fold(&c, [4, 5], &o)).sum(..).item::<f64>()?);
        assert!((left - right).abs() < 1e-12, "{left} {right}");
        // A convolution is a product with the columns.
        let w = tensor(&[3, 2, 2, 3], 3);
        let conv = conv2d(&x, &w, None, &ConvOptions { stride: 2.into(), padding: 1.into(), dilation: [1, 2].into(), groups: 1 });
        let product = w.reshape([1, 3, 12]).expand([2, 3, 12]).matmul(&columns);
        for (a, b) in conv.to_vec::<f64>()?.iter().zip(product.to_vec::<f64>()?) {
            assert!((a - b).abs() < 1e-12);
        }
        check("unfold", &[tensor(&[2, 3, 3], 1)], |x| unfold(&x[0], &UnfoldOptions::new(2)))?;
        check("fold", &[tensor(&[4, 4], 1)], |x| fold(&x[0], [3, 3], &UnfoldOptions::new(2)))?;
        assert_eq!(word(fold(&c, [6, 5], &o)), "shape");
        assert_eq!(word(unfold(&tensor(&[1, 1, 2, 2], 1), &UnfoldOptions::new(3))), "argument");
        Ok(())
    })
}
#[test]
fn shuffles_are_each_others_inverse() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[2, 8, 2, 3], 1);
        let y = pixel_shuffle(&x, 2);
        assert_eq!(y.dims::<4>()?, [2, 2, 4, 6]);
        assert_eq!(pixel_unshuffle(&y, 2).to_vec::<f64>()?, x.to_vec::<f64>()?);
        assert_eq!(channel_shuffle(&channel_shuffle(&x, 2), 4).to_vec::<f64>()?, x.to_vec::<f64>()?);
        assert_eq!(word(pixel_shuffle(&tensor(&[1, 3, 2, 2], 1), 2)), "shape");
        Ok(())
    })
}
#[test]
fn resampling_by_hand() -> Result<()> {
    on_reference(|| {
        let x = row(&[1.0, 2.0, 4.0]);
        let to = |n: usize, mode, align_corners| interpolate(&x, &Resize::Size(vec![n]), InterpolateOptions { mode, align_corners }).to_vec::<f32>();
        assert_eq!(to(6, InterpolateMode::Nearest, false)?, [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
        assert_eq!(to(2, InterpolateMode::Nearest, false)?, [1.0, 2.0]);
        assert_eq!(to(2, InterpolateMode::NearestExact, false)?, [1.0, 4.0]);
        assert_eq!(to(5, InterpolateMode::Linear, true)?, [1.0, 1.5, 2.0, 3.0, 4.0]);
        assert_eq!(to(6, InterpolateMode::Linear, false)?, [1.0, 1.25, 1.75, 2.5, 3.5, 4.0]);
        assert_eq!(to(2, InterpolateMode::Area, false)?, [1.5, 3.0]);
        assert_eq!(to(1, InterpolateMode::Linear, true)?, [1.0]);
        assert_eq!(word(interpolate(&x, &Resize::Size(vec![0]), InterpolateOptions::default())), "argument");
        assert_eq!(word(interpolate(&x, &Resize::Size(vec![4]), InterpolateOptions { mode: InterpolateMode::Nearest, align_corners: true })), "argument");
        Ok(())
    })
}
#[test]
fn gradients_of_resampling() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[1, 2, 3, 4], 1);
        for (mode, align_corners) in [
            (InterpolateMode::Nearest, false),
            (InterpolateMode::Linear, false),
            (InterpolateMode::Linear, true),
            (InterpolateMode::Bicubic, false),
            (InterpolateMode::Area, false),
        ] {
            check(&format!("{mode:?}"), std::slice::from_ref(&x), |x| {
                interpolate(&x[0], &Resize::Size(vec![5, 3]), InterpolateOptions { mode, align_corners })
            })?;
        }
        check("trilinear by a scale", &[tensor(&[1, 1, 2, 2, 2], 1)], |x| {
            interpolate(&x[0], &Resize::Scale(vec![1.5]), InterpolateOptions { mode: InterpolateMode::Linear, align_corners: false })
        })?;
        let grid = tensor(&[1, 2, 3, 2], 5) * 1.3;
        for mode in [Sampling::Bilinear, Sampling::Nearest, Sampling::Bicubic] {
            for padding in [Beyond::Zeros, Beyond::Border, Beyond::Reflection] {
                for align_corners in [false, true] {
                    check(&format!("grid_sample {mode:?} {padding:?} {align_corners}"), &[x.clone(), grid.clone()], |x| {
                        grid_sample(&x[0], &x[1], GridSampleOptions { mode, padding, align_corners })
                    })?;
                }
            }
        }
        check("grid_sample in three dimensions", &[tensor(&[1, 1, 2, 3, 2], 1), tensor(&[1, 1, 2, 2, 3], 2)], |x| {
            grid_sample(&x[0], &x[1], GridSampleOptions::default())
        })?;
        check("affine_grid", &[tensor(&[2, 2, 3], 1)], |x| affine_grid(&x[0], &[2, 1, 2, 3], false))
    })
}
#[test]
fn the_identity_map_samples_the_tensor_itself() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[1, 2, 3, 4], 1);
        let theta = Tensor::from_vec(vec![1.0f64, 0.0, 0.0, 0.0, 1.0, 0.0], [1, 2, 3]);
        for align_corners in [false, true] {
            for mode in [Sampling::Bilinear, Sampling::Nearest, Sampling::Bicubic] {
                let y = grid_sample(&x, &affine_grid(&theta, &[1, 2, 3, 4], align_corners), GridSampleOptions { mode, align_corners, ..Default::default() });
                for (a, b) in y.to_vec::<f64>()?.iter().zip(x.to_vec::<f64>()?) {
                    assert!((a - b).abs() < 1e-12, "{mode:?} {align_corners}: {a} {b}");
                }
            }
        }
        // A position that is no number is beyond the edge, and reads nothing out of range.
        let nowhere = Tensor::from_vec(vec![f64::NAN, f64::INFINITY], [1, 1, 1, 2]);
        assert_eq!(grid_sample(&x, &nowhere, GridSampleOptions { mode: Sampling::Nearest, ..Default::default() }).to_vec::<f64>()?, [0.0, 0.0]);
        Ok(())
    })
}
#[test]
fn gradients_of_activations() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[2, 4], 3) * 4.0;
        type Function = fn(&Tensor) -> Tensor;
        let table: &[(&str, Function)] = &[
            ("leaky_relu", |x| x.leaky_relu(0.1)),
            ("elu", |x| x.elu(1.3)),
            ("celu", |x| x.celu(0.7)),
            ("selu", Tensor::selu),
            ("softplus", |x| x.softplus_with(2.0, 3.0)),
            ("hardtanh", |x| x.hardtanh(-1.0, 2.0)),
            ("relu6", Tensor::relu6),
            ("hardsigmoid", Tensor::hardsigmoid),
            ("hardswish", Tensor::hardswish),
            ("hardshrink", |x| x.hardshrink(0.5)),
            ("softshrink", |x| x.softshrink(0.5)),
            ("threshold", |x| x.threshold(0.1, 7.0)),
            ("glu", |x| x.glu(1)),
            ("swiglu", Tensor::swiglu),
            ("geglu", Tensor::geglu),
            ("logit", |x| x.sigmoid().logit_with(0.2)),
        ];
        for (name, f) in table {
            check(name, std::slice::from_ref(&x), |x| f(&x[0]))?;
        }
        check("prelu", &[tensor(&[2, 3, 2], 1), tensor(&[3], 2)], |x| x[0].prelu(&x[1]))?;
        let huge = Tensor::from_vec(vec![1e4f32, -1e4, 0.0], [3]).tracked();
        for (name, f) in table.iter().filter(|t| !matches!(t.0, "glu" | "swiglu" | "geglu")) {
            let g = f(&huge).sum(..).backward()?;
            let g = g.get(&huge).map(|g| g.to_vec::<f32>()).transpose()?.unwrap_or_default();
            assert!(g.len() == 3 && g.iter().all(|v| v.is_finite()), "{name}: {g:?}");
        }
        assert_eq!(word(tensor(&[2, 3], 1).glu(-1)), "shape");
        Ok(())
    })
}
#[test]
fn fake_quantization_passes_the_gradient_where_the_value_fits() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec(vec![-9.0f32, -0.26, 0.25, 0.24, 9.0], [5]).tracked();
        let y = fake_quantize_per_tensor(&x, 0.5, 1, -8, 7);
        // Ties go to the even step: 0.25 / 0.5 = 0.5 rounds to 0.
        assert_eq!(y.to_vec::<f32>()?, [-4.5, -0.5, 0.0, 0.0, 3.0]);
        assert_eq!(y.sum(..).backward()?.get(&x).map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![0.0, 1.0, 1.0, 1.0, 0.0]));
        let steps = quantize(&x, 0.5, 1, DType::I8);
        assert_eq!(steps.to_vec::<i8>()?, [-17, 0, 1, 1, 19]);
        assert_eq!(dequantize(&steps, 0.5, 1).to_vec::<f32>()?, [-9.0, -0.5, 0.0, 0.0, 9.0]);
        let scales = Tensor::from_vec(vec![0.5f32, 0.25], [2]);
        let zeros = Tensor::from_vec(vec![0i32, 0], [2]);
        let y = fake_quantize_per_channel(&Tensor::from_vec(vec![0.6f32; 4], [2, 2]), &scales, &zeros, 1, -8, 7);
        assert_eq!(y.to_vec::<f32>()?, [0.5, 0.5, 0.5, 0.5]);
        assert_eq!(word(fake_quantize_per_tensor(&x, 0.5, 9, -8, 7)), "argument");
        assert_eq!(word(quantize(&x, 0.5, 0, DType::I32)), "dtype");
        Ok(())
    })
}
#[test]
fn gradients_are_clipped_by_the_norm_of_all() -> Result<()> {
    on_reference(|| {
        let (a, b) = (Tensor::from_vec(vec![3.0f64], [1]), Tensor::from_vec(vec![0.0f64, 4.0], [2]));
        let (clipped, norm) = clip_grad_norm(&[&a, &b], 1.0, 2.0);
        assert_eq!(norm.item::<f64>()?, 5.0);
        assert!((clipped[1].to_vec::<f64>()?[1] - 0.8).abs() < 1e-6);
        let (same, _) = clip_grad_norm(&[&a, &b], 100.0, f64::INFINITY);
        assert_eq!(same[0].to_vec::<f64>()?, [3.0]);
        Ok(())
    })
}
#[test]
fn rotary_turns_pairs_of_halves() -> Result<()> {
    on_reference(|| {
        let x = [tensor(&[2, 3, 4], 1), tensor(&[3, 4], 2), tensor(&[3, 4], 3)];
        check("rotary_half", &x, |x| rotary_half(&x[0], &x[1], &x[2]))
    })
}
