//! A step as a function of values: an optimizer works on parameters and state that are lent to it, and has its own back afterwards.
use crate::Optimizer;
use adamant_core::{Error, ErrorKind, Result, Tensor, is_capturing, step};
use adamant_nn::Param;

/// What an optimizer made of what was lent to it.
#[derive(Clone, Debug)]
pub struct SwappedState<R> {
    /// what the function returned
    pub result: R,
    /// the parameters afterwards, in the optimizer's order
    pub parameters: Vec<Tensor>,
    /// the state afterwards, as [`Optimizer::state_dict`] gives it
    pub state: Vec<(String, Tensor)>,
}
/// Runs `f` on an optimizer whose parameters and state are those given, and gives what they became; the optimizer and the model have
/// their own back, also after an error (as `torch.optim.swap_in_optimizer_params_and_state`). Numbers such as the learning rate are the
/// optimizer's own, and changes of them in `f` are taken back too. No gradient flows through it.
///
/// ```
/// # use adamant_core::{Grads, Tensor};
/// # use adamant_nn::Param;
/// # use adamant_optim::{Optimizer, Sgd, UpdateRule, swap_in_optimizer_params_and_state};
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::zeros([1]))?;
/// let mut optimizer = Sgd::new(0.5).momentum(0.9).over([weight.clone()]).ok()?;
/// let mut grads = Grads::default();
/// grads.set(&weight.cell(), Tensor::ones([1]));
/// // What would a step from 10 be?
/// let lent = [Tensor::from_vec(vec![10.0f32], [1])];
/// let swapped = swap_in_optimizer_params_and_state(&mut optimizer, &lent, &[], |optimizer| optimizer.step(&grads))?;
/// assert_eq!(swapped.parameters[0].to_vec::<f32>()?, [9.5]);
/// assert_eq!((weight.detached().to_vec::<f32>()?, optimizer.state_dict().len()), (vec![0.0], 0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// Not one tensor for each parameter, or one of another shape or dtype; a state of another optimizer; those of `f`; a call in a
/// function that is being captured.
#[track_caller]
pub fn swap_in_optimizer_params_and_state<R>(
    optimizer: &mut dyn Optimizer,
    parameters: &[Tensor],
    state: &[(String, Tensor)],
    f: impl FnOnce(&mut dyn Optimizer) -> Result<R>,
) -> Result<SwappedState<R>> {
    let own: Vec<Param> = optimizer.parameters();
    if own.len() != parameters.len() {
        let text = format!("{} tensors cannot stand for {} parameters", parameters.len(), own.len());
        return Err(Error::new("swap_in_optimizer_params_and_state", ErrorKind::Argument(text)));
    }
    if is_capturing() {
        return Err(Error::new(
            "swap_in_optimizer_params_and_state",
            ErrorKind::Argument("an optimizer's state cannot be exchanged in a function that is being captured".into()),
        ));
    }
    let (weights, slots, numbers) = (own.iter().map(Param::detached).collect::<Vec<_>>(), optimizer.state_dict(), optimizer.hyperparameters());
    let set = |values: &[Tensor]| step(|| own.iter().zip(values).try_for_each(|(p, value)| p.set(value)));
    set(parameters)?;
    let done = optimizer.load_state_dict(state).and_then(|()| {
        let result = f(optimizer)?;
        Ok(SwappedState { result, parameters: own.iter().map(Param::detached).collect(), state: optimizer.state_dict() })
    });
    set(&weights)?;
    optimizer.load_state_dict(&slots)?;
    optimizer.set_hyperparameters(&numbers)?;
    done
}
