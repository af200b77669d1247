//! How many gradients 16 bits would lose.
use adamant_core::{DType, Grads, Tensor};
use adamant_nn::Param;

/// The share of the elements of the parameters' gradients that are not 0 and are 0 in `dtype`: one number of f32 on the device, which nobody
/// waits for. Gradients are looked at as they are: with the loss's scale in them, before [`GradScaler::unscale_`](crate::GradScaler::unscale_).
/// None where no parameter has a gradient.
///
/// A scale of the loss moves this share (Micikevicius et al., *Mixed Precision Training*, 2018, figure 3). What the walk back itself has rounded to
/// 0 on its way is not seen here: a 0 is not counted.
///
/// ```
/// use adamant_amp::underflow_share;
/// use adamant_core::{DType, Tensor};
/// use adamant_nn::Param;
/// # adamant_core::Device::reference().make_current();
/// let weight = Param::new(&Tensor::ones([4]))?;
/// let grads = (weight.get() * Tensor::from_vec(vec![1.0f32, 1e-6, 1e-9, 0.0], [4])).sum(..).backward()?;
/// let share = |dtype| underflow_share(&grads, &[weight.clone()], dtype).unwrap().item::<f32>();
/// assert_eq!((share(DType::F16)?, share(DType::BF16)?), (0.25, 0.0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub fn underflow_share(grads: &Grads, parameters: &[Param], dtype: DType) -> Option<Tensor> {
    let known: Vec<Tensor> = parameters.iter().filter_map(|p| Some(grads.of(&p.cell())?.detach())).collect();
    let elements: usize = known.iter().filter_map(|g| g.try_meta().ok()).map(|m| m.shape.elements()).sum();
    let lost = known.iter().map(|g| g.ne(0.0).logical_and(&g.cast(dtype).eq(0.0)).cast(DType::F32).sum(..));
    Some(lost.reduce(|sum, of| sum + of)? / elements.max(1) as f64)
}
