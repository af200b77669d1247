//! The transforms of every public function, from the registry: `jvp` against `vjp` by the adjoint identity and against differences
//! of the function, `vmap` against a loop over the examples, third derivatives against differences of second ones, and pairs of
//! transforms against each other. What has none of it is a hole, for one of four reasons; anything else is a failure.
use crate::{
    data::{Spread, download, same_bits, upload},
    gradcheck,
    random::Random,
    registry::{Elements, Entry},
    tolerance,
};
use adamant_core::{
    DType, Device, Error, HostArray, Result, Shape, Tensor,
    reference::HostData,
    transform::{JacobianMode, Vmap, grad, hvp, jacobian, jvp, vjp, vmap, vmap_with},
};
use std::{cell::Cell, collections::BTreeMap, fmt};

/// Why a function has no such transform.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hole {
    /// the output is of integers or bools
    Discrete,
    /// the derivative is zero almost everywhere
    Flat,
    /// the shape of the result depends on data
    DataDependent,
    /// there is no real derivative, or no input to have one by
    NoDerivative,
}
impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hole::Discrete => "integer or bool output",
            Hole::Flat => "derivative zero almost everywhere",
            Hole::DataDependent => "shape depends on data",
            Hole::NoDerivative => "no real derivative",
        })
    }
}
/// What was found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TransformVerdict {
    /// it is right
    Right,
    /// there is none
    Hole(Hole),
    /// it is wrong, in words
    Wrong(String),
}
impl fmt::Display for TransformVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransformVerdict::Right => f.write_str("ok"),
            TransformVerdict::Hole(hole) => write!(f, "hole: {hole}"),
            TransformVerdict::Wrong(why) => write!(f, "**wrong**: {why}"),
        }
    }
}
/// The verdicts on a function: jvp, vmap, third derivatives and pairs.
pub type TransformRow = [TransformVerdict; 3];

/// Which transform a checked function is being called under: for what is planted to show that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// none, or one that it is compared with
    Plain,
    /// `jvp`
    Forward,
    /// `vmap`
    Stack,
    /// third derivatives
    Third,
}
thread_local! {
    static UNDER: Cell<Under> = const { Cell::new(Under::Plain) };
}
/// The transform that the function is being called under.
pub fn under() -> Under {
    UNDER.with(Cell::get)
}
fn with<R>(under: Under, f: impl FnOnce() -> R) -> R {
    struct Restore(Under);
    impl Drop for Restore {
        fn drop(&mut self) {
            UNDER.with(|u| u.set(self.0));
        }
    }
    let _restore = Restore(UNDER.with(|u| u.replace(under)));
    f()
}

/// How many examples are stacked, outside and inside.
const EXAMPLES: [usize; 2] = [2, 3];
/// Relative and absolute tolerance of third derivatives, whose differences are of second ones.
const THIRD: (f64, f64) = (1e-4, 1e-6);
/// Relative tolerance of two ways to the same derivative.
const PAIRS: f64 = 1e-9;
/// The most elements of an input whose whole Hessian is formed.
const SMALL: usize = 12;

type Checked = std::result::Result<TransformVerdict, String>;
fn text(what: &'static str) -> impl Fn(Error) -> String {
    move |e| format!("{what}: {e}")
}

/// An entry on one set of drawn inputs.
struct TransformSample<'a> {
    entry: &'a Entry,
    device: Device,
    random: Random,
    inputs: Vec<HostArray>,
}
impl<'a> TransformSample<'a> {
    fn draw(entry: &'a Entry, device: Device, dtype: DType, random: &Random) -> TransformSample<'a> {
        let inputs = entry.inputs.iter().enumerate().map(|(k, i)| i.draw(dtype, &mut random.part(k as u64))).collect();
        TransformSample { entry, device, random: random.clone(), inputs }
    }
    fn moves(&self, k: usize) -> bool {
        let input = &self.entry.inputs[k];
        // What can be one number alone (the order of a polygamma) has no neighbours to take differences of.
        let is_one_number = matches!(input.elements, Elements::Drawn(Spread::Within(low, high)) if low == high);
        input.differentiable && !is_one_number && self.inputs[k].dtype.is_float()
    }
    /// The inputs by which it is differentiated.
    fn moving(&self) -> Vec<Tensor> {
        (0..self.inputs.len()).filter(|&k| self.moves(k)).map(|k| upload(&self.inputs[k], self.device)).collect()
    }
    /// Numbers in [-1, 1] of the moving inputs' shapes.
    fn direction(&self, seed: u64) -> Vec<Tensor> {
        let one = |(k, x): (usize, &HostArray)| {
            let mut r = self.random.part(seed * 100 + k as u64);
            let u = upload(&HostArray::floats(x.shape, x.dtype, (0..x.len()).map(|_| r.unit() * 2.0 - 1.0)), self.device);
            // A symmetric matrix moves to symmetric ones: of others the function reads one half.
            if matches!(self.entry.inputs[k].elements, Elements::Definite) { (&u + u.mt()) * 0.5 } else { u }
        };
        self.inputs.iter().enumerate().filter(|(k, _)| self.moves(*k)).map(one).collect()
    }
    /// Calls the function with other values of the moving inputs.
    fn call(&self, moving: &[Tensor]) -> Vec<Tensor> {
        let mut moving = moving.iter();
        let x: Vec<Tensor> = (0..self.inputs.len())
            .map(|k| if self.moves(k) { moving.next().cloned() } else { None }.unwrap_or_else(|| upload(&self.inputs[k], self.device)))
            .collect();
        self.entry.function.call(&x)
    }
    fn floats(&self, moving: &[Tensor]) -> Vec<Tensor> {
        self.call(moving).into_iter().filter(|y| y.dtype().is_ok_and(DType::is_float) || y.error().is_some()).collect()
    }
    /// One number of all float outputs, by drawn weights.
    fn loss(&self, moving: &[Tensor]) -> Tensor {
        let mut loss = Tensor::full_on((), 0.0, DType::F64, self.device);
        for (k, y) in self.floats(moving).into_iter().enumerate() {
            let Ok(m) = y.try_meta() else { return y };
            let mut r = self.random.part(50 + k as u64);
            let w = upload(&HostArray::floats(m.shape, DType::F64, (0..m.shape.elements()).map(|_| r.unit() * 2.0 - 1.0)), self.device);
            loss = loss + (y.cast(DType::F64) * w).sum(..);
        }
        loss
    }
}
fn number(t: &Tensor) -> Result<f64> {
    t.cast(DType::F64).item::<f64>()
}
/// Of two lists of tensors the sum of products, and that of their magnitudes.
fn inner(a: &[Tensor], b: &[Tensor]) -> Result<(f64, f64)> {
    let (mut sum, mut size) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (download(a)?, download(b)?);
        for k in 0..a.len() {
            sum += a.float(k) * b.float(k);
            size += (a.float(k) * b.float(k)).abs();
        }
    }
    Ok((sum, size))
}
fn close(a: &[Tensor], b: &[Tensor], relative: f64, what: &str) -> std::result::Result<(), String> {
    for (k, (a, b)) in a.iter().zip(b).enumerate() {
        let (a, b) = (download(a).map_err(|e| format!("{what}: {e}"))?, download(b).map_err(|e| format!("{what}, the other way: {e}"))?);
        let size = (0..a.len()).map(|e| a.float(e).abs()).fold(1.0, f64::max);
        // NaN is a failure, so this is not `>`.
        let apart = (0..a.len()).find(|&e| !((a.float(e) - b.float(e)).abs() <= relative * size || a.float(e) == b.float(e)));
        match apart {
            _ if a.shape != b.shape => return Err(format!("{what}, tensor {k}: shapes {} and {}", a.shape, b.shape)),
            Some(e) => return Err(format!("{what}, tensor {k}, element {e}: {:e} and {:e}", a.float(e), b.float(e))),
            None => {}
        }
    }
    Ok(())
}
fn total(parts: &[Tensor], along: &[Tensor], device: Device) -> Tensor {
    let zero = Tensor::full_on((), 0.0, DType::F64, device);
    parts.iter().zip(along).fold(zero, |sum, (p, u)| sum + (p * u).cast(DType::F64).sum(..))
}

/// `<u, J v> = <J' u, v>`, and the value of `jvp` has the bits of the function's.
fn forward(s: &TransformSample<'_>) -> Checked {
    let x = s.moving();
    let plain = s.call(&x);
    let (y, moved) = with(Under::Forward, || jvp(|x: Vec<Tensor>| s.call(&x), x.clone(), s.direction(1)));
    for (k, (a, b)) in plain.iter().zip(&y).enumerate() {
        let (a, b) = match (download(a).map_err(text("the function"))?, download(b)) {
            // What says that it has no gradient says so under every transform.
            (_, Err(e)) if s.entry.order == 0 && e.kind().word() == "backward" => return Ok(TransformVerdict::Hole(Hole::NoDerivative)),
            (a, b) => (a, b.map_err(text("jvp"))?),
        };
        if !same_bits(&a, &b) {
            return Err(format!("output {k} is another under jvp"));
        }
    }
    let is_float = |y: &Tensor| y.dtype().is_ok_and(DType::is_float);
    if !plain.iter().any(is_float) {
        return Ok(TransformVerdict::Hole(Hole::Discrete));
    }
    let (y, moved): (Vec<Tensor>, Vec<Tensor>) = y.into_iter().zip(moved).filter(|(y, _)| is_float(y)).unzip();
    let weights: Vec<Tensor> = y
        .iter()
        .enumerate()
        .map(|(k, y)| {
            let mut r = s.random.part(50 + k as u64);
            let n = y.shape().map_or(0, |s| s.elements());
            let dtype = y.dtype().unwrap_or(DType::F64);
            upload(&HostArray::floats(y.shape().unwrap_or(Shape::SCALAR), dtype, (0..n).map(|_| r.unit() * 2.0 - 1.0)), s.device)
        })
        .collect();
    let (pushed, size) = inner(&weights, &moved).map_err(text("jvp"))?;
    if x.is_empty() {
        return if size == 0.0 { Ok(TransformVerdict::Hole(Hole::NoDerivative)) } else { Err("nothing moves, and the output does".into()) };
    }
    let pulled = vjp(|x: Vec<Tensor>| s.floats(&x), x).1(weights);
    let (pulled, other) = inner(&pulled, &s.direction(1)).map_err(text("vjp"))?;
    let relative = if s.entry.through == DType::F64 { gradcheck::ADJOINT } else { 8.0 * f64::from(f32::EPSILON) };
    // NaN is a failure, so this is not `>`.
    let equal = (pushed - pulled).abs() <= relative * size.max(other).max(1.0);
    if !equal {
        return Err(format!("<u, J v> = {pushed:e}, <J' u, v> = {pulled:e}"));
    }
    if s.entry.order > 0 {
        tangent(s, pushed)?;
    }
    let elements: usize = moved.iter().map(|t| t.shape().map_or(0, |s| s.elements())).sum();
    Ok(if elements > 0 && size == 0.0 { TransformVerdict::Hole(Hole::Flat) } else { TransformVerdict::Right })
}

/// How far the inputs go along their direction, as a part of what a derivative by one element takes: all of them move here, and none
/// may change places with another.
const ALONG: f64 = 0.4;
/// The tangent against differences of the function itself. A composite that brings its own rule has it transposed for a tangent, and
/// then a wrong rule agrees with itself.
fn tangent(s: &TransformSample<'_>, pushed: f64) -> std::result::Result<(), String> {
    let (x, u) = (s.moving(), s.direction(1));
    let along = |t: f64| -> Result<f64> {
        let moved: Vec<Tensor> = x.iter().zip(&u).map(|(x, u)| x + u * (t * ALONG)).collect();
        let mut sum = 0.0;
        for (k, y) in s.floats(&moved).iter().enumerate() {
            let (y, mut r) = (download(y)?, s.random.part(50 + k as u64));
            let w = HostArray::floats(y.shape, y.dtype, (0..y.len()).map(|_| r.unit() * 2.0 - 1.0));
            // Summed on the host, where small differences of large sums survive.
            sum += (0..y.len()).map(|e| y.float(e) * w.float(e)).sum::<f64>();
        }
        Ok(sum)
    };
    let (want, error) = gradcheck::derivative(&along).map_err(text("differences"))?;
    let (want, error) = (want / ALONG, error / ALONG);
    let (relative, absolute) = if s.entry.through == DType::F64 { gradcheck::FIRST } else { gradcheck::THROUGH_F32 };
    let allowed = absolute + relative * want.abs().max(pushed.abs());
    // NaN is a failure, so this is not `>`.
    let equal = (pushed - want).abs() <= allowed + error.min(allowed);
    if equal { Ok(()) } else { Err(format!("<u, J v> = {pushed:e}, differences give {want:e} (± {error:e})")) }
}

/// Arrays of one shape and dtype with a new first axis.
fn stack(arrays: &[HostArray], dims: &[usize]) -> HostArray {
    let all: Vec<usize> = dims.iter().chain(arrays[0].shape.iter()).copied().collect();
    let shape = Shape::new(&all).unwrap_or(Shape::SCALAR);
    match &arrays[0].data {
        HostData::Float(_) => HostArray::floats(shape, arrays[0].dtype, arrays.iter().flat_map(|a| (0..a.len()).map(|k| a.float(k)))),
        HostData::Int(_) => {
            let each = |a: &HostArray| if let HostData::Int(v) = &a.data { v.clone() } else { Vec::new() };
            HostArray::ints(shape, arrays[0].dtype, arrays.iter().flat_map(each))
        }
    }
}
/// `vmap` of `vmap` against two loops, for every way to share inputs: the same bits, or within the tolerance of composed
/// functions where the device promises none.
fn stacked(entry: &Entry, device: Device, dtype: DType, random: &Random, bits: bool) -> Checked {
    let (outer, nested) = (EXAMPLES[0], EXAMPLES[1]);
    let n = entry.inputs.len();
    // All inputs are stacks, or one alone is, twice; or one outside and the others inside.
    let mut ways: Vec<(Vec<bool>, Vec<bool>)> = vec![(vec![true; n], vec![true; n])];
    for k in 0..if n > 1 { n } else { 0 } {
        let only: Vec<bool> = (0..n).map(|j| j == k).collect();
        ways.push((only.clone(), only.clone()));
        ways.push((only.clone(), only.iter().map(|on| !on).collect()));
    }
    let draw = |i: usize, j: usize, (a, b): &(Vec<bool>, Vec<bool>)| -> Vec<HostArray> {
        let of = |k: usize| random.part(1000 + k as u64 + 100 * (if a[k] { i as u64 } else { 9 }) + 10_000 * (if b[k] { j as u64 } else { 9 }));
        entry.inputs.iter().enumerate().map(|(k, input)| input.draw(dtype, &mut of(k))).collect()
    };
    for way in &ways {
        let (a, b) = way;
        let f = |x: Vec<Tensor>| entry.function.call(&x);
        let mut each: Vec<Vec<HostArray>> = Vec::new();
        for k in 0..outer * nested {
            let x: Vec<Tensor> = draw(k / nested, k % nested, way).iter().map(|x| upload(x, device)).collect();
            let y = f(x).iter().map(download).collect::<Result<Vec<HostArray>>>().map_err(text("the function"))?;
            each.push(y);
        }
        let same_shapes = each.iter().all(|y| y.iter().zip(&each[0]).all(|(a, b)| a.shape == b.shape));
        let x: Vec<Tensor> = (0..n)
            .map(|k| {
                let (is, js) = (if a[k] { outer } else { 1 }, if b[k] { nested } else { 1 });
                let arrays: Vec<HostArray> = (0..is * js).map(|e| draw(e / js, e % js, way).swap_remove(k)).collect();
                let dims: Vec<usize> = [(a[k], outer), (b[k], nested)].into_iter().filter(|(on, _)| *on).map(|(_, n)| n).collect();
                upload(&stack(&arrays, &dims), device)
            })
            .collect();
        let axes = |on: &[bool]| on.iter().map(|&on| on.then_some(0)).collect::<Vec<_>>();
        let inside = vmap_with(f, Vmap::default().in_axes(axes(b)).axis_size(nested));
        let both = vmap_with(inside, Vmap::default().in_axes(axes(a)).axis_size(outer));
        let got = with(Under::Stack, || both(x));
        if let Some(e) = got.iter().find_map(|y| y.error()) {
            return if e.kind().word() == "transform" { Ok(TransformVerdict::Hole(Hole::DataDependent)) } else { Err(format!("vmap ({a:?}, {b:?}): {e}")) };
        }
        if !same_shapes {
            return Err("vmap gives one shape, and the examples have several".into());
        }
        for (k, got) in got.iter().enumerate() {
            let want: Vec<HostArray> = each.iter().filter_map(|y| y.get(k).cloned()).collect();
            let want = stack(&want, &EXAMPLES);
            let got = download(got).map_err(text("vmap"))?;
            if bits && !same_bits(&got, &want) {
                let at = (0..got.len().min(want.len())).find(|&e| got.scalar(e) != want.scalar(e)).unwrap_or(0);
                let shown = |a: &HostArray| if at < a.len() { a.scalar(at).to_string() } else { format!("{}", a.shape) };
                return Err(format!(
                    "vmap ({a:?}, {b:?}), output {k}, element {at}: {} {}, a loop gives {} {}",
                    got.shape,
                    shown(&got),
                    want.shape,
                    shown(&want)
                ));
            }
            tolerance::composed(&got, &want).map_err(|why| format!("vmap ({a:?}, {b:?}), output {k}: {why}"))?;
        }
    }
    Ok(TransformVerdict::Right)
}

/// The third derivative along a direction: three pushes, and a pull of two, against differences of the second; then pairs
/// of transforms against each other.
fn third(s: &TransformSample<'_>) -> Checked {
    let (x, u) = (s.moving(), s.direction(1));
    if x.is_empty() {
        return Ok(TransformVerdict::Hole(Hole::NoDerivative));
    }
    let loss = |x: Vec<Tensor>| s.loss(&x);
    let second = |x: Vec<Tensor>| total(&hvp(loss)(x, u.clone()), &u, s.device);
    let pulled = with(Under::Third, || grad(second)(x.clone()));
    let (pulled, _) = inner(&pulled, &u).map_err(text("grad of jvp of grad"))?;
    let d1 = |x: Vec<Tensor>| jvp(loss, x, u.clone()).1;
    let d2 = |x: Vec<Tensor>| jvp(d1, x, u.clone()).1;
    let pushed = with(Under::Third, || jvp(d2, x.clone(), u.clone()).1);
    let pushed = number(&pushed).map_err(text("jvp of jvp of jvp"))?;
    let along = |t: f64| -> Result<f64> { number(&second(x.iter().zip(&u).map(|(x, u)| x + u * t).collect())) };
    let (want, error) = gradcheck::derivative(&along).map_err(text("differences of second derivatives"))?;
    let exact = s.entry.through == DType::F64;
    let (relative, absolute) = if exact { THIRD } else { (1e-3, 1e-3) };
    for (way, got) in [("grad of jvp of grad", pulled), ("jvp of jvp of jvp", pushed)] {
        let allowed = absolute + relative * want.abs().max(got.abs());
        let equal = (got - want).abs() <= allowed + error.min(allowed);
        if !equal {
            return Err(format!("third derivative by {way}: {got:e}, differences give {want:e} (± {error:e})"));
        }
    }
    pairs(s, &x, &u, if exact { PAIRS } else { 1e-5 })?;
    Ok(TransformVerdict::Right)
}
fn pairs(s: &TransformSample<'_>, x: &[Tensor], u: &[Tensor], relative: f64) -> std::result::Result<(), String> {
    let loss = |x: Vec<Tensor>| s.loss(&x);
    let x = x.to_vec();
    let along = |x: Vec<Tensor>| total(&grad(loss)(x), u, s.device);
    // A product with the Hessian, three ways.
    let product = hvp(loss)(x.clone(), u.to_vec());
    close(&product, &grad(along)(x.clone()), relative, "jvp of grad and grad of grad")?;
    close(&product, &grad(|x: Vec<Tensor>| jvp(loss, x, u.to_vec()).1)(x.clone()), relative, "jvp of grad and grad of jvp")?;
    // Stacks of two: these inputs, and inputs a little off.
    let off: Vec<Tensor> = x.iter().zip(s.direction(2)).map(|(x, v)| x + v * 1e-3).collect();
    let stacks: Vec<Tensor> = x.iter().zip(&off).map(|(a, b)| Tensor::stack(&[a, b], 0)).collect();
    let by_hand =
        |f: &dyn Fn(Vec<Tensor>) -> Vec<Tensor>| -> Vec<Tensor> { f(x.clone()).iter().zip(&f(off.clone())).map(|(a, b)| Tensor::stack(&[a, b], 0)).collect() };
    let gradients = by_hand(&|x| grad(loss)(x));
    close(&gradients, &vmap(grad(loss))(stacks.clone()), relative, "a loop of grad and vmap of grad")?;
    close(&gradients, &grad(|x: Vec<Tensor>| vmap(loss)(x).sum(..))(stacks.clone()), relative, "a loop of grad and grad of vmap")?;
    let pushes = by_hand(&|x| vec![jvp(loss, x, u.to_vec()).1]);
    close(&pushes, &[vmap(|x: Vec<Tensor>| jvp(loss, x, u.to_vec()).1)(stacks.clone())], relative, "a loop of jvp and vmap of jvp")?;
    let both: Vec<Tensor> = u.iter().map(|u| Tensor::stack(&[u, u], 0)).collect();
    close(&pushes, &[jvp(|x: Vec<Tensor>| vmap(loss)(x), stacks, both).1], relative, "a loop of jvp and jvp of vmap")?;
    for (k, of) in x.iter().enumerate() {
        let n = of.shape().map_or(usize::MAX, |s| s.elements());
        if n > SMALL || n == 0 {
            continue;
        }
        let one = |t: Tensor| -> Vec<Tensor> { x.iter().enumerate().map(|(j, x)| if j == k { t.clone() } else { x.clone() }).collect() };
        // Lists of elements, because the axes of both sides may be more than a tensor has.
        let back_in_shape = |t: Tensor| one(t.reshape(of.shape().unwrap_or(Shape::SCALAR)));
        let f = |t: Tensor| -> Vec<Tensor> { s.floats(&back_in_shape(t)).iter().map(Tensor::ravel).collect() };
        let (ahead, back) = (jacobian(f, JacobianMode::Forward)(of.ravel()), jacobian(f, JacobianMode::Backward)(of.ravel()));
        close(&ahead, &back, relative, "jacobian forward and backward")?;
        let h = adamant_core::transform::hessian(|t: Tensor| s.loss(&back_in_shape(t)))(of.ravel());
        close(std::slice::from_ref(&h), &[h.mt()], relative, "hessian and its transpose")?;
        let column = h.matmul(u[k].reshape([n, 1])).reshape(of.shape().unwrap_or(Shape::SCALAR));
        close(&[column], &[hvp(|t: Tensor| s.loss(&one(t)))(of.clone(), u[k].clone())], relative, "hessian times u and hvp")?;
    }
    Ok(())
}

/// The verdict on `vmap` of one sample alone, in a dtype that the function takes.
pub fn check_stacked(device: Device, entry: &Entry, dtype: DType, seed: u64, bits: bool) -> TransformVerdict {
    device.scoped(|| stacked(entry, device, dtype, &Random::new(seed), bits).unwrap_or_else(TransformVerdict::Wrong))
}
/// The verdicts on one sample. `bits`: the device's results of a row do not depend on how many rows there are.
pub fn check(device: Device, entry: &Entry, seed: u64, bits: bool) -> TransformRow {
    device.scoped(|| {
        let random = Random::new(seed);
        let wrong = |checked: Checked| checked.unwrap_or_else(TransformVerdict::Wrong);
        let dtype = if entry.dtypes.contains(&DType::F64) { DType::F64 } else { entry.dtypes[0] };
        let vmap = wrong(stacked(entry, device, dtype, &random, bits));
        if dtype != DType::F64 {
            return [TransformVerdict::Hole(Hole::Discrete), vmap, TransformVerdict::Hole(Hole::Discrete)];
        }
        let sample = TransformSample::draw(entry, device, dtype, &random);
        let jvp = wrong(forward(&sample));
        let third = match &jvp {
            TransformVerdict::Hole(hole) => TransformVerdict::Hole(*hole),
            _ => wrong(third(&sample)),
        };
        [jvp, vmap, third]
    })
}
/// The verdicts by function: of all its samples the worst, a wrong one before a hole before a right one. A function that
/// has a derivative in one sample has one.
#[derive(Default)]
pub struct TransformTable(BTreeMap<String, TransformRow>);
impl TransformTable {
    /// Adds a sample's.
    pub fn add(&mut self, name: &str, row: TransformRow) {
        match self.0.get_mut(name) {
            None => {
                self.0.insert(name.into(), row);
            }
            Some(old) => {
                for (old, new) in old.iter_mut().zip(row) {
                    match (&*old, &new) {
                        (TransformVerdict::Wrong(_), _) => {}
                        (_, TransformVerdict::Wrong(_)) | (TransformVerdict::Hole(_), TransformVerdict::Right) => *old = new,
                        _ => {}
                    }
                }
            }
        }
    }
    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = (&String, &TransformRow)> {
        self.0.iter()
    }
    /// What is wrong.
    pub fn wrong(&self) -> Vec<String> {
        let words = ["jvp", "vmap", "third"];
        let of = |(name, row): (&String, &TransformRow)| -> Vec<String> {
            row.iter()
                .zip(words)
                .filter_map(|(v, word)| if let TransformVerdict::Wrong(why) = v { Some(format!("{name}, {word}: {why}")) } else { None })
                .collect()
        };
        self.0.iter().flat_map(of).collect()
    }
    /// As Markdown: every function in a row.
    pub fn markdown(&self) -> String {
        let mut out = String::from("| function | jvp | vmap | third |\n|---|---|---|---|\n");
        for (name, [jvp, vmap, third]) in &self.0 {
            out += &format!("| `{name}` | {jvp} | {vmap} | {third} |\n");
        }
        out
    }
}
