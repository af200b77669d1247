//! Gradients that travel with fewer bytes, by three methods, with error feedback.
//!
//! ```text
//! own sum + error -> what is sent (fewer bytes) -> over ranks -> a sum for all
//!              \-- less what was sent -> error of the next step
//! ```
//!
//! - `bf16`: elements are rounded, blocks are exchanged, added in f32 and rounded once more: half the bytes.
//! - `powersgd` (Vogels et al. 2019): of a matrix M with m rows and n columns travel P = M Q and Q = Mᵀ P of a few columns; P is made
//!   orthonormal in between, and Q stays for the next step. Vectors travel as they are.
//! - `topk` (Lin et al. 2018): of each parameter the largest elements travel, with their places.
//!
//! What a rank has left over is added to its next gradient (Karimireddy et al. 2019). In a checkpoint lies the sum over ranks, so that a
//! run goes on with any number of them. The bits depend on the number of ranks, other than without compression.
//!
//! Must not know: where gradients come from, what becomes of them.
use super::shared::{collective, halved};
use adamant_core::{
    Cell, DType, Device, Error, ErrorKind, Result as Computed, Tensor,
    op::{CollectiveKind, Group, RankUse, ReduceOp},
};
use adamant_nn::Param;
use std::sync::{Mutex, PoisonError};

/// How gradients travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GradientCompression {
    /// in 16 bits
    Bf16,
    /// as two matrices of so many columns
    PowerSgd {
        /// the columns
        rank: usize,
    },
    /// the largest alone
    TopK {
        /// their share of all elements, above 0 and at most 1
        share: f64,
    },
}
/// Gradients that travel with fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompressionPlan {
    /// how
    pub kind: GradientCompression,
    /// is what was not sent added to the next gradient?
    pub feedback: bool,
}
impl CompressionPlan {
    /// A plan with error feedback.
    pub fn new(kind: GradientCompression) -> CompressionPlan {
        CompressionPlan { kind, feedback: true }
    }
}
/// What is kept of a parameter between steps.
struct KeptOfParameter {
    path: String,
    /// what was not sent yet
    error: Option<Cell>,
    /// the matrix Q, of one that travels as two matrices
    factor: Option<Cell>,
    /// as a matrix
    rows: usize,
    elements: usize,
}
pub(super) struct CompressedGradients {
    plan: CompressionPlan,
    group: Group,
    kept: Vec<KeptOfParameter>,
    /// what all ranks together have not sent, until the leader's snapshot is taken
    collected: Mutex<Vec<(String, Tensor)>>,
}
/// Numbers around 0 that all ranks draw alike.
fn drawn(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((mixed ^ (mixed >> 27)) >> 40) as f32 / (1u64 << 24) as f32) - 0.5
    };
    (0..n).map(|_| next()).collect()
}
impl CompressedGradients {
    /// # Errors
    /// No memory.
    pub fn new(plan: CompressionPlan, group: &Group, parameters: &[(String, Param)], (wide, device): (DType, Device)) -> Computed<CompressedGradients> {
        let one = |(k, (path, p)): (usize, &(String, Param))| {
            let shape = p.meta().shape;
            let (elements, rows) = (shape.elements(), shape.first().copied().unwrap_or(1));
            let columns = elements / rows.max(1);
            let cell = |value: Tensor| -> Computed<Cell> {
                value.materialize()?;
                Cell::new(&value, false)
            };
            let factor = match plan.kind {
                GradientCompression::PowerSgd { rank } if shape.rank() >= 2 && rank * (rows + columns) < elements => {
                    Some(cell(Tensor::from_vec_on(drawn(columns * rank, k as u64), [columns, rank], device).cast(wide))?)
                }
                _ => None,
            };
            let loses = factor.is_some() || !matches!(plan.kind, GradientCompression::PowerSgd { .. });
            let error = (plan.feedback && loses).then(|| cell(Tensor::full_on([elements], 0, wide, device))).transpose()?;
            Ok(KeptOfParameter { path: path.clone(), error, factor, rows, elements })
        };
        let kept = parameters.iter().enumerate().map(one).collect::<Computed<_>>()?;
        Ok(CompressedGradients { plan, group: group.clone(), kept, collected: Mutex::default() })
    }
    /// The sums over all ranks of what each has of these parameters, flat.
    pub fn reduce(&self, own: &[(usize, Tensor)]) -> Computed<Vec<Tensor>> {
        let with_errors: Vec<Tensor> = own.iter().map(|(k, g)| self.kept[*k].error.as_ref().map_or_else(|| g.clone(), |error| g + error.detached())).collect();
        let members: Vec<(&KeptOfParameter, &Tensor)> = own.iter().map(|(k, _)| &self.kept[*k]).zip(&with_errors).collect();
        match self.plan.kind {
            GradientCompression::Bf16 => self.rounded(&members),
            GradientCompression::PowerSgd { .. } => self.factored(&members),
            GradientCompression::TopK { share } => self.largest(&members, share),
        }
    }
    fn all_reduce(&self, x: &Tensor) -> Tensor {
        collective(CollectiveKind::AllReduce { reduce: ReduceOp::Sum, parts: 0, used: RankUse::Alike }, &self.group, x)
    }
    fn all_gather(&self, x: &Tensor) -> Tensor {
        collective(CollectiveKind::AllGather { used: RankUse::Alike }, &self.group, x)
    }
    /// What was not sent stays for the next step.
    fn keep(&self, of: &KeptOfParameter, meant: &Tensor, sent: &Tensor) -> Computed<()> {
        of.error.as_ref().map_or(Ok(()), |error| error.set(&(meant - sent)))
    }
    fn rounded(&self, members: &[(&KeptOfParameter, &Tensor)]) -> Computed<Vec<Tensor>> {
        let ranks = self.group.size.max(1) as usize;
        let flat = Tensor::cat(&members.iter().map(|(_, g)| *g).collect::<Vec<_>>(), 0);
        let meta = flat.try_meta()?;
        let n = meta.shape.elements();
        let block = n.div_ceil(ranks);
        let rest = Tensor::full_on([ranks * block - n], 0, meta.dtype, meta.device);
        let sent = Tensor::cat(&[&flat, &rest], 0).cast(DType::BF16);
        let came = collective(CollectiveKind::AllToAll, &self.group, &sent).reshape([ranks, block]).cast(meta.dtype);
        let of_ranks: Vec<Tensor> = (0..ranks).map(|rank| came.select(0, rank)).collect();
        let sum = halved(&of_ranks).ok_or_else(|| Error::new("step", ErrorKind::Internal("a group without ranks".into())))?;
        let all = self.all_gather(&sum.cast(DType::BF16)).cast(meta.dtype);
        let mut sums = Vec::new();
        let mut from = 0;
        for (of, meant) in members {
            self.keep(of, meant, &sent.narrow(0, from, of.elements).cast(meta.dtype))?;
            sums.push(all.narrow(0, from, of.elements));
            from += of.elements;
        }
        Ok(sums)
    }
    fn largest(&self, members: &[(&KeptOfParameter, &Tensor)], share: f64) -> Computed<Vec<Tensor>> {
        let ranks = self.group.size.max(1) as usize;
        let counts: Vec<usize> = members.iter().map(|(of, _)| ((of.elements as f64 * share).ceil() as usize).clamp(1.min(of.elements), of.elements)).collect();
        let (mut values, mut places) = (Vec::new(), Vec::new());
        for ((of, meant), count) in members.iter().zip(&counts) {
            let (_, at) = meant.abs().topk(*count, 0, true);
            let value = meant.gather(0, &at);
            self.keep(of, meant, &meant.zeros_like().scatter(0, &at, &value))?;
            values.push(value);
            places.push(at.cast(DType::I32));
        }
        let joined = |parts: &[Tensor]| self.all_gather(&Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0));
        let (values, places) = (joined(&values), joined(&places).cast(DType::I64));
        let all: usize = counts.iter().sum();
        let mut sums = Vec::new();
        let mut from = 0;
        for ((_, meant), count) in members.iter().zip(&counts) {
            // Rank by rank, so that the order of additions is that of ranks.
            let mut sum = meant.zeros_like();
            for rank in 0..ranks {
                let of = |x: &Tensor| x.narrow(0, rank * all + from, *count);
                sum = sum.scatter_add(0, &of(&places), &of(&values));
            }
            sums.push(sum);
            from += count;
        }
        Ok(sums)
    }
    fn factored(&self, members: &[(&KeptOfParameter, &Tensor)]) -> Computed<Vec<Tensor>> {
        let matrix = |of: &KeptOfParameter, g: &Tensor| g.reshape([of.rows, of.elements / of.rows.max(1)]);
        // Of those that are factored P, and the others as they are.
        let sent: Vec<Tensor> =
            members.iter().map(|(of, g)| of.factor.as_ref().map_or_else(|| (*g).clone(), |q| matrix(of, g).matmul(&q.detached()).reshape([-1]))).collect();
        let first = self.summed(&sent)?;
        let left: Vec<Option<Tensor>> = members
            .iter()
            .zip(&first)
            .map(|((of, _), p)| {
                of.factor.as_ref().map(|q| {
                    let columns = q.meta().shape.get(1).copied().unwrap_or(1);
                    orthonormal(&p.reshape([of.rows, columns]), columns)
                })
            })
            .collect();
        let own: Vec<Option<Tensor>> = members.iter().zip(&left).map(|((of, g), p)| p.as_ref().map(|p| matrix(of, g).mt().matmul(p))).collect();
        let second = self.summed(&own.iter().flatten().map(|q| q.reshape([-1])).collect::<Vec<_>>())?;
        let mut second = second.into_iter();
        let mut sums = Vec::new();
        for (((of, meant), plain), (p, own)) in members.iter().zip(first).zip(left.iter().zip(&own)) {
            let (Some(p), Some(own), Some(factor)) = (p, own, &of.factor) else {
                sums.push(plain);
                continue;
            };
            let q = second.next().ok_or_else(|| Error::new("step", ErrorKind::Internal("a factor is gone".into())))?.reshape(factor.meta().shape);
            self.keep(of, meant, &p.matmul(&own.mt()).reshape([-1]))?;
            factor.set(&q)?;
            sums.push(p.matmul(&q.mt()).reshape([-1]));
        }
        Ok(sums)
    }
    /// Flat tensors, each added over ranks, in one exchange.
    fn summed(&self, parts: &[Tensor]) -> Computed<Vec<Tensor>> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let all = self.all_reduce(&Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0));
        let mut from = 0;
        let cut = |part: &Tensor| {
            let n = part.try_meta()?.shape.elements();
            from += n;
            Ok(all.narrow(0, from - n, n))
        };
        parts.iter().map(cut).collect()
    }
    /// What a checkpoint keeps: the errors of all ranks together, and the factors. All ranks call it.
    ///
    /// # Errors
    /// A lost peer, no memory.
    pub fn collect(&self) -> Computed<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        for of in &self.kept {
            if let Some(error) = &of.error {
                let sum = self.all_reduce(&error.detached());
                sum.materialize()?;
                all.push((format!("{}.error", of.path), sum));
            }
            all.extend(of.factor.as_ref().map(|factor| (format!("{}.factor", of.path), factor.detached())));
        }
        Ok(all)
    }
    /// Keeps that for a snapshot.
    pub fn keep_collected(&self, state: Vec<(String, Tensor)>) {
        *self.collected.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
    /// What was kept, and the end of keeping.
    pub fn take_collected(&self) -> Vec<(String, Tensor)> {
        std::mem::take(&mut *self.collected.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Goes on from what [`CompressedGradients::collect`] gave: rank 0 has what all had. What is not there begins anew.
    ///
    /// # Errors
    /// A tensor of another shape.
    pub fn restore(&self, state: &[(String, Tensor)]) -> Computed<()> {
        let found = |name: String| state.iter().find(|(known, _)| *known == name).map(|(_, t)| t);
        for of in &self.kept {
            if let Some(error) = &of.error {
                let known = found(format!("{}.error", of.path)).filter(|_| self.group.rank == 0);
                error.set(&known.map_or_else(|| error.detached().zeros_like(), |known| known.to(error.meta().device).cast(error.meta().dtype)))?;
            }
            if let (Some(factor), Some(known)) = (&of.factor, found(format!("{}.factor", of.path))) {
                factor.set(&known.to(factor.meta().device).cast(factor.meta().dtype))?;
            }
        }
        Ok(())
    }
}
/// Columns of length 1 that stand upright on each other, by Gram and Schmidt's method, each from those behind it at once.
fn orthonormal(p: &Tensor, columns: usize) -> Tensor {
    let mut columns: Vec<Tensor> = (0..columns).map(|k| p.select(1, k)).collect();
    for k in 0..columns.len() {
        let length = (&columns[k] * &columns[k]).sum(..).sqrt();
        let unit = &columns[k] / (length + 1e-12);
        for later in &mut columns[k + 1..] {
            *later = &*later - &unit * (&unit * &*later).sum(..);
        }
        columns[k] = unit;
    }
    Tensor::stack(&columns.iter().collect::<Vec<_>>(), 1)
}
