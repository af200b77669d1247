//! A program that depends on the facade alone can derive `Module`.
use adamant::{
    Device, Result, Tensor,
    nn::{Linear, Module, Walk},
};

#[derive(Module)]
struct Net {
    fc: Linear,
}
impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.fc.forward(x)
    }
}
#[test]
fn the_derive_does_not_find_its_crate_through_the_facade() -> Result<()> {
    Device::reference().scoped(|| {
        let net = Net { fc: Linear::new(2, 3)? };
        assert_eq!(net.named_parameters().iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["fc.weight", "fc.bias"]);
        assert_eq!(net.forward(&Tensor::ones([1, 2]))?.dims()?, [1, 3]);
        Ok(())
    })
}
