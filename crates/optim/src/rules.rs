//! The formulas. Each follows PyTorch's single-tensor implementation in the order of its roundings.
use crate::{Slots, UpdateRule};
use adamant_core::{Result, Tensor};

pub mod adagrad;
pub mod adam;
pub mod large;
pub mod matrix;
pub mod sgd;
pub mod sparse;

/// Defines a rule: a struct of hyper-parameters with their defaults, a constructor from the learning rate (or the
/// default one) and one setter for each.
macro_rules! rule {
    ($(#[$doc:meta])* $name:ident { lr: $lr:literal, $($(#[$field_doc:meta])* $field:ident: $ty:ty = $default:expr),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            /// the learning rate
            pub lr: f64,
            $($(#[$field_doc])* pub $field: $ty,)*
        }
        impl $name {
            /// With a learning rate and PyTorch's other defaults.
            pub fn new(lr: f64) -> $name {
                $name { lr, $($field: $default,)* }
            }
            $($(#[$field_doc])* #[must_use] pub fn $field(self, $field: $ty) -> $name { $name { $field, ..self } })*
            /// Every number of the rule: a new field is among them without being asked.
            fn numbers(&mut self) -> Vec<(String, &mut f64)> {
                let mut all = vec![("lr".to_string(), &mut self.lr)];
                $($crate::rules::RuleNumbers::lend(&mut self.$field, stringify!($field), &mut all);)*
                all
            }
        }
        impl Default for $name {
            fn default() -> $name {
                $name::new($lr)
            }
        }
    };
}
pub(crate) use rule;

/// A field of a rule, by the numbers in it. What a rule may hold stands here, so that no field can be left out of what is saved.
pub(crate) trait RuleNumbers {
    fn lend<'a>(&'a mut self, name: &str, to: &mut Vec<(String, &'a mut f64)>);
}
impl RuleNumbers for f64 {
    fn lend<'a>(&'a mut self, name: &str, to: &mut Vec<(String, &'a mut f64)>) {
        to.push((name.to_string(), self));
    }
}
impl RuleNumbers for (f64, f64) {
    fn lend<'a>(&'a mut self, name: &str, to: &mut Vec<(String, &'a mut f64)>) {
        to.push((format!("{name}.0"), &mut self.0));
        to.push((format!("{name}.1"), &mut self.1));
    }
}
impl RuleNumbers for (Option<f64>, f64) {
    fn lend<'a>(&'a mut self, name: &str, to: &mut Vec<(String, &'a mut f64)>) {
        to.extend(self.0.as_mut().map(|v| (format!("{name}.0"), v)));
        to.push((format!("{name}.1"), &mut self.1));
    }
}
impl RuleNumbers for (f64, f64, f64) {
    fn lend<'a>(&'a mut self, name: &str, to: &mut Vec<(String, &'a mut f64)>) {
        to.push((format!("{name}.0"), &mut self.0));
        to.push((format!("{name}.1"), &mut self.1));
        to.push((format!("{name}.2"), &mut self.2));
    }
}
/// What a rule is, rather than how much of it: nothing changes it in training.
macro_rules! no_numbers {
    ($($ty:ty)*) => { $(
        impl RuleNumbers for $ty {
            fn lend<'a>(&'a mut self, _: &str, _: &mut Vec<(String, &'a mut f64)>) {}
        }
    )* };
}
no_numbers! { bool usize matrix::AdjustLr }

/// The parts of `UpdateRule` that are the same for every rule here.
macro_rules! common {
    ($name:literal) => {
        const NUMBERS_ARE_ARGUMENTS: bool = true;
        fn name(&self) -> &'static str {
            $name
        }
        fn lr(&self) -> f64 {
            self.lr
        }
        fn set_lr(&mut self, lr: f64) {
            self.lr = lr;
        }
        fn maximize(&self) -> bool {
            self.maximize
        }
        fn hyperparameters(&mut self) -> Vec<(String, &mut f64)> {
            self.numbers()
        }
    };
}
pub(crate) use common;

/// a + w (b - a), from the end that is nearer, as `torch.lerp`.
#[track_caller]
pub(crate) fn lerp(a: &Tensor, b: &Tensor, w: f64) -> Tensor {
    if w.abs() < 0.5 { a + (b - a) * w } else { b - (b - a) * (1.0 - w) }
}
/// As [`lerp`] with a weight that a device knows, by its two parts: is `a` nearer, and the weight from there.
#[track_caller]
pub(crate) fn lerp_from((near, w): (&Tensor, &Tensor), a: &Tensor, b: &Tensor) -> Tensor {
    near.where_(a, b) + (b - a) * w
}
/// The parts of a weight for [`lerp_from`]: b - (b - a) (1 - w) is b + (b - a) (w - 1), to the bit.
#[track_caller]
pub(crate) fn weight(w: &Tensor) -> (Tensor, Tensor) {
    let near = w.abs().lt(0.5);
    (near.clone(), near.where_(w, w - 1.0))
}
/// A number of a rule.
pub(crate) trait RuleNumber<R>: Fn(&R) -> f64 + Copy + Send + Sync + 'static {}
impl<R, F: Fn(&R) -> f64 + Copy + Send + Sync + 'static> RuleNumber<R> for F {}
/// A running mean that goes toward `b` by a number of the rule, from the end that is nearer.
#[track_caller]
pub(crate) fn toward<R: UpdateRule>(a: &Tensor, b: &Tensor, name: &'static str, w: impl RuleNumber<R>, slots: &mut Slots<'_, R>) -> Result<Tensor> {
    if slots.decide(move |r| w(r).abs() < 0.5) { Ok(a + (b - a) * slots.rate(name, w)?) } else { Ok(b - (b - a) * slots.rate(name, move |r| 1.0 - w(r))?) }
}
/// The gradient with the decay of the weights added, if there is one.
#[track_caller]
pub(crate) fn decayed<R: UpdateRule>(g: &Tensor, p: &Tensor, weight_decay: impl RuleNumber<R>, slots: &mut Slots<'_, R>) -> Result<Tensor> {
    if slots.decide(move |r| weight_decay(r) == 0.0) { Ok(g.clone()) } else { Ok(g + p * slots.rate("weight_decay", weight_decay)?) }
}
/// Is it finite and at least 0?
pub(crate) fn not_negative(name: &str, v: f64) -> std::result::Result<(), String> {
    if v.is_finite() && v >= 0.0 { Ok(()) } else { Err(format!("{name} is {v}, it must be a number from 0 on")) }
}
/// Is it in [0, 1)?
pub(crate) fn below_one(name: &str, v: f64) -> std::result::Result<(), String> {
    if (0.0..1.0).contains(&v) { Ok(()) } else { Err(format!("{name} is {v}, it must be in [0, 1)")) }
}
