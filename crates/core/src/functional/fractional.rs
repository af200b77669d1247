//! Max pooling with a step that is no whole number: windows whose starts are drawn.
use super::Sizes;
use crate::{
    DType, ErrorKind, Shape, Tensor,
    tensor::compose::{Built, compose, refuse},
};

/// Windows and output of [`fractional_max_pool`], a size for each trailing axis.
#[derive(Clone, Debug)]
pub struct FractionalMaxPoolOptions {
    /// the window's sizes
    pub kernel_size: Sizes,
    /// how many windows there are along each axis
    pub output_size: Sizes,
}
/// The starts of the windows along one axis, `[planes, windows]`: floor((i + u) a) - floor(u a) with a = (size - kernel) / (windows
/// - 1), and the last one at the end (Graham 2014, pseudorandom).
#[track_caller]
fn starts(u: &Tensor, size: usize, kernel: usize, windows: usize) -> Tensor {
    let m = u.meta();
    let last = Tensor::full_on([m.shape[0], 1], (size - kernel) as i64, DType::I64, m.device);
    if windows <= 1 {
        return last.narrow(1, 0, windows);
    }
    let step = (size - kernel) as f64 / (windows - 1) as f64;
    let u = u.unsqueeze(1);
    let at = Tensor::arange_on(0i64, windows as i64 - 1, 1i64, m.dtype, m.device);
    // Both are no less than zero: the cast cuts off as floor does.
    let whole = |t: Tensor| (t * step).cast(DType::I64);
    Tensor::cat(&[whole(&u + at) - whole(u), last], 1)
}
/// The flat indices of all elements of all windows, `[planes, windows, elements]`.
#[track_caller]
fn window_elements(samples: &Tensor, sizes: &[usize], kernel: &[usize], output: &[usize]) -> Tensor {
    let (m, n) = (samples.meta(), sizes.len());
    let mut flat: Option<Tensor> = None;
    for k in 0..n {
        // Two sizes are drawn for in the order of PyTorch: the last axis first. Three are in the order of the axes.
        let drawn = if n == 2 { 1 - k } else { k };
        let from = starts(&samples.select(1, drawn), sizes[k], kernel[k], output[k]);
        let (mut windows, mut inside) = (vec![1; 2 * n + 1], vec![1; 2 * n + 1]);
        (windows[0], windows[1 + k], inside[1 + n + k]) = (m.shape[0], output[k], kernel[k]);
        let within = Tensor::arange_on(0i64, kernel[k] as i64, 1i64, DType::I64, m.device).reshape(inside);
        let at = (from.reshape(windows) + within) * sizes[k + 1..].iter().product::<usize>() as i64;
        flat = Some(match flat {
            Some(sum) => sum + at,
            None => at,
        });
    }
    let dims = [m.shape[0], output.iter().product(), kernel.iter().product()];
    flat.map_or_else(|| samples.clone(), |t| t.reshape(dims))
}
/// The maximum of each of `output_size` windows of x `[.., channels, ..sizes]` over as many trailing axes as samples are drawn for, and
/// its index in the flat plane, i64. Where the windows of a channel start follows from its `samples` `[.., channels, axes]`, uniform in
/// [0, 1).
///
/// ```
/// # use adamant_core::{Device, Tensor, functional::{FractionalMaxPoolOptions, fractional_max_pool}};
/// # Device::reference().make_current();
/// let x = Tensor::from_iter((0..25).map(|v| v as f32)).reshape([1, 5, 5]);
/// let pool = FractionalMaxPoolOptions { kernel_size: 2.into(), output_size: 3.into() };
/// let (y, _) = fractional_max_pool(&x, &pool, &Tensor::full([1, 2], 0.5, adamant_core::DType::F32));
/// assert_eq!(y.to_vec::<f32>()?, [6.0, 8.0, 9.0, 16.0, 18.0, 19.0, 21.0, 23.0, 24.0]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// A window larger than the input; more windows than fit one behind the other; samples of another shape.
///
/// Source: `torch.nn.functional.fractional_max_pool2d`, `fractional_max_pool3d`.
#[track_caller]
#[doc(alias = "fractional_max_pool2d")]
#[doc(alias = "fractional_max_pool3d")]
pub fn fractional_max_pool(x: &Tensor, pool: &FractionalMaxPoolOptions, samples: &Tensor) -> (Tensor, Tensor) {
    compose("fractional_max_pool", &[x, samples], || {
        let (m, drawn) = (x.meta(), samples.meta().shape);
        let n = drawn.last().copied().unwrap_or(0);
        let lead = m.shape.rank().saturating_sub(n);
        if !(2..=3).contains(&n) || lead == 0 || drawn.rank() != lead + 1 || drawn[..lead] != m.shape[..lead] {
            let expected = "samples [.., channels, 2 or 3] for an input [.., channels, ..sizes]";
            return Err(ErrorKind::ShapeMismatch { left: m.shape, right: drawn, axes: None, expected }.into());
        }
        if !samples.meta().dtype.is_float() || !m.dtype.is_float() {
            return Err(ErrorKind::Dtype(format!("a fractional pooling needs floats, not {} and {}", m.dtype, samples.meta().dtype)).into());
        }
        let sizes = &m.shape[lead..];
        let (kernel, output) = (of_each(&pool.kernel_size, n)?, of_each(&pool.output_size, n)?);
        for k in 0..n {
            if kernel[k] == 0 || output[k] == 0 || output[k] + kernel[k] > sizes[k] + 1 {
                let expected = format!("along axis {}: {} windows of {} fit into at least {}", lead + k, output[k], kernel[k], output[k] + kernel[k] - 1);
                return Err(ErrorKind::Shape { shape: m.shape, expected }.into());
            }
        }
        let planes: usize = m.shape[..lead].iter().product();
        let elements = window_elements(&samples.detach().reshape([planes, n]), sizes, &kernel, &output);
        let (windows, inside): (usize, usize) = (output.iter().product(), kernel.iter().product());
        let lines = x.reshape([planes, sizes.iter().product::<usize>()]);
        let values = lines.detach().gather(1, &elements.reshape([planes, windows * inside])).reshape([planes, windows, inside]);
        let best = elements.gather(2, &values.argmax(2).unsqueeze(2)).squeeze(2);
        let mut dims = m.shape[..lead].to_vec();
        dims.extend(&output);
        let shape = Shape::new(&dims)?;
        Ok((lines.gather(1, &best).reshape(shape), best.reshape(shape)))
    })
}
fn of_each(sizes: &Sizes, n: usize) -> Built<Vec<usize>> {
    match sizes.as_slice() {
        [one] => Ok(vec![*one; n]),
        all if all.len() == n => Ok(all.to_vec()),
        all => refuse(format!("{} sizes for {n} axes", all.len())),
    }
}
