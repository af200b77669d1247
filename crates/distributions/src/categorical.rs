//! Classes: one drawn, as a number or as a one in its place, and the counts of many drawn.
use crate::{
    Constraint, Family, Parameters, PointFunction, Statistic,
    count::no_count,
    distribution::{TogetherChecked, of_parameters, outer, supported},
    host,
    parameters::{joined, located, read},
};
use adamant_core::{DType, Error, ErrorKind, Result, Rng, Shape, Tensor};

/// Normalised log-probabilities of the classes, -inf where one has none.
#[derive(Clone, Debug)]
struct LogWeights {
    log: Tensor,
}
/// `k * log`, 0 where k is 0: a class without probability that is not drawn takes no part, and has no gradient.
fn times(k: &Tensor, log: &Tensor) -> Tensor {
    let none = k.eq(0.0);
    none.where_(0.0, &(k * none.where_(0.0, log)))
}
impl LogWeights {
    fn probs(&self) -> Tensor {
        self.log.exp()
    }
    fn entropy(&self) -> Tensor {
        times(&self.probs(), &self.log).sum(-1).neg()
    }
    fn kl(&self, other: &LogWeights) -> Tensor {
        let p = self.probs();
        (times(&p, &self.log) - times(&p, &other.log)).sum(-1)
    }
    /// Class numbers, i64: where a uniform number falls among the sums of the probabilities. A class of none is never met.
    fn drawn(&self, p: &Parameters, shape: Shape, rng: &Rng) -> Tensor {
        let sums = self.probs().cumsum(-1);
        let total = sums.slice_signed(-1, Some(-1), None, 1);
        let u = rng.uniform(shape, p.wide()).to(p.device()).unsqueeze(-1) * total;
        sums.le(&u).cast(DType::I64).sum(-1)
    }
}
/// A struct over classes with its two constructors.
macro_rules! of_classes {
    ($(#[$doc:meta])* $name:ident($($more:ident: $ty:ty),*)) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            parameters: Parameters,
            classes: LogWeights,
            $($more: $ty,)*
        }
        impl $name {
            /// By weights of the classes along the last axis, which are divided by their sum.
            ///
            /// # Errors
            /// As of [`Parameters::new`]: a weight is finite and at least 0, and not all of a row are 0.
            #[track_caller]
            pub fn new($($more: $ty,)* probs: &Tensor) -> Result<$name> {
                located(stringify!($name), || {
                let parameters = Parameters::new(stringify!($name), &[("probs", probs, Constraint::NonNegative)], 1)?;
                let [p] = parameters.all();
                some(stringify!($name), "probs", &p.sum(-1))?;
                let p = p / p.sum_keepdim(-1);
                let none = p.eq(0.0);
                let classes = LogWeights { log: none.where_(f64::NEG_INFINITY, &none.where_(1.0, &p).log()) };
                $name { parameters, classes, $($more,)* }.checked()
                })
            }
            /// By logarithms of the weights. -inf stands for a class that is never drawn.
            ///
            /// # Errors
            /// As of [`Parameters::new`]: no logit is NaN, and not all of a row are -inf.
            #[track_caller]
            pub fn from_logits($($more: $ty,)* logits: &Tensor) -> Result<$name> {
                located(stringify!($name), || {
                let parameters = Parameters::new(stringify!($name), &[("logits", logits, Constraint::Real)], 1)?;
                let [l] = parameters.all();
                let log = l.log_softmax(-1);
                some(stringify!($name), "logits", &log.exp().sum(-1))?;
                $name { parameters, classes: LogWeights { log }, $($more,)* }.checked()
                })
            }
            /// The probabilities, `[batch.., classes]`.
            #[track_caller]
            pub fn probs(&self) -> Tensor {
                self.classes.probs().cast(self.parameters.dtype())
            }
            /// The normalised log-probabilities, `[batch.., classes]`.
            #[track_caller]
            pub fn logits(&self) -> Tensor {
                self.classes.log.cast(self.parameters.dtype())
            }
        }
    };
}
/// Rows that have any weight.
fn some(name: &'static str, parameter: &str, sums: &Tensor) -> Result<()> {
    match read(sums)?.and_then(|s| s.iter().position(|x| x.is_nan() || *x <= 0.0)) {
        None => Ok(()),
        Some(k) => Err(Error::new(name, ErrorKind::Argument(format!("{parameter} must give some class a weight, and row {k} gives none")))),
    }
}

of_classes! {
    /// One of K classes, as its number (i64): parameters `[batch.., K]`, values `[sample.., batch..]`. A number outside is an
    /// error when the log-probability is read. There are no mean and variance.
    ///
    /// Source: `torch.distributions.Categorical`.
    ///
    /// ```
    /// # use adamant_core::{Device, Rng, tensor};
    /// use adamant_distributions::{Categorical, Distribution};
    /// # Device::reference().make_current();
    /// let p = Categorical::new(&tensor![1.0, 0.0, 3.0])?;
    /// assert_eq!(p.log_prob(&tensor![0, 1, 2]).exp().to_vec::<f32>()?, [0.25, 0.0, 0.75]);
    /// assert_eq!(p.mode().item::<i64>()?, 2);
    /// assert!(p.sample(&[100], &Rng::new(1)?).to_vec::<i64>()?.iter().all(|k| *k != 1));
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Categorical()
}
impl TogetherChecked for Categorical {
    fn checked(self) -> Result<Categorical> {
        Ok(Categorical { parameters: self.parameters.with_event(Shape::SCALAR), ..self })
    }
}
impl Family for Categorical {
    of_parameters!(parameters);
    fn of_classes(&self) -> bool {
        true
    }
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        Ok(self.classes.drawn(&self.parameters, shape, rng))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        (function == PointFunction::LogProb).then(|| {
            let classes = self.classes.log.shape().map_or(1, |s| s.last().copied().unwrap_or(1));
            let shape = x.shape().unwrap_or(Shape::SCALAR);
            self.classes.log.expand(joined(&[&shape, &[classes]])).gather(-1, &x.unsqueeze(-1)).squeeze(-1)
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        match statistic {
            Statistic::Mode => Some(self.classes.log.argmax(-1)),
            Statistic::Entropy => Some(self.classes.entropy()),
            Statistic::Mean | Statistic::Variance => None,
        }
    }
    fn kl(&self, other: &Categorical) -> Option<Tensor> {
        Some(self.classes.kl(&other.classes))
    }
}

of_classes! {
    /// One of K classes, as a vector of zeros with a one in its place: values `[sample.., batch.., K]` of the parameters' dtype.
    ///
    /// Source: `torch.distributions.OneHotCategorical`.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, OneHotCategorical};
    /// # Device::reference().make_current();
    /// assert_eq!(OneHotCategorical::new(&tensor![1.0, 3.0])?.mode().to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    OneHotCategorical()
}
impl TogetherChecked for OneHotCategorical {}
impl OneHotCategorical {
    fn hot(&self, classes: &Tensor) -> Tensor {
        classes.one_hot(self.parameters.event().elements()).cast(self.parameters.wide())
    }
}
impl Family for OneHotCategorical {
    of_parameters!(parameters);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        Ok(self.hot(&self.classes.drawn(&self.parameters, outer(&shape, &self.parameters.event()), rng)))
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        (function == PointFunction::LogProb).then(|| {
            let hot = x.eq(1.0).cast(DType::I64).sum(-1).eq(1i64).logical_and(x.ne(0.0).cast(DType::I64).sum(-1).eq(1i64));
            hot.where_(&times(x, &self.classes.log).sum(-1), f64::NEG_INFINITY)
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let p = self.classes.probs();
        Some(match statistic {
            Statistic::Mean => p,
            Statistic::Variance => &p * (1.0 - &p),
            Statistic::Mode => self.hot(&self.classes.log.argmax(-1)),
            Statistic::Entropy => self.classes.entropy(),
        })
    }
    fn kl(&self, other: &OneHotCategorical) -> Option<Tensor> {
        Some(self.classes.kl(&other.classes))
    }
}

of_classes! {
    /// How often each of K classes is drawn in `total_count` draws: `n! / Π xₖ! Π pₖ^xₖ`, values `[sample.., batch.., K]`. Mode
    /// and entropy have no closed form.
    ///
    /// Source: `torch.distributions.Multinomial`; a sample is K binomial ones, of what is left.
    ///
    /// ```
    /// # use adamant_core::{Device, tensor};
    /// use adamant_distributions::{Distribution, Multinomial};
    /// # Device::reference().make_current();
    /// assert_eq!(Multinomial::new(8, &tensor![1.0, 3.0])?.mean().to_vec::<f32>()?, [2.0, 6.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Multinomial(total_count: usize)
}
impl TogetherChecked for Multinomial {}
impl Family for Multinomial {
    of_parameters!(parameters);
    fn draw(&self, shape: Shape, rng: &Rng) -> Result<Tensor> {
        let (p, n) = (&self.parameters, self.total_count as f64);
        host::drawn(shape, [&self.classes.probs()], p.event().elements(), (p.wide(), p.device()), rng, |[probs], words, out| {
            let mut left = n;
            for k in 0..out.len() {
                // What the classes from here on weigh: nothing of a difference is rounded away.
                let rest: f64 = probs[k..].iter().sum();
                out[k] = if rest > 0.0 { host::binomial(left, (probs[k] / rest).min(1.0), words) } else { 0.0 };
                left -= out[k];
            }
        })
    }
    fn function(&self, function: PointFunction, x: &Tensor) -> Option<Tensor> {
        let n = self.total_count as f64;
        (function == PointFunction::LogProb).then(|| {
            let each = supported(&no_count(x), x, &x.zeros_like(), |x| times(x, &self.classes.log) - (x + 1.0).lgamma());
            let all = (each.sum(-1).zeros_like() + (n + 1.0)).lgamma() + each.sum(-1);
            x.sum(-1).eq(n).where_(&all, f64::NEG_INFINITY)
        })
    }
    fn statistic(&self, statistic: Statistic) -> Option<Tensor> {
        let (p, n) = (self.classes.probs(), self.total_count as f64);
        match statistic {
            Statistic::Mean => Some(p * n),
            Statistic::Variance => Some(&p * (1.0 - &p) * n),
            Statistic::Mode | Statistic::Entropy => None,
        }
    }
}
