//! Initial values. Shapes are those of weights: `[out, in, ..kernel]`; fan-in is `in · kernel`, fan-out `out · kernel`.
//! Sources: Glorot and Bengio 2010 (xavier), He et al. 2015 (kaiming), Saxe et al. 2013 (orthogonal),
//! Martens 2010 (sparse); defaults as in `torch.nn.init`.
use adamant_core::{DType, Device, Error, ErrorKind, Meta, Result, Rng, Shape, Tensor, compile::decide, is_capturing, scope, shape::ToShape};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

thread_local! {
    static GENERATORS: RefCell<(u64, HashMap<u32, Rng>)> = RefCell::new((0, HashMap::new()));
    static SHAPES_ONLY: Cell<bool> = const { Cell::new(false) };
}
/// Runs `f`, in which initial values of this thread are shapes without numbers: a layer that is built there takes no memory
/// and no time, however large it is. Its shapes can be asked for, and its forward pass captured
/// ([`adamant_core::graph::Graph`]); to read a parameter is an error.
///
/// ```
/// # use adamant_nn::{Linear, Walk, init};
/// # adamant_core::Device::reference().make_current();
/// let huge = init::shapes_only(|| Linear::new(1_000_000, 1_000_000))?;
/// assert_eq!(huge.parameter_count(), 1_000_001_000_000);
/// assert!(huge.weight.detached().to_vec::<f32>().is_err());
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn shapes_only<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            SHAPES_ONLY.set(self.0);
        }
    }
    let _restore = Restore(SHAPES_ONLY.replace(true));
    f()
}
/// What `draw` makes of a shape, or the shape alone.
#[track_caller]
fn values(shape: impl ToShape, draw: impl FnOnce(Shape) -> Result<Tensor>) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    if SHAPES_ONLY.get() { Ok(Tensor::shape_only(Meta { shape, dtype: DType::F32, device: Device::current()? })) } else { draw(shape) }
}
/// A list for so many numbers of the host.
#[track_caller]
fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    match numbers.try_reserve_exact(count) {
        Ok(()) => Ok(numbers),
        Err(_) => Err(Error::new("init", ErrorKind::OutOfMemory { asked: count.saturating_mul(size_of::<T>()), in_use: 0, cap: None })),
    }
}
/// Starts this thread's generators, from which layers draw their initial values and their dropout masks, from a seed.
pub fn manual_seed(seed: u64) {
    // A thread that ends draws nothing any more.
    let _ = GENERATORS.try_with(|g| g.replace((seed, HashMap::new())));
}
/// This thread's generator for a device.
///
/// # Errors
/// No memory there.
#[track_caller]
pub fn generator(device: Device) -> Result<Rng> {
    let stored = GENERATORS.try_with(|g| {
        let g = g.borrow();
        (g.0, g.1.get(&device.index()).cloned())
    });
    let (seed, known) = stored.map_err(|_| Error::new("generator", ErrorKind::ThreadEnding))?;
    let rng = match known {
        Some(rng) => rng,
        None => {
            let rng = Rng::new_on(seed, 0, device)?;
            let _ = GENERATORS.try_with(|g| g.borrow_mut().1.insert(device.index(), rng.clone()));
            rng
        }
    };
    if is_capturing() {
        // What was captured with one generator is not replayed with another: after a new seed, or on another thread.
        let (id, number) = (rng.cell().id(), device.index());
        decide(move || GENERATORS.try_with(|g| g.borrow().1.get(&number).is_some_and(|rng| rng.cell().id() == id)).unwrap_or(false));
    }
    Ok(rng)
}
/// What this thread's generator for a device would draw next: seed, stream and counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RngState(pub [u32; 4]);
/// The state of this thread's generator for a device, to go on from later with [`set_rng_state`].
///
/// # Errors
/// No memory there; a device that fails.
#[track_caller]
pub fn rng_state(device: Device) -> Result<RngState> {
    let words = generator(device)?.cell().detached().to_vec::<u32>()?;
    words.try_into().map(RngState).map_err(|words: Vec<u32>| Error::new("rng_state", ErrorKind::Internal(format!("{} words of state", words.len()))))
}
/// Lets this thread's generator for a device go on from a state of [`rng_state`].
///
/// # Errors
/// No memory there.
#[track_caller]
pub fn set_rng_state(device: Device, state: RngState) -> Result<()> {
    generator(device)?.cell().set(&Tensor::from_vec_on(state.0.to_vec(), [4], device))
}
#[track_caller]
fn draw() -> Result<Rng> {
    generator(Device::current()?)
}

/// What follows the layer: it decides the gain that keeps the variance of activations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Nonlinearity {
    /// none, or a convolution, or a sigmoid: gain 1
    Linear,
    /// gain 5/3
    Tanh,
    /// gain √2
    Relu,
    /// gain √(2 / (1 + slope²))
    LeakyRelu(f64),
    /// gain 3/4
    Selu,
}
impl Nonlinearity {
    /// The recommended gain (`torch.nn.init.calculate_gain`).
    pub fn gain(self) -> f64 {
        match self {
            Nonlinearity::Linear => 1.0,
            Nonlinearity::Tanh => 5.0 / 3.0,
            Nonlinearity::Relu => std::f64::consts::SQRT_2,
            Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Nonlinearity::Selu => 0.75,
        }
    }
}
/// Which side's variance kaiming initialisation keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// of activations, forward
    In,
    /// of gradients, backward
    Out,
}
/// (fan-in, fan-out) of a weight.
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn fans(shape: impl ToShape) -> Result<(usize, usize)> {
    let shape = to_shape(shape)?;
    if shape.rank() < 2 {
        return Err(Error::new("init", ErrorKind::Shape { shape, expected: "a weight of at least two axes, which has a fan-in and a fan-out".into() }));
    }
    let kernel: usize = shape[2..].iter().product();
    Ok((shape[1] * kernel, shape[0] * kernel))
}
#[track_caller]
fn to_shape(shape: impl ToShape) -> Result<Shape> {
    match shape.to_shape() {
        Ok(shape) => Ok(shape),
        Err(kind) => Err(Error::new("init", kind)),
    }
}

/// f32, uniform in [low, high).
///
/// # Errors
/// There is no device or no such shape.
#[track_caller]
pub fn uniform(shape: impl ToShape, low: f64, high: f64) -> Result<Tensor> {
    values(shape, |shape| (draw()?.uniform(shape, DType::F32) * (high - low) + low).ok())
}
/// f32, normal.
///
/// # Errors
/// As [`uniform`].
#[track_caller]
pub fn normal(shape: impl ToShape, mean: f64, std: f64) -> Result<Tensor> {
    values(shape, |shape| (draw()?.normal(shape, DType::F32) * std + mean).ok())
}
/// f32, one value everywhere.
///
/// # Errors
/// As [`uniform`].
#[track_caller]
pub fn constant(shape: impl ToShape, value: f64) -> Result<Tensor> {
    values(shape, |shape| Tensor::full(shape, value, DType::F32).ok())
}
/// A table of rows with zeros in one of them.
#[track_caller]
pub(crate) fn without_row(table: Tensor, row: usize) -> Result<Tensor> {
    if SHAPES_ONLY.get() {
        return Ok(table);
    }
    let rows = table.shape()?[0];
    let mut keep: Vec<f32> = reserved(rows)?;
    keep.extend((0..rows).map(|r| f32::from(r != row)));
    (table * Tensor::from_vec(keep, [rows, 1])).ok()
}
/// Zeros.
///
/// # Errors
/// As [`uniform`].
#[track_caller]
pub fn zeros(shape: impl ToShape) -> Result<Tensor> {
    constant(shape, 0.0)
}
/// Ones.
///
/// # Errors
/// As [`uniform`].
#[track_caller]
pub fn ones(shape: impl ToShape) -> Result<Tensor> {
    constant(shape, 1.0)
}
/// Uniform in ±gain · √(6 / (fan-in + fan-out)).
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn xavier_uniform(shape: impl ToShape, gain: f64) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    let (fan_in, fan_out) = fans(shape)?;
    let bound = gain * (6.0 / (fan_in + fan_out) as f64).sqrt();
    uniform(shape, -bound, bound)
}
/// Normal with standard deviation gain · √(2 / (fan-in + fan-out)).
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn xavier_normal(shape: impl ToShape, gain: f64) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    let (fan_in, fan_out) = fans(shape)?;
    normal(shape, 0.0, gain * (2.0 / (fan_in + fan_out) as f64).sqrt())
}
/// Standard deviation of kaiming initialisation: gain / √fan.
#[track_caller]
fn kaiming_std(shape: Shape, fan: Fan, follows: Nonlinearity) -> Result<f64> {
    let (fan_in, fan_out) = fans(shape)?;
    Ok(follows.gain() / ((if fan == Fan::In { fan_in } else { fan_out }) as f64).sqrt())
}
/// Uniform in ±gain · √(3 / fan).
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn kaiming_uniform(shape: impl ToShape, fan: Fan, follows: Nonlinearity) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    let bound = kaiming_std(shape, fan, follows)? * 3f64.sqrt();
    uniform(shape, -bound, bound)
}
/// Normal with standard deviation gain / √fan.
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn kaiming_normal(shape: impl ToShape, fan: Fan, follows: Nonlinearity) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    let std = kaiming_std(shape, fan, follows)?;
    normal(shape, 0.0, std)
}
/// The weight PyTorch's linear and convolution layers start from: uniform in ±1/√fan-in.
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn default_weight(shape: impl ToShape) -> Result<Tensor> {
    kaiming_uniform(shape, Fan::In, Nonlinearity::LeakyRelu(5f64.sqrt()))
}
/// The bias PyTorch's linear and convolution layers start from: uniform in ±1/√fan-in of their weight.
///
/// # Errors
/// A weight of fewer than two axes.
#[track_caller]
pub fn default_bias(len: usize, weight: impl ToShape) -> Result<Tensor> {
    let bound = match fans(weight)?.0 {
        0 => 0.0,
        fan_in => 1.0 / (fan_in as f64).sqrt(),
    };
    uniform(len, -bound, bound)
}
/// Normal, drawn again where it falls outside [low, high].
///
/// # Errors
/// An empty interval, or one so far out that hardly a draw falls into it.
#[track_caller]
pub fn trunc_normal(shape: impl ToShape, mean: f64, std: f64, low: f64, high: f64) -> Result<Tensor> {
    let _call = scope::call("trunc_normal");
    let shape = to_shape(shape)?;
    let refuse = || {
        Error::new(
            "trunc_normal",
            ErrorKind::Argument(format!("[{low}, {high}] holds next to nothing of a normal distribution with mean {mean} and standard deviation {std}")),
        )
    };
    values(shape, |shape| {
        let rng = draw()?;
        let mut values: Vec<f32> = reserved(shape.elements())?;
        for _ in 0..1_000 {
            let missing = shape.elements() - values.len();
            if missing == 0 {
                return Tensor::from_vec(values, shape).ok();
            }
            let drawn = rng.normal(missing.max(64), DType::F32).to_vec::<f32>()?;
            let fits = drawn.into_iter().map(|z| (z as f64 * std + mean) as f32).filter(|v| (low..=high).contains(&(*v as f64)));
            values.extend(fits.take(missing));
        }
        Err(refuse())
    })
}
/// Rows (or columns, if there are fewer) that are orthogonal and of length `gain`, over the axes after the first.
///
/// # Errors
/// Fewer than two axes.
#[track_caller]
pub fn orthogonal(shape: impl ToShape, gain: f64) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    fans(shape)?;
    values(shape, |shape| {
        let rows = shape[0];
        let cols = shape.elements() / rows.max(1);
        let (count, len) = (rows.min(cols), rows.max(cols));
        let rng = draw()?;
        let drawn = if rng.cell().meta().device.info().dtypes.contains(&DType::F64) {
            rng.normal([count, len], DType::F64).to_vec::<f64>()?
        } else {
            // The device has no f64: the host draws the same numbers and hands the generator back behind them.
            let device = rng.cell().meta().device;
            let RngState(start) = rng_state(device)?;
            let host = Rng::new_on(0, 0, Device::reference())?;
            host.cell().set(&Tensor::from_vec_on(start.to_vec(), [4], Device::reference()))?;
            let drawn = host.normal([count, len], DType::F64).to_vec::<f64>()?;
            rng.cell().set(&Tensor::from_vec_on(host.cell().detached().to_vec::<u32>()?, [4], device))?;
            drawn
        };
        let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        for v in drawn.chunks_exact(len.max(1)) {
            let mut v = v.to_vec();
            // Gram-Schmidt, twice: once leaves an error of the condition number, twice none (Giraud et al. 2005).
            for _ in 0..2 {
                for b in &basis {
                    let along = dot(&v, b);
                    v.iter_mut().zip(b).for_each(|(x, y)| *x -= along * y);
                }
            }
            let length = dot(&v, &v).sqrt();
            v.iter_mut().for_each(|x| *x /= length);
            basis.push(v);
        }
        let at = |r: usize, c: usize| (gain * if rows <= cols { basis[r][c] } else { basis[c][r] }) as f32;
        let mut values: Vec<f32> = reserved(rows * cols)?;
        values.extend((0..rows * cols).map(|k| at(k / cols, k % cols)));
        Tensor::from_vec(values, shape).ok()
    })
}
/// Normal with the given standard deviation, a share of each column's elements zero.
///
/// # Errors
/// Not two axes, or a share outside [0, 1].
#[track_caller]
pub fn sparse(shape: impl ToShape, sparsity: f64, std: f64) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    if shape.rank() != 2 || !(0.0..=1.0).contains(&sparsity) {
        return Err(Error::new("sparse", ErrorKind::Argument(format!("shape {shape} and sparsity {sparsity}: two axes and a share of 0 to 1 are needed"))));
    }
    values(shape, |shape| {
        let (rows, cols) = (shape[0], shape[1]);
        let zeros = (sparsity * rows as f64).ceil() as usize;
        let rng = draw()?;
        let mut values = (rng.normal(shape, DType::F32) * std).to_vec::<f32>()?;
        let order = rng.bits(shape).to_vec::<u32>()?;
        for c in 0..cols {
            let mut column: Vec<usize> = reserved(rows)?;
            column.extend(0..rows);
            column.sort_by_key(|r| (order[r * cols + c], *r));
            column.into_iter().take(zeros).for_each(|r| values[r * cols + c] = 0.0);
        }
        Tensor::from_vec(values, shape).ok()
    })
}
/// Ones on the diagonal.
///
/// # Errors
/// Not two axes.
#[track_caller]
pub fn eye(shape: impl ToShape) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    if shape.rank() != 2 {
        return Err(Error::new("eye", ErrorKind::Shape { shape, expected: "two axes".into() }));
    }
    values(shape, |shape| {
        let cols = shape[1].max(1);
        let mut values: Vec<f32> = reserved(shape.elements())?;
        values.extend((0..shape.elements()).map(|k| f32::from(k / cols == k % cols)));
        Tensor::from_vec(values, shape).ok()
    })
}
/// The identity of a convolution: output channel c of each group repeats input channel c.
///
/// # Errors
/// Not three to five axes, or output channels that the groups do not divide.
#[track_caller]
pub fn dirac(shape: impl ToShape, groups: usize) -> Result<Tensor> {
    let shape = to_shape(shape)?;
    if !(3..=5).contains(&shape.rank()) || groups == 0 || shape[0] % groups != 0 {
        return Err(Error::new(
            "dirac",
            ErrorKind::Shape { shape, expected: format!("a convolution's weight of 3 to 5 axes whose output channels {groups} groups divide") },
        ));
    }
    values(shape, |shape| {
        let kernel: usize = shape[2..].iter().product();
        let centre = shape[2..].iter().fold(0, |at, k| at * k + k / 2);
        let per_group = shape[0] / groups;
        let mut values: Vec<f32> = reserved(shape.elements())?;
        values.resize(shape.elements(), 0.0);
        for out in 0..shape[0] {
            let input = out % per_group;
            // An empty kernel has no centre.
            if let Some(one) = values.get_mut((out * shape[1] + input) * kernel + centre).filter(|_| input < shape[1] && kernel > 0) {
                *one = 1.0;
            }
        }
        Tensor::from_vec(values, shape).ok()
    })
}
