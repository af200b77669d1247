//! Gradients in f64 against differences, first and second order, and the adjoint identity, which needs no step size.
//!
//! Differences are extrapolated to step zero (C. Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", Advances in
//! Engineering Software 4, 1982), so that 1e-6 relative can be asked for.
use crate::{
    data::{download, upload},
    layouts::{LAYOUTS, lay},
    random::Random,
    registry::Entry,
};
use adamant_core::{DType, Device, Error, HostArray, Tensor, grad::backward_many, reference::HostData};

/// Relative and absolute tolerance of first derivatives.
pub const FIRST: (f64, f64) = (1e-6, 1e-8);
/// Relative and absolute tolerance of second derivatives.
pub const SECOND: (f64, f64) = (1e-5, 1e-7);
/// Relative tolerance of the adjoint identity.
pub const ADJOINT: f64 = 1e-12;
/// Tolerance of first and second derivatives, relative and absolute, of what passes through f32: its differences divide a
/// rounding error by a step.
pub const THROUGH_F32: (f64, f64) = (1e-4, 1e-4);

/// The tolerances of an entry, by the narrowest dtype its values pass through: first order, second order, adjoint.
fn tolerances(through: DType) -> ((f64, f64), (f64, f64), f64) {
    if through == DType::F64 { (FIRST, SECOND, ADJOINT) } else { (THROUGH_F32, THROUGH_F32, 8.0 * f32::EPSILON as f64) }
}

/// The derivative of `f` at 0 by Ridders' extrapolation, and an estimate of its error.
pub(crate) fn derivative(f: &dyn Fn(f64) -> Result<f64, Error>) -> Result<(f64, f64), Error> {
    const SHRINK: f64 = 1.6;
    const ROWS: usize = 12;
    let mut table = [[0.0f64; ROWS]; ROWS];
    let (mut best, mut error, mut h) = (0.0, f64::INFINITY, 0.04);
    for i in 0..ROWS {
        table[0][i] = (f(h)? - f(-h)?) / (2.0 * h);
        h /= SHRINK;
        let mut factor = SHRINK * SHRINK;
        for j in 1..=i {
            table[j][i] = (table[j - 1][i] * factor - table[j - 1][i - 1]) / (factor - 1.0);
            factor *= SHRINK * SHRINK;
            let e = (table[j][i] - table[j - 1][i]).abs().max((table[j][i] - table[j - 1][i - 1]).abs());
            if e <= error {
                (error, best) = (e, table[j][i]);
            }
        }
        if i > 3 && error < 1e-11 * best.abs().max(1e-3) {
            break;
        }
    }
    Ok((best, error))
}

/// A sample with its cotangents drawn.
struct DrawnSample<'a> {
    entry: &'a Entry,
    device: Device,
    inputs: Vec<HostArray>,
    random: Random,
    /// how the inputs lie in memory
    layout: &'static str,
}
impl DrawnSample<'_> {
    fn differentiable(&self, k: usize) -> bool {
        self.entry.inputs[k].differentiable && self.inputs[k].dtype.is_float()
    }
    fn tensors(&self, inputs: &[HostArray], track: bool) -> Vec<Tensor> {
        inputs
            .iter()
            .map(|a| lay(a, self.layout, self.device))
            .enumerate()
            .map(|(k, t)| if track && self.differentiable(k) { t.tracked() } else { t })
            .collect()
    }
    /// The float outputs, each with a cotangent.
    fn outputs(&self, x: &[Tensor]) -> Result<Vec<(Tensor, HostArray)>, Error> {
        let mut out = Vec::new();
        for (k, y) in self.entry.function.call(x).into_iter().enumerate() {
            let meta = y.try_meta()?;
            if meta.dtype.is_float() {
                let mut r = self.random.part(50 + k as u64);
                out.push((y, HostArray::floats(meta.shape, meta.dtype, (0..meta.shape.elements()).map(|_| r.unit() * 2.0 - 1.0))));
            }
        }
        Ok(out)
    }
    /// sum over outputs of sum(output * cotangent)
    fn loss(&self, x: &[Tensor]) -> Result<Tensor, Error> {
        let wide = crate::suite::widest_float(self.device);
        let mut loss = Tensor::full_on((), 0.0, wide, self.device);
        for (y, w) in self.outputs(x)? {
            loss = loss + (&y * &upload(&w, self.device)).cast(wide).sum(..);
        }
        loss.ok()
    }
    /// The loss without gradients.
    fn value(&self, inputs: &[HostArray]) -> Result<f64, Error> {
        // Summed on the host, where small differences of large sums survive.
        let mut total = 0.0;
        for (y, w) in self.outputs(&self.tensors(inputs, false))? {
            let y = download(&y)?;
            total += (0..y.len()).map(|k| y.float(k) * w.float(k)).sum::<f64>();
        }
        Ok(total)
    }
    /// Gradients of the loss; zeros where a leaf was not reached.
    fn gradients(&self, inputs: &[HostArray]) -> Result<Vec<HostArray>, Error> {
        let x = self.tensors(inputs, true);
        let loss = self.loss(&x)?;
        if !loss.is_tracked() {
            return Ok(inputs.iter().map(zeros).collect());
        }
        let grads = loss.backward()?;
        x.iter().zip(inputs).map(|(x, a)| grads.get(x).map_or_else(|| Ok(zeros(a)), download)).collect()
    }
    fn direction(&self, k: usize) -> HostArray {
        let mut r = self.random.part(70 + k as u64);
        HostArray::floats(self.inputs[k].shape, self.inputs[k].dtype, (0..self.inputs[k].len()).map(|_| r.unit() * 2.0 - 1.0))
    }
    /// The derivative of the loss along the drawn directions, as a tensor.
    fn slope(&self, x: &[Tensor]) -> Result<Option<Tensor>, Error> {
        let loss = self.loss(x)?;
        if !loss.is_tracked() {
            return Ok(None);
        }
        let grads = loss.backward_graph()?;
        let mut slope: Option<Tensor> = None;
        for (k, t) in x.iter().enumerate() {
            if let Some(g) = grads.get(t) {
                let term = (g * &upload(&self.direction(k), self.device)).sum(..);
                slope = Some(match slope {
                    None => term,
                    Some(s) => s + term,
                });
            }
        }
        slope.map(Tensor::ok).transpose()
    }
    fn compare(&self, what: &str, analytic: &[HostArray], f: &dyn Fn(&[HostArray]) -> Result<f64, Error>, (rtol, atol): (f64, f64)) -> Result<(), String> {
        for k in 0..self.inputs.len() {
            if !self.differentiable(k) {
                continue;
            }
            let mut unsettled = 0;
            for e in 0..self.inputs[k].len() {
                let moved = |h: f64| {
                    let mut inputs = self.inputs.clone();
                    if let HostData::Float(v) = &mut inputs[k].data {
                        v[e] += h;
                    }
                    f(&inputs)
                };
                let (want, error) = derivative(&moved).map_err(|e| e.to_string())?;
                let got = analytic[k].float(e);
                let allowed = atol + rtol * want.abs().max(got.abs());
                // NaN is a failure, so this is not `>`.
                let close = (got - want).abs() <= allowed + error.min(allowed);
                // A step between the points: a draw beside a kink has no derivative that differences could tell.
                if !close && error > 0.1 * (1.0 + want.abs()) {
                    unsettled += 1;
                } else if !close {
                    return Err(format!(
                        "{what} derivative by element {e} of input {k}: {got:e}, differences give {want:e} (± {error:e}), allowed {allowed:e}"
                    ));
                }
            }
            if 3 * unsettled > self.inputs[k].len() {
                return Err(format!("{what} derivative: differences settle at few of the {} elements of input {k}", self.inputs[k].len()));
            }
        }
        Ok(())
    }
    fn first(&self) -> Result<(), String> {
        let gradients = self.gradients(&self.inputs).map_err(|e| format!("backward: {e}"))?;
        self.compare("first", &gradients, &|x| self.value(x), tolerances(self.entry.through).0)
    }
    fn second(&self) -> Result<(), String> {
        let text = |e: Error| format!("second backward: {e}");
        let x = self.tensors(&self.inputs, true);
        let slope = self.slope(&x).map_err(text)?;
        let gradients: Vec<HostArray> = match slope.filter(Tensor::is_tracked) {
            None => self.inputs.iter().map(zeros).collect(),
            Some(s) => {
                let grads = s.backward().map_err(text)?;
                x.iter().zip(&self.inputs).map(|(x, a)| grads.get(x).map_or_else(|| Ok(zeros(a)), download)).collect::<Result<_, _>>().map_err(text)?
            }
        };
        let along = |inputs: &[HostArray]| -> Result<f64, Error> {
            let g = self.gradients(inputs)?;
            Ok((0..g.len())
                .filter(|&k| self.differentiable(k))
                .map(|k| {
                    let u = self.direction(k);
                    (0..u.len()).map(|e| g[k].float(e) * u.float(e)).sum::<f64>()
                })
                .sum())
        };
        self.compare("second", &gradients, &along, tolerances(self.entry.through).1)
    }
    /// `<v, Ju> = <J'v, u>`, where Ju is the gradient of `<J'v, u>` by v.
    fn adjoint(&self) -> Result<(), String> {
        let text = |e: Error| format!("adjoint: {e}");
        let x = self.tensors(&self.inputs, true);
        let (ys, vs): (Vec<Tensor>, Vec<HostArray>) = self.outputs(&x).map_err(text)?.into_iter().filter(|(y, _)| y.is_tracked()).unzip();
        let vt: Vec<Tensor> = vs.iter().map(|v| upload(v, self.device).tracked()).collect();
        let pairs: Vec<(&Tensor, &Tensor)> = ys.iter().zip(&vt).collect();
        let grads = backward_many(&pairs, true).map_err(text)?;
        let (mut pulled, mut inner) = (0.0, None::<Tensor>);
        for (k, t) in x.iter().enumerate() {
            let Some(g) = grads.get(t) else { continue };
            let u = self.direction(k);
            let host = download(g).map_err(text)?;
            pulled += (0..u.len()).map(|e| host.float(e) * u.float(e)).sum::<f64>();
            let term = (g * &upload(&u, self.device)).sum(..);
            inner = Some(match inner {
                None => term,
                Some(s) => s + term,
            });
        }
        let Some(inner) = inner.filter(Tensor::is_tracked) else {
            return if pulled == 0.0 { Ok(()) } else { Err("adjoint: the gradient does not depend on its cotangent".into()) };
        };
        let forward = inner.backward().map_err(text)?;
        let (mut pushed, mut size) = (0.0, 0.0);
        for (v, t) in vs.iter().zip(&vt) {
            let Some(ju) = forward.get(t) else { continue };
            let ju = download(ju).map_err(text)?;
            for e in 0..v.len() {
                pushed += v.float(e) * ju.float(e);
                size += (v.float(e) * ju.float(e)).abs();
            }
        }
        // NaN is a failure, so this is not `>`.
        if (pulled - pushed).abs() <= tolerances(self.entry.through).2 * size.max(1.0) {
            Ok(())
        } else {
            Err(format!("adjoint: <J'v, u> = {pulled:e}, <v, Ju> = {pushed:e}"))
        }
    }
}
fn zeros(a: &HostArray) -> HostArray {
    HostArray::floats(a.shape, DType::F64, vec![0.0; a.len()])
}

/// Checks the gradients of one sample on a device.
///
/// # Errors
/// The first derivative that is wrong, in words.
pub fn check(device: Device, entry: &Entry, seed: u64) -> Result<(), String> {
    device.scoped(|| {
        let random = Random::new(seed);
        let inputs = entry.inputs.iter().enumerate().map(|(k, i)| i.draw(DType::F64, &mut random.part(k as u64))).collect();
        let mut sample = DrawnSample { entry, device, inputs, random, layout: "dense" };
        sample.first()?;
        if entry.order >= 2 {
            sample.second()?;
            sample.adjoint()?;
        }
        let dense = sample.gradients(&sample.inputs).map_err(|e| format!("backward: {e}"))?;
        for layout in LAYOUTS.into_iter().filter(|l| *l != "dense") {
            sample.layout = layout;
            let other = sample.gradients(&sample.inputs).map_err(|e| format!("backward of {layout} inputs: {e}"))?;
            for (k, (a, b)) in dense.iter().zip(&other).enumerate() {
                let size = (0..a.len()).map(|e| a.float(e).abs()).fold(1.0, f64::max);
                let apart = (0..a.len()).any(|e| (a.float(e) - b.float(e)).abs() > tolerances(entry.through).2 * size);
                if apart {
                    return Err(format!("the gradient by input {k} is another if the inputs are {layout}"));
                }
            }
        }
        Ok(())
    })
}

/// Checks the gradients of one sample in a dtype against those that the reference gives, within [`THROUGH_F32`] of the
/// largest. For devices without f64, where differences tell too little.
///
/// # Errors
/// The kind and words of an error, or the first element that is wrong.
pub fn against_reference(device: Device, entry: &Entry, dtype: DType, seed: u64) -> Result<(), (&'static str, String)> {
    let on = |device: Device| {
        device.scoped(|| {
            let random = Random::new(seed);
            let inputs: Vec<HostArray> = entry.inputs.iter().enumerate().map(|(k, i)| i.draw(dtype, &mut random.part(k as u64))).collect();
            let sample = DrawnSample { entry, device, inputs, random, layout: "dense" };
            sample.gradients(&sample.inputs).map_err(|e| (e.kind().word(), e.to_string()))
        })
    };
    let (got, want) = (on(device)?, on(Device::reference())?);
    let (relative, absolute) = THROUGH_F32;
    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
        let largest = (0..w.len()).map(|e| w.float(e).abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
        let same = |e: &usize| {
            let (g, w) = (g.float(*e), w.float(*e));
            g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= absolute + relative * largest
        };
        if let Some(e) = (0..w.len()).find(|e| !same(e)) {
            return Err(("value", format!("derivative by element {e} of input {k}: got {:e}, the reference gives {:e}", g.float(e), w.float(e))));
        }
    }
    Ok(())
}
