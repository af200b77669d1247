//! A mixture of experts: a gate sends each token to some of many networks, which the ranks of a group share out.
//!
//! ```text
//! tokens -> gate -> the best k experts of each, with weights
//!   slots [experts, places, features] --all-to-all--> own experts' tokens of all ranks -> experts --all-to-all--> slots -> weighted sums
//! ```
//!
//! Places are given out in one order over the tokens of all ranks (first choices first, then rank, then token), by counts that the ranks exchange. So with a
//! capacity the same tokens are dropped as in one process that has all rows.
//!
//! Sources: Shazeer et al. 2017, Lepikhin et al. 2020 (GShard), Fedus et al. 2022 (the loss of balance).
use crate::{
    Mesh, MeshAxis,
    collective::{all_gather, all_max, all_reduce, all_to_all},
};
use adamant_core::{
    DType, Error, ErrorKind, Result, Scalar, Tensor,
    grad::no_grad,
    is_capturing,
    op::{Group, RankUse, rank_parts},
};
use adamant_nn::{Linear, Module, Param, Site, Visit, Walk, Walker};
use std::cell::RefCell;

/// Options of [`MixtureOfExperts`].
#[derive(Clone, Copy, Debug)]
pub struct MixtureOptions {
    /// experts of each token
    pub top_k: usize,
    /// An expert takes this times as many tokens as it would if all got as many, and drops what is beyond: that share of the token's output is 0. `None`: none
    /// is dropped.
    pub capacity_factor: Option<f64>,
    /// do a token's weights sum up to 1? Else they are its probabilities.
    pub normalize: bool,
}
impl Default for MixtureOptions {
    fn default() -> MixtureOptions {
        MixtureOptions { top_k: 2, capacity_factor: None, normalize: true }
    }
}

/// Several networks, of which each token goes through the `top_k` that a linear gate rates best: `[.., features]` to the same shape.
///
/// Along a mesh's `expert` axis each rank has some of the experts, and other rows, as many as the others; along `data` other rows, along `tensor` the
/// same. Experts see `[rows, features]`, and each row alone: among them are rows of zeros that nobody asked for. The order of tokens in a batch is that
/// of the ranks along `data` and `expert`.
///
/// Names are those of the whole: `gate.weight`, `experts.3.fc.weight`.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_nn::{Gelu, Linear, Module, Sequential};
/// use adamant_parallel::{Mesh, MixtureOfExperts, MixtureOptions, with_balance_loss};
/// # adamant_core::Device::reference().make_current();
/// let expert = |_| Ok(Box::new(Sequential::new().add(Linear::new(4, 8)?).add(Gelu::new()).add(Linear::new(8, 4)?)) as Box<dyn Module>);
/// let layer = MixtureOfExperts::new(4, 8, &Mesh::alone(), MixtureOptions::default(), expert)?;
/// let (y, balance) = with_balance_loss(|| layer.forward(&Tensor::ones([3, 5, 4])))?;
/// assert_eq!(y.dims()?, [3, 5, 4]);
/// // One expert for all tokens is the worst there is.
/// assert!(balance.unwrap().item::<f32>()? >= 1.0);
/// # Ok::<(), adamant_core::Error>(())
/// ```
pub struct MixtureOfExperts {
    site: Site,
    /// `[experts, features]`, without a bias
    pub gate: Linear,
    /// this rank's, with their numbers among all
    experts: Vec<(usize, Box<dyn Module>)>,
    count: usize,
    features: usize,
    options: MixtureOptions,
    /// who shares out the experts
    group: Group,
    /// who has other rows
    replicas: Group,
}
/// Where the tokens of a batch go.
struct Dispatch {
    /// of each choice of each token the slot, choices first; one beyond the last: none
    slots: Tensor,
    /// of each choice of each token what its expert's output counts
    weights: Tensor,
    /// places of an expert for this rank's tokens
    places: usize,
}
#[track_caller]
fn refuse(text: String) -> Error {
    Error::new("mixture_of_experts", ErrorKind::Argument(text))
}
impl MixtureOfExperts {
    /// Of so many experts, which `make` makes by their numbers: on every rank all of them, in order, so that one seed makes one model; those of other
    /// ranks are let go of.
    ///
    /// # Errors
    /// Experts that the ranks do not divide; more choices than experts, none; a capacity factor that is no number above 0; those of `make`.
    #[track_caller]
    pub fn new(
        features: usize,
        count: usize,
        mesh: &Mesh,
        options: MixtureOptions,
        make: impl Fn(usize) -> Result<Box<dyn Module>>,
    ) -> Result<MixtureOfExperts> {
        let group = mesh.group(MeshAxis::Expert).clone();
        let (rank, size) = (group.rank as usize, group.size as usize);
        if options.top_k == 0 || options.top_k > count {
            return Err(refuse(format!("each token goes to {} of {count} experts", options.top_k)));
        }
        if !count.is_multiple_of(size) {
            return Err(refuse(format!("{count} experts, of which {size} ranks cannot each have as many")));
        }
        if let Some(factor) = options.capacity_factor.filter(|factor| !(factor.is_finite() && *factor > 0.0)) {
            return Err(refuse(format!("the capacity factor is {factor}: it is above 0, or `None` where no token is dropped")));
        }
        let gate = Linear::no_bias(features, count)?;
        let own = rank_parts(count, rank, size);
        let mut experts = Vec::new();
        for number in 0..count {
            let expert = make(number)?;
            if own.contains(&number) {
                experts.push((number, expert));
            }
        }
        let (site, replicas) = (Site::with_hooks("MixtureOfExperts"), mesh.replicas().clone());
        Ok(MixtureOfExperts { site, gate, experts, count, features, options, group, replicas })
    }
    /// Tokens that an expert takes of so many of all ranks; `None`: all.
    fn capacity(&self, tokens: usize) -> Option<usize> {
        let even = (tokens * self.options.top_k) as f64 / self.count as f64;
        self.options.capacity_factor.map(|factor| ((factor * even).ceil() as usize).max(1))
    }
    /// Who goes where, and what it would be worth that all experts got as many.
    #[track_caller]
    fn dispatch(&self, tokens: &Tensor, n: usize) -> Result<Dispatch> {
        let (k, experts, ranks) = (self.options.top_k, self.count, self.replicas.size as usize);
        let logits = self.gate.forward(tokens)?;
        let logits = if logits.dtype()? == DType::F64 { logits } else { logits.cast(DType::F32) };
        let probabilities = logits.softmax(-1);
        let chosen = probabilities.detach().topk(k, -1, true).1;
        let weights = probabilities.gather(-1, &chosen);
        let weights = if self.options.normalize { &weights / weights.sum_keepdim(-1) } else { weights };
        // First choices first: [k, n] one behind another, and which expert each is.
        let chosen = chosen.transpose(0, 1).reshape([k * n]);
        let hits = chosen.one_hot(experts).cast(DType::I64);
        let own = (hits.cumsum(0) * &hits).sum(-1) - 1i64;
        let counts = hits.reshape([k, n, experts]).sum(1);
        let all = all_gather(&counts.unsqueeze(0), 0, &self.replicas, RankUse::Alike);
        self.note_balance(&probabilities, &all, n * ranks)?;
        let (capacity, places) = match self.capacity(n * ranks) {
            Some(capacity) => (Some(capacity), capacity.min(n)),
            // As many as the fullest needs, on any rank: a look at the numbers, which a captured function cannot have.
            None if is_capturing() => (None, n),
            None => {
                let most = no_grad(|| all_max(&counts.sum(0).max().reshape([1]), &self.replicas, RankUse::Alike)).to_vec::<i64>()?;
                (None, most.first().map_or(n, |most| most.unsigned_abs() as usize))
            }
        };
        let places = places.max(1);
        let at = &chosen.cast(DType::I64) * places as i64 + &own;
        let slots = match capacity {
            None => at,
            Some(capacity) => {
                let kept = (&own + self.before(&all, &chosen, n)?).lt(capacity as i64);
                kept.where_(&at, Scalar::Int((experts * places) as i64))
            }
        };
        Ok(Dispatch { slots, weights: weights.transpose(0, 1).reshape([k * n, 1]), places })
    }
    /// How many places of its expert are taken before the first of this rank's choices of each kind, less those that are its own and counted already:
    /// `[k * n]`, by `[ranks, k, experts]` counts.
    #[track_caller]
    fn before(&self, all: &Tensor, chosen: &Tensor, n: usize) -> Result<Tensor> {
        let (k, rank) = (self.options.top_k, self.replicas.rank as usize);
        // Earlier choices of all other ranks, and the same choice of the ranks before.
        let others = all.sum(0) - all.select(0, rank);
        let earlier = others.cumsum(0) - &others;
        let same = all.narrow(0, 0, rank).sum(0);
        let offset = earlier + same;
        let spread = offset.unsqueeze(1).expand([k, n, self.count]).reshape([k * n, self.count]);
        spread.gather(-1, &chosen.cast(DType::I64).unsqueeze(-1)).squeeze(-1).ok()
    }
    #[track_caller]
    fn note_balance(&self, probabilities: &Tensor, counts: &Tensor, tokens: usize) -> Result<()> {
        let is_asked = BALANCE.with(|asked| !asked.borrow().is_empty());
        if !is_asked {
            return Ok(());
        }
        let shares = counts.sum([0, 1]).cast(probabilities.dtype()?) / (tokens * self.options.top_k).max(1) as f64;
        let mean = all_reduce(&probabilities.sum(0), &self.replicas, RankUse::Apart) / tokens.max(1) as f64;
        let loss = (shares * mean).sum(..) * self.count as f64;
        BALANCE.with(|asked| {
            if let Some(sum) = asked.borrow_mut().last_mut() {
                *sum = Some(match sum.take() {
                    Some(sum) => sum + loss,
                    None => loss,
                });
            }
        });
        Ok(())
    }
    #[track_caller]
    fn run(&self, x: &Tensor) -> Result<Tensor> {
        let shape = x.shape()?;
        if shape.last() != Some(&self.features) || !x.dtype()?.is_float() {
            return Err(Error::new("mixture_of_experts", ErrorKind::Shape { shape, expected: format!("floats, [.., {}]", self.features) }));
        }
        let (k, n) = (self.options.top_k, shape.elements() / self.features.max(1));
        if n == 0 {
            return Err(Error::new("mixture_of_experts", ErrorKind::Shape { shape, expected: "one token at least".into() }));
        }
        let tokens = x.reshape([n, self.features]);
        let Dispatch { slots, weights, places } = self.dispatch(&tokens, n)?;
        let (all, own, ranks, features) = (self.count * places, self.experts.len(), self.group.size as usize, self.features);
        let repeated = tokens.unsqueeze(0).expand([k, n, features]).reshape([k * n, features]);
        // What is dropped goes to a place beyond the last.
        let given = Tensor::zeros_on([all + 1, features], x.dtype()?, x.device()?).index_add(0, &slots, &repeated, 1.0).narrow(0, 0, all);
        let given = all_to_all(&given.reshape([self.count, places, features]), &self.group).reshape([ranks, own, places, features]);
        let mut made = Vec::with_capacity(own);
        for (k, (_, expert)) in self.experts.iter().enumerate() {
            let y = expert.forward(&given.select(1, k).reshape([ranks * places, features]))?;
            if *y.shape()? != [ranks * places, features] {
                return Err(Error::new(
                    "mixture_of_experts",
                    ErrorKind::Shape { shape: y.shape()?, expected: format!("an expert's output of its input's shape, [rows, {features}]") },
                ));
            }
            made.push(y.reshape([ranks, places, features]));
        }
        let made = Tensor::stack(&made, 1).reshape([self.count, places, features]);
        let made = all_to_all(&made, &self.group).reshape([all, features]);
        let nothing = Tensor::zeros_on([1, features], made.dtype()?, made.device()?);
        let taken = Tensor::cat(&[made, nothing], 0).index_select(0, &slots);
        let taken = &taken * weights.cast(taken.dtype()?);
        taken.reshape([k, n, features]).sum(0).reshape(shape).ok()
    }
}
impl Walk for MixtureOfExperts {
    fn walk(&self, walker: &mut Walker<'_>) {
        walker.module(KIND);
        self.site.walk(walker);
        walker.child("gate", &self.gate);
        for (number, expert) in &self.experts {
            walker.child(&format!("{EXPERTS}.{number}"), expert);
        }
    }
}
impl Module for MixtureOfExperts {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.site.begin(&[x])?;
        let y = self.run(call.input(0, x))?;
        call.end(y)
    }
}
const KIND: &str = "MixtureOfExperts";
const EXPERTS: &str = "experts";

/// The parameters of experts in a model, which ranks along a mesh's `expert` axis do not have in common.
pub fn expert_parameters(model: &(impl Walk + ?Sized)) -> Vec<Param> {
    #[derive(Default)]
    struct OfExperts(Vec<String>, Vec<Param>);
    impl Visit for OfExperts {
        fn module(&mut self, path: &str, kind: &'static str) {
            if kind == KIND {
                self.0.push(if path.is_empty() { format!("{EXPERTS}.") } else { format!("{path}.{EXPERTS}.") });
            }
        }
        fn param(&mut self, path: &str, param: &Param) {
            if self.0.iter().any(|prefix| path.starts_with(prefix)) {
                self.1.push(param.clone());
            }
        }
    }
    let mut found = OfExperts::default();
    model.visit(&mut found);
    found.1
}

thread_local! {
    /// The losses of balance that are asked for, from the outermost.
    static BALANCE: RefCell<Vec<Option<Tensor>>> = const { RefCell::new(Vec::new()) };
}
/// Runs `f`, and gives the sum of the losses of balance of all mixtures that this thread runs in it: experts · Σ share of the choices · mean probability, 1 where
/// all experts get as many. It is that of all ranks' tokens, the same on each of them: to be added to each rank's loss, before that is multiplied by
/// the rank's share of the rows.
///
/// # Errors
/// Those of `f`.
#[track_caller]
pub fn with_balance_loss<R>(f: impl FnOnce() -> Result<R>) -> Result<(R, Option<Tensor>)> {
    struct AskedBalance;
    impl Drop for AskedBalance {
        fn drop(&mut self) {
            BALANCE.with(|asked| asked.borrow_mut().pop());
        }
    }
    BALANCE.with(|asked| asked.borrow_mut().push(None));
    let asked = AskedBalance;
    let made = f()?;
    let loss = BALANCE.with(|asked| asked.borrow_mut().last_mut().and_then(Option::take));
    drop(asked);
    Ok((made, loss))
}
