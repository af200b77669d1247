//! Random tensors by a dtype, by another tensor's shape, and by parameters that are tensors. Families with densities, moments
//! and gradients by their parameters are those of the crate `adamant-distributions`.
use super::{
    Tensor,
    compose::{compose, compose1, refuse},
};
use crate::{
    Attrs, Composite, Compound, DType, Error, ErrorKind, HostArray, Result, Rng, Shape, TensorType, Types,
    composite::{Cotangents, RuleArgs, Saves, StackedInput, of_stacks, wide::floats},
    shape::ToShape,
};

impl Tensor {
    /// Uniform in [0, 1), of a float dtype: f64 of 53 random bits, others of 24 (16-bit ones are rounded from f32, and may be 1).
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Rng, Tensor};
    /// # Device::reference().make_current();
    /// let u = Tensor::rand_dtype([1000], DType::F64, &Rng::new(1)?);
    /// assert!((u.mean(..).item::<f64>()? - 0.5).abs() < 0.05);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "rand")]
    #[track_caller]
    pub fn rand_dtype(shape: impl ToShape, dtype: DType, rng: &Rng) -> Tensor {
        rng.uniform(shape, dtype)
    }
    /// Standard normal, of a float dtype.
    ///
    /// ```
    /// # use adamant_core::{DType, Device, Rng, Tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(Tensor::randn_dtype([2, 3], DType::BF16, &Rng::new(1)?).dtype()?, DType::BF16);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    #[doc(alias = "randn")]
    #[track_caller]
    pub fn randn_dtype(shape: impl ToShape, dtype: DType, rng: &Rng) -> Tensor {
        if !dtype.is_float() {
            return Tensor::fail("randn_dtype", ErrorKind::Dtype(format!("normal numbers are floats, not {dtype}")));
        }
        rng.normal(shape, dtype)
    }
    /// [`Tensor::rand_dtype`] of this tensor's shape, dtype and device.
    ///
    /// # Errors
    /// In the tensor: no floats. Source: `torch.rand_like`.
    #[track_caller]
    #[must_use]
    pub fn rand_like(&self, rng: &Rng) -> Tensor {
        compose1("rand_like", self, |x| Ok(rng.uniform(x.meta().shape, floats(&x.meta())?.dtype).to(x.meta().device)))
    }
    /// [`Tensor::randn_dtype`] of this tensor's shape, dtype and device.
    ///
    /// # Errors
    /// In the tensor: no floats. Source: `torch.randn_like`.
    #[track_caller]
    #[must_use]
    pub fn randn_like(&self, rng: &Rng) -> Tensor {
        compose1("randn_like", self, |x| Ok(rng.normal(x.meta().shape, floats(&x.meta())?.dtype).to(x.meta().device)))
    }
    /// Uniform whole numbers in `low..high`, of this tensor's shape, dtype and device.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, Tensor};
    /// # Device::reference().make_current();
    /// let dice = Tensor::zeros([100]).randint_like(1, 7, &Rng::new(1)?);
    /// assert_eq!((dice.min().item::<f32>()?, dice.max().item::<f32>()?), (1.0, 6.0));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::randint`]. Source: `torch.randint_like`.
    #[track_caller]
    #[must_use]
    pub fn randint_like(&self, low: i64, high: i64, rng: &Rng) -> Tensor {
        compose1("randint_like", self, |x| Ok(Tensor::randint(low, high, x.meta().shape, rng).cast(x.meta().dtype).to(x.meta().device)))
    }
    /// 1 with the probability that this tensor has there, else 0; of its dtype. No gradient flows.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, tensor};
    /// # Device::reference().make_current();
    /// assert_eq!(tensor![0.0, 1.0].bernoulli(&Rng::new(1)?).to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no floats. Source: `torch.bernoulli`; `Bernoulli` of `adamant-distributions` has a density.
    #[track_caller]
    #[must_use]
    pub fn bernoulli(&self, rng: &Rng) -> Tensor {
        compose1("bernoulli", self, |p| {
            let dtype = floats(&p.meta())?.dtype;
            let p = p.detach().widened();
            Ok(rng.uniform(p.meta().shape, p.meta().dtype).to(p.meta().device).lt(&p).cast(dtype))
        })
    }
    /// `n` class numbers (i64) of each row of weights `[.., classes]`, in the order of the draw: `[.., n]`. Without `replacement` they
    /// are different; classes of weight 0 come when all others are used up.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, tensor};
    /// # Device::reference().make_current();
    /// let drawn = tensor![0.0, 3.0, 0.0, 1.0].multinomial(2, false, &Rng::new(1)?);
    /// let mut drawn = drawn.to_vec::<i64>()?;
    /// drawn.sort();
    /// assert_eq!(drawn, [1, 3]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no floats; no axis; without replacement more draws than classes.
    ///
    /// Source: `torch.multinomial`; without replacement by a race of exponentials (Efraimidis and Spirakis, 2006). `Multinomial` and
    /// `Categorical` of `adamant-distributions` have densities.
    #[track_caller]
    #[must_use]
    pub fn multinomial(&self, n: usize, replacement: bool, rng: &Rng) -> Tensor {
        compose1("multinomial", self, |weights| {
            floats(&weights.meta())?;
            let (p, shape) = (weights.detach().widened(), weights.meta().shape);
            let Some(&classes) = shape.last() else {
                return Err(ErrorKind::Shape { shape, expected: "weights along a last axis".into() }.into());
            };
            let draw = |shape: Shape| rng.uniform(shape, p.meta().dtype).to(p.meta().device);
            if replacement {
                let sums = p.cumsum(-1);
                let total = sums.narrow(-1, classes.saturating_sub(1), classes.min(1));
                let at = draw(shape.with(shape.rank() - 1, n)) * total;
                return Ok(sums.unsqueeze(-2).le(at.unsqueeze(-1)).cast(DType::I64).sum(-1).minimum(classes as i64 - 1));
            }
            if n > classes {
                return refuse(format!("{n} different ones of {classes} classes"));
            }
            // 1 - u is above 0: the arrival times are finite, and above 0 but for a chance of 2^-24.
            let times = (1.0 - draw(shape)).log().neg().maximum(f32::MIN_POSITIVE as f64);
            Ok((p / times).topk(n, -1, true).1)
        })
    }
    /// Counts of the Poisson distribution with the rates that this tensor has, of its dtype. No gradient flows.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, Tensor};
    /// # Device::reference().make_current();
    /// let counts = Tensor::full([2000], 4.0, adamant_core::DType::F32).poisson(&Rng::new(1)?);
    /// assert!((counts.mean(..).item::<f32>()? - 4.0).abs() < 0.2);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no floats; at the first read, a rate that is negative or not finite.
    ///
    /// Source: `torch.poisson`; by inversion of the distribution function, from the mode outward. `Poisson` of `adamant-distributions`
    /// has a density.
    #[track_caller]
    #[must_use]
    pub fn poisson(&self, rng: &Rng) -> Tensor {
        compose1("poisson", self, |rates| {
            let meta = rates.meta();
            floats(&meta)?;
            let bits = rng.bits(meta.shape.insert(meta.shape.rank(), 2)?).to(meta.device);
            let rates = rates.detach().widened();
            Ok(Tensor::composite1(PoissonCounts, &[&rates, &bits]).cast(meta.dtype))
        })
    }
    /// Normal numbers of these means and standard deviations, which broadcast and meet in one dtype. The gradients flow to both, as
    /// by `mean + std · ε` (PyTorch's are zero).
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, Tensor, tensor};
    /// # Device::reference().make_current();
    /// let x = Tensor::normal(&tensor![100.0, 0.0], &tensor![0.0], &Rng::new(1)?);
    /// assert_eq!(x.to_vec::<f32>()?, [100.0, 0.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// In the tensor: no floats; shapes that do not broadcast. Source: `torch.normal`.
    #[track_caller]
    #[must_use]
    pub fn normal(mean: &Tensor, std: &Tensor, rng: &Rng) -> Tensor {
        compose("normal", &[mean, std], || {
            let [mean, std] = crate::promotion::alike([mean, std])?;
            let (dtype, device) = (floats(&mean.meta())?.dtype, mean.meta().device);
            let shape = crate::op::broadcast(&mean.meta().shape, &std.meta().shape)?;
            Ok(mean + std * rng.normal(shape, dtype).to(device))
        })
    }
}

/// rates, two random words of each → counts
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PoissonCounts;
impl Composite for PoissonCounts {
    fn name(&self) -> &'static str {
        "adamant.poisson"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
    fn is_host(&self) -> bool {
        true
    }
    fn host(&self, inputs: &[HostArray]) -> Option<std::result::Result<Vec<HostArray>, ErrorKind>> {
        let (rates, words) = (&inputs[0], &inputs[1]);
        let one = |k: usize| {
            let u = (words.int(2 * k) as u32 >> 6) as f64 * 134_217_728.0 + (words.int(2 * k + 1) as u32 >> 5) as f64;
            count(rates.float(k), (u + 0.5) / 9_007_199_254_740_992.0)
        };
        Some((0..rates.len()).map(one).collect::<std::result::Result<Vec<f64>, ErrorKind>>().map(|all| vec![HostArray::floats(rates.shape, rates.dtype, all)]))
    }
}
/// The smallest count whose distribution function reaches u, 0 < u < 1.
fn count(rate: f64, u: f64) -> std::result::Result<f64, ErrorKind> {
    if !(rate >= 0.0 && rate.is_finite()) {
        return Err(ErrorKind::Domain(format!("a rate is at least 0 and finite, not {rate}")));
    }
    if rate == 0.0 {
        return Ok(0.0);
    }
    let mut k = rate.floor();
    let mut here = (k * rate.ln() - rate - libm::lgamma(k + 1.0)).exp();
    // P(X ≤ k), and how much of it u leaves: differences stay as accurate as the sum itself.
    let mut below = crate::special::igammac(k + 1.0, rate);
    while below >= u && k > 0.0 && below - here >= u {
        below -= here;
        here *= k / rate;
        k -= 1.0;
    }
    while below < u && here > 0.0 {
        k += 1.0;
        here *= rate / k;
        below += here;
    }
    Ok(k)
}
impl Compound for PoissonCounts {
    fn body(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::new(self.name(), ErrorKind::Internal("it is defined on the host".into())))
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves { inputs: 0, outputs: 0 })
    }
    fn rule(&self, _: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok(smallvec::smallvec![None, None])
    }
    fn stacked(&self, inputs: &[StackedInput], examples: usize) -> Option<Result<Vec<Tensor>>> {
        of_stacks(*self, inputs, examples)
    }
}
