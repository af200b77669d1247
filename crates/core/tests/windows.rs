//! Convolutions and poolings: values by hand, gradients against differences, refusals.
mod numeric;
use adamant_core::{functional::*, *};
use numeric::{check, tensor};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
fn word(t: Tensor) -> &'static str {
    t.ok().map_or_else(|e| e.kind().word(), |_| "fine")
}

#[test]
fn gradients_of_convolutions() -> Result<()> {
    on_reference(|| {
        let o = ConvOptions { stride: 2.into(), padding: 1.into(), dilation: 2.into(), groups: 2 };
        check("conv1d", &[tensor(&[2, 4, 7], 1), tensor(&[2, 2, 2], 2), tensor(&[2], 3)], |x| conv1d(&x[0], &x[1], Some(&x[2]), &o))?;
        check("conv2d without a batch", &[tensor(&[2, 4, 3], 1), tensor(&[2, 2, 2, 2], 2)], |x| {
            conv2d(&x[0], &x[1], None, &ConvOptions { padding: Padding::Same, ..Default::default() })
        })?;
        check("conv3d", &[tensor(&[1, 1, 2, 3, 2], 1), tensor(&[1, 1, 2, 2, 2], 2)], |x| conv3d(&x[0], &x[1], None, &ConvOptions::default()))?;
        let o = ConvTransposeOptions { stride: 2.into(), padding: 1.into(), output_padding: 1.into(), groups: 2, ..Default::default() };
        check("conv_transpose1d", &[tensor(&[2, 4, 3], 1), tensor(&[4, 1, 3], 2), tensor(&[2], 3)], |x| conv_transpose1d(&x[0], &x[1], Some(&x[2]), &o))?;
        check("conv_transpose2d", &[tensor(&[1, 2, 2, 2], 1), tensor(&[2, 1, 2, 2], 2)], |x| {
            conv_transpose2d(&x[0], &x[1], None, &ConvTransposeOptions { stride: [1, 2].into(), ..Default::default() })
        })
    })
}
#[test]
fn a_transposed_convolution_is_longer_by_its_output_padding() -> Result<()> {
    on_reference(|| {
        let (x, w) = (Tensor::from_vec(vec![1.0f32, 2.0], [1, 1, 2]), Tensor::from_vec(vec![1.0f32, 10.0], [1, 1, 2]));
        // Stride 1, dilation 2: x[0] at 0 and 2, x[1] at 1 and 3.
        let y = conv_transpose1d(&x, &w, None, &ConvTransposeOptions { dilation: 2.into(), ..Default::default() });
        assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 10.0, 20.0]);
        let y = conv_transpose1d(&x, &w, None, &ConvTransposeOptions { dilation: 2.into(), output_padding: 1.into(), ..Default::default() });
        assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 10.0, 20.0, 0.0]);
        let y = conv_transpose1d(&x, &w, None, &ConvTransposeOptions { dilation: 2.into(), output_padding: 1.into(), padding: 1.into(), ..Default::default() });
        assert_eq!(y.to_vec::<f32>()?, [2.0, 10.0, 20.0]);
        let y = conv_transpose1d(&x, &w, None, &ConvTransposeOptions { stride: 3.into(), output_padding: 2.into(), ..Default::default() });
        assert_eq!(y.to_vec::<f32>()?, [1.0, 10.0, 0.0, 2.0, 20.0, 0.0, 0.0]);
        Ok(())
    })
}
#[test]
fn convolutions_refuse_what_pytorch_refuses() {
    on_reference(|| {
        let x = tensor(&[1, 4, 5, 5], 1);
        let w = tensor(&[2, 4, 3, 3], 2);
        let d = ConvOptions::default();
        assert_eq!(word(conv2d(&x, &w, None, &d)), "fine");
        assert_eq!(word(conv2d(&tensor(&[1, 3, 5, 5], 1), &w, None, &d)), "shape");
        assert_eq!(word(conv2d(&tensor(&[1, 4, 2, 2], 1), &w, None, &d)), "shape");
        assert_eq!(word(conv2d(&x, &w, None, &ConvOptions { stride: 0.into(), ..Default::default() })), "argument");
        assert_eq!(word(conv2d(&x, &tensor(&[3, 2, 3, 3], 2), None, &ConvOptions { groups: 2, ..Default::default() })), "argument");
        assert_eq!(word(conv2d(&x, &w, Some(&tensor(&[3], 3)), &d)), "shape");
        assert_eq!(word(conv2d(&x, &w, None, &ConvOptions { padding: Padding::Same, stride: 2.into(), ..Default::default() })), "argument");
        assert_eq!(word(conv1d(&x, &w, None, &d)), "shape");
        assert_eq!(
            word(conv_transpose2d(&x, &tensor(&[4, 1, 2, 2], 2), None, &ConvTransposeOptions { output_padding: 1.into(), ..Default::default() })),
            "argument"
        );
    });
}
#[test]
fn poolings_by_hand() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec((1..=5).map(|v| v as f32).collect(), [1, 5]);
        let (y, i) = max_pool1d(&x, &MaxPoolOptions { ceil_mode: true, ..MaxPoolOptions::new(2) });
        assert_eq!((y.to_vec::<f32>()?, i.to_vec::<i64>()?), (vec![2.0, 4.0, 5.0], vec![1, 3, 4]));
        let pool = AvgPoolOptions { stride: Some(2.into()), padding: 1.into(), ceil_mode: true, ..AvgPoolOptions::new(3) };
        // Windows at -1, 1, 3 (over 3..6, of which 5 is padding): (0+1+2)/3, (2+3+4)/3, (4+5+0)/3.
        assert_eq!(avg_pool1d(&x, &pool).to_vec::<f32>()?, [1.0, 3.0, 3.0]);
        assert_eq!(avg_pool1d(&x, &AvgPoolOptions { count_include_pad: false, ..pool.clone() }).to_vec::<f32>()?, [1.5, 3.0, 4.5]);
        assert_eq!(avg_pool1d(&x, &AvgPoolOptions { divisor_override: Some(1), ..pool }).to_vec::<f32>()?, [3.0, 9.0, 9.0]);
        // In ceil mode the part of a window beyond the padding does not count.
        assert_eq!(avg_pool1d(&x, &AvgPoolOptions { ceil_mode: true, ..AvgPoolOptions::new(2) }).to_vec::<f32>()?, [1.5, 3.5, 5.0]);
        assert_eq!(adaptive_avg_pool(&x, &[Some(3)]).to_vec::<f32>()?, [1.5, 3.0, 4.5]);
        let (y, i) = adaptive_max_pool(&x, &[Some(3)]);
        assert_eq!((y.to_vec::<f32>()?, i.to_vec::<i64>()?), (vec![2.0, 4.0, 5.0], vec![1, 3, 4]));
        assert_eq!(adaptive_avg_pool(&x, &[Some(7)]).to_vec::<f32>()?.len(), 7);
        Ok(())
    })
}
#[test]
fn gradients_of_poolings() -> Result<()> {
    on_reference(|| {
        let x = tensor(&[2, 2, 5, 4], 1);
        check("max_pool2d", std::slice::from_ref(&x), |x| {
            max_pool2d(&x[0], &MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..MaxPoolOptions::new(3) }).0
        })?;
        check("avg_pool2d", std::slice::from_ref(&x), |x| {
            avg_pool2d(
                &x[0],
                &AvgPoolOptions { stride: Some(2.into()), padding: 1.into(), ceil_mode: true, count_include_pad: false, ..AvgPoolOptions::new([3, 2]) },
            )
        })?;
        check("adaptive_avg_pool2d", std::slice::from_ref(&x), |x| adaptive_avg_pool(&x[0], &[Some(3), None]))?;
        check("adaptive_max_pool2d", std::slice::from_ref(&x), |x| adaptive_max_pool(&x[0], &[Some(3), Some(3)]).0)
    })
}
#[test]
fn adaptive_indices_are_those_of_the_whole_plane() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec(vec![5.0f32, 5.0, 1.0, 2.0, 9.0, 9.0, 9.0, 3.0, 0.0], [1, 3, 3]);
        let (y, i) = adaptive_max_pool(&x, &[Some(2), Some(2)]);
        assert_eq!(y.to_vec::<f32>()?, [9.0, 9.0, 9.0, 9.0]);
        assert_eq!(i.to_vec::<i64>()?, [4, 4, 4, 4]);
        Ok(())
    })
}
#[test]
fn unpooling_puts_the_maxima_back() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec(vec![1.0f64, 5.0, 2.0, 3.0, 4.0, 0.0, 7.0, 6.0], [1, 2, 4]);
        let (y, i) = max_pool2d(&x, &MaxPoolOptions::new(2));
        assert_eq!(max_unpool(&y, &i, &[2, 4]).to_vec::<f64>()?, [0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 7.0, 0.0]);
        check("max_unpool", &[y], |y| max_unpool(&y[0], &i, &[2, 4]))?;
        assert_eq!(max_unpool(&tensor(&[1, 1, 2], 1), &i, &[2, 2]).to_vec::<f64>().unwrap_err().kind().word(), "index");
        Ok(())
    })
}
#[test]
fn poolings_refuse_what_pytorch_refuses() {
    on_reference(|| {
        let x = tensor(&[1, 1, 2, 2], 1);
        assert_eq!(word(max_pool2d(&x, &MaxPoolOptions { padding: 2.into(), ..MaxPoolOptions::new(2) }).0), "argument");
        assert_eq!(word(max_pool2d(&x, &MaxPoolOptions::new(3)).0), "shape");
        assert_eq!(word(max_pool2d(&x, &MaxPoolOptions { stride: Some(0.into()), ..MaxPoolOptions::new(1) }).0), "argument");
        assert_eq!(word(avg_pool1d(&x, &AvgPoolOptions::new(1))), "shape");
        assert_eq!(word(avg_pool2d(&x, &AvgPoolOptions { divisor_override: Some(0), ..AvgPoolOptions::new(1) })), "argument");
    });
}
