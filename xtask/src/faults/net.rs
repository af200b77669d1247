//! A net with ops of its user: a composite, and a function that the host runs.
use crate::captured::SortingTask;
use adamant::{
    Composite, ErrorKind, HostArray, Result, Tensor, TensorType, Types,
    nn::{Linear, Module, Sequential, Site},
};
use adamant_core::composite::{Compound, Cotangents, HostFunction, RuleArgs, Saves};

/// `x * sigmoid(x)`, as a user writes it.
#[derive(Clone, Copy, Debug)]
struct UserSwish;
impl Composite for UserSwish {
    fn name(&self) -> &'static str {
        "user.swish"
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
}
impl Compound for UserSwish {
    fn body(&self, x: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![&x[0] * x[0].sigmoid()])
    }
}
/// The elements backwards, on the host.
#[derive(Clone, Copy, Debug)]
struct Backwards;
impl HostFunction for Backwards {
    fn name(&self) -> &'static str {
        "user.backwards"
    }
    fn infer(&self, inputs: &[TensorType]) -> std::result::Result<Types, ErrorKind> {
        Ok(vec![inputs[0]].into())
    }
    fn run(&self, inputs: &[HostArray]) -> std::result::Result<Vec<HostArray>, ErrorKind> {
        let (x, n) = (&inputs[0], inputs[0].shape.elements());
        Ok(vec![HostArray::floats(x.shape, x.dtype, (0..n).map(|k| x.float(n - 1 - k)))])
    }
    fn saves(&self) -> Option<Saves> {
        Some(Saves::default())
    }
    fn rule(&self, args: &RuleArgs<'_>) -> Result<Cotangents> {
        Ok(args.cotangents[0].iter().map(|g| Tensor::on_host(Backwards, &[g]).into_iter().next()).collect())
    }
}
#[derive(Module)]
struct UserLayer {
    site: Site,
}
impl Module for UserLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = self.site.enter();
        let y = Tensor::composite1(UserSwish, &[x]);
        Tensor::on_host(Backwards, &[&y]).into_iter().next().unwrap_or(y).ok()
    }
}
fn users() -> Result<Sequential> {
    Ok(Sequential::new().add(Linear::new(6, 8)?).add(UserLayer { site: Site::new("UserLayer") }).add(Linear::new(8, 3)?))
}
pub(super) const USERS: SortingTask = SortingTask { name: "net with a user's ops", input: &[6], classes: 3, symbols: false, sequence: false, net: users };
