//! All code that the hints of the wrong calls give. Written by `ADAMANT_BLESS=1`: that it is compiled is its test.
#![allow(unused, clippy::all)]
#[rustfmt::skip]
mod all {
    use adamant::{*, nn::{Param, Walk}, optim::{Sgd, UpdateRule}};
    fn hint0<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = (left.cast(DType::I64), right.cast(DType::I64)); Ok(()) }
    fn hint1<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = Device::auto()?; Ok(()) }
    fn hint2<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = Param::buffer(&x)?; Ok(()) }
    fn hint3<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = Sgd::default().over(model.parameters()); Ok(()) }
    fn hint4<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = Tensor::complex(&left, &left.zeros_like()); Ok(()) }
    fn hint5<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = Tensor::complex(&x, &x.zeros_like()); Ok(()) }
    fn hint6<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].cast(DType::Bool); Ok(()) }
    fn hint7<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].cast(DType::F32); Ok(()) }
    fn hint8<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].cast(DType::I64); Ok(()) }
    fn hint9<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].flatten(0, 1); Ok(()) }
    fn hint10<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].flatten(0, 2); Ok(()) }
    fn hint11<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].flatten(0, 3); Ok(()) }
    fn hint12<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = inputs[0].unsqueeze(0); Ok(()) }
    fn hint13<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.cast(DType::Bool); Ok(()) }
    fn hint14<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.cast(DType::F32); Ok(()) }
    fn hint15<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.cast(DType::F64); Ok(()) }
    fn hint16<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.cast(DType::I64); Ok(()) }
    fn hint17<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.movedim([-1], [1]); Ok(()) }
    fn hint18<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.mt(); Ok(()) }
    fn hint19<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.reshape([-1]); Ok(()) }
    fn hint20<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.unsqueeze(-1); Ok(()) }
    fn hint21<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = left.unsqueeze(0); Ok(()) }
    fn hint22<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.cast(DType::F32); Ok(()) }
    fn hint23<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.cast(DType::F64); Ok(()) }
    fn hint24<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.cast(DType::I64); Ok(()) }
    fn hint25<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.flatten(0, 1); Ok(()) }
    fn hint26<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.flatten(0, 2); Ok(()) }
    fn hint27<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.flatten(0, 4); Ok(()) }
    fn hint28<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.mt(); Ok(()) }
    fn hint29<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.ravel(); Ok(()) }
    fn hint30<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.reshape([2, 3, 4]); Ok(()) }
    fn hint31<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.reshape([4]); Ok(()) }
    fn hint32<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.t(); Ok(()) }
    fn hint33<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.to(left.device()?); Ok(()) }
    fn hint34<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.unsqueeze(-1); Ok(()) }
    fn hint35<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = right.unsqueeze(0); Ok(()) }
    fn hint36<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = std::env::current_dir(); Ok(()) }
    fn hint37<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.all(..); Ok(()) }
    fn hint38<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.backward_keep()?; Ok(()) }
    fn hint39<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.cast(DType::F32); Ok(()) }
    fn hint40<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.cast(DType::I64); Ok(()) }
    fn hint41<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.flatten(0, 1); Ok(()) }
    fn hint42<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.flatten(0, 2); Ok(()) }
    fn hint43<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.flatten(0, 3); Ok(()) }
    fn hint44<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.mean(..); Ok(()) }
    fn hint45<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.ravel(); Ok(()) }
    fn hint46<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.reshape([-1]); Ok(()) }
    fn hint47<M: Walk>(x: Tensor, left: Tensor, right: Tensor, inputs: &[Tensor], model: M) -> Result<()> { let _ = x.unsqueeze(0); Ok(()) }
}
