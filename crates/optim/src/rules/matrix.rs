//! For matrices: Muon.
use super::{common, not_negative, rule, toward};
use crate::{Slots, UpdateRule};
use adamant_core::{DType, Meta, Result, Tensor};

/// How the learning rate follows from a matrix's shape `[rows, columns]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdjustLr {
    /// times √max(1, rows / columns) (Jordan 2024)
    #[default]
    Original,
    /// times 0.2 √max(rows, columns): rates and decays that were tuned for AdamW serve (Liu et al. 2025)
    MatchRmsAdamw,
    /// times √(rows / columns) (Bernstein 2025)
    SpectralUnclamped,
    /// as it is
    Off,
}
impl AdjustLr {
    fn factor(self, rows: f64, columns: f64) -> f64 {
        match self {
            AdjustLr::Original => (rows / columns).max(1.0).sqrt(),
            AdjustLr::MatchRmsAdamw => 0.2 * rows.max(columns).sqrt(),
            AdjustLr::SpectralUnclamped => (rows / columns).sqrt(),
            AdjustLr::Off => 1.0,
        }
    }
}
rule! {
    /// Muon: momentum whose singular values are all brought near 1 by a Newton-Schulz iteration (Jordan 2024, as `torch.optim.Muon`).
    ///
    /// It is for the matrices of hidden layers, `[rows, columns]`; biases, norms and embeddings belong to another optimizer, such as
    /// [`AdamW`](crate::AdamW). A parameter that is no matrix is refused. As PyTorch's, the iteration rounds to bf16 whatever the
    /// parameter's dtype, here with sums in f32; [`Muon::bf16`] says not to round.
    ///
    /// ```
    /// # use adamant_nn::{Linear, Module, Walk};
    /// # use adamant_core::Tensor;
    /// # use adamant_optim::{AdamW, Muon, Optimizer, UpdateRule};
    /// # adamant_core::Device::reference().make_current();
    /// let model = Linear::new(4, 3)?;
    /// let (matrices, others): (Vec<_>, Vec<_>) = model.parameters().into_iter().partition(|p| p.meta().shape.rank() == 2);
    /// let (mut muon, mut adamw) = (Muon::new(0.02).over(matrices).ok()?, AdamW::new(3e-4).over(others).ok()?);
    /// let grads = model.forward(&Tensor::ones([2, 4]))?.square().sum(..).backward()?;
    /// muon.step(&grads)?;
    /// adamw.step(&grads)?;
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    Muon { lr: 1e-3,
        /// the weights shrink by this part of the learning rate
        weight_decay: f64 = 0.1,
        /// the part of the running mean of gradients that is kept
        momentum: f64 = 0.95,
        /// look ahead along the momentum
        nesterov: bool = true,
        /// coefficients of the iteration: `a x + (b A + c A²) x` with `A = x xᵀ`
        ns_coefficients: (f64, f64, f64) = (3.4445, -4.7750, 2.0315),
        /// the least norm that a matrix is divided by
        eps: f64 = 1e-7,
        /// iterations, below 100
        ns_steps: usize = 5,
        /// how the learning rate follows from the shape
        adjust_lr: AdjustLr = AdjustLr::Original,
        /// round to bf16 in the iteration
        bf16: bool = true,
        /// climb instead of descend
        maximize: bool = false,
    }
}
/// What of the rule shapes the formula, rather than being a number in it.
#[derive(Clone, Copy, PartialEq)]
struct MuonForm {
    steps: usize,
    bf16: bool,
    adjust: AdjustLr,
    coefficients: (f64, f64, f64),
    eps: f64,
}
impl Muon {
    fn form(&self) -> MuonForm {
        MuonForm { steps: self.ns_steps, bf16: self.bf16, adjust: self.adjust_lr, coefficients: self.ns_coefficients, eps: self.eps }
    }
}
impl MuonForm {
    fn rounded(self, x: Tensor) -> Tensor {
        if self.bf16 { x.cast(DType::BF16).cast(DType::F32) } else { x }
    }
    /// A matrix with the singular vectors of `x` whose singular values are about 1.
    #[track_caller]
    fn orthogonal(self, x: &Tensor, is_tall: bool) -> Tensor {
        let (a, b, c) = self.coefficients;
        let mut x = self.rounded(if is_tall { x.t() } else { x.clone() });
        // At most 1, whatever the singular values are.
        let norm = self.rounded((&x * &x).sum(..).sqrt());
        x = self.rounded(&x / norm.clamp_min(self.eps));
        for _ in 0..self.steps {
            let gram = self.rounded(x.matmul(x.t()));
            let update = self.rounded(&gram * b + gram.matmul(&gram) * c);
            x = self.rounded(&x * a + update.matmul(&x));
        }
        if is_tall { x.t() } else { x }
    }
}
impl UpdateRule for Muon {
    common!("Muon");
    fn set_momentum(&mut self, momentum: f64) {
        self.momentum = momentum;
    }
    fn check(&self) -> std::result::Result<(), String> {
        not_negative("lr", self.lr)?;
        not_negative("momentum", self.momentum)?;
        not_negative("weight_decay", self.weight_decay)?;
        not_negative("eps", self.eps)?;
        if self.ns_steps < 100 { Ok(()) } else { Err(format!("ns_steps is {}, it must be below 100", self.ns_steps)) }
    }
    fn check_parameter(&self, meta: &Meta) -> std::result::Result<(), String> {
        if meta.shape.rank() == 2 {
            Ok(())
        } else {
            Err(format!("it has shape {}, and only matrices have singular values; give it another optimizer", meta.shape))
        }
    }
    fn update(&self, p: &Tensor, g: &Tensor, slots: &mut Slots<'_, Self>) -> Result<Tensor> {
        let meta = p.try_meta()?;
        let (rows, columns) = (meta.shape[0], meta.shape[1]);
        let form = self.form();
        // Asked, so that a captured step with another form is captured anew.
        slots.decide(move |r| r.form() == form);
        let mean = toward(&slots.zeros("momentum_buffer")?, g, "rest", |r: &Self| 1.0 - r.momentum, slots)?;
        slots.set("momentum_buffer", &mean)?;
        let update = if slots.decide(|r| r.nesterov) { toward(g, &mean, "momentum", |r: &Self| r.momentum, slots)? } else { mean };
        let wide = if form.bf16 { DType::F32 } else { meta.dtype };
        let update = form.orthogonal(&update.cast(wide), rows > columns).cast(meta.dtype);
        let shrunk = p * slots.rate("shrink", |r| 1.0 - r.lr * r.weight_decay)?;
        // The rate is that of all matrices, the factor each one's own.
        let factor = form.adjust.factor(rows as f64, columns as f64);
        Ok(shrunk - update * (slots.rate("lr", |r| r.lr)? * factor))
    }
}
