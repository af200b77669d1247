//! Elastic weight consolidation: what a model learned before holds the weights that mattered for it.
use adamant_core::{Error, ErrorKind, Grads, Result, Tensor, grad::no_grad};
use adamant_nn::Param;

/// A penalty on leaving weights that an earlier task needs (Kirkpatrick et al. 2017, equation 3): λ/2 Σ F (θ - θ*)², where θ* are the
/// weights after that task and F, the diagonal of the Fisher information, is the mean square of the gradients of its log-likelihood.
///
/// After the first task, [`Ewc::add`] the gradients of single examples and [`Ewc::consolidate`]; while the next one is learned, add
/// [`Ewc::penalty`] to its loss. Further tasks: consolidate again, and the information adds up (Schwarz et al. 2018, with γ = 1).
///
/// ```
/// # use adamant_core::{Grads, Tensor};
/// # use adamant_nn::Param;
/// # use adamant_optim::Ewc;
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::from_vec(vec![1.0f32, 1.0], [2]))?;
/// let mut before = Ewc::new(&[weight.clone()]);
/// for gradient in [[2.0f32, 0.0], [4.0, 0.0]] {
///     let mut grads = Grads::default();
///     grads.set(&weight.cell(), Tensor::from_vec(gradient.to_vec(), [2]));
///     before.add(&grads)?;
/// }
/// before.consolidate()?;
/// weight.set(&Tensor::from_vec(vec![3.0f32, 9.0], [2]))?;
/// // The mean square is 10 for the first weight and 0 for the second, which is free.
/// assert_eq!(before.penalty(0.5)?.item::<f32>()?, 0.25 * 10.0 * 4.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct Ewc {
    parameters: Vec<Param>,
    /// sums of squares since the last consolidation
    squares: Vec<Option<Tensor>>,
    examples: u64,
    /// the information and the weights that it was found at
    anchors: Vec<Option<(Tensor, Tensor)>>,
}
impl Ewc {
    /// Of these parameters, of which nothing is known yet.
    pub fn new(parameters: &[Param]) -> Ewc {
        let none = || vec![None; parameters.len()];
        Ewc { parameters: parameters.to_vec(), squares: none(), examples: 0, anchors: vec![None; parameters.len()] }
    }
    /// Takes in the gradients of one example's log-likelihood (those of its loss have the same squares).
    ///
    /// # Errors
    /// No gradient of one of the parameters, or one that carries an error.
    #[track_caller]
    pub fn add(&mut self, grads: &Grads) -> Result<()> {
        if !self.parameters.iter().any(|p| grads.of(&p.cell()).is_some()) {
            return Err(Error::new("ewc", ErrorKind::Argument(format!("none of the {} gradients is of one of its parameters", grads.len())))
                .hint("is it over the parameters of the model that the loss is of?"));
        }
        let mut fresh = self.squares.clone();
        no_grad(|| {
            for (p, sum) in self.parameters.iter().zip(&mut fresh) {
                let Some(g) = grads.of(&p.cell()) else { continue };
                let square = g * g;
                let next = match sum.take() {
                    Some(sum) => sum + square,
                    None => square,
                };
                // Computed now: the graphs of all examples would stay in memory.
                next.materialize()?;
                *sum = Some(next);
            }
            Ok(())
        })?;
        self.squares = fresh;
        self.examples += 1;
        Ok(())
    }
    /// The task is learned: its information counts from now on, and the present weights are what is held.
    ///
    /// # Errors
    /// Nothing was added, or a weight carries an error; then nothing has changed.
    #[track_caller]
    pub fn consolidate(&mut self) -> Result<()> {
        if self.examples == 0 {
            return Err(Error::new("ewc", ErrorKind::Argument("there are no gradients to consolidate".into())).hint("`add` those of single examples first"));
        }
        let anchors = self.parameters.iter().zip(&self.squares).zip(&self.anchors).map(|((p, sum), old)| {
            let mean = sum.as_ref().map(|sum| sum / self.examples as f64);
            let information = match (mean, old) {
                (Some(mean), Some((known, _))) => Some(mean + known),
                (mean, old) => mean.or_else(|| old.as_ref().map(|(known, _)| known.clone())),
            };
            let Some(information) = information else { return Ok(None) };
            let weight = p.detached().detach();
            information.materialize()?;
            weight.materialize()?;
            Ok(Some((information, weight)))
        });
        self.anchors = no_grad(|| anchors.collect::<Result<Vec<_>>>())?;
        (self.squares, self.examples) = (vec![None; self.parameters.len()], 0);
        Ok(())
    }
    /// λ/2 Σ F (θ - θ*)², a 0-d tensor through which gradients flow to the parameters; 0 of what was not consolidated.
    ///
    /// # Errors
    /// A λ that is negative or no number; no parameter was consolidated.
    #[track_caller]
    pub fn penalty(&self, lambda: f64) -> Result<Tensor> {
        if !(lambda.is_finite() && lambda >= 0.0) {
            return Err(Error::new("ewc", ErrorKind::Argument(format!("lambda is {lambda}, it must be a number from 0 on"))));
        }
        let terms = self.parameters.iter().zip(&self.anchors).filter_map(|(p, anchor)| {
            let (information, weight) = anchor.as_ref()?;
            let away = p.get() - weight;
            Some((information * &away * &away).sum(..))
        });
        match terms.reduce(|a, b| a + b) {
            Some(sum) => (sum * (lambda / 2.0)).ok(),
            None => Err(Error::new("ewc", ErrorKind::Argument("nothing was consolidated yet".into())).hint("call `consolidate` after the first task")),
        }
    }
}
